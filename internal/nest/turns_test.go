package nest

import (
	"slices"
	"testing"

	"github.com/pawl-dev/pawl"
)

// TestByTurns: one level of each mode, all of them under as many seeds, and neighbours do not take the same.
func TestByTurns(t *testing.T) {
	t.Setenv("PAWL_DEPTH", "")
	all := Levels(3, pawl.Inherit, pawl.Stateless)
	first := map[Level]bool{}
	for _, scenario := range []string{"S000-1", "S000-2", "chain"} {
		taken := map[Level]int{}
		for seed := range uint64(6) {
			one := ByTurns(all, scenario, 20_000+seed)
			if len(one) != 2 || one[0].Mode == one[1].Mode {
				t.Errorf("%s: %v, want one of each mode", scenario, one)
			}
			if seed == 0 {
				first[one[0]] = true
			}
			for _, l := range one {
				taken[l]++
			}
		}
		for _, l := range all {
			if taken[l] != 1 {
				t.Errorf("%s: six seeds took %v %d times", scenario, l, taken[l])
			}
		}
	}
	if len(first) < 2 {
		t.Errorf("all scenarios take the same under one seed: %v", first)
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
