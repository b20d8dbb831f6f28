package storagetest

import (
	"errors"
	"slices"
	"testing"

	"github.com/pawl-dev/pawl/storage"
)

var walkTests = []test{
	{"follows bases, newest first, through forks of forks", kinds(value), walkForks},
	{"a missing link is a MissingError", kinds(value), walkMissing},
	{"a long chain", kinds(value), walkLong},
}

func walkForks(t *testing.T, h home) {
	bases := map[int64]int64{
		1: 0, 2: 1, 3: 2, // the trunk
		4: 2, 5: 4, // a branch from 2
		6: 2, 9: 6, // another from the same base
		7: 4, 8: 7, // a fork of the first branch
		10: 0, 11: 10, // another chain
		-3: 0, -5: -3, 20: -5, // ids need not grow
	}
	var rows []storage.Row
	for id, base := range bases {
		rows = append(rows, valueRow(id, base))
	}
	h.put(t, "value", rows...)
	for id := range bases {
		var want []storage.Row
		for at := id; at != 0; at = bases[at] {
			want = append(want, valueRow(at, bases[at]))
		}
		var got []storage.Row
		h.view(t, func(tx storage.Tx) (err error) {
			got, err = tx.Walk("value", id)
			return err
		})
		if d := diff(value, got, want, false); d != "" {
			t.Errorf("Walk from %d: %s", id, d)
		}
	}
}

func walkMissing(t *testing.T, h home) {
	h.put(t, "value", valueRow(1, 0), valueRow(3, 2), valueRow(4, 3))
	for from, missing := range map[int64]int64{4: 2, 3: 2, 9: 9} {
		err := h.try(func(tx storage.Tx) error {
			_, err := tx.Walk("value", from)
			return err
		})
		var m *storage.MissingError
		if !errors.As(err, &m) || m.Kind != "value" || m.ID != missing {
			t.Errorf("Walk from %d returned %v, want a *MissingError that names value %d", from, err, missing)
		}
	}
}

func walkLong(t *testing.T, h home) {
	const n = 1500
	var rows []storage.Row
	for id := int64(1); id <= n; id++ {
		rows = append(rows, valueRow(id, id-1))
	}
	h.put(t, "value", rows...)
	var got []storage.Row
	h.view(t, func(tx storage.Tx) (err error) {
		got, err = tx.Walk("value", n)
		return err
	})
	slices.Reverse(rows)
	if d := diff(value, got, rows, false); d != "" {
		t.Errorf("Walk along %d rows: %s", n, d)
	}
}
