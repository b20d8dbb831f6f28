package fault_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/memdb"
	"github.com/pawl-dev/pawl/storage"
	"github.com/pawl-dev/pawl/storage/fault"
	"github.com/pawl-dev/pawl/storage/storagetest"
)

var note = storage.Kind{Name: "note", Key: []storage.Field{{Name: "id", Type: storage.Int}}}

var errDisk = errors.New("the disk is on fire")

func memory(t *testing.T, kinds ...storage.Kind) storage.DB {
	t.Helper()
	db, err := memdb.Open(kinds...)
	if err != nil {
		t.Fatal(err)
	}
	return db
}

func put(ctx context.Context, db storage.DB, ids ...int64) error {
	return db.Update(ctx, func(_ context.Context, tx storage.Tx) error {
		for _, id := range ids {
			if _, err := tx.Put("note", storage.Row{Key: []any{id}}, storage.Always()); err != nil {
				return err
			}
		}
		return nil
	})
}

func ids(t *testing.T, db storage.DB) []int64 {
	t.Helper()
	var out []int64
	err := db.View(context.Background(), func(_ context.Context, tx storage.Tx) error {
		rows, err := tx.List("note", storage.Query{})
		for _, r := range rows {
			out = append(out, r.Key[0].(int64))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func wantIDs(t *testing.T, db storage.DB, want ...int64) {
	t.Helper()
	if got := ids(t, db); !slices.Equal(got, want) {
		t.Errorf("the home holds %v, want %v", got, want)
	}
}

func TestContractWithoutFaults(t *testing.T) {
	storagetest.Run(t, func(t *testing.T, kinds ...storage.Kind) storage.DB {
		return fault.Wrap(memory(t, kinds...), fault.Plan{Views: true})
	})
}

func TestLostAcknowledgementKeepsTheContract(t *testing.T) {
	storagetest.RunUnknown(t, func(t *testing.T, kinds ...storage.Kind) (storage.DB, func()) {
		lose := false
		return fault.Wrap(memory(t, kinds...), fault.Plan{At: func(p fault.Point) fault.Action {
			if lose && p.Place == fault.After {
				return fault.Fail(errDisk)
			}
			return fault.Action{}
		}}), func() { lose = true }
	})
}

func TestFail(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		n       int
		err     error
		unknown bool
		want    []int64
	}{
		{"before: nothing is written", 2, errDisk, false, []int64{1, 3}},
		{"after: written, and unknown", 3, errDisk, true, []int64{1, 2, 3}},
		{"before, and unknown", 2, &storage.UnknownError{Err: errDisk}, true, []int64{1, 3}},
		{"after, unknown by itself", 3, &storage.UnknownError{Err: errDisk}, true, []int64{1, 2, 3}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			db := fault.Wrap(memory(t, note), fault.Plan{At: fault.At(c.n, fault.Fail(c.err))})
			for id := int64(1); id <= 3; id++ {
				err := put(t.Context(), db, id)
				var unknown *storage.UnknownError
				if want := id == 2; errors.Is(err, errDisk) != want || errors.As(err, &unknown) != (want && c.unknown) {
					t.Errorf("Update %d returned %v", id, err)
				}
			}
			wantIDs(t, db, c.want...)
		})
	}
}

func TestPoints(t *testing.T) {
	t.Parallel()
	record := func(views bool) (points []fault.Point, calls int) {
		db := fault.Wrap(memory(t, note), fault.Plan{Views: views, At: func(p fault.Point) fault.Action {
			points = append(points, p)
			return fault.Action{}
		}})
		if err := put(t.Context(), db, 1); err != nil {
			t.Error(err)
		}
		wantIDs(t, db, 1)
		_ = db.Update(t.Context(), func(context.Context, storage.Tx) error { return errDisk })
		if err := put(t.Context(), db, 2); err != nil {
			t.Error(err)
		}
		return points, db.Calls()
	}
	for views, want := range map[bool][]fault.Point{
		false: {
			{N: 0, Call: 0, Op: fault.Update, Place: fault.Before}, {N: 1, Call: 0, Op: fault.Update, Place: fault.After},
			{N: 2, Call: 1, Op: fault.Update, Place: fault.Before}, // its function failed
			{N: 3, Call: 2, Op: fault.Update, Place: fault.Before}, {N: 4, Call: 2, Op: fault.Update, Place: fault.After},
		},
		true: {
			{N: 0, Call: 0, Op: fault.Update, Place: fault.Before}, {N: 1, Call: 0, Op: fault.Update, Place: fault.After},
			{N: 2, Call: 1, Op: fault.View, Place: fault.Before}, {N: 3, Call: 1, Op: fault.View, Place: fault.After},
			{N: 4, Call: 2, Op: fault.Update, Place: fault.Before},
			{N: 5, Call: 3, Op: fault.Update, Place: fault.Before}, {N: 6, Call: 3, Op: fault.Update, Place: fault.After},
		},
	} {
		got, calls := record(views)
		if !slices.Equal(got, want) || calls != len(want) {
			t.Errorf("views %v: %d points %v, want %v", views, calls, got, want)
		}
	}
}

// TestSweep stops a program of three Updates at every point and lets a second process look at what is left.
func TestSweep(t *testing.T) {
	t.Parallel()
	program := func(db storage.DB) error {
		for id := int64(1); id <= 3; id++ {
			if err := put(context.Background(), db, id, 10*id); err != nil {
				return err
			}
		}
		return nil
	}
	free := fault.Wrap(memory(t, note), fault.Plan{})
	if err := program(free); err != nil || free.Calls() != 6 {
		t.Fatalf("without faults: %v, %d points", err, free.Calls())
	}
	for n := range free.Calls() {
		home := memory(t, note)
		db := fault.Wrap(home, fault.Plan{At: fault.At(n, fault.Stop())})
		var unknown *storage.UnknownError
		if err := program(db); !errors.Is(err, fault.ErrStopped) || errors.As(err, &unknown) != (n%2 == 1) {
			t.Errorf("stopped at %d: %v", n, err)
		}
		if got, want := len(ids(t, home)), (n+1)/2*2; got != want {
			t.Errorf("stopped at %d: %d rows, want %d", n, got, want)
		}
	}
}

func TestStop(t *testing.T) {
	t.Parallel()
	home := memory(t, note)
	first, second := fault.Wrap(home, fault.Plan{}), fault.Wrap(home, fault.Plan{})
	join := func(db storage.DB) storage.Member {
		m, err := db.Join(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	owner, heir := join(first), join(second)
	take := func(db storage.DB, m storage.Member) (l storage.Lease, ok bool) {
		err := db.Update(t.Context(), func(_ context.Context, tx storage.Tx) (err error) {
			l, ok, err = tx.Lease(1, storage.Take, m.ID())
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return l, ok
	}
	take(first, owner)
	if _, ok := take(second, heir); ok {
		t.Fatal("a living process lost its lease")
	}
	first.Stop()
	first.Stop()
	if l, ok := take(second, heir); !ok || l.Epoch != 2 {
		t.Errorf("the lease of a stopped process: %+v %v, want it taken at epoch 2", l, ok)
	}
	ran := false
	fn := func(context.Context, storage.Tx) error { ran = true; return nil }
	_, joinErr := first.Join(t.Context())
	for name, err := range map[string]error{
		"Update": first.Update(t.Context(), fn), "View": first.View(t.Context(), fn), "Join": joinErr,
	} {
		if !errors.Is(err, fault.ErrStopped) {
			t.Errorf("%s after Stop returned %v, want ErrStopped", name, err)
		}
	}
	if ran {
		t.Error("a function ran after Stop")
	}
	if err := errors.Join(owner.Close(), first.Close()); err != nil {
		t.Errorf("Close after Stop: %v", err)
	}
	if err := put(t.Context(), second, 1); err != nil {
		t.Errorf("the other process after a stopped one closed: %v", err)
	}
}

// TestStopUndoesRunningUpdate stops while a function runs: it is undone, and Stop waits for that.
func TestStopUndoesRunningUpdate(t *testing.T) {
	t.Parallel()
	home := memory(t, note)
	db := fault.Wrap(home, fault.Plan{})
	inside, result := make(chan struct{}), make(chan error, 1)
	go func() {
		result <- db.Update(context.Background(), func(_ context.Context, tx storage.Tx) error {
			_, err := tx.Put("note", storage.Row{Key: []any{int64(1)}}, storage.Always())
			close(inside)
			for err == nil && stillAlive(db) {
				_, _, err = tx.Get("note", int64(1))
			}
			return err
		})
	}()
	<-inside
	db.Stop()
	if err := <-result; !errors.Is(err, fault.ErrStopped) {
		t.Errorf("Update returned %v, want ErrStopped", err)
	}
	wantIDs(t, home)
}

func stillAlive(db storage.DB) bool {
	_, err := db.Join(context.Background())
	return !errors.Is(err, fault.ErrStopped)
}

func TestHold(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		n     int
		while []int64 // what others see meanwhile
	}{
		{"before the commit", 0, nil},
		{"before the acknowledgement", 1, []int64{1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			gate := fault.NewGate()
			db := fault.Wrap(memory(t, note), fault.Plan{At: fault.At(c.n, fault.Hold(gate))})
			result := make(chan error, 1)
			go func() { result <- put(context.Background(), db, 1) }()
			<-gate.Reached()
			wantIDs(t, db, c.while...)
			select {
			case err := <-result:
				t.Fatalf("Update returned %v while held", err)
			default:
			}
			gate.Release()
			gate.Release()
			if err := <-result; err != nil {
				t.Errorf("Update returned %v after the release", err)
			}
			wantIDs(t, db, 1)
		})
	}
}

func TestHoldAndContext(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1} {
		gate := fault.NewGate()
		db := fault.Wrap(memory(t, note), fault.Plan{At: fault.At(n, fault.Hold(gate))})
		ctx, cancel := context.WithCancel(t.Context())
		result := make(chan error, 1)
		go func() { result <- put(ctx, db, 1) }()
		<-gate.Reached()
		cancel()
		if n == 0 {
			if err := <-result; !errors.Is(err, context.Canceled) {
				t.Errorf("held before its function ran: %v, want context.Canceled", err)
			}
			wantIDs(t, db)
			continue
		}
		gate.Release()
		if err := <-result; err != nil {
			t.Errorf("held after its commit: %v, want nil: the context no longer counts", err)
		}
		wantIDs(t, db, 1)
	}
}

func TestStopFreesHeldCalls(t *testing.T) {
	t.Parallel()
	for n, want := range [][]int64{nil, {1}} {
		gate, home := fault.NewGate(), memory(t, note)
		db := fault.Wrap(home, fault.Plan{At: fault.At(n, fault.Hold(gate))})
		result := make(chan error, 1)
		go func() { result <- put(context.Background(), db, 1) }()
		<-gate.Reached()
		db.Stop()
		var unknown *storage.UnknownError
		if err := <-result; !errors.Is(err, fault.ErrStopped) || errors.As(err, &unknown) != (n == 1) {
			t.Errorf("held at %d and stopped: %v", n, err)
		}
		wantIDs(t, home, want...)
	}
}

func TestDo(t *testing.T) {
	t.Parallel()
	home := memory(t, note)
	var seen []int64
	db := fault.Wrap(home, fault.Plan{At: fault.At(3, fault.Do(func() { seen = ids(t, home) }))})
	for id := int64(1); id <= 3; id++ {
		if err := put(t.Context(), db, id); err != nil {
			t.Error(err)
		}
	}
	if !slices.Equal(seen, []int64{1, 2}) {
		t.Errorf("called when the home held %v, want [1 2]", seen)
	}
}

func TestDelayIsVirtual(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ack := func(p fault.Point) fault.Action {
			if p.Place == fault.After {
				return fault.Delay(time.Second)
			}
			return fault.Action{}
		}
		db := fault.Wrap(memory(t, note), fault.Plan{Delay: time.Minute, At: ack})
		begin := time.Now()
		var all sync.WaitGroup
		for id := range int64(3) { // delays beside each other
			all.Go(func() {
				if err := put(t.Context(), db, id); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if took := time.Since(begin); took != time.Minute+time.Second {
			t.Errorf("three Updates at once took %v of virtual time, want 1m1s", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := put(ctx, db, 9); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a context shorter than the delay: %v", err)
		}
		wantIDs(t, db, 0, 1, 2)
	})
}

// TestConcurrentStop stops under load: what was acknowledged is there, what was refused is not.
func TestConcurrentStop(t *testing.T) {
	t.Parallel()
	home := memory(t, note)
	db := fault.Wrap(home, fault.Plan{At: fault.At(77, fault.Stop())})
	const writers, each = 8, 20
	results := make([]error, writers*each)
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for i := range each {
				n := w*each + i
				results[n] = put(context.Background(), db, int64(n))
			}
		})
	}
	all.Wait()
	have := map[int64]bool{}
	for _, id := range ids(t, home) {
		have[id] = true
	}
	stopped := 0
	for n, err := range results {
		var unknown *storage.UnknownError
		switch there := have[int64(n)]; {
		case err == nil && !there, err != nil && there && !errors.As(err, &unknown):
			t.Error(fmt.Errorf("Update %d: row there %v, returned %w", n, there, err))
		case err != nil:
			stopped++
		}
	}
	if stopped == 0 || db.Calls() != 78 {
		t.Errorf("%d Updates were stopped at %d points, want some at 78", stopped, db.Calls())
	}
}
