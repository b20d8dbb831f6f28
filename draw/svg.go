package draw

import (
	"fmt"
	"math"
	"strings"
)

// The size of a cell of the grid, in pixels, and the most that a corner of a line is rounded.
const (
	cellW  = 8
	cellH  = 14
	corner = 6.0
	margin = 8
)

// SVG draws the graph as a page of its own or a part of one. It holds no style sheet and no script, and sets everything
// by attributes, which a page's style may override. For pages that show a run: each node is a group with the id
// "node-" and its path (every byte but letters, digits and "_" as "-" and two hex digits), the path itself in data-node,
// and its kind in data-kind; each line has data-from and data-to. Mark what runs with attributes of your own: nothing moves.
func (g *Graph) SVG() string {
	p := layout(g)
	s := &svg{}
	w, h := p.w*cellW+2*margin, p.h*cellH+2*margin
	fmt.Fprintf(&s.out, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img" aria-label="%s" `+
		`font-family="ui-sans-serif, system-ui, sans-serif" font-size="13">`+"\n", w, h, w, h, xml("graph "+g.Name))
	s.draw(p, margin, margin)
	return s.out.String() + "</svg>\n"
}

type svg struct{ out strings.Builder }

func (s *svg) draw(p *plan, dx, dy int) {
	for i, v := range p.nodes { // frames lie below the lines inside them
		n := &p.graph.Nodes[i]
		x, y := dx+v.x*cellW, dy+v.y*cellH
		inner := p.inside[i]
		s.open(n, inner != nil)
		s.shape(n, x, y, v.w*cellW, v.h*cellH, inner != nil)
		if inner == nil {
			s.text(x+v.w*cellW/2, y+v.h*cellH/2, "middle", "#0f172a", n.Name)
		} else {
			s.text(x+cellW, y+cellH, "start", "#64748b", n.Name)
		}
		s.out.WriteString("</g>\n")
		if inner != nil {
			s.draw(inner, x+(v.w-inner.w)*cellW/2, y+3*cellH)
		}
	}
	for _, w := range p.lines {
		s.line(p, w, dx, dy)
	}
}

func (s *svg) open(n *Node, opened bool) {
	class := "node " + string(n.Kind)
	if n.Durable {
		class += " durable"
	}
	if opened {
		class += " opened"
	}
	fmt.Fprintf(&s.out, `<g id="node-%s" class="%s" data-node="%s" data-kind="%s">`, escaped(n.ID, '-'), xml(class), xml(n.ID), xml(string(n.Kind)))
	if facts := n.Facts(); facts != "" {
		fmt.Fprintf(&s.out, "<title>%s: %s</title>", xml(n.Name), xml(facts))
	}
}

// fills tell kinds apart, on light pages and on dark ones.
var fills = map[Kind]string{Start: "#e2e8f0", End: "#e2e8f0", Ask: "#fde68a", Worker: "#bae6fd", Child: "#ddd6fe"}

func (s *svg) shape(n *Node, x, y, w, h int, opened bool) {
	fill, thick := fills[n.Kind], "1.5"
	if fill == "" {
		fill = "#ffffff"
	}
	if n.Durable {
		thick = "3.5"
	}
	look := fmt.Sprintf(`fill="%s" stroke="#475569" stroke-width="%s"`, fill, thick)
	rect := func(dx, dy, round int, look string) {
		fmt.Fprintf(&s.out, `<rect x="%d" y="%d" width="%d" height="%d" rx="%d" %s/>`, x+dx, y+dy, w, h, round, look)
	}
	switch {
	case opened:
		rect(0, 0, 8, `fill="none" stroke="#94a3b8" stroke-width="1.5"`)
	case n.Kind == Start || n.Kind == End:
		rect(0, 0, h/2, look)
	case n.Kind == Ask:
		cut := h / 4
		fmt.Fprintf(&s.out, `<polygon points="%d,%d %d,%d %d,%d %d,%d %d,%d %d,%d" %s/>`,
			x, y+h/2, x+cut, y, x+w-cut, y, x+w, y+h/2, x+w-cut, y+h, x+cut, y+h, look)
	case n.Kind == Worker:
		rect(4, -4, 4, look)
		rect(0, 0, 4, look)
	default:
		rect(0, 0, 6, look)
	}
}

