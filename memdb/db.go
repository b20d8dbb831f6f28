// Package memdb is a home in memory: for tests, for programs that need no durability, and as the plainest reading of
// the contract in package storage.
//
// Updates run one at a time and in place, with an undo log. A View runs on a snapshot that shares unchanged nodes and
// holds no lock, so it neither waits for a commit made meanwhile nor delays it; it starts between two Updates. Bodies
// are copied on the way in and on the way out.
//
// Waiting is done on channels only, so that the package works under testing/synctest; Tx.Now is time.Now.
package memdb

import (
	"context"
	"fmt"
	"sync"

	"github.com/pawl-dev/pawl/storage"
)

// DB is a home in memory. It implements [storage.DB].
type DB struct {
	tables map[string]*table
	turn   chan struct{} // holds one token while an Update runs or a snapshot is made

	// guarded by turn
	state state
	undo  []change
	snap  *state // of the current state, or nil

	mu      sync.Mutex
	closed  bool
	members map[string]bool // those alive
	changes uint64
	wake    chan struct{} // closed by the next commit, or nil
	running sync.WaitGroup
}

var _ storage.DB = (*DB)(nil)

// Open makes an empty home for rows of the given kinds.
func Open(kinds ...storage.Kind) (*DB, error) {
	db := &DB{tables: map[string]*table{}, turn: make(chan struct{}, 1), members: map[string]bool{}}
	db.state.leases = newLeases()
	for _, k := range kinds {
		if err := k.Check(); err != nil {
			return nil, err
		}
		if db.tables[k.Name] != nil {
			return nil, fmt.Errorf("memdb: kind %q is declared twice", k.Name)
		}
		t, err := newTable(k, len(db.state.trees))
		if err != nil {
			return nil, err
		}
		for _, c := range t.orders {
			db.state.trees = append(db.state.trees, c.tree())
		}
		db.tables[k.Name] = t
	}
	return db, nil
}

// View runs fn on a snapshot. See [storage.DB].
func (db *DB) View(ctx context.Context, fn func(ctx context.Context, tx storage.Tx) error) error {
	if err := db.enter(ctx); err != nil {
		return err
	}
	defer db.running.Done()
	if err := db.takeTurn(ctx); err != nil {
		return err
	}
	snap := db.snapshot()
	<-db.turn
	t := &tx{db: db, state: snap}
	return t.run(ctx, fn)
}

// Update runs fn and keeps what it wrote if it returns nil. See [storage.DB]. Every Update is alone.
func (db *DB) Update(ctx context.Context, fn func(ctx context.Context, tx storage.Tx) error) error {
	if err := db.enter(ctx); err != nil {
		return err
	}
	defer db.running.Done()
	if err := db.takeTurn(ctx); err != nil {
		return err
	}
	t := &tx{db: db, state: &db.state, write: true}
	good := false
	defer func() { // also when fn ends its goroutine
		db.finish(good)
		<-db.turn
	}()
	err := t.run(ctx, fn)
	good = err == nil
	return err
}

// Join makes the caller a member. See [storage.DB].
func (db *DB) Join(ctx context.Context) (storage.Member, error) {
	if err := db.enter(ctx); err != nil {
		return nil, err
	}
	defer db.running.Done()
	return db.newMember(), nil
}

// Changed returns the number of commits so far and a channel that the next one closes. See [storage.DB].
func (db *DB) Changed(since uint64) (uint64, <-chan struct{}) {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.changes > since {
		past := make(chan struct{})
		close(past)
		return db.changes, past
	}
	if db.wake == nil {
		db.wake = make(chan struct{})
	}
	return db.changes, db.wake
}

// Info says that nothing here survives the process.
func (db *DB) Info() storage.Info { return storage.Info{Driver: "memory", Schema: 1} }

// Close waits for running calls; later ones fail with [storage.ErrClosed].
func (db *DB) Close() error {
	db.mu.Lock()
	db.closed = true
	db.mu.Unlock()
	db.running.Wait()
	return nil
}

// enter counts a call as running, unless it must not start.
func (db *DB) enter(ctx context.Context) error {
	if ctx.Value(insideKey{}) != nil {
		return storage.ErrNested
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.closed {
		return storage.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return notStarted(err)
	}
	db.running.Add(1)
	return nil
}

func (db *DB) takeTurn(ctx context.Context) error {
	select {
	case db.turn <- struct{}{}:
		return nil
	default:
	}
	select {
	case db.turn <- struct{}{}:
	case <-ctx.Done():
		return notStarted(ctx.Err())
	}
	if err := ctx.Err(); err != nil {
		<-db.turn
		return notStarted(err)
	}
	return nil
}

func notStarted(err error) error {
	return fmt.Errorf("memdb: not started, nothing was written: %w", err)
}

// snapshot returns the current state as one that never changes.
func (db *DB) snapshot() *state {
	if db.snap == nil {
		s := &state{trees: make([]tree[record], len(db.state.trees)), leases: db.state.leases.snapshot()}
		for i := range s.trees {
			s.trees[i] = db.state.trees[i].snapshot()
		}
		db.snap = s
	}
	return db.snap
}

// finish keeps or undoes the changes of the Update that has the turn.
func (db *DB) finish(keep bool) {
	if len(db.undo) == 0 {
		return
	}
	if keep {
		db.snap = nil
		db.announce()
	} else {
		for i := len(db.undo) - 1; i >= 0; i-- {
			db.undo[i].revert(&db.state)
		}
	}
	clear(db.undo)
	db.undo = db.undo[:0]
	if cap(db.undo) > 4096 {
		db.undo = nil
	}
}

func (db *DB) announce() {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.changes++
	if db.wake != nil {
		close(db.wake)
		db.wake = nil
	}
}
