package suite

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/approval"
	"github.com/pawl-dev/pawl/effect"
	"github.com/pawl-dev/pawl/pawltest"
)

// acceptanceCalls: what was approved is what runs, also when people change it, and what limits distinct calls.
func acceptanceCalls() []scenario {
	return []scenario{
		{id: "A09", run: allExplained},
		{id: "A43", run: anotherCall, flat: startsOver},
		{id: "A48", run: badEdits},
		{id: "A49", run: edited},
		{id: "A72", run: fortyCalls},
	}
}

// allExplained is A9: after the headline scenarios each request of the target has one operation, each row one receipt,
// each grant that was spent one dispatch.
func allExplained(t *testing.T, _ *report) {
	at := startBank(t)
	for _, mode := range allTargets {
		t.Run(string(mode), func(t *testing.T) {
			f := deaths[5].die(t, at, mode)
			o := firmIn(t, f.home)
			if mode == pawltest.TargetOpaque {
				id := f.bank.books(t).Rows[0].ID
				if _, err := o.effects.Release(actor("ops"), o.operation(t).Key, effect.Applied(receipt{id}), "in the bank's books"); err != nil {
					t.Fatal(err)
				}
			}
			g := atDepth(t, payGraph(approvedWire(f.bank)))
			th := g.Thread(o.eng, "t")
			same(t, "end", o.toEnd(t, th, "17"), "done")
			for range 2 {
				out, err := th.Fork(context.Background(), beforeTransfer(t, th), nil)
				mustBeDone(t, out, err)
			}
			o.paid(t, g.Thread(o.eng, "again"), "17")
			if _, err := g.Thread(o.eng, "changed").Run(context.Background(), &payment{Order: pawl.Of(changes[0].call), Invoice: pawl.Of("17")}); err == nil {
				t.Error("another amount was not refused")
			}
			r := o.reconciled(t, f.bank.books(t).Rows)
			same(t, "unexplained", r.Unexplained, 0)
			same(t, "findings", len(r.Findings), 0)
			same(t, "consumed", len(o.requests(t, approval.Consumed)), 1)
		})
	}
}

// anotherCall is A43: a yes for A does not run A′, whichever part of the call differs.
func anotherCall(t *testing.T, r *report) {
	t.Run("an argument", func(t *testing.T) { changedWithoutKey(t, r) })
	t.Run("the version of the graph", func(t *testing.T) { changedWhilePending(t, r) })
	t.Run("another tenant, and another operation", func(t *testing.T) {
		onEachMoney(t, func(t *testing.T, h *home) {
			ctx, target := context.Background(), pawltest.NewTarget(pawltest.TargetOpaque)
			o := firmIn(t, h)
			g := atDepth(t, payGraph(approvedWire(target)))
			out, err := g.Thread(o.eng, "t").Run(ctx, orderFor("17"))
			mustWaitFor(t, out, err, 1)
			out, err = g.Thread(o.eng, "u").Run(ctx, orderFor("18"))
			mustWaitFor(t, out, err, 1)
			o.yes(t)
			before := o.kept(t, target)
			grants := o.requests(t, approval.Granted)
			var refused *approval.GrantError
			if err := o.present(grants[0], grants[0].Call, grants[1].Operation); !errors.As(err, &refused) {
				t.Errorf("for another operation: %v", err)
			}
			if err := o.present(grants[0], grants[1].Call, grants[0].Operation); !errors.As(err, &refused) {
				t.Errorf("for another call: %v", err)
			}
			if err := update(o.db, func(tx tx) error {
				return approval.Consume(tx, "t2", grants[0].ID, grants[0].Call, grants[0].Operation)
			}); !errors.Is(err, pawl.ErrNotFound) {
				t.Errorf("for another tenant: %v", err)
			}
			same(t, "operations, requests and target", o.kept(t, target), before)
		})
	})
	t.Run("the revision of the policy", func(t *testing.T) {
		onEachMoney(t, func(t *testing.T, h *home) {
			target, e := pawltest.NewTarget(pawltest.TargetOpaque), wiring{}
			e = approvedWire(target)
			o := firmIn(t, h)
			out, err := atDepth(t, payGraph(e)).Thread(o.eng, "t").Run(context.Background(), orderFor("17"))
			mustWaitFor(t, out, err, 1)
			o.yes(t)
			tighter := firmIn(t, h, "policy-2")
			out, err = atDepth(t, payGraph(e)).Thread(tighter.eng, "t").Resume(context.Background())
			mustWaitFor(t, out, err, 1)
			saw(t, target, 0, 0, 0)
			again := tighter.requests(t, approval.Requested)
			if len(again) != 1 || !strings.Contains(again[0].Why, "policy-2") {
				t.Errorf("asked again as %+v", again)
			}
			same(t, "superseded", len(tighter.requests(t, approval.Superseded)), 1)
		})
	})
}

