package effect

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/approval"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/storage"
)

// dispatch records an attempt (T1 too where there is no operation), sends it, and records what became of it.
func (w *doing) dispatch(ctx context.Context, s *seen, what step) (receipt []byte, again bool, err error) {
	if w.d.inside != nil {
		receipt, err = w.within(ctx, s, what)
		return receipt, false, err
	}
	params, sealed := w.doc, []byte(nil)
	if what == toMint {
		sealed = w.led.ring.seal(w.info.Tenant, w.d.name, w.ref, w.print, paramsOf, w.doc)
	} else if params, err = w.led.ring.open(s.op, paramsOf); err != nil {
		return nil, false, err
	}
	return w.attempt(ctx, what, params, func(tx storage.Tx, s *seen) error { return w.authorise(tx, s, what, sealed) })
}

// authorise makes the operation of a dispatch, or spends the grant of the one that is there.
func (w *doing) authorise(tx storage.Tx, s *seen, what step, params []byte) error {
	switch {
	case what == toMint:
		return w.reserve(tx, s, params)
	case len(w.d.levels) == 0:
		return nil
	}
	s.op.Grant = s.request.ID
	return approval.Consume(tx, w.info.Tenant, s.request.ID, w.call, s.op.Key)
}

// attempt is one dispatch: T3 or T8 after what prepare does in the same Update. The parameters can be read before anything
// is recorded.
func (w *doing) attempt(ctx context.Context, what step, params []byte, prepare func(tx storage.Tx, s *seen) error) (receipt []byte, again bool, err error) {
	var op *Operation
	var a *Attempt
	err = w.update(ctx, what, func(_ context.Context, tx storage.Tx, s *seen) error {
		if err := prepare(tx, s); err != nil {
			return err
		}
		now, at, err := w.dispatched(tx, s)
		if err != nil {
			return err
		}
		if err := errors.Join(at.put(tx, now.Tenant), now.put(tx)); err != nil {
			return err
		}
		op, a = now, at
		return nil
	}, func(tx storage.Tx) (bool, error) { return isThere(tx, op, a) })
	if err != nil {
		return nil, false, w.notDispatched(err)
	}
	return w.send(ctx, op, a, params)
}

// dispatched is the operation with one attempt more, noted in the trail and not yet put.
func (w *doing) dispatched(tx storage.Tx, s *seen) (*Operation, *Attempt, error) {
	op, was := *s.op, s.op.State
	if err := op.to(StateDispatched, s.now, ""); err != nil {
		return nil, nil, err
	}
	op.at(w.info)
	op.Call = w.call
	op.Attempts++
	if op.Last = s.now; op.First.IsZero() {
		op.First = s.now
	}
	a := &Attempt{
		N: op.Attempts, Operation: op.Key, Owner: w.led.id, Number: w.info.Number, Epoch: w.info.Epoch, Lineage: w.info.Lineage,
		Thread: w.info.Thread, Run: w.info.Run, RunAttempt: w.info.Attempt, Task: w.info.Task, Call: w.call, Grant: op.Grant,
		At: s.now, Deadline: s.now.Add(w.d.timeout),
	}
	err := errors.Join(used(tx, w.info, op.Key), op.note(tx, w.info, pawl.Actor{}, "dispatched", was, ""))
	return &op, a, err
}

// isThere reads back an attempt: the one that was written, and not one of somebody else.
func isThere(tx storage.Tx, op *Operation, a *Attempt) (bool, error) {
	if op == nil || a == nil {
		return false, nil
	}
	got, err := attemptOf(tx, op.Tenant, a.Operation, a.N)
	return got != nil && got.Owner == a.Owner && got.Task == a.Task && got.Epoch == a.Epoch && got.At.Equal(a.At), err
}

// notDispatched says that an attempt was not recorded, so nothing was sent.
func (w *doing) notDispatched(err error) error {
	unknown := (*storage.UnknownError)(nil)
	if errors.As(err, &unknown) {
		return fmt.Errorf("effect %q %s: it is not certain that the dispatch is recorded, so nothing was sent: %w", w.d.name, w.ref, err)
	}
	return err
}

// send calls the function for an attempt that is on disk.
func (w *doing) send(ctx context.Context, op *Operation, a *Attempt, params []byte) (receipt []byte, again bool, err error) {
	receipt, err = w.d.awaited(ctx, Op{Key: op.Key, Ref: op.Ref, Tenant: op.Tenant, Attempt: int(a.N), Sent: a.At}, params)
	if err == nil {
		err = core.CheckSize("the receipt", receipt)
	}
	if w.cause = w.led.words(err, params); err != nil {
		receipt = nil
	}
	if err := w.record(ctx, op, a, w.cause, receipt); err != nil {
		return nil, false, err
	}
	if w.cause == nil {
		return receipt, false, nil
	}
	return nil, true, nil
}

// grace is how long after its deadline a function may take to return.
const grace = time.Second

