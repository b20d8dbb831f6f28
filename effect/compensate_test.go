package effect_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/approval"
	"github.com/pawl-dev/pawl/effect"
	"github.com/pawl-dev/pawl/pawltest"
	"github.com/pawl-dev/pawl/storage"
	"github.com/pawl-dev/pawl/storage/fault"
)

// refundOf makes the effect that takes back what another one paid. It needs a yes of its own.
func refundOf(of pawl.Usable, target outside) money {
	return effect.New("bank.refund", bankCall(target)).Compensates(of).Approve(approval.Levels{{To: "finance"}})
}

// bankCall sends to a target, whatever it promises.
func bankCall(target outside) func(context.Context, effect.Op, transfer) (receipt, error) {
	return func(ctx context.Context, op effect.Op, in transfer) (receipt, error) {
		id, err := target.Send(ctx, op.Key, "refund of "+op.Ref.String(), []byte(in.Amount))
		return receipt{id}, err
	}
}

// refunds is a graph with one node that refunds invoice 17.
func refunds(t testing.TB, refund money) *pawl.Graph[state] {
	t.Helper()
	g, err := pawl.New[state](refund.UseName()).Node("refund", func(ctx context.Context, s *state) error {
		r, err := refund.Compensate(ctx, effect.Ref("invoice", "17"), s.Order.Get())
		if err == nil {
			s.Receipt.Set(r.ID)
		}
		return err
	}, pawl.Uses(refund)).Edge(pawl.Start, "refund").Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// byEffect is the newest operation of an effect.
func (p *process) byEffect(name string) (out effect.Operation) {
	p.t.Helper()
	for _, op := range p.operations() {
		if op.Effect == name {
			out = op
		}
	}
	return out
}

// A compensation is an operation of its own: its own key and yes, linked both ways, once however often it is asked for;
// and what it compensated still gives its receipt.
func TestACompensation(t *testing.T) {
	t.Parallel()
	target, back := pawltest.NewTarget(pawltest.TargetOpaque), pawltest.NewTarget(pawltest.TargetOpaque)
	pay := bank(target)
	refund := refundOf(pay, back)
	p := start(t, memory(t), fault.Plan{})
	paid, _ := p.paid(p.thread(pay, "t"), hundred)
	g := refunds(t, refund)
	for i := range 3 {
		th := g.Thread(p.eng, fmt.Sprint("r", i))
		out, asked := p.paid(th, hundred)
		if want := 1; i == 0 && asked != want || i > 0 && asked != 0 || out.State.Receipt.Get() != back.Rows()[0].ID {
			t.Errorf("time %d: asked %d times, %+v", i, asked, out.State)
		}
	}
	wantCount(t, back, 1, 0, 1)
	of, by := p.byEffect("bank.transfer"), p.byEffect("bank.refund")
	if of.State != effect.StateCompensated || of.CompensatedBy != by.Key || by.Compensates != of.Key || by.State != effect.StateCommitted || by.Key == of.Key {
		t.Errorf("the two are %+v and %+v", of, by)
	}
	if out, _ := p.paid(p.thread(pay, "t2"), hundred); out.State.Receipt.Get() != paid.State.Receipt.Get() {
		t.Errorf("a compensated transfer gives %+v", out.State)
	}
	wantCount(t, target, 1, 0, 1)
	if got := actions(t, p.db, "r0"); !slices.Contains(got, "effect.compensating") || !slices.Contains(got, "effect.compensated") {
		t.Errorf("the trail is %v", got)
	}
}

// What does not stand is not compensated, and nobody is asked.
func TestNothingToCompensate(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]func(p *process, pay money, target *pawltest.Target){
		"nothing there": func(*process, money, *pawltest.Target) {},
		"unknown": func(p *process, pay money, target *pawltest.Target) {
			target.DropAt(pawltest.TargetCommitted, 1)
			_, _ = p.thread(pay, "t").Run(t.Context(), order(hundred))
		},
		"rejected": func(p *process, _ money, _ *pawltest.Target) {
			var calls counter
			_, _ = graphOf(t, payNode(scripted(&calls, fails(effect.Rejected(errTest)))), scripted(&calls)).Thread(p.eng, "t").Run(t.Context(), order(hundred))
		},
		"compensated by another": func(p *process, pay money, _ *pawltest.Target) {
			p.paid(p.thread(pay, "t"), hundred)
			other := effect.New("bank.chargeback", bankCall(pawltest.NewTarget(pawltest.TargetOpaque))).Compensates(pay)
			p.paid(refunds(t, other).Thread(p.eng, "o"), hundred)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			target, back := pawltest.NewTarget(pawltest.TargetOpaque), pawltest.NewTarget(pawltest.TargetOpaque)
			pay := bank(target)
			p := start(t, memory(t), fault.Plan{})
			first(p, pay, target)
			refund := refundOf(pay, back)
			_, err := refunds(t, refund).Thread(p.eng, "r").Run(t.Context(), order(hundred))
			got := (*effect.CompensationError)(nil)
			if !errors.As(err, &got) || len(p.requests()) != 0 || p.byEffect("bank.refund").Key != "" {
				t.Errorf("got %v, %+v", err, p.requests())
			}
			wantCount(t, back, 0, 0, 0)
		})
	}
	p := start(t, memory(t), fault.Plan{})
	pay := bank(pawltest.NewTarget(pawltest.TargetOpaque))
	th := graphOf(t, func(ctx context.Context, s *state) error {
		_, err := pay.Compensate(ctx, effect.Ref("invoice", "17"), s.Order.Get())
		return err
	}, pay).Thread(p.eng, "t")
	if _, err := th.Run(t.Context(), order(hundred)); err == nil || !strings.Contains(err.Error(), "Compensates") {
		t.Errorf("an effect that compensates nothing: %v", err)
	}
}

