package pawl

import (
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

// Copy makes a new thread of the same lineage from a point of this one, its head if at is the zero Point: the state there,
// whole and independent of this thread, and what is due there. Nothing is run: the copy waits, and Resume goes on under
// tasks of its own, so that steps are called again and questions asked again, while effects return the receipts that the
// lineage has. It is refused where a thread of that id exists. VerbCopy is asked of both threads.
func (t *Thread) Copy(ctx context.Context, to string, at Point, options ...RunOption) (*Thread, error) {
	cfg := configured(options)
	target := t.eng.Thread(t.graph, to)
	for _, th := range []*Thread{t, target} {
		if err := t.eng.allowed(ctx, VerbInfo{Verb: VerbCopy, Graph: t.graph, Thread: th.id, From: t.id, To: to, Reason: cfg.reason}); err != nil {
			return nil, err
		}
	}
	if t.eng.store == nil {
		return nil, &NoStorageError{Graph: t.graph, Question: string(VerbCopy)}
	}
	if err := target.named(""); err != nil {
		return nil, err
	}
	_, err := target.claiming(ctx, VerbCopy, func() (*Outcome, error) { return nil, t.copyTo(ctx, target, at, cfg) })
	if err != nil {
		return nil, err
	}
	return target, nil
}

// original is what a copy is made from.
type original struct {
	from      *core.Checkpoint
	topology  *core.Topology // of from
	run       *core.Run      // that made it
	mine, its *local.Seen    // the two threads
	recalls   []recalled     // by its children
}

// recalled is the checkpoint on which a child that remembers goes on, and what children of it remember there.
type recalled struct {
	channel int // that leads to it
	cp      *core.Checkpoint
	inside  []recalled
}

// recall reads what the children of a checkpoint remember, under the graph that it has.
func recall(r *records.Reader, at *core.Checkpoint, t *core.Topology) (out []recalled, err error) {
	for _, child := range t.Children {
		if child.Mode != PerThread {
			continue
		}
		m := recalled{channel: t.Channel(child.Memory())}
		n := core.PointedAt(at.Values[m.channel])
		if n == 0 {
			continue
		}
		stored, err := r.Nested(n)
		switch {
		case err != nil:
			return nil, err
		case stored == nil:
			return nil, &storage.MissingError{Kind: records.Nested, ID: n}
		}
		m.cp = stored.Checkpoint
		if err := r.Fill(stored, child.Graph, nil); err != nil {
			return nil, fmt.Errorf("what child %q remembers: %w", child.Name, err)
		}
		if m.inside, err = recall(r, m.cp, child.Graph); err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	return out, nil
}

// retold makes what children remember the copy's own, in runs of children that are over and that no task of it began.
func retold(home *local.Home, to *core.Checkpoint, list []recalled) (out []*core.Checkpoint, err error) {
	for _, m := range list {
		cp, err := whole(m.cp)
		if err != nil {
			return nil, err
		}
		cp.Run = to.Run
		cp.N, cp.ID = home.Fresh()
		was := m.cp.Frame
		cp.Frame = &core.Frame{
			N: cp.N, Parent: to.Frame, Under: was.Under, Key: was.Key, Mode: was.Mode, Path: was.Path, Node: was.Node, Address: was.Address,
		}
		to.Values[m.channel] = core.NewSet(core.PointTo("", cp.N).Data)
		inside, err := retold(home, cp, m.inside)
		if err != nil {
			return nil, err
		}
		out = append(append(out, cp), inside...)
	}
	return out, nil
}

// original reads it, and refuses what cannot be copied.
func (t *Thread) original(ctx context.Context, target *Thread, at Point, cfg *runConfig) (*original, error) {
	var out *original
	err := t.eng.store.View(ctx, func(tx storage.Tx) (err error) {
		o := &original{}
		if o.mine, err = t.eng.store.PeekTx(tx, t.eng.tenant, t.id); err != nil {
			return err
		}
		if o.its, err = t.eng.store.PeekTx(tx, t.eng.tenant, target.id); err != nil {
			return err
		}
		if err := t.legal(VerbCopy, &view{Seen: o.mine}, cfg); err != nil {
			return err
		}
		if o.its.Info != nil {
			return fmt.Errorf("pawl: thread %q exists, and a copy of %q takes no thread's place; nothing was changed; give the copy another id", target.id, t.id)
		}
		r := records.NewReader(t.eng.store.Box, tx, o.mine.Info)
		stored := o.mine.Head
		if at != (Point{}) {
			if stored, err = t.find(r, o.mine, at); err != nil {
				return err
			}
		}
		if stored == nil {
			return &PointError{Thread: t.id, Wanted: "checkpoint"}
		}
		if o.from = stored.Checkpoint; o.from.Frame != nil {
			return &PointError{Thread: t.id, Wanted: "checkpoint " + o.from.ID + " of its own to copy from: that is one of its child " + o.from.Frame.Path}
		}
		if slices.Contains(dueNames(o.from.Due), core.Start) {
			return &PointError{Thread: t.id, Wanted: "checkpoint " + o.from.ID + " to copy from: the input is not yet applied there"}
		}
		if o.topology, err = r.Topology(o.from); err != nil {
			return err
		}
		if o.run, err = r.Run(o.from.Run); err != nil {
			return err
		}
		if err = r.Fill(stored, o.topology, nil); err != nil {
			return err
		}
		out = o
		o.recalls, err = recall(r, o.from, o.topology)
		return err
	})
	return out, err
}

func (t *Thread) copyTo(ctx context.Context, target *Thread, at Point, cfg *runConfig) error {
	o, err := t.original(ctx, target, at, cfg)
	if err != nil {
		return err
	}
	cp, err := whole(o.from)
	if err != nil {
		return err
	}
	run := copied(o.run, o.topology)
	run.Actor, run.Reason, run.Accepted = ActorFrom(ctx).ID, cfg.reason, time.Now().UTC()
	stop := &core.Stop{Status: Waiting}
	switch {
	case o.run.Kind == core.RunEdit:
		stop.Status = StatusNew
	case len(cp.Due) == 0:
		stop.Status = Done
	}
	home := local.NewHome(t.eng.store, o.its, t.eng.tenant, target.id, o.topology, 0)
	home.Graph, home.Lineage = o.mine.Info.Graph, o.mine.Info.Lineage
	run.N = home.NewRun()
	cp.Run = run.N
	cp.N, cp.ID = home.Fresh()
	run.Before = cp.N // a retry goes on from what was copied
	remembered, err := retold(home, cp, o.recalls)
	if err != nil {
		return err
	}
	info := target.info(ctx, VerbCopy)
	info.Graph, info.From, info.To, info.Reason = o.mine.Info.Graph, t.id, target.id, cfg.reason
	return home.Claim(ctx, o.its, run, local.Batch{
		Graph: o.topology, Runs: []*core.Run{run}, Checkpoints: append([]*core.Checkpoint{cp}, remembered...), Stop: stop,
		Do: func(ctx context.Context, tx storage.Tx) error {
			_, err := t.eng.consent(ctx, tx, info)
			return err
		},
	})
}

// copied is the run of a copy: started by whoever copies, on what the others started.
func copied(origin *core.Run, topology *core.Topology) *core.Run {
	return &core.Run{
		ID: uuid.NewString(), AttemptN: 1, Attempt: uuid.NewString(), Kind: core.RunFork, Mode: origin.Mode, Status: Running,
		Graphs: []string{core.GraphDigest(topology)}, Earlier: origin.Starters(),
	}
}

// whole is a checkpoint that refers to nothing of another thread.
func whole(from *core.Checkpoint) (*core.Checkpoint, error) {
	cp := &core.Checkpoint{
		Step: from.Step + 1, Source: core.SourceFork, Due: from.Due, Later: from.Later, Joins: from.Joins, Visited: from.Visited,
		Values: make([]*core.Value, len(from.Values)),
	}
	for i, v := range from.Values {
		doc, err := v.Bytes()
		if err != nil {
			return nil, err
		}
		if doc != nil {
			cp.Values[i] = core.NewSet(doc)
		}
	}
	return cp, nil
}
