package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/google/uuid"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/pawl-dev/pawl/storage"
)

// Backup writes a copy of the home to a file that must not exist, while the home is in use: what was committed when it
// began, and nothing of what came later. The copy is read whole and on disk before it gets its name, so a file of that
// name is a good backup. It holds no keys: whatever is encrypted under a key outside of the home needs that key, too.
// ctx counts between the steps; copying itself takes time in proportion to the size of the home.
func (db *DB) Backup(ctx context.Context, path string) (err error) {
	if err := db.enter(ctx); err != nil {
		return err
	}
	defer db.running.Done()
	defer func() {
		if err != nil {
			err = fmt.Errorf("sqlite: no backup was made of %s: %w", db.path, err)
		}
	}()
	if _, err := os.Lstat(path); err == nil {
		return fmt.Errorf("%s exists and is not overwritten; give another name", path)
	}
	c, err := db.dial()
	if err != nil {
		return err
	}
	taken := time.Now().UTC()
	staged, err := copyOf(ctx, c, path)
	if err = errors.Join(err, c.close()); err != nil {
		return err
	}
	defer os.Remove(staged)
	mark := fmt.Sprintf("CREATE TABLE pawl_backup(taken INTEGER NOT NULL); INSERT INTO pawl_backup VALUES(%d)", taken.UnixMilli())
	if err := alter(staged, mark); err != nil {
		return err
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if err := syncFile(staged); err != nil {
		return err
	}
	if err := os.Link(staged, path); err != nil { // unlike a rename it overwrites nothing
		return err
	}
	return syncFile(filepath.Dir(path))
}

// copyOf copies what c reads to a new file beside path, and returns its name.
func copyOf(ctx context.Context, c *conn, path string) (string, error) {
	staged := path + ".part-" + uuid.NewString()
	f, err := os.OpenFile(staged, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600) // SQLite would let others read it
	if err == nil {
		err = f.Close()
	}
	if err == nil {
		err = context.Cause(ctx)
	}
	if err == nil {
		_, err = c.do("VACUUM INTO ?", staged)
	}
	if err != nil {
		os.Remove(staged)
		return "", err
	}
	return staged, nil
}

// alter frees the leases of a copy, whose owners do not know it, runs a script on it and reads it whole.
func alter(staged, script string) error {
	c, err := dial(staged, "rw", "journal_mode=DELETE", "synchronous=FULL", "fullfsync=1")
	if err != nil {
		return err
	}
	err = c.atomically([]string{"UPDATE lease SET owner='' WHERE owner<>''", script})
	if err == nil {
		err = (&DB{path: staged}).check(c, "PRAGMA integrity_check(1)")
	}
	return errors.Join(err, c.close())
}

func syncFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// RestoreOptions are the choices of [Restore]. The zero value refuses to replace anything.
type RestoreOptions struct {
	// Replace lets a home that is there be replaced. It is kept beside the restored one, under another name.
	Replace bool
	// Prepare changes the restored home before it gets its place, opened as any other at a path of its own and closed
	// again: for marks without which nothing may run on it. taken is when the backup began, zero if the file does not say.
	// An error gives the restore up.
	Prepare func(ctx context.Context, path string, taken time.Time) error
}

// Restored says what a restore did.
type Restored struct {
	Taken    time.Time // when the backup began; zero: the file does not say
	Replaced string    // where the home is that was there; empty: none was
}

// Restore puts a backup in the place of a home, at once or not at all. The backup is read whole first and stays as it is.
// A home that some program has open is never replaced, and one that is not only if the options say so. Threads that ran
// when the backup was taken are crashed in it. What happened after the backup is missing: whoever keeps records of outside
// actions marks that in Prepare.
func Restore(ctx context.Context, backup, path string, options *RestoreOptions) (_ *Restored, err error) {
	if options == nil {
		options = &RestoreOptions{}
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("sqlite: %s was not restored from %s, and is as it was: %w", path, backup, err)
		}
	}()
	db := &DB{path: path}
	if err := errors.Join(db.locate(), db.place()); err != nil {
		return nil, err
	}
	turn, err := newTurnstile(db.path)
	if err != nil {
		return nil, err
	}
	defer turn.close()
	if _, err := turn.enter(true); err != nil { // whoever opens the home meanwhile waits
		return nil, err
	}
	defer func() { err = errors.Join(err, turn.leave()) }()
	if err := db.vacant(options.Replace); err != nil {
		return nil, err
	}
	staged, taken, err := stage(ctx, backup, db.path)
	if err != nil {
		return nil, err
	}
	defer clearAway(staged)
	if options.Prepare != nil {
		if err := options.Prepare(ctx, staged, taken); err != nil {
			return nil, err
		}
		if _, err := os.Stat(staged + "-wal"); err == nil {
			return nil, errors.New("what prepared it left it open")
		}
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if err := syncFile(staged); err != nil {
		return nil, err
	}
	out := &Restored{Taken: taken}
	if out.Replaced, err = db.setAside(); err != nil {
		return nil, err
	}
	if err := os.Rename(staged, db.path); err != nil {
		return nil, err
	}
	return out, syncFile(filepath.Dir(db.path))
}

// stage copies a backup beside the place where it goes.
func stage(ctx context.Context, backup, path string) (staged string, taken time.Time, err error) {
	from := &DB{path: backup}
	if err := from.locate(); err != nil {
		return "", taken, err
	}
	if st, err := os.Stat(from.path); err != nil || st.Size() == 0 {
		return "", taken, from.refuse(storage.CannotOpen, "there is no backup")
	}
	if err := from.probe(); err != nil {
		return "", taken, from.refusal(err)
	}
	c, err := dial(from.path, "ro", "busy_timeout=10000")
	if err != nil {
		return "", taken, from.refusal(err)
	}
	_ = c.rows("SELECT taken FROM pawl_backup", nil, func(row []any) error { // a copy of a closed home has none
		ms, _ := row[0].(int64)
		taken = time.UnixMilli(ms).UTC()
		return nil
	})
	staged, err = copyOf(ctx, c, path)
	if err = errors.Join(err, c.close()); err == nil {
		err = alter(staged, "DROP TABLE IF EXISTS pawl_backup")
	}
	if err != nil {
		clearAway(staged)
		return "", taken, from.refusal(err)
	}
	return staged, taken, nil
}

// vacant refuses a place where a home is that must not be replaced.
func (db *DB) vacant(replace bool) error {
	st, err := os.Lstat(db.path)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Lstat(db.path + "-wal"); err == nil && !replace {
			return fmt.Errorf("%s-wal is there, of a home that is gone; move it away first, or allow it to be replaced", db.path)
		}
		return nil
	}
	if err != nil {
		return err
	}
	if !replace && st.Size() > 0 {
		return errors.New("there is a home already; say that it is to be replaced, or give another place")
	}
	if st.Size() == 0 {
		return nil
	}
	err = db.probe()
	if notPawl := (*storage.OpenError)(nil); code(err) != sqlite3.SQLITE_NOTADB && !errors.As(err, &notPawl) {
		var c *conn
		if c, err = dial(db.path, "rw", "busy_timeout=0", "locking_mode=EXCLUSIVE"); err == nil {
			err = errors.Join(c.once("BEGIN EXCLUSIVE"), c.close()) // closing it moves what its WAL holds into the file
		}
	}
	if code(err) == sqlite3.SQLITE_BUSY || db.inhabited() {
		return errors.New("a program has it open; stop every program that uses it first")
	}
	return nil // a damaged one is replaced like any other
}

// inhabited says whether a member of the home lives.
func (db *DB) inhabited() bool {
	entries, _ := os.ReadDir(db.memberDir())
	for _, e := range entries {
		if held, err := locked(filepath.Join(db.memberDir(), e.Name())); held && err == nil {
			return true
		}
	}
	return false
}

// setAside gives the home that is there a second name, and its WAL, if a damaged one left it, that name alone.
func (db *DB) setAside() (string, error) {
	aside := fmt.Sprintf("%s.replaced-%s", db.path, uuid.NewString()[:8])
	err := os.Link(db.path, aside)
	if errors.Is(err, fs.ErrNotExist) {
		aside, err = "", nil
	}
	if err != nil {
		return "", err
	}
	for _, side := range []string{"-wal", "-shm"} {
		gone := db.path + side
		if aside != "" {
			err = os.Rename(gone, aside+side)
		} else {
			err = os.Remove(gone)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	return aside, nil
}

// clearAway removes a staged copy and what opening it left beside it.
func clearAway(staged string) {
	if staged == "" {
		return
	}
	for _, side := range []string{"", "-wal", "-shm", "-turn", "-write", "-journal"} {
		os.Remove(staged + side)
	}
	os.RemoveAll(staged + "-members")
}
