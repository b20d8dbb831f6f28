package memdb

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/storage"
)

// tx is one running View or Update.
type tx struct {
	inside inside
	db     *DB
	state  *state
	write  bool
	over   bool  // its function has returned
	err    error // the first error of a method
	now    time.Time
}

var _ storage.Tx = (*tx)(nil)

type insideKey struct{}

// inside is the context of a running function; it betrays nested calls.
type inside struct{ context.Context }

func (c *inside) Value(key any) any {
	if key == (insideKey{}) {
		return true
	}
	return c.Context.Value(key)
}

// run calls fn and returns the error that decides: a panic, the first error of a method, or fn's own.
func (t *tx) run(ctx context.Context, fn func(context.Context, storage.Tx) error) (err error) {
	returned := false
	defer func() {
		t.over = true
		if !returned {
			err = &storage.PanicError{Value: recover(), Stack: debug.Stack()}
		}
	}()
	t.inside.Context = ctx
	err = fn(&t.inside, t)
	returned = true
	if t.err != nil && !errors.Is(err, t.err) {
		return t.err
	}
	return err
}

// change is what undoes one change: of a row, or of a lease.
type change struct {
	table    *table
	old, new *record
	thread   int64
	lease    *lease
}

func (c change) revert(s *state) {
	if c.table != nil {
		c.table.swap(s, c.new, c.old)
	} else {
		s.setLease(c.thread, c.lease)
	}
}

// spend makes err the outcome of the transaction.
func (t *tx) spend(err error) error {
	if t.err == nil {
		t.err = err
	}
	return err
}

// check says whether a method may go on.
func (t *tx) check(write bool) error {
	switch {
	case t.over:
		return storage.ErrClosed
	case t.err != nil:
		return t.err
	case write && !t.write:
		return t.spend(storage.ErrReadOnly)
	}
	return nil
}

func (t *tx) table(kind string, write bool) (*table, error) {
	if err := t.check(write); err != nil {
		return nil, err
	}
	tab := t.db.tables[kind]
	if tab == nil {
		return nil, t.spend(fmt.Errorf("memdb: kind %q was not given to Open", kind))
	}
	return tab, nil
}

func (t *tx) swap(tab *table, old, new *record) {
	t.db.undo = append(t.db.undo, change{table: tab, old: old, new: new})
	tab.swap(t.state, old, new)
}

func (t *tx) Get(kind string, key ...any) (storage.Row, bool, error) {
	tab, err := t.table(kind, false)
	if err != nil {
		return storage.Row{}, false, err
	}
	if len(key) != len(tab.kind.Key) {
		return storage.Row{}, false, t.spend(fmt.Errorf("memdb: kind %q: its key has %d values, not %d", kind, len(tab.kind.Key), len(key)))
	}
	for i, v := range key {
		fit, err := tab.fit(tab.kind.Key[i], v)
		if err != nil {
			return storage.Row{}, false, t.spend(err)
		}
		if v == nil {
			key = slices.Clone(key)
			key[i] = fit
		}
	}
	r := t.state.trees[tab.first].get(probeAt(key))
	if r == nil {
		return storage.Row{}, false, nil
	}
	return tab.row(r, false), true, nil
}

func (t *tx) Put(kind string, row storage.Row, cond storage.If) (bool, error) {
	tab, err := t.table(kind, true)
	if err != nil {
		return false, err
	}
	if err := tab.kind.CheckRow(row); err != nil {
		return false, t.spend(err)
	}
	rev, atRev := cond.Revision()
	if atRev && !tab.kind.Revised {
		return false, t.spend(fmt.Errorf("memdb: kind %q has no revisions to compare", kind))
	}
	r := tab.record(row)
	old := t.state.trees[tab.first].get(tab.key(r))
	switch {
	case cond.IsAbsent() && old != nil,
		atRev && (old == nil || old.rev != rev),
		tab.clash(t.state, old, r):
		return false, nil
	}
	if tab.kind.Revised {
		r.rev = 1
		if old != nil {
			r.rev = old.rev + 1
		}
	}
	t.swap(tab, old, r)
	return true, nil
}

func (t *tx) Delete(kind string, keys storage.Range) (int, error) {
	tab, err := t.table(kind, true)
	if err != nil {
		return 0, err
	}
	if len(keys.Prefix) == 0 && keys.From == nil && keys.To == nil {
		return 0, t.spend(fmt.Errorf("memdb: kind %q: refused to delete an empty range, which is every row", kind))
	}
	lo, hi, err := tab.between(tab.orders[0], keys)
	if err != nil {
		return 0, t.spend(err)
	}
	var doomed []*record
	t.state.trees[tab.first].scan(lo, hi, false, func(r *record) bool {
		doomed = append(doomed, r)
		return true
	})
	for _, r := range doomed {
		t.swap(tab, r, nil)
	}
	return len(doomed), nil
}

func (t *tx) List(kind string, q storage.Query) ([]storage.Row, error) {
	tab, err := t.table(kind, false)
	if err != nil {
		return nil, err
	}
	at, err := tab.index(q.Index)
	if err != nil {
		return nil, t.spend(err)
	}
	lo, hi, err := tab.between(tab.orders[at], q.Range)
	if err != nil {
		return nil, t.spend(err)
	}
	if q.Limit < 0 {
		return nil, t.spend(fmt.Errorf("memdb: kind %q: a limit of %d", kind, q.Limit))
	}
	var rows []storage.Row
	t.state.trees[tab.first+at].scan(lo, hi, q.Desc, func(r *record) bool {
		rows = append(rows, tab.row(r, q.NoBody))
		return len(rows) != q.Limit
	})
	return rows, nil
}

func (t *tx) Walk(kind string, id int64) ([]storage.Row, error) {
	tab, err := t.table(kind, false)
	if err != nil {
		return nil, err
	}
	if tab.base < 0 {
		return nil, t.spend(fmt.Errorf("memdb: kind %q has no single Int key with an Int field \"base\" to walk along", kind))
	}
	keys := &t.state.trees[tab.first]
	var rows []storage.Row
	for id != 0 {
		r := keys.get(intProbe(id))
		if r == nil {
			return nil, t.spend(&storage.MissingError{Kind: kind, ID: id})
		}
		if len(rows) == keys.count {
			return nil, t.spend(fmt.Errorf("memdb: damaged: %s %d is its own base", kind, id))
		}
		rows = append(rows, tab.row(r, false))
		id = r.cols[tab.base].(int64)
	}
	return rows, nil
}

func (t *tx) Now() time.Time {
	if t.now.IsZero() {
		t.now = time.Now().UTC()
	}
	return t.now
}
