package suite_test

import (
	"context"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
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
