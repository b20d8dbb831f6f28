package effect_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/approval"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/effect"
	"github.com/pawl-dev/pawl/pawltest"
	"github.com/pawl-dev/pawl/storage/fault"
)

// The same reference with another parameter is refused, wherever the operation stands, and only the trail grows.
func TestChangedParametersAreRefused(t *testing.T) {
	t.Parallel()
	changed := map[string]transfer{
		"to":       {To: "acme2", Amount: "100.00", Currency: "EUR"},
		"amount":   {To: "acme", Amount: "120.00", Currency: "EUR"},
		"currency": {To: "acme", Amount: "100.00", Currency: "USD"},
		"note":     {To: "acme", Amount: "100.00", Currency: "EUR", Note: "thanks"},
	}
	stands := map[effect.State]func(t *testing.T, p *process, target *pawltest.Target, e money){
		effect.StateCommitted: func(t *testing.T, p *process, _ *pawltest.Target, e money) {
			p.paid(p.thread(e, "first"), hundred)
		},
		effect.StateQuarantined: func(t *testing.T, p *process, target *pawltest.Target, e money) {
			target.DropAt(pawltest.TargetCommitted, 1)
			th := p.thread(e, "first")
			out, err := th.Run(t.Context(), order(hundred))
			if err != nil || p.yes(out) != 1 {
				t.Fatal(out, err)
			}
			if out, err = th.Resume(t.Context()); err != nil || out.Waiting[0].Kind != "doubt" {
				t.Fatal(out, err)
			}
		},
		effect.StateReserved: func(t *testing.T, p *process, _ *pawltest.Target, e money) {
			out, err := p.thread(e, "first").Run(t.Context(), order(hundred))
			if err != nil || p.yes(out) != 1 {
				t.Fatal(out, err)
			}
		},
	}
	for state, reach := range stands {
		t.Run(string(state), func(t *testing.T) {
			t.Parallel()
			target := pawltest.NewTarget(pawltest.TargetOpaque)
			e := approved(bank(target))
			p := start(t, memory(t), fault.Plan{})
			reach(t, p, target, e)
			before, seen := dump(t, p.db, ledgerKinds()...), target.Count()
			for field, o := range changed {
				th := p.thread(e, "second-"+field)
				_, err := th.Run(t.Context(), order(o))
				got := (*effect.ChangedError)(nil)
				if !errors.As(err, &got) || !errors.Is(err, effect.ErrIntentChanged) {
					t.Fatalf("%s: got %v", field, err)
				}
				if got.Path != field && got.Path != "$."+field && got.Path != "."+field || got.State != state || got.Thread != "first" || got.Drift != (field == "note") {
					t.Errorf("%s: refused with %+v", field, got)
				}
				if now := dump(t, p.db, ledgerKinds()...); now != before {
					t.Errorf("%s: the refusal changed\n%s\ninto\n%s", field, before, now)
				}
				if target.Count() != seen {
					t.Errorf("%s: the target saw %s", field, target.Count())
				}
				if got := actions(t, p.db, "second-"+field); !slices.Equal(got, []string{"effect.refused"}) {
					t.Errorf("%s: the trail says %v", field, got)
				}
			}
		})
	}
}

// Another tenant, effect or reference is another operation.
func TestOtherIntentsAreOtherOperations(t *testing.T) {
	t.Parallel()
	target := pawltest.NewTarget(pawltest.TargetKeys)
	e := bank(target)
	p := start(t, memory(t), fault.Plan{})
	for tenant, ref := range map[string]string{"t1": "17", "t2": "17", "t3": "18"} {
		th := p.graph(e).Thread(p.eng.Tenant(tenant), "t")
		in := order(hundred)
		in.Ref.Set(ref)
		if out, err := th.Run(t.Context(), in); err != nil || out.Status != pawl.Done {
			t.Fatal(out, err)
		}
	}
	in := order(hundred)
	in.Ref.Set("18")
	if out, err := p.graph(e).Thread(p.eng.Tenant("t1"), "t18").Run(t.Context(), in); err != nil || out.Status != pawl.Done {
		t.Fatal(out, err)
	}
	wantCount(t, target, 4, 0, 4)
	keys := target.Keys()
	slices.Sort(keys)
	if len(slices.Compact(keys)) != 4 {
		t.Errorf("the keys are %v", target.Keys())
	}
}

