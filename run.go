package pawl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/local"
	"github.com/pawl-dev/pawl/internal/records"
	"github.com/pawl-dev/pawl/storage"
)

// looks is how often a verb looks again when the thread changed between looking and claiming.
const looks = 16

// view is what a verb decides on: where the thread stands, and the checkpoint that it starts from.
type view struct {
	*local.Seen
	from *core.Checkpoint // filled under the program's topology; nil: none
	pos  core.Position    // what hangs from the head
	way  []within         // from there into a child, where the verb starts from a checkpoint of one

	hangs  []*core.Checkpoint // behind which the first checkpoints of a branch from there stand
	beside bool               // those are before from and the way, not these
}

// look reads the thread. pick chooses the checkpoint to start from (nil: the head).
func (t *Thread) look(ctx context.Context, d core.Def, pick func(*records.Reader, *local.Seen) (*records.Stored, error)) (*view, error) {
	v := &view{}
	err := t.eng.store.View(ctx, func(tx storage.Tx) error {
		seen, err := t.eng.store.PeekTx(tx, t.eng.tenant, t.id)
		if err != nil {
			return err
		}
		*v = view{Seen: seen}
		if seen.Info == nil {
			return nil
		}
		if seen.Info.Graph != d.Topology().Graph {
			return &NotFoundError{What: "thread", ID: t.id, Hint: fmt.Sprintf("it belongs to graph %q, not %q", seen.Info.Graph, d.Topology().Graph)}
		}
		r := records.NewReader(t.eng.store.Box, tx, seen.Info)
		from := seen.Head
		if pick != nil {
			if from, err = pick(r, seen); err != nil {
				return err
			}
		}
		if from == nil {
			return nil
		}
		if err := t.compatible(r, seen, from, d); err != nil {
			return err
		}
		if err := r.Fill(from, d.Topology(), d.Upgrade); err != nil {
			return err
		}
		v.from = from.Checkpoint
		return r.HangingUnder(from.Checkpoint, d.Topology(), d.Upgrade, &v.pos)
	})
	if err != nil || v.from == nil {
		return v, err
	}
	if err := d.(jsonDef).readable(v.from.Values); err != nil {
		return v, fmt.Errorf("pawl: thread %q: %w; nothing was run and nothing changed", t.id, err)
	}
	return v, nil
}

// compatible compares the channels of a stored checkpoint with the program's; what a run in flight needs besides is
// checked where it goes on.
func (t *Thread) compatible(r *records.Reader, seen *local.Seen, from *records.Stored, d core.Def) error {
	old, err := r.Topology(from.Checkpoint)
	if err != nil {
		return err
	}
	if diff := core.Compare(old, d.Topology(), nil); diff != nil {
		return t.versionError(seen.Run, old, d, diff)
	}
	return nil
}

// goesOn says whether a run may go on from the view's point under the program's graph, by what its past can tell. old is
// the graph of the thread's own checkpoint there.
func (t *Thread) goesOn(v *view, old *core.Topology, d core.Def) error {
	if diff := core.Compare(metOn(old, v.way), d.Topology(), append(pastOf(v.from), past(v.way)...)); diff != nil {
		return t.versionError(v.Run, old, d, diff)
	}
	return nil
}

// under makes the program's graph the run's newest, if it is another than before, and returns its number.
func under(run *core.Run, d core.Def) int {
	digest := core.GraphDigest(d.Topology())
	if n := len(run.Graphs); n == 0 || run.Graphs[n-1] != digest {
		run.Graphs = append(run.Graphs[:n:n], digest)
	}
	return len(run.Graphs) - 1
}

// start makes a run's first checkpoints: its input on top of the state before, and, if the graph's first routes allow,
// the first real snapshot. A route that fails is left to the loop, which reports it.
func (t *Thread) start(ctx context.Context, d core.Def, fresh func() (int64, string), run *core.Run, before *core.Checkpoint, held map[string]any) []*core.Checkpoint {
	topology := d.Topology()
	first := &core.Checkpoint{
		Step: -1, Source: core.SourceInput, Run: run.N, Graph: len(run.Graphs) - 1, Due: []core.Due{{Node: core.Start}},
		Values: make([]*core.Value, len(topology.Channels)),
	}
	if before != nil {
		first.Step, first.Values = before.Step+1, before.Values
		if run.AttemptN == 1 {
			first.Parent = before.N
		}
	}
	first.N, first.ID = fresh()
	l := t.newLoop(d, &core.Position{Run: run}, nil, &runConfig{held: held})
	l.mint = fresh
	return l.opening(ctx, first)
}

