package pawltest

import (
	"context"
	"database/sql/driver"
	"errors"
	"strings"
)

// Driver wraps a database driver so that a [Watch] sees its statements; a nil Watch only tells the engine. Register it
// under a name of its own, or open a database on it with sql.OpenDB and [Connector]:
//
//	sql.Register("watched", pawltest.Driver(&sqlite.Driver{}, nil))
//
// Statements are seen by the context that they are given: db.ExecContext(ctx, ...), and not db.Exec.
func Driver(base driver.Driver, w *Watch) driver.Driver { return &watchedDriver{base, w} }

// Connector is [Driver] for a connector.
func Connector(base driver.Connector, w *Watch) driver.Connector { return &watchedConnector{base, w} }

type watchedDriver struct {
	base driver.Driver
	w    *Watch
}

func (d *watchedDriver) Open(name string) (driver.Conn, error) {
	c, err := d.base.Open(name)
	if err != nil {
		return nil, err
	}
	return &watchedConn{c, d.w}, nil
}

type watchedConnector struct {
	base driver.Connector
	w    *Watch
}

func (c *watchedConnector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.base.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &watchedConn{conn, c.w}, nil
}

func (c *watchedConnector) Driver() driver.Driver { return Driver(c.base.Driver(), c.w) }

// watchedConn has all optional methods of a connection and falls back to what database/sql does without them.
type watchedConn struct {
	driver.Conn
	w *Watch
}

// brief is a statement on one line, cut short. Values are arguments and are not told.
func brief(query string) string {
	query = strings.Join(strings.Fields(query), " ")
	if len(query) > 80 {
		query = query[:80] + "..."
	}
	return query
}

func (c *watchedConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	e, ok := c.Conn.(driver.ExecerContext)
	if !ok {
		return nil, driver.ErrSkip // it is prepared, and seen there
	}
	c.w.note(ctx, "exec "+brief(query))
	return e.ExecContext(ctx, query, args)
}

func (c *watchedConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	q, ok := c.Conn.(driver.QueryerContext)
	if !ok {
		return nil, driver.ErrSkip
	}
	c.w.note(ctx, "query "+brief(query))
	return q.QueryContext(ctx, query, args)
}

func (c *watchedConn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	var s driver.Stmt
	var err error
	if p, ok := c.Conn.(driver.ConnPrepareContext); ok {
		s, err = p.PrepareContext(ctx, query)
	} else {
		s, err = c.Conn.Prepare(query)
	}
	if err != nil {
		return nil, err
	}
	return &watchedStmt{s, c.w, brief(query)}, nil
}

func (c *watchedConn) Prepare(query string) (driver.Stmt, error) {
	return c.PrepareContext(context.Background(), query)
}

func (c *watchedConn) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	c.w.note(ctx, "begin")
	if b, ok := c.Conn.(driver.ConnBeginTx); ok {
		return b.BeginTx(ctx, o)
	}
	if o.ReadOnly || o.Isolation != driver.IsolationLevel(0) {
		return nil, errors.New("pawltest: the driver below has no transaction options")
	}
	//lint:ignore SA1019 the driver below may be an old one
	return c.Conn.Begin() // what database/sql does for such a driver
}

func (c *watchedConn) Ping(ctx context.Context) error {
	if p, ok := c.Conn.(driver.Pinger); ok {
		return p.Ping(ctx)
	}
	return nil
}

func (c *watchedConn) ResetSession(ctx context.Context) error {
	if r, ok := c.Conn.(driver.SessionResetter); ok {
		return r.ResetSession(ctx)
	}
	return nil
}

func (c *watchedConn) IsValid() bool {
	v, ok := c.Conn.(driver.Validator)
	return !ok || v.IsValid()
}

func (c *watchedConn) CheckNamedValue(v *driver.NamedValue) error { return checked(c.Conn, v) }

// checked asks a driver about a value, or leaves it to database/sql.
func checked(of any, v *driver.NamedValue) error {
	if n, ok := of.(driver.NamedValueChecker); ok {
		return n.CheckNamedValue(v)
	}
	return driver.ErrSkip
}

type watchedStmt struct {
	driver.Stmt
	w     *Watch
	query string
}

func (s *watchedStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	s.w.note(ctx, "exec "+s.query)
	if e, ok := s.Stmt.(driver.StmtExecContext); ok {
		return e.ExecContext(ctx, args)
	}
	//lint:ignore SA1019 the driver below may be an old one
	return s.Stmt.Exec(values(args)) // what database/sql does for such a driver
}

func (s *watchedStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	s.w.note(ctx, "query "+s.query)
	if q, ok := s.Stmt.(driver.StmtQueryContext); ok {
		return q.QueryContext(ctx, args)
	}
	//lint:ignore SA1019 the driver below may be an old one
	return s.Stmt.Query(values(args)) // what database/sql does for such a driver
}

func (s *watchedStmt) CheckNamedValue(v *driver.NamedValue) error { return checked(s.Stmt, v) }

func values(args []driver.NamedValue) []driver.Value {
	out := make([]driver.Value, len(args))
	for i, a := range args {
		out[i] = a.Value
	}
	return out
}
