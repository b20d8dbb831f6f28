package pawl_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
)

// visits tells what was entered, in order.
type visits struct {
	mu    sync.Mutex
	names []string
}

func (e *visits) add(name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.names = append(e.names, name)
}

func (e *visits) String() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return strings.Join(e.names, " ")
}

// drainable is a line of nodes that log their names; in the node at it calls drain. Each name is entered and logged.
func drainable(t *testing.T, e *visits, drain *func(string), at string, names ...string) *pawl.Graph[lines] {
	t.Helper()
	b := pawl.New[lines](strings.Join(names, "-")).Path(append([]string{pawl.Start}, names...)...)
	for _, name := range names {
		b.Node(name, func(ctx context.Context, s *lines) error {
			e.add(name)
			s.Log.Add(name)
			if name == at {
				(*drain)("deploy")
			}
			if reason, ok := pawl.Draining(ctx); ok != (name == at) || ok && reason != "deploy" {
				return errors.New("a node does not see that it is drained")
			}
			return nil
		})
	}
	return linesOf(t, b)
}

// What a drained run says, from each side.
func drainedRun(t *testing.T, th *pawl.ThreadOf[lines], out *pawl.OutcomeOf[lines], err error, next ...string) {
	t.Helper()
	if err != nil || out.Status != pawl.Waiting || out.Cause != pawl.CauseDrained || out.Reason != "deploy" || len(out.Waiting) != 0 || !slices.Equal(out.Next, next) {
		t.Fatalf("%+v, %v", out, err)
	}
	st, err := th.State(context.Background())
	if err != nil || st.Status != pawl.Waiting || st.Cause != pawl.CauseDrained || st.Reason != "deploy" || !slices.Contains(st.Legal, pawl.VerbResume) || st.Crashes != 0 {
		t.Fatalf("%+v, %v", st, err)
	}
	refused := (*pawl.VerbError)(nil)
	if _, err := th.Run(context.Background(), nil); !errors.As(err, &refused) || !strings.Contains(err.Error(), "waiting (drained)") || !strings.Contains(err.Error(), "resume it") {
		t.Errorf("a new run: %v", err)
	}
}

// A run stops at the end of the super-step in which it is drained, in every mode, and goes on with nothing twice.
func TestDrainedRun(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, at, before, next string
	}{
		{"in the first node", "a", "a", "b"},
		{"in the middle", "b", "a b", "c"},
		{"in the last node", "c", "a b c", ""},
		{"before it starts", "", "", "a"},
	} {
		for _, mode := range []pawl.Durability{pawl.Sync, pawl.Async, pawl.Exit} {
			t.Run(c.name+"/"+string(mode), func(t *testing.T) {
				t.Parallel()
				e := &visits{}
				ctx, drain := pawl.WithDrain(t.Context())
				db := hooked(t)
				g := drainable(t, e, &drain, c.at, "a", "b", "c")
				th := g.Thread(opened(t, db, &pawl.Options{Durability: mode}), "t")
				if c.at == "" {
					drain("deploy")
				}
				out, err := th.Run(ctx, nil)
				if e.String() != c.before {
					t.Fatalf("entered %s", e)
				}
				if c.next == "" {
					if err != nil || out.Status != pawl.Done || out.Cause != "" {
						t.Fatal(out, err)
					}
					return
				}
				drainedRun(t, th, out, err, c.next)
				other := g.Thread(opened(t, db, nil), "t") // as another process
				if out, err = other.Resume(ctx); e.String() != c.before {
					t.Fatalf("resumed in a context that is drained: %s", e)
				}
				drainedRun(t, other, out, err, c.next)
				out, err = other.Resume(t.Context())
				if c.at == "" && err == nil {
					return
				}
				if err != nil || out.Status != pawl.Done || out.Cause != "" || out.Reason != "" || e.String() != "a b c" || !slices.Equal(logged(out.State), []string{"a", "b", "c"}) {
					t.Errorf("%+v, %v, entered %s", out, err, e)
				}
				if st, err := other.State(t.Context()); err != nil || st.Cause != "" || st.Reason != "" {
					t.Errorf("%+v, %v", st, err)
				}
			})
		}
	}
}

