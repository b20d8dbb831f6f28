package pawl_test

import (
	"context"
	"slices"
	"testing"

	"github.com/pawl-dev/pawl"
)

// wordIn gives a child a word of its own, which its parent does not have.
func wordIn(*family) *family { return &family{Word: pawl.Of("in")} }

func logsWord(_ context.Context, s *family) error { s.Log.Add("a" + s.Word.Get()); return nil }

// childrenOf are the children of a thread that its task began last, the outermost first.
func childrenOf(t *testing.T, th *pawl.Thread, deep int) (paths []pawl.Path) {
	t.Helper()
	in := pawl.Path("")
	for range deep {
		h, err := th.History(t.Context(), pawl.Page{In: in})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range h {
			whole, err := th.Snapshot(t.Context(), s.Checkpoint)
			if err != nil {
				t.Fatal(err)
			}
			if len(whole.Tasks) == 1 && len(whole.Tasks[0].Children) == 1 {
				in = whole.Tasks[0].Children[0].Path
				break
			}
		}
		paths = append(paths, in)
	}
	return paths
}

// A child that stands at its beginning goes on with its own input: after a fork or replay from there, and after its first
// route failed.
func TestAChildBeginsAgainWithItsInput(t *testing.T) {
	t.Parallel()
	for _, mode := range []pawl.ChildMode{pawl.Inherit, pawl.PerThread} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			inner := must(t, pawl.New[family]("inner").Node("a", logsWord).Path(pawl.Start, "a"))
			th := must(t, pawl.New[family]("outer").Add(pawl.Sub(inner.Child("sub", mode), wordIn, takeOut)).Path(pawl.Start, "sub")).
				Thread(memoryEngine(t, nil), "t")
			if _, err := th.Run(t.Context(), &family{Word: pawl.Of("outer")}); err != nil {
				t.Fatal(err)
			}
			h, err := th.History(t.Context(), pawl.Page{In: childrenOf(t, th.Thread, 1)[0]})
			if err != nil || len(h) != 3 {
				t.Fatal(h, err)
			}
			out, err := th.Replay(t.Context(), pawl.Checkpoint(h[2].Checkpoint))
			if err != nil || !slices.Equal(logOf(&out.State.Log), []string{"ain"}) {
				t.Errorf("replayed: %v, %v", out, err)
			}
		})
	}
	t.Run("its first route failed", func(t *testing.T) {
		t.Parallel()
		broken := true
		inner := must(t, pawl.New[family]("inner").Node("a", logsWord).Route(pawl.Start, func(*family) []pawl.Next {
			if broken {
				panic("out of order")
			}
			return pawl.To("a")
		}, "a"))
		th := must(t, pawl.New[family]("outer").Add(pawl.Sub(inner.Child("sub"), wordIn, takeOut)).Path(pawl.Start, "sub")).
			Thread(memoryEngine(t, nil), "t")
		if out, err := th.Run(t.Context(), &family{Word: pawl.Of("outer")}); err == nil {
			t.Fatal(out)
		}
		broken = false
		out, err := th.Resume(t.Context())
		if err != nil || !slices.Equal(logOf(&out.State.Log), []string{"ain"}) {
			t.Errorf("resumed: %v, %v", out, err)
		}
	})
}

// A grandchild lies in the child that began it, also when that was resumed before.
func TestAChildOfAResumedChild(t *testing.T) {
	t.Parallel()
	innermost := must(t, pawl.New[family]("innermost").Node("a", logsWord).Node("b", logsWord).Path(pawl.Start, "a", "b"))
	inner := must(t, pawl.New[family]("inner").Node("asks", asksOkay, pawl.Uses(okay)).Add(pawl.Sub(innermost.Child("grandchild"), wordIn, takeOut)).
		Path(pawl.Start, "asks", "grandchild"))
	th := must(t, pawl.New[family]("outer").Add(pawl.Sub(inner.Child("child"), handIn, takeOut)).Path(pawl.Start, "child")).
		Thread(memoryEngine(t, nil), "t")
	out, err := th.Run(t.Context(), &family{})
	if err != nil || out.Status != pawl.Waiting {
		t.Fatal(out, err)
	}
	if _, err := th.Resume(t.Context(), okay.Answer("", "yes")); err != nil {
		t.Fatal(err)
	}
	paths := childrenOf(t, th.Thread, 2)
	h, err := th.History(t.Context(), pawl.Page{In: paths[1]})
	if err != nil || len(h) != 4 {
		t.Fatal(h, err)
	}
	if _, ok := h[0].Parents[paths[0]]; !ok || len(h[0].Parents) != 2 {
		t.Errorf("around the grandchild: %v, want a checkpoint of the thread and one of %s", h[0].Parents, paths[0])
	}
	raw, err := th.Thread.Fork(t.Context(), pawl.Checkpoint(h[1].Checkpoint), []byte(`{"word":"!"}`))
	if err != nil || raw.Status != pawl.Done {
		t.Fatal(raw, err)
	}
	state, err := th.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if s, err := th.Read(state.Head); err != nil || !slices.Equal(logOf(&s.Log), []string{"two:yes", "ain", "a!"}) {
		t.Error(string(state.Head.Values), err)
	}
}
