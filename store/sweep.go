package store

import (
	"context"
	"math"
	"time"

	"github.com/pawl-dev/pawl/storage"
)

// Sweeper removes items whose time is past. Readers do not see them either way; it frees the space.
type Sweeper struct{ DB storage.DB }

// Name is "memory".
func (Sweeper) Name() string { return "memory" }

// Due removes at most limit items that have ended, of all tenants, and tells how many, and when the next one ends: the
// zero time when none does. An end that is past means that there are more.
func (s Sweeper) Due(ctx context.Context, limit int) (done int, next time.Time, err error) {
	if limit < 1 {
		return 0, time.Time{}, &InputError{"limit", "it is below 1"}
	}
	err = s.DB.Update(ctx, func(_ context.Context, tx storage.Tx) error {
		done, next = 0, time.Time{}
		rows, err := tx.List(itemKind, storage.Query{
			Index: "by_end", Range: storage.Range{From: int64(1), To: int64(math.MaxInt64)}, Limit: limit + 1, NoBody: true,
		})
		for _, row := range rows {
			if done == limit || !over(row, tx.Now()) {
				next = time.UnixMilli(row.Fields[colEnds].(int64)).UTC()
				return nil
			}
			if err := remove(tx, row.Key[0].(string), row.Key[1].(string)); err != nil {
				return err
			}
			done++
		}
		return err
	})
	return done, next, err
}
