package effect_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/approval"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/effect"
	"github.com/pawl-dev/pawl/pawltest"
	"github.com/pawl-dev/pawl/redact"
	"github.com/pawl-dev/pawl/sqlite"
	"github.com/pawl-dev/pawl/storage"
)

// The crash sweep over a node with two effects, one behind the other, with double deaths and real kills. The target
// honours keys: each key may be sent twice, and is applied once.
func TestSweepOverEffects(t *testing.T) {
	t.Parallel()
	pay := effect.New("pay", func(ctx context.Context, op effect.Op, _ transfer) (receipt, error) {
		pawltest.Called(ctx, "sent/"+op.Key)
		return receipt{"tx-" + op.Key[:8]}, nil
	}).Keys(effect.Forever)
	led, err := effect.NewLedger(effect.Options{Key: testKey(1), Redactor: redact.New(nil)})
	if err != nil {
		t.Fatal(err)
	}
	more := append(append(effect.Kinds(), approval.Kinds()...), audit.Kinds()...)
	pawltest.Sweep(t, pawltest.Scenario{
		Options: pawl.Options{Parts: []pawl.Part{led}}, Kinds: more,
		Disk: func(path string, kinds ...storage.Kind) (storage.DB, error) { return sqlite.Open(path, kinds...) },
		Drive: func(ctx context.Context, eng *pawl.Engine) error {
			th := graphOf(t, func(ctx context.Context, s *state) error {
				var got string
				for _, ref := range []string{"1", "2"} {
					r, err := pay.Do(ctx, effect.Ref("invoice", ref), hundred)
					if err != nil {
						return err
					}
					got += r.ID
				}
				s.Receipt.Set(got)
				return nil
			}, pay).Thread(eng, "t")
			s, err := th.State(ctx)
			switch {
			case errors.Is(err, pawl.ErrNotFound) || err == nil && s.Status == pawl.StatusNew:
				_, err = th.Run(ctx, order(hundred))
			case err == nil && s.Status != pawl.Done:
				_, err = th.Resume(ctx)
			}
			if err != nil {
				return fmt.Errorf("not at the end: %w", err)
			}
			return nil
		},
	})
}
