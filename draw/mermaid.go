package draw

import (
	"fmt"
	"strings"
)

// Mermaid draws the graph as a flowchart. Questions are hexagons, workers are framed twice, children have round
// corners, durable nodes a thick border, and breakpoints stand under the name. Lines that a route decides are dotted, those of a join, which waits for all
// of them, thick. What is inside an opened node stands in a frame of its own.
func (g *Graph) Mermaid() string {
	f := g.flat()
	m := &mermaid{flat: f}
	m.within("", 1)
	for _, e := range f.edges {
		m.line(e)
	}
	if m.durable {
		m.out.WriteString("\tclassDef durable stroke-width:4px\n")
	}
	return "graph TD\n" + m.out.String()
}

type mermaid struct {
	*flat
	out     strings.Builder
	durable bool
}

// within writes the nodes inside an opened node.
func (m *mermaid) within(around string, depth int) {
	tab := strings.Repeat("\t", depth)
	for i := range m.nodes {
		n := &m.nodes[i]
		if m.in[n.ID] != around {
			continue
		}
		if n.Inside != nil {
			fmt.Fprintf(&m.out, "%ssubgraph %s [\"%s\"]\n", tab, mermaidID(n.ID), mermaidText(n.Name))
			m.within(n.ID, depth+1)
			m.out.WriteString(tab + "end\n")
			continue
		}
		m.out.WriteString(tab + mermaidID(n.ID) + mermaidShape(n))
		if n.Durable {
			m.out.WriteString(":::durable")
			m.durable = true
		}
		m.out.WriteByte('\n')
	}
}

func (m *mermaid) line(e Edge) {
	arrow := "-->"
	switch {
	case e.Conditional:
		arrow = "-.->"
	case e.Join:
		arrow = "==>"
	}
	if e.Label != "" {
		arrow += `|"` + mermaidText(e.Label) + `"|`
	}
	fmt.Fprintf(&m.out, "\t%s %s %s\n", mermaidID(e.From), arrow, mermaidID(e.To))
}

func mermaidShape(n *Node) string {
	around := map[Kind][2]string{Start: {"([", "])"}, End: {"([", "])"}, Ask: {"{{", "}}"}, Worker: {"[[", "]]"}, Child: {"(", ")"}}
	shape, special := around[n.Kind]
	if !special {
		shape = [2]string{"[", "]"}
	}
	text := mermaidText(n.Name)
	if n.Stops != "" {
		text += "<br/>" + mermaidText("__interrupt = "+n.Stops)
	}
	return shape[0] + `"` + text + `"` + shape[1]
}

// mermaidID makes a path an id that Mermaid reads, another for every path: a prefix keeps it apart from Mermaid's words,
// and every byte but letters, digits and "_" is a dash and two hex digits.
func mermaidID(path string) string {
	if path == start || path == end {
		return path
	}
	return "n_" + escaped(path, '-')
}

// escaped writes every byte but letters, digits and "_" as a mark and two hex digits.
func escaped(path string, mark byte) string {
	var id strings.Builder
	for _, c := range []byte(path) {
		if wordly(rune(c)) {
			id.WriteByte(c)
		} else {
			fmt.Fprintf(&id, "%c%02x", mark, c)
		}
	}
	return id.String()
}

// mermaidText writes ASCII punctuation as entities, since Mermaid takes some of it for markup.
func mermaidText(name string) string {
	var out strings.Builder
	for _, r := range name {
		if r >= 0x80 || wordly(r) || r == ' ' || r == '-' || r == '.' {
			out.WriteRune(r)
		} else {
			fmt.Fprintf(&out, "#%d;", r)
		}
	}
	return out.String()
}

func wordly(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_'
}
