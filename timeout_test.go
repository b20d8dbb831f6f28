package pawl_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
)

// lines is a state that many may write to.
type lines struct {
	Log pawl.Append[string] `json:"log"`
}

func logged(s *lines) (out []string) {
	for _, line := range s.Log.All() {
		out = append(out, line)
	}
	return out
}

// sleep is work that takes d and is given up when the context ends.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func linesOf(t *testing.T, b *pawl.Builder[lines]) *pawl.Graph[lines] {
	t.Helper()
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// A payload's timeout is used in place of the worker's, and is known again after a restart.
func TestTimeoutOfOnePayload(t *testing.T) {
	t.Parallel()
	type job struct {
		Takes time.Duration `json:"takes"`
	}
	for _, c := range []struct {
		name    string
		own     time.Duration // of the worker
		within  time.Duration // of the payload; 0: none
		takes   time.Duration
		expired time.Duration // 0: it ends well
	}{
		{"shorter than the worker's", time.Hour, time.Second, time.Minute, time.Second},
		{"longer than the worker's", time.Second, time.Hour, time.Minute, 0},
		{"the worker has none", 0, time.Second, time.Minute, time.Second},
		{"the payload has none", time.Second, 0, time.Minute, time.Second},
		{"in time", time.Second, time.Hour, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := pawl.NewWorker("w", func(ctx context.Context, s *lines, j job) error {
					s.Log.Add("worked")
					return sleep(ctx, j.Takes)
				}, pawl.Timeout(c.own))
				fan := func(*lines) []pawl.Next {
					sent := w.With(job{c.takes})
					if c.within > 0 {
						sent = pawl.Within(c.within, sent...)
					}
					return append(sent, w.With(job{})...)
				}
				g := linesOf(t, pawl.New[lines]("fan").Add(w).Route(pawl.Start, fan, "w"))
				db := hooked(t)
				th := g.Thread(opened(t, db, nil), "t")
				out, err := th.Run(context.Background(), nil)
				for range 2 { // the second time in another process
					got := (*pawl.TimeoutError)(nil)
					if errors.As(err, &got) != (c.expired > 0) || got != nil && (got.After != c.expired || got.Node != "w") {
						t.Fatalf("%v", err)
					}
					if c.expired == 0 {
						if err != nil || out.Status != pawl.Done {
							t.Fatal(out, err)
						}
						return
					}
					out, err = g.Thread(opened(t, db, nil), "t").Resume(context.Background())
				}
			})
		})
	}
}

func TestWithinRefuses(t *testing.T) {
	t.Parallel()
	w := pawl.NewWorker("w", func(context.Context, *lines, int) error { return nil })
	for name, c := range map[string]struct {
		chosen []pawl.Next
		want   string
	}{
		"no time":        {pawl.Within(0, w.With(1)...), "a time limit is positive"},
		"less than none": {pawl.Within(-time.Second, w.With(1)...), "a time limit is positive"},
		"a node":         {pawl.Within(time.Second, pawl.To("n")...), `node "n" is sent no payload`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := linesOf(t, pawl.New[lines]("fan").Add(w).Node("n", func(context.Context, *lines) error { return nil }).
				Route(pawl.Start, func(*lines) []pawl.Next { return c.chosen }, "w", "n"))
			_, err := g.Thread(opened(t, hooked(t), nil), "t").Run(t.Context(), nil)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Error(err)
			}
		})
	}
}

