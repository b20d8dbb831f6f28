package pawl_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/pawl-dev/pawl"
)

// What waits is entered again by name: the answer that it has counts, its open question is closed and asked anew.
func TestAgainOnWhatWaits(t *testing.T) {
	t.Parallel()
	first, second := pawl.Interrupt[string, string]{Name: "first"}, pawl.Interrupt[string, string]{Name: "second"}
	for _, c := range []struct {
		name  string
		again string
		child bool
	}{{"a node", "asks", false}, {"a node of a child", "sub|asks", true}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e := entries{}
			b := pawl.New[family]("asking").
				Node("asks", e.node("asks", func(ctx context.Context, s *family) error {
					x, _ := first.Ask(ctx, "?")
					y, err := second.Ask(ctx, "?")
					s.Log.Add(x, y)
					return err
				}), pawl.Uses(first, second)).
				Node("beside", e.node("beside", nil)).Edge(pawl.Start, "asks").Edge(pawl.Start, "beside")
			g := must(t, b)
			if c.child {
				g = must(t, pawl.New[family]("outer").Add(pawl.Sub(g.Child("sub"), handIn, takeOut)).Path(pawl.Start, "sub"))
			}
			th := g.Thread(memoryEngine(t, &pawl.Options{Concurrency: 1}), "t")
			out, err := th.Run(t.Context(), &family{})
			if err != nil || len(out.Waiting) != 2 {
				t.Fatal(out, err)
			}
			if out, err = th.Resume(t.Context(), first.Answer(out.Waiting[0].ID, "1")); err != nil || len(out.Waiting) != 1 {
				t.Fatal(out, err)
			}
			old := out.Waiting[0].ID
			out, err = th.Resume(t.Context(), pawl.Again(c.again))
			if err != nil || len(out.Waiting) != 1 || out.Waiting[0].ID == old || e["asks"] != 2 || e["beside"] != 1 {
				t.Fatal(out, err, e)
			}
			stale := (*pawl.AnswerError)(nil)
			if _, err := th.Resume(t.Context(), second.Answer(old, "2")); !errors.As(err, &stale) || stale.Reason != pawl.ReasonWithdrawn {
				t.Error("an answer to the closed question:", err)
			}
			out, err = th.Resume(t.Context(), second.Answer(out.Waiting[0].ID, "2"))
			if err != nil || out.Status != pawl.Done || !slices.Contains(logOf(&out.State.Log), "2") || e["asks"] != 3 {
				t.Fatal(out, err, e)
			}
		})
	}
}

func TestAgainOnNothing(t *testing.T) {
	t.Parallel()
	th := relatives(t, entries{}, pawl.Inherit, 1).Thread(memoryEngine(t, nil), "t")
	out, err := th.Run(t.Context(), &family{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := th.Resume(t.Context(), pawl.Again("asks")); !errors.Is(err, pawl.ErrNotFound) {
		t.Error("a node of the child was found without its path:", err)
	}
	if st, err := th.State(t.Context()); err != nil || len(st.Waiting) != 1 || st.Waiting[0].ID != out.Waiting[0].ID {
		t.Error("something changed:", st, err)
	}
}
