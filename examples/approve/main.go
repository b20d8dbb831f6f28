// Command approve is the smallest graph with a person in it: one node prints, asks, and prints the answer. The node runs
// again from its first line when the answer is there, so the first line is printed twice.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/memdb"
)

var ship = pawl.Interrupt[string, string]{Name: "ship"}

type state struct {
	Decision pawl.Last[string] `json:"decision"`
}

func approve(ctx context.Context, s *state) error {
	fmt.Println("approve node entered")
	decision, err := ship.Ask(ctx, "Ship it?")
	if err != nil {
		return err
	}
	fmt.Printf("resumed with '%s'\n", decision)
	s.Decision.Set(decision)
	return nil
}

func main() {
	ctx := context.Background()
	g := must(pawl.New[state]("approve").Node("approve", approve, pawl.Uses(ship)).Edge(pawl.Start, "approve").Build())
	eng := must(pawl.NewEngine(must(memdb.Open(pawl.Kinds()...)), nil))
	thread := g.Thread(eng, "release-1")
	out := must(thread.Run(ctx, &state{})) // stops at the question
	must(thread.Resume(ctx, ship.Answer(out.Waiting[0].ID, "yes")))
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}
