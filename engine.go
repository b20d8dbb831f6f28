// Package pawl is a durable agent-graph engine: nodes over typed shared state, a checkpoint at every super-step,
// questions to people that survive the process, steps that are not repeated, and history that can be read and forked.
//
// A program declares a state type whose fields are channels, a graph of nodes over it, and an engine over a database:
//
//	g, err := pawl.New[State]("approve").
//		Node("approve", approve, pawl.Uses(ship)).
//		Edge(pawl.Start, "approve").
//		Build()
//	eng, err := pawl.NewEngine(db, nil)
//	err = eng.Register(g)
//	out, err := g.Thread(eng, "order-17").Run(ctx, &State{})
//
// A node runs again from its first line when a question of it is answered; what must not run again stands in a [Step].
// loop.go is the file to read first.
package pawl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/local"
	"github.com/pawl-dev/pawl/internal/records"
	"github.com/pawl-dev/pawl/storage"
)

// Kinds are the record kinds that the engine keeps in a database: give them to the driver's Open.
func Kinds() []storage.Kind { return records.Kinds() }

// Engine runs graphs over one database. It is safe for concurrent use. Copies made by Tenant share everything but the
// tenant.
type Engine struct {
	*house
	tenant string
}

// house is what all views of an engine share.
type house struct {
	store  *local.Store // nil: no storage
	member storage.Member
	opts   Options
	limits Limits

	mu      sync.Mutex
	graphs  map[string]core.Def
	running map[runningKey]*running
	rings   map[runningKey]*ring // of threads that run or are watched here
	closed  bool
	leaving *string // why the engine shuts down; nil: it does not
	idle    sync.WaitGroup
	stop    chan struct{} // closed by Close
	watched bool
	entered bool // a run was noted since requests to cancel were last looked for
}

type runningKey struct{ tenant, thread string }

// running is a run of this process.
type running struct {
	attempt int64 // its number in the thread
	cancel  context.CancelCauseFunc
	drain   *drain
	over    chan struct{}
}

// NewEngine makes an engine over db, which must have been opened with Kinds. It joins as a member: threads that it runs
// are its own until Close or until its process dies. With a nil db graphs run without being kept, and the first
// question fails by name. The engine does not close db.
func NewEngine(db storage.DB, options *Options) (*Engine, error) {
	h := &house{
		graphs: map[string]core.Def{}, running: map[runningKey]*running{}, rings: map[runningKey]*ring{},
		stop: make(chan struct{}),
	}
	if options != nil {
		h.opts = *options
	}
	if h.opts.Durability == "" {
		h.opts.Durability = Sync
	}
	if err := checkMode(h.opts.Durability); err != nil {
		return nil, err
	}
	var err error
	if h.limits, err = h.opts.Limits.filled(); err != nil {
		return nil, err
	}
	if db != nil {
		member, err := db.Join(context.Background())
		if err != nil {
			return nil, fmt.Errorf("pawl: joining the database: %w", err)
		}
		h.member = member
		h.store = &local.Store{DB: db, Box: records.Box{Codec: h.opts.Codec}, Member: member.ID()}
	}
	return &Engine{house: h}, nil
}

func checkMode(d Durability) error {
	switch d {
	case Sync, Async, Exit:
		return nil
	}
	return fmt.Errorf("pawl: durability %q is none of sync, async, exit; nothing was done", d)
}

// Tenant returns a view of the engine that sees the threads of one tenant and of no other. The empty tenant is one too.
func (e *Engine) Tenant(tenant string) *Engine { return &Engine{house: e.house, tenant: tenant} }

// Register makes a graph known to the engine by its name, for all tenants. A second graph of that name is refused.
func (e *Engine) Register(graphs ...Registrable) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return ErrClosed
	}
	for _, g := range graphs {
		if g == nil {
			return errors.New("pawl: a nil graph was given to register; check the error of Build first")
		}
		def := g.erased()
		name := def.Topology().Graph
		if old, ok := e.graphs[name]; ok && old != def {
			return fmt.Errorf("pawl: graph %q is registered already; give one of the two another name", name)
		}
		e.graphs[name] = def
	}
	return nil
}

// Graphs returns the names of the registered graphs, sorted.
func (e *Engine) Graphs() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var names []string
	for n := range e.graphs {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

func (e *Engine) graph(name string) (core.Def, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	d, ok := e.graphs[name]
	return d, ok
}

// Used is what a node of a registered graph declares under a name with [Uses]; nil: nothing, or the graph's code is not
// here. It is for deciders of other packages, who check by an effect's own rules what people make of it.
func (e *Engine) Used(graph, name string) Usable {
	d, _ := e.graph(graph)
	if u, ok := d.(interface{ used(name string) Usable }); ok {
		return u.used(name)
	}
	return nil
}

// Close stops the runs of this process at once, waits for their tasks to return, and leaves the database. What finished
// is kept, and the runs wait with cause [CauseDrained]: Resume, or a Runner of another process, enters the tasks again that
// were stopped. Shutdown lets runs come to the end of their super-step first. Without storage the runs fail.
func (e *Engine) Close() error {
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return nil
	}
	e.closed = true
	for _, r := range e.running {
		r.cancel(ErrClosed)
	}
	close(e.stop)
	e.mu.Unlock()
	e.idle.Wait()
	if e.member == nil {
		return nil
	}
	return e.member.Close()
}

