package pawltest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
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

// TestSweepFinds sweeps programs that do not survive their death, each in its own way.
func TestSweepFinds(t *testing.T) {
	t.Parallel()
	run := func(ctx context.Context, eng *pawl.Engine, node func(context.Context, *order) error) error {
		g, err := pawl.New[order]("bad").Node("bad", node).Path(pawl.Start, "bad").Build()
		if err != nil {
			return err
		}
		_, err = pawltest.Drive(ctx, g.Thread(eng, "t"), "run-1", &order{}, nil)
		return err
	}
	charge := func(ctx context.Context) error {
		_, err := pawl.Step(ctx, "charge", func(ctx context.Context) (int, error) {
			return pawltest.Called(ctx, "charge"), nil
		})
		return err
	}
	for _, c := range []struct {
		name  string
		want  string
		drive func(ctx context.Context, eng *pawl.Engine) error
	}{
		{"a plain call decides the value", "ends otherwise", func(ctx context.Context, eng *pawl.Engine) error {
			return run(ctx, eng, func(ctx context.Context, s *order) error {
				s.Log.Add(fmt.Sprint(pawltest.Called(ctx, "plain")))
				return charge(ctx)
			})
		}},
		{"what a step did is done again beside it", "a finished step was called again", func(ctx context.Context, eng *pawl.Engine) error {
			return run(ctx, eng, func(ctx context.Context, _ *order) error {
				if pawltest.Called(ctx, "entry") > 1 {
					pawltest.Called(ctx, "charge")
				}
				return charge(ctx)
			})
		}},
		{"a step under a name of the moment", "without a stop it never is", func(ctx context.Context, eng *pawl.Engine) error {
			return run(ctx, eng, func(ctx context.Context, _ *order) error {
				name := fmt.Sprint("entry-", pawltest.Called(ctx, "entry"))
				_, err := pawl.Step(ctx, name, func(context.Context) (int, error) { return 0, nil })
				return err
			})
		}},
		{"the program does not go on", "does not come to its end", func(ctx context.Context, eng *pawl.Engine) error {
			if state, err := eng.Thread("bad", "t").State(ctx); err != nil || state.Status != pawl.StatusNew {
				return errors.Join(err, errors.New("it was started before"))
			}
			return run(ctx, eng, func(ctx context.Context, _ *order) error { return charge(ctx) })
		}},
		{"deletes what it does not understand", "is not there", func(ctx context.Context, eng *pawl.Engine) error {
			th := eng.Thread("bad", "t")
			if state, err := th.State(ctx); err != nil || state.Status != pawl.StatusNew {
				return errors.Join(err, th.Delete(ctx))
			}
			return run(ctx, eng, func(ctx context.Context, _ *order) error { return charge(ctx) })
		}},
		{"fails by itself", "fails without a stop", func(context.Context, *pawl.Engine) error { return errors.New("no") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			var report pawltest.Report
			said := watch(t, func(t testing.TB) { report = pawltest.Sweep(t, pawltest.Scenario{Drive: c.drive}) })
			if !strings.Contains(said, c.want) {
				t.Errorf("it said %q, want %q", said, c.want)
			}
			if (report.Failures == 0) != (report.Points == 0) {
				t.Errorf("the report is %v", report)
			}
		})
	}
}
