package suite

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/effect"
	"github.com/pawl-dev/pawl/internal/nest"
	"github.com/pawl-dev/pawl/pawltest"
)

// acceptanceRelease: what nothing settles is decided by people, and what was done is made up for.
func acceptanceRelease() []scenario {
	return []scenario{
		{id: "A38", run: releasedApplied},
		{id: "A39", run: sentOnceMore},
		{id: "A40", run: fourEyes},
		{id: "A41", run: compensatedOnce},
	}
}

// doubtful is a firm whose thread t waits for a person: an opaque target got the transfer, and dropped the connection
// before it committed or after.
func doubtful(t *testing.T, h *home, e func(wiring) wiring, at pawltest.TargetPoint) (*firm, *pawltest.Target, *nest.Thread[payment]) {
	t.Helper()
	target, o := pawltest.NewTarget(pawltest.TargetOpaque), firmIn(t, h)
	target.DropAt(at, 1)
	th := atDepth(t, payGraphOf(e(wire(target)))).Thread(o.eng, "t")
	same(t, "end", o.toEnd(t, th, "17"), "waits")
	same(t, "operation", o.operation(t).State, effect.StateQuarantined)
	return o, target, th
}

func plainly(e wiring) wiring { return e }

// releasedApplied is A38.
func releasedApplied(t *testing.T, _ *report) {
	onEachMoney(t, func(t *testing.T, h *home) {
		o, target, th := doubtful(t, h, plainly, pawltest.TargetCommitted)
		id := target.Rows()[0].ID
		op, err := o.effects.Release(actor("ops"), o.operation(t).Key, effect.Applied(receipt{id}), "it is in the bank's books")
		if err != nil || op.State != effect.StateCommitted {
			t.Fatalf("%+v, %v", op, err)
		}
		same(t, "end", o.toEnd(t, th, "17"), "done")
		same(t, "receipt", receiptIn(t, th), id)
		saw(t, target, 1, 0, 1)
		var settled *effect.SettledError
		if _, err := o.effects.Release(actor("other"), op.Key, effect.NotApplied(), "so I think"); !errors.As(err, &settled) {
			t.Errorf("a second decision: %v", err)
		}
	})
}

// sentOnceMore is A39: the permit is used once, a second use is refused, and of concurrent releases one wins.
func sentOnceMore(t *testing.T, _ *report) {
	onEachMoney(t, func(t *testing.T, h *home) {
		o, target, th := doubtful(t, h, plainly, pawltest.TargetReceived)
		key := o.operation(t).Key
		var all sync.WaitGroup
		errs := make([]error, 4)
		for i := range errs {
			desk := firmIn(t, h).effects
			all.Go(func() {
				_, errs[i] = desk.Release(actor(fmt.Sprint("ops ", i)), key, effect.SendOnce(), "nothing is in the books")
			})
		}
		all.Wait()
		won := 0
		for _, err := range errs {
			if settled := (*effect.SettledError)(nil); err == nil {
				won++
			} else if !errors.As(err, &settled) {
				t.Error(err)
			}
		}
		same(t, "decisions that count", won, 1)
		saw(t, target, 1, 0, 0)
		target.DropAt(pawltest.TargetReceived, 1) // the one more is lost too
		same(t, "end", o.toEnd(t, th, "17"), "waits")
		saw(t, target, 2, 0, 0)
		for range 3 { // the permit is used up
			same(t, "end", o.toEnd(t, th, "17"), "waits")
		}
		saw(t, target, 2, 0, 0)
		if _, err := o.effects.Release(actor("ops"), key, effect.SendOnce(), "nothing is in the books"); err != nil {
			t.Fatal(err)
		}
		same(t, "end", o.toEnd(t, th, "17"), "done")
		saw(t, target, 3, 0, 1)
		same(t, "keys", distinct(target.Keys()), 1)
	})
}

