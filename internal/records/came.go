package records

import (
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/storage"
)

// Came reads what the tasks of a checkpoint did, beside what hangs from it: what the checkpoint tells that merged them.
// Many can hang from one, and of these only the first that was stored is made of its tasks: an edit, a fork and a replay
// go on with tasks of their own, and a head that has left a checkpoint never comes back to it. over: all its tasks ended
// well, also where nothing tells what they wrote.
func (r *Reader) Came(s *Stored) (ended []core.Ended, over bool, err error) {
	next, err := r.after(s.Checkpoint)
	if err != nil || next == nil || next.Checkpoint.Parent != s.Checkpoint.N {
		return nil, false, err
	}
	over = next.Checkpoint.Source == core.SourceLoop
	if ended, err = r.resultsOf(s, next); err != nil || !over {
		return ended, over, err
	}
	for _, task := range r.due(s) {
		if task.Node == core.Start {
			writes, err := r.input(s.Checkpoint)
			return []core.Ended{{Result: core.Result{Task: task, Writes: writes}}}, true, err
		}
	}
	return ended, true, nil
}

// after reads the checkpoint that was stored next, of the thread or of the same run of a child; nil: none was.
func (r *Reader) after(cp *core.Checkpoint) (*Stored, error) {
	kind, read := Checkpoint, r.stored
	q := storage.Query{Range: storage.Range{From: Place(r.Info.N, cp.N+1), To: Place(r.Info.N+1, 0)}, Limit: 1}
	if f := cp.Frame; f != nil {
		kind, read = Nested, r.nested
		q.Index, q.Range = "by_frame", storage.Range{Prefix: []any{Place(r.Info.N, f.N)}, From: Place(r.Info.N, cp.N+1)}
	}
	rows, err := r.Tx.List(kind, q)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	return read(rows[0])
}

// input is what the run that a checkpoint belongs to was given.
func (r *Reader) input(cp *core.Checkpoint) ([]core.Write, error) {
	if cp.Frame != nil {
		return cp.Frame.Input, nil
	}
	run, err := r.Run(cp.Run)
	if err != nil {
		return nil, err
	}
	return run.Input, nil
}

// due are the tasks of the super-step after a checkpoint.
func (r *Reader) due(s *Stored) []core.Task {
	path := ""
	if f := s.Checkpoint.Frame; f != nil {
		path = f.Path
	}
	return core.Plan(s.Checkpoint, core.ID("thread", r.Info.Tenant, r.Info.ID), path)
}
