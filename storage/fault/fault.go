// Package fault wraps a home for tests: it fails, freezes, delays or kills at a chosen point of a chosen Update, or
// ends the life of one simulated process while the home itself lives on.
//
// A sweep runs a program once without faults, asks [DB.Calls] how many points it passed, and then runs it once for
// every point:
//
//	for n := range points {
//		db := fault.Wrap(home, fault.Plan{At: fault.At(n, fault.Stop())})
//		...
//	}
package fault

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/storage"
)

// ErrStopped is returned by every call to a [DB] that was stopped. An Update that had committed by then, and was not
// acknowledged, returns it inside a [*storage.UnknownError].
var ErrStopped = errors.New("fault: this home was stopped, as if its process had died")

// Op is the call that passes a point.
type Op string

// The calls that have points.
const (
	Update Op = "update"
	View   Op = "view"
	// Outside is no call: see [DB.Pass].
	Outside Op = "outside"
)

// Place is where in its call a point lies.
type Place string

const (
	// Before the function runs: nothing is written.
	Before Place = "before"
	// After the commit: it is written, and the caller does not know yet. A call that failed has no such point.
	After Place = "after"
)

// Point is one place where a fault can be put. For one caller the numbers are the same in every run.
type Point struct {
	N     int // counts points from 0
	Call  int // counts calls from 0; those that are not counted by the plan have no number
	Op    Op
	Place Place
}

// Plan says what happens at which point. The zero Plan lets everything pass.
type Plan struct {
	// At is asked at every point, by one goroutine at a time; it must not call the DB. Nil: nothing happens.
	At func(Point) Action
	// Delay is how long each Update takes before its commit, beside others: a slow disk with group commit.
	// Under testing/synctest it costs no real time.
	Delay time.Duration
	// Views makes every View pass points, too.
	Views bool
}

// At plans one action at point n.
func At(n int, a Action) func(Point) Action {
	return func(p Point) Action {
		if p.N == n {
			return a
		}
		return Action{}
	}
}

// DB is a home with faults. It is safe for concurrent use and starts no goroutine.
type DB struct {
	inner storage.DB
	plan  Plan

	mu      sync.Mutex
	points  int
	calls   int
	members map[*member]bool
	dead    bool
	stop    sync.Once
	stopped chan struct{}  // closed when dead
	inside  sync.WaitGroup // calls of the inner home
}

var _ storage.DB = (*DB)(nil)

// Wrap puts a plan before a home. Several wrappers of one home are several processes that share it.
func Wrap(home storage.DB, plan Plan) *DB {
	return &DB{inner: home, plan: plan, members: map[*member]bool{}, stopped: make(chan struct{})}
}

// Calls returns how many points were passed so far.
func (d *DB) Calls() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.points
}

// Stop ends the life of the simulated process: every call that is held or made from now on fails with [ErrStopped],
// nothing more is written through this DB, and the members that joined through it are dead when Stop returns. It
// waits for functions that are running, so it must not be called inside one.
func (d *DB) Stop() {
	d.stop.Do(func() {
		d.mu.Lock()
		d.dead = true
		close(d.stopped)
		members := d.members
		d.members = nil
		d.mu.Unlock()
		d.inside.Wait()
		for m := range members {
			_ = m.Member.Close() // a process that dies hears no error either
		}
	})
}

// Update passes a point, runs the inner Update and passes another. See [storage.DB].
func (d *DB) Update(ctx context.Context, fn func(ctx context.Context, tx storage.Tx) error) error {
	call, err := d.before(ctx, Update)
	if err != nil {
		return err
	}
	if err := d.sleep(ctx, d.plan.Delay); err != nil {
		return err
	}
	err = d.enter(ctx, d.inner.Update, func(ctx context.Context, tx storage.Tx) error {
		if err := fn(ctx, tx); err != nil {
			return err
		}
		return d.alive()
	})
	if err != nil {
		return err
	}
	err = d.pass(context.WithoutCancel(ctx), Point{Call: call, Op: Update, Place: After})
	var unknown *storage.UnknownError
	if err != nil && !errors.As(err, &unknown) {
		err = &storage.UnknownError{Err: err}
	}
	return err
}

// View runs the inner View, between two points if the plan counts Views. See [storage.DB].
func (d *DB) View(ctx context.Context, fn func(ctx context.Context, tx storage.Tx) error) error {
	if !d.plan.Views {
		if err := d.enter(ctx, d.inner.View, fn); err != nil {
			return err
		}
		return d.alive()
	}
	call, err := d.before(ctx, View)
	if err != nil {
		return err
	}
	if err := d.enter(ctx, d.inner.View, fn); err != nil {
		return err
	}
	return d.pass(ctx, Point{Call: call, Op: View, Place: After})
}

// Pass passes one point that lies outside the home, such as a request to another system: there, too, the process may
// die. The error is for who called that system, and what happened there stays.
func (d *DB) Pass(ctx context.Context) error {
	_, err := d.before(ctx, Outside)
	return err
}

type transaction = func(context.Context, func(context.Context, storage.Tx) error) error

// enter makes a call of the inner home, unless this one is dead. Stop waits for it.
func (d *DB) enter(ctx context.Context, run transaction, fn func(context.Context, storage.Tx) error) error {
	d.mu.Lock()
	if d.dead {
		d.mu.Unlock()
		return ErrStopped
	}
	d.inside.Add(1)
	d.mu.Unlock()
	defer d.inside.Done()
	return run(ctx, fn)
}

func (d *DB) alive() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dead {
		return ErrStopped
	}
	return nil
}

// before counts a call and passes its first point.
func (d *DB) before(ctx context.Context, op Op) (call int, err error) {
	d.mu.Lock()
	call = d.calls
	d.calls++
	d.mu.Unlock()
	return call, d.pass(ctx, Point{Call: call, Op: op, Place: Before})
}

// pass counts a point and does what is planned there.
func (d *DB) pass(ctx context.Context, p Point) error {
	a, err := d.ask(p)
	if err != nil || a.do == nil {
		return err
	}
	if err := a.do(ctx, d); err != nil {
		return err
	}
	return d.alive()
}

func (d *DB) ask(p Point) (Action, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dead {
		return Action{}, ErrStopped
	}
	p.N = d.points
	d.points++
	if d.plan.At == nil {
		return Action{}, nil
	}
	return d.plan.At(p), nil
}

// Join joins the inner home. See [storage.DB].
func (d *DB) Join(ctx context.Context) (storage.Member, error) {
	if err := d.alive(); err != nil {
		return nil, err
	}
	inner, err := d.inner.Join(ctx)
	if err != nil {
		return nil, err
	}
	m := &member{Member: inner, db: d}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dead {
		_ = inner.Close()
		return nil, ErrStopped
	}
	d.members[m] = true
	return m, nil
}

// Changed asks the inner home, also after Stop.
func (d *DB) Changed(since uint64) (uint64, <-chan struct{}) { return d.inner.Changed(since) }

// Info asks the inner home.
func (d *DB) Info() storage.Info { return d.inner.Info() }

// Close closes the inner home. After Stop it leaves the inner home open, for the process that comes next.
func (d *DB) Close() error {
	if d.alive() != nil {
		return nil
	}
	return d.inner.Close()
}

// member is a member that dies with its DB.
type member struct {
	storage.Member
	db *DB
}

func (m *member) Close() error {
	m.db.mu.Lock()
	mine := m.db.members[m]
	delete(m.db.members, m)
	m.db.mu.Unlock()
	if !mine {
		return nil
	}
	return m.Member.Close()
}
