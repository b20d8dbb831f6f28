package approval

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/storage"
)

// Open asks for one call of an operation, inside an Update of the task that wants to make it: the request, the wait that
// the thread shows, and the line in the trail are written together or not at all. The caller gives Effect, Ref,
// Operation, Call, View, Redaction, To and Due; everything else is filled in. View must be redacted already.
//
// A request of this task and call that still waits, or that is granted and not yet used, is returned as it is. One for
// another call is superseded, one that nobody decided in time has expired, a grant that was not used in time lapses: then
// the new request is opened. A grant for another call stands, and is a [*GrantError]: to change a granted call, end the
// grant first. A call that was denied is a [*DeniedError]; its line in the trail stays if the caller commits.
func Open(ctx context.Context, tx storage.Tx, task *pawl.Task, r Request) (Request, error) {
	info := task.Info()
	r.Tenant, r.Lineage, r.Thread, r.Graph = info.Tenant, info.Lineage, info.Thread, info.Graph
	r.Run, r.Attempt, r.Node, r.Task = info.Run, info.Attempt, info.Node, info.Task
	if err := r.complete(); err != nil {
		return Request{}, err
	}
	if no, found, err := Remembered(tx, r.Tenant, r.Effect, r.Ref, r.Call); err != nil {
		return Request{}, err
	} else if found {
		r.State = Denied
		why := fmt.Sprintf("denied before, by %s in %s", no.By, no.ID)
		if err := note(tx, &r, pawl.Actor{}, "approval.request.refused", Denied, why); err != nil {
			return Request{}, err
		}
		return Request{}, &DeniedError{Request: *no}
	}
	n := 0
	for old, err := range newest(tx, r.Tenant, r.Operation) {
		if err != nil {
			return Request{}, err
		}
		n = max(n, old.N)
		if old.Task != r.Task {
			continue
		}
		if same, err := meet(ctx, tx, task, old, &r); err != nil || same != nil {
			return deref(same), err
		}
		break
	}
	r.N, r.State, r.Requested = n+1, Requested, tx.Now().UTC()
	r.ID = core.ID("approval", r.Tenant, r.Operation, fmt.Sprint(r.N))
	var err error
	if r.Wait, err = wait(ctx, tx, task, &r); err != nil {
		return Request{}, err
	}
	row, err := pack(&r)
	if err != nil {
		return Request{}, err
	}
	held, err := tx.Put(kind, row, storage.Absent())
	if err == nil && !held {
		err = fmt.Errorf("approval: request %s is there already; nothing was asked", r.ID)
	}
	if err != nil {
		return Request{}, err
	}
	r.Rev = 1
	return r, note(tx, &r, pawl.Actor{}, "approval.requested", "", "")
}

// complete checks what the caller gave, and drops what only a decision may set.
func (r *Request) complete() error {
	switch {
	case r.Effect == "" || r.Operation == "" || r.Call == "":
		return fmt.Errorf("approval: a request needs an effect (%q), an operation (%q) and the digest of a call (%q); nothing was asked",
			r.Effect, r.Operation, r.Call)
	case !json.Valid(r.View):
		return fmt.Errorf("approval: the view of %s %q is no JSON document; nothing was asked", r.Effect, r.Ref)
	}
	digest, err := core.Digest(r.View)
	if err != nil {
		return fmt.Errorf("approval: the view of %s %q: %w; nothing was asked", r.Effect, r.Ref, err)
	}
	*r = Request{
		Tenant: r.Tenant, Lineage: r.Lineage, Thread: r.Thread, Graph: r.Graph, Run: r.Run, Attempt: r.Attempt, Node: r.Node, Task: r.Task,
		Effect: r.Effect, Ref: r.Ref, Operation: r.Operation, Call: r.Call, View: r.View, ViewDigest: digest, Redaction: r.Redaction,
		To: r.To, Due: r.Due,
	}
	return nil
}

// meet is the task's earlier request: it is returned when it serves r, and ended when r takes its place.
func meet(ctx context.Context, tx storage.Tx, task *pawl.Task, old, r *Request) (*Request, error) {
	to, why := State(""), ""
	switch now := old.seen(tx.Now()); now.State {
	case Requested:
		if old.Call == r.Call {
			id, err := wait(ctx, tx, task, old)
			if err == nil && id != old.Wait {
				return change(tx, old, Requested, pawl.Actor{}, func(r *Request) { r.Wait = id })
			}
			return old, err
		}
		to, why = Superseded, "the task wants to make another call"
	case Granted:
		if old.Call == r.Call {
			return old, nil
		}
		return nil, &GrantError{ID: old.ID, State: Granted, Why: "it is for the call " + old.Call + " and not for " + r.Call}
	case Expired, Lapsed:
		if old.State == now.State {
			return nil, nil
		}
		to, why = now.State, now.Unused
	default:
		return nil, nil
	}
	_, err := change(tx, old, to, pawl.Actor{}, func(r *Request) { r.Unused = why })
	return nil, err
}

func wait(ctx context.Context, tx storage.Tx, task *pawl.Task, r *Request) (string, error) {
	return task.Wait(ctx, tx, pawl.Wait{Kind: kind, Name: r.Effect, Key: r.Ref, Body: r.View, Digest: r.Call, Due: r.Due})
}

func deref(r *Request) Request {
	if r == nil {
		return Request{}
	}
	return *r
}
