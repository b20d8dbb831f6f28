package storagetest

import (
	"testing"

	"github.com/pawl-dev/pawl/storage"
)

var deleteTests = []test{
	{"removes what its range names and says how many", kinds(event), deleteRanges},
	{"refuses the empty range", kinds(event), deleteAll},
	{"clears the indexes", kinds(item), deleteIndexed},
	{"keeps to its tenant", kinds(doc), deleteTenant},
}

func eventRow(thread, seq int64) storage.Row {
	return storage.Row{Key: []any{thread, seq}, Fields: []any{seq}}
}

func deleteRanges(t *testing.T, h home) {
	var all []storage.Row
	for thread := int64(1); thread <= 3; thread++ {
		for seq := int64(1); seq <= 5; seq++ {
			all = append(all, eventRow(thread, seq))
		}
	}
	id := func(v int64) any { return v }
	for _, c := range []struct {
		name string
		r    storage.Range
		gone func(thread, seq int64) bool
	}{
		{"a whole key", storage.Range{Prefix: []any{id(2), id(3)}}, func(th, s int64) bool { return th == 2 && s == 3 }},
		{"a prefix", storage.Range{Prefix: []any{id(2)}}, func(th, _ int64) bool { return th == 2 }},
		{"a prefix and both bounds", storage.Range{Prefix: []any{id(2)}, From: id(2), To: id(4)}, func(th, s int64) bool { return th == 2 && s >= 2 && s < 4 }},
		{"a prefix and From", storage.Range{Prefix: []any{id(1)}, From: id(4)}, func(th, s int64) bool { return th == 1 && s >= 4 }},
		{"a prefix and To", storage.Range{Prefix: []any{id(3)}, To: id(2)}, func(th, s int64) bool { return th == 3 && s < 2 }},
		{"bounds of the first column", storage.Range{From: id(2), To: id(3)}, func(th, _ int64) bool { return th == 2 }},
		{"From alone", storage.Range{From: id(2)}, func(th, _ int64) bool { return th >= 2 }},
		{"To alone", storage.Range{To: id(2)}, func(th, _ int64) bool { return th < 2 }},
		{"nothing there", storage.Range{Prefix: []any{id(9)}}, func(_, _ int64) bool { return false }},
		{"bounds the wrong way round", storage.Range{Prefix: []any{id(1)}, From: id(4), To: id(2)}, func(_, _ int64) bool { return false }},
	} {
		t.Run(c.name, func(t *testing.T) {
			var left []storage.Row
			for _, r := range all {
				if !c.gone(r.Key[0].(int64), r.Key[1].(int64)) {
					left = append(left, r)
				}
			}
			var n int
			h.update(t, func(tx storage.Tx) error {
				if _, err := tx.Delete("event", storage.Range{From: id(0)}); err != nil {
					return err
				}
				if err := putAll(tx, "event", all...); err != nil {
					return err
				}
				removed, err := tx.Delete("event", c.r)
				n = removed
				return err
			})
			if n != len(all)-len(left) {
				t.Errorf("Delete says %d, want %d", n, len(all)-len(left))
			}
			h.want(t, event, "Delete", left...)
		})
	}
}

func deleteAll(t *testing.T, h home) {
	h.put(t, "event", eventRow(1, 1), eventRow(2, 1))
	for name, r := range map[string]storage.Range{"zero": {}, "empty prefix": {Prefix: []any{}}} {
		err := h.try(func(tx storage.Tx) error {
			_, err := tx.Delete("event", r)
			return err
		})
		if err == nil {
			t.Errorf("Delete of the empty range (%s) was not refused: it is every row of every tenant", name)
		}
	}
	h.want(t, event, "nothing was deleted", eventRow(1, 1), eventRow(2, 1))
}

func deleteIndexed(t *testing.T, h home) {
	h.put(t, "item", itemRow(1, 1, "a", ""), itemRow(2, 1, "a", ""), itemRow(3, 2, "b", ""))
	h.update(t, func(tx storage.Tx) error {
		_, err := tx.Delete("item", storage.Range{From: int64(1), To: int64(2)})
		return err
	})
	for _, ix := range []string{"", "by_grp", "by_label", "by_raw"} {
		got := h.list(t, "item", storage.Query{Index: ix})
		if d := diff(item, got, []storage.Row{itemRow(2, 1, "a", ""), itemRow(3, 2, "b", "")}, false); d != "" {
			t.Errorf("index %q after Delete: %s", ix, d)
		}
	}
}

func deleteTenant(t *testing.T, h home) {
	tenants := []string{"", "\x00", "a", "a\x00", "aa", "b"}
	for _, tenant := range tenants {
		h.put(t, "doc", docRow(tenant, "same", 1, 0))
	}
	var left []storage.Row
	for _, tenant := range tenants {
		if tenant != "a" {
			left = append(left, docRow(tenant, "same", 1, 1))
		}
	}
	h.update(t, func(tx storage.Tx) error {
		_, err := tx.Delete("doc", storage.Range{Prefix: []any{"a"}})
		return err
	})
	h.want(t, doc, "Delete of tenant \"a\"", left...)
}