// awaited calls the function on a goroutine of its own, so that neither a panic nor runtime.Goexit nor a function that
// never returns takes the record with it.
func (d *declaration) awaited(ctx context.Context, op Op, params []byte) ([]byte, error) {
	op.Deadline = time.Now().Add(d.timeout)
	ctx, cancel := context.WithDeadline(WithOp(context.WithoutCancel(ctx), op), op.Deadline)
	defer cancel()
	type outcome struct {
		receipt []byte
		err     error
	}
	done := make(chan outcome, 1)
	go func() {
		o := outcome{err: errors.New("the function ended its goroutine")}
		defer func() {
			if p := recover(); p != nil {
				o = outcome{err: fmt.Errorf("the function panicked: %v", p)}
			}
			done <- o
		}()
		receipt, err := d.call(ctx, op, params)
		o = outcome{receipt, err}
	}()
	late := time.NewTimer(d.timeout + grace)
	defer late.Stop()
	select {
	case o := <-done:
		return o.receipt, o.err
	case <-late.C:
		return nil, fmt.Errorf("the function did not return within %v", d.timeout)
	}
}

// record writes what became of an attempt: T4, T5, T6 or T7. The error that it returns is what Do returns; nil means that
// the operation is committed or in doubt.
func (w *doing) record(ctx context.Context, op *Operation, a *Attempt, said error, receipt []byte) error {
	unsent, refused := (*notSent)(nil), (*rejected)(nil)
	to, how, why := StateCommitted, "applied", ""
	doc := receipt
	switch {
	case said == nil:
	case errors.As(said, &unsent) && !op.Doubt:
		to, how, why = StateReserved, "not sent", "it is proven that nothing was done"
	case errors.As(said, &refused) && !op.Doubt:
		to, how, why, doc = StateRejected, "rejected", "the target refused it for good", []byte(said.Error())
	default:
		to, how, why = StateInDoubt, "unknown", "the attempt had no definite outcome"
	}
	var outcome []byte
	if to == StateCommitted || to == StateRejected {
		outcome = w.led.ring.seal(op.Tenant, op.Effect, op.Ref, op.Authorised, outcomeOf, doc)
	}
	err := w.task.Update(ctx, func(ctx context.Context, tx storage.Tx) error {
		now, err := operationOf(tx, op.Tenant, op.Key)
		if err != nil {
			return err
		}
		if now == nil || now.State != StateDispatched || now.Attempts != a.N {
			return errMoved
		}
		if err := now.to(to, tx.Now().UTC(), why); err != nil {
			return err
		}
		if now.outcome = outcome; to == StateCommitted {
			now.Receipt = receiptOf(receipt)
		}
		ended := *a
		ended.Outcome, ended.Ended = how, tx.Now().UTC()
		if err := ended.put(tx, op.Tenant); err != nil {
			return err
		}
		if err := now.put(tx); err != nil {
			return err
		}
		if err := now.note(tx, w.info, pawl.Actor{}, string(to), StateDispatched, why); err != nil {
			return err
		}
		return w.besides(ctx, tx, now, a, why)
	}, func(tx storage.Tx) (bool, error) {
		now, err := operationOf(tx, op.Tenant, op.Key)
		return now != nil && now.State == to && now.Attempts == a.N, err
	})
	if errors.Is(err, errMoved) {
		return err // somebody settled it meanwhile: what stands now counts
	}
	if err != nil {
		return w.task.Fail(fmt.Errorf("effect %q %s: attempt %d was made and its outcome (%s) is not saved: %w", w.d.name, w.ref, a.N, how, err))
	}
	switch to {
	case StateReserved:
		return &NotSentError{Effect: w.d.name, Ref: w.ref, Operation: op.Key, Err: said}
	case StateRejected:
		return pawl.NoRetry(&RejectedError{Effect: w.d.name, Ref: w.ref, Operation: op.Key, Reason: said.Error(), Err: refused.err})
	}
	return nil
}

// besides is what else changes with the outcome: the grant comes back, other requests end, a person is asked.
func (w *doing) besides(ctx context.Context, tx storage.Tx, op *Operation, a *Attempt, why string) error {
	switch op.State {
	case StateReserved:
		return w.giveBack(tx, op, why)
	case StateCommitted, StateRejected:
		return w.endOthers(tx, op)
	case StateInDoubt:
		if w.hopeless(op, tx.Now()) {
			return w.askPerson(ctx, tx, op, a)
		}
	}
	return nil
}

// giveBack returns the grant that the operation had consumed.
func (w *doing) giveBack(tx storage.Tx, op *Operation, why string) error {
	if op.Grant == "" {
		return nil
	}
	grant := op.Grant
	op.Grant = ""
	if err := op.put(tx); err != nil {
		return err
	}
	return approval.Return(tx, op.Tenant, grant, op.Key, why)
}

// endOthers ends the requests and grants of other tasks for an operation that is over.
func (w *doing) endOthers(tx storage.Tx, op *Operation) error {
	if len(w.d.levels) == 0 {
		return nil
	}
	_, err := approval.EndOthers(tx, w.task.AnswerTx, op.Tenant, op.Key, op.Grant, "unused: duplicate of operation "+op.Key)
	return err
}
