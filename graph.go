package pawl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/schema"
)

// BuildError lists everything that is wrong with a graph. No graph was built.
type BuildError struct {
	Graph  string
	Faults []string
}

// Error says what was refused, and what to do.
func (e *BuildError) Error() string {
	return fmt.Sprintf("graph %q was not built:\n\t%s", e.Graph, strings.Join(e.Faults, "\n\t"))
}

// Builder collects a graph over the state S. Its methods never fail and may be called in any order: Build finds all
// faults at once. It is for one goroutine.
type Builder[S any] struct {
	name    string
	nodes   []*node[S]
	edges   []edge
	joins   []core.Join
	routes  []route[S]
	labels  []label
	reads   []Upgrading
	moves   []Migration
	faults  []string
	inputs  []string // nil: all that is not private
	outputs []string

	askAtTop bool
	breaks   core.Breaks
	defaults []NodeOption

	superStep time.Duration // limit of each; 0: none
}

type edge struct{ from, to string }

type label struct {
	edge
	text string
}

// New begins a graph. Its name is stored with every thread, so it outlives the program.
func New[S any](name string) *Builder[S] { return &Builder[S]{name: name} }

// Node adds a function as a node. The state belongs to the call: its reads show the checkpoint and the call's own
// writes, and nothing that is written after the function returned.
func (b *Builder[S]) Node(name string, fn func(context.Context, *S) error, opts ...NodeOption) *Builder[S] {
	n := newNode[S](name, core.KindNode, opts)
	if fn != nil {
		n.run = func(ctx context.Context, s *S, _ []byte, _ *seal) error { return fn(ctx, s) }
	}
	b.nodes = append(b.nodes, n)
	return b
}

// Add adds workers and questions made by AskNode, each under its own name.
func (b *Builder[S]) Add(nodes ...Node[S]) *Builder[S] {
	for _, added := range nodes {
		var n *node[S]
		if added != nil {
			n = added.node()
		}
		if n == nil {
			b.faults = append(b.faults, "Add(nil): add a worker or an AskNode")
			continue
		}
		b.nodes = append(b.nodes, n)
	}
	return b
}

// Edge leads from one node to another, always.
func (b *Builder[S]) Edge(from, to string) *Builder[S] {
	b.edges = append(b.edges, edge{from, to})
	return b
}

// Path is an edge from each of the names to the one after it.
func (b *Builder[S]) Path(names ...string) *Builder[S] {
	if len(names) < 2 {
		b.faults = append(b.faults, fmt.Sprintf("Path of %d: an edge needs two names", len(names)))
	}
	for i := 1; i < len(names); i++ {
		b.Edge(names[i-1], names[i])
	}
	return b
}

// Join leads to a node once all of from finished since it last did, in whatever super-steps.
func (b *Builder[S]) Join(from []string, to string) *Builder[S] {
	from = slices.Clone(from)
	slices.Sort(from)
	b.joins = append(b.joins, core.Join{From: from, To: to})
	return b
}

// Route leads from a node to what choose returns, which is among the targets; nothing returned leads nowhere. choose
// is pure: it sees the state with the node's own writes, may not write, and runs again whenever the node does. Its
// failure is the node's. All routes and edges of a node count together, so a function that is declared on its own can
// route a node one time only.
func (b *Builder[S]) Route(from string, choose func(*S) []Next, targets ...string) *Builder[S] {
	b.routes = append(b.routes, route[S]{from, choose, slices.Clone(targets)})
	return b
}

// Label names the line between two nodes in pictures of the graph, such as what has to hold for a route to choose it.
func (b *Builder[S]) Label(from, to, text string) *Builder[S] {
	b.labels = append(b.labels, label{edge{from, to}, text})
	return b
}

// AskAtTop allows questions in the graph's own nodes only: a node of a child, at any depth, that asks fails with a
// *TopLevelError. Approvals of effects are not questions of a node, and are not meant.
func (b *Builder[S]) AskAtTop() *Builder[S] {
	b.askAtTop = true
	return b
}

// Defaults gives options to every node, of which a node's own stand in their place, one by one: Tries, Backoff, Factor,
// Jitter, RetryOn, Timeout, IdleTimeout, OnError and Durable. Where it stands in the chain of calls does not matter, and
// graphs of children have their own.
func (b *Builder[S]) Defaults(options ...NodeOption) *Builder[S] {
	b.defaults = append(b.defaults, options...)
	return b
}

