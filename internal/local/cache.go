package local

import (
	"context"
	"errors"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/records"
	"github.com/pawl-dev/pawl/storage"
)

// How many kept results one Update takes away: of those that are over, and of those that somebody clears.
const (
	sweepRows = 16
	clearRows = 512
)

// Reuse reads a result that another task left, in this thread or another of the tenant. Only what is on disk is reused,
// so that no crash can take back what a result was made from. What cannot be read is as good as not there: the node runs,
// and its result replaces the row.
func (h *Home) Reuse(ctx context.Context, key core.CacheKey) (*core.Cached, error) {
	var out *core.Cached
	err := h.store.View(ctx, func(tx storage.Tx) error {
		out = nil
		row, ok, err := tx.Get(records.Cache, h.Tenant, key.Graph, key.Node, key.ID)
		if err != nil || !ok || row.Fields[0].(int64) <= records.Until(tx.Now()) {
			return err
		}
		out, err = h.store.Box.ReadCache(row)
		if damaged := (*records.DamagedError)(nil); errors.As(err, &damaged) {
			return nil
		}
		return err
	})
	return out, err
}

// RecordFor makes a step durable, and in the same Update keeps its result for others.
func (h *Home) RecordFor(ctx context.Context, s *core.Step, keep *core.Cached) error {
	s.At = h.Now()
	return h.flush(ctx, Batch{Steps: []*core.Step{s}, Keep: []*core.Cached{keep}})
}

// kept adds the rows of results for others. One that no row can hold is not kept.
func (w *writer) kept(list []*core.Cached) {
	for _, c := range list {
		row, err := w.home.store.Box.CacheRow(w.home.Tenant, c)
		if err == nil && len(row.Body) > storage.MaxValue {
			continue
		}
		w.add(records.Cache, nil, storage.Always())(row, err)
		w.out[len(w.out)-1].ttl = c.TTL
	}
}

// sweep takes away results of the tenant that are over. Whoever adds one pays for it, so that the cache never holds much
// more than what is still of use.
func sweep(tx storage.Tx, tenant string) error {
	rows, err := tx.List(records.Cache, storage.Query{
		Index: "by_until", Range: storage.Range{Prefix: []any{tenant}, To: records.Until(tx.Now()) + 1}, Limit: sweepRows, NoBody: true,
	})
	if err != nil {
		return err
	}
	return drop(tx, rows)
}

func drop(tx storage.Tx, rows []storage.Row) error {
	for _, row := range rows {
		if _, err := tx.Delete(records.Cache, storage.Range{Prefix: row.Key}); err != nil {
			return err
		}
	}
	return nil
}

// Clear takes kept results away, of one node or of all of a graph, in Updates of bounded size, and says how many. told is
// part of each Update, and is given how many those of it are.
func (s *Store) Clear(ctx context.Context, told func(context.Context, storage.Tx, int) error, prefix ...any) (int, error) {
	for cleared := 0; ; {
		var n int
		err := s.UpdateIn(ctx, func(ctx context.Context, tx storage.Tx) error {
			rows, err := tx.List(records.Cache, storage.Query{Range: storage.Range{Prefix: prefix}, Limit: clearRows, NoBody: true})
			if err != nil {
				return err
			}
			if n = len(rows); n == 0 && cleared > 0 {
				return nil
			}
			if err := drop(tx, rows); err != nil {
				return err
			}
			return told(ctx, tx, n)
		})
		if err != nil {
			return cleared, err
		}
		if cleared += n; n < clearRows {
			return cleared, nil
		}
	}
}
