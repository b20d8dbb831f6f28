package pawl

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/local"
	"github.com/pawl-dev/pawl/internal/records"
	"github.com/pawl-dev/pawl/storage"
)

// Point is a place in a thread's history.
type Point struct{ id, before string }

// Checkpoint is the point of one checkpoint, by id.
func Checkpoint(id string) Point { return Point{id: id} }

// Before is the newest checkpoint of the current branch at which the node was due.
func Before(node string) Point { return Point{before: node} }

// String shows the point to people.
func (p Point) String() string {
	if p.id != "" {
		return "checkpoint " + p.id
	}
	return fmt.Sprintf("the checkpoint before node %q", p.before)
}

// Beside makes the first checkpoint of a Fork, a Replay or an EditAs with [From] another version of the checkpoint that
// it leaves from: it stands beside that one, behind the same parent, in place of behind it. All else is the same, what is
// due, what is withdrawn, and that no effect is repeated. At a checkpoint of a child each checkpoint around it has such a
// version, too.
func Beside() RunOption { return func(c *runConfig) { c.beside = true } }

// PointError: there is no such point to go back to. Nothing was changed.
type PointError struct {
	Thread     string
	Wanted     string
	Durability Durability // of the current run
	Exists     []string   // checkpoints that there are, the newest first, at most 20
}

// Error says what was refused, and what to do.
func (e *PointError) Error() string {
	s := fmt.Sprintf("pawl: thread %q has no %s; nothing was changed", e.Thread, e.Wanted)
	if e.Durability == Exit {
		s += "; the run was saved at its end only (durability exit)"
	}
	return s + fmt.Sprintf("; checkpoints that exist (%d): %s", len(e.Exists), orNone(strings.Join(e.Exists, ", ")))
}

// Is makes errors.Is(err, ErrNotFound) true.
func (e *PointError) Is(target error) bool { return target == ErrNotFound }

// Fork moves the head to a new branch from an older point, with the changes of a JSON object, and runs on: steps and
// questions after that point happen again, the old branch stays as it is. Open questions are withdrawn.
// At a checkpoint of a child the changes are the child's: the thread goes on from the checkpoint around it, the child in it
// from that point, and what else was due around it runs again.
func (t *Thread) Fork(ctx context.Context, at Point, changes []byte, options ...RunOption) (*Outcome, error) {
	return t.fork(ctx, VerbFork, at, t.changes(changes), configured(options))
}

// Replay is Fork without changes.
func (t *Thread) Replay(ctx context.Context, at Point, options ...RunOption) (*Outcome, error) {
	return t.fork(ctx, VerbReplay, at, nil, configured(options))
}

func (t *Thread) fork(ctx context.Context, verb Verb, at Point, edit change, cfg *runConfig) (_ *Outcome, err error) {
	defer t.eng.refused(ctx, t.info(ctx, verb), &err)
	d, err := t.ready(ctx, verb, cfg)
	if err != nil {
		return nil, err
	}
	return t.claiming(ctx, verb, func() (*Outcome, error) {
		v, run, err := t.leaving(ctx, verb, at, d, cfg)
		if err != nil {
			return nil, err
		}
		if edit != nil {
			if run.Edits, err = edit(v.target(d)); err != nil {
				return nil, fmt.Errorf("pawl: thread %q: %s: %w; nothing was changed", t.id, verb, err)
			}
		}
		home := t.home(v, d)
		run.N = home.NewRun()
		pos, cps, err := t.branches(d, home, run, v)
		if err != nil {
			return nil, err
		}
		b := local.Batch{Graph: d.Topology(), Runs: []*core.Run{run}, Checkpoints: cps, Withdraw: len(v.Open) > 0, Do: t.eng.consenting(t.of(ctx, verb, run, cfg.reason))}
		if cfg.hold && len(pos.Head.Due) > 0 {
			b.Stop = &core.Stop{Status: Waiting}
		}
		if err := home.Claim(ctx, v.Seen, run, b); err != nil {
			return nil, err
		}
		l := t.newLoop(d, pos, home, cfg).starting(cps, v.hangs...)
		if b.Stop != nil {
			return t.outcome(ctx, l, run, b.Stop, nil)
		}
		return t.execute(ctx, l, home)
	})
}

// leaving looks at the point that a branch leaves from, and begins its run: with the input that is due there, if one is.
func (t *Thread) leaving(ctx context.Context, verb Verb, at Point, d core.Def, cfg *runConfig) (*view, *core.Run, error) {
	v, err := t.lookAt(ctx, d, func(r *records.Reader, seen *local.Seen) (*records.Stored, error) { return t.find(r, seen, at) })
	if err != nil {
		return nil, nil, err
	}
	if err := t.legal(verb, v, cfg); err != nil {
		return nil, nil, err
	}
	run, origin, err := t.branchRun(ctx, verb, v, d, cfg)
	if err != nil {
		return nil, nil, err
	}
	if slices.Contains(dueNames(v.from.Due), core.Start) {
		given := *origin
		if err := t.retyped(ctx, &given, d); err != nil {
			return nil, nil, err
		}
		run.Input, run.InputHash = given.Input, given.InputHash
	}
	v.hangs = []*core.Checkpoint{v.from}
	for _, w := range v.way {
		v.hangs = append(v.hangs, w.cp)
	}
	if v.beside = cfg.beside; v.beside {
		v.hangs, err = t.before(ctx, v)
	}
	return v, run, err
}

