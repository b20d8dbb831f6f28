package suite_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/pawltest"
)

func sweepChain(t *testing.T) sweepDrive {
	return toTheEnd(built(t, pawl.New[sweepState]("chain").
		Node("a", steps("a1", "a2")).
		Node("b", func(_ context.Context, s *sweepState) error { s.Doc.Set("b"); return nil }).
		Node("c", steps("c1", "c2")).
		Node("d", steps("d1"), pawl.Durable()).
		Path(pawl.Start, "a", "b", "c", "d")), "t")
}

func sweepFanOut(t *testing.T) sweepDrive {
	return toTheEnd(built(t, pawl.New[sweepState]("fan-out").
		Node("plan", steps("plan")).
		Node("a", asks("a"), pawl.Uses(sweepQuestion)).
		Node("b", asks("b"), pawl.Uses(sweepQuestion)).
		Node("c", steps("c1", "c2")).
		Node("end", steps("end")).
		Edge(pawl.Start, "plan").Edge("plan", "a").Edge("plan", "b").Edge("plan", "c").
		Join([]string{"a", "b", "c"}, "end")), "t")
}

// sweepDeferred sums up branches of unequal length, one of which asks.
func sweepDeferred(t *testing.T) sweepDrive {
	return toTheEnd(built(t, pawl.New[sweepState]("deferred").
		Node("plan", steps("plan")).
		Node("a", asks("a"), pawl.Uses(sweepQuestion)).
		Node("b", steps("b")).
		Node("sum", steps("sum"), pawl.Defer()).
		Edge(pawl.Start, "plan").Edge("plan", "a").Edge("plan", "sum").Edge("a", "b").Edge("b", "sum")), "t")
}

// sweepHandler fails after a step; what handles the failure steps and asks.
func sweepHandler(t *testing.T) sweepDrive {
	node := func(ctx context.Context, s *sweepState) error {
		if _, err := call(ctx, "node", ""); err != nil {
			return err
		}
		return errors.New("out of order")
	}
	handle := func(ctx context.Context, s *sweepState, failed error) error {
		did, err := call(ctx, "node", "") // the same name, and not the node's
		if err != nil {
			return err
		}
		answer, err := sweepQuestion.Ask(ctx, "go on?")
		if err != nil {
			return err
		}
		s.Log.Add(did, answer)
		return nil
	}
	return toTheEnd(built(t, pawl.New[sweepState]("handler").
		Node("node", node, pawl.Uses(sweepQuestion), pawl.OnError(handle)).
		Node("beside", steps("beside")).
		Edge(pawl.Start, "node").Edge(pawl.Start, "beside")), "t")
}

// sweepBreaks stops before one node and after another.
func sweepBreaks(t *testing.T) sweepDrive {
	return toTheEnd(built(t, pawl.New[sweepState]("breaks").
		Node("a", steps("a")).Node("b", asks("b"), pawl.Uses(sweepQuestion)).Node("c", steps("c")).
		Path(pawl.Start, "a", "b", "c").BreakBefore("a", "b").BreakAfter("b")), "t")
}

// sweepSeveral asks three questions in one node, two of them beside each other.
func sweepSeveral(t *testing.T) sweepDrive {
	node := func(ctx context.Context, s *sweepState) error {
		first, err := sweepQuestion.Ask(ctx, "first", pawl.Key("1"))
		if err != nil {
			return err
		}
		did, err := call(ctx, "between", "")
		if err != nil {
			return err
		}
		var answers [2]string
		branch := func(i int) func(context.Context) error {
			return func(ctx context.Context) (err error) {
				key := fmt.Sprint("branch-", i)
				if _, err = call(ctx, "branch", key); err == nil {
					answers[i], err = sweepQuestion.Ask(ctx, key, pawl.Key(key))
				}
				return err
			}
		}
		if err := pawl.All(ctx, branch(0), branch(1)); err != nil {
			return err
		}
		s.Log.Add(first, did, answers[0], answers[1])
		return nil
	}
	return toTheEnd(built(t, pawl.New[sweepState]("several").
		Node("node", node, pawl.Uses(sweepQuestion)).Path(pawl.Start, "node")), "t")
}

