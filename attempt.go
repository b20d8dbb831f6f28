package pawl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
)

// RetryOn says which errors of the node are tried again, and how: the first policy that matches an error counts, with
// its own Tries, Backoff, Factor and Jitter, or the node's where it gives none. Several are asked in their order; the
// count of tries is the node's. With a policy, errors that match none are final; without any, [Retryable] is asked. match is
// pure.
func RetryOn(match func(error) bool, options ...NodeOption) NodeOption {
	return option("RetryOn", func(c *nodeConfig) {
		own := nodeConfig{policy: core.Policy{Backoff: usualWaits(), Uses: map[string]bool{}}}
		own.take(options)
		own.only("RetryOn", "Tries", "Backoff", "Factor", "Jitter")
		c.faults = append(c.faults, own.faults...)
		if match == nil {
			c.fault("RetryOn(nil): say which errors it is for")
		}
		r := core.Retry{If: match, Tries: own.policy.Tries}
		if slices.ContainsFunc(own.given, func(name string) bool { return name != "Tries" }) {
			r.Waits = &own.policy.Backoff
		}
		c.policy.Retries = append(c.policy.Retries, r)
	})
}

// Factor is by what the wait grows from try to try. Without it waits double.
func Factor(f float64) NodeOption {
	return option("Factor", func(c *nodeConfig) {
		if c.policy.Factor = f; !(f >= 1) {
			c.fault("Factor(%v): waits do not shrink; give at least 1", f)
		}
	})
}

// Jitter adds up to most to each wait, at random, so that what failed together is not tried again together. Without it a
// tenth of the wait is added; Jitter(0) adds nothing.
func Jitter(most time.Duration) NodeOption {
	return option("Jitter", func(c *nodeConfig) {
		if c.policy.Jitter = most; most < 0 {
			c.fault("Jitter(%v): it is not negative", most)
		}
	})
}

// OnError gives the node's last word to a function: once its tries are over, handle sees the state as the node did, and
// the error, a *NodeError; what it writes and where it leads is the node's, as if the node had ended well. An error that
// it returns fails the run. A wait is no error; Conclude and drift are not handled.
//
// The failure is on disk before handle is entered: after a crash, or an answer to what handle asked, the node is not
// entered again. Then the error carries the text of the first one and wraps nothing.
func OnError[S any](handle func(context.Context, *S, error) error) NodeOption {
	return option("OnError", func(c *nodeConfig) {
		if c.onError = handle; handle == nil {
			c.fault("OnError(nil): give a function, or leave it out")
		}
	})
}

// handlerOf is the handler that a node declares for its state; false: it is for another state.
func handlerOf[S any](n *node[S]) (func(context.Context, *S, error) error, bool) {
	if n.onError == nil {
		return nil, true
	}
	h, ok := n.onError.(func(context.Context, *S, error) error)
	return h, ok
}

func (t *Task) failureAddress() core.Address {
	return core.Address{Task: t.spec.ID, Kind: "error", Name: StepHandedOver}
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
		Address: t.failureAddress().ID(), Checkpoint: t.place(), Task: t.spec.ID, Path: t.spec.Outer, Node: t.spec.Node, Name: StepHandedOver,
		Result: doc,
	}
	if err := t.loop.record(context.WithoutCancel(ctx), rec, nil); err != nil {
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
