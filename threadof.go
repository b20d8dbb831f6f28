package pawl

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/pawl-dev/pawl/internal/core"
)

// ThreadOf is a Thread of a graph over state S. It holds the Thread in a field and embeds nothing: each state of a program
// would be compiled with a copy of every method of Thread, also of those that the package keeps to itself.
type ThreadOf[S any] struct {
	Thread *Thread // the same thread, without its types
	def    *def[S]
}

// Thread returns the typed handle of a thread, and registers the graph with the engine.
func (g *Graph[S]) Thread(e *Engine, id string) *ThreadOf[S] {
	t := &ThreadOf[S]{Thread: e.Thread(g.Name(), id), def: g.def}
	t.Thread.fault = e.Register(g)
	return t
}

// OutcomeOf is an Outcome with its state decoded; in it, private channels and those that are no [Builder.Output] hold nothing.
type OutcomeOf[S any] struct {
	Outcome
	State *S
}

func typed[S any](d *def[S], out *Outcome, err error) (*OutcomeOf[S], error) {
	if out == nil {
		return nil, err
	}
	state, bad := d.read(out)
	return &OutcomeOf[S]{Outcome: *out, State: state}, errors.Join(err, bad)
}

// Run starts a run with what the literal sets, and returns when it stops: err is nil for Done and Waiting only. Failed
// and Cancelled give the whole outcome and a *RunError.
func (t *ThreadOf[S]) Run(ctx context.Context, in *S, options ...RunOption) (*OutcomeOf[S], error) {
	cfg := configured(options)
	out, err := t.Thread.run(ctx, cfg, func(core.Def) ([]core.Write, error) {
		writes, err := t.def.layout.input(t.def.layout.literal(in))
		if err != nil {
			return nil, fmt.Errorf("the input cannot be read: %w", err)
		}
		cfg.held = t.def.layout.literally(in)
		return writes, nil
	})
	return typed(t.def, out, err)
}

// Resume goes on from the head: after answers, after a crash, and after a failure with the unfinished tasks only.
func (t *ThreadOf[S]) Resume(ctx context.Context, options ...RunOption) (*OutcomeOf[S], error) {
	out, err := t.Thread.Resume(ctx, options...)
	return typed(t.def, out, err)
}

// Retry starts a failed or cancelled run over: same input, fresh attempt, from the state before that input.
func (t *ThreadOf[S]) Retry(ctx context.Context, options ...RunOption) (*OutcomeOf[S], error) {
	out, err := t.Thread.Retry(ctx, options...)
	return typed(t.def, out, err)
}

// Fork moves the head to a new branch from an older point, with the changes that edit makes, and runs on.
func (t *ThreadOf[S]) Fork(ctx context.Context, at Point, edit func(*S) error, options ...RunOption) (*OutcomeOf[S], error) {
	out, err := t.Thread.fork(ctx, VerbFork, at, t.typedEdit(edit), configured(options))
	return typed(t.def, out, err)
}

// Replay is Fork without changes.
func (t *ThreadOf[S]) Replay(ctx context.Context, at Point, options ...RunOption) (*OutcomeOf[S], error) {
	out, err := t.Thread.Replay(ctx, at, options...)
	return typed(t.def, out, err)
}

// Edit changes the state at the head from outside and runs nothing. What is due stays due; tasks that did not finish
// start anew on Resume, see [Thread.Edit].
func (t *ThreadOf[S]) Edit(ctx context.Context, edit func(*S) error, options ...RunOption) (*OutcomeOf[S], error) {
	out, err := t.Thread.edit(ctx, t.typedEdit(edit), configured(options))
	return typed(t.def, out, err)
}

// typedEdit is a change by a function of the thread's own state.
func (t *ThreadOf[S]) typedEdit(edit func(*S) error) change {
	return func(d core.Def, values []*core.Value) ([]core.Write, error) {
		if edit != nil && d != core.Def(t.def) {
			return nil, errors.New("the state of a child is of another type; change it with JSON, by the Thread in this handle")
		}
		return t.def.edited(values, edit)
	}
}

// Read decodes the state of a snapshot.
func (t *ThreadOf[S]) Read(s *Snapshot) (*S, error) {
	return t.def.read(&Outcome{Values: s.Values, Thread: t.Thread.id})
}

