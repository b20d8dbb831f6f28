package pawl

import (
	"context"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/records"
	"github.com/pawl-dev/pawl/storage"
)

// Runner goes on with threads that stand and could go on: whose questions and approvals are decided, that were drained, or
// whose process died. It is a source of package worker. Without one they stand until somebody resumes them.
//
// It resumes as anybody would, as the actor "worker": of several runners, and of people beside them, one takes the thread.
// It leaves alone what a person means to stand: breakpoints, edits, held forks, failures, and threads of graphs that are
// not registered here or whose version does not fit.
type Runner struct {
	background

	// What follows is of Due, which the worker calls from one goroutine.
	from   int64            // decisions before it, in milliseconds of the database's clock, were looked at
	swept  time.Time        // when all waiting threads were looked at
	called time.Time        // when dead owners were looked for
	left   map[string]int64 // epochs of crashed threads that were tried, by id: a claim raises the epoch
}

// Runner makes a runner for the engine's tenant.
func (e *Engine) Runner() *Runner {
	return &Runner{background: background{eng: e, busy: map[string]bool{}}}
}

// Name is "threads".
func (r *Runner) Name() string { return "threads" }

const (
	sweep = 5 * time.Minute // between two looks at all waiting threads, should a look at those that changed have missed one
	pulse = 5 * time.Second // between two looks for dead owners, whose death changes no row
	slack = 1000            // milliseconds by which one decision may be written after a later one
)

// runnerActor resumes threads that can go on.
var runnerActor = Actor{ID: "worker", Kind: "service"}

// ready is a thread that may go on.
type ready struct {
	info *records.ThreadInfo
	head string // that it was found at
	why  string
}

// Due resumes threads that can go on, at most limit at once. It does not wait for these runs; Wait does. When ctx ends,
// they are drained: they stop at their next super-step, and whoever runs a Runner next goes on.
func (r *Runner) Due(ctx context.Context, limit int) (done int, next time.Time, err error) {
	e := r.eng
	if e.store == nil || len(e.Graphs()) == 0 || e.ending() {
		return 0, time.Time{}, nil
	}
	now := time.Now()
	if now.Sub(r.swept) >= sweep {
		r.from, r.swept, r.called, r.left = 0, now, time.Time{}, map[string]int64{}
	}
	if next = now.Add(sweep); now.Sub(r.called) >= pulse {
		crashed, running, err := r.crashed(ctx)
		if err != nil {
			return 0, time.Time{}, err
		}
		if r.called = now; running > 0 {
			next = now.Add(pulse)
		}
		for _, info := range crashed {
			if !r.room(limit) {
				break
			}
			if r.left[info.ID] = info.epoch; r.start(ctx, ready{info: info.ThreadInfo, why: "its process died"}) {
				done++
			}
		}
	} else {
		next = r.called.Add(pulse)
	}
	started, err := r.decided(ctx, limit)
	if done += started; !r.room(limit) { // a run that ends may change nothing that would wake the worker
		next = now.Add(tryNext)
	}
	return done, next, err
}

// room says whether another run may be started.
func (r *Runner) room(limit int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.busy) < max(limit, 1)
}

// dead is a thread that runs under an owner who died.
type dead struct {
	*records.ThreadInfo
	epoch int64
}

// crashed are the threads whose owner died and that were not tried since, and how many run.
func (r *Runner) crashed(ctx context.Context) (out []dead, running int, err error) {
	err = r.eng.store.View(ctx, func(tx storage.Tx) error {
		out = nil
		rows, err := r.rows(tx, core.StatusRunning, 0, 0)
		running = len(rows)
		for _, row := range rows {
			lease, _, err := tx.Lease(row.Fields[0].(int64), storage.Look, "")
			if err != nil {
				return err
			}
			if epoch, known := r.left[row.Key[1].(string)]; lease.Alive || known && epoch == lease.Epoch || !r.serves(row) {
				continue
			}
			info, err := r.eng.store.Box.ReadThread(row)
			if err != nil {
				return err
			}
			out = append(out, dead{info, lease.Epoch})
		}
		return err
	})
	return out, running, err
}

func (r *Runner) serves(row storage.Row) bool {
	_, served := r.eng.graph(row.Fields[1].(string))
	return served
}

// rows are the tenant's threads of a status, in the order in which they came to it or what they wait for was decided.
func (r *Runner) rows(tx storage.Tx, status core.Status, from int64, limit int) ([]storage.Row, error) {
	return tx.List(records.Thread, storage.Query{
		Index: "by_status", Range: storage.Range{Prefix: []any{r.eng.tenant, string(status)}, From: from}, Limit: limit,
	})
}

