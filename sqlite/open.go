package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/pawl-dev/pawl/storage"
)

const (
	// applicationID says "Pawl" in the file's header.
	applicationID = 0x5061776c
	// pageSize of a new home; one that exists keeps its own. A commit writes whole pages.
	pageSize = 4096
	// smallestPage is that of any SQLite file.
	smallestPage = 512
	// checkedSize is the largest file that is checked whole when it is opened; [DB.Check] checks any.
	checkedSize = 16 << 20
)

// OpenWith is [Open] with options; nil options are the zero value.
func OpenWith(path string, opts *Options, kinds ...storage.Kind) (*DB, error) {
	if opts == nil {
		opts = &Options{}
	}
	db := &DB{path: path, opts: *opts, kinds: map[string]*table{}, members: map[string]*member{}, missing: map[string]bool{}}
	for _, k := range kinds {
		if err := k.Check(); err != nil {
			return nil, err
		}
		if db.kinds[k.Name] != nil {
			return nil, fmt.Errorf("storage: kind %q is declared twice", k.Name)
		}
		db.kinds[k.Name] = newTable(k)
	}
	if err := db.open(kinds); err != nil {
		return nil, db.refusal(err)
	}
	return db, nil
}

// refusal makes an OpenError of whatever kept a home from being opened.
func (db *DB) refusal(err error) error {
	if e := (*storage.OpenError)(nil); errors.As(err, &e) {
		return e
	}
	reason := storage.CannotOpen
	switch code(err) {
	case sqlite3.SQLITE_CORRUPT:
		reason = storage.Damaged
	case sqlite3.SQLITE_NOTADB:
		reason = foreign(db.path)
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM:
		reason = storage.NotWritable
	}
	if errors.Is(err, fs.ErrPermission) {
		reason = storage.NotWritable
	}
	return &storage.OpenError{Where: db.path, Reason: reason, Err: err}
}

// foreign tells a damaged home from a file of another sort, once SQLite has found no database in it.
func foreign(path string) storage.OpenReason {
	if _, err := os.Stat(path); err != nil {
		return storage.CannotOpen
	}
	if headed(path, "SQLite format 3\x00", 0) || headed(path, "Pawl", 68) {
		return storage.Damaged
	}
	return storage.NotPawl
}

func (db *DB) refuse(reason storage.OpenReason, format string, args ...any) error {
	return &storage.OpenError{Where: db.path, Reason: reason, Detail: fmt.Sprintf(format, args...)}
}

// open looks at the file first and changes nothing until it knows that the file is ours.
func (db *DB) open(kinds []storage.Kind) (err error) {
	if !supported {
		return db.refuse(storage.UnsupportedOS, "%s; use PostgreSQL there", runtime.GOOS)
	}
	if err := db.locate(); err != nil {
		return err
	}
	if err := db.place(); err != nil {
		return err
	}
	if err := db.probe(); err != nil {
		return err
	}
	if db.turn, err = newTurnstile(db.path); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			db.turn.close()
		}
	}()
	if _, err := db.turn.enter(true); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.turn.leave()) }()
	c, err := db.prepare(kinds)
	if err != nil {
		return err
	}
	db.writer = newWriter(db, c)
	_, err = c.ints("PRAGMA data_version", &db.writer.version)
	if err == nil {
		err = c.once(impatient)
	}
	if err != nil {
		return errors.Join(err, c.close())
	}
	if db.files, err = identities(db.path, db.path+"-wal"); err != nil {
		return errors.Join(err, c.close())
	}
	db.watch = newWatch(db.writer.askLook)
	db.views = newViews(func() (*conn, error) { return db.dial("query_only=1") })
	db.wal = newCheckpointer(db)
	go db.writer.loop(nil)
	return nil
}

// locate makes path absolute and free of links, so that all processes find the same lock files beside it.
func (db *DB) locate() error {
	if db.path == "" || db.path == ":memory:" {
		return db.refuse(storage.CannotOpen, "a path is needed; for a home in memory use memdb")
	}
	path, err := filepath.Abs(db.path)
	if err != nil {
		return err
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		db.path = real
		return nil
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("create the folder first: %w", err)
	}
	db.path = filepath.Join(dir, filepath.Base(path))
	return nil
}

// place checks where the file is or will be.
func (db *DB) place() error {
	dir := filepath.Dir(db.path)
	probe := db.opts.limits.networkFS
	if probe == nil {
		probe = networkFS
	}
	network, err := probe(dir)
	if err != nil {
		return err
	}
	if network != "" {
		return db.refuse(storage.NetworkFS, "%s; a home needs a disk of this machine, or PostgreSQL", network)
	}
	if err := writable(dir); err != nil {
		return db.refuse(storage.NotWritable, "folder %s: %v", dir, err)
	}
	st, err := os.Stat(db.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !st.Mode().IsRegular():
		return db.refuse(storage.CannotOpen, "it is no regular file")
	}
	if err := writable(db.path); err != nil {
		return db.refuse(storage.NotWritable, "%v", err)
	}
	return nil
}

