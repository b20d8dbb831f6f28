package nest

import (
	"slices"
	"testing"

	"github.com/pawl-dev/pawl"
)

// TestByTurns: one of each pair, and the other one of each under the next seed.
func TestByTurns(t *testing.T) {
	t.Setenv("PAWL_DEPTH", "")
	all := Levels(3, pawl.Inherit, pawl.Stateless)
	for _, scenario := range []string{"S000-1", "S000-2", "chain"} {
		one, other := ByTurns(all, scenario, 20_000), ByTurns(all, scenario, 20_001)
		if len(one) != len(all)/2 {
			t.Errorf("%s: %v, want half of %d", scenario, one, len(all))
		}
		for _, l := range all {
			if slices.Contains(one, l) == slices.Contains(other, l) {
				t.Errorf("%s: %v is taken by both seeds or by none", scenario, l)
			}
		}
		called := 0
		for _, l := range one {
			if l.Called {
				called++
			}
		}
		if called != len(one)/2 {
			t.Errorf("%s: %d of %d called", scenario, called, len(one))
		}
	}
	t.Setenv("PAWL_DEPTH", "full")
	if got := ByTurns(all, "chain", 1); !slices.Equal(got, all) {
		t.Errorf("full: %v", got)
	}
}

func TestSeed(t *testing.T) {
	t.Setenv("PAWL_SEED", "7")
	if got := Seed(); got != 7 {
		t.Errorf("seed %d, want 7", got)
	}
	t.Setenv("PAWL_SEED", "")
	if Seed() < 20_000 {
		t.Errorf("seed %d is no day", Seed())
	}
}
