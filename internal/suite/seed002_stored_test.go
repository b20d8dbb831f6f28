package suite

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/sqlite"
	"github.com/pawl-dev/pawl/storage"
	"github.com/pawl-dev/pawl/storage/fault"
)

// takenMeansStored ends the process at every point of giving an answer, by each door.
func takenMeansStored(t *testing.T, _ *report) {
	for _, d := range doors {
		t.Run("stopped/"+d.name, func(t *testing.T) {
			onEach(t, func(t *testing.T, h *home) { stopEverywhere(t, h, d) })
		})
		for name, spot := range map[string]string{"around the commits": "commit", "between the writes": "write"} {
			t.Run("killed/"+d.name+"/"+name, func(t *testing.T) {
				t.Log(three(t, func(t *testing.T) string { return killEverywhere(t, d.name, spot) }))
			})
		}
	}
}

// stopEverywhere stops the answering engine at every point of its Updates in turn.
func stopEverywhere(t *testing.T, h *home, d door) {
	for point, over := 0, false; !over; point++ {
		t.Run(fmt.Sprint("point ", point), func(t *testing.T) {
			l, eng, q := sold(t, h, 0)
			db := fault.Wrap(h.open(t), fault.Plan{At: fault.At(point, fault.Stop())})
			dying := engine(t, db, nil, atDepth(t, selling(l, 0)))
			_, err := d.give(context.Background(), dying, t.Name(), q.ID, bid{Amount: 5})
			if over = db.Calls() <= point; over != (err == nil) {
				t.Errorf("point %d of %d: error %v", point, db.Calls(), err)
			}
			dying.Close()
			t.Log(afterwards(t, eng, l, q, err == nil))
		})
	}
}

// afterwards goes on where the sender was told "taken", or was not, and says what came of it.
func afterwards(t *testing.T, eng *pawl.Engine, l *ledger, q pawl.Question, told bool) string {
	t.Helper()
	th := eng.Thread("sale", q.Thread)
	before, status := history(t, th), statusOf(t, th)
	stored := len(status.Waiting) == 0
	if told && !stored {
		t.Errorf("the sender was told taken, and the question is still open")
	}
	if !told {
		if v, err := eng.Answer(context.Background(), q.ID, bid{Amount: 5}); err != nil || !v.Taken || v.Already != stored {
			t.Errorf("sent again: verdict %+v, error %v; stored before: %v", v, err, stored)
		}
	}
	out, err := th.Resume(context.Background())
	finished(t, out, err, `{"sold":[5]}`)
	// A death after the node was entered again, and before its checkpoint, has it entered once more.
	entries := l.count("entry")
	if entries != 2 && (entries != 3 || status.Status != pawl.Crashed) {
		t.Errorf("entries %d after status %s", entries, status.Status)
	}
	tally(t, l, map[string]int{"entry": entries})
	atEnd(t, th, before)
	return fmt.Sprintf("told %v, stored %v, %s, entries %d", told, stored, status.Status, entries)
}

type giving struct {
	Path, Ledger, Thread, ID, Door string
	Spot                           string // "commit" or "write"
	At                             int
}

// killEverywhere has a process give the answer and kills it at every point in turn, the last time right after the
// process was told.
func killEverywhere(t *testing.T, door, spot string) string {
	h := &home{name: "sqlite", path: filepath.Join(t.TempDir(), "pawl.db")}
	h.open = func(t testing.TB) storage.DB { return openFile(t, h.path) }
	var lines []string
	for point, over := 0, false; !over; point++ {
		t.Run(fmt.Sprint("point ", point), func(t *testing.T) {
			l, eng, q := sold(t, h, 0)
			c := spawn(t, "002-give", giving{h.path, l.path, t.Name(), q.ID, door, spot, point})
			over = c.line() == "taken"
			if err := c.cmd.Wait(); err == nil || err.Error() != "signal: killed" {
				t.Fatalf("the process ended with %v, it was to be killed", err)
			}
			lines = append(lines, afterwards(t, eng, l, q, over))
		})
	}
	return strings.Join(lines, "\n")
}

// giveChild gives an answer and dies at a point of it. Where there is no such point it is told what became of the
// answer, says so and dies then.
func giveChild(doc []byte) {
	a := args[giving](doc)
	var db storage.DB = must(sqlite.Open(a.Path, pawl.Kinds()...))
	if a.Spot == "write" {
		db = &mortal{DB: db, at: int64(a.At)}
	} else {
		db = fault.Wrap(db, fault.Plan{At: fault.At(a.At, fault.Do(killSelf))})
	}
	eng := must(pawl.NewEngine(db, nil))
	must(0, eng.Register(atDepthHere(selling(&ledger{a.Ledger}, 0))))
	for _, d := range doors {
		if d.name == a.Door {
			if v := must(d.give(context.Background(), eng, a.Thread, a.ID, bid{Amount: 5})); !v.Taken {
				must(0, errors.New("no error and not taken"))
			}
		}
	}
	fmt.Println("taken")
	killSelf()
}

// mortal kills its process before one of its writes inside a transaction.
type mortal struct {
	storage.DB
	at   int64
	seen atomic.Int64
}

func (m *mortal) Update(ctx context.Context, fn func(context.Context, storage.Tx) error) error {
	return m.DB.Update(ctx, func(ctx context.Context, tx storage.Tx) error { return fn(ctx, mortalTx{tx, m}) })
}

func (m *mortal) write() {
	if m.seen.Add(1) > m.at {
		killSelf()
	}
}

type mortalTx struct {
	storage.Tx
	m *mortal
}

func (tx mortalTx) Put(kind string, row storage.Row, cond storage.If) (bool, error) {
	tx.m.write()
	return tx.Tx.Put(kind, row, cond)
}

func (tx mortalTx) Delete(kind string, keys storage.Range) (int, error) {
	tx.m.write()
	return tx.Tx.Delete(kind, keys)
}

func (tx mortalTx) Seq(thread, epoch int64, n int) (int64, bool, error) {
	tx.m.write()
	return tx.Tx.Seq(thread, epoch, n)
}

func (tx mortalTx) Lease(thread int64, op storage.LeaseOp, member string) (storage.Lease, bool, error) {
	if op != storage.Look {
		tx.m.write()
	}
	return tx.Tx.Lease(thread, op, member)
}
