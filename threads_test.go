package pawl_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
)

func TestThreadsSayWhyTheyStand(t *testing.T) {
	t.Parallel()
	ctx, db, v := t.Context(), hooked(t), &visits{}
	eng := opened(t, db, nil)
	timed := pawl.Interrupt[string, string]{Name: "timed", Expires: time.Hour}
	g := linesOf(t, pawl.New[lines]("g").Node("a", linesNode(v, "a")).
		Node("ask", func(ctx context.Context, s *lines) error {
			_, one := gate.Ask(ctx, "1", pawl.Key("1"))
			_, two := timed.Ask(ctx, "2")
			return errors.Join(one, two)
		}, pawl.Uses(gate, timed)).
		Node("fail", func(context.Context, *lines) error { return errors.New("down") }).
		Route("a", func(s *lines) []pawl.Next {
			if s.Log.At(0) == "fail" {
				return pawl.To("fail")
			}
			return pawl.To("ask")
		}, "ask", "fail").Edge(pawl.Start, "a"))
	run := func(id, first string, o ...pawl.RunOption) *pawl.ThreadOf[lines] {
		s := &lines{}
		s.Log.Add(first)
		th := g.Thread(eng, id)
		if _, err := th.Run(ctx, s, o...); (err != nil) != (first == "fail") {
			t.Fatal(err)
		}
		return th
	}
	run("asks", "")
	answered := run("decided", "")
	st, err := answered.State(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range st.Waiting {
		if _, err := eng.Answer(ctx, q.ID, "yes"); err != nil {
			t.Fatal(err)
		}
	}
	run("before", "", pawl.BreakBefore("ask"))
	run("failed", "fail")
	if err := run("stopped", "").Cancel(ctx, "enough"); err != nil {
		t.Fatal(err)
	}
	within, drain := pawl.WithDrain(ctx)
	drain("deploy")
	if _, err := g.Thread(eng, "drained").Run(within, &lines{}); err != nil {
		t.Fatal(err)
	}

	list, err := eng.Threads(ctx, "", 0)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, l := range list {
		line := fmt.Sprint(l.Thread, " ", l.Status, " ", l.Cause, " ", l.Reason, " ", l.Breakpoint)
		var open []string
		for _, w := range l.Waiting {
			open = append(open, fmt.Sprint(" ", w.Name, " ", w.ID != "", " ", w.Due.IsZero()))
		}
		slices.Sort(open)
		got = append(got, line+fmt.Sprint(open))
	}
	want := []string{
		"asks waiting   false[ gate true true  timed true false]", "before waiting   true[]", "decided waiting   false[]",
		"drained waiting drained deploy false[]", "failed failed error thread \"failed\": node \"fail\" (try 1): down false[]",
		"stopped cancelled  enough false[]",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
