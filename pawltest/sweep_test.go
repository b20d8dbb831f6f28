package pawltest_test

import (
	"context"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/pawltest"
	"github.com/pawl-dev/pawl/sqlite"
	"github.com/pawl-dev/pawl/storage"
)

type order struct {
	Charge pawl.Last[string]   `json:"charge"`
	Log    pawl.Append[string] `json:"log"`
}

var ship = pawl.Interrupt[string, string]{Name: "ship"}

// checkout charges in a step, asks, and then ships in another.
func checkout(ctx context.Context, s *order) error {
	charge, err := pawl.Step(ctx, "charge", func(ctx context.Context) (string, error) {
		pawltest.Called(ctx, "charge")
		return "charge-1", nil
	})
	if err != nil {
		return err
	}
	answer, err := ship.Ask(ctx, "ship "+charge+"?")
	if err != nil {
		return err
	}
	parcel, err := pawl.Step(ctx, "ship", func(ctx context.Context) (string, error) {
		pawltest.Called(ctx, "ship")
		return "parcel-1", nil
	})
	if err != nil {
		return err
	}
	s.Charge.Set(charge)
	s.Log.Add(answer, parcel)
	return nil
}

func checkoutGraph(t testing.TB) *pawl.Graph[order] {
	t.Helper()
	g, err := pawl.New[order]("checkout").
		Node("checkout", checkout, pawl.Uses(ship)).
		Node("close", func(_ context.Context, s *order) error { s.Log.Add("closed"); return nil }).
		Path(pawl.Start, "checkout", "close").
		Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

var yes = pawltest.People{"ship": func(pawl.Question) any { return "yes" }}

func disk(path string, kinds ...storage.Kind) (storage.DB, error) { return sqlite.Open(path, kinds...) }

func TestSweep(t *testing.T) {
	for _, mode := range []pawl.Durability{pawl.Sync, pawl.Async, pawl.Exit} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			g := checkoutGraph(t)
			report := pawltest.Sweep(t, pawltest.Scenario{
				Drive: func(ctx context.Context, eng *pawl.Engine) error {
					_, err := pawltest.Drive(ctx, g.Thread(eng, "o1"), "run-1", &order{}, yes)
					return err
				},
				Options: pawl.Options{Durability: mode, Strict: true},
				Disk:    disk,
			})
			if report.Points < 10 {
				t.Errorf("%v: want at least 10 points", report)
			}
		})
	}
}
