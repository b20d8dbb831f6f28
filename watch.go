package pawl

import (
	"context"
	"errors"
	"iter"
	"strings"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/local"
	"github.com/pawl-dev/pawl/internal/records"
	"github.com/pawl-dev/pawl/storage"
)

// Watch tells the thread's stored facts after a sequence number, and goes on with new ones as they come, until ctx
// ends. It never owns the thread and changes nothing; leaving it stops nothing. Whoever watches, whenever and after
// whatever number, is told the same facts under the same numbers: none is left out and none comes twice. Left out are what
// Prune, Delete and Again took away, what was never stored ([Async] after a crash, [Exit], [Stateless] children), and what
// became of a question between being asked and how it stands.
//
// Between the facts it tells what nodes said with [Emit] in runs of this process, in no fixed order with facts of the same
// super-step, and with EventLost how much of that went by too fast. The start of a step in this process is told so, too,
// to who watches when it happens: never after its end, and of what began before nothing. What is no fact has no Seq: the
// place to go on from is the Seq of the last event that has one.
func (t *Thread) Watch(ctx context.Context, after int64) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		if t.eng.store == nil {
			yield(Event{}, &NoStorageError{Graph: t.graph, Question: string(VerbRead)})
			return
		}
		said, leave := t.eng.join(t.id)
		defer leave()
		w := watcher{t: t, after: after, since: after, yield: yield, came: said.watch()}
		defer said.watchers.Add(-1)
		var changes uint64
		for {
			now, _ := t.eng.store.DB.Changed(changes)
			spoken, lost, next, more := said.since(w.at)
			w.at = next
			var facts []Event
			err := t.read(ctx, func(tx storage.Tx, seen *local.Seen) (err error) {
				facts, err = t.facts(tx, seen, w.after)
				return err
			})
			if err != nil {
				yield(Event{}, err)
				return
			}
			if !w.tell(facts, spoken, lost) {
				return
			}
			_, wake := t.eng.store.DB.Changed(now)
			select {
			case <-wake:
			case <-more:
			case <-ctx.Done():
				return
			}
		}
	}
}

type watcher struct {
	t     *Thread
	after int64 // the newest fact that was told
	since int64 // what it began after
	at    int   // in the ring
	came  int   // where in the ring it began
	yield func(Event, error) bool
	over  map[string]bool // addresses of the steps whose ends were told the last time
}

// tell tells facts in their order, and what was said behind the facts that it came after.
func (w *watcher) tell(facts, spoken []Event, lost int) bool {
	if lost > 0 && !w.yield(Event{Kind: EventLost, Count: lost}, nil) {
		return false
	}
	ended := w.over
	if w.over = nil; len(facts) > 0 {
		w.over = overOf(facts)
	}
	for i, s := range spoken {
		if s.after > 0 && s.after < w.since {
			continue // said before what this watcher knows
		}
		if s.Kind == EventStepStart && (ended[s.Address] || w.at-len(spoken)+i < w.came) {
			continue
		}
		for len(facts) > 0 && facts[0].Seq <= s.after {
			if !w.fact(facts[0]) {
				return false
			}
			facts = facts[1:]
		}
		if !w.yield(s, nil) {
			return false
		}
	}
	for _, f := range facts {
		if !w.fact(f) {
			return false
		}
	}
	return true
}

// overOf finds the steps that facts tell of.
func overOf(facts []Event) map[string]bool {
	var out map[string]bool
	for _, f := range facts {
		if f.Kind != EventStep {
			continue
		}
		if out == nil {
			out = map[string]bool{}
		}
		out[f.Address] = true
	}
	return out
}

func (w *watcher) fact(f Event) bool {
	w.after = f.Seq
	return w.yield(f, nil)
}

// facts reads what was stored after a sequence number, in order.
func (t *Thread) facts(tx storage.Tx, seen *local.Seen, after int64) ([]Event, error) {
	if seen.Info == nil {
		return nil, nil
	}
	r := records.NewReader(t.eng.store.Box, tx, seen.Info)
	facts, err := r.Facts(after)
	out := make([]Event, len(facts))
	for i := range facts {
		if out[i], err = t.factEvent(r, &facts[i]); err != nil {
			return nil, err
		}
	}
	return out, err
}

