package pawl

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/local"
	"github.com/pawl-dev/pawl/internal/records"
	"github.com/pawl-dev/pawl/storage"
)

// Migrate moves a thread onto the graph here, by the migration that the graph declares for the version under which the
// thread stands. Nothing is run: Resume goes on. It writes a new head; the old one stays, and MigrateBack returns to it
// while nothing has run. Open questions are withdrawn and asked anew, and finished work beside what is due is kept where
// its node stays. It needs a Reason, and is refused while somebody runs the thread and while a part objects, for instance
// because nobody knows whether an operation happened.
func (t *Thread) Migrate(ctx context.Context, options ...RunOption) (*Migrated, error) {
	return t.moveTo(ctx, VerbMigrate, configured(options), false)
}

// PreviewMigrate gives the report of Migrate, or its refusal, and changes nothing.
func (t *Thread) PreviewMigrate(ctx context.Context) (*Migrated, error) {
	return t.moveTo(ctx, VerbMigrate, &runConfig{}, true)
}

// Force moves a thread onto the graph here without a migration: whatever the run's past could tell, it goes on where it
// stands. What does not fit is left behind and named in the report; a node that is due and not there, or a value that
// cannot be read, still refuses. Operations of unknown outcome are taken out of the run's hands by the part that keeps
// them. Otherwise it is like Migrate; it has its own permission.
func (t *Thread) Force(ctx context.Context, options ...RunOption) (*Migrated, error) {
	return t.moveTo(ctx, VerbForce, configured(options), false)
}

// PreviewForce gives the report of Force, or its refusal, and changes nothing.
func (t *Thread) PreviewForce(ctx context.Context) (*Migrated, error) {
	return t.moveTo(ctx, VerbForce, &runConfig{}, true)
}

// mayMove asks what both verbs and the way back ask first.
func (t *Thread) mayMove(ctx context.Context, verb Verb, cfg *runConfig, dry bool) error {
	if err := t.eng.allowed(ctx, VerbInfo{Verb: verb, Graph: t.graph, Thread: t.id, Reason: cfg.reason}); err != nil {
		return err
	}
	if t.eng.store == nil {
		return &NoStorageError{Graph: t.graph, Question: string(verb)}
	}
	if !dry && strings.TrimSpace(cfg.reason) == "" {
		return fmt.Errorf("pawl: thread %q: %s needs a reason (pawl.Reason), which is kept; nothing was changed", t.id, verb)
	}
	return nil
}

func (t *Thread) moveTo(ctx context.Context, verb Verb, cfg *runConfig, dry bool) (_ *Migrated, err error) {
	if !dry {
		defer t.eng.refused(ctx, t.info(ctx, verb), &err)
	}
	if err := t.mayMove(ctx, verb, cfg, dry); err != nil {
		return nil, err
	}
	known, err := t.code()
	if err != nil {
		return nil, err
	}
	d := known.(mover)
	var report *Migrated
	_, err = t.claiming(ctx, verb, func() (*Outcome, error) {
		v, err := t.stood(ctx, verb, cfg)
		if err != nil {
			return nil, err
		}
		mv, err := t.plan(verb, v, d)
		if err != nil {
			return nil, err
		}
		report = mv.report
		return nil, t.moveThread(ctx, verb, v, mv, d.Topology(), cfg, dry)
	})
	if err != nil {
		return nil, err
	}
	return report, nil
}

// stood reads a thread under the graph that it stands under, without that graph's code.
func (t *Thread) stood(ctx context.Context, verb Verb, cfg *runConfig) (*view, error) {
	v := &view{}
	err := t.eng.store.View(ctx, func(tx storage.Tx) error {
		seen, err := t.eng.store.PeekTx(tx, t.eng.tenant, t.id)
		if err != nil {
			return err
		}
		*v = view{Seen: seen}
		if seen.Head == nil {
			return nil
		}
		r := records.NewReader(t.eng.store.Box, tx, seen.Info)
		if err := r.Fill(seen.Head, seen.Topology, nil); err != nil {
			return err
		}
		v.from = seen.Head.Checkpoint
		return r.Hanging(v.from.N, &v.pos)
	})
	if err != nil {
		return nil, err
	}
	if err := t.legal(verb, v, cfg); err != nil {
		return nil, err
	}
	if v.from == nil || v.from.Run != v.Run.N {
		return nil, &VerbError{Verb: verb, Thread: t.id, Status: v.Status, Advice: "nothing was saved of this run yet: cancel it, and retry it under the new version"}
	}
	return v, nil
}