func sweepLoop(t *testing.T) sweepDrive {
	node := func(ctx context.Context, s *sweepState) error {
		round := fmt.Sprint("round-", s.Round.Get())
		did, err := call(ctx, "work", round)
		if err != nil {
			return err
		}
		answer, err := sweepQuestion.Ask(ctx, round)
		if err != nil {
			return err
		}
		s.Log.Add(did, answer)
		s.Round.Set(s.Round.Get() + 1)
		return nil
	}
	again := func(s *sweepState) []pawl.Next {
		if s.Round.Get() < 3 {
			return pawl.To("node")
		}
		return pawl.To(pawl.End)
	}
	return toTheEnd(built(t, pawl.New[sweepState]("loop").
		Node("node", node, pawl.Uses(sweepQuestion)).
		Edge(pawl.Start, "node").Route("node", again, "node", pawl.End)), "t")
}

func sweepWorkers(t *testing.T) sweepDrive {
	worker := pawl.NewWorker("worker", func(ctx context.Context, s *sweepState, i int) error {
		did, err := call(ctx, "work", fmt.Sprint(i))
		if err != nil {
			return err
		}
		if i == 2 {
			if _, err = sweepQuestion.Ask(ctx, "two"); err != nil {
				return err
			}
		}
		s.Log.Add(did)
		s.Sum.Add(int64(i))
		return nil
	}, pawl.Uses(sweepQuestion))
	each := func(*sweepState) []pawl.Next { return worker.Each([]int{0, 1, 2, 3}) }
	return toTheEnd(built(t, pawl.New[sweepState]("workers").
		Node("plan", steps("plan")).Add(worker).Node("gather", steps("gather")).
		Edge(pawl.Start, "plan").Route("plan", each, "worker").Edge("worker", "gather")), "t")
}

// sweepConflict has two writers of one channel. The people agree that the right one yields.
func sweepConflict(t *testing.T) sweepDrive {
	side := func(name string, yields bool) sweepNode {
		return func(ctx context.Context, s *sweepState) error {
			if _, err := call(ctx, name, ""); err != nil {
				return err
			}
			if !yields || !happened(ctx, "agreed") {
				s.Doc.Set(name)
			}
			s.Log.Add(name)
			return nil
		}
	}
	g := built(t, pawl.New[sweepState]("conflict").
		Node("left", side("left", false)).Node("right", side("right", true)).Node("end", steps("end")).
		Edge(pawl.Start, "left").Edge(pawl.Start, "right").Join([]string{"left", "right"}, "end"))
	return repaired(g, "agreed", func(th *sweepThread, ctx context.Context, _ ...pawl.RunOption) (*pawl.OutcomeOf[sweepState], error) {
		return th.Resume(ctx, pawl.Again(levelOf(ctx).Node("right")))
	})
}

// sweepFailure has a node that fails until it is repaired, beside and after others that finish.
func sweepFailure(t *testing.T, sibling sweepNode, verb sweepVerb) sweepDrive {
	flaky := func(ctx context.Context, s *sweepState) error {
		if _, err := call(ctx, "above", ""); err != nil {
			return err
		}
		if !happened(ctx, "repaired") {
			return errors.New("out of order")
		}
		return steps("below")(ctx, s)
	}
	g := built(t, pawl.New[sweepState]("failure").
		Node("a", asks("a"), pawl.Uses(sweepQuestion)).Node("flaky", flaky).Node("sibling", sibling).Node("end", steps("end")).
		Edge(pawl.Start, "a").Edge("a", "flaky").Edge("a", "sibling").Join([]string{"flaky", "sibling"}, "end"))
	return repaired(g, "repaired", verb)
}

// repaired drives a run that fails once.
func repaired(g *pawl.Graph[sweepState], repair string, verb sweepVerb) sweepDrive {
	return func(ctx context.Context, eng *pawl.Engine) error {
		th, err := within(ctx, eng, g, "t")
		if err != nil {
			return err
		}
		for {
			out, err := pawltest.Drive(ctx, th, "run-1", &sweepState{Doc: pawl.Of("in")}, sweepPeople)
			if out == nil || out.Status != pawl.Failed {
				return err
			}
			once(ctx, repair)
			var again *pawl.RunError
			if _, err := verb(th, ctx); err != nil && !errors.As(err, &again) {
				return err
			}
		}
	}
}

