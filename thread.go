package pawl

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/local"
)

// Thread is a handle to one durable history, without its types: JSON in, JSON out. It is cheap, holds no state and is
// safe for concurrent use. One run at a time: another is refused with a *VerbError that matches ErrBusy.
type Thread struct {
	eng   *Engine
	graph string
	id    string
	fault error // why the graph could not be registered: what the verbs that need its code answer
}

// Thread returns the handle of a thread of a graph. Nothing is read or made. With an empty graph name it serves the
// doors that need no code: reading, answering, cancelling and deleting.
func (e *Engine) Thread(graph, id string) *Thread { return &Thread{eng: e, graph: graph, id: id} }

// ID is the thread's id.
func (t *Thread) ID() string { return t.id }

// Run starts a run with a JSON object: its members are written to the channels of their names. Unknown names and
// values that do not fit are refused.
func (t *Thread) Run(ctx context.Context, input json.RawMessage, options ...RunOption) (*Outcome, error) {
	return t.run(ctx, configured(options), func(d core.Def) ([]core.Write, error) { return d.(jsonDef).input(input) })
}

// Stream is Run that tells what happens while it does.
func (t *Thread) Stream(ctx context.Context, input json.RawMessage, options ...RunOption) iter.Seq2[Event, error] {
	return Stream(ctx, func(ctx context.Context, tell RunOption) error {
		_, err := t.Run(ctx, input, append(options[:len(options):len(options)], tell)...)
		return err
	})
}

// jsonDef is what a graph's erasure can do beyond core.Def.
type jsonDef interface {
	core.Def
	decode(doc []byte) ([]core.Write, error)
	input(doc []byte) ([]core.Write, error)
	encode(values []*core.Value) ([]byte, error)
	readable(values []*core.Value) error
	led(node string, values []*core.Value, next []Next) ([]core.Due, error)
}

func (d *def[S]) decode(doc []byte) ([]core.Write, error) {
	if !utf8.Valid(doc) { // encoding/json would put other letters in its place
		return nil, &InputError{errors.New("it is not valid UTF-8")}
	}
	writes, err := d.layout.decode(doc)
	if err != nil {
		return nil, &InputError{err}
	}
	return writes, nil
}

// input is decode for a run.
func (d *def[S]) input(doc []byte) ([]core.Write, error) { return d.layout.input(d.decode(doc)) }

// encode is what an outcome shows.
func (d *def[S]) encode(values []*core.Value) ([]byte, error) {
	return d.layout.encode(d.layout.output(values))
}

// readable decodes everything: what is stored and not of the program's types is found before anything runs on it.
func (d *def[S]) readable(values []*core.Value) error { return d.layout.load(new(S), values) }

// edited is what a function changed of a state.
func (d *def[S]) edited(values []*core.Value, edit func(*S) error) ([]core.Write, error) {
	if edit == nil {
		return nil, nil
	}
	s := new(S)
	g := newSeal("edit", nil)
	b := d.layout.bind(s, values, g)
	if err := edit(s); err != nil {
		return nil, err
	}
	if err := cmp.Or(g.Close(), b.tracked()); err != nil {
		return nil, err
	}
	return b.writes()
}

// read decodes an outcome's values into a state.
func (d *def[S]) read(out *Outcome) (*S, error) {
	s := new(S)
	if len(out.Values) == 0 {
		return s, nil
	}
	values, err := core.FromObject(&d.topology, out.Values)
	if err == nil {
		err = d.layout.loadWith(s, d.layout.current(values), out.held)
	}
	if err != nil {
		return nil, fmt.Errorf("pawl: thread %q: the state cannot be read: %w", out.Thread, err)
	}
	return s, nil
}

// code is the graph's own program, which verbs that run nodes need.
func (t *Thread) code() (core.Def, error) {
	if t.fault != nil {
		return nil, fmt.Errorf("pawl: thread %q: %w; nothing was done", t.id, t.fault)
	}
	d, ok := t.eng.graph(t.graph)
	if !ok {
		return nil, &NotFoundError{What: "graph", ID: t.graph, Thread: t.id, Hint: "register it with the engine, or use the program that has it"}
	}
	return d, nil
}

// identity goes into every task's id.
func (t *Thread) identity() string { return core.ID("thread", t.eng.tenant, t.id) }

