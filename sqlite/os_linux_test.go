package sqlite

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/pawl-dev/pawl/storage"
)

// TestACopyOfTheFileKeepsNobodyAlive: a process between fork and exec has all files of the one that it comes from. A member
// that closes meanwhile is dead to everybody at once.
func TestACopyOfTheFileKeepsNobodyAlive(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "home.db")
	mine, other := open(t, path, nil), open(t, path, nil)
	joined, err := mine.Join(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	alive := func(db *DB) (alive bool) {
		if err := db.View(context.Background(), func(_ context.Context, tx storage.Tx) error {
			l, _, err := tx.Lease(7, storage.Look, "")
			alive = l.Alive
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return alive
	}
	if err := mine.Update(context.Background(), func(_ context.Context, tx storage.Tx) error {
		_, _, err := tx.Lease(7, storage.Take, joined.ID())
		return err
	}); err != nil {
		t.Fatal(err)
	}
	copied, err := syscall.Dup(int(joined.(*member).file.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(copied)
	if !alive(mine) || !alive(other) {
		t.Fatal("the member is dead before it closed")
	}
	if err := joined.Close(); err != nil {
		t.Fatal(err)
	}
	if alive(mine) || alive(other) {
		t.Error("the copy of the file keeps the member alive")
	}
}

// TestIdentity: both ways of asking for a file's identity agree, and tell a file that took another's place from it.
func TestIdentity(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a")
	make := func(at string) {
		if err := os.WriteFile(at, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	make(path)
	was, err := identify(path)
	same, err2 := stat(path)
	if was != same || was.inode == 0 || errors.Join(err, err2) != nil {
		t.Errorf("%v and %v, %v, %v", was, same, err, err2)
	}
	make(path + "2")
	if err := os.Rename(path+"2", path); err != nil {
		t.Fatal(err)
	}
	if now, err := identify(path); now == was || err != nil {
		t.Errorf("another file is %v, as the first one was; %v", now, err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := identify(path); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}