// sweepTravel forks a waiting thread, finishes it, edits it and replays a part.
func sweepTravel(t *testing.T) sweepDrive {
	g := built(t, pawl.New[sweepState]("travel").
		Node("a", steps("a")).
		Node("b", steps("b")).
		Node("c", asks("c"), pawl.Uses(sweepQuestion)).
		Path(pawl.Start, "a", "b", "c"))
	return func(ctx context.Context, eng *pawl.Engine) error {
		th, err := within(ctx, eng, g, "t")
		if err != nil {
			return err
		}
		has := func(text string) (bool, error) {
			history, err := th.History(ctx, pawl.Page{})
			if err != nil {
				return false, err
			}
			state, err := th.State(ctx)
			if err == nil && state.Head != nil { // under Exit a history is that of the outermost graph
				history = append(history, state.Head)
			}
			for _, s := range history {
				if strings.Contains(s.Source+string(s.Values), text) {
					return true, err
				}
			}
			return false, err
		}
		forked, err := has("forked")
		if err != nil {
			return err
		}
		if !forked {
			silent := (*pawltest.SilenceError)(nil)
			if _, err := pawltest.Drive(ctx, th, "run-1", &sweepState{Doc: pawl.Of("in")}, nil); !errors.As(err, &silent) {
				return fmt.Errorf("want a thread that waits: %w", err)
			}
			if _, err := th.Fork(ctx, pawl.Before("b"), func(s *sweepState) error { s.Doc.Set("forked"); return nil }); err != nil {
				return err
			}
		}
		if _, err := pawltest.Drive(ctx, th, "run-1", &sweepState{Doc: pawl.Of("in")}, sweepPeople); err != nil {
			return err
		}
		edited, err := has("edited")
		if err == nil && !edited {
			_, err = th.Edit(ctx, func(s *sweepState) error { s.Log.Add("edited"); return nil })
		}
		if err != nil {
			return err
		}
		replayed, err := has("fork{")
		if err == nil && !replayed {
			_, err = th.Replay(ctx, pawl.Before("c"))
		}
		if err != nil {
			return err
		}
		_, err = pawltest.Drive(ctx, th, "run-1", &sweepState{Doc: pawl.Of("in")}, sweepPeople)
		return err
	}
}

// sweepAgain enters a node that waits without an answer: its question is withdrawn and asked anew, once.
func sweepAgain(t *testing.T) sweepDrive {
	g := built(t, pawl.New[sweepState]("again").
		Node("a", asks("a"), pawl.Uses(sweepQuestion)).Node("beside", steps("beside")).Node("end", steps("end")).
		Edge(pawl.Start, "a").Edge(pawl.Start, "beside").Join([]string{"a", "beside"}, "end"))
	return func(ctx context.Context, eng *pawl.Engine) error {
		th, err := within(ctx, eng, g, "t")
		if err != nil {
			return err
		}
		silent := (*pawltest.SilenceError)(nil)
		if _, err := pawltest.Drive(ctx, th, "run-1", &sweepState{Doc: pawl.Of("in")}, nil); err != nil && !errors.As(err, &silent) {
			return err
		}
		open, err := eng.Questions(ctx, 9)
		if err != nil {
			return err
		}
		if len(open) == 1 && open[0].Revision == 1 {
			out, err := th.Resume(ctx, pawl.Again(levelOf(ctx).Node("a")))
			if err != nil {
				return err
			}
			if len(out.Waiting) != 1 || out.Waiting[0].Revision != 2 {
				return fmt.Errorf("asked anew: %+v", out.Waiting)
			}
		}
		_, err = pawltest.Drive(ctx, th, "run-1", &sweepState{Doc: pawl.Of("in")}, sweepPeople)
		return err
	}
}

// sweepExpiry asks what nobody can answer in time: one question has a default, the other an error.
func sweepExpiry(t *testing.T) sweepDrive {
	kept := pawl.Interrupt[string, string]{Name: "kept", Expires: 1, Default: func(q string) string { return "default for " + q }}
	lost := pawl.Interrupt[string, string]{Name: "lost", Expires: 1}
	node := func(ctx context.Context, s *sweepState) error {
		answer, err := kept.Ask(ctx, "a")
		if err != nil {
			return err
		}
		did, err := call(ctx, "between", "")
		if err != nil {
			return err
		}
		_, err = lost.Ask(ctx, "b")
		if !errors.Is(err, pawl.ErrExpired) {
			return err
		}
		s.Log.Add(answer, did, "expired")
		return nil
	}
	return toTheEnd(built(t, pawl.New[sweepState]("expiry").
		Node("node", node, pawl.Uses(kept, lost)).Node("end", steps("end")).Path(pawl.Start, "node", "end")), "t")
}

