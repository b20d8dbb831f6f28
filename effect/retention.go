package effect

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/storage"
)

// Retention says how long operations are kept, and what could still reach them: the life of everything from which a node
// could be entered again. The zero Retention keeps operations for ever, whatever the others say.
type Retention struct {
	Operations  time.Duration // after their last change they become tombstones, without payload; 0: never
	Checkpoints time.Duration // how long a checkpoint, a fork of it included, can be run from; 0: for ever
	Queue       time.Duration // how long a run may wait to be worked on
	Approvals   time.Duration // how long a request, and then its grant, may wait
	Pause       time.Duration // the longest time that a run may be paused on top of that
}

// RetentionError: operations would be forgotten while a checkpoint could still reach them, and send them anew. Nothing was
// opened.
type RetentionError struct {
	Operations time.Duration // kept so long
	Reach      time.Duration // can be reached so long; 0: for ever
	By         string        // what reaches them
}

// Error says both figures.
func (e *RetentionError) Error() string {
	reach := "for ever"
	if e.Reach > 0 {
		reach = fmt.Sprintf("for %v", e.Reach)
	}
	return fmt.Sprintf("effect: operations are kept for %v, and %s can reach them %s, so that a replay could send again what is forgotten; "+
		"nothing was opened; keep operations longer, or give checkpoints a shorter life", e.Operations, e.By, reach)
}

// check enforces that operations outlive what can reach them.
func (r Retention) check(effects map[string]*declaration) error {
	switch {
	case r.Operations < 0 || r.Checkpoints < 0 || r.Queue < 0 || r.Approvals < 0 || r.Pause < 0:
		return fmt.Errorf("effect: a retention is not negative: %+v; nothing was opened", r)
	case r.Operations == 0:
		return nil
	case r.Checkpoints == 0:
		return &RetentionError{Operations: r.Operations, By: "checkpoints"}
	}
	longest, by := r.Checkpoints, "checkpoints"
	if r.Queue > longest {
		longest, by = r.Queue, "queued runs"
	}
	if r.Approvals > longest {
		longest, by = r.Approvals, "approvals"
	}
	for _, d := range effects {
		valid, ends := d.levels.Life()
		if !ends {
			return &RetentionError{Operations: r.Operations, By: fmt.Sprintf("approvals of %q", d.name)}
		}
		if valid > longest {
			longest, by = valid, fmt.Sprintf("approvals of %q", d.name)
		}
	}
	if r.Operations < longest+r.Pause {
		return &RetentionError{Operations: r.Operations, Reach: longest + r.Pause, By: by}
	}
	return nil
}

// swept are the states that a retention ends. In doubt, quarantined, released, compensating and compensation_failed never
// expire.
var swept = [...]State{StateCommitted, StateRejected, StateVoided, StateDenied, StateCompensated}

// expire makes tombstones of at most limit operations that are past their retention: T15, each in an Update of its own,
// if it is still as it was seen. next is when the next one is due; zero: none is there.
func (l *Ledger) expire(ctx context.Context, db storage.DB, tenant string, limit int) (done int, next time.Time, err error) {
	if l.retention.Operations == 0 || limit < 1 {
		return 0, time.Time{}, nil
	}
	for _, state := range swept {
		due, now, soonest, err := l.past(ctx, db, tenant, state, limit-done)
		if err != nil {
			return done, next, err
		}
		if !soonest.IsZero() && (next.IsZero() || soonest.Before(next)) {
			next = soonest
		}
		for _, key := range due {
			did, err := l.bury(ctx, db, tenant, key)
			if err != nil {
				return done, next, err
			}
			if did {
				done++
			}
			if done == limit {
				return done, now, nil // there may be more
			}
		}
	}
	return done, next, nil
}

// past lists the keys of some of a state's operations that are past their retention, and says when the next one is.
func (l *Ledger) past(ctx context.Context, db storage.DB, tenant string, state State, limit int) (due []string, now, next time.Time, err error) {
	err = db.View(ctx, func(_ context.Context, tx storage.Tx) error {
		due, now, next = nil, tx.Now(), time.Time{}
		after := now.Add(-l.retention.Operations).UnixMilli() + 1
		of := []any{tenant, string(state)}
		for page, rest := max(limit, 1), true; rest && len(due) == 0; page *= 2 { // what was abandoned stays, and may fill a page
			rows, err := tx.List(operations, storage.Query{Index: "by_state", Range: storage.Range{Prefix: of, To: after}, Limit: page})
			if err != nil {
				return err
			}
			rest = len(rows) == page
			for _, row := range rows {
				op, err := readOperation(row)
				if err != nil {
					return err
				}
				if !op.Doubt {
					due = append(due, op.Key)
				}
			}
		}
		rows, err := tx.List(operations, storage.Query{Index: "by_state", Range: storage.Range{Prefix: of, From: after}, Limit: 1, NoBody: true})
		if len(rows) > 0 {
			next = time.UnixMilli(rows[0].Fields[2].(int64)).UTC().Add(l.retention.Operations)
		}
		return err
	})
	return due, now, next, err
}

// bury makes a tombstone of an operation, unless something happened to it.
func (l *Ledger) bury(ctx context.Context, db storage.DB, tenant, key string) (did bool, err error) {
	err = db.Update(ctx, func(_ context.Context, tx storage.Tx) error {
		did = false
		op, err := operationOf(tx, tenant, key)
		if err != nil || op == nil {
			return err
		}
		now, was := tx.Now().UTC(), op.State
		err = op.to(StateTombstone, now, "past its retention", grounds{aged: !now.Before(op.Updated.Add(l.retention.Operations))})
		if law := (*LawError)(nil); errors.As(err, &law) {
			return nil
		}
		if err != nil {
			return err
		}
		op.Final, op.params, op.outcome, op.schema = was, nil, nil, nil
		if err := errors.Join(op.put(tx), op.note(tx, op.place(), pawl.Actor{}, string(StateTombstone), was, "past its retention")); err != nil {
			return err
		}
		did = true
		return nil
	})
	if errors.Is(err, errMoved) {
		return false, nil
	}
	return did, err
}
