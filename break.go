package pawl

import (
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl/internal/core"
)

// Everywhere stands for all nodes in a breakpoint.
const Everywhere = "*"

// breaks are breakpoints: nodes before or after which a run stops and waits, with no question open, until it is resumed.
type breaks struct{ before, after []string }

// BreakBefore makes a run stop as Waiting before the super-step that enters one of the nodes, for this call alone: a
// Resume that should stop again is given it again. Nothing is asked; Resume goes on. For Run, Resume, Retry, Fork and
// Replay, on nodes of the thread's own graph, or Everywhere.
func BreakBefore(nodes ...string) RunOption {
	return func(c *runConfig) { c.breaks.before = append(c.breaks.before, nodes...) }
}

// BreakAfter makes a run stop as Waiting once one of the nodes ended and its writes are merged, unless that ends the run.
func BreakAfter(nodes ...string) RunOption {
	return func(c *runConfig) { c.breaks.after = append(c.breaks.after, nodes...) }
}

// BreakBefore makes every run of the graph stop there, wherever it is resumed, also as a child; in a stateless child, which
// does not know where it stood, it does not.
func (b *Builder[S]) BreakBefore(nodes ...string) *Builder[S] {
	b.breaks.before = append(b.breaks.before, nodes...)
	return b
}

// BreakAfter makes every run of the graph stop there; see the Builder's BreakBefore.
func (b *Builder[S]) BreakAfter(nodes ...string) *Builder[S] {
	b.breaks.after = append(b.breaks.after, nodes...)
	return b
}

// unknown is the first of the nodes that the graph does not have; empty: none.
func (b breaks) unknown(t *core.Topology) string {
	for _, name := range slices.Concat(b.before, b.after) {
		if _, ok := t.Node(name); name != Everywhere && (!ok || name == Start) {
			return name
		}
	}
	return ""
}

// with are these breakpoints beside those that a graph was built with.
func (b breaks) with(d core.Def) breaks {
	built, ok := d.(interface{ stops() breaks })
	if !ok {
		return b
	}
	more := built.stops()
	return breaks{slices.Concat(b.before, more.before), slices.Concat(b.after, more.after)}
}

func (d *def[S]) stops() breaks { return d.breaks }

// breaksFit refuses breakpoints that would never be reached.
func (t *Thread) breaksFit(d core.Def, cfg *runConfig) error {
	if name := cfg.breaks.unknown(d.Topology()); name != "" {
		return &NotFoundError{What: "node", ID: name, Thread: t.id, Hint: fmt.Sprintf("a breakpoint names a node of graph %q, or pawl.Everywhere", t.graph)}
	}
	return nil
}

func meets(nodes []string, node string) bool {
	return node != Start && (slices.Contains(nodes, node) || slices.Contains(nodes, Everywhere))
}

// breaksBefore says whether the run stops in front of these tasks: not where it stood waiting already.
func (l *loop) breaksBefore(tasks []core.Task) bool {
	if len(l.breaks.before) == 0 || l.stateless || l.steps == 0 && l.waited {
		return false
	}
	return slices.ContainsFunc(tasks, func(t core.Task) bool { return meets(l.breaks.before, t.Node) })
}

func (l *loop) breaksAfter(results []core.Result) bool {
	if len(l.breaks.after) == 0 || l.stateless {
		return false
	}
	return slices.ContainsFunc(results, func(r core.Result) bool { return meets(l.breaks.after, r.Task.Node) })
}
