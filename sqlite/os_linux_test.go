package sqlite

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

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
