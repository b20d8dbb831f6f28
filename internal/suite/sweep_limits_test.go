package suite_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/pawltest"
)

// sweepTimeout has one worker of several be too slow until it is repaired: for its payload's own time, or for the
// super-step of a child that it works in. What it did before counts once.
func sweepTimeout(t *testing.T, payload bool) sweepDrive {
	const limit = 5 * time.Millisecond
	worker := pawl.NewWorker("worker", func(ctx context.Context, s *sweepState, slow bool) error {
		if slow && !happened(ctx, "repaired") {
			<-ctx.Done()
			return ctx.Err()
		}
		s.Log.Add("worked")
		return nil
	})
	fan := func(*sweepState) []pawl.Next {
		sent := worker.With(true)
		if payload {
			sent = pawl.Within(limit, sent...)
		}
		return append(worker.With(false), append(sent, worker.With(false)...)...)
	}
	inner := pawl.New[sweepState]("inner").Node("above", steps("above")).Add(worker).Route("above", fan, "worker").Path(pawl.Start, "above")
	if !payload {
		inner = pawl.New[sweepState]("inner").Add(worker).Route(pawl.Start, fan, "worker").SuperStepTimeout(limit)
	}
	return repaired(built(t, pawl.New[sweepState]("timeout").
		Node("a", asks("a"), pawl.Uses(sweepQuestion)).Node("end", steps("end")).
		Add(pawl.Sub(built(t, inner).Child("inner"), func(*sweepState) *sweepState { return nil }, func(s *sweepState, r *pawl.Result[sweepState]) error {
			for _, line := range r.State.Log.All() {
				s.Log.Add(line)
			}
			return nil
		})).
		Path(pawl.Start, "a", "inner", "end")), "repaired", (*sweepThread).Resume)
}

// sweepDrained drains its run in a node, and again in the middle of a child, and goes on each time in a context that is
// not drained.
func sweepDrained(t *testing.T, mode pawl.ChildMode) sweepDrive {
	type drainKey struct{}
	drains := func(name string, then sweepNode) sweepNode {
		return func(ctx context.Context, s *sweepState) error {
			if !happened(ctx, "drained "+name) {
				ctx.Value(drainKey{}).(func(string))(name)
			}
			return then(ctx, s)
		}
	}
	inner := built(t, pawl.New[sweepState]("inner").
		Node("i1", drains("i1", steps("i1"))).Node("i2", asks("i2"), pawl.Uses(sweepQuestion)).Path(pawl.Start, "i1", "i2"))
	g := built(t, pawl.New[sweepState]("drained").
		Node("a", drains("a", steps("a"))).Node("sibling", steps("sibling")).
		Add(pawl.Sub(inner.Child("inner", mode), func(*sweepState) *sweepState { return nil }, func(s *sweepState, r *pawl.Result[sweepState]) error {
			for _, line := range r.State.Log.All() {
				s.Log.Add(line)
			}
			return nil
		})).
		Node("end", drains("end", steps("end"))).
		Edge(pawl.Start, "a").Edge(pawl.Start, "sibling").Join([]string{"a", "sibling"}, "inner").Edge("inner", "end"))
	return func(ctx context.Context, eng *pawl.Engine) error {
		th, err := within(ctx, eng, g, "t")
		if err != nil {
			return err
		}
		for {
			drained, drain := pawl.WithDrain(ctx)
			drained = context.WithValue(drained, drainKey{}, drain)
			out, err := pawltest.Drive(drained, th, "run-1", &sweepState{Doc: pawl.Of("in")}, sweepPeople)
			if err != nil || out.Status == pawl.Done {
				return err
			}
			once(ctx, "drained "+out.Reason)
		}
	}
}

