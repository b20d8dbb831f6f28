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

// intentNotThread is S003-7: one intent from everywhere is one operation.
func intentNotThread(t *testing.T, _ *report) {
	for _, mode := range allTargets {
		t.Run(string(mode), func(t *testing.T) {
			onEachMoney(t, func(t *testing.T, h *home) { oneIntent(t, h, mode) })
		})
	}
	at := startBank(t)
	t.Run("another host", func(t *testing.T) {
		f := &fate{home: moneyHome(t, newFile(t)), bank: &remoteBank{URL: at, Book: t.Name(), mode: pawltest.TargetOpaque}}
		o := firmIn(t, f.home)
		want, key := o.paid(t, f.thread(t, o, "here"), "17"), o.operation(t).Key
		c := spawn(t, "003-clerk", clerk{
			Path: f.home.path, Bank: at, Book: t.Name(), Thread: "there", Policy: "policy-2", Mode: pawltest.TargetOpaque,
		})
		same(t, "another host's run", c.wait(t), "done "+want)
		same(t, "the target saw", f.bank.books(t).Count, pawltest.TargetCount{Requests: 1, Rows: 1})
		same(t, "key", o.operation(t).Key, key)
		same(t, "asked", len(o.requests(t)), 1)
	})
}

func oneIntent(t *testing.T, h *home, mode pawltest.TargetMode) {
	ctx, target := context.Background(), pawltest.NewTarget(mode)
	e := approvedWire(target)
	o := firmIn(t, h)
	g := atDepth(t, payGraph(e))
	th := g.Thread(o.eng, "t")
	want, first := o.paid(t, th, "17"), o.operation(t)
	check := func(from, got string) {
		t.Helper()
		same(t, "receipt of "+from, got, want)
		saw(t, target, 1, 0, 1)
		now := o.operation(t)
		same(t, "key after "+from, now.Key, first.Key)
		same(t, "policy after "+from, now.Policy, first.Policy)
		same(t, "asked after "+from, len(o.requests(t)), 1)
	}
	check("a second thread", o.paid(t, g.Thread(o.eng, "second"), "17"))

	branch := func(name string, b *pawl.Builder[payment]) {
		t.Helper()
		fresh := firmIn(t, h) // with other code under the graph's name
		check(name, fresh.paid(t, atDepth(t, b).Thread(fresh.eng, name), "17"))
	}
	branch("another node", pawl.New[payment]("other").Node("elsewhere", pays(e), pawl.Uses(e)).Path(pawl.Start, "elsewhere"))
	branch("an inserted node", pawl.New[payment]("pay").Node("first", noop).Node("inserted", noop).Node("transfer", pays(e), pawl.Uses(e)).
		Path(pawl.Start, "first", "inserted", "transfer"))
	branch("a renamed node", pawl.New[payment]("pay").Node("first", noop).Node("wire", pays(e), pawl.Uses(e)).Path(pawl.Start, "first", "wire"))

	out, err := th.Fork(ctx, pawl.Before("first"), nil)
	mustBeDone(t, out, err)
	check("a fork", out.State.Receipt.Get())

	broken := true
	fails := func(context.Context, *payment) error {
		if broken {
			return errors.New("out of order")
		}
		return nil
	}
	retrying := firmIn(t, h)
	retried := atDepth(t, pawl.New[payment]("pay").Node("first", noop).Node("transfer", pays(e), pawl.Uses(e)).Node("last", fails).
		Path(pawl.Start, "first", "transfer", "last")).Thread(retrying.eng, "retried")
	failed := (*pawl.RunError)(nil)
	if _, err := retried.Run(ctx, orderFor("17")); !errors.As(err, &failed) {
		t.Fatal(err)
	}
	broken = false
	out, err = retried.Retry(ctx)
	mustBeDone(t, out, err)
	check("a retry of the run", out.State.Receipt.Get())

	other := firmIn(t, h, "policy-2")
	check("another policy", other.paid(t, atDepth(t, payGraph(e)).Thread(other.eng, "under another policy"), "17"))
	settled(t, statusOf(t, th))
}

// secondPayment is S003-8.
func secondPayment(t *testing.T, _ *report) {
	for _, mode := range allTargets {
		t.Run(string(mode), func(t *testing.T) {
			onEachMoney(t, func(t *testing.T, h *home) {
				ctx, target := context.Background(), pawltest.NewTarget(mode)
				o := firmIn(t, h)
				g := atDepth(t, payGraph(approvedWire(target)))
				one := o.paid(t, g.Thread(o.eng, "one"), "17")
				yes := o.requests(t)[0]

				th := g.Thread(o.eng, "two")
				out, err := th.Run(ctx, orderFor("18"))
				mustWaitFor(t, out, err, 1)
				open := o.requests(t, approval.Requested)
				same(t, "asked again", len(open), 1)
				// Neither the yes that was given, nor what it said, nor a resume without one moves anything.
				before := o.kept(t, target)
				used, digest := (*approval.DecidedError)(nil), (*approval.DigestError)(nil)
				if _, err := o.approvals.Approve(actor("another"), yes.ID, approval.Decision{Digest: open[0].Call}); !errors.As(err, &used) {
					t.Errorf("the yes for 17 once more: %v", err)
				}
				if _, err := o.approvals.Approve(actor("cfo"), open[0].ID, approval.Decision{Digest: yes.Call}); !errors.As(err, &digest) {
					t.Errorf("the yes for 17 given to 18: %v", err)
				}
				out, err = th.Resume(ctx)
				mustWaitFor(t, out, err, 1)
				same(t, "operations, requests and target", o.kept(t, target), before)
				saw(t, target, 1, 0, 1)

				two := o.paid(t, th, "18")
				saw(t, target, 2, 0, 2)
				same(t, "distinct receipts", distinct([]string{one, two}), 2)
				same(t, "distinct keys", distinct(target.Keys()), 2)
				same(t, "asked", len(o.requests(t)), 2)
				same(t, "consumed", len(o.requests(t, approval.Consumed)), 2)
				for _, op := range o.operations(t) {
					same(t, "operation "+op.Ref.String(), op.State, effect.StateCommitted)
				}
				settled(t, statusOf(t, th))
			})
		})
	}
}
