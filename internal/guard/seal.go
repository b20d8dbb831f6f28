// Package guard decides when a task's state may be written.
package guard

import (
	"fmt"
	"sync"
)

// StateError says what went wrong with one channel of a task's state: a write that was refused, a stored value that
// cannot be read, a value that cannot be written. The task fails with it, and nothing that it wrote is merged.
type StateError struct {
	Node    string
	Channel string
	Reason  string // what was not done, and what to do
	Err     error  // the cause, if there is one
}

// Error names the node and the channel.
func (e *StateError) Error() string {
	s := fmt.Sprintf("channel %q: %s", e.Channel, e.Reason)
	if e.Node != "" {
		s = fmt.Sprintf("node %q: ", e.Node) + s
	}
	return s
}

// Unwrap returns the cause.
func (e *StateError) Unwrap() error { return e.Err }

// Seal guards one task's state: its lock orders the access of all goroutines to all channels, and it says when writes
// are refused. Safe for concurrent use after Init.
type Seal struct {
	sync.Mutex
	Node    string
	Late    func(error) // told of writes after Close; nil: nobody is
	inside  []string    // what refuses writes now, outermost first
	room    [2]string
	closed  bool
	refused *StateError // the first
}

// Init makes the seal ready for a node's task.
func (g *Seal) Init(node string, late func(error)) {
	g.Node, g.Late, g.inside = node, late, g.room[:0]
}

// Enter refuses writes until Leave: inside "step rate", "All", "route", "question", "outcome".
func (g *Seal) Enter(what string) {
	g.Lock()
	defer g.Unlock()
	g.inside = append(g.inside, what)
}

// Leave ends the newest Enter.
func (g *Seal) Leave() {
	g.Lock()
	defer g.Unlock()
	if n := len(g.inside); n > 0 {
		g.inside = g.inside[:n-1]
	}
}

// Close ends the task: later writes go to Late. It returns the first write that was refused, with which the task fails.
func (g *Seal) Close() error {
	g.Lock()
	defer g.Unlock()
	g.closed = true
	if g.refused == nil {
		return nil
	}
	return g.refused
}

// Open locks the state for a write. False: the write is refused, recorded, and the state is not locked.
func (g *Seal) Open(channel string) bool {
	g.Lock()
	if !g.closed && len(g.inside) == 0 {
		return true
	}
	err := &StateError{Node: g.Node, Channel: channel, Reason: "the write " + g.advice()}
	if g.closed && g.Late != nil {
		defer g.Late(err) // without the lock
	} else if !g.closed && g.refused == nil {
		g.refused = err
	}
	g.Unlock()
	return false
}

func (g *Seal) advice() string {
	if g.closed {
		return "after the node returned did not happen: a goroutine outlived the node; wait for it before you return"
	}
	s := "inside " + g.inside[0] + " did not happen: "
	switch g.inside[0] {
	case "All":
		return s + "collect results in variables and write them after All returned"
	case "route":
		return s + "a route only chooses; write in the node, and let no goroutine outlive it"
	case "question":
		return s + "a question is made of what the state holds; write when the answer comes"
	case "outcome":
		return s + "what a run returned is for reading; edit the thread, or give a new state to the next run"
	}
	return s + "return the value and set it after the step"
}
