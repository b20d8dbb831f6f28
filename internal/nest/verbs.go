package nest

import (
	"context"
	"errors"
	"iter"
	"strings"

	"github.com/pawl-dev/pawl"
)

// Run is [pawl.ThreadOf.Run].
func (t *Thread[S]) Run(ctx context.Context, in *S, options ...pawl.RunOption) (*pawl.OutcomeOf[S], error) {
	out, err := t.ThreadOf.Run(ctx, in, options...)
	return t.shown(ctx, out, err)
}

// Resume is [pawl.ThreadOf.Resume].
func (t *Thread[S]) Resume(ctx context.Context, options ...pawl.RunOption) (*pawl.OutcomeOf[S], error) {
	out, err := t.ThreadOf.Resume(ctx, options...)
	return t.shown(ctx, out, err)
}

// Retry is [pawl.ThreadOf.Retry].
func (t *Thread[S]) Retry(ctx context.Context, options ...pawl.RunOption) (*pawl.OutcomeOf[S], error) {
	out, err := t.ThreadOf.Retry(ctx, options...)
	return t.shown(ctx, out, err)
}

// Fork is [pawl.ThreadOf.Fork], from a point of the innermost graph.
func (t *Thread[S]) Fork(ctx context.Context, at pawl.Point, edit func(*S) error, options ...pawl.RunOption) (*pawl.OutcomeOf[S], error) {
	at, inner, err := t.point(ctx, at)
	if err != nil {
		return nil, err
	}
	if !inner {
		out, err := t.ThreadOf.Fork(ctx, at, edit, options...)
		return t.shown(ctx, out, err)
	}
	doc, err := changes(edit)
	if err != nil {
		return nil, err
	}
	out, err := t.Thread.Fork(ctx, at, doc, options...)
	return t.typed(ctx, out, err)
}

// Replay is [pawl.ThreadOf.Replay], from a point of the innermost graph.
func (t *Thread[S]) Replay(ctx context.Context, at pawl.Point, options ...pawl.RunOption) (*pawl.OutcomeOf[S], error) {
	at, _, err := t.point(ctx, at)
	if err != nil {
		return nil, err
	}
	out, err := t.ThreadOf.Replay(ctx, at, options...)
	return t.shown(ctx, out, err)
}

// Edit is [pawl.ThreadOf.Edit], of the innermost graph while that is not done.
func (t *Thread[S]) Edit(ctx context.Context, edit func(*S) error, options ...pawl.RunOption) (*pawl.OutcomeOf[S], error) {
	s, err := t.State(ctx)
	if err != nil || s.Status == pawl.Done || s.Head == nil || s.Head.Path == "" {
		out, err := t.ThreadOf.Edit(ctx, edit, options...)
		return t.shown(ctx, out, err)
	}
	doc, err := changes(edit)
	if err != nil {
		return nil, err
	}
	out, err := t.Thread.Edit(ctx, doc, append(options[:len(options):len(options)], pawl.In(s.Head.Path))...)
	return t.typed(ctx, out, err)
}

// PreviewFork is [pawl.Thread.PreviewFork], from a point of the innermost graph.
func (t *Thread[S]) PreviewFork(ctx context.Context, at pawl.Point) (*pawl.Preview, error) {
	at, _, err := t.point(ctx, at)
	if err != nil {
		return nil, err
	}
	return t.ThreadOf.PreviewFork(ctx, at)
}

// Stream is [pawl.ThreadOf.Stream] with what happens in the innermost graph, and in none of those around it.
func (t *Thread[S]) Stream(ctx context.Context, in *S, options ...pawl.RunOption) iter.Seq2[pawl.Event, error] {
	return func(yield func(pawl.Event, error) bool) {
		for e, err := range t.ThreadOf.Stream(ctx, in, options...) {
			whole := e.Kind == pawl.EventAccepted || e.Kind == pawl.EventAnswer || e.Kind == pawl.EventFinished
			if err == nil && !whole && !t.level.isInner(e.Path) {
				continue
			}
			e.Path = ""
			if !yield(e, err) {
				return
			}
		}
	}
}

// point is a point of the innermost graph, if it is one there: a node is looked for in its history.
func (t *Thread[S]) point(ctx context.Context, at pawl.Point) (_ pawl.Point, inner bool, err error) {
	if t.level.Depth == 0 {
		return at, false, nil
	}
	read := inside
	if t.level.Mode == pawl.Stateless {
		read = History
	}
	history, err := read(ctx, t.Thread, t.level, pawl.Page{})
	if err != nil {
		return at, false, err
	}
	for _, s := range history {
		if at == pawl.Checkpoint(s.Checkpoint) {
			return at, s.Path != "", nil
		}
		for _, node := range s.Next {
			if at == pawl.Before(node) {
				return pawl.Checkpoint(s.Checkpoint), true, nil
			}
		}
	}
	return at, false, nil
}

// typed is an outcome with the state of the innermost graph.
func (t *Thread[S]) typed(ctx context.Context, out *pawl.Outcome, err error) (*pawl.OutcomeOf[S], error) {
	if out == nil {
		return nil, err
	}
	state, bad := t.Read(&pawl.Snapshot{Values: out.Values})
	if bad != nil {
		return nil, errors.Join(err, bad)
	}
	return t.shown(ctx, &pawl.OutcomeOf[S]{Outcome: *out, State: state}, err)
}

// shown is an outcome as the innermost graph has it. What the outermost says of it must agree.
func (t *Thread[S]) shown(ctx context.Context, out *pawl.OutcomeOf[S], err error) (*pawl.OutcomeOf[S], error) {
	if out == nil || t.level.Depth == 0 {
		return out, err
	}
	ctx = context.WithoutCancel(ctx)
	s, bad := t.State(ctx)
	if bad != nil {
		return out, errors.Join(err, bad)
	}
	if out.Status == pawl.Done || s.Head == nil || s.Head.Path == "" {
		return out, err
	}
	state, bad := t.Read(s.Head)
	if bad != nil {
		return out, errors.Join(err, bad)
	}
	out.Values, out.State, out.Next = s.Head.Values, state, s.Head.Next
	if run := (*pawl.RunError)(nil); out.Status == pawl.Failed {
		out.Node = FailedIn(s.Head)
		if errors.As(err, &run) {
			run.Node = out.Node
		}
	}
	return out, err
}

// FailedIn is the node of a snapshot that failed; empty: none did.
func FailedIn(s *pawl.Snapshot) string {
	for _, task := range s.Tasks {
		if task.State == "failed" {
			return task.Node
		}
	}
	return ""
}

// asked says whether a path is one inside the innermost graph.
func (l Level) asked(path string) bool {
	parts := strings.Split(path, "|")
	return len(parts) > l.Depth && l.isInner(strings.Join(parts[:l.Depth], "|"))
}
