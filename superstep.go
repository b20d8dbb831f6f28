package pawl

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
)

// round is one super-step in the making. The common one has a single task: it is kept in place.
type round struct {
	loop    *loop
	tasks   []attempt
	results []core.Result  // of the tasks, in their order
	news    []int          // tasks that ended in this start of the loop, not yet handed to the host
	durable bool           // a node that ended is declared durable
	keep    []*core.Cached // what its tasks leave to others, not yet handed to the host
	single  struct {
		task   [1]attempt
		result [1]core.Result
		news   [1]int
	}

	limit   *SuperStepTimeoutError // what ends it when its time is over; nil: nothing does
	expired bool                   // its time was over before its tasks were
}

type progress int

const (
	idle    progress = iota // not entered, or stopped before it ended
	done                    // its result counts
	waits                   // for an answer
	failing                 // its error counts
)

// attempt is one task in the round.
type attempt struct {
	task   *Task
	state  progress
	known  bool // its end is stored already
	result *core.Result
	keep   *core.Cached // what the task leaves to others, once its result counts
	err    error
	tries  int
	late   bool // it ended after the round's time
}

// begin sets a round up: what ended before is taken over, what still waits stays as it is.
func (l *loop) begin(tasks []core.Task) *round {
	r := &l.rounds
	*r = round{loop: l}
	l.round = r
	r.tasks, r.results, r.news = r.single.task[:], r.single.result[:], r.single.news[:0]
	if n := len(tasks); n > 1 {
		r.tasks, r.results = make([]attempt, n), make([]core.Result, n)
	}
	run := make([]Task, len(tasks)) // not in the round's room: goroutines that a node left behind may hold its task
	ended, blocked := l.endedBefore(), l.blocked()
	for i, spec := range tasks {
		a := &r.tasks[i]
		a.result = &r.results[i]
		if e := ended[spec.ID]; e != nil {
			a.state, a.known, *a.result = done, true, e.Result
		}
		a.result.Task, a.task = spec, &run[i]
		a.task.init(l, spec, l.def.Policy(spec.Node))
		if !a.known && blocked[spec.ID] {
			a.state = waits
		}
	}
	return r
}

// endedBefore finds what ended in earlier starts of this super-step, by task; nil when nothing did.
func (l *loop) endedBefore() map[string]*core.Ended {
	var ended map[string]*core.Ended
	for i := range l.pos.Ended {
		if e := &l.pos.Ended[i]; !e.Failed {
			if ended == nil {
				ended = map[string]*core.Ended{}
			}
			ended[e.Result.Task.ID] = e
		}
	}
	return ended
}

// blocked are the tasks that cannot be entered yet, as loaded: something that they wait for is open. A child that keeps
// nothing is entered as a whole, by its parent.
func (l *loop) blocked() map[string]bool {
	if l.host == nil || l.stateless || len(l.pos.Questions)+len(l.pos.Children) == 0 {
		return nil
	}
	return l.pos.Blocked(l.thread, len(l.levels), l.host.Now())
}

// run enters every task that may be entered, at once, and hands what ended to the host while others go on.
func (r *round) run(ctx context.Context) error {
	var room [8]int
	ready := room[:0]
	for i := range r.tasks {
		if r.tasks[i].state == idle {
			ready = append(ready, i)
		}
	}
	if len(ready) == 0 {
		return nil
	}
	ctx, over := r.limited(ctx)
	defer over()
	if len(ready) == 1 {
		r.enter(ctx, ready[0])
		r.ended(ready[0])
		return nil
	}
	return r.together(ctx, slices.Clone(ready))
}

// together enters several tasks at once.
func (r *round) together(ctx context.Context, ready []int) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ends := make(chan int, len(ready))
	c := crew{queue: ready, most: len(ready), do: func(i int) {
		if ctx.Err() != nil { // a sibling failed, or the run is stopped: what was not entered stays so
			ends <- i
			return
		}
		r.surely(ctx, cancel, i, ends)
	}}
	if most := r.loop.atOnce; most > 0 {
		c.most = min(c.most, most)
	}
	c.start()
	defer c.hands.Wait()
	return r.gather(ctx, cancel, ends, len(ready))
}