// before reads the checkpoints behind which those of the view's point stand, as far as there still are such.
func (t *Thread) before(ctx context.Context, v *view) (out []*core.Checkpoint, err error) {
	err = t.eng.store.View(ctx, func(tx storage.Tx) error {
		out = nil
		r := records.NewReader(t.eng.store.Box, tx, v.Info)
		for _, cp := range v.hangs {
			read := r.Checkpoint
			if cp.Frame != nil {
				read = r.Nested
			}
			s, err := read(cp.Parent)
			if err != nil {
				return err
			}
			if s != nil {
				out = append(out, s.Checkpoint)
			}
		}
		return nil
	})
	return out, err
}

// find reads the checkpoint of a point.
func (t *Thread) find(r *records.Reader, seen *local.Seen, at Point) (*records.Stored, error) {
	missing := func() (*records.Stored, error) {
		e := &PointError{Thread: t.id, Wanted: at.String()}
		if seen.Run != nil {
			e.Durability = seen.Run.Mode
		}
		all, err := r.Checkpoints(0, 20)
		for _, s := range all {
			e.Exists = append(e.Exists, s.Checkpoint.ID)
		}
		if err != nil {
			return nil, err
		}
		return nil, e
	}
	if at.id != "" {
		n, ok := local.NumberOf(at.id)
		if !ok {
			return missing()
		}
		s, err := r.Checkpoint(n)
		if err == nil && s == nil {
			s, err = r.Nested(n)
		}
		if err == nil && (s == nil || s.Checkpoint.ID != at.id) {
			return missing()
		}
		return s, err
	}
	for s := seen.Head; s != nil; {
		if slices.Contains(dueNames(s.Checkpoint.Due), at.before) {
			return s, nil
		}
		if s.Checkpoint.Parent == 0 {
			break
		}
		var err error
		if s, err = r.Checkpoint(s.Checkpoint.Parent); err != nil {
			return nil, err
		}
	}
	return missing()
}

// branchRun is the attempt that a fork or replay starts, beside the one that made the checkpoint it starts from.
func (t *Thread) branchRun(ctx context.Context, verb Verb, v *view, d core.Def, cfg *runConfig) (run, origin *core.Run, err error) {
	if v.from == nil {
		return nil, nil, &PointError{Thread: t.id, Wanted: "checkpoint"}
	}
	origin, old, err := t.originOf(ctx, v.from)
	if err != nil {
		return nil, nil, err
	}
	if origin.Aside {
		return nil, nil, &PointError{Thread: t.id, Wanted: "checkpoint " + v.from.ID + " to go on from: a retry set its attempt aside, for reading only"}
	}
	if err := t.goesOn(v, old, d); err != nil {
		return nil, nil, err
	}
	run = &core.Run{
		ID: uuid.NewString(), AttemptN: 1, Attempt: uuid.NewString(), Kind: core.RunFork, Mode: cfg.mode, Status: Running,
		Before: v.from.N, Actor: ActorFrom(ctx).ID, Earlier: origin.Starters(), Accepted: time.Now().UTC(), Reason: cfg.reason,
	}
	if verb == VerbReplay {
		run.Kind = core.RunReplay
	}
	if run.Mode == "" {
		run.Mode = origin.Mode
	}
	if n := len(v.way); n > 0 {
		run.Inside = v.way[n-1].cp.N
	}
	cfg.breakAt(run)
	under(run, d)
	return run, origin, nil
}

// branch makes the first checkpoint of a fork, behind an older one or beside it: the state of that one with the fork's
// edits, the same tasks due under fresh ids. That of a retry stands behind none.
func (t *Thread) branch(d core.Def, home *local.Home, run *core.Run, from *core.Checkpoint, beside bool, edits []core.Write) (*core.Checkpoint, error) {
	values, err := t.withEdits(d, from, edits)
	if err != nil {
		return nil, err
	}
	cp := &core.Checkpoint{
		Step: from.Step + 1, Source: core.SourceFork, Run: run.N, Graph: len(run.Graphs) - 1, Values: values, Due: from.Due,
		Later: from.Later, Joins: from.Joins, Visited: from.Visited,
	}
	switch {
	case run.AttemptN > 1:
	case beside:
		cp.Parent = from.Parent
	default:
		cp.Parent = from.N
	}
	if len(edits) > 0 {
		cp.Source = core.SourceEdit
	}
	cp.N, cp.ID = home.Fresh()
	return cp, nil
}

// branchAgain is the branch of a fork or replay that is retried: it starts in the middle of a run, so the program's graph
// must be one that what ran before cannot tell from its own.
func (t *Thread) branchAgain(ctx context.Context, d core.Def, home *local.Home, run *core.Run, v *view) (*core.Position, []*core.Checkpoint, error) {
	if v.from == nil {
		return nil, nil, &PointError{Thread: t.id, Wanted: fmt.Sprintf("checkpoint number %d, from which run %s started", run.Before, run.ID)}
	}
	_, old, err := t.originOf(ctx, v.from)
	if err != nil {
		return nil, nil, err
	}
	if err := t.goesOn(v, old, d); err != nil {
		return nil, nil, err
	}
	return t.branches(d, home, run, v)
}
