package pawltest_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/pawltest"
)

type asked struct {
	Answer pawl.Last[string] `json:"answer"`
}

var ask = pawl.Interrupt[string, string]{Name: "ask"}

// outlet is one way out of a program.
type outlet struct {
	name string
	open func(t *testing.T, w *pawltest.Watch) func(context.Context) error
	says string
}

func outlets() []outlet {
	sqlOutlet := func(name, says string, call func(context.Context, *sql.DB) error) outlet {
		return outlet{name, func(t *testing.T, w *pawltest.Watch) func(context.Context) error {
			db := watchedDB(t, w)
			return func(ctx context.Context) error { return call(ctx, db) }
		}, says}
	}
	return []outlet{
		{"HTTP", func(t *testing.T, w *pawltest.Watch) func(context.Context) error {
			s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
			t.Cleanup(s.Close)
			client := &http.Client{Transport: &pawltest.Transport{Watch: w}}
			return func(ctx context.Context) error {
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+"/pay?token=secret", nil)
				if err != nil {
					return err
				}
				res, err := client.Do(req)
				if err == nil {
					err = res.Body.Close()
				}
				return err
			}
		}, "POST http://"},
		sqlOutlet("a statement", "exec insert into t values (?)", func(ctx context.Context, db *sql.DB) error {
			_, err := db.ExecContext(ctx, "insert\n into t  values (?)", 1)
			return err
		}),
		sqlOutlet("a query", "query select n from t", func(ctx context.Context, db *sql.DB) error {
			rows, err := db.QueryContext(ctx, "select n from t")
			if err == nil {
				err = rows.Close()
			}
			return err
		}),
		sqlOutlet("a prepared statement", "exec insert into t values (?)", func(ctx context.Context, db *sql.DB) error {
			s, err := db.PrepareContext(ctx, "insert into t values (?)")
			if err != nil {
				return err
			}
			_, err = s.ExecContext(ctx, 1)
			return errors.Join(err, s.Close())
		}),
		sqlOutlet("a transaction", "begin", func(ctx context.Context, db *sql.DB) error {
			tx, err := db.BeginTx(ctx, nil)
			if err != nil {
				return err
			}
			_, err = tx.Exec("insert into t values (1)")
			return errors.Join(err, tx.Commit())
		}),
		{"a fake target", func(*testing.T, *pawltest.Watch) func(context.Context) error {
			target := pawltest.NewTarget(pawltest.TargetOpaque)
			return func(ctx context.Context) error {
				_, err := target.Send(ctx, "k", "invoice:17", nil)
				return err
			}
		}, "send invoice:17"},
	}
}

// connector opens one database by a driver that has none of its own.
type connector struct {
	name string
	drv  driver.Driver
}

func (c connector) Connect(context.Context) (driver.Conn, error) { return c.drv.Open(c.name) }
func (c connector) Driver() driver.Driver                        { return c.drv }

func watchedDB(t *testing.T, w *pawltest.Watch) *sql.DB {
	t.Helper()
	plain, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(pawltest.Connector(connector{filepath.Join(t.TempDir(), "t.db"), plain.Driver()}, w))
	t.Cleanup(func() { _, _ = plain.Close(), db.Close() })
	if _, err := db.Exec("create table t (n integer)"); err != nil {
		t.Fatal(err)
	}
	return db
}

// A call of the node above its question fails the node, by name; the same call elsewhere is let pass.
func TestStrictModeSeesCallsAboveAQuestion(t *testing.T) {
	t.Parallel()
	nothing := func(context.Context) error { return nil }
	for _, out := range outlets() {
		for _, c := range []struct {
			name  string
			place string
			wrap  func(call func(context.Context) error) (above, below func(context.Context) error)
			fails bool
		}{
			{"above", "node", func(call func(context.Context) error) (a, b func(context.Context) error) { return call, nothing }, true},
			{"above, in a branch", "node", func(call func(context.Context) error) (a, b func(context.Context) error) {
				return func(ctx context.Context) error { return pawl.All(ctx, call, nothing) }, nothing
			}, true},
			{"below", "node", func(call func(context.Context) error) (a, b func(context.Context) error) { return nothing, call }, false},
			{"in a step", "step", func(call func(context.Context) error) (a, b func(context.Context) error) {
				return func(ctx context.Context) error {
					_, err := pawl.Step(ctx, "call", func(ctx context.Context) (bool, error) { return true, call(ctx) })
					return err
				}, nothing
			}, false},
			{"in a branch of a step", "step", func(call func(context.Context) error) (a, b func(context.Context) error) {
				return func(ctx context.Context) error {
					_, err := pawl.Step(ctx, "call", func(ctx context.Context) (bool, error) { return true, pawl.All(ctx, call) })
					return err
				}, nothing
			}, false},
			{"under another context", "", func(call func(context.Context) error) (a, b func(context.Context) error) {
				return func(context.Context) error { return call(context.Background()) }, nothing
			}, false},
		} {
			t.Run(out.name+" "+c.name, func(t *testing.T) {
				w := &pawltest.Watch{}
				above, below := c.wrap(out.open(t, w))
				g := askGraph(t, above, below)
				before := len(w.Seen())
				th := g.Thread(pawltest.New(t, g), "t")
				res, err := th.Run(t.Context(), &asked{})
				var call *pawl.UnfencedCallError
				if errors.As(err, &call) != c.fails || !c.fails && err != nil {
					t.Fatalf("got %v", err)
				}
				if c.fails {
					if call.Node != "write" || call.Question != "ask" || call.Calls != 1 || len(call.Call) < len(out.says) || call.Call[:len(out.says)] != out.says {
						t.Errorf("report %+v, want a call %q", call, out.says)
					}
					if s, err := th.State(t.Context()); err != nil || s.Status != pawl.Failed || len(s.Waiting) != 0 {
						t.Errorf("the thread is %+v, %v", s, err)
					}
				} else if res, err = th.Resume(t.Context(), ask.Answer(res.Waiting[0].ID, "yes")); err != nil || res.Status != pawl.Done {
					t.Errorf("%+v, %v", res, err)
				}
				if out.name == "a fake target" {
					return // it is not watched, it tells the engine
				}
				for _, o := range w.Seen()[before:] {
					if o.Place != c.place && o.Place != "" { // what tx.Exec sends has no context
						t.Errorf("seen %+v, want place %q", o, c.place)
					}
				}
				if seen := w.Seen()[before:]; len(seen) == 0 || seen[0].Place != c.place {
					t.Errorf("seen %+v", seen)
				}
			})
		}
	}
}

