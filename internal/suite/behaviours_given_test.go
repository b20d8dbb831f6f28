package suite

import (
	"context"
	"fmt"
	"testing"

	"github.com/pawl-dev/pawl"
)

// givenRows are of what a run is given, and of what is read of it.
func givenRows() []scenario {
	return []scenario{
		{id: "LIM-05", run: each(rowStepsLeft)}, {id: "RUN-02", run: each(rowGivenMore)}, {id: "SUB-34", run: each(rowGivenInside)},
		{id: "SUB-18", run: each(rowWithoutChildren)},
	}
}

// What a run is given besides its input.
type (
	locale string
	budget int
)

// rowStepsLeft: a node reads how many super-steps are left, and whether it is the last; no channel holds it.
func rowStepsLeft(t *testing.T, h *home) {
	b := pawl.New[rowState]("row").Path(pawl.Start, "a", "b", "c")
	for _, name := range []string{"a", "b", "c"} {
		b.Node(name, func(ctx context.Context, s *rowState) error {
			s.Log.Add(fmt.Sprint(pawl.RemainingSteps(ctx), " ", pawl.RemainingSteps(ctx) == 1))
			return nil
		})
	}
	out, _ := ran(t, rowThread(t, h, b, &pawl.Options{Limits: pawl.Limits{Steps: 3}}), pawl.Done)
	same(t, "left", logOf(out.State), []string{"3 false", "2 false", "1 true"})
	same(t, "state", string(out.Values), `{"log":["3 false","2 false","1 true"]}`)
}

// rowGivenMore: a node that calls a child with one more value, or with none, takes nothing away of what it was given.
func rowGivenMore(t *testing.T, h *home) {
	reads := build(t, single(func(ctx context.Context, s *rowState) error {
		l, _ := pawl.Value[locale](ctx)
		n, more := pawl.Value[budget](ctx)
		s.Log.Add(fmt.Sprint(l, " ", n, " ", more, " ", pawl.ActorFrom(ctx).ID))
		return nil
	})).Child("reads")
	b := single(func(ctx context.Context, s *rowState) error {
		for i, with := range []context.Context{ctx, pawl.WithValue(ctx, budget(7)), pawl.WithValue(ctx, locale("fr"))} {
			r, err := reads.Call(with, &rowState{}, pawl.Key(fmt.Sprint(i)))
			if err != nil {
				return err
			}
			s.Log.Add(logOf(r.State)...)
		}
		return nil
	}, pawl.Uses(reads))
	ctx := pawl.WithActor(pawl.WithValue(t.Context(), locale("de")), pawl.Actor{ID: "ann"})
	out, err := rowThread(t, h, b, nil).Run(ctx, &rowState{})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "seen", logOf(out.State), []string{"de 0 false ann", "de 7 true ann", "fr 0 false ann"})
}

// rowGivenInside: what a run is given reaches children of children, as nodes and as calls.
func rowGivenInside(t *testing.T, h *home) {
	inner := build(t, single(func(ctx context.Context, s *rowState) error {
		l, ok := pawl.Value[locale](ctx)
		s.Log.Add(fmt.Sprint(l, " ", ok))
		return nil
	}))
	middle := nested(t, single(func(ctx context.Context, s *rowState) error {
		r, err := inner.Child("inner").Call(ctx, &rowState{})
		if err != nil {
			return err
		}
		s.Log.Add(logOf(r.State)...)
		return nil
	}, pawl.Uses(inner.Child("inner"))))
	out, err := rowThread(t, h, middle, nil).Run(pawl.WithValue(t.Context(), locale("de")), &rowState{})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "seen", logOf(out.State), []string{"de true"})
}

// rowWithoutChildren: the head in a history has, in place of a child, the path by which it is read.
func rowWithoutChildren(t *testing.T, h *home) {
	th := rowThread(t, h, nested(t, asking()), nil)
	ran(t, th, pawl.Waiting)
	whole := statusOf(t, th)
	same(t, "children with the head", len(whole.Head.Tasks[0].Children), 1)
	alone := history(t, th)[0].Tasks[0]
	same(t, "children in the history", len(alone.Children), 0)
	same(t, "the child's path", pawl.Path(alone.Path), whole.Head.Tasks[0].Children[0].Path)
	inside, err := th.State(t.Context(), pawl.Path(alone.Path))
	if err != nil || inside.Head.Checkpoint != whole.Head.Tasks[0].Children[0].Checkpoint || inside.Head.Next[0] != "a" {
		t.Error(inside, err)
	}
}
