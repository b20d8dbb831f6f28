package effect

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/google/uuid"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/approval"
	"github.com/pawl-dev/pawl/storage"
)

// Redactor says what of a call people may see; *redact.Redactor is one.
type Redactor interface {
	// JSON returns the view of a document and the paths of what it hides.
	JSON(doc []byte) (view []byte, hidden []string)
	// Hides says whether a view of doc would hide something at or below a path such as $.amount.
	Hides(doc []byte, path string) bool
	// Revision says which policy made a view.
	Revision() string
}

// Options of a ledger. Key is needed, and Redactor for effects that are approved.
type Options struct {
	Key      []byte        // of KeySize bytes: what parameters and receipts are encrypted under; see KeyFile
	OldKeys  [][]byte      // under which older rows can still be read
	Redactor Redactor      // makes what approvers see; without one, effects that need approval are refused
	Open     approval.Caps // how many open requests an agent may have; the zero Caps are no bound
	Policy   string        // revision of the rules in force; part of new keys and of what a grant covers

	// Presumed says that the home presumes the death of a process that is not heard from, as leases with a heartbeat do,
	// and has no proof, as a lock of the operating system is. What such a process sent is then waited for until its
	// deadline before a look-up's "absent" is trusted.
	Presumed bool
	// Retention says how long operations are kept; the zero one keeps them for ever. Where something could reach an
	// operation for longer than it is kept, NewLedger returns a [*RetentionError] with both figures.
	Retention Retention
	// Effects are those that desks know beside what the engine's graphs use: see [Desk.Reconcile] and [Desk.Edit].
	Effects []Declared
}

// Ledger is the part of an engine that keeps operations: put it into pawl.Options.Parts. One process makes one for each
// engine. It is safe for concurrent use.
//
// In the life of a thread: retry, delete, migrate and prune are refused while an operation of the thread is dispatched or
// in doubt; fork, replay, edit, retry, migrate, force, cancel and delete end the thread's open requests and unspent grants,
// and give up what was only reserved. Fork and replay note how many effects are done (their receipts are reused) and how many need a new approval.
type Ledger struct {
	id        string
	ring      *ring
	redactor  Redactor
	policy    string
	open      approval.Caps
	presumed  bool
	retention Retention
	effects   map[string]*declaration

	mu    sync.Mutex
	taken map[string]*turn
}

// turn lets one Do at a time of this process work on a reference.
type turn struct {
	free    chan struct{} // holds one token while nobody has it
	holders int
}

var (
	_ pawl.TaskPart = (*Ledger)(nil)
	_ pawl.VerbPart = (*Ledger)(nil)
)

// NewLedger makes a ledger.
func NewLedger(o Options) (*Ledger, error) {
	r, err := newRing(o.Key, o.OldKeys)
	if err != nil {
		return nil, err
	}
	l := &Ledger{
		id: uuid.NewString(), ring: r, redactor: o.Redactor, policy: o.Policy, open: o.Open, presumed: o.Presumed, retention: o.Retention, effects: map[string]*declaration{},
		taken: map[string]*turn{},
	}
	for _, e := range o.Effects {
		d, err := e.declared()
		if err != nil {
			return nil, err
		}
		if l.effects[d.name] != nil {
			return nil, fmt.Errorf("effect: two effects are called %q; nothing was opened", d.name)
		}
		l.effects[d.name] = d
	}
	if err := o.Retention.check(l.effects); err != nil {
		return nil, err
	}
	return l, nil
}

// Declared is an effect, of whatever types.
type Declared interface {
	pawl.Usable
	declared() (*declaration, error)
}

func (e Effect[In, Out]) declared() (*declaration, error) { return e.d, e.Fault() }

// Name is "effect".
func (l *Ledger) Name() string { return "effect" }

// Digest is of the policy in force.
func (l *Ledger) Digest() string { return digest("pawl.effect.1", fmt.Sprint(printVersion), l.policy) }

type ledgerKey struct{}

// Task puts the ledger into a node's context.
func (l *Ledger) Task(ctx context.Context, _ pawl.TaskInfo) (context.Context, func(error)) {
	return context.WithValue(ctx, ledgerKey{}, l), nil
}

func ledgerFrom(ctx context.Context) *Ledger {
	l, _ := ctx.Value(ledgerKey{}).(*Ledger)
	return l
}

// hold waits until no other Do of this process works on the reference.
func (l *Ledger) hold(ctx context.Context, intent string) (release func(), err error) {
	l.mu.Lock()
	t := l.taken[intent]
	if t == nil {
		t = &turn{free: make(chan struct{}, 1)}
		t.free <- struct{}{}
		l.taken[intent] = t
	}
	t.holders++
	l.mu.Unlock()
	leave := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if t.holders--; t.holders == 0 {
			delete(l.taken, intent)
		}
	}
	select {
	case <-t.free:
		return func() { t.free <- struct{}{}; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, context.Cause(ctx)
	}
}

