package nest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl"
)

// Thread is a thread of the outermost graph that shows what belongs to the innermost: its snapshots, its values, its
// nodes. What belongs to the whole, its status, its questions, its runs, is the outermost's.
type Thread[S any] struct {
	*pawl.ThreadOf[S]
	level Level
}

// all is the size of a page with everything.
const all = 100_000

// edited is the source of a snapshot that a person made.
const edited = "edit"

// runs are the paths of the runs of the innermost graph in a thread, the newest first.
func runs(ctx context.Context, t *pawl.Thread, l Level, attempt string) ([]pawl.Path, error) {
	paths := []pawl.Path{""}
	for range l.Depth {
		var below []pawl.Path
		for _, in := range paths {
			some, err := children(ctx, t, pawl.Page{In: in, Limit: all, Attempt: attempt})
			if err != nil {
				return nil, err
			}
			for _, path := range some {
				if !slices.Contains(below, path) {
					below = append(below, path)
				}
			}
		}
		paths = below
	}
	return paths, nil
}

// children are the paths of those whose runs began at the checkpoints of a page.
func children(ctx context.Context, t *pawl.Thread, page pawl.Page) (paths []pawl.Path, err error) {
	history, err := t.History(ctx, page)
	for _, s := range history {
		whole, err := t.Snapshot(ctx, s.Checkpoint)
		if err != nil {
			return nil, err
		}
		for _, task := range whole.Tasks {
			for _, c := range task.Children {
				paths = append(paths, c.Path)
			}
		}
	}
	return paths, err
}

// newest is the path of the run of the innermost graph that began last; empty: none did.
func newest(ctx context.Context, t *pawl.Thread, l Level, head *pawl.Snapshot) (pawl.Path, error) {
	at := head
	for range l.Depth {
		if at == nil || len(at.Tasks) != 1 || len(at.Tasks[0].Children) == 0 { // it is done
			at = nil
			break
		}
		at = at.Tasks[0].Children[0]
	}
	if at != nil {
		return at.Path, nil
	}
	in := pawl.Path("")
	for range l.Depth {
		paths, err := children(ctx, t, pawl.Page{In: in, Limit: 2})
		if err == nil && len(paths) == 0 {
			paths, err = children(ctx, t, pawl.Page{In: in, Limit: all})
		}
		if err != nil || len(paths) == 0 {
			return "", err
		}
		in = paths[0]
	}
	return in, nil
}

// History reads the snapshots of all runs of the innermost graph, the newest first.
func (t *Thread[S]) History(ctx context.Context, page pawl.Page) ([]*pawl.Snapshot, error) {
	return History(ctx, t.Thread, t.level, page)
}

// History reads the snapshots of all runs of the innermost graph in a thread. Under Exit they are those of the thread: a
// child keeps those that its steps and questions hang from, and no end.
func History(ctx context.Context, t *pawl.Thread, l Level, page pawl.Page) ([]*pawl.Snapshot, error) {
	if l.Depth == 0 || l.Mode == pawl.Stateless || page.In != "" {
		return t.History(ctx, page)
	}
	if s, err := t.State(ctx); err != nil || s.Mode == pawl.Exit {
		return t.History(ctx, page)
	}
	return inside(ctx, t, l, page)
}

// inside is History of what the runs of the innermost graph keep, under any durability.
func inside(ctx context.Context, t *pawl.Thread, l Level, page pawl.Page) ([]*pawl.Snapshot, error) {
	paths, err := runs(ctx, t, l, page.Attempt)
	if err != nil {
		return nil, err
	}
	var out []*pawl.Snapshot
	for _, in := range paths {
		page := page
		page.In, page.Limit = in, all
		some, err := t.History(ctx, page)
		if err != nil {
			return nil, err
		}
		out = append(out, some...)
	}
	outer, err := t.History(ctx, pawl.Page{Limit: all, Attempt: page.Attempt})
	if err != nil {
		return nil, err
	}
	for _, s := range outer {
		if s.Source == edited { // of a thread that is done: no graph inside runs
			out = append(out, s)
		}
	}
	slices.SortStableFunc(out, func(a, b *pawl.Snapshot) int { return int(b.Seq - a.Seq) })
	return out, nil
}

// State reads where the thread stands, with the head of the innermost graph.
func (t *Thread[S]) State(ctx context.Context, in ...pawl.Path) (*pawl.ThreadState, error) {
	return State(ctx, t.Thread, t.level, in...)
}

// State reads where a thread stands, with the head of the innermost graph.
func State(ctx context.Context, t *pawl.Thread, l Level, in ...pawl.Path) (*pawl.ThreadState, error) {
	for {
		s, err := t.State(ctx, in...)
		if err != nil || l.Depth == 0 || l.Mode == pawl.Stateless || len(in) > 0 || s.Head == nil || s.Head.Source == edited {
			return s, err
		}
		outer, head := s.Values, s.Head.Checkpoint
		if err := deepen(ctx, t, l, s); err != nil {
			return nil, err
		}
		if s.Status != pawl.Done || s.Mode == pawl.Exit || bytes.Equal(outer, s.Values) {
			return s, nil
		}
		now, err := t.State(ctx)
		if err != nil || now.Head.Checkpoint == head && now.Status == s.Status { // nobody went on with it meanwhile
			return s, errors.Join(err, fmt.Errorf("the thread ended with %s outside and %s inside", outer, s.Values))
		}
	}
}

// deepen puts the head of the innermost graph in place of the outermost's.
func deepen(ctx context.Context, t *pawl.Thread, l Level, s *pawl.ThreadState) error {
	at, err := newest(ctx, t, l, s.Head)
	if err != nil || at == "" || s.Status == pawl.Done && s.Mode == pawl.Exit {
		return err
	}
	inner, err := t.State(ctx, at)
	if err != nil {
		return err
	}
	for _, q := range s.Waiting {
		if !l.asked(q.Path) {
			return fmt.Errorf("question %s has the path %s, which is not inside %d graphs", q.ID, q.Path, l.Depth)
		}
	}
	s.Head, s.Values = inner.Head, inner.Values
	return nil
}
