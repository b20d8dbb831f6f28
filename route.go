package pawl

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
)

// Next is one thing that a route chose to run next. It is made by To, Worker.With and Worker.Each.
type Next struct {
	due core.Due
	err error
}

// To chooses nodes by name, or End. A node that is chosen several times in one super-step runs once.
func To(names ...string) []Next {
	out := make([]Next, len(names))
	for i, name := range names {
		out[i].due.Node = name
	}
	return out
}

// Within gives what a worker is sent a timeout of its own: each try of these payloads ends after d, whatever Timeout the
// worker has.
func Within(d time.Duration, sent ...Next) []Next {
	out := slices.Clone(sent)
	for i := range out {
		n := &out[i]
		switch {
		case n.err != nil:
		case d <= 0:
			n.err = fmt.Errorf("Within(%v): a time limit is positive; leave it out for that of the worker", d)
		case !n.due.Send:
			n.err = fmt.Errorf("Within(%v): node %q is sent no payload; give the node a Timeout", d, n.due.Node)
		}
		n.due.Timeout = d
	}
	return out
}

// UndeclaredTargetError: a route chose a target that its declaration does not list. The task failed: nothing that it
// wrote was merged.
type UndeclaredTargetError struct {
	Node     string
	Target   string // empty: the zero Next, or an empty name
	Declared []string
}

// Error says what was refused, and what to do.
func (e *UndeclaredTargetError) Error() string {
	declared := strings.Join(e.Declared, ", ")
	if e.Target == "" {
		return fmt.Sprintf("node %q: its route to %s chose no valid destination, but an empty name; nothing was merged; choose one of "+
			"them, or return an empty list to lead nowhere", e.Node, declared)
	}
	return fmt.Sprintf("node %q: its route chose %q, which it does not declare (%s); nothing was merged; add it to the targets in Route",
		e.Node, e.Target, declared)
}

// Targets declares where a node may lead with Goto.
func Targets(names ...string) NodeOption {
	return option("Targets", func(c *nodeConfig) {
		if c.gotos = append(c.gotos, names...); len(names) == 0 {
			c.fault("Targets(): list every node that it may lead to with Goto, and End")
		}
	})
}

// Goto leads on from inside a node, beside its edges and routes, to what the node declares with Targets: To, or what a
// worker's With and Each make. It counts once the node ends well. An undeclared target fails the task. Without a running
// task (a plain test of the node) it does nothing.
func Goto(ctx context.Context, next ...Next) error {
	s := scopeFrom(ctx)
	if s == nil {
		return nil
	}
	t := s.task
	if err := t.late(s.entry, core.Address{Kind: "Goto", Name: t.spec.Node}); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	few := t.rare()
	few.gotos = append(few.gotos, next...)
	return nil
}

// went adds what Goto chose in an entry.
func (n *node[S]) went(gotos []Next, out []core.Due, workers map[string]bool) ([]core.Due, error) {
	if len(gotos) == 0 {
		return out, nil
	}
	r := route[S]{targets: n.gotos}
	return r.take(n.name, gotos, out, workers)
}

type route[S any] struct {
	from    string
	choose  func(*S) []Next
	targets []string
}

// next runs the node's routes on a state that refuses writes, and appends what they choose to out.
func (n *node[S]) next(s *S, out []core.Due, workers map[string]bool) ([]core.Due, error) {
	for i := range n.routes {
		var err error
		if out, err = n.routes[i].take(n.name, n.routes[i].choose(s), out, workers); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// take adds what was chosen to what is due, if it may be.
func (r *route[S]) take(node string, chosen []Next, out []core.Due, workers map[string]bool) ([]core.Due, error) {
	out = slices.Grow(out, len(chosen))
	for _, next := range chosen {
		to := next.due.Node
		switch {
		case next.err != nil:
			return nil, fmt.Errorf("node %q: its route failed: %w", node, next.err)
		case !slices.Contains(r.targets, to):
			return nil, &UndeclaredTargetError{Node: node, Target: to, Declared: slices.Clone(r.targets)}
		case next.due.Send != workers[to]:
			return nil, mismatch(node, next.due)
		case to != core.End:
			out = append(out, next.due)
		}
	}
	return out, nil
}

func mismatch(node string, d core.Due) error {
	if d.Send {
		return NoRetry(fmt.Errorf("node %q: its route sent a payload to %q, which is no worker of this graph; choose it with To", node, d.Node))
	}
	return NoRetry(fmt.Errorf("node %q: its route chose worker %q without a payload; send one with the worker's With or Each", node, d.Node))
}