// sweepAnswers answers without resuming. Whoever was told that the answer is taken finds it taken ever after.
func sweepAnswers(t *testing.T, served bool) sweepDrive {
	g := built(t, pawl.New[sweepState]("answers").
		Node("a", asks("a"), pawl.Uses(sweepQuestion)).Node("b", asks("b"), pawl.Uses(sweepQuestion)).Node("end", steps("end")).
		Edge(pawl.Start, "a").Edge(pawl.Start, "b").Join([]string{"a", "b"}, "end"))
	return func(ctx context.Context, eng *pawl.Engine) error {
		th, err := within(ctx, eng, g, "t")
		if err != nil {
			return err
		}
		silent := (*pawltest.SilenceError)(nil)
		_, err = pawltest.Drive(ctx, th, "run-1", &sweepState{}, nil)
		if !errors.As(err, &silent) {
			return err
		}
		state, err := th.State(ctx)
		if err != nil {
			return err
		}
		for _, q := range state.Waiting {
			if happened(ctx, "told "+q.ID) {
				return fmt.Errorf("question %s was told to be taken and is open", q.ID)
			}
			v, err := eng.Answer(ctx, q.ID, sweepPeople["ok"](q))
			if err != nil {
				return err
			}
			if v.Taken {
				once(ctx, "told "+q.ID)
			}
		}
		if r := eng.Runner(); served {
			_, _, err := r.Due(ctx, 10)
			if err := errors.Join(err, r.Wait(ctx)); err != nil {
				return err
			}
		}
		_, err = pawltest.Drive(ctx, th, "run-1", &sweepState{}, nil)
		return err
	}
}

// sweepCancel cancels a thread that waits and one that runs.
func sweepCancel(t *testing.T) sweepDrive {
	waiting := built(t, pawl.New[sweepState]("waiting").
		Node("a", asks("a"), pawl.Uses(sweepQuestion)).Path(pawl.Start, "a"))
	return func(ctx context.Context, eng *pawl.Engine) error {
		th, err := within(ctx, eng, waiting, "waiting")
		if err != nil {
			return err
		}
		if is, err := stands(ctx, th, pawl.Cancelled); err != nil {
			return err
		} else if !is {
			silent := (*pawltest.SilenceError)(nil)
			if _, err := pawltest.Drive(ctx, th, "run-1", &sweepState{}, nil); !errors.As(err, &silent) {
				return fmt.Errorf("want a thread that waits: %w", err)
			}
			if err := th.Cancel(ctx, "enough"); err != nil {
				return err
			}
		}
		entered := make(chan struct{})
		g, err := pawl.New[sweepState]("running").
			Node("a", steps("r1")).
			Node("b", func(ctx context.Context, _ *sweepState) error { close(entered); <-ctx.Done(); return ctx.Err() }).
			Path(pawl.Start, "a", "b").Build()
		if err != nil {
			return err
		}
		running, err := within(ctx, eng, g, "running")
		if err != nil {
			return err
		}
		if is, err := stands(ctx, running, pawl.Cancelled); err != nil || is {
			return err
		}
		return cancelRunning(ctx, running, entered)
	}
}

func stands(ctx context.Context, th *sweepThread, status pawl.Status) (bool, error) {
	state, err := th.State(ctx)
	return err == nil && state.Status == status, err
}

// cancelRunning runs a thread to where it stays, and cancels it from beside.
func cancelRunning(ctx context.Context, th *sweepThread, entered <-chan struct{}) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() {
		_, err := pawltest.Drive(ctx, th, "run-1", &sweepState{}, nil)
		stop() // what cannot be written any more, Cancel waits for in vain
		ended <- err
	}()
	select {
	case err := <-ended:
		return err
	case <-entered:
	}
	cancelErr := th.Cancel(ctx, "enough")
	if cancelErr != nil {
		stop()
	}
	run := (*pawl.RunError)(nil)
	if err := <-ended; errors.As(err, &run) && run.Status == pawl.Cancelled {
		return nil // Cancel may have been told off by the end of ctx
	} else {
		return errors.Join(cancelErr, err)
	}
}
