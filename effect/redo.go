package effect

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/storage"
)

// VerbRedo is asked of Options.Allow before an effect is done a second time on purpose, with the operation's key as
// VerbInfo.Question.
const VerbRedo pawl.Verb = "redo"

// RedoError: the operation cannot be done a second time now. Nothing was changed.
type RedoError struct {
	Operation string
	State     State
	Why       string
}

// Error says why not.
func (e *RedoError) Error() string {
	return fmt.Sprintf("effect: operation %.12s is %s and cannot be redone: %s; nothing was changed", e.Operation, e.State, e.Why)
}

// Redo authorises an effect that happened, or was abandoned, a second time: a new operation with the next revision, a new
// key, and its own approval where the effect asks for one, linked to the one that it repeats. Nothing is sent by it: the
// next Do with the same reference and parameters sends it, once, so go on with a replay or a fork from before the node.
// Where it is given up, denied or rejected, the first operation stands as before. The actor of ctx needs an id and must
// not be a service.
//
// A compensation that is redone compensates what stands for its reference by then.
func (d *Desk) Redo(ctx context.Context, key, reason string) (*Operation, error) {
	return d.change(ctx, VerbRedo, key, reason, func(tx storage.Tx, op *Operation, actor pawl.Actor) (*Operation, error) {
		next, err := d.redo(tx, op)
		if err != nil {
			return nil, err
		}
		return next, errors.Join(next.put(tx),
			next.note(tx, op.place(), actor, "redo", absent, "of operation "+op.Key+": "+reason),
			op.note(tx, op.place(), actor, "redone", op.State, "as operation "+next.Key+": "+reason))
	})
}

// redo is the new operation, not yet put.
func (d *Desk) redo(tx storage.Tx, op *Operation) (*Operation, error) {
	no := func(why string) error { return &RedoError{Operation: op.Key, State: op.State, Why: why} }
	stands, err := inForce(tx, op.Tenant, op.Effect, op.Ref, nil)
	if err != nil {
		return nil, err
	}
	newest, err := newestOf(tx, op.Tenant, op.Effect, op.Ref)
	switch {
	case err != nil:
		return nil, err
	case stands.Key != op.Key:
		return nil, no(fmt.Sprintf("operation %.12s (%s) stands for its reference", stands.Key, stands.State))
	case op.State == StateCompensating:
		return nil, no("its compensation is on its way")
	case !op.State.happened() && (op.State != StateVoided || !op.Doubt):
		return nil, no("only what happened, or was abandoned, can be done again")
	}
	next := &Operation{
		Tenant: op.Tenant, Effect: op.Effect, Ref: op.Ref, Revision: newest.Revision + 1, Proposed: op.Proposed, Authorised: op.Authorised,
		Policy: d.led.policy, Target: op.Target, Redoes: op.Key, Lineage: op.Lineage, Thread: op.Thread, Graph: op.Graph, Call: op.Call,
		Asked: tx.Now().UTC(), params: op.params, schema: op.schema, input: op.input, fields: op.fields, Editor: op.Editor, Editors: op.Editors,
	}
	next.Key = mint(next.Tenant, next.Effect, next.Ref, next.Revision, next.Authorised, next.Policy)
	if op.Compensates != "" {
		of, err := operationOf(tx, op.Tenant, op.Compensates)
		if err == nil && of != nil {
			of, err = inForce(tx, of.Tenant, of.Effect, of.Ref, nil)
		}
		switch {
		case err != nil:
			return nil, err
		case of == nil || !of.compensable():
			return nil, no("what it compensates does not stand; redo that first")
		}
		next.Compensates = of.Key
	}
	return next, next.to(StateReserved, next.Asked, "redo of revision "+strconv.FormatInt(op.Revision, 10), grounds{})
}
