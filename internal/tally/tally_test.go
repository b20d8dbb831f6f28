package tally_test

import (
	"context"
	"math"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/internal/tally"
	"github.com/pawl-dev/pawl/memdb"
	"github.com/pawl-dev/pawl/sqlite"
	"github.com/pawl-dev/pawl/storage"
)

func update(t *testing.T, db storage.DB, fn func(tx storage.Tx) error) {
	t.Helper()
	if err := db.Update(t.Context(), func(_ context.Context, tx storage.Tx) error { return fn(tx) }); err != nil {
		t.Fatal(err)
	}
}

func look(t *testing.T, db storage.DB, tenant, name string, amount int64, l tally.Limit) (c tally.Count) {
	t.Helper()
	update(t, db, func(tx storage.Tx) (err error) {
		c, err = tally.Look(tx, tenant, name, amount, l)
		return err
	})
	return c
}

func add(t *testing.T, db storage.DB, name string, amount int64, l tally.Limit) (until int64) {
	t.Helper()
	update(t, db, func(tx storage.Tx) (err error) {
		until, err = tally.Add(tx, "t", name, amount, l)
		return err
	})
	return until
}

func memory(t *testing.T) storage.DB {
	t.Helper()
	db, err := memdb.Open(tally.Kind())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// What was used counts for the time of the limit and at most a sixtieth longer, and what is said to free does.
func TestItSlides(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db, hour := memory(t), tally.Limit{Max: 100, Per: time.Hour}
		add(t, db, "a", 60, hour)
		<-time.After(30 * time.Minute)
		add(t, db, "a", 40, hour)
		for _, c := range []struct {
			amount int64
			fits   bool
			in     time.Duration // until it fits, from the beginning; 0: never
		}{{0, true, 0}, {1, false, 61 * time.Minute}, {60, false, 61 * time.Minute}, {61, false, 91 * time.Minute}, {100, false, 91 * time.Minute}, {101, false, 0}} {
			got := look(t, db, "t", "a", c.amount, hour)
			if got.Used != 100 || got.Fits != c.fits || c.in == 0 != got.Frees.IsZero() || c.in > 0 && !got.Frees.Equal(time.Now().Add(c.in-30*time.Minute)) {
				t.Errorf("%d: %+v", c.amount, got)
			}
		}
		<-time.After(31*time.Minute - time.Millisecond)
		if got := look(t, db, "t", "a", 1, hour); got.Fits {
			t.Errorf("a millisecond early: %+v", got)
		}
		<-time.After(time.Millisecond)
		if got := look(t, db, "t", "a", 60, hour); !got.Fits || got.Used != 40 {
			t.Errorf("at the time: %+v", got)
		}
	})
}

func TestForEver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db, all := memory(t), tally.Limit{Max: 10}
		if until := add(t, db, "a", 10, all); until != tally.Never {
			t.Errorf("it counts until %d", until)
		}
		<-time.After(100 * 365 * 24 * time.Hour)
		if got := look(t, db, "t", "a", 1, all); got.Fits || got.Used != 10 || !got.Frees.IsZero() {
			t.Errorf("got %+v", got)
		}
	})
}

// Tenants and names are apart; what was not used after all is given back; what is over is removed.
func TestRows(t *testing.T) {
	t.Parallel()
	disk, err := sqlite.Open(filepath.Join(t.TempDir(), "a.db"), tally.Kind())
	if err != nil {
		t.Fatal(err)
	}
	defer disk.Close()
	for _, db := range []storage.DB{memory(t), disk} {
		l := tally.Limit{Max: 10, Per: time.Hour}
		until := add(t, db, "a", 7, l)
		if look(t, db, "t", "b", 10, l).Used != 0 || look(t, db, "u", "a", 10, l).Used != 0 {
			t.Error("what one used counts for another")
		}
		update(t, db, func(tx storage.Tx) error { return tally.Back(tx, "t", "a", until, 3) })
		update(t, db, func(tx storage.Tx) error { return tally.Back(tx, "t", "a", until+1, 3) }) // forgotten: nothing to give back
		if got := look(t, db, "t", "a", 6, l); got.Used != 4 || !got.Fits {
			t.Errorf("got %+v", got)
		}
		err := db.Update(t.Context(), func(_ context.Context, tx storage.Tx) error { return tally.Back(tx, "t", "a", until, 5) })
		if err == nil {
			t.Error("more was given back than was used")
		}
		update(t, db, func(tx storage.Tx) error {
			_, err := tx.Put("tally", storage.Row{Key: []any{"t", "a", int64(1)}, Body: make([]byte, 8)}, storage.Always())
			return err
		})
		add(t, db, "a", 1, l)
		update(t, db, func(tx storage.Tx) error {
			rows, err := tx.List("tally", storage.Query{Range: storage.Range{Prefix: []any{"t", "a"}, To: int64(2)}})
			if len(rows) != 0 {
				t.Errorf("what was over is there: %v", rows)
			}
			return err
		})
		update(t, db, func(tx storage.Tx) error {
			_, err := tx.Put("tally", storage.Row{Key: []any{"t", "bad", int64(math.MaxInt64)}, Body: []byte("x")}, storage.Always())
			return err
		})
		if err := db.View(t.Context(), func(_ context.Context, tx storage.Tx) error {
			_, err := tally.Look(tx, "t", "bad", 1, l)
			return err
		}); err == nil {
			t.Error("a damaged count was read")
		}
	}
}

func TestFault(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		l    tally.Limit
		good bool
	}{{tally.Limit{Max: 1, Per: time.Second}, true}, {tally.Limit{Max: 1}, true}, {tally.Limit{Per: time.Hour}, false}, {tally.Limit{Max: 1, Per: 1}, false}, {tally.Limit{Max: 1, Per: -1}, false}} {
		if err := c.l.Fault(); (err == nil) != c.good {
			t.Errorf("%+v: %v", c.l, err)
		}
	}
}
