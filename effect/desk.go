package effect

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/approval"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/schema"
	"github.com/pawl-dev/pawl/storage"
)

// VerbSettle is asked of Options.Allow before a person settles a doubt, with the operation's key as VerbInfo.Question.
// Looking is pawl.VerbRead.
const VerbSettle pawl.Verb = "settle"

// Desk is where operators look at operations and settle what nobody else can. It sees the tenant of its engine, runs
// nothing and sends nothing. It is safe for concurrent use; of two people who settle one operation the first one counts.
type Desk struct {
	led *Ledger
	eng *pawl.Engine
	db  storage.DB
}

// Desk makes a desk for the tenant of eng over the engine's database.
func (l *Ledger) Desk(eng *pawl.Engine, db storage.DB) *Desk { return &Desk{l, eng, db} }

// Filter chooses operations. The zero Filter takes all.
type Filter struct {
	State  State
	Effect string
	Limit  int // at most so many; 0: all
}

// List returns operations, those that changed last first; without a state in the order of effect, reference, revision.
func (d *Desk) List(ctx context.Context, f Filter) ([]Operation, error) {
	if err := d.eng.Allowed(ctx, pawl.VerbInfo{Verb: pawl.VerbRead}); err != nil {
		return nil, err
	}
	q := storage.Query{Range: storage.Range{Prefix: []any{d.eng.TenantName()}}}
	if f.State != "" {
		q.Index, q.Desc = "by_state", true
		q.Range.Prefix = append(q.Range.Prefix, string(f.State))
	} else if f.Effect != "" {
		q.Range.Prefix = append(q.Range.Prefix, f.Effect)
	}
	if f.Limit > 0 && (f.Effect == "" || f.State == "") {
		q.Limit = f.Limit
	}
	var out []Operation
	err := d.db.View(ctx, func(_ context.Context, tx storage.Tx) error {
		rows, err := tx.List(operations, q)
		if err != nil {
			return err
		}
		var got []Operation
		for _, row := range rows {
			op, err := readOperation(row)
			if err != nil {
				return err
			}
			if (f.Effect == "" || op.Effect == f.Effect) && (f.Limit <= 0 || len(got) < f.Limit) {
				got = append(got, *op)
			}
		}
		out = got
		return nil
	})
	return out, err
}

// Unknown returns the operations whose outcome nobody knows: those in doubt, and those whose process died while they
// were on their way.
func (d *Desk) Unknown(ctx context.Context) ([]Operation, error) {
	out, err := d.List(ctx, Filter{State: StateInDoubt})
	if err != nil {
		return nil, err
	}
	sent, err := d.List(ctx, Filter{State: StateDispatched})
	if err != nil {
		return nil, err
	}
	err = d.db.View(ctx, func(_ context.Context, tx storage.Tx) error {
		var dead []Operation
		for _, op := range sent {
			if alive, err := d.running(tx, &op); err != nil {
				return err
			} else if !alive {
				dead = append(dead, op)
			}
		}
		sent = dead
		return nil
	})
	return append(out, sent...), err
}

// running says whether a process that lives may be at a dispatched operation. This process may be, too: a desk is no Do,
// so it does not conclude from the owner's name that the attempt is over.
func (d *Desk) running(tx storage.Tx, op *Operation) (bool, error) {
	a, err := attemptOf(tx, op.Tenant, op.Key, op.Attempts)
	if err != nil || a == nil {
		return false, err
	}
	lease, ok, err := tx.Lease(a.Number, storage.Look, "")
	return ok && lease.Alive && lease.Epoch == a.Epoch, err
}

// Shown is everything about one operation that may be shown.
type Shown struct {
	Operation Operation
	Params    json.RawMessage // as the ledger's Redactor lets them be seen; empty without one
	Attempts  []Attempt
	Evidence  []Evidence
	Request   *approval.Request // the newest; nil: none
}