func askGraph(t *testing.T, above, below func(context.Context) error) *pawl.Graph[asked] {
	t.Helper()
	g, err := pawl.New[asked]("row").Node("write", func(ctx context.Context, s *asked) error {
		if err := above(ctx); err != nil {
			return err
		}
		answer, err := ask.Ask(ctx, "?")
		if err != nil {
			return err
		}
		s.Answer.Set(answer)
		return below(ctx)
	}, pawl.Uses(ask)).Edge(pawl.Start, "write").Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// An engine that is not strict lets the call pass, twice.
func TestOnlyStrictEnginesFailCalls(t *testing.T) {
	t.Parallel()
	target := pawltest.NewTarget(pawltest.TargetOpaque)
	g := askGraph(t, func(ctx context.Context) error {
		_, err := target.Send(ctx, "", "r", nil)
		return err
	}, func(context.Context) error { return nil })
	eng, err := pawl.NewEngine(pawltest.Memory(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = eng.Close() })
	out := pawltest.Run(t, g.Thread(eng, "t"), &asked{}, pawltest.People{"ask": func(pawl.Question) any { return "yes" }})
	if out.Status != pawl.Done || target.Count().Rows != 2 {
		t.Errorf("%s, %s", out.Status, target.Count())
	}
}

// oldDriver has none of the optional methods.
type oldDriver struct{ log *[]string }

func (d oldDriver) Open(string) (driver.Conn, error)        { return oldConn(d), nil }
func (c oldConn) Prepare(q string) (driver.Stmt, error)     { return oldStmt{c.log, q}, nil }
func (c oldConn) Close() error                              { return nil }
func (c oldConn) Begin() (driver.Tx, error)                 { return c, nil }
func (c oldConn) Commit() error                             { return nil }
func (c oldConn) Rollback() error                           { return nil }
func (s oldStmt) Close() error                              { return nil }
func (s oldStmt) NumInput() int                             { return -1 }
func (s oldStmt) Query([]driver.Value) (driver.Rows, error) { return noRows{}, nil }
func (noRows) Columns() []string                            { return nil }
func (noRows) Close() error                                 { return nil }
func (noRows) Next([]driver.Value) error                    { return io.EOF }
func (s oldStmt) Exec(v []driver.Value) (driver.Result, error) {
	*s.log = append(*s.log, fmt.Sprint(s.query, v))
	return driver.RowsAffected(1), nil
}

type oldConn struct{ log *[]string }

type oldStmt struct {
	log   *[]string
	query string
}

type noRows struct{}

// A driver of the plainest kind works through the wrapper as it does without.
func TestAWatchedDriverKeepsToItsBase(t *testing.T) {
	t.Parallel()
	var log []string
	w := &pawltest.Watch{}
	db := sql.OpenDB(connector{"", pawltest.Driver(oldDriver{&log}, w)})
	defer func() { _ = db.Close() }()
	ctx := t.Context()
	if err := db.PingContext(ctx); err != nil {
		t.Error(err)
	}
	if _, err := db.ExecContext(ctx, "insert", 1, "x"); err != nil {
		t.Error(err)
	}
	if rows, err := db.QueryContext(ctx, "select"); err != nil || rows.Next() || rows.Err() != nil || rows.Close() != nil {
		t.Error(err)
	}
	if _, err := db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true}); err == nil {
		t.Error("a read-only transaction was begun")
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil || tx.Commit() != nil {
		t.Error(err)
	}
	want := []pawltest.Outgoing{{What: "exec insert"}, {What: "query select"}, {What: "begin"}, {What: "begin"}}
	if got := w.Seen(); fmt.Sprint(got) != fmt.Sprint(want) || fmt.Sprint(log) != "[insert[1 x]]" {
		t.Errorf("seen %+v, log %q", got, log)
	}
}
