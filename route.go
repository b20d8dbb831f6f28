package pawl

import (
	"fmt"
	"slices"
	"strings"

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

// UndeclaredTargetError: a route chose a target that its declaration does not list. The task failed: nothing that it
// wrote was merged.
type UndeclaredTargetError struct {
	Node     string
	Target   string
	Declared []string
}

// Error says what was refused, and what to do.
func (e *UndeclaredTargetError) Error() string {
	return fmt.Sprintf("node %q: its route chose %q, which it does not declare (%s); nothing was merged; add it to the targets in Route",
		e.Node, e.Target, strings.Join(e.Declared, ", "))
}

type route[S any] struct {
	from    string
	choose  func(*S) []Next
	targets []string
}

// next runs the node's routes on a state that refuses writes.
func (n *node[S]) next(s *S, workers map[string]bool) ([]core.Due, error) {
	var out []core.Due
	for i := range n.routes {
		r := &n.routes[i]
		for _, next := range r.choose(s) {
			to := next.due.Node
			switch {
			case next.err != nil:
				return nil, fmt.Errorf("node %q: its route failed: %w", n.name, next.err)
			case !slices.Contains(r.targets, to):
				return nil, &UndeclaredTargetError{Node: n.name, Target: to, Declared: slices.Clone(r.targets)}
			case next.due.Send != workers[to]:
				return nil, mismatch(n.name, next.due)
			case to != core.End:
				out = append(out, next.due)
			}
		}
	}
	return out, nil
}

func mismatch(node string, d core.Due) error {
	if d.Send {
		return fmt.Errorf("node %q: its route sent a payload to %q, which is no worker of this graph; choose it with To", node, d.Node)
	}
	return fmt.Errorf("node %q: its route chose worker %q without a payload; send one with the worker's With or Each", node, d.Node)
}
