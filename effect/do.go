package effect

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/approval"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/storage"
)

// doing is one Do in progress.
type doing struct {
	led   *Ledger
	task  *pawl.Task
	info  pawl.TaskInfo
	d     *declaration
	ref   Reference
	doc   []byte // the parameters
	print Print
	call  string // digest of the exact call

	wants    []want // of limits, by the call that would be made
	four     bool   // a release needs two people
	settled  bool   // one try to settle a doubt was made
	cause    error  // what the last attempt said
	conflict error  // what the look-up found instead
}

// rounds bounds how often a Do looks again because somebody else was faster.
const rounds = 32

// do is Do on documents.
func do(ctx context.Context, d *declaration, ref Reference, doc []byte) ([]byte, error) {
	p, err := printOf(doc, d.material)
	if err != nil {
		return nil, &InputError{Effect: d.name, Ref: ref, Err: err}
	}
	if ctx.Value(insideKey{}) != nil {
		return nil, &InputError{Effect: d.name, Ref: ref, Err: errors.New("it was called inside the transaction of another effect")}
	}
	if _, ok := pawl.TaskFrom(ctx); !ok {
		return d.plainly(ctx, ref, doc, p)
	}
	w, err := begin(ctx, d, ref)
	if err != nil {
		return nil, err
	}
	w.doc, w.print = doc, p
	w.call = w.digest(p)
	release, err := w.led.hold(ctx, digest(w.info.Tenant, d.name, ref.String()))
	if err != nil {
		return nil, err
	}
	defer release()
	for range rounds {
		receipt, again, err := w.once(ctx)
		if err == nil && again || errors.Is(err, errMoved) {
			continue
		}
		return receipt, err
	}
	return nil, &BusyError{Effect: d.name, Ref: ref}
}

// plainly calls the function outside a run.
func (d *declaration) plainly(ctx context.Context, ref Reference, doc []byte, p Print) ([]byte, error) {
	deadline := time.Now().Add(d.timeout)
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	op := Op{Key: mint("", d.name, ref, 1, p, ""), Ref: ref, Attempt: 1, Deadline: deadline}
	return d.call(WithOp(ctx, op), op, doc)
}

// target is what the target promises, in a word.
func (d *declaration) target() string {
	switch {
	case d.inside != nil:
		return "inside"
	case d.keys > 0:
		return "keys"
	case d.find != nil:
		return "look-up"
	}
	return "opaque"
}

// find reads the operation without changing anything.
func (w *doing) find(ctx context.Context) (op *Operation, err error) {
	err = w.task.View(ctx, func(_ context.Context, tx storage.Tx) error {
		op, err = inForce(tx, w.info.Tenant, w.d.name, w.ref, nil)
		return err
	})
	return op, err
}

// once looks at the operation and does the one thing that comes next. again: look again.
func (w *doing) once(ctx context.Context) (receipt []byte, again bool, err error) {
	var s *seen
	err = w.task.View(ctx, func(_ context.Context, tx storage.Tx) error {
		got, err := w.read(tx)
		s = got
		return err
	})
	if err != nil {
		return nil, false, err
	}
	switch what := w.next(s); what {
	case toReturn:
		receipt, err = w.led.ring.open(s.op, outcomeOf)
	case toReuse:
		again, err = true, w.reuse(ctx)
	case toChanged:
		err = w.changed(ctx, s)
	case toDenied, toRejected, toAbandoned, toExpired, toOther:
		err = w.refused(ctx, s, what)
	case toDeny:
		if s.denied == nil && s.request.State == approval.Expired {
			err = w.task.Closed(ctx) // a request of this entry that is due already: the node waits, and is told when it goes on
		}
		if err == nil {
			err = w.deny(ctx)
		}
	case toBusy:
		err = &BusyError{Effect: w.d.name, Ref: w.ref, Operation: s.op.Key, Thread: s.op.Thread, Since: s.op.Last}
	case toDoubt:
		again, err = true, w.doubt(ctx)
	case toWait:
		if q, ok := w.task.Awaits(ctx, "approval", w.d.name, pawl.Key(w.ref.String())); ok && q.State == string(core.QuestionOpen) {
			return nil, false, pawl.ErrWaiting
		}
		again, err = true, w.ask(ctx, s, what)
	default:
		return w.onward(ctx, s, what)
	}
	return receipt, again, err
}

