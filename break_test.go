package pawl_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/storage/fault"
)

// abc is a -> b -> c, each of which writes its name.
func abc(t *testing.T, change ...func(*pawl.Builder[note])) *pawl.Graph[note] {
	t.Helper()
	b := pawl.New[note]("line").Path(pawl.Start, "a", "b", "c")
	for _, name := range []string{"a", "b", "c"} {
		b.Node(name, func(_ context.Context, s *note) error { s.Text.Set(s.Text.Get() + name); return nil })
	}
	for _, c := range change {
		c(b)
	}
	return built(t, b)
}

// Where runs stop, as the state at each stop, when they are resumed with the same options until they are done.
func TestBreakpoints(t *testing.T) {
	t.Parallel()
	sub := func(inner *pawl.Graph[note], mode pawl.ChildMode) *pawl.Graph[note] {
		child := inner.Child("inner", mode)
		return built(t, pawl.New[note]("outer").Add(pawl.Sub(child, func(*note) *note { return nil }, func(s *note, r *pawl.Result[note]) error {
			s.Text.Set("(" + r.State.Text.Get() + ")")
			return nil
		})).Path(pawl.Start, "inner"))
	}
	before := func(b *pawl.Builder[note]) { b.BreakBefore("b") }
	after := func(b *pawl.Builder[note]) { b.BreakAfter("b") }
	for _, c := range []struct {
		name string
		g    *pawl.Graph[note]
		opts []pawl.RunOption
		want string
	}{
		{"before the first", abc(t), []pawl.RunOption{pawl.BreakBefore("a")}, " abc"},
		{"before one", abc(t), []pawl.RunOption{pawl.BreakBefore("b")}, "a abc"},
		{"after one", abc(t), []pawl.RunOption{pawl.BreakAfter("a")}, "a abc"},
		{"after the last", abc(t), []pawl.RunOption{pawl.BreakAfter("c")}, "abc"},
		{"after one and before the next", abc(t), []pawl.RunOption{pawl.BreakAfter("a"), pawl.BreakBefore("b")}, "a abc"},
		{"before each", abc(t), []pawl.RunOption{pawl.BreakBefore(pawl.Everywhere)}, " a ab abc"},
		{"after each", abc(t), []pawl.RunOption{pawl.BreakAfter(pawl.Everywhere)}, "a ab abc"},
		{"as built", abc(t, before, after), nil, "a ab abc"},
		{"in a child", sub(abc(t, before, after), pawl.Inherit), nil, "  (abc)"},
		{"in a child that remembers", sub(abc(t, before, after), pawl.PerThread), nil, "  (abc)"},
		{"in a child that keeps nothing", sub(abc(t, before, after), pawl.Stateless), nil, "(abc)"},
	} {
		for _, mode := range []pawl.Durability{pawl.Sync, pawl.Async, pawl.Exit} {
			t.Run(c.name+"/"+string(mode), func(t *testing.T) {
				t.Parallel()
				th := c.g.Thread(opened(t, hooked(t), &pawl.Options{Durability: mode}), "t")
				out, err := th.Run(t.Context(), nil, c.opts...)
				var got []string
				for range 9 {
					if err != nil || len(out.Waiting) > 0 {
						t.Fatal(out, err)
					}
					if got = append(got, out.State.Text.Get()); out.Status == pawl.Done {
						break
					}
					if st := status(t, th); st.Status != pawl.Waiting {
						t.Fatalf("it stopped as %s", st.Status)
					}
					out, err = th.Resume(t.Context(), c.opts...)
				}
				if strings.Join(got, " ") != c.want || out.Status != pawl.Done {
					t.Errorf("stopped at %q; want %q", strings.Join(got, " "), c.want)
				}
			})
		}
	}
}

