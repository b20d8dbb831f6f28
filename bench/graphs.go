package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/pawl-dev/pawl"
)

type counter struct {
	N pawl.Sum[int64] `json:"n"`
}

// count is a ring over the smallest state.
func count(n int) *pawl.Graph[counter] {
	return must(pawl.New[counter]("count").
		Node("tick", func(_ context.Context, s *counter) error { s.N.Add(1); return nil }).
		Edge(pawl.Start, "tick").
		Route("tick", func(s *counter) []pawl.Next {
			if s.N.Get() >= int64(n) {
				return pawl.To(pawl.End)
			}
			return pawl.To("tick")
		}, "tick", pawl.End).
		Build())
}

type state struct {
	N        pawl.Sum[int64]     `json:"n"`
	Note     pawl.Last[string]   `json:"note"`
	Messages pawl.Append[string] `json:"messages"`
}

// ring goes round n times through one node, which does what turn does.
func ring(n int, turn func(*state)) *pawl.Graph[state] {
	return must(pawl.New[state]("ring").
		Node("tick", func(_ context.Context, s *state) error {
			s.N.Add(1)
			if turn != nil {
				turn(s)
			}
			return nil
		}).
		Edge(pawl.Start, "tick").
		Route("tick", func(s *state) []pawl.Next {
			if s.N.Get() >= int64(n) {
				return pawl.To(pawl.End)
			}
			return pawl.To("tick")
		}, "tick", pawl.End).
		Build())
}

// run runs a ring to its end and checks that it went round n times.
func run(eng *pawl.Engine, g *pawl.Graph[state], thread string, n int) {
	out, err := g.Thread(eng, thread).Run(context.Background(), &state{})
	if err == nil && out.State.N.Get() != int64(n) {
		err = fmt.Errorf("thread %s went round %d times, not %d", thread, out.State.N.Get(), n)
	}
	if err != nil {
		fail(err)
	}
}

// fan sends n payloads to one worker, each of which adds its number.
func fan(n int) *pawl.Graph[state] {
	items := make([]int64, n)
	for i := range items {
		items[i] = int64(i)
	}
	add := pawl.NewWorker("add", func(_ context.Context, s *state, i int64) error { s.N.Add(i); return nil })
	return must(pawl.New[state]("fan").
		Node("spread", func(context.Context, *state) error { return nil }).
		Add(add).
		Edge(pawl.Start, "spread").
		Route("spread", func(*state) []pawl.Next { return add.Each(items) }, "add").
		Build())
}

func text(n int) string { return strings.Repeat("x", n) }
