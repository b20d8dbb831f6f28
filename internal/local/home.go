package local

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/records"
	"github.com/pawl-dev/pawl/storage"
)

// Home is one thread, held by this process: the core.Host of its run.
type Home struct {
	Tenant  string
	Thread  string
	Graph   string
	Lineage string

	Upgrade core.Upgrader // of the graph
	Program core.Def      // the graph, under which what its children left is read; nil: it is not read

	store     *Store
	number    int64 // of the thread; 0 until the Update that makes it
	epoch     int64
	topology  *core.Topology
	run       *core.Run
	questions int // limit of open ones; 0: none

	turn chan struct{} // one write at a time; a channel, so that a virtual clock sees waiting as idle

	mu     sync.Mutex
	queue  Batch         // not yet written: checkpoints and ended tasks only
	since  time.Time     // when the oldest finished work in it was handed in; zero: it holds none
	flight chan struct{} // closed when the background write ends; nil: none
	broken error         // a write failed: nothing more is written
	open   int           // open questions
	stamp  time.Time
	cpN    int64
	valueN int64
	runN   int64
	ahead  time.Duration // of the database's clock
}

// NewHome is a home for a thread as it was seen. It holds nothing until Claim.
func NewHome(s *Store, seen *Seen, tenant, thread string, t *core.Topology, questions int) *Home {
	h := &Home{
		Tenant: tenant, Thread: thread, Graph: t.Graph, Lineage: thread, store: s, topology: t, questions: questions,
		turn: make(chan struct{}, 1), cpN: seen.checkpoints, valueN: seen.values, runN: seen.runs, open: len(seen.Open),
	}
	if seen.Info != nil {
		h.number, h.Lineage = seen.Info.N, seen.Info.Lineage
	}
	h.stamp, h.run, h.ahead = seen.stamp, seen.Run, seen.ahead
	if seen.Head != nil {
		h.stamp = later(h.stamp, StampOf(seen.Head.Checkpoint.ID))
	}
	return h
}

// Run is the attempt that the home serves.
func (h *Home) Run() *core.Run { return h.run }

// NewRun numbers an attempt.
func (h *Home) NewRun() int64 { h.runN++; return h.runN }

// Fresh numbers a checkpoint. Its time never falls below the one before.
func (h *Home) Fresh() (int64, string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.cpN++
	if now := h.Now(); now.After(h.stamp) {
		h.stamp = now
	}
	return h.cpN, checkpointID(h.stamp, h.cpN)
}

// Now is the database's clock, by which deadlines are judged, as far as this process knows it without asking: to a second.
func (h *Home) Now() time.Time { return time.Now().Add(h.ahead).UTC() }

// Own reads the whole position of a claimed thread.
func (h *Home) Own(ctx context.Context) (*core.Position, error) {
	p := &core.Position{Run: h.run}
	err := h.store.View(ctx, func(tx storage.Tx) error {
		info, err := h.store.Box.FindThread(tx, h.Tenant, h.Thread)
		if err != nil {
			return err
		}
		if info == nil {
			return ErrMoved
		}
		r := records.NewReader(h.store.Box, tx, info)
		r.Program = h.Program
		head, err := r.Head()
		if err != nil || head == nil {
			return err
		}
		if err := r.Fill(head, h.topology, h.Upgrade); err != nil {
			return err
		}
		p.Head = head.Checkpoint
		return r.HangingUnder(head.Checkpoint, h.topology, h.Upgrade, p)
	})
	return p, err
}

// Accept makes a run durable, with its first checkpoints under Sync; else they are queued. The thread must have been
// claimed with Claim, which does this in one Update for the callers of this package.
func (h *Home) Accept(ctx context.Context, run *core.Run, start []*core.Checkpoint) error {
	h.run = run
	b := Batch{Runs: []*core.Run{run}}
	if run.Mode == core.Sync {
		b.Checkpoints = start
		return h.flush(ctx, b)
	}
	if err := h.flush(ctx, b); err != nil {
		return err
	}
	h.Queue(start)
	return nil
}

// Queue takes checkpoints that are to be written with whatever comes next.
func (h *Home) Queue(cps []*core.Checkpoint) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, cp := range cps {
		h.enqueue(core.Commit{Next: cp})
	}
}

// Commit takes what a super-step did. Under Sync, for a durable node and when the run stops it is on disk on return.
// Under Async one super-step may be in flight and one wait. Under Exit only the newest checkpoint is kept.
func (h *Home) Commit(ctx context.Context, c core.Commit) error {
	h.mu.Lock()
	if h.run.Mode != core.Sync && h.since.IsZero() && !c.Lazy && (c.Next != nil || len(c.Ended) > 0) {
		h.since = time.Now()
	}
	h.enqueue(c)
	h.mu.Unlock()
	switch {
	case c.Lazy:
		return h.failure()
	case c.Stop != nil, c.Durable, h.run.Mode == core.Sync:
		return h.flush(ctx, Batch{Stop: c.Stop})
	case h.run.Mode == core.Exit:
		return h.failure()
	}
	return h.background(ctx)
}

