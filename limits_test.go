package pawl_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
)

// counting is a graph that goes round until it was entered n times.
func counting(t *testing.T, n int, left *[]int) *pawl.Graph[note] {
	t.Helper()
	return built(t, pawl.New[note]("round").Node("a", func(ctx context.Context, _ *note) error {
		*left = append(*left, pawl.RemainingSteps(ctx))
		return nil
	}).Edge(pawl.Start, "a").Route("a", func(*note) []pawl.Next {
		if len(*left) < n {
			return pawl.To("a")
		}
		return pawl.To(pawl.End)
	}, "a", pawl.End))
}

func TestNegativeLimits(t *testing.T) {
	t.Parallel()
	for name, l := range map[string]pawl.Limits{"Steps": {Steps: -1}, "Tasks": {Tasks: -7}, "Questions": {Questions: -1}, "Crashes": {Crashes: math.MinInt}} {
		t.Run(name, func(t *testing.T) {
			if eng, err := pawl.NewEngine(hooked(t), &pawl.Options{Limits: l}); eng != nil || err == nil || !strings.Contains(err.Error(), "pawl: Limits."+name+" is -") {
				t.Errorf("%v, %v", eng, err)
			}
		})
	}
}

// A call's limit takes the place of the engine's, for this call: a later one starts over, and goes on where it stopped.
func TestStepLimit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		engine int
		limit  int // of the call; 0: none
		most   int // super-steps that run, of 4
	}{
		{"the engine's", 2, 0, 2},
		{"less than the engine's", 3, 1, 1},
		{"more than the engine's", 1, 3, 3},
		{"just enough", 1, 4, 4},
		{"as good as none", 0, math.MaxInt, 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var left []int
			g := counting(t, 4, &left)
			th := g.Thread(opened(t, hooked(t), &pawl.Options{Limits: pawl.Limits{Steps: c.engine}}), "t")
			var options []pawl.RunOption
			if c.limit > 0 {
				options = append(options, pawl.StepLimit(c.limit))
			}
			_, err := th.Run(t.Context(), &note{}, options...)
			if limit := (*pawl.LimitError)(nil); errors.As(err, &limit) != (c.most < 4) || len(left) != c.most {
				t.Fatalf("%d super-steps ran, want %d: %v", len(left), c.most, err)
			}
			if c.limit > 0 && left[0] != c.limit {
				t.Errorf("the first node saw %d steps left", left[0])
			}
			if err != nil {
				if out, err := th.Resume(t.Context(), pawl.StepLimit(4-c.most)); err != nil || out.Status != pawl.Done || len(left) != 4 {
					t.Errorf("resumed: %v, %v, %d super-steps", out, err, len(left))
				}
			}
		})
	}
}

// A limit that lets nothing run is refused before anything is done, and so is one for a verb that runs nothing.
func TestStepLimitIsRefused(t *testing.T) {
	t.Parallel()
	var left []int
	g := counting(t, 1, &left)
	th := g.Thread(opened(t, hooked(t), nil), "t")
	for _, n := range []int{0, -1, math.MinInt} {
		if _, err := th.Run(t.Context(), &note{}, pawl.StepLimit(n)); err == nil || !strings.Contains(err.Error(), "StepLimit(") || !strings.Contains(err.Error(), "nothing was done") {
			t.Errorf("StepLimit(%d): %v", n, err)
		}
	}
	if st, err := th.State(t.Context()); err != nil || st.Status != pawl.StatusNew || len(left) > 0 {
		t.Errorf("%+v, %v: a refused run left something", st, err)
	}
	if _, err := th.Run(t.Context(), &note{}); err != nil {
		t.Fatal(err)
	}
	if _, err := th.Edit(t.Context(), func(*note) error { return nil }, pawl.StepLimit(3)); err == nil || !strings.Contains(err.Error(), "StepLimit") {
		t.Errorf("an edit took a limit: %v", err)
	}
}
