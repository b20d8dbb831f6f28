package effect_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/approval"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/effect"
	"github.com/pawl-dev/pawl/memdb"
	"github.com/pawl-dev/pawl/pawltest"
	"github.com/pawl-dev/pawl/redact"
	"github.com/pawl-dev/pawl/sqlite"
	"github.com/pawl-dev/pawl/storage"
	"github.com/pawl-dev/pawl/storage/fault"
)

// bookKind is a table of the user's own in the engine's database: rows are kept by a number, so that two would be two.
func bookKind() storage.Kind {
	return storage.Kind{Name: "book", Key: []storage.Field{{Name: "tenant", Type: storage.Text}, {Name: "n", Type: storage.Int}}}
}

type insideFn = func(context.Context, storage.Tx, effect.Op, transfer) (receipt, error)

// booked adds a row.
func booked(_ context.Context, tx storage.Tx, op effect.Op, in transfer) (receipt, error) {
	rows, err := tx.List("book", storage.Query{Range: storage.Range{Prefix: []any{op.Tenant}}, NoBody: true})
	if err != nil {
		return receipt{}, err
	}
	n := int64(len(rows)) + 1
	_, err = tx.Put("book", storage.Row{Key: []any{op.Tenant, n}, Body: []byte(in.To + " " + in.Amount)}, storage.Absent())
	return receipt{fmt.Sprint("row-", n)}, err
}

