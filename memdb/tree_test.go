package memdb

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestTreeAgainstSortedKeys drives a tree and its snapshots with random changes and compares every scan with a
// sorted list.
func TestTreeAgainstSortedKeys(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(seed, 1))
			tr, model := newLeases(), map[int64]int64{}
			var frozen tree[lease]
			var frozenModel map[int64]int64
			for step := range 20_000 {
				k := rng.Int64N(3000) - 1500
				if seed%2 == 0 && step < 3000 {
					k = int64(step) // ascending, the common case
				}
				_, have := model[k]
				if grow := step%8000 < 5000; grow || !have {
					tr.set(intProbe(k), &lease{epoch: k, seq: int64(step)})
					model[k] = int64(step)
				} else {
					tr.remove(intProbe(k))
					delete(model, k)
				}
				if step%1500 == 0 {
					if frozenModel != nil {
						compareTree(t, &frozen, frozenModel, rng)
					}
					frozen, frozenModel = tr.snapshot(), maps.Clone(model)
				}
			}
			compareTree(t, &tr, model, rng)
			compareTree(t, &frozen, frozenModel, rng)
			for k := range model {
				tr.remove(intProbe(k))
			}
			if tr.root != nil || tr.count != 0 {
				t.Fatalf("after removing every row: root %v, count %d", tr.root, tr.count)
			}
		})
	}
}

func compareTree(t *testing.T, tr *tree[lease], model map[int64]int64, rng *rand.Rand) {
	t.Helper()
	if tr.count != len(model) {
		t.Fatalf("count is %d, want %d", tr.count, len(model))
	}
	for range 20 {
		a, b := rng.Int64N(3200)-1600, rng.Int64N(3200)-1600
		if a > b {
			a, b = b, a
		}
		var want []int64
		for k := range model {
			if a <= k && k < b {
				want = append(want, k)
			}
		}
		slices.Sort(want)
		for _, desc := range []bool{false, true} {
			var got []int64
			tr.scan(intProbe(a), intProbe(b), desc, func(l *lease) bool {
				if l.seq != model[l.epoch] {
					t.Errorf("row %d is %d, want %d", l.epoch, l.seq, model[l.epoch])
				}
				got = append(got, l.epoch)
				return true
			})
			if desc {
				slices.Reverse(got)
			}
			if !slices.Equal(got, want) {
				t.Fatalf("scan [%d,%d) desc=%v: %d rows, want %d", a, b, desc, len(got), len(want))
			}
		}
		if l := tr.get(intProbe(a)); (l != nil) != mapHas(model, a) {
			t.Fatalf("get %d: %v", a, l)
		}
	}
}

func mapHas(m map[int64]int64, k int64) bool { _, ok := m[k]; return ok }
