package approval

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/storage"
)

// Timer makes visible what the clock did to the requests of a tenant: escalations, expiries, lapsed grants. Nothing depends
// on it: what is due is so without it, and is written down by whoever touches the request. It is safe for concurrent use, in
// several processes too: each event is written once.
type Timer struct {
	eng *pawl.Engine
	db  storage.DB
}

// NewTimer makes a timer for the tenant of eng over the engine's database.
func NewTimer(eng *pawl.Engine, db storage.DB) *Timer { return &Timer{eng, db} }

// Name is "approvals".
func (t *Timer) Name() string { return "approvals" }

// Due writes down what is due, at most limit requests (0: all), each in an Update of its own. It returns how many there
// were and when to come back, if nothing new is asked meanwhile; zero: no request has a time. A request that cannot be read
// is an error and holds up no other.
func (t *Timer) Due(ctx context.Context, limit int) (done int, next time.Time, err error) {
	ids, err := t.due(ctx, limit)
	if err != nil {
		return 0, time.Time{}, err
	}
	for _, id := range ids {
		changed := false
		fault := t.db.Update(ctx, func(_ context.Context, tx storage.Tx) error {
			r, err := get(tx, t.eng.TenantName(), id)
			if err != nil {
				return err
			}
			now, err := notice(tx, r)
			changed = err == nil && now.Rev != r.Rev
			return err
		})
		if fault == nil && changed {
			done++
		}
		err = errors.Join(err, fault)
	}
	next, fault := t.next(ctx)
	return done, next, errors.Join(err, fault)
}

// due are the requests that the clock has overtaken.
func (t *Timer) due(ctx context.Context, limit int) (ids []string, err error) {
	err = t.db.View(ctx, func(_ context.Context, tx storage.Tx) error {
		var got []string
		for _, state := range []State{Requested, Granted} {
			q := t.query(state)
			q.Range.To = tx.Now().UnixMilli() + 1
			if q.Limit = max(limit, 0); limit > 0 && len(got) == limit {
				break
			} else if limit > 0 {
				q.Limit -= len(got)
			}
			rows, err := tx.List(kind, q)
			if err != nil {
				return err
			}
			for _, row := range rows {
				got = append(got, row.Key[1].(string))
			}
		}
		ids = got
		return nil
	})
	return ids, err
}

// next is when the clock overtakes the next request.
func (t *Timer) next(ctx context.Context) (next time.Time, err error) {
	err = t.db.View(ctx, func(_ context.Context, tx storage.Tx) error {
		first := int64(math.MaxInt64)
		for _, state := range []State{Requested, Granted} {
			q := t.query(state)
			q.Limit = 1
			rows, err := tx.List(kind, q)
			if err != nil {
				return err
			}
			for _, row := range rows {
				first = min(first, row.Fields[colEnds].(int64))
			}
		}
		if next = (time.Time{}); first != math.MaxInt64 {
			next = time.UnixMilli(first).UTC()
		}
		return nil
	})
	return next, err
}

func (t *Timer) query(state State) storage.Query {
	return storage.Query{Index: "by_state", Range: storage.Range{Prefix: []any{t.eng.TenantName(), string(state)}}, NoBody: true}
}
