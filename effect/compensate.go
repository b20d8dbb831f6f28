package effect

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/storage"
)

// Compensates says that the effect undoes, as far as the business can, what another one did under the same reference: a
// refund of a transfer. See [Effect.Compensate].
func (e Effect[In, Out]) Compensates(original pawl.Usable) Effect[In, Out] {
	return e.with(func(d *declaration) {
		if original == nil || original.UseName() == "" || original.UseName() == d.name {
			d.fault("Compensates: name another effect, the one that it makes up for")
			return
		}
		d.compensates = original.UseName()
	})
}

// Compensate does the effect, which is declared with Compensates, for an operation that happened under ref. It is an
// operation of its own, with its own key, parameters and approval, and everything that [Effect.Do] says holds for it; the
// two are linked in the ledger. Asked for twice, it happens once. Where nothing stands that it could compensate it is a
// [*CompensationError], and nothing was sent.
func (e Effect[In, Out]) Compensate(ctx context.Context, ref Reference, in In) (Out, error) {
	if e.d != nil && e.d.compensates == "" {
		var none Out
		return none, &InputError{Effect: e.UseName(), Ref: ref, Err: errors.New("it compensates nothing; declare it with Compensates")}
	}
	return e.Do(ctx, ref, in)
}

// CompensationError: what was to be compensated does not stand. Nothing was sent.
type CompensationError struct {
	Effect   string
	Ref      Reference
	Original string // key of the operation; empty: there is none
	State    State  // of the operation
	Why      string
}

// Error says what does not stand.
func (e *CompensationError) Error() string {
	return fmt.Sprintf("effect %q %s: nothing to compensate: %s; nothing was sent", e.Effect, e.Ref, e.Why)
}

// original is the operation that stands for the reference of what a compensation makes up for.
func (w *doing) original(tx storage.Tx) (*Operation, error) {
	return inForce(tx, w.info.Tenant, w.d.compensates, w.ref, nil)
}

// bind links a compensation that is reserved to what it compensates.
func (w *doing) bind(tx storage.Tx, op *Operation) error {
	if w.d.compensates == "" {
		return nil
	}
	of, err := w.original(tx)
	if err != nil {
		return err
	}
	e := &CompensationError{Effect: w.d.name, Ref: w.ref}
	switch {
	case of == nil:
		e.Why = fmt.Sprintf("effect %q has no operation for this reference", w.d.compensates)
		return pawl.NoRetry(e)
	case !of.compensable():
		e.Original, e.State = of.Key, of.State
		e.Why = fmt.Sprintf("operation %.12s of %q is %s", of.Key, of.Effect, of.State)
		return pawl.NoRetry(e)
	}
	op.Compensates = of.Key
	return nil
}

func (o *Operation) compensable() bool {
	return o.State == StateCommitted || o.State == StateCompensationFailed
}

// mayCompensate says whether what an operation compensates stands; one that compensates nothing may go on.
func (w *doing) mayCompensate(tx storage.Tx, op *Operation) (bool, error) {
	if op.Compensates == "" {
		return true, nil
	}
	of, err := operationOf(tx, op.Tenant, op.Compensates)
	return of != nil && of.compensable(), err
}

// compensating notes at the original that its compensation is on its way: T14.
func (w *doing) compensating(tx storage.Tx, op *Operation) error {
	if op.Compensates == "" {
		return nil
	}
	of, err := operationOf(tx, op.Tenant, op.Compensates)
	if err != nil {
		return err
	}
	of.CompensatedBy = op.Key
	return of.compensation(tx, op, StateCompensating, "operation "+op.Key+" is on its way")
}

// compensated notes at the original what became of its compensation: T14. It is called wherever an operation comes to
// rest.
func (l *Ledger) compensated(tx storage.Tx, op *Operation) error {
	if op.Compensates == "" {
		return nil
	}
	of, err := operationOf(tx, op.Tenant, op.Compensates)
	if err != nil || of == nil || of.CompensatedBy != op.Key {
		return err
	}
	to, why := State(""), "operation "+op.Key+" is "+string(op.State)
	switch op.State {
	case StateCommitted:
		to = StateCompensated
	case StateReserved, StateDenied:
		to = StateCommitted
	case StateRejected:
		to = StateCompensationFailed
	case StateVoided:
		if to = StateCommitted; op.Doubt {
			to, why = StateCompensationFailed, "nobody knows whether operation "+op.Key+" happened, and it was abandoned"
		}
	case StateQuarantined:
		to = StateCompensating
	}
	if to == "" || law(of.State, to) == "" {
		return nil
	}
	return of.compensation(tx, op, to, why)
}

// compensation is T14 at the original.
func (o *Operation) compensation(tx storage.Tx, by *Operation, to State, why string) error {
	was := o.State
	if err := o.to(to, tx.Now().UTC(), why, grounds{original: o.CompensatedBy == by.Key}); err != nil {
		return err
	}
	return errors.Join(o.put(tx), o.note(tx, by.place(), pawl.Actor{}, string(to), was, why))
}
