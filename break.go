package pawl

import (
	"fmt"
	"maps"
	"slices"

	"github.com/pawl-dev/pawl/internal/core"
)

// Everywhere stands for all nodes in a breakpoint.
const Everywhere = "*"

// BreakBefore makes a run stop as Waiting before the super-step that enters one of the nodes. Nothing is asked; Resume goes
// on. It is kept with the run, so it holds whoever resumes it, also after a crash, until the run is over. For Run, Resume,
// Retry, Fork and Replay, on nodes of the thread's own graph, or Everywhere. The breakpoints of a later call take the place
// of all that the run has: BreakBefore() takes them away.
func BreakBefore(nodes ...string) RunOption {
	return func(c *runConfig) { b := c.stops(); b.Before = append(b.Before, nodes...) }
}

// BreakAfter makes a run stop as Waiting once one of the nodes ended and its writes are merged, unless that ends the run.
// See BreakBefore.
func BreakAfter(nodes ...string) RunOption {
	return func(c *runConfig) { b := c.stops(); b.After = append(b.After, nodes...) }
}

// stops are the breakpoints of the call.
func (c *runConfig) stops() *core.Breaks {
	if c.breaks == nil {
		c.breaks = &core.Breaks{}
	}
	return c.breaks
}

// breakAt gives a run the breakpoints of a call, if there are any.
func (c *runConfig) breakAt(run *core.Run) {
	if c.breaks != nil {
		run.Breaks = c.breaks
	}
}

// BreakBefore makes every run of the graph stop there, wherever it is resumed, also as a child; in a stateless child, which
// does not know where it stood, it does not.
func (b *Builder[S]) BreakBefore(nodes ...string) *Builder[S] {
	b.breaks.Before = append(b.breaks.Before, nodes...)
	return b
}

// BreakAfter makes every run of the graph stop there; see the Builder's BreakBefore.
func (b *Builder[S]) BreakAfter(nodes ...string) *Builder[S] {
	b.breaks.After = append(b.breaks.After, nodes...)
	return b
}

// breaksOf are the breakpoints that a graph was built with, and those that its run was given besides.
func breaksOf(d core.Def, run *core.Run) (b core.Breaks) {
	if built, ok := d.(interface{ stops() core.Breaks }); ok {
		b = built.stops()
	}
	if run != nil && run.Breaks != nil {
		b = core.Breaks{Before: slices.Concat(b.Before, run.Breaks.Before), After: slices.Concat(b.After, run.Breaks.After)}
	}
	return b
}

func (d *def[S]) stops() core.Breaks { return d.breaks }

// allStops are the graph's breakpoints and those of its children, as child|node.
func (d *def[S]) allStops() core.Breaks {
	out := core.Breaks{Before: slices.Clone(d.breaks.Before), After: slices.Clone(d.breaks.After)}
	for _, name := range slices.Sorted(maps.Keys(d.children)) {
		child, ok := d.children[name].(interface{ allStops() core.Breaks })
		if !ok {
			continue
		}
		inside := child.allStops()
		for _, node := range inside.Before {
			out.Before = append(out.Before, name+"|"+node)
		}
		for _, node := range inside.After {
			out.After = append(out.After, name+"|"+node)
		}
	}
	return out
}

// breaksFit refuses breakpoints that would never be reached.
func (t *Thread) breaksFit(d core.Def, cfg *runConfig) error {
	if cfg.breaks == nil {
		return nil
	}
	for _, name := range slices.Concat(cfg.breaks.Before, cfg.breaks.After) {
		if _, ok := d.Topology().Node(name); name != Everywhere && (!ok || name == Start) {
			return &NotFoundError{What: "node", ID: name, Thread: t.id, Hint: fmt.Sprintf("a breakpoint names a node of graph %q, or pawl.Everywhere", t.graph)}
		}
	}
	return nil
}

func meets(nodes []string, node string) bool {
	return node != Start && (slices.Contains(nodes, node) || slices.Contains(nodes, Everywhere))
}

// breaksBefore says whether the run stops in front of these tasks: not where it stood waiting already.
func (l *loop) breaksBefore(tasks []core.Task) bool {
	if len(l.breaks.Before) == 0 || l.stateless || l.steps == 0 && l.waited {
		return false
	}
	return slices.ContainsFunc(tasks, func(t core.Task) bool { return meets(l.breaks.Before, t.Node) })
}

func (l *loop) breaksAfter(results []core.Result) bool {
	if len(l.breaks.After) == 0 || l.stateless {
		return false
	}
	return slices.ContainsFunc(results, func(r core.Result) bool { return meets(l.breaks.After, r.Task.Node) })
}
