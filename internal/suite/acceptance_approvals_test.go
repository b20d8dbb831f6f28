package suite

import (
	"context"
	"errors"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/approval"
	"github.com/pawl-dev/pawl/effect"
	"github.com/pawl-dev/pawl/pawltest"
)

// acceptanceApprovals: a yes is one use of one exact call.
func acceptanceApprovals() []scenario {
	return []scenario{
		{id: "A44", run: twoPresentOneGrant},
		{id: "A45", run: duplicateSpendsNothing},
		{id: "A46", run: diesAfterYes},
		{id: "A54", run: forksAskOrReturn},
		{id: "A57", run: aNoHolds},
	}
}

// twoPresentOneGrant is A44: four workers go on at once with one yes in hand.
func twoPresentOneGrant(t *testing.T, _ *report) {
	for _, mode := range allTargets {
		t.Run(string(mode), func(t *testing.T) {
			onEachMoney(t, func(t *testing.T, h *home) {
				ctx, target := context.Background(), pawltest.NewTarget(mode)
				g, o := atDepth(t, payGraph(approvedWire(target))), firmIn(t, h)
				out, err := g.Thread(o.eng, "t").Run(ctx, orderFor("17"))
				mustWaitFor(t, out, err, 1)
				o.yes(t)
				ends := make(chan error, 4)
				for range cap(ends) {
					th := g.Thread(firmIn(t, h).eng, "t")
					go func() {
						_, err := th.Resume(ctx)
						ends <- err
					}()
				}
				for range cap(ends) {
					if err := <-ends; err != nil && !errors.Is(err, pawl.ErrBusy) {
						t.Error(err)
					}
				}
				same(t, "end", o.toEnd(t, g.Thread(o.eng, "t"), "17"), "done")
				saw(t, target, 1, 0, 1)
				same(t, "consumed", len(o.requests(t, approval.Consumed)), 1)
				// The grant presented once more is refused, and stays as it is.
				before, grant := o.kept(t, target), o.requests(t)[0]
				refused := (*approval.GrantError)(nil)
				if err := o.present(grant, grant.Call, grant.Operation); !errors.As(err, &refused) {
					t.Errorf("the grant once more: %v", err)
				}
				same(t, "operations, requests and target", o.kept(t, target), before)
			})
		})
	}
}

// present shows a grant for a call, as a dispatch would.
func (o *firm) present(grant approval.Request, call, operation string) error {
	return update(o.db, func(tx tx) error { return approval.Consume(tx, "t1", grant.ID, call, operation) })
}

// forksAskOrReturn is A54: before the commit a fork asks again, after it nobody is asked.
func forksAskOrReturn(t *testing.T, _ *report) {
	for _, granted := range []bool{false, true} {
		name := map[bool]string{false: "asked", true: "granted"}[granted]
		t.Run(name, func(t *testing.T) {
			onEachMoney(t, func(t *testing.T, h *home) {
				ctx, target := context.Background(), pawltest.NewTarget(pawltest.TargetOpaque)
				o := firmIn(t, h)
				th := atDepth(t, payGraph(approvedWire(target))).Thread(o.eng, "t")
				out, err := th.Run(ctx, orderFor("17"))
				old := mustWaitFor(t, out, err, 1)[0]
				if granted {
					o.yes(t)
				}
				before := history(t, th)
				out, err = th.Fork(ctx, beforeTransfer(t, th), nil)
				asked := mustWaitFor(t, out, err, 1)[0]
				if asked.ID == old.ID {
					t.Error("the branch shows the question of the branch that was left")
				}
				same(t, "asked", len(o.requests(t)), 2)
				same(t, "open", len(o.requests(t, approval.Requested)), 1)
				same(t, "grants", len(o.requests(t, approval.Granted)), 0)
				saw(t, target, 0, 0, 0)
				same(t, "end", o.toEnd(t, th, "17"), "done")
				want := receiptIn(t, th)

				out, err = th.Fork(ctx, beforeTransfer(t, th), nil)
				mustBeDone(t, out, err)
				same(t, "receipt after the commit", out.State.Receipt.Get(), want)
				same(t, "asked", len(o.requests(t)), 2)
				states := map[effect.State]int{}
				for _, op := range o.operations(t) {
					states[op.State]++
				}
				same(t, "operations", states, map[effect.State]int{effect.StateVoided: 1, effect.StateCommitted: 1})
				saw(t, target, 1, 0, 1)
				grew(t, before, history(t, th))
			})
		})
	}
}
