package effect_test

import (
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/effect"
	"github.com/pawl-dev/pawl/pawltest"
	"github.com/pawl-dev/pawl/storage/fault"
)

// Without approval an effect is two durable writes more, with one it is four.
func TestAnEffectIsDoneOnceAndRecorded(t *testing.T) {
	t.Parallel()
	for _, mode := range []pawltest.TargetMode{pawltest.TargetKeys, pawltest.TargetLookup, pawltest.TargetOpaque} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			target := pawltest.NewTarget(mode)
			e := bank(target)
			p := start(t, memory(t), fault.Plan{})
			g := graphOf(t, payNode(e), e)
			th := g.Thread(p.eng, "t")
			out, _ := p.paid(th, hundred)
			wantCount(t, target, 1, 0, 1)
			op := p.operation()
			if op.State != effect.StateCommitted || op.Attempts != 1 || op.Thread != "t" || target.Keys()[0] != op.Key {
				t.Errorf("the operation is %+v", op)
			}
			if out.State.Receipt.Get() != target.Rows()[0].ID {
				t.Errorf("the receipt is %q, the target's row %+v", out.State.Receipt.Get(), target.Rows()[0])
			}
		})
	}
}

func TestAnApprovedEffectWaitsAndRunsOnce(t *testing.T) {
	t.Parallel()
	target := pawltest.NewTarget(pawltest.TargetOpaque)
	e := approved(bank(target))
	p := start(t, memory(t), fault.Plan{})
	g := graphOf(t, payNode(e), e)
	th := g.Thread(p.eng, "t")
	out, err := th.Run(t.Context(), order(hundred))
	if err != nil || out.Status != pawl.Waiting || len(out.Waiting) != 1 || out.Waiting[0].Kind != "approval" {
		t.Fatalf("got %+v, %v", out, err)
	}
	wantCount(t, target, 0, 0, 0)
	if op := p.operation(); op.State != effect.StateReserved {
		t.Errorf("the operation is %+v", op)
	}
	if n := p.yes(out); n != 1 {
		t.Fatalf("%d requests, want 1", n)
	}
	out, err = th.Resume(t.Context())
	if err != nil || out.Status != pawl.Done {
		t.Fatalf("got %+v, %v", out, err)
	}
	wantCount(t, target, 1, 0, 1)
	if r := p.requests()[0]; r.State != "consumed" || r.UsedBy != p.operation().Key {
		t.Errorf("the grant is %+v", r)
	}
}