// decided starts the waiting threads that can go on, those first whose decision is the oldest.
func (r *Runner) decided(ctx context.Context, limit int) (started int, err error) {
	page, at := 500, max(r.from-slack, 0)
	for {
		var found []ready
		var rows int
		last := at
		err := r.eng.store.View(ctx, func(tx storage.Tx) error {
			found, last = nil, at
			list, err := r.rows(tx, core.StatusWaiting, at, page)
			if rows = len(list); err != nil {
				return err
			}
			for _, row := range list {
				last = row.Fields[3].(int64)
				if !r.serves(row) {
					continue
				}
				info, err := r.eng.store.Box.ReadThread(row)
				if err != nil {
					return err
				}
				why, err := r.may(tx, info)
				if err != nil {
					return err
				}
				if why != "" {
					found = append(found, ready{info: info, why: why})
				}
			}
			return nil
		})
		if err != nil {
			return started, err
		}
		for _, f := range found {
			if !r.room(limit) {
				return started, nil
			}
			if r.can(ctx, &f) && r.start(ctx, f) {
				started++
			}
			r.from = max(r.from, f.info.Updated.UnixMilli())
		}
		if r.from = max(r.from, last); rows < page {
			return started, nil
		}
		if last == at {
			page *= 2 // all of one millisecond
		}
		at = last
	}
}

// may says why a waiting thread may be able to go on, by its rows alone: it was drained, or something that it asked is
// decided. Empty: it is not.
func (r *Runner) may(tx storage.Tx, info *records.ThreadInfo) (string, error) {
	run, err := records.NewReader(r.eng.store.Box, tx, info).Run(info.Run)
	if err != nil || run.Cause == core.CauseDrained {
		return "it was drained", err
	}
	for _, s := range []core.QuestionState{core.QuestionAnswered, core.QuestionSubmitted, core.QuestionExpired, core.QuestionWithdrawn} {
		rows, err := tx.List(records.Question, storage.Query{
			Index: "by_thread", Range: storage.Range{Prefix: []any{info.N, string(s)}}, Limit: 1, NoBody: true,
		})
		if err != nil || len(rows) > 0 {
			return "what it waited for is decided", err
		}
	}
	return "", nil
}

// can looks at where the thread stands.
func (r *Runner) can(ctx context.Context, f *ready) bool {
	d, _ := r.eng.graph(f.info.Graph)
	t := r.eng.Thread(f.info.Graph, f.info.ID)
	v, err := t.look(ctx, d, nil)
	if err != nil {
		r.tell(f, err)
		return false
	}
	if v.Status != Waiting || v.from == nil || v.from.Run != v.Run.N {
		return false
	}
	v.pos.Head, f.head = v.from, v.from.ID
	return v.Run.Cause == core.CauseDrained || v.pos.Decided(t.identity(), 0, v.Now)
}

// start goes on with a thread in the background, if it stands as it was found.
func (r *Runner) start(ctx context.Context, f ready) bool {
	return r.begin(f.info.ID, func() {
		within, drain := WithDrain(WithActor(context.WithoutCancel(ctx), runnerActor))
		defer context.AfterFunc(ctx, func() { drain("the worker ends") })()
		_, err := r.eng.Thread(f.info.Graph, f.info.ID).Resume(within, At(f.head), Reason(f.why))
		if err != nil {
			r.tell(&f, err)
		}
	})
}

func (r *Runner) tell(f *ready, err error) {
	if r.eng.opts.Logger != nil {
		r.eng.opts.Logger.Info("going on with a thread: "+f.why, "thread", f.info.ID, "graph", f.info.Graph, "error", err)
	}
}

// background are the runs that a source of package worker started.
type background struct {
	eng *Engine

	mu   sync.Mutex
	busy map[string]bool // their threads
	runs sync.WaitGroup
}

// begin starts a thread's run, if it has none already.
func (b *background) begin(thread string, run func()) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.eng
	e.mu.Lock()
	defer e.mu.Unlock()
	if b.busy[thread] || e.closed {
		return false
	}
	b.busy[thread] = true
	e.idle.Add(1)
	b.runs.Go(func() {
		defer e.idle.Done()
		run()
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.busy, thread)
	})
	return true
}

// Wait waits until the runs that Due resumed have stopped, or ctx ends, which does not end them. Nobody may call Due
// meanwhile.
func (b *background) Wait(ctx context.Context) error {
	over := make(chan struct{})
	go func() { b.runs.Wait(); close(over) }()
	select {
	case <-over:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// ending says that no run is started here any more.
func (e *house) ending() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.closed || e.leaving != nil
}

// decidedNow makes a waiting thread the newest of its status, where a Runner finds it: something that it waits for was
// decided. A thread that runs comes to that place by stopping.
func decidedNow(tx storage.Tx, tenant, thread string) error {
	row, ok, err := tx.Get(records.Thread, tenant, thread)
	if err != nil || !ok || row.Fields[2].(string) != string(core.StatusWaiting) {
		return err
	}
	row.Fields[3] = tx.Now().UnixMilli()
	_, err = tx.Put(records.Thread, row, storage.Always())
	return err
}
