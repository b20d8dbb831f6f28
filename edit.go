package pawl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/local"
)

// Edit writes a JSON object's members to the channels at the head, from outside. What is due stays due and what
// finished in the unfinished super-step is kept. Tasks that did not finish start anew on Resume: their open questions
// are withdrawn and asked again, their steps are called again, children that they began begin anew, answers that they
// were given are not used but listed in Outcome.Unused, and what such children had finished in Outcome.Dropped. With [In]
// a child is edited, and keeps what finished in it. A run that was cancelled or concluded stays so.
//
// A thread that does not exist is made by its first edit. Nobody ran it, so it is [StatusNew]: nothing is due, and Run
// goes on from the edited values.
func (t *Thread) Edit(ctx context.Context, changes []byte, options ...RunOption) (*Outcome, error) {
	return t.edit(ctx, t.changes(changes), configured(options))
}

type change func(d core.Def, values []*core.Value) ([]core.Write, error)

func (t *Thread) changes(doc []byte) change {
	return func(d core.Def, _ []*core.Value) ([]core.Write, error) { return d.(jsonDef).decode(doc) }
}

func (t *Thread) edit(ctx context.Context, edit change, cfg *runConfig) (_ *Outcome, err error) {
	defer t.eng.refused(ctx, t.info(ctx, VerbEdit), &err)
	d, err := t.ready(ctx, VerbEdit, cfg)
	if err == nil {
		err = t.named("")
	}
	if err == nil && cfg.from != nil {
		err = fmt.Errorf("pawl: thread %q: edit takes no From option; nothing was done; use Fork", t.id)
	}
	if err != nil {
		return nil, err
	}
	return t.claiming(ctx, VerbEdit, func() (*Outcome, error) {
		v, err := t.look(ctx, d, nil)
		if err != nil {
			return nil, err
		}
		if err := t.legal(VerbEdit, v, cfg); err != nil {
			return nil, err
		}
		if v.Info == nil {
			v.Run, v.from = t.unrun(ctx, d, cfg)
		} else if v.from == nil || v.from.Run != v.Run.N {
			return nil, &VerbError{Verb: VerbEdit, Thread: t.id, Status: v.Status, Advice: "nothing was saved of this run yet: resume it first"}
		}
		if cfg.in != "" {
			return t.editIn(ctx, d, v, edit, cfg)
		}
		writes, err := edit(d, v.from.Values)
		if err != nil {
			return nil, fmt.Errorf("pawl: thread %q: edit: %w; nothing was changed", t.id, err)
		}
		return t.writeEdit(ctx, d, v, writes, cfg)
	})
}

// unrun is what the first edit of a thread goes on from: nothing, as the place of a run that nobody started.
func (t *Thread) unrun(ctx context.Context, d core.Def, cfg *runConfig) (*core.Run, *core.Checkpoint) {
	run := &core.Run{
		N: 1, ID: uuid.NewString(), AttemptN: 1, Attempt: uuid.NewString(), Kind: core.RunEdit, Status: StatusNew,
		Mode: cmp.Or(cfg.mode, t.eng.opts.Durability), InputHash: core.HashWrites(nil), Actor: ActorFrom(ctx).ID,
		Accepted: time.Now().UTC(), Reason: cfg.reason,
	}
	return run, blank(d)
}

// blank is what stands before the first checkpoint of a thread.
func blank(d core.Def) *core.Checkpoint {
	return &core.Checkpoint{Step: -1, Values: make([]*core.Value, len(d.Topology().Channels))}
}