// withDefaults is the builder with what its nodes come to. A node may be in other graphs, too, so it is copied.
func (b *Builder[S]) withDefaults(s *survey) *Builder[S] {
	probe := newNode[S]("", core.KindNode, b.defaults)
	probe.only("Defaults", "Tries", "Backoff", "Factor", "Jitter", "RetryOn", "Timeout", "IdleTimeout", "OnError", "Durable")
	for _, f := range probe.faults {
		s.fault("Defaults: %s", f)
	}
	if len(b.defaults) == 0 || len(probe.faults) > 0 {
		return b
	}
	out := *b
	out.nodes = nil
	for _, n := range b.nodes {
		own := *n
		own.configure(b.defaults)
		out.nodes = append(out.nodes, &own)
	}
	return &out
}

// Build returns the graph, which later calls of the builder do not change, or a *BuildError with every fault.
func (b *Builder[S]) Build() (*Graph[S], error) {
	s := &survey{kinds: map[string]core.NodeKind{}, ways: map[string][]string{}, faults: slices.Clone(b.faults)}
	l, err := layoutOf(reflect.TypeFor[S]())
	var all interface{ Unwrap() []error }
	switch {
	case errors.As(err, &all):
		for _, f := range all.Unwrap() {
			s.fault("%v", f)
		}
	case err != nil:
		s.fault("%v", err)
	default:
		for _, fault := range slices.Concat(l.upgrade(b.reads), l.limit("Input", b.inputs, func(f *layoutField) { f.noInput = true }),
			l.limit("Output", b.outputs, func(f *layoutField) { f.noOutput = true })) {
			s.fault("%v", fault)
		}
	}
	s.name("graph", b.name)
	b = b.withDefaults(s)
	b.surveyNodes(s)
	for i, e := range b.edges {
		s.edge(e, slices.Contains(b.edges[:i], e))
	}
	for _, j := range b.joins {
		s.join(j)
	}
	for i, r := range b.routes {
		s.route("route", r.from, r.choose == nil, r.targets)
		if same := func(o route[S]) bool { return o.from == r.from && schema.SameFunc(o.choose, r.choose) }; slices.ContainsFunc(b.routes[:i], same) {
			s.fault("route from %s: the function %s is given twice, so what it chooses would be chosen twice; give it once, with all targets",
				place(r.from), schema.FuncName(r.choose))
		}
	}
	for _, n := range b.nodes {
		if n.gotos != nil {
			s.route("Targets", n.name, false, n.gotos)
		}
	}
	for i, l := range b.labels {
		s.label(l, slices.ContainsFunc(b.labels[:i], func(o label) bool { return o.edge == l.edge }))
	}
	s.reach()
	for _, name := range slices.Concat(b.breaks.Before, b.breaks.After) {
		if name != Everywhere && s.kinds[name] == "" {
			s.fault("breakpoint: there is no node %q", name)
		}
	}
	interrupts, children := b.interrupts(s), b.children(s)
	if len(s.faults) > 0 {
		return nil, &BuildError{Graph: b.name, Faults: s.faults}
	}
	return &Graph[S]{b.assemble(l, interrupts, children)}, nil
}

func (b *Builder[S]) surveyNodes(s *survey) {
	for _, n := range b.nodes {
		s.name("node", n.name)
		if _, twice := s.kinds[n.name]; twice {
			s.fault("node %q is added twice", n.name)
		} else {
			s.kinds[n.name] = n.kind
			s.order = append(s.order, n.name)
		}
		if n.run == nil {
			s.fault("node %q has a nil function", n.name)
		}
		if n.deferred && n.kind == core.KindWorker {
			s.fault("worker %q: Defer: what is sent runs at once; defer a node that edges lead to", n.name)
		}
		for _, f := range n.faults {
			s.fault("node %q: %s", n.name, f)
		}
		n.cachedFaults(s)
	}
}

// interrupts collects the questions that nodes declare. Nodes may share one.
func (b *Builder[S]) interrupts(s *survey) map[string]core.Interrupt {
	type origin struct {
		node string
		as   any
	}
	rules, first := map[string]core.Interrupt{}, map[string]origin{}
	for _, n := range b.nodes {
		for _, u := range n.uses {
			in, ok := u.(declared)
			if !ok {
				continue
			}
			name := in.UseName()
			if o, known := first[name]; !known {
				rules[name], first[name] = in.rules(), origin{n.name, in.declaration()}
			} else if o.as != in.declaration() {
				s.fault("nodes %q and %q use two interrupts named %q whose types or rules differ; rename one", o.node, n.name, name)
			}
		}
	}
	return rules
}

