package approval

import (
	"context"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/memdb"
	"github.com/pawl-dev/pawl/storage"
)

// A row that changed since it was read is not overwritten.
func TestPutIsConditional(t *testing.T) {
	t.Parallel()
	db, err := memdb.Open(Kinds()...)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	update := func(fn func(tx storage.Tx) error) error {
		return db.Update(t.Context(), func(_ context.Context, tx storage.Tx) error { return fn(tx) })
	}
	read := &Request{ID: "a1", Tenant: "t", Call: "c", State: Requested, Rev: 1}
	row, err := pack(read)
	if err != nil {
		t.Fatal(err)
	}
	move := func(to State) error {
		return update(func(tx storage.Tx) error {
			_, err := put(tx, read, to, func(*Request) {})
			return err
		})
	}
	if err := move(Granted); err == nil || !strings.Contains(err.Error(), "nothing was changed") {
		t.Errorf("a row that is not there: %v", err)
	}
	err = update(func(tx storage.Tx) error {
		_, err := tx.Put(kind, row, storage.Absent())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := move(Denied); err != nil {
		t.Fatal(err)
	}
	if err := move(Granted); err == nil {
		t.Error("a stale row was written over a newer one")
	}
	err = update(func(tx storage.Tx) error {
		now, err := get(tx, "t", "a1")
		if err == nil && (now.State != Denied || now.Rev != 2) {
			t.Errorf("it is %+v", now)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
