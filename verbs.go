package pawl

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/local"
	"github.com/pawl-dev/pawl/internal/records"
	"github.com/pawl-dev/pawl/storage"
)

// legal refuses a verb that the thread's status does not allow, or whose caller decided on another head.
func (t *Thread) legal(verb Verb, v *view, cfg *runConfig) error {
	if v.Info == nil {
		if (verb == VerbRun || verb == VerbEdit) && cfg.head == "" {
			return nil
		}
		return &NotFoundError{What: "thread", ID: t.id, Hint: "start it with run"}
	}
	if err := t.ofGraph(v.Info.Graph); err != nil {
		return err
	}
	cause := Cause("")
	if v.Run != nil && (v.Status == Failed || v.Status == Waiting) {
		cause = v.Run.Cause
	}
	if ok, advice := core.Judge(verb, v.Status, cause); !ok {
		return &VerbError{Verb: verb, Thread: t.id, Status: v.Status, Cause: cause, Legal: core.Legal(v.Status, cause), Advice: advice}
	}
	if cfg.head != "" && (v.Head == nil || v.Head.Checkpoint.ID != cfg.head) {
		head := "none"
		if v.Head != nil {
			head = v.Head.Checkpoint.ID
		}
		return &VerbError{Verb: verb, Thread: t.id, Status: v.Status, Cause: cause,
			Advice: fmt.Sprintf("the head is %s, not %s as you saw it: look again; to go on from an older checkpoint fork it", head, cfg.head)}
	}
	return nil
}

// ofGraph refuses a thread of another graph than the handle names: permissions may be by graph.
func (t *Thread) ofGraph(stored string) error {
	if t.graph == "" || t.graph == stored {
		return nil
	}
	return &NotFoundError{What: "thread", ID: t.id, Hint: fmt.Sprintf("there is one of that id of graph %q, not of %q", stored, t.graph)}
}

// ready is what every verb that needs code and storage asks first: permission, then both.
func (t *Thread) ready(ctx context.Context, verb Verb, cfg *runConfig) (core.Def, error) {
	if err := t.eng.allowed(ctx, VerbInfo{Verb: verb, Graph: t.graph, Thread: t.id}); err != nil {
		return nil, err
	}
	if t.eng.store == nil {
		return nil, &NoStorageError{Graph: t.graph, Question: string(verb)}
	}
	chosen := cfg.mode
	if err := t.fits(verb, cfg); err != nil {
		return nil, err
	}
	if verb != VerbRun {
		cfg.mode = chosen // the run's own mode stands unless another was chosen
	}
	d, err := t.code()
	if err == nil {
		err = t.breaksFit(d, cfg)
	}
	return d, err
}

// Resume goes on from the head. On a waiting thread it runs the tasks whose questions are all answered or expired; on
// a crashed or failed one the tasks that did not finish. On a finished one it runs nothing. Answers given as options
// are checked first and taken in the Update that claims the thread: all of them, or none and an error.
func (t *Thread) Resume(ctx context.Context, options ...RunOption) (_ *Outcome, err error) {
	defer t.eng.refused(ctx, t.info(ctx, VerbResume), &err)
	cfg := configured(options)
	d, err := t.ready(ctx, VerbResume, cfg)
	if err != nil {
		return nil, err
	}
	for _, g := range cfg.answers { // whoever may resume may not therefore answer
		if err := t.eng.allowed(ctx, VerbInfo{Verb: VerbAnswer, Graph: t.graph, Thread: t.id, Question: g.id}); err != nil {
			return nil, err
		}
	}
	return t.claiming(ctx, VerbResume, func() (*Outcome, error) { return t.resume(ctx, d, cfg) })
}