// children collects the children that nodes declare, by name. Nodes may share one.
func (b *Builder[S]) children(s *survey) map[string]callee {
	out := map[string]callee{}
	for _, n := range b.nodes {
		for _, u := range n.uses {
			c, ok := u.(callee)
			if !ok {
				continue
			}
			name := c.UseName()
			s.name("child", name)
			if other, known := out[name]; known && other != c {
				s.fault("two children named %q are of different graphs or modes; rename one", name)
			}
			out[name] = c
		}
	}
	return out
}

func (b *Builder[S]) assemble(l *layout, interrupts map[string]core.Interrupt, children map[string]callee) *def[S] {
	d := &def[S]{moves: slices.Clone(b.moves), breaks: core.Breaks{Before: slices.Clone(b.breaks.Before), After: slices.Clone(b.breaks.After)}, superStep: b.superStep, layout: l, nodes: map[string]*node[S]{}, workers: map[string]bool{}, interrupts: interrupts, children: map[string]core.Def{}}
	d.nodes[Start] = newNode[S](Start, core.KindNode, nil)
	for _, n := range b.nodes {
		own := *n
		d.nodes[n.name] = &own
		d.workers[n.name] = n.kind == core.KindWorker
	}
	for _, r := range b.routes {
		d.nodes[r.from].routes = append(d.nodes[r.from].routes, r)
	}
	d.topology = core.Topology{Graph: b.name, Channels: l.channels(), Joins: slices.Clone(b.joins), AskAtTop: b.askAtTop}
	for _, name := range slices.Sorted(maps.Keys(children)) {
		def, mode := children[name].called()
		c := core.Child{Name: name, Mode: mode, Graph: def.Topology()}
		if d.children[name] = def; mode == PerThread {
			d.topology.Channels = append(d.topology.Channels, core.Channel{
				Name: c.Memory(), Merge: core.MergeLast, Type: "checkpoint", Optional: true, Hidden: true,
			})
		}
		d.topology.Children = append(d.topology.Children, c)
	}
	slices.SortFunc(d.topology.Joins, func(a, b core.Join) int { return strings.Compare(a.Name(), b.Name()) })
	for _, n := range d.nodes {
		record := n.record()
		for _, e := range b.edges {
			if e.from == n.name {
				record.Edges = append(record.Edges, e.to)
			}
		}
		for _, r := range n.routes {
			record.Targets = append(record.Targets, r.targets...)
		}
		record.Targets = append(record.Targets, n.gotos...)
		for _, l := range b.labels {
			if l.from == n.name {
				if record.Labels == nil {
					record.Labels = map[string]string{}
				}
				record.Labels[l.to] = l.text
			}
		}
		slices.Sort(record.Edges)
		slices.Sort(record.Targets)
		record.Targets = slices.Compact(record.Targets)
		d.topology.Nodes = append(d.topology.Nodes, record)
	}
	slices.SortFunc(d.topology.Nodes, func(a, b core.Node) int { return strings.Compare(a.Name, b.Name) })
	return d
}

// Graph is a graph that was built: immutable, and safe for concurrent use.
type Graph[S any] struct{ def *def[S] }

// Name returns the graph's name.
func (g *Graph[S]) Name() string { return g.def.topology.Graph }

// Digest names the graph's version: it changes with nodes, declared versions, lines, uses and channels, never with
// code.
func (g *Graph[S]) Digest() string { return core.GraphDigest(&g.def.topology) }

func (g *Graph[S]) erased() core.Def { return g.def }

// JSON returns the topology, which package draw makes pictures of: nodes by name with their kinds, versions, uses and
// lines, joins, and channels in the order of the state's fields; and the breakpoints that it was built with, those of
// children as child|node. Equal graphs give equal bytes.
func (g *Graph[S]) JSON() ([]byte, error) {
	stops := g.def.allStops()
	return json.MarshalIndent(struct {
		*core.Topology
		Before []string `json:"before,omitempty"`
		After  []string `json:"after,omitempty"`
	}{&g.def.topology, stops.Before, stops.After}, "", "  ")
}
