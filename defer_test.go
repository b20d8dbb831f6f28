package pawl_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
)

// A deferred node that was led to stays so over a question, an answer, an edit and a fork, and runs once.
func TestDeferredNodeSurvivesWhatAThreadGoesThrough(t *testing.T) {
	t.Parallel()
	fine := pawl.Interrupt[string, string]{Name: "fine"}
	nothing := func(context.Context, *note) error { return nil }
	sums := 0
	g := built(t, pawl.New[note]("sum").
		Node("first", nothing).
		Node("ask", func(ctx context.Context, s *note) error {
			answer, err := fine.Ask(ctx, "fine?")
			if err == nil {
				s.Text.Set(answer)
			}
			return err
		}, pawl.Uses(fine)).
		Node("sum", func(_ context.Context, s *note) error { sums++; s.Text.Set(s.Text.Get() + "!"); return nil }, pawl.Defer()).
		Edge(pawl.Start, "first").Edge("first", "ask").Edge("first", "sum"))
	th := g.Thread(opened(t, hooked(t), nil), "t")
	out, err := th.Run(t.Context(), nil)
	if err != nil || out.Status != pawl.Waiting || !slices.Equal(out.Next, []string{"ask"}) || sums != 0 {
		t.Fatal(out, err, sums)
	}
	if out, err = th.Resume(t.Context(), fine.Answer("", "yes")); err != nil || out.State.Text.Get() != "yes!" || sums != 1 {
		t.Fatal(out, err, sums)
	}
	if out, err = th.Replay(t.Context(), pawl.Before("ask")); err != nil || out.Status != pawl.Waiting {
		t.Fatal(out, err)
	}
	if _, err = th.Edit(t.Context(), func(s *note) error { s.Text.Set("edited"); return nil }); err != nil {
		t.Fatal(err)
	}
	if out, err = th.Resume(t.Context()); err != nil || out.Status != pawl.Waiting {
		t.Fatal(out, err)
	}
	if out, err = th.Resume(t.Context(), fine.Answer("", "again")); err != nil || out.State.Text.Get() != "again!" || sums != 2 {
		t.Fatal(out, err, sums)
	}
}

func TestDeferIsPartOfTheVersion(t *testing.T) {
	t.Parallel()
	db := hooked(t)
	fine := pawl.Interrupt[string, string]{Name: "fine"}
	graph := func(options ...pawl.NodeOption) *pawl.Graph[note] {
		return built(t, pawl.New[note]("sum").
			Node("ask", func(ctx context.Context, _ *note) error { _, err := fine.Ask(ctx, "fine?"); return err }, pawl.Uses(fine)).
			Node("first", func(context.Context, *note) error { return nil }).
			Node("sum", func(context.Context, *note) error { return nil }, options...).
			Edge(pawl.Start, "first").Edge("first", "ask").Edge("first", "sum").
			Migrate(pawl.Migration{From: `deferral of node "sum"`}))
	}
	eng := opened(t, db, nil)
	out, err := graph(pawl.Defer()).Thread(eng, "t").Run(t.Context(), nil)
	if err != nil || out.Status != pawl.Waiting {
		t.Fatal(out, err)
	}
	th := graph().Thread(opened(t, db, nil), "t")
	_, err = th.Resume(t.Context(), fine.Answer(out.Waiting[0].ID, "yes"))
	if v := (*pawl.VersionError)(nil); !errors.As(err, &v) || v.First != `deferral of node "sum": was deferred, is not deferred` {
		t.Fatal(err)
	}
	if _, err := th.Migrate(t.Context(), pawl.Reason("no need to wait")); err != nil {
		t.Fatal(err)
	}
	if st := status(t, th); !slices.Equal(st.Head.Next, []string{"ask", "sum"}) {
		t.Errorf("after the migration %v are due", st.Head.Next)
	}
}

func TestDeferOfAWorkerIsAFault(t *testing.T) {
	t.Parallel()
	w := pawl.NewWorker("w", func(context.Context, *note, int) error { return nil }, pawl.Defer())
	_, err := pawl.New[note]("sum").Add(w).Route(pawl.Start, func(*note) []pawl.Next { return w.With(1) }, "w").Build()
	if err == nil || !strings.Contains(err.Error(), `worker "w": Defer`) {
		t.Errorf("built: %v", err)
	}
}
