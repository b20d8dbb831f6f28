package suite_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/nest"
	"github.com/pawl-dev/pawl/pawltest"
)

// sweepCache runs a thread whose nodes and steps keep their results, and another that reuses them all, beside a question.
// Wherever the first one dies, the second finds what it found before: a result is kept with the record of it, so a call
// that was not repeated is not repeated there either.
func sweepCache(t *testing.T) sweepDrive {
	step := func(ctx context.Context, doc string) (string, error) {
		pawltest.Called(ctx, "look up/"+doc)
		return "looked up " + doc, nil
	}
	g := built(t, pawl.New[sweepState]("cached").
		Node("plan", steps("plan-1", "plan-2"), pawl.Cache(time.Hour)).
		Node("write", func(_ context.Context, s *sweepState) error {
			s.Doc.Set("written")
			s.Map.Set("write", s.Doc.Get())
			s.Sum.Add(3)
			s.Most.Add(5)
			s.Note.Set("for the next only")
			s.Pass.Put("pass")
			return nil
		}, pawl.Cache(time.Hour), pawl.CacheBy(func(s *sweepState) string { return s.Doc.Get() })).
		Node("ask", func(ctx context.Context, s *sweepState) error {
			did, err := pawl.CachedStep(ctx, "look up", time.Hour, s.Doc.Get(), step)
			if err != nil {
				return err
			}
			answer, err := sweepQuestion.Ask(ctx, did)
			if err != nil {
				return err
			}
			s.Log.Add(answer, s.Note.Get())
			return nil
		}, pawl.Uses(sweepQuestion)).
		Node("beside", steps("beside"), pawl.Cache(time.Hour)).
		Path(pawl.Start, "plan", "write", "ask").Edge("write", "beside"))
	return func(ctx context.Context, eng *pawl.Engine) error {
		deep, err := nest.In(g, levelOf(ctx))
		if err != nil {
			return err
		}
		called := func() (n int) {
			for _, label := range []string{"plan-1", "plan-2", "beside", "look up/written"} {
				n += pawltest.Calls(ctx, label)
			}
			return n
		}
		before := 0
		for _, thread := range []string{"first", "second"} {
			before = called()
			if _, err := pawltest.Drive(ctx, deep.Thread(eng, thread), "run-1", &sweepState{Doc: pawl.Of("in")}, sweepPeople); err != nil {
				return err
			}
		}
		if n := called() - before; n > 0 {
			return fmt.Errorf("the second thread called %d times what the first keeps", n)
		}
		return nil
	}
}
