package pawl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
)

// RetryOn says which errors of the node are tried again, and how: the first policy that matches an error counts, with
// its own Tries and Backoff, or the node's where it gives none. Several are asked in their order; the count of tries is
// the node's. With a policy, errors that match none are final. match is pure.
func RetryOn(match func(error) bool, options ...NodeOption) NodeOption {
	return func(c *nodeConfig) {
		own := nodeConfig{}
		for _, o := range options {
			if o != nil {
				o(&own)
			}
		}
		c.faults = append(c.faults, own.faults...)
		if match == nil {
			c.fault("RetryOn(nil): say which errors it is for")
		}
		c.policy.Retries = append(c.policy.Retries, core.Retry{If: match, Tries: own.policy.Tries, Wait: own.policy.Wait, MaxWait: own.policy.MaxWait})
		own.policy.Tries, own.policy.Wait, own.policy.MaxWait = 0, 0, 0
		if own.policy.Timeout != 0 || own.policy.Idle != 0 || own.policy.Durable || len(own.policy.Retries) > 0 || own.version != 0 || own.deferred || own.onError != nil {
			c.fault("RetryOn takes Tries and Backoff, and no other option")
		}
	}
}

// OnError gives the node's last word to a function: once its tries are over, handle sees the state as the node did, and
// the error, a *NodeError; what it writes and where it leads is the node's, as if the node had ended well. An error that
// it returns fails the run. A wait is no error; Conclude and drift are not handled.
//
// The failure is on disk before handle is entered: after a crash, or an answer to what handle asked, the node is not
// entered again. Then the error carries the text of the first one and wraps nothing.
func OnError[S any](handle func(context.Context, *S, error) error) NodeOption {
	return func(c *nodeConfig) {
		if c.onError = handle; handle == nil {
			c.fault("OnError(nil): give a function, or leave it out")
		}
	}
}

// handlerOf is the handler that a node declares for its state; false: it is for another state.
func handlerOf[S any](n *node[S]) (func(context.Context, *S, error) error, bool) {
	if n.onError == nil {
		return nil, true
	}
	h, ok := n.onError.(func(context.Context, *S, error) error)
	return h, ok
}

// failure is the journal's name for a node's failure that its handler takes over.
const failure = "__error__"

func (t *Task) failureAddress() core.Address {
	return core.Address{Task: t.spec.ID, Kind: "error", Name: failure}
}

// failedBefore is the failure that an earlier start handed to the handler; nil: none.
func (t *Task) failedBefore() error {
	if !t.policy.Handles || t.steps == nil {
		return nil
	}
	s := t.steps[t.failureAddress().ID()]
	if s == nil {
		return nil
	}
	text := ""
	if err := json.Unmarshal(s.Result, &text); err != nil {
		text = "its recorded failure cannot be read"
	}
	return t.nodeError(0, errors.New(text))
}

func (t *Task) nodeError(try int, err error) *NodeError {
	return &NodeError{Thread: t.loop.name, Node: t.spec.Node, Task: t.spec.ID, Path: t.loop.path, Try: try, Err: err}
}

// handedOver makes a failure durable, so that only the handler is entered from here on, and takes back what the node
// still asks.
func (t *Task) handedOver(ctx context.Context, err error) error {
	doc, _ := json.Marshal(t.loop.told(err.Error())) // a string has a form
	rec := &core.Step{
		Address: t.failureAddress().ID(), Checkpoint: t.place(), Task: t.spec.ID, Path: t.spec.Outer, Node: t.spec.Node, Name: failure,
		Result: doc,
	}
	if err := t.loop.record(context.WithoutCancel(ctx), rec); err != nil {
		return fmt.Errorf("node %q failed and its failure is not saved; its handler was not entered: %w", t.spec.Node, err)
	}
	t.mu.Lock()
	if t.steps == nil {
		t.steps = map[string]*core.Step{}
	}
	t.steps[rec.Address] = rec
	t.mu.Unlock()
	return t.loop.withdraw(ctx, t)
}

// handles says whether the node's handler is for this error: not for what the graph concluded, nor for questions that
// keep changing.
func (t *Task) handles(err error) bool {
	if child := (*ChildError)(nil); errors.As(err, &child) {
		return t.policy.Handles && child.Cause != core.CauseDrift
	}
	cause := causeOf(err)
	return t.policy.Handles && cause != core.CauseConcluded && cause != core.CauseDrift
}

// IdleTimeout ends the context of a try that shows no progress for d. Progress is Heartbeat, and whatever the node asks of
// the engine: steps, questions, effects, children.
func IdleTimeout(d time.Duration) NodeOption {
	return func(c *nodeConfig) {
		if c.policy.Idle = d; d < 0 {
			c.fault("IdleTimeout(%v): a time limit is not negative; leave it out for none", d)
		}
	}
}

// Heartbeat says that the running node makes progress; see IdleTimeout. It does not extend Timeout.
func Heartbeat(ctx context.Context) {
	if t, ok := TaskFrom(ctx); ok {
		t.alive()
	}
}

// alive puts off the idle timeouts of the task and of those around it.
func (t *Task) alive() {
	for ; t != nil; t = t.loop.under {
		t.mu.Lock()
		if t.idle != nil {
			t.idle.Reset(t.policy.Idle)
		}
		t.mu.Unlock()
	}
}

// TimeoutError: a try did not end within its time, or showed no progress. What it wrote was discarded, whatever it
// returned; steps and effects that were recorded stay.
type TimeoutError struct {
	Node  string
	Idle  bool // no progress, else the try as a whole
	After time.Duration
}

// Error says what was refused, and what to do.
func (e *TimeoutError) Error() string {
	if e.Idle {
		return fmt.Sprintf("node %q showed no progress for %v; what it wrote was discarded; call pawl.Heartbeat while it works", e.Node, e.After)
	}
	return fmt.Sprintf("node %q did not end within its timeout of %v; what it wrote was discarded", e.Node, e.After)
}

// limited gives a try its time limits. end says what is to be made of its error.
func (t *Task) limited(ctx context.Context) (_ context.Context, end func(error) error) {
	ctx, cancel := context.WithCancelCause(ctx)
	run, idle := &TimeoutError{Node: t.spec.Node, After: t.policy.Timeout}, &TimeoutError{Node: t.spec.Node, Idle: true, After: t.policy.Idle}
	stop := func() {}
	if run.After > 0 {
		ctx, stop = context.WithTimeoutCause(ctx, run.After, run)
	}
	if idle.After > 0 {
		timer := time.AfterFunc(idle.After, func() { cancel(idle) })
		t.mu.Lock()
		t.idle = timer
		t.mu.Unlock()
	}
	return ctx, func(err error) error {
		expired := context.Cause(ctx)
		over := expired == error(run) || expired == error(idle)
		t.mu.Lock()
		if t.idle != nil {
			t.idle.Stop()
			t.idle = nil
		}
		t.mu.Unlock()
		stop()
		cancel(nil)
		switch {
		case !over || err == nil && t.Waiting() != nil:
			return err
		case err == nil:
			return expired
		case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
			return fmt.Errorf("%w: %w", expired, err)
		}
		return err
	}
}
