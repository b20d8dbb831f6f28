package suite

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
)

// waits runs a node that fails with each of the errors in turn, on a virtual clock, and returns how long was waited before
// each further entry.
func waits(t *testing.T, fails []error, options ...pawl.NodeOption) (out []time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		entered, last := 0, time.Now()
		g := build(t, single(func(context.Context, *rowState) error {
			if entered++; entered > 1 {
				out = append(out, time.Since(last))
			}
			if last = time.Now(); entered <= len(fails) {
				return fails[entered-1]
			}
			return nil
		}, options...))
		eng, err := pawl.NewEngine(nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = g.Thread(eng, "t").Run(context.Background(), nil)
	})
	return out
}

func rowJitter(t *testing.T, _ *report) {
	spread := map[time.Duration]bool{}
	for range 20 {
		got := waits(t, []error{errRow}, pawl.Tries(2), pawl.Backoff(10*time.Second, time.Minute), pawl.Jitter(time.Second))
		if len(got) != 1 || got[0] < 10*time.Second || got[0] > 11*time.Second {
			t.Fatalf("it waited %v", got)
		}
		spread[got[0]] = true
	}
	if len(spread) < 10 {
		t.Errorf("%d different waits of 20", len(spread))
	}
}

func rowPolicies(t *testing.T, _ *report) {
	errOther := errors.New("other")
	policies := []pawl.NodeOption{
		pawl.Jitter(0),
		pawl.RetryOn(func(err error) bool { return errors.Is(err, errRow) }, pawl.Tries(3), pawl.Backoff(time.Second, time.Minute), pawl.Jitter(0)),
		pawl.RetryOn(func(error) bool { return true }, pawl.Tries(5), pawl.Backoff(20*time.Second, time.Hour), pawl.Factor(3), pawl.Jitter(0)),
	}
	for _, c := range []struct {
		name  string
		fails []error
		want  []time.Duration
	}{
		{"the first that matches", []error{errRow, errRow, errRow, errRow}, []time.Duration{time.Second, 2 * time.Second}},
		{"the second", []error{errOther, errOther}, []time.Duration{20 * time.Second, time.Minute}},
		{"the count is shared", []error{errRow, errOther, errRow}, []time.Duration{time.Second, time.Minute}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := waits(t, c.fails, policies...); !slices.Equal(got, c.want) {
				t.Errorf("it waited %v, want %v", got, c.want)
			}
		})
	}
}

// rowPayloadTimeout: of two payloads for one worker the one with a time of its own is held to that, in place of the
// worker's, longer or shorter.
func rowPayloadTimeout(t *testing.T, h *home) {
	w := pawl.NewWorker("w", func(ctx context.Context, s *rowState, patient bool) error {
		if patient {
			deadline, limited := ctx.Deadline()
			if !limited || time.Until(deadline) < time.Minute {
				return errors.New("the worker's own timeout was used")
			}
			s.Log.Add("patient")
			return nil
		}
		<-ctx.Done()
		return ctx.Err()
	}, pawl.Timeout(5*time.Millisecond))
	short := pawl.NewWorker("short", func(ctx context.Context, _ *rowState, _ int) error { <-ctx.Done(); return ctx.Err() }, pawl.Timeout(time.Hour))
	over := false
	g := pawl.New[rowState]("row").Add(w, short).Route(pawl.Start, func(*rowState) []pawl.Next {
		if over {
			return pawl.Within(time.Millisecond, short.With(1)...)
		}
		return pawl.Within(time.Hour, w.With(true)...)
	}, "w", "short")
	th := rowThread(t, h, g, nil)
	out, _ := ran(t, th, pawl.Done)
	if log := logOf(out.State); !slices.Equal(log, []string{"patient"}) {
		t.Errorf("a payload with a longer time: %v", log)
	}
	over = true
	_, err := ran(t, th, pawl.Failed)
	if late := (*pawl.TimeoutError)(nil); !errors.As(err, &late) || late.After != time.Millisecond || late.Node != "short" {
		t.Errorf("a payload with a shorter time: %v", err)
	}
}

// rowSuperStepTimeout: a slow node ends the run with the super-step's error, a goto of a node in time is followed, and a
// failure in time is the run's own.
func rowSuperStepTimeout(t *testing.T, h *home) {
	const inTime, slow, fails = 0, 1, 2
	how := inTime
	b := pawl.New[rowState]("row").
		Node("a", func(ctx context.Context, s *rowState) error {
			switch how {
			case slow:
				<-ctx.Done()
				return ctx.Err()
			case fails:
				return errRow
			}
			return pawl.Goto(ctx, pawl.To("c")...)
		}, pawl.Targets("c")).
		Node("b", rowSays("b")).Node("c", rowSays("c")).
		Edge(pawl.Start, "a").Edge(pawl.Start, "b")
	th := rowThread(t, h, b, nil)
	limit := pawl.SuperStepTimeout(10 * time.Millisecond)
	how = slow
	_, err := th.Run(t.Context(), &rowState{}, limit)
	if late := (*pawl.SuperStepTimeoutError)(nil); !errors.As(err, &late) || !slices.Contains(late.Nodes, "a") {
		t.Fatalf("a slow node: %v", err)
	}
	how = inTime
	out, err := th.Resume(t.Context())
	if err != nil || out.Status != pawl.Done || !slices.Equal(logOf(out.State), []string{"b", "c"}) {
		t.Fatalf("resumed: %v, %v", out, err)
	}
	how = fails
	if _, err := th.Run(t.Context(), &rowState{}, pawl.SuperStepTimeout(time.Hour)); !errors.Is(err, errRow) || errors.As(err, new(*pawl.SuperStepTimeoutError)) {
		t.Errorf("a failure in time: %v", err)
	}
}

