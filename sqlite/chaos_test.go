//go:build darwin || freebsd || linux || netbsd || openbsd

package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/storage"
)

// TestACallerGivesUpWhileAnotherProcessStandsStill: a process that is stopped in the middle of a commit keeps everybody
// from writing. Callers whose context ends get away, and nothing of theirs is written.
func TestACallerGivesUpWhileAnotherProcessStandsStill(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "home.db")
	db := open(t, path, nil, note)
	other, err := newTurnstile(path) // as another process has it
	if err != nil {
		t.Fatal(err)
	}
	defer other.close()
	if _, err := other.enter(true); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := db.Update(ctx, putNote(1, 10)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("an Update behind a process that stands still: %v", err)
	}
	if err := other.leave(); err != nil {
		t.Fatal(err)
	}
	if err := db.Update(t.Context(), putNote(2, 10)); err != nil {
		t.Fatal(err)
	}
	if rows := all(t, db); len(rows) != 1 || rows[0].Key[0] != int64(2) {
		t.Errorf("rows %v, want number 2 only", rows)
	}
}

// TestCreatedAndCutOff opens what a power cut leaves of a home that was being created: its first page and the rollback
// journal that takes it back.
func TestCreatedAndCutOff(t *testing.T) {
	t.Parallel()
	for _, app := range []struct {
		name string
		id   int
		want storage.OpenReason
	}{{"ours", applicationID, ""}, {"another program's", 7, storage.NotPawl}} {
		t.Run(app.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "home.db")
			c, err := dial(path, "rwc", fmt.Sprint("page_size=", pageSize), "cache_size=1", "journal_mode=DELETE")
			if err != nil {
				t.Fatal(err)
			}
			defer c.close()
			run := func(sql string) {
				t.Helper()
				if err := c.once(sql); err != nil {
					t.Fatal(err)
				}
			}
			run(fmt.Sprintf("BEGIN; PRAGMA application_id=%d; CREATE TABLE t(x)", app.id))
			run("INSERT INTO t VALUES(zeroblob(300000))") // more than the cache holds: the journal is written
			journal, err := os.ReadFile(path + "-journal")
			if err != nil {
				t.Fatal(err)
			}
			run("COMMIT")
			if err := os.WriteFile(path+"-journal", journal, 0o600); err != nil {
				t.Fatal(err)
			}
			db, err := Open(path, note)
			if refused := (*storage.OpenError)(nil); app.want != "" {
				if !errors.As(err, &refused) || refused.Reason != app.want {
					t.Errorf("got %v, want %q", err, app.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			if n, err := add(db, "x"); err != nil || n != 1 {
				t.Errorf("note %d, %v", n, err)
			}
		})
	}
}

// TestALockFileThatIsTakenAway: without its file nobody can prove that a member is dead, so it keeps its threads, also
// when it is, until nobody has the home open any more.
func TestALockFileThatIsTakenAway(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "home.db")
	db, err := Open(path, note)
	if err != nil {
		t.Fatal(err)
	}
	p := start(t, "hold", path)
	owner := p.line(t)
	if err := os.RemoveAll(db.memberDir()); err != nil {
		t.Fatal(err)
	}
	me, err := db.Join(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	kept := func(when string) {
		t.Helper()
		if l := leaseOf(t, db, 7); l.Owner != owner || !l.Alive {
			t.Errorf("%s: %+v, want it alive", when, l)
		}
		if err := take(db, 7, me.ID()); err == nil {
			t.Errorf("%s: its lease was taken", when)
		}
	}
	kept("a living owner without a file")
	second := open(t, path, nil, note)
	kept("when another opened the home")
	p.kill()
	kept("a dead owner without a file")
	if err := errors.Join(second.Close(), db.Close()); err != nil {
		t.Fatal(err)
	}
	db = open(t, path, nil, note)
	if l := leaseOf(t, db, 7); l.Alive || l.Epoch != 1 {
		t.Errorf("opened by one alone: %+v, want it dead", l)
	}
	if me, err = db.Join(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := take(db, 7, me.ID()); err != nil {
		t.Error(err)
	}
}

// TestTheDeadAreBuried: Join frees what the dead held, and removes their files when no View can name them any more.
func TestTheDeadAreBuried(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "home.db")
	db := open(t, path, nil, note)
	p := start(t, "hold", path)
	owner := p.line(t)
	p.kill()
	if l := leaseOf(t, db, 7); l.Owner != owner || l.Alive {
		t.Errorf("before: %+v, want the owner named and dead", l)
	}
	if _, err := db.Join(t.Context()); err != nil {
		t.Fatal(err)
	}
	if l := leaseOf(t, db, 7); l.Owner != "" || l.Alive || l.Epoch != 1 {
		t.Errorf("after: %+v, want nobody named", l)
	}
	for _, c := range []struct {
		when  string
		touch time.Duration
		files int
	}{{"at once", 0, 3}, {"when nobody can remember", -mourning, 3}} { // each Join adds a living one
		past := time.Now().Add(c.touch)
		if err := os.Chtimes(db.memberFile(owner), past, past); err != nil {
			t.Fatal(err)
		}
		if _, err := db.Join(t.Context()); err != nil {
			t.Fatal(err)
		}
		if files, _ := os.ReadDir(db.memberDir()); len(files) != c.files {
			t.Errorf("%s: %d member files, want %d", c.when, len(files), c.files)
		}
	}
}

// TestANewFileOutlivesALateLook: a member's file was taken for a dead one's and removed before it was locked, and made
// again. Who still has the first in hand must not remove the second.
func TestANewFileOutlivesALateLook(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "one.lock")
	first, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	second, err := lockNew(path)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	removeIfDead(first, path)
	removeUnlocked(path)
	if !isAt(second, path) {
		t.Error("the file of a living member was removed")
	}
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
	removeUnlocked(path)
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file of a dead member is still there: %v", err)
	}
}

