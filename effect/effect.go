// Package effect sends outside actions at most once per intent: a payment, a mail, a change of somebody's record.
//
//	var transfer = effect.New("bank.transfer", bank.Transfer). // func(ctx, effect.Op, Transfer) (Receipt, error)
//		Lookup(bank.Find).
//		Approve(approval.Levels{{To: "finance", For: time.Hour}}).
//		Material("to", "amount", "currency")
//
//	receipt, err := transfer.Do(ctx, effect.Ref("invoice", "17"), Transfer{To: "acme", Amount: "100.00", Currency: "EUR"})
//
// The reference says which obligation of the business is meant. It is the identity: one tenant, effect and reference is
// one operation, with one key, from whichever thread, node, attempt, fork or process it is asked for. The parameters are
// compared with those of the operation; other ones are refused and never sent.
//
// # What is promised
//
// An operation's key is never dispatched twice without proof that the first time did not happen, a target that
// recognises the key, or a recorded decision of a person. Replay, fork, resume and retry get the stored receipt. What
// that comes to depends on what the target promises:
//
//   - Keys: a target that honours Op.Key is sent the same key again while it remembers keys, and answers with the first
//     outcome: one change at the target, the same receipt.
//   - Lookup: a target that can be asked is asked after a dispatch of unknown outcome, and sent to again only when it
//     says that nothing happened and nothing will. At most one change, as sure as its answer.
//   - Neither: at most one dispatch. When its outcome is unknown, the thread waits for a person, who looks it up by
//     other means and says what happened (see [Ledger.Desk]).
//
// # What the function must do
//
// An error of the function is taken to mean that nobody knows whether the action happened. [NotSent] and [Rejected] say
// more, and must be true. A panic is an unknown outcome too. The function is called on its own goroutine, under a
// context that neither the end of the run nor the node's timeout ends, and that ends after the effect's Timeout.
//
// Parameters travel as JSON, and the function is given what was stored, in each attempt the same. Parameters and receipts
// are stored encrypted under the ledger's key, references and digests in the clear. Of an error of the function, its words
// become part of the run's history; the ledger's Redactor hides in them what it hides in the parameters.
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
	"github.com/pawl-dev/pawl/internal/schema"
	"github.com/pawl-dev/pawl/storage"
)

// Effect is a declared outside action: what it is called, how it is done, what its target promises and who approves.
// It is an immutable value, safe for concurrent use; each method that says more returns a copy. Declare it to every node
// that uses it: pawl.Uses(transfer).
type Effect[In, Out any] struct{ d *declaration }

// declaration is an effect without its types.
type declaration struct {
	name     string
	call     func(ctx context.Context, op Op, params []byte) (receipt []byte, err error)
	find     func(ctx context.Context, op Op, params []byte) (receipt []byte, found bool, err error)
	inside   func(ctx context.Context, tx storage.Tx, op Op, params []byte) (receipt []byte, err error) // nil: the target is elsewhere
	keys     time.Duration                                                                              // how long the target remembers keys; 0: it does not
	timeout  time.Duration
	settle   time.Duration            // how long the target's look-up lags behind
	budget   int64                    // of dispatches under one key
	four     func(params []byte) bool // a release needs two people
	queue    string                   // who decides a quarantine
	levels   approval.Levels
	material []string        // empty: all
	input    json.RawMessage // schema of the parameters
	check    func(params []byte) error
	limits   []limit

	compensates string // the effect that it makes up for
	schema      json.RawMessage
	faults      []error
}

// DefaultTimeout is how long one dispatch may take where the effect does not say.
const DefaultTimeout = 30 * time.Second

// DefaultBudget is how often one key is sent, in all, where the effect does not say.
const DefaultBudget = 10

// Forever is the retention of a target that never forgets a key.
const Forever = time.Duration(1<<63 - 1)