// startAgain makes a run's first checkpoints anew, on the state before its input: that is the head, unless the run is a
// retry and the head belongs to the attempt that it set aside.
func (t *Thread) startAgain(ctx context.Context, d core.Def, home *local.Home, head *core.Checkpoint) (*core.Position, []*core.Checkpoint, error) {
	run := home.Run()
	before := head
	if head != nil && head.N != run.Before {
		before = nil
		err := t.eng.store.View(ctx, func(tx storage.Tx) error {
			info, err := t.eng.store.Box.FindThread(tx, t.eng.tenant, t.id)
			if err != nil {
				return err
			}
			if info == nil {
				return local.ErrMoved
			}
			r := records.NewReader(t.eng.store.Box, tx, info)
			stored, err := r.Checkpoint(run.Before)
			if err != nil || stored == nil {
				return err
			}
			before = stored.Checkpoint
			return r.Fill(stored, d.Topology(), d.Upgrade)
		})
		if err != nil {
			return nil, nil, err
		}
	}
	cps := t.start(ctx, d, home.Fresh, run, before, nil)
	home.Queue(cps)
	pos := &core.Position{Run: run, Head: cps[len(cps)-1]}
	if run.Mode != Sync {
		return pos, cps, nil
	}
	return pos, cps, home.Commit(ctx, core.Commit{})
}

// run is Run with whatever reads its input.
func (t *Thread) run(ctx context.Context, cfg *runConfig, read func(core.Def) ([]core.Write, error)) (_ *Outcome, err error) {
	defer t.eng.refused(ctx, t.info(ctx, VerbRun), &err)
	if err := t.eng.allowed(ctx, VerbInfo{Verb: VerbRun, Graph: t.graph, Thread: t.id}); err != nil {
		return nil, err
	}
	d, err := t.code()
	if err != nil {
		return nil, err
	}
	if err := cmp.Or(t.fits(VerbRun, cfg), t.breaksFit(d, cfg)); err != nil {
		return nil, err
	}
	if err := t.named(cfg.runID); err != nil {
		return nil, err
	}
	input, err := read(d)
	if err != nil {
		return nil, fmt.Errorf("pawl: thread %q: %w; nothing was started", t.id, err)
	}
	run := &core.Run{
		ID: cfg.runID, AttemptN: 1, Attempt: uuid.NewString(), Kind: core.RunInput, Mode: cfg.mode, Status: core.StatusRunning,
		Input: input, InputHash: core.HashWrites(input), Actor: ActorFrom(ctx).ID, Accepted: time.Now().UTC(),
		Reason: cfg.reason,
	}
	if run.ID == "" {
		run.ID = uuid.NewString()
	}
	for _, w := range input {
		if err := core.CheckSize(fmt.Sprintf("pawl: thread %q: the input of channel %q", t.id, w.Channel), w.Data); err != nil {
			return nil, err
		}
	}
	cfg.breakAt(run)
	under(run, d)
	if t.eng.store == nil {
		return t.runUnkept(ctx, d, run, cfg)
	}
	return t.claiming(ctx, VerbRun, func() (*Outcome, error) { return t.accept(ctx, d, run, cfg) })
}

// named refuses names that would not come back from storage as they were given, and the empty one, which is most often a
// name that somebody forgot to fill in.
func (t *Thread) named(run string) error {
	for what, id := range map[string]string{"the thread's id": t.id, "the tenant": t.eng.tenant, "the run's id": run} {
		if !utf8.ValidString(id) {
			return fmt.Errorf("pawl: thread %q: %s %q is not valid UTF-8; nothing was started; encode it first, for instance in hex", t.id, what, id)
		}
	}
	if t.id == "" {
		return errors.New("pawl: the thread's id is empty; nothing was started; give each thread an id of its own")
	}
	return nil
}

// accept makes a run durable and runs it.
func (t *Thread) accept(ctx context.Context, d core.Def, run *core.Run, cfg *runConfig) (*Outcome, error) {
	v, err := t.look(ctx, d, nil)
	if err != nil {
		return nil, err
	}
	if cfg.runID != "" && v.Info != nil {
		if out, found, err := t.known(ctx, v, run); found || err != nil {
			if out != nil {
				err = errors.Join(err, t.noted(ctx, t.of(ctx, VerbRun, v.Run, cfg.reason)))
			}
			return out, err
		}
	}
	if err := t.legal(VerbRun, v, cfg); err != nil {
		return nil, err
	}
	home := t.home(v, d)
	run.N = home.NewRun()
	if v.from != nil {
		run.Before = v.from.N
	}
	cps := t.start(ctx, d, home.Fresh, run, v.from, cfg.held)
	b := local.Batch{Graph: d.Topology(), Runs: []*core.Run{run}, Withdraw: len(v.Open) > 0}
	b.Do = t.flowing(run.Version(), t.eng.consenting(t.of(ctx, VerbRun, run, cfg.reason)))
	if run.Mode == Sync {
		b.Checkpoints = cps
	}
	if err := home.Claim(ctx, v.Seen, run, b); err != nil {
		return nil, err
	}
	if run.Mode != Sync {
		home.Queue(cps)
	}
	l := t.newLoop(d, &core.Position{Run: run, Head: cps[len(cps)-1]}, home, cfg).starting(cps, v.from)
	l.dropped = append(v.pos.Finished(), v.pos.FinishedInside()...)
	return t.execute(ctx, l, home)
}