func (t *Thread) newLoop(d core.Def, pos *core.Position, host core.Host, cfg *runConfig) *loop {
	l := &loop{
		def: d, topology: d.Topology(), host: host, pos: pos, thread: t.identity(), name: t.id, limits: t.eng.limits,
		atOnce: t.eng.opts.Concurrency, strict: t.eng.opts.Strict, sink: cfg.sink, late: t.eng.late,
		parts: t.eng.opts.Parts, breaks: breaksOf(d, pos.Run), waited: cfg.waited,
		superStepLimit: superStepOf(cfg.superStep, d), held: cfg.held,
	}
	if l.root = l; cfg.steps != nil {
		l.limits.Steps = *cfg.steps
	}
	return l
}

// starting notes the first checkpoints of a run and what they stand on, inside children too, for who streams it.
func (l *loop) starting(cps []*core.Checkpoint, on ...*core.Checkpoint) *loop {
	l.begun, l.on = cps, on
	return l
}

func (e *house) late(err error) {
	if e.opts.Logger != nil {
		e.opts.Logger.Warn("a write came after its node returned and did not happen", "error", err)
	}
}

// execute runs a claimed thread until it stops.
func (t *Thread) execute(ctx context.Context, l *loop, home *local.Home) (*Outcome, error) {
	within, leave, err := t.eng.enter(ctx, t.id, home.Run().N)
	if err != nil {
		return nil, errors.Join(err, home.Abandon(context.WithoutCancel(ctx)))
	}
	ctx = within
	said, unsay := t.eng.join(t.id)
	defer unsay()
	if l.live = said; l.sink != nil {
		l.tellStart(t.headAt(home.Run().Seq))
	}
	settled := false
	defer func() {
		if !settled { // a node ended this goroutine, or the engine failed: whoever comes next finds the thread crashed
			_ = home.Abandon(context.WithoutCancel(ctx))
		}
		leave()
	}()
	stop, cause, err := l.run(ctx)
	if err != nil {
		return nil, fmt.Errorf("pawl: thread %q: %w; what was stored before is kept: resume the thread", t.id, err)
	}
	settled = true
	return t.outcome(context.WithoutCancel(ctx), l, home.Run(), stop, cause)
}

// outcome describes how a run stopped, and makes the error that goes with it.
func (t *Thread) outcome(ctx context.Context, l *loop, run *core.Run, stop *core.Stop, cause error) (*Outcome, error) {
	out := &Outcome{
		Thread: t.id, Graph: l.topology.Graph, Run: run.ID, Attempt: run.Attempt, Status: stop.Status, Cause: stop.Cause,
		Reason: stop.Error, Node: stop.ErrorNode, Checkpoint: l.pos.Head.ID, Next: dueNames(l.pos.Head.Due),
		Superseded: l.superseded, Dropped: l.dropped, Unused: l.leftOver(), held: l.held, whole: l.pos.Head.Values,
	}
	values, err := l.def.(jsonDef).encode(l.pos.Head.Values)
	if err != nil {
		return out, fmt.Errorf("pawl: thread %q: the run stopped as %s and its state cannot be encoded: %w", t.id, stop.Status, err)
	}
	out.Values = values
	if t.eng.store != nil && stop.Status != Done && stop.Status != Cancelled {
		if out.Waiting, err = t.open(ctx); err != nil {
			return out, err
		}
	}
	switch {
	case stop.Status == Failed || stop.Status == Cancelled:
		e := runError(t.id, run.ID, out)
		e.Err = cause
		err = e
	default:
		for _, c := range l.superseded {
			if slices.Contains(l.delivered, c.Old.ID) {
				err = c // whoever brought the answer learns that it is not used
			}
		}
	}
	if l.sink != nil {
		stood := l.snapshot(l.pos.Head, "", 0)
		if stop.Seq > 0 {
			stood = t.headAt(stop.Seq)
		}
		l.sink(Event{
			Kind: EventFinished, Seq: stop.Seq, At: time.Now().UTC(), Run: run.ID, Attempt: run.Attempt,
			State: string(stop.Status), Node: stop.ErrorNode, Error: stop.Error, Outcome: out, snapshot: stood,
		})
	}
	return out, err
}

func runError(thread, run string, out *Outcome) *RunError {
	return &RunError{Thread: thread, Run: run, Status: out.Status, Cause: out.Cause, Node: out.Node, Reason: out.Reason}
}

func dueNames(due []core.Due) []string {
	var out []string
	for _, d := range due {
		out = append(out, d.Node)
	}
	return out
}
