package pawltest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
)

// People answer open questions by script: by the name of the interrupt, a function of the question. What it returns is
// the answer: anything that encoding/json can encode.
type People map[string]func(q pawl.Question) any

// Thread is a handle that the kit can drive: a *pawl.ThreadOf[S] (input *S, outcome *pawl.OutcomeOf[S]) or a
// *pawl.Thread (input json.RawMessage, outcome *pawl.Outcome).
type Thread[In, Out any] interface {
	ID() string
	Run(ctx context.Context, input In, options ...pawl.RunOption) (Out, error)
	Resume(ctx context.Context, options ...pawl.RunOption) (Out, error)
	State(ctx context.Context, in ...pawl.Path) (*pawl.ThreadState, error)
}

// SilenceError: nobody was scripted to answer a question. The thread waits for it.
type SilenceError struct {
	Thread   string
	Question pawl.Question
}

// Error names the question and what to add.
func (e *SilenceError) Error() string {
	return fmt.Sprintf("pawltest: thread %q: node %q asks %q (%s) and no script answers it; add %q to the People",
		e.Thread, e.Question.Node, e.Question.Name, e.Question.Body, e.Question.Name)
}

// Run starts a run, lets the people answer what it asks and resumes it until it is done, failed or cancelled. A run
// that failed is an outcome like another; the test fails at once when a question has no script, when the engine
// refuses something, and when a node broke a rule that only a strict engine checks.
func Run[In, Out any](t testing.TB, thread Thread[In, Out], input In, people People) Out {
	t.Helper()
	ctx := t.Context()
	out, err := thread.Run(ctx, input)
	out, err = follow(ctx, thread, people, out, err)
	var failed *pawl.RunError
	if broken(err) || err != nil && !errors.As(err, &failed) {
		t.Fatal(err)
	}
	return out
}

// Resume is Run for a thread that was started before.
func Resume[In, Out any](t testing.TB, thread Thread[In, Out], people People) Out {
	t.Helper()
	ctx := t.Context()
	out, err := thread.Resume(ctx)
	out, err = follow(ctx, thread, people, out, err)
	var failed *pawl.RunError
	if broken(err) || err != nil && !errors.As(err, &failed) {
		t.Fatal(err)
	}
	return out
}

// broken says whether a strict engine failed a node for what another lets pass.
func broken(err error) bool {
	var hidden *pawl.HiddenWaitError
	var drift *pawl.DriftError
	var state *pawl.StateError
	var call *pawl.UnfencedCallError
	return errors.As(err, &hidden) || errors.As(err, &drift) || errors.As(err, &state) || errors.As(err, &call)
}

// Drive does what Run does, from wherever the thread stands: it starts the run with that id unless it was started
// before, and goes on with it after a crash. Called again after it ended it changes nothing and reports the same. It
// returns a *SilenceError when nobody answers, and otherwise what the engine returned last. A run that is drained by ctx
// it leaves there.
func Drive[In, Out any](ctx context.Context, thread Thread[In, Out], run string, input In, people People) (Out, error) {
	out, err := thread.Run(ctx, input, pawl.RunID(run))
	return follow(ctx, thread, people, out, err)
}

// follow answers and resumes as long as that leads anywhere.
func follow[In, Out any](ctx context.Context, thread Thread[In, Out], people People, out Out, err error) (Out, error) {
	for {
		var run *pawl.RunError
		var changed *pawl.ChangedError
		if err != nil && !errors.As(err, &run) && !errors.As(err, &changed) {
			return out, err
		}
		state, lost := thread.State(ctx)
		if lost != nil {
			return out, lost
		}
		switch state.Status {
		case pawl.Waiting:
			if _, asked := pawl.Draining(ctx); asked && state.Cause == pawl.CauseDrained {
				return out, err // it would stop again at once
			}
			answers, silent := people.answer(state)
			if silent != nil {
				return out, silent
			}
			out, err = thread.Resume(ctx, answers...)
		case pawl.Crashed:
			out, err = thread.Resume(ctx)
		default:
			return out, err
		}
	}
}

// answer asks the people everything that is open and did not expire.
func (p People) answer(state *pawl.ThreadState) ([]pawl.RunOption, error) {
	var out []pawl.RunOption
	for _, q := range state.Waiting {
		if !q.Due.IsZero() && !time.Now().Before(q.Due) {
			continue
		}
		script := p[q.Name]
		if script == nil {
			return nil, &SilenceError{Thread: state.Thread, Question: q}
		}
		out = append(out, pawl.AnswerWith(q.ID, script(q)))
	}
	return out, nil
}
