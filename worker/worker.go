// Package worker makes due times visible: it fires what is due, in any process that runs one. Due times are facts in
// rows, judged by the database's clock, so nothing depends on a worker: without one an expired question is expired, and
// is seen to be when somebody looks.
//
//	w := worker.New(db, nil, eng.Timer(), eng.Runner(), audit.NewSequencer(db))
//	err := w.Run(ctx)
//
// Timer fires due times of questions. Runner goes on with threads that can: answered, approved, drained, or left by a process
// that died.
package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/storage"
)

// Source is one kind of due times.
type Source interface {
	// Name says which, for logs.
	Name() string
	// Due fires what is due, about limit rows, and says how many it fired. Each row is fired by a conditional change, so
	// that of several workers one does it, and so that it is done or not when the process dies. next is when there is
	// something to do again though nothing changes until then; zero: never.
	Due(ctx context.Context, limit int) (done int, next time.Time, err error)
}

// Options of a worker. The zero value is good.
type Options struct {
	// Logger is told of sources that fail, which have no caller. Nil: slog.Default().
	Logger *slog.Logger
	// Limit is how many rows a source fires at once. 0: 100.
	Limit int
}

const (
	calm     = 200 * time.Millisecond // between two looks that changes of the database caused
	longest  = time.Minute            // between two looks, because clocks are set
	firstTry = time.Second            // after a failure; doubled up to lastTry
	lastTry  = time.Minute
)

// Worker fires what is due. Any number of them, in any processes, may work on one database.
type Worker struct {
	db      storage.DB
	log     *slog.Logger
	limit   int
	sources []Source
}

// New makes a worker. It does nothing before Run.
func New(db storage.DB, o *Options, sources ...Source) *Worker {
	if o == nil {
		o = &Options{}
	}
	w := &Worker{db: db, log: o.Logger, limit: o.Limit, sources: sources}
	if w.log == nil {
		w.log = slog.Default()
	}
	if w.limit <= 0 {
		w.limit = 100
	}
	return w
}

// Run fires what is due until ctx ends, and returns nil then. Each source has a goroutine of its own: one that is slow or
// fails holds nobody up. A failure is logged and tried again, later each time. Run ends early, with the error, only when
// the database was closed or needs to be opened again.
func (w *Worker) Run(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var all sync.WaitGroup
	for _, s := range w.sources {
		all.Go(func() {
			if err := w.tend(ctx, s); err != nil {
				stop(err)
			}
		})
	}
	all.Wait()
	if len(w.sources) == 0 {
		<-ctx.Done()
	}
	if cause := context.Cause(ctx); ended(cause) {
		return fmt.Errorf("worker: it stopped; what is due stays due: %w", cause)
	}
	return nil
}

// ended says that the database will answer nothing any more.
func ended(err error) bool {
	return errors.Is(err, storage.ErrClosed) || errors.Is(err, storage.ErrBroken)
}

// tend looks after one source until ctx ends or the database does.
func (w *Worker) tend(ctx context.Context, s Source) error {
	for retry := time.Duration(0); ctx.Err() == nil; {
		seen, _ := w.db.Changed(0) // before the look, so that no change after it is missed
		done, next, err := w.look(ctx, s)
		switch {
		case ctx.Err() != nil:
			return nil
		case ended(err):
			return err
		case err != nil:
			retry = min(max(2*retry, firstTry), lastTry)
			w.log.WarnContext(ctx, "worker: a source failed; what is due stays due", "source", s.Name(), "error", err, "again_in", retry)
			sleep(ctx, retry, nil)
			continue
		}
		if retry = 0; done >= w.limit {
			continue
		}
		began := time.Now()
		_, changed := w.db.Changed(seen)
		sleep(ctx, until(next, began), changed)
		if rest := calm - time.Since(began); rest > 0 && (next.IsZero() || next.Sub(began) > calm) {
			sleep(ctx, rest, nil)
		}
	}
	return nil
}

// look asks a source, whose panic is an error like another.
func (w *Worker) look(ctx context.Context, s Source) (done int, next time.Time, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("it panicked: %v\n%s", p, debug.Stack())
		}
	}()
	return s.Due(ctx, w.limit)
}

// until is how long to sleep. The times are of the database's clock, which may be behind: what it does not call due yet is
// not asked for in a loop.
func until(next, now time.Time) time.Duration {
	if next.IsZero() {
		return longest
	}
	return min(max(next.Sub(now), calm/10), longest)
}

func sleep(ctx context.Context, d time.Duration, wake <-chan struct{}) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-wake:
	case <-t.C:
	}
}
