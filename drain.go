package pawl

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/internal/records"
	"github.com/pawl-dev/pawl/storage"
)

// DrainingError: this version of the graph takes no new runs any more. Nothing was started. Runs that it has go on.
type DrainingError struct {
	Thread  string
	Graph   string
	Version string
	By      string
	At      time.Time
	Reason  string
}

// Error says what was refused, and what to do.
func (e *DrainingError) Error() string {
	s := fmt.Sprintf("pawl: thread %q: graph %s@%.8s takes no new runs since %s", e.Thread, e.Graph, e.Version, e.At.Format(time.RFC3339))
	if e.By != "" {
		s += fmt.Sprintf(" (by %q)", e.By)
	}
	if e.Reason != "" {
		s += ": " + e.Reason
	}
	return s + "; nothing was started; send it to a program of the new version"
}

// Drain marks a version of a graph, by its digest: new runs and retries under it are refused with a *DrainingError from
// now on, in every process, and the runs that it has go on until they are over. Versions tells how many are left.
// Marking it again changes nothing but the reason. A mark is of the engine's tenant.
func (e *Engine) Drain(ctx context.Context, graph, version, reason string) error {
	return e.drained(ctx, VerbInfo{Graph: graph, From: version, To: "drained", Reason: reason}, func(tx storage.Tx) error {
		row, err := e.store.Box.DrainRow(&records.DrainInfo{
			Tenant: e.tenant, Graph: graph, Version: version, By: ActorFrom(ctx).ID, Reason: reason, At: tx.Now(),
		})
		if err != nil {
			return err
		}
		_, err = tx.Put(records.Drain, row, storage.Always())
		return err
	})
}

// Undrain takes the mark of a version away. Without one it does nothing.
func (e *Engine) Undrain(ctx context.Context, graph, version, reason string) error {
	return e.drained(ctx, VerbInfo{Graph: graph, From: version, To: "open", Reason: reason}, func(tx storage.Tx) error {
		_, err := tx.Delete(records.Drain, storage.Range{Prefix: []any{e.tenant, graph, version}})
		return err
	})
}

// drained changes a mark and lets the parts know, in one Update.
func (e *Engine) drained(ctx context.Context, v VerbInfo, mark func(storage.Tx) error) (err error) {
	v.Verb = VerbDrain
	defer e.refused(ctx, v, &err)
	if err := e.allowed(ctx, v); err != nil {
		return err
	}
	if e.store == nil {
		return &NoStorageError{Graph: v.Graph, Question: string(VerbDrain)}
	}
	if v.Graph == "" || v.From == "" {
		return errors.New("pawl: drain needs a graph's name and the whole digest of a version, as Versions lists them; nothing was changed")
	}
	v.Actor, v.Tenant = ActorFrom(ctx), e.tenant
	return e.store.UpdateIn(ctx, func(ctx context.Context, tx storage.Tx) error {
		if err := mark(tx); err != nil {
			return err
		}
		_, err := e.consent(ctx, tx, v)
		return err
	})
}

// flowing refuses a new run under a version that is drained, inside the Update that would start it, and then asks do.
func (t *Thread) flowing(version string, do func(context.Context, storage.Tx) error) func(context.Context, storage.Tx) error {
	return func(ctx context.Context, tx storage.Tx) error {
		row, drained, err := tx.Get(records.Drain, t.eng.tenant, t.graph, version)
		if err != nil {
			return err
		}
		if drained {
			d, err := t.eng.store.Box.ReadDrain(row)
			if err != nil {
				return err
			}
			return &DrainingError{Thread: t.id, Graph: d.Graph, Version: d.Version, By: d.By, At: d.At, Reason: d.Reason}
		}
		if do == nil {
			return nil
		}
		return do(ctx, tx)
	}
}