// Breakpoints that a run was given are kept with it, over crashes and retries, until others take their place.
func TestBreakpointsStayWithTheRun(t *testing.T) {
	t.Parallel()
	home := hooked(t)
	th := func() *pawl.ThreadOf[note] { return abc(t).Thread(opened(t, home, nil), "t") } // each time another process
	stops := func(what string, out *pawl.OutcomeOf[note], err error, status pawl.Status, text string) {
		t.Helper()
		if err != nil || out.Status != status || out.State.Text.Get() != text {
			t.Fatalf("%s: %+v, %v; want %s at %q", what, out, err, status, text)
		}
	}
	out, err := th().Run(t.Context(), nil, pawl.BreakBefore("a"), pawl.BreakAfter("b"))
	stops("run", out, err, pawl.Waiting, "")
	out, err = th().Resume(t.Context())
	stops("resume", out, err, pawl.Waiting, "ab")
	if err := th().Cancel(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	out, err = th().Retry(t.Context())
	stops("retry", out, err, pawl.Waiting, "")
	out, err = th().Resume(t.Context(), pawl.BreakBefore("b", "c"))
	stops("others in their place", out, err, pawl.Waiting, "a")
	out, err = th().Resume(t.Context())
	stops("the second of them", out, err, pawl.Waiting, "ab")
	out, err = th().Resume(t.Context())
	stops("over", out, err, pawl.Done, "abc")
	out, err = th().Run(t.Context(), nil)
	stops("a new run has none", out, err, pawl.Done, "abcabc")

	out, err = th().Fork(t.Context(), pawl.Before("b"), nil, pawl.BreakBefore("c"))
	stops("fork", out, err, pawl.Waiting, "abcab")
	out, err = th().Resume(t.Context(), pawl.BreakBefore())
	stops("taken away", out, err, pawl.Done, "abcabc")
}

// A process that dies before a breakpoint does not take it along.
func TestBreakpointAfterACrash(t *testing.T) {
	t.Parallel()
	home := hooked(t)
	dying := fault.Wrap(home, fault.Plan{})
	b := pawl.New[note]("line").Path(pawl.Start, "a", "b")
	b.Node("a", func(_ context.Context, s *note) error { dying.Stop(); s.Text.Set("a"); return nil })
	b.Node("b", func(_ context.Context, s *note) error { s.Text.Set("b"); return nil })
	g := built(t, b)
	if _, err := g.Thread(opened(t, dying, nil), "t").Run(t.Context(), nil, pawl.BreakBefore("b")); !errors.Is(err, fault.ErrStopped) {
		t.Fatal(err)
	}
	out, err := g.Thread(opened(t, home, nil), "t").Resume(t.Context())
	if err != nil || out.Status != pawl.Waiting || out.State.Text.Get() != "a" {
		t.Errorf("resumed after the crash: %+v, %v", out, err)
	}
}

// Breakpoints that come with a Resume which has nothing to enter count all the same.
func TestBreakpointsWhileAQuestionIsOpen(t *testing.T) {
	t.Parallel()
	ask := pawl.Interrupt[string, string]{Name: "ask"}
	b := pawl.New[note]("line").Path(pawl.Start, "a", "b")
	b.Node("a", func(ctx context.Context, s *note) error { _, err := ask.Ask(ctx, "?"); return err }, pawl.Uses(ask))
	b.Node("b", func(_ context.Context, s *note) error { s.Text.Set("b"); return nil })
	eng := opened(t, hooked(t), nil)
	th := built(t, b).Thread(eng, "t")
	out, err := th.Run(t.Context(), nil)
	if err == nil {
		_, err = th.Resume(t.Context(), pawl.BreakBefore("b"))
	}
	if err == nil {
		_, err = eng.Answer(t.Context(), out.Waiting[0].ID, "yes")
	}
	if err == nil {
		out, err = th.Resume(t.Context())
	}
	if err != nil || out.Status != pawl.Waiting || out.State.Text.Get() != "" {
		t.Errorf("%+v, %v", out, err)
	}
}

// A stop is changed and gone on from.
func TestBreakpointThenEdit(t *testing.T) {
	t.Parallel()
	th := abc(t).Thread(opened(t, hooked(t), nil), "t")
	if out, err := th.Run(t.Context(), nil, pawl.BreakBefore("b")); err != nil || out.Status != pawl.Waiting {
		t.Fatal(out, err)
	}
	if _, err := th.Edit(t.Context(), func(s *note) error { s.Text.Set("x"); return nil }); err != nil {
		t.Fatal(err)
	}
	if out, err := th.Resume(t.Context()); err != nil || out.State.Text.Get() != "xbc" {
		t.Error(out, err)
	}
}

func TestBreakpointOfAnUnknownNode(t *testing.T) {
	t.Parallel()
	th := abc(t).Thread(opened(t, hooked(t), nil), "t")
	_, err := th.Run(t.Context(), nil, pawl.BreakBefore("nowhere"))
	if n := (*pawl.NotFoundError)(nil); !errors.As(err, &n) || n.ID != "nowhere" {
		t.Error(err)
	}
	if st := status(t, th); st.Status != pawl.StatusNew {
		t.Errorf("it was started: %s", st.Status)
	}
	_, err = pawl.New[note]("g").Node("a", func(context.Context, *note) error { return nil }).Edge(pawl.Start, "a").BreakAfter("nowhere").Build()
	if err == nil || !strings.Contains(err.Error(), `breakpoint: there is no node "nowhere"`) {
		t.Error(err)
	}
}

// The breakpoints that a graph was built with are in its description, those of children under the child's name.
func TestBreakpointsAreDescribed(t *testing.T) {
	t.Parallel()
	inner := abc(t, func(b *pawl.Builder[note]) { b.BreakBefore("b").BreakAfter(pawl.Everywhere) })
	outer := built(t, pawl.New[note]("outer").Node("x", func(context.Context, *note) error { return nil }, pawl.Uses(inner.Child("sub"))).
		Path(pawl.Start, "x").BreakAfter("x"))
	for g, want := range map[*pawl.Graph[note]][2][]string{
		outer: {{"sub|b"}, {"x", "sub|*"}}, inner: {{"b"}, {"*"}}, abc(t): {},
	} {
		doc, err := g.JSON()
		var told struct{ Before, After []string }
		if err := errors.Join(err, json.Unmarshal(doc, &told)); err != nil || !slices.Equal(told.Before, want[0]) || !slices.Equal(told.After, want[1]) {
			t.Errorf("%+v, %v; want %v", told, err, want)
		}
	}
}