// bookHome is a home in memory with that table.
func bookHome(t testing.TB) storage.DB {
	t.Helper()
	db, err := memdb.Open(append(kinds(), bookKind())...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// inside is the effect under the name that a home may know from an effect outside.
func inside(fn insideFn) money {
	return effect.Inside("bank.transfer", fn).Material("to", "amount", "currency")
}

// The row and the receipt are there together, once, from wherever it is asked for.
func TestAnEffectInTheSameDatabase(t *testing.T) {
	t.Parallel()
	for _, needsYes := range []bool{false, true} {
		t.Run(fmt.Sprintf("approval %v", needsYes), func(t *testing.T) {
			t.Parallel()
			e := inside(booked)
			if needsYes {
				e = approved(e)
			}
			p := start(t, bookHome(t), fault.Plan{})
			th := p.thread(e, "t")
			out, asked := p.paid(th, hundred)
			if (asked == 1) != needsYes || out.State.Receipt.Get() != "row-1" {
				t.Fatalf("asked %d, receipt %q", asked, out.State.Receipt.Get())
			}
			op := p.operation()
			if op.State != effect.StateCommitted || op.Target != "inside" || op.Attempts != 1 || op.Doubt {
				t.Errorf("operation %+v", op)
			}
			other, _ := p.paid(p.thread(e, "other"), hundred)
			before, err := th.History(t.Context(), pawl.Page{})
			if err != nil {
				t.Fatal(err)
			}
			again, err := th.Replay(t.Context(), pawl.Before("pay"))
			if err != nil || again.State.Receipt.Get() != "row-1" || other.State.Receipt.Get() != "row-1" {
				t.Errorf("replay %+v, %v; another thread %+v; history %d", again, err, other, len(before))
			}
			if rows := rowsOf(t, p.db, "book"); len(rows) != 1 || string(rows[0].Body) != "acme 100.00" {
				t.Errorf("rows %+v", rows)
			}
			shown, err := p.desk.Show(t.Context(), op.Key)
			if err != nil || len(shown.Attempts) != 1 || shown.Attempts[0].Outcome != "applied" || len(shown.Evidence) != 0 {
				t.Errorf("shown %+v, %v", shown, err)
			}
			trail := actions(t, p.db, "t")
			for _, want := range []string{"effect.reserved", "effect.dispatched", "effect.committed"} {
				if n := len(slices.DeleteFunc(slices.Clone(trail), func(s string) bool { return s != want })); n != 1 {
					t.Errorf("%d times %s in %q", n, want, trail)
				}
			}
			changed := hundred
			changed.Amount = "120.00"
			if _, err := p.thread(e, "more").Run(t.Context(), order(changed)); !errors.Is(err, effect.ErrIntentChanged) {
				t.Errorf("another amount: %v", err)
			}
		})
	}
}

// What a function's failure leaves: nothing at all, or the refusal alone.
func TestAFailingFunctionInTheSameDatabase(t *testing.T) {
	t.Parallel()
	after := func(fail func(context.Context, storage.Tx) error) insideFn {
		return func(ctx context.Context, tx storage.Tx, op effect.Op, in transfer) (receipt, error) {
			r, err := booked(ctx, tx, op, in)
			return r, errors.Join(err, fail(ctx, tx))
		}
	}
	ignored := func(what func(storage.Tx)) func(context.Context, storage.Tx) error {
		return func(_ context.Context, tx storage.Tx) error { what(tx); return nil }
	}
	ask := pawl.Interrupt[string, string]{Name: "ask"}
	self := inside(booked)
	for _, c := range []struct {
		name  string
		fn    insideFn
		final bool
		says  string
	}{
		{"an error", after(func(context.Context, storage.Tx) error { return errTest }), false, "the test says so"},
		{"a refusal", after(func(context.Context, storage.Tx) error { return effect.Rejected(errTest) }), true, "refused it for good: the test says so"},
		{"a panic", after(func(context.Context, storage.Tx) error { panic("boom") }), false, "the function panicked: boom"},
		{"a write to the engine", after(ignored(func(tx storage.Tx) {
			_, _ = tx.Put("operation", storage.Row{Key: []any{"", "x", "y:z", int64(1)}, Fields: []any{"k", "committed", int64(0)}}, storage.Always())
		})), false, "may not write the engine's kind operation"},
		{"a removal at the engine", after(ignored(func(tx storage.Tx) {
			_, _ = tx.Delete("approval", storage.Range{Prefix: []any{""}})
		})), false, "may not write the engine's kind approval"},
		{"a sequence", after(ignored(func(tx storage.Tx) { _, _, _ = tx.Seq(1, storage.AnyEpoch, 1) })), false, "the sequence of a thread"},
		{"a lease", after(ignored(func(tx storage.Tx) { _, _, _ = tx.Lease(1, storage.Forget, "") })), false, "the lease of a thread"},
		{"a step", after(func(ctx context.Context, _ storage.Tx) error {
			_, err := pawl.Step(ctx, "inner", func(context.Context) (int, error) { return 1, nil })
			return err
		}), false, storage.ErrNested.Error()},
		{"a question", after(func(ctx context.Context, _ storage.Tx) error {
			_, err := ask.Ask(ctx, "?")
			return err
		}), false, storage.ErrNested.Error()},
		{"itself", after(func(ctx context.Context, _ storage.Tx) error {
			_, err := self.Do(ctx, effect.Ref("invoice", "17"), hundred)
			return err
		}), false, "inside the transaction of another effect"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := start(t, bookHome(t), fault.Plan{})
			e := approved(inside(c.fn))
			th := graphOf(t, payNode(e), e, ask).Thread(p.eng, "t")
			out, err := th.Run(t.Context(), order(hundred))
			if err != nil || p.yes(out) != 1 {
				t.Fatal(err)
			}
			before := dump(t, p.db, "operation", "attempt", "approval", "book")
			_, err = th.Resume(t.Context())
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Fatalf("got %v, want %q", err, c.says)
			}
			if rows := rowsOf(t, p.db, "book"); len(rows) != 0 {
				t.Errorf("rows %+v", rows)
			}
			if !c.final {
				if now := dump(t, p.db, "operation", "attempt", "approval", "book"); now != before {
					t.Errorf("something changed:\n%s\nwas\n%s", now, before)
				}
				return
			}
			op, r := p.operation(), p.requests()[0]
			if op.State != effect.StateRejected || r.State != approval.Consumed || r.UsedBy != op.Key {
				t.Errorf("operation %s, grant %s", op.State, r.State)
			}
			refused := (*effect.RejectedError)(nil)
			if _, err := th.Resume(t.Context()); !errors.As(err, &refused) || refused.Operation != op.Key {
				t.Errorf("the second time: %v", err)
			}
		})
	}
}

// An error without an approval leaves no trace, and the next entry does it.
func TestAFailureInTheSameDatabaseIsTriedAgain(t *testing.T) {
	t.Parallel()
	var calls counter
	e := inside(func(ctx context.Context, tx storage.Tx, op effect.Op, in transfer) (receipt, error) {
		if r, err := booked(ctx, tx, op, in); err != nil || calls.Add(1) > 1 {
			return r, err
		}
		return receipt{}, errTest
	})
	p := start(t, bookHome(t), fault.Plan{})
	th := p.thread(e, "t")
	_, err := th.Run(t.Context(), order(hundred))
	unsent := (*effect.NotSentError)(nil)
	if !errors.As(err, &unsent) || len(p.operations()) != 0 || len(rowsOf(t, p.db, "book")) != 0 {
		t.Fatalf("%v, operations %+v", err, p.operations())
	}
	out, err := th.Resume(t.Context())
	if err != nil || out.State.Receipt.Get() != "row-1" || p.operation().Attempts != 1 {
		t.Errorf("%+v, %v", out, err)
	}
}

