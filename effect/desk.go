package effect

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/approval"
	"github.com/pawl-dev/pawl/storage"
)

// Desk is where operators look at operations and decide what nothing else can settle. Looking is pawl.VerbRead. It sees the tenant of its engine, runs
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

// Unknown returns the operations whose outcome nobody knows: those in doubt or quarantined, and those whose process died
// while they were on their way.
func (d *Desk) Unknown(ctx context.Context) ([]Operation, error) {
	out, err := d.List(ctx, Filter{State: StateQuarantined})
	if err != nil {
		return nil, err
	}
	doubts, err := d.List(ctx, Filter{State: StateInDoubt})
	if err != nil {
		return nil, err
	}
	out = append(out, doubts...)
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
	if d.led.redactor != nil && out.Operation.State != StateTombstone {
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
	if len(key) > 64 {
		missing.ID = strings.ToValidUTF8(key[:64], "") + "..."
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
