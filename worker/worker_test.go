package worker_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/memdb"
	"github.com/pawl-dev/pawl/sqlite"
	"github.com/pawl-dev/pawl/storage"
	"github.com/pawl-dev/pawl/worker"
)

// alarm is a kind of rows with a due time; firing one moves it by a condition on its revision.
var alarm = storage.Kind{
	Name: "alarm", Key: []storage.Field{{Name: "id", Type: storage.Int}},
	Fields:  []storage.Field{{Name: "fired", Type: storage.Int}, {Name: "due", Type: storage.Int}},
	Indexes: []storage.Index{{Name: "by_due", Fields: []string{"fired", "due"}}}, Revised: true,
}

// alarms fires the rows of alarm, and tells of each after its Update.
type alarms struct {
	db   storage.DB
	told func(id int64, at time.Time)
}

func (a *alarms) Name() string { return "alarms" }

func (a *alarms) Due(ctx context.Context, limit int) (done int, next time.Time, err error) {
	var due []storage.Row
	err = a.db.View(ctx, func(_ context.Context, tx storage.Tx) error {
		due, next = nil, time.Time{}
		now := tx.Now().UnixMilli()
		rows, err := tx.List("alarm", storage.Query{Index: "by_due", Range: storage.Range{Prefix: []any{int64(0)}}, Limit: limit + 1})
		for _, row := range rows {
			if at := row.Fields[1].(int64); at > now {
				next = time.UnixMilli(at)
				break
			}
			due = append(due, row)
		}
		due = due[:min(len(due), limit)]
		return err
	})
	for _, row := range due {
		held := false
		fault := a.db.Update(ctx, func(_ context.Context, tx storage.Tx) (err error) {
			held, err = tx.Put("alarm", storage.Row{Key: row.Key, Fields: []any{int64(1), row.Fields[1]}}, storage.AtRev(row.Rev))
			return err
		})
		if err = errors.Join(err, fault); fault == nil && held {
			done++
			a.told(row.Key[0].(int64), time.Now())
		}
	}
	return done, next, err
}

func set(t testing.TB, db storage.DB, id int64, due time.Time) {
	t.Helper()
	err := db.Update(t.Context(), func(_ context.Context, tx storage.Tx) error {
		_, err := tx.Put("alarm", storage.Row{Key: []any{id}, Fields: []any{int64(0), due.UnixMilli()}}, storage.Absent())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func memory(t *testing.T) *memdb.DB {
	t.Helper()
	db, err := memdb.Open(alarm)
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// bell keeps what fired, and when.
type bell struct {
	mu    sync.Mutex
	start time.Time
	rung  []string
}

func (b *bell) ring(id int64, at time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rung = append(b.rung, fmt.Sprintf("%d@%s", id, at.Sub(b.start).Round(time.Second)))
}

func (b *bell) all() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Join(b.rung, " ")
}

// start runs a worker until stop, which returns what Run returned.
func start(t *testing.T, w *worker.Worker) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() { over <- w.Run(ctx) }()
	return func() error { cancel(); return <-over }
}

func TestRunFiresWhatIsDue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := memory(t)
		defer db.Close()
		b := &bell{start: time.Now()}
		set(t, db, 1, b.start.Add(time.Hour))
		set(t, db, 2, b.start.Add(-time.Hour))
		set(t, db, 3, b.start.Add(2*time.Hour))
		var stops []func() error
		for range 2 {
			stops = append(stops, start(t, worker.New(db, nil, &alarms{db, b.ring})))
		}
		<-time.After(10 * time.Minute)
		set(t, db, 4, b.start.Add(30*time.Minute)) // made while it sleeps
		<-time.After(3 * time.Hour)
		for _, stop := range stops {
			if err := stop(); err != nil {
				t.Error(err)
			}
		}
		if got, want := b.all(), "2@0s 4@30m0s 1@1h0m0s 3@2h0m0s"; got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	})
}

