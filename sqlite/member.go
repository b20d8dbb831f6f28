package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/google/uuid"

	"github.com/pawl-dev/pawl/storage"
)

// member is alive while its file is locked. The operating system ends the lock with the process, and keeps it while the
// process is busy or stopped.
type member struct {
	db   *DB
	id   string
	file *os.File
	once sync.Once
	err  error
}

func (db *DB) memberDir() string { return db.path + "-members" }

func (db *DB) memberFile(id string) string { return filepath.Join(db.memberDir(), id+".lock") }

// Join locks a file for a new member and removes the files of dead ones.
func (db *DB) Join(ctx context.Context) (storage.Member, error) {
	if err := db.enter(ctx); err != nil {
		return nil, err
	}
	defer db.running.Done()
	if err := os.MkdirAll(db.memberDir(), 0o700); err != nil {
		return nil, fmt.Errorf("storage: no member joined: %w", err)
	}
	db.sweep()
	id, err := uuid.NewRandom()
	if err != nil {
		return nil, fmt.Errorf("storage: no member joined: %w", err)
	}
	m := &member{db: db, id: id.String()}
	if m.file, err = lockNew(db.memberFile(m.id)); err != nil {
		return nil, fmt.Errorf("storage: no member joined: %w", err)
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	db.members[m.id] = m
	return m, nil
}

// lockNew creates and locks a file. A sweep may take the file for a dead member's between the two; then it is created
// again.
func lockNew(path string) (*os.File, error) {
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, err
		}
		if err := lock(f, exclusive); err != nil {
			return nil, errors.Join(err, f.Close())
		}
		mine, err := f.Stat()
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		if there, err := os.Stat(path); err == nil && os.SameFile(mine, there) {
			return f, nil
		}
		f.Close()
	}
}

func (m *member) ID() string { return m.id }

func (m *member) Close() error {
	m.release()
	return m.err
}

// release removes the file before it unlocks it: whoever looks meanwhile finds the member dead either way.
func (m *member) release() {
	m.once.Do(func() {
		m.db.mu.Lock()
		delete(m.db.members, m.id)
		m.db.mu.Unlock()
		if err := os.Remove(m.file.Name()); !errors.Is(err, fs.ErrNotExist) {
			m.err = err
		}
		m.err = errors.Join(m.err, m.file.Close())
	})
}

func (db *DB) memberList() []*member {
	db.mu.Lock()
	defer db.mu.Unlock()
	var out []*member
	for _, m := range db.members {
		out = append(out, m)
	}
	return out
}

// alive says whether a member lives: one of this home, or one whose file is locked. The file of a dead one is removed.
// Doubt is an error, never a death.
func (db *DB) alive(id string) (bool, error) {
	db.mu.Lock()
	mine := db.members[id] != nil
	db.mu.Unlock()
	if mine {
		return true, nil
	}
	if uuid.Validate(id) != nil {
		return false, nil // not an id that Join gives
	}
	path := db.memberFile(id)
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("storage: cannot tell whether member %s lives: %w", id, err)
	}
	defer f.Close()
	// A shared lock, so that two who look at once do not take each other for the owner.
	free, err := tryLock(f)
	if err != nil {
		return false, fmt.Errorf("storage: cannot tell whether member %s lives: %w", id, err)
	}
	if free {
		os.Remove(path) // best effort: the next look or Join tries again
	}
	return !free, nil
}

// sweep removes the files of dead members that nobody asks about. Best effort.
func (db *DB) sweep() {
	entries, err := os.ReadDir(db.memberDir())
	if err != nil {
		return
	}
	for _, e := range entries {
		if id, ok := strings.CutSuffix(e.Name(), ".lock"); ok {
			_, _ = db.alive(id)
		}
	}
}
