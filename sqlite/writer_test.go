package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/pawl-dev/pawl/storage"
)

type update = func(context.Context, storage.Tx) error

// together makes one group of fns, in order: the writer is held up until all of them wait.
func together(t *testing.T, db *DB, fns ...update) []error {
	t.Helper()
	errs := make([]error, len(fns))
	entered, leave := make(chan struct{}), make(chan struct{})
	var first sync.Once
	var callers sync.WaitGroup
	callers.Go(func() {
		if err := db.Update(storage.Alone(context.Background()), func(context.Context, storage.Tx) error {
			first.Do(func() { close(entered) })
			<-leave
			return nil
		}); err != nil {
			t.Error(err)
		}
	})
	<-entered
	for i, fn := range fns {
		callers.Go(func() { errs[i] = db.Update(context.Background(), fn) })
		eventually(func() bool {
			db.writer.mu.Lock()
			defer db.writer.mu.Unlock()
			return len(db.writer.queue) == i+1
		})
	}
	close(leave)
	callers.Wait()
	return errs
}

func putNote(id int64, body int) update {
	return func(_ context.Context, tx storage.Tx) error {
		r := noteRow(id, "n")
		r.Body = make([]byte, body)
		_, err := tx.Put("note", r, storage.Absent())
		return err
	}
}

// commits returns how many transactions committed.
func commits(db *DB) uint64 {
	n, _ := db.Changed(0)
	return n
}

func TestAGroupIsOneCommitAndUndoesItsFailuresAlone(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	after := func(id int64, end func() error) update {
		return func(ctx context.Context, tx storage.Tx) error {
			if err := putNote(id, 10)(ctx, tx); err != nil {
				return err
			}
			return end()
		}
	}
	isPanic := func(err error) bool { var p *storage.PanicError; return errors.As(err, &p) }
	for _, c := range []struct {
		name    string
		culprit update
		commits uint64 // a failure that must be undone ends the group, those behind it share the next
		is      func(error) bool
	}{
		{"nobody fails", putNote(2, 10), 1, func(err error) bool { return err == nil }},
		{"error before a write", func(context.Context, storage.Tx) error { return boom }, 1, func(err error) bool { return errors.Is(err, boom) }},
		{"error after a write", after(2, func() error { return boom }), 2, func(err error) bool { return errors.Is(err, boom) }},
		{"panic", after(2, func() error { panic("x") }), 2, isPanic},
		{"goexit", after(2, func() error { runtime.Goexit(); return nil }), 2, isPanic},
		{"full", putNote(2, 1<<20), 2, func(err error) bool { return errors.Is(err, storage.ErrFull) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			db := open(t, filepath.Join(t.TempDir(), "home.db"), &Options{limits: hooks{pages: 60}}, note)
			errs := together(t, db, putNote(1, 10), c.culprit, putNote(3, 10), putNote(4, 10))
			if !c.is(errs[1]) {
				t.Errorf("the culprit got %v", errs[1])
			}
			want := 3
			if errs[1] == nil {
				want = 4
			}
			if err := errors.Join(errs[0], errs[2], errs[3]); err != nil {
				t.Errorf("innocents got %v", err)
			}
			if rows := all(t, db); len(rows) != want {
				t.Errorf("%d rows, want %d", len(rows), want)
			}
			if n := commits(db); n != c.commits {
				t.Errorf("%d commits, want %d", n, c.commits)
			}
		})
	}
}

func TestWorksAgainWhenThereIsRoom(t *testing.T) {
	t.Parallel()
	db := open(t, filepath.Join(t.TempDir(), "home.db"), &Options{limits: hooks{pages: 60}}, note)
	if err := db.Update(t.Context(), putNote(1, 1<<20)); !errors.Is(err, storage.ErrFull) {
		t.Fatalf("Update on a full disk returned %v", err)
	}
	if rows := all(t, db); len(rows) != 0 {
		t.Errorf("%d rows of a refused Update", len(rows))
	}
	err := db.Update(t.Context(), func(_ context.Context, x storage.Tx) error {
		return x.(*tx).conn.once("PRAGMA max_page_count=10000")
	})
	if err == nil {
		err = db.Update(t.Context(), putNote(1, 1<<20))
	}
	if err != nil {
		t.Errorf("Update with room again: %v", err)
	}
}

func TestAloneIsATransactionOfItsOwn(t *testing.T) {
	t.Parallel()
	db := open(t, filepath.Join(t.TempDir(), "home.db"), nil, note)
	before := commits(db)
	var callers sync.WaitGroup
	for i := range int64(20) {
		callers.Go(func() {
			if err := db.Update(storage.Alone(context.Background()), putNote(i+1, 10)); err != nil {
				t.Error(err)
			}
		})
	}
	callers.Wait()
	if n := commits(db) - before; n != 20 {
		t.Errorf("%d commits for 20 Updates that are alone", n)
	}
}