func (h *Home) enqueue(c core.Commit) {
	for _, next := range [...]*core.Checkpoint{c.First, c.Next} {
		if next == nil {
			continue
		}
		if h.run.Mode == core.Exit {
			next = h.queue.replace(c.Checkpoint, next)
		}
		h.queue.Checkpoints = append(h.queue.Checkpoints, next)
	}
	for i := range c.Ended {
		h.queue.Ended = append(h.queue.Ended, &c.Ended[i])
	}
	h.queue.Keep = append(h.queue.Keep, c.Keep...)
}

// replace takes out of a queue what next, on from, makes needless before it was ever written: the checkpoints of the same
// thread or run of a child, those of children that lie in it, and what ended on any of them. next inherits the parent of
// the one in whose place it stands. What a child remembers is kept: the thread's state leads to it.
func (b *Batch) replace(from, next *core.Checkpoint) *core.Checkpoint {
	gone := map[int64]bool{}
	if from != nil {
		gone[from.N] = true
	}
	heir := *next
	for _, cp := range b.Checkpoints {
		if !cp.Frame.Inside(next.Frame) || cp.Frame != next.Frame && cp.Frame.Remembers() {
			continue
		}
		if gone[cp.N] = true; cp.N == next.Parent {
			heir.Parent, heir.Merged = cp.Parent, nil // its tasks hang from what is gone
		}
	}
	b.Checkpoints = slices.DeleteFunc(slices.Clone(b.Checkpoints), func(cp *core.Checkpoint) bool { return gone[cp.N] })
	b.Ended = slices.DeleteFunc(slices.Clone(b.Ended), func(e *core.Ended) bool { return gone[e.Checkpoint] })
	return &heir
}

func (h *Home) failure() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.broken
}

// background writes the queue while the run goes on, unless a super-step is waiting behind the one in flight already.
func (h *Home) background(ctx context.Context) error {
	for {
		h.mu.Lock()
		switch {
		case h.broken != nil:
			h.mu.Unlock()
			return h.broken
		case h.flight == nil:
			done := make(chan struct{})
			h.flight = done
			h.mu.Unlock()
			go h.fly(context.WithoutCancel(ctx), done)
			return nil
		case len(h.queue.Checkpoints) <= 1:
			h.mu.Unlock()
			return nil
		}
		flight := h.flight
		h.mu.Unlock()
		<-flight
	}
}

// fly writes until the queue is empty. An error stays in h.broken and stops the run at its next commit.
func (h *Home) fly(ctx context.Context, done chan struct{}) {
	defer close(done)
	for {
		err := h.flush(ctx, Batch{})
		h.mu.Lock()
		if err != nil || h.queue.empty() {
			h.flight = nil
			h.mu.Unlock()
			return
		}
		h.mu.Unlock()
	}
}

// Checkpoint reads a checkpoint of a child's run, for a child that remembers it.
func (h *Home) Checkpoint(ctx context.Context, n int64, child core.Def) (cp *core.Checkpoint, err error) {
	if err := h.flush(ctx, Batch{}); err != nil { // it may be waiting to be written
		return nil, err
	}
	err = h.store.View(ctx, func(tx storage.Tx) error {
		r := records.NewReader(h.store.Box, tx, &records.ThreadInfo{Tenant: h.Tenant, ID: h.Thread, N: h.number})
		stored, err := r.Nested(n)
		if err != nil {
			return err
		}
		if stored == nil {
			return &storage.MissingError{Kind: records.Nested, ID: n}
		}
		cp = stored.Checkpoint
		return r.Fill(stored, child.Topology(), child.Upgrade)
	})
	return cp, err
}

// Record makes a step durable, and before it, in the same Update, what is queued.
func (h *Home) Record(ctx context.Context, s *core.Step) error {
	s.At = h.Now()
	return h.flush(ctx, Batch{Steps: []*core.Step{s}})
}

// full says whether taken more open questions are too many. Answers that others gave meanwhile are counted first.
func (h *Home) full(ctx context.Context, taken int) (bool, error) {
	h.mu.Lock()
	full := h.questions > 0 && h.open+taken > h.questions
	h.mu.Unlock()
	if !full {
		return false, nil
	}
	err := h.store.View(ctx, func(tx storage.Tx) error {
		open, err := records.NewReader(h.store.Box, tx, &records.ThreadInfo{Tenant: h.Tenant, ID: h.Thread, N: h.number}).Open()
		if err == nil {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.open = len(open)
			full = h.open+taken > h.questions
		}
		return err
	})
	return full, err
}

