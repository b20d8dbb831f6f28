package local

import (
	"context"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/records"
	"github.com/pawl-dev/pawl/storage"
)

// What one Update of a pruning does at most.
const (
	pruneRows  = 256
	pruneBytes = 4 << 20
)

// Prune carries out p on a thread that nobody runs, in Updates of bounded size. Each leaves the thread whole: full
// versions replace what they are equal to, then checkpoints go, and only then what nothing refers to any more. Whoever
// dies in between leaves a thread that can be pruned again. do is asked in the first Update; ErrMoved: somebody ran the
// thread meanwhile, and what was done until then stays done.
func (s *Store) Prune(ctx context.Context, tenant, thread string, seen *Seen, p *records.Pruning, do func(ctx context.Context, tx storage.Tx) error) error {
	h := NewHome(s, seen, tenant, thread, &core.Topology{Graph: seen.Info.Graph}, 0)
	step := func(fn func(tx storage.Tx) error) error {
		var lease storage.Lease
		err := s.UpdateIn(ctx, func(ctx context.Context, tx storage.Tx) error {
			h.number, h.epoch = 0, 0
			if err := h.take(tx, seen); err != nil {
				return err
			}
			if do != nil {
				if err := do(ctx, tx); err != nil {
					return err
				}
			}
			if err := fn(tx); err != nil {
				return err
			}
			if _, _, err := tx.Lease(h.number, storage.Drop, s.Member); err != nil {
				return err
			}
			now, _, err := tx.Lease(h.number, storage.Look, "")
			lease = now
			return err
		})
		if err == nil {
			do, seen.Lease = nil, lease
		}
		return err
	}
	if err := s.pruneWhole(h, p.Whole, step); err != nil {
		return err
	}
	for drop := p.Drop; len(drop) > 0; {
		batch := drop[:min(len(drop), pruneRows)]
		if err := step(func(tx storage.Tx) error { return dropCheckpoints(tx, seen.Info.N, batch) }); err != nil {
			return err
		}
		drop = drop[len(batch):]
	}
	for gone := p.Orphan; len(gone) > 0; {
		batch := gone[:min(len(gone), pruneRows)]
		if err := step(func(tx storage.Tx) error { return dropValues(tx, seen.Info.N, batch) }); err != nil {
			return err
		}
		gone = gone[len(batch):]
	}
	return nil
}

func (s *Store) pruneWhole(h *Home, whole []*core.Value, step func(func(storage.Tx) error) error) error {
	for len(whole) > 0 {
		var rows []storage.Row
		for size := 0; len(whole) > 0 && len(rows) < pruneRows && size < pruneBytes; whole = whole[1:] {
			row, err := s.Box.ValueRow(0, whole[0])
			if err != nil {
				return err
			}
			rows, size = append(rows, row), size+len(row.Body)
		}
		err := step(func(tx storage.Tx) error {
			for _, row := range rows {
				records.Rehome(records.Value, &row, h.number, 0)
				if _, err := tx.Put(records.Value, row, storage.Always()); err != nil {
					return err
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

func dropCheckpoints(tx storage.Tx, thread int64, batch []int64) error {
	for _, n := range batch {
		for _, kind := range []string{records.Ended, records.Step} {
			if _, err := tx.Delete(kind, storage.Range{Prefix: []any{thread, n}}); err != nil {
				return err
			}
		}
		if _, err := tx.Delete(records.Checkpoint, storage.Range{Prefix: []any{records.Place(thread, n)}}); err != nil {
			return err
		}
	}
	return nil
}

// dropValues deletes versions, neighbours at once.
func dropValues(tx storage.Tx, thread int64, batch []int64) error {
	for i := 0; i < len(batch); {
		end := i + 1
		for end < len(batch) && batch[end] == batch[end-1]+1 {
			end++
		}
		if _, err := tx.Delete(records.Value, storage.Range{From: records.Place(thread, batch[i]), To: records.Place(thread, batch[end-1]+1)}); err != nil {
			return err
		}
		i = end
	}
	return nil
}