// Siblings of the super-step end, what fails or asks is what it is, and the first reason counts.
func TestDrainBesideOthers(t *testing.T) {
	t.Parallel()
	q := pawl.Interrupt[string, string]{Name: "q"}
	for _, c := range []struct {
		name    string
		sibling func(ctx context.Context) error
		want    pawl.Status
		cause   pawl.Cause
		open    int
	}{
		{"one that ends", func(context.Context) error { return nil }, pawl.Waiting, pawl.CauseDrained, 0},
		{"one that fails", func(context.Context) error { return errBroken }, pawl.Failed, pawl.CauseError, 0},
		{"one that asks", func(ctx context.Context) error { _, err := q.Ask(ctx, "?"); return err }, pawl.Waiting, "", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ctx, drain := pawl.WithDrain(t.Context())
			g := built(t, pawl.New[note]("g").
				Node("a", func(context.Context, *note) error { drain("first"); drain("second"); return nil }).
				Node("b", func(ctx context.Context, _ *note) error { return c.sibling(ctx) }, pawl.Uses(q)).
				Node("c", func(_ context.Context, s *note) error { s.Text.Set("c"); return nil }).
				Edge(pawl.Start, "a").Edge(pawl.Start, "b").Join([]string{"a", "b"}, "c"))
			th := g.Thread(opened(t, hooked(t), nil), "t")
			out, _ := th.Run(ctx, nil)
			if out.Status != c.want || out.Cause != c.cause || len(out.Waiting) != c.open || c.cause == pawl.CauseDrained && out.Reason != "first" {
				t.Fatalf("%+v", out)
			}
			if c.open > 0 { // the answer comes after the drain: it is taken, and no node runs
				if out, err := th.Resume(ctx, q.Answer("", "yes")); err != nil || out.Cause != pawl.CauseDrained || len(out.Waiting) != 0 || !slices.Equal(out.Next, []string{"a", "b"}) {
					t.Fatalf("%+v, %v", out, err)
				}
			}
			if c.want == pawl.Failed {
				return
			}
			if out, err := th.Resume(t.Context()); err != nil || out.State.Text.Get() != "c" {
				t.Errorf("%+v, %v", out, err)
			}
		})
	}
}

// A child stops between its own super-steps, at any depth, and nothing of it or around it runs twice. One that keeps
// nothing ends first.
func TestDrainInsideAChild(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		modes []pawl.ChildMode // from the outside in
		want  string           // entered before the drain stopped it
	}{
		{"inherit", []pawl.ChildMode{pawl.Inherit}, "before i1"},
		{"per thread", []pawl.ChildMode{pawl.PerThread}, "before i1"},
		{"stateless", []pawl.ChildMode{pawl.Stateless}, "before i1 i2"},
		{"two deep", []pawl.ChildMode{pawl.Inherit, pawl.Inherit}, "before i1"},
		{"two deep, one that remembers", []pawl.ChildMode{pawl.PerThread, pawl.Inherit}, "before i1"},
		{"stateless inside", []pawl.ChildMode{pawl.Inherit, pawl.Stateless}, "before i1 i2"},
	} {
		for _, mode := range []pawl.Durability{pawl.Sync, pawl.Async, pawl.Exit} {
			t.Run(c.name+"/"+string(mode), func(t *testing.T) {
				t.Parallel()
				e := &visits{}
				ctx, drain := pawl.WithDrain(t.Context())
				say := func(name string) func(context.Context, *lines) error {
					return func(_ context.Context, s *lines) error {
						e.add(name)
						s.Log.Add(name)
						if name == "i1" {
							drain("deploy")
						}
						return nil
					}
				}
				g := linesOf(t, pawl.New[lines]("inner").Node("i1", say("i1")).Node("i2", say("i2")).Path(pawl.Start, "i1", "i2"))
				for depth := len(c.modes) - 1; depth >= 0; depth-- {
					b := pawl.New[lines]("outer")
					sub := pawl.Sub(g.Child("sub", c.modes[depth]), func(*lines) *lines { return nil }, func(s *lines, r *pawl.Result[lines]) error {
						s.Log.Add(logged(r.State)...)
						return nil
					})
					if depth > 0 {
						g = linesOf(t, b.Add(sub).Path(pawl.Start, "sub"))
						continue
					}
					g = linesOf(t, b.Node("before", say("before")).Add(sub).Node("after", say("after")).Path(pawl.Start, "before", "sub", "after"))
				}
				db := hooked(t)
				th := g.Thread(opened(t, db, &pawl.Options{Durability: mode}), "t")
				out, err := th.Run(ctx, nil)
				if e.String() != c.want {
					t.Fatalf("entered %s, want %s", e, c.want)
				}
				next := "sub"
				if strings.Contains(c.want, "i2") {
					next = "after"
				}
				drainedRun(t, th, out, err, next)
				out, err = g.Thread(opened(t, db, nil), "t").Resume(t.Context())
				if err != nil || out.Status != pawl.Done || e.String() != "before i1 i2 after" || !slices.Equal(logged(out.State), []string{"before", "i1", "i2", "after"}) {
					t.Errorf("%+v, %v, entered %s", out, err, e)
				}
			})
		}
	}
}

