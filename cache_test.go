package pawl_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/memdb"
	"github.com/pawl-dev/pawl/storage"
)

// found is a state for cached nodes.
type found struct {
	Topic pawl.Last[string]        `json:"topic"`
	Found pawl.Append[string]      `json:"found"`
	By    pawl.Map[string, string] `json:"by"`
	Sum   pawl.Sum[int]            `json:"sum"`
	Flash pawl.Ephemeral[string]   `json:"flash"`
	Pass  pawl.Once[string]        `json:"pass"`
	Round pawl.Last[int]           `json:"round"`
}

type factNode = func(context.Context, *found) error

// finder is a node that counts its entries.
type finder struct{ entered atomic.Int32 }

func (f *finder) node(_ context.Context, s *found) error {
	n := f.entered.Add(1)
	s.Found.Add(fmt.Sprint(s.Topic.Get(), " ", n))
	s.By.Set(s.Topic.Get(), fmt.Sprint(n))
	s.Sum.Add(int(n))
	return nil
}

func finding(f factNode, options ...pawl.NodeOption) *pawl.Builder[found] {
	return pawl.New[found]("find").Node("find", f, options...).Edge(pawl.Start, "find")
}

func factGraph(t *testing.T, b *pawl.Builder[found]) *pawl.Graph[found] {
	t.Helper()
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// find runs a topic on a new thread.
func find(t *testing.T, g *pawl.Graph[found], eng *pawl.Engine, thread, topic string) *pawl.OutcomeOf[found] {
	t.Helper()
	out, err := g.Thread(eng, thread).Run(t.Context(), &found{Topic: pawl.Of(topic)})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestCacheIsSharedByThreadsAndProcesses(t *testing.T) {
	t.Parallel()
	for _, mode := range []pawl.Durability{pawl.Sync, pawl.Async, pawl.Exit} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			f, db := &finder{}, hooked(t)
			g := factGraph(t, finding(f.node, pawl.Cache(time.Hour)))
			first := opened(t, db, &pawl.Options{Durability: mode})
			a := find(t, g, first, "a", "tea")
			if err := first.Close(); err != nil {
				t.Fatal(err)
			}
			second := opened(t, db, &pawl.Options{Durability: mode})
			if b := find(t, g, second, "b", "tea"); string(b.Values) != string(a.Values) || f.entered.Load() != 1 {
				t.Errorf("%s, then %s after %d entries", a.Values, b.Values, f.entered.Load())
			}
			if mode == pawl.Sync && (toldAsReused(t, g.Thread(second, "a")) != 0 || toldAsReused(t, g.Thread(second, "b")) != 1) {
				t.Error("the facts of the threads do not say which one reused a result")
			}
			if c := find(t, g, second, "c", "rum"); c.State.Found.At(0) != "rum 2" {
				t.Errorf("another topic found %s", c.Values)
			}
			if d := find(t, g, second.Tenant("other"), "d", "tea"); d.State.Found.At(0) != "tea 3" {
				t.Errorf("another tenant found %s", d.Values)
			}
		})
	}
}

// toldAsReused counts the stored facts that say so, up to the end of the first run.
func toldAsReused(t *testing.T, th *pawl.ThreadOf[found]) (n int) {
	t.Helper()
	for ev, err := range th.Watch(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		if ev.Cached {
			n++
		}
		if ev.Kind == pawl.EventFinished {
			break
		}
	}
	return n
}

