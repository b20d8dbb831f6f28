package pawl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
)

// loop runs one thread from its head until it stops: plan, run, merge, commit, again. It knows a graph as a core.Def
// and a durable home as a core.Host (nil: no storage), and nothing of databases.
type loop struct {
	def      core.Def
	topology *core.Topology
	host     core.Host
	pos      *core.Position
	thread   string // identity of the thread, part of every task's id
	name     string // the thread's id, for messages
	limits   Limits
	atOnce   int  // tasks that run at the same time; 0: all
	strict   bool // tests: a node that changes what it read, or asks other questions, fails
	sink     func(Event)
	late     func(error) // told about writes after a node returned
	parts    []Part

	root      *loop // of the thread's own run: itself, unless it runs a child
	under     *Task // the parent's task, of a child
	child     *core.Child
	address   string       // of the child's call
	in        string       // addresses of the steps around the call
	frame     *core.Frame  // of what it commits; nil: the thread's own
	stateless bool         // nothing is committed
	path      string       // of its tasks, in front of their own
	levels    []core.Level // of the children from the thread's graph on down
	input     []core.Write // of a child that keeps nothing
	round     *round       // the newest; nil: the loop stopped before one
	rounds    round        // room for it
	due       []core.Task  // of it; room for the next
	mint      func() (int64, string)
	begun     []*core.Checkpoint         // what this start made before the loop
	on        []*core.Checkpoint         // behind which those of them stand that stand behind others
	before    string                     // id of the one before those
	taken     []*core.Question           // whose answers came with this start
	live      *ring                      // of the thread, in the root; nil: nobody hears what is no fact
	heads     map[int64]*core.Checkpoint // without storage: what children remember
	held      map[string]any             // live values, by channel; replaced at a merge, never changed

	afterDrift bool // a person resumed after drift: the newest question is asked whatever it says
	breaks     core.Breaks

	superStepLimit time.Duration // 0: none

	made       bool // the head is a merge of this start: it is stored as it is here, with nothing read under another type
	waited     bool // the head is where the run stood waiting
	steps      int  // super-steps since this start
	mu         sync.Mutex
	drain      *string // why it, or a child in it, was drained; nil: none was
	superseded []*ChangedError
	dropped    []string // nodes of the failed run before, whose finished work is left behind
	delivered  []string // ids of the questions whose answers came with this start
	unused     []*core.Question
	minted     atomic.Int64
}

func (l *loop) emit(e Event) {
	if l.sink == nil {
		return
	}
	if e.Path = cmp.Or(e.Path, l.path); e.Task != "" {
		e.Step = l.pos.Head.Step + 1
	}
	if e.Err != nil {
		e.Error = l.told(e.Err.Error())
	}
	if run := l.pos.Run; run != nil {
		e.Run, e.Attempt = run.ID, run.Attempt
	}
	l.sink(e)
}

// run goes on until the run stops. The error is the engine's own trouble (storage, a lost thread): then nothing says
// where the run stands but what is stored. Everything that is the run's own affair is in the Stop; cause is its
// failure as an error, for the caller in this process.
func (l *loop) run(ctx context.Context) (stop *core.Stop, cause error, err error) {
	for {
		stop, cause, err = l.superStep(ctx)
		if err != nil || stop != nil {
			return stop, cause, err
		}
		l.steps++
	}
}

// superStep runs the tasks that are due and merges what they wrote.
func (l *loop) superStep(ctx context.Context) (*core.Stop, error, error) {
	tasks := l.plan()
	if len(tasks) == 0 {
		stop, cause := l.ending(l.pos.Head)
		return stop, cause, l.commit(ctx, core.Commit{Checkpoint: l.pos.Head, Stop: stop})
	}
	if stop, cause := l.refused(ctx, len(tasks)); stop != nil {
		return stop, cause, l.commit(ctx, core.Commit{Checkpoint: l.pos.Head, Stop: stop})
	}
	if l.breaksBefore(tasks) {
		l.round = nil
		stop := l.waits()
		return stop, nil, l.commit(ctx, core.Commit{Checkpoint: l.pos.Head, Stop: stop})
	}
	if stop := l.drained(ctx); stop != nil {
		l.round = nil
		return stop, nil, l.commit(ctx, core.Commit{Checkpoint: l.pos.Head, Stop: stop})
	}
	round := l.begin(tasks)
	if err := round.run(ctx); err != nil {
		return nil, nil, err
	}
	if stop, cause := round.stopped(ctx); stop != nil {
		return stop, cause, round.hand(ctx, core.Commit{Checkpoint: l.pos.Head, Stop: stop})
	}
	return l.merge(ctx, round)
}