// fourEyes is A40: above a limit one person is refused until a second one, who must be another, decides the same.
func fourEyes(t *testing.T, _ *report) {
	onEachMoney(t, func(t *testing.T, h *home) {
		above := func(e wiring) wiring {
			return e.FourEyes(func(in transfer) bool { return len(in.Amount) >= len("100.00") })
		}
		o, target, th := doubtful(t, h, above, pawltest.TargetCommitted)
		key, said := o.operation(t).Key, effect.Applied(receipt{target.Rows()[0].ID})
		var second *effect.SecondVoteError
		for range 2 { // the same person twice is one person
			if _, err := o.effects.Release(actor("ann"), key, said, "in the books"); !errors.As(err, &second) {
				t.Fatalf("one person: %v", err)
			}
		}
		if _, err := o.effects.Release(actor("bob"), key, effect.NotApplied(), "not in the books"); !errors.As(err, &second) {
			t.Fatalf("two people who do not agree: %v", err)
		}
		same(t, "operation", o.operation(t).State, effect.StateQuarantined)
		same(t, "end", o.toEnd(t, th, "17"), "waits")
		if _, err := o.effects.Release(actor("cat"), key, said, "in the books"); err != nil {
			t.Fatal(err)
		}
		same(t, "end", o.toEnd(t, th, "17"), "done")
		saw(t, target, 1, 0, 1)
	})
}

// compensatedOnce is A41, and the second half of S003-18: a compensation has its own key and approval, a crash inside it
// changes nothing, asked for twice it is done once.
func compensatedOnce(t *testing.T, _ *report) {
	onEachMoney(t, func(t *testing.T, h *home) {
		ctx, target, bank := context.Background(), pawltest.NewTarget(pawltest.TargetLookup), pawltest.NewTarget(pawltest.TargetLookup)
		o, pay := firmIn(t, h), approvedWire(target)
		refund := approvedAs("bank.refund", bank).Compensates(pay)
		th := atDepth(t, payGraph(pay)).Thread(o.eng, "t")
		o.paid(t, th, "17")
		back := atDepth(t, pawl.New[payment]("back").Node("refund", func(ctx context.Context, s *payment) error {
			r, err := refund.Compensate(ctx, effect.Ref("invoice", "17"), hundred)
			if err == nil {
				s.Receipt.Set(r.ID)
			}
			return err
		}, pawl.Uses(refund)).Path(pawl.Start, "refund"))
		bank.DropAt(pawltest.TargetCommitted, 1)
		one := o.paid(t, back.Thread(o.eng, "one"), "17")
		same(t, "receipt of the second asking", o.paid(t, back.Thread(o.eng, "two"), "17"), one)
		same(t, "refunds", bank.Count().Rows, 1)
		saw(t, target, 1, 0, 1)
		same(t, "asked", len(o.requests(t)), 2)
		keys := []string{}
		for _, op := range o.operations(t) {
			keys = append(keys, op.Key)
			shown, err := o.effects.Show(ctx, op.Key)
			if err != nil {
				t.Fatal(err)
			}
			if op.Effect == "bank.refund" && (op.State != effect.StateCommitted || shown.Operation.Compensates == "") {
				t.Errorf("the refund: %+v", shown.Operation)
			}
			if op.Effect == "bank.transfer" && op.State != effect.StateCompensated {
				t.Errorf("the transfer is %s", op.State)
			}
		}
		same(t, "keys", distinct(keys), 2)
		// What did not happen is not made up for.
		nothing := atDepth(t, pawl.New[payment]("nothing").Node("refund", func(ctx context.Context, _ *payment) error {
			_, err := refund.Compensate(ctx, effect.Ref("invoice", "none"), hundred)
			return err
		}, pawl.Uses(refund)).Path(pawl.Start, "refund")).Thread(o.eng, "nothing")
		if out, err := nothing.Run(ctx, &payment{}); err == nil {
			t.Errorf("a refund of nothing: %+v", out)
		}
		same(t, "refunds", bank.Count().Rows, 1)
	})
}
