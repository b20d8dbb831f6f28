package pawl

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/local"
)

// TaskEdit says what one task of a super-step did that never ran here: a node done by hand, or a run of another system.
type TaskEdit struct {
	// Node that is said to have ended well. [Start] is the input of a new run, [End] the end of one that is given up.
	Node string
	// Changes are members of the state's JSON object, which are merged like the writes of a node. Empty: it wrote nothing.
	Changes json.RawMessage
	// Next is where the node led with Goto, among its Targets.
	Next []Next

	edit change // by a function of the state, in place of Changes
}

// As is a TaskEdit by a function of the state, which sees what the node would have.
func (g *Graph[S]) As(node string, edit func(*S) error, next ...Next) TaskEdit {
	return TaskEdit{Node: node, Next: next, edit: func(d core.Def, values []*core.Value) ([]core.Write, error) {
		if d != core.Def(g.def) {
			return nil, fmt.Errorf("the edit of node %q is of graph %q", node, g.Name())
		}
		return g.def.edited(values, edit)
	}}
}

// From makes EditAs go on from an older point, like Fork: on a new branch, whose first checkpoint is the fork's. With
// [Beside] that is another version of the point, whose tasks came to what the edits say.
func From(at Point) RunOption { return func(c *runConfig) { c.from = &at } }

// TaskEditError refuses a list of edits. Nothing was changed.
type TaskEditError struct {
	Thread string
	Step   int // the super-step of the list, from 1; 0: the list
	Node   string
	Reason string
	Err    error
}

