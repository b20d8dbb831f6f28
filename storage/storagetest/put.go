package storagetest

import (
	"testing"

	"github.com/pawl-dev/pawl/storage"
)

var putTests = []test{
	{"Always inserts and replaces", kinds(item), always},
	{"Absent puts only what is not there", kinds(doc), absent},
	{"Absent minds unique indexes", kinds(slot), absentUnique},
	{"a replacement never takes another row's unique value", kinds(slot), uniqueReplace},
	{"AtRev puts only at that revision", kinds(doc), atRev},
	{"revisions count from 1", kinds(doc), revisions},
	{"names that are words of SQL", kinds(words, item), sqlWords},
	{"nil is the zero value", kinds(item), nilIsZero},
}

func always(t *testing.T, h home) {
	first, second := itemRow(1, 1, "one", "body"), itemRow(1, 2, "two", "")
	h.put(t, "item", itemRow(2, 1, "other", "other"))
	for _, r := range []storage.Row{first, second} {
		if !h.putIf(t, "item", r, storage.Always()) {
			t.Fatal("Put(Always) says that it did not")
		}
	}
	h.want(t, item, "Always replaces all of one row and no other", second, itemRow(2, 1, "other", "other"))
	for grp, want := range map[int64][]storage.Row{1: {itemRow(2, 1, "other", "other")}, 2: {second}} {
		got := h.list(t, "item", storage.Query{Index: "by_grp", Range: storage.Range{Prefix: []any{grp}}})
		if d := diff(item, got, want, false); d != "" {
			t.Errorf("index at %d after a replacement: %s", grp, d)
		}
	}
}

func absent(t *testing.T, h home) {
	if !h.putIf(t, "doc", docRow("t", "a", 1, 0), storage.Absent()) {
		t.Error("Put(Absent) refused a new row")
	}
	if h.putIf(t, "doc", docRow("t", "a", 2, 0), storage.Absent()) {
		t.Error("Put(Absent) says that it replaced a row")
	}
	if !h.putIf(t, "doc", docRow("t", "b", 3, 0), storage.Absent()) {
		t.Error("Put(Absent) takes a key for another with the same prefix")
	}
	h.want(t, doc, "Absent", docRow("t", "a", 1, 1), docRow("t", "b", 3, 1))
}

func absentUnique(t *testing.T, h home) {
	h.put(t, "slot", slotRow(1, "t", "name"), slotRow(2, "u", "name"), slotRow(3, "t", "other"))
	if h.putIf(t, "slot", slotRow(4, "t", "name"), storage.Absent()) {
		t.Error("Put(Absent) says that it put a second row with the values of a unique index")
	}
	h.want(t, slot, "Absent", slotRow(1, "t", "name"), slotRow(2, "u", "name"), slotRow(3, "t", "other"))
	h.update(t, func(tx storage.Tx) error {
		_, err := tx.Delete("slot", storage.Range{Prefix: []any{int64(1)}})
		if err != nil {
			return err
		}
		return putAll(tx, "slot", slotRow(4, "t", "name"))
	})
	h.want(t, slot, "a deleted row frees its unique value", slotRow(2, "u", "name"), slotRow(3, "t", "other"), slotRow(4, "t", "name"))
}

func uniqueReplace(t *testing.T, h home) {
	for name, cond := range map[string]storage.If{"Always": storage.Always(), "AtRev": storage.AtRev(1)} {
		t.Run(name, func(t *testing.T) {
			_ = h.try(func(tx storage.Tx) error {
				_, err := tx.Delete("slot", storage.Range{From: int64(0)})
				return err
			})
			h.put(t, "slot", slotRow(1, "t", "one"), slotRow(2, "t", "two"))
			var ok bool
			err := h.try(func(tx storage.Tx) (err error) {
				ok, err = tx.Put("slot", slotRow(2, "t", "one"), cond)
				return err
			})
			if ok && err == nil {
				t.Error("Put says that two rows have the values of a unique index")
			}
			h.want(t, slot, "a refused replacement changes neither row", slotRow(1, "t", "one"), slotRow(2, "t", "two"))
			if !h.putIf(t, "slot", slotRow(2, "t", "two"), cond) {
				t.Error("a row cannot keep its own unique value")
			}
		})
	}
}

