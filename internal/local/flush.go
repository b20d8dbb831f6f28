package local

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/records"
	"github.com/pawl-dev/pawl/storage"
)

// flush writes the queue and then b, in one Update. ErrMoved, a condition of b that did not hold, and an error of b.Do
// leave the queue to be written next time; any other failure breaks the home.
func (h *Home) flush(ctx context.Context, b Batch) error {
	if ctx.Value(withinKey{}) == h {
		return storage.ErrNested
	}
	h.turn <- struct{}{}
	defer func() { <-h.turn }()
	h.mu.Lock()
	if h.broken != nil {
		defer h.mu.Unlock()
		return h.broken
	}
	queued, since := h.queue, h.since
	h.queue, h.since = Batch{}, time.Time{}
	b.Checkpoints = append(queued.Checkpoints, b.Checkpoints...)
	b.Ended = append(queued.Ended, b.Ended...)
	b.Keep = append(queued.Keep, b.Keep...)
	relaxed := h.run != nil && h.run.Mode != core.Sync && !since.IsZero()
	h.mu.Unlock()
	if b.empty() {
		return nil
	}
	err := h.write(ctx, &b)
	h.mu.Lock()
	defer h.mu.Unlock()
	own := (*doError)(nil)
	switch {
	case errors.Is(err, ErrMoved), errors.As(err, &own):
		queued.Checkpoints = append(queued.Checkpoints, h.queue.Checkpoints...)
		queued.Ended = append(queued.Ended, h.queue.Ended...)
		queued.Keep = append(queued.Keep, h.queue.Keep...)
		if h.queue = queued; !since.IsZero() {
			h.since = since
		}
	case err != nil:
		h.broken = err
	default:
		if relaxed {
			h.store.Stats.window(time.Since(since))
		}
	}
	return err
}

// write is one Update of a thread that is held.
func (h *Home) write(ctx context.Context, b *Batch) error {
	facts, values, err := h.rows(b)
	if err != nil {
		unnumber(values)
		return err
	}
	var first int64
	err = h.store.UpdateIn(ctx, func(ctx context.Context, tx storage.Tx) error {
		at, held, err := put(tx, facts, h.number, h.epoch)
		if err != nil {
			return err
		}
		if !held {
			return ErrMoved
		}
		if err := h.besides(ctx, tx, b); err != nil {
			return err
		}
		first = at
		return nil
	})
	if unknown := (*storage.UnknownError)(nil); errors.As(err, &unknown) {
		first, err = h.readBack(ctx, facts, b, err)
	}
	if err != nil {
		unnumber(values)
		return err
	}
	settle(b, facts, first)
	return nil
}

// unnumber takes the numbers of values back that were not stored, so that they are stored with what comes next.
func unnumber(values []*core.Value) {
	for _, v := range values {
		v.ID = 0
	}
}

// besides writes what is no row of its own.
func (h *Home) besides(ctx context.Context, tx storage.Tx, b *Batch) error {
	for _, e := range b.Again {
		key := []any{h.number, e.Checkpoint, e.Result.Task.ID}
		if _, err := tx.Delete(records.Ended, storage.Range{Prefix: key}); err != nil {
			return err
		}
	}
	if len(b.Keep) > 0 {
		if err := sweep(tx, h.Tenant); err != nil {
			return err
		}
	}
	if b.Withdraw {
		if err := h.withdrawAll(tx); err != nil {
			return err
		}
	}
	for _, id := range b.Close {
		if err := h.withdraw(tx, id); err != nil {
			return err
		}
	}
	if b.Do != nil {
		if err := b.Do(ctx, tx); err != nil {
			return &doError{err}
		}
	}
	if b.Stop == nil {
		return nil
	}
	for i := range b.Stop.Withdraw {
		if err := h.withdraw(tx, b.Stop.Withdraw[i].ID); err != nil {
			return err
		}
	}
	if b.Stop.Status == core.StatusCancelled {
		if err := h.withdrawAll(tx); err != nil {
			return err
		}
	}
	return h.stop(tx, b.Stop)
}

func (h *Home) withdrawAll(tx storage.Tx) error {
	r := records.NewReader(h.store.Box, tx, &records.ThreadInfo{Tenant: h.Tenant, ID: h.Thread, N: h.number})
	open, err := r.Open()
	if err != nil {
		return err
	}
	for _, q := range open {
		if err := h.withdraw(tx, q.ID); err != nil {
			return err
		}
	}
	return nil
}

// withdraw closes a question that nobody waits for any more, as it stands now: an answer taken meanwhile stays.
func (h *Home) withdraw(tx storage.Tx, id string) error {
	row, ok, err := tx.Get(records.Question, id)
	if err != nil || !ok {
		return err
	}
	q, err := h.store.Box.ReadQuestion(row)
	if err != nil {
		return err
	}
	if q.State != core.QuestionOpen && q.State != core.QuestionSubmitted {
		return nil
	}
	q.State = core.QuestionWithdrawn
	if row, err = h.store.Box.QuestionRow(q); err != nil {
		return err
	}
	seq, ok, err := tx.Seq(h.number, h.epoch, 1)
	if err != nil {
		return err
	}
	if !ok {
		return ErrFenced
	}
	row.Fields[1], row.Fields[5] = h.number, seq
	_, err = tx.Put(records.Question, row, storage.AtRev(q.Rev))
	return err
}

