package pawl_test

import (
	"context"
	"errors"
	"testing"

	"github.com/pawl-dev/pawl"
)

// Runs tells all attempts, and which of them a verb would act on; PreviewVerb tells what a verb would be told.
func TestRunsOfAThread(t *testing.T) {
	t.Parallel()
	type state struct {
		Text pawl.Last[string] `json:"text"`
	}
	fails := true
	g, err := pawl.New[state]("g").Node("n", func(context.Context, *state) error {
		if fails {
			return errors.New("no")
		}
		return nil
	}).Edge(pawl.Start, "n").Build()
	if err != nil {
		t.Fatal(err)
	}
	eng := engine(g)
	th := g.Thread(eng, "t")
	if runs, err := th.Runs(t.Context()); err != nil || len(runs) != 0 {
		t.Fatalf("before any run: %v, %v", runs, err)
	}
	_, _ = th.Run(t.Context(), &state{})
	if p, err := th.PreviewVerb(t.Context(), pawl.VerbRetry); err != nil || p.Refused != nil {
		t.Errorf("retry of a failed run: %+v, %v", p, err)
	}
	fails = false
	if _, err := th.Retry(t.Context(), pawl.Reason("the provider is back")); err != nil {
		t.Fatal(err)
	}
	runs, err := th.Runs(t.Context())
	if err != nil || len(runs) != 2 {
		t.Fatalf("%v, %v", runs, err)
	}
	now, then := runs[0], runs[1]
	if !now.Current || now.Status != pawl.Done || now.Number != 2 || now.Reason != "the provider is back" || now.Run != then.Run {
		t.Errorf("the current attempt: %+v", now)
	}
	if then.Current || !then.Aside || then.Status != pawl.Failed || then.Cause != pawl.CauseError || then.Node != "n" {
		t.Errorf("the attempt set aside: %+v", then)
	}
	if p, err := th.PreviewVerb(t.Context(), pawl.VerbCancel); err != nil || p.Refused == nil {
		t.Errorf("cancel of a finished run: %+v, %v", p, err)
	}
}
