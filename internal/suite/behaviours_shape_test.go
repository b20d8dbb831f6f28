package suite

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
)

type rowShape struct {
	Log pawl.Append[string] `json:"log"`
}

func noShape(context.Context, *rowShape) error { return nil }
func toC(*rowShape) []pawl.Next                { return pawl.To("c") }
func toEnd(*rowShape) []pawl.Next              { return pawl.To(pawl.End) }

// rowOneFunctionTwice: two routes by one function are a fault that names the node and the function; two functions are not.
func rowOneFunctionTwice(t *testing.T, _ *report) {
	nodes := func() *pawl.Builder[rowShape] {
		return pawl.New[rowShape]("row").Node("a", noShape).Node("c", noShape).Edge(pawl.Start, "a").Route("a", toC, "c")
	}
	_, err := nodes().Route("a", toC, "c").Build()
	refused := (*pawl.BuildError)(nil)
	if !errors.As(err, &refused) || len(refused.Faults) != 1 || !strings.Contains(refused.Faults[0], `"a"`) || !strings.Contains(refused.Faults[0], "suite.toC ") {
		t.Errorf("the graph was built, or refused for something else: %v", err)
	}
	build(t, nodes().Route("a", toEnd, pawl.End).Route("c", toEnd, pawl.End))
}
