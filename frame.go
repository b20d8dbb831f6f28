package pawl

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/pawl-dev/pawl/internal/core"
)

// A child is run by the same loop as its parent, on the same host: a loop under a task. What it commits names its frame,
// and what hangs from its checkpoints is kept by their numbers, which the whole thread shares.

// kids is what a task knows of its children.
type kids struct {
	nested    map[string]*core.Position // their runs, by address
	loops     []*loop                   // those that this entry called
	held      []string                  // names of those that this entry waits for
	inside    []string                  // paths of the nodes that ran in them
	remembers map[string]int64          // by name: the checkpoint that one goes on from, where this entry ran it
	busy      map[string]bool           // those that remember and run now
}

// family is what the task knows of its children, from the first one on. The caller holds t.mu, or is alone.
func (t *Task) family() *kids {
	if t.kids == nil {
		t.kids = &kids{nested: map[string]*core.Position{}}
	}
	return t.kids
}

// calling is one call of a child without its types.
type calling struct {
	name, key string
	def       core.Def
	input     func() ([]core.Write, error)
	held      func() map[string]any // live values that come with the input, as far as it is made
}

// child runs a child of the task until it stops, from where it stands, and returns its loop once it is done.
func (s *scope) child(ctx context.Context, c calling) (*loop, error) {
	t := s.task
	kind, known := t.loop.topology.Child(c.name)
	def, _ := t.loop.def.Child(c.name)
	if !t.policy.Uses[c.name] || !known || def != c.def {
		return nil, t.fail(&UndeclaredError{Node: t.spec.Node, Name: c.name})
	}
	address := core.Address{Task: t.spec.ID, Path: s.path, Kind: "child", Name: c.name, Key: c.key}
	id, err := t.book(s, address)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	pos := t.family().nested[id]
	t.mu.Unlock()
	switch over := pos != nil && pos.Frame != nil && len(pos.Head.Due) == 0; {
	case !over && s.branch.isWaiting():
		return nil, ErrWaiting
	case !over && ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	l, err := s.loopOf(kind, c, id)
	if err != nil {
		return nil, err
	}
	defer t.release(l)
	l.waited = pos != nil && l.root.waited
	if l.pos = pos; pos != nil && pos.Frame != nil {
		l.frame = pos.Frame
	}
	if pos == nil || l.stateless {
		if err := l.open(ctx, c, pos); err != nil {
			return nil, err
		}
	} else {
		l.held = c.held()
	}
	t.mu.Lock()
	t.kids.nested[id] = l.pos
	t.kids.loops = append(t.kids.loops, l)
	t.mu.Unlock()
	return l, l.under.ran(ctx, s, l)
}

// ran runs a child's loop and takes its end into the task.
func (t *Task) ran(ctx context.Context, s *scope, l *loop) error {
	stop, cause, err := l.run(ctx)
	if err != nil {
		return t.fail(err)
	}
	if l.round != nil && (stop.Status != Done || l.stateless) {
		l.round.keepInside()
	}
	switch stop.Status {
	case Waiting:
		s.hold(l.child.Name)
		return ErrWaiting
	case Cancelled:
		return cause
	case Failed:
		return &ChildError{Child: l.child.Name, Path: l.path, Cause: stop.Cause, Err: cause}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, path := range l.pos.Head.Visited {
		t.kids.inside = append(t.kids.inside, l.child.Name+"|"+path)
	}
	if l.child.Mode == PerThread {
		t.kids.remembers[l.child.Name] = l.pos.Head.N
	}
	return nil
}

// loopOf makes the loop of a child that is called with an address.
func (s *scope) loopOf(kind *core.Child, c calling, address string) (*loop, error) {
	t, p := s.task, s.task.loop
	l := &loop{
		def: c.def, topology: c.def.Topology(), host: p.host, thread: p.thread, name: p.name, limits: p.limits, atOnce: p.atOnce,
		strict: p.strict, sink: p.sink, late: p.late, parts: p.parts, root: p.root, under: t, child: kind, address: address,
		path: t.spec.Path(), levels: append(slices.Clone(p.levels), core.Level{Child: c.name, Task: t.spec.ID}),
		stateless: kind.Mode == Stateless, frame: p.frame, in: s.path, breaks: breaksOf(c.def, nil),
		superStepLimit: superStepOf(0, c.def),
	}
	if kind.Mode != PerThread {
		return l, nil
	}
	if l.path = c.name; t.spec.Outer != "" {
		l.path = t.spec.Outer + "|" + c.name
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.kids.remembers == nil {
		t.kids.remembers, t.kids.busy = map[string]int64{}, map[string]bool{}
	}
	if t.kids.busy[c.name] {
		err := &ConflictError{Channel: kind.Memory(), Nodes: []string{t.spec.Node, t.spec.Node}, Tasks: []string{t.spec.ID}}
		t.failLocked(err)
		return nil, err
	}
	t.kids.busy[c.name] = true
	return l, nil
}

func (t *Task) release(l *loop) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l.child.Mode == PerThread {
		delete(t.kids.busy, l.child.Name)
	}
}

// open begins a run of the child: with its input on top of what it remembers, if it does. before is what an earlier
// entry left in the journal of a child that keeps nothing else.
func (l *loop) open(ctx context.Context, c calling, before *core.Position) error {
	input, err := c.input()
	if err != nil {
		return fmt.Errorf("child %q was not started: %w", c.name, err)
	}
	l.held = c.held()
	for _, w := range input {
		if err := core.CheckSize(fmt.Sprintf("node %q: the input of child %q, channel %q", l.under.spec.Node, c.name, w.Channel), w.Data); err != nil {
			return err
		}
	}
	t, run := l.under, l.under.loop.pos.Run
	l.pos, l.input = &core.Position{Run: run}, input
	first := &core.Checkpoint{
		Step: -1, Source: core.SourceInput, Run: run.N, Graph: len(run.Graphs) - 1, Due: []core.Due{{Node: core.Start}},
		Values: make([]*core.Value, len(l.topology.Channels)),
	}
	if l.stateless {
		if before != nil {
			l.pos.Steps, l.pos.Questions, l.pos.Children = before.Steps, before.Questions, before.Children
		}
		first.N, first.ID = t.cp, core.ID("stateless", t.spec.ID, l.address, core.HashWrites(input))
		cps := l.opening(ctx, first)
		if l.sink != nil {
			l.tellFirst(cps)
		}
		return nil
	}
	f := &core.Frame{
		Parent: l.under.loop.frame, Under: l.levels, Key: c.key, Mode: l.child.Mode, Path: l.path, Checkpoint: t.cp,
		Node: t.spec.Node, Address: l.address, In: l.in, Input: input,
	}
	if l.child.Mode == PerThread {
		had, err := l.memory(ctx, t.remembered(l.child))
		if err != nil {
			return err
		}
		if had != nil {
			f.Before, first.Parent, first.Step, first.Values = had.N, had.N, had.Step+1, had.Values
			l.before = had.ID
		}
	}
	l.frame, l.pos.Frame, first.Frame = f, f, f
	first.N, first.ID = l.fresh()
	f.N = first.N
	commit := core.Commit{Next: first, Lazy: true}
	cps := l.opening(ctx, first)
	if len(cps) > 1 {
		commit.First, commit.Next = first, cps[1]
	}
	if err := l.commit(ctx, commit); err != nil || l.sink == nil {
		return err
	}
	l.tellFirst(cps) // stored with what comes next: who streams is told at once
	return nil
}

func (l *loop) tellFirst(cps []*core.Checkpoint) {
	for _, cp := range cps {
		l.tellCheckpoint(cp, l.before, 0)
		l.before = cp.ID
	}
}

// opening makes the first checkpoints of a run: the input, and, if the graph's first routes allow, the first real
// snapshot. A route that fails is left to the loop, which reports it.
func (l *loop) opening(ctx context.Context, first *core.Checkpoint) []*core.Checkpoint {
	sink := l.sink
	l.sink, l.pos.Head = nil, first
	defer func() { l.sink = sink }()
	r := l.begin(core.Plan(first, l.thread, l.path))
	r.runOne(ctx, 0)
	if r.tasks[0].state != done {
		return []*core.Checkpoint{first}
	}
	results := r.results
	next, err := core.Apply(first, l.topology, l.def.Fold, results)
	if err != nil {
		return []*core.Checkpoint{first}
	}
	l.number(next, results)
	l.pos.Head, next.Quiet = next, len(results[0].Writes) == 0
	return []*core.Checkpoint{first, next}
}

// number gives the checkpoint that follows the head its number and id. A child that keeps no checkpoints has the same
// ids whenever it does the same, so that it finds its journal.
func (l *loop) number(next *core.Checkpoint, results []core.Result) {
	if l.stateless {
		next.N, next.ID = l.pos.Head.N, core.MergedID(l.pos.Head.ID, results)
		return
	}
	next.N, next.ID = l.fresh()
}

// remembered is the checkpoint on which a child that remembers starts next; 0: none.
func (t *Task) remembered(c *core.Child) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := t.kids.remembers[c.Name]; n > 0 {
		return n
	}
	return core.PointedAt(t.loop.pos.Head.Values[t.loop.topology.Channel(c.Memory())])
}

// memory reads a checkpoint that a child remembers: of this process's run, or stored. Its values are copies, since
// several may go on from it.
func (l *loop) memory(ctx context.Context, n int64) (*core.Checkpoint, error) {
	if n == 0 {
		return nil, nil
	}
	if l.host == nil {
		l.root.mu.Lock()
		defer l.root.mu.Unlock()
		return l.root.heads[n].Copy(), nil
	}
	h, ok := l.host.(core.Memory)
	if !ok {
		return nil, fmt.Errorf("child %q remembers, and this home keeps no memory of children; nothing was run", l.child.Name)
	}
	return h.Checkpoint(context.WithoutCancel(ctx), n, l.def)
}

// memories are the writes by which the parent's state leads to what its children remember.
func (t *Task) memories() []core.Write {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []core.Write
	for i := range t.loop.topology.Children {
		c := &t.loop.topology.Children[i]
		if n := t.kids.remembers[c.Name]; n > 0 {
			out = append(out, core.PointTo(c.Memory(), n))
		}
	}
	return out
}

// added is what the run of a child that is done added.
func (l *loop) added(ctx context.Context) ([]*core.Value, error) {
	start := &core.Checkpoint{Values: make([]*core.Value, len(l.topology.Channels))}
	input := l.input
	if l.pos.Frame != nil {
		input = l.pos.Frame.Input
		had, err := l.memory(ctx, l.pos.Frame.Before)
		if err != nil {
			return nil, err
		}
		if had != nil {
			start.Values = had.Values
		}
	}
	began, err := core.Apply(start, l.topology, l.def.Fold, []core.Result{{Task: core.Task{Node: core.Start}, Writes: slices.Clone(input)}})
	if err != nil {
		return nil, err
	}
	return core.Added(l.topology, began.Values, l.pos.Head.Values)
}

// journal finds what was journaled for a task. A child that keeps no checkpoints has its journal where its parent's is.
func (l *loop) journal(task string) (steps []core.Step, asked []core.Question, children []*core.Position) {
	for at := l; ; at = at.under.loop {
		p := at.pos
		if steps == nil {
			steps = p.Steps[task]
		}
		if asked == nil {
			asked = p.Questions[task]
		}
		if children == nil {
			children = p.Children[task]
		}
		if !at.stateless {
			return steps, asked, children
		}
	}
}

// keepInside notes in the child's position what its tasks did, for a later entry of the parent's node in this process.
func (r *round) keepInside() {
	p := r.loop.pos
	if p.Steps == nil {
		p.Steps, p.Questions = map[string][]core.Step{}, map[string][]core.Question{}
	}
	if p.Children == nil {
		p.Children = map[string][]*core.Position{}
	}
	for i := range r.tasks {
		a := &r.tasks[i]
		id := a.task.spec.ID
		p.Steps[id], p.Questions[id], p.Children[id] = nil, nil, nil
		for _, s := range a.task.steps {
			p.Steps[id] = append(p.Steps[id], *s)
		}
		for _, q := range a.task.asked {
			p.Questions[id] = append(p.Questions[id], *q)
		}
		if a.task.kids != nil {
			p.Children[id] = slices.Collect(maps.Values(a.task.kids.nested))
		}
		if a.state == done && !a.known && !r.loop.stateless {
			a.known = true
			p.Ended = append(p.Ended, core.Ended{Checkpoint: p.Head.N, Result: *a.result})
		}
	}
}

// hold notes that a child of the branch waits.
func (s *scope) hold(child string) {
	s.task.mu.Lock()
	defer s.task.mu.Unlock()
	s.task.kids.held = append(s.task.kids.held, child)
	s.branch.waiting.Store(true)
}

// failing are the open questions of the tasks that failed in the task's children.
func (t *Task) failing() []core.Question {
	var out []core.Question
	if t.kids == nil {
		return nil
	}
	for _, l := range t.kids.loops {
		if l.round == nil {
			continue
		}
		for i := range l.round.tasks {
			if a := &l.round.tasks[i]; a.state == failing {
				out = append(out, a.task.openQuestions()...)
			}
		}
	}
	return out
}

// stillAsked are all questions in the positions of a task's children that still wait for somebody.
func stillAsked(children []*core.Position, out []*core.Question) []*core.Question {
	for _, p := range children {
		for _, asked := range p.Questions {
			for i := range asked {
				if s := asked[i].State; s == core.QuestionOpen || s == core.QuestionSubmitted {
					out = append(out, &asked[i])
				}
			}
		}
		for _, inner := range p.Children {
			out = stillAsked(inner, out)
		}
	}
	return out
}

// askedTooDeep names the graph around a child that allows questions at its top level only; empty: none does.
func (l *loop) askedTooDeep() string {
	for at := l.under; at != nil; at = at.loop.under {
		if at.loop.topology.AskAtTop {
			return at.loop.topology.Graph
		}
	}
	return ""
}
