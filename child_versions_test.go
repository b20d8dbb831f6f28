package pawl_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/memdb"
)

// A run that is under way inside a child is bound to the nodes that the child met, and to no others.
func TestVersionsInsideAChild(t *testing.T) {
	t.Parallel()
	type change struct {
		b     func(*pawl.Builder[family]) *pawl.Builder[family]
		opts  map[string]pawl.NodeOption
		mode  pawl.ChildMode
		first string // difference; empty: the run goes on
		nodes int    // that differ, where it does not
	}
	nothing := func(context.Context, *family) error { return nil }
	graph := func(t *testing.T, c change) *pawl.Graph[family] {
		opt := func(node string) []pawl.NodeOption {
			if o := c.opts[node]; o != nil {
				return []pawl.NodeOption{o}
			}
			return nil
		}
		b := pawl.New[family]("inner").Node("a", nothing, opt("a")...).
			Node("asks", asksOkay, append(opt("asks"), pawl.Uses(okay))...).Node("later", nothing, opt("later")...).
			Path(pawl.Start, "a", "asks", "later")
		if c.b != nil {
			b = c.b(b)
		}
		mode := c.mode
		if mode == "" {
			mode = pawl.Inherit
		}
		return must(t, pawl.New[family]("outer").Add(pawl.Sub(must(t, b).Child("sub", mode), handIn, takeOut)).
			Node("end", nothing).Path(pawl.Start, "sub", "end"))
	}
	for name, c := range map[string]change{
		"same":                 {},
		"a node that ran":      {opts: map[string]pawl.NodeOption{"a": pawl.Version(2)}, first: `"sub|a"`, nodes: 1},
		"the node that waits":  {opts: map[string]pawl.NodeOption{"asks": pawl.Version(2)}, first: `"sub|asks"`, nodes: 1},
		"a node not met yet":   {opts: map[string]pawl.NodeOption{"later": pawl.Version(2)}},
		"another mode":         {mode: pawl.PerThread, first: `mode of child "sub"`},
		"a line behind a node": {b: func(b *pawl.Builder[family]) *pawl.Builder[family] { return b.Edge("a", "later") }, first: `"sub|a"`, nodes: 1},
		"another beginning":    {b: func(b *pawl.Builder[family]) *pawl.Builder[family] { return b.Edge(pawl.Start, "later") }, first: `"sub|__start__"`, nodes: 1},
		"a new node at the end": {b: func(b *pawl.Builder[family]) *pawl.Builder[family] {
			return b.Node("new", nothing).Edge("later", "new")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db, err := memdb.Open(pawl.Kinds()...)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			var out *pawl.OutcomeOf[family]
			for _, g := range []*pawl.Graph[family]{graph(t, change{}), graph(t, c)} {
				eng, err := pawl.NewEngine(db, nil)
				if err != nil {
					t.Fatal(err)
				}
				th := g.Thread(eng, "t")
				if out == nil {
					if out, err = th.Run(t.Context(), &family{}); err != nil {
						t.Fatal(err)
					}
					_ = eng.Close()
					continue
				}
				state, err := th.State(t.Context())
				if err != nil || !strings.Contains(state.Differs, c.first) || (state.Differs == "") != (c.first == "") {
					t.Errorf("it differs by %q, %v; want %s", state.Differs, err, c.first)
				}
				over, err := th.Resume(t.Context(), okay.Answer(out.Waiting[0].ID, "yes"))
				refused := (*pawl.VersionError)(nil)
				switch {
				case c.first == "" && (err != nil || over.Status != pawl.Done):
					t.Error(over, err)
				case c.first != "" && (!errors.As(err, &refused) || !strings.Contains(refused.First, c.first)):
					t.Error(over, err)
				case c.first != "" && refused.Changed != c.nodes:
					t.Errorf("%d nodes changed, want %d: %v", refused.Changed, c.nodes, err)
				}
				_ = eng.Close()
			}
		})
	}
}

// A child that went on under a newer graph than its parent's checkpoint is held to that one from there on.
func TestAChildUnderANewerGraph(t *testing.T) {
	t.Parallel()
	graph := func(t *testing.T, path ...string) *pawl.Graph[family] {
		b := pawl.New[family]("inner")
		for _, node := range path {
			b.Node(node, asksOkay, pawl.Uses(okay))
		}
		return must(t, pawl.New[family]("outer").Add(pawl.Sub(must(t, b.Path(append([]string{pawl.Start}, path...)...)).Child("sub", pawl.Inherit), handIn, takeOut)).
			Path(pawl.Start, "sub"))
	}
	db, err := memdb.Open(pawl.Kinds()...)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	run := func(do func(*pawl.ThreadOf[family]) (*pawl.OutcomeOf[family], error), path ...string) (*pawl.OutcomeOf[family], error) {
		eng, err := pawl.NewEngine(db, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer eng.Close()
		return do(graph(t, path...).Thread(eng, "t"))
	}
	resume := func(th *pawl.ThreadOf[family]) (*pawl.OutcomeOf[family], error) {
		return th.Resume(t.Context(), okay.Answer("", "yes"))
	}
	first, err := run(func(th *pawl.ThreadOf[family]) (*pawl.OutcomeOf[family], error) {
		return th.Run(t.Context(), &family{})
	}, "a", "b")
	if err != nil || first.Waiting[0].Node != "a" {
		t.Fatal(first, err)
	}
	second, err := run(resume, "a", "b", "c")
	if err != nil || second.Waiting[0].Node != "b" {
		t.Fatal(second, err)
	}
	refused := (*pawl.VersionError)(nil)
	if out, err := run(resume, "a", "b"); !errors.As(err, &refused) || !strings.Contains(refused.First, `"sub|b"`) {
		t.Error("b leads to c where it waits, and not in this graph:", out, err)
	}
	if out, err := run(func(th *pawl.ThreadOf[family]) (*pawl.OutcomeOf[family], error) {
		h, err := th.History(t.Context(), pawl.Page{In: pawl.Path(second.Waiting[0].Path[:strings.LastIndex(string(second.Waiting[0].Path), "|")])})
		if err != nil {
			t.Fatal(err)
		}
		return th.Replay(t.Context(), pawl.Checkpoint(h[0].Checkpoint))
	}, "a", "b"); !errors.As(err, &refused) || !strings.Contains(refused.First, `"sub|b"`) {
		t.Error("nor at the child's checkpoint:", out, err)
	}
	third, err := run(resume, "a", "b", "c")
	if err != nil || third.Waiting[0].Node != "c" {
		t.Fatal(third, err)
	}
	if last, err := run(resume, "a", "b", "c"); err != nil || last.Status != pawl.Done {
		t.Error(last, err)
	}
}