// A result is of a node as it was declared: nothing else that looks alike gets it.
func TestCacheTellsNodesApart(t *testing.T) {
	t.Parallel()
	type other struct {
		Topic pawl.Last[string]        `json:"topic"`
		Found pawl.Append[string]      `json:"found"`
		By    pawl.Map[string, string] `json:"by"`
		Sum   pawl.Sum[int64]          `json:"sum"`
	}
	f, db := &finder{}, hooked(t)
	cached := func() *pawl.Builder[found] { return finding(f.node, pawl.Cache(time.Hour)) }
	find(t, factGraph(t, cached()), opened(t, db, nil), "t", "tea")
	for name, b := range map[string]*pawl.Builder[found]{
		"version": finding(f.node, pawl.Cache(time.Hour), pawl.Version(2)),
		"node":    pawl.New[found]("find").Node("look", f.node, pawl.Cache(time.Hour)).Edge(pawl.Start, "look"),
		"graph":   pawl.New[found]("look").Node("find", f.node, pawl.Cache(time.Hour)).Edge(pawl.Start, "find"),
		"key":     finding(f.node, pawl.Cache(time.Hour), pawl.CacheBy(func(s *found) string { return s.Topic.Get() })),
		"kind of key": finding(f.node, pawl.Cache(time.Hour), pawl.CacheBy(func(s *found) json.RawMessage {
			return json.RawMessage(`"tea"`)
		})),
	} {
		before := f.entered.Load()
		find(t, factGraph(t, b), opened(t, db, nil), "t-"+name, "tea")
		if f.entered.Load() != before+1 {
			t.Errorf("another %s reused the result", name)
		}
	}
	o, err := pawl.New[other]("find").Node("find", func(_ context.Context, s *other) error {
		s.Sum.Add(7)
		return nil
	}, pawl.Cache(time.Hour)).Edge(pawl.Start, "find").Build()
	if err != nil {
		t.Fatal(err)
	}
	out, err := o.Thread(opened(t, db, nil), "t-state").Run(t.Context(), &other{Topic: pawl.Of("tea")})
	if err != nil || out.State.Sum.Get() != 7 {
		t.Errorf("another state: %v, %v", out, err)
	}
	before := f.entered.Load()
	if find(t, factGraph(t, cached()), opened(t, db, nil), "again", "tea"); f.entered.Load() != before {
		t.Error("the node itself did not find its result any more")
	}
}

// Reused until its time is over, by the database's clock; then gone, once another result is kept.
func TestCacheEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, db := &finder{}, hooked(t)
		g := factGraph(t, finding(f.node, pawl.Cache(time.Minute)))
		eng := opened(t, db, nil)
		for i := range 3 {
			find(t, g, eng, fmt.Sprint("old-", i), fmt.Sprint("topic-", i))
		}
		<-time.After(time.Minute - time.Millisecond)
		if find(t, g, eng, "in time", "topic-0"); f.entered.Load() != 3 {
			t.Error("a result was not reused within its time")
		}
		<-time.After(time.Millisecond)
		if find(t, g, eng, "late", "topic-0"); f.entered.Load() != 4 {
			t.Error("a result was reused after its time")
		}
		if n := len(cacheRows(t, db)); n != 1 {
			t.Errorf("%d results are kept, and one is of use", n)
		}
	})
}

