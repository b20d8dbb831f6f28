package storagetest

import (
	"fmt"
	"testing"

	"github.com/pawl-dev/pawl/storage"
)

var leaseTests = []test{
	{"members have ids of their own", nil, memberIDs},
	{"Look at a thread that nobody had", nil, neverTaken},
	{"Take raises the epoch", nil, take},
	{"a living other's lease cannot be taken", nil, takeLiving},
	{"a dead member's lease can be taken", nil, takeDead},
	{"Drop frees the lease and keeps the epoch", nil, drop},
	{"Forget removes lease and sequence", nil, forget},
	{"one of many takers wins", nil, takersRace},
	{"Seq counts from 1", nil, seqCounts},
	{"Seq with an old epoch takes nothing", kinds(event), zombie},
	{"Seq with AnyEpoch needs no lease", nil, seqAny},
	{"thread 0 counts for the whole home", nil, threadZero},
	{"a lease is undone with its Update", nil, leaseUndone},
}

func wantLease(t *testing.T, what string, got, want storage.Lease) {
	t.Helper()
	if got != want {
		t.Errorf("%s: lease is %+v, want %+v", what, got, want)
	}
}

func memberIDs(t *testing.T, h home) {
	seen := map[string]bool{"": true}
	for range 20 {
		m := h.join(t)
		if seen[m.ID()] {
			t.Fatalf("member id %q is empty or was given before", m.ID())
		}
		seen[m.ID()] = true
		if err := m.Close(); err != nil {
			t.Fatalf("Close of a member: %v", err)
		}
	}
}

func neverTaken(t *testing.T, h home) {
	if l, ok := h.lease(t, 4, storage.Look, ""); ok || l != (storage.Lease{}) {
		t.Errorf("Look at a new thread: %+v %v, want nothing", l, ok)
	}
	h.seq(t, 4, storage.AnyEpoch, 2)
	if l, ok := h.lease(t, 4, storage.Look, ""); ok || l.Epoch != 0 || l.Owner != "" {
		t.Errorf("Look at a thread with numbers that nobody had: %+v %v; numbers are no lease", l, ok)
	}
}

func take(t *testing.T, h home) {
	m := h.join(t)
	for epoch := int64(1); epoch <= 3; epoch++ {
		l, ok := h.lease(t, 4, storage.Take, m.ID())
		if !ok {
			t.Fatalf("Take %d of a free or own lease refused", epoch)
		}
		want := storage.Lease{Owner: m.ID(), Epoch: epoch, Seq: 2 * (epoch - 1), Alive: true}
		wantLease(t, "Take", l, want)
		l, ok = h.lease(t, 4, storage.Look, "")
		if !ok {
			t.Error("Look says that the thread never had a lease")
		}
		wantLease(t, "Look", l, want)
		if first, ok := h.seq(t, 4, epoch, 2); !ok || first != want.Seq+1 {
			t.Errorf("Seq at epoch %d: %d %v, want %d", epoch, first, ok, want.Seq+1)
		}
	}
	if l, ok := h.lease(t, 5, storage.Look, ""); ok {
		t.Errorf("another thread has the lease %+v", l)
	}
}

func takeLiving(t *testing.T, h home) {
	a, b := h.join(t), h.join(t)
	h.lease(t, 4, storage.Take, a.ID())
	l, ok := h.lease(t, 4, storage.Take, b.ID())
	if ok {
		t.Error("a living member's lease was taken")
	}
	wantLease(t, "a refused Take returns the current lease", l, storage.Lease{Owner: a.ID(), Epoch: 1, Alive: true})
	if _, ok := h.lease(t, 4, storage.Drop, b.ID()); ok {
		t.Error("a living member's lease was dropped by another")
	}
	if _, ok := h.seq(t, 4, 1, 1); !ok {
		t.Error("the owner's epoch changed by a refused Take")
	}
}

func takeDead(t *testing.T, h home) {
	a, b := h.join(t), h.join(t)
	h.lease(t, 4, storage.Take, a.ID())
	h.lease(t, 5, storage.Take, b.ID())
	if err := a.Close(); err != nil {
		t.Fatalf("Close of a member: %v", err)
	}
	l, ok := h.lease(t, 4, storage.Look, "")
	if !ok {
		t.Error("Look says that the thread never had a lease")
	}
	wantLease(t, "a dead owner", l, storage.Lease{Owner: a.ID(), Epoch: 1})
	l, ok = h.lease(t, 4, storage.Take, b.ID())
	if !ok {
		t.Fatal("a dead member's lease cannot be taken")
	}
	wantLease(t, "Take from the dead", l, storage.Lease{Owner: b.ID(), Epoch: 2, Alive: true})
	if _, ok := h.seq(t, 4, 1, 1); ok {
		t.Error("the dead owner still takes numbers after a takeover")
	}
	l, _ = h.lease(t, 5, storage.Look, "")
	wantLease(t, "a living neighbour", l, storage.Lease{Owner: b.ID(), Epoch: 1, Alive: true})
}

