package pawl

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/local"
	"github.com/pawl-dev/pawl/internal/records"
	"github.com/pawl-dev/pawl/storage"
)

// Path names the runs of a child in a thread, as questions and snapshots show them: "child:<id>", deeper
// "child:<id>|inner:<id>", and for one that remembers its name, "child", which stands for all its runs. A child that is
// called in a node has the path of the node's task; several of one task share it. Empty: the thread itself.
type Path string

// pages reads a history, the newest first: of the thread, or of the runs of a child.
func (t *Thread) pages(r *records.Reader, in Path) (func(before int64, limit int) ([]*records.Stored, error), error) {
	if in == "" {
		return r.Checkpoints, nil
	}
	frames, err := r.FramesAt(string(in))
	if err != nil {
		return nil, err
	}
	if len(frames) == 0 {
		return nil, &NotFoundError{What: "child", ID: string(in), Thread: t.id, Hint: "paths of children are in the snapshots and questions of the thread"}
	}
	return func(before int64, limit int) ([]*records.Stored, error) {
		var out []*records.Stored
		for _, f := range slices.Backward(frames) {
			page, err := r.NestedIn(f, before, limit)
			if err != nil {
				return nil, err
			}
			out = append(out, page...)
			if f.Mode == PerThread && len(out) >= limit { // its runs are one after the other
				break
			}
		}
		slices.SortFunc(out, func(a, b *records.Stored) int { return cmp.Compare(b.Checkpoint.N, a.Checkpoint.N) })
		return out[:min(limit, len(out))], nil
	}, nil
}

// family is a snapshot with those of the children that its tasks began, as they stand, at all depths.
func (t *Thread) family(r *records.Reader, seen *local.Seen, s *records.Stored) (*Snapshot, error) {
	return familyOf(r, s, func(s *records.Stored) (*Snapshot, error) { return t.snapshot(r, seen, s) }, func(f *core.Frame) (*records.Stored, error) {
		heads, err := r.NestedIn(f, 0, 1)
		if err != nil || len(heads) == 0 {
			return nil, err
		}
		return heads[0], nil
	})
}

// familyOf is a checkpoint as it is shown, with the heads of its tasks' children; nil: one has none.
func familyOf(r *records.Reader, s *records.Stored, show func(*records.Stored) (*Snapshot, error),
	head func(*core.Frame) (*records.Stored, error)) (*Snapshot, error) {
	out, err := show(s)
	if err != nil {
		return nil, err
	}
	frames, err := r.Frames(s.Checkpoint.N)
	if err != nil {
		return nil, err
	}
	for _, f := range frames {
		h, err := head(f)
		if err != nil {
			return nil, err
		}
		if h == nil {
			continue
		}
		child, err := familyOf(r, h, show, head)
		if err != nil {
			return nil, err
		}
		out.adopt(f, depthOf(s.Checkpoint.Frame), child)
	}
	return out, nil
}

// leading says whether a thread stands at a checkpoint: its head, and inside it the newest of each child's run.
func leading(r *records.Reader, seen *local.Seen, cp *core.Checkpoint) (bool, error) {
	n := cp.N
	for f := cp.Frame; f != nil; f = f.Parent {
		newest, err := r.NestedIn(f, 0, 1)
		if err != nil || len(newest) > 0 && newest[0].Checkpoint.N != n {
			return false, err
		}
		n = f.Checkpoint
	}
	return n == seen.Head.Checkpoint.N, nil
}

// adopt puts a child's snapshot under the task that began it.
func (s *Snapshot) adopt(f *core.Frame, depth int, child *Snapshot) {
	for i := range s.Tasks {
		if s.Tasks[i].ID == f.Under[depth].Task {
			s.Tasks[i].Children = append(s.Tasks[i].Children, child)
		}
	}
}

func depthOf(f *core.Frame) int {
	if f == nil {
		return 0
	}
	return len(f.Under)
}

// nestedIn says where a child's snapshot belongs.
func (s *Snapshot) nestedIn(r *records.Reader, cp *core.Checkpoint) error {
	f := cp.Frame
	if f == nil {
		return nil
	}
	s.Path, s.Child, s.Key, s.Parents = Path(f.Path), f.Child(), f.Key, map[Path]string{}
	for ; f != nil; f = f.Parent {
		path, read := Path(""), r.Checkpoint
		if f.Parent != nil {
			path, read = Path(f.Parent.Path), r.Nested
		}
		around, err := read(f.Checkpoint)
		if err != nil {
			return err
		}
		if around != nil { // a run that is kept at its end only has none
			s.Parents[path] = around.Checkpoint.ID
		}
	}
	return nil
}

// blockedAt are the tasks of a checkpoint that cannot be entered, because of what is open in them or in their children.
func (t *Thread) blockedAt(cp *core.Checkpoint, hanging *core.Position) map[string]bool {
	hanging.Head, hanging.Frame = cp, cp.Frame
	return hanging.Blocked(t.identity(), depthOf(cp.Frame), time.Now())
}

// flat are tasks with those of their children behind them.
func flat(tasks []TaskState) []TaskState {
	var out []TaskState
	for _, task := range tasks {
		children := task.Children
		task.Children = nil
		out = append(out, task)
		for _, c := range children {
			out = append(out, flat(c.Tasks)...)
		}
	}
	return out
}

// insideReadable refuses to go on from a head whose children left what the program cannot read: they are entered only
// after the thread is claimed, and then it would be too late to change nothing.
func (t *Thread) insideReadable(ctx context.Context, v *view, d core.Def) error {
	if len(v.pos.Children) == 0 {
		return nil
	}
	err := t.eng.store.View(ctx, func(tx storage.Tx) error {
		r := records.NewReader(t.eng.store.Box, tx, v.Info)
		r.Program = d
		children, err := r.Children(v.from.N)
		if err != nil {
			return err
		}
		return readableIn(d, children)
	})
	if err != nil {
		return fmt.Errorf("pawl: thread %q: resume: %w; nothing was run and nothing changed; when the home itself is well, give the "+
			"engine the codec and the keys that it was stored with, or fork the thread from the checkpoint before: pawl threads history %s", t.id, err, t.id)
	}
	return nil
}

// readableIn decodes the values of children, at all depths.
func readableIn(d core.Def, children map[string][]*core.Position) error {
	for _, positions := range children {
		for _, p := range positions {
			child, ok := core.Inside(d, p.Frame.Under)
			if !ok {
				return &NotFoundError{What: "child", ID: p.Frame.Child()}
			}
			err := child.(jsonDef).readable(p.Head.Values)
			if err == nil {
				err = readableIn(d, p.Children)
			}
			if err != nil {
				return fmt.Errorf("child %s: %w", p.Frame.Path, err)
			}
		}
	}
	return nil
}
