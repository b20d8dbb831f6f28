package effect_test

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/effect"
	"github.com/pawl-dev/pawl/pawltest"
	"github.com/pawl-dev/pawl/storage"
	"github.com/pawl-dev/pawl/storage/fault"
)

// watched is a home that keeps, of each Update that touches operations or requests, which rows it wrote.
type watched struct {
	storage.DB
	mu     sync.Mutex
	writes [][]string
}

func (w *watched) Update(ctx context.Context, fn func(context.Context, storage.Tx) error) error {
	var wrote []string
	err := w.DB.Update(ctx, func(ctx context.Context, tx storage.Tx) error {
		wrote = nil
		return fn(ctx, &watchedTx{tx, &wrote})
	})
	if err == nil && (slices.Contains(wrote, "operation") || slices.Contains(wrote, "approval")) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.writes = append(w.writes, wrote)
	}
	return err
}

type watchedTx struct {
	storage.Tx
	wrote *[]string
}

func (w *watchedTx) Put(kind string, row storage.Row, cond storage.If) (bool, error) {
	held, err := w.Tx.Put(kind, row, cond)
	if held {
		*w.wrote = append(*w.wrote, kind)
	}
	return held, err
}

// An effect takes two durable writes, with approval four: the request, the yes, the dispatch, the outcome. The dispatch
// spends the grant in the Update that records the attempt.
func TestWritesOfAnEffect(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		of       func(*pawltest.Target) money
		writes   int
		dispatch int // which one records the attempt
	}{
		{"plain", func(t *pawltest.Target) money { return bank(t) }, 2, 0},
		{"approved", func(t *pawltest.Target) money { return approved(bank(t)) }, 4, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			home := &watched{DB: memory(t)}
			p := start(t, home, fault.Plan{})
			th := p.thread(c.of(pawltest.NewTarget(pawltest.TargetOpaque)), "t")
			p.paid(th, hundred)
			if len(home.writes) != c.writes {
				t.Fatalf("%d writes: %v", len(home.writes), home.writes)
			}
			d := home.writes[c.dispatch]
			if !slices.Contains(d, "attempt") || !slices.Contains(d, "operation") || (c.writes == 4) != slices.Contains(d, "approval") {
				t.Errorf("the dispatch wrote %v", d)
			}
			if op := p.operation(); op.State != effect.StateCommitted || op.Attempts != 1 {
				t.Errorf("it ends %+v", op)
			}
			before := len(home.writes)
			if _, err := th.Replay(t.Context(), pawl.Before("pay")); err != nil || len(home.writes) != before {
				t.Errorf("a replay wrote %v, %v", home.writes[before:], err)
			}
		})
	}
}
