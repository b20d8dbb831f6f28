package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/schema"
)

// Spec is what a model is told of a tool.
type Spec struct {
	Name   string          `json:"name"`
	About  string          `json:"about"`
	Params json.RawMessage `json:"params"` // the JSON Schema of its arguments
}

// Tool is something that a model can have done. Make it with [Lookup] or [Action]. It is immutable.
type Tool struct {
	Spec
	uses   []pawl.Usable
	direct bool
	fits   func(args json.RawMessage) error
	run    func(ctx context.Context, args json.RawMessage) (result, error)
	err    error // why it cannot be a tool
}

// result is what came of a call.
type result struct {
	text string
	args json.RawMessage // what was called, where it is not what the model wanted
}

// Direct makes a tool whose result is the answer to the user: the model is not asked again, unless the call failed.
func (t Tool) Direct() Tool {
	t.direct = true
	return t
}

type callKey struct{}

// CallFrom is the call that is being made, for a tool that needs its id; what a tool needs beside its arguments is in its
// context, where no model can set it. False: the context is not that of a tool.
func CallFrom(ctx context.Context) (Call, bool) {
	m, ok := ctx.Value(callKey{}).(making)
	return m.call, ok
}

// ChatFrom is the state of the loop that the tool is called in, for reading. Nil: the context is not that of a tool.
func ChatFrom(ctx context.Context) *Chat {
	m, _ := ctx.Value(callKey{}).(making)
	return m.chat
}

type making struct {
	call Call
	chat *Chat
}

// Lookup makes a tool of a function that only looks, or that may be called twice: it runs as a step, so what it returned
// once is recorded and not asked for again. In is a struct: its JSON Schema is what the model is told, and what its
// arguments are held against.
func Lookup[In, Out any](name, about string, fn func(context.Context, In) (Out, error)) Tool {
	return made(name, about, func(ctx context.Context, in In) (Out, error) {
		return pawl.Step(ctx, "look up", func(ctx context.Context) (Out, error) { return fn(ctx, in) })
	})
}

// Action makes a tool of a function that asks a person or dispatches effects, which it declares: it runs as a node does,
// and is entered again when an answer comes. Refer to an effect by what the arguments mean, such as an order's number, not
// by the call, which is another one each time the model wants it.
func Action[In, Out any](name, about string, fn func(context.Context, In) (Out, error), uses ...pawl.Usable) Tool {
	t := made(name, about, fn)
	t.uses = uses
	return t
}

func made[In, Out any](name, about string, fn func(context.Context, In) (Out, error)) Tool {
	t := Tool{Spec: Spec{Name: name, About: about}}
	check, err := schema.Compile(reflect.TypeFor[In]())
	if err == nil {
		t.Params, err = schema.For[In]()
	}
	switch {
	case name == "":
		t.err = errors.New("a tool needs a name")
	case err != nil:
		t.err = fmt.Errorf("tool %q: %w", name, err)
	case reflect.TypeFor[In]().Kind() != reflect.Struct:
		t.err = fmt.Errorf("tool %q: its arguments are a %s; a model gives them by name, so make it a struct", name, reflect.TypeFor[In]())
	}
	read := func(args json.RawMessage) (In, error) {
		if len(bytes.TrimSpace(args)) == 0 {
			args = []byte("{}")
		}
		in, err := schema.Decode[In](check, args)
		if err != nil {
			err = Tell(fmt.Errorf("the arguments do not fit: %w", err))
		}
		return in, err
	}
	t.fits = func(args json.RawMessage) error {
		_, err := read(args)
		return err
	}
	t.run = func(ctx context.Context, args json.RawMessage) (r result, err error) {
		in, err := read(args)
		if err != nil {
			return r, err
		}
		out, err := fn(ctx, in)
		if err == nil {
			r.text, err = text(out)
		}
		return r, err
	}
	return t
}

// text is what a model reads of a result: a text as it is, everything else as JSON.
func text(out any) (string, error) {
	if s, ok := out.(string); ok {
		return s, nil
	}
	doc, err := json.Marshal(out)
	return string(doc), err
}

// told is an error that the model reads.
type told struct{ error }

func (t told) Unwrap() error { return t.error }

// Told is what a model hears of an error that was marked by Tell. False: of this one it hears nothing.
func Told(err error) (text string, ok bool) {
	if reason := (told{}); errors.As(err, &reason) {
		return reason.Error(), true
	}
	return "", false
}

// Tell marks an error of a tool as one that the model is told, as the result of its call. Any other error fails the run,
// which can then be resumed: nothing that is broken, or in doubt, is talked away. A denial by a person is a good one to
// tell.
func Tell(err error) error {
	if err == nil {
		return nil
	}
	return told{err}
}
