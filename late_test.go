package pawl_test

import (
	"context"
	"errors"
	"testing"

	"github.com/pawl-dev/pawl"
)

// A goroutine that outlives its node calls no step and asks nothing any more: nobody would wait for the answer.
func TestLateStepAndQuestion(t *testing.T) {
	t.Parallel()
	ok := pawl.Interrupt[string, bool]{Name: "ok"}
	eng := opened(t, hooked(t), nil)
	begun, goOn, ended := make(chan struct{}), make(chan struct{}), make(chan error)
	var kept context.Context
	first := func(ctx context.Context, _ *note) error {
		kept = ctx
		go func() {
			_, err := pawl.Step(ctx, "slow", func(context.Context) (int, error) { close(begun); <-goOn; return 1, nil })
			ended <- err
		}()
		<-begun
		return nil
	}
	second := func(context.Context, *note) error {
		close(goOn)
		if err := <-ended; err == nil {
			t.Error("the result of a step was kept that ended after its node")
		}
		called := false
		if _, err := pawl.Step(kept, "pay", func(context.Context) (int, error) { called = true; return 1, nil }); err == nil || called {
			t.Errorf("a step of a node that returned: called %v, %v", called, err)
		}
		if _, err := ok.Ask(kept, "?"); err == nil || errors.Is(err, pawl.ErrWaiting) {
			t.Errorf("a question of a node that returned: %v", err)
		}
		return nil
	}
	th := built(t, pawl.New[note]("g").Node("first", first, pawl.Uses(ok)).Node("second", second).Path(pawl.Start, "first", "second")).Thread(eng, "t")
	if out, err := th.Run(t.Context(), nil); err != nil || out.Status != pawl.Done {
		t.Fatal(err)
	}
	if qs, err := eng.Questions(t.Context(), 0); err != nil || len(qs) > 0 {
		t.Errorf("%d questions are open on a finished thread, %v", len(qs), err)
	}
}

// A try that asks and fails, and a last one that does not ask, leave no question that somebody could answer in vain.
func TestQuestionOfAnEarlierTry(t *testing.T) {
	t.Parallel()
	ok := pawl.Interrupt[string, bool]{Name: "ok"}
	eng := opened(t, hooked(t), nil)
	tries, asked := 0, ""
	th := single(t, func(ctx context.Context, _ *note) error {
		if tries++; tries > 1 {
			return nil
		}
		_, _ = ok.Ask(ctx, "?")
		if qs, err := eng.Questions(ctx, 0); err == nil && len(qs) == 1 {
			asked = qs[0].ID
		}
		return errors.New("flaky")
	}, pawl.Uses(ok), pawl.Tries(2), pawl.Backoff(0, 0)).Thread(eng, "t")
	if out, err := th.Run(t.Context(), nil); err != nil || out.Status != pawl.Done {
		t.Fatal(err)
	}
	refused := (*pawl.AnswerError)(nil)
	if _, err := eng.Answer(t.Context(), asked, true); !errors.As(err, &refused) || refused.Reason != pawl.ReasonWithdrawn {
		t.Errorf("an answer that nobody waits for: %v", err)
	}
}