// writeEdit stores the edit's checkpoint, and under it what had finished beside what is due.
func (t *Thread) writeEdit(ctx context.Context, d core.Def, v *view, writes []core.Write, cfg *runConfig) (*Outcome, error) {
	run := *v.Run
	if err := t.ontoGraph(v, &run, d); err != nil {
		return nil, err
	}
	values, err := t.withEdits(d, v.from, writes)
	if err != nil {
		return nil, err
	}
	home := t.home(v, d)
	cp := &core.Checkpoint{
		Parent: v.from.N, Step: v.from.Step + 1, Source: core.SourceEdit, Run: run.N, Graph: len(run.Graphs) - 1, Values: values,
		Due: v.from.Due, Later: v.from.Later, Joins: v.from.Joins, Visited: v.from.Visited,
	}
	cp.N, cp.ID = home.Fresh()
	b := local.Batch{
		Graph: d.Topology(), Runs: []*core.Run{&run}, Checkpoints: []*core.Checkpoint{cp}, Withdraw: len(v.Open) > 0,
		Stop: afterEdit(v, len(cp.Due)), Do: t.eng.consenting(t.of(ctx, VerbEdit, &run, cfg.reason)),
	}
	if v.Info == nil {
		b.Do = t.flowing(run.Version(), b.Do)
	}
	if b.Ended, err = t.carried(d, v.from, v.pos.Ended, cp); err != nil {
		return nil, err
	}
	if err := home.Claim(ctx, v.Seen, &run, b); err != nil {
		return nil, err
	}
	l := t.newLoop(d, &core.Position{Run: &run, Head: cp}, home, cfg)
	l.unused, l.dropped = v.given(), v.pos.FinishedInside()
	return t.edited(ctx, l, &run, b.Stop)
}

// given are answers to tasks of the head that did not end: they ask anew, or do not run any more.
func (v *view) given() (out []*core.Question) {
	for task, asked := range v.pos.Questions {
		if slices.ContainsFunc(v.pos.Ended, func(e core.Ended) bool { return !e.Failed && e.Result.Task.ID == task }) {
			continue
		}
		for i := range asked {
			if q := &asked[i]; q.State == core.QuestionAnswered || q.State == core.QuestionSubmitted {
				out = append(out, q)
			}
		}
	}
	return out
}

// edited is the outcome of an edit: how the run stands is no failure of it.
func (t *Thread) edited(ctx context.Context, l *loop, run *core.Run, stop *core.Stop) (*Outcome, error) {
	out, err := t.outcome(ctx, l, run, stop, nil)
	if how := (*RunError)(nil); errors.As(err, &how) {
		return out, nil
	}
	return out, err
}

// carried moves results of finished siblings to the edit's checkpoint, so that an edit loses no finished work.
func (t *Thread) carried(d core.Def, from *core.Checkpoint, ended []core.Ended, cp *core.Checkpoint) ([]*core.Ended, error) {
	path := ""
	if cp.Frame != nil {
		path = cp.Frame.Path
	}
	before, after := core.Plan(from, t.identity(), path), core.Plan(cp, t.identity(), path)
	var out []*core.Ended
	for i := range before {
		for _, e := range ended {
			if e.Failed || e.Result.Task.ID != before[i].ID {
				continue
			}
			e.Checkpoint, e.Result.Task = cp.N, after[i]
			e.Result.Writes = slices.Clone(e.Result.Writes)
			for w := range e.Result.Writes {
				e.Result.Writes[w].Value = nil
			}
			if err := core.Adopt(cp, d.Topology(), &e.Result); err != nil {
				return nil, err
			}
			e.Again, e.Before = true, nil
			out = append(out, &e)
		}
	}
	return out, nil
}

// withEdits merges outside changes like the writes of one task; what they do not touch stays, ephemeral values too.
func (t *Thread) withEdits(d core.Def, from *core.Checkpoint, edits []core.Write) ([]*core.Value, error) {
	if len(edits) == 0 {
		return from.Values, nil
	}
	res := core.Result{Task: core.Task{Node: core.Start}, Writes: slices.Clone(edits)}
	merged, err := core.Apply(&core.Checkpoint{Values: from.Values}, d.Topology(), d.Fold, []core.Result{res})
	if err != nil {
		return nil, fmt.Errorf("pawl: thread %q: %w; nothing was changed", t.id, err)
	}
	values := slices.Clone(from.Values)
	for _, w := range edits {
		c := d.Topology().Channel(w.Channel)
		values[c] = merged.Values[c]
	}
	return values, nil
}