func (t *Thread) home(v *view, d core.Def) *local.Home {
	home := local.NewHome(t.eng.store, v.Seen, t.eng.tenant, t.id, d.Topology(), max(t.eng.limits.Questions, 0))
	home.Upgrade, home.Program = d.Upgrade, d
	return home
}

// known reports the run that has the id already, if the thread has one.
func (t *Thread) known(ctx context.Context, v *view, want *core.Run) (*Outcome, bool, error) {
	if v.Run == nil || v.Run.ID != want.ID {
		found, err := t.findRun(ctx, v.Info.N, want.ID)
		if err != nil || found == nil {
			return nil, false, err
		}
		if found.InputHash != want.InputHash {
			return nil, true, t.runIDReused(v, want.ID)
		}
		if found.Status == Running || found.Status == Waiting { // a fork or replay left it behind, and goes on in its place
			out, err := t.stands(v)
			if err != nil {
				return nil, true, err
			}
			return t.standing(out)
		}
		out := &Outcome{Thread: t.id, Graph: v.Info.Graph, Run: found.ID, Attempt: found.Attempt, Status: found.Status,
			Cause: found.Cause, Reason: found.Error, Node: found.ErrorNode}
		return t.standing(out)
	}
	if v.Run.InputHash != want.InputHash {
		return nil, true, t.runIDReused(v, want.ID)
	}
	out, err := t.stands(v)
	if err != nil {
		return nil, true, err
	}
	return t.standing(out)
}

func (t *Thread) standing(out *Outcome) (*Outcome, bool, error) {
	switch out.Status {
	case Done, Waiting:
		return out, true, nil
	case Running, Pending:
		return out, true, &VerbError{Verb: VerbRun, Thread: t.id, Status: out.Status, Advice: "this run was started before and is going on"}
	}
	return out, true, runError(t.id, out.Run, out)
}

func (t *Thread) runIDReused(v *view, id string) error {
	return &VerbError{Verb: VerbRun, Thread: t.id, Status: v.Status,
		Advice: fmt.Sprintf("run %q was started before with another input: give this one another RunID", id)}
}

func (t *Thread) findRun(ctx context.Context, number int64, id string) (*core.Run, error) {
	var run *core.Run
	err := t.eng.store.View(ctx, func(tx storage.Tx) error {
		rows, err := tx.List(records.Run, storage.Query{Index: "by_id", Range: storage.Range{Prefix: []any{number, id}}, Desc: true, Limit: 1})
		if err != nil || len(rows) == 0 {
			return err
		}
		run, err = t.eng.store.Box.ReadRun(t.id, rows[0])
		return err
	})
	return run, err
}

// claiming does what a verb does, again as long as the thread changes under it.
func (t *Thread) claiming(ctx context.Context, verb Verb, do func() (*Outcome, error)) (*Outcome, error) {
	if err := t.eng.store.PayUp(ctx); err != nil {
		return nil, err
	}
	for range looks {
		out, err := do()
		if !errors.Is(err, local.ErrMoved) {
			return out, t.explained(ctx, err)
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("pawl: thread %q: %s: %w; nothing was changed", t.id, verb, context.Cause(ctx))
		}
	}
	return nil, &VerbError{Verb: verb, Thread: t.id, Status: Running, Advice: "others keep changing it; try again"}
}

// runUnkept runs a graph without storage.
func (t *Thread) runUnkept(ctx context.Context, d core.Def, run *core.Run, cfg *runConfig) (*Outcome, error) {
	l := t.newLoop(d, &core.Position{Run: run}, nil, cfg)
	l.sink = nil
	cps := t.start(ctx, d, l.fresh, run, nil, cfg.held)
	l.starting(cps, nil).pos.Head, l.sink = cps[len(cps)-1], cfg.sink
	ctx, leave, err := t.eng.enter(ctx, t.id, run.N)
	if err != nil {
		return nil, err
	}
	defer leave()
	l.tellStart(nil)
	stop, cause, err := l.run(ctx)
	if err != nil {
		return nil, err
	}
	return t.outcome(ctx, l, run, stop, cause)
}

func numberedID(thread string, n int64) string {
	var room [64]byte
	return string(strconv.AppendInt(append(room[:0], thread...), n, 10))
}
