package pawl

import (
	"context"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
)

// Registrable is a graph of any state type, as an engine takes it: a *Graph.
type Registrable interface{ erased() core.Def }

// def is a graph erased to bytes. It is immutable.
type def[S any] struct {
	topology   core.Topology
	layout     *layout
	nodes      map[string]*node[S]
	workers    map[string]bool
	interrupts map[string]core.Interrupt
	moves      []Migration
	children   map[string]core.Def
	breaks     core.Breaks
	superStep  time.Duration
}

var _ core.Def = (*def[struct{}])(nil)

func (d *def[S]) Topology() *core.Topology { return &d.topology }

func (d *def[S]) Interrupt(name string) (core.Interrupt, bool) {
	in, ok := d.interrupts[name]
	return in, ok
}

func (d *def[S]) Child(name string) (core.Def, bool) {
	c, ok := d.children[name]
	return c, ok
}

// used is what a node declares under a name, here or in a child; all that declare it in one graph mean the same.
func (d *def[S]) used(name string) Usable {
	for _, n := range d.nodes {
		for _, u := range n.uses {
			if u.UseName() == name {
				return u
			}
		}
	}
	for _, child := range slices.Sorted(maps.Keys(d.children)) {
		if c, ok := d.children[child].(interface{ used(name string) Usable }); ok {
			if u := c.used(name); u != nil {
				return u
			}
		}
	}
	return nil
}

// Policy of a node that the graph does not know is the strictest: one try, nothing may be used.
func (d *def[S]) Policy(node string) *core.Policy {
	if n, ok := d.nodes[node]; ok {
		return &n.policy
	}
	return &core.Policy{Tries: 1, Uses: map[string]bool{}}
}

// Fold runs user code in the merge, where no task stands around it.
func (d *def[S]) Fold(channel string, old, items []byte) (folded []byte, err error) {
	defer func() {
		if v := recover(); v != nil {
			folded, err = nil, fmt.Errorf("the fold rule of channel %q panicked: %v; nothing was merged", channel, v)
		}
	}()
	return d.layout.fold(channel, old, items)
}

// RunTask runs in the caller's goroutine. A panic, a refused write and a failing route are errors of the task, and then
// it wrote nothing and leads nowhere.
func (d *def[S]) RunTask(ctx context.Context, in core.TaskInput) (out core.TaskOutput, err error) {
	n, ok := d.nodes[in.Task.Node]
	if !ok {
		return out, fmt.Errorf("graph %q has no node %q; its task was not run", d.topology.Graph, in.Task.Node)
	}
	t, hosted := TaskFrom(ctx)
	var g *seal
	if hosted {
		g = t.sealed(n.name)
	} else {
		g = newSeal(n.name, nil)
	}
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Node: n.name, Value: v, Stack: debug.Stack()}
		}
		if refused := g.Close(); refused != nil {
			err = refusal(refused, err)
		}
		if err != nil {
			out = core.TaskOutput{}
		}
	}()
	switch {
	case n.name == core.Start:
		return d.start(n, g, in)
	case n.cache > 0 && hosted && in.Failed == nil:
		return d.reuse(ctx, t, n, g, in)
	}
	return d.enter(ctx, t, n, g, in)
}

// refusal puts a refused write before what the node returned, so that a wait cannot hide it.
func refusal(refused, err error) error {
	if err == nil {
		return refused
	}
	return fmt.Errorf("%w (the node ended with: %v)", refused, err)
}

// enter runs a node's function and then its routes on the same state. From the function's return on the state refuses
// writes: a write by a goroutine left behind must not fall between what is merged and what the routes saw.
func (d *def[S]) enter(ctx context.Context, t *Task, n *node[S], g *seal, in core.TaskInput) (out core.TaskOutput, err error) {
	s := new(S)
	b := d.layout.bind(s, in.Values, g)
	if in.Failed != nil {
		err = n.handle(ctx, s, in.Failed)
	} else {
		err = n.run(ctx, s, in.Task.Arg, g)
	}
	g.Enter("route")
	strict := t != nil && t.strict()
	waits, gotos := t.returned()
	if strict && (err == nil || waits) {
		if err := unchanged(n.name, b); err != nil {
			return out, err
		}
		if err := t.unfenced(); err != nil {
			return out, err
		}
	}
	if err != nil || waits {
		return out, err
	}
	if out.Next, err = n.next(s, t.room(), d.workers); err == nil {
		out.Next, err = n.went(gotos, out.Next, d.workers)
	}
	if out.Writes, err = written(b, err); err == nil && strict {
		err = unchanged(n.name, b)
	}
	if err == nil && t != nil && d.layout.stored < len(d.layout.fields) {
		t.keepsHeld(b.held())
	}
	return out, err
}

// written returns the writes of a task whose routes ended with err. A stored value that could not be read looked empty
// to the routes, so it is told first.
func written(b *binding, err error) ([]core.Write, error) {
	writes, unreadable := b.writes()
	if unreadable != nil {
		return nil, unreadable
	}
	return writes, err
}

func unchanged(node string, b *binding) error {
	if channel := b.mutated(); channel != "" {
		return &StateError{Node: node, Channel: channel, Reason: "changed in place: what was read belongs to the state; change a copy and Set it"}
	}
	return nil
}

// start makes the input the Start task's writes, and shows them to the routes of Start.
func (d *def[S]) start(n *node[S], g *seal, in core.TaskInput) (out core.TaskOutput, err error) {
	out.Writes = slices.Clone(in.Input)
	if len(n.routes) == 0 {
		return out, nil
	}
	shown := core.Result{Task: *in.Task, Writes: slices.Clone(in.Input)}
	after, err := core.Apply(&core.Checkpoint{Values: in.Values}, &d.topology, d.Fold, []core.Result{shown})
	if err != nil {
		return out, err
	}
	out.Next, err = d.routed(n, g, after.Values)
	return out, err
}

// routed runs the routes of a node that has no function to run, on the state as it wrote it.
func (d *def[S]) routed(n *node[S], g *seal, values []*core.Value) ([]core.Due, error) {
	s := new(S)
	b := d.layout.bind(s, values, g)
	g.Enter("route")
	next, err := n.next(s, nil, d.workers)
	_, err = written(b, err)
	return next, err
}
