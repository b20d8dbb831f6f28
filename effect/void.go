package effect

import (
	"context"
	"errors"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/approval"
	"github.com/pawl-dev/pawl/storage"
)

// VerbVoid is asked of Options.Allow before an operation is given up that nothing was sent of, with its key as
// VerbInfo.Question.
const VerbVoid pawl.Verb = "void"

// Void gives up an operation that is only reserved: nothing of it was sent. Its open request and unspent grant end, and the
// threads that wait for it can be resumed; one that still wants the call reserves the next revision and asks anew, so to say
// no to a call reject its request instead. A redo that is given up leaves the first operation as it was. The actor of ctx
// needs an id and must not be a service; the reason is kept. Of any other state it is a [*LawError]; one of unknown outcome
// is given up with [Desk.Release] and [Abandon].
func (d *Desk) Void(ctx context.Context, key, reason string) (*Operation, error) {
	return d.change(ctx, VerbVoid, key, reason, func(tx storage.Tx, op *Operation, actor pawl.Actor) (*Operation, error) {
		why := "given up: " + reason
		if err := op.to(StateVoided, tx.Now().UTC(), why, grounds{}); err != nil {
			return nil, err
		}
		if err := errors.Join(op.put(tx), op.note(tx, op.place(), actor, "voided", StateReserved, why)); err != nil {
			return nil, err
		}
		_, err := approval.EndOthers(tx, d.eng.AnswerTx, op.Tenant, op.Key, "", "operation "+op.Key+" was "+why)
		return op, err
	})
}

// change is one person's change of an operation, in one Update: the verb is allowed before anything is read, and there is
// a person and a reason. do says what it comes to.
func (d *Desk) change(ctx context.Context, verb pawl.Verb, key, reason string,
	do func(tx storage.Tx, op *Operation, actor pawl.Actor) (*Operation, error)) (*Operation, error) {
	if err := d.eng.Allowed(ctx, pawl.VerbInfo{Verb: verb, Question: key}); err != nil {
		return nil, err
	}
	actor, err := decider(ctx, reason)
	if err != nil {
		return nil, err
	}
	was, err := d.at(ctx, key)
	if err != nil {
		return nil, err
	}
	var out *Operation
	err = d.db.Update(ctx, func(_ context.Context, tx storage.Tx) error {
		op, err := operationOf(tx, was.Tenant, was.Key)
		if err != nil || op == nil {
			return errors.Join(err, &pawl.NotFoundError{What: "operation", ID: key})
		}
		out, err = do(tx, op, actor)
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}
