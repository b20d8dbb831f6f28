package pawl_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
)

// relatives is START -> before -> sub (a -> b -> asks) -> END, with what was entered.
func relatives(t testing.TB, e entries, mode pawl.ChildMode, depth int) *pawl.Graph[family] {
	g := must(t, pawl.New[family]("inner").
		Node("a", e.node("a", nil)).
		Node("b", e.node("b", func(_ context.Context, s *family) error { s.Log.Add("b" + s.Word.Get()); return nil })).
		Node("asks", e.node("asks", asksOkay), pawl.Uses(okay)).
		Path(pawl.Start, "a", "b", "asks"))
	for range depth {
		g = must(t, pawl.New[family]("outer").
			Node("before", e.node("before", func(context.Context, *family) error { return nil })).
			Add(pawl.Sub(g.Child("sub", mode), handIn, takeOut)).
			Path(pawl.Start, "before", "sub"))
	}
	return g
}

func answered(t testing.TB, th *pawl.ThreadOf[family], out *pawl.OutcomeOf[family], err error, want ...string) {
	t.Helper()
	if err != nil || out.Status != pawl.Waiting {
		t.Fatal(out, err)
	}
	out, err = th.Resume(t.Context(), okay.Answer("", "yes"))
	if err != nil || out.Status != pawl.Done || !slices.Equal(logOf(&out.State.Log), want) {
		t.Fatal(out, err)
	}
}

// at finds the checkpoint of a child at which a node is due.
func at(t testing.TB, th *pawl.Thread, in pawl.Path, node string) *pawl.Snapshot {
	t.Helper()
	h, err := th.History(t.Context(), pawl.Page{In: in})
	for _, s := range h {
		if slices.Contains(s.Next, node) {
			return s
		}
	}
	t.Fatalf("%s is due nowhere in %q: %v", node, in, err)
	return nil
}

func TestForkInsideAChild(t *testing.T) {
	t.Parallel()
	for depth := 1; depth <= 3; depth++ {
		for _, mode := range []pawl.ChildMode{pawl.Inherit, pawl.PerThread} {
			e := entries{}
			th := relatives(t, e, mode, depth).Thread(memoryEngine(t, nil), "t")
			out, err := th.Run(t.Context(), &family{})
			if err != nil || len(out.Waiting) != 1 {
				t.Fatal(out, err)
			}
			first := out.Waiting[0]
			in := pawl.Path(first.Path[:strings.LastIndex(first.Path, "|")])
			answered(t, th, out, err, "a", "b", "two:yes")
			b := at(t, th.Thread, in, "b")
			if _, err := th.Fork(t.Context(), pawl.Checkpoint(b.Checkpoint), func(s *family) error { s.Word.Set("!"); return nil }); err == nil {
				t.Error("a typed edit of the parent was made in a child")
			}
			clear(e)
			raw, err := th.Thread.Fork(t.Context(), pawl.Checkpoint(b.Checkpoint), []byte(`{"word":"!"}`))
			if err != nil || raw.Status != pawl.Waiting || raw.Waiting[0].ID == first.ID {
				t.Fatal(raw, err)
			}
			if e["a"] != 0 || e["b"] != 1 || e["before"] != 0 {
				t.Error("what ran again:", e)
			}
			if _, err := th.Resume(t.Context()); err != nil {
				t.Fatal(err)
			}
			out, err = th.Resume(t.Context(), okay.Answer(raw.Waiting[0].ID, "no"))
			if err != nil || !slices.Equal(logOf(&out.State.Log), []string{"a", "b!", "two:no"}) {
				t.Fatal(mode, depth, out, err)
			}
			out, err = th.Replay(t.Context(), pawl.Before("sub"))
			answered(t, th, out, err, "a", "b", "two:yes")
		}
	}
}

func TestForkInsideIsRetriedThere(t *testing.T) {
	t.Parallel()
	e := entries{}
	boom := true
	inner := must(t, pawl.New[family]("inner").Node("a", e.node("a", nil)).
		Node("b", func(_ context.Context, s *family) error {
			if e["b"]++; boom && s.Word.Get() == "!" {
				return errors.New("boom")
			}
			s.Log.Add("b" + s.Word.Get())
			return nil
		}).Path(pawl.Start, "a", "b"))
	th := must(t, pawl.New[family]("outer").Add(pawl.Sub(inner.Child("sub", pawl.PerThread), handIn, takeOut)).Path(pawl.Start, "sub")).
		Thread(memoryEngine(t, nil), "t")
	if _, err := th.Run(t.Context(), &family{}); err != nil {
		t.Fatal(err)
	}
	if _, err := th.Thread.Fork(t.Context(), pawl.Checkpoint(at(t, th.Thread, "sub", "b").Checkpoint), []byte(`{"word":"!"}`)); err == nil {
		t.Fatal("it did not fail")
	}
	boom = false
	out, err := th.Retry(t.Context())
	if err != nil || !slices.Equal(logOf(&out.State.Log), []string{"a", "b!"}) || e["a"] != 1 || e["b"] != 3 {
		t.Fatal(out, err, e)
	}
}

// What begins anew in children is told by whatever leaves it behind: an edit as nobody, and a run that is given up.
func TestWhatAnEditDropsIsTold(t *testing.T) {
	t.Parallel()
	for name, verb := range map[string]func(th *pawl.ThreadOf[family]) (*pawl.Outcome, error){
		"edit": func(th *pawl.ThreadOf[family]) (*pawl.Outcome, error) {
			return th.Thread.Edit(t.Context(), []byte(`{}`))
		},
		"end": func(th *pawl.ThreadOf[family]) (*pawl.Outcome, error) {
			return th.EditAs(t.Context(), [][]pawl.TaskEdit{{{Node: pawl.End}}})
		},
	} {
		e := entries{}
		th := relatives(t, e, pawl.Inherit, 2).Thread(memoryEngine(t, nil), "t")
		if out, err := th.Run(t.Context(), &family{}); err != nil || out.Status != pawl.Waiting {
			t.Fatal(out, err)
		}
		out, err := verb(th)
		if err != nil || !slices.ContainsFunc(out.Dropped, func(path string) bool { return strings.HasSuffix(path, "|a") }) {
			t.Errorf("%s: dropped %v, want the path of a: %v", name, out.Dropped, err)
		}
	}
}

func TestEditInsideAChild(t *testing.T) {
	t.Parallel()
	e := entries{}
	th := relatives(t, e, pawl.Inherit, 2).Thread(memoryEngine(t, nil), "t")
	out, err := th.Run(t.Context(), &family{})
	if err != nil {
		t.Fatal(err)
	}
	path := out.Waiting[0].Path
	in := pawl.Path(path[:strings.LastIndex(path, "|")])
	raw, err := th.Thread.Edit(t.Context(), []byte(`{"log":["edited"]}`), pawl.In(in))
	if err != nil || raw.Status != pawl.Waiting || len(raw.Waiting) != 0 {
		t.Fatal(raw, err)
	}
	state, err := th.State(t.Context(), in)
	if err != nil || state.Head.Source != "edit" || !strings.Contains(string(state.Head.Values), "edited") {
		t.Fatal(state, err)
	}
	out, err = th.Resume(t.Context())
	answered(t, th, out, err, "a", "b", "edited", "two:yes")
	if e["a"] != 1 || e["b"] != 1 || e["asks"] != 3 {
		t.Error(e)
	}
	if _, err := th.Thread.Edit(t.Context(), []byte(`{}`), pawl.In(in)); !errors.Is(err, pawl.ErrNotFound) {
		t.Error("a child that is done was edited:", err)
	}
}
