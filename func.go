package pawl

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/pawl-dev/pawl/internal/core"
)

// FuncGraph is a function as a graph: one node on the same loop, with the same persistence and questions. Inside it, Step
// keeps what was called, All runs branches at once, interrupts ask. From its first line on it runs again after an answer
// or a crash. Its state has the channels input, output and, where Final was used, kept.
type FuncGraph[In, Out any] struct {
	graph *Graph[FuncState[In, Out]]
}

// FuncState is the state of a function's thread, for who looks at it or changes it from outside; the function itself has
// only its input, [Previous] and [Final].
type FuncState[In, Out any] struct {
	Input  Ephemeral[In] `json:"input"`  // there until the run that it started is over
	Output Last[Out]     `json:"output"` // of the newest run that was done
	Kept   Last[Kept]    `json:"kept"`
}

// Kept is what a run leaves to the next instead of its output.
type Kept struct {
	Value json.RawMessage `json:"value,omitempty"` // empty: the output itself
}

// Leave makes value what the next run reads with [Previous].
func (s *FuncState[In, Out]) Leave(value any) error {
	doc, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("what is left for the next run cannot be encoded: %w", err)
	}
	s.Kept.Set(Kept{doc})
	return nil
}

// Func makes a graph of a function. Its node has the graph's name and takes the options of a node.
func Func[In, Out any](name string, fn func(context.Context, In) (Out, error), options ...NodeOption) (*FuncGraph[In, Out], error) {
	b := New[FuncState[In, Out]](name)
	if fn == nil {
		b.Node(name, nil, options...)
	} else {
		b.Node(name, func(ctx context.Context, s *FuncState[In, Out]) error { return called(ctx, s, fn) }, options...)
	}
	g, err := b.Path(Start, name).Build()
	if err != nil {
		return nil, err
	}
	return &FuncGraph[In, Out]{g}, nil
}

// memory is what one run of a function was left and leaves.
type memory struct {
	task     *Task
	previous []byte // nil: nothing
	leaves   []byte
}

type memoryKey struct{}

// memoryFrom finds that of the running function: not that of one around a child.
func memoryFrom(ctx context.Context) *memory {
	m, _ := ctx.Value(memoryKey{}).(*memory)
	if s := scopeFrom(ctx); m == nil || s == nil || s.task != m.task {
		return nil
	}
	return m
}

func called[In, Out any](ctx context.Context, s *FuncState[In, Out], fn func(context.Context, In) (Out, error)) error {
	m := &memory{}
	m.task, _ = TaskFrom(ctx)
	left := s.Kept.Get().Value
	if m.previous = left; left == nil {
		if out, ok := s.Output.Lookup(); ok {
			doc, err := json.Marshal(out)
			if err != nil {
				return fmt.Errorf("what the run before returned cannot be encoded: %w", err)
			}
			m.previous = doc
		}
	}
	out, err := fn(context.WithValue(ctx, memoryKey{}, m), s.Input.Get())
	if err != nil {
		return err
	}
	s.Output.Set(out)
	if m.leaves != nil || left != nil {
		s.Kept.Set(Kept{m.leaves})
	}
	return nil
}

// Previous is what the run before on this thread left: what it gave Final, else what it returned. False: there was none,
// or the context is not that of a function made by Func. What does not fit T fails the run.
func Previous[T any](ctx context.Context) (v T, ok bool) {
	m := memoryFrom(ctx)
	if m == nil || m.previous == nil {
		return v, false
	}
	d := json.NewDecoder(bytes.NewReader(m.previous))
	d.DisallowUnknownFields()
	if err := d.Decode(&v); err != nil {
		_ = m.task.fail(fmt.Errorf("function %q: what the run before left is no %T: %w", m.task.spec.Node, v, err))
		return *new(T), false
	}
	return v, true
}

// Final returns value and keeps another one for the next run, which Previous reads there. The last one counts, and only
// if the function then ends well. Without a running task (a plain test of the function) nothing is kept.
func Final[T, K any](ctx context.Context, value T, keep K) (T, error) {
	if scopeFrom(ctx) == nil {
		return value, nil
	}
	m := memoryFrom(ctx)
	if m == nil {
		return value, errors.New("pawl: Final is for functions made by Func; in a node write to the state; nothing was kept")
	}
	doc, err := json.Marshal(keep)
	if err != nil {
		return value, fmt.Errorf("what is kept for the next run cannot be encoded: %w", err)
	}
	m.task.mu.Lock()
	m.leaves = doc
	m.task.mu.Unlock()
	return value, nil
}

// Name returns the graph's name.
func (f *FuncGraph[In, Out]) Name() string { return f.graph.Name() }

// Digest names the graph's version.
func (f *FuncGraph[In, Out]) Digest() string { return f.graph.Digest() }

// JSON returns the topology.
func (f *FuncGraph[In, Out]) JSON() ([]byte, error) { return f.graph.JSON() }

func (f *FuncGraph[In, Out]) erased() core.Def { return f.graph.erased() }

// FuncChild is a function as a part of a graph, or of another function.
type FuncChild[In, Out any] struct {
	Child[FuncState[In, Out]]
}

// Child makes the function usable inside others; see [Graph.Child]. With PerThread, Previous reads what its last run on
// the same thread left.
func (f *FuncGraph[In, Out]) Child(name string, mode ...ChildMode) FuncChild[In, Out] {
	return FuncChild[In, Out]{f.graph.Child(name, mode...)}
}

// Call calls the function inside a node that declares it with Uses; see [Child.Call].
func (c FuncChild[In, Out]) Call(ctx context.Context, in In, options ...Opt) (out Out, err error) {
	s := &FuncState[In, Out]{}
	s.Input.Set(in)
	r, err := c.Child.Call(ctx, s, options...)
	if err != nil {
		return out, err
	}
	return r.State.Output.Get(), nil
}