// drains is a chain of nodes that log their names, and drain their run in one of them.
func drains(drain *func(string), in string, names ...string) *pawl.Builder[rowState] {
	b := pawl.New[rowState]("row").Path(append([]string{pawl.Start}, names...)...)
	for _, name := range names {
		b.Node(name, func(ctx context.Context, s *rowState) error {
			if name == in {
				(*drain)("shutdown")
				if reason, ok := pawl.Draining(ctx); !ok || reason != "shutdown" {
					return errors.New("the node that drains its run does not see it")
				}
			}
			return rowSays(name)(ctx, s)
		})
	}
	return b
}

// drainedOutcome demands a run that waits because it was drained, in front of a node.
func drainedOutcome(t *testing.T, out *pawl.OutcomeOf[rowState], err error, next string, log ...string) {
	t.Helper()
	if err != nil || out.Status != pawl.Waiting || out.Cause != pawl.CauseDrained || out.Reason != "shutdown" ||
		!slices.Equal(out.Next, []string{next}) || !slices.Equal(logOf(out.State), log) {
		t.Fatalf("%+v, %v", out, err)
	}
}

// resumesTo resumes in another engine, as the next process does, and demands this log at the end.
func resumesTo(t *testing.T, h *home, b *pawl.Builder[rowState], log ...string) {
	t.Helper()
	out, err := rowThread(t, h, b, nil).Resume(t.Context())
	if err != nil || out.Status != pawl.Done || !slices.Equal(logOf(out.State), log) {
		t.Errorf("resumed: %+v, %v", out, err)
	}
}

func rowDrained(t *testing.T, h *home) {
	ctx, drain := pawl.WithDrain(t.Context())
	out, err := rowThread(t, h, drains(&drain, "first", "first", "second"), nil).Run(ctx, &rowState{})
	drainedOutcome(t, out, err, "second", "first")
}

func rowDrainedExit(t *testing.T, h *home) {
	ctx, drain := pawl.WithDrain(t.Context())
	b := drains(&drain, "first", "first", "second")
	out, err := rowThread(t, h, b, &pawl.Options{Durability: pawl.Exit}).Run(ctx, &rowState{})
	drainedOutcome(t, out, err, "second", "first")
	resumesTo(t, h, b, "first", "second")
}

func rowDrainedLast(t *testing.T, h *home) {
	ctx, drain := pawl.WithDrain(t.Context())
	out, err := rowThread(t, h, drains(&drain, "second", "first", "second"), nil).Run(ctx, &rowState{})
	if _, asked := pawl.Draining(ctx); err != nil || out.Status != pawl.Done || out.Cause != "" || !asked || !slices.Equal(logOf(out.State), []string{"first", "second"}) {
		t.Errorf("%+v, %v", out, err)
	}
}

func rowDrainedBefore(t *testing.T, h *home) {
	ctx, drain := pawl.WithDrain(t.Context())
	drain("shutdown")
	never := func(context.Context, *rowState) error { t.Error("a node ran"); return nil }
	th := rowThread(t, h, single(never), nil)
	out, err := th.Run(ctx, &rowState{})
	drainedOutcome(t, out, err, "a")
	out, err = th.Resume(ctx)
	drainedOutcome(t, out, err, "a")
}

func rowDrainedChild(t *testing.T, h *home) {
	ctx, drain := pawl.WithDrain(t.Context())
	child := build(t, drains(&drain, "child_first", "child_first", "child_second")).Child("child")
	b := pawl.New[rowState]("parent").Node("parent_first", rowSays("parent_first")).Node("parent_second", rowSays("parent_second")).
		Add(pawl.Sub(child, func(*rowState) *rowState { return nil }, func(s *rowState, r *pawl.Result[rowState]) error {
			s.Log.Add(logOf(r.State)...)
			return nil
		})).
		Path(pawl.Start, "parent_first", "child", "parent_second")
	out, err := rowThread(t, h, b, nil).Run(ctx, &rowState{})
	drainedOutcome(t, out, err, "child", "parent_first")
	resumesTo(t, h, b, "parent_first", "child_first", "child_second", "parent_second")
}

// rowDrainedFunction: what a function starts after it was asked to stop still runs, and its result is the run's.
func rowDrainedFunction(t *testing.T, h *home) {
	ctx, drain := pawl.WithDrain(t.Context())
	g, err := pawl.Func("workflow", func(ctx context.Context, n int) (int, error) {
		drain("shutdown")
		return pawl.Step(ctx, "child", func(context.Context) (int, error) { return n + 1, nil })
	})
	if err != nil {
		t.Fatal(err)
	}
	out, err := g.Thread(engine(t, h.open(t), nil), "t").Run(ctx, 1)
	if err != nil || out.Status != pawl.Done || out.Result != 2 {
		t.Errorf("%+v, %v", out, err)
	}
}
