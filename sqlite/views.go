package sqlite

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/storage"
)

const (
	maxReaders = 8
	// viewLife is how long a snapshot may keep the WAL from being used again.
	viewLife = 30 * time.Second
)

// views keeps connections for snapshots, opened as they are needed.
type views struct {
	open func() (*conn, error)
	free chan struct{} // one token a connection that may be in use
	mu   sync.Mutex
	idle []*conn
}

func newViews(open func() (*conn, error)) *views {
	return &views{open: open, free: make(chan struct{}, maxReaders)}
}

func (v *views) take(ctx context.Context) (*conn, error) {
	select {
	case v.free <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	v.mu.Lock()
	n := len(v.idle)
	if n > 0 {
		c := v.idle[n-1]
		v.idle = v.idle[:n-1]
		v.mu.Unlock()
		return c, nil
	}
	v.mu.Unlock()
	c, err := v.open()
	if err != nil {
		<-v.free
	}
	return c, err
}

// give takes a connection back; one that could not end its snapshot is closed.
func (v *views) give(c *conn, err error) {
	if err != nil {
		c.close()
	} else {
		v.mu.Lock()
		v.idle = append(v.idle, c)
		v.mu.Unlock()
	}
	<-v.free
}

func (v *views) close() error {
	var errs []error
	for _, c := range v.idle {
		errs = append(errs, c.close())
	}
	return errors.Join(errs...)
}

// View runs fn on the caller's goroutine. See [storage.DB].
func (db *DB) View(ctx context.Context, fn func(ctx context.Context, tx storage.Tx) error) error {
	if err := db.enter(ctx); err != nil {
		return err
	}
	defer db.running.Done()
	c, err := db.views.take(ctx)
	if err != nil {
		return notStarted(err)
	}
	t := &tx{db: db, conn: c}
	if err = t.snapshot(); err != nil {
		db.views.give(c, err)
		return notStarted(err)
	}
	clock := time.AfterFunc(viewLife, t.expire)
	defer func() { // also when fn ends its goroutine
		clock.Stop()
		t.end(nil)
		db.views.give(c, t.release())
	}()
	return t.end(call(inside(ctx), t, fn))
}

func notStarted(err error) error {
	return fmt.Errorf("storage: not started, nothing was written: %w", err)
}

// snapshot begins a read transaction and reads, because a deferred one begins at its first read.
func (t *tx) snapshot() error {
	if _, err := t.conn.do("BEGIN"); err != nil {
		return err
	}
	var version int64
	if _, err := t.conn.ints("PRAGMA user_version", &version); err != nil {
		return errors.Join(err, t.release())
	}
	return nil
}

// expire ends a snapshot that outlived its time, so that it cannot hold the WAL for ever.
func (t *tx) expire() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err != errOver {
		t.err = fmt.Errorf("storage: this View has run for %s and its snapshot was ended, read less at a time: %w", viewLife, storage.ErrClosed)
		t.gone = true
		t.goneErr = t.rollback()
	}
}

// release ends the read transaction once.
func (t *tx) release() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.gone {
		return t.goneErr
	}
	t.gone = true
	return t.rollback()
}

func (t *tx) rollback() error {
	_, err := t.conn.do("ROLLBACK")
	return err
}

// call runs fn and makes an error of its panic. Goexit passes through: only the goroutine's own deferred functions can
// see it.
func call(ctx context.Context, t *tx, fn func(context.Context, storage.Tx) error) (err error) {
	returned := false
	defer func() {
		if returned {
			return
		}
		if v := recover(); v != nil {
			err = &storage.PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	err = fn(ctx, t)
	returned = true
	return err
}
