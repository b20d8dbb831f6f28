package approval

import (
	"context"
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/storage"
)

// Filter chooses requests. Its zero value chooses all.
type Filter struct {
	State  State // as the clock shows it
	Thread string
	To     string // asked of this group or actor: at a level that was reached
	Limit  int    // at most; 0: all
}

// List returns the tenant's requests that a filter chooses, as the clock shows them: with a State those that end first
// before the others, else by id.
func (d *Desk) List(ctx context.Context, f Filter) ([]Request, error) {
	if err := d.eng.Allowed(ctx, pawl.VerbInfo{Verb: pawl.VerbRead, Thread: f.Thread}); err != nil {
		return nil, err
	}
	var out []Request
	err := d.db.View(ctx, func(_ context.Context, tx storage.Tx) error {
		got := []Request{}
		for _, q := range f.queries(d.eng.TenantName()) {
			rows, err := tx.List(kind, q)
			if err != nil {
				return err
			}
			for _, row := range rows {
				if f.Limit > 0 && len(got) == f.Limit {
					break
				}
				if f.Thread != "" && row.Fields[colThread] != f.Thread {
					continue
				}
				r, err := get(tx, row.Key[0].(string), row.Key[1].(string))
				if err != nil {
					return err
				}
				if seen := r.seen(tx.Now()); (f.State == "" || seen.State == f.State) && (f.To == "" || slices.Contains(seen.Asked(), f.To)) {
					got = append(got, seen)
				}
			}
		}
		out = got
		return nil
	})
	return out, err
}

// queries are the index ranges in which everything chosen lies. What is past its time is stored as what it was.
func (f Filter) queries(tenant string) []storage.Query {
	by := func(index string, prefix ...any) storage.Query {
		return storage.Query{Index: index, Range: storage.Range{Prefix: append([]any{tenant}, prefix...)}, NoBody: true}
	}
	var out []storage.Query
	switch {
	case f.State != "":
		out = append(out, by("by_state", string(f.State)))
		if was := map[State]State{Expired: Requested, Lapsed: Granted}[f.State]; was != "" {
			out = append(out, by("by_state", string(was)))
		}
	case f.Thread != "":
		out = append(out, by("by_thread", f.Thread))
	default:
		out = append(out, by(""))
	}
	return out
}

// Show returns one request, as the clock shows it, with what the clock made of it written down. The first time that an
// actor looks is a line in the trail: who saw which view, under which redaction. An id that the tenant does not have matches
// [pawl.ErrNotFound].
func (d *Desk) Show(ctx context.Context, id string) (*Request, error) {
	if err := d.eng.Allowed(ctx, pawl.VerbInfo{Verb: pawl.VerbRead, Question: id}); err != nil {
		return nil, err
	}
	tenant, actor := d.eng.TenantName(), pawl.ActorFrom(ctx)
	var out *Request
	news := false
	err := d.db.View(ctx, func(_ context.Context, tx storage.Tx) error {
		r, err := get(tx, tenant, id)
		if err != nil {
			return err
		}
		known := actor.ID == ""
		if !known {
			_, known, err = tx.Get(views, tenant, id, actor.ID)
		}
		seen := r.seen(tx.Now())
		out, news = &seen, !known
		return err
	})
	if err != nil || !news {
		return out, err
	}
	err = d.db.Update(ctx, func(_ context.Context, tx storage.Tx) error {
		r, err := get(tx, tenant, id)
		if err == nil {
			r, err = notice(tx, r)
		}
		if err != nil {
			return err
		}
		seen := r.seen(tx.Now())
		out = &seen
		first, err := tx.Put(views, storage.Row{Key: []any{tenant, id, actor.ID}}, storage.Absent())
		if err != nil || !first {
			return err
		}
		return note(tx, r, actor, "approval.viewed", r.State, "redaction "+r.Redaction)
	})
	if err != nil {
		return nil, fmt.Errorf("approval: that %q looks at %s was not written down, so it is not shown: %w", actor.ID, id, err)
	}
	return out, nil
}