// New declares an effect by a name that is unique in the program and never changes, because it is part of every key.
// Without Keys or Lookup its target is opaque.
func New[In, Out any](name string, fn func(context.Context, Op, In) (Out, error)) Effect[In, Out] {
	d := &declaration{name: name, timeout: DefaultTimeout, budget: DefaultBudget}
	if name == "" {
		d.fault("an effect needs a name")
	}
	if fn == nil {
		d.fault("it has no function")
	}
	doc, err := schema.For[Out]()
	if err != nil {
		doc = []byte("true")
	}
	d.schema, d.check = doc, valid[In]
	if d.input, err = schema.For[In](); err != nil {
		d.input = []byte("true")
	}
	d.call = func(ctx context.Context, op Op, params []byte) ([]byte, error) {
		in, err := decoded[In](params)
		if err != nil {
			return nil, NotSent(err)
		}
		out, err := fn(ctx, op, in)
		if err != nil {
			return nil, err
		}
		return json.Marshal(out)
	}
	return Effect[In, Out]{d}
}

func decoded[T any](doc []byte) (v T, err error) {
	err = json.Unmarshal(doc, &v)
	return v, err
}

// Lookup says that the target can be asked what became of an operation. fn returns the receipt and true when it
// happened. False means that it certainly did not, and will not either when a late request arrives: the operation may
// be sent again. While the target cannot tell, because its answers lag behind or it is away, fn returns an error and the
// operation stays in doubt. When it finds something else under the operation's key or reference, it returns [Conflict].
// Op.Sent says when the last attempt was made. See [Effect.Settle] for a target whose answers lag.
func (e Effect[In, Out]) Lookup(fn func(context.Context, Op, In) (Out, bool, error)) Effect[In, Out] {
	return e.with(func(d *declaration) {
		if fn == nil {
			d.fault("Lookup(nil): leave it out for a target that cannot be asked")
		}
		d.find = func(ctx context.Context, op Op, params []byte) ([]byte, bool, error) {
			in, err := decoded[In](params)
			if err != nil {
				return nil, false, err
			}
			out, found, err := fn(ctx, op, in)
			if err != nil || !found {
				return nil, false, err
			}
			doc, err := json.Marshal(out)
			return doc, err == nil, err
		}
	})
}

// Settle says how long after a change the target's look-up may still not show it. "Absent" is trusted only once that time
// is over since the last attempt came to its end: before it, the operation stays in doubt and Do returns an
// [*InDoubtError] that says until when. What a look-up finds is used at once. An attempt has ended when its function returned
// or its process is dead; where the death of processes is presumed and not proved ([Options.Presumed]), when its hard
// deadline, Timeout and a second, is over.
func (e Effect[In, Out]) Settle(delay time.Duration) Effect[In, Out] {
	return e.with(func(d *declaration) {
		if d.settle = delay; delay < 0 {
			d.fault("Settle(%v): a delay is not negative", delay)
		}
	})
}

// Budget is how often one operation is sent under its key, in all. When it is spent, a look-up or a person settles the
// doubt. The default is DefaultBudget.
func (e Effect[In, Out]) Budget(dispatches int) Effect[In, Out] {
	return e.with(func(d *declaration) {
		if d.budget = int64(dispatches); dispatches < 1 {
			d.fault("Budget(%d): one dispatch at least", dispatches)
		}
	})
}

// FourEyes says for which calls a release (see [Desk.Release]) needs two people who decide the same. fn is pure, and sees
// what is sent.
func (e Effect[In, Out]) FourEyes(fn func(In) bool) Effect[In, Out] {
	return e.with(func(d *declaration) {
		if fn == nil {
			d.fault("FourEyes(nil): leave it out where one person is enough")
			return
		}
		d.four = func(params []byte) bool {
			in, err := decoded[In](params)
			return err != nil || fn(in)
		}
	})
}

