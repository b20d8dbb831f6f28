package audit_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/memdb"
	"github.com/pawl-dev/pawl/sqlite"
	"github.com/pawl-dev/pawl/storage"
)

func onBoth(t *testing.T, test func(t *testing.T, db storage.DB)) {
	t.Helper()
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		db, err := memdb.Open(audit.Kinds()...)
		run(t, db, err, test)
	})
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		db, err := sqlite.Open(filepath.Join(t.TempDir(), "a.db"), audit.Kinds()...)
		run(t, db, err, test)
	})
}

func run(t *testing.T, db storage.DB, err error, test func(t *testing.T, db storage.DB)) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	test(t, db)
}

func write(t testing.TB, db storage.DB, rows ...audit.Row) {
	t.Helper()
	err := db.Update(t.Context(), func(_ context.Context, tx storage.Tx) error {
		for _, r := range rows {
			if err := audit.Write(tx, r); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// line is a row in short.
func line(r audit.Row) string {
	return fmt.Sprintf("%d:%s/%s:%s", r.N, r.Tenant, r.Thread, r.Action)
}

func lines(t *testing.T, rows []audit.Row, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, r := range rows {
		out = append(out, line(r))
	}
	return strings.Join(out, " ")
}

func TestRowsAreKeptAsWritten(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, db storage.DB) {
		full := audit.Row{
			Tenant: "t1", Thread: "order-17", Lineage: "l", Run: "r", Attempt: "a", Operation: "op", Approval: "ap", Effect: "bank.transfer",
			Ref: "invoice/17", Question: "q", Actor: pawl.Actor{ID: "eve", Groups: []string{"finance"}, Kind: "person"}, Action: "approval.granted",
			Before: "requested", After: "granted", Digest: "d", View: "v", Receipt: "rc", Reason: "fine \u2028 \x00 \"quoted\"",
		}
		given := full
		given.N, given.At = 77, time.Unix(1, 0) // both are the trail's own
		var now time.Time
		err := db.Update(t.Context(), func(_ context.Context, tx storage.Tx) error {
			now = tx.Now()
			return audit.Write(tx, given)
		})
		if err != nil {
			t.Fatal(err)
		}
		rows, err := audit.List(t.Context(), db, "t1", "order-17", 0, 0)
		if err != nil || len(rows) != 1 {
			t.Fatalf("got %v, %v", rows, err)
		}
		full.N, full.At, full.Hash = 1, now.UTC(), rows[0].Hash
		if got, want := fmt.Sprintf("%+v", rows[0]), fmt.Sprintf("%+v", full); got != want || !rows[0].At.Equal(now) || full.Hash.IsZero() {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	})
}

func TestNumbersCountWithinAThread(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, db storage.DB) {
		write(t, db,
			audit.Row{Tenant: "t1", Thread: "a", Action: "one"}, audit.Row{Tenant: "t1", Thread: "a", Action: "two"},
			audit.Row{Tenant: "t1", Thread: "b", Action: "other"}, audit.Row{Tenant: "t2", Thread: "a", Action: "else"},
			audit.Row{Tenant: "t1", Action: "none"},
		)
		write(t, db, audit.Row{Tenant: "t1", Thread: "a", Action: "three"})
		for _, c := range []struct {
			name, tenant, thread string
			after                int64
			limit                int
			want                 string
		}{
			{"a thread", "t1", "a", 0, 0, "1:t1/a:one 2:t1/a:two 3:t1/a:three"},
			{"after one", "t1", "a", 1, 0, "2:t1/a:two 3:t1/a:three"},
			{"a page", "t1", "a", 1, 1, "2:t1/a:two"},
			{"a negative limit is none", "t1", "a", 2, -1, "3:t1/a:three"},
			{"after the last", "t1", "a", 3, 0, ""},
			{"after the largest number", "t1", "a", 1<<63 - 1, 0, ""},
			{"another thread", "t1", "b", 0, 0, "1:t1/b:other"},
			{"another tenant", "t2", "a", 0, 0, "1:t2/a:else"},
			{"no thread", "t1", "", 0, 0, "1:t1/:none"},
			{"nobody", "t3", "a", 0, 0, ""},
		} {
			rows, err := audit.List(t.Context(), db, c.tenant, c.thread, c.after, c.limit)
			if got := lines(t, rows, err); got != c.want {
				t.Errorf("%s: got %q, want %q", c.name, got, c.want)
			}
		}
	})
}

func TestWritersAtOnceLeaveNoGap(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, db storage.DB) {
		const writers, each = 8, 20
		var wg sync.WaitGroup
		for w := range writers {
			wg.Go(func() {
				for i := range each {
					write(t, db, audit.Row{Tenant: "t", Thread: "x", Action: fmt.Sprintf("%d.%d", w, i)})
				}
			})
		}
		wg.Wait()
		rows, err := audit.List(t.Context(), db, "t", "x", 0, 0)
		if err != nil || len(rows) != writers*each {
			t.Fatalf("got %d rows, %v", len(rows), err)
		}
		seen := map[string]bool{}
		for i, r := range rows {
			if seen[r.Action] = true; r.N != int64(i)+1 {
				t.Fatalf("row %d has the number %d", i, r.N)
			}
		}
		if len(seen) != writers*each {
			t.Errorf("%d different rows of %d", len(seen), writers*each)
		}
	})
}

