package pawl_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/storage"
	"github.com/pawl-dev/pawl/storage/fault"
)

var (
	errBusyLine = errors.New("the line is busy")
	errBroken   = errors.New("the line is broken")
)

func is(want error) func(error) bool { return func(err error) bool { return errors.Is(err, want) } }

// The first policy that matches gives tries and waits; the count is shared; what matches none is final.
func TestRetryOn(t *testing.T) {
	t.Parallel()
	policies := []pawl.NodeOption{
		pawl.RetryOn(is(errBusyLine), pawl.Tries(3), pawl.Backoff(time.Second, time.Second)),
		pawl.RetryOn(is(errBroken)),
		pawl.Tries(2), pawl.Backoff(time.Minute, time.Minute),
	}
	for _, c := range []struct {
		name    string
		fails   []error
		entered int
		least   time.Duration
	}{
		{"its own tries and waits", []error{errBusyLine, errBusyLine, errBusyLine}, 3, 2 * time.Second},
		{"the node's where it gives none", []error{errBroken, errBroken}, 2, time.Minute},
		{"no policy", []error{errors.New("no such number")}, 1, 0},
		{"the count is shared", []error{errBusyLine, errBroken}, 2, time.Second},
		{"final whatever a policy says", []error{pawl.NoRetry(errBusyLine)}, 1, 0},
		{"it ends well", []error{errBusyLine}, 2, time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				entered, began := 0, time.Now()
				g := single(t, func(context.Context, *note) error {
					if entered++; entered <= len(c.fails) {
						return c.fails[entered-1]
					}
					return nil
				}, policies...)
				eng, _ := pawl.NewEngine(nil, nil)
				_, err := g.Thread(eng, "t").Run(context.Background(), nil)
				if (err == nil) != (entered > len(c.fails)) || entered != c.entered {
					t.Errorf("entered %d times: %v", entered, err)
				}
				if took := time.Since(began); took < c.least || took > c.least+c.least/5 {
					t.Errorf("it waited %v", took)
				}
			})
		})
	}
}

func TestOnError(t *testing.T) {
	t.Parallel()
	entered, handled := 0, 0
	g := built(t, pawl.New[note]("shop").
		Node("pay", func(_ context.Context, s *note) error {
			entered++
			s.Text.Set("of the node")
			return errBroken
		}, pawl.Tries(2), pawl.Backoff(0, 0), pawl.Targets("after"), pawl.OnError(func(ctx context.Context, s *note, err error) error {
			node := (*pawl.NodeError)(nil)
			if handled++; !errors.As(err, &node) || node.Node != "pay" || node.Try != 2 || !errors.Is(err, errBroken) {
				return fmt.Errorf("told %w", err)
			}
			s.Text.Set(s.Text.Get() + "handled")
			return pawl.Goto(ctx, pawl.To("after")...)
		})).
		Node("after", func(_ context.Context, s *note) error { s.Text.Set(s.Text.Get() + ", after"); return nil }).
		Edge(pawl.Start, "pay"))
	out, err := g.Thread(opened(t, hooked(t), nil), "t").Run(t.Context(), nil)
	if err != nil || out.State.Text.Get() != "handled, after" || entered != 2 || handled != 1 {
		t.Error(out, err, entered, handled)
	}
}

