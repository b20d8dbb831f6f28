package sqlite

import (
	"errors"
	"fmt"
	"net/url"
	"unsafe"

	"modernc.org/libc"
	_ "modernc.org/sqlite" // readies the library on platforms that need it
	sqlite3 "modernc.org/sqlite/lib"
)

// conn is one SQLite connection and its prepared statements, used by one goroutine at a time. It calls the library
// itself: the driver for database/sql allocates, copies and locks around every statement, which costs a super-step more
// than its statements do.
type conn struct {
	tls   *libc.TLS
	db    uintptr
	out   uintptr // two words for what the library returns besides its result code
	stmts map[string]*stmt
}

// dial opens a connection to the file. mode is SQLite's: "ro", "rw" or "rwc".
func dial(path, mode string, pragmas ...string) (_ *conn, err error) {
	c := &conn{tls: libc.NewTLS(), stmts: map[string]*stmt{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.close())
		}
	}()
	if c.out = sqlite3.Xsqlite3_malloc64(c.tls, 2*uint64(wordSize)); c.out == 0 {
		return nil, c.fault(sqlite3.SQLITE_NOMEM)
	}
	name, err := libc.CString("file:" + (&url.URL{Path: path}).EscapedPath() + "?mode=" + mode)
	if err != nil {
		return nil, err
	}
	defer libc.Xfree(c.tls, name)
	// No mutex: a connection belongs to one goroutine at a time.
	const flags = sqlite3.SQLITE_OPEN_READWRITE | sqlite3.SQLITE_OPEN_CREATE | sqlite3.SQLITE_OPEN_URI | sqlite3.SQLITE_OPEN_NOMUTEX
	rc := sqlite3.Xsqlite3_open_v2(c.tls, name, c.out, flags, 0)
	c.db = at[uintptr](c.out) // also of a failure, which it describes
	if rc != sqlite3.SQLITE_OK {
		return nil, c.fault(rc)
	}
	if err := c.configure(); err != nil {
		return nil, err
	}
	for _, p := range pragmas {
		if err := c.once("PRAGMA " + p); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// configure asks for full result codes, and for text in double quotes to be an error.
func (c *conn) configure() error {
	if rc := sqlite3.Xsqlite3_extended_result_codes(c.tls, c.db, 1); rc != sqlite3.SQLITE_OK {
		return c.fault(rc)
	}
	off := libc.NewVaList(int32(0), uintptr(0))
	defer libc.Xfree(c.tls, off)
	for _, op := range []int32{sqlite3.SQLITE_DBCONFIG_DQS_DDL, sqlite3.SQLITE_DBCONFIG_DQS_DML} {
		if rc := sqlite3.Xsqlite3_db_config(c.tls, c.db, op, off); rc != sqlite3.SQLITE_OK {
			return c.fault(rc)
		}
	}
	return nil
}

func (c *conn) close() error {
	for _, s := range c.stmts {
		s.close()
	}
	rc := sqlite3.Xsqlite3_close_v2(c.tls, c.db)
	sqlite3.Xsqlite3_free(c.tls, c.out)
	c.tls.Close()
	if rc != sqlite3.SQLITE_OK {
		return &fault{code: int(rc), text: "closing a database"}
	}
	return nil
}

// prepare returns the statement kept under sql.
func (c *conn) prepare(sql string) (*stmt, error) {
	if s := c.stmts[sql]; s != nil {
		return s, nil
	}
	text, err := libc.CString(sql)
	if err != nil {
		return nil, err
	}
	defer libc.Xfree(c.tls, text)
	s, _, err := c.compile(text, sqlite3.SQLITE_PREPARE_PERSISTENT)
	if err != nil {
		return nil, err
	}
	c.stmts[sql] = s
	return s, nil
}

// compile makes a statement of the first one in a text, and says where the text goes on.
func (c *conn) compile(text uintptr, flags uint32) (s *stmt, rest uintptr, err error) {
	tail := c.out + wordSize
	if rc := sqlite3.Xsqlite3_prepare_v3(c.tls, c.db, text, -1, flags, c.out, tail); rc != sqlite3.SQLITE_OK {
		return nil, 0, c.fault(rc)
	}
	s = &stmt{conn: c, handle: at[uintptr](c.out)}
	s.params = int(sqlite3.Xsqlite3_bind_parameter_count(c.tls, s.handle))
	s.row = make([]any, sqlite3.Xsqlite3_column_count(c.tls, s.handle))
	return s, at[uintptr](tail), nil
}

// do runs a statement and returns the number of rows that it changed.
func (c *conn) do(sql string, args ...any) (int, error) {
	s, err := c.prepare(sql)
	if err == nil {
		err = s.run(args, nil)
	}
	if err != nil {
		return 0, err
	}
	return int(sqlite3.Xsqlite3_changes(c.tls, c.db)), nil
}

// once runs a statement or a script that is not worth keeping.
func (c *conn) once(sql string) error {
	text, err := libc.CString(sql)
	if err != nil {
		return err
	}
	defer libc.Xfree(c.tls, text)
	for rest := text; at[byte](rest) != 0; {
		var s *stmt
		if s, rest, err = c.compile(rest, 0); err != nil {
			return err
		}
		if s.handle != 0 { // a comment is no statement
			err = s.run(nil, nil)
		}
		if s.close(); err != nil {
			return err
		}
	}
	return nil
}

// rows runs a query. The slice given to each is used again for the next row; its values are not.
func (c *conn) rows(sql string, args []any, each func(row []any) error) error {
	s, err := c.prepare(sql)
	if err != nil {
		return err
	}
	return s.run(args, each)
}

// ints reads the first row of a query, all of whose columns are numbers. ok is false without a row.
func (c *conn) ints(sql string, into ...*int64) (ok bool, err error) {
	err = c.rows(sql, nil, func(row []any) error {
		for i, p := range into {
			n, isInt := row[i].(int64)
			if !isInt {
				return fmt.Errorf("sqlite: %s: column %d is a %T", sql, i, row[i])
			}
			*p = n
		}
		ok = true
		return nil
	})
	return ok, err
}

// text reads the first column of the first row of a query.
func (c *conn) text(sql string) (out string, err error) {
	first := true
	err = c.rows(sql, nil, func(row []any) error {
		if first {
			out, _ = row[0].(string)
		}
		first = false
		return nil
	})
	return out, err
}

// written is the number of pages written since it was asked last.
func (c *conn) written() int {
	rc := sqlite3.Xsqlite3_db_status(c.tls, c.db, sqlite3.SQLITE_DBSTATUS_CACHE_WRITE, c.out, c.out+wordSize, 1)
	if rc != sqlite3.SQLITE_OK {
		return 1
	}
	return int(at[int32](c.out))
}

const wordSize = unsafe.Sizeof(uintptr(0))

// at reads a value in the library's memory.
func at[T any](p uintptr) T {
	var size T
	return *(*T)(unsafe.Pointer(unsafe.SliceData(libc.GoBytes(p, int(unsafe.Sizeof(size))))))
}
