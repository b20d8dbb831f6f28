package nest

import (
	"hash/fnv"
	"os"
	"strconv"
	"time"

	"github.com/pawl-dev/pawl"
)

// Seed says which share of its long lists a run of the tests takes: PAWL_SEED, or the number of the day, so that the runs
// of some days take all of them.
func Seed() uint64 {
	if n, err := strconv.ParseUint(os.Getenv("PAWL_SEED"), 10, 64); err == nil {
		return n
	}
	return uint64(time.Now().Unix() / (24 * 60 * 60))
}

// ByTurns picks of the levels of each mode one, the next one for the next seed: as many seeds that follow one another as a
// mode has levels take all of them. PAWL_DEPTH=full picks all.
func ByTurns(levels []Level, scenario string, seed uint64) (picked []Level) {
	if Full() {
		return levels
	}
	var modes []pawl.ChildMode
	of := map[pawl.ChildMode][]Level{}
	for _, l := range levels {
		if of[l.Mode] == nil {
			modes = append(modes, l.Mode)
		}
		of[l.Mode] = append(of[l.Mode], l)
	}
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(scenario))
	for i, mode := range modes { // another depth of each mode
		n := uint64(len(of[mode]))
		picked = append(picked, of[mode][(hash.Sum64()%n+seed%n+uint64(2*i))%n])
	}
	return picked
}

// Full says whether every scenario runs at every depth, as a node and called.
func Full() bool { return os.Getenv("PAWL_DEPTH") == "full" }
