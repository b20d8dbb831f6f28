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
	return w.attempt(ctx, s, what, params, func(tx storage.Tx, s *seen) (grounds, error) { return w.authorise(tx, s, what, sealed) })
}

// authorise makes the operation of a dispatch, or spends the grant of the one that is there, and gathers what T3 asks for.
func (w *doing) authorise(tx storage.Tx, s *seen, what step, params []byte) (f grounds, err error) {
	if what == toMint {
		if err := w.reserve(tx, s, params); err != nil {
			return f, err
		}
	}
	if f.reconciled, err = w.reconciled(tx, s.now); err != nil {
		return f, err
	}
	if f.original, err = w.mayCompensate(tx, s.op); err != nil {
		return f, err
	}
	if f.allowed = !w.gated(s); !f.allowed && s.request != nil {
		err = approval.Consume(tx, w.info.Tenant, s.request.ID, w.callOf(s.op), s.op.Key)
		s.op.Grant, f.allowed = s.request.ID, err == nil
	}
	if err != nil {
		return f, err
	}
	return f, w.spend(tx, s.op)
}

// again sends an operation in doubt under its key once more: T8.
func (w *doing) again(ctx context.Context, s *seen) (receipt []byte, again bool, err error) {
	params, err := w.led.ring.open(s.op, paramsOf)
	if err != nil {
		return nil, false, err
	}
	return w.attempt(ctx, s, toSettle, params, func(_ storage.Tx, s *seen) (grounds, error) {
		return grounds{keyed: s.op.sendable(w.d.keys, s.now), budget: s.op.Attempts < w.d.budget}, nil
	})
}

// permitted is the one dispatch that a release allowed: T13.
func (w *doing) permitted(ctx context.Context, s *seen) (receipt []byte, again bool, err error) {
	params, err := w.led.ring.open(s.op, paramsOf)
	if err != nil {
		return nil, false, err
	}
	return w.attempt(ctx, s, toPermitted, params, func(storage.Tx, *seen) (grounds, error) { return grounds{}, nil })
}

// attempt is one dispatch: T3, T8 or T13, on the grounds of what prepare does in the same Update. The parameters can be
// read before anything is recorded, and are those of the very operation that was looked at.
func (w *doing) attempt(ctx context.Context, was *seen, what step, params []byte, prepare func(tx storage.Tx, s *seen) (grounds, error)) (receipt []byte, again bool, err error) {
	w.four = w.d.four != nil && w.d.four(params)
	var op *Operation
	var a *Attempt
	err = w.update(ctx, what, func(_ context.Context, tx storage.Tx, s *seen) error {
		if what != toMint && s.op.Key != was.op.Key {
			return errMoved
		}
		f, err := prepare(tx, s)
		if err != nil {
			return err
		}
		now, at, err := w.dispatched(tx, s, f)
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
func (w *doing) dispatched(tx storage.Tx, s *seen, f grounds) (*Operation, *Attempt, error) {
	op, was, call := *s.op, s.op.State, w.callOf(s.op)
	if was != StateReserved {
		call = op.Call
	}
	a := &Attempt{
		N: op.Attempts + 1, Operation: op.Key, Owner: w.led.id, Number: w.info.Number, Epoch: w.info.Epoch, Lineage: w.info.Lineage,
		Thread: w.info.Thread, Run: w.info.Run, RunAttempt: w.info.Attempt, Task: w.info.Task, Call: call, Grant: op.Grant,
		Permit: op.Permit, At: s.now, Deadline: s.now.Add(w.d.timeout),
	}
	if err := op.to(StateDispatched, s.now, "", f); err != nil {
		return nil, nil, w.heldBack(&op, f, err)
	}
	op.at(w.info)
	op.Call, op.FourEyes, op.Queue, op.Attempts, op.lag = call, w.four, w.d.queue, a.N, w.d.settle
	if op.Last = s.now; op.First.IsZero() {
		op.First = s.now
	}
	if was == StateReserved {
		if err := w.compensating(tx, &op); err != nil {
			return nil, nil, err
		}
	}
	err := errors.Join(used(tx, w.info, op.Key), op.note(tx, w.info, pawl.Actor{}, "dispatched", was, a.Permit))
	return &op, a, err
}

// heldBack names what holds a dispatch back where a person has to do something about it.
func (w *doing) heldBack(op *Operation, f grounds, err error) error {
	switch {
	case op.State != StateReserved:
	case !f.reconciled:
		return pawl.NoRetry(&RestoredError{Effect: w.d.name, Ref: w.ref, Target: w.d.target()})
	case !f.original:
		return pawl.NoRetry(&CompensationError{Effect: w.d.name, Ref: w.ref, Original: op.Compensates, Why: err.Error()})
	}
	return err
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
	ctx, cancel := context.WithDeadline(recorded(context.WithoutCancel(ctx), op), op.Deadline)
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
