package sqlite

import (
	"sync"
	"time"
)

// lookEvery is how often a home that somebody watches looks for commits of other processes.
const lookEvery = 25 * time.Millisecond

// watch counts commits and wakes those who wait for one. While a wake channel is out it has other processes' commits
// looked for; the goroutine that does so ends soon after nobody waits, and at close.
type watch struct {
	look func() // asks for a look; must not wait

	mu      sync.Mutex
	now     uint64
	wake    chan struct{}
	waited  bool // wake was given out
	looking bool
	closed  bool
	stop    chan struct{}
	looker  sync.WaitGroup
}

func newWatch(look func()) *watch {
	return &watch{look: look, wake: make(chan struct{}), stop: make(chan struct{})}
}

// Changed returns a closed channel after Close, so that nobody waits for ever. See [storage.DB].
func (db *DB) Changed(since uint64) (uint64, <-chan struct{}) {
	w := db.watch
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.now > since {
		past := make(chan struct{})
		close(past)
		return w.now, past
	}
	if !w.closed && !w.looking {
		w.looking = true
		w.looker.Go(w.run)
	}
	w.waited = true
	return w.now, w.wake
}

func (w *watch) bump() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now++
	if w.waited && !w.closed {
		close(w.wake)
		w.wake, w.waited = make(chan struct{}), false
	}
}

func (w *watch) run() {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-w.stop:
			return
		}
		w.mu.Lock()
		looking := w.waited
		w.looking = looking
		w.mu.Unlock()
		if !looking {
			return // from here on Changed may start another
		}
		w.look()
	}
}

func (w *watch) close() {
	w.mu.Lock()
	w.closed = true
	close(w.stop)
	close(w.wake)
	w.mu.Unlock()
	w.looker.Wait()
}
