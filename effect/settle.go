package effect

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/storage"
)

// doubtKind is the kind of the wait for a person who knows what happened.
const doubtKind = "doubt"

// doubt is T7 for an attempt whose process is gone.
func (w *doing) doubt(ctx context.Context) error {
	const why = "the process that dispatched it is gone, and left no outcome"
	return w.update(ctx, toDoubt, func(ctx context.Context, tx storage.Tx, s *seen) error {
		if err := s.op.to(StateInDoubt, s.now, why); err != nil {
			return err
		}
		if s.last != nil {
			s.last.Outcome, s.last.Ended = "unknown", s.now
			if err := s.last.put(tx, s.op.Tenant); err != nil {
				return err
			}
		}
		return errors.Join(s.op.put(tx), s.op.note(tx, w.info, pawl.Actor{}, string(StateInDoubt), StateDispatched, why))
	})
}

// hopeless says that neither the target's keys nor a look-up can settle the doubt.
func (w *doing) hopeless(op *Operation, now time.Time) bool {
	return w.d.find == nil && !op.sendable(w.d.keys, now)
}

// settle finds out what became of an operation in doubt, once in a Do: by its key while the target remembers it, else by
// a look-up, else through a person.
func (w *doing) settle(ctx context.Context, s *seen) (receipt []byte, again bool, err error) {
	switch {
	case w.hopeless(s.op, s.now):
		return w.person(ctx, s)
	case w.settled:
		return nil, false, w.inDoubt(s.op, w.cause)
	}
	w.settled = true
	if s.op.sendable(w.d.keys, s.now) {
		params, err := w.led.ring.open(s.op, paramsOf)
		if err != nil {
			return nil, false, err
		}
		return w.attempt(ctx, toSettle, params, func(_ storage.Tx, s *seen) error {
			if !s.op.sendable(w.d.keys, s.now) {
				return errMoved
			}
			return nil
		})
	}
	return w.lookUp(ctx, s)
}

func (w *doing) inDoubt(op *Operation, err error) error {
	return &InDoubtError{Effect: w.d.name, Ref: w.ref, Operation: op.Key, Attempt: op.Attempts, Since: op.Last, Err: err}
}

// lookUp asks the target: T9 when it has it, T10 when it certainly has not.
func (w *doing) lookUp(ctx context.Context, s *seen) (receipt []byte, again bool, err error) {
	params, err := w.led.ring.open(s.op, paramsOf)
	if err != nil {
		return nil, false, err
	}
	asked := *w.d
	asked.call = func(ctx context.Context, op Op, params []byte) ([]byte, error) {
		doc, found, err := w.d.find(ctx, op, params)
		if !found {
			doc = nil
		}
		return doc, err
	}
	op := Op{Key: s.op.Key, Ref: s.op.Ref, Tenant: s.op.Tenant, Attempt: int(s.op.Attempts), Sent: s.op.Last}
	if receipt, err = asked.awaited(ctx, op, params); err == nil {
		err = core.CheckSize("the receipt", receipt)
	}
	if err != nil {
		w.cause = fmt.Errorf("the look-up gave no answer: %w", w.led.words(err, params))
		return nil, false, w.inDoubt(s.op, w.cause)
	}
	var outcome []byte
	found := receipt != nil
	if found {
		outcome = w.led.ring.seal(s.op.Tenant, s.op.Effect, s.op.Ref, s.op.Authorised, outcomeOf, receipt)
	}
	rev := s.op.rev
	err = w.update(ctx, toSettle, func(_ context.Context, tx storage.Tx, s *seen) error {
		if s.op.rev != rev {
			return errMoved
		}
		e := &Evidence{Operation: s.op.Key, Kind: "look-up", Found: "absent"}
		if found {
			e.Found, e.Receipt = "applied", receiptOf(receipt)
		}
		if err := w.led.settled(tx, s.op, w.info, pawl.Actor{}, e, outcome); err != nil {
			return err
		}
		if found {
			return w.endOthers(tx, s.op)
		}
		return nil
	})
	return nil, true, err
}

// settled is T9 or T10, with the evidence.
func (l *Ledger) settled(tx storage.Tx, op *Operation, at pawl.TaskInfo, actor pawl.Actor, e *Evidence, outcome []byte) error {
	to, why := StateReserved, e.Kind+": it did not happen"
	if e.Found == "applied" {
		to, why = StateCommitted, e.Kind+": it happened"
	}
	if err := op.to(to, tx.Now().UTC(), why); err != nil {
		return err
	}
	op.outcome, op.Receipt = outcome, e.Receipt
	if e.Reason != "" {
		why += " (" + e.Reason + ")"
	}
	if err := errors.Join(e.put(tx, op.Tenant), op.note(tx, at, actor, "settled", StateInDoubt, why)); err != nil {
		return err
	}
	if to == StateReserved && op.Grant != "" {
		return (&doing{led: l}).giveBack(tx, op, why)
	}
	return op.put(tx)
}

// person waits for somebody who says what happened.
func (w *doing) person(ctx context.Context, s *seen) (receipt []byte, again bool, err error) {
	if q, ok := w.task.Awaits(ctx, doubtKind, w.d.name, pawl.Key(w.ref.String())); ok && q.State == string(core.QuestionOpen) {
		return nil, false, pawl.ErrWaiting
	}
	err = w.update(ctx, toSettle, func(ctx context.Context, tx storage.Tx, s *seen) error {
		if err := used(tx, w.info, s.op.Key); err != nil {
			return err
		}
		return w.askPerson(ctx, tx, s.op, s.last)
	})
	if err != nil {
		return nil, false, err
	}
	return nil, false, pawl.ErrWaiting
}

// askPerson opens the wait. The task is noted first, so that the desk finds the wait.
func (w *doing) askPerson(ctx context.Context, tx storage.Tx, op *Operation, a *Attempt) error {
	body := struct {
		Operation string    `json:"operation"`
		Effect    string    `json:"effect"`
		Ref       Reference `json:"ref"`
		Attempt   int64     `json:"attempt"`
		Since     time.Time `json:"since"`
		Reason    string    `json:"reason"`
		Params    any       `json:"params,omitempty"`
	}{op.Key, op.Effect, op.Ref, op.Attempts, op.Last, op.Reason, nil}
	if w.led.redactor != nil {
		view, _ := w.led.redactor.JSON(w.doc)
		body.Params = json.RawMessage(view)
	}
	doc, err := json.Marshal(body)
	if err != nil {
		return err
	}
	id, err := w.task.Wait(ctx, tx, pawl.Wait{
		Kind: doubtKind, Name: w.d.name, Key: w.ref.String(), Body: doc, Digest: digest("pawl.doubt.1", op.Key, fmt.Sprint(op.Attempts)),
	})
	if err != nil {
		return err
	}
	row := storage.Row{Key: []any{op.Tenant, w.info.Thread, op.Key, w.info.Task}, Body: []byte(id)}
	_, err = tx.Put(uses, row, storage.Always())
	return err
}

// receiptOf is how a receipt is called where it must not be shown: by its own id, or by its digest.
func receiptOf(receipt []byte) string {
	sum := sha256.Sum256(receipt)
	return "sha256:" + hex.EncodeToString(sum[:])
}
