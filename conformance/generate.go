package conformance

import (
	"fmt"
	"math/rand/v2"
)

// Generate makes a scenario from a seed, always the same from the same: up to five nodes with chains, fan-outs, joins,
// a bounded cycle, sends, questions and at most one node that fails, and a script that brings the run to its end and may
// then go back.
func Generate(seed uint64) *Scenario {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 17)), s: &Scenario{ID: fmt.Sprintf("random-%d", seed), About: "generated"}}
	g.nodes()
	g.lines()
	g.workers()
	g.script()
	return g.s
}

type generator struct {
	*rand.Rand
	s      *Scenario
	asks   []string
	fails  bool
	within map[string]bool // nodes of the cycle, which runs more than once
}

// some is true once in n times.
func (g *generator) some(n int) bool { return g.IntN(n) == 0 }

// nodes makes a graph whose edges lead forward, and perhaps one way back.
func (g *generator) nodes() {
	n := 2 + g.IntN(4)
	name := func(i int) string { return string(rune('a' + i)) }
	in := make([][]int, n)
	for i := range n {
		g.s.Nodes = append(g.s.Nodes, Node{Name: name(i)})
		if i == 0 {
			continue
		}
		in[i] = []int{g.IntN(i)}
		if i > 1 && g.some(2) {
			if other := g.IntN(i); other != in[i][0] {
				in[i] = append(in[i], other)
			}
		}
	}
	g.s.Edges = append(g.s.Edges, Edge{"__start__", "a"})
	for i := 1; i < n; i++ {
		if len(in[i]) == 2 && g.some(2) {
			g.s.Joins = append(g.s.Joins, Join{From: []string{name(in[i][0]), name(in[i][1])}, To: name(i)})
			continue
		}
		for _, from := range in[i] {
			g.s.Edges = append(g.s.Edges, Edge{name(from), name(i)})
		}
	}
	g.within = map[string]bool{}
	if g.some(3) && len(g.s.Joins) == 0 {
		from := g.IntN(n)
		back := g.IntN(from + 1)
		g.s.Nodes[from].Routes = append(g.s.Nodes[from].Routes, Route{Name: "back", Ways: []Way{
			{Below: int64(2 + g.IntN(3)), To: []string{name(back)}}, {To: []string{"__end__"}},
		}})
		g.s.Nodes[from].Do = append(g.s.Nodes[from].Do, Line{Write: &Values{N: 1}})
		for i := back; i < n; i++ {
			g.within[name(i)] = true
		}
	}
}

// lines makes the nodes do something.
func (g *generator) lines() {
	owner := g.IntN(len(g.s.Nodes)) // two writers of x in one super-step are a conflict, which ends everything
	for i := range g.s.Nodes {
		n := &g.s.Nodes[i]
		n.Do = append(n.Do, Line{Note: []string{"log", "n", "x"}[g.IntN(3)]})
		if g.some(3) {
			n.Do = append(n.Do, Line{Write: &Values{N: 1}})
		}
		if i == owner && g.some(2) {
			x := "by " + n.Name
			n.Do = append(n.Do, Line{Write: &Values{X: &x}})
		}
		if g.some(4) && !g.within[n.Name] {
			for k := range 1 + g.IntN(2) {
				ask := fmt.Sprintf("%s%d?", n.Name, k)
				g.asks = append(g.asks, ask)
				n.Do = append(n.Do, Line{Ask: ask})
			}
		} else if g.some(6) && !g.fails {
			g.fails = true
			first := 1 + g.IntN(2)
			n.Do = append(n.Do, Line{Fail: &Fail{With: "out of order", First: first}})
			if g.some(2) {
				n.Tries = 1 + first
			}
		}
		n.Do = append(n.Do, Line{Write: &Values{Log: []string{n.Name}}})
	}
}

// workers lets one node send payloads.
func (g *generator) workers() {
	if !g.some(4) {
		last := &g.s.Nodes[len(g.s.Nodes)-1] // beside payloads a deferred node runs early in LangGraph, and late in Pawl
		last.Defer = g.some(2)
		return
	}
	from := &g.s.Nodes[g.IntN(len(g.s.Nodes))]
	if len(from.Routes) > 0 {
		return
	}
	w := Way{}
	for i := range 1 + g.IntN(3) {
		w.Send = append(w.Send, Send{To: "w", Arg: fmt.Sprint(i)})
	}
	from.Routes = append(from.Routes, Route{Name: "fan", Ways: []Way{w}})
	g.s.Nodes = append(g.s.Nodes, Node{Name: "w", Worker: true, Do: []Line{{Note: "arg"}}})
}

// script runs, goes on until nothing stands in the way, and then perhaps goes back.
func (g *generator) script() {
	g.s.Mode = []string{"", "", "async", "exit"}[g.IntN(4)]
	act := func(a Act) { g.s.Script = append(g.s.Script, a) }
	act(Act{Run: &Values{Log: []string{"in"}}})
	through := func() {
		for _, ask := range g.asks {
			act(Act{Answer: map[string]string{ask: "yes"}})
		}
		if g.fails {
			act(Act{Again: true})
		}
	}
	through()
	if g.some(2) && g.s.Mode != "exit" {
		before := g.s.Nodes[g.IntN(len(g.s.Nodes))]
		if !before.Worker {
			act(Act{Replay: before.Name})
			through()
		}
	}
}