// What fails, waits or dies in the handler has the handler entered again, and never the node.
func TestOnErrorGoesOn(t *testing.T) {
	t.Parallel()
	q := pawl.Interrupt[string, string]{Name: "q"}
	for name, c := range map[string]struct {
		node   func(context.Context) error
		handle func(ctx context.Context, try int) error
		node2  int // entries of the node in all
		tries  int // entries of the handler in all
	}{
		"the handler fails once": {func(context.Context) error { return errBroken }, func(_ context.Context, try int) error {
			if try == 1 {
				return errBusyLine
			}
			return nil
		}, 1, 2},
		"the handler asks": {func(context.Context) error { return errBroken }, func(ctx context.Context, _ int) error {
			_, err := q.Ask(ctx, "fine?")
			return err
		}, 1, 2},
		"the node panics": {func(context.Context) error { panic("oh") }, func(context.Context, int) error { return nil }, 1, 1},
		"the node asked before it failed": {func(ctx context.Context) error {
			_, _ = q.Ask(ctx, "and?")
			return errBroken
		}, func(context.Context, int) error { return nil }, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			entered, handled := 0, 0
			text := ""
			g := single(t, func(ctx context.Context, _ *note) error { entered++; return c.node(ctx) }, pawl.Uses(q),
				pawl.OnError(func(ctx context.Context, s *note, err error) error {
					if handled++; handled == 1 {
						text = errors.Unwrap(err).Error()
					} else if got := errors.Unwrap(err).Error(); got != text {
						t.Errorf("told %q and then %q", text, got)
					}
					s.Text.Set("handled")
					return c.handle(ctx, handled)
				}))
			th := g.Thread(opened(t, hooked(t), nil), "t")
			out, err := th.Run(t.Context(), nil)
			switch {
			case out.Status == pawl.Failed && c.tries == 2 && errors.Is(err, errBusyLine):
				out, err = th.Resume(t.Context())
			case out.Status == pawl.Waiting:
				out, err = th.Resume(t.Context(), q.Answer("", "yes"))
			}
			if err != nil || out.Status != pawl.Done || out.State.Text.Get() != "handled" || entered != c.node2 || handled != c.tries {
				t.Fatal(out, err, entered, handled)
			}
			if st := status(t, th); len(st.Waiting) > 0 {
				t.Errorf("still open: %v", st.Waiting)
			}
		})
	}
}

func TestOnErrorIsNotAsked(t *testing.T) {
	t.Parallel()
	q := pawl.Interrupt[string, string]{Name: "q"}
	for name, c := range map[string]struct {
		node func(context.Context) error
		want pawl.Status
	}{
		"a wait":    {func(ctx context.Context) error { _, err := q.Ask(ctx, "fine?"); return err }, pawl.Waiting},
		"concluded": {func(context.Context) error { return pawl.Conclude("no stock") }, pawl.Failed},
		"name reuse": {func(ctx context.Context) error {
			for range 2 {
				if _, err := pawl.Step(ctx, "s", func(context.Context) (int, error) { return 1, nil }); err != nil {
					return err
				}
			}
			return nil
		}, pawl.Failed},
		"the end": {func(context.Context) error { return nil }, pawl.Done},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := single(t, func(ctx context.Context, _ *note) error { return c.node(ctx) }, pawl.Uses(q),
				pawl.OnError(func(context.Context, *note, error) error { t.Error("handled"); return nil }))
			out, _ := g.Thread(opened(t, hooked(t), nil), "t").Run(t.Context(), nil)
			if out.Status != c.want {
				t.Errorf("%s: %s", out.Status, out.Reason)
			}
		})
	}
}