func atRev(t *testing.T, h home) {
	h.put(t, "doc", docRow("t", "a", 1, 0), docRow("t", "b", 1, 0))
	steps := []struct {
		rev int64
		ok  bool
	}{{0, false}, {2, false}, {1, true}, {1, false}, {2, true}, {2, false}, {3, true}}
	at, rev := int64(1), int64(1)
	for i, s := range steps {
		if ok := h.putIf(t, "doc", docRow("t", "a", int64(10+i), 77), storage.AtRev(s.rev)); ok != s.ok {
			t.Fatalf("Put at revision %d of a row at revision %d says %v", s.rev, rev, ok)
		}
		if s.ok {
			at, rev = int64(10+i), rev+1
		}
		h.want(t, doc, "AtRev", docRow("t", "a", at, rev), docRow("t", "b", 1, 1))
	}
	if h.putIf(t, "doc", docRow("t", "missing", 1, 0), storage.AtRev(0)) {
		t.Error("Put at revision 0 inserted a row; AtRev is for rows that exist")
	}
	won := make([]bool, 6)
	together(t, len(won), func(i int) {
		err := h.try(func(tx storage.Tx) error {
			ok, err := tx.Put("doc", docRow("t", "b", int64(i), 0), storage.AtRev(1))
			won[i] = ok
			return err
		})
		if err != nil {
			t.Errorf("Update: %v", err)
		}
	})
	winners := 0
	for _, ok := range won {
		if ok {
			winners++
		}
	}
	if winners != 1 {
		t.Errorf("%d of %d concurrent Puts at one revision won, want 1", winners, len(won))
	}
}

func revisions(t *testing.T, h home) {
	for rev := int64(1); rev <= 3; rev++ {
		h.putIf(t, "doc", docRow("t", "a", rev, 50), storage.Always())
		h.want(t, doc, "every Put raises the revision", docRow("t", "a", rev, rev))
	}
	h.update(t, func(tx storage.Tx) error {
		_, err := tx.Delete("doc", storage.Range{Prefix: []any{"t", "a"}})
		return err
	})
	h.put(t, "doc", docRow("t", "a", 9, 0))
	h.want(t, doc, "a new row begins at 1", docRow("t", "a", 9, 1))
}

func sqlWords(t *testing.T, h home) {
	row := func(id int64, s string, n, rev int64) storage.Row {
		return storage.Row{Key: []any{id}, Fields: []any{s, n}, Rev: rev, Body: []byte(s)}
	}
	h.put(t, "select", row(1, "b", 1, 0), row(2, "a", 2, 0))
	h.putIf(t, "select", row(1, "b", 5, 0), storage.AtRev(1))
	h.want(t, words, "a kind with such names", row(1, "b", 5, 2), row(2, "a", 2, 1))
	got := h.list(t, "select", storage.Query{Index: "index", Range: storage.Range{Prefix: []any{"b"}, From: int64(5)}})
	if d := diff(words, got, []storage.Row{row(1, "b", 5, 2)}, false); d != "" {
		t.Errorf("by index: %s", d)
	}
}

func nilIsZero(t *testing.T, h home) {
	h.put(t, "item", storage.Row{Key: []any{nil}, Fields: []any{nil, nil, nil}})
	zero := storage.Row{Key: []any{int64(0)}, Fields: []any{int64(0), "", []byte{}}}
	h.want(t, item, "nil is stored as the zero value of its type", zero)
	got := h.list(t, "item", storage.Query{Index: "by_label", Range: storage.Range{Prefix: []any{"", int64(0)}}})
	if d := diff(item, got, []storage.Row{zero}, false); d != "" {
		t.Errorf("by index: %s", d)
	}
}
