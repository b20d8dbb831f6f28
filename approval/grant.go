package approval

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/storage"
)

// Consume spends a grant: in the Update that dispatches the call, so that there is no dispatch without its grant and no
// grant spent without its dispatch. It must be granted, not lapsed, and for this call of this operation; else
// [*GrantError], [*ExpiredError] or, for an id that the tenant does not have, [pawl.ErrNotFound]. A refusal leaves the
// grant as it is; its line in the trail stays if the caller commits.
func Consume(tx storage.Tx, tenant, id, call, operation string) error {
	r, err := get(tx, tenant, id)
	if err != nil {
		return err
	}
	if refusal := r.covers(tx, call, operation); refusal != nil {
		return errors.Join(refusal, note(tx, r, pawl.Actor{}, "approval.consume.refused", r.State, refusal.Error()))
	}
	_, err = change(tx, r, Consumed, pawl.Actor{}, func(r *Request) { r.UsedBy = operation })
	return err
}

func (r *Request) covers(tx storage.Tx, call, operation string) error {
	now := r.seen(tx.Now())
	switch {
	case now.State == Lapsed && r.State == Granted:
		return &ExpiredError{ID: r.ID, Grant: true, At: r.Until}
	case now.State == Expired:
		return &ExpiredError{ID: r.ID, At: r.Due}
	case r.State == Consumed:
		return &GrantError{ID: r.ID, State: r.State, Why: "operation " + r.UsedBy + " used it"}
	case r.State != Granted:
		return &GrantError{ID: r.ID, State: r.State, Why: "it is not a grant"}
	case r.Operation != operation:
		return &GrantError{ID: r.ID, State: r.State, Why: "it is for operation " + r.Operation + " and not for " + operation}
	case r.Call != call:
		return &GrantError{ID: r.ID, State: r.State, Why: "it is for the call " + r.Call + " and not for " + call}
	}
	return nil
}

// Return gives a consumed grant back to its operation, when it is proven that no byte was sent. Past its time it lapses
// instead.
func Return(tx storage.Tx, tenant, id, operation, why string) error {
	r, err := get(tx, tenant, id)
	if err != nil {
		return err
	}
	if r.State != Consumed || r.UsedBy != operation {
		return &GrantError{ID: r.ID, State: r.State, Why: "operation " + operation + " did not use it, so it cannot give it back"}
	}
	back := *r
	back.State = Granted
	to := back.seen(tx.Now()).State
	r, err = put(tx, r, to, func(r *Request) {
		r.UsedBy = ""
		if to == Lapsed {
			r.Unused = why
		}
	})
	if err != nil {
		return err
	}
	return note(tx, r, pawl.Actor{}, "approval.returned", Consumed, why)
}

// Lapse ends a grant that nobody needs, and says why: "duplicate of ...". A request that still waits is withdrawn. One
// that ended already stays as it is.
func Lapse(tx storage.Tx, tenant, id, why string) error { return end(tx, tenant, id, why) }

// Supersede ends a request or an unused grant in whose place another one is made, and says why. One that ended already
// stays as it is. The wait is not touched: the new request takes it over.
func Supersede(tx storage.Tx, tenant, id, why string) error {
	r, err := get(tx, tenant, id)
	if err == nil {
		r, err = notice(tx, r)
	}
	if err != nil || r.State != Requested && r.State != Granted {
		return err
	}
	_, err = change(tx, r, Superseded, pawl.Actor{}, func(r *Request) { r.Unused = why })
	return err
}

// Withdraw ends a request whose branch is left, and says why. A grant lapses. One that ended already stays as it is.
// The wait is not touched: the verb that leaves a branch withdraws it.
func Withdraw(tx storage.Tx, tenant, id, why string) error { return end(tx, tenant, id, why) }

// Answering is [pawl.Engine.AnswerTx] or [pawl.Task.AnswerTx].
type Answering func(tx storage.Tx, wait string, a pawl.Answer) (*pawl.Question, error)

// EndOthers ends every open request and unspent grant of an operation but one (or none, for an empty id), because another
// thread settled the operation. Waits are answered, so that their threads can be resumed and find out. It returns how
// many it ended.
func EndOthers(tx storage.Tx, answer Answering, tenant, operation, keep, why string) (int, error) {
	n := 0
	for r, err := range newest(tx, tenant, operation) {
		if err != nil {
			return n, err
		}
		if r.ID == keep || r.State != Requested && r.State != Granted {
			continue
		}
		if err := finish(tx, answer, r, why); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// EndThread withdraws the open requests and lapses the unspent grants of tasks that a verb leaves behind, or starts anew: for
// its Update. The waits are left to that verb.
func EndThread(tx storage.Tx, v pawl.VerbInfo, why string) (requests, grants int, err error) {
	open, err := Live(tx, v.Tenant, v.Thread)
	if err != nil {
		return 0, 0, err
	}
	for _, r := range open {
		if !v.Covers(r.Task) {
			continue
		}
		if err := finish(tx, nil, &r, why); err != nil {
			return requests, grants, err
		}
		if r.State == Requested {
			requests++
		} else {
			grants++
		}
	}
	return requests, grants, nil
}

// Live returns a thread's open requests and unspent grants, those past their time included.
func Live(tx storage.Tx, tenant, thread string) ([]Request, error) {
	var out []Request
	for _, state := range []State{Requested, Granted} {
		got, err := list(tx, storage.Query{Index: "by_thread", Range: storage.Range{Prefix: []any{tenant, thread, string(state)}}})
		if err != nil {
			return nil, err
		}
		for _, r := range got {
			out = append(out, *r)
		}
	}
	return out, nil
}

func end(tx storage.Tx, tenant, id, why string) error {
	r, err := get(tx, tenant, id)
	if err != nil || r.State != Requested && r.State != Granted {
		return err
	}
	return finish(tx, nil, r, why)
}

// finish ends a request or a grant that is no longer needed.
func finish(tx storage.Tx, answer Answering, r *Request, why string) error {
	was, to := r.State, Withdrawn
	r, err := notice(tx, r)
	if err == nil && r.State == was {
		if was == Granted {
			to = Lapsed
		}
		r, err = change(tx, r, to, pawl.Actor{}, func(r *Request) { r.Unused = why })
	}
	if err != nil || answer == nil || was != Requested {
		return err
	}
	_, err = answer(tx, r.Wait, pawl.Answer{Value: verdict(r), Reason: why})
	if refused := (*pawl.AnswerError)(nil); errors.As(err, &refused) || errors.Is(err, pawl.ErrNotFound) {
		return nil // the wait ended before, or its thread is gone
	}
	return err
}

// verdict is what the wait is answered with.
func verdict(r *Request) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"approval":%q,"state":%q}`, r.ID, r.State))
}
