package pawl

import (
	"context"
	"errors"
	"iter"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/records"
	"github.com/pawl-dev/pawl/storage"
)

// Fit says what a build of a graph can do with a stored thread.
type Fit string

// The fits.
const (
	FitGoesOn     Fit = "goes on"    // also: a thread that is over takes new input
	FitMigrate    Fit = "migrate"    // the build declares a migration that works on it
	FitPin        Fit = "pin"        // it needs a program of its own version, until it is over or a migration is written
	FitUnreadable Fit = "unreadable" // what is stored cannot be read
)

// Checked is what a build of a graph would do with one stored thread.
type Checked struct {
	Thread  string    `json:"thread"`
	Graph   string    `json:"graph"`
	Run     string    `json:"run,omitempty"`
	Status  Status    `json:"status"`
	Version string    `json:"version,omitempty"` // under which it stands
	Here    string    `json:"here"`              // the one of the build
	Fit     Fit       `json:"fit"`
	First   string    `json:"first,omitempty"`     // first difference that it can tell
	Changed int       `json:"changed,omitempty"`   // nodes that differ
	Why     string    `json:"why,omitempty"`       // why no migration works on it, or why it cannot be read
	Move    *Migrated `json:"migration,omitempty"` // what the migration would do, without what parts have to say
}

// Check tells for every thread of a graph, by id, what this build of it would do with it, before the build is deployed. It
// runs nothing and writes nothing, and g need not be registered. The threads are those of the engine's tenant.
func (e *Engine) Check(ctx context.Context, g Registrable) iter.Seq2[Checked, error] {
	return func(yield func(Checked, error) bool) {
		if g == nil {
			yield(Checked{}, errors.New("pawl: a nil graph was given to check; check the error of Build first"))
			return
		}
		d := g.erased().(mover)
		graph := d.Topology().Graph
		if err := e.allowed(ctx, VerbInfo{Verb: VerbRead, Graph: graph}); err != nil {
			yield(Checked{}, err)
			return
		}
		if e.store == nil {
			yield(Checked{}, &NoStorageError{Graph: graph, Question: string(VerbRead)})
			return
		}
		for seen, err := range e.sightings(ctx, graph) {
			if seen == nil || ctx.Err() != nil {
				yield(Checked{}, errors.Join(err, context.Cause(ctx)))
				return
			}
			c := Checked{Thread: seen.Info.ID, Graph: graph, Status: seen.Status, Here: core.GraphDigest(d.Topology()), Fit: FitGoesOn}
			if err == nil {
				err = e.check(ctx, d, &c)
			}
			if err != nil {
				c.Fit, c.Why = FitUnreadable, err.Error()
			}
			if !yield(c, nil) {
				return
			}
		}
	}
}

// check looks at one thread.
func (e *Engine) check(ctx context.Context, d mover, c *Checked) error {
	t := e.Thread(c.Graph, c.Thread)
	v := &view{}
	err := e.store.View(ctx, func(tx storage.Tx) error {
		seen, err := e.store.PeekTx(tx, e.tenant, c.Thread)
		if err != nil {
			return err
		}
		*v = view{Seen: seen}
		if seen.Head == nil || seen.Run == nil {
			return nil
		}
		c.Status, c.Run, c.Version = seen.Status, seen.Run.ID, core.GraphDigest(seen.Topology)
		r := records.NewReader(e.store.Box, tx, seen.Info)
		under, up := seen.Topology, core.Upgrader(nil)
		diff := strays(seen, d.Topology())
		if diff == nil {
			under, up = d.Topology(), d.Upgrade
		} else {
			c.Fit, c.First, c.Changed = FitPin, diff.String(), core.Changed(seen.Topology, d.Topology())
		}
		if err := r.Fill(seen.Head, under, up); err != nil {
			return err
		}
		v.from = seen.Head.Checkpoint
		return r.HangingUnder(v.from, under, up, &v.pos)
	})
	if err != nil || v.from == nil {
		return err
	}
	if c.Fit == FitGoesOn {
		return d.readable(v.from.Values)
	}
	mv, err := t.plan(VerbMigrate, v, d)
	if refused := (*MigrationError)(nil); errors.As(err, &refused) {
		c.Why = refused.Err.Error()
	}
	if err == nil {
		c.Fit, c.Move = FitMigrate, mv.report
	}
	return nil
}
