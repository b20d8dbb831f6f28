// Command readme is the program in the README: it quotes a price once, asks a person, and goes on in whatever process
// comes next.
package main

import (
	"context"
	"fmt"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/app"
)

type State struct {
	Item  pawl.Last[string] `json:"item"` // every field is a channel with a merge rule
	Price pawl.Last[int]    `json:"price"`
}

var approve = pawl.Interrupt[string, bool]{Name: "approve"}

func order(ctx context.Context, s *State) error {
	price, err := pawl.Step(ctx, "quote", func(context.Context) (int, error) { return 7 * len(s.Item.Get()), nil })
	if err != nil {
		return err // a finished step is journaled: it is not called again, whatever happens
	}
	yes, err := approve.Ask(ctx, fmt.Sprintf("Buy %s for %d?", s.Item.Get(), price))
	if err != nil || !yes {
		return err // waiting: the process may end; the node runs again when the answer comes
	}
	s.Price.Set(price)
	return nil
}

func main() {
	g, err := pawl.New[State]("order").Node("order", order, pawl.Uses(approve)).Edge(pawl.Start, "order").Build()
	if err != nil {
		panic(err)
	}
	app.Main(g) // the graph's own command line: go run . runs start order no-17 --input '{"item": "a kettle"}'
}