// Queue names the group, or the actor, that decides about operations of unknown outcome. Without it, whoever has the
// permission does.
func (e Effect[In, Out]) Queue(to string) Effect[In, Out] {
	return e.with(func(d *declaration) {
		if d.queue = to; to == "" {
			d.fault(`Queue(""): name a group, or leave it out`)
		}
	})
}

// Keys says that the target honours Op.Key: it reserves the key with the change, returns the first outcome for it again,
// and refuses it with other parameters. retention is how long it remembers, as it publishes it, or Forever. The same key
// is sent again within nine tenths of that time after the first dispatch, by the database's clock, and never later.
func (e Effect[In, Out]) Keys(retention time.Duration) Effect[In, Out] {
	return e.with(func(d *declaration) {
		if d.keys = retention; retention <= 0 {
			d.fault("Keys(%v): name how long the target remembers keys, or leave Keys out", retention)
		}
	})
}

// Approve says who must allow each operation before it is sent. What they allow is one exact call, once. A request that is
// open keeps the levels that it was asked with.
func (e Effect[In, Out]) Approve(levels approval.Levels) Effect[In, Out] {
	return e.with(func(d *declaration) {
		d.levels = slices.Clone(levels)
		if err := levels.Check(); err != nil {
			d.faults = append(d.faults, err)
		}
	})
}

// Material names the parameters, members of the JSON object, that make the call what it is: they are part of the key, may
// not hold a float, and must be visible to whoever approves. Another value of one is another call, and is refused. When
// only others differ, for instance because a library added a field, the call is refused too, as a drift. Without Material
// all parameters count.
func (e Effect[In, Out]) Material(fields ...string) Effect[In, Out] {
	return e.with(func(d *declaration) {
		d.material = slices.Clone(fields)
		slices.Sort(d.material)
		if len(fields) == 0 || slices.Contains(fields, "") || len(slices.Compact(slices.Clone(d.material))) != len(fields) {
			d.fault("Material(%q): name each field once", fields)
		}
	})
}

// Timeout is how long one dispatch may take before its context ends; a little later its outcome counts as unknown, even
// if the function has not returned.
func (e Effect[In, Out]) Timeout(limit time.Duration) Effect[In, Out] {
	return e.with(func(d *declaration) {
		if d.timeout = limit; limit <= 0 {
			d.fault("Timeout(%v): a dispatch needs some time", limit)
		}
	})
}

func (e Effect[In, Out]) with(edit func(*declaration)) Effect[In, Out] {
	d := &declaration{}
	if e.d != nil {
		*d = *e.d
		d.faults = slices.Clone(e.d.faults)
	} else {
		d.fault("it was not made by effect.New")
	}
	edit(d)
	return Effect[In, Out]{d}
}

func (d *declaration) fault(format string, args ...any) {
	d.faults = append(d.faults, fmt.Errorf(format, args...))
}

// Dispatches tells graphs that it acts outside, and whether people approve it first.
func (e Effect[In, Out]) Dispatches() (approved bool) { return e.d != nil && len(e.d.levels) > 0 }

// UseName is the name by which pawl.Uses declares it.
func (e Effect[In, Out]) UseName() string {
	if e.d == nil {
		return ""
	}
	return e.d.name
}

// Fault is what is wrong with the declaration, all of it, or nil. Graphs that use it are not built, and Do refuses.
func (e Effect[In, Out]) Fault() error {
	if e.d == nil {
		return errors.New("effect: the zero Effect does nothing; make one with effect.New")
	}
	faults := e.d.faults
	if e.d.inside != nil && (e.d.find != nil || e.d.keys > 0) {
		faults = append(slices.Clip(faults), errors.New("its outcome is never in doubt: leave out Lookup and Keys"))
	}
	if len(faults) == 0 {
		return nil
	}
	return fmt.Errorf("effect %q: %w", e.d.name, errors.Join(faults...))
}