// Show tells everything about an operation. key may be a prefix of at least eight digits that only one has. An unknown
// one, also one of another tenant, matches pawl.ErrNotFound.
func (d *Desk) Show(ctx context.Context, key string) (*Shown, error) {
	if err := d.eng.Allowed(ctx, pawl.VerbInfo{Verb: pawl.VerbRead, Question: key}); err != nil {
		return nil, err
	}
	var out *Shown
	err := d.db.View(ctx, func(_ context.Context, tx storage.Tx) error {
		op, err := d.find(tx, key)
		if err != nil {
			return err
		}
		s := &Shown{Operation: *op}
		if s.Attempts, s.Evidence, err = facts(tx, op); err != nil {
			return err
		}
		s.Request, _, err = approval.Of(tx, op.Tenant, op.Key)
		out = s
		return err
	})
	if err != nil {
		return nil, err
	}
	if d.led.redactor != nil {
		params, err := d.led.ring.open(&out.Operation, paramsOf)
		if err != nil {
			return nil, err
		}
		out.Params, _ = d.led.redactor.JSON(params)
	}
	return out, nil
}

func (d *Desk) find(tx storage.Tx, key string) (*Operation, error) {
	missing := &pawl.NotFoundError{What: "operation", ID: key, Hint: "name it by its key, or by eight digits of it or more"}
	if len(key) < 8 {
		return nil, missing
	}
	rows, err := tx.List(operations, storage.Query{
		Index: "by_op", Range: storage.Range{Prefix: []any{d.eng.TenantName()}, From: key, To: key + "~"}, Limit: 2,
	})
	if err != nil {
		return nil, err
	}
	if len(rows) != 1 || !strings.HasPrefix(rows[0].Fields[0].(string), key) {
		return nil, missing
	}
	return readOperation(rows[0])
}

func facts(tx storage.Tx, op *Operation) (as []Attempt, es []Evidence, err error) {
	all := storage.Query{Range: storage.Range{Prefix: []any{op.Tenant, op.Key}}}
	rows, err := tx.List(attempts, all)
	if err != nil {
		return nil, nil, err
	}
	for _, row := range rows {
		a, err := readAttempt(row)
		if err != nil {
			return nil, nil, err
		}
		as = append(as, *a)
	}
	if rows, err = tx.List(evidence, all); err != nil {
		return nil, nil, err
	}
	for _, row := range rows {
		e := Evidence{}
		if err := unpack(evidence, op.Key, row.Body, &e); err != nil {
			return nil, nil, err
		}
		e.Operation, e.N = op.Key, row.Key[2].(int64)
		es = append(es, e)
	}
	return as, es, nil
}

// Settlement is what a person found out by other means.
type Settlement struct {
	applied bool
	receipt []byte
	err     error
}

// Applied says that the action happened, with its receipt: anything that is the effect's result as JSON, or raw JSON.
func Applied(receipt any) Settlement {
	doc, err := json.Marshal(receipt)
	return Settlement{applied: true, receipt: doc, err: err}
}

// NotApplied says that the action did not happen and will not. The thread that goes on may send it again.
func NotApplied() Settlement { return Settlement{} }

// SettledError: the operation does not wait for a person: it is settled, never was in doubt, or is still on its way.
// Nothing was changed.
type SettledError struct {
	Operation string
	State     State
	Thread    string
}

// Error says how it stands.
func (e *SettledError) Error() string {
	if e.State == StateDispatched {
		return fmt.Sprintf("effect: operation %.12s is on its way from thread %q, whose process lives; nothing was changed; wait for it", e.Operation, e.Thread)
	}
	return fmt.Sprintf("effect: operation %.12s is %s and not in doubt; nothing was changed", e.Operation, e.State)
}

