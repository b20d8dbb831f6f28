package sqlite

import "fmt"

// files are the database and its WAL as this process opened them. SQLite goes on writing to a file that was removed or
// replaced, so what it then reports as durable is nowhere to be found: it is looked at before each transaction.
type files []file

type file struct {
	path string
	was  identity
}

func identities(paths ...string) (files, error) {
	var out files
	for _, p := range paths {
		was, err := identify(p)
		if err != nil {
			return nil, err
		}
		out = append(out, file{p, was})
	}
	return out, nil
}

// check says which file is no longer the one that was opened.
func (fs files) check() error {
	for i := range fs {
		if is, err := identify(fs[i].path); err != nil || is != fs[i].was {
			return fmt.Errorf("storage: %s was removed or replaced while it was open; stop all programs that use it, and put it back", fs[i].path)
		}
	}
	return nil
}