func cacheRows(t *testing.T, db storage.DB) (rows []storage.Row) {
	t.Helper()
	err := db.View(t.Context(), func(_ context.Context, tx storage.Tx) (err error) {
		rows, err = tx.List("cache", storage.Query{})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// A key of its own: what it leaves out does not matter, and deltas go on what is there.
func TestCacheBy(t *testing.T) {
	t.Parallel()
	f := &finder{}
	g := factGraph(t, pawl.New[found]("by").
		Node("find", f.node, pawl.Cache(time.Hour), pawl.CacheBy(func(s *found) string { return strings.ToLower(s.Topic.Get()) })).
		Node("round", func(_ context.Context, s *found) error { s.Round.Set(s.Round.Get() + 1); return nil }).
		Path(pawl.Start, "find", "round").
		Route("round", func(s *found) []pawl.Next {
			if s.Round.Get() < 3 {
				return pawl.To("find")
			}
			return pawl.To(pawl.End)
		}, "find", pawl.End))
	out := find(t, g, opened(t, hooked(t), nil), "t", "Tea")
	want := `{"topic":"Tea","found":["Tea 1","Tea 1","Tea 1"],"by":{"Tea":"1"},"sum":3,"round":3}`
	if string(out.Values) != want || f.entered.Load() != 1 {
		t.Errorf("%s after %d entries, want %s", out.Values, f.entered.Load(), want)
	}
}

// The function is not entered, and everything else is as if it had been: routes see what it wrote on what is there now,
// gotos and sends are taken again, and whoever watches is told.
func TestCacheLeadsOn(t *testing.T) {
	t.Parallel()
	var entered, worked atomic.Int32
	type payload struct{ N int }
	w := pawl.NewWorker("work", func(_ context.Context, s *found, p payload) error {
		worked.Add(1)
		s.Found.Add(fmt.Sprint("work ", p.N))
		return nil
	}, pawl.Cache(time.Hour), pawl.CacheBy(func(*found) int { return 0 }))
	var seen []string
	g := factGraph(t, pawl.New[found]("leads").
		Node("flash", func(_ context.Context, s *found) error { s.Flash.Set("flash of " + s.Topic.Get()); return nil }).
		Node("find", func(ctx context.Context, s *found) error {
			entered.Add(1)
			s.Found.Add("find")
			return pawl.Goto(ctx, slices.Concat(w.Each([]payload{{1}, {2}, {1}}), pawl.To("beside", pawl.End))...)
		}, pawl.Cache(time.Hour), pawl.CacheBy(func(*found) int { return 0 }), pawl.Targets("work", "beside", pawl.End)).
		Node("beside", func(_ context.Context, s *found) error { s.By.Set("beside", s.Topic.Get()); return nil }).
		Node("tea", func(_ context.Context, s *found) error { s.By.Set("tea", "yes"); return nil }).
		Add(w).
		Path(pawl.Start, "flash", "find").
		Route("find", func(s *found) []pawl.Next {
			seen = append(seen, fmt.Sprint(s.Topic.Get(), s.Found.Len(), s.Flash.Get()))
			if s.Topic.Get() == "tea" {
				return pawl.To("tea")
			}
			return nil
		}, "tea"))
	eng := opened(t, hooked(t), nil)
	find(t, g, eng, "first", "rum")
	if worked.Load() != 3 {
		t.Errorf("%d workers ran beside each other, want 3: none was kept yet", worked.Load())
	}
	var cached []string
	var out *pawl.Outcome
	for ev, err := range g.Thread(eng, "second").Stream(t.Context(), &found{Topic: pawl.Of("tea")}) {
		if err != nil {
			t.Fatal(err)
		}
		if out = ev.Outcome; ev.Kind == pawl.EventTaskEnd && ev.Cached {
			cached = append(cached, ev.Node)
		}
	}
	want := `{"topic":"tea","found":["find","work 1","work 2","work 1"],"by":{"beside":"tea","tea":"yes"}}`
	if string(out.Values) != want || entered.Load() != 1 || worked.Load() != 3 {
		t.Errorf("%s after %d and %d entries, want %s", out.Values, entered.Load(), worked.Load(), want)
	}
	if slices.Sort(cached); !slices.Equal(cached, []string{"find", "work", "work", "work"}) {
		t.Errorf("told as reused: %v", cached)
	}
	if !slices.Equal(seen, []string{"rum1flash of rum", "tea1flash of tea"}) {
		t.Errorf("the routes saw %q", seen)
	}
}

// A reused result is journaled like any other, and says what it is: it stays when the cache is cleared.
func TestCacheHitIsAFact(t *testing.T) {
	t.Parallel()
	f, ok := &finder{}, pawl.Interrupt[string, bool]{Name: "ok"}
	g := factGraph(t, pawl.New[found]("fact").
		Node("find", f.node, pawl.Cache(time.Hour)).
		Node("gate", func(ctx context.Context, s *found) error {
			_, err := ok.Ask(ctx, s.Topic.Get())
			return err
		}, pawl.Uses(ok)).
		Edge(pawl.Start, "find").Edge(pawl.Start, "gate"))
	eng := opened(t, hooked(t), nil)
	find(t, g, eng, "first", "tea")
	if out := find(t, g, eng, "second", "tea"); out.Status != pawl.Waiting || f.entered.Load() != 1 {
		t.Fatalf("%s after %d entries", out.Status, f.entered.Load())
	}
	for thread, reused := range map[string]bool{"first": false, "second": true} {
		th := g.Thread(eng, thread)
		st, err := th.State(t.Context())
		if err != nil || len(st.Head.Tasks) != 2 || st.Head.Tasks[0].State != "done" || st.Head.Tasks[0].Cached != reused {
			t.Errorf("%s: %+v, %v", thread, st.Head.Tasks, err)
		}
	}
	if n, err := eng.ClearCache(t.Context(), "fact"); err != nil || n != 1 {
		t.Fatalf("cleared %d, %v", n, err)
	}
	out, err := g.Thread(eng, "second").Resume(t.Context(), ok.Answer("", true))
	if err != nil || out.State.Found.At(0) != "tea 1" || f.entered.Load() != 1 {
		t.Errorf("%+v, %v after %d entries", out, err, f.entered.Load())
	}
}

// Only what ended well is kept, and no permission is used by a task that never ran.
func TestCacheKeepsWhatEndedWell(t *testing.T) {
	t.Parallel()
	entered, fail := 0, true
	node := func(_ context.Context, s *found) error {
		if entered++; fail {
			return errors.New("no luck")
		}
		s.Found.Add("found")
		return nil
	}
	handled := pawl.OnError(func(_ context.Context, s *found, _ error) error { s.Found.Add("handled"); return nil })
	eng := opened(t, hooked(t), nil)
	plain := factGraph(t, finding(node, pawl.Cache(time.Hour), pawl.Tries(2), pawl.Backoff(0, 0)))
	if _, err := plain.Thread(eng, "fails").Run(t.Context(), nil); err == nil || entered != 2 {
		t.Fatalf("%v after %d entries", err, entered)
	}
	with := factGraph(t, pawl.New[found]("handled").Node("find", node, pawl.Cache(time.Hour), handled).Edge(pawl.Start, "find"))
	for i := range 2 {
		if out := find(t, with, eng, fmt.Sprint("handled-", i), ""); out.State.Found.At(0) != "handled" || entered != 3+i {
			t.Errorf("%s after %d entries", out.Values, entered)
		}
	}
	fail = false
	for i := range 2 {
		if out := find(t, with, eng, fmt.Sprint("well-", i), ""); out.State.Found.At(0) != "found" || entered != 5 {
			t.Errorf("%s after %d entries", out.Values, entered)
		}
	}

	taken := 0
	takes := factGraph(t, pawl.New[found]("takes").Node("take", func(_ context.Context, s *found) error {
		if _, ok := s.Pass.Take(); ok {
			taken++
		}
		return nil
	}, pawl.Cache(time.Hour)).Edge(pawl.Start, "take"))
	for i := range 2 {
		in := &found{}
		in.Pass.Put("once")
		out, err := takes.Thread(eng, fmt.Sprint("take-", i)).Run(t.Context(), in)
		if err != nil || taken != i+1 || string(out.Values) != "{}" {
			t.Errorf("%+v, %v: taken %d times", out, err, taken)
		}
	}
}

func TestCacheFaults(t *testing.T) {
	t.Parallel()
	f, ok := &finder{}, pawl.Interrupt[string, bool]{Name: "ok"}
	inner := factGraph(t, finding(f.node)).Child("inner")
	for _, c := range []struct {
		name string
		b    *pawl.Builder[found]
		want string
	}{
		{"no time", finding(f.node, pawl.Cache(0)), "Cache(0s)"},
		{"a negative time", finding(f.node, pawl.Cache(-time.Second)), "Cache(-1s)"},
		{"asks", finding(f.node, pawl.Cache(time.Hour), pawl.Uses(ok)), `it uses "ok"`},
		{"calls", finding(f.node, pawl.Uses(inner), pawl.Cache(time.Hour)), `it uses "inner"`},
		{"a question", pawl.New[found]("q").Add(pawl.AskNode(ok, func(*found) string { return "" },
			func(*found, bool) error { return nil }, pawl.Cache(time.Hour))).Edge(pawl.Start, "ok"), `it uses "ok"`},
		{"no cache", finding(f.node, pawl.CacheBy(func(*found) int { return 0 })), "there is no Cache"},
		{"no key", finding(f.node, pawl.Cache(time.Hour), pawl.CacheBy[found, int](nil)), "CacheBy(nil)"},
		{"another state", finding(f.node, pawl.Cache(time.Hour), pawl.CacheBy(func(*note) int { return 0 })), "another state"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := c.b.Build()
			if fault := (*pawl.BuildError)(nil); !errors.As(err, &fault) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want a fault with %q", err, c.want)
			}
		})
	}
}

// A key that cannot be told fails the task before the node is entered.
func TestCacheKeyFails(t *testing.T) {
	t.Parallel()
	for name, key := range map[string]pawl.NodeOption{
		"no JSON": pawl.CacheBy(func(*found) func() { return nil }),
		"panics":  pawl.CacheBy(func(*found) int { panic("no key") }),
	} {
		f := &finder{}
		g := factGraph(t, finding(f.node, pawl.Cache(time.Hour), key))
		if _, err := g.Thread(opened(t, hooked(t), nil), "t").Run(t.Context(), nil); err == nil || f.entered.Load() != 0 {
			t.Errorf("%s: %v after %d entries", name, err, f.entered.Load())
		}
	}
	f := &finder{}
	g := factGraph(t, finding(f.node, pawl.Cache(time.Hour), pawl.CacheBy(func(s *found) int { s.Round.Set(1); return 1 })))
	_, err := g.Thread(opened(t, hooked(t), nil), "t").Run(t.Context(), nil)
	if e := (*pawl.StateError)(nil); !errors.As(err, &e) || e.Channel != "round" {
		t.Errorf("a key that writes: %v", err)
	}
}

func TestCachedStep(t *testing.T) {
	t.Parallel()
	calls := map[string]int{}
	rate := func(_ context.Context, currency string) (int, error) { calls[currency]++; return len(calls), nil }
	g := factGraph(t, pawl.New[found]("steps").Node("pay", func(ctx context.Context, s *found) error {
		for i, c := range []string{"eur", "usd", "eur"} {
			n, err := pawl.CachedStep(ctx, "rate", time.Hour, c, rate, pawl.Key(fmt.Sprint(i)))
			if err != nil {
				return err
			}
			s.Found.Add(fmt.Sprint(c, " ", n))
		}
		return nil
	}).Edge(pawl.Start, "pay"))
	eng := opened(t, hooked(t), nil)
	want := `["eur 1","usd 2","eur 1"]`
	for i, reused := range [][]bool{{false, false, true}, {true, true, true}} {
		th := g.Thread(eng, fmt.Sprint("t-", i))
		var told []bool
		for ev, err := range th.Stream(t.Context(), nil) {
			if err != nil {
				t.Fatal(err)
			}
			if ev.Kind == pawl.EventStep {
				told = append(told, ev.Cached)
			}
		}
		st, err := th.State(t.Context())
		if err != nil || string(st.Values) != `{"found":`+want+`}` || !slices.Equal(told, reused) {
			t.Errorf("%s, %v; told %v", st.Values, err, told)
		}
		if n, want := toldAsReused(t, th), []int{1, 3}[i]; n != want {
			t.Errorf("%d steps are stored as reused, want %d", n, want)
		}
	}
	if n, err := eng.ClearCache(t.Context(), "steps", "pay"); err != nil || n != 2 || calls["eur"] != 1 || calls["usd"] != 1 {
		t.Errorf("cleared %d, %v after %v", n, err, calls)
	}
	if _, err := pawl.CachedStep(t.Context(), "rate", time.Hour, "eur", rate); err != nil || calls["eur"] != 2 {
		t.Errorf("outside of a run: %v, %v", err, calls)
	}
}

// What a cached step returns must depend on its input alone, and an error is not kept.
func TestCachedStepRefuses(t *testing.T) {
	t.Parallel()
	ok := pawl.Interrupt[string, bool]{Name: "ok"}
	nothing := func(context.Context, int) (int, error) { return 0, nil }
	child := factGraph(t, finding((&finder{}).node)).Child("inner")
	inside := func(do func(context.Context) error) factNode {
		return func(ctx context.Context, _ *found) error {
			_, err := pawl.CachedStep(ctx, "outer", time.Hour, 1, func(ctx context.Context, _ int) (int, error) { return 0, do(ctx) })
			return err
		}
	}
	for _, c := range []struct {
		name, want string
		node       factNode
	}{
		{"an unnamed one", "needs a name", func(ctx context.Context, _ *found) error {
			_, err := pawl.CachedStep(ctx, "", time.Hour, 1, nothing)
			return err
		}},
		{"no time", "cannot be reused for 0s", func(ctx context.Context, _ *found) error {
			_, err := pawl.CachedStep(ctx, "s", 0, 1, nothing)
			return err
		}},
		{"an input without JSON", "has no JSON", func(ctx context.Context, _ *found) error {
			_, err := pawl.CachedStep(ctx, "s", time.Hour, func() {}, func(context.Context, func()) (int, error) { return 0, nil })
			return err
		}},
		{"a question inside", `ask "ok" inside the cached step "outer"`, inside(func(ctx context.Context) error {
			_, err := ok.Ask(ctx, "?")
			return err
		})},
		{"a step inside", `step "s" inside the cached step "outer"`, inside(func(ctx context.Context) error {
			_, err := pawl.Step(ctx, "s", func(context.Context) (int, error) { return 1, nil })
			return err
		})},
		{"a step of a branch inside", `step "s" inside the cached step "outer"`, inside(func(ctx context.Context) error {
			return pawl.All(ctx, func(ctx context.Context) error {
				_, err := pawl.CachedStep(ctx, "s", time.Hour, 1, nothing)
				return err
			})
		})},
		{"a child inside", `child "inner" inside the cached step "outer"`, inside(func(ctx context.Context) error {
			_, err := child.Call(ctx, nil)
			return err
		})},
		{"a part's call inside", `effect "pay" inside the cached step "outer"`, inside(func(ctx context.Context) error {
			task, _ := pawl.TaskFrom(ctx)
			_, err := task.Address(ctx, "effect", "pay")
			return err
		})},
		{"a failure", "no luck", inside(func(context.Context) error { return errors.New("no luck") })},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			db := hooked(t)
			g := factGraph(t, finding(c.node, pawl.Uses(ok, child)))
			_, err := g.Thread(opened(t, db, nil), "t").Run(t.Context(), nil)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if rows := cacheRows(t, db); len(rows) > 0 {
				t.Errorf("kept: %v", rows)
			}
		})
	}
}

