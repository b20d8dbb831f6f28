package pawl_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
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

// A stop is changed and gone on from; without the option Resume runs to the end.
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
