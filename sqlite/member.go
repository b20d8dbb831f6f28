package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/google/uuid"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/pawl-dev/pawl/storage"
)

// member is alive while its file is locked. The operating system ends the lock with the process, and keeps it while the
// process is busy or stopped.
//
// An unlocked file is the proof of a death. It stays as long as a lease may name its member, so a file that is missing
// was taken away by somebody else and proves nothing: whoever it belongs to counts as alive, and its threads stay its
// own, until a process opens the home that nobody else has open.
type member struct {
	db   *DB
	id   string
	file *os.File
	took bool // a lease may name it; guarded by db.mu, as is the removing of the file
	once sync.Once
	err  error
}

func (db *DB) memberDir() string { return db.path + "-members" }

func (db *DB) memberFile(id string) string { return filepath.Join(db.memberDir(), id+".lock") }

// Join buries the dead and locks a file for a new member.
func (db *DB) Join(ctx context.Context) (storage.Member, error) {
	if err := db.enter(ctx); err != nil {
		return nil, err
	}
	defer db.running.Done()
	if err := os.MkdirAll(db.memberDir(), 0o700); err != nil {
		return nil, fmt.Errorf("storage: no member joined: %w", err)
	}
	db.bury(ctx)
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

// lockNew creates and locks a file. Somebody may take it for a dead member's between the two and remove it; then it is
// created again.
func lockNew(path string) (*os.File, error) {
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, err
		}
		if err := lock(f, exclusive); err != nil {
			return nil, errors.Join(err, f.Close())
		}
		if isAt(f, path) {
			return f, nil
		}
		f.Close()
	}
}

// isAt says whether path still leads to an open file.
func isAt(f *os.File, path string) bool {
	mine, err := f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(path)
	return err == nil && os.SameFile(mine, there)
}

func (m *member) ID() string { return m.id }

func (m *member) Close() error {
	m.release()
	return m.err
}

// release unlocks the file, and removes it first when no lease can name the member. Closing it would not do: a process that
// is being started from this one has a copy of the file until it is another program, and would keep the lock.
func (m *member) release() {
	m.once.Do(func() {
		m.db.mu.Lock()
		delete(m.db.members, m.id)
		if !m.took {
			if err := os.Remove(m.file.Name()); !errors.Is(err, fs.ErrNotExist) {
				m.err = err
			}
		}
		m.db.mu.Unlock()
		m.err = errors.Join(m.err, unlock(m.file), m.file.Close())
	})
}

// names notes that a lease is about to name a member, which then leaves its file behind. One that is closed already gets
// it back.
func (db *DB) names(id string) error {
	db.mu.Lock()
	defer db.mu.Unlock()
	if m := db.members[id]; m != nil {
		m.took = true
		return nil
	}
	if uuid.Validate(id) != nil {
		return nil
	}
	f, err := os.OpenFile(db.memberFile(id), os.O_RDWR|os.O_CREATE, 0o600)
	if err == nil {
		err = f.Close()
	}
	return err
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

// alive says whether a member lives: one of this home, or one whose file is locked, or missing. Other doubt is an error,
// never a death.
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
	locked, err := locked(db.memberFile(id))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		db.missed(id)
		return true, nil
	case err != nil:
		return false, fmt.Errorf("storage: cannot tell whether member %s lives: %w", id, err)
	}
	return locked, nil
}

// locked says whether somebody has a file locked.
func locked(path string) (bool, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return false, err
	}
	defer f.Close()
	// A shared lock, so that two who look at once do not take each other for the owner.
	free, err := tryLock(f, shared)
	return !free, err
}

// missed tells people once what they can do about a file that was taken away.
func (db *DB) missed(id string) {
	db.mu.Lock()
	known := db.missing[id]
	db.missing[id] = true
	db.mu.Unlock()
	if !known {
		db.log().Warn("sqlite: the lock file of a member is gone; its threads count as running until every program that "+
			"has this home open closed it and one opens it again", "home", db.path, "member", id)
	}
}

// orphaned says whether a lease names a member whose file is missing.
func (db *DB) orphaned(c *conn) (found bool, err error) {
	err = c.rows("SELECT DISTINCT owner FROM lease WHERE owner<>''", nil, func(row []any) error {
		owner, _ := row[0].(string)
		_, err := os.Stat(db.memberFile(owner))
		found = found || errors.Is(err, fs.ErrNotExist)
		return nil
	})
	return found, err
}

// inherit frees all leases of a home that nobody else has open: their owners are dead, whatever became of their files.
// SQLite tells by a lock on the database itself, which every connection of every process holds. If it is refused, all
// stays as it is.
func (db *DB) inherit() error {
	c, err := dial(db.path, "rw", "busy_timeout=0", "locking_mode=EXCLUSIVE", "synchronous=FULL", "fullfsync=1")
	if err == nil {
		_, err = c.do("UPDATE lease SET owner='' WHERE owner<>''")
		err = errors.Join(err, c.close())
	}
	if code(err) == sqlite3.SQLITE_BUSY {
		return nil
	}
	return err
}