// surely runs a task and reports it over, even if its node ends the goroutine. A failure stops the siblings at once.
func (r *round) surely(ctx context.Context, cancel context.CancelCauseFunc, i int, ends chan<- int) {
	returned := false
	defer func() {
		a := &r.tasks[i]
		if !returned {
			a.state, a.err = failing, &PanicError{Node: a.task.spec.Node}
		}
		if a.state == failing {
			cancel(fmt.Errorf("node %q failed in the same super-step", a.task.spec.Node))
		}
		ends <- i
	}()
	r.enter(ctx, i)
	returned = true
}

func (r *round) enter(ctx context.Context, i int) {
	r.runOne(ctx, i)
	r.tasks[i].late = r.tooLate(ctx)
}

// gather takes ended tasks in as they come. The last ones are left to the commit that ends the super-step.
func (r *round) gather(ctx context.Context, cancel context.CancelCauseFunc, ends chan int, left int) error {
	var batch []int
	for left > 0 {
		batch = append(batch[:0], <-ends)
		for more := true; more; {
			select {
			case i := <-ends:
				batch = append(batch, i)
			default:
				more = false
			}
		}
		left -= len(batch)
		slices.Sort(batch)
		for _, i := range batch {
			r.ended(i)
			if a := &r.tasks[i]; a.state == failing {
				cancel(fmt.Errorf("node %q failed in the same super-step", a.task.spec.Node))
			}
		}
		if left == 0 || len(r.news) == 0 {
			continue
		}
		if err := r.hand(ctx, core.Commit{Checkpoint: r.loop.pos.Head, Durable: r.durable}); err != nil {
			cancel(err)
			return err
		}
		r.news, r.durable = r.news[:0], false
	}
	return nil
}

// ended takes note of a finished task.
func (r *round) ended(i int) {
	a := &r.tasks[i]
	l := r.loop
	r.keep = append(r.keep, a.task.left()...)
	switch a.state {
	case done:
		r.durable = r.durable || a.task.policy.Durable
		if err := core.Adopt(l.pos.Head, l.topology, a.result); err != nil {
			a.state, a.err = failing, err
		} else if a.keep != nil {
			r.keep = append(r.keep, a.keep)
		}
	case waits:
		l.emit(Event{Kind: EventTaskWait, Node: a.task.spec.Node, Task: a.task.spec.ID})
		return
	case idle:
		return
	}
	r.news = append(r.news, i)
}

// stopped says whether the round ends the run, with the first failure in plan order as the reason.
func (r *round) stopped(ctx context.Context) (*core.Stop, error) {
	var stop *core.Stop
	var cause error
	var waiting, unfinished bool
	for i := range r.tasks {
		a := &r.tasks[i]
		switch a.state {
		case failing:
			if stop == nil {
				stop, cause = failed(causeOf(a.err), a.task.spec.Node, r.excused(a))
			}
			stop.Withdraw = append(stop.Withdraw, a.task.openQuestions()...)
		case waits:
			waiting = true
		case idle:
			unfinished = true
		}
	}
	switch {
	case isEnded(ctx) && (stop != nil || unfinished || waiting): // a failure that this brought about included
		return r.loop.interrupted(ctx)
	case stop != nil:
		return stop, cause
	case r.overdue():
		return failed(core.CauseError, r.limit.Nodes[0], r.limit)
	case ctx.Err() != nil && unfinished:
		return r.loop.interrupted(ctx)
	case unfinished:
		return failed(core.CauseError, "", errors.New("a task was stopped before it ended"))
	case waiting:
		return r.loop.waits(), nil
	}
	return nil, nil
}

// isEnded says whether Cancel or Close ended the run from outside.
func isEnded(ctx context.Context) bool {
	if ctx.Err() == nil {
		return false
	}
	c := (*cancelCause)(nil)
	return errors.As(context.Cause(ctx), &c) || errors.Is(context.Cause(ctx), ErrClosed)
}

func (t *Task) openQuestions() []core.Question {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := t.failing()
	for _, q := range t.asked {
		if q.State == core.QuestionOpen || q.State == core.QuestionSubmitted {
			out = append(out, *q)
		}
	}
	return out
}

