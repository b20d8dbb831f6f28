package suite

import (
	"slices"
	"testing"
)

func TestSeeds(t *testing.T) {
	runAll(t, "seeds", slices.Concat(seed000(), seed001(), seed002(), seed003()))
}
