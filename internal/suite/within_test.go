package suite_test

import (
	"context"
	"errors"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/nest"
	"github.com/pawl-dev/pawl/pawltest"
)

type levelKey struct{}

// levelOf is how deep the graphs of a scenario run inside others.
func levelOf(ctx context.Context) nest.Level {
	l, _ := ctx.Value(levelKey{}).(nest.Level)
	return l
}

func atLevel(ctx context.Context, l nest.Level) context.Context {
	return context.WithValue(ctx, levelKey{}, l)
}

// within is the thread of a scenario's graph, at the scenario's depth.
func within(ctx context.Context, eng *pawl.Engine, g *pawl.Graph[sweepState], id string) (*sweepThread, error) {
	deep, err := nest.In(g, levelOf(ctx))
	if err != nil {
		return nil, err
	}
	return deep.Thread(eng, id), nil
}

// atDepth is a scenario of the sweep inside others.
func atDepth(drive sweepDrive, l nest.Level) sweepDrive {
	return func(ctx context.Context, eng *pawl.Engine) error { return drive(atLevel(ctx, l), eng) }
}

// sweepInside are scenarios that die inside others: joins, deferred nodes, questions, conflicts, failures and ways back.
func sweepInside(t *testing.T) []sweepCase {
	return []sweepCase{
		{name: "fan-out-two-deep", drive: atDepth(sweepFanOut(t), nest.Level{Depth: 2})},
		{name: "several-called-in-memory", drive: atDepth(sweepSeveral(t), nest.Level{Depth: 1, Called: true, Mode: pawl.PerThread})},
		{name: "deferred-inside", drive: atDepth(sweepDeferred(t), nest.Level{Depth: 1})},
		{name: "deferred-called-stateless", drive: atDepth(sweepDeferred(t), nest.Level{Depth: 1, Called: true, Mode: pawl.Stateless})},
		{name: "conflict-inside", drive: atDepth(sweepConflict(t), nest.Level{Depth: 1}), discards: true},
		{name: "failure-inside", drive: atDepth(sweepFailure(t, steps("sibling"), (*sweepThread).Resume), nest.Level{Depth: 1, Called: true})},
		{name: "fork-edit-replay-inside", drive: atDepth(sweepTravel(t), nest.Level{Depth: 1})},
		{name: "function-called", drive: sweepFunc(nest.Level{})},
		{name: "function-in-functions", drive: sweepFunc(nest.Level{Depth: 2})},
	}
}

// sweepFunc is a function that calls and asks, called by a node of a graph.
func sweepFunc(l nest.Level) sweepDrive {
	return func(ctx context.Context, eng *pawl.Engine) error {
		f, err := pawl.Func("function", func(ctx context.Context, in string) (string, error) {
			above, err := call(ctx, "above", "")
			if err != nil {
				return "", err
			}
			answer, err := sweepQuestion.Ask(ctx, in)
			if err != nil {
				return "", err
			}
			below, err := call(ctx, "below", "")
			return above + ", " + answer + ", " + below, err
		}, pawl.Uses(sweepQuestion))
		if err == nil {
			f, err = nest.Func(f, l)
		}
		if err != nil {
			return err
		}
		child := f.Child("function")
		g, err := pawl.New[sweepState]("around").
			Node("calls", func(ctx context.Context, s *sweepState) error {
				said, err := child.Call(ctx, s.Doc.Get())
				s.Log.Add(said)
				return err
			}, pawl.Uses(child)).
			Node("behind", steps("behind")).
			Path(pawl.Start, "calls", "behind").Build()
		if err != nil {
			return err
		}
		out, err := pawltest.Drive(ctx, g.Thread(eng, "t"), "run-1", &sweepState{Doc: pawl.Of("in")}, sweepPeople)
		if err == nil && out.State.Log.Len() != 2 {
			err = errors.New("the function's result is not in the state")
		}
		return err
	}
}

// payInside are payments that die inside others, and what people do about them.
func payInside() (all []payCase) {
	levels := map[string]nest.Level{
		"pay-redo": {Depth: 1}, "pay-back": {Depth: 1, Called: true}, "pay-limited": {Depth: 1}, "pay-permit": {Depth: 1, Called: true},
		"pay-escalated": {Depth: 2}, "pay-revoked": {Depth: 1}, "pay-edited": {Depth: 1, Called: true}, "pay-cancelled-granted": {Depth: 1},
	}
	for _, c := range payCases() {
		l, ok := levels[c.name]
		if !ok {
			continue
		}
		drive := c.drive
		c.name += "-inside"
		c.drive = func(p *sweepPay, t *testing.T) sweepDrive { return atDepth(drive(p, t), l) }
		all = append(all, c)
	}
	return all
}
