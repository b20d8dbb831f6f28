package sqlite

import (
	"database/sql/driver"
	"fmt"
	"math"

	"github.com/pawl-dev/pawl/storage"
)

const (
	advance   = "UPDATE lease SET seq=? WHERE thread=?"
	count     = "INSERT INTO lease(seq,thread) VALUES(?,?)"
	lookup    = "SELECT owner,epoch,seq FROM lease WHERE thread=?"
	own       = "INSERT INTO lease(thread,owner,epoch) VALUES(?,?,1) ON CONFLICT(thread) DO UPDATE SET owner=excluded.owner,epoch=epoch+1"
	disown    = "UPDATE lease SET owner='' WHERE thread=?"
	disownAll = "UPDATE lease SET owner='' WHERE owner<>'' AND owner IN (SELECT value FROM json_each(?)) RETURNING owner"
	namedBy   = "SELECT 1 FROM lease WHERE owner<>'' AND owner=? LIMIT 1"
	forget    = "DELETE FROM lease WHERE thread=?"
)

func (t *tx) Seq(thread, epoch int64, n int) (first int64, ok bool, err error) {
	ok, err = guard(t, true, func() (bool, error) {
		if n < 1 {
			return false, fmt.Errorf("storage: thread %d: cannot take %d sequence numbers", thread, n)
		}
		l, known, err := t.look(thread)
		if err != nil || epoch != storage.AnyEpoch && (l.Epoch != epoch || l.Owner == "") {
			return false, err
		}
		if l.Seq > math.MaxInt64-int64(n) {
			return false, fmt.Errorf("storage: thread %d: its sequence numbers are used up", thread)
		}
		sql := advance
		if !known {
			sql = count
		}
		first = l.Seq + 1
		t.args = append(t.args[:0], l.Seq+int64(n), thread)
		return t.change(sql, t.args...)
	})
	return first, ok, err
}

// look reads a lease. It and a plain UPDATE cost half of what one UPDATE with RETURNING does, which keeps its rows in a
// table of its own until all are known.
func (t *tx) look(thread int64) (l storage.Lease, known bool, err error) {
	t.args = append(t.args[:0], thread)
	err = t.conn.rows(lookup, t.args, func(row []driver.Value) error {
		l.Owner, l.Epoch, l.Seq = row[0].(string), row[1].(int64), row[2].(int64)
		known = true
		return nil
	})
	return l, known, err
}

func (t *tx) Lease(thread int64, op storage.LeaseOp, member string) (l storage.Lease, ok bool, err error) {
	ok, err = guard(t, op != storage.Look, func() (bool, error) {
		return t.lease(&l, thread, op, member)
	})
	return l, ok, err
}

func (t *tx) lease(l *storage.Lease, thread int64, op storage.LeaseOp, member string) (ok bool, err error) {
	if op == storage.Forget {
		return t.change(forget, thread)
	}
	if *l, _, err = t.look(thread); err != nil {
		return false, err
	}
	if l.Alive, err = t.isAlive(l.Owner); err != nil {
		return false, err
	}
	switch op {
	case storage.Look:
		return l.Epoch > 0, nil
	case storage.Take:
		if member == "" {
			return false, fmt.Errorf("storage: thread %d: nobody is named to take its lease", thread)
		}
		if l.Owner != member && l.Alive {
			return false, nil
		}
		if err = t.db.names(member); err != nil {
			return false, err
		}
		if ok, err = t.change(own, thread, member); err != nil {
			return false, err
		}
		l.Owner, l.Epoch = member, l.Epoch+1
		l.Alive, err = t.isAlive(member)
		return ok, err
	case storage.Drop:
		if member == "" || l.Owner != member {
			return false, nil
		}
		l.Owner, l.Alive = "", false
		return t.change(disown, thread)
	}
	return false, fmt.Errorf("storage: thread %d: unknown lease operation %d", thread, op)
}

func (t *tx) change(sql string, args ...any) (bool, error) {
	n, err := t.conn.do(sql, args...)
	t.wrote = t.wrote || n > 0
	return n > 0, err
}

// isAlive probes a member once a tx.
func (t *tx) isAlive(member string) (bool, error) {
	if member == "" {
		return false, nil
	}
	if alive, known := t.alive[member]; known {
		return alive, nil
	}
	alive, err := t.db.alive(member)
	if err == nil {
		if t.alive == nil {
			t.alive = map[string]bool{}
		}
		t.alive[member] = alive
	}
	return alive, err
}
