package draw

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// scribble makes a topology of n nodes at random, with loops, ways back and long lines.
func scribble(r *rand.Rand, n int) string {
	type node struct {
		Name    string   `json:"name"`
		Edges   []string `json:"edges,omitempty"`
		Targets []string `json:"targets,omitempty"`
	}
	nodes := []node{{Name: start, Edges: []string{"n0"}}}
	for i := range n {
		own := node{Name: fmt.Sprintf("n%d", i)}
		if i+1 < n {
			own.Edges = []string{fmt.Sprintf("n%d", i+1)}
		}
		for range r.IntN(3) {
			to := fmt.Sprintf("n%d", r.IntN(n))
			if !strings.Contains(strings.Join(own.Targets, " ")+" ", to+" ") {
				own.Targets = append(own.Targets, to)
			}
		}
		if r.IntN(4) == 0 {
			own.Targets = append(own.Targets, end)
		}
		nodes = append(nodes, own)
	}
	doc, _ := json.Marshal(map[string]any{"graph": "random", "nodes": nodes})
	return string(doc)
}

// On the grid nodes keep apart, lines begin and end at their own nodes, and no two lines run over each other: they only
// cross.
func TestLayout(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		doc := scribble(r, 1+r.IntN(14))
		g, err := Read([]byte(doc), 0)
		if err != nil {
			t.Fatal(err)
		}
		p := layout(g)
		if wrong := faults(p); wrong != "" {
			t.Fatalf("%s in the picture of %s:\n%s", wrong, doc, g.ASCII())
		}
	}
}

func faults(p *plan) string {
	taken := map[point]string{}
	for i, v := range p.nodes {
		for x := range v.w {
			for y := range v.h {
				at := point{v.x + x, v.y + y}
				if taken[at] != "" {
					return fmt.Sprintf("%s and %s overlap", taken[at], p.graph.Nodes[i].ID)
				}
				taken[at] = p.graph.Nodes[i].ID
				if at.x < 0 || at.y < 0 || at.x >= p.w || at.y >= p.h {
					return p.graph.Nodes[i].ID + " is off the grid"
				}
			}
		}
	}
	if len(p.lines) != len(p.graph.Edges) {
		return fmt.Sprintf("%d lines for %d edges", len(p.lines), len(p.graph.Edges))
	}
	type cell struct {
		point
		along bool
	}
	used := map[cell]int{}
	for _, w := range p.lines {
		e := p.graph.Edges[w.edge]
		name := e.From + "->" + e.To
		if !beside(taken, w.points[0], e.From) || !beside(taken, w.points[len(w.points)-1], e.To) {
			return name + " does not begin and end at its nodes"
		}
		own := map[cell]bool{}
		for i := 1; i < len(w.points); i++ {
			a, b := w.points[i-1], w.points[i]
			if a.x != b.x && a.y != b.y {
				return name + " goes aslant"
			}
			for x := min(a.x, b.x); x <= max(a.x, b.x); x++ {
				for y := min(a.y, b.y); y <= max(a.y, b.y); y++ {
					if taken[point{x, y}] != "" {
						return name + " runs over " + taken[point{x, y}]
					}
					if a != b {
						own[cell{point{x, y}, a.y == b.y}] = true
					}
				}
			}
		}
		for c := range own {
			if other, both := used[c]; both {
				o := p.graph.Edges[other]
				return name + " runs along " + o.From + "->" + o.To
			}
			used[c] = w.edge
		}
	}
	return ""
}

func beside(taken map[point]string, at point, node string) bool {
	return taken[point{at.x, at.y - 1}] == node || taken[point{at.x, at.y + 1}] == node || taken[point{at.x - 1, at.y}] == node
}

// Lines without branches are straight: a path of nodes has no turn at all.
func TestPathsAreStraight(t *testing.T) {
	t.Parallel()
	g, err := Read([]byte(`{"graph":"g","nodes":[{"name":"__start__","edges":["a long name"]},{"name":"a long name","edges":["b"]},
		{"name":"b","edges":["another name"]},{"name":"another name"}]}`), 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range layout(g).lines {
		if len(w.points) != 2 {
			t.Errorf("a line has %d points:\n%s", len(w.points), g.ASCII())
		}
	}
}

// Neighbours that a swap would uncross are swapped.
func TestFewCrossings(t *testing.T) {
	t.Parallel()
	g, err := Read([]byte(`{"graph":"g","nodes":[{"name":"__start__","edges":["a","b","c"]},{"name":"a","edges":["z"]},{"name":"b","edges":["y"]},
		{"name":"c","edges":["x"]},{"name":"x"},{"name":"y"},{"name":"z"}]}`), 0)
	if err != nil {
		t.Fatal(err)
	}
	if p := layout(g); p.crossings() > 0 {
		t.Errorf("%d crossings:\n%s", p.crossings(), g.ASCII())
	}
}

func TestWidth(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{"": 0, "pay": 3, "прийом": 6, "承認 する": 9, "e\u0301": 1, "🙂": 2} {
		if got := width(text); got != want {
			t.Errorf("%q takes %d columns, want %d", text, got, want)
		}
	}
}
