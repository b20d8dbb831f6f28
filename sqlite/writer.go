package sqlite

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/pawl-dev/pawl/storage"
)

// Bounds of one transaction.
const (
	groupJobs  = 256
	groupBytes = 4 << 20
)

// Another program's transaction is waited for 10 s, by the writer and not in SQLite.
const (
	impatient = "PRAGMA busy_timeout=0" // the writer's connection
	busyPause = 2 * time.Millisecond
	busyTries = 5000
)

// job is one Update that waits for the writer.
type job struct {
	until context.Context // the caller's: it counts until fn starts
	ctx   context.Context // for fn
	fn    func(context.Context, storage.Tx) error
	alone bool
	taken atomic.Bool // by the writer, or by its caller who gives up
	tx    *tx
	err   error
	done  chan struct{}
}

// writer runs the functions of all Updates, one group at a time, on its own connection: on its own goroutine when there
// are several callers, on the caller's when that is alone, see lead.
//
// It folds those that wait into one transaction without savepoints. If a function fails after it wrote, the transaction
// is rolled back and all of them run again with a savepoint each, so that it alone is undone; a function that fails
// before it wrote has nothing to undo. If SQLite refuses a statement, it may have given up the transaction: all run
// again, each in a transaction of its own. Running again is what the contract allows; it costs only those who fail.
type writer struct {
	db   *DB
	conn *conn

	mu      sync.Mutex
	queue   []*job
	leading bool // somebody has the connection and all that follows stopped
	shared  bool // the last group had several jobs: callers are to wait for each other
	looking bool // somebody wants to know of other processes' commits
	closing bool
	wake    chan struct{}
	stopped chan struct{}

	// of whoever leads
	group   []*job // not finished
	current *job   // its function is running
	version int64  // data_version as last seen: it moves at commits of others only
	bytes   int
	last    map[int64]int64 // by thread: the number taken last here, as far as is known; see tx.proceed
}

func newWriter(db *DB, c *conn) *writer {
	return &writer{
		db: db, conn: c, leading: true, wake: make(chan struct{}, 1), stopped: make(chan struct{}), last: map[int64]int64{},
	}
}

func (w *writer) nudge() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *writer) close() {
	w.mu.Lock()
	w.closing = true
	w.mu.Unlock()
	w.nudge()
	<-w.stopped
}

// waited says whether somebody waits who has not given up.
func (w *writer) waited() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(w.queue, func(j *job) bool { return !j.taken.Load() })
}

// next takes the first waiting job, unless it must be alone and is not first in its group.
func (w *writer) next(first bool) *job {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.queue) > 0 {
		j := w.queue[0]
		if j.alone && !first {
			return nil
		}
		w.queue = w.queue[1:]
		if !j.taken.CompareAndSwap(false, true) {
			continue
		}
		if err := j.until.Err(); err != nil {
			j.err = notStarted(err)
			w.finish(j)
			continue
		}
		return j
	}
	w.queue = nil
	return nil
}

// loop serves until close. A function that ends this goroutine with Goexit is undone; a new goroutine runs the others
// of its group again and goes on.
func (w *writer) loop(again []*job) {
	finished := false
	defer func() {
		switch j := w.current; {
		case finished:
			close(w.stopped)
		case j != nil:
			w.current = nil
			j.err = j.tx.end(&storage.PanicError{Stack: debug.Stack()})
			w.rollback()
			var others []*job
			for _, o := range w.group {
				if o != j {
					others = append(others, o)
				}
			}
			w.finish(j)
			go w.loop(others)
		}
	}()
	w.each(again)
	for {
		worked := w.fold()
		w.db.wal.pause(w)
		if closing := w.attend(); worked {
			continue
		} else if closing {
			break
		}
		w.rest()
	}
	finished = true
}

// attend does what was asked of the writer besides Updates, and says whether it was told to end.
func (w *writer) attend() (closing bool) {
	w.mu.Lock()
	look, closing := w.looking, w.closing
	w.looking = false
	w.mu.Unlock()
	if look {
		w.look()
	}
	return closing
}

// askLook has the writer look for commits of other processes soon.
func (w *writer) askLook() {
	w.mu.Lock()
	w.looking = true
	w.mu.Unlock()
	w.nudge()
}

// fold runs one group and says whether there was any.
func (w *writer) fold() bool {
	if !w.waited() {
		return false
	}
	_, err := w.start(true) // other processes may keep it; until it is through, callers can give up
	j := w.next(true)
	switch {
	case err != nil && j != nil:
		j.err = err
		w.finish(j)
	case err == nil && j == nil:
		w.rollback()
	}
	if err != nil || j == nil {
		return true
	}
	w.together(j, j.alone)
	w.mu.Lock()
	w.shared = len(w.group) > 1
	w.mu.Unlock()
	return true
}

// together runs a job, and unless it is to be alone those that wait, in the transaction that was begun.
func (w *writer) together(j *job, alone bool) {
	w.group, w.bytes = append(w.group[:0], j), 0
	for waited := false; j != nil; {
		w.run(j)
		if j.tx.lost {
			w.rollback()
			w.each(w.group)
			return
		}
		if j.err != nil && j.tx.wrote {
			w.rollback()
			w.careful()
			return
		}
		if alone || len(w.group) == groupJobs || w.bytes >= groupBytes {
			break
		}
		if j = w.next(false); j == nil && !waited {
			// Those whose changes the last group made durable are about to bring the next ones. They go first, once a group:
			// one of them may compute for as long as the scheduler lets it.
			runtime.Gosched()
			j, waited = w.next(false), true
		}
		if j != nil {
			w.group = append(w.group, j)
		}
	}
	w.commit(w.group)
}

