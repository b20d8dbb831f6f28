package sqlite

import (
	"fmt"
	"math"

	"github.com/pawl-dev/pawl/storage"
)

const (
	advance   = "UPDATE lease SET seq=? WHERE thread=?"
	proceed   = "UPDATE lease SET seq=? WHERE thread=? AND seq=? AND epoch=? AND owner<>''"
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
		if first, err = t.proceed(thread, epoch, int64(n)); first > 0 || err != nil {
			return err == nil, err
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
		t.db.writer.numbered(thread, l.Seq+int64(n))
		t.args = append(t.args[:0], l.Seq+int64(n), thread)
		return t.change(sql, t.args...)
	})
	return first, ok, err
}

// proceed takes numbers behind those that this process took last, in one statement that finds nothing to change if that
// was undone, or another process took some, or the lease: then first is 0, and the row must be read.
func (t *tx) proceed(thread, epoch, n int64) (first int64, err error) {
	last, known := t.db.writer.last[thread]
	if !known || epoch == storage.AnyEpoch || last > math.MaxInt64-n {
		return 0, nil
	}
	t.args = append(t.args[:0], last+n, thread, last, epoch)
	if ok, err := t.change(proceed, t.args...); !ok || err != nil {
		return 0, err
	}
	t.db.writer.numbered(thread, last+n)
	return last + 1, nil
}

// lastKept bounds what the writer remembers. Threads that are over are forgotten sooner.
const lastKept = 10_000

// numbered notes the number that a thread took last.
func (w *writer) numbered(thread, last int64) {
	if len(w.last) >= lastKept {
		clear(w.last)
	}
	w.last[thread] = last
}

// look reads a lease. It and a plain UPDATE cost half of what one UPDATE with RETURNING does, which keeps its rows in a
// table of its own until all are known.
func (t *tx) look(thread int64) (l storage.Lease, known bool, err error) {
	t.args = append(t.args[:0], thread)
	err = t.conn.rows(lookup, t.args, func(row []any) error {
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
	if op == storage.Forget || op == storage.Drop {
		delete(t.db.writer.last, thread)
	}
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
