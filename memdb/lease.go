package memdb

import (
	"fmt"
	"math"

	"github.com/pawl-dev/pawl/storage"
)

// lease is the stored ownership and sequence of a thread. It never changes; a change stores another one.
type lease struct {
	owner      string
	epoch, seq int64
}

func newLeases() tree[lease] {
	return tree[lease]{order: &order[lease]{first: storage.Int, bound: func(l *lease) *lease { return l }}}
}

func intProbe(id int64) probe { return probe{head: intHead(id)} }

// setLease stores l, or removes the lease if l is nil.
func (s *state) setLease(thread int64, l *lease) {
	if l == nil {
		s.leases.remove(intProbe(thread))
	} else {
		s.leases.set(intProbe(thread), l)
	}
}

func (t *tx) setLease(thread int64, old, l *lease) {
	t.db.undo = append(t.db.undo, change{thread: thread, lease: old})
	t.state.setLease(thread, l)
}

func (t *tx) Seq(thread, epoch int64, n int) (int64, bool, error) {
	if err := t.check(true); err != nil {
		return 0, false, err
	}
	old := t.state.leases.get(intProbe(thread))
	var l lease
	if old != nil {
		l = *old
	}
	switch {
	case n < 1 || l.seq > math.MaxInt64-int64(n):
		return 0, false, t.spend(fmt.Errorf("memdb: thread %d: cannot take %d sequence numbers after %d", thread, n, l.seq))
	case epoch != storage.AnyEpoch && (l.owner == "" || l.epoch != epoch):
		return 0, false, nil
	}
	l.seq += int64(n)
	t.setLease(thread, old, &l)
	return l.seq - int64(n) + 1, true, nil
}

func (t *tx) Lease(thread int64, op storage.LeaseOp, member string) (storage.Lease, bool, error) {
	if err := t.check(op != storage.Look); err != nil {
		return storage.Lease{}, false, err
	}
	old := t.state.leases.get(intProbe(thread))
	var l lease
	if old != nil {
		l = *old
	}
	var ok bool
	switch op {
	case storage.Look:
		ok = l.epoch > 0
	case storage.Take:
		if member == "" {
			return storage.Lease{}, false, t.spend(fmt.Errorf("memdb: thread %d: nobody is named to take its lease", thread))
		}
		if ok = l.owner == member || !t.db.alive(l.owner); ok {
			l.owner = member
			l.epoch++
			t.setLease(thread, old, &l)
		}
	case storage.Drop:
		if ok = member != "" && l.owner == member; ok {
			l.owner = ""
			t.setLease(thread, old, &l)
		}
	case storage.Forget:
		if ok = old != nil; ok {
			t.setLease(thread, old, nil)
		}
		return storage.Lease{}, ok, nil
	default:
		return storage.Lease{}, false, t.spend(fmt.Errorf("memdb: thread %d: unknown lease operation %d", thread, op))
	}
	return storage.Lease{Owner: l.owner, Epoch: l.epoch, Seq: l.seq, Alive: t.db.alive(l.owner)}, ok, nil
}
