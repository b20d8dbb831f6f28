package pawl_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
)

// How the waits between tries grow: what was waited in all, of which jitter adds at most so much.
func TestBackoff(t *testing.T) {
	t.Parallel()
	s := time.Second
	for _, c := range []struct {
		name   string
		opts   []pawl.NodeOption
		tries  int
		least  time.Duration
		jitter time.Duration // in all
	}{
		{"the usual", nil, 4, 500*time.Millisecond + s + 2*s, 350 * time.Millisecond},
		{"doubled up to the longest", []pawl.NodeOption{pawl.Backoff(s, 3*s), pawl.Jitter(0)}, 5, s + 2*s + 3*s + 3*s, 0},
		{"a factor of its own", []pawl.NodeOption{pawl.Backoff(s, 100*s), pawl.Factor(3), pawl.Jitter(0)}, 4, s + 3*s + 9*s, 0},
		{"a factor that is no whole number", []pawl.NodeOption{pawl.Backoff(2*s, 100*s), pawl.Factor(1.5), pawl.Jitter(0)}, 4, 2*s + 3*s + 4500*time.Millisecond, 0},
		{"always the same", []pawl.NodeOption{pawl.Backoff(s, 100*s), pawl.Factor(1), pawl.Jitter(0)}, 4, 3 * s, 0},
		{"a factor alone", []pawl.NodeOption{pawl.Factor(10), pawl.Jitter(0)}, 3, 500*time.Millisecond + 5*s, 0},
		{"jitter on top of the longest", []pawl.NodeOption{pawl.Backoff(s, s), pawl.Jitter(s)}, 5, 4 * s, 4 * s},
		{"jitter alone", []pawl.NodeOption{pawl.Backoff(0, 0), pawl.Jitter(s)}, 3, 0, 2 * s},
		{"none at all", []pawl.NodeOption{pawl.Backoff(0, 0)}, 9, 0, 0},
		{"it does not overflow", []pawl.NodeOption{pawl.Backoff(s, time.Hour), pawl.Factor(1e300), pawl.Jitter(0)}, 4, s + 2*time.Hour, 0},
		{"of a policy", []pawl.NodeOption{pawl.Backoff(9*s, 9*s), pawl.Jitter(0), pawl.RetryOn(is(errBroken), pawl.Backoff(s, 100*s), pawl.Factor(3), pawl.Jitter(0))}, 3, s + 3*s, 0},
		{"of a policy with a factor alone", []pawl.NodeOption{pawl.Backoff(9*s, 9*s), pawl.RetryOn(is(errBroken), pawl.Factor(4), pawl.Jitter(0))}, 3, 500*time.Millisecond + 2*s, 0},
		{"of the node, whose policy has none", []pawl.NodeOption{pawl.RetryOn(is(errBroken)), pawl.Backoff(s, 9*s), pawl.Factor(3), pawl.Jitter(0)}, 3, s + 3*s, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				entered, began := 0, time.Now()
				g := single(t, func(context.Context, *note) error { entered++; return errBroken }, append(c.opts, pawl.Tries(c.tries))...)
				eng, _ := pawl.NewEngine(nil, nil)
				_, err := g.Thread(eng, "t").Run(context.Background(), nil)
				if took := time.Since(began); !errors.Is(err, errBroken) || entered != c.tries || took < c.least || took > c.least+c.jitter {
					t.Errorf("%d tries in %v, want %d in %v and at most %v more: %v", entered, took, c.tries, c.least, c.jitter, err)
				}
			})
		})
	}
}

// Jitter is not the same each time.
func TestJitterSpreads(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		waits := map[time.Duration]bool{}
		last := time.Now()
		g := single(t, func(context.Context, *note) error {
			waits[time.Since(last)] = true
			last = time.Now()
			return errBroken
		}, pawl.Tries(50), pawl.Backoff(time.Second, time.Second), pawl.Jitter(time.Second))
		eng, _ := pawl.NewEngine(nil, nil)
		_, _ = g.Thread(eng, "t").Run(context.Background(), nil)
		if len(waits) < 40 {
			t.Errorf("%d different waits", len(waits))
		}
	})
}

