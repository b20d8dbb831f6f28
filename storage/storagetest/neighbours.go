package storagetest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/pawl-dev/pawl/storage"
)

var neighbourTests = []test{
	{"rule 4: only the bad ones are undone", kinds(item), badNeighbours},
	{"one bad neighbour at a time", kinds(item), oneBadNeighbour},
	{"increments are not lost", kinds(item), increments},
	{"no write skew", kinds(item), writeSkew},
	{"seq orders concurrent writers without gaps or repeats", kinds(event), seqOrder},
}

var errBad = errors.New("bad neighbour")

// The ways to go wrong. Each is called after the writes of an Update, with what cancels its context.
var misdeeds = []struct {
	name string
	do   func(tx storage.Tx, cancel func()) error
}{
	{"returns an error", func(storage.Tx, func()) error { return errBad }},
	{"panics", func(storage.Tx, func()) error { panic(errBad) }},
	{"calls Goexit", func(storage.Tx, func()) error { leave(); return nil }},
	{"spends its Tx", func(tx storage.Tx, _ func()) error { _, _ = tx.Delete("item", storage.Range{}); return nil }},
	{"names no kind", func(tx storage.Tx, _ func()) error { _, _, _ = tx.Get("nothing", int64(1)); return nil }},
	{"ends its context and fails", func(_ storage.Tx, cancel func()) error { cancel(); return errBad }},
}

// pair writes two rows and takes a number, and then goes wrong or not.
func pair(h home, i int, misdeed func(storage.Tx, func()) error) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if i%7 == 3 {
		ctx = storage.Alone(ctx)
	}
	return h.Update(ctx, func(_ context.Context, tx storage.Tx) error {
		if i%5 == 1 {
			cancel() // it has started: this is of no consequence
		}
		n, _, err := tx.Seq(1, storage.AnyEpoch, 1)
		if err != nil {
			return err
		}
		if err := putAll(tx, "item", itemRow(int64(i), n, "", "a"), itemRow(int64(i)+1000, n, "", "b")); err != nil {
			return err
		}
		if misdeed != nil {
			return misdeed(tx, cancel)
		}
		return nil
	})
}

// wantPairs checks that the good ones wrote both rows and took the numbers 1 to n, and that the bad wrote nothing.
func wantPairs(t *testing.T, h home, outcomes []outcome, good func(i int) bool) {
	t.Helper()
	have := map[int64]int64{}
	for _, r := range h.list(t, "item", storage.Query{}) {
		have[r.Key[0].(int64)] = r.Fields[0].(int64)
	}
	taken := map[int64]int{}
	for i, o := range outcomes {
		a, okA := have[int64(i)]
		b, okB := have[int64(i)+1000]
		if good(i) {
			if !o.returned || o.err != nil || !okA || !okB || a != b {
				t.Errorf("good Update %d: returned %v, error %v, rows there: %v %v", i, o.returned, o.err, okA, okB)
			}
			taken[a]++
		} else if o.returned && o.err == nil || okA || okB {
			t.Errorf("bad Update %d: returned %v, error %v, rows there: %v %v", i, o.returned, o.err, okA, okB)
		}
	}
	for n := range int64(len(taken)) {
		if taken[n+1] != 1 {
			t.Fatalf("number %d was kept by %d Updates, want 1: numbers of an undone Update go to the next", n+1, taken[n+1])
		}
	}
}

func badNeighbours(t *testing.T, h home) {
	const n = 150
	bad := func(i int) bool { return i%3 == 0 }
	outcomes := make([]outcome, n)
	together(t, n, func(i int) {
		var misdeed func(storage.Tx, func()) error
		if bad(i) {
			misdeed = misdeeds[i/3%len(misdeeds)].do
		}
		outcomes[i].err = pair(h, i, misdeed)
		outcomes[i].returned = true
	})
	wantPairs(t, h, outcomes, func(i int) bool { return !bad(i) })
}

