package effect

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/approval"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/schema"
	"github.com/pawl-dev/pawl/storage"
)

// VerbRelease is asked of Options.Allow before a person decides about an operation of unknown outcome, with its key as
// VerbInfo.Question.
const VerbRelease pawl.Verb = "release"

// Decision is what a person decides about an operation that nothing else settles.
type Decision struct {
	verdict Verdict
	receipt []byte
	err     error
}

// Applied says that the action happened, with its receipt: anything that is the effect's result as JSON, or raw JSON.
func Applied(receipt any) Decision {
	doc, err := json.Marshal(receipt)
	return Decision{verdict: VerdictApplied, receipt: doc, err: err}
}

// NotApplied says that the action did not happen and will not. The thread that goes on may send it again.
func NotApplied() Decision { return Decision{verdict: VerdictNotApplied} }

// SendOnce permits one more dispatch, whatever became of those before. The thread that goes on makes it, without another
// approval, and the permit is used up with it. Its outcome may be unknown again, and then it is decided again.
func SendOnce() Decision { return Decision{verdict: VerdictSendOnce} }

// Abandon gives the operation up: nobody will know whether it happened, and it is never sent again.
func Abandon() Decision { return Decision{verdict: VerdictAbandon} }

// SettledError: the operation does not wait for a person: it is settled, never was in doubt, or is still on its way.
// Nothing was changed.
type SettledError struct {
	Operation string
	State     State
	Thread    string
}

// Error says how it stands.
func (e *SettledError) Error() string {
	switch e.State {
	case StateDispatched:
		return fmt.Sprintf("effect: operation %.12s is on its way from thread %q, whose process lives; nothing was changed; wait for it", e.Operation, e.Thread)
	case StateReleased:
		return fmt.Sprintf("effect: operation %.12s is released already, to be sent once; nothing was changed; resume thread %q", e.Operation, e.Thread)
	}
	return fmt.Sprintf("effect: operation %.12s is %s and not in doubt; nothing was changed", e.Operation, e.State)
}

// SecondVoteError: the decision is recorded, and counts once a second person decides the same. The operation is as it was.
type SecondVoteError struct {
	Operation string
	Verdict   Verdict
	Votes     []Vote // so far
}

// Error says what is missing.
func (e *SecondVoteError) Error() string {
	return fmt.Sprintf("effect: operation %.12s needs two people: %q by %q is recorded, and nothing is released until another person decides "+
		"the same", e.Operation, e.Verdict, e.Votes[len(e.Votes)-1].By)
}

// Release decides, for good, about an operation of unknown outcome that is quarantined or in doubt, and lets the threads
// that wait for it go on: resume them. It answers every such wait in the same Update. The actor of ctx needs an id, must
// not be a service, and must be of the operation's Queue where it has one; the reason is kept as evidence. A receipt that
// does not fit the effect's type is refused. Where the effect asks for four eyes, the first decision is a
// [*SecondVoteError]. Of two people at once the first one counts, and the other gets a [*SettledError].
func (d *Desk) Release(ctx context.Context, key string, say Decision, reason string) (*Operation, error) {
	if err := d.eng.Allowed(ctx, pawl.VerbInfo{Verb: VerbRelease, Question: key}); err != nil {
		return nil, err
	}
	actor, err := decider(ctx, reason)
	if err != nil {
		return nil, err
	}
	switch {
	case say.verdict == "":
		return nil, errors.New("effect: decide something: effect.Applied, NotApplied, SendOnce or Abandon; nothing was changed")
	case say.err != nil:
		return nil, fmt.Errorf("effect: the receipt is no JSON: %w; nothing was changed", say.err)
	}
	if err := core.CheckSize("the receipt", say.receipt); err != nil {
		return nil, err
	}
	shown, err := d.Show(ctx, key)
	if err != nil {
		return nil, err
	}
	was := shown.Operation
	r := &release{say: say, actor: actor, reason: reason}
	if say.verdict == VerdictApplied {
		if r.outcome, err = d.sealed(&was, say.receipt); err != nil {
			return nil, err
		}
	}
	var out *Operation
	var pending error
	err = d.db.Update(ctx, func(_ context.Context, tx storage.Tx) error {
		op, later, err := d.release(tx, was.Key, r)
		out, pending = op, later
		return err
	})
	if unknown := (*storage.UnknownError)(nil); errors.As(err, &unknown) {
		return d.confirm(ctx, was.Key, r, err)
	}
	if err = errors.Join(err, pending); err != nil {
		return nil, err
	}
	return out, nil
}