// What may be done with a drained thread besides resuming it.
func TestVerbsOnADrainedThread(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		do   func(th *pawl.ThreadOf[lines]) error
		want pawl.Status
		log  []string
	}{
		"edit": {func(th *pawl.ThreadOf[lines]) error {
			out, err := th.Edit(context.Background(), func(s *lines) error { s.Log.Add("edited"); return nil })
			if err == nil && (out.Status != pawl.Waiting || out.Cause != pawl.CauseDrained || out.Reason != "deploy") {
				t.Errorf("an edit makes it %s, %s", out.Status, out.Cause)
			}
			if err == nil {
				_, err = th.Resume(context.Background())
			}
			return err
		}, pawl.Done, []string{"a", "edited", "b", "c"}},
		"fork": {func(th *pawl.ThreadOf[lines]) error {
			_, err := th.Fork(context.Background(), pawl.Before("b"), func(s *lines) error { s.Log.Add("forked"); return nil })
			return err
		}, pawl.Done, []string{"a", "forked", "b", "c"}},
		"replay": {func(th *pawl.ThreadOf[lines]) error {
			_, err := th.Replay(context.Background(), pawl.Before("b"))
			return err
		}, pawl.Done, []string{"a", "b", "c"}},
		"cancel": {func(th *pawl.ThreadOf[lines]) error { return th.Cancel(context.Background(), "not needed") }, pawl.Cancelled, []string{"a"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, drain := pawl.WithDrain(t.Context())
			th := drainable(t, &visits{}, &drain, "a", "a", "b", "c").Thread(opened(t, hooked(t), nil), "t")
			out, err := th.Run(ctx, nil)
			drainedRun(t, th, out, err, "b")
			if err := c.do(th); err != nil {
				t.Fatal(err)
			}
			st, err := th.State(t.Context())
			if err != nil || st.Status != c.want || st.Cause != "" {
				t.Fatal(st, err)
			}
			if s, err := th.Read(st.Head); err != nil || !slices.Equal(logged(s), c.log) {
				t.Error(logged(s), err)
			}
		})
	}
}

// A breakpoint that is due is what stops the run; the drain is seen at the next boundary.
func TestDrainAtABreakpoint(t *testing.T) {
	t.Parallel()
	ctx, drain := pawl.WithDrain(t.Context())
	e := &visits{}
	g := drainable(t, e, &drain, "a", "a", "b", "c")
	th := g.Thread(opened(t, hooked(t), nil), "t")
	out, err := th.Run(ctx, nil, pawl.BreakBefore("b"))
	if err != nil || out.Status != pawl.Waiting || out.Cause != "" {
		t.Fatalf("%+v, %v", out, err)
	}
	if out, err = th.Resume(ctx); err != nil || out.Cause != pawl.CauseDrained || e.String() != "a" {
		t.Fatalf("%+v, %v", out, err)
	}
	if out, err = th.Resume(t.Context()); err != nil || out.Status != pawl.Done || e.String() != "a b c" {
		t.Errorf("%+v, %v", out, err)
	}
}

// Drains are seen by what is inside them, and by nothing beside them.
func TestDrainsInsideEachOther(t *testing.T) {
	t.Parallel()
	outer, stopAll := pawl.WithDrain(t.Context())
	one, stopOne := pawl.WithDrain(outer)
	two, _ := pawl.WithDrain(outer)
	is := func(ctx context.Context, want string) {
		t.Helper()
		if reason, ok := pawl.Draining(ctx); reason != want || ok != (want != "") {
			t.Errorf("%q, %v, want %q", reason, ok, want)
		}
	}
	is(one, "")
	stopOne("one")
	is(one, "one")
	is(two, "")
	is(outer, "")
	stopAll("all")
	stopAll("again")
	is(one, "one")
	is(two, "all")
	is(outer, "all")
	is(t.Context(), "")
}