func drop(t *testing.T, h home) {
	a, b := h.join(t), h.join(t)
	if _, ok := h.lease(t, 4, storage.Drop, a.ID()); ok {
		t.Error("Drop of a lease that nobody has says true")
	}
	h.lease(t, 4, storage.Take, a.ID())
	h.seq(t, 4, 1, 3)
	if _, ok := h.lease(t, 4, storage.Drop, a.ID()); !ok {
		t.Fatal("Drop by the owner refused")
	}
	if _, ok := h.lease(t, 4, storage.Drop, a.ID()); ok {
		t.Error("a second Drop says that it freed a lease")
	}
	l, ok := h.lease(t, 4, storage.Look, "")
	if !ok {
		t.Error("Look says that a dropped lease never was")
	}
	wantLease(t, "after Drop", l, storage.Lease{Epoch: 1, Seq: 3})
	if first, ok := h.seq(t, 4, 1, 1); ok {
		t.Errorf("Seq took %d for an owner that dropped the lease; the thread is not held", first)
	}
	l, ok = h.lease(t, 4, storage.Take, b.ID())
	if !ok {
		t.Error("a free lease cannot be taken")
	}
	wantLease(t, "Take after Drop", l, storage.Lease{Owner: b.ID(), Epoch: 2, Seq: 3, Alive: true})
}

func forget(t *testing.T, h home) {
	a, b := h.join(t), h.join(t)
	for _, thread := range []int64{4, 5} {
		h.lease(t, thread, storage.Take, a.ID())
		h.seq(t, thread, 1, 3)
	}
	h.lease(t, 4, storage.Forget, b.ID())
	if l, ok := h.lease(t, 4, storage.Look, ""); ok || l != (storage.Lease{}) {
		t.Errorf("after Forget: %+v %v, want nothing", l, ok)
	}
	if first, ok := h.seq(t, 4, 1, 1); ok {
		t.Errorf("Seq took %d for the owner of a forgotten thread", first)
	}
	h.lease(t, 6, storage.Forget, "") // of nothing: no error
	l, _ := h.lease(t, 5, storage.Look, "")
	wantLease(t, "another thread after Forget", l, storage.Lease{Owner: a.ID(), Epoch: 1, Seq: 3, Alive: true})
}

func takersRace(t *testing.T, h home) {
	const takers = 12
	ids, won := make([]string, takers), make([]bool, takers)
	for i := range ids {
		ids[i] = h.join(t).ID()
	}
	together(t, takers, func(i int) {
		err := h.try(func(tx storage.Tx) error {
			_, ok, err := tx.Lease(4, storage.Take, ids[i])
			won[i] = ok
			return err
		})
		if err != nil {
			t.Errorf("Update: %v", err)
		}
	})
	l, _ := h.lease(t, 4, storage.Look, "")
	winners := 0
	for i, ok := range won {
		if ok {
			winners++
			wantLease(t, "the winner's", l, storage.Lease{Owner: ids[i], Epoch: 1, Alive: true})
		}
	}
	if winners != 1 {
		t.Errorf("%d of %d concurrent takers won, want 1", winners, takers)
	}
}

func seqCounts(t *testing.T, h home) {
	m := h.join(t)
	h.lease(t, 4, storage.Take, m.ID())
	next := int64(1)
	for _, n := range []int{1, 1, 5, 1, 100} {
		if first, ok := h.seq(t, 4, 1, n); !ok || first != next {
			t.Fatalf("Seq of %d numbers: %d %v, want %d", n, first, ok, next)
		}
		next += int64(n)
	}
	var first, second int64
	h.update(t, func(tx storage.Tx) error {
		a, _, err := tx.Seq(4, 1, 2)
		if err != nil {
			return err
		}
		b, _, err := tx.Seq(4, 1, 1)
		first, second = a, b
		return err
	})
	if first != next || second != next+2 {
		t.Errorf("two Seq in one Update: %d and %d, want %d and %d", first, second, next, next+2)
	}
	if first, ok := h.seq(t, 5, 0, 1); ok {
		t.Errorf("Seq took %d of a thread that nobody holds", first)
	}
}