func TestTimeouts(t *testing.T) {
	t.Parallel()
	work := func(beats int, swallow bool) func(context.Context, *note) error {
		return func(ctx context.Context, s *note) error {
			s.Text.Set("written")
			for range beats {
				select {
				case <-time.After(time.Second):
					pawl.Heartbeat(ctx)
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			select {
			case <-time.After(time.Hour):
			case <-ctx.Done():
				if !swallow {
					return ctx.Err()
				}
			}
			return nil
		}
	}
	for _, c := range []struct {
		name string
		node func(context.Context, *note) error
		opts []pawl.NodeOption
		want *pawl.TimeoutError
		took time.Duration
	}{
		{"the try", work(0, false), []pawl.NodeOption{pawl.Timeout(time.Minute)}, &pawl.TimeoutError{Node: "only", After: time.Minute}, time.Minute},
		{"the try, which ends as if nothing were", work(0, true), []pawl.NodeOption{pawl.Timeout(time.Minute)}, &pawl.TimeoutError{Node: "only", After: time.Minute}, time.Minute},
		{"no progress", work(0, false), []pawl.NodeOption{pawl.IdleTimeout(2 * time.Second)}, &pawl.TimeoutError{Node: "only", Idle: true, After: 2 * time.Second}, 2 * time.Second},
		{"progress for a while", work(10, false), []pawl.NodeOption{pawl.IdleTimeout(2 * time.Second)}, &pawl.TimeoutError{Node: "only", Idle: true, After: 2 * time.Second}, 12 * time.Second},
		{"heartbeats that are asked for", work(10, false), []pawl.NodeOption{pawl.HeartbeatTimeout(2 * time.Second)}, &pawl.TimeoutError{Node: "only", Idle: true, After: 2 * time.Second}, 12 * time.Second},
		{"steps where heartbeats are asked for", func(ctx context.Context, _ *note) error {
			for i := range 10 {
				if _, err := pawl.Step(ctx, "s", func(ctx context.Context) (int, error) {
					select {
					case <-time.After(time.Second):
						return i, nil
					case <-ctx.Done():
						return 0, ctx.Err()
					}
				}, pawl.Key(fmt.Sprint(i))); err != nil {
					return err
				}
			}
			return nil
		}, []pawl.NodeOption{pawl.HeartbeatTimeout(2 * time.Second)}, &pawl.TimeoutError{Node: "only", Idle: true, After: 2 * time.Second}, 2 * time.Second},
		{"progress does not extend the try", work(100, false), []pawl.NodeOption{pawl.IdleTimeout(2 * time.Second), pawl.Timeout(30500 * time.Millisecond)},
			&pawl.TimeoutError{Node: "only", After: 30500 * time.Millisecond}, 30500 * time.Millisecond},
		{"in time", func(_ context.Context, s *note) error { s.Text.Set("written"); return nil }, []pawl.NodeOption{pawl.IdleTimeout(time.Second), pawl.Timeout(time.Second)}, nil, 0},
		{"an error of its own", func(ctx context.Context, _ *note) error { <-ctx.Done(); return errBroken }, []pawl.NodeOption{pawl.Timeout(time.Second)}, nil, time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				eng, _ := pawl.NewEngine(nil, nil)
				out, err := single(t, c.node, c.opts...).Thread(eng, "t").Run(context.Background(), nil)
				got := (*pawl.TimeoutError)(nil)
				if errors.As(err, &got); (got == nil) != (c.want == nil) || got != nil && *got != *c.want || time.Since(began) != c.took {
					t.Fatalf("after %v: %v", time.Since(began), err)
				}
				if written := out.State.Text.Get() != ""; written != (err == nil) {
					t.Errorf("written: %v, %v", written, err)
				}
			})
		})
	}
}

func TestWhatANodeReadsOfItsRun(t *testing.T) {
	t.Parallel()
	type locale string
	left := []int{}
	inner := single(t, func(ctx context.Context, s *note) error {
		l, ok := pawl.Value[locale](ctx)
		if _, other := pawl.Value[string](ctx); other || !ok {
			return errors.New("another value, or none")
		}
		s.Text.Set(string(l))
		return nil
	})
	child := inner.Child("inner")
	node := func(ctx context.Context, s *note) error {
		left = append(left, pawl.RemainingSteps(ctx))
		r, err := child.Call(ctx, nil)
		if err == nil {
			s.Text.Set(s.Text.Get() + r.State.Text.Get())
		}
		return err
	}
	g := built(t, pawl.New[note]("g").Node("a", node, pawl.Uses(child)).Node("b", node, pawl.Uses(child)).Path(pawl.Start, "a", "b"))
	ctx := pawl.WithValue(t.Context(), locale("de"))
	out, err := g.Thread(opened(t, hooked(t), &pawl.Options{Limits: pawl.Limits{Steps: 2}}), "t").Run(ctx, nil)
	if err != nil || out.State.Text.Get() != "dede" || !slices.Equal(left, []int{2, 1}) {
		t.Error(out, err, left)
	}
}

