package pawl_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
)

// Answers that have to be all are taken together or refused, with what they leave open, in the thread and in its children.
func TestAnswerAll(t *testing.T) {
	t.Parallel()
	asks := func(ctx context.Context, s *lines) error {
		answer, err := gate.Ask(ctx, "go?")
		if err == nil {
			s.Log.Add(answer)
		}
		return err
	}
	inner := linesOf(t, pawl.New[lines]("inner").Node("deep", asks, pawl.Uses(gate)).Path(pawl.Start, "deep"))
	g := linesOf(t, pawl.New[lines]("outer").
		Node("a", asks, pawl.Uses(gate)).Node("b", asks, pawl.Uses(gate)).
		Add(pawl.Sub(inner.Child("child"), func(*lines) *lines { return &lines{} },
			func(s *lines, r *pawl.Result[lines]) error { s.Log.Add(logged(r.State)...); return nil })).
		Edge(pawl.Start, "a").Edge(pawl.Start, "b").Edge(pawl.Start, "child"))
	eng := opened(t, hooked(t), nil)
	th := g.Thread(eng, "t")
	out, err := th.Run(t.Context(), nil)
	if err != nil || len(out.Waiting) != 3 {
		t.Fatalf("%+v, %v", out, err)
	}
	ids := map[string]string{}
	for _, q := range out.Waiting {
		ids[q.Node] = q.ID
	}
	yes := func(nodes ...string) (list []pawl.RunOption) {
		for _, node := range nodes {
			list = append(list, gate.Answer(ids[node], "yes "+node))
		}
		return append(list, pawl.AnswerAll())
	}
	refused := func(name string, left []string, options ...pawl.RunOption) {
		t.Helper()
		_, err := th.Resume(t.Context(), options...)
		e := (*pawl.AnswerError)(nil)
		if !errors.As(err, &e) || e.Reason != pawl.ReasonPartial || !slices.Equal(slices.Sorted(slices.Values(e.Open)), left) {
			t.Errorf("%s: %v, want %q left open", name, err, left)
		} else if !strings.Contains(err.Error(), left[0]) || !strings.Contains(err.Error(), "nothing was consumed") {
			t.Errorf("%s: %v", name, err)
		}
	}
	sorted := func(nodes ...string) (list []string) {
		for _, node := range nodes {
			list = append(list, ids[node])
		}
		slices.Sort(list)
		return list
	}
	refused("no answer", sorted("a", "b", "deep"), yes()...)
	refused("all but the child's", sorted("deep"), yes("a", "b")...)
	refused("the child's alone", sorted("a", "b"), yes("deep")...)
	if st, err := th.State(t.Context()); err != nil || len(st.Waiting) != 3 {
		t.Errorf("a refused set was taken in part: %+v, %v", st, err)
	}
	if _, err := th.Run(t.Context(), nil, pawl.AnswerAll()); err == nil || !strings.Contains(err.Error(), "takes no AnswerAll option") {
		t.Errorf("with run: %v", err)
	}
	if _, err := eng.Answer(t.Context(), ids["b"], "yes b"); err != nil { // who answered before is no part of the set any more
		t.Fatal(err)
	}
	refused("one of two", sorted("deep"), yes("a")...)
	out, err = th.Resume(t.Context(), yes("a", "b", "deep")...) // that one again is no fault
	if err != nil || !slices.Equal(logged(out.State), []string{"yes a", "yes b", "yes deep"}) {
		t.Errorf("%+v, %v", out, err)
	}
	if out, err = th.Resume(t.Context(), pawl.AnswerAll()); err != nil || out.Status != pawl.Done {
		t.Errorf("with nothing open: %+v, %v", out, err)
	}
}
