package local

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawl-dev/pawl/storage"
)

// letGo frees a thread that this member holds at an epoch.
func (s *Store) letGo(ctx context.Context, thread, epoch int64) error {
	return s.DB.Update(ctx, func(_ context.Context, tx storage.Tx) error {
		if lease, ok, err := tx.Lease(thread, storage.Look, ""); err != nil || !ok || lease.Epoch != epoch {
			return err
		}
		_, _, err := tx.Lease(thread, storage.Drop, s.Member)
		return err
	})
}

// owe remembers a thread that could not be let go: nobody runs it, and as long as this member lives nobody else may.
func (s *Store) owe(thread, epoch int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.owed == nil {
		s.owed = map[int64]int64{}
	}
	s.owed[thread] = epoch
}

// Owes says whether there are such threads.
func (s *Store) Owes() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.owed) > 0
}

// PayUp lets go what is owed, as far as it can be written by now: the next verb, and the watcher of a running engine, ask
// again. A closed home owes nothing: its members are dead.
func (s *Store) PayUp(ctx context.Context) error {
	s.mu.Lock()
	owed := make(map[int64]int64, len(s.owed))
	for thread, epoch := range s.owed {
		owed[thread] = epoch
	}
	s.mu.Unlock()
	for thread, epoch := range owed {
		err := s.letGo(ctx, thread, epoch)
		if err != nil && !errors.Is(err, storage.ErrClosed) {
			return fmt.Errorf("pawl: a run that broke off here could not be let go: %w; nothing was changed; try again", err)
		}
		s.mu.Lock()
		if s.owed[thread] == epoch {
			delete(s.owed, thread)
		}
		s.mu.Unlock()
	}
	return nil
}
