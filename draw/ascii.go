package draw

import (
	"slices"
	"strings"
)

// ASCII draws the graph for a terminal, in ASCII but for the letters of names. Lines that a route decides are dotted,
// those of a join double. A line that passes under another is interrupted. What the marks at names mean stands below.
func (g *Graph) ASCII() string {
	p := layout(g)
	c := &canvas{rows: make([][]string, p.h)}
	for y := range c.rows {
		c.rows[y] = slices.Repeat([]string{" "}, p.w)
	}
	c.draw(p, 0, 0)
	var out strings.Builder
	for _, row := range c.rows {
		out.WriteString(strings.TrimRight(strings.Join(row, ""), " ") + "\n")
	}
	return out.String() + legend(g)
}

// canvas is the grid: a cell holds one character, or nothing behind a wide one.
type canvas struct{ rows [][]string }

func (c *canvas) set(x, y int, mark string) { c.rows[y][x] = mark }

func (c *canvas) text(x, y int, s string) {
	for _, r := range s {
		w := runeWidth(r)
		switch {
		case w == 0 && x > 0:
			c.rows[y][x-1] += string(r)
			continue
		case w == 2:
			c.rows[y][x+1] = ""
		}
		c.rows[y][x] = string(r)
		x += w
	}
}

func (c *canvas) draw(p *plan, dx, dy int) {
	for _, w := range p.lines { // along rows first: a line down a column passes over them
		c.stretches(p, w, dx, dy, true)
	}
	for _, w := range p.lines {
		c.stretches(p, w, dx, dy, false)
	}
	for _, w := range p.lines {
		c.ends(p, w, dx, dy)
	}
	for i, v := range p.nodes {
		n := &p.graph.Nodes[i]
		c.box(n, v, dx, dy)
		text := nodeText(n)
		if inner := p.inside[i]; inner != nil {
			c.text(dx+v.x+2, dy+v.y+1, text)
			c.draw(inner, dx+v.x+(v.w-inner.w)/2, dy+v.y+3)
			continue
		}
		c.text(dx+v.x+(v.w-width(text))/2, dy+v.y+1, text)
	}
}

// stretches draws the parts of a line along rows, or those along columns.
func (c *canvas) stretches(p *plan, w way, dx, dy int, rows bool) {
	mark := map[bool]string{true: "-", false: "|"}[rows]
	switch e := p.graph.Edges[w.edge]; {
	case e.Conditional:
		mark = map[bool]string{true: ".", false: ":"}[rows]
	case e.Join:
		mark = map[bool]string{true: "=", false: "H"}[rows]
	}
	for i := 1; i < len(w.points); i++ {
		a, b := w.points[i-1], w.points[i]
		if along := a.y == b.y && a.x != b.x; along != rows {
			continue
		}
		for x := min(a.x, b.x); x <= max(a.x, b.x); x++ {
			for y := min(a.y, b.y); y <= max(a.y, b.y); y++ {
				c.set(dx+x, dy+y, mark)
			}
		}
	}
}

// ends draws the turns, the arrow and the label of a line.
func (c *canvas) ends(p *plan, w way, dx, dy int) {
	last := len(w.points) - 1
	for _, at := range w.points[1:last] {
		c.set(dx+at.x, dy+at.y, "+")
	}
	before, tip := w.points[last-1], w.points[last]
	arrow := "v"
	switch {
	case before.y == tip.y && before.x > tip.x:
		arrow = "<"
	case p.turned[w.edge]:
		arrow = "^"
	}
	c.set(dx+tip.x, dy+tip.y, arrow)
	if w.label != "" {
		c.text(dx+w.at.x, dy+w.at.y, w.label)
	}
}

func (c *canvas) box(n *Node, v *vertex, dx, dy int) {
	corner, side, edge := "+", "|", "-"
	if n.Kind == Start || n.Kind == End {
		corner = "."
	}
	if n.Durable {
		edge = "="
	}
	for y := range v.h {
		for x := range v.w {
			mark := " "
			switch atSide, atEdge := x == 0 || x == v.w-1, y == 0 || y == v.h-1; {
			case atSide && atEdge:
				mark = corner
				if corner == "." && y > 0 {
					mark = "'"
				}
			case atSide:
				mark = side
			case atEdge:
				mark = edge
			}
			c.set(dx+v.x+x, dy+v.y+y, mark)
		}
	}
}

// marks stand before names.
var marks = map[Kind]string{Ask: "? ", Worker: "* ", Child: "# "}

func nodeText(n *Node) string { return marks[n.Kind] + n.Name }

// legend says what the marks in a picture mean, those that are there.
func legend(g *Graph) string {
	seen := map[string]bool{}
	g.look(seen)
	var out []string
	for _, l := range []struct{ what, says string }{
		{"ask", "? asks"}, {"worker", "* one task for each item"}, {"child", "# another graph"}, {"durable", "= durable"},
		{"conditional", ": a route decides"}, {"join", "H waits for all"},
	} {
		if seen[l.what] {
			out = append(out, l.says)
		}
	}
	if len(out) == 0 {
		return ""
	}
	return "\n" + strings.Join(out, "   ") + "\n"
}

func (g *Graph) look(seen map[string]bool) {
	for i := range g.Nodes {
		n := &g.Nodes[i]
		seen[string(n.Kind)] = true
		seen["durable"] = seen["durable"] || n.Durable
		if n.Inside != nil {
			n.Inside.look(seen)
		}
	}
	for _, e := range g.Edges {
		seen["conditional"] = seen["conditional"] || e.Conditional
		seen["join"] = seen["join"] || e.Join
	}
}

// width is how many columns a text takes.
func width(s string) int {
	n := 0
	for _, r := range s {
		n += runeWidth(r)
	}
	return n
}
