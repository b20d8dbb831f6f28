package effect_test

import (
	"context"
	"errors"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/approval"
	"github.com/pawl-dev/pawl/effect"
	"github.com/pawl-dev/pawl/pawltest"
	"github.com/pawl-dev/pawl/storage/fault"
)

// A request that is due in the entry that opened it: the thread waits, and the node is told when it goes on.
func TestADueRequestIsToldToTheNextEntry(t *testing.T) {
	t.Parallel()
	target := pawltest.NewTarget(pawltest.TargetOpaque)
	e := bank(target).Approve(approval.Levels{{To: "finance", For: 1}})
	node := func(ctx context.Context, s *state) error {
		_, err := e.Do(ctx, effect.Ref("invoice", "17"), s.Order.Get())
		if denied := (*effect.DeniedError)(nil); errors.As(err, &denied) && denied.Expired {
			s.Receipt.Set("expired")
			return nil
		}
		return err
	}
	p := start(t, memory(t), fault.Plan{})
	th := graphOf(t, node, e).Thread(p.eng, "t")
	out, err := th.Run(t.Context(), order(hundred))
	if err != nil || out.Status != pawl.Waiting {
		t.Fatalf("got %+v, %v", out, err)
	}
	out, err = th.Resume(t.Context())
	if err != nil || out.Status != pawl.Done || out.State.Receipt.Get() != "expired" {
		t.Fatalf("got %+v, %v", out, err)
	}
	if op := p.operation(); op.State != effect.StateVoided {
		t.Errorf("the operation is %s", op.State)
	}
	wantCount(t, target, 0, 0, 0)
}