func (t *Thread) resume(ctx context.Context, d core.Def, cfg *runConfig) (*Outcome, error) {
	v, err := t.look(ctx, d, nil)
	if err != nil {
		return nil, err
	}
	if err := t.legal(VerbResume, v, cfg); err != nil {
		return nil, err
	}
	taken, err := t.takeAll(ctx, v, cfg)
	if err != nil {
		return nil, err
	}
	if v.Status == Done || v.Status == Waiting && len(taken) == 0 && !t.enterable(v) && len(cfg.again) == 0 && cfg.breaks == nil {
		if err := t.noted(ctx, t.of(ctx, VerbResume, v.Run, cfg.reason)); err != nil {
			return nil, err
		}
		return t.stands(v)
	}
	cfg.waited = v.Status == Waiting
	run := *v.Run
	cfg.breakAt(&run)
	if err := t.ontoGraph(v, &run, d); err != nil {
		return nil, err
	}
	if err := t.insideReadable(ctx, v, d); err != nil {
		return nil, err
	}
	if v.from == nil || v.from.Run != run.N || slices.Contains(dueNames(v.from.Due), core.Start) { // the input is still to be applied
		if err := t.retyped(ctx, &run, d); err != nil {
			return nil, err
		}
		run.Typed = len(run.Graphs) - 1
	}
	b := local.Batch{Graph: d.Topology(), Runs: []*core.Run{&run}, Questions: taken, Do: t.eng.consenting(t.of(ctx, VerbResume, &run, cfg.reason), taken...)}
	if b.Again, b.Close, err = t.again(v, cfg.again); err != nil {
		return nil, err
	}
	run.Mode = cmp.Or(cfg.mode, run.Mode)
	drift := run.Cause == CauseDrift
	if v.Status == Crashed {
		if run.Crashes++; t.eng.limits.Crashes > 0 && run.Crashes > t.eng.limits.Crashes {
			return t.park(ctx, v, d, &run, cfg)
		}
	} else {
		run.Crashes = 0
	}
	run.Status, run.Cause, run.Error, run.ErrorNode, run.Resumed = Running, "", "", "", true
	home := t.home(v, d)
	if err := home.Claim(ctx, v.Seen, &run, b); err != nil {
		return nil, err
	}
	return t.goOn(ctx, d, home, taken, cfg, drift)
}

// goOn runs a claimed thread from its head as stored, or from its input where a crash lost the first checkpoints.
func (t *Thread) goOn(ctx context.Context, d core.Def, home *local.Home, taken []*core.Question, cfg *runConfig, drift bool) (*Outcome, error) {
	run := home.Run()
	claimed := context.WithoutCancel(ctx) // a caller who leaves now finds the run stopped, not crashed
	pos, err := home.Own(claimed)
	var cps []*core.Checkpoint
	if err == nil && (pos.Head == nil || pos.Head.Run != run.N) {
		pos, cps, err = t.startAgain(claimed, d, home, pos.Head)
	}
	if err != nil {
		_ = home.Abandon(context.WithoutCancel(ctx))
		return nil, err
	}
	pos.Under(len(run.Graphs) - 1)
	l := t.newLoop(d, pos, home, cfg).starting(cps, nil)
	l.afterDrift = drift
	l.taken = taken
	for _, q := range taken {
		l.delivered = append(l.delivered, q.ID)
	}
	if err := l.checkSubmitted(ctx, pos); err != nil {
		_ = home.Abandon(context.WithoutCancel(ctx))
		return nil, err
	}
	return t.execute(ctx, l, home)
}

// ontoGraph lets a run go on under the program's graph, or says what keeps it.
func (t *Thread) ontoGraph(v *view, run *core.Run, d core.Def) error {
	if v.from != nil && v.from.Run == run.N {
		if diff := core.Compare(v.Met, d.Topology(), append(pastOf(v.from), v.Inside...)); diff != nil {
			return t.versionError(v.Run, v.Topology, d, diff)
		}
	}
	under(run, d)
	run.Moved = nil
	return nil
}

// enterable says whether a task of the head could be entered now.
func (t *Thread) enterable(v *view) bool {
	if v.from == nil || v.from.Run != v.Run.N {
		return true
	}
	v.pos.Head = v.from
	can, _ := v.pos.Enterable(t.identity(), 0, v.Now)
	return can || len(v.from.Due) == 0
}

// park sets a run aside that keeps killing its process.
func (t *Thread) park(ctx context.Context, v *view, d core.Def, run *core.Run, cfg *runConfig) (*Outcome, error) {
	stop := &core.Stop{
		Status: Failed, Cause: CauseCrashing,
		Error: fmt.Sprintf("its process died %d times; it was not started again", run.Crashes),
	}
	home := t.home(v, d)
	if err := home.Claim(ctx, v.Seen, run, local.Batch{Stop: stop, Do: t.eng.consenting(t.of(ctx, VerbResume, run, cfg.reason))}); err != nil {
		return nil, err
	}
	run.Status, run.Cause, run.Error = stop.Status, stop.Cause, stop.Error
	v.Status, v.Run = Failed, run
	out, err := t.stands(v)
	if err != nil {
		return out, err
	}
	return out, runError(t.id, run.ID, out)
}

