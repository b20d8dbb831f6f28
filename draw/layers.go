package draw

import "slices"

// The layout is layered: lines are turned so that none leads back, nodes are put into ranks, lines that pass a rank get a
// vertex in it, ranks are ordered so that few lines cross, and then come places and ways. It is done on a grid of
// characters, from which text and SVG are printed alike. Nothing depends on chance or on the order of a map.

// vertex is a node, or the place where a line passes a rank.
type vertex struct {
	node    int // -1: a line passes
	label   string
	w, h    int
	x, y    int // of the left upper corner
	rank    int
	order   int
	in, out []*segment
}

// segment is the part of a line between two neighbouring ranks.
type segment struct {
	from, to *vertex
	at, into int // columns where it leaves and arrives
}

// plan is a graph being laid out.
type plan struct {
	graph  *Graph
	inside map[int]*plan // of opened nodes
	nodes  []*vertex
	all    []*vertex
	ranks  [][]*vertex
	turned []bool     // by edge: it leads back, and is laid out the other way round
	first  []*segment // by edge: its uppermost part; nil for loops
	loops  []int      // edges from a node to itself
	lines  []way
	w, h   int
}

// layout places a graph on the grid.
func layout(g *Graph) *plan {
	p := &plan{graph: g, inside: map[int]*plan{}, turned: make([]bool, len(g.Edges)), first: make([]*segment, len(g.Edges))}
	at := map[string]int{}
	for i := range g.Nodes {
		n := &g.Nodes[i]
		v := &vertex{node: i, w: width(nodeText(n)) + 4, h: 3}
		if n.Inside != nil {
			inner := layout(n.Inside)
			p.inside[i] = inner
			v.w, v.h = max(v.w, inner.w+4), inner.h+4
		}
		at[n.ID] = i
		p.nodes, p.all = append(p.nodes, v), append(p.all, v)
	}
	ways := make([][]int, len(p.nodes))
	for i, e := range g.Edges {
		from, to := at[e.From], at[e.To]
		if from == to {
			p.loops = append(p.loops, i)
			continue
		}
		ways[from] = append(ways[from], i)
	}
	p.turn(ways, at)
	p.rank(at)
	p.order()
	p.widen()
	p.place()
	p.route()
	return p
}

// turn finds the lines that lead back, from Start on in the order of the graph, and marks them.
func (p *plan) turn(ways [][]int, at map[string]int) {
	const (
		fresh = iota
		open
		done
	)
	state := make([]int, len(p.nodes))
	var visit func(n int)
	visit = func(n int) {
		state[n] = open
		for _, e := range ways[n] {
			switch to := at[p.graph.Edges[e].To]; state[to] {
			case open:
				p.turned[e] = true
			case fresh:
				visit(to)
			}
		}
		state[n] = done
	}
	for n := range p.nodes {
		if state[n] == fresh {
			visit(n)
		}
	}
}

// rank puts every node below all that lead to it, End into the last rank, and a vertex into every rank that a line
// passes. A line with a label passes one at least, where the label stands.
func (p *plan) rank(at map[string]int) {
	type pair struct{ edge, from, to int }
	var pairs []pair
	for i, e := range p.graph.Edges {
		from, to := at[e.From], at[e.To]
		if p.turned[i] {
			from, to = to, from
		}
		if from != to {
			pairs = append(pairs, pair{i, from, to})
		}
	}
	last := 0
	for again := true; again; { // as often as the longest way has lines
		again = false
		for _, e := range pairs {
			least := p.nodes[e.from].rank + 1
			if p.graph.Edges[e.edge].Label != "" {
				least++
			}
			if p.nodes[e.to].rank < least {
				p.nodes[e.to].rank, again = least, true
				last = max(last, least)
			}
		}
	}
	for i, v := range p.nodes {
		if p.graph.Nodes[i].Kind == End {
			v.rank = last
		}
	}
	for _, e := range pairs {
		above, below := p.nodes[e.from], p.nodes[e.to]
		for r := above.rank + 1; r < below.rank; r++ {
			v := &vertex{node: -1, rank: r, w: 1, h: 1}
			if label := p.graph.Edges[e.edge].Label; label != "" && r == above.rank+1 {
				v.label, v.w = label, width(label)+2
			}
			p.all = append(p.all, v)
			p.link(e.edge, above, v)
			above = v
		}
		p.link(e.edge, above, below)
	}
}

func (p *plan) link(edge int, from, to *vertex) {
	s := &segment{from: from, to: to}
	from.out, to.in = append(from.out, s), append(to.in, s)
	if p.first[edge] == nil {
		p.first[edge] = s
	}
}

// sweeps is how often the ranks are ordered, down and up; more bring nothing on graphs that people can read.
const sweeps = 12

// order sorts each rank by the middle of what its vertices are joined to, and keeps the best of all sweeps.
func (p *plan) order() {
	last := 0
	for _, v := range p.all {
		last = max(last, v.rank)
	}
	p.ranks = make([][]*vertex, last+1)
	for _, v := range p.all {
		v.order = len(p.ranks[v.rank])
		p.ranks[v.rank] = append(p.ranks[v.rank], v)
	}
	best, fewest := p.orders(), p.crossings()
	for i := 0; i < sweeps && fewest > 0; i++ {
		for r := range p.ranks {
			if down := i%2 == 0; down {
				sortRank(p.ranks[r], func(v *vertex) []*segment { return v.in }, func(s *segment) *vertex { return s.from })
			} else {
				sortRank(p.ranks[last-r], func(v *vertex) []*segment { return v.out }, func(s *segment) *vertex { return s.to })
			}
		}
		if n := p.crossings(); n < fewest {
			best, fewest = p.orders(), n
		}
	}
	for i, v := range p.all {
		v.order = best[i]
	}
	for _, rank := range p.ranks {
		slices.SortFunc(rank, func(a, b *vertex) int { return a.order - b.order })
	}
}

func (p *plan) orders() []int {
	out := make([]int, len(p.all))
	for i, v := range p.all {
		out[i] = v.order
	}
	return out
}

func sortRank(rank []*vertex, lines func(*vertex) []*segment, other func(*segment) *vertex) {
	middle := map[*vertex]float64{}
	for _, v := range rank {
		middle[v] = float64(v.order)
		if own := lines(v); len(own) > 0 {
			sum := 0
			for _, s := range own {
				sum += other(s).order
			}
			middle[v] = float64(sum) / float64(len(own))
		}
	}
	slices.SortStableFunc(rank, func(a, b *vertex) int {
		switch {
		case middle[a] < middle[b]:
			return -1
		case middle[a] > middle[b]:
			return 1
		}
		return 0
	})
	for i, v := range rank {
		v.order = i
	}
}

// crossings counts the pairs of segments that cross, rank by rank, with a tree of counts.
func (p *plan) crossings() int {
	n := 0
	for r := 1; r < len(p.ranks); r++ {
		var lines []*segment
		for _, v := range p.ranks[r] {
			lines = append(lines, v.in...)
		}
		slices.SortFunc(lines, func(a, b *segment) int {
			if a.from.order != b.from.order {
				return a.from.order - b.from.order
			}
			return a.to.order - b.to.order
		})
		tree := make([]int, len(p.ranks[r])+1)
		for i, s := range lines {
			before := 0 // of those so far, how many arrive at or left of s
			for k := s.to.order + 1; k > 0; k -= k & -k {
				before += tree[k]
			}
			n += i - before
			for k := s.to.order + 1; k < len(tree); k += k & -k {
				tree[k]++
			}
		}
	}
	return n
}
