package effect

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/approval"
	"github.com/pawl-dev/pawl/storage"
)

// ending is what became of an attempt.
type ending struct {
	to      State
	how     string // for the attempt's row
	why     string
	outcome []byte // sealed
	receipt []byte
}

// ending judges what the function said: T4, T5, T6 or T7.
func (w *doing) ending(op *Operation, said error, receipt []byte) ending {
	unsent, refused := (*notSent)(nil), (*rejected)(nil)
	e := ending{to: StateInDoubt, how: "unknown", why: "the attempt had no definite outcome"}
	doc := receipt
	switch {
	case said == nil:
		e = ending{to: StateCommitted, how: "applied", receipt: receipt}
	case errors.As(said, &unsent):
		e = ending{to: StateReserved, how: "not sent", why: "it is proven that nothing was done"}
	case errors.As(said, &refused):
		e, doc = ending{to: StateRejected, how: "rejected", why: "the target refused it for good"}, []byte(said.Error())
	}
	if op.Doubt && e.to != StateCommitted {
		e.to, e.why = StateInDoubt, "the attempt was "+e.how+", and an earlier one may have happened"
	}
	if e.to == StateCommitted || e.to == StateRejected {
		e.outcome = w.led.ring.seal(op.Tenant, op.Effect, op.Ref, op.Authorised, outcomeOf, doc)
	}
	return e
}

// record writes what became of an attempt. The error that it returns is what Do returns; nil means that the operation is
// committed, or that nobody knows.
func (w *doing) record(ctx context.Context, op *Operation, a *Attempt, said error, receipt []byte) error {
	e := w.ending(op, said, receipt)
	err := w.task.Update(ctx, func(ctx context.Context, tx storage.Tx) error {
		now, err := operationOf(tx, op.Tenant, op.Key)
		if err != nil {
			return err
		}
		if now == nil || now.State != StateDispatched || now.Attempts != a.N {
			return errMoved
		}
		return w.ended(ctx, tx, now, a, e)
	}, func(tx storage.Tx) (bool, error) {
		now, err := operationOf(tx, op.Tenant, op.Key)
		return now != nil && now.Attempts == a.N && (now.State == e.to || e.to == StateInDoubt && now.State.Unknown()), err
	})
	if err != nil {
		kept := w.late(ctx, op, a, e)
		if errors.Is(err, errMoved) {
			return errors.Join(kept, err) // somebody settled it meanwhile: what stands now counts
		}
		return w.task.Fail(fmt.Errorf("effect %q %s: attempt %d was made and its outcome (%s) is not saved: %w", w.d.name, w.ref, a.N, e.how, err))
	}
	switch e.to {
	case StateReserved:
		return &NotSentError{Effect: w.d.name, Ref: w.ref, Operation: op.Key, Err: said}
	case StateRejected:
		no := (*rejected)(nil)
		errors.As(said, &no)
		return pawl.NoRetry(&RejectedError{Effect: w.d.name, Ref: w.ref, Operation: op.Key, Reason: said.Error(), Err: no.err})
	}
	return nil
}

// ended is the Update of record: the operation, its attempt, the trail, and what else changes with it.
func (w *doing) ended(ctx context.Context, tx storage.Tx, op *Operation, a *Attempt, e ending) error {
	now := tx.Now().UTC()
	if err := op.to(e.to, now, e.why, grounds{attempt: a.N}); err != nil {
		return err
	}
	if e.to == StateCommitted {
		op.Receipt = receiptOf(e.receipt)
	}
	over := *a
	over.Outcome, over.Ended = e.how, now
	op.outcome, op.Settles = e.outcome, w.led.settles(w.d.settle, &over)
	err := errors.Join(op.note(tx, w.info, pawl.Actor{}, string(e.to), StateDispatched, e.why), over.put(tx, op.Tenant))
	if err != nil {
		return err
	}
	hopeless := op.State == StateInDoubt && w.hopeless(op, now)
	if hopeless {
		if err := w.quarantine(tx, op); err != nil {
			return err
		}
	}
	if err := errors.Join(w.led.compensated(tx, op), op.put(tx)); err != nil {
		return err
	}
	switch {
	case hopeless:
		return w.askPerson(ctx, tx, op)
	case e.to == StateReserved:
		return w.led.giveBack(tx, op, w.info, e.why)
	case e.to == StateCommitted, e.to == StateRejected:
		return w.endOthers(tx, op)
	}
	return nil
}

// settles is from when on a look-up's "absent" is trusted: once nothing of the attempt can come to the target any more,
// and the target's answers have caught up. Where the death of a process is proved by a lock, a dead process sends nothing
// more; where it is only presumed, and its deadline is not over, it may.
func (l *Ledger) settles(lag time.Duration, a *Attempt) time.Time {
	last := a.Ended
	if hard := a.Deadline.Add(grace); l.presumed && a.Outcome == "" && hard.After(last) {
		last = hard
	}
	return last.Add(lag)
}

// giveBack returns the grant that the operation had consumed. It lapses where the thread has left the task that it was
// given to.
func (l *Ledger) giveBack(tx storage.Tx, op *Operation, at pawl.TaskInfo, why string) error {
	if op.Grant == "" {
		return nil
	}
	grant, left := op.Grant, at.Thread == op.Thread && at.Task != "" && at.Task != op.Task
	op.Grant = ""
	if err := op.put(tx); err != nil {
		return err
	}
	if err := approval.Return(tx, op.Tenant, grant, op.Key, why); err != nil || !left {
		return err
	}
	return approval.Lapse(tx, op.Tenant, grant, "the thread left the branch that it was given to")
}

// endOthers ends the requests and grants of other tasks for an operation that is over.
func (w *doing) endOthers(tx storage.Tx, op *Operation) error {
	if len(w.d.levels) == 0 {
		return nil
	}
	_, err := approval.EndOthers(tx, w.task.AnswerTx, op.Tenant, op.Key, op.Grant, "unused: duplicate of operation "+op.Key)
	return err
}