// plan works a migration out.
func (t *Thread) plan(verb Verb, v *view, d mover) (*relocation, error) {
	old, now := v.Topology, d.Topology()
	from, to := core.GraphDigest(old), core.GraphDigest(now)
	refuse := func(first string, err error) error {
		return &MigrationError{Verb: verb, Thread: t.id, Graph: old.Graph, From: from, To: to, First: first, Err: err}
	}
	diff := strays(v.Seen, now)
	if diff == nil {
		return nil, refuse("", errors.New("it goes on as it is: resume it"))
	}
	first := diff.String()
	mapping, ok := d.migration(from, first)
	if verb == VerbMigrate && !ok {
		return nil, refuse(first, errors.New("the graph declares no migration from there; add one with Builder.Migrate, or use a program of the old version"))
	}
	if verb == VerbForce {
		mapping = Migration{}
	}
	mv := &relocation{lenient: verb == VerbForce, report: &Migrated{
		Thread: t.id, Graph: old.Graph, Run: v.Run.ID, From: from, To: to, First: first, Was: dueNames(v.from.Due), Due: []string{},
		Withdrawn: questionsOf(v.Open),
	}}
	mv.cp = &core.Checkpoint{Parent: v.from.N, Step: v.from.Step + 1, Source: core.Source(verb), Run: v.Run.N}
	m, err := moving(d, old, v, t.id, core.Plan(v.from, t.identity(), ""))
	if err == nil {
		err = m.mapped(mapping.Map)
	}
	if err == nil {
		err = mv.work(d, old, v.from, m)
	}
	if err == nil {
		err = mv.keep(v, old, d, m)
	}
	if err != nil {
		return nil, refuse(first, err)
	}
	mv.report.Status = afterEdit(v, len(mv.cp.Due)).Status
	return mv, nil
}

// afterEdit is how a thread stands whose head was replaced from outside.
func afterEdit(v *view, due int) *core.Stop {
	if over := v.Status == Cancelled || v.Status == Failed && v.Run.Cause == CauseConcluded; over || due == 0 || v.Status == Waiting {
		return &core.Stop{Status: v.Status, Cause: v.Run.Cause, Error: v.Run.Error, ErrorNode: v.Run.ErrorNode}
	}
	return &core.Stop{Status: Waiting}
}

// keep carries the results over of what finished beside what is due, where the node stays.
func (mv *relocation) keep(v *view, old *core.Topology, d mover, m *Moving) error {
	mv.report.Discarded = v.pos.FinishedInside() // children that are not done begin anew
	for i := range v.pos.Ended {
		e := v.pos.Ended[i]
		if e.Failed {
			continue
		}
		at := -1
		for k, task := range mv.tasks {
			if task == e.Result.Task.ID {
				at = k
			}
		}
		var err error
		if at >= 0 {
			err = mv.carry(&e, at, old, d, m)
		}
		switch {
		case at < 0, err != nil && mv.lenient:
			mv.report.Discarded = append(mv.report.Discarded, e.Result.Task.Node)
		case err != nil:
			return fmt.Errorf("node %q has finished beside others, and what it did cannot be kept: %w; end the super-step under the old version, or move or drop the node", e.Result.Task.Node, err)
		default:
			mv.ended = append(mv.ended, &e)
			mv.places = append(mv.places, at)
		}
	}
	return nil
}

func (mv *relocation) carry(e *core.Ended, at int, old *core.Topology, d mover, m *Moving) error {
	writes, err := core.UpgradeWrites(old, d.Topology(), e.Result.Writes, d.Upgrade)
	if err != nil {
		return err
	}
	for i := range writes {
		writes[i].Value = nil
	}
	next := make([]core.Due, len(e.Result.Next))
	for i, to := range e.Result.Next {
		if name := m.renamed[to.Node]; name != "" {
			to.Node = name
		}
		if _, ok := d.Topology().Node(to.Node); !ok && to.Node != End {
			return fmt.Errorf("it leads to %q, which is not in the graph", to.Node)
		}
		next[i] = to
	}
	e.Result.Writes, e.Result.Next = writes, next
	return core.Adopt(mv.cp, d.Topology(), &e.Result)
}

// moveThread asks the parts, and writes the new head.
func (t *Thread) moveThread(ctx context.Context, verb Verb, v *view, mv *relocation, topology *core.Topology, cfg *runConfig, dry bool) error {
	info := t.info(ctx, verb)
	info.Reason, info.From, info.To = cfg.reason, mv.report.From, mv.report.To
	if dry {
		return t.eng.store.View(ctx, func(tx storage.Tx) (err error) {
			mv.report.Notes, err = t.eng.consent(ctx, dropTx{tx}, info)
			return err
		})
	}
	run := *v.Run
	run.Moved = &core.Moved{From: v.from.N, Since: run.Since}
	run.Graphs = append(run.Graphs[:len(run.Graphs):len(run.Graphs)], mv.report.To)
	run.Since = len(run.Graphs) - 1
	mv.cp.Graph = run.Since
	home := local.NewHome(t.eng.store, v.Seen, t.eng.tenant, t.id, topology, 0)
	return t.writeHead(ctx, v, home, &run, mv, local.Batch{Graph: topology, Stop: afterEdit(v, len(mv.cp.Due)), Do: func(ctx context.Context, tx storage.Tx) (err error) {
		mv.report.Notes, err = t.eng.consent(ctx, tx, info)
		return err
	}})
}

