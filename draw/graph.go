// Package draw makes pictures of graphs: Mermaid and DOT for other programs, SVG for pages, ASCII for terminals, JSON for
// clients that draw themselves. Equal graphs give equal pictures, byte by byte.
//
//	g, err := draw.Of(graph, 1)    // a *pawl.Graph, with its children opened one level deep
//	page, screen := g.SVG(), g.ASCII()
//
// A picture shows what a graph declares: which way a route goes is decided while it runs, so all its targets are drawn,
// dotted. Dotted are also the lines to a deferred node from nodes that lead nowhere else: it waits for them. An endless loop
// has no line to the end.
package draw

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// The names of the two ends of a graph.
const (
	start = "__start__"
	end   = "__end__"
)

// Kind says what a node is made of.
type Kind string

// The kinds of node.
const (
	Start  Kind = "start"
	End    Kind = "end"
	Plain  Kind = "node"
	Ask    Kind = "ask"    // only a question
	Worker Kind = "worker" // runs once for each payload that is sent to it
	Child  Kind = "child"  // runs another graph
)

// Graph is a graph as it is drawn.
type Graph struct {
	Name  string
	Nodes []Node // Start first, then by name, End last where something leads there
	Edges []Edge
}

// Node is one node of a picture.
type Node struct {
	ID      string // the path: names of nodes from the outermost graph on, with ":" between them
	Name    string // as people read it
	Kind    Kind
	Durable bool
	Defer   bool     // runs once nothing else is due
	Uses    []string // questions, effects and children that it declares
	Asks    []string // of these, what a person answers or approves
	Sends   []string // of these, the effects
	Mode    string   // of a child: what is kept of its runs
	Stops   string   // where its breakpoint is: "before", "after", "before, after"
	Inside  *Graph   // of a node that is opened: the child's graph, or the children that its function calls
}

// Edge is one line of a picture.
type Edge struct {
	From, To    string // ids of nodes
	Label       string
	Conditional bool // a route decides, or a deferred node waits for what ends here
	Join        bool // one of several that are waited for
}

// Drawable is a graph that tells what it is made of; a *pawl.Graph is one.
type Drawable interface{ JSON() ([]byte, error) }

// Of makes a picture of a graph with its children opened depth levels deep; below zero: all of them.
func Of(g Drawable, depth int) (*Graph, error) {
	doc, err := g.JSON()
	if err != nil {
		return nil, err
	}
	return Read(doc, depth)
}

// Read makes a picture of a graph that is described in JSON, as pawl.Graph.JSON and the API describe it.
func Read(doc []byte, depth int) (*Graph, error) {
	var t topology
	if err := json.Unmarshal(doc, &t); err != nil {
		return nil, fmt.Errorf("draw: this describes no graph: %w", err)
	}
	if len(t.Nodes) == 0 {
		return nil, fmt.Errorf("draw: this describes no graph: it has no nodes")
	}
	return t.graph("", depth), nil
}

// topology is the description of a graph, as far as it is drawn.
type topology struct {
	Graph string `json:"graph"`
	Nodes []struct {
		Name    string   `json:"name"`
		Kind    Kind     `json:"kind"`
		Durable bool     `json:"durable"`
		Defer   bool     `json:"defer"`
		Uses    []string `json:"uses"`
		Asks    []string `json:"asks"`
		Sends   []string `json:"sends"`
		Edges   []string `json:"edges"`
		Targets []string `json:"targets"`

		Labels map[string]string `json:"labels"`
	} `json:"nodes"`
	Joins []struct {
		From []string `json:"from"`
		To   string   `json:"to"`
	} `json:"joins"`
	Children []child  `json:"children"`
	Before   []string `json:"before"` // breakpoints, in children as child|node
	After    []string `json:"after"`
}

type child struct {
	Name  string    `json:"name"`
	Mode  string    `json:"mode"`
	Graph *topology `json:"graph"`
}

// graph makes the picture below a path, which is empty or ends with ":".
func (t *topology) graph(path string, depth int) *Graph {
	g := &Graph{Name: t.Graph}
	waited, ends := map[string]bool{}, false
	joins := map[string]int{}
	for _, j := range t.Joins {
		joins[j.To]++
		for _, from := range j.From {
			waited[from] = true
		}
	}
	line := func(e Edge) {
		ends = ends || e.To == end
		e.From, e.To = path+e.From, path+e.To
		g.Edges = append(g.Edges, e)
	}
	for _, n := range t.Nodes {
		node := Node{ID: path + n.Name, Name: n.Name, Kind: n.Kind, Durable: n.Durable, Defer: n.Defer, Uses: n.Uses, Asks: n.Asks, Sends: n.Sends}
		if n.Name == start {
			node.Name, node.Kind = "Start", Start
		} else {
			node.Stops = t.stops(n.Name)
		}
		t.open(&node, depth)
		g.Nodes = append(g.Nodes, node)
		for _, to := range n.Edges {
			line(Edge{From: n.Name, To: to, Label: n.Labels[to]})
		}
		for _, to := range n.Targets {
			line(Edge{From: n.Name, To: to, Label: n.Labels[to], Conditional: true})
		}
		if len(n.Edges)+len(n.Targets) == 0 && !waited[n.Name] {
			later := t.deferredAfter(n.Name)
			for _, to := range later {
				line(Edge{From: n.Name, To: to, Conditional: true})
			}
			if len(later) == 0 {
				line(Edge{From: n.Name, To: end})
			}
		}
	}
	told := map[string]int{}
	for _, j := range t.Joins {
		label := ""
		if told[j.To]++; joins[j.To] > 1 {
			label = fmt.Sprintf("all %d", told[j.To]) // which of them wait together
		}
		for _, from := range j.From {
			line(Edge{From: from, To: j.To, Join: true, Label: label})
		}
	}
	slices.SortStableFunc(g.Nodes, startFirst)
	if ends {
		g.Nodes = append(g.Nodes, Node{ID: path + end, Name: "End", Kind: End})
	}
	return g
}

