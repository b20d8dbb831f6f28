package pawl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
)

// SuperStepTimeout gives each super-step of the graph's runs d to end, also as a child. Then the contexts of its tasks end
// and the run fails with a *SuperStepTimeoutError: what had ended, or still ends well, is kept, and the thread is
// resumable. Zero is no limit.
func (b *Builder[S]) SuperStepTimeout(d time.Duration) *Builder[S] {
	if b.superStep = d; d < 0 {
		b.faults = append(b.faults, fmt.Sprintf("SuperStepTimeout(%v): a time limit is not negative; leave it out for none", d))
	}
	return b
}

// SuperStepTimeout gives each super-step of this call d to end, in place of the graph's own; see the Builder's. It is for
// Run, Resume, Retry, Fork and Replay; graphs of children keep theirs.
func SuperStepTimeout(d time.Duration) RunOption { return func(c *runConfig) { c.superStep = d } }

func (d *def[S]) superStepTimeout() time.Duration { return d.superStep }

// superStepOf is the limit of a graph, unless a call has its own.
func superStepOf(own time.Duration, d core.Def) time.Duration {
	if built, ok := d.(interface{ superStepTimeout() time.Duration }); ok {
		return cmp.Or(own, built.superStepTimeout())
	}
	return own
}

// SuperStepTimeoutError: a super-step did not end within its time.
type SuperStepTimeoutError struct {
	Thread string
	Path   string   // of the child whose super-step it is; empty: the thread's own
	Nodes  []string // that had not ended
	After  time.Duration
	Err    error // what a node failed with once the time was over; nil: none did
}

// Error says what was refused, and what to do.
func (e *SuperStepTimeoutError) Error() string {
	where := fmt.Sprintf("thread %q", e.Thread)
	if e.Path != "" {
		where += " at " + e.Path
	}
	s := fmt.Sprintf("%s: the super-step did not end within its timeout of %v; not ended by then: %s", where, e.After, strings.Join(e.Nodes, ", "))
	if e.Err != nil {
		s += fmt.Sprintf(" (which failed: %v)", e.Err)
	}
	return s + "; what ended is kept: resume, with a longer pawl.SuperStepTimeout where it needs one"
}

// Unwrap returns what a node failed with.
func (e *SuperStepTimeoutError) Unwrap() error { return e.Err }

// limited gives the round its time, until the returned function is called.
func (r *round) limited(ctx context.Context) (_ context.Context, over func()) {
	after := r.loop.superStepLimit
	if after <= 0 {
		return ctx, func() {}
	}
	r.limit = &SuperStepTimeoutError{Thread: r.loop.name, Path: r.loop.path, After: after}
	timed, cancel := context.WithTimeoutCause(ctx, after, r.limit)
	return timed, func() {
		r.expired = r.tooLate(timed)
		cancel()
	}
}

// tooLate says whether the round's time is over.
func (r *round) tooLate(ctx context.Context) bool {
	return r.limit != nil && context.Cause(ctx) == error(r.limit)
}

// excused is the error of a failed task: behind the round's own, if the task failed once its time was over.
func (r *round) excused(a *attempt) error {
	if !a.late {
		return a.err
	}
	r.limit.Nodes, r.limit.Err = []string{a.task.spec.Node}, a.err
	return r.limit
}

// overdue says whether the tasks did not all end in time, and which.
func (r *round) overdue() bool {
	if !r.expired {
		return false
	}
	for i := range r.tasks {
		if a := &r.tasks[i]; a.late || a.state == idle {
			r.limit.Nodes = append(r.limit.Nodes, a.task.spec.Node)
		}
	}
	return len(r.limit.Nodes) > 0
}

// IdleTimeout ends the context of a try that shows no progress for d. Progress is Heartbeat, and whatever the node asks of
// the engine: steps, questions, effects, children. The time that the engine takes to write does not count.
func IdleTimeout(d time.Duration) NodeOption {
	return option("IdleTimeout", func(c *nodeConfig) {
		if c.policy.Idle, c.policy.Beats = d, false; d < 0 {
			c.fault("IdleTimeout(%v): a time limit is not negative; leave it out for none", d)
		}
	})
}

// HeartbeatTimeout is IdleTimeout for a node that says itself when it makes progress: only Heartbeat counts, its own or
// that of a node of a child that it runs.
func HeartbeatTimeout(d time.Duration) NodeOption {
	return option("IdleTimeout", func(c *nodeConfig) {
		if c.policy.Idle, c.policy.Beats = d, true; d < 0 {
			c.fault("HeartbeatTimeout(%v): a time limit is not negative; leave it out for none", d)
		}
	})
}

// Heartbeat says that the running node makes progress; see IdleTimeout. It does not extend Timeout.
func Heartbeat(ctx context.Context) {
	if t, ok := TaskFrom(ctx); ok {
		t.alive(true)
	}
}

// alive puts off the idle timeouts of the task and of those around it, by a heartbeat or by other progress.
func (t *Task) alive(beat bool) {
	for ; t != nil; t = t.loop.under {
		t.mu.Lock()
		if t.few != nil && t.few.idle != nil && (beat || !t.policy.Beats) {
			t.few.idle.Reset(t.policy.Idle)
		}
		t.mu.Unlock()
	}
}

// saving is called when the engine begins to write for the task, and what it returns when that is over: meanwhile the idle
// timeouts of the task and of those around it stand still.
func (t *Task) saving() (over func()) {
	if t.policy.Idle == 0 && t.loop.under == nil {
		return func() {}
	}
	t.writes(1)
	return func() {
		t.writes(-1)
		t.alive(false)
	}
}

func (t *Task) writes(n int) {
	for ; t != nil; t = t.loop.under {
		t.mu.Lock()
		few := t.rare()
		if few.saves += n; few.saves == 0 && few.missed && few.idle != nil {
			few.idle.Reset(t.policy.Idle)
		}
		few.missed = few.missed && few.saves > 0
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

// timeout is that of one try: of the payload, or of the node.
func (t *Task) timeout() time.Duration { return cmp.Or(t.spec.Timeout, t.policy.Timeout) }

// limited gives a try its time limits. end says what is to be made of its error.
func (t *Task) limited(ctx context.Context) (_ context.Context, end func(error) error) {
	ctx, cancel := context.WithCancelCause(ctx)
	run, idle := &TimeoutError{Node: t.spec.Node, After: t.timeout()}, &TimeoutError{Node: t.spec.Node, Idle: true, After: t.policy.Idle}
	stop := func() {}
	if run.After > 0 {
		ctx, stop = context.WithTimeoutCause(ctx, run.After, run)
	}
	if idle.After > 0 {
		timer := time.AfterFunc(idle.After, func() {
			t.mu.Lock()
			defer t.mu.Unlock()
			few := t.rare()
			if few.missed = few.saves > 0; !few.missed { // else it is set again when that is over
				cancel(idle)
			}
		})
		t.mu.Lock()
		t.rare().idle = timer
		t.mu.Unlock()
	}
	return ctx, func(err error) error {
		expired := context.Cause(ctx)
		over := expired == error(run) || expired == error(idle)
		t.mu.Lock()
		if t.few != nil && t.few.idle != nil {
			t.few.idle.Stop()
			t.few.idle = nil
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