// Do makes the outside action happen once for its reference and returns its receipt.
//
// The first time it is reserved, approved where the effect asks for that (Do then returns pawl.ErrWaiting, which the
// node must return), dispatched and recorded; every later time, from wherever, the recorded receipt is returned and
// nothing is sent. Within one entry of a node Do may be called again with the same reference.
//
// Nothing was sent when the error is [*InputError], [*ChangedError], [*DeniedError], [*BusyError], [*NotSentError],
// [*LostKeyError], [*RestoredError], [*CompensationError], [*ExpiredError], pawl.ErrWaiting while something else is open, or
// the end of ctx. [*RejectedError]: the target refused for good. [*InDoubtError]: it may have happened; entering the node
// again settles it. Where only a person can, the operation is quarantined and the thread waits (a wait of kind "doubt") for
// [Desk.Release]; one that was given up there is an [*AbandonedError]. What is final is not tried again by pawl.Tries.
//
// The end of ctx stops what was not dispatched yet. A dispatch in flight is awaited, up to its Timeout, and recorded
// first.
//
// Without a running task, in a plain test of a node, Do just calls the function under a made-up Op: nothing is kept and
// nobody is asked.
//
// A function that speaks HTTP does it with [NewClient]: net/http may send a request that carries an Idempotency-Key twice
// by itself, and follows 307 and 308 with the body.
func (e Effect[In, Out]) Do(ctx context.Context, ref Reference, in In) (Out, error) {
	var out Out
	doc, err := json.Marshal(in)
	if err == nil {
		err = errors.Join(e.Fault(), ref.fault())
	}
	if err != nil {
		return out, &InputError{Effect: e.UseName(), Ref: ref, Err: err}
	}
	receipt, err := do(ctx, e.d, ref, doc)
	if err != nil {
		return out, err
	}
	if err := json.Unmarshal(receipt, &out); err != nil {
		return out, fmt.Errorf("effect %q %s: it happened, and its receipt does not fit %T: %w; nothing was sent again", e.d.name, ref, out, err)
	}
	return out, nil
}

// Result is what is known of an operation.
type Result[In, Out any] struct {
	Operation Operation
	Ran       In  // what was, or would be, sent
	Receipt   Out // when it is committed
}

// Result tells, inside a task, what ran under a reference. It sends nothing. False: there is no such operation.
func (e Effect[In, Out]) Result(ctx context.Context, ref Reference) (Result[In, Out], bool, error) {
	var r Result[In, Out]
	if err := errors.Join(e.Fault(), ref.fault()); err != nil {
		return r, false, err
	}
	w, err := begin(ctx, e.d, ref)
	if err != nil {
		return r, false, err
	}
	op, err := w.find(ctx)
	if err != nil || op == nil {
		return r, false, err
	}
	params, err := w.led.ring.open(op, paramsOf)
	if err == nil {
		r.Ran, err = decoded[In](params)
	}
	if err == nil && op.State.happened() {
		var doc []byte
		if doc, err = w.led.ring.open(op, outcomeOf); err == nil {
			r.Receipt, err = decoded[Out](doc)
		}
	}
	r.Operation = *op
	return r, err == nil, err
}

// begin finds the task and the ledger of a context, and whether the node may use the effect.
func begin(ctx context.Context, d *declaration, ref Reference) (*doing, error) {
	task, ok := pawl.TaskFrom(ctx)
	if !ok {
		return nil, fmt.Errorf("effect %q %s: there is no running task in the context; nothing was read", d.name, ref)
	}
	info := task.Info()
	if !task.Uses(d.name) {
		return nil, task.Fail(&pawl.UndeclaredError{Node: info.Node, Name: d.name})
	}
	led := ledgerFrom(ctx)
	if led == nil {
		return nil, task.Fail(fmt.Errorf("node %q: effect %q: this engine has no ledger of operations; nothing was sent; put "+
			"effect.NewLedger into pawl.Options.Parts and effect.Kinds into the database", info.Node, d.name))
	}
	return &doing{led: led, task: task, info: info, d: d, ref: ref}, nil
}