// careful runs a group again, with a savepoint for each function.
func (w *writer) careful() {
	if len(w.group) == 1 {
		w.each(w.group)
		return
	}
	if !w.begin(w.group) {
		return
	}
	for _, j := range w.group {
		_, err := w.conn.do("SAVEPOINT one")
		if err == nil {
			w.run(j)
			if j.err != nil && j.tx.wrote && !j.tx.lost {
				_, err = w.conn.do("ROLLBACK TO one")
			}
		}
		if err == nil && !j.tx.lost {
			_, err = w.conn.do("RELEASE one")
		}
		if err != nil || j.tx.lost {
			w.rollback()
			w.each(w.group)
			return
		}
	}
	w.commit(w.group)
}

// each runs every job in a transaction of its own.
func (w *writer) each(jobs []*job) {
	for len(jobs) > 0 {
		j := jobs[0]
		w.group = jobs
		jobs = jobs[1:]
		one := []*job{j}
		if !w.begin(one) {
			continue
		}
		w.run(j)
		if j.err != nil && (j.tx.wrote || j.tx.lost) {
			w.rollback()
			w.finish(j)
			continue
		}
		w.commit(one)
	}
}

// run calls a job's function and sets its tx and err.
func (w *writer) run(j *job) {
	j.tx = &tx{db: w.db, conn: w.conn, writable: true}
	j.tx.args = j.tx.room[:0]
	w.current = j
	err := call(j.ctx, j.tx, j.fn)
	w.current = nil
	j.err = j.tx.end(err)
	w.bytes += j.tx.size
}

// start passes the turnstile and begins a transaction. Unless it may wait for others, false says that it would have to.
func (w *writer) start(wait bool) (bool, error) {
	if err := w.db.usable(); err != nil {
		return false, err
	}
	if err := w.db.files.check(); err != nil {
		w.db.fail()
		return false, notStarted(errors.Join(err, storage.ErrBroken))
	}
	in, err := w.db.turn.enter(wait)
	if in && err == nil {
		if in, err = w.immediate(wait); !in {
			err = errors.Join(err, w.db.turn.leave())
		}
	}
	if err != nil {
		return false, notStarted(err)
	}
	return in, nil
}

// immediate takes SQLite's own write lock, which only programs that know no turnstile can hold.
func (w *writer) immediate(wait bool) (bool, error) {
	for tries := 0; ; tries++ {
		_, err := w.conn.do("BEGIN IMMEDIATE")
		busy := code(err) == sqlite3.SQLITE_BUSY
		if busy && !wait {
			return false, nil
		}
		if !busy || tries == busyTries {
			return err == nil, err
		}
		time.Sleep(busyPause)
	}
}

// begin is start for jobs that were taken. If it fails, they are told and nothing was written.
func (w *writer) begin(jobs []*job) bool {
	_, err := w.start(true)
	if err != nil {
		for _, j := range jobs {
			j.err = err
			w.finish(j)
		}
	}
	return err == nil
}

// rollback ends the transaction without a trace. SQLite may have done so already, which is an error here and no harm;
// a transaction that is still open is found by the next BEGIN.
func (w *writer) rollback() {
	_, _ = w.conn.do("ROLLBACK")
	w.leave()
}

// leave lets the next process in. Without that, no process can write, so this one must not go on as if nothing happened.
func (w *writer) leave() {
	if err := w.db.turn.leave(); err != nil {
		w.db.fail()
	}
}

// commit makes the group durable and tells its jobs.
//
// A full disk is found while the frames are written, the last of which commits, so nothing is durable and the group is
// tried again one by one: some of it may fit. After any other failure nobody knows, and the home refuses further work.
func (w *writer) commit(jobs []*job) {
	var err error
	if hook := w.db.opts.limits.commit; hook != nil {
		err = hook(w.durably)
	} else {
		err = w.durably()
	}
	full := code(err) == sqlite3.SQLITE_FULL
	if err != nil && !full {
		w.db.fail()
	}
	if err != nil {
		_, _ = w.conn.do("ROLLBACK") // SQLite has, if it could
	}
	w.leave()
	if full && len(jobs) > 1 {
		w.each(jobs)
		return
	}
	wrote := false
	for _, j := range jobs {
		wrote = wrote || j.err == nil && j.tx.wrote
		switch {
		case err == nil || j.err != nil:
		case full:
			j.err = err
		default: // also one that only read: it may have read what is not durable
			j.err = &storage.UnknownError{Err: fmt.Errorf("the commit failed: %w", err)}
		}
	}
	if wrote && err == nil {
		w.db.watch.bump()
		w.db.wal.committed(w.conn)
	}
	for _, j := range jobs {
		w.finish(j)
	}
}

func (w *writer) durably() error {
	_, err := w.conn.do("COMMIT")
	return err
}

func (w *writer) finish(j *job) {
	if j.done != nil { // its caller waits
		close(j.done)
	}
}

// look notices commits of other processes.
func (w *writer) look() {
	var version int64
	if _, err := w.conn.ints("PRAGMA data_version", &version); err != nil {
		w.db.log().Warn("sqlite: cannot see whether other processes committed", "home", w.db.path, "err", err)
		return
	}
	if version != w.version {
		w.version = version
		w.db.watch.bump()
	}
}

// fail refuses all further work.
func (db *DB) fail() {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.broken = true
}

// usable is ErrBroken after a failed commit.
func (db *DB) usable() error {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.broken {
		return storage.ErrBroken
	}
	return nil
}