// TestAFileThatIsTakenAway: nothing is reported durable that goes to a file which nobody will find.
func TestAFileThatIsTakenAway(t *testing.T) {
	t.Parallel()
	for _, end := range []string{"", "-wal"} {
		t.Run("home.db"+end, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "home.db")
			db := open(t, path, nil, note)
			if err := db.Update(t.Context(), putNote(1, 10)); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(path+end, path+end+".away"); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				err := db.Update(t.Context(), putNote(2, 10))
				if unknown := (*storage.UnknownError)(nil); !errors.Is(err, storage.ErrBroken) || errors.As(err, &unknown) {
					t.Errorf("an Update after that: %v", err)
				}
			}
			if err := os.Rename(path+end+".away", path+end); err != nil {
				t.Fatal(err)
			}
			again := open(t, path, nil, note)
			if rows := all(t, again); len(rows) != 1 {
				t.Errorf("%d rows, want the one of before", len(rows))
			}
		})
	}
}

// TestAWALThatADiskLostInPart: a WAL was moved into the database and then came back shorter, as from a disk that lies
// about what it wrote. The home opens as it was at some moment, or is refused.
func TestAWALThatADiskLostInPart(t *testing.T) {
	t.Parallel()
	const rows = 12
	dir := t.TempDir()
	path := filepath.Join(dir, "home.db")
	db := open(t, path, &Options{limits: hooks{walPages: 1 << 20}}, note)
	seen := map[string]bool{} // what was there at some moment
	now := make([]string, rows)
	write := func(text string) {
		for i := range now {
			row := noteRow(int64(i+1), text)
			row.Body = make([]byte, 7000)
			err := db.Update(t.Context(), func(_ context.Context, tx storage.Tx) error {
				_, err := tx.Put("note", row, storage.Always())
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			now[i] = text
			seen[fmt.Sprint(now)] = true
		}
	}
	move := func(mode string) {
		c, err := db.dial()
		if err == nil {
			err = errors.Join(c.once("PRAGMA wal_checkpoint("+mode+")"), c.close())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	write("first")
	move("RESTART") // the WAL starts over
	seen = map[string]bool{fmt.Sprint(now): true}
	for _, text := range []string{"second", "third", "fourth"} {
		write(text)
	}
	move("PASSIVE")
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	wal, err := os.ReadFile(path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	const frame = 24 + pageSize
	opened, refused := 0, 0
	for n := 32; n <= len(wal); n += frame {
		cut := filepath.Join(dir, fmt.Sprint(n))
		if err := errors.Join(os.WriteFile(cut, file, 0o600), os.WriteFile(cut+"-wal", wal[:n], 0o600)); err != nil {
			t.Fatal(err)
		}
		db, err := Open(cut, note)
		if refusal := (*storage.OpenError)(nil); errors.As(err, &refusal) && refusal.Reason == storage.Damaged {
			refused++
			continue
		} else if err != nil {
			t.Fatal(err)
		}
		opened++
		var have []string
		for _, r := range all(t, db) {
			have = append(have, r.Fields[1].(string))
		}
		if !seen[fmt.Sprint(have)] {
			t.Errorf("with %d of %d bytes of its WAL it opens with what never was: %v", n, len(wal), have)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if opened == 0 || refused == 0 {
		t.Errorf("%d opened and %d refused, want some of each", opened, refused)
	}
}

func leaseOf(t *testing.T, db *DB, thread int64) (l storage.Lease) {
	t.Helper()
	err := db.View(t.Context(), func(_ context.Context, tx storage.Tx) (err error) {
		l, _, err = tx.Lease(thread, storage.Look, "")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return l
}
