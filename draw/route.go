package draw

import (
	"cmp"
	"math"
	"slices"
)

// point is a place on the grid: a column and a row.
type point struct{ x, y int }

// way is a line on its way over the grid, from its beginning to its arrow, with a turn at each point.
type way struct {
	edge   int
	points []point
	label  string
	at     point // where the label stands, its left end
}

// run is a stretch of a line along a row between two ranks: it comes down a column and leaves by another.
type run struct {
	seg       *segment
	from, to  int
	track     int
	next      *run // of the same line
	continued bool // it follows another run
}

// route gives the ranks their rows and the lines their ways.
func (p *plan) route() {
	runs := map[*segment]*run{}
	y := 0
	for r, rank := range p.ranks {
		height := 1
		for _, v := range rank {
			height = max(height, v.h)
		}
		for _, v := range rank {
			v.y = y
			if v.node >= 0 {
				v.y += (height - v.h) / 2
			}
		}
		y += height
		if r == len(p.ranks)-1 {
			break
		}
		own, tracks := p.tracks(rank)
		for s, first := range own {
			for u := first; u != nil; u = u.next {
				u.track += y + 1
			}
			runs[s] = first
		}
		y += tracks + 2
	}
	p.h = y
	for e := range p.graph.Edges {
		if p.first[e] == nil {
			p.lines = append(p.lines, p.loopWay(e))
			continue
		}
		p.lines = append(p.lines, p.way(e, runs))
	}
	for _, w := range p.lines {
		for _, at := range w.points {
			p.w = max(p.w, at.x+1)
		}
	}
}

// tracks gives each line below a rank that is not straight a row of its own, or one that it shares with lines that are
// elsewhere. Where one line comes down in the column in which another goes on, the one that comes is above.
func (p *plan) tracks(rank []*vertex) (first map[*segment]*run, count int) {
	first = map[*segment]*run{}
	var left []*run
	taken := map[int]bool{}
	for _, v := range rank {
		for _, s := range v.out {
			from, to := v.x+s.at, s.to.x+s.into
			taken[from], taken[to] = true, true
			if from != to {
				u := &run{seg: s, from: from, to: to}
				first[s], left = u, append(left, u)
			}
		}
	}
	slices.SortStableFunc(left, func(a, b *run) int { return cmp.Compare(min(a.from, a.to), min(b.from, b.to)) })
	for track := 0; len(left) > 0; track++ {
		row, rest := pick(left)
		if len(row) == 0 { // a ring of lines that must each be above the next: one of them makes a detour
			rest = detour(left, taken)
			track--
		}
		for _, u := range row {
			u.track = track
		}
		left, count = rest, track+1
	}
	return first, count
}

// pick chooses runs for a row, from left to right.
func pick(left []*run) (row, rest []*run) {
	edge := math.MinInt
	for _, u := range left {
		free := min(u.from, u.to) > edge+1 && !slices.ContainsFunc(left, func(o *run) bool { return o != u && o.before(u) })
		if !free {
			rest = append(rest, u)
			continue
		}
		row, edge = append(row, u), max(u.from, u.to)
	}
	return row, rest
}

// before says that o must be in a row above u's.
func (o *run) before(u *run) bool {
	return !o.continued && o.from == u.to && u.next == nil || o.next == u
}

// detour parts the first run in two, which meet in a column where no line comes or goes.
func detour(left []*run, taken map[int]bool) []*run {
	u := left[0]
	column := max(u.from, u.to)
	for x := min(u.from, u.to) + 1; ; x++ {
		if !taken[x] && !taken[x-1] && !taken[x+1] || x > column && !taken[x] {
			column = x
			break
		}
	}
	taken[column] = true
	second := &run{seg: u.seg, from: column, to: u.to, continued: true, next: u.next}
	u.to, u.next = column, second
	return append(left, second)
}

// way collects the points of a line over all ranks that it passes.
func (p *plan) way(edge int, runs map[*segment]*run) way {
	w := way{edge: edge}
	s := p.first[edge]
	w.points = append(w.points, point{s.from.x + s.at, s.from.y + s.from.h})
	for {
		x := s.from.x + s.at
		for u := runs[s]; u != nil; u = u.next {
			w.points = append(w.points, point{x, u.track}, point{u.to, u.track})
			x = u.to
		}
		if s.to.node >= 0 {
			break
		}
		if s.to.label != "" {
			w.label, w.at = s.to.label, point{s.to.x + 1, s.to.y}
		}
		s = s.to.out[0]
	}
	w.points = append(w.points, point{s.to.x + s.into, s.to.y - 1})
	if p.turned[edge] {
		slices.Reverse(w.points)
	}
	return w
}

// loopWay leads from a node's right side back into it.
func (p *plan) loopWay(edge int) way {
	e := p.graph.Edges[edge]
	i := slices.IndexFunc(p.graph.Nodes, func(n Node) bool { return n.ID == e.From })
	v := p.nodes[i]
	x := v.x + v.w
	return way{edge: edge, points: []point{{x, v.y}, {x + 2, v.y}, {x + 2, v.y + v.h - 1}, {x, v.y + v.h - 1}}}
}
