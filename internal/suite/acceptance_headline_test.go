package suite

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/effect"
	"github.com/pawl-dev/pawl/internal/nest"
	"github.com/pawl-dev/pawl/pawltest"
)

// acceptanceHeadline: a transfer whose worker died after the target committed, on every way back to it.
func acceptanceHeadline() []scenario {
	return []scenario{
		{id: "A01", run: stopAfterCommit},
		{id: "A02", run: replayBeforeDispatch},
		{id: "A03", run: forkOfTheFork},
		{id: "A04", run: fourWorkers},
		{id: "A05", run: changedParameter},
		{id: "A06", run: changedWithoutKey},
	}
}

// fourWorkers is S003-4: one resumes, one replays, one forks and one forks what it finds, all at once, over a run whose
// worker was killed after the target had committed; 100 rounds. A thousand rounds in one process are in package effect.
func fourWorkers(t *testing.T, _ *report) {
	at, n := startBank(t), times(t, 50)
	for _, mode := range []pawltest.TargetMode{pawltest.TargetKeys, pawltest.TargetLookup} {
		for round := range n {
			t.Run(fmt.Sprintf("%s %d", mode, round), func(t *testing.T) {
				f := deaths[5].killedAt(t, at, mode)
				first := firmIn(t, f.home)
				th := f.thread(t, first, "t")
				before, point := history(t, th), beforeTransfer(t, th)
				got := make(chan string, 4)
				for i := range 4 {
					o := firmIn(t, f.home)
					th := f.thread(t, o, "t")
					go func() { got <- untilPaid(th, i, point) }()
				}
				receipts := []string{<-got, <-got, <-got, <-got}
				rows := f.bank.books(t).Rows
				if len(rows) != 1 {
					t.Fatalf("target rows %v, want 1", rows)
				}
				for _, r := range receipts {
					same(t, "receipt", r, rows[0].ID)
				}
				same(t, "operation", first.operation(t).State, effect.StateCommitted)
				same(t, "asked", len(first.requests(t)), 1)
				grew(t, before, history(t, th))
				settled(t, statusOf(t, th))
			})
		}
	}
}

// untilPaid does one of the verbs until it has a receipt. It is patient with what is busy, and with nothing else.
func untilPaid(th *nest.Thread[payment], verb int, at pawl.Point) string {
	ctx := context.Background()
	for {
		var out *pawl.OutcomeOf[payment]
		var err error
		switch verb {
		case 0:
			out, err = th.Resume(ctx)
		case 1:
			out, err = th.Replay(ctx, at)
		default:
			out, err = th.Fork(ctx, at, nil)
		}
		switch {
		case err == nil && out.Status == pawl.Done:
			return out.State.Receipt.Get()
		case err == nil:
			return "ended " + string(out.Status)
		case !errors.Is(err, pawl.ErrBusy):
			return fmt.Sprintf("%v (%T)", err, err)
		}
		<-time.After(time.Millisecond)
	}
}

// changes are calls that another one must not pass for.
var changes = []struct {
	what string
	call transfer
}{
	{"amount", transfer{To: "acme", Amount: "120.00", Currency: "EUR"}},
	{"recipient", transfer{To: "evil", Amount: "100.00", Currency: "EUR"}},
	{"currency", transfer{To: "acme", Amount: "100.00", Currency: "USD"}},
}

// changedParameter is A5: the reference, and the key that the target knows, with another parameter.
func changedParameter(t *testing.T, r *report) {
	changedWithoutKey(t, r)
	t.Run("the key itself, sent to the target", func(t *testing.T) {
		ctx, target := context.Background(), pawltest.NewTarget(pawltest.TargetKeys)
		o := firmIn(t, moneyHome(t, ""))
		o.paid(t, atDepth(t, payGraph(approvedWire(target))).Thread(o.eng, "t"), "17")
		for _, c := range changes {
			_, err := target.Send(ctx, o.operation(t).Key, "invoice:17", []byte(compact(c.call)))
			if !errors.Is(err, pawltest.ErrTargetKeyReused) {
				t.Errorf("%s: %v", c.what, err)
			}
			same(t, "rows", target.Count().Rows, 1)
		}
	})
	t.Run("what is another's", func(t *testing.T) {
		onEachMoney(t, func(t *testing.T, h *home) {
			// Another tenant, and another effect, with the same reference and the same call: an operation of its own.
			target := pawltest.NewTarget(pawltest.TargetKeys)
			o := firmIn(t, h)
			o.paid(t, atDepth(t, payGraph(approvedWire(target))).Thread(o.eng, "t"), "17")
			first := o.operation(t)

			stranger := firmIn(t, h).of("t2")
			same(t, "operations of another tenant", len(stranger.operations(t)), 0)
			stranger.paid(t, atDepth(t, payGraph(approvedWire(target))).Thread(stranger.eng, "t"), "17")
			same(t, "asked of the other tenant", len(stranger.requests(t)), 1)
			if stranger.operation(t).Key == first.Key {
				t.Error("two tenants share a key")
			}

			other := wireAs("bank.refund", target)
			th := atDepth(t, pawl.New[payment]("other").Node("transfer", pays(other), pawl.Uses(other)).Path(pawl.Start, "transfer"))
			o.paid(t, th.Thread(o.eng, "other"), "17")
			keys := []string{first.Key, stranger.operation(t).Key}
			for _, op := range o.operations(t) {
				if op.Effect == "bank.refund" {
					keys = append(keys, op.Key)
				}
			}
			same(t, "distinct keys", distinct(keys), 3)
			saw(t, target, 3, 0, 3)
		})
	})
}

// changedWithoutKey is A6, and S003-5 without the gateway: nobody names a key, and the reference tells.
func changedWithoutKey(t *testing.T, _ *report) {
	for _, mode := range allTargets {
		t.Run(string(mode), func(t *testing.T) {
			onEachMoney(t, func(t *testing.T, h *home) {
				ctx, target := context.Background(), pawltest.NewTarget(mode)
				o := firmIn(t, h)
				g := atDepth(t, payGraph(approvedWire(target)))
				o.paid(t, g.Thread(o.eng, "t"), "17")
				for _, stand := range []effect.State{effect.StateCommitted, effect.StateReserved} {
					invoice, requests := "17", 1
					if stand == effect.StateReserved { // somebody else's, and approved
						invoice = "18"
						out, err := g.Thread(o.eng, "u").Run(ctx, orderFor(invoice))
						mustWaitFor(t, out, err, 1)
						o.yes(t)
					}
					for _, c := range changes {
						id := fmt.Sprint(stand, " ", c.what)
						before := o.kept(t, target)
						_, err := g.Thread(o.eng, id).Run(ctx, &payment{Order: pawl.Of(c.call), Invoice: pawl.Of(invoice)})
						refusal := (*effect.ChangedError)(nil)
						if !errors.As(err, &refusal) || !errors.Is(err, effect.ErrIntentChanged) || refusal.State != stand {
							t.Fatalf("%s: %v", id, err)
						}
						same(t, "operations, requests and target", o.kept(t, target), before)
						saw(t, target, requests, 0, requests)
						same(t, "refusals in the trail of "+id, o.refusals(t, id), 1)
					}
				}
			})
		})
	}
}

// refusals counts the lines about refused effects in a thread's trail.
func (o *firm) refusals(t testing.TB, thread string) (n int) {
	t.Helper()
	rows, err := audit.List(context.Background(), o.db, "t1", thread, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		if r.Action == "effect.refused" {
			n++
		}
	}
	return n
}