// Stream is Run that tells what happens while it does. The last event is EventFinished with the outcome; an error is
// the last pair. Leaving the loop stops the run, waits for its tasks and keeps the thread resumable.
func (t *ThreadOf[S]) Stream(ctx context.Context, in *S, options ...RunOption) iter.Seq2[Event, error] {
	return Stream(ctx, func(ctx context.Context, tell RunOption) error {
		_, err := t.Run(ctx, in, append(options[:len(options):len(options)], tell)...)
		return err
	})
}

// ID is [Thread.ID].
func (t *ThreadOf[S]) ID() string { return t.Thread.ID() }

// State is [Thread.State].
func (t *ThreadOf[S]) State(ctx context.Context, in ...Path) (*ThreadState, error) {
	return t.Thread.State(ctx, in...)
}

// History is [Thread.History].
func (t *ThreadOf[S]) History(ctx context.Context, page Page) ([]*Snapshot, error) {
	return t.Thread.History(ctx, page)
}

// Snapshot is [Thread.Snapshot].
func (t *ThreadOf[S]) Snapshot(ctx context.Context, checkpoint string) (*Snapshot, error) {
	return t.Thread.Snapshot(ctx, checkpoint)
}

// Runs is [Thread.Runs].
func (t *ThreadOf[S]) Runs(ctx context.Context) ([]RunInfo, error) { return t.Thread.Runs(ctx) }

// Watch is [Thread.Watch].
func (t *ThreadOf[S]) Watch(ctx context.Context, after int64) iter.Seq2[Event, error] {
	return t.Thread.Watch(ctx, after)
}

// Answer is [Thread.Answer].
func (t *ThreadOf[S]) Answer(ctx context.Context, question string, value any, options ...RunOption) (*Verdict, error) {
	return t.Thread.Answer(ctx, question, value, options...)
}

// Cancel is [Thread.Cancel].
func (t *ThreadOf[S]) Cancel(ctx context.Context, reason string) error {
	return t.Thread.Cancel(ctx, reason)
}

// Delete is [Thread.Delete].
func (t *ThreadOf[S]) Delete(ctx context.Context, options ...RunOption) error {
	return t.Thread.Delete(ctx, options...)
}

// Copy is [Thread.Copy].
func (t *ThreadOf[S]) Copy(ctx context.Context, to string, at Point, options ...RunOption) (*Thread, error) {
	return t.Thread.Copy(ctx, to, at, options...)
}

// EditAs is [Thread.EditAs].
func (t *ThreadOf[S]) EditAs(ctx context.Context, steps [][]TaskEdit, options ...RunOption) (*Outcome, error) {
	return t.Thread.EditAs(ctx, steps, options...)
}

// Prune is [Thread.Prune].
func (t *ThreadOf[S]) Prune(ctx context.Context, keep Keep, options ...RunOption) (*Pruned, error) {
	return t.Thread.Prune(ctx, keep, options...)
}

// Migrate is [Thread.Migrate].
func (t *ThreadOf[S]) Migrate(ctx context.Context, options ...RunOption) (*Migrated, error) {
	return t.Thread.Migrate(ctx, options...)
}

// MigrateBack is [Thread.MigrateBack].
func (t *ThreadOf[S]) MigrateBack(ctx context.Context, options ...RunOption) (*Migrated, error) {
	return t.Thread.MigrateBack(ctx, options...)
}

// Force is [Thread.Force].
func (t *ThreadOf[S]) Force(ctx context.Context, options ...RunOption) (*Migrated, error) {
	return t.Thread.Force(ctx, options...)
}

// PreviewResume is [Thread.PreviewResume].
func (t *ThreadOf[S]) PreviewResume(ctx context.Context) (*Preview, error) {
	return t.Thread.PreviewResume(ctx)
}

// PreviewFork is [Thread.PreviewFork].
func (t *ThreadOf[S]) PreviewFork(ctx context.Context, at Point) (*Preview, error) {
	return t.Thread.PreviewFork(ctx, at)
}

// PreviewVerb is [Thread.PreviewVerb].
func (t *ThreadOf[S]) PreviewVerb(ctx context.Context, verb Verb) (*Preview, error) {
	return t.Thread.PreviewVerb(ctx, verb)
}

// PreviewMigrate is [Thread.PreviewMigrate].
func (t *ThreadOf[S]) PreviewMigrate(ctx context.Context) (*Migrated, error) {
	return t.Thread.PreviewMigrate(ctx)
}

// PreviewForce is [Thread.PreviewForce].
func (t *ThreadOf[S]) PreviewForce(ctx context.Context) (*Migrated, error) {
	return t.Thread.PreviewForce(ctx)
}
