package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net/url"

	modernc "modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/pawl-dev/pawl/storage"
)

// conn is one SQLite connection and its prepared statements, used by one goroutine at a time. It stands on the driver's
// own connection: database/sql would add a pool, a lock and a context watcher to every statement.
type conn struct {
	raw   driver.Conn
	stmts map[string]*stmt
}

// stmt is a prepared statement with room for what it is given and what it returns.
type stmt struct {
	driver.Stmt
	exec  driver.StmtExecContext
	query driver.StmtQueryContext
	args  []driver.NamedValue
	row   []driver.Value
}

// dial opens a connection to the file. mode is SQLite's: "ro", "rw" or "rwc".
func dial(path, mode string, pragmas ...string) (*conn, error) {
	raw, err := new(modernc.Driver).Open("file:" + (&url.URL{Path: path}).EscapedPath() + "?_error_rc=1&_dqs=0&mode=" + mode)
	if err != nil {
		return nil, err
	}
	c := &conn{raw: raw, stmts: map[string]*stmt{}}
	for _, p := range pragmas {
		if err := c.once("PRAGMA " + p); err != nil {
			return nil, errors.Join(err, c.close())
		}
	}
	return c, nil
}

func (c *conn) close() error {
	for _, s := range c.stmts {
		s.Close()
	}
	return c.raw.Close()
}

// prepare returns the statement kept under sql.
func (c *conn) prepare(sql string) (*stmt, error) {
	if s := c.stmts[sql]; s != nil {
		return s, nil
	}
	raw, err := c.raw.Prepare(sql)
	if err != nil {
		return nil, wrap(err)
	}
	s := &stmt{Stmt: raw, exec: raw.(driver.StmtExecContext), query: raw.(driver.StmtQueryContext)}
	c.stmts[sql] = s
	return s, nil
}

func (s *stmt) bind(args []any) []driver.NamedValue {
	for len(s.args) < len(args) {
		s.args = append(s.args, driver.NamedValue{Ordinal: len(s.args) + 1})
	}
	for i, a := range args {
		s.args[i].Value = a
	}
	return s.args[:len(args)]
}

// do runs a statement and returns the number of rows that it changed.
func (c *conn) do(sql string, args ...any) (int, error) {
	s, err := c.prepare(sql)
	if err != nil {
		return 0, err
	}
	r, err := s.exec.ExecContext(context.Background(), s.bind(args))
	if err != nil {
		return 0, wrap(err)
	}
	n, err := r.RowsAffected()
	return int(n), err
}

// once runs a statement or a script that is not worth keeping.
func (c *conn) once(sql string) error {
	_, err := c.raw.(driver.ExecerContext).ExecContext(context.Background(), sql, nil)
	return wrap(err)
}

// rows runs a query. The slice given to each is used again for the next row; its values are not.
func (c *conn) rows(sql string, args []any, each func(row []driver.Value) error) error {
	s, err := c.prepare(sql)
	if err != nil {
		return err
	}
	rows, err := s.query.QueryContext(context.Background(), s.bind(args))
	if err != nil {
		return wrap(err)
	}
	if s.row == nil {
		s.row = make([]driver.Value, len(rows.Columns()))
	}
	for err == nil {
		if err = rows.Next(s.row); err == nil {
			err = each(s.row)
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	if e := rows.Close(); err == nil {
		err = e
	}
	return wrap(err)
}

// ints reads the first row of a query, all of whose columns are numbers. ok is false without a row.
func (c *conn) ints(sql string, into ...*int64) (ok bool, err error) {
	err = c.rows(sql, nil, func(row []driver.Value) error {
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
	err = c.rows(sql, nil, func(row []driver.Value) error {
		if first {
			out, _ = row[0].(string)
		}
		first = false
		return nil
	})
	return out, err
}

// code is the primary result code of an error of SQLite, or 0.
func code(err error) int { return extended(err) & 0xff }

func extended(err error) int {
	if err == nil {
		return 0 // most often, and without the allocation below
	}
	var e *modernc.Error
	if errors.As(err, &e) {
		return e.Code()
	}
	return 0
}

// wrap gives an error of SQLite the name that the contract has for it.
func wrap(err error) error {
	if code(err) == sqlite3.SQLITE_FULL && !errors.Is(err, storage.ErrFull) {
		return fmt.Errorf("%w: %w", storage.ErrFull, err)
	}
	return err
}
