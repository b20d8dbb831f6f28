package sqlite

import (
	"fmt"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

// keptRoom is the most memory that a statement keeps for the arguments of its next run.
const keptRoom = 64 << 10

// stmt is a prepared statement with room for what it is given and what it returns.
type stmt struct {
	conn   *conn
	handle uintptr
	params int
	room   uintptr // the library's memory, to which texts and blobs are copied: they are bound without another copy
	size   int     // of room
	row    []any
}

func (s *stmt) close() {
	sqlite3.Xsqlite3_finalize(s.conn.tls, s.handle) // repeats the error of the last run
	s.release()
}

func (s *stmt) release() {
	sqlite3.Xsqlite3_free(s.conn.tls, s.room)
	s.room, s.size = 0, 0
}

// run runs the statement to its end. Each row is shown to each, which may be nil.
func (s *stmt) run(args []any, each func(row []any) error) error {
	err := s.bind(args)
	for more := err == nil; more; {
		switch rc := sqlite3.Xsqlite3_step(s.conn.tls, s.handle); {
		case rc == sqlite3.SQLITE_DONE:
			more = false
		case rc != sqlite3.SQLITE_ROW:
			err = s.conn.fault(rc)
		case each != nil:
			if err = s.read(); err == nil {
				err = each(s.row)
			}
		}
		more = more && err == nil
	}
	sqlite3.Xsqlite3_reset(s.conn.tls, s.handle) // repeats the error of the last step
	if s.size > keptRoom {
		s.release() // what is bound to it is bound again before it is read
	}
	return err
}

// bind gives the statement its arguments: int64, string and []byte.
func (s *stmt) bind(args []any) error {
	if len(args) != s.params {
		return fmt.Errorf("sqlite: a statement with %d parameters was given %d", s.params, len(args))
	}
	if err := s.fit(args); err != nil {
		return err
	}
	tls, to := s.conn.tls, s.room
	for i, a := range args {
		n, rc := 0, int32(sqlite3.SQLITE_OK)
		switch x := a.(type) {
		case int64:
			rc = sqlite3.Xsqlite3_bind_int64(tls, s.handle, int32(i+1), x)
		case string:
			n = copy(libc.GoBytes(to, len(x)), x)
			rc = sqlite3.Xsqlite3_bind_text(tls, s.handle, int32(i+1), to, int32(n), sqlite3.SQLITE_STATIC)
		case []byte:
			n = copy(libc.GoBytes(to, len(x)), x)
			rc = sqlite3.Xsqlite3_bind_blob(tls, s.handle, int32(i+1), to, int32(n), sqlite3.SQLITE_STATIC)
		default:
			return fmt.Errorf("sqlite: parameter %d is a %T", i+1, a)
		}
		if rc != sqlite3.SQLITE_OK {
			return s.conn.fault(rc)
		}
		to += uintptr(n)
	}
	return nil
}

// fit makes room for all texts and blobs, and some where all are empty: a blob without an address would be NULL.
func (s *stmt) fit(args []any) error {
	need := 1
	for _, a := range args {
		switch x := a.(type) {
		case string:
			need += len(x)
		case []byte:
			need += len(x)
		}
	}
	if need <= s.size {
		return nil
	}
	s.release()
	need = max(need, 512)
	if s.room = sqlite3.Xsqlite3_malloc64(s.conn.tls, uint64(need)); s.room == 0 {
		return s.conn.fault(sqlite3.SQLITE_NOMEM)
	}
	s.size = need
	return nil
}

// read copies the current row.
func (s *stmt) read() error {
	tls := s.conn.tls
	for i := range s.row {
		col := int32(i)
		switch kind := sqlite3.Xsqlite3_column_type(tls, s.handle, col); kind {
		case sqlite3.SQLITE_INTEGER:
			s.row[i] = sqlite3.Xsqlite3_column_int64(tls, s.handle, col)
		case sqlite3.SQLITE_TEXT:
			p := sqlite3.Xsqlite3_column_text(tls, s.handle, col)
			s.row[i] = string(libc.GoBytes(p, int(sqlite3.Xsqlite3_column_bytes(tls, s.handle, col))))
		case sqlite3.SQLITE_BLOB:
			p := sqlite3.Xsqlite3_column_blob(tls, s.handle, col)
			s.row[i] = append([]byte{}, libc.GoBytes(p, int(sqlite3.Xsqlite3_column_bytes(tls, s.handle, col)))...)
		case sqlite3.SQLITE_NULL:
			s.row[i] = nil
		default:
			return fmt.Errorf("sqlite: column %d has the type %d, which no home stores", i, kind)
		}
	}
	return nil
}