// decider is the person who decides, with a reason.
func decider(ctx context.Context, reason string) (pawl.Actor, error) {
	actor := pawl.ActorFrom(ctx)
	switch {
	case actor.ID == "" || actor.Kind == "service":
		return actor, fmt.Errorf("effect: %w: this is decided by a person, and the actor is %q (%s); nothing was changed; see pawl.WithActor",
			pawl.ErrDenied, actor.ID, actor.Kind)
	case strings.TrimSpace(reason) == "" || len(reason) > approval.MaxReason:
		return actor, fmt.Errorf("effect: say in at most %d bytes how you know, or why; nothing was changed", approval.MaxReason)
	}
	return actor, nil
}

// sealed checks a receipt that comes from outside, and seals it.
func (d *Desk) sealed(op *Operation, receipt []byte) ([]byte, error) {
	if faults := schema.Validate(op.schema, receipt); len(faults) > 0 {
		return nil, fmt.Errorf("effect: this is no receipt of %q: %s; nothing was changed", op.Effect, faults[0])
	}
	return d.led.ring.seal(op.Tenant, op.Effect, op.Ref, op.Authorised, outcomeOf, receipt), nil
}

// release is one person's decision on its way into the row.
type release struct {
	say     Decision
	actor   pawl.Actor
	reason  string
	outcome []byte // sealed
}

func (r *release) receipt() string {
	if r.say.verdict != VerdictApplied {
		return ""
	}
	return receiptOf(r.say.receipt)
}

// release is T12 and what it leads to; pending when a second person is needed.
func (d *Desk) release(tx storage.Tx, key string, r *release) (op *Operation, pending, err error) {
	op, err = operationOf(tx, d.eng.TenantName(), key)
	if err != nil || op == nil {
		return nil, nil, errors.Join(err, &pawl.NotFoundError{What: "operation", ID: key})
	}
	if !inQueue(r.actor, op.Queue) {
		return nil, nil, fmt.Errorf("effect: %w: operation %.12s is decided by %q, and %q is not of them; nothing was changed", pawl.ErrDenied, op.Key, op.Queue, r.actor.ID)
	}
	now := tx.Now().UTC()
	if err := d.takeOver(tx, op, r.actor); err != nil {
		return nil, nil, err
	}
	if op.State != StateQuarantined {
		return nil, nil, &SettledError{Operation: op.Key, State: op.State, Thread: op.Thread}
	}
	agreed := !op.FourEyes || slices.ContainsFunc(op.Votes, func(v Vote) bool {
		return v.By != r.actor.ID && v.Verdict == r.say.verdict && v.Receipt == r.receipt()
	})
	if !agreed {
		pending, err = d.vote(tx, op, r)
		return op, pending, err
	}
	at := op.place()
	if err := op.to(StateReleased, now, string(r.say.verdict), grounds{person: true, agreed: agreed}); err != nil {
		return nil, nil, err
	}
	op.Released, op.Permit = r.say.verdict, ""
	if err := op.note(tx, at, r.actor, "released", StateQuarantined, string(r.say.verdict)+" ("+r.reason+")"); err != nil {
		return nil, nil, err
	}
	return op, nil, d.decided(tx, op, r)
}

