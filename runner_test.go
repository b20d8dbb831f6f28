package pawl_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/memdb"
	"github.com/pawl-dev/pawl/storage"
	"github.com/pawl-dev/pawl/storage/fault"
	"github.com/pawl-dev/pawl/worker"
)

// serve runs a worker with a runner over an engine until stop, and then waits for its runs.
func serve(t *testing.T, db storage.DB, eng *pawl.Engine) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r, over := eng.Runner(), make(chan error, 1)
	go func() { over <- worker.New(db, nil, r).Run(ctx) }()
	return func() {
		t.Helper()
		cancel()
		if err := errors.Join(<-over, r.Wait(context.WithoutCancel(ctx))); err != nil {
			t.Error(err)
		}
	}
}

// pickUp lets a runner do what there is to do.
func pickUp(t *testing.T, eng *pawl.Engine) (done int) {
	t.Helper()
	r := eng.Runner()
	done, _, err := r.Due(t.Context(), 100)
	if err := errors.Join(err, r.Wait(t.Context())); err != nil {
		t.Error(err)
	}
	return done
}

func linesNode(v *visits, name string) func(context.Context, *lines) error {
	return func(_ context.Context, s *lines) error { v.add(name); s.Log.Add(name); return nil }
}

func linesAsk(v *visits, name string, key string) func(context.Context, *lines) error {
	return func(ctx context.Context, s *lines) error {
		v.add(name)
		answer, err := gate.Ask(ctx, name, pawl.Key(key))
		if err == nil {
			s.Log.Add(name + ":" + answer)
		}
		return err
	}
}

// asked runs a thread to its questions.
func asked(t *testing.T, th *pawl.ThreadOf[lines], n int) []pawl.Question {
	t.Helper()
	out, err := th.Run(t.Context(), &lines{})
	if err != nil || len(out.Waiting) != n {
		t.Fatalf("%d questions are open, want %d: %v", len(out.Waiting), n, err)
	}
	return out.Waiting
}

func stands(t *testing.T, th *pawl.ThreadOf[lines], status pawl.Status, values string) {
	t.Helper()
	st, err := th.State(t.Context())
	if err != nil || st.Status != status || string(st.Values) != values {
		t.Errorf("thread %s is %s, %s, %v; want %s, %s", th.ID(), st.Status, st.Values, err, status, values)
	}
}

func TestRunnerGoesOnAfterAnswers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db, v := hooked(t), &visits{}
		g := linesOf(t, pawl.New[lines]("g").Node("a", linesAsk(v, "a", ""), pawl.Uses(gate)).Node("b", linesAsk(v, "b", ""), pawl.Uses(gate)).
			Node("end", linesNode(v, "end")).Edge(pawl.Start, "a").Edge(pawl.Start, "b").Join([]string{"a", "b"}, "end"))
		var stops []func()
		for range 2 { // of two one takes it
			eng := opened(t, db, nil)
			if err := eng.Register(g); err != nil {
				t.Fatal(err)
			}
			stops = append(stops, serve(t, db, eng))
		}
		desk := opened(t, db, nil)
		th := g.Thread(desk, "t")
		open := asked(t, th, 2)
		<-time.After(time.Hour)
		if _, err := desk.Answer(t.Context(), open[0].ID, "yes"); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Second)
		st, err := th.State(t.Context())
		if err != nil || st.Status != pawl.Waiting || len(st.Waiting) != 1 {
			t.Errorf("after one answer it is %s with %d open, %v", st.Status, len(st.Waiting), err)
		}
		if _, err := desk.Answer(t.Context(), open[1].ID, "no"); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Second)
		stands(t, th, pawl.Done, `{"log":["a:yes","b:no","end"]}`)
		entered := strings.Fields(v.String())
		if slices.Sort(entered); !slices.Equal(entered, []string{"a", "a", "b", "b", "end"}) {
			t.Errorf("entered %q", entered)
		}
		for _, stop := range stops {
			stop()
		}
	})
}