// Nodes of children keep results, too, apart from those of the same graph elsewhere, and also where the child itself keeps
// nothing.
func TestCacheInChildren(t *testing.T) {
	t.Parallel()
	for _, mode := range []pawl.ChildMode{pawl.Inherit, pawl.PerThread, pawl.Stateless} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			f, eng := &finder{}, opened(t, hooked(t), nil)
			inner := factGraph(t, finding(f.node, pawl.Cache(time.Hour)))
			g := factGraph(t, pawl.New[found]("outer").Add(pawl.Sub(inner.Child("inner", mode),
				func(s *found) *found { return &found{Topic: pawl.Of(s.Topic.Get())} },
				func(s *found, r *pawl.Result[found]) error { s.Found.Add(r.State.Found.At(0)); return nil })).
				Edge(pawl.Start, "inner"))
			find(t, inner, eng, "alone", "tea")
			for i := range 2 {
				if out := find(t, g, eng, fmt.Sprint("t-", i), "tea"); out.State.Found.At(0) != "tea 2" {
					t.Errorf("run %d: %s", i, out.Values)
				}
			}
			for _, c := range []struct {
				node string
				want int
			}{{"inner", 0}, {"find", 0}, {"inner|find", 1}, {"inner|find", 0}} {
				if n, err := eng.ClearCache(t.Context(), "outer", c.node); err != nil || n != c.want {
					t.Errorf("cleared %d of %q, %v; want %d", n, c.node, err, c.want)
				}
			}
			if find(t, inner, eng, "alone again", "tea"); f.entered.Load() != 2 {
				t.Errorf("%d entries, want 2", f.entered.Load())
			}
		})
	}
}

