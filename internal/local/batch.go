package local

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/records"
	"github.com/pawl-dev/pawl/storage"
)

// Batch is what one Update writes of one thread, in the order of its fields.
type Batch struct {
	Graph       *core.Topology // stored under its digest
	Runs        []*core.Run
	Checkpoints []*core.Checkpoint
	Ended       []*core.Ended
	Steps       []*core.Step
	Questions   []*core.Question // at their Rev; 0: new
	Keep        []*core.Cached
	Again       []*core.Ended // ended tasks whose rows go, so that they run again
	Withdraw    bool          // every open question of the thread is withdrawn
	Close       []string      // ids of questions that are withdrawn if they are open
	Stop        *core.Stop
	Do          func(ctx context.Context, tx storage.Tx) error // what others write with it, before the stop
	Proof       func(tx storage.Tx) (bool, error)              // of Do, when it cannot be told otherwise whether it was written
}

// doError is an error of Do: what it wrote is undone, and nothing is wrong with the home.
type doError struct{ err error }

func (e *doError) Error() string { return e.err.Error() }
func (e *doError) Unwrap() error { return e.err }

func (b *Batch) empty() bool {
	return b.Graph == nil && b.Stop == nil && !b.Withdraw && b.Do == nil &&
		len(b.Runs)+len(b.Checkpoints)+len(b.Ended)+len(b.Steps)+len(b.Questions)+len(b.Keep)+len(b.Again)+len(b.Close) == 0
}

// localBits is how many bits of a key count within a thread.
const localBits = 32

// fact is one row to put, with where its sequence number goes when it is one of the thread's facts.
type fact struct {
	kind string
	row  storage.Row
	cond storage.If
	seq  *int64        // nil: not a fact
	ttl  time.Duration // of a kept result
	more int64         // facts that the row tells besides, with the numbers before its own
}

// rows encodes a batch, outside any Tx, and numbers the values that it stores. Rows come in dependency order: a value
// before what names it.
func (h *Home) rows(b *Batch) ([]fact, []*core.Value, error) {
	w := &writer{home: h, out: make([]fact, 0, len(b.Runs)+len(b.Checkpoints)+len(b.Ended)+len(b.Steps)+len(b.Questions))}
	var last int64 // not h.cpN, which the loop raises meanwhile
	for _, cp := range b.Checkpoints {
		last = cp.N
	}
	if last>>localBits != 0 || h.valueN>>localBits != 0 || h.number>>(localBits-1) != 0 {
		return nil, nil, fmt.Errorf("thread %q: its numbers are used up (checkpoint %d, value %d, thread %d); nothing was written", h.Thread, last, h.valueN, h.number)
	}
	if b.Graph != nil {
		w.add(records.Graph, nil, storage.Always())(h.store.Box.GraphRow(b.Graph))
	}
	for _, r := range b.Runs {
		w.add(records.Run, &r.Seq, storage.Always())(h.store.Box.RunRow(0, r))
	}
	for i, cp := range b.Checkpoints {
		for _, v := range cp.Values {
			if !records.InPlace(v) {
				w.value(v)
			}
		}
		if cp.Frame == nil {
			w.add(records.Checkpoint, &b.Checkpoints[i].Seq, storage.Always())(h.store.Box.CheckpointRow(0, cp, h.topology))
			w.out[len(w.out)-1].more = int64(len(cp.Merged))
			continue
		}
		w.frame(cp.Frame)
		t, ok := h.topology.Within(cp.Frame.Under)
		if !ok {
			return nil, nil, fmt.Errorf("thread %q: graph %q has no child %q; nothing was written", h.Thread, h.topology.Graph, cp.Frame.Child())
		}
		w.add(records.Nested, &b.Checkpoints[i].Seq, storage.Always())(h.store.Box.NestedRow(0, cp, t))
		w.out[len(w.out)-1].more = int64(len(cp.Merged))
	}
	for _, e := range b.Ended {
		for i := range e.Result.Writes {
			w.value(e.Result.Writes[i].Value)
		}
		if e.Before != nil {
			w.add(records.Past, nil, storage.Always())(h.store.Box.PastEnded(0, e.Before))
		}
		w.add(records.Ended, &e.Seq, storage.Always())(h.store.Box.EndedRow(0, e))
	}
	for _, s := range b.Steps {
		w.add(records.Step, &s.Seq, storage.Always())(h.store.Box.StepRow(0, s))
	}
	for _, q := range b.Questions {
		cond := storage.Absent()
		if q.Rev > 0 {
			cond = storage.AtRev(q.Rev)
		}
		w.add(records.Question, &q.Seq, cond)(h.store.Box.QuestionRow(q))
	}
	w.kept(b.Keep)
	return w.out, w.values, w.err
}