// More rows than one look takes are fired without a pause.
func TestRunGoesOnWhileThereIsMore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := memory(t)
		defer db.Close()
		b := &bell{start: time.Now()}
		for i := range int64(10) {
			set(t, db, i, b.start.Add(-time.Second))
		}
		stop := start(t, worker.New(db, &worker.Options{Limit: 3}, &alarms{db, b.ring}))
		<-time.After(time.Millisecond)
		if got := strings.Count(b.all(), "@0s"); got != 10 {
			t.Errorf("%d of 10 fired: %s", got, b.all())
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// faulty fails a number of times, by error or panic, and counts its looks.
type faulty struct {
	mu    sync.Mutex
	fails int
	panic bool
	err   error
	looks []time.Duration
	began time.Time
}

func (f *faulty) Name() string { return "faulty" }

func (f *faulty) Due(context.Context, int) (int, time.Time, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.looks = append(f.looks, time.Since(f.began))
	if f.fails--; f.fails < 0 {
		return 0, time.Time{}, nil
	}
	if f.panic {
		panic("ouch")
	}
	return 0, time.Time{}, f.err
}

// A source that fails is told of and tried again, later each time; the others go on.
func TestAFailingSourceHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		panic bool
	}{{"error", false}, {"panic", true}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				db := memory(t)
				defer db.Close()
				b := &bell{start: time.Now()}
				set(t, db, 1, b.start.Add(2*time.Second))
				var log bytes.Buffer
				f := &faulty{fails: 8, panic: c.panic, err: errors.New("ouch"), began: b.start}
				stop := start(t, worker.New(db, &worker.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}, f, &alarms{db, b.ring}))
				<-time.After(10 * time.Minute)
				if err := stop(); err != nil {
					t.Error(err)
				}
				if b.all() != "1@2s" {
					t.Errorf("the other fired %s", b.all())
				}
				want := []time.Duration{0, 1, 3, 7, 15, 31, 63, 123, 183}
				for i, s := range want {
					if f.looks[i] != s*time.Second {
						t.Fatalf("looks %v, want after %v s", f.looks, want)
					}
				}
				if n := strings.Count(log.String(), "source=faulty"); n != 8 || !strings.Contains(log.String(), "ouch") {
					t.Errorf("%d lines: %s", n, log.String())
				}
			})
		})
	}
}

// A home that is closed ends the worker, with the reason.
func TestRunEndsWithTheDatabase(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := memory(t)
		over := make(chan error)
		go func() { over <- worker.New(db, nil, &alarms{db, nil}, &faulty{}).Run(t.Context()) }()
		<-time.After(time.Second)
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		if err := <-over; !errors.Is(err, storage.ErrClosed) {
			t.Errorf("got %v", err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		db := memory(t)
		defer db.Close()
		stop := start(t, worker.New(db, nil)) // nothing to look after
		synctest.Wait()
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// A clock of the database that is behind costs no loop: what it does not call due is asked for again a little later.
func TestADueTimeInThePast(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := memory(t)
		defer db.Close()
		past := &pastSource{}
		stop := start(t, worker.New(db, nil, past))
		<-time.After(time.Second)
		if err := stop(); err != nil {
			t.Error(err)
		}
		if past.looks > 51 || past.looks < 10 {
			t.Errorf("%d looks in a second", past.looks)
		}
	})
}

type pastSource struct{ looks int }

func (p *pastSource) Name() string { return "past" }
func (p *pastSource) Due(context.Context, int) (int, time.Time, error) {
	p.looks++
	return 0, time.Now().Add(-time.Second), nil
}

const childPath = "PAWL_WORKER_CHILD"

// A worker that is killed between two fires leaves the rest to the next one; nothing fires twice.
func TestKillBetweenTwoFires(t *testing.T) {
	t.Parallel()
	if path := os.Getenv(childPath); path != "" {
		killedChild(t, path)
		return
	}
	path := filepath.Join(t.TempDir(), "w.db")
	db, err := sqlite.Open(path, alarm)
	if err != nil {
		t.Fatal(err)
	}
	for i := range int64(5) {
		set(t, db, i, time.Now().Add(-time.Duration(5-i)*time.Minute))
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	child := exec.Command(os.Args[0], "-test.run=^TestKillBetweenTwoFires$")
	child.Env = append(os.Environ(), childPath+"="+path)
	out, err := child.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "fired 1") || strings.Contains(string(out), "fired 2") {
		t.Fatalf("the child was to die after its second fire: %v, %s", err, out)
	}
	if db, err = sqlite.Open(path, alarm); err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var mu sync.Mutex
	var fired []int64
	done := make(chan struct{})
	stop := start(t, worker.New(db, nil, &alarms{db, func(id int64, _ time.Time) {
		mu.Lock()
		defer mu.Unlock()
		if fired = append(fired, id); len(fired) == 3 {
			close(done)
		}
	}}))
	<-done
	if err := stop(); err != nil {
		t.Error(err)
	}
	if got := fmt.Sprint(fired); got != "[2 3 4]" {
		t.Errorf("the next one fired %s", got)
	}
}

// killedChild dies by SIGKILL right after its second fire.
func killedChild(t *testing.T, path string) {
	db, err := sqlite.Open(path, alarm)
	if err != nil {
		t.Fatal(err)
	}
	err = worker.New(db, nil, &alarms{db, func(id int64, _ time.Time) {
		fmt.Println("fired", id)
		if id == 1 {
			me, _ := os.FindProcess(os.Getpid())
			_ = me.Kill()
			select {}
		}
	}}).Run(context.Background())
	t.Fatal("it lived", err)
}
