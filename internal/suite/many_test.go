//go:build !race

package suite

// manyThreads wait at once in S002-2.
const manyThreads = 10_000