// What had ended when a super-step's time was over is kept, and the rest runs again.
func TestSuperStepTimeout(t *testing.T) {
	t.Parallel()
	type nodes = map[string]func(ctx context.Context, try int) error
	quick := func(context.Context, int) error { return nil }
	slow := func(ctx context.Context, try int) error {
		if try > 1 {
			return nil
		}
		return sleep(ctx, time.Hour)
	}
	for _, c := range []struct {
		name    string
		nodes   nodes
		opts    []pawl.NodeOption
		atOnce  int
		late    []string
		own     error          // of the node that failed
		entries map[string]int // in the run and its resume
	}{
		{name: "one does not end", nodes: nodes{"a": quick, "b": slow}, late: []string{"b"}, entries: map[string]int{"a": 1, "b": 2}},
		{name: "alone", nodes: nodes{"a": slow}, late: []string{"a"}, entries: map[string]int{"a": 2}},
		{name: "it is no failure to be tried again", nodes: nodes{"a": quick, "b": slow}, opts: []pawl.NodeOption{pawl.Tries(5), pawl.Backoff(0, 0)},
			late: []string{"b"}, entries: map[string]int{"a": 1, "b": 2}},
		{name: "nor to be handled", nodes: nodes{"b": slow}, opts: []pawl.NodeOption{pawl.OnError(func(context.Context, *lines, error) error { return nil })},
			late: []string{"b"}, entries: map[string]int{"b": 2}},
		{name: "what ends well afterwards is kept", nodes: nodes{"a": slow, "b": func(context.Context, int) error { <-time.After(time.Hour); return nil }},
			late: []string{"a", "b"}, entries: map[string]int{"a": 2, "b": 1}},
		{name: "all end well afterwards", nodes: nodes{"b": func(context.Context, int) error { <-time.After(time.Hour); return nil }},
			late: []string{"b"}, entries: map[string]int{"b": 1}},
		{name: "a failure because of it", nodes: nodes{"a": quick, "b": func(ctx context.Context, try int) error {
			if slow(ctx, try) != nil {
				return errBroken
			}
			return nil
		}}, late: []string{"b"}, own: errBroken, entries: map[string]int{"a": 1, "b": 2}},
		{name: "not entered yet", nodes: nodes{"a": slow, "b": quick}, atOnce: 1, late: []string{"a", "b"}, entries: map[string]int{"a": 2, "b": 1}},
	} {
		for _, by := range []string{"graph", "call", "call in place of the graph"} {
			for _, mode := range []pawl.Durability{pawl.Sync, pawl.Async, pawl.Exit} {
				t.Run(c.name+"/"+by+"/"+string(mode), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						entered := map[string]*atomic.Int32{}
						b := pawl.New[lines]("wide")
						for name, do := range c.nodes {
							n := new(atomic.Int32)
							entered[name] = n
							b.Edge(pawl.Start, name).Node(name, func(ctx context.Context, s *lines) error {
								s.Log.Add(name)
								return do(ctx, int(n.Add(1)))
							}, c.opts...)
						}
						var opts []pawl.RunOption
						switch by {
						case "graph":
							b.SuperStepTimeout(time.Minute)
						case "call in place of the graph":
							b.SuperStepTimeout(time.Millisecond)
							fallthrough
						case "call":
							opts = append(opts, pawl.SuperStepTimeout(time.Minute))
						}
						th := linesOf(t, b).Thread(opened(t, hooked(t), &pawl.Options{Concurrency: c.atOnce, Durability: mode}), "t")
						out, err := th.Run(context.Background(), nil, opts...)
						got := (*pawl.SuperStepTimeoutError)(nil)
						if !errors.As(err, &got) || got.After != time.Minute || !slices.Equal(got.Nodes, c.late) || got.Err != nil && !errors.Is(err, c.own) || (got.Err == nil) != (c.own == nil) {
							t.Fatalf("%+v: %v", got, err)
						}
						for _, word := range append(c.late, `thread "t"`, "1m0s", "resume") {
							if !strings.Contains(err.Error(), word) {
								t.Errorf("the error does not say %s: %v", word, err)
							}
						}
						if out.Status != pawl.Failed || out.Cause != pawl.CauseError || out.Node != c.late[0] {
							t.Errorf("%s (%s) at %q", out.Status, out.Cause, out.Node)
						}
						if out, err = th.Resume(context.Background(), opts...); err != nil || out.State.Log.Len() != len(c.nodes) {
							t.Fatal(out, err)
						}
						for name, want := range c.entries {
							if n := int(entered[name].Load()); n != want {
								t.Errorf("%s was entered %d times, want %d", name, n, want)
							}
						}
					})
				})
			}
		}
	}
}

// What a node fails with while there is time is the reason, whoever is slow beside it.
func TestFailureInsideTheSuperStepTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := linesOf(t, pawl.New[lines]("wide").SuperStepTimeout(time.Minute).
			Node("a", func(context.Context, *lines) error { <-time.After(time.Hour); return nil }).
			Node("b", func(ctx context.Context, _ *lines) error { _ = sleep(ctx, time.Second); return errBroken }).
			Edge(pawl.Start, "a").Edge(pawl.Start, "b"))
		_, err := g.Thread(opened(t, hooked(t), nil), "t").Run(context.Background(), nil)
		if !errors.Is(err, errBroken) || errors.As(err, new(*pawl.SuperStepTimeoutError)) {
			t.Error(err)
		}
	})
}