func TestARowLivesAndDiesWithItsUpdate(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, db storage.DB) {
		no := errors.New("no")
		err := db.Update(t.Context(), func(_ context.Context, tx storage.Tx) error {
			return errors.Join(audit.Write(tx, audit.Row{Tenant: "t", Thread: "x", Action: "undone"}), no)
		})
		if !errors.Is(err, no) {
			t.Fatal(err)
		}
		write(t, db, audit.Row{Tenant: "t", Thread: "x", Action: "done"})
		rows, err := audit.List(t.Context(), db, "t", "x", 0, 0)
		if got := lines(t, rows, err); got != "1:t/x:done" {
			t.Errorf("got %q", got)
		}
		err = db.View(t.Context(), func(_ context.Context, tx storage.Tx) error {
			return audit.Write(tx, audit.Row{Tenant: "t", Thread: "x", Action: "in a view"})
		})
		if !errors.Is(err, storage.ErrReadOnly) {
			t.Errorf("a write in a View: %v", err)
		}
		err = db.Update(t.Context(), func(_ context.Context, tx storage.Tx) error {
			return audit.Write(tx, audit.Row{Tenant: "t", Thread: "x"})
		})
		if err == nil || !strings.Contains(err.Error(), `thread "x" without an action; nothing was written`) {
			t.Errorf("a row without an action: %v", err)
		}
	})
}

// The other orders: of an operation over threads, and of a tenant over time.
func TestOtherOrders(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db, err := memdb.Open(audit.Kinds()...)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		start := time.Now()
		for i, r := range []audit.Row{
			{Tenant: "t", Thread: "b", Operation: "op1", Action: "reserved"},
			{Tenant: "t", Thread: "a", Operation: "op1", Action: "dispatched"},
			{Tenant: "u", Thread: "a", Operation: "op1", Action: "theirs"},
			{Tenant: "t", Thread: "a", Operation: "op2", Action: "reserved"},
			{Tenant: "t", Thread: "b", Operation: "op1", Action: "committed"},
		} {
			if i > 0 {
				<-time.After(time.Second)
			}
			write(t, db, r)
		}
		of := func(tenant, op string, limit int) string {
			rows, err := audit.Of(t.Context(), db, tenant, op, limit)
			return lines(t, rows, err)
		}
		between := func(from, to time.Time, limit int) string {
			rows, err := audit.Between(t.Context(), db, "t", from, to, limit)
			return lines(t, rows, err)
		}
		at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
		for _, c := range []struct{ name, got, want string }{
			{"operation", of("t", "op1", 0), "1:t/b:reserved 1:t/a:dispatched 2:t/b:committed"},
			{"operation, limited", of("t", "op1", 2), "1:t/b:reserved 1:t/a:dispatched"},
			{"another tenant's", of("u", "op1", 0), "1:u/a:theirs"},
			{"unknown", of("t", "op9", 0), ""},
			{"all time", between(time.Time{}, time.Time{}, 0), "1:t/b:reserved 1:t/a:dispatched 2:t/a:reserved 2:t/b:committed"},
			{"from is in, to is not", between(at(1), at(4), 0), "1:t/a:dispatched 2:t/a:reserved"},
			{"up to", between(time.Time{}, at(1), 0), "1:t/b:reserved"},
			{"limited", between(at(1), time.Time{}, 1), "1:t/a:dispatched"},
		} {
			if c.got != c.want {
				t.Errorf("%s: got %q, want %q", c.name, c.got, c.want)
			}
		}
	})
}

// A byte that changed is seen, wherever it is, and named; nothing else of the thread is returned as if it were whole.
func TestDamageIsNamed(t *testing.T) {
	t.Parallel()
	db, err := memdb.Open(audit.Kinds()...)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	write(t, db, audit.Row{Tenant: "t", Thread: "x", Operation: "op", Action: "one"}, audit.Row{Tenant: "t", Thread: "x", Action: "two"})
	var row storage.Row
	put := func(r storage.Row) {
		err := db.Update(t.Context(), func(_ context.Context, tx storage.Tx) error {
			_, err := tx.Put("audit", r, storage.Always())
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	err = db.View(t.Context(), func(_ context.Context, tx storage.Tx) (err error) {
		row, _, err = tx.Get("audit", "t", "x", int64(1))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	seen := func(what string) {
		t.Helper()
		_, err := audit.List(t.Context(), db, "t", "x", 0, 0)
		bad := (*audit.DamagedError)(nil)
		if !errors.As(err, &bad) || bad.N != 1 || bad.Thread != "x" || bad.Tenant != "t" || errors.Unwrap(err) == nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	for i := range row.Body {
		r := row
		r.Body = bytes.Clone(row.Body)
		r.Body[i] ^= 1
		put(r)
		seen(fmt.Sprintf("byte %d", i))
	}
	for n := range row.Body {
		r := row
		r.Body = row.Body[:n]
		put(r)
		seen(fmt.Sprintf("cut to %d bytes", n))
	}
	r := row
	r.Fields = []any{row.Fields[0], row.Fields[1].(int64) + 1, row.Fields[2]}
	put(r)
	seen("another time in the index")
	put(row)
	rows, err := audit.List(t.Context(), db, "t", "x", 0, 0)
	if got := lines(t, rows, err); got != "1:t/x:one 2:t/x:two" {
		t.Errorf("mended: %q", got)
	}
}

// What may be secret stays out of the columns that are stored in the clear.
func TestColumnsHoldNoReason(t *testing.T) {
	t.Parallel()
	for _, k := range audit.Kinds() {
		if err := k.Check(); err != nil {
			t.Error(err)
		}
		if k.Key[0].Name != "tenant" {
			t.Errorf("kind %q: the tenant does not come first", k.Name)
		}
		for _, f := range append(k.Key, k.Fields...) {
			switch f.Name {
			case "tenant", "thread", "n", "operation", "at", "hash", "pos", "leaf", "head", "size", "owner", "until":
			case "receipt": // its digest
			default:
				t.Errorf("kind %q: column %q", k.Name, f.Name)
			}
		}
	}
}
