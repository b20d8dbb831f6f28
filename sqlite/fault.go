package sqlite

import (
	"errors"
	"fmt"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/pawl-dev/pawl/storage"
)

// fault is an error of SQLite.
type fault struct {
	code int // extended
	text string
}

func (f *fault) Error() string { return fmt.Sprintf("%s (%d)", f.text, f.code) }

// fault describes what a call of the library came to. What the connection says of its newest error is added if it is of
// that call.
func (c *conn) fault(rc int32) error {
	f := &fault{code: int(rc), text: libc.GoString(sqlite3.Xsqlite3_errstr(c.tls, rc))}
	if c.db != 0 && sqlite3.Xsqlite3_extended_errcode(c.tls, c.db)&0xff == rc&0xff {
		if more := libc.GoString(sqlite3.Xsqlite3_errmsg(c.tls, c.db)); more != f.text {
			f.text += ": " + more
		}
	}
	if code(f) == sqlite3.SQLITE_FULL {
		return fmt.Errorf("%w: %w", storage.ErrFull, f)
	}
	return f
}

// code is the primary result code of an error of SQLite, or 0.
func code(err error) int { return extended(err) & 0xff }

func extended(err error) int {
	if err == nil {
		return 0 // most often, and without the allocation below
	}
	var f *fault
	if errors.As(err, &f) {
		return f.code
	}
	return 0
}