// plan is what is due, in the room of the plan before.
func (l *loop) plan() []core.Task {
	id := core.TaskID
	if l.host == nil {
		id = core.NumberedID
	}
	l.due = core.PlanIn(l.due[:0], l.pos.Head, l.thread, l.path, id)
	return l.due
}

// refused says why the next super-step must not start, before anything of it was done.
func (l *loop) refused(ctx context.Context, tasks int) (*core.Stop, error) {
	switch {
	case ctx.Err() != nil:
		return l.interrupted(ctx)
	case l.limits.Steps > 0 && l.steps >= l.limits.Steps:
		return failed(core.CauseLimit, "", &LimitError{Limit: "steps a run", Max: l.limits.Steps, Have: l.steps + 1})
	case l.limits.Tasks > 0 && tasks > l.limits.Tasks:
		return failed(core.CauseLimit, "", &LimitError{Limit: "tasks a super-step", Max: l.limits.Tasks, Have: tasks})
	}
	return nil, nil
}

// merge makes the next checkpoint of a round whose tasks all ended well.
func (l *loop) merge(ctx context.Context, r *round) (*core.Stop, error, error) {
	head := l.pos.Head
	results := r.results
	next, err := core.Apply(head, l.topology, l.def.Fold, results)
	held, apart := r.held()
	if err = cmp.Or(err, apart); err != nil {
		cause := causeOf(err)
		if conflict := (*core.ConflictError)(nil); errors.As(err, &conflict) {
			cause = core.CauseConflict
		}
		stop, why := failed(cause, "", err)
		return stop, why, r.hand(ctx, core.Commit{Checkpoint: head, Stop: stop})
	}
	l.number(next, results)
	r.into(next, results)
	c := core.Commit{Checkpoint: head, Next: next, Durable: r.durable}
	var why error
	if len(next.Due) == 0 {
		c.Stop, why = l.ending(next)
	} else if l.breaksAfter(results) {
		c.Stop, l.round = l.waits(), nil
	}
	if err := r.hand(ctx, c); err != nil {
		return nil, nil, err
	}
	if l.stateless {
		r.keepInside()
	}
	l.advance(next)
	l.held = held
	return c.Stop, why, nil
}

func (l *loop) advance(next *core.Checkpoint) {
	before := l.pos.Head
	if l.pos.Head, l.pos.Ended, l.made = next, nil, true; !l.stateless {
		clear(l.pos.Steps)
		clear(l.pos.Questions)
		clear(l.pos.Children)
	}
	if l.sink != nil {
		l.tellCheckpoint(next, before.ID, l.factOf(next))
	}
}

// ending judges a checkpoint with nothing due: done, unless a join still waits for a node that never ran. One whose nodes
// all ran has fired, and what arrived since then leads nowhere.
func (l *loop) ending(cp *core.Checkpoint) (*core.Stop, error) {
	for _, j := range l.topology.Joins {
		arrived := cp.Joins[j.Name()]
		if len(arrived) == 0 {
			continue
		}
		e := &JoinError{To: j.To, Arrived: arrived}
		for _, from := range j.From {
			if !slices.Contains(arrived, from) && !slices.Contains(cp.Visited, from) {
				e.Missing = append(e.Missing, from)
			}
		}
		if len(e.Missing) > 0 {
			return failed(core.CauseError, j.To, e)
		}
	}
	return &core.Stop{Status: core.StatusDone}, nil
}

func failed(cause core.Cause, node string, err error) (*core.Stop, error) {
	text := err.Error()
	if c := (*concluded)(nil); errors.As(err, &c) {
		text = c.reason
	}
	return &core.Stop{Status: core.StatusFailed, Cause: cause, Error: text, ErrorNode: node}, err
}

// interrupted is a run whose context ended: cancelled by the verb, drained by Close in the middle of a super-step, or
// stopped by its caller and free to be resumed.
func (l *loop) interrupted(ctx context.Context) (*core.Stop, error) {
	cause := context.Cause(ctx)
	if c := (*cancelCause)(nil); errors.As(cause, &c) {
		return &core.Stop{Status: core.StatusCancelled, Error: c.reason}, cause
	}
	if l.host != nil && errors.Is(cause, ErrClosed) {
		return &core.Stop{Status: core.StatusWaiting, Cause: core.CauseDrained, Error: "the engine was closed"}, nil
	}
	return failed(core.CauseError, "", fmt.Errorf("stopped by the caller: %w", cause))
}

// cancelCause is what Cancel ends a run's context with.
type cancelCause struct{ reason string }

func (c *cancelCause) Error() string { return "cancelled: " + c.reason }

// The loop's way to its host. Without storage nothing is kept. What a task asks for while others do the same is the
// host's business to order.