func oneBadNeighbour(t *testing.T, h home) {
	const each = 8
	outcomes := make([]outcome, each*len(misdeeds))
	bad := func(i int) bool { return i%each == each/2 }
	for m, misdeed := range misdeeds {
		together(t, each, func(j int) {
			i := m*each + j
			do := misdeed.do
			if !bad(i) {
				do = nil
			}
			outcomes[i].err = pair(h, i, do)
			outcomes[i].returned = true
		})
	}
	wantPairs(t, h, outcomes, func(i int) bool { return !bad(i) })
}

func increments(t *testing.T, h home) {
	const writers, each = 8, 15
	h.put(t, "item", plain(1))
	together(t, writers, func(int) {
		for range each {
			err := h.try(func(tx storage.Tx) error {
				row, _, err := tx.Get("item", int64(1))
				if err != nil {
					return err
				}
				row.Fields[0] = row.Fields[0].(int64) + 1
				_, err = tx.Put("item", row, storage.Always())
				return err
			})
			if err != nil {
				t.Errorf("Update: %v", err)
			}
		}
	})
	if row, _ := h.get(t, "item", int64(1)); row.Fields[0] != int64(writers*each) {
		t.Errorf("%d concurrent increments made %v: Updates are serializable", writers*each, row.Fields[0])
	}
}

// writeSkew has two Updates that each read two rows and may clear one if both are set: one of them must see the other.
func writeSkew(t *testing.T, h home) {
	for round := range int64(15) {
		a, b := 2*round, 2*round+1
		h.put(t, "item", itemRow(a, 1, "", ""), itemRow(b, 1, "", ""))
		together(t, 2, func(i int) {
			err := h.try(func(tx storage.Tx) error {
				rows, err := tx.List("item", storage.Query{Range: storage.Range{From: a, To: b + 1}})
				if err != nil || rows[0].Fields[0] == int64(0) || rows[1].Fields[0] == int64(0) {
					return err
				}
				_, err = tx.Put("item", itemRow(a+int64(i), 0, "", ""), storage.Always())
				return err
			})
			if err != nil {
				t.Errorf("Update: %v", err)
			}
		})
		rows := h.list(t, "item", storage.Query{Range: storage.Range{From: a, To: b + 1}})
		if left := rows[0].Fields[0].(int64) + rows[1].Fields[0].(int64); left != 1 {
			t.Fatalf("round %d: %d rows are set after two Updates that each leave one: Updates are serializable", round, left)
		}
	}
}

func seqOrder(t *testing.T, h home) {
	const writers, each, threads = 6, 10, 2
	var problem error
	together(t, writers+1, func(w int) {
		if w == writers {
			problem = watchSeq(h, threads)
			return
		}
		for i := range each {
			thread := int64(i%threads) + 1
			err := h.try(func(tx storage.Tx) error {
				n := 1 + (w+i)%3
				first, ok, err := tx.Seq(thread, storage.AnyEpoch, n)
				if err != nil || !ok {
					return errors.Join(err, fmt.Errorf("taking a number under AnyEpoch says %v", ok))
				}
				for k := range int64(n) {
					if err := putAll(tx, "event", storage.Row{Key: []any{thread, first + k}, Fields: []any{int64(w)}}); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				t.Errorf("Update: %v", err)
			}
		}
	})
	if problem != nil {
		t.Error(problem)
	}
	if err := watchSeq(h, threads); err != nil {
		t.Error(err)
	}
}

// watchSeq checks in a few Views that what is seen of each thread is 1, 2, 3 and so on.
func watchSeq(h home, threads int64) error {
	for range 20 {
		err := h.View(context.Background(), func(_ context.Context, tx storage.Tx) error {
			for thread := int64(1); thread <= threads; thread++ {
				rows, err := tx.List("event", storage.Query{Range: storage.Range{Prefix: []any{thread}}})
				if err != nil {
					return err
				}
				for i, r := range rows {
					if r.Key[1] != int64(i)+1 {
						return fmt.Errorf("a View sees number %v of thread %d at place %d: a gap or a repeat", r.Key[1], thread, i+1)
					}
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