// probe reads an existing file without the right to change it.
func (db *DB) probe() error {
	st, err := os.Stat(db.path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && st.Size() == 0 {
		return nil
	}
	if err == nil && st.Size() < smallestPage { // SQLite would take it for an empty one
		return db.refuse(foreign(db.path), "%d bytes", st.Size())
	}
	c, err := dial(db.path, "ro", "busy_timeout=10000")
	if err != nil {
		return err
	}
	err = errors.Join(db.identify(c), c.close())
	if extended(err) != sqlite3.SQLITE_READONLY_ROLLBACK {
		return err
	}
	// Whoever was creating or changing it died with a rollback journal that only a writer can take back. A home keeps
	// none once it has a WAL, so ours died while it was created; prepare takes it back and looks again.
	if !headed(db.path, "Pawl", 68) {
		return db.refuse(storage.NotPawl, "its rollback journal was left behind by another program")
	}
	return nil
}

// headed says whether a file has a text at a place of its head. It is asked only where SQLite could not open the file:
// closing it here would drop SQLite's own locks on it.
func headed(path, text string, at int64) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	head := make([]byte, len(text))
	_, err = f.ReadAt(head, at)
	return err == nil && string(head) == text
}

// identify refuses a file that is not ours. An empty one is.
func (db *DB) identify(c *conn) error {
	var objects, app, version int64
	for sql, into := range map[string]*int64{
		"SELECT count(*) FROM sqlite_schema": &objects, "PRAGMA application_id": &app, "PRAGMA user_version": &version,
	} {
		if _, err := c.ints(sql, into); err != nil {
			return err
		}
	}
	switch {
	case app != applicationID && (app != 0 || objects > 0):
		return db.refuse(storage.NotPawl, "application id %#x", app)
	case version > layoutVersion:
		return db.refuse(storage.NewerVersion, "layout %d, this program knows %d", version, layoutVersion)
	}
	return nil
}

// dial opens a connection to a home that has been prepared.
func (db *DB) dial(pragmas ...string) (*conn, error) {
	synchronous := "synchronous=FULL"
	if db.opts.Synchronous == Normal {
		synchronous = "synchronous=NORMAL"
	}
	return dial(db.path, "rw", append([]string{
		"busy_timeout=10000", "wal_autocheckpoint=0", synchronous, "fullfsync=1", "checkpoint_fullfsync=1",
		"temp_store=MEMORY", "trusted_schema=0", "cell_size_check=1", "journal_size_limit=67108864",
	}, pragmas...)...)
}

// prepare creates or migrates the file, with other processes kept out, and returns the writer's connection.
func (db *DB) prepare(kinds []storage.Kind) (_ *conn, err error) {
	// SQLite would let others read what it creates.
	if f, err := os.OpenFile(db.path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600); err == nil {
		f.Close()
	} else if !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	c, err := db.dial(fmt.Sprint("page_size=", pageSize), "cache_size=-16384")
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil && c != nil {
			err = errors.Join(err, c.close())
		}
	}()
	if err := db.identify(c); err != nil { // again: it may have been created meanwhile
		return nil, err
	}
	if err := db.verify(c); err != nil {
		return nil, err
	}
	if err := db.enableWAL(c); err != nil {
		return nil, err
	}
	if err := db.migrate(c); err != nil {
		return nil, err
	}
	if err := db.declare(c, kinds); err != nil {
		return nil, err
	}
	if c, err = db.settle(c); err != nil {
		return nil, err
	}
	if n := db.opts.limits.pages; n > 0 {
		err = c.once(fmt.Sprintf("PRAGMA max_page_count=%d", n))
	}
	return c, err
}

// settle lets this process inherit what nobody can own any more, and returns the connection to go on with.
func (db *DB) settle(c *conn) (*conn, error) {
	orphaned, err := db.orphaned(c)
	if err != nil || !orphaned {
		return c, err
	}
	if err := errors.Join(c.close(), db.inherit()); err != nil {
		return nil, err
	}
	return db.dial("cache_size=-16384")
}

// enableWAL makes a new file ours before its first change goes to a WAL, so that the file alone says what it is.
func (db *DB) enableWAL(c *conn) error {
	var app int64
	if _, err := c.ints("PRAGMA application_id", &app); err != nil {
		return err
	}
	if app == 0 {
		if err := c.once(fmt.Sprintf("PRAGMA application_id=%d", applicationID)); err != nil {
			return err
		}
	}
	mode, err := c.text("PRAGMA journal_mode=WAL")
	if err == nil && mode != "wal" {
		err = db.refuse(storage.CannotOpen, "its journal mode stays %q", mode)
	}
	return err
}

// verify checks a small file whole, with its indexes: they tell a WAL that a disk lost in part after it was moved into
// the file. The end of a large one is checked by SQLite itself, which refuses a file that is shorter than its header says.
func (db *DB) verify(c *conn) error {
	st, err := os.Stat(db.path)
	if err != nil || st.Size() > checkedSize {
		return err
	}
	return db.check(c, "PRAGMA integrity_check(1)")
}

// Check reads the whole file and returns a [*storage.OpenError] if it is damaged. It takes time in proportion to the size
// of the file, and repairs nothing.
func (db *DB) Check(ctx context.Context) error {
	if err := db.enter(ctx); err != nil {
		return err
	}
	defer db.running.Done()
	c, err := db.views.take(ctx)
	if err != nil {
		return err
	}
	err = db.check(c, "PRAGMA integrity_check(1)")
	db.views.give(c, nil)
	if err != nil {
		return db.refusal(err)
	}
	return nil
}

func (db *DB) check(c *conn, pragma string) error {
	verdict, err := c.text(pragma)
	if err == nil && verdict != "ok" {
		err = db.refuse(storage.Damaged, "%s", verdict)
	}
	return err
}

func (db *DB) log() *slog.Logger {
	if db.opts.Logger != nil {
		return db.opts.Logger
	}
	return slog.Default()
}