func TestClearCache(t *testing.T) {
	t.Parallel()
	f, asked := &finder{}, []pawl.VerbInfo{}
	deny := false
	eng := opened(t, hooked(t), &pawl.Options{Allow: func(_ context.Context, v pawl.VerbInfo) error {
		if v.Verb != pawl.VerbClear {
			return nil
		}
		if asked = append(asked, v); deny {
			return errors.New("not you")
		}
		return nil
	}})
	g := factGraph(t, finding(f.node, pawl.Cache(time.Hour)))
	fill := func(n int) {
		for i := range n {
			find(t, g, eng.Tenant("acme"), fmt.Sprint("t-", f.entered.Load()), fmt.Sprint("topic-", i))
		}
	}
	fill(3)
	if n, err := eng.ClearCache(t.Context(), "find"); err != nil || n != 0 {
		t.Errorf("cleared %d of another tenant, %v", n, err)
	}
	acme := eng.Tenant("acme")
	for _, c := range []struct {
		graph string
		nodes []string
		want  int
	}{{"fin", nil, 0}, {"find", []string{"fin"}, 0}, {"find", []string{"other", "find"}, 3}, {"find", nil, 0}} {
		if n, err := acme.ClearCache(t.Context(), c.graph, c.nodes...); err != nil || n != c.want {
			t.Errorf("cleared %d of %q %q, %v; want %d", n, c.graph, c.nodes, err, c.want)
		}
	}
	fill(2)
	if _, err := acme.ClearCache(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "nothing was cleared") {
		t.Errorf("without a graph: %v", err)
	}
	deny = true
	if n, err := acme.ClearCache(t.Context(), "find"); !errors.Is(err, pawl.ErrDenied) || n != 0 {
		t.Errorf("denied: %d, %v", n, err)
	}
	if last := asked[len(asked)-1]; last.Tenant != "acme" || last.Graph != "find" {
		t.Errorf("asked as %+v", last)
	}
	deny = false
	if n, err := acme.ClearCache(t.Context(), "find"); err != nil || n != 2 {
		t.Errorf("cleared %d, %v", n, err)
	}
	none := opened(t, nil, nil)
	if _, err := none.ClearCache(t.Context(), "find"); !errors.As(err, new(*pawl.NoStorageError)) {
		t.Errorf("without storage: %v", err)
	}
	before := f.entered.Load()
	for range 2 {
		find(t, g, none, "t", "tea")
	}
	if f.entered.Load() != before+2 {
		t.Error("a result was kept without storage")
	}
}

