//go:build race

package suite

// detector says whether the race detector watches. It makes each of many things cost about twenty times as much, and sees
// in a few of them what it sees in all: the full numbers run without it.
const detector = true

const (
	manyWorkers  = 5
	manyThreads  = 1_000
	manyReplays  = 100
	manyForks    = 2
	manyBranches = 2
)