// What stands because a person means it to stand, or because nobody here can go on, is left alone.
func TestRunnerLeavesAlone(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	down := errors.New("down")
	v := &visits{}
	waiting := func(opts ...pawl.RunOption) func(*testing.T, *pawl.ThreadOf[lines]) {
		return func(t *testing.T, th *pawl.ThreadOf[lines]) {
			if _, err := th.Run(ctx, &lines{}, opts...); err != nil {
				t.Fatal(err)
			}
		}
	}
	plain := func(t *testing.T) *pawl.Graph[lines] {
		return linesOf(t, pawl.New[lines]("g").Node("a", linesNode(v, "a")).Node("ask", linesAsk(v, "ask", ""), pawl.Uses(gate)).
			Node("z", linesNode(v, "z")).Path(pawl.Start, "a", "ask", "z"))
	}
	answered := func(t *testing.T, th *pawl.ThreadOf[lines]) {
		waiting()(t, th)
		if _, err := th.Answer(ctx, "", "yes"); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		graph func(*testing.T) *pawl.Graph[lines]
		begin func(*testing.T, *pawl.ThreadOf[lines])
		serve func(*testing.T, *pawl.Engine) // registers what the runner's engine has; nil: the same graph
		want  pawl.Status
	}{
		"an open question": {plain, waiting(), nil, pawl.Waiting},
		"a breakpoint":     {plain, waiting(pawl.BreakBefore("a")), nil, pawl.Waiting},
		"a breakpoint behind an answer": {plain, func(t *testing.T, th *pawl.ThreadOf[lines]) {
			waiting(pawl.BreakAfter("ask"))(t, th)
			if _, err := th.Resume(ctx, pawl.AnswerWith("", "yes")); err != nil {
				t.Fatal(err)
			}
		}, nil, pawl.Waiting},
		"an edit": {plain, func(t *testing.T, th *pawl.ThreadOf[lines]) {
			answered(t, th)
			if _, err := th.Edit(ctx, func(s *lines) error { s.Log.Add("edit"); return nil }); err != nil {
				t.Fatal(err)
			}
		}, nil, pawl.Waiting},
		"a held fork": {plain, func(t *testing.T, th *pawl.ThreadOf[lines]) {
			answered(t, th)
			if _, err := th.Fork(ctx, pawl.Before("ask"), nil, pawl.Hold()); err != nil {
				t.Fatal(err)
			}
		}, nil, pawl.Waiting},
		"one of two questions of a node": {func(t *testing.T) *pawl.Graph[lines] {
			return linesOf(t, pawl.New[lines]("g").Node("two", func(ctx context.Context, s *lines) error {
				_, first := gate.Ask(ctx, "1", pawl.Key("1"))
				_, second := gate.Ask(ctx, "2", pawl.Key("2"))
				return errors.Join(first, second)
			}, pawl.Uses(gate)).Path(pawl.Start, "two"))
		}, func(t *testing.T, th *pawl.ThreadOf[lines]) {
			if _, err := th.Answer(ctx, asked(t, th, 2)[0].ID, "yes"); err != nil {
				t.Fatal(err)
			}
		}, nil, pawl.Waiting},
		"a failure": {func(t *testing.T) *pawl.Graph[lines] {
			return linesOf(t, pawl.New[lines]("g").Node("a", func(context.Context, *lines) error { return down }).Path(pawl.Start, "a"))
		}, func(t *testing.T, th *pawl.ThreadOf[lines]) {
			if _, err := th.Run(ctx, &lines{}); !errors.Is(err, down) {
				t.Fatal(err)
			}
		}, nil, pawl.Failed},
		"a cancelled run": {plain, func(t *testing.T, th *pawl.ThreadOf[lines]) {
			answered(t, th)
			if err := th.Cancel(ctx, "enough"); err != nil {
				t.Fatal(err)
			}
		}, nil, pawl.Cancelled},
		"a graph that is not here": {plain, answered, func(t *testing.T, eng *pawl.Engine) {
			if err := eng.Register(linesOf(t, pawl.New[lines]("other").Node("a", linesNode(v, "a")).Path(pawl.Start, "a"))); err != nil {
				t.Fatal(err)
			}
		}, pawl.Waiting},
		"another version of the graph": {plain, answered, func(t *testing.T, eng *pawl.Engine) {
			g := linesOf(t, pawl.New[lines]("g").Node("a", linesNode(v, "a"), pawl.Version(2)).Node("ask", linesAsk(v, "ask", ""), pawl.Uses(gate)).
				Path(pawl.Start, "a", "ask"))
			if err := eng.Register(g); err != nil {
				t.Fatal(err)
			}
		}, pawl.Waiting},
		"another tenant's thread": {plain, answered, func(t *testing.T, eng *pawl.Engine) { *eng = *eng.Tenant("other") }, pawl.Waiting},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := hooked(t)
			g := c.graph(t)
			th := g.Thread(opened(t, db, nil), "t")
			c.begin(t, th)
			before, err := th.State(ctx)
			if err != nil || before.Status != c.want {
				t.Fatalf("it is %s, %v", before.Status, err)
			}
			eng := opened(t, db, nil)
			if c.serve != nil {
				c.serve(t, eng)
			}
			if c.serve == nil || name == "another tenant's thread" {
				if err := eng.Register(g); err != nil {
					t.Fatal(err)
				}
			}
			r := eng.Runner()
			for range 3 {
				if done, _, err := r.Due(ctx, 10); err != nil || done != 0 && c.serve == nil {
					t.Errorf("it did %d, %v", done, err)
				}
				if err := r.Wait(ctx); err != nil {
					t.Fatal(err)
				}
			}
			after, err := th.State(ctx)
			if err != nil || after.Status != before.Status || !after.Updated.Equal(before.Updated) || after.Attempt != before.Attempt {
				t.Errorf("it was %s of %s and is %s of %s, %v", before.Status, before.Updated, after.Status, after.Updated, err)
			}
		})
	}
}

