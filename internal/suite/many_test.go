//go:build !race

package suite

const detector = false

const (
	manyWorkers  = 50     // rounds of four workers each in S003-4
	manyThreads  = 10_000 // wait at once in S002-2
	manyReplays  = 1_000  // meet the end of retention in A15
	manyForks    = 8      // dice for the forks of forks of H19
	manyBranches = 12     // and of P8
)
