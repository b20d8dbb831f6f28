package pawl

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
)

// What a loop tells: facts after they were handed to the host, in the order in which it stores them.

// hand commits, with the tasks that ended unless they go into the next checkpoint, and then tells of them.
func (r *round) hand(ctx context.Context, c core.Commit) error {
	l := r.loop
	var ended []core.Ended
	if c.Next == nil || l.sink != nil {
		ended = r.endings()
	}
	if c.Next == nil {
		c.Ended = ended
	}
	c.Keep, r.keep = r.keep, nil
	if err := l.commit(ctx, c); err != nil || l.sink == nil {
		return err
	}
	for n, i := range r.news {
		e := Event{Kind: EventTaskEnd, At: ended[n].At, Err: r.tasks[i].err}
		e.end(l.topology, &ended[n])
		switch {
		case !l.sync():
		case c.Next == nil:
			e.Seq = ended[n].Seq
		case e.Node != core.Start:
			e.Seq = l.factOf(c.Next) - int64(len(r.news)-n)
		}
		l.emit(e)
	}
	return nil
}

// endings are the news as facts.
func (r *round) endings() []core.Ended {
	l, out := r.loop, make([]core.Ended, len(r.news))
	for n, i := range r.news {
		a, e := &r.tasks[i], &out[n]
		*e = core.Ended{Checkpoint: l.pos.Head.N, Result: *a.result, Tries: a.tries, Before: l.failedBefore(a.task.spec.ID)}
		if l.host != nil {
			e.At = l.host.Now()
		}
		if a.state == failing {
			e.Result, e.Failed, e.Error, e.Cause = core.Result{Task: a.task.spec}, true, l.told(a.err.Error()), causeOf(a.err)
		}
	}
	return out
}

// into leaves in the checkpoint that merges the round what no row of its own tells.
func (r *round) into(next *core.Checkpoint, results []core.Result) {
	next.Quiet = true
	for i := range results {
		next.Quiet = next.Quiet && len(results[i].Writes) == 0
	}
	if r.loop.host == nil || r.loop.stateless {
		return // there are no rows
	}
	next.Merged = make([]core.Result, 0, len(r.news))
	for _, i := range r.news {
		if results[i].Task.Node != core.Start {
			next.Merged = append(next.Merged, results[i])
		}
	}
	next.Told = r.loop.made && len(next.Merged) == 1 && r.loop.topology.Tells(r.loop.pos.Head, next, &next.Merged[0])
}

// sync says whether what was committed is stored.
func (l *loop) sync() bool {
	return l.host != nil && !l.stateless && l.pos.Run.Mode == core.Sync
}

// factOf is a committed checkpoint's number among the facts; 0: it is not stored yet, as far as is known here.
func (l *loop) factOf(cp *core.Checkpoint) int64 {
	if !l.sync() {
		return 0
	}
	return cp.Seq
}

// failedBefore is the stored failure of a task that ended again.
func (l *loop) failedBefore(task string) *core.Ended {
	for i := range l.pos.Ended {
		if e := &l.pos.Ended[i]; e.Failed && e.Seq > 0 && e.Result.Task.ID == task {
			return e
		}
	}
	return nil
}

// tellStart tells what a verb stored before the loop began; stood is how the head stood, for a run that goes on.
func (l *loop) tellStart(stood func(context.Context) (*Snapshot, error)) {
	run := l.pos.Run
	e := Event{Kind: EventAccepted, At: run.Accepted, Seq: run.Seq}
	if run.Resumed {
		e.Kind, e.At, e.snapshot = EventResumed, time.Now().UTC(), stood
	}
	l.emit(e)
	for _, q := range l.taken {
		answer := Event{Kind: EventAnswer, At: q.Asked, Seq: q.Seq, Run: run.ID, Attempt: run.Attempt, Node: q.Node, Task: q.Task, Name: q.Name, Key: q.Key}
		answer.Question, answer.State, answer.Path = q.ID, string(q.State), above(q.Path)
		l.sink(answer)
	}
	l.tellBegun()
}

// tellBegun tells the first checkpoints of a run.
func (l *loop) tellBegun() {
	for _, cp := range l.begun {
		before := ""
		if cp.Frame == nil { // the others are of a branch that begins inside a child
			before, l.before = l.before, cp.ID
		}
		for _, on := range l.on {
			if on != nil && on.N == cp.Parent {
				before = on.ID
			}
		}
		l.tellCheckpoint(cp, before, l.factOf(cp))
	}
	l.begun = nil
}

func (l *loop) tellCheckpoint(cp *core.Checkpoint, before string, seq int64) {
	l.emit(Event{
		Kind: EventCheckpoint, Seq: seq, At: time.Now().UTC(), Step: cp.Step, Checkpoint: cp.ID, Source: string(cp.Source),
		Path: pathOf(cp), Quiet: cp.Quiet, snapshot: l.snapshot(cp, before, seq),
	})
}

// snapshot is an event's way to a checkpoint of this process: what it holds never changes.
func (l *loop) snapshot(cp *core.Checkpoint, before string, seq int64) func(context.Context) (*Snapshot, error) {
	run, topology, identity := l.pos.Run, l.topology, l.thread
	kept := l.host != nil && !l.stateless
	if cp.Frame != nil && cp.Frame != l.frame { // a child that keeps nothing has none
		topology, _ = l.topology.Within(cp.Frame.Under)
	}
	return func(context.Context) (*Snapshot, error) {
		out, err := bare(identity, cp, run, topology, before, core.Public)
		if err == nil {
			if out.Seq = seq; !kept { // its id has no time
				out.At = time.Time{}
			}
		}
		return out, err
	}
}
