package pawl_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/memdb"
)

type family struct {
	Log  pawl.Append[string] `json:"log"`
	Word pawl.Last[string]   `json:"word"`
	N    pawl.Sum[int64]     `json:"n"`
}

var okay = pawl.Interrupt[string, string]{Name: "ok"}

// entries counts how often nodes are entered.
type entries map[string]int

func (e entries) node(name string, does func(context.Context, *family) error) func(context.Context, *family) error {
	return func(ctx context.Context, s *family) error {
		e[name]++
		if does != nil {
			return does(ctx, s)
		}
		s.Log.Add(name)
		return nil
	}
}

func asksOkay(ctx context.Context, s *family) error {
	answer, err := okay.Ask(ctx, "ok?")
	if err == nil {
		s.Log.Add("two:" + answer)
	}
	return err
}

func must[S any](t testing.TB, b *pawl.Builder[S]) *pawl.Graph[S] {
	t.Helper()
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func logOf(l *pawl.Append[string]) (out []string) {
	for _, item := range l.All() {
		out = append(out, item)
	}
	return out
}

func handIn(s *family) *family { return &family{Word: pawl.Of(s.Word.Get())} }

func takeOut(s *family, r *pawl.Result[family]) error {
	s.Log.Add(logOf(&r.State.Log)...)
	return nil
}

func memoryEngine(t testing.TB, o *pawl.Options) *pawl.Engine {
	t.Helper()
	db, err := memdb.Open(pawl.Kinds()...)
	if err != nil {
		t.Fatal(err)
	}
	eng, err := pawl.NewEngine(db, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = eng.Close(); _ = db.Close() })
	return eng
}

// pausing is a child of two nodes of which the second asks, as a node of a parent.
func pausing(t testing.TB, e entries, mode pawl.ChildMode) *pawl.Graph[family] {
	child := must(t, pawl.New[family]("inner").
		Node("one", e.node("one", nil)).
		Node("two", e.node("two", asksOkay), pawl.Uses(okay)).
		Path(pawl.Start, "one", "two"))
	return must(t, pawl.New[family]("outer").
		Add(pawl.Sub(child.Child("child", mode), handIn, takeOut)).
		Path(pawl.Start, "child"))
}

func TestChildIsOneStepOfItsParent(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 2, 5} {
		e := entries{}
		b, path := pawl.New[family]("inner"), []string{pawl.Start}
		for i := range n {
			name := fmt.Sprint("n", i)
			b.Node(name, e.node(name, nil))
			path = append(path, name)
		}
		g := must(t, pawl.New[family]("outer").Add(pawl.Sub(must(t, b.Path(path...)).Child("child"), handIn, takeOut)).Path(pawl.Start, "child"))
		th := g.Thread(memoryEngine(t, nil), "t")
		out, err := th.Run(t.Context(), &family{})
		if err != nil || out.Status != pawl.Done || !slices.Equal(logOf(&out.State.Log), path[1:]) {
			t.Fatal(out, err)
		}
		if h, err := th.History(t.Context(), pawl.Page{}); err != nil || len(h) != 3 {
			t.Fatal(len(h), err)
		}
	}
}

func TestChildPausesAndGoesOn(t *testing.T) {
	t.Parallel()
	for _, mode := range []pawl.ChildMode{pawl.Inherit, pawl.PerThread, pawl.Stateless} {
		t.Run(string(mode), func(t *testing.T) {
			e := entries{}
			th := pausing(t, e, mode).Thread(memoryEngine(t, nil), "t")
			out, err := th.Run(t.Context(), &family{})
			if err != nil || out.Status != pawl.Waiting || len(out.Waiting) != 1 {
				t.Fatal(out, err)
			}
			if path := out.Waiting[0].Path; !strings.HasPrefix(path, "child") || strings.Count(path, "|") != 1 || !strings.Contains(path, "|two:") {
				t.Error(path)
			}
			out, err = th.Resume(t.Context(), okay.Answer(out.Waiting[0].ID, "yes"))
			if err != nil || out.Status != pawl.Done || !slices.Equal(logOf(&out.State.Log), []string{"one", "two:yes"}) {
				t.Fatal(out, err)
			}
			ones := 1
			if mode == pawl.Stateless {
				ones = 2
			}
			if e["one"] != ones || e["two"] != 2 {
				t.Error(e)
			}
			if h, err := th.History(t.Context(), pawl.Page{}); err != nil || len(h) != 3 {
				t.Error(len(h), err)
			}
		})
	}
}

func TestChildThatFailed(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	e := entries{}
	child := must(t, pawl.New[family]("inner").
		Node("one", e.node("one", nil)).
		Node("two", e.node("two", func(context.Context, *family) error {
			if e["two"] == 1 {
				return boom
			}
			return nil
		})).
		Path(pawl.Start, "one", "two"))
	g := must(t, pawl.New[family]("outer").Add(pawl.Sub(child.Child("child"), handIn, takeOut)).Path(pawl.Start, "child"))
	th := g.Thread(memoryEngine(t, nil), "t")
	_, err := th.Run(t.Context(), &family{})
	if failed := (*pawl.ChildError)(nil); !errors.As(err, &failed) || !errors.Is(err, boom) || !strings.Contains(err.Error(), "|two:") {
		t.Fatal(err)
	}
	out, err := th.Resume(t.Context())
	if err != nil || out.Status != pawl.Done || e["one"] != 1 || e["two"] != 2 {
		t.Fatal(out, err, e)
	}
}

func TestChildrenThatRemember(t *testing.T) {
	t.Parallel()
	for mode, want := range map[pawl.ChildMode][]int64{pawl.Inherit: {1, 1}, pawl.PerThread: {1, 2}, pawl.Stateless: {1, 1}} {
		child := must(t, pawl.New[family]("inner").
			Node("add", func(_ context.Context, s *family) error { s.Log.Add("item"); return nil }).Path(pawl.Start, "add"))
		var lengths, added []int64
		g := must(t, pawl.New[family]("outer").Add(pawl.Sub(child.Child("child", mode), handIn, func(_ *family, r *pawl.Result[family]) error {
			lengths = append(lengths, int64(r.State.Log.Len()))
			a, err := r.Added()
			if err == nil {
				added = append(added, int64(a.Log.Len()))
			}
			return err
		})).Path(pawl.Start, "child"))
		eng := memoryEngine(t, nil)
		for _, id := range []string{"t", "other"} {
			lengths, added = nil, nil
			for range 2 {
				if out, err := g.Thread(eng, id).Run(t.Context(), &family{}); err != nil {
					t.Fatal(out, err)
				}
			}
			if !slices.Equal(lengths, want) || !slices.Equal(added, []int64{1, 1}) {
				t.Error(mode, id, lengths, added)
			}
		}
	}
}