// The same task may change its mind while nobody said yes: a new revision is asked about, and the old one is void.
func TestAChangeBeforeTheYesIsAskedAgain(t *testing.T) {
	t.Parallel()
	target := pawltest.NewTarget(pawltest.TargetOpaque)
	e := approved(bank(target))
	p := start(t, memory(t), fault.Plan{})
	amount := "100.00"
	g := graphOf(t, func(ctx context.Context, s *state) error {
		o := hundred
		o.Amount = amount
		if _, err := e.Do(ctx, effect.Ref("invoice", "17"), o); amount != "100.00" || err == nil {
			return err
		}
		amount = "120.00"
		o.Amount = amount
		r, err := e.Do(ctx, effect.Ref("invoice", "17"), o)
		if err == nil {
			s.Receipt.Set(r.ID)
		}
		return err
	}, e)
	th := g.Thread(p.eng, "t")
	out, err := th.Run(t.Context(), order(hundred))
	if err != nil || out.Status != pawl.Waiting {
		t.Fatal(out, err)
	}
	// The second call stood below the open request of the first: nothing new was reserved or asked.
	if ops, rs := p.operations(), p.requests(); len(ops) != 1 || len(rs) != 1 || rs[0].State != approval.Requested {
		t.Fatalf("got %+v and %+v", ops, rs)
	}
	if _, err := th.Fork(t.Context(), pawl.Before("pay"), nil); err != nil {
		t.Fatal(err)
	}
	ops := p.operations()
	if len(ops) != 2 || ops[0].State != effect.StateVoided || ops[1].State != effect.StateReserved || ops[1].Revision != 2 || ops[0].Key == ops[1].Key {
		t.Fatalf("after a fork that left the request: %+v", ops)
	}
}

// Denials are remembered by the exact call: the same one is refused unasked, from wherever; another one is asked about.
func TestANoHolds(t *testing.T) {
	t.Parallel()
	target := pawltest.NewTarget(pawltest.TargetKeys)
	e := approved(bank(target))
	p := start(t, memory(t), fault.Plan{})
	th := p.thread(e, "t")
	out, err := th.Run(t.Context(), order(hundred))
	if err != nil || p.no(out, "not this month") != 1 {
		t.Fatal(out, err)
	}
	denied := func(name string, err error) {
		t.Helper()
		got := (*effect.DeniedError)(nil)
		if !errors.As(err, &got) || got.Reason != "not this month" || got.By != "cfo" || got.Expired || errors.Is(err, pawl.ErrExpired) {
			t.Fatalf("%s: got %v", name, err)
		}
	}
	_, err = th.Resume(t.Context())
	denied("the task that asked", err)
	_, err = th.Resume(t.Context())
	denied("again", err)
	_, err = th.Retry(t.Context())
	denied("a retry", err)
	_, err = p.thread(e, "t2").Run(t.Context(), order(hundred))
	denied("another thread", err)
	if op := p.operation(); op.State != effect.StateDenied {
		t.Errorf("the operation is %s", op.State)
	}
	more := hundred
	more.Amount = "90.00"
	out, err = p.thread(e, "t3").Run(t.Context(), order(more))
	if err != nil || out.Status != pawl.Waiting || p.yes(out) != 1 {
		t.Fatalf("a smaller amount: %+v, %v", out, err)
	}
	_, err = p.thread(e, "t4").Run(t.Context(), order(hundred))
	if !errors.Is(err, effect.ErrIntentChanged) {
		t.Fatalf("the denied call beside a granted one: %v", err)
	}
	if n := len(p.requests()); n != 2 {
		t.Errorf("asked %d times, want 2", n)
	}
	wantCount(t, target, 0, 0, 0)
	rows, err := audit.List(t.Context(), p.db, "", "t2", 0, 0)
	if err != nil || len(rows) != 1 || rows[0].Action != "effect.refused" {
		t.Errorf("the trail of the second thread is %+v, %v", rows, err)
	}
}
