package effect_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/approval"
	"github.com/pawl-dev/pawl/effect"
	"github.com/pawl-dev/pawl/pawltest"
	"github.com/pawl-dev/pawl/storage/fault"
)

// What was only reserved is given up with its request; a thread that still wants it asks anew.
func TestVoid(t *testing.T) {
	t.Parallel()
	target := pawltest.NewTarget(pawltest.TargetOpaque)
	e := approved(bank(target))
	p := start(t, memory(t), fault.Plan{})
	th := p.thread(e, "t")
	if out, err := th.Run(t.Context(), order(hundred)); err != nil || out.Status != pawl.Waiting {
		t.Fatal(out, err)
	}
	op := p.operation()
	if _, err := p.desk.Void(person(t.Context(), "ops"), op.Key, " "); err == nil {
		t.Error("given up without a reason")
	}
	if _, err := p.desk.Void(pawl.WithActor(t.Context(), pawl.Actor{ID: "bot", Kind: "service"}), op.Key, "why"); !errors.Is(err, pawl.ErrDenied) {
		t.Errorf("by a service: %v", err)
	}
	if _, err := p.desk.Void(person(t.Context(), "ops"), "0123456789", "why"); !errors.Is(err, pawl.ErrNotFound) {
		t.Errorf("an unknown one: %v", err)
	}
	got, err := p.desk.Void(person(t.Context(), "ops"), op.Key, "asked by mistake")
	if err != nil || got.State != effect.StateVoided || got.Doubt {
		t.Fatalf("got %+v, %v", got, err)
	}
	if r := p.requests()[0]; r.State != approval.Withdrawn {
		t.Errorf("its request is %+v", r)
	}
	law := (*effect.LawError)(nil)
	if _, err := p.desk.Void(person(t.Context(), "ops"), op.Key, "again"); !errors.As(err, &law) {
		t.Errorf("given up twice: %v", err)
	}
	if got := actions(t, p.db, "t"); !slices.Contains(got, "effect.voided") {
		t.Errorf("the trail is %v", got)
	}
	out, err := th.Resume(t.Context())
	if err != nil || out.Status != pawl.Waiting || p.yes(out) != 1 {
		t.Fatalf("resumed: %+v, %v", out, err)
	}
	if out, err = th.Resume(t.Context()); err != nil || out.Status != pawl.Done {
		t.Fatalf("resumed: %+v, %v", out, err)
	}
	wantCount(t, target, 1, 0, 1)
	for _, op := range p.operations() {
		if _, err := p.desk.Void(person(t.Context(), "ops"), op.Key, "why"); !errors.As(err, &law) {
			t.Errorf("%s: %v", op.State, err)
		}
	}
}

// A second time that is given up is not made, and the first stands.
func TestVoidOfARedo(t *testing.T) {
	t.Parallel()
	target := pawltest.NewTarget(pawltest.TargetOpaque)
	e := bank(target)
	p := start(t, memory(t), fault.Plan{})
	first, _ := p.paid(p.thread(e, "t"), hundred)
	again, err := p.desk.Redo(person(t.Context(), "ops"), p.operation().Key, "the bank lost it")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.desk.Void(person(t.Context(), "ops"), again.Key, "it is found"); err != nil {
		t.Fatal(err)
	}
	if out, _ := p.paid(p.thread(e, "t2"), hundred); out.State.Receipt.Get() != first.State.Receipt.Get() {
		t.Errorf("afterwards: %+v", out.State)
	}
	wantCount(t, target, 1, 0, 1)
}
