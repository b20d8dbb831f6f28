package pawl

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/schema"
)

// Step calls fn and journals its result under a name: when the node runs again, after an answer, a retry or a crash,
// the recorded result is returned and fn is not called. The result is on disk when Step returns, in every durability
// mode.
//
// The call itself happens at least once: a crash between the call and its record repeats it. For an outside action
// that must not be repeated, that gap is closed by an effect, not by a step. An error is not journaled: the next entry
// calls again. Below an open question a new step is not called and returns ErrWaiting. State must not be written inside
// fn: return the value and set it afterwards.
//
// Without a running task (a plain test of the node) Step just calls fn.
func Step[T any](ctx context.Context, name string, fn func(context.Context) (T, error), options ...Opt) (T, error) {
	s := scopeFrom(ctx)
	if s == nil {
		return fn(ctx)
	}
	return journaled(ctx, s, name, collect(options).key, nil, fn)
}

// journaled is a step of a running task, which keeps its result for others, if keep is not nil.
func journaled[T any](ctx context.Context, s *scope, name, key string, keep *core.Cached, fn func(context.Context) (T, error)) (T, error) {
	var result T
	doc, err := s.step(ctx, name, key, keep, func(ctx context.Context) ([]byte, error) {
		v, err := fn(ctx)
		if err != nil {
			return nil, err
		}
		return schema.Marshal(v)
	})
	if err != nil {
		return result, err
	}
	d := json.NewDecoder(bytes.NewReader(doc))
	d.DisallowUnknownFields()
	if err := d.Decode(&result); err != nil {
		return result, s.task.fail(fmt.Errorf("node %q: step %q: the recorded result does not fit %T: %w; nothing was called; "+
			"declare another pawl.Version for the node, or read the old form too", s.task.spec.Node, name, result, err))
	}
	return result, nil
}

func (s *scope) step(ctx context.Context, name, key string, keep *core.Cached, call func(context.Context) ([]byte, error)) ([]byte, error) {
	t := s.task
	if name == "" {
		return nil, t.fail(fmt.Errorf("node %q: a step needs a name; nothing was called", t.spec.Node))
	}
	address := core.Address{Task: t.spec.ID, Path: s.path, Kind: "step", Name: name, Key: key}
	id, err := t.book(s, address)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	known := t.steps[id]
	t.mu.Unlock()
	switch {
	case known != nil:
		t.loop.emit(Event{Kind: EventStep, Node: t.spec.Node, Task: t.spec.ID, Name: name, Key: key, Address: id, Replayed: true})
		return known.Result, nil
	case s.branch.isWaiting():
		return nil, ErrWaiting
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	rec := &core.Step{
		Address: id, Checkpoint: t.place(), Task: t.spec.ID, Path: t.spec.Outer, Node: t.spec.Node, Name: name, Key: key,
	}
	keep, err = s.result(ctx, rec, keep, call)
	if err != nil {
		return nil, err
	}
	if err := t.late(s.entry, address); err != nil {
		return nil, err
	}
	over := t.saving()
	err = t.loop.record(context.WithoutCancel(ctx), rec, keep)
	over()
	if err != nil {
		return nil, t.fail(fmt.Errorf("node %q: step %q was called and its result is not saved: %w", t.spec.Node, name, err))
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.steps == nil {
		t.steps = map[string]*core.Step{}
	}
	t.steps[id] = rec
	return rec.Result, nil
}

// result is what a step comes to: what is kept of an earlier one like it, or what its function returns, which others may
// then reuse.
func (s *scope) result(ctx context.Context, rec *core.Step, keep *core.Cached, call func(context.Context) ([]byte, error)) (*core.Cached, error) {
	if keep != nil {
		had, err := s.task.loop.kept(ctx, keep.Key)
		if err != nil {
			return nil, err
		}
		if had != nil {
			rec.Result, rec.Cached = had.Step, true
			return nil, nil
		}
	}
	doc, err := s.call(ctx, rec, keep != nil, call)
	if err == nil {
		err = core.CheckSize(fmt.Sprintf("node %q: the result of step %q", rec.Node, rec.Name), doc)
	}
	if rec.Result = doc; keep != nil {
		keep.Step = doc
	}
	return keep, err
}

// call runs the step's function with the state sealed and the path one step longer.
func (s *scope) call(ctx context.Context, rec *core.Step, cached bool, call func(context.Context) ([]byte, error)) ([]byte, error) {
	if g := s.task.guard; g != nil {
		g.Enter("step " + rec.Name)
		defer g.Leave()
	}
	s.task.loop.begins(s, rec)
	inner := &scope{task: s.task, branch: s.branch, path: s.path + "/" + rec.Address, entry: s.entry, within: "step"}
	if cached {
		inner.cached = rec.Name
	}
	return call(inner.in(ctx))
}

// All runs functions at once inside a node and returns when all have. Each is a branch of its own: an open question in
// one does not stop the others. Real errors are joined and returned; only when there are none does an open question
// make All return ErrWaiting. A panic of a function becomes an error. State must not be written inside: keep results
// in variables and write them after All returned.
func All(ctx context.Context, fns ...func(context.Context) error) error {
	s := scopeFrom(ctx)
	if s != nil && s.task.guard != nil {
		s.task.guard.Enter("All")
		defer s.task.guard.Leave()
	}
	errs := make([]error, len(fns))
	var wg sync.WaitGroup
	for i, fn := range fns {
		wg.Go(func() { errs[i] = runBranch(ctx, s, fn) })
	}
	wg.Wait()
	var failed []error
	waiting := false
	for _, err := range errs {
		switch {
		case errors.Is(err, ErrWaiting):
			waiting = true
		case err != nil:
			failed = append(failed, err)
		}
	}
	if waiting && s != nil {
		s.branch.waiting.Store(true)
	}
	switch {
	case len(failed) > 0:
		return errors.Join(failed...)
	case waiting:
		return ErrWaiting
	}
	return nil
}

func runBranch(ctx context.Context, s *scope, fn func(context.Context) error) (err error) {
	node, b := "", (*branch)(nil)
	if s != nil {
		node, b = s.task.spec.Node, &branch{parent: s.branch}
		ctx = (&scope{task: s.task, branch: b, path: s.path, entry: s.entry, within: s.within, cached: s.cached}).in(ctx)
	}
	ended := false
	defer func() {
		if r := recover(); r != nil || !ended {
			err = &PanicError{Node: node, Value: r, Stack: debug.Stack()}
		} else if err == nil && b != nil && b.waiting.Load() {
			err = ErrWaiting
		}
	}()
	err = fn(ctx)
	ended = true
	return err
}
