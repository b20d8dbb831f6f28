package effect_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/effect"
	"github.com/pawl-dev/pawl/pawltest"
	"github.com/pawl-dev/pawl/storage/fault"
)

// A redo is a second operation: its own key and yes, run once by the next Do, and linked to the first.
func TestRedo(t *testing.T) {
	t.Parallel()
	target := pawltest.NewTarget(pawltest.TargetOpaque)
	e := approved(bank(target))
	p := start(t, memory(t), fault.Plan{})
	th := p.thread(e, "t")
	first, _ := p.paid(th, hundred)
	one := p.operation()
	two, err := p.desk.Redo(person(t.Context(), "ops"), one.Key, "the bank lost it")
	if err != nil || two.Revision != 2 || two.Key == one.Key || two.Redoes != one.Key || two.State != effect.StateReserved {
		t.Fatalf("got %+v, %v", two, err)
	}
	refused := (*effect.RedoError)(nil)
	if _, err := p.desk.Redo(person(t.Context(), "ops"), one.Key, "again"); !errors.As(err, &refused) {
		t.Errorf("redone twice before it ran: %v", err)
	}
	wantCount(t, target, 1, 0, 1)
	more := hundred
	more.Amount = "120.00"
	changed := (*effect.ChangedError)(nil)
	if _, err := p.thread(e, "t2").Run(t.Context(), order(more)); !errors.As(err, &changed) {
		t.Errorf("another amount: %v", err)
	}
	out, err := th.Replay(t.Context(), pawl.Before("pay"))
	if err != nil || out.Status != pawl.Waiting || p.yes(out) != 1 {
		t.Fatalf("the replay: %+v, %v", out, err)
	}
	if out, err = th.Resume(t.Context()); err != nil || out.Status != pawl.Done || out.State.Receipt.Get() == first.State.Receipt.Get() {
		t.Fatalf("the second time: %+v, %v", out, err)
	}
	for range 2 {
		if again, err := th.Replay(t.Context(), pawl.Before("pay")); err != nil || again.State.Receipt.Get() != out.State.Receipt.Get() {
			t.Errorf("replayed: %+v, %v", again, err)
		}
	}
	wantCount(t, target, 2, 0, 2)
	if got := actions(t, p.db, "t"); !slices.Contains(got, "effect.redo") || !slices.Contains(got, "effect.redone") {
		t.Errorf("the trail is %v", got)
	}
}

// A redo that does not come about leaves the first operation as it was, and sends nothing later either.
func TestARedoThatIsGivenUp(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(p *process, th *pawl.ThreadOf[state], out *pawl.OutcomeOf[state]) error{
		"cancelled": func(_ *process, th *pawl.ThreadOf[state], _ *pawl.OutcomeOf[state]) error {
			return th.Cancel(t.Context(), "no")
		},
		"denied": func(p *process, th *pawl.ThreadOf[state], out *pawl.OutcomeOf[state]) error {
			p.no(out, "once is enough")
			_, err := th.Resume(t.Context())
			if denied := (*effect.DeniedError)(nil); !errors.As(err, &denied) {
				t.Errorf("got %v", err)
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			target := pawltest.NewTarget(pawltest.TargetOpaque)
			e := approved(bank(target))
			p := start(t, memory(t), fault.Plan{})
			first, _ := p.paid(p.thread(e, "t"), hundred)
			if _, err := p.desk.Redo(person(t.Context(), "ops"), p.operation().Key, "again"); err != nil {
				t.Fatal(err)
			}
			th := p.thread(e, "t2")
			out, err := th.Run(t.Context(), order(hundred))
			if err != nil || out.Status != pawl.Waiting {
				t.Fatal(out, err)
			}
			if err := end(p, th, out); err != nil {
				t.Fatal(err)
			}
			if out, asked := p.paid(p.thread(e, "t3"), hundred); asked != 0 || out.State.Receipt.Get() != first.State.Receipt.Get() {
				t.Errorf("afterwards: asked %d times, %+v", asked, out.State)
			}
			wantCount(t, target, 1, 0, 1)
		})
	}
}

// What did not happen is not redone, and a redo needs its own permission, a person and a reason.
func TestRefusedRedos(t *testing.T) {
	t.Parallel()
	p, _, _ := doubtful(t, memory(t))
	key := p.operation().Key
	refused := (*effect.RedoError)(nil)
	before := dump(t, p.db, append(ledgerKinds(), "audit")...)
	ops := person(t.Context(), "ops")
	if _, err := p.desk.Redo(ops, key, "again"); !errors.As(err, &refused) || refused.State != effect.StateQuarantined {
		t.Errorf("in quarantine: %v", err)
	}
	if _, err := p.desk.Redo(t.Context(), key, "again"); !errors.Is(err, pawl.ErrDenied) {
		t.Errorf("by nobody: %v", err)
	}
	if _, err := p.desk.Redo(ops, key, ""); err == nil {
		t.Error("without a reason it was redone")
	}
	if _, err := p.desk.Redo(ops, strings.Repeat("0", 64), "again"); !errors.Is(err, pawl.ErrNotFound) {
		t.Errorf("unknown: %v", err)
	}
	if dump(t, p.db, append(ledgerKinds(), "audit")...) != before {
		t.Error("a refused redo changed something")
	}
	if _, err := p.desk.Release(ops, key, effect.Abandon(), "lost"); err != nil {
		t.Fatal(err)
	}
	if op, err := p.desk.Redo(ops, key, "on purpose"); err != nil || op.State != effect.StateReserved {
		t.Errorf("what was abandoned: %+v, %v", op, err)
	}
}

// A compensation of what was redone since is not taken for one of the second time; redone, it compensates that.
func TestRedoAndCompensation(t *testing.T) {
	t.Parallel()
	target, back := pawltest.NewTarget(pawltest.TargetOpaque), pawltest.NewTarget(pawltest.TargetOpaque)
	pay := bank(target)
	refund := refundOf(pay, back)
	p := start(t, memory(t), fault.Plan{})
	th := p.thread(pay, "t")
	p.paid(th, hundred)
	g := refunds(t, refund)
	p.paid(g.Thread(p.eng, "r"), hundred)
	ops := person(t.Context(), "ops")
	refused := (*effect.RedoError)(nil)
	if _, err := p.desk.Redo(ops, p.byEffect("bank.refund").Key, "twice"); !errors.As(err, &refused) {
		t.Errorf("a refund of what is refunded: %v", err)
	}
	if _, err := p.desk.Redo(ops, p.byEffect("bank.transfer").Key, "pay after all"); err != nil {
		t.Fatal(err)
	}
	if out, err := th.Replay(t.Context(), pawl.Before("pay")); err != nil || out.Status != pawl.Done {
		t.Fatal(out, err)
	}
	other := (*effect.CompensationError)(nil)
	if _, err := g.Thread(p.eng, "r2").Run(t.Context(), order(hundred)); !errors.As(err, &other) {
		t.Errorf("the old refund for the new transfer: %v", err)
	}
	if _, err := p.desk.Redo(ops, p.byEffect("bank.refund").Key, "pay that back, too"); err != nil {
		t.Fatal(err)
	}
	if _, asked := p.paid(g.Thread(p.eng, "r3"), hundred); asked != 1 {
		t.Errorf("asked %d times", asked)
	}
	wantCount(t, target, 2, 0, 2)
	wantCount(t, back, 2, 0, 2)
}