// More than one Update clears is cleared.
func TestClearCacheOfMany(t *testing.T) {
	t.Parallel()
	const many = 1100
	var items []int
	for i := range many {
		items = append(items, i)
	}
	w := pawl.NewWorker("work", func(context.Context, *found, int) error { return nil }, pawl.Cache(time.Hour))
	g := factGraph(t, pawl.New[found]("many").Add(w).Route(pawl.Start, func(*found) []pawl.Next { return w.Each(items) }, "work"))
	eng := opened(t, hooked(t), nil)
	find(t, g, eng, "t", "tea")
	if n, err := eng.ClearCache(t.Context(), "many"); err != nil || n != many {
		t.Errorf("cleared %d, %v; want %d", n, err, many)
	}
}

// mirror turns every body around, and knows one key.
type mirror struct{ key string }

func (m mirror) KeyID() string { return m.key }

func (m mirror) Encode(_ string, body []byte) ([]byte, error) {
	out := bytes.Clone(body)
	slices.Reverse(out)
	return out, nil
}

func (m mirror) Decode(kind, key string, body []byte) ([]byte, error) {
	if key != m.key {
		return nil, fmt.Errorf("there is no key %q", key)
	}
	return m.Encode(kind, body)
}

// Kept results pass the codec, and one that cannot be read is as good as none: the node runs and its result replaces it.
func TestCacheUnderACodec(t *testing.T) {
	t.Parallel()
	f, db := &finder{}, hooked(t)
	g := factGraph(t, finding(f.node, pawl.Cache(time.Hour)))
	find(t, g, opened(t, db, &pawl.Options{Codec: mirror{"old"}}), "a", "sesame")
	for _, row := range cacheRows(t, db) {
		if bytes.Contains(row.Body, []byte("sesame")) || strings.Contains(fmt.Sprint(row.Key), "sesame") {
			t.Errorf("in the clear: %v %s", row.Key, row.Body)
		}
	}
	eng := opened(t, db, &pawl.Options{Codec: mirror{"new"}})
	for i := range 2 {
		if find(t, g, eng, fmt.Sprint("b-", i), "sesame"); f.entered.Load() != 2 {
			t.Errorf("%d entries, want 2", f.entered.Load())
		}
	}
	if rows := cacheRows(t, db); len(rows) != 1 {
		t.Errorf("%d results are kept, want 1", len(rows))
	}
}

