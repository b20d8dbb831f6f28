package effect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/approval"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/storage"
)

// Inside declares an effect on the engine's own database: rows of kinds that the program gave to the driver's Open.
//
//	var credit = effect.Inside("account.credit", func(ctx context.Context, tx storage.Tx, op effect.Op, in Credit) (Receipt, error) {
//		_, err := tx.Put("credit", storage.Row{Key: []any{op.Tenant, op.Key}, Body: in.doc()}, storage.Absent())
//		return Receipt{op.Key}, err
//	})
//
// The reservation, the spent grant, what fn writes and the receipt are one transaction: all of it is there, or nothing,
// wherever the process dies. There is no dispatch outside, so its outcome is never in doubt, and nothing is sent again.
// The promise holds as long as the operation's row is kept.
//
// fn obeys the rules of [storage.DB.Update]: it only reads and writes tx, does not wait, and may run more than once; what
// it did in vain is undone. It must not call Step, Ask or Do, and it cannot write the engine's own kinds. While it runs
// no other writes are made, so it should be short. Keys begin with op.Tenant.
//
// An error of fn undoes everything: Do returns a [*NotSentError], and an approval stays unspent. An error marked
// [Rejected] is recorded as final, without what fn wrote. [Effect.Approve] and [Effect.Material] hold; Lookup, Keys and
// Timeout have no meaning here.
func Inside[In, Out any](name string, fn func(ctx context.Context, tx storage.Tx, op Op, in In) (Out, error)) Effect[In, Out] {
	outside := func(context.Context, Op, In) (out Out, err error) {
		return out, NotSent(errors.New("it works in the engine's transaction, and no task is running; run the node in a graph, " +
			"for instance on pawltest.Engine"))
	}
	if fn == nil {
		outside = nil
	}
	return New(name, outside).with(func(d *declaration) {
		d.inside = func(ctx context.Context, tx storage.Tx, op Op, params []byte) ([]byte, error) {
			in, err := decoded[In](params)
			if err != nil {
				return nil, err
			}
			out, err := fn(ctx, tx, op, in)
			if err != nil {
				return nil, err
			}
			return json.Marshal(out)
		}
	})
}

// within does the whole operation in one Update of its own: T1, T3 and T4, or T3 and T4 of what was reserved.
func (w *doing) within(ctx context.Context, s *seen, what step) ([]byte, error) {
	params, sealed := w.doc, []byte(nil)
	var err error
	if what == toMint {
		sealed = w.led.ring.seal(w.info.Tenant, w.d.name, w.ref, w.print, paramsOf, w.doc)
	} else if params, err = w.led.ring.open(s.op, paramsOf); err != nil {
		return nil, err
	}
	receipt, err := w.enact(ctx, s, what, sealed, func(ctx context.Context, tx storage.Tx, op *Operation) ([]byte, error) {
		return w.d.enacted(ctx, tx, Op{Key: op.Key, Ref: op.Ref, Tenant: op.Tenant, Attempt: int(op.Attempts), Sent: op.Last}, params)
	})
	own, refused := (*ownError)(nil), (*rejected)(nil)
	switch {
	case !errors.As(err, &own):
		return receipt, err
	case !errors.As(own.err, &refused):
		return nil, &NotSentError{Effect: w.d.name, Ref: w.ref, Err: w.led.words(own.err, params)}
	}
	said := w.led.words(own.err, params)
	no := &RejectedError{Effect: w.d.name, Ref: w.ref, Reason: said.Error(), Err: refused.err}
	_, err = w.enact(ctx, s, what, sealed, func(_ context.Context, _ storage.Tx, op *Operation) ([]byte, error) {
		no.Operation = op.Key
		return []byte(no.Reason), errRefused
	})
	if err != nil {
		return nil, err
	}
	return nil, pawl.NoRetry(no)
}

var errRefused = errors.New("effect: refused")

// ownError is an error of the user's function, apart from those of the home.
type ownError struct{ err error }

func (e *ownError) Error() string { return e.err.Error() }
func (e *ownError) Unwrap() error { return e.err }

