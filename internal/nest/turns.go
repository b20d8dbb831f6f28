package nest

import (
	"hash/fnv"
	"os"
	"strconv"
	"time"
)

// Seed says which share of its long lists a run of the tests takes: PAWL_SEED, or the number of the day, so that the runs
// of some days take all of them.
func Seed() uint64 {
	if n, err := strconv.ParseUint(os.Getenv("PAWL_SEED"), 10, 64); err == nil {
		return n
	}
	return uint64(time.Now().Unix() / (24 * 60 * 60))
}

// ByTurns picks of two levels that differ in Called one, the other one for the next seed: half of a scenario's levels as a
// node and half called. PAWL_DEPTH=full picks both.
func ByTurns(levels []Level, scenario string, seed uint64) (picked []Level) {
	if os.Getenv("PAWL_DEPTH") == "full" {
		return levels
	}
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(scenario))
	turn, turns := hash.Sum64()%2+seed%2, map[Level]uint64{}
	for _, l := range levels {
		pair := Level{Depth: l.Depth, Mode: l.Mode}
		if _, ok := turns[pair]; !ok {
			turns[pair] = turn + uint64(len(turns))
		}
		if l.Called == (turns[pair]%2 == 1) {
			picked = append(picked, l)
		}
	}
	return picked
}