// decided is T13, as far as it is not a dispatch.
func (d *Desk) decided(tx storage.Tx, op *Operation, r *release) error {
	now, at := tx.Now().UTC(), op.place()
	e := &Evidence{Operation: op.Key, Kind: "person", Found: string(r.say.verdict), By: r.actor.ID, Reason: r.reason, Receipt: r.receipt()}
	to, why := StateReserved, "person: it did not happen"
	switch r.say.verdict {
	case VerdictApplied:
		to, why = StateCommitted, "person: it happened"
	case VerdictNotApplied:
		e.Found = "absent"
	case VerdictAbandon:
		to, why = StateVoided, "person: abandoned; it may have happened"
	case VerdictSendOnce:
		if err := e.put(tx, op.Tenant); err != nil {
			return err
		}
		op.Permit = fmt.Sprintf("evidence %d by %s", e.N, e.By)
		return errors.Join(op.put(tx), d.answer(tx, op, e))
	}
	if err := op.to(to, now, why, grounds{}); err != nil {
		return err
	}
	if err := d.led.concluded(tx, op, at, r.actor, e, r.outcome, StateReleased, why); err != nil {
		return err
	}
	return d.over(tx, op, e)
}

// takeOver brings an operation of unknown outcome into the hands of a person, also one that a dead process left.
func (d *Desk) takeOver(tx storage.Tx, op *Operation, actor pawl.Actor) error {
	if err := d.leftBehind(tx, op, actor); err != nil || op.State != StateInDoubt {
		return err
	}
	err := op.to(StateQuarantined, tx.Now().UTC(), op.Reason, grounds{hopeless: true})
	return errors.Join(err, op.note(tx, op.place(), actor, string(StateQuarantined), StateInDoubt, "a person takes it over"))
}

// vote records the first of two decisions. Of one person the last one counts.
func (d *Desk) vote(tx storage.Tx, op *Operation, r *release) (pending, err error) {
	v := Vote{By: r.actor.ID, Verdict: r.say.verdict, Receipt: r.receipt(), At: tx.Now().UTC()}
	op.Votes = append(slices.DeleteFunc(op.Votes, func(old Vote) bool { return old.By == v.By }), v)
	e := &Evidence{Operation: op.Key, Kind: "vote", Found: string(v.Verdict), By: v.By, Reason: r.reason, Receipt: v.Receipt}
	pending = &SecondVoteError{Operation: op.Key, Verdict: v.Verdict, Votes: op.Votes}
	why := "one of two: " + string(v.Verdict) + " (" + r.reason + ")"
	return pending, errors.Join(e.put(tx, op.Tenant), op.put(tx), op.note(tx, op.place(), r.actor, "release.voted", op.State, why))
}

func inQueue(a pawl.Actor, queue string) bool {
	return queue == "" || a.ID == queue || slices.Contains(a.Groups, queue)
}

// place is where an operation was sent from last.
func (o *Operation) place() pawl.TaskInfo {
	return pawl.TaskInfo{Tenant: o.Tenant, Thread: o.Thread, Lineage: o.Lineage, Run: o.Run, Attempt: o.RunAttempt}
}

// answer answers the waits of all threads for what became of the operation. One that is not open any more is left.
func (d *Desk) answer(tx storage.Tx, op *Operation, e *Evidence) error {
	rows, err := tx.List(uses, storage.Query{Index: "by_op", Range: storage.Range{Prefix: []any{op.Tenant, op.Key}}})
	if err != nil {
		return err
	}
	for _, row := range rows {
		if len(row.Body) == 0 {
			continue
		}
		value := json.RawMessage(fmt.Sprintf(`{"found":%q,"operation":%q}`, e.Found, op.Key))
		_, err := d.eng.AnswerTx(tx, string(row.Body), pawl.Answer{Value: value, By: e.By, Reason: e.Reason})
		refused := (*pawl.AnswerError)(nil)
		if err != nil && !errors.As(err, &refused) && !errors.Is(err, pawl.ErrNotFound) {
			return err
		}
	}
	return nil
}

// confirm reads back a release of unknown outcome: this one, by what only it wrote.
func (d *Desk) confirm(ctx context.Context, key string, r *release, unknown error) (out *Operation, err error) {
	err = d.db.View(context.WithoutCancel(ctx), func(_ context.Context, tx storage.Tx) error {
		op, err := operationOf(tx, d.eng.TenantName(), key)
		if err != nil {
			return err
		}
		if op == nil || op.Released != r.say.verdict || op.State.Unknown() || !bytes.Equal(op.outcome, r.outcome) {
			return unknown
		}
		out = op
		return nil
	})
	return out, err
}