func causeOf(err error) core.Cause {
	if c := (*ChildError)(nil); errors.As(err, &c) {
		return c.Cause
	}
	if c := (*concluded)(nil); errors.As(err, &c) {
		return core.CauseConcluded
	}
	if d := (*DriftError)(nil); errors.As(err, &d) {
		return core.CauseDrift
	}
	if big := (*core.SizeError)(nil); errors.As(err, &big) {
		return core.CauseLimit
	}
	return core.CauseError
}

// runOne runs a task to its end: its tries, and what they come to.
func (r *round) runOne(ctx context.Context, i int) {
	a := &r.tasks[i]
	t := a.task
	if r.loop.sink != nil {
		r.loop.emit(Event{Kind: EventTaskStart, Node: t.spec.Node, Task: t.spec.ID})
	}
	t.failed = t.failedBefore()
	for {
		if t.failed == nil {
			a.tries++
		}
		out, err := t.once(ctx, a.tries)
		waiting, asked, broken := t.standing()
		switch {
		case broken != nil:
			a.state, a.err = failing, broken
			return
		case waiting && (err == nil || errors.Is(err, ErrWaiting)):
			if a.state = waits; err == nil {
				r.loop.emit(Event{Kind: EventDropped, Node: t.spec.Node, Task: t.spec.ID})
				if r.loop.strict {
					a.state, a.err = failing, &HiddenWaitError{Node: t.spec.Node, Questions: t.openNames()}
				}
			}
			return
		case err == nil:
			a.state, a.keep = done, out.Keep
			// Its task is not written: a goroutine that the node left behind may be reading it.
			a.result.Writes, a.result.Next, a.result.Cached = out.Writes, out.Next, out.Cached
			if t.kids != nil {
				a.result.Inside, a.result.Writes = t.kids.inside, append(a.result.Writes, t.memories()...)
			}
			if !asked {
				return
			}
			if err := r.loop.withdraw(ctx, t); err != nil {
				a.state, a.err = failing, err
				return
			}
			r.loop.left(t)
			return
		case ctx.Err() != nil && (errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx))):
			return // stopped from outside, not failed: it stays unfinished
		case t.failed == nil && !final(err) && t.again(ctx, err, a.tries):
		case t.failed == nil && ctx.Err() == nil && t.handles(err):
			t.failed = t.nodeError(a.tries, err)
			if unsaved := t.handedOver(ctx, err); unsaved != nil {
				a.state, a.err = failing, unsaved
				return
			}
		default:
			a.state, a.err = failing, t.nodeError(a.tries, err)
			return
		}
		r.loop.emit(Event{Kind: EventTaskRetry, Node: t.spec.Node, Task: t.spec.ID, Err: err})
	}
}

// once is one entry of the node.
func (t *Task) once(ctx context.Context, try int) (out core.TaskOutput, err error) {
	if t.timeout() > 0 || t.policy.Idle > 0 {
		var over func(error) error
		ctx, over = t.limited(ctx)
		defer func() { err = over(err) }()
	}
	returned := false
	defer func() {
		t.leave()
		if p := recover(); p != nil || !returned {
			err = &PanicError{Node: t.spec.Node, Value: p, Stack: debug.Stack()}
		}
	}()
	in := core.TaskInput{Task: &t.spec, Values: t.loop.pos.Head.Values, Failed: t.failed}
	if t.spec.Node == core.Start {
		in.Input = t.loop.given()
	}
	ctx, end := t.entered(t.enter(ctx), try)
	out, err = t.loop.def.RunTask(ctx, in)
	end(err)
	returned = true
	return out, err
}

// given is the input of the run.
func (l *loop) given() []core.Write {
	switch {
	case l.stateless:
		return l.input
	case l.frame != nil:
		return l.frame.Input
	}
	return l.pos.Run.Input
}

// again waits for the next try, and says whether there is one.
func (t *Task) again(ctx context.Context, err error, tries int) bool {
	if len(t.policy.Retries) == 0 && !Retryable(err) {
		return false
	}
	most, waits := t.policy.For(err)
	return tries < most && pause(ctx, backoff(waits, tries))
}

// backoff is the wait after so many tries, with jitter so that siblings do not march in step.
func backoff(b *core.Backoff, tries int) time.Duration {
	d := b.After(tries)
	jitter := b.Jitter
	if jitter < 0 {
		jitter = d / 10
	}
	return d + rand.N(jitter+1)
}

// pause waits and says whether it was left to.
func pause(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