// Retry starts a failed or cancelled run over: the same input in a fresh attempt, from the state before that input.
// The failed attempt is set aside, read-only and unseen by nodes.
func (t *Thread) Retry(ctx context.Context, options ...RunOption) (_ *Outcome, err error) {
	defer t.eng.refused(ctx, t.info(ctx, VerbRetry), &err)
	cfg := configured(options)
	d, err := t.ready(ctx, VerbRetry, cfg)
	if err != nil {
		return nil, err
	}
	return t.claiming(ctx, VerbRetry, func() (*Outcome, error) { return t.retry(ctx, d, cfg) })
}

func (t *Thread) retry(ctx context.Context, d core.Def, cfg *runConfig) (*Outcome, error) {
	v, err := t.lookAt(ctx, d, func(r *records.Reader, seen *local.Seen) (*records.Stored, error) {
		switch {
		case seen.Run == nil || seen.Run.Before == 0:
			return nil, nil
		case seen.Run.Inside > 0:
			return r.Nested(seen.Run.Inside)
		}
		return r.Checkpoint(seen.Run.Before)
	})
	if err != nil {
		return nil, err
	}
	if err := t.legal(VerbRetry, v, cfg); err != nil {
		return nil, err
	}
	aside, run := *v.Run, *v.Run
	if err := t.retyped(ctx, &run, d); err != nil {
		return nil, err
	}
	aside.Aside = true
	run.AttemptN, run.Attempt, run.Crashes, run.Graphs, run.Since, run.Typed, run.Moved, run.Seq = v.Run.AttemptN+1, uuid.NewString(), 0, nil, 0, 0, nil, 0
	run.Resumed, run.Began = false, 0
	run.Status, run.Cause, run.Error, run.ErrorNode = Running, "", "", ""
	run.Earlier, run.Actor, run.Accepted, run.Reason = v.Run.Starters(), ActorFrom(ctx).ID, time.Now().UTC(), cfg.reason
	if cfg.mode != "" {
		run.Mode = cfg.mode
	}
	cfg.breakAt(&run)
	under(&run, d)
	home := t.home(v, d)
	run.N = home.NewRun()
	pos, cps := &core.Position{Run: &run}, []*core.Checkpoint(nil)
	if run.Kind == core.RunInput {
		cps = t.start(ctx, d, home.Fresh, &run, v.from, nil)
		pos.Head = cps[len(cps)-1]
	} else if pos, cps, err = t.branchAgain(ctx, d, home, &run, v); err != nil {
		return nil, err
	}
	b := local.Batch{Graph: d.Topology(), Runs: []*core.Run{&aside, &run}, Withdraw: len(v.Open) > 0}
	b.Do = t.flowing(run.Version(), t.eng.consenting(t.of(ctx, VerbRetry, &run, cfg.reason)))
	if run.Mode == Sync || run.Kind != core.RunInput {
		b.Checkpoints = cps
	}
	if err := home.Claim(ctx, v.Seen, &run, b); err != nil {
		return nil, err
	}
	if len(b.Checkpoints) == 0 {
		home.Queue(cps)
	}
	return t.execute(ctx, t.newLoop(d, pos, home, cfg).starting(cps, v.from), home)
}

// Cancel ends a run for good: what is open is withdrawn, and only retry or a new run go on. A run of any process is
// reached; Cancel returns nil when it is cancelled, also where it failed meanwhile, and an error when it was done
// before, or ctx ended. It cancels the attempt that it finds, and none that is started after it.
func (t *Thread) Cancel(ctx context.Context, reason string) (err error) {
	defer t.eng.refused(ctx, t.info(ctx, VerbCancel), &err)
	if err := t.eng.allowed(ctx, VerbInfo{Verb: VerbCancel, Graph: t.graph, Thread: t.id}); err != nil {
		return err
	}
	if t.eng.store == nil {
		return &NoStorageError{Graph: t.graph, Question: string(VerbCancel)}
	}
	if reason == "" {
		reason = "cancelled"
	}
	if err := t.eng.store.PayUp(ctx); err != nil {
		return err
	}
	attempt := int64(0) // the one to cancel; 0: not seen yet
	for asked := false; ; {
		since, _ := t.eng.store.DB.Changed(0)
		seen, err := t.eng.store.Peek(ctx, t.eng.tenant, t.id)
		if err != nil {
			return err
		}
		v := &view{Seen: seen}
		if asked && v.Status == Cancelled && v.Run.N == attempt {
			return nil
		}
		if err := t.legal(VerbCancel, v, &runConfig{}); err != nil {
			return err
		}
		if attempt == 0 {
			attempt = v.Run.N
		}
		if v.Run.N != attempt {
			return &VerbError{Verb: VerbCancel, Thread: t.id, Status: v.Status, Legal: core.Legal(v.Status, v.Run.Cause),
				Advice: "the attempt that was to be cancelled is over and another was started meanwhile; look again"}
		}
		if v.Status != Running {
			err := t.cancelStanding(ctx, v, reason, asked)
			if err == nil || err != local.ErrMoved {
				return err
			}
			continue
		}
		if err := t.cancelRunning(ctx, v, reason, asked); err != nil {
			return err
		}
		asked = true
		_, wake := t.eng.store.DB.Changed(since)
		select {
		case <-wake:
		case <-time.After(time.Second): // an owner that cannot write any more changes nothing either
		case <-ctx.Done():
			return fmt.Errorf("pawl: thread %q: the cancelling is requested and the run has not stopped yet: %w", t.id, context.Cause(ctx))
		}
	}
}

