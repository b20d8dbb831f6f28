//go:build race

package suite

// manyThreads wait at once in S002-2: a tenth of the scenario's number, since the race detector makes each one cost
// about twenty times as much. The full number runs without it.
const manyThreads = 1_000
