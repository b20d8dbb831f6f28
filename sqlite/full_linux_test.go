package sqlite

import (
	"context"
	"errors"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/pawl-dev/pawl/storage"
)

// TestARealFullDisk runs out of disk at COMMIT, when the WAL is written; max_page_count never comes that far.
func TestARealFullDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=2m"); err != nil {
		t.Skipf("a small disk is needed, and mounting one is not allowed here: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	path := filepath.Join(dir, "home.db")
	db, err := Open(path, note)
	if err != nil {
		t.Fatal(err)
	}
	errs := together(t, db, putNote(1, 10), putNote(2, 8<<20), putNote(3, 10))
	if !errors.Is(errs[1], storage.ErrFull) {
		t.Errorf("the Update that does not fit got %v", errs[1])
	}
	if err := errors.Join(errs[0], errs[2]); err != nil {
		t.Errorf("innocents got %v", err)
	}
	if err := db.Update(t.Context(), putNote(4, 10)); err != nil {
		t.Errorf("the next Update: %v", err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if db, err = Open(path, note); err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if rows := all(t, db); len(rows) != 3 {
		t.Errorf("%d rows, want 3", len(rows))
	}
	if err := db.Check(context.Background()); err != nil {
		t.Error(err)
	}
}
