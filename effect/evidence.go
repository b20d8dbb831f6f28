package effect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/approval"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/storage"
)

// VerbEvidence is asked of Options.Allow before evidence about an operation is taken, with its key as VerbInfo.Question.
const VerbEvidence pawl.Verb = "evidence"

// Found is what a source knows about an operation.
type Found struct {
	Applied bool   // it happened; false: it did not, and will not
	Receipt any    // when it happened: the effect's result as JSON, or raw JSON; nil where the source does not tell
	Note    string // what the source says, for people; stored in the clear
}

// sources that are not to be claimed by others.
var ownSources = [...]string{"look-up", "person", "vote", "late"}

// Evidence takes what a source, such as "webhook" or "statement", knows about an operation. It is kept in any case. It
// settles a doubt: applied with its receipt, also of an operation that only waits for a person; absent, where that is not
// too early, of one in doubt. What contradicts what is known already quarantines the operation, and the trail has an
// alarm. The caller vouches for the source; a service may be the actor.
func (d *Desk) Evidence(ctx context.Context, key string, f Found, source string) (*Operation, error) {
	if err := d.eng.Allowed(ctx, pawl.VerbInfo{Verb: VerbEvidence, Question: key}); err != nil {
		return nil, err
	}
	if source == "" || slices.Contains(ownSources[:], source) {
		return nil, fmt.Errorf("effect: evidence needs a source that is not one of the ledger's own, such as %q, and not %q; nothing was changed", "webhook", source)
	}
	if len(source) > 64 || len(f.Note) > approval.MaxReason {
		return nil, fmt.Errorf("effect: the source has %d bytes and what it says %d; at most 64 and %d are kept; nothing was changed", len(source), len(f.Note), approval.MaxReason)
	}
	doc, err := receiptDoc(f)
	if err != nil {
		return nil, err
	}
	was, err := d.at(ctx, key)
	if err != nil {
		return nil, err
	}
	var outcome []byte
	if doc != nil {
		if outcome, err = d.sealed(was, doc); err != nil {
			return nil, err
		}
	}
	var out *Operation
	err = d.db.Update(ctx, func(_ context.Context, tx storage.Tx) error {
		op, err := operationOf(tx, d.eng.TenantName(), was.Key)
		if err != nil || op == nil {
			return errors.Join(err, &pawl.NotFoundError{What: "operation", ID: key})
		}
		e := &Evidence{Operation: op.Key, Kind: source, Found: "absent", By: pawl.ActorFrom(ctx).ID, Reason: f.Note}
		if f.Applied {
			e.Found = "applied"
		}
		if doc != nil {
			e.Receipt = receiptOf(doc)
		}
		out = op
		return d.taken(ctx, tx, op, e, outcome)
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// receiptDoc is the receipt that a source tells; nil: none.
func receiptDoc(f Found) ([]byte, error) {
	if !f.Applied || f.Receipt == nil {
		return nil, nil
	}
	doc, err := json.Marshal(f.Receipt)
	if err != nil {
		return nil, fmt.Errorf("effect: the receipt is no JSON: %w; nothing was changed", err)
	}
	return doc, core.CheckSize("the receipt", doc)
}

// at reads an operation by its key, or a prefix.
func (d *Desk) at(ctx context.Context, key string) (out *Operation, err error) {
	err = d.db.View(ctx, func(_ context.Context, tx storage.Tx) error {
		op, err := d.find(tx, key)
		out = op
		return err
	})
	return out, err
}

// taken is the Update of Evidence.
func (d *Desk) taken(ctx context.Context, tx storage.Tx, op *Operation, e *Evidence, outcome []byte) error {
	now, at, actor := tx.Now().UTC(), op.place(), pawl.ActorFrom(ctx)
	if err := d.leftBehind(tx, op, actor); err != nil {
		return err
	}
	settles := op.State.Unknown() && !op.Clash && (e.Found == "applied" && outcome != nil || e.Found == "absent" && op.State == StateInDoubt && !now.Before(op.Settles))
	if !settles {
		why := e.Kind + ": " + e.Found
		if err := errors.Join(e.put(tx, op.Tenant), op.note(tx, at, actor, "evidence", op.State, why)); err != nil {
			return err
		}
		return d.led.weigh(tx, op, at, e)
	}
	if err := d.led.settled(tx, op, at, actor, e, outcome, now); err != nil {
		return err
	}
	return d.over(tx, op, e)
}

// over lets all who wait for an operation know that it is settled.
func (d *Desk) over(tx storage.Tx, op *Operation, e *Evidence) error {
	if op.State != StateReserved {
		why := "unused: operation " + op.Key + " is " + string(op.State)
		if _, err := approval.EndOthers(tx, d.eng.AnswerTx, op.Tenant, op.Key, op.Grant, why); err != nil {
			return err
		}
	}
	return d.answer(tx, op, e)
}

// leftBehind is T7 for an attempt that a dead process left.
func (d *Desk) leftBehind(tx storage.Tx, op *Operation, actor pawl.Actor) error {
	if op.State != StateDispatched {
		return nil
	}
	alive, err := d.running(tx, op)
	if err != nil || alive {
		return err
	}
	a, err := attemptOf(tx, op.Tenant, op.Key, op.Attempts)
	if err != nil {
		return err
	}
	now := tx.Now().UTC()
	if err := op.to(StateInDoubt, now, gone, grounds{attempt: op.Attempts, alive: alive}); err != nil {
		return err
	}
	if a != nil {
		a.Ended = now
		op.Settles = d.led.settles(op.lag, a)
		a.Outcome = "unknown"
		err = a.put(tx, op.Tenant)
	}
	return errors.Join(err, op.put(tx), op.note(tx, op.place(), actor, string(StateInDoubt), StateDispatched, gone))
}

// Reconcile asks the target of an operation in doubt what became of it, without entering any node: the effect is one that
// the operation's graph uses here, or one of [Options.Effects], and has a look-up. Found, it is committed; certainly absent,
// it may be sent by the thread that goes on; while it is too early for that, or the look-up cannot tell, it is an
// [*InDoubtError]. What the look-up contradicts is quarantined. The end of ctx does not cut the look-up. The reason, which
// may be empty, is kept with what is found.
func (d *Desk) Reconcile(ctx context.Context, key, reason string) (*Operation, error) {
	if err := d.eng.Allowed(ctx, pawl.VerbInfo{Verb: VerbReconcile, Question: key}); err != nil {
		return nil, err
	}
	op, err := d.at(ctx, key)
	if err != nil {
		return nil, err
	}
	if len(reason) > approval.MaxReason {
		return nil, fmt.Errorf("effect: the reason has %d bytes; at most %d are kept; nothing was changed", len(reason), approval.MaxReason)
	}
	of := d.declared(op)
	if of == nil || of.find == nil {
		return nil, fmt.Errorf("effect %q %s: operation %.12s cannot be looked up here: this program has no such effect with a Lookup, neither in "+
			"graph %q nor among effect.Options.Effects; nothing was changed", op.Effect, op.Ref, op.Key, op.Graph)
	}
	if op, err = d.doubtful(ctx, op.Key); err != nil {
		return nil, err
	}
	f := d.led.lookUp(ctx, of, op)
	doubt := &InDoubtError{Effect: op.Effect, Ref: op.Ref, Operation: op.Key, Attempt: op.Attempts, Since: op.Last, Due: op.Settles}
	switch {
	case f.lost != nil:
		return nil, f.lost
	case f.err != nil:
		doubt.Err = fmt.Errorf("the look-up gave no answer: %w", f.err)
		return nil, doubt
	}
	var out *Operation
	early := false
	err = d.db.Update(ctx, func(_ context.Context, tx storage.Tx) error {
		now, err := operationOf(tx, op.Tenant, op.Key)
		switch {
		case err != nil:
			return err
		case now == nil || now.rev != op.rev:
			return errMoved
		}
		out = now
		early, err = d.reconcile(tx, now, f, reason, pawl.ActorFrom(ctx), tx.Now().UTC())
		return err
	})
	if err == nil && early {
		doubt.Err = errTooEarly
		err = doubt
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

var errTooEarly = errors.New("the look-up does not find it, which is too early to be trusted")

// doubtful reads an operation that is in doubt, also one that a dead process left.
func (d *Desk) doubtful(ctx context.Context, key string) (out *Operation, err error) {
	err = d.db.Update(ctx, func(_ context.Context, tx storage.Tx) error {
		op, err := operationOf(tx, d.eng.TenantName(), key)
		if err != nil || op == nil {
			return errors.Join(err, &pawl.NotFoundError{What: "operation", ID: key})
		}
		if err := d.leftBehind(tx, op, pawl.ActorFrom(ctx)); err != nil {
			return err
		}
		if op.State != StateInDoubt {
			return &SettledError{Operation: op.Key, State: op.State, Thread: op.Thread}
		}
		out = op
		return nil
	})
	return out, err
}

// reconcile is the Update of Reconcile.
func (d *Desk) reconcile(tx storage.Tx, op *Operation, f *finding, reason string, actor pawl.Actor, now time.Time) (early bool, err error) {
	if f.conflict != nil {
		why := "the look-up contradicts it: " + f.conflict.Error()
		err := op.to(StateQuarantined, now, op.Reason, grounds{hopeless: true})
		op.Clash = true
		return false, errors.Join(err, op.put(tx), op.note(tx, op.place(), actor, string(StateQuarantined), StateInDoubt, why))
	}
	if !f.applied && now.Before(op.Settles) {
		return true, nil
	}
	e := f.evidence(op, "look-up")
	e.By, e.Reason = actor.ID, reason
	if err := d.led.settled(tx, op, op.place(), actor, e, f.outcome, now); err != nil {
		return false, err
	}
	return false, d.over(tx, op, e)
}
