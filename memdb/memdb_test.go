package memdb_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/memdb"
	"github.com/pawl-dev/pawl/storage"
	"github.com/pawl-dev/pawl/storage/storagetest"
)

func open(t *testing.T, kinds ...storage.Kind) storage.DB {
	t.Helper()
	db, err := memdb.Open(kinds...)
	if err != nil {
		t.Fatal(err)
	}
	return db
}

func TestContract(t *testing.T) { storagetest.Run(t, open) }

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	for name, kinds := range map[string][]storage.Kind{
		"a kind twice":       {step, step},
		"a kind without key": {{Name: "x"}},
		"an unknown column":  {{Name: "x", Key: step.Key, Indexes: []storage.Index{{Name: "i", Fields: []string{"y"}}}}},
	} {
		if _, err := memdb.Open(kinds...); err == nil {
			t.Errorf("%s: opened", name)
		}
	}
}

func TestInfo(t *testing.T) {
	t.Parallel()
	if i := open(t).Info(); i.Driver != "memory" || i.Durable || i.Where != "" {
		t.Errorf("Info is %+v", i)
	}
}

// TestVirtualTime holds an Update open under a virtual clock: those who wait for it are idle, so time goes on.
func TestVirtualTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db, begin := open(t, step), time.Now()
		held := make(chan struct{})
		go func() {
			err := db.Update(t.Context(), func(context.Context, storage.Tx) error {
				close(held)
				<-time.After(time.Hour)
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		}()
		<-held
		var now time.Time
		err := db.View(t.Context(), func(_ context.Context, tx storage.Tx) error {
			now = tx.Now()
			return nil
		})
		if err != nil || !now.Equal(begin.Add(time.Hour)) {
			t.Errorf("View began at %v, want an hour after %v (error %v)", now, begin, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, wake := db.Changed(0)
		select {
		case <-wake:
			t.Error("an Update without a change woke a waiter")
		case <-ctx.Done():
		}
	})
}

// TestWalkLoop: a damaged chain is an error, not an endless walk.
func TestWalkLoop(t *testing.T) {
	t.Parallel()
	chain := storage.Kind{Name: "chain", Key: step.Key, Fields: []storage.Field{{Name: "base", Type: storage.Int}}}
	db := open(t, chain)
	err := db.Update(context.Background(), func(_ context.Context, tx storage.Tx) error {
		for id, base := range map[int64]int64{1: 3, 2: 1, 3: 2} {
			if _, err := tx.Put("chain", storage.Row{Key: []any{id}, Fields: []any{base}}, storage.Absent()); err != nil {
				return err
			}
		}
		_, err := tx.Walk("chain", 1)
		return err
	})
	if err == nil {
		t.Error("Walk along a loop returned no error")
	}
}