// A shutdown waits for the super-steps that run, stops every run behind its own, and takes none up.
func TestShutdown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := hooked(t)
		eng := opened(t, db, nil)
		work := func(d time.Duration) func(context.Context, *lines) error {
			return func(ctx context.Context, s *lines) error {
				s.Log.Add("worked")
				return sleep(ctx, d)
			}
		}
		g := linesOf(t, pawl.New[lines]("two").Node("a", work(time.Minute)).Node("b", work(time.Minute)).Path(pawl.Start, "a", "b"))
		last := linesOf(t, pawl.New[lines]("one").Node("a", work(2*time.Minute)).Path(pawl.Start, "a"))
		outs := make([]*pawl.OutcomeOf[lines], 3)
		var wg sync.WaitGroup
		for i, th := range []*pawl.ThreadOf[lines]{g.Thread(eng, "t0"), g.Thread(eng.Tenant("other"), "t1"), last.Thread(eng, "t2")} {
			wg.Go(func() { outs[i], _ = th.Run(context.Background(), nil) })
		}
		<-time.After(time.Second)
		began := time.Now()
		wg.Go(func() {
			<-time.After(time.Second)
			for verb, do := range map[string]func(*pawl.ThreadOf[lines]) error{
				"run":    func(th *pawl.ThreadOf[lines]) error { _, err := th.Run(context.Background(), nil); return err },
				"resume": func(th *pawl.ThreadOf[lines]) error { _, err := th.Resume(context.Background()); return err },
				"retry":  func(th *pawl.ThreadOf[lines]) error { _, err := th.Retry(context.Background()); return err },
				"replay": func(th *pawl.ThreadOf[lines]) error {
					_, err := th.Replay(context.Background(), pawl.Before("a"))
					return err
				},
			} {
				if err := do(g.Thread(eng, "new")); !errors.Is(err, pawl.ErrClosed) || !strings.Contains(err.Error(), "it shuts down (deploy)") {
					t.Errorf("%s: %v", verb, err)
				}
			}
			if st, err := g.Thread(eng, "t0").State(context.Background()); err != nil || st.Status != pawl.Running {
				t.Errorf("what is read meanwhile: %v, %v", st, err)
			}
		})
		if err := eng.Shutdown(context.Background(), "deploy"); err != nil || time.Since(began) != 2*time.Minute-time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		wg.Wait()
		for i, want := range []pawl.Cause{pawl.CauseDrained, pawl.CauseDrained, ""} {
			if outs[i] == nil || outs[i].Cause != want || (outs[i].Status == pawl.Done) != (want == "") {
				t.Errorf("run %d: %+v", i, outs[i])
			}
		}
		if _, err := g.Thread(eng, "new").State(context.Background()); !errors.Is(err, pawl.ErrClosed) {
			t.Errorf("afterwards: %v", err)
		}
		out, err := g.Thread(opened(t, db, nil), "t0").Resume(context.Background())
		if err != nil || out.State.Log.Len() != 2 {
			t.Errorf("the next process: %v, %v", out, err)
		}
	})
}

// A shutdown that may not wait stops what runs, and says so.
func TestShutdownInAHurry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := hooked(t)
		eng := opened(t, db, nil)
		entered := 0
		g := linesOf(t, pawl.New[lines]("one").Node("a", func(ctx context.Context, s *lines) error {
			if entered++; entered > 1 {
				return nil
			}
			return sleep(ctx, time.Hour)
		}).Path(pawl.Start, "a"))
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = g.Thread(eng, "t").Run(context.Background(), nil) })
		<-time.After(time.Second)
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		err := eng.Shutdown(ctx, "deploy")
		if late := (*pawl.ShutdownError)(nil); !errors.As(err, &late) || late.Runs != 1 || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "resume") {
			t.Error(err)
		}
		wg.Wait()
		if out, err := g.Thread(opened(t, db, nil), "t").Resume(context.Background()); err != nil || out.Status != pawl.Done || entered != 2 {
			t.Errorf("%+v, %v", out, err)
		}
		if err := eng.Shutdown(context.Background(), "again"); err != nil {
			t.Errorf("twice: %v", err)
		}
	})
}

