package effect_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/effect"
	"github.com/pawl-dev/pawl/pawltest"
	"github.com/pawl-dev/pawl/storage"
	"github.com/pawl-dev/pawl/storage/fault"
)

// doubtful leaves an operation in doubt whose thread waits.
func doubtful(t *testing.T, home storage.DB) (*process, *pawl.ThreadOf[state], *pawltest.Target) {
	t.Helper()
	target := pawltest.NewTarget(pawltest.TargetOpaque)
	p := start(t, home, fault.Plan{})
	target.DropAt(pawltest.TargetCommitted, 1)
	th := p.thread(bank(target), "t")
	if out, err := th.Run(t.Context(), order(hundred)); err != nil || out.Status != pawl.Waiting {
		t.Fatal(out, err)
	}
	return p, th, target
}

// A word that cannot count is refused, and nothing changes.
func TestRefusalsOfTheDesk(t *testing.T) {
	t.Parallel()
	p, _, _ := doubtful(t, memory(t))
	key := p.operation().Key
	other := p.led.Desk(p.eng.Tenant("other"), p.db)
	before := dump(t, p.db, append(ledgerKinds(), "question", "audit")...)
	ops := person(t.Context(), "ops")
	for _, c := range []struct {
		name   string
		desk   *effect.Desk
		ctx    context.Context
		key    string
		say    effect.Decision
		reason string
		want   string
	}{
		{"nobody", p.desk, t.Context(), key, effect.NotApplied(), "looked", "decided by a person"},
		{"a service", p.desk, pawl.WithActor(t.Context(), pawl.Actor{ID: "bot", Kind: "service"}), key, effect.NotApplied(), "looked", "decided by a person"},
		{"no reason", p.desk, ops, key, effect.NotApplied(), " ", "how you know"},
		{"a long reason", p.desk, ops, key, effect.NotApplied(), strings.Repeat("x", 5000), "how you know"},
		{"no JSON", p.desk, ops, key, effect.Applied(func() {}), "looked", "no JSON"},
		{"no receipt of this effect", p.desk, ops, key, effect.Applied(map[string]int{"id": 7}), "looked", "no receipt of"},
		{"another tenant", other, ops, key, effect.NotApplied(), "looked", "not found"},
		{"unknown", p.desk, ops, strings.Repeat("0", 64), effect.NotApplied(), "looked", "not found"},
		{"too short", p.desk, ops, key[:7], effect.NotApplied(), "looked", "not found"},
	} {
		if _, err := c.desk.Release(c.ctx, c.key, c.say, c.reason); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
		if now := dump(t, p.db, append(ledgerKinds(), "question", "audit")...); now != before {
			t.Errorf("%s: something changed", c.name)
		}
	}
	if list, err := other.List(t.Context(), effect.Filter{}); err != nil || len(list) != 0 {
		t.Errorf("another tenant sees %+v, %v", list, err)
	}
	if _, err := other.Show(t.Context(), key); !errors.Is(err, pawl.ErrNotFound) {
		t.Errorf("another tenant is shown it: %v", err)
	}
}

// Two people at once: one counts, the other is told how it stands.
func TestTwoPeopleAtOnce(t *testing.T) {
	t.Parallel()
	p, th, target := doubtful(t, memory(t))
	key := p.operation().Key
	errs := make([]error, 2)
	var wg sync.WaitGroup
	for i, say := range []effect.Decision{effect.Applied(receipt{"tx-1"}), effect.NotApplied()} {
		wg.Go(func() { _, errs[i] = p.desk.Release(person(t.Context(), fmt.Sprint(i)), key, say, "looked") })
	}
	wg.Wait()
	settled := (*effect.SettledError)(nil)
	if (errs[0] == nil) == (errs[1] == nil) || !errors.As(errors.Join(errs...), &settled) {
		t.Fatalf("got %v", errs)
	}
	s, err := p.desk.Show(t.Context(), key)
	if err != nil || len(s.Evidence) != 1 {
		t.Errorf("the evidence is %+v, %v", s, err)
	}
	if out, err := th.Resume(t.Context()); err != nil || out.Status != pawl.Done {
		t.Fatal(out, err)
	}
	want := 1
	if errs[1] == nil {
		want = 2
	}
	if n := target.Count().Requests; n != want {
		t.Errorf("%d requests, want %d", n, want)
	}
}

