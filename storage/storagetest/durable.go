package storagetest

import (
	"context"
	"errors"
	"testing"

	"github.com/pawl-dev/pawl/storage"
)

// Home is one durable home. Each call opens it, again or beside the handles that are open already.
type Home func(kinds ...storage.Kind) (storage.DB, error)

// RunDurable runs the tests of what must survive a Close. make returns a new, empty home.
func RunDurable(t *testing.T, make func(t *testing.T) Home) {
	for _, c := range []struct {
		name string
		run  func(t *testing.T, open Home)
	}{
		{"rows, numbers and leases survive", survive},
		{"members of a closed home are dead", closedMembers},
		{"a kind may get fields at its end", addedField},
		{"a kind may be added", addedKind},
		{"a changed kind is refused", changedKind},
		{"two handles share one home", twoHandles},
	} {
		t.Run("durable/"+c.name, func(t *testing.T) {
			t.Parallel()
			c.run(t, make(t))
		})
	}
}

func mustOpen(t *testing.T, open Home, kinds ...storage.Kind) home {
	t.Helper()
	db, err := open(kinds...)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return newHome(t, db)
}

func mustClose(t *testing.T, h home) {
	t.Helper()
	if err := h.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
}

func survive(t *testing.T, open Home) {
	h := mustOpen(t, open, item, doc, value)
	if !h.Info().Durable {
		t.Error("Info does not say that the home is durable")
	}
	h.put(t, "item", itemRow(1, 2, "x\x00", "body"), itemRow(2, 2, "y", ""))
	h.put(t, "doc", docRow("t", "a", 1, 0))
	h.putIf(t, "doc", docRow("t", "a", 2, 0), storage.AtRev(1))
	h.put(t, "value", valueRow(1, 0), valueRow(2, 1))
	m := h.join(t)
	h.lease(t, 4, storage.Take, m.ID())
	h.seq(t, 4, 1, 5)
	h.seq(t, 0, storage.AnyEpoch, 7)
	mustClose(t, h)

	h = mustOpen(t, open, item, doc, value)
	h.want(t, item, "after a reopen", itemRow(1, 2, "x\x00", "body"), itemRow(2, 2, "y", ""))
	h.want(t, doc, "after a reopen", docRow("t", "a", 2, 2))
	h.view(t, func(tx storage.Tx) error {
		_, err := tx.Walk("value", 2)
		return err
	})
	if got := h.list(t, "item", storage.Query{Index: "by_grp", Range: storage.Range{Prefix: []any{int64(2)}}}); len(got) != 2 {
		t.Errorf("index after a reopen has %d rows, want 2", len(got))
	}
	if first, _ := h.seq(t, 0, storage.AnyEpoch, 1); first != 8 {
		t.Errorf("thread 0 goes on at %d, want 8", first)
	}
	other := h.join(t)
	l, ok := h.lease(t, 4, storage.Take, other.ID())
	if !ok {
		t.Fatal("the lease of a closed home's member cannot be taken")
	}
	wantLease(t, "after a reopen", l, storage.Lease{Owner: other.ID(), Epoch: 2, Seq: 5, Alive: true})
}

func closedMembers(t *testing.T, open Home) {
	h := mustOpen(t, open)
	m, err := h.Join(context.Background())
	if err != nil {
		t.Fatalf("Join: %v", err)
	}
	h.lease(t, 4, storage.Take, m.ID())
	mustClose(t, h)
	h = mustOpen(t, open)
	l, _ := h.lease(t, 4, storage.Look, "")
	wantLease(t, "a member not closed by then is dead", l, storage.Lease{Owner: m.ID(), Epoch: 1})
	_ = m.Close()
}

func addedField(t *testing.T, open Home) {
	h := mustOpen(t, open, item, doc)
	h.put(t, "item", itemRow(1, 2, "x", "body"))
	h.put(t, "doc", docRow("t", "a", 1, 0))
	mustClose(t, h)

	more := item
	more.Fields = append(item.Fields[:3:3], field("n", storage.Int), field("s", storage.Text), field("b", storage.Bytes))
	h = mustOpen(t, open, more, doc)
	old := itemRow(1, 2, "x", "body")
	old.Fields = append(old.Fields, int64(0), "", []byte{})
	h.want(t, more, "old rows hold zero values", old)
	fresh := itemRow(2, 2, "y", "")
	fresh.Fields = append(fresh.Fields, int64(5), "five", []byte{5})
	h.put(t, "item", fresh)
	mustClose(t, h)

	h = mustOpen(t, open, more, doc)
	h.want(t, more, "new rows hold theirs", old, fresh)
	h.want(t, doc, "another kind", docRow("t", "a", 1, 1))
}