// sweepEditAs writes a run by hand on a new thread up to a question, a second one to its end, and a branch of that, in which
// the node that asks is done by hand in the end while its sibling has run.
func sweepEditAs(t *testing.T) sweepDrive {
	g := built(t, pawl.New[sweepState]("edit-as").
		Node("a", steps("a")).Node("b", asks("b"), pawl.Uses(sweepQuestion)).Node("c", steps("c")).Node("end", steps("end")).
		Edge(pawl.Start, "a").Edge("a", "b").Edge("a", "c").Join([]string{"b", "c"}, "end"))
	as := func(node, line string) pawl.TaskEdit {
		return g.As(node, func(s *sweepState) error {
			s.Log.Add(line)
			s.Sum.Add(1)
			s.Map.Set(node, line)
			s.Most.Add(len(line))
			return nil
		})
	}
	input := pawl.TaskEdit{Node: pawl.Start, Changes: []byte(`{"doc":"in"}`)}
	type list = [][]pawl.TaskEdit
	next := func(ctx context.Context, th *pawl.ThreadOf[sweepState]) (over bool, err error) {
		st, err := th.State(ctx)
		if err != nil {
			return false, err
		}
		runs, err := th.Runs(ctx)
		if err != nil {
			return false, err
		}
		switch {
		case st.Status == pawl.StatusNew:
			_, err = th.EditAs(ctx, list{{input}, {as("a", "a by hand")}})
		case st.Status == pawl.Waiting && len(st.Waiting) > 0 && len(runs) == 3:
			_, err = th.EditAs(ctx, list{{as("b", "b by hand")}})
		case st.Status == pawl.Waiting && len(st.Waiting) > 0:
			_, err = th.Resume(ctx, pawl.AnswerWith(st.Waiting[0].ID, "yes"))
		case st.Status == pawl.Waiting || st.Status == pawl.Crashed:
			_, err = th.Resume(ctx)
		case st.Status == pawl.Done && len(runs) == 1:
			_, err = th.EditAs(ctx, list{{input}, {as("a", "2a")}, {as("c", "2c"), as("b", "2b")}, {as("end", "2end")}})
		case st.Status == pawl.Done && len(runs) == 2:
			_, err = th.EditAs(ctx, list{{as("a", "3a")}}, pawl.From(pawl.Before("a")))
		case st.Status == pawl.Done:
			return true, nil
		default:
			err = fmt.Errorf("the thread is %s", st.Status)
		}
		return false, err
	}
	return func(ctx context.Context, eng *pawl.Engine) error {
		for {
			if over, err := next(ctx, g.Thread(eng, "t")); over || err != nil {
				return err
			}
		}
	}
}

// sweepEditFirst makes a thread by edits, runs it, and edits it again.
func sweepEditFirst(t *testing.T) sweepDrive {
	g := built(t, pawl.New[sweepState]("edit-first").Node("a", asks("a"), pawl.Uses(sweepQuestion)).Path(pawl.Start, "a"))
	edited := func(ctx context.Context, th *pawl.ThreadOf[sweepState]) error {
		_, err := th.Edit(ctx, func(s *sweepState) error {
			s.Log.Add(fmt.Sprint("edit ", s.Sum.Get()))
			s.Sum.Add(1)
			s.Most.Add(int(s.Sum.Get()))
			return nil
		})
		return err
	}
	return func(ctx context.Context, eng *pawl.Engine) error {
		th := g.Thread(eng, "t")
		for {
			st, err := th.State(ctx)
			if err != nil {
				return err
			}
			sum := int64(0)
			if st.Head != nil {
				s, err := th.Read(st.Head)
				if err != nil {
					return err
				}
				sum = s.Sum.Get()
			}
			switch {
			case st.Status == pawl.StatusNew && sum < 2, st.Status == pawl.Done && sum == 2:
				err = edited(ctx, th)
			case st.Status == pawl.Done:
				return nil
			default:
				_, err = pawltest.Drive(ctx, th, "run-1", &sweepState{Doc: pawl.Of("in")}, sweepPeople)
			}
			if err != nil {
				return err
			}
		}
	}
}

// sweepGiveUp gives a run up at its question, whose sibling has ended, and runs another one to its end.
func sweepGiveUp(t *testing.T) sweepDrive {
	g := built(t, pawl.New[sweepState]("give-up").
		Node("a", steps("a")).Node("b", asks("b"), pawl.Uses(sweepQuestion)).Node("end", steps("end")).
		Edge(pawl.Start, "a").Edge(pawl.Start, "b").Join([]string{"a", "b"}, "end"))
	return func(ctx context.Context, eng *pawl.Engine) error {
		th := g.Thread(eng, "t")
		for {
			st, err := th.State(ctx)
			if err != nil {
				return err
			}
			runs, err := th.Runs(ctx)
			switch {
			case err != nil:
				return err
			case st.Status == pawl.Waiting && len(runs) == 1:
				_, err = th.EditAs(ctx, [][]pawl.TaskEdit{{{Node: pawl.End}}})
			case st.Status == pawl.Crashed:
				_, err = th.Resume(ctx)
			case st.Status == pawl.StatusNew:
				_, err = th.Run(ctx, &sweepState{Doc: pawl.Of("one")}, pawl.RunID("run-1"))
			default:
				_, err = pawltest.Drive(ctx, th, "run-2", &sweepState{Doc: pawl.Of("two")}, sweepPeople)
				return err
			}
			if err != nil {
				return err
			}
		}
	}
}
