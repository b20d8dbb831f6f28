package audit_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/memdb"
	"github.com/pawl-dev/pawl/storage"
	"github.com/pawl-dev/pawl/storage/fault"
	"github.com/pawl-dev/pawl/worker"
)

var _ worker.Source = (*audit.Sequencer)(nil)

// One sequencer has a tenant for a second after its last batch; then another takes over where it ended.
func TestOneSequencerAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db, err := memdb.Open(audit.Kinds()...)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		one, two := audit.NewSequencer(db), audit.NewSequencer(db)
		due := func(s *audit.Sequencer, want int, wait time.Duration) {
			t.Helper()
			done, next, err := s.Due(t.Context(), 0)
			if err != nil || done != want {
				t.Errorf("%d ordered, want %d; %v", done, want, err)
			}
			if got := time.Until(next); next.IsZero() != (wait == 0) || wait != 0 && (got-wait).Abs() > time.Millisecond {
				t.Errorf("come again in %s, want %s", got, wait)
			}
		}
		write(t, db, audit.Row{Tenant: "t", Thread: "a", Action: "1"}, audit.Row{Tenant: "t", Thread: "b", Action: "2"}, audit.Row{Tenant: "u", Action: "3"})
		due(one, 3, 0)
		due(two, 0, 0)
		<-time.After(400 * time.Millisecond)
		write(t, db, audit.Row{Tenant: "t", Thread: "a", Action: "4"})
		due(two, 0, 600*time.Millisecond)
		due(one, 1, 0)
		write(t, db, audit.Row{Tenant: "t", Thread: "a", Action: "5"}, audit.Row{Tenant: "v", Action: "6"})
		due(two, 1, time.Second) // v is nobody's
		<-time.After(time.Second)
		due(two, 1, 0)
		due(one, 0, 0)
		for tenant, size := range map[string]int64{"t": 4, "u": 1, "v": 1} {
			if r, err := audit.Verify(t.Context(), db, tenant); err != nil || !r.Honest() || r.Size != size || r.Pending != 0 {
				t.Errorf("tenant %s: %+v, %v", tenant, r, err)
			}
		}
	})
}

// Several at once, beside writers: each row gets one place, in the order of its chain.
func TestSequencersBesideWriters(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, db storage.DB) {
		const writers, each = 4, 40
		var writing, ordering sync.WaitGroup
		over := make(chan struct{})
		for range 3 {
			ordering.Go(func() {
				s := audit.NewSequencer(db)
				for {
					since, _ := db.Changed(0)
					if _, _, err := s.Due(context.Background(), 0); err != nil {
						t.Error(err)
						return
					}
					_, wake := db.Changed(since)
					select {
					case <-over:
						return
					case <-wake:
					}
				}
			})
		}
		for w := range writers {
			writing.Go(func() {
				for i := range each {
					write(t, db, audit.Row{Tenant: "t", Thread: fmt.Sprint((w + i) % 3), Action: fmt.Sprintf("%d.%d", w, i)})
				}
			})
		}
		writing.Wait()
		close(over)
		ordering.Wait()
		if r := verified(t, db); !r.Honest() || r.Rows != writers*each {
			t.Errorf("%+v", r)
		}
	})
}

// More rows than a batch, in one chain and in many, and a limit.
func TestBatches(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		threads int
	}{{"one chain", 1}, {"a chain a row", 1201}, {"some chains", 7}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			db, err := memdb.Open(audit.Kinds()...)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			rows := make([]audit.Row, 1201)
			for i := range rows {
				rows[i] = audit.Row{Tenant: "t", Thread: fmt.Sprint(i % c.threads), Action: fmt.Sprint(i)}
			}
			write(t, db, rows...)
			s := audit.NewSequencer(db)
			for _, want := range []int{500, 701, 0} {
				limit := 0
				if want == 500 {
					limit = 100 // about: a batch is whole
				}
				if done, _, err := s.Due(t.Context(), limit); err != nil || done != want {
					t.Fatalf("%d ordered, want %d; %v", done, want, err)
				}
			}
			if r := verified(t, db); !r.Honest() || r.Size != 1201 || r.Pending != 0 {
				t.Errorf("%+v", r)
			}
		})
	}
}

// A process that dies, or whose disk fails, at any point of ordering leaves a trail that is honest, and that the next one
// completes.
func TestDeathWhileOrdering(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, db storage.DB) {
		thread := 0
		fresh := func() {
			for range 2 {
				thread++
				write(t, db, audit.Row{Tenant: "t", Thread: fmt.Sprint(thread), Action: "x"}, audit.Row{Tenant: "t", Action: "y"})
			}
		}
		fresh()
		s := audit.NewSequencer(db)
		whole := fault.Wrap(db, fault.Plan{Views: true})
		if _, _, err := audit.NewSequencer(whole).Due(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		for n := range whole.Calls() {
			for what, action := range map[string]fault.Action{"dies": fault.Stop(), "fails": fault.Fail(errors.New("a bad disk"))} {
				release(t, db)
				fresh()
				home := fault.Wrap(db, fault.Plan{At: fault.At(n, action), Views: true})
				_, _, err := audit.NewSequencer(home).Due(t.Context(), 0)
				home.Stop()
				if r := verified(t, db); !r.Honest() || r.Pending != 0 && err == nil {
					t.Errorf("point %d %s: %s, %v", n, what, told(r), err)
				}
				release(t, db)
				if _, _, err := s.Due(t.Context(), 0); err != nil {
					t.Errorf("point %d %s: the next one: %v", n, what, err)
				}
				if r := verified(t, db); !r.Honest() || r.Pending != 0 {
					t.Errorf("point %d %s: the next one: %s, %d pending", n, what, told(r), r.Pending)
				}
			}
		}
	})
}

// release ends a sequencer's tenure, as a second would.
func release(t *testing.T, db storage.DB) {
	t.Helper()
	row := get(t, db, "audit_head", "t")
	row.Fields[3] = int64(0)
	put(t, db, "audit_head", row)
}

// A log whose head was set back is not written over: ordering stops, and the check says why.
func TestALogIsNotWrittenOver(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, db storage.DB) {
		order := ordering(t, db)
		trail(t, db, order)
		drop(t, db, "audit_head", "t")
		write(t, db, audit.Row{Tenant: "t", Thread: "a", Action: "more"})
		if _, _, err := audit.NewSequencer(db).Due(t.Context(), 0); err == nil {
			t.Error("it was written over")
		}
		if r := verified(t, db); r.Honest() {
			t.Error("nothing was found")
		}
	})
}
