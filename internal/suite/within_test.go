package suite_test

import (
	"context"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/nest"
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
