package draw

import (
	"fmt"
	"strings"
)

// DOT draws the graph in the language of Graphviz, in the shapes of [Graph.Mermaid].
func (g *Graph) DOT() string {
	d := &dot{flat: g.flat()}
	fmt.Fprintf(&d.out, "digraph %s {\n\tcompound=true;\n\tnode [shape=box, fontname=\"sans-serif\"];\n", quoted(g.Name))
	d.within("", 1)
	for _, e := range d.edges {
		d.line(e)
	}
	return d.out.String() + "}\n"
}

type dot struct {
	*flat
	out strings.Builder
}

func (d *dot) within(around string, depth int) {
	tab := strings.Repeat("\t", depth)
	for i := range d.nodes {
		n := &d.nodes[i]
		if d.in[n.ID] != around {
			continue
		}
		if n.Inside != nil {
			fmt.Fprintf(&d.out, "%ssubgraph %s {\n%s\tlabel=%s;\n", tab, quoted("cluster "+n.ID), tab, quoted(n.Name))
			d.within(n.ID, depth+1)
			d.out.WriteString(tab + "}\n")
			continue
		}
		shape := map[Kind]string{Start: "oval", End: "oval", Ask: "hexagon", Worker: "box, peripheries=2", Child: "component"}[n.Kind]
		if shape != "" {
			shape = ", shape=" + shape
		}
		if n.Durable {
			shape += ", penwidth=3"
		}
		fmt.Fprintf(&d.out, "%s%s [label=%s%s];\n", tab, quoted(n.ID), quoted(n.Name), shape)
	}
}

// line draws to and from a node; a line of an opened one begins or ends at its frame.
func (d *dot) line(e Edge) {
	var attrs []string
	from, to := d.inner(e.From), d.inner(e.To)
	switch {
	case e.Conditional:
		attrs = append(attrs, "style=dotted")
	case e.Join:
		attrs = append(attrs, "style=bold")
	}
	if e.Label != "" {
		attrs = append(attrs, "label="+quoted(e.Label))
	}
	if from != e.From {
		attrs = append(attrs, "ltail="+quoted("cluster "+e.From))
	}
	if to != e.To {
		attrs = append(attrs, "lhead="+quoted("cluster "+e.To))
	}
	list := ""
	if len(attrs) > 0 {
		list = " [" + strings.Join(attrs, ", ") + "]"
	}
	fmt.Fprintf(&d.out, "\t%s -> %s%s;\n", quoted(from), quoted(to), list)
}

// inner is a node without an inside: the node itself, or the first one in its frame.
func (d *dot) inner(id string) string {
	for _, n := range d.nodes {
		if n.ID == id && n.Inside == nil {
			return id
		}
	}
	for _, n := range d.nodes {
		if d.in[n.ID] == id {
			return d.inner(n.ID)
		}
	}
	return id
}

// quoted is a quoted string of DOT; a backslash would begin an escape of its own.
func quoted(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(s) + `"`
}
