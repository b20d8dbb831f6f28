package sqlite

import (
	"fmt"
	"sync"
)

const (
	// walPages written since the last checkpoint start one in the background: 4 MiB. A writer that never pauses keeps it
	// from ever reaching the end of the WAL, which is what lets the file be used again from its start, so the writer
	// does the small rest itself: a commit that appends to the file takes the disk half as long again as one that
	// writes over what is there.
	walPages = 1024
	// Readers that overlap without end keep even a finished WAL from being used again. At this many times walPages the
	// writer waits for them, a moment at a time.
	walRestart = 16
)

// checkpointer moves the WAL into the database off the writer, and keeps its size bounded.
type checkpointer struct {
	db   *DB
	soft int

	mu      sync.Mutex
	written int // pages since open
	begun   int // written, when the last checkpoint began
	size    int // pages in the WAL, as far as is known
	running bool
	due     bool // the writer is to finish what was begun
	done    sync.WaitGroup
	conn    *conn // of the goroutine
}

func newCheckpointer(db *DB) *checkpointer {
	soft := db.opts.limits.walPages
	if soft == 0 {
		soft = walPages
	}
	return &checkpointer{db: db, soft: soft}
}

// committed counts what a commit wrote and starts a checkpoint when it is time.
func (k *checkpointer) committed(c *conn) {
	pages := c.written()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.written += pages
	k.size += pages
	if k.written-k.begun >= k.soft && !k.running && !k.due {
		k.running, k.begun = true, k.written
		k.done.Go(k.background)
	}
}

func (k *checkpointer) background() {
	var err error
	if k.conn == nil {
		k.conn, err = k.db.dial()
	}
	if err == nil {
		err = k.run(k.conn, "PASSIVE")
	}
	k.report(err)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.running, k.due = false, k.size >= k.soft
}

// pause lets the writer finish between two groups what a background checkpoint could not.
func (k *checkpointer) pause(w *writer) {
	k.mu.Lock()
	due, restart := k.due, k.size >= walRestart*k.soft
	k.due = false
	k.mu.Unlock()
	switch {
	case restart && due:
		k.report(w.restart())
	case due:
		k.report(k.run(w.conn, "PASSIVE"))
	}
}

func (k *checkpointer) report(err error) {
	if err != nil {
		k.db.log().Warn("sqlite: a checkpoint failed, the next one tries again", "home", k.db.path, "err", err)
	}
}

// restart waits a moment for readers, with other processes' writers kept out.
func (w *writer) restart() error {
	if _, err := w.db.turn.enter(true); err != nil {
		return err
	}
	defer w.leave()
	if err := w.conn.once("PRAGMA busy_timeout=250"); err != nil {
		return err
	}
	err := w.db.wal.run(w.conn, "RESTART")
	if e := w.conn.once(impatient); err == nil {
		err = e
	}
	return err
}

func (k *checkpointer) run(c *conn, mode string) error {
	k.mu.Lock()
	before := k.written
	k.mu.Unlock()
	var busy, log, moved int64
	if _, err := c.ints("PRAGMA wal_checkpoint("+mode+")", &busy, &log, &moved); err != nil {
		return fmt.Errorf("wal_checkpoint(%s): %w", mode, err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	switch during := k.written - before; {
	case log < 0: // another process is at it
	case moved == log && during == 0:
		k.size = 0 // the next commit starts over, unless a reader is in the way; then the next checkpoint says so
	default:
		k.size = int(log) + during
	}
	return nil
}

func (k *checkpointer) close() {
	k.done.Wait()
	if k.conn != nil {
		k.conn.close()
	}
}