// What nodes come to under the options of their graph: how often each was entered, what handled it, how long it took.
func TestDefaults(t *testing.T) {
	t.Parallel()
	handler := func(name string) pawl.NodeOption {
		return pawl.OnError(func(_ context.Context, s *note, err error) error { s.Text.Set(name); return nil })
	}
	type options = []pawl.NodeOption
	now := pawl.Backoff(0, 0)
	for _, c := range []struct {
		name     string
		defaults options
		own      options
		entered  int
		text     string // of the handler; empty: the run fails
		took     time.Duration
	}{
		{"none", nil, nil, 1, "", 0},
		{"tries", options{pawl.Tries(3), now}, nil, 3, "", 0},
		{"tries of its own", options{pawl.Tries(3), now}, options{pawl.Tries(5)}, 5, "", 0},
		{"no further try", options{pawl.Tries(3), now}, options{pawl.Tries(1)}, 1, "", 0},
		{"waits of its own", options{pawl.Tries(3), pawl.Backoff(time.Hour, time.Hour), pawl.Jitter(0)}, options{pawl.Backoff(time.Second, time.Second)}, 3, "", 2 * time.Second},
		{"a factor of its own", options{pawl.Tries(3), pawl.Backoff(time.Second, time.Hour), pawl.Jitter(0)}, options{pawl.Factor(5)}, 3, "", 6 * time.Second},
		{"a policy", options{pawl.RetryOn(is(errBroken), pawl.Tries(4), now)}, nil, 4, "", 0},
		{"a policy for other errors", options{pawl.RetryOn(is(errBusyLine), pawl.Tries(4), now)}, nil, 1, "", 0},
		{"policies of its own", options{pawl.RetryOn(is(errBroken), pawl.Tries(4), now)}, options{pawl.RetryOn(is(errBroken), pawl.Tries(2), now)}, 2, "", 0},
		{"policies of its own for others", options{pawl.RetryOn(is(errBroken), pawl.Tries(4), now)}, options{pawl.RetryOn(is(errBusyLine), pawl.Tries(2), now)}, 1, "", 0},
		{"a handler", options{handler("all")}, nil, 1, "all", 0},
		{"a handler of its own", options{handler("all")}, options{handler("own")}, 1, "own", 0},
		{"tries, then a handler", options{pawl.Tries(3), now, handler("all")}, nil, 3, "all", 0},
		{"a timeout", options{pawl.Timeout(time.Minute)}, nil, 1, "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				entered, began := 0, time.Now()
				g := built(t, pawl.New[note]("g").Path(pawl.Start, "a").
					Node("a", func(context.Context, *note) error { entered++; return errBroken }, c.own...).
					Defaults(c.defaults...)) // after the node: its place does not matter
				eng, _ := pawl.NewEngine(nil, nil)
				out, err := g.Thread(eng, "t").Run(context.Background(), nil)
				if entered != c.entered || time.Since(began) != c.took || out.State.Text.Get() != c.text || (err == nil) != (c.text != "") {
					t.Errorf("entered %d times in %v, handled by %q: %v", entered, time.Since(began), out.State.Text.Get(), err)
				}
			})
		})
	}
}

func TestDefaultTimeouts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		defaults pawl.NodeOption
		own      []pawl.NodeOption
		want     *pawl.TimeoutError
	}{
		{"of a try", pawl.Timeout(time.Second), nil, &pawl.TimeoutError{Node: "a", After: time.Second}},
		{"its own", pawl.Timeout(time.Second), []pawl.NodeOption{pawl.Timeout(time.Minute)}, &pawl.TimeoutError{Node: "a", After: time.Minute}},
		{"none for this one", pawl.Timeout(time.Second), []pawl.NodeOption{pawl.Timeout(0)}, nil},
		{"of progress", pawl.IdleTimeout(time.Second), nil, &pawl.TimeoutError{Node: "a", Idle: true, After: time.Second}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := built(t, pawl.New[note]("g").Defaults(c.defaults).Path(pawl.Start, "a").
					Node("a", func(ctx context.Context, _ *note) error { return sleep(ctx, time.Hour) }, c.own...))
				eng, _ := pawl.NewEngine(nil, nil)
				_, err := g.Thread(eng, "t").Run(context.Background(), nil)
				got := (*pawl.TimeoutError)(nil)
				if errors.As(err, &got) != (c.want != nil) || got != nil && *got != *c.want {
					t.Error(err)
				}
			})
		})
	}
}