func (s *svg) text(x, y int, anchor, colour, text string) {
	fmt.Fprintf(&s.out, `<text x="%d" y="%d" text-anchor="%s" dominant-baseline="central" fill="%s">%s</text>`, x, y, anchor, colour, xml(text))
}

func (s *svg) line(p *plan, w way, dx, dy int) {
	e := p.graph.Edges[w.edge]
	class, look := "edge", `stroke-width="1.5"`
	switch {
	case e.Conditional:
		class, look = "edge conditional", `stroke-width="1.5" stroke-dasharray="2 4" stroke-linecap="round"`
	case e.Join:
		class, look = "edge join", `stroke-width="3"`
	}
	at := pixels(w, p.turned[w.edge], dx, dy)
	tip, before := at[len(at)-1], at[len(at)-2]
	ux, uy := unit(before, tip)
	at[len(at)-1] = spot{tip.x - 6*ux, tip.y - 6*uy}
	fmt.Fprintf(&s.out, `<g class="%s" data-from="%s" data-to="%s"><path d="%s" fill="none" stroke="#64748b" %s/>`,
		class, xml(e.From), xml(e.To), rounded(at), look)
	fmt.Fprintf(&s.out, `<polygon points="%s %s %s" fill="#64748b"/>`, tip,
		spot{tip.x - 8*ux + 4*uy, tip.y - 8*uy + 4*ux}, spot{tip.x - 8*ux - 4*uy, tip.y - 8*uy - 4*ux})
	if w.label != "" {
		x, y := dx+w.at.x*cellW, dy+w.at.y*cellH
		fmt.Fprintf(&s.out, `<rect x="%d" y="%d" width="%d" height="%d" fill="#ffffff"/>`, x-2, y-1, width(w.label)*cellW+4, cellH+2)
		s.text(x+width(w.label)*cellW/2, y+cellH/2, "middle", "#475569", w.label)
	}
	s.out.WriteString("</g>\n")
}

// spot is a place in pixels.
type spot struct{ x, y float64 }

func (s spot) String() string { return fmt.Sprintf("%g,%g", s.x, s.y) }

// pixels are the points of a line in the middle of their cells, and its two ends at the borders of the nodes.
func pixels(w way, turned bool, dx, dy int) []spot {
	out := make([]spot, len(w.points))
	last := len(out) - 1
	for i, at := range w.points {
		out[i] = spot{float64(dx+at.x*cellW) + cellW/2, float64(dy+at.y*cellH) + cellH/2}
	}
	if w.points[0].y == w.points[1].y { // a loop leaves and arrives at a side
		out[0].x, out[last].x = out[0].x-cellW/2, out[last].x-cellW/2
		return out
	}
	half := float64(cellH) / 2
	if turned {
		half = -half
	}
	out[0].y, out[last].y = out[0].y-half, out[last].y+half
	return out
}

// unit is the direction from a to b.
func unit(a, b spot) (x, y float64) {
	x, y = b.x-a.x, b.y-a.y
	d := math.Hypot(x, y)
	if d == 0 {
		return 0, 1
	}
	return x / d, y / d
}

// rounded is a path through all points, its corners rounded.
func rounded(at []spot) string {
	path := "M" + at[0].String()
	for i := 1; i < len(at)-1; i++ {
		a, b, c := at[i-1], at[i], at[i+1]
		r := min(corner, math.Hypot(b.x-a.x, b.y-a.y)/2, math.Hypot(c.x-b.x, c.y-b.y)/2)
		inX, inY := unit(a, b)
		outX, outY := unit(b, c)
		path += fmt.Sprintf(" L%s Q%s %s", spot{b.x - r*inX, b.y - r*inY}, b, spot{b.x + r*outX, b.y + r*outY})
	}
	return path + " L" + at[len(at)-1].String()
}

// xml makes a text safe between tags and in attributes.
func xml(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;").Replace(s)
}