func startFirst(a, b Node) int {
	switch {
	case a.Kind == Start && b.Kind != Start:
		return -1
	case b.Kind == Start && a.Kind != Start:
		return 1
	}
	return strings.Compare(a.Name, b.Name)
}

// deferredAfter are the deferred nodes that wait for a node: those that do not lead to it.
func (t *topology) deferredAfter(node string) (out []string) {
	for _, n := range t.Nodes {
		if n.Defer && !t.leads(n.Name, node, map[string]bool{}) {
			out = append(out, n.Name)
		}
	}
	return out
}

func (t *topology) leads(from, to string, seen map[string]bool) bool {
	if from == to || seen[from] {
		return from == to
	}
	seen[from] = true
	var next []string
	for _, n := range t.Nodes {
		if n.Name == from {
			next = slices.Concat(n.Edges, n.Targets)
		}
	}
	for _, j := range t.Joins {
		if slices.Contains(j.From, from) {
			next = append(next, j.To)
		}
	}
	return slices.ContainsFunc(next, func(n string) bool { return t.leads(n, to, seen) })
}

// stops says where a node's breakpoint is.
func (t *topology) stops(node string) string {
	meets := func(nodes []string) bool { return slices.Contains(nodes, node) || slices.Contains(nodes, "*") }
	switch before, after := meets(t.Before), meets(t.After); {
	case before && after:
		return "before, after"
	case before:
		return "before"
	case after:
		return "after"
	}
	return ""
}

// inside is the graph of a child, with its breakpoints.
func (t *topology) inside(c child) *topology {
	own := func(paths []string) (nodes []string) {
		for _, path := range paths {
			if node, ok := strings.CutPrefix(path, c.Name+"|"); ok {
				nodes = append(nodes, node)
			}
		}
		return nodes
	}
	g := *c.Graph
	g.Before, g.After = own(t.Before), own(t.After)
	return &g
}

// open tells a child's mode, and draws what is inside a node.
func (t *topology) open(n *Node, depth int) {
	var calls []child
	for _, c := range t.Children {
		if n.Kind == Child && c.Name == n.Name || n.Kind != Child && slices.Contains(n.Uses, c.Name) {
			calls = append(calls, c)
		}
	}
	for _, c := range calls {
		if n.Kind == Child {
			n.Mode = c.Mode
			if depth != 0 && c.Graph != nil {
				n.Inside = t.inside(c).graph(n.ID+":", depth-1)
			}
			return
		}
		if depth == 0 {
			return
		}
		inner := Node{ID: n.ID + ":" + c.Name, Name: c.Name, Kind: Child, Mode: c.Mode}
		if depth != 1 && c.Graph != nil {
			inner.Inside = t.inside(c).graph(inner.ID+":", depth-2)
		}
		if n.Inside == nil {
			n.Inside = &Graph{Name: n.Name}
		}
		n.Inside.Nodes = append(n.Inside.Nodes, inner)
	}
}

// Facts says in words what of a node is more than a name and its lines; empty: nothing is.
func (n *Node) Facts() string {
	var out []string
	switch n.Kind {
	case Worker:
		out = append(out, "one task for each item sent")
	case Child:
		out = append(out, "child, "+Mode(n.Mode))
	}
	if n.Durable {
		out = append(out, "durable")
	}
	if n.Defer {
		out = append(out, "deferred: runs once nothing else is due")
	}
	if n.Stops != "" {
		out = append(out, "a run stops "+n.Stops)
	}
	if len(n.Asks) > 0 {
		out = append(out, "asks a person: "+strings.Join(n.Asks, ", "))
	}
	if len(n.Sends) > 0 {
		out = append(out, "dispatches "+strings.Join(n.Sends, ", "))
	}
	return strings.Join(out, "; ")
}

// Mode says what is kept of the runs of a child with a mode.
func Mode(mode string) string {
	switch mode {
	case "inherit":
		return "inherit: each run starts empty and is kept under its parent"
	case "thread":
		return "per thread: each run goes on from the one before"
	case "stateless":
		return "stateless: runs again as a whole"
	}
	return mode
}