func (l *loop) commit(ctx context.Context, c core.Commit) error {
	switch {
	case l.under != nil:
		c.Stop = nil // its parent's task goes on, or stops the run
	case c.Stop != nil:
		c.Stop.Error = l.told(c.Stop.Error)
	}
	if l.host == nil || l.stateless {
		l.remember(c.Next)
		if l.under != nil {
			l.under.keepLater(c.Keep)
		}
		return nil
	}
	if l.under != nil {
		defer l.under.saving()()
	}
	if c.Stop != nil && c.Stop.Status == core.StatusCancelled {
		if err := l.cancelled(context.WithoutCancel(ctx), c.Stop); err != nil {
			return err
		}
	}
	return l.host.Commit(context.WithoutCancel(ctx), c)
}

// record makes a step durable; keep, if not nil, is what others may reuse of it.
func (l *loop) record(ctx context.Context, s *core.Step, keep *core.Cached) error {
	cache, keeps := l.host.(core.Cache)
	var err error
	switch {
	case keep != nil && keeps:
		err = cache.RecordFor(ctx, s, keep)
	case l.host != nil:
		err = l.host.Record(ctx, s)
	}
	if err != nil {
		return err
	}
	l.emit(Event{Kind: EventStep, Node: s.Node, Task: s.Task, Name: s.Name, Key: s.Key, Address: s.Address, Seq: s.Seq, At: s.At, Cached: s.Cached})
	return nil
}

func (l *loop) ask(ctx context.Context, q, replaced *core.Question) error {
	if err := l.host.Ask(ctx, q, replaced); err != nil {
		return err
	}
	l.emit(Event{
		Kind: EventQuestion, At: q.Asked, Node: q.Node, Task: q.Task, Name: q.Name, Key: q.Key, Question: q.ID, Seq: q.Seq,
		State: string(q.State), Data: q.Body,
	})
	return nil
}

func (l *loop) changed(t *Task, old, now *core.Question) {
	path, _, _ := core.DocumentDifference(old.Body, now.Body)
	l = l.root
	l.mu.Lock()
	defer l.mu.Unlock()
	l.superseded = append(l.superseded, &ChangedError{
		Thread: now.Thread, Node: t.spec.Node, Name: now.Name, Old: questionOf(old), New: questionOf(now), Path: path,
	})
}

// withdraw closes the questions of a task that ended without them: an earlier try asked, and the last one did not.
func (l *loop) withdraw(ctx context.Context, t *Task) error {
	for _, q := range t.mayStillAsk() {
		if q.State != core.QuestionOpen && q.State != core.QuestionSubmitted {
			continue
		}
		if _, err := l.host.Settle(context.WithoutCancel(ctx), q, core.QuestionWithdrawn); err != nil {
			return fmt.Errorf("node %q: question %q, which the node asked and does not wait for, was not withdrawn: %w", t.spec.Node, q.Name, err)
		}
	}
	return nil
}

// left notes the answers that a task ended without: an earlier entry asked, and this one, of changed code or on another
// path, did not. What is asked inside a step is read by the step alone.
func (l *loop) left(t *Task) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, q := range t.asked {
		inNode := id == core.Address{Task: q.Task, Kind: "ask", Name: q.Name, Key: q.Key}.ID()
		if q.State == core.QuestionAnswered && inNode && !t.booked[id] {
			l.root.mu.Lock()
			l.root.unused = append(l.root.unused, q)
			l.root.mu.Unlock()
		}
	}
}

// leftOver are the answers that tasks of this start ended without, in the order of asking.
func (l *loop) leftOver() []Question {
	slices.SortFunc(l.unused, func(a, b *core.Question) int { return cmp.Compare(a.AskedSeq, b.AskedSeq) })
	var out []Question
	for _, q := range l.unused {
		out = append(out, questionOf(q))
	}
	return out
}

func (l *loop) fresh() (int64, string) {
	switch {
	case l.mint != nil:
		return l.mint()
	case l.host != nil:
		return l.host.Fresh()
	}
	n := l.root.minted.Add(1)
	return n, numberedID(l.thread, n)
}

// remember keeps, without storage, where the runs of children that remember stand.
func (l *loop) remember(cp *core.Checkpoint) {
	if cp == nil || !cp.Frame.Remembers() {
		return
	}
	l.root.mu.Lock()
	defer l.root.mu.Unlock()
	if l.root.heads == nil {
		l.root.heads = map[int64]*core.Checkpoint{}
	}
	if before := l.root.heads[cp.Parent]; before != nil && before.Frame == cp.Frame {
		delete(l.root.heads, cp.Parent)
	}
	l.root.heads[cp.N] = cp
}
