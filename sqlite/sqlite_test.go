package sqlite

import (
	"context"
	"errors"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"github.com/pawl-dev/pawl/storage"
	"github.com/pawl-dev/pawl/storage/storagetest"
)

// note is the kind of these tests.
var note = storage.Kind{
	Name:    "note",
	Key:     []storage.Field{{Name: "id", Type: storage.Int}},
	Fields:  []storage.Field{{Name: "base", Type: storage.Int}, {Name: "label", Type: storage.Text}},
	Indexes: []storage.Index{{Name: "by_label", Fields: []string{"label"}}},
}

func noteRow(id int64, label string) storage.Row {
	return storage.Row{Key: []any{id}, Fields: []any{int64(0), label}}
}

func TestContract(t *testing.T) {
	t.Parallel()
	storagetest.Run(t, func(t *testing.T, kinds ...storage.Kind) storage.DB {
		return open(t, filepath.Join(t.TempDir(), "home.db"), nil, kinds...)
	})
}

func TestContractDurable(t *testing.T) {
	t.Parallel()
	storagetest.RunDurable(t, func(t *testing.T) storagetest.Home {
		path := filepath.Join(t.TempDir(), "home.db")
		return func(kinds ...storage.Kind) (storage.DB, error) { return Open(path, kinds...) }
	})
}

func TestContractUnknown(t *testing.T) {
	t.Parallel()
	storagetest.RunUnknown(t, func(t *testing.T, kinds ...storage.Kind) (storage.DB, func()) {
		path := filepath.Join(t.TempDir(), "home.db")
		fault := &failingCommit{}
		again := &reopened{reopen: func() *DB { return open(t, path, nil, kinds...) }}
		again.DB = open(t, path, &Options{limits: hooks{commit: fault.commit}}, kinds...)
		return again, fault.arm
	})
}

// open opens a home and closes it with the test.
func open(t testing.TB, path string, opts *Options, kinds ...storage.Kind) *DB {
	t.Helper()
	db, err := OpenWith(path, opts, kinds...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return db
}

// failingCommit commits, once it is armed, and says that it failed: as a disk does whose fsync fails.
type failingCommit struct {
	mu    sync.Mutex
	armed bool
}

var errDisk = errors.New("disk I/O error")

func (f *failingCommit) arm() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.armed = true
}

func (f *failingCommit) commit(commit func() error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	err := commit()
	if f.armed {
		err = errDisk
	}
	return err
}

// reopened is a program that does as ErrBroken says.
type reopened struct {
	storage.DB
	reopen func() *DB
}

func (r *reopened) View(ctx context.Context, fn func(context.Context, storage.Tx) error) error {
	err := r.DB.View(ctx, fn)
	if errors.Is(err, storage.ErrBroken) {
		if err := r.Close(); err != nil {
			return err
		}
		r.DB = r.reopen()
		err = r.DB.View(ctx, fn)
	}
	return err
}

// add writes a note under the next number of thread 1.
func add(db *DB, label string) (n int64, err error) {
	err = db.Update(context.Background(), func(_ context.Context, tx storage.Tx) error {
		seq, _, err := tx.Seq(1, storage.AnyEpoch, 1)
		if err == nil {
			_, err = tx.Put("note", noteRow(seq, label), storage.Absent())
		}
		n = seq
		return err
	})
	return n, err
}

func all(t *testing.T, db *DB) (rows []storage.Row) {
	t.Helper()
	err := db.View(t.Context(), func(_ context.Context, tx storage.Tx) (err error) {
		rows, err = tx.List("note", storage.Query{})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// eventually lets other goroutines run until cond holds.
func eventually(cond func() bool) {
	for !cond() {
		runtime.Gosched()
	}
}
