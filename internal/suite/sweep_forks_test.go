package suite_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/pawl-dev/pawl"
)

// sweepBeside makes versions of checkpoints beside them while a question is open, with another input, with changes, and
// at the end as they were.
func sweepBeside(t *testing.T) sweepDrive {
	g := built(t, pawl.New[sweepState]("beside").
		Node("a", steps("a")).Node("b", asks("b"), pawl.Uses(sweepQuestion)).Node("c", steps("c")).Path(pawl.Start, "a", "b", "c"))
	input := func(doc string) [][]pawl.TaskEdit {
		return [][]pawl.TaskEdit{{{Node: pawl.Start, Changes: fmt.Appendf(nil, `{"doc":%q}`, doc)}}}
	}
	next := func(ctx context.Context, th *pawl.ThreadOf[sweepState]) (over bool, err error) {
		st, err := th.State(ctx)
		if err != nil {
			return false, err
		}
		runs, err := th.Runs(ctx)
		if err != nil {
			return false, err
		}
		switch asked := len(st.Waiting) > 0; {
		case st.Status == pawl.StatusNew:
			_, err = th.EditAs(ctx, input("in"))
		case asked && len(runs) == 1:
			_, err = th.EditAs(ctx, input("in*"), pawl.From(pawl.Before(pawl.Start)), pawl.Beside())
		case asked && len(runs) == 2:
			_, err = th.Fork(ctx, pawl.Before("a"), func(s *sweepState) error { s.Log.Add("forked"); return nil }, pawl.Beside())
		case asked:
			_, err = th.Resume(ctx, pawl.AnswerWith(st.Waiting[0].ID, "yes"))
		case st.Status == pawl.Waiting || st.Status == pawl.Crashed:
			_, err = th.Resume(ctx)
		case st.Status == pawl.Done && len(runs) == 3:
			_, err = th.Replay(ctx, pawl.Before("a"), pawl.Beside())
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
