package approval

import (
	"fmt"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/storage"
)

// Editable reads a request that an actor wants to change, as it stands. The refusals are those of Approve; every level that
// was reached may change a call, also who started the run: somebody else must approve it then. For the desk that changes
// calls, in its Update.
func Editable(tx storage.Tx, tenant, id string, actor pawl.Actor, digest string) (r *Request, refused, err error) {
	if r, err = get(tx, tenant, id); err != nil {
		return nil, nil, err
	}
	if r, err = notice(tx, r); err != nil {
		return nil, nil, err
	}
	_, refused = r.judge(tx.Now(), Superseded, actor, Decision{Digest: digest})
	return r, refused, nil
}

// RefuseEdit notes an attempt to change a call that was refused: the request stays as it is.
func RefuseEdit(tx storage.Tx, r *Request, actor pawl.Actor, why string) error {
	return note(tx, r, actor, "approval.edit.refused", r.State, why)
}

// Replace supersedes a request by one for what the actor made of its call, in the Update that changes the operation: both
// are written, and the thread waits for the new one. The caller gives Operation, Call, View, Redaction, Diff and
// Editors. A call that was denied before is refused as [*DeniedError]; a request whose thread does not wait any more as [*DecidedError]. A refusal
// leaves everything as it is.
func Replace(tx storage.Tx, eng *pawl.Engine, old *Request, made Request, actor pawl.Actor, reason string) (r *Request, refused, err error) {
	no, found, err := Remembered(tx, old.Tenant, old.Effect, old.Ref, made.Call)
	if err != nil {
		return nil, nil, err
	}
	if found {
		return nil, &DeniedError{Request: *no}, nil
	}
	next := *old
	next.Operation, next.Call, next.View, next.Redaction, next.Diff = made.Operation, made.Call, made.View, made.Redaction, made.Diff
	next.Editor, next.Editors, next.Instead, next.Why = actor.ID, made.Editors, old.ID, fmt.Sprintf("changed by %q", actor.ID)
	if reason != "" {
		next.Why += ": " + reason
	}
	if err := next.complete(); err != nil {
		return nil, nil, err
	}
	err = next.open(tx, 1, actor, func() (string, error) {
		return eng.ReplaceTx(tx, old.Wait, pawl.Wait{Body: next.View, Digest: next.Call, Due: next.Due})
	})
	if refused := left(old, err); refused != nil {
		return nil, refused, old.over(tx, refused)
	}
	if err != nil {
		return nil, nil, err
	}
	_, err = change(tx, old, Superseded, actor, func(r *Request) { r.Unused = next.Why + "; see " + next.ID })
	return &next, nil, err
}
