package suite

import (
	"slices"
	"testing"
)

// TestAcceptance holds the numbered acceptance scenarios of operations: one intent, one dispatch, one spent approval, on
// every path and with proof. A number that is not listed belongs to a part that is not here.
func TestAcceptance(t *testing.T) {
	runDeep(t, "acceptance", slices.Concat(acceptanceHeadline(), acceptanceWindows(), acceptanceRelease(), acceptanceApprovals(), acceptanceClocks(), acceptanceRetention(), acceptanceCalls(), acceptanceProof(),
		acceptanceVersions(), acceptanceRest()))
}