// Stats are the engine's own measurements since it was made.
type Stats struct {
	Writes int // durable writes
	Least  time.Duration
	Median time.Duration // of the last 1,024
	Most   time.Duration
	Window time.Duration // the longest time that finished work of Async and Exit runs was not yet on disk
}

// Stats measures what durability costs, and what a crash could lose: under Async and Exit, finished work of up to
// Window.
func (e *Engine) Stats() Stats {
	if e.store == nil {
		return Stats{}
	}
	f := e.store.Stats.Read()
	return Stats{Writes: f.Writes, Least: f.Least, Median: f.Median, Most: f.Most, Window: f.Window}
}

// allowed asks Options.Allow, before anything is read.
func (e *Engine) allowed(ctx context.Context, v VerbInfo) error {
	if e == nil || e.house == nil {
		return errors.New("pawl: there is no engine; make one with NewEngine; nothing was done")
	}
	e.mu.Lock()
	closed, leaves := e.closed, e.leaves(ctx, v.Verb)
	e.mu.Unlock()
	if closed {
		return fmt.Errorf("%w; nothing was done", ErrClosed)
	}
	if leaves != nil {
		return leaves
	}
	if e.opts.Allow == nil {
		return nil
	}
	v.Actor, v.Tenant = ActorFrom(ctx), e.tenant
	if err := e.opts.Allow(ctx, v); err != nil {
		return fmt.Errorf("%w: %s of thread %q by %q: %w; nothing was read and nothing was done", ErrDenied, v.Verb, v.Thread, v.Actor.ID, err)
	}
	return nil
}

// enter notes a run of this process, so that Cancel, Close and Shutdown reach it.
func (e *Engine) enter(ctx context.Context, thread string, attempt int64) (context.Context, func(), error) {
	ctx, cancel := context.WithCancelCause(ctx)
	key := runningKey{e.tenant, thread}
	r := &running{attempt: attempt, cancel: cancel, drain: newDrain(ctx), over: make(chan struct{})}
	ctx = context.WithValue(ctx, drainKey{}, r.drain)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		cancel(nil)
		return nil, nil, ErrClosed
	}
	if e.leaving != nil {
		r.drain.ask(*e.leaving)
	}
	e.running[key], e.entered = r, true
	e.idle.Add(1)
	if e.store != nil && !e.watched {
		e.watched = true
		e.idle.Add(1)
		go e.watch()
	}
	return ctx, func() {
		e.mu.Lock()
		if e.running[key] == r {
			delete(e.running, key)
		}
		e.mu.Unlock()
		cancel(nil)
		close(r.over)
		e.idle.Done()
	}, nil
}

// watch looks for cancel requests of other processes while something runs here, or could not be let go. One goroutine
// serves all runs.
func (e *house) watch() {
	defer e.idle.Done()
	e.store.WatchCancels(e.stop, e.tick, func(tenant, thread string, attempt int64, reason string) {
		e.mu.Lock()
		defer e.mu.Unlock()
		if r := e.running[runningKey{tenant, thread}]; r != nil && r.attempt == attempt {
			r.cancel(&cancelCause{reason})
		}
	}, func(err error) {
		if e.opts.Logger != nil {
			e.opts.Logger.Warn("looking for cancel requests failed", "error", err)
		}
	})
}

// tick says whether nothing runs here, and then takes note that nobody watches any more, and whether a run was noted
// since the last tick: a request may have come while its thread was claimed and its run not noted yet.
func (e *house) tick() (rest, look bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.running) == 0 && !e.store.Owes() {
		e.watched = false
	}
	look, e.entered = e.entered, false
	return !e.watched, look
}

// Doctor reads what a person wants to know about the engine's home.
type Doctor struct {
	Storage storage.Info
	Graphs  []string
	Stats   Stats
	Note    string
}

// Doctor describes where threads are kept and what that promises.
func (e *Engine) Doctor() Doctor {
	d := Doctor{Graphs: e.Graphs(), Stats: e.Stats(), Note: "there is no storage: nothing is kept and no question can be asked"}
	if e.store != nil {
		d.Storage = e.store.DB.Info()
		if d.Note = "threads survive the process"; !d.Storage.Durable {
			d.Note = "threads will not survive a restart: this storage is in memory"
		}
	}
	return d
}