// What is on its way in a living process is not settled over its head; what a dead one left is.
func TestTheDeskAndWhatIsOnItsWay(t *testing.T) {
	t.Parallel()
	home := memory(t)
	target := pawltest.NewTarget(pawltest.TargetOpaque)
	inside, goOn := make(chan struct{}), make(chan struct{})
	target.At(func(at pawltest.TargetPoint, _ pawltest.TargetRow) error {
		if at == pawltest.TargetReceived {
			close(inside)
			<-goOn
		}
		return nil
	})
	p, q := start(t, home, fault.Plan{}), start(t, home, fault.Plan{})
	e := bank(target)
	th := p.thread(e, "t")
	over := make(chan error, 1)
	go func() {
		_, err := th.Run(t.Context(), order(hundred))
		over <- err
	}()
	<-inside
	key := q.operation().Key
	for name, desk := range map[string]*effect.Desk{"the same process": p.desk, "another": q.desk} {
		settled := (*effect.SettledError)(nil)
		if _, err := desk.Release(person(t.Context(), "ops"), key, effect.NotApplied(), "looked"); !errors.As(err, &settled) || settled.State != effect.StateDispatched {
			t.Errorf("%s: %v", name, err)
		}
		if u, err := desk.Unknown(t.Context()); err != nil || len(u) != 0 {
			t.Errorf("%s: unknown are %+v, %v", name, u, err)
		}
	}
	busy := (*effect.BusyError)(nil)
	if _, err := q.thread(e, "t2").Run(t.Context(), order(hundred)); !errors.As(err, &busy) || !errors.Is(err, pawl.ErrBusy) || busy.Thread != "t" || busy.Operation != key {
		t.Errorf("another process at once: %v", err)
	}
	p.db.Stop()
	if u, err := q.desk.Unknown(t.Context()); err != nil || len(u) != 1 || u[0].State != effect.StateDispatched {
		t.Errorf("after the death unknown are %+v, %v", u, err)
	}
	if op, err := q.desk.Release(person(t.Context(), "ops"), key, effect.Applied(receipt{"tx-9"}), "the bank has it"); err != nil || op.State != effect.StateCommitted {
		t.Errorf("after the death: %+v, %v", op, err)
	}
	target.At(nil)
	close(goOn)
	if err := <-over; err == nil {
		t.Error("a dead process ended well")
	}
	if op := q.operation(); op.State != effect.StateCommitted {
		t.Errorf("the late answer of a dead process made it %s", op.State)
	}
	out, err := q.thread(e, "t2").Resume(t.Context())
	if err != nil || out.State.Receipt.Get() != "tx-9" {
		t.Errorf("then: %+v, %v", out, err)
	}
	if got := actions(t, home, "t"); !slices.Equal(got, []string{"effect.reserved", "effect.dispatched", "effect.in_doubt", "effect.quarantined", "effect.released", "effect.settled"}) {
		t.Errorf("the trail is %v", got)
	}
}

// Every thread that waits for one doubt goes on when it is settled.
func TestOneWordForAllWhoWait(t *testing.T) {
	t.Parallel()
	p, th, target := doubtful(t, memory(t))
	two := p.thread(bank(target), "t2")
	if out, err := two.Run(t.Context(), order(hundred)); err != nil || out.Status != pawl.Waiting || out.Waiting[0].Kind != "doubt" {
		t.Fatal(out, err)
	}
	if _, err := p.desk.Release(person(t.Context(), "ops"), p.operation().Key, effect.Applied(receipt{"tx"}), "seen"); err != nil {
		t.Fatal(err)
	}
	for _, th := range []*pawl.ThreadOf[state]{th, two} {
		if out, err := th.Resume(t.Context()); err != nil || out.Status != pawl.Done || out.State.Receipt.Get() != "tx" {
			t.Errorf("got %+v, %v", out, err)
		}
	}
	wantCount(t, target, 1, 0, 1)
}

// Filters, and permission before anything is read.
func TestListsOfTheDesk(t *testing.T) {
	t.Parallel()
	p, _, target := doubtful(t, memory(t))
	key := p.operation().Key
	for i := range 3 {
		in := order(hundred)
		in.Ref.Set(fmt.Sprint("done-", i))
		if _, err := p.thread(bank(target), fmt.Sprint("d", i)).Run(t.Context(), in); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		f    effect.Filter
		want int
	}{
		{effect.Filter{}, 4}, {effect.Filter{State: effect.StateQuarantined}, 1}, {effect.Filter{State: effect.StateCommitted}, 3},
		{effect.Filter{State: effect.StateCommitted, Limit: 2}, 2}, {effect.Filter{Limit: 2}, 2}, {effect.Filter{Effect: "other"}, 0},
		{effect.Filter{Effect: "bank.transfer", State: effect.StateCommitted, Limit: 2}, 2}, {effect.Filter{Effect: "bank.transfer"}, 4},
	} {
		if got, err := p.desk.List(t.Context(), c.f); err != nil || len(got) != c.want {
			t.Errorf("%+v: %d operations, want %d, %v", c.f, len(got), c.want, err)
		}
	}
	var asked []pawl.Verb
	eng, err := pawl.NewEngine(p.db, &pawl.Options{Allow: func(_ context.Context, v pawl.VerbInfo) error {
		asked = append(asked, v.Verb)
		return errTest
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer eng.Close()
	d := p.led.Desk(eng, p.db)
	_, err1 := d.List(t.Context(), effect.Filter{})
	_, err2 := d.Show(t.Context(), key)
	_, err3 := d.Release(person(t.Context(), "ops"), key, effect.NotApplied(), "looked")
	for _, err := range []error{err1, err2, err3} {
		if !errors.Is(err, pawl.ErrDenied) {
			t.Errorf("not refused: %v", err)
		}
	}
	if !slices.Equal(asked, []pawl.Verb{pawl.VerbRead, pawl.VerbRead, effect.VerbRelease}) {
		t.Errorf("asked for %v", asked)
	}
}

// A death of the desk's process at every durable write of a settlement: it counted or it did not, and can be said again.
func TestADeskThatDies(t *testing.T) {
	t.Parallel()
	for n := range 2 {
		home := memory(t)
		p, th, target := doubtful(t, home)
		key := p.operation().Key
		dying := start(t, home, fault.Plan{At: fault.At(n, fault.Stop())})
		if _, err := dying.desk.Release(person(t.Context(), "ops"), key, effect.Applied(receipt{"tx"}), "seen"); err == nil {
			t.Fatalf("point %d: a dead process settled", n)
		}
		settled := (*effect.SettledError)(nil)
		_, err := p.desk.Release(person(t.Context(), "ops"), key, effect.Applied(receipt{"tx"}), "seen")
		if n == 0 && err != nil || n == 1 && !errors.As(err, &settled) {
			t.Errorf("point %d: said again: %v", n, err)
		}
		if out, err := th.Resume(t.Context()); err != nil || out.State.Receipt.Get() != "tx" {
			t.Errorf("point %d: %+v, %v", n, out, err)
		}
		wantCount(t, target, 1, 0, 1)
	}
}
