// Package draw makes pictures of topologies.
package draw

import (
	"fmt"
	"strings"

	"github.com/pawl-dev/pawl/internal/core"
)

// Mermaid draws a topology as a flowchart. Questions are hexagons and workers are framed twice; durable nodes have a
// thick border. Edges are plain lines, targets of routes dotted ones; thick lines meet in a join, which waits for all
// of them. Equal topologies give equal text.
func Mermaid(t *core.Topology) string {
	var shapes, lines strings.Builder
	ends, durable := false, false
	line := func(from, arrow, to string) {
		fmt.Fprintf(&lines, "\t%s %s %s\n", from, arrow, to)
		ends = ends || to == drawnID(core.End)
	}
	waited := map[string]bool{}
	for _, j := range t.Joins {
		for _, from := range j.From {
			waited[from] = true
		}
	}
	for _, n := range t.Nodes {
		id := drawnID(n.Name)
		shapes.WriteString("\t" + id + shape(&n))
		if n.Durable {
			shapes.WriteString(":::durable")
			durable = true
		}
		shapes.WriteByte('\n')
		for _, to := range n.Edges {
			line(id, "-->", drawnID(to))
		}
		for _, to := range n.Targets {
			line(id, "-.->", drawnID(to))
		}
		if len(n.Edges)+len(n.Targets) == 0 && !waited[n.Name] {
			line(id, "-->", drawnID(core.End))
		}
	}
	for i, j := range t.Joins {
		id := fmt.Sprintf("join_%d", i+1)
		fmt.Fprintf(&shapes, "\t%s((\"all\"))\n", id)
		for _, from := range j.From {
			line(drawnID(from), "==>", id)
		}
		line(id, "==>", drawnID(j.To))
	}
	if ends {
		fmt.Fprintf(&shapes, "\t%s([\"End\"])\n", drawnID(core.End))
	}
	if durable {
		lines.WriteString("\tclassDef durable stroke-width:4px\n")
	}
	return "graph TD\n" + shapes.String() + lines.String()
}

func shape(n *core.Node) string {
	switch {
	case n.Name == core.Start:
		return `(["Start"])`
	case n.Kind == core.KindAsk:
		return `{{"` + label(n.Name) + `"}}`
	case n.Kind == core.KindWorker:
		return `[["` + label(n.Name) + `"]]`
	}
	return `["` + label(n.Name) + `"]`
}

// drawnID makes a name an id that Mermaid reads, another for every name: a prefix keeps it apart from Mermaid's words,
// and every byte but letters, digits and "_" is a dash and two hex digits.
func drawnID(name string) string {
	if name == core.Start || name == core.End {
		return name
	}
	var id strings.Builder
	id.WriteString("n_")
	for _, c := range []byte(name) {
		if plain(rune(c)) {
			id.WriteByte(c)
		} else {
			fmt.Fprintf(&id, "-%02x", c)
		}
	}
	return id.String()
}

// label writes ASCII punctuation as entities, since Mermaid takes some of it for markup.
func label(name string) string {
	var out strings.Builder
	for _, r := range name {
		if r >= 0x80 || plain(r) || r == ' ' || r == '-' || r == '.' {
			out.WriteRune(r)
		} else {
			fmt.Fprintf(&out, "#%d;", r)
		}
	}
	return out.String()
}

func plain(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_'
}
