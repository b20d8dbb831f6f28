package pawltest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/storage"
	"github.com/pawl-dev/pawl/storage/fault"
)

// Store is a home whose writes end when the test says so. It is safe for concurrent use. Until Freeze it lets
// everything pass.
type Store struct {
	*fault.DB
	place fault.Place

	mu     sync.Mutex
	frozen bool
	held   []*fault.Gate
	more   chan struct{} // closed and renewed when a write is held
}

// Slow returns a store over a home that, once frozen, acknowledges a write only when told: it is on disk, others see
// it, and who wrote it does not know yet.
func Slow(home storage.DB) *Store { return newStore(home, fault.After) }

// Stuck returns a store over a home that, once frozen, begins a write only when told: nothing of it is on disk.
func Stuck(home storage.DB) *Store { return newStore(home, fault.Before) }

// Delayed returns a home whose writes take a fixed time each, beside others: a disk with group commit. Inside a
// synctest bubble the time is virtual.
func Delayed(home storage.DB, each time.Duration) *fault.DB {
	return fault.Wrap(home, fault.Plan{Delay: each})
}

func newStore(home storage.DB, place fault.Place) *Store {
	s := &Store{place: place, more: make(chan struct{})}
	s.DB = fault.Wrap(home, fault.Plan{At: s.at})
	return s
}

func (s *Store) at(p fault.Point) fault.Action {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.frozen || p.Place != s.place {
		return fault.Action{}
	}
	gate := fault.NewGate()
	s.held = append(s.held, gate)
	close(s.more)
	s.more = make(chan struct{})
	return fault.Hold(gate)
}

// Freeze holds every write from now on.
func (s *Store) Freeze() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.frozen = true
}

// Held waits until at least n writes are held.
func (s *Store) Held(ctx context.Context, n int) error {
	for {
		s.mu.Lock()
		have, more := len(s.held), s.more
		s.mu.Unlock()
		if have >= n {
			return nil
		}
		select {
		case <-more:
		case <-ctx.Done():
			return fmt.Errorf("pawltest: %d of %d writes are held: %w", have, n, context.Cause(ctx))
		}
	}
}

// Ack lets up to n held writes go, the oldest first, and returns how many there were.
func (s *Store) Ack(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n = min(n, len(s.held))
	for _, gate := range s.held[:n] {
		gate.Release()
	}
	s.held = s.held[n:]
	return n
}

// Thaw lets all held writes go and holds no more.
func (s *Store) Thaw() {
	s.mu.Lock()
	s.frozen = false
	s.mu.Unlock()
	s.Ack(int(^uint(0) >> 1))
}
