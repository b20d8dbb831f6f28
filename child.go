package pawl

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawl-dev/pawl/internal/core"
)

// ChildMode says what of a child's runs is kept.
type ChildMode = core.ChildMode

// The modes of a child. Inherit is the default: each run of the child starts empty, and its checkpoints are kept under
// the parent's task. PerThread: each run starts from the state that the one before left, on any thread its own. Stateless
// keeps no checkpoint, only the journal: when the parent's task is entered again all nodes of the child run again, its
// steps, answers and effects do not.
const (
	Inherit   = core.Inherit
	PerThread = core.PerThread
	Stateless = core.Stateless
)

// Child is a graph as a part of another: a node made by Sub, or a call inside a node. It is a value; nothing is shared
// with the parent but what is handed in and taken out. Declare it to the parent's graph with Sub or Uses.
type Child[C any] struct {
	name  string
	mode  ChildMode
	graph *Graph[C]
}

// Child makes the graph usable inside others, under a name that is unique among the children of one parent. Without a
// mode it is Inherit. What a PerThread child of a child remembers ends with the run of the child around it, unless that
// remembers, too.
func (g *Graph[S]) Child(name string, mode ...ChildMode) Child[S] {
	c := Child[S]{name: name, mode: Inherit, graph: g}
	if len(mode) > 0 {
		c.mode = mode[0]
	}
	return c
}

// UseName is the name by which Uses declares it.
func (c Child[C]) UseName() string { return c.name }

// Fault is what is wrong with the declaration.
func (c Child[C]) Fault() error {
	switch {
	case c.graph == nil:
		return fmt.Errorf("child %q has no graph; make it with the Child method of a graph that was built", c.name)
	case c.mode != Inherit && c.mode != PerThread && c.mode != Stateless:
		return fmt.Errorf("child %q: mode %q is none of Inherit, PerThread, Stateless", c.name, c.mode)
	}
	return nil
}

// callee is a child without its types.
type callee interface {
	Usable
	called() (core.Def, ChildMode)
}

func (c Child[C]) called() (core.Def, ChildMode) {
	if c.graph == nil {
		return nil, c.mode
	}
	return c.graph.def, c.mode
}

// Result is a run of a child that is done, as its parent sees it.
type Result[C any] struct {
	State *C // at the end of the run, with all channels; it refuses writes
	added func() (*C, error)
}

// Added is what this run of the child added to its state, beyond what it started on and its input: new items of an
// Append, entries of a Map that are new or other, what a Sum grew by, and other channels where they changed. It refuses
// writes. Put it, rather than the whole, into channels of the parent that the child was given from.
func (r *Result[C]) Added() (*C, error) { return r.added() }

// Call runs the child inside a node and returns when it is done. in is what a literal of its state writes; it is taken
// once: when the node is entered again, after an answer, a failure or a crash, a run that began goes on from its own last
// checkpoint, and a finished one returns its result. Its open questions are the task's: Call then returns ErrWaiting, to
// be returned by the node. A child that failed is a *ChildError, and goes on where it failed when it is called again.
//
// A node may call one child once an entry; further calls need a Key. Without a running task (a plain test of the node)
// Call runs the child without storage.
func (c Child[C]) Call(ctx context.Context, in *C, options ...Opt) (*Result[C], error) {
	return c.call(ctx, in, func() *C { return in }, collect(options).key)
}

// call makes the input once a run of the child. given is what this entry has of it before, for its live values.
func (c Child[C]) call(ctx context.Context, given *C, in func() *C, key string) (*Result[C], error) {
	if err := c.Fault(); err != nil {
		return nil, err
	}
	s := scopeFrom(ctx)
	if s == nil {
		return c.plain(ctx, in())
	}
	layout := c.graph.def.layout
	l, err := s.child(ctx, calling{
		name: c.name, key: key, def: c.graph.def, held: func() map[string]any { return layout.literally(given) },
		input: func() ([]core.Write, error) {
			given = in()
			return layout.input(layout.literal(given))
		},
	})
	if err != nil {
		return nil, err
	}
	r := &Result[C]{State: new(C)}
	r.added = func() (*C, error) {
		values, err := l.added(ctx)
		if err != nil {
			return nil, err
		}
		out := new(C)
		return out, layout.load(out, values)
	}
	return r, layout.loadWith(r.State, l.pos.Head.Values, l.held)
}

// plain runs the child where nothing is kept.
func (c Child[C]) plain(ctx context.Context, in *C) (*Result[C], error) {
	eng, err := NewEngine(nil, nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = eng.Close() }()
	out, err := c.graph.Thread(eng, c.name).Run(ctx, in)
	if err != nil {
		return nil, err
	}
	r := &Result[C]{State: new(C), added: func() (*C, error) {
		return nil, errors.New("pawl: what a child added is known inside a run only")
	}}
	return r, c.graph.def.layout.loadWith(r.State, out.whole, out.held)
}

// Sub is a node that runs a child, named after it. in makes the child's input from the parent's state, which it may not
// write, once a run of the child; out takes the child's result into the parent's state. Nothing else is shared. On the
// answer to a question inside, after a failure or a crash only what had not finished inside runs again, at any depth, and
// then out. The way on from the node is the parent's: edges, and routes on the state that out wrote, so a child chooses a
// node of its parent by what it leaves in its result.
func Sub[P, C any](c Child[C], in func(*P) *C, out func(*P, *Result[C]) error, opts ...NodeOption) Node[P] {
	n := newNode[P](c.name, core.KindChild, append([]NodeOption{Uses(c)}, opts...))
	if in != nil && out != nil {
		n.run = func(ctx context.Context, s *P, _ []byte, g *seal) error {
			r, err := c.call(ctx, nil, func() *C {
				g.Enter("in")
				defer g.Leave()
				return in(s)
			}, "")
			if err != nil {
				return err
			}
			return out(s, r)
		}
	}
	return readyNode[P]{n}
}

// ChildError is a run of a child that failed, as the node that called it sees it.
type ChildError struct {
	Child string
	Path  string
	Cause Cause
	Err   error
}

// Error says what was refused, and what to do.
func (e *ChildError) Error() string {
	return fmt.Sprintf("child %q (%s) failed: %v", e.Child, e.Path, e.Err)
}

// Unwrap returns the cause.
func (e *ChildError) Unwrap() error { return e.Err }

// TopLevelError: a node of a child asked, and a graph around it allows questions at the top level only. Nothing was
// asked.
type TopLevelError struct {
	Graph    string
	Question string
	Path     string
}

// Error says what was refused, and what to do.
func (e *TopLevelError) Error() string {
	return fmt.Sprintf("question %q refused: asked at '%s', this graph allows questions at the top level only (graph %q); "+
		"nothing was asked; ask in a node of that graph", e.Question, e.Path, e.Graph)
}
