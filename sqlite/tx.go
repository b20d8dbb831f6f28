package sqlite

import (
	"errors"
	"fmt"
	"sync"
	"time"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/pawl-dev/pawl/storage"
)

// tx is what one function of a View or Update sees.
type tx struct {
	db       *DB
	conn     *conn
	writable bool

	mu    sync.Mutex // a View may be ended by its clock while its function runs
	err   error      // the first error; it spends the tx
	wrote bool       // something was changed
	lost  bool       // SQLite refused a statement: it may have given up the whole transaction
	size  int        // bytes written
	args  []any
	room  [8]any // of args, for most
	now   time.Time
	alive map[string]bool // members probed by this tx

	// of a View
	gone    bool // its snapshot was ended
	goneErr error
}

var errOver = errors.New("storage: a Tx was used after its function returned")

// guard runs one method of a tx, unless it is spent, and lets an error spend it.
func guard[T any](t *tx, write bool, do func() (T, error)) (T, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var none T
	if t.err == nil && write && !t.writable {
		t.err = storage.ErrReadOnly
	}
	if t.err != nil {
		return none, t.err
	}
	v, err := do()
	if err != nil {
		t.err, t.lost = err, t.lost || extended(err) != 0
		return none, err
	}
	return v, nil
}

// end spends the tx and returns its first error, else that of its function.
func (t *tx) end(err error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err != nil && !errors.Is(err, t.err) {
		err = t.err
	}
	t.err = errOver
	return err
}

func (t *tx) table(kind string) (*table, error) {
	if k := t.db.kinds[kind]; k != nil {
		return k, nil
	}
	return nil, fmt.Errorf("storage: kind %q was not given to Open", kind)
}

func (t *tx) Get(kind string, key ...any) (row storage.Row, ok bool, err error) {
	ok, err = guard(t, false, func() (found bool, err error) {
		k, err := t.table(kind)
		if err != nil {
			return false, err
		}
		if len(key) != len(k.Key) {
			return false, fmt.Errorf("storage: kind %q has a key of %d values, given %d", kind, len(k.Key), len(key))
		}
		if t.args, err = k.bound(t.args[:0], k.Key, storage.Range{Prefix: key}); err != nil {
			return false, err
		}
		err = t.conn.rows(k.get, t.args, func(values []any) error {
			row, found = k.row(values), true
			return nil
		})
		return found, err
	})
	return row, ok, err
}

func (t *tx) Put(kind string, row storage.Row, cond storage.If) (bool, error) {
	return guard(t, true, func() (bool, error) { return t.put(kind, row, cond) })
}

func (t *tx) put(kind string, row storage.Row, cond storage.If) (bool, error) {
	k, err := t.table(kind)
	if err != nil {
		return false, err
	}
	if err := k.CheckRow(row); err != nil {
		return false, err
	}
	args := t.args[:0]
	rev, revise := cond.Revision()
	sql := k.always
	switch {
	case cond.IsAbsent():
		sql = k.absent
	case revise && !k.Revised:
		return false, fmt.Errorf("storage: kind %q has no revisions, a Put cannot ask for one", kind)
	}
	if !revise {
		args = k.stored(args, k.Key, row.Key)
	}
	args = append(k.stored(args, k.Fields, row.Fields), nonNil(row.Body))
	if revise {
		sql, args = k.revise, append(k.stored(args, k.Key, row.Key), rev)
	}
	t.args = args
	n, err := t.conn.do(sql, args...)
	if extended(err) == sqlite3.SQLITE_CONSTRAINT_UNIQUE {
		return false, nil // another row has the values of a unique index; the statement alone was undone
	}
	if err != nil || n == 0 {
		return false, err
	}
	t.wrote, t.size = true, t.size+len(row.Body)+64*len(args)
	return true, nil
}

// stored appends checked values as they are stored.
func (t *table) stored(args []any, fields []storage.Field, values []any) []any {
	for i, v := range values {
		if b, isBytes := v.([]byte); v == nil || isBytes && b == nil {
			v = zero(fields[i].Type)
		}
		args = append(args, v)
	}
	return args
}

func nonNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

func (t *tx) Delete(kind string, keys storage.Range) (int, error) {
	return guard(t, true, func() (int, error) {
		k, err := t.table(kind)
		if err != nil {
			return 0, err
		}
		if len(keys.Prefix) == 0 && keys.From == nil && keys.To == nil {
			return 0, fmt.Errorf("storage: kind %q: an empty range would delete every row", kind)
		}
		if t.args, err = k.bound(t.args[:0], k.Key, keys); err != nil {
			return 0, err
		}
		n, err := t.conn.do("DELETE FROM "+k.name+where(k.Key, len(keys.Prefix), keys.From != nil, keys.To != nil), t.args...)
		t.wrote = t.wrote || n > 0
		return n, err
	})
}

func (t *tx) List(kind string, q storage.Query) ([]storage.Row, error) {
	return guard(t, false, func() (rows []storage.Row, err error) {
		k, err := t.table(kind)
		if err != nil {
			return nil, err
		}
		order, err := k.Order(q.Index)
		if err != nil {
			return nil, err
		}
		if t.args, err = k.bound(t.args[:0], order, q.Range); err != nil {
			return nil, err
		}
		if q.Limit < 0 {
			return nil, fmt.Errorf("storage: kind %q: a limit of %d", kind, q.Limit)
		}
		if q.Limit > 0 {
			t.args = append(t.args, int64(q.Limit))
		}
		s := shape{q.Index, len(q.Range.Prefix), q.Range.From != nil, q.Range.To != nil, q.Desc, q.Limit > 0, !q.NoBody}
		err = t.conn.rows(k.list(s, order), t.args, func(values []any) error {
			rows = append(rows, k.row(values))
			return nil
		})
		return rows, err
	})
}

func (t *tx) Walk(kind string, id int64) ([]storage.Row, error) {
	return guard(t, false, func() (rows []storage.Row, err error) {
		k, err := t.table(kind)
		if err != nil {
			return nil, err
		}
		if k.walk == "" {
			return nil, fmt.Errorf("storage: kind %q has no Int key with an Int field named base, it cannot be walked", kind)
		}
		next := id
		err = t.conn.rows(k.walk, []any{id}, func(values []any) error {
			row := k.row(values)
			next = row.Fields[k.base].(int64)
			rows = append(rows, row)
			return nil
		})
		if err == nil && next != 0 {
			err = &storage.MissingError{Kind: kind, ID: next}
		}
		return rows, err
	})
}

func (t *tx) Now() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.now.IsZero() {
		t.now = time.Now().UTC()
	}
	return t.now
}
