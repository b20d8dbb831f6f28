package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/memdb"
	"github.com/pawl-dev/pawl/sqlite"
	"github.com/pawl-dev/pawl/storage"
)

// trail measures what a row of the audit trail costs inside an Update that is made anyway, what its place in the log
// costs, and what checking it costs. An Update holds 20 rows of one thread, so that its commit weighs little.
func trail(l *lab) {
	const updates, rows = 200, 20
	const n = updates * rows
	for _, home := range []struct {
		name string
		open func() storage.DB
	}{
		{"memory", func() storage.DB { return must(memdb.Open(audit.Kinds()...)) }},
		{"SQLite", func() storage.DB {
			return must(sqlite.Open(filepath.Join(must(os.MkdirTemp(l.dir, "audit")), "audit.db"), audit.Kinds()...))
		}},
	} {
		var order, check time.Duration
		write := l.median(func() time.Duration {
			db := home.open()
			defer db.Close()
			ctx := context.Background()
			begin := time.Now()
			for i := range updates {
				err := db.Update(ctx, func(_ context.Context, tx storage.Tx) error {
					for range rows {
						if err := audit.Write(tx, row(i%10)); err != nil {
							return err
						}
					}
					return nil
				})
				if err != nil {
					fail(err)
				}
			}
			took := time.Since(begin)
			begin = time.Now()
			if done := must2(audit.NewSequencer(db).Due(ctx, 0)); done != n {
				fail(fmt.Errorf("%d of %d rows are in the log", done, n))
			}
			order = time.Since(begin)
			begin = time.Now()
			if r := must(audit.Verify(ctx, db, "t")); !r.Honest() || r.Size != n {
				fail(fmt.Errorf("the trail: %+v", r))
			}
			check = time.Since(begin)
			return took
		})
		per := func(d time.Duration) float64 { return float64(d.Microseconds()) / n }
		l.note("audit row, "+home.name, fmt.Sprintf("%.1f us to write, %.1f us to order, %.1f us to check", per(write), per(order), per(check)))
	}
}

func row(thread int) audit.Row {
	return audit.Row{
		Tenant: "t", Thread: fmt.Sprint("order-", thread), Run: text(36), Attempt: text(36), Operation: text(64), Approval: text(64),
		Effect: "bank.transfer", Ref: "invoice:17", Action: "effect.dispatched", Before: "reserved", After: "dispatched", Digest: text(64),
	}
}

func must2[T, U any](v T, _ U, err error) T { return must(v, err) }