// Defaults reach workers, questions and children as nodes, not the nodes inside a child, and not another graph that the
// same worker is in.
func TestWhomDefaultsReach(t *testing.T) {
	t.Parallel()
	entered := map[string]int{}
	fail := func(ctx context.Context, name string) error {
		entered[name]++
		return fmt.Errorf("%s: %w", name, errBroken)
	}
	w := pawl.NewWorker("w", func(ctx context.Context, _ *note, graph string) error { return fail(ctx, graph) })
	ask := pawl.AskNode(pawl.Interrupt[string, string]{Name: "ask"}, func(*note) string { return "?" }, func(*note, string) error { return nil })
	child := single(t, func(ctx context.Context, _ *note) error { return fail(ctx, "inside") }).Child("child")
	sub := pawl.Sub(child, func(*note) *note { return nil }, func(*note, *pawl.Result[note]) error { return nil })
	three := []pawl.NodeOption{pawl.Tries(3), pawl.Backoff(0, 0)}
	eng := opened(t, hooked(t), nil)
	for name, c := range map[string]struct {
		b    *pawl.Builder[note]
		want map[string]int
	}{
		"with": {pawl.New[note]("with").Defaults(three...).Add(w).
			Route(pawl.Start, func(*note) []pawl.Next { return w.With("with") }, "w"), map[string]int{"with": 3}},
		"without": {pawl.New[note]("without").Add(w).
			Route(pawl.Start, func(*note) []pawl.Next { return w.With("without") }, "w"), map[string]int{"without": 1}},
		"around": {pawl.New[note]("around").Defaults(three...).Add(sub).Path(pawl.Start, "child"), map[string]int{"inside": 3}},
	} {
		_, err := built(t, c.b).Thread(eng, name).Run(t.Context(), nil)
		if !errors.Is(err, errBroken) {
			t.Error(name, err)
		}
		for what, n := range c.want {
			if entered[what] != n {
				t.Errorf("%s: %s was entered %d times, want %d", name, what, entered[what], n)
			}
		}
	}
	out, err := built(t, pawl.New[note]("asks").Defaults(three...).Add(ask).Path(pawl.Start, "ask")).Thread(eng, "asks").Run(t.Context(), nil)
	if err != nil || out.Status != pawl.Waiting || len(out.Waiting) != 1 {
		t.Error(out, err)
	}
}

func TestDefaultsFaults(t *testing.T) {
	t.Parallel()
	nothing := func(context.Context, *note) error { return nil }
	for name, c := range map[string]struct {
		give pawl.NodeOption
		want string
	}{
		"uses":                     {pawl.Uses(pawl.Interrupt[string, string]{Name: "q"}), "Defaults: Defaults takes no Uses"},
		"version":                  {pawl.Version(2), "Defaults takes no Version"},
		"defer":                    {pawl.Defer(), "Defaults takes no Defer"},
		"targets":                  {pawl.Targets("a"), "Defaults takes no Targets"},
		"nil":                      {nil, "Defaults: a nil option"},
		"a fault of its own":       {pawl.Tries(0), "Defaults: Tries(0)"},
		"handler of another state": {pawl.OnError(func(context.Context, *lines, error) error { return nil }), "Defaults: OnError"},
		"factor":                   {pawl.Factor(0.5), "Factor(0.5)"},
		"jitter":                   {pawl.Jitter(-1), "Jitter(-1ns)"},
		"uses in a policy":         {pawl.RetryOn(is(errBroken), pawl.Uses(pawl.Interrupt[string, string]{Name: "q"})), "RetryOn takes no Uses"},
		"a policy in a policy":     {pawl.RetryOn(is(errBroken), pawl.RetryOn(is(errBroken))), "RetryOn takes no RetryOn"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := pawl.New[note]("g").Node("a", nothing).Node("b", nothing).Path(pawl.Start, "a", "b").Defaults(c.give).Build()
			faults := (*pawl.BuildError)(nil)
			if !errors.As(err, &faults) || len(faults.Faults) != 1 || !strings.Contains(faults.Faults[0], c.want) {
				t.Error(err)
			}
		})
	}
}