// stop says in the thread's and the run's rows how the run stands, and lets the thread go.
func (h *Home) stop(tx storage.Tx, s *core.Stop) error {
	run := *h.run
	if run.Began = 0; run.Status == core.StatusRunning {
		run.Began = run.Seq
	} else if err := h.past(tx, h.run, &run); err != nil {
		return err
	}
	run.Status, run.Cause, run.Error, run.ErrorNode = s.Status, s.Cause, s.Error, s.ErrorNode
	seq, ok, err := tx.Seq(h.number, h.epoch, 1)
	if err != nil {
		return err
	}
	if !ok {
		return ErrFenced
	}
	run.Seq = seq
	row, err := h.store.Box.RunRow(h.number, &run)
	if err != nil {
		return err
	}
	if _, err := tx.Put(records.Run, row, storage.Always()); err != nil {
		return err
	}
	if err := h.mark(tx, s.Status, run.N); err != nil {
		return err
	}
	_, _, err = tx.Lease(h.number, storage.Drop, h.store.Member)
	s.Seq = seq
	return err
}

// past keeps what a run's row tells until next is written in its place.
func (h *Home) past(tx storage.Tx, old, next *core.Run) error {
	if old.Seq == 0 {
		return nil
	}
	rows, err := h.store.Box.PastRuns(h.number, old, next)
	for _, row := range rows {
		if err == nil {
			_, err = tx.Put(records.Past, row, storage.Always())
		}
	}
	return err
}

// pastRuns keeps what the rows of the runs tell that are written again. How one stops is kept with the stop.
func (h *Home) pastRuns(tx storage.Tx, b *Batch) error {
	for _, next := range b.Runs {
		if next.Seq == 0 || b.Stop != nil && next == h.run {
			continue
		}
		row, ok, err := tx.Get(records.Run, h.number, next.N)
		if err != nil || !ok {
			return err
		}
		old, err := h.store.Box.ReadRun(h.Thread, row)
		if err == nil {
			err = h.past(tx, old, next)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// mark writes the thread's own row.
func (h *Home) mark(tx storage.Tx, status core.Status, run int64) error {
	row, err := h.store.Box.ThreadRow(&records.ThreadInfo{
		Tenant: h.Tenant, ID: h.Thread, N: h.number, Graph: h.Graph, Status: status, Updated: tx.Now(), Run: run,
		Lineage: h.Lineage,
	})
	if err != nil {
		return err
	}
	_, err = tx.Put(records.Thread, row, storage.Always())
	return err
}

// readBack settles an Update of unknown outcome by looking for what it wrote: every row as it was written, under the
// lease that it took or kept. What another owner wrote at the same place, even in the same words, does not pass.
func (h *Home) readBack(ctx context.Context, facts []fact, b *Batch, unknown error) (first int64, err error) {
	err = h.store.View(context.WithoutCancel(ctx), func(tx storage.Tx) error {
		if b.Stop != nil {
			info, err := h.store.Box.FindThread(tx, h.Tenant, h.Thread)
			if err != nil || info == nil || info.Status != b.Stop.Status {
				return errors.Join(err, unknown)
			}
		} else if lease, _, err := tx.Lease(h.number, storage.Look, ""); err != nil || lease.Owner != h.store.Member || lease.Epoch != h.epoch {
			return errors.Join(err, unknown)
		}
		first = 0
		for i := range facts {
			f := &facts[i]
			if f.seq == nil {
				continue
			}
			if first == 0 {
				first = seqOf(f.kind, f.row) - f.more
			}
			if f.kind == records.Run && b.Stop != nil {
				continue // the stop wrote it once more
			}
			row, ok, err := tx.Get(f.kind, f.row.Key...)
			if err != nil {
				return err
			}
			if !ok || !sameRow(row, f.row) {
				return unknown
			}
		}
		if b.Do == nil || b.Stop != nil || first != 0 {
			return nil // Do was written with what was found
		}
		return b.proven(tx, unknown)
	})
	return first, err
}

// proven settles an Update that wrote nothing but what Do did.
func (b *Batch) proven(tx storage.Tx, unknown error) error {
	if b.Proof == nil {
		return unknown
	}
	if there, err := b.Proof(tx); err != nil || !there {
		return errors.Join(err, unknown)
	}
	return nil
}

func sameRow(a, b storage.Row) bool {
	return bytes.Equal(a.Body, b.Body) && slices.EqualFunc(a.Fields, b.Fields, func(x, y any) bool {
		if raw, ok := x.([]byte); ok {
			return bytes.Equal(raw, y.([]byte))
		}
		return x == y
	})
}

func seqOf(kind string, row storage.Row) int64 {
	at := map[string]int{
		records.Checkpoint: 1, records.Run: 1, records.Ended: 0, records.Step: 0, records.Question: 5, records.Nested: 2,
	}[kind]
	return row.Fields[at].(int64)
}

// Abandon lets the thread go after the engine's own failure: whatever was not written stays unwritten, and the thread
// is crashed until it is resumed. Where that cannot be written either, the store owes it.
func (h *Home) Abandon(ctx context.Context) error {
	h.mu.Lock()
	flight := h.flight
	if h.broken == nil {
		h.broken = ErrFenced
	}
	h.mu.Unlock()
	if flight != nil {
		<-flight
	}
	err := h.store.letGo(ctx, h.number, h.epoch)
	if err != nil {
		h.store.owe(h.number, h.epoch)
	}
	return err
}
