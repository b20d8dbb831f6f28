package pawl_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/storage"
)

// P6, P8: each verb of a function's thread calls the function on what that point of the history had: its input, and what the
// run before it left.
func TestVerbsOfAFunction(t *testing.T) {
	t.Parallel()
	type thread = *pawl.FuncThread[string, string]
	type state = pawl.FuncState[string, string]
	type outcome = *pawl.FuncOutcome[string]
	for name, c := range map[string]struct {
		does func(t *testing.T, th thread, fails *bool) (outcome, error)
		want string   // what it returned in the end
		seen []string // what the function saw in each call after the first two, "x" and "y"
	}{
		"replay": {func(t *testing.T, th thread, _ *bool) (outcome, error) {
			return th.Replay(t.Context(), pawl.Before("workflow"))
		}, "y after x!", []string{"y|x!"}},
		"fork with another input": {func(t *testing.T, th thread, _ *bool) (outcome, error) {
			return th.Fork(t.Context(), pawl.Before("workflow"), func(s *state) error { s.Input.Set("z"); return nil })
		}, "z after x!", []string{"z|x!"}},
		"fork with another past": {func(t *testing.T, th thread, _ *bool) (outcome, error) {
			return th.Fork(t.Context(), pawl.Before("workflow"), func(s *state) error { return s.Leave("past") })
		}, "y after past", []string{"y|past"}},
		"replay of the first run, and one more": {func(t *testing.T, th thread, _ *bool) (outcome, error) {
			h, err := th.History(t.Context(), pawl.Page{})
			if err != nil {
				return nil, err
			}
			slices.Reverse(h)
			first := h[slices.IndexFunc(h, func(s *pawl.Snapshot) bool { return slices.Contains(s.Next, "workflow") })]
			if out, err := th.Replay(t.Context(), pawl.Checkpoint(first.Checkpoint)); err != nil || out.Result != "x after " {
				return out, errors.Join(errors.New("the replay of the first"), err)
			}
			return th.Run(t.Context(), "z")
		}, "z after x!", []string{"x|", "z|x!"}},
		"edit, then run": {func(t *testing.T, th thread, _ *bool) (outcome, error) {
			if out, err := th.Edit(t.Context(), func(s *state) error { return s.Leave("edited") }); err != nil || out.Result != "y after x!" {
				return out, errors.Join(errors.New("the edit"), err)
			}
			return th.Run(t.Context(), "z")
		}, "z after edited", []string{"z|edited"}},
		"failed and retried": {func(t *testing.T, th thread, fails *bool) (outcome, error) {
			*fails = true
			if out, err := th.Run(t.Context(), "z"); err == nil || out.Result != "y after x!" {
				return out, errors.New("it did not fail, or forgot what was returned last")
			}
			*fails = false
			return th.Retry(t.Context())
		}, "z after y!", []string{"z|y!", "z|y!"}},
		"failed and resumed": {func(t *testing.T, th thread, fails *bool) (outcome, error) {
			*fails = true
			_, failed := th.Run(t.Context(), "z")
			if *fails = false; failed == nil {
				return nil, errors.New("it did not fail")
			}
			return th.Resume(t.Context())
		}, "z after y!", []string{"z|y!", "z|y!"}},
		"stream": {func(t *testing.T, th thread, _ *bool) (out outcome, err error) {
			for ev, err := range th.Stream(t.Context(), "z") {
				if err != nil {
					return nil, err
				}
				if ev.Kind == pawl.EventFinished {
					result, err := th.Result(ev.Outcome)
					return &pawl.FuncOutcome[string]{Outcome: *ev.Outcome, Result: result}, err
				}
			}
			return nil, errors.New("the stream ended without an outcome")
		}, "z after y!", []string{"z|y!"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onEachHome(t, func(t *testing.T, db storage.DB) {
				var seen []string
				fails := false
				f := function(t, func(ctx context.Context, in string) (string, error) {
					before, _ := pawl.Previous[string](ctx)
					if seen = append(seen, in+"|"+before); fails {
						return "", errors.New("boom")
					}
					return pawl.Final(ctx, fmt.Sprintf("%s after %s", in, before), in+"!")
				})
				th := f.Thread(opened(t, db, nil), "t")
				for _, in := range []string{"x", "y"} {
					if _, err := th.Run(t.Context(), in); err != nil {
						t.Fatal(err)
					}
				}
				out, err := c.does(t, th, &fails)
				if err != nil || out.Status != pawl.Done || out.Result != c.want || !slices.Equal(seen[2:], c.seen) {
					t.Errorf("%+v, saw %q, want %q and %q: %v", out, seen[2:], c.want, c.seen, err)
				}
			})
		})
	}
}

// A function is described as the graph that it is.
func TestAFunctionIsAGraph(t *testing.T) {
	t.Parallel()
	f := function(t, func(_ context.Context, in int) (int, error) { return in, nil })
	other := function(t, func(_ context.Context, in string) (string, error) { return in, nil })
	doc, err := f.JSON()
	if err != nil || f.Name() != "workflow" || f.Digest() == other.Digest() || len(f.Digest()) != len(other.Digest()) {
		t.Errorf("%q, %s: %v", f.Name(), f.Digest(), err)
	}
	eng := opened(t, hooked(t), nil)
	if err := eng.Register(f); err != nil || !slices.Equal(eng.Graphs(), []string{"workflow"}) {
		t.Errorf("registered: %v, %v: %s", eng.Graphs(), err, doc)
	}
}