// blind is a home that cannot read one kind.
type blind struct {
	storage.DB
	err error
}

func (b blind) View(ctx context.Context, fn func(context.Context, storage.Tx) error) error {
	return b.DB.View(ctx, func(ctx context.Context, tx storage.Tx) error { return fn(ctx, blindTx{tx, b.err}) })
}

type blindTx struct {
	storage.Tx
	err error
}

func (b blindTx) Get(kind string, key ...any) (storage.Row, bool, error) {
	if kind == "cache" {
		return storage.Row{}, false, b.err
	}
	return b.Tx.Get(kind, key...)
}

func TestCacheThatCannotBeRead(t *testing.T) {
	t.Parallel()
	db, err := memdb.Open(pawl.Kinds()...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	f, broken := &finder{}, errors.New("the disk is gone")
	g := factGraph(t, finding(f.node, pawl.Cache(time.Hour)))
	th := g.Thread(opened(t, blind{db, broken}, nil), "t")
	if _, err := th.Run(t.Context(), nil); !errors.Is(err, broken) || f.entered.Load() != 0 {
		t.Errorf("%v after %d entries", err, f.entered.Load())
	}
	if out, err := g.Thread(opened(t, db, nil), "t").Resume(t.Context()); err != nil || out.Status != pawl.Done {
		t.Errorf("%v, %v", out, err)
	}
}

// Strict mode and many tasks at once, which read and reuse the same values: for the race detector.
func TestCacheBesideOthers(t *testing.T) {
	t.Parallel()
	b := pawl.New[found]("beside")
	for i := range 8 {
		name := fmt.Sprint("n", i)
		b.Node(name, func(_ context.Context, s *found) error { s.By.Set(name, "done"); return nil },
			pawl.Cache(time.Hour), pawl.CacheBy(func(*found) int { return 0 })).
			Edge(pawl.Start, name).
			Route(name, func(s *found) []pawl.Next {
				if _, ok := s.By.Get(name); !ok || s.By.Len() < 2 {
					return pawl.To(pawl.End)
				}
				return pawl.To("last")
			}, "last", pawl.End)
	}
	g := factGraph(t, b.Node("last", func(_ context.Context, s *found) error { s.Sum.Add(1); return nil }))
	eng := opened(t, hooked(t), &pawl.Options{Strict: true, Durability: pawl.Async})
	var first string
	for i := range 4 {
		in := &found{Topic: pawl.Of("tea")}
		in.By.Set("was", "there")
		out, err := g.Thread(eng, fmt.Sprint("t-", i)).Run(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		if first == "" {
			first = string(out.Values)
		}
		if string(out.Values) != first || out.State.By.Len() != 9 || out.State.Sum.Get() != 1 {
			t.Errorf("run %d: %s, and the first gave %s", i, out.Values, first)
		}
	}
}