func addedKind(t *testing.T, open Home) {
	h := mustOpen(t, open, item)
	h.put(t, "item", plain(1))
	mustClose(t, h)
	h = mustOpen(t, open, item, doc)
	h.put(t, "doc", docRow("t", "a", 1, 0))
	h.want(t, item, "the old kind", plain(1))
	h.want(t, doc, "the new kind", docRow("t", "a", 1, 1))
}

func changedKind(t *testing.T, open Home) {
	h := mustOpen(t, open, item)
	h.put(t, "item", plain(1))
	mustClose(t, h)
	retyped, renamed, fewer, rekeyed := item, item, item, item
	retyped.Fields = []storage.Field{field("grp", storage.Text), item.Fields[1], item.Fields[2]}
	renamed.Fields = []storage.Field{field("team", storage.Int), item.Fields[1], item.Fields[2]}
	renamed.Indexes = []storage.Index{{Name: "by_grp", Fields: []string{"team"}}, item.Indexes[1], item.Indexes[2]}
	renamed.Indexes[1].Fields = []string{"label", "team"}
	fewer.Fields, fewer.Indexes = item.Fields[:2], item.Indexes[:2]
	rekeyed.Key = []storage.Field{field("id", storage.Text)}
	for name, k := range map[string]storage.Kind{
		"a field has another type": retyped, "a field has another name": renamed, "a field is gone": fewer, "the key has another type": rekeyed,
	} {
		db, err := open(k)
		var oe *storage.OpenError
		if !errors.As(err, &oe) || oe.Reason != storage.ChangedKind {
			t.Errorf("%s: open returned %v, want an *OpenError for a kind that is declared differently", name, err)
		}
		if err == nil {
			_ = db.Close()
		}
	}
	h = mustOpen(t, open, item)
	h.want(t, item, "a refused open changes nothing", plain(1))
}

func twoHandles(t *testing.T, open Home) {
	a := mustOpen(t, open, item, event)
	b := mustOpen(t, open, item, event)
	a.put(t, "item", plain(1))
	b.want(t, item, "a commit of the other handle", plain(1))

	now, wake := b.Changed(0)
	if now > 0 {
		now, wake = b.Changed(now)
	}
	a.put(t, "item", plain(2))
	await(t, wake, "a commit of another handle to wake a waiter")
	if after, _ := b.Changed(now); after <= now {
		t.Errorf("change number is %d after a commit of another handle, want more than %d", after, now)
	}

	ma, mb := a.join(t), b.join(t)
	a.lease(t, 4, storage.Take, ma.ID())
	l, ok := b.lease(t, 4, storage.Take, mb.ID())
	if ok {
		t.Error("a living member of another handle lost its lease")
	}
	wantLease(t, "seen from the other handle", l, storage.Lease{Owner: ma.ID(), Epoch: 1, Alive: true})
	if err := ma.Close(); err != nil {
		t.Fatalf("Close of a member: %v", err)
	}
	if _, ok := b.lease(t, 4, storage.Take, mb.ID()); !ok {
		t.Error("a dead member's lease cannot be taken from another handle")
	}

	together(t, 4, func(i int) {
		h := []home{a, b}[i%2]
		for range 10 {
			err := h.try(func(tx storage.Tx) error {
				n, _, err := tx.Seq(9, storage.AnyEpoch, 1)
				if err != nil {
					return err
				}
				return putAll(tx, "event", eventRow(9, n))
			})
			if err != nil {
				t.Errorf("Update: %v", err)
			}
		}
	})
	if rows := a.list(t, "event", storage.Query{}); len(rows) != 40 {
		t.Errorf("two handles took %d numbers, want 40", len(rows))
	}
}

// RunUnknown runs the test of a commit whose outcome is lost. open returns a new home and a function after which the
// next Update ends in doubt.
func RunUnknown(t *testing.T, open func(t *testing.T, kinds ...storage.Kind) (db storage.DB, lose func())) {
	t.Run("unknown/an outcome that is lost is a typed error", func(t *testing.T) {
		t.Parallel()
		db, lose := open(t, item)
		h := newHome(t, db)
		h.put(t, "item", plain(1))
		lose()
		err := h.try(func(tx storage.Tx) error { return putAll(tx, "item", plain(10), plain(11)) })
		var u *storage.UnknownError
		if !errors.As(err, &u) {
			t.Fatalf("Update returned %v, want an *UnknownError", err)
		}
		_, first := h.get(t, "item", int64(10))
		_, second := h.get(t, "item", int64(11))
		if first != second {
			t.Errorf("one of two rows is there (%v, %v): all of it or nothing, known or not", first, second)
		}
		if _, ok := h.get(t, "item", int64(1)); !ok {
			t.Error("an earlier row is gone")
		}
	})
}
