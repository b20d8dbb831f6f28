package pawltest_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/pawltest"
	"github.com/pawl-dev/pawl/storage"
)

// TestSweepOutside sweeps a step that posts to another system, which is a stop point too, and is asked by Check.
func TestSweepOutside(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		keyed bool // the other system knows what it did
		want  string
	}{{"posts again", false, "posted twice"}, {"posts under a key", true, ""}} {
		t.Run(c.name, func(t *testing.T) {
			alive, outside := 0, 0
			post := func(ctx context.Context) (string, error) {
				if !c.keyed || pawltest.Calls(ctx, "posted") == 0 {
					pawltest.Called(ctx, "posted")
				}
				if err := pawltest.Point(ctx); err != nil {
					outside++
					return "", err
				}
				alive++
				return "receipt", nil
			}
			g, err := pawl.New[order]("posts").Node("post", func(ctx context.Context, s *order) error {
				receipt, err := pawl.Step(ctx, "post", post)
				s.Charge.Set(receipt)
				return err
			}).Path(pawl.Start, "post").Build()
			if err != nil {
				t.Fatal(err)
			}
			said := watch(t, func(t testing.TB) {
				pawltest.Sweep(t, pawltest.Scenario{
					Drive: func(ctx context.Context, eng *pawl.Engine) error {
						if pawltest.Home(ctx) == nil {
							return errors.New("there is no home")
						}
						_, err := pawltest.Drive(ctx, g.Thread(eng, "t"), "run-1", &order{}, nil)
						return err
					},
					Check: func(ctx context.Context, _ storage.DB) error {
						if pawltest.Calls(ctx, "posted") > 1 {
							return errors.New("posted twice")
						}
						return nil
					},
				})
			})
			if c.want == "" && strings.Contains(said, "posted twice") || !strings.Contains(said, c.want) {
				t.Errorf("it said %q, want %q", said, c.want)
			}
			if alive == 0 || outside == 0 {
				t.Errorf("%d posts were answered, %d processes died at one", alive, outside)
			}
		})
	}
}