// onward is what is new, and is done only while nothing is open in this branch and ctx goes on.
func (w *doing) onward(ctx context.Context, s *seen, what step) (receipt []byte, again bool, err error) {
	if err := w.task.Closed(ctx); err != nil {
		return nil, false, err
	}
	if ctx.Err() != nil {
		if s.op != nil && s.op.State.Unknown() {
			return nil, false, w.inDoubt(s.op, errors.Join(w.cause, context.Cause(ctx)))
		}
		return nil, false, context.Cause(ctx)
	}
	switch {
	case what == toSettle:
		return w.settle(ctx, s)
	case what == toPerson:
		return w.person(ctx, s, what)
	case what == toPermitted:
		return w.permitted(ctx, s)
	case what == toDispatch, what == toMint && !w.gated(s):
		if err := w.sound(s); err != nil {
			return nil, false, pawl.NoRetry(err)
		}
		receipt, again, err = w.dispatch(ctx, s, what)
		return receipt, again, w.held(ctx, err)
	}
	if err := w.sound(s); err != nil {
		return nil, false, pawl.NoRetry(err)
	}
	return nil, true, w.held(ctx, w.ask(ctx, s, what))
}

// update runs fn in one Update of the task, if the step that was decided on is still the one that comes next.
func (w *doing) update(ctx context.Context, want step, fn func(ctx context.Context, tx storage.Tx, s *seen) error, proof ...func(storage.Tx) (bool, error)) error {
	return w.task.Update(ctx, func(ctx context.Context, tx storage.Tx) error {
		s, err := w.read(tx)
		if err != nil {
			return err
		}
		if w.next(s) != want {
			return errMoved
		}
		return fn(ctx, tx, s)
	}, proof...)
}

// reuse notes that another task got the receipt, and ends what it had asked for.
func (w *doing) reuse(ctx context.Context) error {
	return w.update(ctx, toReuse, func(_ context.Context, tx storage.Tx, s *seen) error {
		if s.request != nil {
			if err := approval.Lapse(tx, w.info.Tenant, s.request.ID, "unused: duplicate of operation "+s.op.Key); err != nil {
				return err
			}
		}
		if s.known || s.op.Task == w.info.Task {
			return nil
		}
		if err := used(tx, w.info, s.op.Key); err != nil {
			return err
		}
		return s.op.note(tx, w.info, pawl.Actor{}, "reused", s.op.State, fmt.Sprintf("dispatched by thread %q, run %s; nothing was sent", s.op.Thread, s.op.Run))
	})
}

// changed refuses another call under the same reference. Only the trail grows.
func (w *doing) changed(ctx context.Context, s *seen) error {
	was, err := w.led.ring.open(s.op, paramsOf)
	path := ""
	if err == nil {
		path, _, _ = core.DocumentDifference(was, w.doc)
		path = w.led.text(path)
	}
	e := &ChangedError{
		Effect: w.d.name, Ref: w.ref, Operation: s.op.Key, State: s.op.State, Thread: s.op.Thread, Path: path,
		Drift: s.op.Proposed.Version == w.print.Version && s.op.Proposed.Material == w.print.Material,
	}
	why := "other parameters, first at " + path
	if err := w.refusal(ctx, s.op, toChanged, why); err != nil {
		return err
	}
	return pawl.NoRetry(e)
}

