package pawl_test

import (
	"context"
	"errors"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/memdb"
	"github.com/pawl-dev/pawl/storage"
	"github.com/pawl-dev/pawl/storage/fault"
)

// An Update of a part whose outcome the home cannot tell is never taken for durable without a proof.
func TestAPartsUpdateOfUnknownOutcomeIsProved(t *testing.T) {
	t.Parallel()
	mine := storage.Kind{Name: "mine", Key: []storage.Field{{Name: "id", Type: storage.Text}}}
	write := func(_ context.Context, tx storage.Tx) error {
		_, err := tx.Put("mine", storage.Row{Key: []any{"1"}}, storage.Absent())
		return err
	}
	there := func(tx storage.Tx) (bool, error) {
		_, ok, err := tx.Get("mine", "1")
		return ok, err
	}
	for _, c := range []struct {
		name   string
		place  fault.Place
		proof  []func(storage.Tx) (bool, error)
		proved bool
	}{
		{"written, no proof", fault.After, nil, false},
		{"written, proved", fault.After, []func(storage.Tx) (bool, error){there}, true},
		{"not written, no proof", fault.Before, nil, false},
		{"not written, disproved", fault.Before, []func(storage.Tx) (bool, error){there}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			home, err := memdb.Open(append(pawl.Kinds(), mine)...)
			if err != nil {
				t.Fatal(err)
			}
			defer home.Close()
			armed := false
			lost := &storage.UnknownError{Err: errors.New("the line went away")}
			db := fault.Wrap(home, fault.Plan{At: func(p fault.Point) fault.Action {
				if !armed || p.Place != c.place {
					return fault.Action{}
				}
				armed = false
				return fault.Fail(lost)
			}})
			eng, err := pawl.NewEngine(db, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer eng.Close()
			var got error
			g, err := pawl.New[partState]("proof").Node("pay", func(ctx context.Context, _ *partState) error {
				task, _ := pawl.TaskFrom(ctx)
				// What is queued comes first, so that the Update at hand writes nothing but its own.
				if err := task.Update(ctx, func(context.Context, storage.Tx) error { return nil }); err != nil {
					return err
				}
				armed = true
				got = task.Update(ctx, write, c.proof...)
				return got
			}).Edge(pawl.Start, "pay").Build()
			if err != nil {
				t.Fatal(err)
			}
			_, err = g.Thread(eng, "t").Run(t.Context(), &partState{})
			unknown := (*storage.UnknownError)(nil)
			if c.proved && (got != nil || err != nil) || !c.proved && (!errors.As(got, &unknown) || err == nil) {
				t.Errorf("the update says %v, the run %v", got, err)
			}
		})
	}
}
