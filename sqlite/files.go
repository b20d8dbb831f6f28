package sqlite

import (
	"fmt"
	"io/fs"
	"os"
)

// files are the database and its WAL as this process opened them. SQLite goes on writing to a file that was removed or
// replaced, so what it then reports as durable is nowhere to be found: it is looked at before each transaction.
type files map[string]fs.FileInfo

func identities(paths ...string) (files, error) {
	f := files{}
	for _, p := range paths {
		st, err := os.Stat(p)
		if err != nil {
			return nil, err
		}
		f[p] = st
	}
	return f, nil
}

// check says which file is no longer the one that was opened.
func (f files) check() error {
	for path, was := range f {
		if is, err := os.Stat(path); err != nil || !os.SameFile(was, is) {
			return fmt.Errorf("storage: %s was removed or replaced while it was open; stop all programs that use it, and put it back", path)
		}
	}
	return nil
}