// An answer is stored, and the process dies: the next runner finds it. So it does a thread that died with its process,
// at every point of going on.
func TestRunnerAfterDeaths(t *testing.T) {
	t.Parallel()
	for _, mode := range []pawl.Durability{pawl.Sync, pawl.Async, pawl.Exit} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			for n, survived := 0, false; !survived; n++ {
				db, v := hooked(t), &visits{}
				g := linesOf(t, pawl.New[lines]("g").Node("a", linesAsk(v, "a", ""), pawl.Uses(gate)).Node("b", linesNode(v, "b")).
					Path(pawl.Start, "a", "b"))
				eng := opened(t, db, nil)
				if _, err := g.Thread(eng, "t").Run(t.Context(), &lines{}, pawl.WithDurability(mode)); err != nil {
					t.Fatal(err)
				}
				if _, err := g.Thread(eng, "t").Answer(t.Context(), "", "yes"); err != nil {
					t.Fatal(err)
				}
				if err := eng.Close(); err != nil {
					t.Fatal(err)
				}
				mortal := fault.Wrap(db, fault.Plan{At: fault.At(n, fault.Stop())})
				if first, err := pawl.NewEngine(mortal, nil); err == nil {
					if err := first.Register(g); err != nil {
						t.Fatal(err)
					}
					r := first.Runner()
					_, _, _ = r.Due(t.Context(), 10)
					_ = errors.Join(r.Wait(t.Context()), first.Close())
				}
				survived = mortal.Calls() < n
				next := opened(t, db, nil)
				th := g.Thread(next, "t")
				st, err := th.State(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if done := pickUp(t, next); done > 0 == (st.Status == pawl.Done) {
					t.Errorf("stopped at %d as %s: the next one resumed %d", n, st.Status, done)
				}
				stands(t, th, pawl.Done, `{"log":["a:yes","b"]}`)
			}
		})
	}
}

// Runs that were drained go on elsewhere; those of a worker that ends are drained.
func TestRunnerHandsOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db, v := hooked(t), &visits{}
		slow := func(name string) func(context.Context, *lines) error {
			return func(ctx context.Context, s *lines) error {
				v.add(name)
				s.Log.Add(name)
				<-time.After(time.Minute)
				return nil
			}
		}
		g := linesOf(t, pawl.New[lines]("g").Node("a", slow("a")).Node("b", slow("b")).Node("c", slow("c")).Path(pawl.Start, "a", "b", "c"))
		old := opened(t, db, nil)
		over := make(chan error)
		go func() {
			_, err := g.Thread(old, "t").Run(t.Context(), &lines{})
			over <- err
		}()
		<-time.After(time.Second)
		if err := old.Shutdown(t.Context(), "deploy"); err != nil || <-over != nil {
			t.Fatal(err)
		}
		eng := opened(t, db, nil)
		th := g.Thread(eng, "t")
		stands(t, th, pawl.Waiting, `{"log":["a"]}`)
		stop := serve(t, db, eng)
		<-time.After(time.Second)
		stop() // in b
		stands(t, th, pawl.Waiting, `{"log":["a","b"]}`)
		next := opened(t, db, nil)
		if err := next.Register(g); err != nil {
			t.Fatal(err)
		}
		stop = serve(t, db, next)
		<-time.After(2 * time.Minute)
		stands(t, th, pawl.Done, `{"log":["a","b","c"]}`)
		stop()
		if v.String() != "a b c" {
			t.Errorf("entered %s", v)
		}
	})
}