// change puts a value at a place of the call.
func change(path, value string) []approval.Change {
	return []approval.Change{{Path: path, New: json.RawMessage(value)}}
}

// ruled is an approved transfer of at most 500.00.
func ruled(b bank) wiring {
	return approvedWire(b).Check(func(in transfer) error {
		if len(in.Amount) > len("500.00") {
			return errors.New("more than 999.99 is not transferred by this road")
		}
		return nil
	})
}

// badEdits is A48: the request stays open, the sender learns what is wrong, the next good change is taken once.
func badEdits(t *testing.T, _ *report) {
	onEachMoney(t, func(t *testing.T, h *home) {
		target, o := pawltest.NewTarget(pawltest.TargetOpaque), firmIn(t, h)
		th := atDepth(t, payGraph(ruled(target))).Thread(o.eng, "t")
		out, err := th.Run(context.Background(), orderFor("17"))
		mustWaitFor(t, out, err, 1)
		r := o.requests(t)[0]
		for what, c := range map[string][]approval.Change{
			"another type": change("/amount", `12`), "an unknown field": change("/colour", `"red"`), "a rule of the business": change("/amount", `"100000.00"`),
		} {
			_, err := o.effects.Edit(actor("ann"), r.ID, effect.Edit{Digest: r.Call, Changes: c, Reason: "so I want it"})
			if bad := (*effect.EditError)(nil); !errors.As(err, &bad) {
				t.Errorf("%s: %v", what, err)
			}
			same(t, "the request after "+what, o.requests(t)[0].State, approval.Requested)
		}
		good := effect.Edit{Digest: r.Call, Changes: change("/amount", `"90.00"`), Reason: "as agreed"}
		if _, err := o.effects.Edit(actor("ann"), r.ID, good); err != nil {
			t.Fatal(err)
		}
		if _, err := o.effects.Edit(actor("ann"), r.ID, good); err == nil {
			t.Error("the change was taken twice")
		}
		same(t, "asked", len(o.requests(t)), 2)
		saw(t, target, 0, 0, 0)
	})
}

// edited is A49: the old operation is voided and a revision reserved, who changed it does not approve it alone, types
// stay, and the call is made one of no other effect.
func edited(t *testing.T, _ *report) {
	onEachMoney(t, func(t *testing.T, h *home) {
		target, o := pawltest.NewTarget(pawltest.TargetOpaque), firmIn(t, h)
		th := atDepth(t, payGraph(approvedWire(target))).Thread(o.eng, "t")
		out, err := th.Run(context.Background(), orderFor("17"))
		mustWaitFor(t, out, err, 1)
		r := o.requests(t)[0]
		wrong := effect.Edit{Digest: r.Call, Effect: "bank.refund", Changes: change("/amount", `"90.00"`), Reason: "another tool"}
		if _, err := o.effects.Edit(actor("ann"), r.ID, wrong); err == nil {
			t.Error("the call was made one of another effect")
		}
		next, err := o.effects.Edit(actor("ann"), r.ID, effect.Edit{Digest: r.Call, Changes: change("/amount", `"90.00"`), Reason: "as agreed"})
		if err != nil {
			t.Fatal(err)
		}
		same(t, "the difference", compact(next.Diff), `[{"path":"/amount","old":"100.00","new":"90.00"}]`)
		var forbidden *approval.ForbiddenError
		if _, err := o.approvals.Approve(actor("ann"), next.ID, approval.Decision{Digest: next.Call}); !errors.As(err, &forbidden) {
			t.Errorf("who changed it approves it: %v", err)
		}
		if _, err := o.approvals.Approve(actor("cfo"), next.ID, approval.Decision{Digest: next.Call}); err != nil {
			t.Fatal(err)
		}
		out, err = th.Resume(context.Background())
		mustBeDone(t, out, err)
		same(t, "what the target got", target.Rows()[0].Body, compact(transfer{"acme", "90.00", "EUR"}))
		states := map[effect.State]int{}
		for _, op := range o.operations(t) {
			states[op.State]++
		}
		same(t, "operations", states, map[effect.State]int{effect.StateVoided: 1, effect.StateCommitted: 1})
		saw(t, target, 1, 0, 1)
	})
}