func (t *Thread) factEvent(r *records.Reader, f *records.Fact) (Event, error) {
	e := Event{Seq: f.Seq, Run: f.Run.ID, Attempt: f.Run.Attempt}
	if f.Under != nil {
		e.Step = f.Under.Step + 1
	}
	switch {
	case f.Checkpoint != nil:
		cp := f.Checkpoint
		e.Kind, e.Step, e.Checkpoint, e.Source, e.Quiet = EventCheckpoint, cp.Step, cp.ID, string(cp.Source), cp.Quiet
		e.Path, e.At = pathOf(cp), local.StampOf(cp.ID).UTC()
		e.snapshot = t.reading(func(r *records.Reader) (*Snapshot, error) {
			find := r.Checkpoint
			if cp.Frame != nil {
				find = r.Nested
			}
			s, err := find(cp.N)
			if err != nil || s == nil {
				return nil, err
			}
			return t.bareOf(r, s, core.Public)
		})
	case f.Ended != nil:
		topology, err := r.Topology(f.Under)
		if err != nil {
			return e, err
		}
		e.Kind, e.Path, e.At = EventTaskEnd, pathOf(f.Under), f.Ended.At
		e.end(topology, f.Ended)
	case f.Step != nil:
		e.Path, e.Address = f.Step.Path, f.Step.Address
		e.Kind, e.Node, e.Task, e.Name, e.Key, e.At = EventStep, f.Step.Node, f.Step.Task, f.Step.Name, f.Step.Key, f.Step.At
		e.Cached = f.Step.Cached
	case f.Question != nil:
		q := f.Question
		e.Path = above(q.Path)
		e.Kind, e.Node, e.Task, e.Name, e.Key, e.At = EventAnswer, q.Node, q.Task, q.Name, q.Key, q.Asked
		if e.Question, e.State = q.ID, string(q.State); q.State == core.QuestionOpen {
			e.Kind, e.Data = EventQuestion, q.Body
		} else {
			e.Step = 0 // it comes from outside of any
		}
	default:
		e.Kind, e.At, e.State, e.Error = EventFinished, f.Run.Accepted, string(f.Run.Status), f.Run.Error
		if e.Node = f.Run.ErrorNode; f.Run.Status == Running {
			if e.Kind, e.Node = EventAccepted, ""; f.Run.Resumed {
				e.Kind = EventResumed
			}
		}
		if e.Kind != EventAccepted {
			e.snapshot = t.headAt(f.Seq)
		}
	}
	return e, nil
}

// end says in an event how a task ended.
func (e *Event) end(topology *core.Topology, ended *core.Ended) {
	e.Node, e.Task, e.Replayed = ended.Result.Task.Node, ended.Result.Task.ID, ended.Again
	e.Cached = ended.Result.Cached
	if e.Error = ended.Error; !ended.Failed {
		e.Writes = writtenOf(topology, ended.Result.Writes)
	}
}

// above is the path of the child around a task.
func above(task string) string {
	i := strings.LastIndex(task, "|")
	return task[:max(i, 0)]
}

func pathOf(cp *core.Checkpoint) string {
	if cp.Frame == nil {
		return ""
	}
	return cp.Frame.Path
}

// reading is an event's way to what is stored.
func (t *Thread) reading(look func(*records.Reader) (*Snapshot, error)) func(context.Context) (*Snapshot, error) {
	return func(ctx context.Context) (out *Snapshot, err error) {
		err = t.read(ctx, func(tx storage.Tx, seen *local.Seen) error {
			if out = nil; seen.Info == nil {
				return nil
			}
			out, err = look(records.NewReader(t.eng.store.Box, tx, seen.Info))
			return err
		})
		return out, err
	}
}

// headAt is an event's way to the thread's head as it stood at a fact.
func (t *Thread) headAt(seq int64) func(context.Context) (*Snapshot, error) {
	return t.reading(func(r *records.Reader) (*Snapshot, error) {
		s, err := r.HeadAt(seq)
		if err != nil || s == nil {
			return nil, err
		}
		open, err := r.OpenAt(seq)
		if err != nil {
			return nil, err
		}
		return familyOf(r, s, func(s *records.Stored) (*Snapshot, error) { return t.stoodAt(r, s, seq, open) },
			func(f *core.Frame) (*records.Stored, error) { return r.NestedAt(f, seq) })
	})
}

// stoodAt is a checkpoint with its tasks as they stood at a fact, when those questions were open.
func (t *Thread) stoodAt(r *records.Reader, s *records.Stored, seq int64, open []core.Question) (*Snapshot, error) {
	out, err := t.bareOf(r, s, core.Public)
	if err != nil {
		return nil, err
	}
	topology, err := r.Topology(s.Checkpoint)
	if err != nil {
		return nil, err
	}
	ended, err := r.Ended(s.Checkpoint.N)
	if err != nil {
		return nil, err
	}
	depth := depthOf(s.Checkpoint.Frame)
	for i := range out.Tasks {
		task := &out.Tasks[i]
		for _, e := range ended {
			if e.Result.Task.ID == task.ID && e.Seq < seq {
				task.State, task.Error, task.Tries, task.Cached = "done", e.Error, e.Tries, e.Result.Cached
				if task.Writes = writtenOf(topology, e.Result.Writes); e.Failed {
					task.State = "failed"
				}
			}
		}
		for j := range open {
			if q := &open[j]; q.Task == task.ID || len(q.Under) > depth && q.Under[depth].Task == task.ID {
				task.State, task.Questions = "waiting", append(task.Questions, questionOf(q))
			}
		}
	}
	return out, nil
}

// errLeft and errEnded end streams.
var (
	errLeft  = errors.New("the stream was left before the run stopped")
	errEnded = errors.New("pawl: a node ended the goroutine of its run (runtime.Goexit); what was stored before is kept: resume the thread")
)