// Error says what was refused, and why.
func (e *TaskEditError) Error() string {
	s := fmt.Sprintf("pawl: thread %q: edit", e.Thread)
	if e.Step > 0 {
		s += fmt.Sprintf(" of super-step %d", e.Step)
	}
	if e.Node != "" {
		s += fmt.Sprintf(" as node %q", e.Node)
	}
	if e.Reason != "" {
		s += ": " + e.Reason
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s + "; nothing was changed"
}

// Unwrap returns the cause.
func (e *TaskEditError) Unwrap() error { return e.Err }

// EditAs writes super-steps from outside, as if the named nodes had run: their writes are merged, their edges, joins and
// routes are followed once, and each super-step is a checkpoint. All of it is one Update, or nothing. No node runs; the
// thread then waits for Resume, unless nothing is due. A thread may be new.
//
// What had finished in the unfinished super-step is part of the first one, unless it is edited. What else was due and is
// not named does not run: it is in Outcome.Dropped, its open questions are withdrawn, and answers that it was given are in
// Outcome.Unused. Of several tasks of one worker the
// edits are those of the first ones, in the order of sending.
//
// An edit as Start begins a run, alone in its super-step, where nothing is due; the run before is then over. An edit as
// End gives a run up, alone in its super-step and without changes: what had finished is merged, nothing is due any more,
// and the run is done unless it was cancelled or concluded.
func (t *Thread) EditAs(ctx context.Context, steps [][]TaskEdit, options ...RunOption) (_ *Outcome, err error) {
	cfg := configured(options)
	defer t.eng.refused(ctx, t.info(ctx, VerbEdit), &err)
	d, err := t.ready(ctx, VerbEdit, cfg)
	if err != nil {
		return nil, err
	}
	if err := t.wellFormed(steps, d, cfg); err != nil {
		return nil, err
	}
	if slices.ContainsFunc(steps, begins) { // who may edit may not therefore start a run
		if err := t.eng.allowed(ctx, VerbInfo{Verb: VerbRun, Graph: t.graph, Thread: t.id}); err != nil {
			return nil, err
		}
	}
	return t.claiming(ctx, VerbEdit, func() (*Outcome, error) {
		w, err := t.rewriting(ctx, d, cfg)
		if err != nil {
			return nil, err
		}
		for i, edits := range steps {
			if err := w.superStep(ctx, i+1, edits); err != nil {
				return nil, err
			}
		}
		return w.save(ctx)
	})
}

func begins(edits []TaskEdit) bool { return len(edits) == 1 && edits[0].Node == Start }

func givesUp(edits []TaskEdit) bool { return len(edits) == 1 && edits[0].Node == End }

// wellFormed refuses what can be refused without looking at the thread.
func (t *Thread) wellFormed(steps [][]TaskEdit, d core.Def, cfg *runConfig) error {
	refuse := func(step int, node, reason string) error {
		return &TaskEditError{Thread: t.id, Step: step, Node: node, Reason: reason}
	}
	if cfg.in != "" {
		return refuse(0, "", "it takes no In option: edit a child by its own state")
	}
	if err := t.named(""); err != nil {
		return err
	}
	if len(steps) == 0 {
		return refuse(0, "", "there are no super-steps")
	}
	for i, edits := range steps {
		if len(edits) == 0 {
			return refuse(i+1, "", "it has no edits")
		}
		for k, e := range edits {
			switch _, known := d.Topology().Node(e.Node); {
			case e.Node == "":
				return refuse(i+1, "", fmt.Sprintf("edit %d names no node", k+1))
			case e.Node == Start || e.Node == End:
				if why := e.atAnEnd(len(edits) == 1, cfg); why != "" {
					return refuse(i+1, e.Node, why)
				}
			case !known:
				return &NotFoundError{What: "node", ID: e.Node, Thread: t.id, Hint: fmt.Sprintf("an edit is as a node of graph %q, as pawl.Start or as pawl.End", t.graph)}
			}
		}
	}
	return nil
}

// atAnEnd says what is wrong with an edit as the start or the end of a run; empty: nothing.
func (e *TaskEdit) atAnEnd(alone bool, cfg *runConfig) string {
	switch {
	case e.Node == Start && !alone:
		return "an input stands alone in its super-step"
	case e.Node == Start && len(e.Next) > 0:
		return "an input leads where the graph's edges and routes lead, not to a Next"
	case e.Node == Start:
	case !alone:
		return "the end stands alone in its super-step: what was done by hand is in one before it"
	case e.edit != nil || len(e.Changes) > 0 || len(e.Next) > 0:
		return "the end writes nothing and leads nowhere: what was done by hand is in a super-step before it"
	case cfg.from != nil:
		return "a run is given up where it stands, not on a branch from an older point: leave From out"
	}
	return ""
}

// rewrite is an EditAs in the making.
type rewrite struct {
	t       *Thread
	d       core.Def
	v       *view
	cfg     *runConfig
	home    *local.Home
	run     *core.Run        // the newest; nil: there is none yet
	head    *core.Checkpoint // nil: there is none yet
	ended   []core.Ended     // beside what is due at the head
	fresh   bool             // the run begins here
	batch   local.Batch
	dropped []string
}

// rewriting looks where the thread stands, or makes the branch that the edits go on.
func (t *Thread) rewriting(ctx context.Context, d core.Def, cfg *runConfig) (*rewrite, error) {
	if cfg.from != nil {
		return t.rewritingFrom(ctx, d, cfg)
	}
	v, err := t.look(ctx, d, nil)
	if err != nil {
		return nil, err
	}
	if err := t.legal(VerbEdit, v, cfg); err != nil {
		return nil, err
	}
	w := &rewrite{t: t, d: d, v: v, cfg: cfg, home: t.home(v, d), head: v.from}
	if v.Status == StatusNew { // nobody ran it: the first super-step begins a run
		return w, nil
	}
	if v.from == nil || v.from.Run != v.Run.N {
		return nil, &VerbError{Verb: VerbEdit, Thread: t.id, Status: v.Status, Advice: "nothing was saved of this run yet: resume it first"}
	}
	run := *v.Run
	w.run, w.ended = &run, v.pos.Ended
	return w, nil
}

func (t *Thread) rewritingFrom(ctx context.Context, d core.Def, cfg *runConfig) (*rewrite, error) {
	v, run, err := t.leaving(ctx, VerbFork, *cfg.from, d, cfg)
	if err != nil {
		return nil, err
	}
	if len(v.way) > 0 {
		return nil, &PointError{Thread: t.id, Wanted: "checkpoint to edit from that is the thread's own: " + cfg.from.String() + " is of a child"}
	}
	home := t.home(v, d)
	run.N = home.NewRun()
	pos, cps, err := t.branches(d, home, run, v)
	if err != nil {
		return nil, err
	}
	w := &rewrite{t: t, d: d, v: v, cfg: cfg, home: home, run: run, head: pos.Head, fresh: true}
	w.batch.Runs, w.batch.Checkpoints = []*core.Run{run}, cps
	return w, nil
}

// begin makes a run with an input.
func (w *rewrite) begin(ctx context.Context, input []core.Write) {
	w.run = &core.Run{
		ID: uuid.NewString(), AttemptN: 1, Attempt: uuid.NewString(), Kind: core.RunInput, Mode: cmp.Or(w.cfg.mode, w.t.eng.opts.Durability),
		Status: core.StatusRunning, Input: input, InputHash: core.HashWrites(input), Actor: ActorFrom(ctx).ID,
		Accepted: time.Now().UTC(), Reason: w.cfg.reason, N: w.home.NewRun(),
	}
	if w.fresh = true; w.head != nil {
		w.run.Before = w.head.N
	}
	under(w.run, w.d)
	w.batch.Runs = append(w.batch.Runs, w.run)
}

// superStep adds what one super-step comes to.
func (w *rewrite) superStep(ctx context.Context, n int, edits []TaskEdit) error {
	if begins(edits) && (w.head == nil || !slices.Contains(dueNames(w.head.Due), Start)) {
		return w.input(ctx, n, &edits[0])
	}
	if givesUp(edits) && (w.head == nil || len(w.head.Due) == 0) {
		return &TaskEditError{Thread: w.t.id, Step: n, Node: End, Reason: "nothing is due, so there is no run to give up"}
	}
	if w.run == nil {
		w.begin(ctx, nil)
	} else if !w.fresh && len(w.batch.Runs) == 0 {
		if err := w.t.ontoGraph(w.v, w.run, w.d); err != nil {
			return err
		}
		w.batch.Runs = []*core.Run{w.run}
	}
	from := w.head
	if from == nil { // a thread on which nothing ran
		from = blank(w.d)
	}
	named := edits
	if givesUp(edits) {
		named = nil
	}
	results, told, err := w.results(n, from, named)
	if err != nil {
		return err
	}
	if w.fresh && begins(edits) { // a branch from an input that is due: of this run it is the edit's
		w.run.Input = slices.Clone(results[0].Writes)
		w.run.InputHash = core.HashWrites(w.run.Input)
	}
	next, err := core.Apply(from, w.d.Topology(), w.d.Fold, results)
	if err != nil {
		return &TaskEditError{Thread: w.t.id, Step: n, Err: err}
	}
	next.Merged = told
	next.Source, next.Run, next.Graph = core.SourceEdit, w.run.N, len(w.run.Graphs)-1
	if givesUp(edits) {
		w.dropped = append(w.dropped, from.Later...)
		next.Due, next.Later, next.Joins = nil, nil, nil
	}
	w.add(next)
	return nil
}

func (w *rewrite) add(next *core.Checkpoint) {
	if next.N == 0 {
		next.N, next.ID = w.home.Fresh()
	}
	w.batch.Checkpoints = append(w.batch.Checkpoints, next)
	w.head, w.ended = next, nil
}

// input begins a run, as Run does, up to its first snapshot.
func (w *rewrite) input(ctx context.Context, n int, e *TaskEdit) error {
	refuse := func(reason string, err error) error {
		return &TaskEditError{Thread: w.t.id, Step: n, Node: Start, Reason: reason, Err: err}
	}
	if w.head != nil && len(w.head.Due) > 0 {
		return refuse(fmt.Sprintf("a run begins where nothing is due, and here %q is", w.head.Due[0].Node), nil)
	}
	values := make([]*core.Value, len(w.d.Topology().Channels))
	if w.head != nil {
		values = w.head.Values
	}
	if w.run != nil {
		if _, cause := w.loop().ending(w.head); cause != nil {
			return refuse("the run before did not end well", cause)
		}
		w.run.Status = Done
	}
	input, err := e.writes(w.d, values)
	if err != nil {
		return refuse("", err)
	}
	w.begin(ctx, input)
	cps := w.t.start(ctx, w.d, w.home.Fresh, w.run, w.head, nil)
	if len(cps) < 2 {
		_, err := w.d.(jsonDef).led(Start, cps[0].Values, nil)
		return refuse("its routes failed", err)
	}
	for _, cp := range cps {
		w.add(cp)
	}
	return nil
}

// results are those of the named tasks and of those that had finished beside them, in the order in which they merge: as
// they are due, and behind them by name. told are those that were due and of which no row tells.
func (w *rewrite) results(n int, from *core.Checkpoint, edits []TaskEdit) (out, told []core.Result, err error) {
	due := core.Plan(from, w.t.identity(), "")
	results := make([]*core.Result, len(due))
	for _, e := range w.ended {
		if i := slices.IndexFunc(due, func(task core.Task) bool { return task.ID == e.Result.Task.ID }); i >= 0 && !e.Failed {
			results[i] = &e.Result
			results[i].Task = due[i]
		}
	}
	var beside []core.Result
	edited := map[int]bool{}
	for _, e := range edits {
		r, err := w.result(from, &e)
		if err != nil {
			return nil, nil, &TaskEditError{Thread: w.t.id, Step: n, Node: e.Node, Err: err}
		}
		i := slices.IndexFunc(due, func(task core.Task) bool { return task.Node == e.Node })
		for ; i >= 0 && i < len(due) && due[i].Node == e.Node && edited[i]; i++ {
		}
		if i >= 0 && i < len(due) && due[i].Node == e.Node {
			r.Task, results[i], edited[i] = due[i], r, true
			continue
		}
		place := core.Place{Thread: w.t.identity(), Checkpoint: from.ID, Step: from.Step + 1}
		r.Task = core.Task{ID: core.TaskID(place, e.Node, -1), Node: e.Node, Index: -1, Step: place.Step}
		beside = append(beside, *r)
	}
	for i, r := range results {
		if r == nil {
			w.dropped = append(w.dropped, due[i].Node)
			continue
		}
		if out = append(out, *r); edited[i] {
			told = append(told, *r)
		}
	}
	slices.SortStableFunc(beside, func(a, b core.Result) int { return cmp.Compare(a.Task.Node, b.Task.Node) })
	return append(out, beside...), told, nil
}

// result is what a node did, and where it leads.
func (w *rewrite) result(from *core.Checkpoint, e *TaskEdit) (*core.Result, error) {
	writes, err := e.writes(w.d, from.Values)
	if err != nil {
		return nil, err
	}
	after, err := w.t.withEdits(w.d, from, writes)
	if err != nil {
		return nil, err
	}
	next, err := w.d.(jsonDef).led(e.Node, after, e.Next)
	return &core.Result{Writes: writes, Next: next}, err
}

func (e *TaskEdit) writes(d core.Def, values []*core.Value) ([]core.Write, error) {
	switch {
	case e.edit != nil:
		return e.edit(d, values)
	case len(e.Changes) == 0:
		return nil, nil
	}
	return d.(jsonDef).decode(e.Changes)
}

func (w *rewrite) loop() *loop {
	return w.t.newLoop(w.d, &core.Position{Run: w.run, Head: w.head}, w.home, w.cfg)
}

// save writes all of it in one Update, and lets the thread go.
func (w *rewrite) save(ctx context.Context) (*Outcome, error) {
	t := w.t
	l := w.loop()
	stop := &core.Stop{Status: Waiting}
	if !w.fresh {
		stop = afterEdit(w.v, 1)
	}
	if stop.Status == Waiting && len(w.head.Due) == 0 {
		stop, _ = l.ending(w.head)
	}
	b := &w.batch
	b.Graph, b.Withdraw, b.Stop = w.d.Topology(), len(w.v.Open) > 0, stop
	b.Do = t.eng.consenting(t.of(ctx, VerbEdit, w.run, w.cfg.reason))
	if w.fresh {
		b.Do = t.flowing(w.run.Version(), b.Do)
	}
	if err := w.home.Claim(ctx, w.v.Seen, w.run, *b); err != nil {
		return nil, err
	}
	l.dropped = w.dropped
	if w.cfg.from == nil {
		l.unused, l.dropped = w.v.given(), append(l.dropped, w.v.pos.FinishedInside()...)
	}
	return t.edited(ctx, l, w.run, stop)
}

// led is where a node leads on a state with its writes: its routes, and next, which must be among its targets. Its edges
// are the topology's.
func (d *def[S]) led(node string, values []*core.Value, next []Next) (out []core.Due, err error) {
	n := d.nodes[node]
	g := newSeal(node, nil)
	defer func() {
		if v := recover(); v != nil {
			out, err = nil, &PanicError{Node: node, Value: v, Stack: debug.Stack()}
		}
		if refused := g.Close(); refused != nil {
			out, err = nil, refusal(refused, err)
		}
	}()
	s := new(S)
	b := d.layout.bind(s, values, g)
	g.Enter("route")
	if out, err = n.next(s, nil, d.workers); err == nil {
		r := route[S]{targets: n.gotos}
		out, err = r.take(node, next, out, d.workers)
	}
	_, err = written(b, err)
	return out, err
}