// A yes for a compensation does not count once somebody else compensated the same.
func TestTwoCompensationsAtOnce(t *testing.T) {
	t.Parallel()
	pay := bank(pawltest.NewTarget(pawltest.TargetOpaque))
	one, two := pawltest.NewTarget(pawltest.TargetOpaque), pawltest.NewTarget(pawltest.TargetOpaque)
	refund := refundOf(pay, one)
	credit := effect.New("bank.credit", bankCall(two)).Compensates(pay).Approve(approval.Levels{{To: "finance"}})
	p := start(t, memory(t), fault.Plan{})
	p.paid(p.thread(pay, "t"), hundred)
	a, b := refunds(t, refund).Thread(p.eng, "a"), refunds(t, credit).Thread(p.eng, "b")
	for _, th := range []*pawl.ThreadOf[state]{a, b} {
		out, err := th.Run(t.Context(), order(hundred))
		if err != nil || p.yes(out) != 1 {
			t.Fatal(out, err)
		}
	}
	if out, err := a.Resume(t.Context()); err != nil || out.Status != pawl.Done {
		t.Fatal(out, err)
	}
	got := (*effect.CompensationError)(nil)
	if _, err := b.Resume(t.Context()); !errors.As(err, &got) {
		t.Errorf("the second: %v", err)
	}
	wantCount(t, one, 1, 0, 1)
	wantCount(t, two, 0, 0, 0)
}

// What becomes of a compensation shows at what it compensates.
func TestWhatBecomesOfACompensation(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		said error
		say  *effect.Decision
		of   effect.State
		by   effect.State
	}{
		{"it works", nil, nil, effect.StateCompensated, effect.StateCommitted},
		{"not sent", effect.NotSent(errTest), nil, effect.StateCommitted, effect.StateReserved},
		{"rejected", effect.Rejected(errTest), nil, effect.StateCompensationFailed, effect.StateRejected},
		{"unknown", errTest, nil, effect.StateCompensating, effect.StateQuarantined},
		{"unknown, then applied", errTest, decision(effect.Applied(receipt{"tx"})), effect.StateCompensated, effect.StateCommitted},
		{"unknown, then not applied", errTest, decision(effect.NotApplied()), effect.StateCommitted, effect.StateReserved},
		{"unknown, then abandoned", errTest, decision(effect.Abandon()), effect.StateCompensationFailed, effect.StateVoided},
		{"unknown, then to be sent", errTest, decision(effect.SendOnce()), effect.StateCompensating, effect.StateReleased},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			pay := bank(pawltest.NewTarget(pawltest.TargetOpaque))
			refund := effect.New("bank.refund", func(context.Context, effect.Op, transfer) (receipt, error) {
				return receipt{"back"}, c.said
			}).Compensates(pay)
			p := start(t, memory(t), fault.Plan{})
			p.paid(p.thread(pay, "t"), hundred)
			_, _ = refunds(t, refund).Thread(p.eng, "r").Run(t.Context(), order(hundred))
			if c.say != nil {
				if _, err := p.desk.Release(person(t.Context(), "ops"), p.byEffect("bank.refund").Key, *c.say, "looked"); err != nil {
					t.Fatal(err)
				}
			}
			if of, by := p.byEffect("bank.transfer").State, p.byEffect("bank.refund").State; of != c.of || by != c.by {
				t.Errorf("the transfer is %s and the refund %s", of, by)
			}
		})
	}
}

func decision(d effect.Decision) *effect.Decision { return &d }

// A death at each durable write of a compensation, and inside its target: one refund, whatever happens.
func TestADeathInACompensation(t *testing.T) {
	t.Parallel()
	for n := 0; ; n++ {
		home := memory(t)
		target, back := pawltest.NewTarget(pawltest.TargetOpaque), pawltest.NewTarget(pawltest.TargetKeys)
		pay := bank(target)
		refund := refundOf(pay, back).Keys(effect.Forever)
		p := start(t, home, fault.Plan{})
		p.paid(p.thread(pay, "t"), hundred)
		dying := start(t, home, fault.Plan{At: fault.At(n, fault.Stop())})
		end := refunded(t, dying, refund)
		if end == "done" {
			break
		}
		if end = refunded(t, start(t, home, fault.Plan{}), refund); end != "done" {
			t.Fatalf("point %d: it ends %s", n, end)
		}
		of := p.byEffect("bank.transfer")
		if of.State != effect.StateCompensated || back.Count().Rows != 1 || len(slices.Compact(back.Keys())) != 1 {
			t.Errorf("point %d: the transfer is %s, the target saw %s", n, of.State, back.Count())
		}
	}
}

// refunded goes on with the refund until it is done or the process is dead.
func refunded(t *testing.T, p *process, refund money) string {
	t.Helper()
	th := refunds(t, refund).Thread(p.eng, "r")
	out, err := th.Run(t.Context(), order(hundred), pawl.RunID("r"))
	for range 10 {
		switch {
		case storedDead(err):
			return err.Error()
		case err == nil && out.Status == pawl.Done:
			return "done"
		case err == nil && out.Status == pawl.Waiting:
			for _, r := range p.requests() {
				if r.State == approval.Requested {
					if _, err := approval.NewDesk(p.eng, p.db).Approve(person(t.Context(), "cfo"), r.ID, approval.Decision{Digest: r.Call}); err != nil {
						return err.Error()
					}
				}
			}
		}
		out, err = th.Resume(t.Context())
	}
	return fmt.Sprint("does not end: ", err)
}

func storedDead(err error) bool {
	return errors.Is(err, fault.ErrStopped) || errors.Is(err, storage.ErrClosed)
}