func zombie(t *testing.T, h home) {
	a, b := h.join(t), h.join(t)
	h.lease(t, 4, storage.Take, a.ID())
	write := func(epoch int64) (took bool) {
		h.update(t, func(tx storage.Tx) error {
			n, ok, err := tx.Seq(4, epoch, 1)
			took = ok
			if err != nil || !ok {
				return err
			}
			return putAll(tx, "event", storage.Row{Key: []any{int64(4), n}, Fields: []any{epoch}})
		})
		return took
	}
	if !write(1) {
		t.Fatal("the owner cannot write")
	}
	_ = a.Close()
	h.lease(t, 4, storage.Take, b.ID())
	for _, old := range []int64{1, 0, 3, -2} {
		if write(old) {
			t.Errorf("epoch %d wrote while epoch 2 holds the thread", old)
		}
	}
	if !write(2) {
		t.Error("the new owner cannot write")
	}
	h.want(t, event, "a zombie writes nothing and takes no number",
		storage.Row{Key: []any{int64(4), int64(1)}, Fields: []any{int64(1)}},
		storage.Row{Key: []any{int64(4), int64(2)}, Fields: []any{int64(2)}})
}

func seqAny(t *testing.T, h home) {
	m := h.join(t)
	for want := int64(1); want <= 2; want++ {
		if first, ok := h.seq(t, 4, storage.AnyEpoch, 1); !ok || first != want {
			t.Errorf("Seq under AnyEpoch of a thread without a lease: %d %v, want %d", first, ok, want)
		}
	}
	l, ok := h.lease(t, 4, storage.Take, m.ID())
	if !ok {
		t.Fatal("a thread with numbers and no owner cannot be taken")
	}
	wantLease(t, "Take after numbers", l, storage.Lease{Owner: m.ID(), Epoch: 1, Seq: 2, Alive: true})
	if first, ok := h.seq(t, 4, storage.AnyEpoch, 1); !ok || first != 3 {
		t.Errorf("Seq under AnyEpoch beside an owner: %d %v, want 3", first, ok)
	}
	if first, ok := h.seq(t, 4, 1, 1); !ok || first != 4 {
		t.Errorf("the owner's Seq afterwards: %d %v, want 4", first, ok)
	}
}

func threadZero(t *testing.T, h home) {
	seen := map[int64]bool{}
	got := make([]int64, 20)
	together(t, len(got), func(i int) {
		err := h.try(func(tx storage.Tx) error {
			n, ok, err := tx.Seq(0, storage.AnyEpoch, 1)
			if err == nil && !ok {
				err = fmt.Errorf("taking a number of thread 0 says %v", ok)
			}
			got[i] = n
			return err
		})
		if err != nil {
			t.Errorf("Update: %v", err)
		}
	})
	for _, n := range got {
		if n < 1 || n > int64(len(got)) || seen[n] {
			t.Errorf("thread numbers are %v, want 1 to %d", got, len(got))
			break
		}
		seen[n] = true
	}
	if first, _ := h.seq(t, 7, storage.AnyEpoch, 1); first != 1 {
		t.Errorf("thread 7 begins at %d, want 1: thread 0 is a thread of its own", first)
	}
}

func leaseUndone(t *testing.T, h home) {
	a, b := h.join(t), h.join(t)
	h.lease(t, 4, storage.Take, a.ID())
	h.seq(t, 4, 1, 2)
	for _, op := range []storage.LeaseOp{storage.Take, storage.Drop, storage.Forget} {
		err := h.try(func(tx storage.Tx) error {
			if _, _, err := tx.Lease(4, op, a.ID()); err != nil {
				return err
			}
			if _, _, err := tx.Lease(5, storage.Take, b.ID()); err != nil {
				return err
			}
			return errBad
		})
		if err == nil {
			t.Error("Update lost its function's error")
		}
		l, _ := h.lease(t, 4, storage.Look, "")
		wantLease(t, fmt.Sprintf("after an undone operation %d", op), l, storage.Lease{Owner: a.ID(), Epoch: 1, Seq: 2, Alive: true})
		if _, ok := h.lease(t, 5, storage.Look, ""); ok {
			t.Error("an undone Take left a lease")
		}
	}
}