// fortyCalls is A72: each of forty calls is a distinct one, and the cap stops them.
func fortyCalls(t *testing.T, _ *report) {
	onEachMoney(t, func(t *testing.T, h *home) {
		target, o := pawltest.NewTarget(pawltest.TargetKeys), firmIn(t, h)
		capped := wire(target).Limit(effect.Limit[transfer]{
			Name: "euros a day", Amount: func(transfer) (int64, error) { return 100, nil }, Max: 1000, Per: 24 * time.Hour,
		})
		g := atDepth(t, payGraph(capped))
		paid, held := 0, 0
		for i := range 40 {
			out, err := g.Thread(o.eng, string(rune('a'+i))).Run(context.Background(), orderFor(string(rune('a'+i))))
			over := (*effect.LimitError)(nil)
			switch {
			case err == nil && out.Status == pawl.Done:
				paid++
			case errors.As(err, &over):
				held++
				says(t, err.Error(), "euros a day", "1000")
			default:
				t.Fatal(out, err)
			}
		}
		same(t, "paid, held", [2]int{paid, held}, [2]int{10, 30})
		saw(t, target, 10, 0, 10)
	})
}

// notFraudControl is S003-17: with the authority and another reference it runs, and the documents say so.
func notFraudControl(t *testing.T, r *report) {
	t.Run("two references, two rows", func(t *testing.T) { secondPayment(t, r) })
	t.Run("limits are another control", func(t *testing.T) { fortyCalls(t, r) })
	t.Run("the page", func(t *testing.T) {
		doc, err := os.ReadFile("../../docs/effects.md")
		if err != nil {
			t.Fatal(err)
		}
		says(t, strings.ToLower(string(doc)), "fraud", "second payment", "limit")
	})
}

// nothingUndone is S003-18: a fork that ends elsewhere leaves the transfer where it is, and says so.
func nothingUndone(t *testing.T, r *report) {
	onEachMoney(t, func(t *testing.T, h *home) {
		ctx, target, o := context.Background(), pawltest.NewTarget(pawltest.TargetOpaque), firmIn(t, h)
		e := approvedWire(target)
		g := atDepth(t, pawl.New[payment]("pay").Node("first", noop).Node("transfer", pays(e), pawl.Uses(e)).Node("elsewhere", noop).
			Path(pawl.Start, "first").Route("first", func(s *payment) []pawl.Next {
			if s.Invoice.Get() == "none" {
				return pawl.To("elsewhere")
			}
			return pawl.To("transfer")
		}, "transfer", "elsewhere"))
		th := g.Thread(o.eng, "t")
		o.paid(t, th, "17")
		p, err := th.PreviewFork(ctx, pawl.Before("first"))
		if err != nil {
			t.Fatal(err)
		}
		notes := ""
		for _, n := range p.Notes {
			notes += n.Text + "\n"
		}
		says(t, notes, "effects already done 1")
		out, err := th.Fork(ctx, pawl.Before("first"), func(s *payment) error { s.Invoice.Set("none"); return nil })
		mustBeDone(t, out, err)
		same(t, "operation", o.operation(t).State, effect.StateCommitted)
		saw(t, target, 1, 0, 1)
	})
	t.Run("a compensation", func(t *testing.T) { compensatedOnce(t, r) })
}
