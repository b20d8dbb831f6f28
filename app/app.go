// Package app wires what most programs want: an engine over a database with effects, approvals, audit and redaction, and
// a command line around it.
//
//	func main() { app.Main(graph) }
//
// makes a program that starts, resumes and forks runs of the graph, and reads, answers, approves, cancels and deletes its
// threads. A server of one's own opens the same database:
//
//	a, err := app.Open(ctx, "pawl.db", graph)
//	out, err := graph.Thread(a.Engine, "order-17").Run(ctx, &State{})
package app

import (
	"context"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/approval"
	"github.com/pawl-dev/pawl/effect"
	"github.com/pawl-dev/pawl/internal/house"
	"github.com/pawl-dev/pawl/storage"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/worker"
)

// App is an engine with all parts over a database that is open. It is safe for concurrent use.
type App struct {
	*pawl.Engine
	// DB is the engine's database. Close closes it.
	DB storage.DB
	// Ledger is the part that keeps effects.
	Ledger *effect.Ledger

	house *house.House
}

// Open opens a database and an engine over it, with the graphs registered. dsn is a file, sqlite:FILE, or memory: for a
// database that ends with the process. A file that is not there is made.
//
// The defaults are safe ones. Questions and calls are stored and shown redacted (see package redact). Parameters and
// receipts of effects are encrypted under a key in the file beside the database, FILE.key, which is made readable by its
// owner alone: keep it, and keep it apart from backups. Approvals are decided at Approvals, doubts settled at Effects,
// and both leave an audit trail. Everything inside the database is allowed to whoever has the App.
//
// ctx counts for the opening only. Close the App when no run is wanted any more.
func Open(ctx context.Context, dsn string, graphs ...pawl.Registrable) (*App, error) {
	h, err := house.Open(ctx, dsn, graphs...)
	if err != nil {
		return nil, err
	}
	return &App{Engine: h.Engine, DB: h.DB, Ledger: h.Ledger, house: h}, nil
}

// Approvals is the desk where calls are approved and rejected, for the tenant without a name. For another one make
// approval.NewDesk(a.Tenant(name), a.DB).
func (a *App) Approvals() *approval.Desk { return approval.NewDesk(a.Engine, a.DB) }

// Effects is the desk where operations are looked at and doubts settled, for the tenant without a name. For another one
// make a.Ledger.Desk(a.Tenant(name), a.DB).
func (a *App) Effects() *effect.Desk { return a.Ledger.Desk(a.Engine, a.DB) }

// Memory is what threads remember together, for the tenant without a name; nodes reach it by store.From. It searches by
// filter: for search by meaning wire an engine with store.Options of your own. For another tenant see store.Memory.Of.
func (a *App) Memory() *store.Store { return a.house.Memory.Of(a.Engine, a.DB) }

// Worker makes what fires due times of these tenants, or of the one without a name: questions that nobody answered in
// time, approvals that escalate or end, and the order of the audit trail. Run it beside your own code, in one process or
// in several:
//
//	go a.Worker(nil).Run(ctx)
//
// Nothing depends on it: without one a due time is judged when somebody looks.
func (a *App) Worker(o *worker.Options, tenants ...string) *worker.Worker {
	return a.house.Worker(o, tenants...)
}

// Close stops the runs of this process, waits for their tasks, and closes the database. What was done is kept. Closing
// again is a no-op.
func (a *App) Close() error { return a.house.Close() }
