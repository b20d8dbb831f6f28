package pawl

import (
	"context"
	"iter"
)

// FuncThread is a thread of a function: its verbs take and give what the function does. The erased handle of the embedded
// ThreadOf is for who has no types.
type FuncThread[In, Out any] struct {
	*ThreadOf[FuncState[In, Out]]
}

// Thread returns the handle of a thread, and registers the function with the engine.
func (f *FuncGraph[In, Out]) Thread(e *Engine, id string) *FuncThread[In, Out] {
	return &FuncThread[In, Out]{f.graph.Thread(e, id)}
}

// FuncOutcome is an Outcome with what the function returned: in this run if it is Done, else in the newest that was.
type FuncOutcome[Out any] struct {
	Outcome
	Result Out
}

func returned[In, Out any](out *OutcomeOf[FuncState[In, Out]], err error) (*FuncOutcome[Out], error) {
	if out == nil {
		return nil, err
	}
	return &FuncOutcome[Out]{out.Outcome, out.State.Output.Get()}, err
}

func given[In, Out any](in In) *FuncState[In, Out] {
	s := &FuncState[In, Out]{}
	s.Input.Set(in)
	return s
}

// Run calls the function with in, as [ThreadOf.Run] runs a graph.
func (t *FuncThread[In, Out]) Run(ctx context.Context, in In, options ...RunOption) (*FuncOutcome[Out], error) {
	return returned(t.ThreadOf.Run(ctx, given[In, Out](in), options...))
}

// Stream is Run that tells what happens while it does; see [ThreadOf.Stream]. [FuncThread.Result] reads the outcome of its
// last event.
func (t *FuncThread[In, Out]) Stream(ctx context.Context, in In, options ...RunOption) iter.Seq2[Event, error] {
	return t.ThreadOf.Stream(ctx, given[In, Out](in), options...)
}

// Resume goes on after answers, a crash or a failure.
func (t *FuncThread[In, Out]) Resume(ctx context.Context, options ...RunOption) (*FuncOutcome[Out], error) {
	return returned(t.ThreadOf.Resume(ctx, options...))
}

// Retry starts a failed or cancelled run over.
func (t *FuncThread[In, Out]) Retry(ctx context.Context, options ...RunOption) (*FuncOutcome[Out], error) {
	return returned(t.ThreadOf.Retry(ctx, options...))
}

// Fork calls the function again from an older point, such as [Before] its name, with what edit changes, such as another
// input: its steps are called and its questions asked again, its effects return their receipts. The old branch stays as it
// is.
func (t *FuncThread[In, Out]) Fork(ctx context.Context, at Point, edit func(*FuncState[In, Out]) error, options ...RunOption) (*FuncOutcome[Out], error) {
	return returned(t.ThreadOf.Fork(ctx, at, edit, options...))
}

// Replay is Fork without changes.
func (t *FuncThread[In, Out]) Replay(ctx context.Context, at Point, options ...RunOption) (*FuncOutcome[Out], error) {
	return returned(t.ThreadOf.Replay(ctx, at, options...))
}

// Edit changes from outside what the head holds, such as what the next run reads with [Previous], and runs nothing; see
// [ThreadOf.Edit].
func (t *FuncThread[In, Out]) Edit(ctx context.Context, edit func(*FuncState[In, Out]) error, options ...RunOption) (*FuncOutcome[Out], error) {
	return returned(t.ThreadOf.Edit(ctx, edit, options...))
}

// Result is what the function had returned as an outcome stands, such as that of a stream's last event.
func (t *FuncThread[In, Out]) Result(out *Outcome) (result Out, err error) {
	s, err := t.def.read(out)
	if err != nil {
		return result, err
	}
	return s.Output.Get(), nil
}