func tooMany(full bool) error {
	if full {
		return ErrTooMany
	}
	return nil
}

// Ask makes a question durable. An answer that lands on the replaced one at the same moment is seen and counted.
func (h *Home) Ask(ctx context.Context, q, replaced *core.Question) error {
	taken := 1
	if replaced != nil {
		taken -= counts(replaced.State)
	}
	if full, err := h.full(ctx, taken); err != nil || full {
		return errors.Join(err, tooMany(full))
	}
	q.Tenant, q.Thread, q.Graph, q.Run = h.Tenant, h.Thread, h.Graph, h.run.ID
	for {
		b := Batch{Questions: []*core.Question{q}}
		var old core.Question
		if replaced != nil && replaced.State != core.QuestionWithdrawn {
			old = *replaced
			old.State = core.QuestionSuperseded
			b.Questions = append(b.Questions, &old)
		}
		err := h.flush(ctx, b)
		if !errors.Is(err, ErrMoved) || replaced == nil {
			if err == nil {
				q.Rev, q.AskedSeq = 1, q.Seq
				if replaced != nil {
					old.Rev++
					*replaced = old
				}
				h.opened(taken)
			}
			return err
		}
		was := replaced.State
		if err := h.reload(ctx, replaced); err != nil {
			return err
		}
		if was == core.QuestionOpen && replaced.State != core.QuestionOpen {
			q.Drift++
		}
	}
}

func (h *Home) reload(ctx context.Context, q *core.Question) error {
	return h.store.View(ctx, func(tx storage.Tx) error {
		row, ok, err := tx.Get(records.Question, q.ID)
		if err != nil {
			return err
		}
		if !ok {
			return fmt.Errorf("question %s: %w", q.ID, ErrMoved)
		}
		now, err := h.store.Box.ReadQuestion(row)
		if err == nil {
			*q = *now
		}
		return err
	})
}

// Whose says which thread the home keeps.
func (h *Home) Whose() (tenant, lineage, thread string) { return h.Tenant, h.Lineage, h.Thread }

// Held is the number of the home's thread and the epoch under which it is held.
func (h *Home) Held() (number, epoch int64) { return h.number, h.epoch }

// View reads in the home's database.
func (h *Home) View(ctx context.Context, do func(ctx context.Context, tx storage.Tx) error) error {
	return h.store.DB.View(ctx, do)
}

// With runs do in one Update behind what is queued, under the thread's epoch. An error of do undoes it and leaves the
// home as it was. proof, when not nil, says after an Update of unknown outcome whether what do wrote is there. What is
// recorded for the thread under the context that do gets is refused with storage.ErrNested: it would wait for do.
func (h *Home) With(ctx context.Context, do func(ctx context.Context, tx storage.Tx) error, proof func(tx storage.Tx) (bool, error)) error {
	err := h.flush(ctx, Batch{Proof: proof, Do: func(ctx context.Context, tx storage.Tx) error {
		return do(context.WithValue(ctx, withinKey{}, h), tx)
	}})
	if own := (*doError)(nil); errors.As(err, &own) {
		return own.err
	}
	return err
}

// withinKey holds the home whose With a context comes from.
type withinKey struct{}

// Late runs do in one Update of its own, whoever owns the thread.
func (h *Home) Late(ctx context.Context, do func(ctx context.Context, tx storage.Tx) error) error {
	return h.store.DB.Update(ctx, do)
}

// Box packs the bodies of this thread's rows.
func (h *Home) Box() records.Box { return h.store.Box }

// NewQuestion is the row of a question of this thread, for an Update of With.
func (h *Home) NewQuestion(q *core.Question) (storage.Row, error) {
	q.Tenant, q.Thread, q.Graph, q.Run, q.ThreadN = h.Tenant, h.Thread, h.Graph, h.run.ID, h.number
	return h.store.Box.QuestionRow(q)
}

// Settle moves a question on, or brings q up to date and says false when somebody else did.
func (h *Home) Settle(ctx context.Context, q *core.Question, to core.QuestionState) (bool, error) {
	next := *q
	next.State = to
	if to == core.QuestionOpen {
		next.Answer, next.AnsweredBy, next.AnsweredAt = nil, "", time.Time{}
	}
	err := h.flush(ctx, Batch{Questions: []*core.Question{&next}})
	was := counts(q.State)
	switch {
	case errors.Is(err, ErrMoved):
		err = h.reload(ctx, q)
		h.opened(counts(q.State) - was)
		return false, err
	case err != nil:
		return false, err
	}
	next.Rev++
	*q = next
	h.opened(counts(to) - was)
	return true, nil
}

func (h *Home) opened(n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.open += n
}

// counts is 1 for a question that still waits for somebody.
func counts(s core.QuestionState) int {
	if s == core.QuestionOpen || s == core.QuestionSubmitted {
		return 1
	}
	return 0
}
