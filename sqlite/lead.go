package sqlite

import (
	"cmp"
	"context"

	"github.com/pawl-dev/pawl/storage"
)

// Update runs fn at once if nobody else writes, else it hands fn to the writer and waits. See [storage.DB].
func (db *DB) Update(ctx context.Context, fn func(ctx context.Context, tx storage.Tx) error) error {
	if err := db.enter(ctx); err != nil {
		return err
	}
	defer db.running.Done()
	j := &job{until: ctx, ctx: inside(ctx), fn: fn, alone: storage.IsAlone(ctx)}
	w := db.writer
	if w.lead(j) {
		return j.err
	}
	j.done = make(chan struct{})
	w.mu.Lock()
	w.queue = append(w.queue, j)
	w.mu.Unlock()
	w.nudge()
	select {
	case <-j.done:
	case <-ctx.Done():
		if j.taken.CompareAndSwap(false, true) {
			return notStarted(ctx.Err())
		}
		<-j.done
	}
	return j.err
}

// lead runs a job at once, on its caller's goroutine and in a transaction of its own, when nobody else writes: a lone
// caller pays for no hand-over. False leaves the job to the writer's goroutine, behind which its caller can give up
// waiting.
func (w *writer) lead(j *job) bool {
	w.mu.Lock()
	busy := w.leading || w.shared || w.looking || w.closing || len(w.queue) > 0
	w.leading = w.leading || !busy
	w.mu.Unlock()
	if busy {
		return false
	}
	over := false
	defer func() {
		if !over { // the function ended this goroutine
			w.current = nil
			w.rollback()
		}
		w.yield()
	}()
	in, err := w.start(false)
	if in {
		j.taken.Store(true)
		w.together(j, true)
		w.db.wal.pause(w)
	}
	over = true
	j.err = cmp.Or(j.err, err)
	return in || err != nil
}

// rest gives the lead up until there is something to do for the goroutine.
func (w *writer) rest() {
	w.yield()
	for {
		<-w.wake
		w.mu.Lock()
		free := !w.leading
		w.leading = true
		w.mu.Unlock()
		if free {
			return
		}
	}
}

// yield ends a lead. Whatever came up meanwhile is for the goroutine.
func (w *writer) yield() {
	w.mu.Lock()
	w.leading = false
	due := len(w.queue) > 0 || w.looking || w.closing
	w.mu.Unlock()
	if due {
		w.nudge()
	}
}
