package effect

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/storage"
)

// VerbReconcile is asked of Options.Allow before a doubt is settled by a look-up from outside a run, and before a
// restored ledger is declared reconciled.
const VerbReconcile pawl.Verb = "reconcile"

// restored is the kind of restore epochs (of the whole home) and of what closes them (for a tenant).
const restored = "restore"

// epoch is a restore epoch.
type epoch struct {
	Taken  time.Time `json:"taken"`
	At     time.Time `json:"at"`
	By     string    `json:"by,omitempty"`
	Reason string    `json:"reason,omitempty"`
}

// MarkRestored opens a restore epoch: the home was put back to a backup that was taken at that time, so operations that
// were dispatched since are missing. It is for the tool that restores, in an Update on the restored home before anything
// runs on it. Until [Desk.Reconciled] closes the epoch, tenant by tenant, nothing is sent anew ([*RestoredError]) to a target
// that has no keys of its own, nor what people approve: they may have changed the call since, and with it the key. Without
// approval, a target that has keys is sent to, while it still remembers what it was sent after the backup: operation keys
// are a function of tenant, effect, reference, revision, parameters and policy, so it answers with the old receipt.
func MarkRestored(tx storage.Tx, taken time.Time, by pawl.Actor, reason string) error {
	last, _, err := lastRestore(tx)
	if err != nil {
		return err
	}
	body, err := pack(epoch{Taken: taken.UTC(), At: tx.Now().UTC(), By: by.ID, Reason: reason})
	if err != nil {
		return err
	}
	held, err := tx.Put(restored, storage.Row{Key: []any{"", "restored", last + 1}, Body: body}, storage.Absent())
	if err == nil && !held {
		err = errMoved
	}
	return errors.Join(err, audit.Write(tx, audit.Row{
		Actor: by, Action: "effect.restored", After: "restored", Reason: fmt.Sprintf("backup of %s: %s", taken.UTC().Format(time.RFC3339), reason),
	}))
}

// lastRestore is the newest restore epoch; 0: the home was never restored.
func lastRestore(tx storage.Tx) (n int64, e epoch, err error) {
	rows, err := tx.List(restored, storage.Query{Range: storage.Range{Prefix: []any{"", "restored"}}, Desc: true, Limit: 1})
	if err != nil || len(rows) == 0 {
		return 0, e, err
	}
	n = rows[0].Key[2].(int64)
	return n, e, unpack(restored, fmt.Sprint(n), rows[0].Body, &e)
}

// openRestore is the restore epoch that a tenant has not closed; 0: there is none.
func openRestore(tx storage.Tx, tenant string) (int64, epoch, error) {
	n, e, err := lastRestore(tx)
	if err != nil || n == 0 {
		return 0, e, err
	}
	_, closed, err := tx.Get(restored, tenant, "reconciled", n)
	if closed {
		n = 0
	}
	return n, e, err
}

// reconciled says whether T3 may go on: no restore epoch is open, or the target would recognise the key.
func (w *doing) reconciled(tx storage.Tx, now time.Time) (bool, error) {
	n, e, err := openRestore(tx, w.info.Tenant)
	if err != nil || n == 0 {
		return n == 0, err
	}
	if w.d.inside != nil { // it was restored, too
		return true, nil
	}
	return len(w.d.levels) == 0 && (&Operation{First: e.Taken}).sendable(w.d.keys, now), nil // a call that people may change has a key that they may have changed
}

// Restore is an open restore epoch.
type Restore struct {
	Number int64     // counts the restores of the home
	Taken  time.Time // the backup
	At     time.Time // the restore
	By     string
	Reason string
}

// Restored tells about the restore epoch that the tenant has not closed; nil: none.
func (d *Desk) Restored(ctx context.Context) (*Restore, error) {
	if err := d.eng.Allowed(ctx, pawl.VerbInfo{Verb: pawl.VerbRead}); err != nil {
		return nil, err
	}
	var out *Restore
	err := d.db.View(ctx, func(_ context.Context, tx storage.Tx) error {
		n, e, err := openRestore(tx, d.eng.TenantName())
		if out = nil; err == nil && n > 0 {
			out = &Restore{n, e.Taken, e.At, e.By, e.Reason}
		}
		return err
	})
	return out, err
}

// Reconciled closes the tenant's restore epoch: a person has compared the ledger with the targets since the backup, and
// recorded what was missing. Dispatches go on. It returns the epoch; nil: none was open, and nothing was changed.
func (d *Desk) Reconciled(ctx context.Context, reason string) (*Restore, error) {
	if err := d.eng.Allowed(ctx, pawl.VerbInfo{Verb: VerbReconcile}); err != nil {
		return nil, err
	}
	actor, err := decider(ctx, reason)
	if err != nil {
		return nil, err
	}
	var out *Restore
	tenant := d.eng.TenantName()
	err = d.db.Update(ctx, func(_ context.Context, tx storage.Tx) error {
		out = nil
		n, e, err := openRestore(tx, tenant)
		if err != nil || n == 0 {
			return err
		}
		body, err := pack(map[string]string{"by": actor.ID, "reason": reason})
		if err != nil {
			return err
		}
		held, err := tx.Put(restored, storage.Row{Key: []any{tenant, "reconciled", n}, Body: body}, storage.Absent())
		if err != nil || !held {
			return err
		}
		out = &Restore{n, e.Taken, e.At, e.By, e.Reason}
		return audit.Write(tx, audit.Row{
			Tenant: tenant, Actor: actor, Action: "effect.reconciled", Before: "restored", After: "reconciled", Reason: reason,
		})
	})
	return out, err
}

// RestoredError: the ledger was put back to a backup, so it may not know that the operation was sent already. Nothing was
// sent.
type RestoredError struct {
	Effect string
	Ref    Reference
	Target string // what the target promises
}

// Error says what holds it back, and what to do.
func (e *RestoredError) Error() string {
	return fmt.Sprintf("effect %q %s: the ledger was restored from a backup and may not know what was sent since, and it is not certain "+
		"that the target (%s) would recognise it; nothing was sent; compare the ledger with the target, then close the restore at the effect desk", e.Effect, e.Ref, e.Target)
}