// Verb refuses and notes what a verb means for the thread's operations.
func (l *Ledger) Verb(_ context.Context, tx storage.Tx, v pawl.VerbInfo) ([]pawl.Note, error) {
	switch v.Verb {
	case pawl.VerbRetry, pawl.VerbDelete, pawl.VerbFork, pawl.VerbReplay, pawl.VerbEdit, pawl.VerbCancel, pawl.VerbMigrate,
		pawl.VerbForce, pawl.VerbPrune, pawl.VerbRead:
	default:
		return nil, nil
	}
	ops, err := ofThread(tx, v.Tenant, v.Thread)
	if err != nil || v.Verb == pawl.VerbRead {
		return l.standing(ops), err
	}
	if err := unsettled(ops, v); err != nil || v.Verb == pawl.VerbPrune {
		return nil, err
	}
	why := "the thread was left by " + string(v.Verb)
	requests, grants, err := approval.EndThread(tx, v, why)
	if err != nil {
		return nil, err
	}
	done, buried, notes := 0, 0, []pawl.Note(nil)
	for _, op := range ops {
		if op.State.happened() {
			done++
		} else if op.State == StateTombstone {
			buried++
		}
		if err := l.giveUp(tx, op, v, why); err != nil {
			return nil, err
		}
		if v.Verb == pawl.VerbForce && op.Thread == v.Thread {
			taken, err := l.quarantine(tx, op, v)
			if err != nil {
				return nil, err
			}
			notes = append(notes, taken...)
		}
	}
	switch v.Verb {
	case pawl.VerbFork, pawl.VerbReplay:
		notes := []pawl.Note{
			{Part: l.Name(), Text: fmt.Sprintf("effects already done %d (receipt reused)", done)},
			{Part: l.Name(), Text: fmt.Sprintf("effects that would need a new approval %d", requests+grants)},
		}
		if buried > 0 {
			notes = append(notes, pawl.Note{Part: l.Name(), Text: fmt.Sprintf("effects past their retention %d: what leads to one can only be looked at", buried)})
		}
		return notes, nil
	case pawl.VerbDelete:
		_, err = tx.Delete(uses, storage.Range{Prefix: []any{v.Tenant, v.Thread}})
	}
	return notes, err
}

// unsettled refuses retry, delete, migrate and prune while an operation that the thread dispatched may have happened.
func unsettled(ops []*Operation, v pawl.VerbInfo) error {
	switch v.Verb {
	case pawl.VerbRetry, pawl.VerbDelete, pawl.VerbMigrate, pawl.VerbPrune:
	default:
		return nil
	}
	e := &UnsettledError{Verb: v.Verb, Thread: v.Thread}
	for _, op := range ops {
		if op.State.open() && op.Thread == v.Thread {
			e.Operations = append(e.Operations, fmt.Sprintf("%s %s (%s)", op.Effect, op.Ref, op.State))
		}
	}
	if len(e.Operations) > 0 {
		return e
	}
	return nil
}

// quarantine takes an operation of unknown outcome out of the hands of a run that goes on under another meaning of its
// graph: only a person settles it.
func (l *Ledger) quarantine(tx storage.Tx, op *Operation, v pawl.VerbInfo) ([]pawl.Note, error) {
	was := op.State
	if err := (&Desk{led: l}).takeOver(tx, op, v.Actor); err != nil || op.State == was {
		return nil, err
	}
	return []pawl.Note{{Part: l.Name(), Text: fmt.Sprintf("Operation %.12s (%s %s) was %s and is %s: a person says what became of it", op.Key, op.Effect, op.Ref, was, op.State)}}, op.put(tx)
}

// giveUp voids what was only reserved, and by no other thread or task, so that the reference is free for another call.
func (l *Ledger) giveUp(tx storage.Tx, op *Operation, v pawl.VerbInfo, why string) error {
	if op.State != StateReserved {
		return nil
	}
	rows, err := tx.List(uses, storage.Query{Index: "by_op", Range: storage.Range{Prefix: []any{op.Tenant, op.Key}}, NoBody: true})
	if err != nil {
		return err
	}
	for _, row := range rows {
		if row.Key[1].(string) != v.Thread || !v.Covers(row.Key[3].(string)) {
			return nil
		}
	}
	if err := op.to(StateVoided, tx.Now().UTC(), why, grounds{}); err != nil {
		return err
	}
	return errors.Join(op.put(tx), op.note(tx, pawl.TaskInfo{Thread: v.Thread, Lineage: op.Lineage}, v.Actor, "voided", StateReserved, why))
}

// ofThread reads the operations that a thread had to do with.
func ofThread(tx storage.Tx, tenant, thread string) ([]*Operation, error) {
	rows, err := tx.List(uses, storage.Query{Range: storage.Range{Prefix: []any{tenant, thread}}, NoBody: true})
	if err != nil {
		return nil, err
	}
	var out []*Operation
	for _, row := range rows {
		key := row.Key[2].(string)
		if n := len(out); n > 0 && out[n-1].Key == key {
			continue
		}
		op, err := operationOf(tx, tenant, key)
		if err != nil {
			return nil, err
		}
		if op != nil {
			out = append(out, op)
		}
	}
	return out, nil
}
