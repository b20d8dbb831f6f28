package pawl

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/pawl-dev/pawl/internal/core"
)

// drain is a request to stop at the next super-step. Runs look for it, and for those around it, between two super-steps.
type drain struct {
	asked atomic.Pointer[string]
	outer *drain
}

type drainKey struct{}

func drainFrom(ctx context.Context) *drain {
	d, _ := ctx.Value(drainKey{}).(*drain)
	return d
}

// ask asks to stop. The first reason stays.
func (d *drain) ask(reason string) { d.asked.CompareAndSwap(nil, &reason) }

// WithDrain returns a context whose runs stop at their next super-step once drain is called, which may be done at any
// time, from any goroutine, before or after they start; the first reason counts. Tasks that are running end as usual, and
// so does a run that they end. Else it stops as Waiting with cause [CauseDrained] and the reason, everything that finished
// is saved in every durability mode, and Resume goes on. A child stops like its parent, between its own super-steps; a
// stateless one, which would begin anew, ends first.
//
// The request is for runs in this process and is not stored; without storage a drained run is over. It is for one run, or
// for all that one job starts; [Engine.Shutdown] is for a whole process.
func WithDrain(ctx context.Context) (_ context.Context, drain func(reason string)) {
	d := newDrain(ctx)
	return context.WithValue(ctx, drainKey{}, d), d.ask
}

func newDrain(ctx context.Context) *drain { return &drain{outer: drainFrom(ctx)} }

// Draining says whether the runs of this context were asked to stop, and why: a node that would take long may end early.
func Draining(ctx context.Context) (reason string, ok bool) {
	for d := drainFrom(ctx); d != nil; d = d.outer {
		if asked := d.asked.Load(); asked != nil {
			return *asked, true
		}
	}
	return "", false
}

// drained stops the loop between two super-steps, if it was asked to.
func (l *loop) drained(ctx context.Context) *core.Stop {
	reason, ok := Draining(ctx)
	if !ok || l.stateless {
		return nil
	}
	l.root.mu.Lock()
	l.root.drain = new(string)
	*l.root.drain = reason
	l.root.mu.Unlock()
	return l.waits()
}

// waits is a run that waits: for its questions, or for whoever drained it or a child of it.
func (l *loop) waits() *core.Stop {
	stop := &core.Stop{Status: core.StatusWaiting}
	l.root.mu.Lock()
	defer l.root.mu.Unlock()
	if l.root.drain != nil {
		stop.Cause, stop.Error = core.CauseDrained, *l.root.drain
	}
	return stop
}

// ShutdownError: not all runs reached the end of their super-step in time. Those that did not were stopped where they
// were, as Close does; all are resumable.
type ShutdownError struct {
	Runs int   // that were stopped inside a super-step, at most
	Err  error // why no more time was left
}

// Error says what was not waited for, and what to do.
func (e *ShutdownError) Error() string {
	return fmt.Sprintf("pawl: %d runs did not end their super-step before the shutdown had to be over (%v); they were stopped "+
		"inside it, and what finished is kept: resume their threads", e.Runs, e.Err)
}

// Unwrap returns why no more time was left.
func (e *ShutdownError) Unwrap() error { return e.Err }

// Shutdown drains all runs of this process, see [WithDrain], waits until they stopped, and closes the engine. From its
// call on no run is started or gone on with, except by nodes that are running. When ctx ends before, the rest is stopped
// at once, and the error is a *ShutdownError.
func (e *Engine) Shutdown(ctx context.Context, reason string) error {
	for {
		r, left := e.leave(reason)
		if left == 0 {
			return e.Close()
		}
		select {
		case <-r.over:
		case <-ctx.Done():
			return errors.Join(&ShutdownError{Runs: left, Err: context.Cause(ctx)}, e.Close())
		}
	}
}

// leave asks every run to stop, and returns one of those that have not.
func (e *house) leave(reason string) (r *running, left int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.leaving == nil {
		e.leaving = &reason
	}
	for _, r = range e.running {
		r.drain.ask(*e.leaving)
	}
	return r, len(e.running)
}

// leaves refuses a verb that would run something when the engine shuts down. The caller holds e.mu.
func (e *house) leaves(ctx context.Context, verb Verb) error {
	switch verb {
	case VerbRun, VerbResume, VerbRetry, VerbFork, VerbReplay:
	default:
		return nil
	}
	if e.leaving == nil || scopeFrom(ctx) != nil {
		return nil
	}
	return fmt.Errorf("%w: it shuts down (%s); nothing was done; send it to another process", ErrClosed, *e.leaving)
}
