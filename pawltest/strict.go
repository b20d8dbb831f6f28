package pawltest

import (
	"context"
	"slices"
	"sync"

	"github.com/pawl-dev/pawl"
)

// Outgoing is one call that left the program under test.
type Outgoing struct {
	Place string // "node", "step", "effect", or empty for what no task made; see pawl.Place
	What  string // "POST https://bank.example/pay", "exec insert into orders"
}

// Watch sees what leaves the program under test: HTTP through a [Transport], SQL through a [Driver] or [Connector], and
// what is sent to a [Target]. It keeps what it saw, and tells the engine, so that a strict one (see [New]) fails a node
// that calls out above a question, outside a step or an effect, with a *pawl.UnfencedCallError that names node, call and
// question. Such a call would go out again when the node runs again with the answer.
//
// What it cannot see: a client without the Transport and a database without the Driver; files, processes, sockets and
// clocks; a call whose context is not the node's (http.Get, db.Query, context.Background()), which counts as made by no
// task; the statements of a transaction after its BeginTx, which counts for all of them; and whether a call changes
// anything: reads count, too, because what they return may be another answer the next time.
//
// The zero Watch is ready to use. It is safe for concurrent use.
type Watch struct {
	mu   sync.Mutex
	seen []Outgoing
}

// Seen is everything that left so far, the oldest first.
func (w *Watch) Seen() []Outgoing {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.seen)
}

// note is called before something leaves. A nil Watch only tells the engine.
func (w *Watch) note(ctx context.Context, what string) {
	pawl.CalledOut(ctx, what)
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = append(w.seen, Outgoing{pawl.Place(ctx), what})
}
