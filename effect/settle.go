package effect

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/storage"
)

const gone = "the process that dispatched it is gone, and left no outcome"

// doubt is T7 for an attempt whose process is gone.
func (w *doing) doubt(ctx context.Context) error {
	return w.update(ctx, toDoubt, func(ctx context.Context, tx storage.Tx, s *seen) error {
		if err := s.op.to(StateInDoubt, s.now, gone, grounds{attempt: s.op.Attempts, alive: s.alive}); err != nil {
			return err
		}
		if s.last != nil {
			s.last.Ended = s.now
			s.op.Settles = w.led.settles(w.d.settle, s.last)
			s.last.Outcome = "unknown"
			if err := s.last.put(tx, s.op.Tenant); err != nil {
				return err
			}
		}
		return errors.Join(s.op.put(tx), s.op.note(tx, w.info, pawl.Actor{}, string(StateInDoubt), StateDispatched, gone))
	})
}

// resendable says that the target would recognise the key, and that it was not sent too often.
func (d *declaration) resendable(op *Operation, now time.Time) bool {
	return op.sendable(d.keys, now) && op.Attempts < d.budget
}

// hopeless says that neither the target's keys nor a look-up can settle the doubt.
func (w *doing) hopeless(op *Operation, now time.Time) bool {
	return w.d.find == nil && !w.d.resendable(op, now)
}

// settle finds out what became of an operation in doubt, once in a Do: by its key while the target remembers it, else by
// a look-up, else through a person.
func (w *doing) settle(ctx context.Context, s *seen) (receipt []byte, again bool, err error) {
	switch {
	case w.hopeless(s.op, s.now):
		return w.person(ctx, s, toSettle)
	case w.settled:
		return nil, false, w.inDoubt(s.op, w.cause)
	}
	w.settled = true
	if w.d.resendable(s.op, s.now) {
		return w.again(ctx, s)
	}
	return w.lookUp(ctx, s)
}

func (w *doing) inDoubt(op *Operation, err error) error {
	return &InDoubtError{
		Effect: w.d.name, Ref: w.ref, Operation: op.Key, Attempt: op.Attempts, Since: op.Last, Due: op.Settles, Err: err,
	}
}

// lookUp asks the target: T9 when it has it, T10 when it certainly has not.
func (w *doing) lookUp(ctx context.Context, s *seen) (receipt []byte, again bool, err error) {
	f := w.led.lookUp(ctx, w.d, s.op)
	switch {
	case f.lost != nil:
		return nil, false, f.lost
	case f.err != nil:
		w.cause = fmt.Errorf("the look-up gave no answer: %w", f.err)
		return nil, false, w.inDoubt(s.op, w.cause)
	case f.conflict != nil:
		w.conflict = f.conflict
		return w.person(ctx, s, toSettle)
	case !f.applied && s.now.Before(s.op.Settles):
		w.cause = errTooEarly
		return nil, false, w.inDoubt(s.op, w.cause)
	}
	rev := s.op.rev
	err = w.update(ctx, toSettle, func(_ context.Context, tx storage.Tx, s *seen) error {
		if s.op.rev != rev {
			return errMoved
		}
		if err := w.led.settled(tx, s.op, w.info, pawl.Actor{}, f.evidence(s.op, "look-up"), f.outcome, s.now); err != nil {
			return err
		}
		if f.applied {
			return w.endOthers(tx, s.op)
		}
		return nil
	})
	return nil, true, err
}

// finding is what a look-up found.
type finding struct {
	applied  bool
	receipt  []byte
	outcome  []byte // sealed
	err      error  // it gave no answer
	conflict error  // it found what should not be there
	lost     error  // the parameters cannot be read
}

func (f *finding) evidence(op *Operation, kind string) *Evidence {
	e := &Evidence{Operation: op.Key, Kind: kind, Found: "absent"}
	if f.applied {
		e.Found, e.Receipt = "applied", receiptOf(f.receipt)
	}
	return e
}

// lookUp asks the target of an effect about an operation. It changes nothing.
func (l *Ledger) lookUp(ctx context.Context, d *declaration, op *Operation) *finding {
	params, err := l.ring.open(op, paramsOf)
	if err != nil {
		return &finding{lost: err}
	}
	asked := *d
	asked.call = func(ctx context.Context, op Op, params []byte) ([]byte, error) {
		doc, found, err := d.find(ctx, op, params)
		if !found {
			doc = nil
		}
		return doc, err
	}
	of := Op{Key: op.Key, Ref: op.Ref, Tenant: op.Tenant, Attempt: int(op.Attempts), Sent: op.Last}
	receipt, err := asked.awaited(ctx, of, params)
	if err == nil {
		err = core.CheckSize("the receipt", receipt)
	}
	if err != nil {
		said, clash := l.words(err, params), (*conflict)(nil)
		if errors.As(err, &clash) {
			return &finding{conflict: said}
		}
		return &finding{err: said}
	}
	f := &finding{applied: receipt != nil, receipt: receipt}
	if f.applied {
		f.outcome = l.ring.seal(op.Tenant, op.Effect, op.Ref, op.Authorised, outcomeOf, receipt)
	}
	return f
}

// settled is T9 or T10, with the evidence. The action of the trail is "settled".
func (l *Ledger) settled(tx storage.Tx, op *Operation, at pawl.TaskInfo, actor pawl.Actor, e *Evidence, outcome []byte, now time.Time) error {
	to, why := StateReserved, e.Kind+": it did not happen"
	if e.Found == "applied" {
		to, why = StateCommitted, e.Kind+": it happened"
	}
	was := op.State
	if err := op.to(to, now, why, grounds{evidence: true, trusted: !now.Before(op.Settles)}); err != nil {
		return err
	}
	return l.concluded(tx, op, at, actor, e, outcome, was, why)
}

// concluded writes an operation that evidence, or a person, has brought to where it is.
func (l *Ledger) concluded(tx storage.Tx, op *Operation, at pawl.TaskInfo, actor pawl.Actor, e *Evidence, outcome []byte, was State, why string) error {
	op.outcome, op.Receipt, op.Settles = outcome, e.Receipt, time.Time{}
	if e.Reason != "" {
		why += " (" + e.Reason + ")"
	}
	err := errors.Join(e.put(tx, op.Tenant), op.note(tx, at, actor, "settled", was, why), l.compensated(tx, op))
	if err != nil {
		return err
	}
	if op.State == StateReserved && op.Grant != "" {
		return l.giveBack(tx, op, at, why)
	}
	return op.put(tx)
}

// receiptOf is how a receipt is called where it must not be shown: by its own id, or by its digest.
func receiptOf(receipt []byte) string {
	sum := sha256.Sum256(receipt)
	return "sha256:" + hex.EncodeToString(sum[:])
}
