package suite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/effect"
	"github.com/pawl-dev/pawl/pawltest"
)

// fileOf opens one database by a driver.
type fileOf struct {
	path string
	drv  driver.Driver
}

func (f fileOf) Connect(context.Context) (driver.Conn, error) { return f.drv.Open(f.path) }
func (f fileOf) Driver() driver.Driver                        { return f.drv }

// watchedRow inserts a row into a table of the user's own through the watched driver.
func watchedRow(t *testing.T) func(context.Context) error {
	plain := must(sql.Open("sqlite", ":memory:"))
	db := sql.OpenDB(pawltest.Connector(fileOf{filepath.Join(t.TempDir(), "user.db"), plain.Driver()}, nil))
	t.Cleanup(func() { db.Close(); plain.Close() })
	must(db.Exec("create table orders (id text)"))
	return func(ctx context.Context) error {
		_, err := db.ExecContext(ctx, "insert into orders (id) values (?)", "order-17")
		return err
	}
}

// watchedPost sends a request through the watched transport.
func watchedPost(t *testing.T) func(context.Context) error {
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(s.Close)
	client := &http.Client{Transport: &pawltest.Transport{}}
	return func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+"/mail", strings.NewReader("{}"))
		if err != nil {
			return err
		}
		res, err := client.Do(req)
		if err == nil {
			err = res.Body.Close()
		}
		return err
	}
}

// callAboveIsReported is S000-29 (a): a call that goes out above a question, outside a step or an effect, fails the node,
// with its name, the call's and the question's. The same call in a step, in an effect or below the question: no report.
func callAboveIsReported(t *testing.T) {
	nothing := func(context.Context) error { return nil }
	for _, way := range []struct {
		name string
		open func(*testing.T) func(context.Context) error
		call string
	}{
		{"HTTP", watchedPost, "POST http://127.0.0.1:"},
		{"database", watchedRow, "exec insert into orders (id) values (?)"},
	} {
		for _, c := range []struct {
			name   string
			wraps  func(call func(context.Context) error) (above, below func(context.Context) error, uses []pawl.Usable)
			report bool
		}{
			{"plain above", func(call func(context.Context) error) (a, b func(context.Context) error, u []pawl.Usable) {
				return call, nothing, nil
			}, true},
			{"plain below", func(call func(context.Context) error) (a, b func(context.Context) error, u []pawl.Usable) {
				return nothing, call, nil
			}, false},
			{"in a step", func(call func(context.Context) error) (a, b func(context.Context) error, u []pawl.Usable) {
				return func(ctx context.Context) error {
					_, err := pawl.Step(ctx, "call", func(ctx context.Context) (bool, error) { return true, call(ctx) })
					return err
				}, nothing, nil
			}, false},
			{"in an effect", func(call func(context.Context) error) (a, b func(context.Context) error, u []pawl.Usable) {
				e := effect.New("call", func(ctx context.Context, _ effect.Op, _ params) (bool, error) { return true, call(ctx) })
				return func(ctx context.Context) error {
					_, err := e.Do(ctx, effect.Ref("order", "17"), params{})
					return err
				}, nothing, []pawl.Usable{e}
			}, false},
		} {
			t.Run(way.name+" "+c.name, func(t *testing.T) {
				onEachMoney(t, func(t *testing.T, h *home) {
					l := newLedger(t)
					above, below, uses := c.wraps(way.open(t))
					th := atDepth(t, rowGraph(l, above, below, uses...)).Thread(firmIn(t, h).eng, "t1")
					out, err := th.Run(t.Context(), &approveState{})
					call := (*pawl.UnfencedCallError)(nil)
					if !c.report {
						q := mustWait(t, out, err, "ship")[0]
						out, err = th.Resume(t.Context(), shipIt.Answer(q.ID, "yes"))
						mustBeDone(t, out, err)
						return
					}
					if !errors.As(err, &call) {
						t.Fatalf("got %v, want an *UnfencedCallError", err)
					}
					same(t, "report", []any{call.Node, call.Question, call.Calls, strings.HasPrefix(call.Call, way.call)}, []any{"write", "ship", 1, true})
					for _, part := range []string{`node "write"`, way.call, `question "ship"`, "pawl.Step"} {
						if !strings.Contains(err.Error(), part) {
							t.Errorf("the report does not say %q: %v", part, err)
						}
					}
					same(t, "entries", l.count("write"), 1)
					same(t, "waiting", len(statusOf(t, th).Waiting), 0)
				})
			})
		}
	}
}

// strictOnPlainRows is what strict mode makes of S001-8's first line.
func strictOnPlainRows(t *testing.T) {
	th := atDepth(t, rowGraph(newLedger(t), watchedRow(t), func(context.Context) error { return nil })).Thread(
		engine(t, memory(t).open(t), &pawl.Options{Strict: true}), "t1")
	_, err := th.Run(t.Context(), &approveState{})
	if call := (*pawl.UnfencedCallError)(nil); !errors.As(err, &call) || call.Node != "write" || call.Question != "ship" {
		t.Errorf("got %v", err)
	}
	same(t, "status", statusOf(t, th).Status, pawl.Failed)
}

// unfencedCallIsReported is the harness's half of A70, for a question that is an approval.
func unfencedCallIsReported(t *testing.T, _ *report) {
	t.Log("the other half, egress that denies the call in production, is the gateway's")
	onEachMoney(t, func(t *testing.T, h *home) {
		target := pawltest.NewTarget(pawltest.TargetOpaque)
		e, post := approvedWire(target), watchedPost(t)
		pay := pays(e)
		g := pawl.New[payment]("pay").Node("transfer", func(ctx context.Context, s *payment) error {
			if err := post(ctx); err != nil {
				return err
			}
			return pay(ctx, s)
		}, pawl.Uses(e)).Path(pawl.Start, "transfer")
		o := firmIn(t, h)
		_, err := atDepth(t, g).Thread(o.eng, "t").Run(t.Context(), orderFor("17"))
		call := (*pawl.UnfencedCallError)(nil)
		if !errors.As(err, &call) {
			t.Fatalf("got %v, want an *UnfencedCallError", err)
		}
		same(t, "report", []string{call.Node, call.Question}, []string{"transfer", "bank.transfer"})
		saw(t, target, 0, 0, 0)
	})
}
