package pawl

import (
	"context"
	"iter"
	"slices"

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
	r := records.NewReader(t.eng.store.Box, tx, seen.Info)
	out, err := checkpointFacts(r, after)
	if err != nil {
		return nil, err
	}
	for kind, read := range map[string]func(storage.Row) (Event, error){
		records.Run: func(row storage.Row) (Event, error) {
			run, err := t.eng.store.Box.ReadRun(t.id, row)
			if err != nil {
				return Event{}, err
			}
			e := Event{Kind: EventAccepted, Run: run.ID, At: run.Accepted, State: string(run.Status), Error: run.Error}
			if run.Status != Running {
				e.Kind = EventFinished
			}
			return e, nil
		},
		records.Step: func(row storage.Row) (Event, error) {
			s, err := t.eng.store.Box.ReadStep(t.id, row)
			if err != nil {
				return Event{}, err
			}
			return Event{Kind: EventStep, Node: s.Node, Task: s.Task, Name: s.Name, Key: s.Key, At: s.At}, nil
		},
		records.Question: func(row storage.Row) (Event, error) {
			q, err := t.eng.store.Box.ReadQuestion(row)
			if err != nil {
				return Event{}, err
			}
			e := Event{Kind: EventQuestion, Node: q.Node, Task: q.Task, Name: q.Name, Key: q.Key, Question: q.ID, State: string(q.State), At: q.Asked}
			if q.State != core.QuestionOpen {
				e.Kind = EventAnswer
			}
			return e, nil
		},
	} {
		rows, err := tx.List(kind, storage.Query{Index: "by_seq", Range: storage.Range{Prefix: []any{seen.Info.N}, From: after + 1}})
		if err != nil {
			return nil, err
		}
		at := map[string]int{records.Run: 1, records.Step: 0, records.Question: 5}[kind]
		for _, row := range rows {
			e, err := read(row)
			if err != nil {
				return nil, err
			}
			e.Seq = row.Fields[at].(int64)
			out = append(out, e)
		}
	}
	slices.SortFunc(out, func(a, b Event) int { return int(a.Seq - b.Seq) })
	return out, nil
}

// checkpointFacts reads history backwards until it meets what was told before.
func checkpointFacts(r *records.Reader, after int64) ([]Event, error) {
	const page = 64
	var out []Event
	before := int64(0)
	for {
		stored, err := r.Checkpoints(before, page)
		if err != nil {
			return nil, err
		}
		for _, s := range stored {
			cp := s.Checkpoint
			if before = cp.N; cp.Seq <= after {
				return out, nil
			}
			run, err := r.Run(cp.Run)
			if err != nil {
				return nil, err
			}
			out = append(out, Event{
				Kind: EventCheckpoint, Seq: cp.Seq, Step: cp.Step, Run: run.ID, Checkpoint: cp.ID, At: local.StampOf(cp.ID).UTC(),
			})
		}
		if len(stored) < page {
			return out, nil
		}
	}
}
