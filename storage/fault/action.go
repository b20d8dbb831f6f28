package fault

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Action is what happens to a call at a point. The zero Action lets it pass.
type Action struct {
	do func(ctx context.Context, d *DB) error
}

// Fail makes the call return err. After an Update's commit it is returned inside a [*storage.UnknownError], because
// any other error would say that nothing was written.
func Fail(err error) Action {
	return Action{func(context.Context, *DB) error { return err }}
}

// Hold keeps the call until g is released, and then lets it pass. Before the function runs, the call also ends with
// its context, and then nothing is written; after the commit it waits whatever its context says.
func Hold(g *Gate) Action {
	return Action{func(ctx context.Context, d *DB) error {
		g.arrive()
		return wait(ctx, d, g.released)
	}}
}

// Delay keeps the call for a time, as Hold does.
func Delay(t time.Duration) Action {
	return Action{func(ctx context.Context, d *DB) error { return d.sleep(ctx, t) }}
}

// Do calls f, for example to kill the process, and lets the call pass if f returns.
func Do(f func()) Action {
	return Action{func(context.Context, *DB) error {
		f()
		return nil
	}}
}

// Stop stops the DB there, as if the process had died. See [DB.Stop].
func Stop() Action {
	return Action{func(_ context.Context, d *DB) error {
		d.Stop()
		return ErrStopped
	}}
}

// wait waits for an event, the end of ctx, or Stop.
func wait[T any](ctx context.Context, d *DB, event <-chan T) error {
	select {
	case <-event:
		return d.alive()
	case <-d.stopped:
		return ErrStopped
	case <-ctx.Done():
		return fmt.Errorf("fault: ended while held: %w", ctx.Err())
	}
}

func (d *DB) sleep(ctx context.Context, t time.Duration) error {
	if t <= 0 {
		return nil
	}
	timer := time.NewTimer(t)
	defer timer.Stop()
	return wait(ctx, d, timer.C)
}

// Gate holds calls until it is released.
type Gate struct {
	reached, released chan struct{}
	once, onceOpen    sync.Once
}

// NewGate returns a gate that is shut.
func NewGate() *Gate { return &Gate{reached: make(chan struct{}), released: make(chan struct{})} }

// Reached is closed when the first call stands at the gate.
func (g *Gate) Reached() <-chan struct{} { return g.reached }

// Release opens the gate for good.
func (g *Gate) Release() { g.onceOpen.Do(func() { close(g.released) }) }

func (g *Gate) arrive() { g.once.Do(func() { close(g.reached) }) }
