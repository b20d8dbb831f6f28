package pawl_test

import (
	"context"
	"slices"
	"testing"

	"github.com/pawl-dev/pawl"
)

// The history of a child tells of each checkpoint what the history of a thread tells: all that was due there, and at the
// newest one what is left of it.
func TestNextInTheHistoryOfAChild(t *testing.T) {
	t.Parallel()
	nothing := func(context.Context, *family) error { return nil }
	inner := must(t, pawl.New[family]("inner").Node("quick", nothing).Node("asks", asksOkay, pawl.Uses(okay)).Node("last", nothing).
		Edge(pawl.Start, "quick").Edge(pawl.Start, "asks").Join([]string{"quick", "asks"}, "last"))
	eng := memoryEngine(t, nil)
	alone := inner.Thread(eng, "alone")
	inside := must(t, pawl.New[family]("outer").Add(pawl.Sub(inner.Child("sub"), handIn, takeOut)).Path(pawl.Start, "sub")).Thread(eng, "inside")
	next := func(th *pawl.Thread, in pawl.Path) (all [][]string) {
		h, err := th.History(t.Context(), pawl.Page{In: in})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range slices.Backward(h) {
			all = append(all, s.Next)
		}
		return all
	}
	compare := func(in pawl.Path, want ...[]string) {
		t.Helper()
		if got := next(alone.Thread, ""); !slices.EqualFunc(got, want, slices.Equal) {
			t.Errorf("alone: %q, want %q", got, want)
		}
		if got := next(inside.Thread, in); !slices.EqualFunc(got, want, slices.Equal) {
			t.Errorf("inside: %q, want %q", got, want)
		}
	}
	var in pawl.Path
	for _, th := range []*pawl.ThreadOf[family]{alone, inside} {
		out, err := th.Run(t.Context(), &family{})
		if err != nil || len(out.Waiting) != 1 {
			t.Fatal(out, err)
		}
		if state, err := th.State(t.Context()); err == nil && th == inside {
			in = state.Head.Tasks[0].Children[0].Path
		}
	}
	compare(in, []string{"__start__"}, []string{"asks"})
	for _, th := range []*pawl.ThreadOf[family]{alone, inside} {
		if _, err := th.Resume(t.Context(), okay.Answer("", "yes")); err != nil {
			t.Fatal(err)
		}
	}
	compare(in, []string{"__start__"}, []string{"asks", "quick"}, []string{"last"}, []string{})
}