// writeHead writes a head that comes from outside of the loop, with the results that hang from it.
func (t *Thread) writeHead(ctx context.Context, v *view, home *local.Home, run *core.Run, mv *relocation, b local.Batch) error {
	mv.cp.N, mv.cp.ID = home.Fresh()
	tasks := core.Plan(mv.cp, t.identity(), "")
	for i, e := range mv.ended {
		e.Checkpoint, e.Result.Task = mv.cp.N, tasks[mv.places[i]]
	}
	b.Runs, b.Checkpoints, b.Ended, b.Withdraw = []*core.Run{run}, []*core.Checkpoint{mv.cp}, mv.ended, len(v.Open) > 0
	return home.Claim(ctx, v.Seen, run, b)
}

// MigrateBack undoes a Migrate or Force while nothing has run since: the thread stands where it stood, under the version
// that it had; children that are not done begin anew here too, and the report says what they had finished. It needs no code of that version, has the permission of Migrate, and needs a Reason.
func (t *Thread) MigrateBack(ctx context.Context, options ...RunOption) (_ *Migrated, err error) {
	defer t.eng.refused(ctx, t.info(ctx, VerbMigrate), &err)
	cfg := configured(options)
	if err := t.mayMove(ctx, VerbMigrate, cfg, false); err != nil {
		return nil, err
	}
	var report *Migrated
	_, err = t.claiming(ctx, VerbMigrate, func() (*Outcome, error) {
		v, err := t.stood(ctx, VerbMigrate, cfg)
		if err != nil {
			return nil, err
		}
		if v.Run.Moved == nil {
			return nil, &VerbError{Verb: VerbMigrate, Thread: t.id, Status: v.Status, Advice: "there is no migration to undo: none was made, or it went on since; fork it from before the migration with a program of the old version"}
		}
		report, err = t.moveBack(ctx, v, cfg)
		return nil, err
	})
	if err != nil {
		return nil, err
	}
	return report, nil
}

func (t *Thread) moveBack(ctx context.Context, v *view, cfg *runConfig) (*Migrated, error) {
	before := &view{Seen: v.Seen}
	var topology *core.Topology
	err := t.eng.store.View(ctx, func(tx storage.Tx) error {
		r := records.NewReader(t.eng.store.Box, tx, v.Info)
		stored, err := r.Checkpoint(v.Run.Moved.From)
		if err != nil || stored == nil {
			return errors.Join(err, local.ErrMoved)
		}
		if topology, err = r.Topology(stored.Checkpoint); err != nil {
			return err
		}
		if err := r.Fill(stored, topology, nil); err != nil {
			return err
		}
		before.from = stored.Checkpoint
		if err := r.Hanging(before.from.N, &before.pos); err != nil {
			return err
		}
		before.pos.Children, err = r.Children(before.from.N)
		return err
	})
	if err != nil {
		return nil, err
	}
	from := before.from
	mv := &relocation{report: &Migrated{
		Thread: t.id, Graph: topology.Graph, Run: v.Run.ID, From: core.GraphDigest(v.Topology), To: core.GraphDigest(topology),
		Was: dueNames(v.from.Due), Due: dueNames(from.Due), Discarded: before.pos.FinishedInside(), Withdrawn: questionsOf(v.Open),
	}}
	mv.cp = &core.Checkpoint{
		Parent: v.from.N, Step: v.from.Step + 1, Source: core.Source(VerbMigrate), Run: v.Run.N, Graph: from.Graph,
		Values: from.Values, Due: from.Due, Later: from.Later, Joins: from.Joins, Visited: from.Visited,
	}
	for at, task := range core.Plan(from, t.identity(), "") {
		for _, e := range before.pos.Ended {
			if e.Failed || e.Result.Task.ID != task.ID {
				continue
			}
			if err := core.Adopt(mv.cp, topology, &e.Result); err != nil {
				return nil, err
			}
			mv.ended, mv.places = append(mv.ended, &e), append(mv.places, at)
		}
	}
	stop := afterEdit(v, len(from.Due))
	mv.report.Status = stop.Status
	run := *v.Run
	run.Since, run.Moved = run.Moved.Since, nil
	info := t.info(ctx, VerbMigrate)
	info.Reason, info.From, info.To = cfg.reason, mv.report.From, mv.report.To
	home := local.NewHome(t.eng.store, v.Seen, t.eng.tenant, t.id, topology, 0)
	err = t.writeHead(ctx, v, home, &run, mv, local.Batch{Stop: stop, Do: func(ctx context.Context, tx storage.Tx) (err error) {
		mv.report.Notes, err = t.eng.consent(ctx, tx, info)
		return err
	}})
	return mv.report, err
}