// cancelStanding cancels a thread that nobody runs, or not any more since it was asked to stop.
func (t *Thread) cancelStanding(ctx context.Context, v *view, reason string, asked bool) error {
	topology := v.Topology
	if topology == nil {
		topology = &core.Topology{Graph: v.Info.Graph}
	}
	info := t.of(ctx, VerbCancel, v.Run, reason)
	if asked {
		info.Stage = StageStopped
	}
	home := local.NewHome(t.eng.store, v.Seen, t.eng.tenant, t.id, topology, 0)
	return home.Claim(ctx, v.Seen, v.Run, local.Batch{
		Stop: &core.Stop{Status: Cancelled, Error: reason}, Do: t.eng.consenting(info),
	})
}

// cancelRunning asks the parts, and then the owner to stop: directly when it is this process, by a row when it is
// another. The row asks for the attempt that was seen and for no later one.
func (t *Thread) cancelRunning(ctx context.Context, v *view, reason string, asked bool) error {
	t.eng.mu.Lock()
	r := t.eng.running[runningKey{t.eng.tenant, t.id}]
	t.eng.mu.Unlock()
	here := r != nil && r.attempt == v.Run.N
	byRow := !here || v.Lease.Owner != t.eng.store.Member
	info := t.of(ctx, VerbCancel, v.Run, reason)
	info.Stage = StageAsked
	if consent := t.eng.consenting(info); !asked && (byRow || consent != nil) {
		err := t.eng.store.Update(ctx, func(tx storage.Tx) error {
			row, ok, err := tx.Get(records.Thread, t.eng.tenant, t.id)
			if err != nil || !ok || row.Fields[2].(string) != string(Running) || row.Fields[4].(int64) != v.Run.N {
				return err
			}
			if consent != nil {
				if err := consent(ctx, tx); err != nil {
					return err
				}
			}
			if row.Fields[5] = reason; byRow {
				_, err = tx.Put(records.Thread, row, storage.Always())
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	if here {
		r.cancel(&cancelCause{reason})
	}
	return nil
}

// Delete removes a thread and everything of it: history, journal, questions. An unknown thread is a no-op. It is
// refused while somebody runs the thread. Of the options Reason counts: parts are told.
func (t *Thread) Delete(ctx context.Context, options ...RunOption) (err error) {
	cfg := configured(options)
	defer t.eng.refused(ctx, t.info(ctx, VerbDelete), &err)
	if err := t.eng.allowed(ctx, VerbInfo{Verb: VerbDelete, Graph: t.graph, Thread: t.id}); err != nil {
		return err
	}
	if t.eng.store == nil {
		return nil
	}
	_, err = t.claiming(ctx, VerbDelete, func() (*Outcome, error) {
		seen, err := t.eng.store.Peek(ctx, t.eng.tenant, t.id)
		if err != nil || seen.Info == nil {
			return nil, err
		}
		if err := t.legal(VerbDelete, &view{Seen: seen}, &runConfig{}); err != nil {
			return nil, err
		}
		home := local.NewHome(t.eng.store, seen, t.eng.tenant, t.id, &core.Topology{Graph: seen.Info.Graph}, 0)
		return nil, home.Forget(ctx, seen, t.eng.consenting(t.of(ctx, VerbDelete, seen.Run, cfg.reason)))
	})
	return err
}
