package local

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/records"
	"github.com/pawl-dev/pawl/storage"
)

// Claim takes the thread, if it still is as it was seen, and writes b with it in one Update. With b.Stop the thread is
// let go in that same Update (an edit, a cancelling), else it is running under this member. ErrMoved: it is not as it
// was seen; nothing was written.
func (h *Home) Claim(ctx context.Context, seen *Seen, run *core.Run, b Batch) error {
	h.run = run
	h.turn <- struct{}{}
	defer func() { <-h.turn }()
	facts, values, err := h.rows(&b)
	if err != nil {
		unnumber(values)
		return err
	}
	var first, number, epoch int64
	err = h.store.UpdateIn(ctx, func(ctx context.Context, tx storage.Tx) error {
		h.number, h.epoch = 0, 0
		if err := h.take(tx, seen); err != nil {
			return err
		}
		if b.late(tx.Now()) {
			return ErrMoved // an answered question came due between the look and the claim, by the database's clock
		}
		if err := h.pastRuns(tx, &b); err != nil {
			return err
		}
		at, held, err := put(tx, facts, h.number, h.epoch)
		if err != nil {
			return err
		}
		if !held {
			return ErrMoved
		}
		if b.Stop == nil {
			err = h.mark(tx, core.StatusRunning, run.N)
		}
		if err == nil {
			err = h.besides(ctx, tx, &b)
		}
		if err != nil {
			return err
		}
		first, number, epoch = at, h.number, h.epoch
		return nil
	})
	if unknown := (*storage.UnknownError)(nil); errors.As(err, &unknown) {
		if first, err = h.readBack(ctx, facts, &b, err); err == nil {
			number, epoch = h.number, h.epoch
		}
	}
	if err != nil {
		unnumber(values)
		return h.unclaimed(err)
	}
	settle(&b, facts, first)
	h.number, h.epoch = number, epoch
	return nil
}

// unclaimed notes that the home holds nothing: whatever is tried on it fails the same way.
func (h *Home) unclaimed(err error) error {
	h.mu.Lock()
	h.broken = err
	h.mu.Unlock()
	if own := (*doError)(nil); errors.As(err, &own) {
		return own.err
	}
	if errors.Is(err, ErrMoved) {
		return err
	}
	return fmt.Errorf("thread %q was not claimed: %w", h.Thread, err)
}

// late says whether it answers a question whose time is over.
func (b *Batch) late(now time.Time) bool {
	return slices.ContainsFunc(b.Questions, func(q *core.Question) bool {
		return q.State == core.QuestionAnswered && !q.Due.IsZero() && !now.Before(q.Due)
	})
}

// take gets the lease under the conditions of seen.
func (h *Home) take(tx storage.Tx, seen *Seen) error {
	info, err := h.store.Box.FindThread(tx, h.Tenant, h.Thread)
	if err != nil {
		return err
	}
	if (info == nil) != (seen.Info == nil) {
		return ErrMoved
	}
	if info == nil {
		n, _, err := tx.Seq(0, storage.AnyEpoch, 1)
		if err != nil {
			return err
		}
		h.number = n
	} else {
		h.number = info.N
		lease, _, err := tx.Lease(h.number, storage.Look, "")
		if err != nil {
			return err
		}
		if info.N != seen.Info.N || lease.Epoch != seen.Lease.Epoch || info.Status != seen.Info.Status || lease.Alive {
			return ErrMoved
		}
		// Who was taken for dead may have written once more: what follows would be numbered like it, and replace it.
		if info.Status == core.StatusRunning && lease.Seq != seen.Lease.Seq {
			return ErrMoved
		}
	}
	lease, ok, err := tx.Lease(h.number, storage.Take, h.store.Member)
	if err != nil {
		return err
	}
	if !ok {
		return ErrMoved
	}
	h.epoch = lease.Epoch
	return nil
}

// Forget deletes everything of a thread that nobody runs, if it still is as it was seen and do, asked first, agrees.
func (h *Home) Forget(ctx context.Context, seen *Seen, do func(ctx context.Context, tx storage.Tx) error) error {
	return h.store.UpdateIn(ctx, func(ctx context.Context, tx storage.Tx) error {
		if err := h.take(tx, seen); err != nil {
			return err
		}
		if do != nil {
			if err := do(ctx, tx); err != nil {
				return err
			}
		}
		rows, err := tx.List(records.Question, storage.Query{
			Index: "by_thread", Range: storage.Range{Prefix: []any{h.number}}, NoBody: true,
		})
		if err != nil {
			return err
		}
		for _, row := range rows {
			if _, err := tx.Delete(records.Question, storage.Range{Prefix: row.Key}); err != nil {
				return err
			}
		}
		for _, kind := range []string{records.Run, records.Ended, records.Step, records.Frame, records.Past} {
			if _, err := tx.Delete(kind, records.ByThread(h.number)); err != nil {
				return err
			}
		}
		for _, kind := range []string{records.Checkpoint, records.Nested, records.Value} {
			if _, err := tx.Delete(kind, records.Places(h.number)); err != nil {
				return err
			}
		}
		if _, err := tx.Delete(records.Thread, storage.Range{Prefix: []any{h.Tenant, h.Thread}}); err != nil {
			return err
		}
		_, _, err = tx.Lease(h.number, storage.Forget, "")
		return err
	})
}
