package suite

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/pawl-dev/pawl"
)

type rowState struct {
	Log pawl.Append[string]      `json:"log"`
	N   pawl.Sum[int]            `json:"n"`
	X   pawl.Last[[]int]         `json:"x"`
	M   pawl.Map[string, string] `json:"m"`
}

type rowNode = func(context.Context, *rowState) error

// rowSays is a node that logs its name.
func rowSays(name string) rowNode {
	return func(_ context.Context, s *rowState) error { s.Log.Add(name); return nil }
}

// sayers is a chain of nodes that log their names.
func sayers(names ...string) *pawl.Builder[rowState] {
	b := pawl.New[rowState]("row")
	for _, n := range names {
		b.Node(n, rowSays(n))
	}
	return b.Path(append([]string{pawl.Start}, names...)...)
}

func single(fn rowNode, options ...pawl.NodeOption) *pawl.Builder[rowState] {
	return pawl.New[rowState]("row").Node("a", fn, options...).Path(pawl.Start, "a")
}

func rowThread(t *testing.T, h *home, b *pawl.Builder[rowState], o *pawl.Options) *pawl.ThreadOf[rowState] {
	t.Helper()
	return build(t, b).Thread(engine(t, h.open(t), o), "t")
}

// ran runs an empty input, which has to end as wanted, and returns the error.
func ran(t *testing.T, th *pawl.ThreadOf[rowState], wanted pawl.Status) (*pawl.OutcomeOf[rowState], error) {
	t.Helper()
	out, err := th.Run(t.Context(), &rowState{})
	if out == nil || out.Status != wanted {
		t.Fatalf("%v, %v, want it %s", out, err, wanted)
	}
	return out, err
}

func logOf(s *rowState) (out []string) {
	for _, item := range s.Log.All() {
		out = append(out, item)
	}
	return out
}

func refusedGraph[S any](t *testing.T, b *pawl.Builder[S]) {
	t.Helper()
	if _, err := b.Build(); !errors.As(err, new(*pawl.BuildError)) {
		t.Errorf("%v, want a build error", err)
	}
}

func rowPaths(t *testing.T, _ *report) {
	refusedGraph(t, sayers("a").Path())
	refusedGraph(t, sayers("a", "a"))
}

func rowTwoRules(t *testing.T, _ *report) {
	type last struct {
		V pawl.Last[int] `json:"v"`
	}
	type sum struct {
		V pawl.Sum[int] `json:"v"`
	}
	type around struct{ sum }
	type both struct {
		last
		around
	}
	refusedGraph(t, pawl.New[both]("row").Node("a", func(context.Context, *both) error { return nil }).Path(pawl.Start, "a"))
}

func rowBuilderAfterwards(t *testing.T, h *home) {
	b := sayers("a")
	th := rowThread(t, h, b, nil)
	b.Node("b", rowSays("b")).Edge("a", "b")
	out, _ := ran(t, th, pawl.Done)
	same(t, "log", logOf(out.State), []string{"a"})
}

func rowInPlace(t *testing.T, h *home) {
	th := rowThread(t, h, single(func(_ context.Context, s *rowState) error { s.X.Get()[0] = 9; return nil }), &pawl.Options{Strict: true})
	if _, err := th.Run(t.Context(), &rowState{X: pawl.Of([]int{1})}); err == nil {
		t.Error("a change in place went through")
	}
}

func rowEdgeToWorker(t *testing.T, _ *report) {
	w := pawl.NewWorker("w", func(context.Context, *rowState, int) error { return nil })
	refusedGraph(t, sayers("a").Add(w).Edge("a", "w").Route("a", func(*rowState) []pawl.Next { return w.With(1) }, "w"))
}

// rowSideBySide: the first by name ends last, and both are there before either goes on.
func rowSideBySide(t *testing.T, h *home) {
	var both sync.WaitGroup
	both.Add(2)
	second := make(chan struct{})
	b := pawl.New[rowState]("row").
		Node("a", func(_ context.Context, s *rowState) error {
			both.Done()
			both.Wait()
			<-second
			s.Log.Add("a")
			return nil
		}).
		Node("b", func(_ context.Context, s *rowState) error {
			both.Done()
			both.Wait()
			s.Log.Add("b")
			close(second)
			return nil
		}).
		Edge(pawl.Start, "a").Edge(pawl.Start, "b")
	out, _ := ran(t, rowThread(t, h, b, nil), pawl.Done)
	same(t, "log", logOf(out.State), []string{"a", "b"})
}

func rowTenThreads(t *testing.T, h *home) {
	g, eng := build(t, single(func(_ context.Context, s *rowState) error { s.N.Add(s.N.Get()); return nil })), engine(t, h.open(t), nil)
	var all sync.WaitGroup
	for i := range 10 {
		all.Go(func() {
			out, err := g.Thread(eng, fmt.Sprint(i)).Run(t.Context(), &rowState{N: pawl.Total(i)})
			if err != nil || out.State.N.Get() != 2*i {
				t.Error(i, out, err)
			}
		})
	}
	all.Wait()
}

func rowHundred(t *testing.T, h *home) {
	var names []string
	for i := range 100 {
		names = append(names, fmt.Sprint("n", i))
	}
	out, _ := ran(t, rowThread(t, h, sayers(names...), &pawl.Options{Limits: pawl.Limits{Steps: 100}}), pawl.Done)
	same(t, "log", logOf(out.State), names)
}

func rowTenAtOnce(t *testing.T, h *home) {
	var now, most atomic.Int64
	w := pawl.NewWorker("w", func(_ context.Context, s *rowState, _ int) error {
		n := now.Add(1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		s.N.Add(1)
		now.Add(-1)
		return nil
	})
	b := sayers("a").Add(w).Route("a", func(*rowState) []pawl.Next { return w.Each(make([]int, 100)) }, "w")
	out, _ := ran(t, rowThread(t, h, b, &pawl.Options{Concurrency: 10}), pawl.Done)
	same(t, "tasks that ran", out.State.N.Get(), 100)
	if most.Load() > 10 {
		t.Errorf("%d ran at once, want 10 at most", most.Load())
	}
}

// asking is a graph of one question.
func asking() *pawl.Builder[rowState] {
	return single(func(ctx context.Context, s *rowState) error {
		answer, err := vote.Ask(ctx, "which?")
		if err == nil {
			s.Log.Add(answer)
		}
		return err
	}, pawl.Uses(vote))
}

// rowTold: who streams a run hears of its questions and of their answers.
func rowTold(t *testing.T, h *home) {
	th := rowThread(t, h, asking(), nil)
	told := map[pawl.EventKind]int{}
	for e, err := range th.Stream(t.Context(), &rowState{}) {
		if told[e.Kind]++; err != nil {
			t.Fatal(err)
		}
	}
	same(t, "questions and waits told", [2]int{told[pawl.EventQuestion], told[pawl.EventTaskWait]}, [2]int{1, 1})
	out, err := th.Resume(t.Context(), vote.Answer("", "a"))
	if err != nil || out.Status != pawl.Done {
		t.Fatal(out, err)
	}
}