func TestAFailedCommitEndsTheHome(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "home.db")
	fault := &failingCommit{}
	db := open(t, path, &Options{limits: hooks{commit: fault.commit}}, note)
	if err := db.Update(t.Context(), putNote(1, 10)); err != nil {
		t.Fatal(err)
	}
	fault.arm()
	read := func(_ context.Context, x storage.Tx) error { _, _, err := x.Get("note", int64(1)); return err }
	if err, u := db.Update(t.Context(), putNote(2, 10)), (*storage.UnknownError)(nil); !errors.As(err, &u) {
		t.Errorf("the Update whose commit failed got %v", err)
	}
	_, err := db.Join(t.Context())
	for name, err := range map[string]error{
		"Update": db.Update(t.Context(), putNote(3, 10)),
		"View":   db.View(t.Context(), read),
		"Join":   err,
	} {
		if !errors.Is(err, storage.ErrBroken) {
			t.Errorf("%s after a failed commit returned %v", name, err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if rows := all(t, open(t, path, nil, note)); len(rows) != 2 {
		t.Errorf("%d rows after opening again, want 2: this commit did reach the disk", len(rows))
	}
}

func TestAllOfAGroupHearOfTheDoubt(t *testing.T) {
	t.Parallel()
	fault := &failingCommit{}
	db := open(t, filepath.Join(t.TempDir(), "home.db"), &Options{limits: hooks{commit: fault.commit}}, note)
	refused := errors.New("refused")
	read := func(_ context.Context, x storage.Tx) error {
		fault.arm() // the commit of this group is the first that fails
		_, _, err := x.Get("note", int64(1))
		return err
	}
	errs := together(t, db, putNote(1, 10), read, func(context.Context, storage.Tx) error { return refused })
	for i, want := range []bool{true, true, false} {
		if u := (*storage.UnknownError)(nil); errors.As(errs[i], &u) != want || !want && !errors.Is(errs[i], refused) {
			t.Errorf("call %d got %v", i, errs[i])
		}
	}
}

func TestCloseWaitsAndLeavesNothing(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "home.db"), &Options{limits: hooks{walPages: 1}}, note)
	m, err := db.Join(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, wake := db.Changed(commits(db))
	entered, leave := make(chan struct{}), make(chan struct{})
	result, closed := make(chan error, 2), make(chan error, 1)
	go func() {
		result <- db.Update(context.Background(), func(ctx context.Context, x storage.Tx) error {
			close(entered)
			<-leave
			return putNote(1, 10)(ctx, x)
		})
	}()
	<-entered
	go func() { closed <- db.Close() }()
	eventually(func() bool {
		_, err := db.Join(context.Background())
		return errors.Is(err, storage.ErrClosed)
	})
	select {
	case err := <-closed:
		t.Fatalf("Close did not wait: %v", err)
	default:
	}
	close(leave)
	if err := errors.Join(<-result, <-closed, m.Close()); err != nil {
		t.Fatal(err)
	}
	<-wake
	if err := db.Update(t.Context(), putNote(2, 10)); !errors.Is(err, storage.ErrClosed) {
		t.Errorf("Update after Close returned %v", err)
	}
	if err := db.View(t.Context(), putNote(2, 10)); !errors.Is(err, storage.ErrClosed) {
		t.Errorf("View after Close returned %v", err)
	}
	if left, _ := os.ReadDir(db.memberDir()); len(left) != 0 {
		t.Errorf("Close left member files: %v", left)
	}
	eventually(func() bool {
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		return strings.Count(string(stacks), "pawl/sqlite.(*") == 0
	})
}

func TestTheWALStaysSmall(t *testing.T) {
	t.Parallel()
	const pages = 16
	db := open(t, filepath.Join(t.TempDir(), "home.db"), &Options{limits: hooks{walPages: pages}}, note)
	// Readers that overlap: each ends only when the next has begun.
	stop := make(chan struct{})
	var readers sync.WaitGroup
	relay := make(chan struct{})
	for range 2 {
		readers.Go(func() {
			for {
				err := db.View(context.Background(), func(_ context.Context, x storage.Tx) error {
					if _, err := x.List("note", storage.Query{Limit: 1}); err != nil {
						return err
					}
					select {
					case relay <- struct{}{}:
					case <-relay:
					case <-stop:
					}
					return nil
				})
				if err != nil {
					t.Error(err)
				}
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	var largest int64
	const updates = 3000
	for i := range int64(updates) {
		if err := db.Update(t.Context(), putNote(i+1, 5000)); err != nil {
			t.Fatal(err)
		}
		st, err := os.Stat(db.path + "-wal")
		if err != nil {
			t.Fatal(err)
		}
		largest = max(largest, st.Size())
	}
	close(stop)
	readers.Wait()
	t.Logf("largest WAL: %d pages", largest/pageSize)
	if bound := int64(2 * walRestart * pages * pageSize); largest > bound {
		t.Errorf("the WAL grew to %d bytes, want at most %d", largest, bound)
	}
	if rows := all(t, db); len(rows) != updates {
		t.Errorf("%d rows, want %d", len(rows), updates)
	}
	if err := db.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestAViewHasALimitedLife(t *testing.T) {
	t.Parallel()
	db := open(t, filepath.Join(t.TempDir(), "home.db"), nil, note)
	get := func(x storage.Tx) error { _, _, err := x.Get("note", int64(1)); return err }
	err := db.View(t.Context(), func(_ context.Context, x storage.Tx) error {
		if err := get(x); err != nil {
			return fmt.Errorf("in its time: %w", err)
		}
		x.(*tx).expire()
		_ = get(x)
		return nil
	})
	if !errors.Is(err, storage.ErrClosed) {
		t.Errorf("a View that outlived its snapshot returned %v", err)
	}
	if err := db.View(t.Context(), func(_ context.Context, x storage.Tx) error { return get(x) }); err != nil {
		t.Errorf("the next View: %v", err)
	}
}

func TestNobodyLooksWhenNobodyWaits(t *testing.T) {
	t.Parallel()
	db := open(t, filepath.Join(t.TempDir(), "home.db"), nil, note)
	now, wake := db.Changed(0)
	if err := db.Update(t.Context(), putNote(1, 10)); err != nil {
		t.Fatal(err)
	}
	<-wake
	eventually(func() bool {
		db.watch.mu.Lock()
		defer db.watch.mu.Unlock()
		return !db.watch.looking
	})
	if after, _ := db.Changed(now); after != now+1 {
		t.Errorf("change number %d after one commit, was %d", after, now)
	}
}

// TestAnotherProgramHoldsTheFile: a program that knows no turnstile has a transaction open. Whoever gives up waiting for
// it has written nothing, and whoever waits comes through when it ends.
func TestAnotherProgramHoldsTheFile(t *testing.T) {
	t.Parallel()
	db := open(t, filepath.Join(t.TempDir(), "home.db"), nil, note)
	other, err := dial(db.path, "rw")
	if err != nil {
		t.Fatal(err)
	}
	defer other.close()
	if err := other.once("BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	gaveUp := make(chan error)
	go func() { gaveUp <- db.Update(ctx, putNote(1, 10)) }()
	waiting := func() bool {
		db.writer.mu.Lock()
		defer db.writer.mu.Unlock()
		return db.writer.leading && len(db.writer.queue) == 1
	}
	eventually(waiting)
	cancel()
	if err := <-gaveUp; !errors.Is(err, context.Canceled) {
		t.Errorf("an Update that was given up: %v", err)
	}
	came := make(chan error)
	go func() { came <- db.Update(t.Context(), putNote(2, 10)) }()
	eventually(func() bool {
		db.writer.mu.Lock()
		defer db.writer.mu.Unlock()
		return len(db.writer.queue) == 2
	})
	if err := other.once("ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	if err := <-came; err != nil {
		t.Error(err)
	}
	if rows := all(t, db); len(rows) != 1 || rows[0].Key[0] != int64(2) {
		t.Errorf("rows %v, want number 2 only", rows)
	}
}

// TestALoneCallerLeads: its function runs on its own goroutine, and one that ends that goroutine is undone and leaves
// the home to others.
func TestALoneCallerLeads(t *testing.T) {
	t.Parallel()
	db := open(t, filepath.Join(t.TempDir(), "home.db"), nil, note)
	eventually(func() bool { // the writer's goroutine has settled
		db.writer.mu.Lock()
		defer db.writer.mu.Unlock()
		return !db.writer.leading
	})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = db.Update(t.Context(), func(ctx context.Context, tx storage.Tx) error {
			if err := putNote(1, 10)(ctx, tx); err != nil {
				return err
			}
			runtime.Goexit()
			return nil
		})
		t.Error("Goexit of a lone caller's function left its goroutine running")
	}()
	<-ended
	if err := db.Update(t.Context(), putNote(2, 10)); err != nil {
		t.Fatal(err)
	}
	if rows := all(t, db); len(rows) != 1 || rows[0].Key[0] != int64(2) {
		t.Errorf("rows %v, want number 2 only", rows)
	}
}