// Each super-step has its own time, and each start anew; a child's limit is a failure of the node that calls it.
func TestSuperStepTimeoutIsOfEach(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		work := func(ctx context.Context, _ *lines) error { return sleep(ctx, 50*time.Second) }
		line := func(b *pawl.Builder[lines]) *pawl.Builder[lines] {
			return b.Node("a", work).Node("b", work).Node("c", work).Path(pawl.Start, "a", "b", "c")
		}
		if out, err := linesOf(t, line(pawl.New[lines]("line").SuperStepTimeout(time.Minute))).Thread(opened(t, hooked(t), nil), "t").
			Run(context.Background(), nil); err != nil || out.Status != pawl.Done {
			t.Fatal(out, err)
		}
		child := linesOf(t, line(pawl.New[lines]("inner").SuperStepTimeout(time.Second))).Child("inner")
		tries := 0
		outer := linesOf(t, pawl.New[lines]("outer").Node("n", func(ctx context.Context, s *lines) error {
			tries++
			_, err := child.Call(ctx, nil)
			return err
		}, pawl.Uses(child), pawl.Tries(2), pawl.Backoff(0, 0)).Path(pawl.Start, "n"))
		_, err := outer.Thread(opened(t, hooked(t), nil), "t").Run(context.Background(), nil)
		got := (*pawl.SuperStepTimeoutError)(nil)
		if !errors.As(err, &got) || got.Path == "" || got.Nodes[0] != "a" || !strings.Contains(err.Error(), got.Path) || tries != 2 {
			t.Errorf("%d tries: %v", tries, err)
		}
	})
}

// The limit around a child ends what is in it, and the child goes on where it stood.
func TestSuperStepTimeoutAroundAChild(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		entered := map[string]int{}
		node := func(name string) func(context.Context, *lines) error {
			return func(ctx context.Context, s *lines) error {
				entered[name]++
				s.Log.Add(name)
				return sleep(ctx, 40*time.Second)
			}
		}
		child := linesOf(t, pawl.New[lines]("inner").Node("a", node("a")).Node("b", node("b")).Path(pawl.Start, "a", "b")).Child("inner")
		outer := linesOf(t, pawl.New[lines]("outer").SuperStepTimeout(time.Minute).
			Add(pawl.Sub(child, func(*lines) *lines { return nil }, func(s *lines, r *pawl.Result[lines]) error {
				s.Log.Add(logged(r.State)...)
				return nil
			}, pawl.Tries(3))).Path(pawl.Start, "inner"))
		th := outer.Thread(opened(t, hooked(t), nil), "t")
		_, err := th.Run(context.Background(), nil)
		if got := (*pawl.SuperStepTimeoutError)(nil); !errors.As(err, &got) || got.Path != "" || !slices.Equal(got.Nodes, []string{"inner"}) {
			t.Fatal(err)
		}
		out, err := th.Resume(context.Background())
		if err != nil || !slices.Equal(logged(out.State), []string{"a", "b"}) || entered["a"] != 1 || entered["b"] != 2 {
			t.Error(out, err, entered)
		}
	})
}

func TestSuperStepTimeoutFaults(t *testing.T) {
	t.Parallel()
	nothing := func(context.Context, *lines) error { return nil }
	if _, err := pawl.New[lines]("g").SuperStepTimeout(-1).Node("a", nothing).Edge(pawl.Start, "a").Build(); err == nil || !strings.Contains(err.Error(), "SuperStepTimeout(-1ns)") {
		t.Error(err)
	}
	th := linesOf(t, pawl.New[lines]("g").Node("a", nothing).Edge(pawl.Start, "a")).Thread(opened(t, hooked(t), nil), "t")
	if _, err := th.Run(t.Context(), nil, pawl.SuperStepTimeout(-1)); err == nil || !strings.Contains(err.Error(), "negative SuperStepTimeout") {
		t.Error(err)
	}
	if _, err := th.Run(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := th.Thread.Edit(t.Context(), json.RawMessage(`{}`), pawl.SuperStepTimeout(1)); err == nil || !strings.Contains(err.Error(), "edit takes no SuperStepTimeout") {
		t.Error(err)
	}
}