// A node that runs another thread may do so while the engine shuts down: that one is accepted, and stops before it begins.
func TestShutdownAndARunInsideANode(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		eng := opened(t, hooked(t), nil)
		inner := linesOf(t, pawl.New[lines]("inner").Node("a", func(context.Context, *lines) error { return nil }).Path(pawl.Start, "a"))
		g := linesOf(t, pawl.New[lines]("outer").Node("n", func(ctx context.Context, s *lines) error {
			if err := sleep(ctx, time.Minute); err != nil {
				return err
			}
			out, err := inner.Thread(eng, "inner").Run(ctx, nil)
			if err == nil {
				s.Log.Add(string(out.Status) + " " + string(out.Cause))
			}
			return err
		}).Path(pawl.Start, "n"))
		var out *pawl.OutcomeOf[lines]
		var err error
		var wg sync.WaitGroup
		wg.Go(func() { out, err = g.Thread(eng, "outer").Run(context.Background(), nil) })
		<-time.After(time.Second)
		if err := eng.Shutdown(context.Background(), "deploy"); err != nil {
			t.Error(err)
		}
		wg.Wait()
		if err != nil || out.Status != pawl.Done || !slices.Equal(logged(out.State), []string{"waiting drained"}) {
			t.Errorf("%+v, %v", out, err)
		}
	})
}

// Close stops a run in the middle of a super-step: what ended is kept, what was stopped is entered again, in every mode,
// whatever error the node made of it, and a Runner goes on with it.
func TestCloseDrains(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{"the node returns": nil, "it says something else": errors.New("the line is dead")} {
		for _, mode := range []pawl.Durability{pawl.Sync, pawl.Async, pawl.Exit} {
			for _, inside := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/inside %v", name, mode, inside), func(t *testing.T) {
					t.Parallel()
					closedOver(t, mode, inside, err)
				})
			}
		}
	}
}

func closedOver(t *testing.T, mode pawl.Durability, inside bool, says error) {
	var e visits
	busy, held := make(chan struct{}), true
	g := linesOf(t, pawl.New[lines]("inner").
		Node("a", func(_ context.Context, s *lines) error { e.add("a"); s.Log.Add("a"); return nil }).
		Node("b", func(ctx context.Context, s *lines) error {
			e.add("b")
			if s.Log.Add("b"); !held {
				return nil
			}
			close(busy)
			<-ctx.Done()
			return cmp.Or(says, ctx.Err())
		}).
		Node("c", func(_ context.Context, s *lines) error { e.add("c"); s.Log.Add("c"); return nil }).
		Edge(pawl.Start, "a").Edge("a", "b").Edge("a", "c"))
	if inside {
		g = linesOf(t, pawl.New[lines]("outer").Add(pawl.Sub(g.Child("inner"), func(*lines) *lines { return &lines{} },
			func(s *lines, r *pawl.Result[lines]) error { s.Log.Add(logged(r.State)...); return nil })).Path(pawl.Start, "inner"))
	}
	db := hooked(t)
	eng := opened(t, db, &pawl.Options{Durability: mode})
	var out *pawl.OutcomeOf[lines]
	var err error
	var wg sync.WaitGroup
	wg.Go(func() { out, err = g.Thread(eng, "t").Run(context.Background(), nil) })
	<-busy
	if err := eng.Close(); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	if err != nil || out.Status != pawl.Waiting || out.Cause != pawl.CauseDrained || out.Reason != "the engine was closed" {
		t.Fatalf("%+v, %v", out, err)
	}
	held = false
	next := opened(t, db, nil)
	th, r := g.Thread(next, "t"), next.Runner()
	if st, err := th.State(t.Context()); err != nil || st.Status != pawl.Waiting || st.Crashes != 0 || !slices.Contains(st.Legal, pawl.VerbResume) {
		t.Fatalf("%+v, %v", st, err)
	}
	if n, _, err := r.Due(t.Context(), 1); n != 1 || err != nil {
		t.Fatalf("%d threads went on, %v", n, err)
	}
	if err := r.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	st, err := th.State(t.Context())
	if err != nil || st.Status != pawl.Done || string(st.Values) != `{"log":["a","b","c"]}` {
		t.Errorf("%+v, %v", st, err)
	}
	if n := strings.Count(e.String(), "a"); n != 1 || strings.Count(e.String(), "b") != 2 {
		t.Errorf("entered %s", &e)
	}
}