// Settle records what a person found out about an operation in doubt, with their reason, and lets the threads that wait
// for it go on: resume them. It answers every such wait in the same Update. The actor of ctx needs an id and must not be
// a service. A receipt that does not fit the effect's type is refused.
func (d *Desk) Settle(ctx context.Context, key string, s Settlement, reason string) (*Operation, error) {
	if err := d.eng.Allowed(ctx, pawl.VerbInfo{Verb: VerbSettle, Question: key}); err != nil {
		return nil, err
	}
	actor := pawl.ActorFrom(ctx)
	switch {
	case s.err != nil:
		return nil, fmt.Errorf("effect: the receipt is no JSON: %w; nothing was changed", s.err)
	case actor.ID == "" || actor.Kind == "service":
		return nil, fmt.Errorf("effect: %w: a doubt is settled by a person, and the actor is %q (%s); nothing was changed; see pawl.WithActor",
			pawl.ErrDenied, actor.ID, actor.Kind)
	case strings.TrimSpace(reason) == "" || len(reason) > approval.MaxReason:
		return nil, fmt.Errorf("effect: say in at most %d bytes how you know what happened; nothing was changed", approval.MaxReason)
	}
	if err := core.CheckSize("the receipt", s.receipt); err != nil {
		return nil, err
	}
	shown, err := d.Show(ctx, key)
	if err != nil {
		return nil, err
	}
	was := shown.Operation
	if s.applied {
		if faults := schema.Validate(was.schema, s.receipt); len(faults) > 0 {
			return nil, fmt.Errorf("effect: this is no receipt of %q: %s; nothing was changed", was.Effect, faults[0])
		}
	}
	var outcome []byte
	if s.applied {
		outcome = d.led.ring.seal(was.Tenant, was.Effect, was.Ref, was.Authorised, outcomeOf, s.receipt)
	}
	var out *Operation
	err = d.db.Update(ctx, func(_ context.Context, tx storage.Tx) error {
		op, err := d.settle(tx, was.Key, s, actor, reason, outcome)
		out = op
		return err
	})
	if unknown := (*storage.UnknownError)(nil); errors.As(err, &unknown) {
		return d.confirm(ctx, was.Key, outcome, s, err)
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (d *Desk) settle(tx storage.Tx, key string, s Settlement, actor pawl.Actor, reason string, outcome []byte) (*Operation, error) {
	op, err := operationOf(tx, d.eng.TenantName(), key)
	if err != nil || op == nil {
		return nil, errors.Join(err, &pawl.NotFoundError{What: "operation", ID: key})
	}
	at := pawl.TaskInfo{Thread: op.Thread, Lineage: op.Lineage, Run: op.Run, Attempt: op.RunAttempt}
	if op.State == StateDispatched {
		alive, err := d.running(tx, op)
		if err != nil {
			return nil, err
		}
		if !alive {
			err = op.to(StateInDoubt, tx.Now().UTC(), "the process that dispatched it is gone, and left no outcome")
			if err := errors.Join(err, op.note(tx, at, actor, string(StateInDoubt), StateDispatched, op.Reason)); err != nil {
				return nil, err
			}
		}
	}
	if op.State != StateInDoubt {
		return nil, &SettledError{Operation: op.Key, State: op.State, Thread: op.Thread}
	}
	e := &Evidence{Operation: op.Key, Kind: "person", Found: "absent", By: actor.ID, Reason: reason}
	if s.applied {
		e.Found, e.Receipt = "applied", receiptOf(s.receipt)
	}
	if err := d.led.settled(tx, op, at, actor, e, outcome); err != nil {
		return nil, err
	}
	if s.applied {
		why := "unused: duplicate of operation " + op.Key
		if _, err := approval.EndOthers(tx, d.eng.AnswerTx, op.Tenant, op.Key, op.Grant, why); err != nil {
			return nil, err
		}
	}
	return op, d.answer(tx, op, e)
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

// confirm reads back a settlement of unknown outcome: this one, by what only it sealed.
func (d *Desk) confirm(ctx context.Context, key string, outcome []byte, s Settlement, unknown error) (out *Operation, err error) {
	err = d.db.View(context.WithoutCancel(ctx), func(_ context.Context, tx storage.Tx) error {
		op, err := operationOf(tx, d.eng.TenantName(), key)
		if err != nil {
			return err
		}
		if op == nil || s.applied && !bytes.Equal(op.outcome, outcome) || !s.applied && op.State != StateReserved {
			return unknown
		}
		out = op
		return nil
	})
	return out, err
}
