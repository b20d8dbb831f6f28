package effect

import (
	"context"
	"errors"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/storage"
)

// Due is the ledger's source of timers for one tenant, for a worker. See [Ledger.Due].
type Due struct {
	led *Ledger
	eng *pawl.Engine
	db  storage.DB
}

// Due makes what is due by the database's clock visible: doubts whose look-up may be trusted from now on ("effect.due" in the
// trail, once), and operations past their retention, which become tombstones. It only makes visible: nothing is sent or
// looked up, and no promise depends on it.
func (l *Ledger) Due(eng *pawl.Engine, db storage.DB) *Due { return &Due{l, eng, db} }

// Name is "effect".
func (*Due) Name() string { return "effect" }

// Due does at most limit of what is due, each once and if it is still due, and says when to come again; zero: when
// something changes.
func (d *Due) Due(ctx context.Context, limit int) (done int, next time.Time, err error) {
	done, next, err = d.settles(ctx, limit)
	if err != nil || done >= limit {
		return done, next, err
	}
	more, at, err := d.led.expire(ctx, d.db, d.eng.TenantName(), limit-done)
	if !at.IsZero() && (next.IsZero() || at.Before(next)) {
		next = at
	}
	return done + more, next, err
}

// settles makes visible which doubts may be settled by a look-up.
func (d *Due) settles(ctx context.Context, limit int) (done int, next time.Time, err error) {
	tenant := d.eng.TenantName()
	var due []*Operation
	err = d.db.View(ctx, func(_ context.Context, tx storage.Tx) error {
		due, next = nil, time.Time{}
		rows, err := tx.List(operations, storage.Query{Index: "by_state", Range: storage.Range{Prefix: []any{tenant, string(StateInDoubt)}}})
		if err != nil {
			return err
		}
		for _, row := range rows {
			op, err := readOperation(row)
			switch {
			case err != nil:
				return err
			case op.Settles.IsZero() || op.Told:
			case !tx.Now().Before(op.Settles) && len(due) < limit:
				due = append(due, op)
			case next.IsZero() || op.Settles.Before(next):
				next = op.Settles
			}
		}
		return nil
	})
	for _, op := range due {
		if err != nil {
			return done, next, err
		}
		err = d.db.Update(ctx, func(_ context.Context, tx storage.Tx) error {
			now := *op
			now.Told = true
			return errors.Join(now.put(tx), now.note(tx, now.place(), pawl.Actor{}, "due", now.State, "a look-up may be trusted from now on"))
		})
		if errors.Is(err, errMoved) {
			err = nil
			continue
		}
		if err == nil {
			done++
		}
	}
	return done, next, err
}
