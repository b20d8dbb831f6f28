package sqlite

import (
	"errors"
	"os"
)

// turnstile lets the writers of several processes through one at a time and in turn. SQLite's own write lock is polled,
// so a busy process would starve the others.
//
// A writer holds the door while it waits for the room and lets go of it once inside. Whoever leaves the room and wants
// back in finds the door held by the next one, so it cannot overtake.
type turnstile struct{ door, room *os.File }

func newTurnstile(path string) (*turnstile, error) {
	t := &turnstile{}
	var err error
	if t.door, err = os.OpenFile(path+"-turn", os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return nil, err
	}
	if t.room, err = os.OpenFile(path+"-write", os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return nil, errors.Join(err, t.door.Close())
	}
	return t, nil
}

// enter says whether this process is in: one that may not wait can be refused.
func (t *turnstile) enter(wait bool) (in bool, err error) {
	take := tryLock
	if wait {
		take = waitLock
	}
	if in, err = take(t.door, exclusive); !in || err != nil {
		return false, err
	}
	in, err = take(t.room, exclusive)
	if e := unlock(t.door); err == nil {
		err = e
	}
	return in, err
}

func waitLock(f *os.File, mode lockMode) (bool, error) { return true, lock(f, mode) }

func (t *turnstile) leave() error { return unlock(t.room) }

func (t *turnstile) close() {
	t.door.Close()
	t.room.Close()
}
