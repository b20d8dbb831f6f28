package effect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/approval"
	"github.com/pawl-dev/pawl/internal/tally"
	"github.com/pawl-dev/pawl/storage"
)

// Limit bounds what distinct operations come to together: an operation's key stops the same payment twice, and not forty
// payments. It holds for a tenant, over all threads and processes; effects that name the same limit share it, and should
// declare it alike. What is used counts in the Update that dispatches, by the database's clock, and until a sixtieth of Per
// longer than Per. It is given back when it is known that nothing happened.
type Limit[In any] struct {
	Name   string
	Amount func(In) (int64, error) // what one call uses, not below zero; nil: 1. Pure
	Max    int64
	Per    time.Duration // at least a second; 0: for ever
}

// limit is a Limit without its type.
type limit struct {
	name   string
	amount func(params []byte) (int64, error)
	tally.Limit
}

// Limit adds a limit. A call beyond it is refused with a [*LimitError], nothing is sent and a grant stays unspent.
func (e Effect[In, Out]) Limit(l Limit[In]) Effect[In, Out] {
	return e.with(func(d *declaration) {
		own := limit{l.Name, func([]byte) (int64, error) { return 1, nil }, tally.Limit{Max: l.Max, Per: l.Per}}
		if l.Amount != nil {
			own.amount = func(params []byte) (int64, error) {
				in, err := decoded[In](params)
				if err != nil {
					return 0, err
				}
				return l.Amount(in)
			}
		}
		if err := own.Fault(); err != nil {
			d.fault("Limit %q: %v", l.Name, err)
		}
		if l.Name == "" || slices.ContainsFunc(d.limits, func(o limit) bool { return o.name == l.Name }) {
			d.fault("Limit %q: give each limit a name of its own", l.Name)
		}
		d.limits = append(slices.Clone(d.limits), own)
	})
}

// LimitError: the call would go beyond a limit. Nothing was sent, and an approval of it stays unspent.
type LimitError struct {
	Effect string
	Ref    Reference
	Limit  string
	Amount int64 // of this call
	Used   int64 // by earlier ones
	Max    int64
	Per    time.Duration // 0: for ever
	Frees  time.Time     // when the call would fit; zero: never
}

// Error says which limit it is, and when it frees.
func (e *LimitError) Error() string {
	s := fmt.Sprintf("effect %q %s: limit %q: %d of %d are used and this call needs %d", e.Effect, e.Ref, e.Limit, e.Used, e.Max, e.Amount)
	if e.Per > 0 {
		s += fmt.Sprintf(", within %s", e.Per)
	}
	s += "; nothing was sent"
	if e.Frees.IsZero() {
		return s + "; it will never fit: raise the limit, or split the call"
	}
	return s + "; resume the thread at " + e.Frees.UTC().Format(time.RFC3339) + " or later"
}

// Spent is what an operation counts for in a limit.
type Spent struct {
	Limit  string `json:"limit"`
	Amount int64  `json:"amount"`
	Until  int64  `json:"until"` // in milliseconds
}

// want is what a call would use of a limit.
type want struct {
	limit
	n int64
}

// wants asks the effect what a call uses. User code runs here, so it is asked before the Update.
func (d *declaration) wants(params []byte) (out []want, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the amount of a limit panicked: %v", p)
		}
	}()
	for _, l := range d.limits {
		n, err := l.amount(params)
		if err == nil && n < 0 {
			err = fmt.Errorf("it is %d", n)
		}
		if err != nil {
			return nil, fmt.Errorf("the amount for limit %q: %w", l.name, err)
		}
		out = append(out, want{l, n})
	}
	return out, nil
}

// fits refuses a call that does not fit; hopeless alone: only one that never will.
func (w *doing) fits(tx storage.Tx, hopeless bool) error {
	for _, l := range w.wants {
		c, err := tally.Look(tx, w.info.Tenant, tallied(l.name), l.n, l.Limit)
		if err != nil {
			return err
		}
		if !c.Fits && (!hopeless || c.Frees.IsZero()) {
			return &LimitError{
				Effect: w.d.name, Ref: w.ref, Limit: l.name, Amount: l.n, Used: c.Used, Max: l.Max, Per: l.Per, Frees: c.Frees,
			}
		}
	}
	return nil
}

// spend counts the call of an operation that is about to be dispatched, or refuses it.
func (w *doing) spend(tx storage.Tx, op *Operation) error {
	if err := w.fits(tx, false); err != nil {
		return err
	}
	for _, l := range w.wants {
		until, err := tally.Add(tx, op.Tenant, tallied(l.name), l.n, l.Limit)
		if err != nil {
			return err
		}
		op.Spent = append(op.Spent, Spent{l.name, l.n, until})
	}
	return nil
}

// unspend gives back what an operation counts for that certainly did not happen.
func (o *Operation) unspend(tx storage.Tx) error {
	if o.Doubt {
		return nil
	}
	switch o.State {
	case StateReserved, StateRejected, StateVoided, StateDenied:
	default:
		return nil
	}
	for _, s := range o.Spent {
		if err := tally.Back(tx, o.Tenant, tallied(s.Limit), s.Until, s.Amount); err != nil {
			return err
		}
	}
	o.Spent = nil
	return nil
}

func tallied(limit string) string { return "limit " + limit }

// held notes that a limit held a call back, and returns what Do returns.
func (w *doing) held(ctx context.Context, err error) error {
	over, full := (*LimitError)(nil), (*approval.FullError)(nil)
	if !errors.As(err, &over) && !errors.As(err, &full) {
		return err
	}
	noted := w.task.Update(ctx, func(_ context.Context, tx storage.Tx) error {
		op, err := newestOf(tx, w.info.Tenant, w.d.name, w.ref)
		if err != nil {
			return err
		}
		if op == nil {
			op = &Operation{Tenant: w.info.Tenant, Effect: w.d.name, Ref: w.ref, Call: w.call}
		}
		why := "more open requests than are allowed"
		if over != nil {
			why = fmt.Sprintf("limit %q: %d used of %d, and %d wanted", over.Limit, over.Used, over.Max, over.Amount)
		}
		return op.note(tx, w.info, pawl.Actor{}, "refused", op.State, why)
	})
	return errors.Join(pawl.NoRetry(err), noted)
}
