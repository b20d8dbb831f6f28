package suite

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
)

// target is something outside the engine that keeps rows: a table of the user's own, or a mail server. An id is kept
// once: insert refuses it the second time with errKept, upsert takes it again. Rows without an id are all kept.
type target struct {
	insert func(id string) error
	upsert func(id string) error
	rows   func() int
}

var errKept = errors.New("there is a row of that id")

func tableTarget(t *testing.T) target {
	db, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "user.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	if _, err := db.Exec("create table orders (id text unique, changes integer not null default 1)"); err != nil {
		t.Fatal(err)
	}
	return target{
		insert: func(id string) error {
			_, err := db.Exec("insert into orders (id) values (nullif(?, ''))", id)
			if err != nil && strings.Contains(err.Error(), "UNIQUE") {
				return errKept
			}
			return err
		},
		upsert: func(id string) error {
			_, err := db.Exec("insert into orders (id) values (?) on conflict (id) do update set changes = changes + 1", id)
			return err
		},
		rows: func() (n int) {
			if err := db.QueryRow("select count(*) from orders").Scan(&n); err != nil {
				t.Error(err)
			}
			return n
		},
	}
}

func mailTarget(t *testing.T) target {
	l := newLedger(t)
	insert := func(id string) error {
		if id != "" && l.count(id) > 0 {
			return errKept
		}
		l.add("mail" + id)
		if id != "" {
			l.add(id)
		}
		return nil
	}
	return target{
		insert: insert,
		upsert: func(id string) error {
			if err := insert(id); err != errKept {
				return err
			}
			return nil
		},
		rows: func() (n int) {
			for _, row := range l.rows() {
				if strings.HasPrefix(row, "mail") {
					n++
				}
			}
			return n
		},
	}
}

// rowGraph writes to a target above and below its question.
func rowGraph(l *ledger, above, below func(context.Context) error, uses ...pawl.Usable) *pawl.Builder[approveState] {
	return pawl.New[approveState]("row").Node("write", func(ctx context.Context, s *approveState) error {
		l.add("write")
		if err := above(ctx); err != nil {
			return err
		}
		answer, err := shipIt.Ask(ctx, "Ship it?")
		if err != nil {
			return err
		}
		s.Decision.Set(answer)
		return below(ctx)
	}, pawl.Uses(append(uses, shipIt)...)).Edge(pawl.Start, "write")
}

func rowAbovePause(t *testing.T, _ *report) {
	nothing := func(context.Context) error { return nil }
	for _, kind := range []struct {
		name string
		open func(*testing.T) target
	}{{"row", tableTarget}, {"mail", mailTarget}} {
		for _, c := range []struct {
			how    string
			writes func(to target) (above, below func(context.Context) error)
			want   int
		}{
			{"plain above the question", func(to target) (above, below func(context.Context) error) {
				return func(context.Context) error { return to.insert("") }, nothing
			}, 2},
			{"upsert on a business id", func(to target) (above, below func(context.Context) error) {
				return func(context.Context) error { return to.upsert("order-17") }, nothing
			}, 1},
			{"plain below the question", func(to target) (above, below func(context.Context) error) {
				return nothing, func(context.Context) error { return to.insert("") }
			}, 1},
			{"plain with a unique task key", func(to target) (above, below func(context.Context) error) {
				return func(ctx context.Context) error {
					if err := to.insert(pawl.TaskKey(ctx)); err != errKept {
						return err
					}
					return nil
				}, nothing
			}, 1},
			{"inside a step", func(to target) (above, below func(context.Context) error) {
				return func(ctx context.Context) error {
					_, err := pawl.Step(ctx, "insert", func(context.Context) (bool, error) { return true, to.insert("") })
					return err
				}, nothing
			}, 1},
		} {
			t.Run(kind.name+" "+c.how, func(t *testing.T) {
				onEach(t, func(t *testing.T, h *home) {
					to, l := kind.open(t), newLedger(t)
					above, below := c.writes(to)
					g := atDepth(t, rowGraph(l, above, below))
					th := g.Thread(engine(t, h.open(t), nil, g), "t1")
					out, err := th.Run(t.Context(), &approveState{})
					q := mustWait(t, out, err, "ship")[0]
					before := history(t, th)
					out, err = th.Resume(t.Context(), shipIt.Answer(q.ID, "yes"))
					same(t, "state", mustBeDone(t, out, err), `{"decision":"yes"}`)
					same(t, "rows", to.rows(), c.want)
					same(t, "entries", l.count("write"), 2)
					grew(t, before, history(t, th))
					settled(t, statusOf(t, th))
				})
			})
		}
	}
	t.Run("mail as an effect with look-up", func(t *testing.T) { writtenAsAnEffect(t, false) })
	t.Run("row as an effect in the same database", func(t *testing.T) { writtenAsAnEffect(t, true) })
	t.Run("row plain above the question in strict mode", strictOnPlainRows)
}
