package pawl_test

import (
	"context"
	"reflect"
	"slices"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/storage"
)

// A child that waits begins anew under a migrated or forced head, and on the way back: each report names what it had
// finished, tried and done alike, and its question is withdrawn.
func TestMigrateAroundAChild(t *testing.T) {
	t.Parallel()
	onEachHome(t, func(t *testing.T, db storage.DB) {
		ctx := context.Background()
		var e visits
		inner := linesOf(t, pawl.New[lines]("inner").
			Node("one", func(_ context.Context, s *lines) error { e.add("one"); s.Log.Add("one"); return nil }).
			Node("two", func(ctx context.Context, s *lines) error {
				answer, err := gate.Ask(ctx, "go?")
				if err == nil {
					s.Log.Add("two " + answer)
				}
				return err
			}, pawl.Uses(gate)).Path(pawl.Start, "one", "two"))
		outer := func(last string, moves ...pawl.Migration) *pawl.Graph[lines] {
			return linesOf(t, pawl.New[lines]("outer").
				Add(pawl.Sub(inner.Child("child"), func(*lines) *lines { return &lines{} }, func(s *lines, r *pawl.Result[lines]) error {
					s.Log.Add(logged(r.State)...)
					return nil
				})).
				Node(last, func(_ context.Context, s *lines) error { s.Log.Add(last); return nil }).
				Path(pawl.Start, "child", last).Migrate(moves...))
		}
		before := outer("end")
		after := outer("close", pawl.Migration{From: before.Digest(), Map: func(*pawl.Moving) error { return nil }})
		old, now := before.Thread(opened(t, db, nil), "t"), after.Thread(opened(t, db, nil), "t")
		out, err := old.Run(ctx, nil)
		if err != nil || out.Status != pawl.Waiting {
			t.Fatalf("%+v, %v", out, err)
		}
		asked := out.Waiting[0].ID
		for name, move := range map[string][2]func() (*pawl.Migrated, error){
			"migrate": {func() (*pawl.Migrated, error) { return now.PreviewMigrate(ctx) }, func() (*pawl.Migrated, error) { return now.Migrate(ctx, because) }},
			"force":   {func() (*pawl.Migrated, error) { return now.PreviewForce(ctx) }, func() (*pawl.Migrated, error) { return now.Force(ctx, because) }},
		} {
			tried, err := move[0]()
			if err != nil {
				t.Fatal(name, err)
			}
			done, err := move[1]()
			if err != nil || !reflect.DeepEqual(done, tried) {
				t.Fatalf("%s: done %+v, %v\ntried %+v", name, done, err, tried)
			}
			if !slices.Equal(done.Discarded, []string{"child|one"}) || len(done.Withdrawn) != 1 || done.Withdrawn[0].ID != asked {
				t.Errorf("%s: the report says %+v", name, done)
			}
			back, err := now.MigrateBack(ctx, because)
			if err != nil || !slices.Equal(back.Discarded, done.Discarded) {
				t.Fatalf("%s: the way back says %+v, %v", name, back, err)
			}
			if out, err = old.Resume(ctx); err != nil || out.Status != pawl.Waiting {
				t.Fatalf("%s: the old program after the way back: %+v, %v", name, out, err)
			}
			asked = out.Waiting[0].ID
		}
		e = visits{}
		if _, err := now.Migrate(ctx, because); err != nil {
			t.Fatal(err)
		}
		if out, err = now.Resume(ctx); err != nil || e.String() != "one" {
			t.Fatalf("%+v, %v, entered %s", out, err, &e)
		}
		out, err = now.Resume(ctx, gate.Answer(out.Waiting[0].ID, "yes"))
		if err != nil || !slices.Equal(logged(out.State), []string{"one", "two yes", "close"}) {
			t.Errorf("%+v, %v", out, err)
		}
	})
}
