package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/storage"
)

// labels are the notes of a home, in order.
func labels(t testing.TB, db storage.DB) (out []string) {
	t.Helper()
	err := db.View(context.Background(), func(_ context.Context, tx storage.Tx) error {
		rows, err := tx.List("note", storage.Query{})
		out = nil
		for _, row := range rows {
			out = append(out, row.Fields[1].(string))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func keepNote(t testing.TB, db storage.DB, id int64, label string) {
	t.Helper()
	err := db.Update(context.Background(), func(_ context.Context, tx storage.Tx) error {
		_, err := tx.Put("note", noteRow(id, label), storage.Always())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// beside are the names in a folder.
func beside(t testing.TB, path string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestBackupWhileItIsWritten(t *testing.T) {
	t.Parallel()
	ctx, dir := context.Background(), t.TempDir()
	db := open(t, filepath.Join(dir, "home.db"), nil, note)
	for i := range int64(50) {
		keepNote(t, db, i, fmt.Sprint(i))
	}
	over, stop := make(chan error, 1), make(chan struct{})
	go func() { // two notes in each Update: a backup has both or none
		for i := int64(100); ; i += 2 {
			select {
			case <-stop:
				over <- nil
				return
			default:
			}
			err := db.Update(ctx, func(_ context.Context, tx storage.Tx) error {
				_, err := tx.Put("note", noteRow(i, "pair"), storage.Always())
				_, err2 := tx.Put("note", noteRow(i+1, "pair"), storage.Always())
				return errors.Join(err, err2)
			})
			if err != nil {
				over <- err
				return
			}
		}
	}()
	for n := range 5 {
		path := filepath.Join(dir, fmt.Sprintf("backup-%d", n))
		if err := db.Backup(ctx, path); err != nil {
			t.Fatal(err)
		}
		st, err := os.Stat(path)
		if err != nil || st.Mode().Perm() != 0o600 {
			t.Errorf("the backup is %v, %v", st.Mode(), err)
		}
		copied := open(t, path, nil, note)
		if got := len(labels(t, copied)); got < 50 || got%2 != 0 {
			t.Errorf("the backup has %d notes", got)
		}
	}
	close(stop)
	if err := <-over; err != nil {
		t.Fatal(err)
	}
	for _, name := range beside(t, filepath.Join(dir, "x")) {
		if strings.Contains(name, ".part-") {
			t.Errorf("%s was left behind", name)
		}
	}
}

func TestBackupOverwritesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db := open(t, filepath.Join(dir, "home.db"), nil, note)
	path := filepath.Join(dir, "there")
	if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	err := db.Backup(context.Background(), path)
	if doc, _ := os.ReadFile(path); err == nil || !strings.Contains(err.Error(), "exists and is not overwritten") || string(doc) != "mine" {
		t.Errorf("%v; the file says %q", err, doc)
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if err := db.Backup(ended, filepath.Join(dir, "b")); !errors.Is(err, context.Canceled) {
		t.Errorf("under a context that is over: %v", err)
	}
	if err := db.Backup(context.Background(), filepath.Join(dir, "no", "folder")); err == nil {
		t.Error("a backup into a folder that is not there")
	}
}

// restorable is a closed home with one note more than its backup, a lease that a member left in both.
func restorable(t *testing.T) (home, backup string) {
	t.Helper()
	dir := t.TempDir()
	home, backup = filepath.Join(dir, "home.db"), filepath.Join(dir, "backup")
	db, err := Open(home, note)
	if err != nil {
		t.Fatal(err)
	}
	m, err := db.Join(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	keepNote(t, db, 1, "kept")
	err = db.Update(context.Background(), func(_ context.Context, tx storage.Tx) error {
		_, _, err := tx.Lease(1, storage.Take, m.ID())
		return err
	})
	if err == nil {
		err = db.Backup(context.Background(), backup)
	}
	if err != nil {
		t.Fatal(err)
	}
	keepNote(t, db, 2, "later")
	if err := errors.Join(m.Close(), db.Close()); err != nil {
		t.Fatal(err)
	}
	return home, backup
}

func TestRestore(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	t.Run("to an empty place", func(t *testing.T) {
		t.Parallel()
		_, backup := restorable(t)
		before := time.Now().Add(-time.Hour)
		path := filepath.Join(t.TempDir(), "new.db")
		out, err := Restore(ctx, backup, path, nil)
		if err != nil || out.Replaced != "" || out.Taken.Before(before) || out.Taken.After(time.Now()) {
			t.Fatalf("%+v, %v", out, err)
		}
		db := open(t, path, nil, note)
		if got := labels(t, db); fmt.Sprint(got) != "[kept]" {
			t.Errorf("restored %q", got)
		}
		if err := db.View(ctx, func(_ context.Context, tx storage.Tx) error {
			lease, _, err := tx.Lease(1, storage.Look, "")
			if lease.Alive || lease.Owner != "" || lease.Epoch != 1 {
				t.Errorf("the lease is %+v", lease)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("in the place of another", func(t *testing.T) {
		t.Parallel()
		home, backup := restorable(t)
		if _, err := Restore(ctx, backup, home, nil); err == nil || !strings.Contains(err.Error(), "there is a home already") {
			t.Errorf("unasked: %v", err)
		}
		prepared := false
		out, err := Restore(ctx, backup, home, &RestoreOptions{Replace: true, Prepare: func(_ context.Context, path string, _ time.Time) error {
			db, err := Open(path, note)
			if err != nil {
				return err
			}
			keepNote(t, db, 9, "mark")
			prepared = true
			return db.Close()
		}})
		if err != nil || !prepared {
			t.Fatalf("%+v, %v", out, err)
		}
		db := open(t, home, nil, note)
		if got := labels(t, db); fmt.Sprint(got) != "[kept mark]" {
			t.Errorf("restored %q", got)
		}
		if got := labels(t, open(t, out.Replaced, nil, note)); fmt.Sprint(got) != "[kept later]" {
			t.Errorf("set aside %q", got)
		}
	})
	t.Run("in the place of a damaged one", func(t *testing.T) {
		t.Parallel()
		home, backup := restorable(t)
		if err := errors.Join(os.WriteFile(home, []byte(strings.Repeat("damaged ", 1000)), 0o600), os.WriteFile(home+"-wal", []byte("rest"), 0o600)); err != nil {
			t.Fatal(err)
		}
		out, err := Restore(ctx, backup, home, &RestoreOptions{Replace: true})
		if err != nil {
			t.Fatal(err)
		}
		if doc, _ := os.ReadFile(out.Replaced + "-wal"); string(doc) != "rest" {
			t.Errorf("its WAL was not set aside: %q", doc)
		}
		if got := labels(t, open(t, home, nil, note)); fmt.Sprint(got) != "[kept]" {
			t.Errorf("restored %q", got)
		}
	})
	t.Run("is refused", func(t *testing.T) {
		t.Parallel()
		home, backup := restorable(t)
		db := open(t, home, nil, note)
		replace := &RestoreOptions{Replace: true}
		no := errors.New("not this one")
		foreign := filepath.Join(filepath.Dir(home), "foreign")
		if err := os.WriteFile(foreign, []byte("not a database, and long enough to be looked at"+strings.Repeat(".", 600)), 0o600); err != nil {
			t.Fatal(err)
		}
		for name, c := range map[string]struct {
			from, to string
			options  *RestoreOptions
			wants    string
		}{
			"while it is open": {backup, home, replace, "a program has it open"},
			"no backup":        {backup + "2", home + "2", nil, "there is no backup"},
			"no folder":        {backup, filepath.Join(filepath.Dir(home), "no", "folder"), nil, "create the folder first"},
			"no Pawl database": {foreign, home + "2", nil, "not a Pawl database"},
			"what prepares it": {backup, home + "2", &RestoreOptions{Prepare: func(context.Context, string, time.Time) error { return no }}, "not this one"},
		} {
			if _, err := Restore(ctx, c.from, c.to, c.options); err == nil || !strings.Contains(err.Error(), c.wants) {
				t.Errorf("%s: %v, want %s", name, err, c.wants)
			}
		}
		if got := labels(t, db); fmt.Sprint(got) != "[kept later]" {
			t.Errorf("the home in use has %q", got)
		}
		for _, name := range beside(t, home) {
			if strings.Contains(name, ".part-") || name == "home.db2" {
				t.Errorf("%s was left behind", name)
			}
		}
	})
}