// final is an operation that is over without a receipt that could be returned.
func (w *doing) final(ctx context.Context, s *seen, what step) error {
	why, e := "", error(nil)
	switch what {
	case toAbandoned:
		why, e = "abandoned before", &AbandonedError{Effect: w.d.name, Ref: w.ref, Operation: s.op.Key, Reason: s.op.Reason, At: s.op.Updated}
	case toExpired:
		why = "replayed after it was forgotten; the checkpoint can only be looked at"
		e = &ExpiredError{Effect: w.d.name, Ref: w.ref, Operation: s.op.Key, Final: s.op.Final, Receipt: s.op.Receipt, At: s.op.Updated}
	case toOther:
		why = "what it compensated was redone since"
		e = &CompensationError{Effect: w.d.name, Ref: w.ref, Original: s.original.Key, State: s.original.State, Why: fmt.Sprintf(
			"operation %.12s compensated %.12s, which was redone since; redo the compensation at the effect desk", s.op.Key, s.op.Compensates)}
	}
	if err := w.refusal(ctx, s.op, what, why); err != nil {
		return err
	}
	return pawl.NoRetry(e)
}

// refused is a call that was refused before: by a person, or by the target.
func (w *doing) refused(ctx context.Context, s *seen, what step) error {
	switch what {
	case toAbandoned, toExpired, toOther:
		return w.final(ctx, s, what)
	case toRejected:
		reason, err := w.led.ring.open(s.op, outcomeOf)
		if err != nil {
			return err
		}
		if err := w.refusal(ctx, s.op, what, "the target refused it for good before"); err != nil {
			return err
		}
		return pawl.NoRetry(&RejectedError{Effect: w.d.name, Ref: w.ref, Operation: s.op.Key, Reason: string(reason), Err: w.cause})
	}
	no := s.denied
	if no == nil {
		no = s.request
	}
	e := &DeniedError{Effect: w.d.name, Ref: w.ref}
	if s.op != nil {
		e.Operation = s.op.Key
	}
	if no != nil {
		e.Approval, e.By, e.Reason, e.At = no.ID, no.By, no.Reason, no.Decided
	}
	if err := w.refusal(ctx, s.op, what, "denied before"); err != nil {
		return err
	}
	return pawl.NoRetry(e)
}

// refusal writes the line of a refused call. op is what it was refused for; nil: there is no operation.
func (w *doing) refusal(ctx context.Context, op *Operation, want step, why string) error {
	return w.update(ctx, want, func(_ context.Context, tx storage.Tx, s *seen) error {
		switch {
		case (s.op == nil) != (op == nil), op != nil && (s.op.rev != op.rev || s.op.Key != op.Key):
			return errMoved
		case op == nil:
			s.op = &Operation{Tenant: w.info.Tenant, Effect: w.d.name, Ref: w.ref, Call: w.call}
		}
		return s.op.note(tx, w.info, pawl.Actor{}, "refused", s.op.State, why)
	})
}

// deny records that a person said no, or that nobody said anything in time.
func (w *doing) deny(ctx context.Context) error {
	var e *DeniedError
	err := w.update(ctx, toDeny, func(_ context.Context, tx storage.Tx, s *seen) error {
		r, to, why := s.request, StateDenied, "denied"
		if s.denied != nil {
			r = s.denied
		} else if r.State == approval.Expired {
			to, why = StateVoided, "nobody decided in time"
			if err := approval.Withdraw(tx, w.info.Tenant, r.ID, why); err != nil {
				return err
			}
		}
		if err := s.op.to(to, s.now, why, grounds{}); err != nil {
			return err
		}
		e = &DeniedError{
			Effect: w.d.name, Ref: w.ref, Operation: s.op.Key, Approval: r.ID, By: r.By, Reason: r.Reason, At: r.Decided, Expired: to == StateVoided,
		}
		if e.Expired {
			e.At = r.Due
		}
		return errors.Join(s.op.put(tx), s.op.note(tx, w.info, pawl.Actor{}, string(to), StateReserved, why))
	})
	if err != nil {
		return err
	}
	return pawl.NoRetry(e)
}