// A process that died is noticed though nothing in the database changes; at most so many threads run at once.
func TestRunnerNoticesDeaths(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db, most, now := hooked(t), 0, 0
		v := &visits{}
		g := linesOf(t, pawl.New[lines]("g").Node("a", func(ctx context.Context, s *lines) error {
			v.mu.Lock()
			now++
			most = max(most, now)
			v.mu.Unlock()
			select {
			case <-time.After(time.Hour):
			case <-ctx.Done():
			}
			v.mu.Lock()
			now--
			v.mu.Unlock()
			s.Log.Add("a")
			return context.Cause(ctx)
		}).Path(pawl.Start, "a"))
		mortal := fault.Wrap(db, fault.Plan{})
		dying, err := pawl.NewEngine(mortal, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 5 {
			go func() { _, _ = g.Thread(dying, fmt.Sprint(i)).Run(t.Context(), &lines{}) }()
		}
		eng := opened(t, db, nil)
		if err := eng.Register(g); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		over := make(chan error)
		go func() { over <- worker.New(db, &worker.Options{Limit: 2}, eng.Runner()).Run(ctx) }()
		<-time.After(time.Minute)
		mortal.Stop()
		_ = dying.Close()
		v.mu.Lock()
		most = 0
		v.mu.Unlock()
		<-time.After(pulses)
		if v.mu.Lock(); now != 2 {
			t.Errorf("%d run after the death, want 2", now)
		}
		v.mu.Unlock()
		<-time.After(4 * time.Hour)
		for i := range 5 {
			stands(t, g.Thread(eng, fmt.Sprint(i)), pawl.Done, `{"log":["a"]}`)
		}
		if cancel(); <-over != nil || most != 2 {
			t.Errorf("%d ran at once, want 2", most)
		}
	})
}

const pulses = 6 * time.Second

// Answers that a program without the graph took, and questions inside children, are gone on with, too.
func TestRunnerChecksAndDescends(t *testing.T) {
	t.Parallel()
	for _, mode := range []pawl.ChildMode{pawl.Inherit, pawl.PerThread, pawl.Stateless} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			strict := pawl.Interrupt[string, string]{Name: "strict", Check: func(_, a string) error {
				if a != "yes" {
					return errors.New("say yes")
				}
				return nil
			}}
			inner := linesOf(t, pawl.New[lines]("inner").Node("a", func(ctx context.Context, s *lines) error {
				answer, err := strict.Ask(ctx, "?")
				if err == nil {
					s.Log.Add(answer)
				}
				return err
			}, pawl.Uses(strict)).Path(pawl.Start, "a"))
			g := linesOf(t, pawl.New[lines]("outer").Add(pawl.Sub(inner.Child("inner", mode), func(*lines) *lines { return &lines{} },
				func(s *lines, r *pawl.Result[lines]) error { s.Log.Add(logOf(&r.State.Log)...); return nil })).Path(pawl.Start, "inner"))
			db, err := memdb.Open(pawl.Kinds()...)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = db.Close() })
			eng, stock := opened(t, db, nil), opened(t, db, nil)
			th := g.Thread(eng, "t")
			id := asked(t, th, 1)[0].ID
			for i, answer := range []string{"no", "yes"} {
				verdict, err := stock.Answer(t.Context(), id, answer)
				if err != nil || !verdict.Submitted {
					t.Fatalf("%+v, %v", verdict, err)
				}
				if done := pickUp(t, eng); done != 1 {
					t.Errorf("%d resumed", done)
				}
				if st, err := th.State(t.Context()); err != nil || (st.Status == pawl.Done) != (i == 1) {
					t.Errorf("after %q it is %s, %v", answer, st.Status, err)
				}
			}
			stands(t, th, pawl.Done, `{"log":["yes"]}`)
		})
	}
}
