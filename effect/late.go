package effect

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/storage"
)

// late keeps, as evidence, what became of an attempt whose thread has another owner by now, or whose operation was settled
// meanwhile: T17.
func (w *doing) late(ctx context.Context, op *Operation, a *Attempt, ends ending) error {
	return w.task.Late(ctx, func(_ context.Context, tx storage.Tx) error {
		now, err := operationOf(tx, op.Tenant, op.Key)
		if err != nil || now == nil {
			return err
		}
		e := &Evidence{Operation: op.Key, Kind: "late", Found: ends.how, Attempt: a.N}
		if ends.receipt != nil {
			e.Receipt = receiptOf(ends.receipt)
		}
		why := fmt.Sprintf("attempt %d ended late: %s", a.N, ends.how)
		if err := errors.Join(e.put(tx, op.Tenant), now.note(tx, w.info, pawl.Actor{}, "late", now.State, why)); err != nil {
			return err
		}
		return w.led.weigh(tx, now, w.info, e)
	})
}

// weigh compares evidence with where its operation stands, and raises the alarm when it does not fit.
func (l *Ledger) weigh(tx storage.Tx, op *Operation, at pawl.TaskInfo, e *Evidence) error {
	if !op.contradicted(e) {
		return nil
	}
	was := op.State
	why := fmt.Sprintf("%s: %s, which contradicts that it is %s", e.Kind, e.Found, was)
	if law(op.State, StateQuarantined) != "T17" {
		return op.note(tx, at, pawl.Actor{}, "alarm", was, why)
	}
	if err := op.to(StateQuarantined, tx.Now().UTC(), why, grounds{contradicts: true}); err != nil {
		return err
	}
	return errors.Join(l.compensated(tx, op), op.put(tx), op.note(tx, at, pawl.Actor{}, "alarm", was, why))
}

// contradicted says whether evidence does not fit the state.
func (o *Operation) contradicted(e *Evidence) bool {
	switch e.Found {
	case "applied":
		switch o.State {
		case StateReserved, StateRejected, StateDenied, StateReleased:
			return true
		case StateVoided:
			return !o.Doubt
		case StateDispatched, StateCommitted: // twice, where the target does not tell that it is the same
			return e.Attempt > 0 && e.Attempt < o.Attempts && o.Target != "keys"
		}
	case "absent", "not sent", "rejected":
		return o.State == StateCommitted && (e.Attempt == 0 || e.Attempt == o.Attempts && o.Attempts == 1)
	}
	return false
}