type writer struct {
	home   *Home
	frames []*core.Frame
	out    []fact
	values []*core.Value
	err    error
}

func (w *writer) add(kind string, seq *int64, cond storage.If) func(storage.Row, error) {
	return func(row storage.Row, err error) {
		if err == nil && len(row.Body) > storage.MaxValue {
			err = &storage.TooLargeError{Kind: kind, Size: len(row.Body)}
		}
		if err != nil && w.err == nil {
			w.err = fmt.Errorf("thread %q: %w", w.home.Thread, err)
		}
		w.out = append(w.out, fact{kind: kind, row: row, cond: cond, seq: seq})
	}
}

// frame stores what leads to a run of a child, and to those around it, once.
func (w *writer) frame(f *core.Frame) {
	for ; f != nil && !f.Stored && !slices.Contains(w.frames, f); f = f.Parent {
		w.frames = append(w.frames, f)
		w.add(records.Frame, nil, storage.Always())(w.home.store.Box.FrameRow(0, f))
	}
}

// value stores a version and all below it that is not stored yet, the oldest first.
func (w *writer) value(v *core.Value) {
	var chain []*core.Value
	for ; v != nil && v.ID == 0; v = v.Base {
		chain = append(chain, v)
	}
	for i := len(chain) - 1; i >= 0; i-- {
		v := chain[i]
		if v.Op == core.OpClear || v.ID != 0 {
			continue
		}
		for _, p := range v.Parts {
			w.value(p)
		}
		w.home.valueN++
		v.ID = w.home.valueN
		w.values = append(w.values, v)
		w.add(records.Value, nil, storage.Always())(w.home.store.Box.ValueRow(0, v))
	}
}

// put writes facts in a Tx that holds the thread at epoch, and says whether every condition held. Sequence numbers are
// assigned last, by the caller, once the Update is durable.
func put(tx storage.Tx, facts []fact, thread, epoch int64) (first int64, held bool, err error) {
	n := 0
	for i := range facts {
		if facts[i].seq != nil {
			n += 1 + int(facts[i].more)
		}
	}
	first, ok, err := tx.Seq(thread, epoch, max(n, 1))
	if err != nil {
		return 0, false, err
	}
	if !ok {
		return 0, false, ErrFenced
	}
	next := first
	for i := range facts {
		f := &facts[i]
		next += f.more
		records.Rehome(f.kind, &f.row, thread, next)
		if f.seq != nil {
			next++
		}
		if f.ttl > 0 {
			f.row.Fields[0] = records.Until(tx.Now().Add(f.ttl))
		}
		ok, err := tx.Put(f.kind, f.row, f.cond)
		if err != nil {
			return 0, false, err
		}
		if !ok {
			return 0, false, nil
		}
	}
	return first, true, nil
}

// settle tells the records of a batch their sequence numbers.
func settle(b *Batch, facts []fact, first int64) {
	for _, cp := range b.Checkpoints {
		for f := cp.Frame; f != nil && !f.Stored; f = f.Parent {
			f.Stored = true
		}
	}
	for i := range facts {
		if facts[i].seq != nil {
			first += facts[i].more
			*facts[i].seq = first
			first++
		}
	}
}