// Of many threads with one intent one writes the row; it is alone in its transaction.
func TestManyThreadsInTheSameDatabase(t *testing.T) {
	t.Parallel()
	db, err := sqlite.Open(t.TempDir()+"/pawl.db", append(kinds(), bookKind())...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	seen := &loneDB{DB: db}
	p := start(t, seen, fault.Plan{})
	g := p.graph(inside(booked))
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			out, err := g.Thread(p.eng, fmt.Sprint("t", i)).Run(t.Context(), order(hundred))
			if err != nil || out.State.Receipt.Get() != "row-1" {
				t.Errorf("%+v, %v", out, err)
			}
		})
	}
	wg.Wait()
	if rows := rowsOf(t, p.db, "book"); len(rows) != 1 || seen.folded {
		t.Errorf("%d rows, folded with others %v", len(rows), seen.folded)
	}
}

// loneDB notes a row of the user's that was not written in a transaction of its own.
type loneDB struct {
	storage.DB
	mu     sync.Mutex
	folded bool
}

func (d *loneDB) Update(ctx context.Context, fn func(context.Context, storage.Tx) error) error {
	return d.DB.Update(ctx, func(inner context.Context, tx storage.Tx) error {
		return fn(inner, &loneTx{tx, func() {
			d.mu.Lock()
			d.folded = d.folded || !storage.IsAlone(ctx)
			d.mu.Unlock()
		}})
	})
}

type loneTx struct {
	storage.Tx
	wrote func()
}

func (l *loneTx) Put(kind string, row storage.Row, cond storage.If) (bool, error) {
	if kind == "book" {
		l.wrote()
	}
	return l.Tx.Put(kind, row, cond)
}

func TestDeclarationsInTheSameDatabase(t *testing.T) {
	t.Parallel()
	find := func(context.Context, effect.Op, transfer) (receipt, bool, error) { return receipt{}, false, nil }
	for name, e := range map[string]money{
		"it has no function":                           effect.Inside[transfer, receipt]("e", nil),
		"never in doubt: leave out Lookup and Keys":    inside(booked).Lookup(find),
		"in doubt: leave out Lookup and Keys":          inside(booked).Keys(effect.Forever),
		"an effect needs a name":                       effect.Inside("", booked),
		"no task is running; run the node in a graph,": inside(booked),
	} {
		_, err := e.Do(t.Context(), effect.Ref("invoice", "17"), hundred)
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("got %v, want %q", err, name)
		}
	}
}

// All of it or nothing, at every point of death, with and without an approval, with real kills.
func TestSweepOverTheSameDatabase(t *testing.T) {
	t.Parallel()
	for _, needsYes := range []bool{false, true} {
		t.Run(fmt.Sprintf("approval %v", needsYes), func(t *testing.T) { sweepInside(t, needsYes) })
	}
}

func sweepInside(t *testing.T, needsYes bool) {
	t.Parallel()
	e := inside(booked)
	if needsYes {
		e = approved(e)
	}
	led, err := effect.NewLedger(effect.Options{Key: testKey(1), Redactor: redact.New(nil)})
	if err != nil {
		t.Fatal(err)
	}
	g := graphOf(t, payNode(e), e)
	pawltest.Sweep(t, pawltest.Scenario{
		Options: pawl.Options{Parts: []pawl.Part{led}},
		Kinds:   append(append(append(effect.Kinds(), approval.Kinds()...), audit.Kinds()...), bookKind()),
		Kept:    []string{"book"},
		Disk:    func(path string, kinds ...storage.Kind) (storage.DB, error) { return sqlite.Open(path, kinds...) },
		Drive: func(ctx context.Context, eng *pawl.Engine) error {
			th, desk := g.Thread(eng, "t"), approval.NewDesk(eng, pawltest.Home(ctx))
			for range 5 {
				s, err := th.State(ctx)
				if errors.Is(err, pawl.ErrNotFound) || err == nil && s.Status == pawl.StatusNew {
					if _, err = th.Run(ctx, order(hundred), pawl.RunID("r")); err == nil {
						continue
					}
				}
				if err != nil || s.Status == pawl.Done {
					return err
				}
				open, err := desk.List(ctx, approval.Filter{State: approval.Requested})
				if err != nil {
					return err
				}
				for _, r := range open {
					if _, err := desk.Approve(person(ctx, "cfo"), r.ID, approval.Decision{Digest: r.Call}); err != nil {
						return err
					}
				}
				if _, err := th.Resume(ctx); err != nil {
					return err
				}
			}
			return errors.New("not at the end")
		},
		Check: func(ctx context.Context, home storage.DB) error {
			return home.View(ctx, func(_ context.Context, tx storage.Tx) error {
				rows, err := tx.List("book", storage.Query{})
				if err == nil && len(rows) != 1 {
					err = fmt.Errorf("%d rows of the user's, want 1", len(rows))
				}
				return err
			})
		},
	})
}
