package draw

import (
	"math"
	"slices"
)

// gap is the least distance between two neighbours of a rank.
const gap = 3

// widen makes nodes wide enough for their lines, and gives each line its column, in the order of what it leads to.
func (p *plan) widen() {
	for _, v := range p.all {
		slices.SortStableFunc(v.out, func(a, b *segment) int { return a.to.order - b.to.order })
		slices.SortStableFunc(v.in, func(a, b *segment) int { return a.from.order - b.from.order })
		if v.node >= 0 {
			v.w = max(v.w, 2*len(v.in)+1, 2*len(v.out)+1)
		}
		if v.node >= 0 && p.loop(v.node) >= 0 {
			v.w = max(v.w, 7)
		}
		for i, s := range v.out {
			s.at = column(v.w, i, len(v.out))
		}
		for i, s := range v.in {
			s.into = column(v.w, i, len(v.in))
		}
	}
}

// column is where the i-th of n lines meets a side of a width, from its left end.
func column(w, i, n int) int {
	if n == 1 {
		return w / 2
	}
	return (i + 1) * w / (n + 1)
}

// loop is the edge from a node to itself, or -1.
func (p *plan) loop(node int) int {
	for _, e := range p.loops {
		if p.graph.Edges[e].From == p.graph.Nodes[node].ID {
			return e
		}
	}
	return -1
}

// place gives every vertex its column: near to what it is joined to, rank after rank, down and up and down.
func (p *plan) place() {
	for _, rank := range p.ranks {
		x := 0
		for _, v := range rank {
			v.x = x
			x += v.w + p.room(v)
		}
	}
	last := len(p.ranks) - 1
	for _, down := range []bool{true, false, true, false, true} {
		for r := range p.ranks {
			if down {
				p.settle(p.ranks[r], func(v *vertex) (sum, n int) {
					for _, s := range v.in {
						sum, n = sum+s.from.x+s.at-s.into, n+1
					}
					return sum, n
				})
			} else {
				p.settle(p.ranks[last-r], func(v *vertex) (sum, n int) {
					for _, s := range v.out {
						sum, n = sum+s.to.x+s.into-s.at, n+1
					}
					return sum, n
				})
			}
		}
	}
	p.straighten()
	left := math.MaxInt
	for _, v := range p.all {
		left = min(left, v.x)
	}
	for _, v := range p.all {
		v.x -= left
		p.w = max(p.w, v.x+v.w+p.room(v)-gap)
	}
}

// straighten moves a line's column at a node by a little where that makes it straight.
func (p *plan) straighten() {
	for _, v := range p.all {
		for _, s := range v.out {
			off := s.to.x + s.into - v.x - s.at
			switch {
			case off == 0 || off < -2 || off > 2:
			case v.node >= 0 && free(v.w, s.at+off, v.out, s, func(o *segment) int { return o.at }):
				s.at += off
			case s.to.node >= 0 && free(s.to.w, s.into-off, s.to.in, s, func(o *segment) int { return o.into }):
				s.into -= off
			}
		}
	}
}

// free says whether a line may meet a side of a width in another column: inside it, apart from the other lines there, and
// in the same order.
func free(w, column int, others []*segment, s *segment, at func(*segment) int) bool {
	ok := column > 0 && column < w-1
	for _, o := range others {
		apart := at(o) - column
		ok = ok && (o == s || apart >= 2 && at(o) > at(s) || apart <= -2 && at(o) < at(s))
	}
	return ok
}

// room is what a vertex wants free at its right.
func (p *plan) room(v *vertex) int {
	if v.node >= 0 && p.loop(v.node) >= 0 {
		return gap + 4
	}
	return gap
}

// settle moves the vertices of a rank as near as possible to where each wants to be, in their order and without touching:
// neighbours that want to pass each other are moved as one (the pool adjacent violators algorithm).
func (p *plan) settle(rank []*vertex, wish func(*vertex) (sum, n int)) {
	type pool struct {
		want, weight float64
		size         int
	}
	var pools []pool
	offset := make([]int, len(rank)) // of each from the first, were all side by side
	for i, v := range rank {
		if i > 0 {
			offset[i] = offset[i-1] + rank[i-1].w + p.room(rank[i-1])
		}
		want, weight := float64(v.x), 0.1
		if sum, n := wish(v); n > 0 {
			want, weight = float64(sum)/float64(n), 1
		}
		if v.node < 0 {
			weight *= 4 // a long line is to be straight
		}
		pools = append(pools, pool{want - float64(offset[i]), weight, 1})
		for len(pools) > 1 && pools[len(pools)-2].want > pools[len(pools)-1].want {
			a, b := pools[len(pools)-2], pools[len(pools)-1]
			pools = append(pools[:len(pools)-2], pool{
				(a.want*a.weight + b.want*b.weight) / (a.weight + b.weight), a.weight + b.weight, a.size + b.size,
			})
		}
	}
	i := 0
	for _, pl := range pools {
		for range pl.size {
			rank[i].x = int(math.Round(pl.want)) + offset[i]
			i++
		}
	}
}
