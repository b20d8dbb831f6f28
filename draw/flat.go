package draw

// flat is a graph without opened nodes: what is inside them stands beside all others, as LangGraph draws it. in names
// the opened node around a node.
type flat struct {
	nodes []Node
	edges []Edge
	in    map[string]string
}

func (g *Graph) flat() *flat {
	f := &flat{in: map[string]string{}}
	f.add(g, "")
	return f
}

// add adds a graph that is inside a node, and returns what lines into and out of it are drawn to and from. Both are
// empty where the graph has no one such place; then the lines are drawn to the node around it.
func (f *flat) add(g *Graph, around string) (first, last string) {
	drop := map[string]bool{}
	if around != "" {
		first, last = g.trim(drop)
	}
	into, out := map[string]string{}, map[string]string{}
	for _, n := range g.Nodes {
		if drop[n.ID] {
			continue
		}
		if around != "" {
			f.in[n.ID] = around
		}
		f.nodes = append(f.nodes, n)
		if n.Inside != nil {
			into[n.ID], out[n.ID] = f.add(n.Inside, n.ID)
		}
	}
	for _, e := range g.Edges {
		if drop[e.From] || drop[e.To] {
			continue
		}
		if to := into[e.To]; to != "" {
			e.To = to
		}
		if from := out[e.From]; from != "" {
			e.From = from
		}
		f.edges = append(f.edges, e)
	}
	if to := into[first]; to != "" {
		first = to
	}
	if from := out[last]; from != "" {
		last = from
	}
	return first, last
}

// trim finds what the lines of the parent are drawn to and from: the child's ends, or the one node beside an end that has
// no other line on that side. Such an end is dropped.
func (g *Graph) trim(drop map[string]bool) (first, last string) {
	in, out := map[string][]Edge{}, map[string][]Edge{}
	for _, e := range g.Edges {
		out[e.From], in[e.To] = append(out[e.From], e), append(in[e.To], e)
	}
	for _, n := range g.Nodes {
		switch {
		case n.Kind == Start:
			first = n.ID
			if ways := out[n.ID]; len(ways) == 1 && len(in[ways[0].To]) == 1 {
				first, drop[n.ID] = ways[0].To, true
			}
		case n.Kind == End:
			last = n.ID
			if ways := in[n.ID]; len(ways) == 1 && len(out[ways[0].From]) == 1 {
				last, drop[n.ID] = ways[0].From, true
			}
		}
	}
	return first, last
}
