// Package sqlite keeps threads in one SQLite file, on a local disk, shared by any number of processes of one machine.
//
// Writes of all goroutines pass one writer, which folds those that wait into one transaction and pays one fsync for
// all of them; the file is in WAL mode with synchronous=FULL, so nothing that was reported durable is lost at a power
// cut. Processes take turns through a lock file (file-turn, file-write) and are alive while they hold a lock in
// file-members; these locks end with the process, so nothing waits for a timeout. The lock files must stay beside the
// database, and all of them must be on a file system of this machine. A member whose lock file somebody took away counts
// as alive, dead or not: its threads are left alone until every process closed the home and one opens it again. A copy
// of a home needs no lock files.
//
// A file that is damaged, foreign, newer than this program or declared differently is refused with a
// [*storage.OpenError]; nothing is ever repaired.
package sqlite

import (
	"context"
	"log/slog"
	"sync"

	"github.com/pawl-dev/pawl/storage"
)

// Synchronous says when a commit is durable.
type Synchronous int

const (
	// Full: a commit that was reported survives a power cut.
	Full Synchronous = iota
	// Normal: a commit that was reported survives the death of the process; the newest ones may be lost at a power
	// cut. Several times faster, and not for effects on the outside world.
	Normal
)

// Options are the choices of [OpenWith]. The zero value is what [Open] uses.
type Options struct {
	Synchronous Synchronous
	// Logger hears of checkpoints and watches that fail in the background; the next one tries again. Nil: slog.Default().
	Logger *slog.Logger

	limits hooks
}

// hooks let tests reach what only a broken disk or a foreign file system would show.
type hooks struct {
	pages     int                              // max_page_count
	commit    func(commit func() error) error  // stands in for COMMIT
	networkFS func(dir string) (string, error) // names the network file system of dir, or ""
	walPages  int                              // WAL size that starts a checkpoint; 0: the default
}

// DB is an open home. It is safe for concurrent use.
type DB struct {
	path   string
	opts   Options
	kinds  map[string]*table
	writer *writer
	views  *views
	wal    *checkpointer
	turn   *turnstile
	files  files
	watch  *watch

	mu      sync.Mutex
	closed  bool
	broken  bool
	running sync.WaitGroup
	members map[string]*member
	missing map[string]bool // members whose files were found missing
}

var _ storage.DB = (*DB)(nil)

// Open opens or creates the home at path with the kinds that the program uses. Kinds that are new, and fields and
// indexes that were added, are migrated in place; kinds in the file that are not named here are left alone.
func Open(path string, kinds ...storage.Kind) (*DB, error) { return OpenWith(path, nil, kinds...) }

// Info says where this home is.
func (db *DB) Info() storage.Info {
	return storage.Info{Driver: "sqlite", Where: db.path, Schema: layoutVersion, Durable: true}
}

// insideKey marks the context that is handed to a function of View or Update.
type insideKey struct{}

// inside is the context for a function: the caller's values without its end, marked.
func inside(ctx context.Context) context.Context {
	return context.WithValue(context.WithoutCancel(ctx), insideKey{}, true)
}

// enter admits a call, which then must call db.running.Done.
func (db *DB) enter(ctx context.Context) error {
	if ctx.Value(insideKey{}) != nil {
		return storage.ErrNested
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	switch {
	case db.closed:
		return storage.ErrClosed
	case db.broken:
		return storage.ErrBroken
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	db.running.Add(1)
	return nil
}

// Close waits for running calls and frees everything. Leases of members that are still open can be claimed from then
// on. Closing again is a no-op.
func (db *DB) Close() error {
	db.mu.Lock()
	if db.closed {
		db.mu.Unlock()
		return nil
	}
	db.closed = true
	db.mu.Unlock()
	db.running.Wait()

	db.watch.close()
	db.writer.close()
	db.wal.close()
	for _, m := range db.memberList() {
		m.release()
	}
	err := db.views.close()
	if e := db.writer.conn.close(); err == nil {
		err = e
	}
	db.turn.close()
	return err
}
