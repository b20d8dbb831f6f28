package suite

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/effect"
	"github.com/pawl-dev/pawl/internal/house"
	"github.com/pawl-dev/pawl/internal/nest"
	"github.com/pawl-dev/pawl/sqlite"
	"github.com/pawl-dev/pawl/storage"
	"github.com/pawl-dev/pawl/storage/fault"
)

// mailer is a home and a mail server, or a table in that home in its place; point is where a process dies, counted in
// calls of the home.
type mailer struct {
	Path, Ledger, Counts string
	Table                bool
	Point                int
}

// mailTable keeps rows by a number, so that two would be two.
func mailTable() storage.Kind {
	return storage.Kind{Name: "mail", Key: []storage.Field{{Name: "n", Type: storage.Int}}}
}

// insertMail writes a row of the table in the transaction of its effect.
func insertMail(_ context.Context, tx storage.Tx, _ effect.Op, in params) (string, error) {
	rows, err := tx.List("mail", storage.Query{NoBody: true})
	if err != nil {
		return "", err
	}
	n := int64(len(rows)) + 1
	_, err = tx.Put("mail", storage.Row{Key: []any{n}, Body: []byte(call("mail", in))}, storage.Absent())
	return fmt.Sprintf("receipt-%d", n), err
}

func (m mailer) graph(at nest.Level) *nest.Graph[approveState] {
	mail := (&ledger{m.Ledger}).tool("mail", nil)
	if m.Table {
		mail = effect.Inside("mail", insertMail)
	}
	return must(atLevel(at, rowGraph(&ledger{m.Counts}, func(ctx context.Context) error {
		_, err := mail.Do(ctx, effect.Ref("order", "17"), allStaff)
		return err
	}, func(context.Context) error { return nil }, mail)))
}

// goOn brings a thread on from wherever it stands until it is done.
func (m mailer) goOn(th *nest.Thread[approveState]) (*pawl.OutcomeOf[approveState], error) {
	ctx := context.Background()
	out, err := th.Run(ctx, &approveState{}, pawl.RunID("order-17"))
	for {
		s, lost := th.State(ctx)
		if lost != nil || s.Status != pawl.Waiting && s.Status != pawl.Crashed {
			return out, errors.Join(err, lost)
		}
		var answers []pawl.RunOption
		for _, q := range s.Waiting {
			if s.Status == pawl.Waiting {
				answers = append(answers, shipIt.Answer(q.ID, "yes"))
			}
		}
		if out, err = th.Resume(ctx, answers...); err != nil {
			return out, err
		}
	}
}

// mailChild dies at a point of its home, or lives to the end of the run.
func mailChild(doc []byte) {
	m := args[mailer](doc)
	led, parts, err := staff()
	must(led, err)
	db := fault.Wrap(must(sqlite.Open(m.Path, append(house.Kinds(), mailTable())...)), fault.Plan{At: fault.At(m.Point, fault.Do(killSelf))})
	eng := must(pawl.NewEngine(db, &pawl.Options{Parts: parts}))
	must(m.goOn(m.graph(levelHere()).Thread(eng, "t1")))
	fmt.Println("done")
	must(0, eng.Close())
}

func newMailer(t *testing.T, path string, table bool) mailer {
	return mailer{Path: path, Ledger: newLedger(t).path, Counts: newLedger(t).path, Table: table}
}

// writtenAsAnEffect is one mail, or one row of the table, also when the process is killed before and after every write.
func writtenAsAnEffect(t *testing.T, table bool) {
	onEach(t, func(t *testing.T, h *home) {
		m := newMailer(t, h.path, table)
		o := openOffice(t, h.open(t))
		th := m.graph(levelFor(t)).Thread(o.eng, "t1")
		out, err := th.Run(t.Context(), &approveState{})
		q := mustWait(t, out, err, "ship")[0]
		before := history(t, th)
		out, err = th.Resume(t.Context(), shipIt.Answer(q.ID, "yes"))
		same(t, "state", mustBeDone(t, out, err), `{"decision":"yes"}`)
		m.onlyOne(t, o)
		same(t, "entries", (&ledger{m.Counts}).count("write"), 2)
		grew(t, before, history(t, th))
		settled(t, statusOf(t, th))
	}, mailTable())
	t.Run("killed at every write", func(t *testing.T) {
		three(t, func(t *testing.T) string { return writtenAtEveryDeath(t, table) })
	})
}

// writtenAtEveryDeath kills a process at each point of its home in turn, until one lives to the end.
func writtenAtEveryDeath(t *testing.T, table bool) string {
	for point := 0; ; point++ {
		m := newMailer(t, onDisk(t).path, table)
		m.Point = point
		c := spawn(t, "001-mail", m)
		lived := c.line() == "done"
		c.cmd.Wait()
		if ws := c.cmd.ProcessState.Sys().(syscall.WaitStatus); !lived && ws.Signal() != syscall.SIGKILL {
			t.Fatalf("point %d: the process did not die by SIGKILL: %v", point, c.cmd.ProcessState)
		}
		o := openOffice(t, openFile(t, m.Path, mailTable()))
		out, err := m.goOn(m.graph(levelFor(t)).Thread(o.eng, "t1"))
		same(t, fmt.Sprint("state after a death at point ", point), mustBeDone(t, out, err), `{"decision":"yes"}`)
		rows := m.onlyOne(t, o)
		o.eng.Close()
		o.db.Close()
		if lived {
			if point < 8 {
				t.Errorf("there were only %d points of death", point)
			}
			return fmt.Sprint(rows)
		}
	}
}

// onlyOne fails unless there is one mail, or row, of one committed operation.
func (m mailer) onlyOne(t *testing.T, o *office) []string {
	t.Helper()
	rows := (&ledger{m.Ledger}).rows()
	if m.Table {
		rows = mailsIn(t, o.db)
	}
	same(t, "rows", rows, []string{"mail(to=all-staff)"})
	o.explained(t, rows, 1)
	return rows
}

func mailsIn(t testing.TB, db storage.DB) (rows []string) {
	t.Helper()
	err := db.View(context.Background(), func(_ context.Context, tx storage.Tx) error {
		rows = nil
		all, err := tx.List("mail", storage.Query{})
		for _, row := range all {
			rows = append(rows, string(row.Body))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return rows
}