func TestGotoOfAnUndeclaredTarget(t *testing.T) {
	t.Parallel()
	g := built(t, pawl.New[note]("g").
		Node("a", func(ctx context.Context, _ *note) error { return pawl.Goto(ctx, pawl.To("c")...) }, pawl.Targets("b")).
		Node("b", func(context.Context, *note) error { return nil }).Node("c", func(context.Context, *note) error { return nil }).
		Edge(pawl.Start, "a").Edge("b", "c"))
	_, err := g.Thread(opened(t, hooked(t), nil), "t").Run(t.Context(), nil)
	if u := (*pawl.UndeclaredTargetError)(nil); !errors.As(err, &u) || u.Target != "c" {
		t.Error(err)
	}
}

func TestAttemptFaults(t *testing.T) {
	t.Parallel()
	nothing := func(context.Context, *note) error { return nil }
	_, err := pawl.New[note]("g").
		Node("a", nothing, pawl.OnError(func(context.Context, *counter, error) error { return nil })).
		Node("b", nothing, pawl.OnError[note](nil), pawl.RetryOn(nil), pawl.IdleTimeout(-1), pawl.Targets()).
		Node("c", nothing, pawl.RetryOn(is(errBroken), pawl.Durable()), pawl.Targets("d", pawl.Start)).
		Path(pawl.Start, "a", "b", "c").Build()
	faults := (*pawl.BuildError)(nil)
	if !errors.As(err, &faults) || len(faults.Faults) != 8 {
		t.Errorf("%v", err)
	}
}

// A home that takes longer for each write than a node may be silent: the engine's time is not the node's.
func TestSlowWritesAreNoSilence(t *testing.T) {
	t.Parallel()
	q := pawl.Interrupt[string, string]{Name: "q"}
	inner := built(t, pawl.New[note]("inner").Path(pawl.Start, "a", "b").
		Node("a", func(context.Context, *note) error { return nil }).Node("b", func(context.Context, *note) error { return nil }))
	child := inner.Child("inner")
	steps := func(ctx context.Context, silence time.Duration) error {
		for _, name := range []string{"1", "2", "3"} {
			if _, err := pawl.Step(ctx, name, func(ctx context.Context) (int, error) { return 0, sleeps(ctx, silence) }); err != nil {
				return err
			}
		}
		return nil
	}
	for name, c := range map[string]struct {
		node func(context.Context) error
		want pawl.Status
	}{
		"steps":      {func(ctx context.Context) error { return steps(ctx, 400*time.Millisecond) }, pawl.Done},
		"silent":     {func(ctx context.Context) error { return steps(ctx, 600*time.Millisecond) }, pawl.Failed},
		"a child":    {func(ctx context.Context) error { _, err := child.Call(ctx, nil); return err }, pawl.Done},
		"a question": {func(ctx context.Context) error { _, err := q.Ask(ctx, "?"); return err }, pawl.Waiting},
		"an update": {func(ctx context.Context) error {
			task, _ := pawl.TaskFrom(ctx)
			return errors.Join(task.Update(ctx, func(context.Context, storage.Tx) error { return nil }), ctx.Err())
		}, pawl.Done},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				slow := fault.Wrap(hooked(t), fault.Plan{Delay: time.Second})
				g := single(t, func(ctx context.Context, _ *note) error { return c.node(ctx) }, pawl.IdleTimeout(500*time.Millisecond), pawl.Uses(q, child))
				out, err := g.Thread(opened(t, slow, nil), "t").Run(context.Background(), nil)
				idle := (*pawl.TimeoutError)(nil)
				if out.Status != c.want || errors.As(err, &idle) != (c.want == pawl.Failed) {
					t.Errorf("%s, %v", out.Status, err)
				}
			})
		})
	}
}

func sleeps(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