// enact is the Update: act says what becomes of the dispatched operation, a receipt, or a refusal with errRefused.
func (w *doing) enact(ctx context.Context, was *seen, what step, sealed []byte, act func(context.Context, storage.Tx, *Operation) ([]byte, error)) ([]byte, error) {
	var done *Operation
	var attempt *Attempt
	var receipt []byte
	err := w.update(storage.Alone(ctx), what, func(ctx context.Context, tx storage.Tx, s *seen) error {
		if what != toMint && s.op.Key != was.op.Key {
			return errMoved
		}
		f, err := w.authorise(tx, s, what, sealed)
		if err != nil {
			return err
		}
		op, a, err := w.dispatched(tx, s, f)
		if err != nil {
			return err
		}
		doc, err := act(ctx, tx, op)
		to, why := StateCommitted, "in the transaction of the dispatch"
		if errors.Is(err, errRefused) {
			to, why, err = StateRejected, "the target refused it for good", nil
		}
		if err != nil {
			return err
		}
		if err := op.to(to, s.now, why, grounds{attempt: a.N}); err != nil {
			return err
		}
		op.outcome = w.led.ring.seal(op.Tenant, op.Effect, op.Ref, op.Authorised, outcomeOf, doc)
		if a.Outcome, a.Ended = "rejected", s.now; to == StateCommitted {
			a.Outcome, op.Receipt = "applied", receiptOf(doc)
		}
		err = errors.Join(a.put(tx, op.Tenant), op.put(tx), op.note(tx, w.info, pawl.Actor{}, string(to), StateDispatched, why),
			w.led.compensated(tx, op), w.endOthers(tx, op))
		done, attempt, receipt = op, a, doc
		return err
	}, func(tx storage.Tx) (bool, error) { return isThere(tx, done, attempt) })
	if unknown := (*storage.UnknownError)(nil); errors.As(err, &unknown) {
		err = fmt.Errorf("effect %q %s: it is not certain that the transaction is durable; either all of it is or nothing; enter the node "+
			"again to find out: %w", w.d.name, w.ref, err)
	}
	if err != nil {
		return nil, err
	}
	return receipt, nil
}

// enacted calls the user's function. A panic is its error, too.
func (d *declaration) enacted(ctx context.Context, tx storage.Tx, op Op, params []byte) (receipt []byte, err error) {
	guest := &guestTx{Tx: tx, house: houseKinds()}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the function panicked: %v", p)
		}
		if guest.err != nil {
			err = guest.err
		}
		if err != nil {
			receipt, err = nil, &ownError{err}
		}
	}()
	receipt, err = d.inside(context.WithValue(recorded(ctx, op), insideKey{}, true), guest, op, params)
	if err == nil {
		err = core.CheckSize("the receipt", receipt)
	}
	return receipt, err
}

// insideKey marks the context of a function that works in a transaction.
type insideKey struct{}

// guestTx is the Tx of a user's function: the engine's own rows can be read through it and not written.
type guestTx struct {
	storage.Tx
	house []string
	err   error // the first refusal, which stands whatever the function makes of it
}

func houseKinds() (names []string) {
	for _, k := range slices.Concat(pawl.Kinds(), Kinds(), approval.Kinds(), audit.Kinds()) {
		names = append(names, k.Name)
	}
	return names
}

func (g *guestTx) refuse(what string) error {
	err := fmt.Errorf("the function of an effect may not write %s; nothing was changed; use a record kind of your own", what)
	if g.err == nil {
		g.err = err
	}
	return err
}

func (g *guestTx) Put(kind string, row storage.Row, cond storage.If) (bool, error) {
	if slices.Contains(g.house, kind) {
		return false, g.refuse("the engine's kind " + kind)
	}
	return g.Tx.Put(kind, row, cond)
}

func (g *guestTx) Delete(kind string, keys storage.Range) (int, error) {
	if slices.Contains(g.house, kind) {
		return 0, g.refuse("the engine's kind " + kind)
	}
	return g.Tx.Delete(kind, keys)
}

func (g *guestTx) Seq(int64, int64, int) (int64, bool, error) {
	return 0, false, g.refuse("the sequence of a thread")
}

func (g *guestTx) Lease(thread int64, op storage.LeaseOp, member string) (storage.Lease, bool, error) {
	if op != storage.Look {
		return storage.Lease{}, false, g.refuse("the lease of a thread")
	}
	return g.Tx.Lease(thread, op, member)
}
