package suite

import (
	"slices"
	"testing"
)

func TestSeeds(t *testing.T) {
	runDeep(t, "seeds", slices.Concat(seed000(), seed001(), seed002(), seed003()))
}
