package suite

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/storage"
)

func cacheRows() []scenario {
	return []scenario{
		{id: "CKP-26", run: each(rowCachedNode), differs: "a reused result is journaled like any other: resume, history and fork read the same facts"},
		{id: "FLT-30", run: each(rowCachedMarker)},
		{id: "FUN-07", run: each(rowCachedTask)}, {id: "FUN-08", run: each(rowResumeOfCached)},
	}
}

// rowCachedNode: what a hit wrote is stored like any other result of its super-step.
func rowCachedNode(t *testing.T, h *home) {
	var entered atomic.Int32
	th := rowThread(t, h, pawl.New[rowState]("row").
		Node("a", func(_ context.Context, s *rowState) error { entered.Add(1); s.Log.Add("a"); return nil }, pawl.Cache(time.Hour)).
		Node("b", func(ctx context.Context, s *rowState) error {
			answer, err := gate.Ask(ctx, "go on?")
			s.Log.Add(answer)
			return err
		}, pawl.Uses(gate)).
		Edge(pawl.Start, "a").Edge(pawl.Start, "b"), nil)
	for i, reused := range []bool{false, true} {
		ran(t, th, pawl.Waiting)
		st, err := th.State(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		a := st.Head.Tasks[0]
		if a.Node != "a" || a.State != "done" || a.Cached != reused || string(st.Values) != `{"log":["a"]}` || entered.Load() != 1 {
			t.Errorf("run %d: %+v, %s after %d entries", i, a, st.Values, entered.Load())
		}
		if _, err := th.Resume(t.Context(), gate.Answer("", "yes")); err != nil {
			t.Fatal(err)
		}
		if err := th.Delete(t.Context()); err != nil { // the cache outlives the thread
			t.Fatal(err)
		}
	}
}

// rowCachedMarker: what is told of a reused result says so; once the cache is cleared the node runs again.
func rowCachedMarker(t *testing.T, h *home) {
	g := build(t, sayers("b").Node("a", rowSays("a"), pawl.Cache(time.Hour)).Edge("b", "a"))
	eng := engine(t, h.open(t), nil)
	for i, want := range []bool{false, true, false} {
		if i == 2 {
			if n, err := eng.ClearCache(t.Context(), "row", "a"); err != nil || n != 1 {
				t.Fatalf("cleared %d, %v", n, err)
			}
		}
		for e, err := range g.Thread(eng, fmt.Sprint(i)).Stream(t.Context(), &rowState{}) {
			if err != nil {
				t.Fatal(err)
			}
			if e.Kind == pawl.EventTaskEnd && e.Node == "a" && e.Cached != want {
				t.Errorf("thread %d: told as reused: %v, want %v", i, e.Cached, want)
			}
		}
	}
}

// doubling is a function that asks between its calls; calls counts them.
func doubling(t *testing.T, calls *atomic.Int32) *pawl.FuncGraph[[]int, []string] {
	t.Helper()
	double := func(_ context.Context, n int) (int, error) { calls.Add(1); return 2 * n, nil }
	f, err := pawl.Func("doubling", func(ctx context.Context, in []int) (out []string, err error) {
		for i, n := range in {
			key := pawl.Key(fmt.Sprint(i))
			d, err := pawl.CachedStep(ctx, "double", time.Hour, n, double, key)
			if err != nil {
				return nil, err
			}
			answer, err := gate.Ask(ctx, fmt.Sprint("call it? ", d), key)
			if err != nil {
				return nil, err
			}
			out = append(out, fmt.Sprint(d), answer)
		}
		return out, nil
	}, pawl.Uses(gate))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func answeredOneByOne(t *testing.T, th *pawl.FuncThread[[]int, []string], in []int) {
	t.Helper()
	out, err := th.Run(t.Context(), in)
	var want []string
	for i, n := range in {
		if err != nil || out.Status != pawl.Waiting {
			t.Fatalf("%v, %v, want a question", out, err)
		}
		answer := string(rune('a' + i))
		want = append(want, fmt.Sprint(2*n), answer)
		out, err = th.Resume(t.Context(), gate.Answer("", answer))
	}
	if err != nil || !slices.Equal(out.Result, want) {
		t.Fatalf("%v, %v, want %v", out.Result, err, want)
	}
}

// rowCachedTask: repeated arguments, and a second thread, call nothing; once it is cleared they do.
func rowCachedTask(t *testing.T, h *home) {
	var calls atomic.Int32
	f, in := doubling(t, &calls), []int{1, 1, 2, 2, 3, 3}
	eng := engine(t, h.open(t), nil)
	for i, want := range []int32{3, 3, 6} {
		if i == 2 {
			if n, err := eng.ClearCache(t.Context(), "doubling"); err != nil || n != 3 {
				t.Fatalf("cleared %d, %v", n, err)
			}
		}
		if answeredOneByOne(t, f.Thread(eng, fmt.Sprint("t-", i)), in); calls.Load() != want {
			t.Errorf("thread %d: %d calls, want %d", i, calls.Load(), want)
		}
	}
}

// puts counts what is put, by kind.
type puts struct {
	storage.DB
	n map[string]int
}

func (p *puts) Update(ctx context.Context, fn func(context.Context, storage.Tx) error) error {
	return p.DB.Update(ctx, func(ctx context.Context, tx storage.Tx) error { return fn(ctx, countedTx{tx, p.n}) })
}

type countedTx struct {
	storage.Tx
	n map[string]int
}

func (c countedTx) Put(kind string, row storage.Row, cond storage.If) (bool, error) {
	c.n[kind]++
	return c.Tx.Put(kind, row, cond)
}

// rowResumeOfCached: on resume nothing is stored again of what ended before, and nothing kept again.
func rowResumeOfCached(t *testing.T, h *home) {
	var calls atomic.Int32
	f := doubling(t, &calls)
	db := &puts{h.open(t), map[string]int{}}
	eng := engine(t, db, nil)
	for i, kept := range []int{1, 0} {
		th := f.Thread(eng, fmt.Sprint("t-", i))
		clear(db.n)
		if out, err := th.Run(t.Context(), []int{7}); err != nil || out.Status != pawl.Waiting {
			t.Fatal(out, err)
		}
		if db.n["step"] != 1 || db.n["cache"] != kept {
			t.Errorf("thread %d: stored %v", i, db.n)
		}
		clear(db.n)
		out, err := th.Resume(t.Context(), gate.Answer("", "yes"))
		if err != nil || !slices.Equal(out.Result, []string{"14", "yes"}) || calls.Load() != 1 {
			t.Errorf("%v, %v after %d calls", out, err, calls.Load())
		}
		if db.n["step"]+db.n["cache"] != 0 || db.n["question"] != 1 || db.n["checkpoint"] != 1 {
			t.Errorf("thread %d: the resume stored %v", i, db.n)
		}
	}
}

// cacheOfOtherCode: another version of a node gets nothing that an earlier one found, and goes on for itself.
func cacheOfOtherCode(t *testing.T, h *home) {
	db := h.open(t)
	run := func(version int, thread string) string {
		g := build(t, single(func(_ context.Context, s *rowState) error { s.N.Add(version); return nil },
			pawl.Cache(time.Hour), pawl.Version(version)))
		out, _ := ran(t, g.Thread(engine(t, db, nil), thread), pawl.Done)
		return string(out.Values)
	}
	for i, version := range []int{1, 2, 1} {
		if got, want := run(version, fmt.Sprint("t-", i)), fmt.Sprintf(`{"n":%d}`, version); got != want {
			t.Errorf("version %d found %s, want %s", version, got, want)
		}
	}
}

// cacheOfFailures: a task that failed leaves nothing to reuse, one that ended beside it does.
func cacheOfFailures(t *testing.T, h *home) {
	var a, b int
	broken := true
	g := build(t, pawl.New[rowState]("row").
		Node("a", func(_ context.Context, s *rowState) error { a++; s.Log.Add("a"); return nil }, pawl.Cache(time.Hour)).
		Node("b", func(context.Context, *rowState) error {
			if b++; broken {
				return errors.New("no luck")
			}
			return nil
		}, pawl.Cache(time.Hour)).
		Edge(pawl.Start, "a").Edge(pawl.Start, "b"))
	eng := engine(t, h.open(t), &pawl.Options{Concurrency: 1})
	ran(t, g.Thread(eng, "1"), pawl.Failed)
	broken = false
	ran(t, g.Thread(eng, "2"), pawl.Done)
	ran(t, g.Thread(eng, "3"), pawl.Done)
	if a != 1 || b != 2 {
		t.Errorf("a was entered %d times and b %d times, want 1 and 2", a, b)
	}
}
