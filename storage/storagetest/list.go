package storagetest

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/pawl-dev/pawl/storage"
)

var listTests = []test{
	{"pages over the key", kinds(event), pagesOverKey},
	{"pages over an index with ties", kinds(item), pagesOverTies},
	{"every query gives what its words say", kinds(item, doc, event), everyQuery},
	{"an empty kind", kinds(item), emptyKind},
	{"a range over more columns than there are is refused", kinds(item), tooManyColumns},
}

func pagesOverKey(t *testing.T, h home) {
	var want []storage.Row
	for seq := int64(1); seq <= 25; seq++ {
		want = append(want, eventRow(2, seq))
	}
	h.put(t, "event", want...)
	h.put(t, "event", eventRow(1, 7), eventRow(3, 7))
	for _, size := range []int{1, 4, 5, 25, 26} {
		var got []storage.Row
		for from := int64(0); ; {
			page := h.list(t, "event", storage.Query{Range: storage.Range{Prefix: []any{int64(2)}, From: from}, Limit: size})
			if len(page) > size {
				t.Fatalf("a page of %d rows, limit %d", len(page), size)
			}
			if len(page) == 0 {
				break
			}
			got = append(got, page...)
			from = page[len(page)-1].Key[1].(int64) + 1
		}
		if d := diff(event, got, want, false); d != "" {
			t.Errorf("pages of %d: %s", size, d)
		}
	}
}

// pagesOverTies pages by the key within equal values of an index.
func pagesOverTies(t *testing.T, h home) {
	var rows []storage.Row
	for id := int64(1); id <= 30; id++ {
		rows = append(rows, itemRow(id, id%2, "tie", ""))
	}
	h.put(t, "item", rows...)
	for _, desc := range []bool{false, true} {
		seen := map[int64]bool{}
		r := storage.Range{Prefix: []any{int64(1)}}
		last := int64(-1)
		for {
			page := h.list(t, "item", storage.Query{Index: "by_grp", Range: r, Desc: desc, Limit: 4})
			if len(page) == 0 {
				break
			}
			for _, row := range page {
				id := row.Key[0].(int64)
				if seen[id] || last >= 0 && (id < last) != desc {
					t.Fatalf("desc=%v: row %d after %d: equal values are ordered by key", desc, id, last)
				}
				seen[id], last = true, id
			}
			if desc {
				r.To = last
			} else {
				r.From = last + 1
			}
		}
		if len(seen) != 15 {
			t.Errorf("desc=%v: pages gave %d rows, want 15", desc, len(seen))
		}
	}
}

func everyQuery(t *testing.T, h home) {
	rng := rand.New(rand.NewPCG(7, 7))
	for _, k := range []storage.Kind{item, doc, event} {
		m := table{kind: k, rows: map[string]storage.Row{}}
		h.update(t, func(tx storage.Tx) error {
			clear(m.rows) // it may run more than once
			for range 60 {
				row := randomRow(rng, k)
				if m.put(row, storage.Absent()) {
					if err := putAll(tx, k.Name, row); err != nil {
						return err
					}
				}
			}
			return nil
		})
		for range 150 {
			q := randomQuery(rng, k)
			got := h.list(t, k.Name, q)
			if d := diff(k, got, m.list(q), q.NoBody); d != "" {
				t.Errorf("%s %s: %s", k.Name, describe(q), d)
			}
		}
	}
}

func describe(q storage.Query) string {
	return fmt.Sprintf("index %q prefix %#v from %#v to %#v desc %v limit %d", q.Index, q.Range.Prefix, q.Range.From, q.Range.To, q.Desc, q.Limit)
}

func emptyKind(t *testing.T, h home) {
	for _, ix := range []string{"", "by_grp", "by_label"} {
		for _, desc := range []bool{false, true} {
			if got := h.list(t, "item", storage.Query{Index: ix, Desc: desc, Limit: 3}); len(got) != 0 {
				t.Errorf("%d rows of an empty kind", len(got))
			}
		}
	}
}

func tooManyColumns(t *testing.T, h home) {
	h.put(t, "item", plain(1))
	one := int64(1)
	for name, q := range map[string]storage.Query{
		"prefix":                 {Range: storage.Range{Prefix: []any{one, one}}},
		"bound after a full key": {Range: storage.Range{Prefix: []any{one}, From: one}},
		"index prefix":           {Index: "by_grp", Range: storage.Range{Prefix: []any{one, one, one}}},
		"wrong type":             {Range: storage.Range{From: "1"}},
		"wrong type in a prefix": {Index: "by_label", Range: storage.Range{Prefix: []any{one}}},
	} {
		err := h.try(func(tx storage.Tx) error {
			_, err := tx.List("item", q)
			return err
		})
		if err == nil {
			t.Errorf("%s: List is not refused", name)
		}
	}
}
