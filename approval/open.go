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
// Operation, Call, View, Redaction, Levels, and where there was another call before Editor, Editors, Instead, Why and Diff; everything
// else is filled in. View and Diff must be redacted already.
//
// A request of this task and call that still waits, or that is granted and not yet used, is returned as it is. One for
// another call is superseded, one that nobody decided in time has expired, a grant that was not used in time lapses: then
// the new request is opened. A grant for another call stands, and is a [*GrantError]: to change a granted call, end the
// grant first. A call that was denied is a [*DeniedError]; its line in the trail stays if the caller commits.
func Open(ctx context.Context, tx storage.Tx, task *pawl.Task, r Request) (Request, error) {
	info := task.Info()
	r.Tenant, r.Lineage, r.Thread, r.Graph = info.Tenant, info.Lineage, info.Thread, info.Graph
	r.Run, r.Attempt, r.Node, r.Task, r.Starters, r.Version = info.Run, info.Attempt, info.Node, info.Task, info.Starters, info.Version
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
	return r, r.open(tx, n+1, pawl.Actor{}, func() (string, error) { return wait(ctx, tx, task, &r) })
}

// open writes the n-th request of an operation, with the wait that asks for it.
func (r *Request) open(tx storage.Tx, n int, actor pawl.Actor, wait func() (string, error)) (err error) {
	r.N, r.State, r.Requested, r.Level = n, Requested, tx.Now().UTC(), 1
	r.Due = r.Levels.due(r.Requested)
	r.ID = core.ID("approval", r.Tenant, r.Operation, fmt.Sprint(r.N))
	if r.Wait, err = wait(); err != nil {
		return err
	}
	row, err := pack(r)
	if err != nil {
		return err
	}
	held, err := tx.Put(kind, row, storage.Absent())
	if err == nil && !held {
		err = fmt.Errorf("approval: request %s is there already; nothing was asked", r.ID)
	}
	if err != nil {
		return err
	}
	r.Rev = 1
	return note(tx, r, actor, "approval.requested", "", r.Why)
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
	if len(r.Levels) == 0 {
		r.Levels = Levels{{}}
	}
	if err := r.Levels.Check(); err != nil {
		return fmt.Errorf("%w; nothing was asked", err)
	}
	digest, err := core.Digest(r.View)
	if err != nil {
		return fmt.Errorf("approval: the view of %s %q: %w; nothing was asked", r.Effect, r.Ref, err)
	}
	*r = Request{
		Tenant: r.Tenant, Lineage: r.Lineage, Thread: r.Thread, Graph: r.Graph, Run: r.Run, Attempt: r.Attempt, Node: r.Node, Task: r.Task,
		Effect: r.Effect, Ref: r.Ref, Operation: r.Operation, Call: r.Call, View: r.View, ViewDigest: digest, Redaction: r.Redaction,
		Policy: r.Policy, Version: r.Version,
		To: r.Levels[0].To, Levels: r.Levels, Starters: r.Starters, Editor: r.Editor, Editors: r.Editors, Instead: r.Instead, Why: r.Why, Diff: r.Diff,
	}
	return nil
}

// meet is the task's earlier request: it is returned when it serves r, and ended when r takes its place.
func meet(ctx context.Context, tx storage.Tx, task *pawl.Task, old, r *Request) (*Request, error) {
	old, err := notice(tx, old)
	if err != nil {
		return nil, err
	}
	switch {
	case old.State == Requested && old.Call == r.Call:
		id, err := wait(ctx, tx, task, old)
		if err == nil && id != old.Wait {
			old, err = change(tx, old, Requested, pawl.Actor{}, func(r *Request) { r.Wait = id })
		}
		return old, err
	case old.State == Requested:
		r.follows(old)
		_, err := change(tx, old, Superseded, pawl.Actor{}, func(r *Request) { r.Unused = "the task wants to make another call" })
		return nil, err
	case old.State == Granted && old.Call == r.Call:
		return old, nil
	case old.State == Granted:
		return nil, &GrantError{ID: old.ID, State: Granted, Why: "it is for the call " + old.Call + " and not for " + r.Call}
	}
	return nil, nil
}

// follows says in whose place a request is made and why, where the caller does not.
func (r *Request) follows(old *Request) {
	if r.Instead == "" {
		r.Instead = old.ID
	}
	if r.Diff == nil {
		r.Diff, _ = Diff(old.View, r.View) // both are JSON
	}
	if r.Why == "" {
		r.Why = old.Outdated(r.Policy, r.Version)
	}
	if r.Why == "" {
		r.Why = "the task wants to make another call"
	}
}

// Outdated says why the same call is asked about again under a policy and a version of the graph; empty: it need not be.
func (r Request) Outdated(policy, version string) string {
	switch {
	case r.Policy != policy:
		return fmt.Sprintf("the policy changed from %q to %q since it was asked", r.Policy, policy)
	case r.Version != version:
		return fmt.Sprintf("the graph changed from version %.12s to %.12s since it was asked", r.Version, version)
	}
	return r.Unused
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
