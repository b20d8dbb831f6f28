package effect

import (
	"time"

	"github.com/pawl-dev/pawl/approval"
	"github.com/pawl-dev/pawl/storage"
)

// seen is what an operation looks like in one Tx.
type seen struct {
	op       *Operation // that stands for the reference; nil: none
	original *Operation // that a compensation makes up for; nil: none
	last     *Attempt
	alive    bool              // the process that made it may still be at it
	request  *approval.Request // this task's newest; nil: none
	denied   *approval.Request // this call, earlier, in whatever task
	known    bool              // the task is noted to have to do with the operation
	now      time.Time
}

// step is what comes next in a Do.
type step int

const (
	toReturn    step = iota // the receipt
	toReuse                 // the receipt, after noting that this task has it too
	toChanged               // refuse: the reference stands for another call
	toDenied                // refuse: a person said no
	toDeny                  // note that a person said no, or nobody in time
	toRejected              // refuse: the target said no
	toBusy                  // refuse: it is on its way elsewhere
	toMint                  // make the first, or the next, revision
	toAsk                   // ask for approval
	toWait                  // for the answer
	toDispatch              // send it
	toDoubt                 // nobody knows what became of the last attempt
	toSettle                // find out
	toPerson                // only a person can
	toPermitted             // send it as a person permitted
	toAbandoned             // refuse: a person gave it up
	toExpired               // refuse: it is a tombstone
	toOther                 // refuse: a compensation of an operation that was redone since
)

// next decides. It is pure: its whole truth is what was seen.
func (w *doing) next(s *seen) step {
	if s.op == nil {
		return w.fresh(s)
	}
	same := s.op.Proposed == w.print
	switch {
	case s.op.State == StateTombstone:
		return toExpired
	case !same && w.mayRevise(s):
		return w.fresh(s)
	case !same:
		return toChanged
	}
	switch s.op.State {
	case StateCommitted, StateCompensating, StateCompensated, StateCompensationFailed:
		if s.original != nil && s.op.Compensates != s.original.Key {
			return toOther
		}
		if !s.known && s.op.Task != w.info.Task || s.request != nil && live(s.request) {
			return toReuse
		}
		return toReturn
	case StateRejected:
		return toRejected
	case StateVoided:
		if s.op.Doubt {
			return toAbandoned
		}
		return w.fresh(s)
	case StateQuarantined:
		return toPerson
	case StateReleased:
		return toPermitted
	case StateDenied:
		return toDenied
	case StateInDoubt:
		return toSettle
	case StateDispatched:
		if s.alive {
			return toBusy
		}
		return toDoubt
	}
	if !w.gated(s) {
		return toDispatch
	}
	return w.approved(s)
}

// gated says whether the call needs a yes: because its effect says so, or because its task was told so before. Code that
// would not ask any more does not get past an answer that is there, or still to come.
func (w *doing) gated(s *seen) bool {
	return len(w.d.levels) > 0 || s.request != nil || s.denied != nil
}

// approved is next for a reserved operation that needs a yes.
func (w *doing) approved(s *seen) step {
	if s.denied != nil {
		return toDeny
	}
	r := s.request
	switch {
	case r == nil, r.Call != w.callOf(s.op):
		return toAsk
	case r.State == approval.Requested:
		return toWait
	case r.State == approval.Granted:
		return toDispatch
	case r.State == approval.Denied, r.State == approval.Expired:
		return toDeny
	}
	return toAsk // it ended without an answer
}

// fresh is next where no operation stands in the way.
func (w *doing) fresh(s *seen) step {
	if s.denied != nil {
		return toDenied
	}
	return toMint
}

// mayRevise says whether another call may take the place of the one that the reference stands for: nothing of it can
// have happened, and nobody but this task wants it or has allowed it.
func (w *doing) mayRevise(s *seen) bool {
	switch s.op.State {
	case StateVoided, StateDenied, StateRejected:
		return !s.op.Doubt && s.op.Redoes == ""
	case StateReserved:
		return s.op.Task == w.info.Task && (s.request == nil || s.request.State != approval.Granted)
	}
	return false
}

func live(r *approval.Request) bool {
	return r.State == approval.Requested || r.State == approval.Granted
}

// read sees.
func (w *doing) read(tx storage.Tx) (*seen, error) {
	s := &seen{now: tx.Now().UTC()}
	var err error
	if s.op, err = inForce(tx, w.info.Tenant, w.d.name, w.ref, &w.info); err != nil {
		return nil, err
	}
	if w.d.compensates != "" {
		if s.original, err = w.original(tx); err != nil {
			return nil, err
		}
	}
	if (len(w.d.levels) > 0 || s.op != nil) && (s.op == nil || !s.op.State.happened()) {
		if s.denied, _, err = approval.Remembered(tx, w.info.Tenant, w.d.name, w.ref.String(), w.call); err != nil {
			return nil, err
		}
	}
	if s.op == nil {
		return s, nil
	}
	if s.op.State == StateDenied && s.denied == nil && s.op.Proposed == w.print {
		if s.denied, _, err = approval.Of(tx, w.info.Tenant, s.op.Key); err != nil {
			return nil, err
		}
	}
	if s.request, _, err = approval.OfTask(tx, w.info.Tenant, s.op.Key, w.info.Task); err != nil {
		return nil, err
	}
	if s.known, err = isUsed(tx, w.info, s.op.Key); err != nil {
		return nil, err
	}
	if !s.op.State.open() {
		return s, nil
	}
	if s.last, err = attemptOf(tx, w.info.Tenant, s.op.Key, s.op.Attempts); err != nil {
		return nil, err
	}
	s.alive, err = w.led.alive(tx, s.last)
	return s, err
}

// alive says whether the process that made an attempt may still be at it. One Do at a time works on a reference in this
// process, so an attempt of this process that is found by another Do is over.
func (l *Ledger) alive(tx storage.Tx, a *Attempt) (bool, error) {
	if a == nil || a.Owner == l.id {
		return false, nil
	}
	lease, ok, err := tx.Lease(a.Number, storage.Look, "")
	return ok && lease.Alive && lease.Epoch == a.Epoch, err
}
