package pawl

import (
	"context"
	"iter"
	"strings"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/local"
	"github.com/pawl-dev/pawl/internal/records"
	"github.com/pawl-dev/pawl/storage"
)

// Watch tells the thread's stored facts after a sequence number, and goes on with new ones as they come, until ctx
// ends. It never owns the thread and changes nothing; leaving it stops nothing. A question is told again, under a new
// number, when its state changed.
func (t *Thread) Watch(ctx context.Context, after int64) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		if t.eng.store == nil {
			yield(Event{}, &NoStorageError{Graph: t.graph, Question: string(VerbRead)})
			return
		}
		var changes uint64
		for {
			now, _ := t.eng.store.DB.Changed(changes)
			var facts []Event
			err := t.read(ctx, func(tx storage.Tx, seen *local.Seen) (err error) {
				facts, err = t.facts(tx, seen, after)
				return err
			})
			if err != nil {
				yield(Event{}, err)
				return
			}
			for _, f := range facts {
				after = f.Seq
				if !yield(f, nil) {
					return
				}
			}
			_, wake := t.eng.store.DB.Changed(now)
			select {
			case <-wake:
			case <-ctx.Done():
				return
			}
		}
	}
}

// facts reads what was stored after a sequence number, in order.
func (t *Thread) facts(tx storage.Tx, seen *local.Seen, after int64) ([]Event, error) {
	if seen.Info == nil {
		return nil, nil
	}
	facts, err := records.NewReader(t.eng.store.Box, tx, seen.Info).Facts(after)
	out := make([]Event, len(facts))
	for i, f := range facts {
		out[i] = factEvent(f)
	}
	return out, err
}

func factEvent(f records.Fact) Event {
	e := Event{Seq: f.Seq, Run: f.Run.ID}
	switch {
	case f.Checkpoint != nil:
		if frame := f.Checkpoint.Frame; frame != nil {
			e.Path = frame.Path
		}
		e.Kind, e.Step, e.Checkpoint, e.At = EventCheckpoint, f.Checkpoint.Step, f.Checkpoint.ID, local.StampOf(f.Checkpoint.ID).UTC()
	case f.Step != nil:
		e.Path = f.Step.Path
		e.Kind, e.Node, e.Task, e.Name, e.Key, e.At = EventStep, f.Step.Node, f.Step.Task, f.Step.Name, f.Step.Key, f.Step.At
	case f.Question != nil:
		q := f.Question
		if i := strings.LastIndex(q.Path, "|"); i >= 0 {
			e.Path = q.Path[:i]
		}
		e.Kind, e.Node, e.Task, e.Name, e.Key, e.At = EventAnswer, q.Node, q.Task, q.Name, q.Key, q.Asked
		if e.Question, e.State = q.ID, string(q.State); q.State == core.QuestionOpen {
			e.Kind = EventQuestion
		}
	default:
		e.Kind, e.At, e.State, e.Error = EventFinished, f.Run.Accepted, string(f.Run.Status), f.Run.Error
		if f.Run.Status == Running {
			e.Kind = EventAccepted
		}
	}
	return e
}
