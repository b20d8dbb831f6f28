package pawl

import (
	"context"
	"math"
)

type valueKey[T any] struct{}

// WithValue gives a run something that its nodes read with Value, at any depth: a client, a tenant's settings, a locale.
// It travels in the context of Run, Resume and the other verbs and is never stored, so each of them must be given it
// again. There is one value of each type.
func WithValue[T any](ctx context.Context, v T) context.Context {
	return context.WithValue(ctx, valueKey[T]{}, v)
}

// Value returns what the run was given of a type, and whether it was.
func Value[T any](ctx context.Context) (T, bool) {
	v, ok := ctx.Value(valueKey[T]{}).(T)
	return v, ok
}

// RemainingSteps is how many super-steps may still run before Limits.Steps, or the call's StepLimit, stops the run, the
// running one included: 1 in the last. It starts over with each verb, and in each child. Without a running task it is
// math.MaxInt.
func RemainingSteps(ctx context.Context) int {
	t, ok := TaskFrom(ctx)
	if !ok {
		return math.MaxInt
	}
	return t.loop.limits.Steps - t.loop.steps
}
