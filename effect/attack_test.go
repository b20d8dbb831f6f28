package effect_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/approval"
	"github.com/pawl-dev/pawl/effect"
	"github.com/pawl-dev/pawl/pawltest"
	"github.com/pawl-dev/pawl/storage"
	"github.com/pawl-dev/pawl/storage/fault"
)

// A desk that does not know the effect's code writes down that a process died. The target's delay counts all the same:
// the next look-up that finds nothing is too early, and nothing is sent again.
func TestAStrangeDeskForgetsNoDelay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		home := memory(t)
		var calls counter
		p := start(t, home, fault.Plan{})
		e := scripted(&calls, func(context.Context) error { p.db.Stop(); return errTest }).Lookup(absent).Settle(time.Hour)
		if _, err := p.thread(e, "t").Run(t.Context(), order(hundred)); err == nil {
			t.Fatal("a dead process ended well")
		}
		bare, err := pawl.NewEngine(home, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer bare.Close()
		strange := start(t, home, fault.Plan{}).led.Desk(bare, home)
		key := p.led.Desk(bare, home)
		ops, err := key.List(t.Context(), effect.Filter{})
		if err != nil || len(ops) != 1 {
			t.Fatal(ops, err)
		}
		for range 2 {
			op, err := strange.Evidence(person(t.Context(), "ops"), ops[0].Key, effect.Found{Note: "not in our books"}, "webhook")
			if err != nil || op.State != effect.StateInDoubt || time.Until(op.Settles) != time.Hour {
				t.Fatalf("evidence at once: %+v, %v", op, err)
			}
		}
		q := start(t, home, fault.Plan{})
		if _, err := q.thread(e, "t").Resume(t.Context()); !errors.As(err, new(*effect.InDoubtError)) || calls.Load() != 1 {
			t.Errorf("at once: %v, %d calls", err, calls.Load())
		}
		<-time.After(time.Hour)
		if out, err := q.thread(e, "t").Resume(t.Context()); err != nil || out.Status != pawl.Done || calls.Load() != 2 {
			t.Errorf("an hour later: %+v, %v, %d calls", out, err, calls.Load())
		}
	})
}

// What the engine's graphs use can be looked up outside a run, also what only a child uses.
func TestReconcileKnowsTheGraphs(t *testing.T) {
	t.Parallel()
	for _, inChild := range []bool{false, true} {
		home := memory(t)
		var calls counter
		p := start(t, home, fault.Plan{})
		e := scripted(&calls, func(context.Context) error { p.db.Stop(); return errTest }).Lookup(found)
		g := graphOf(t, payNode(e), e)
		if inChild {
			sub := pawl.Sub(g.Child("child"), func(s *state) *state { return order(s.Order.Get()) }, func(*state, *pawl.Result[state]) error { return nil })
			outer, err := pawl.New[state]("outer").Add(sub).Path(pawl.Start, "child").Build()
			if err != nil {
				t.Fatal(err)
			}
			g = outer
		}
		if _, err := g.Thread(p.eng, "t").Run(t.Context(), order(hundred)); err == nil {
			t.Fatal("a dead process ended well")
		}
		q := start(t, home, fault.Plan{})
		ops := person(t.Context(), "ops")
		if op, err := q.desk.Reconcile(ops, q.operation().Key, ""); err == nil || !strings.Contains(err.Error(), "in graph") {
			t.Errorf("before the graph is known: %+v, %v", op, err)
		}
		if err := q.eng.Register(g); err != nil {
			t.Fatal(err)
		}
		if op, err := q.desk.Reconcile(ops, q.operation().Key, ""); err != nil || op.State != effect.StateCommitted {
			t.Errorf("in a child %v: %+v, %v", inChild, op, err)
		}
	}
}

// Members with dots, brackets or no name at all hide nothing from the redactor: not from the view, the difference, a
// change at the desk, the trail or an error.
func TestOddNamesHideNothing(t *testing.T) {
	t.Parallel()
	type params struct {
		To     string            `json:"to"`
		Header map[string]string `json:"header"`
	}
	secrets := map[string]string{"api.key": "CANARY-1", "x.password": "CANARY-2", "secret[0]": "CANARY-3", "": "sk_live_4eC39HqLyjWDarjtT1zdp7dc"}
	header := func(suffix string) map[string]string {
		out := map[string]string{"plain": "text" + suffix, "sk_live_9eC39HqLyjWDarjtT1zdp7dc" + suffix: "on"}
		for name, secret := range secrets {
			out[name] = secret + suffix
		}
		return out
	}
	e := effect.New("call", func(context.Context, effect.Op, params) (string, error) { return "ok", nil }).Material("to").
		Approve(approval.Levels{{To: "finance", For: time.Hour}})
	now, broken := params{"acme", header("")}, true
	g, err := pawl.New[state]("odd").Node("call", func(ctx context.Context, _ *state) error {
		_, err := e.Do(ctx, effect.Ref("call", "1"), now)
		if broken {
			return errTest
		}
		return err
	}, pawl.Uses(e)).Edge(pawl.Start, "call").Build()
	if err != nil {
		t.Fatal(err)
	}
	home := memory(t)
	p := start(t, home, fault.Plan{})
	if err := p.eng.Register(g); err != nil {
		t.Fatal(err)
	}
	th := g.Thread(p.eng, "t")
	if _, err := th.Run(t.Context(), &state{}); !errors.Is(err, errTest) {
		t.Fatal(err)
	}
	now, broken = params{"acme", header("x")}, false // the task changes its mind
	if out, err := th.Resume(t.Context()); err != nil || out.Status != pawl.Waiting {
		t.Fatal(out, err)
	}
	r := p.openRequest(t)
	hidden := 0
	for _, c := range r.Diff {
		if c.Hidden {
			hidden++
		}
	}
	if len(r.Diff) != 7 || hidden != 6 {
		t.Errorf("the difference is %+v", r.Diff)
	}
	for name := range secrets {
		path := "/header/" + strings.ReplaceAll(name, "/", "~1")
		_, err := p.desk.Edit(person(t.Context(), "ann"), r.ID, effect.Edit{Digest: r.Call, Changes: []approval.Change{set(path, `"other"`)}})
		if wrong := (*effect.EditError)(nil); !errors.As(err, &wrong) || !strings.Contains(err.Error(), "hidden from whoever approves") {
			t.Errorf("%q was changed unseen: %v", name, err)
		}
	}
	_, err = p.desk.Edit(person(t.Context(), "ann"), r.ID, effect.Edit{Digest: r.Call, Changes: []approval.Change{set("/nosuch/sk_live_8eC39HqLyjWDarjtT1zdp7dc/x", `1`)}})
	if !errors.As(err, new(*effect.EditError)) {
		t.Errorf("a change of nothing: %v", err)
	}
	now.Header["plain"] = "granted, and then changed"
	p.decideAll(t)
	_, err = th.Resume(t.Context())
	if !errors.Is(err, effect.ErrIntentChanged) {
		t.Errorf("changed after the yes: %v", err)
	}
	all := dump(t, home, "audit", "approval", "question", "evidence", "operation_use")
	for _, s := range []string{"CANARY", "4eC39HqLyjWDarjtT1zdp7dc", "9eC39HqLyjWDarjtT1zdp7dc", "8eC39HqLyjWDarjtT1zdp7dc"} {
		if strings.Contains(all, fmt.Sprintf("%x", s)) || strings.Contains(all, s) || strings.Contains(err.Error(), s) {
			t.Errorf("%s is told", s)
		}
	}

	// A field that must be seen and is hidden refuses the request, whatever it is called.
	m := effect.New("material", func(context.Context, effect.Op, map[string]string) (string, error) { return "ok", nil }).Material("api.key").
		Approve(approval.Levels{{To: "finance"}})
	mg, err := pawl.New[state]("material").Node("call", func(ctx context.Context, _ *state) error {
		_, err := m.Do(ctx, effect.Ref("call", "2"), map[string]string{"api.key": "CANARY-4"})
		return err
	}, pawl.Uses(m)).Edge(pawl.Start, "call").Build()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := mg.Thread(p.eng, "m").Run(t.Context(), &state{}); !errors.As(err, new(*effect.HiddenError)) {
		t.Errorf("a material field that nobody sees: %v", err)
	}
}

// A call that is redone can be changed by the rules of the first one.
func TestARedoIsChanged(t *testing.T) {
	t.Parallel()
	s, p := newShop(t), start(t, memory(t), fault.Plan{})
	s.asked(t, p, "t")
	p.decideAll(t)
	th := s.g.Thread(p.eng, "t")
	if out, err := th.Resume(t.Context()); err != nil || out.Status != pawl.Done {
		t.Fatal(out, err)
	}
	if _, err := p.desk.Redo(person(t.Context(), "ops"), p.operation().Key, "it was lost"); err != nil {
		t.Fatal(err)
	}
	if out, err := th.Replay(t.Context(), pawl.Before("buy")); err != nil || out.Status != pawl.Waiting {
		t.Fatal(out, err)
	}
	r := p.openRequest(t)
	change := func(path, doc string) (*approval.Request, error) {
		return p.desk.Edit(person(t.Context(), "ann"), r.ID, effect.Edit{Digest: r.Call, Changes: []approval.Change{set(path, doc)}})
	}
	if _, err := change("/cents", `"many"`); !errors.As(err, new(*effect.EditError)) {
		t.Errorf("a change of the type: %v", err)
	}
	if _, err := change("/cents", "400"); err != nil {
		t.Fatal(err)
	}
	p.decideAll(t)
	if out, err := th.Resume(t.Context()); err != nil || out.Status != pawl.Done || out.State.Ran.Get() != 400 {
		t.Errorf("then: %+v, %v", out, err)
	}
	if len(s.bought) != 2 || s.bought[0].Cents != 500 || s.bought[1].Cents != 400 {
		t.Errorf("bought %+v", s.bought)
	}
}

// Whoever had a part in what a call was changed to does not approve it, also when another one changed it after them.
func TestNoEditorApproves(t *testing.T) {
	t.Parallel()
	s, p := newShop(t), start(t, memory(t), fault.Plan{})
	r := s.asked(t, p, "t")
	for i, who := range []string{"ann", "bob", "ann"} {
		next, err := p.desk.Edit(person(t.Context(), who), r.ID, effect.Edit{Digest: r.Call, Changes: []approval.Change{set("/cents", fmt.Sprint(600+i))}})
		if err != nil {
			t.Fatal(err)
		}
		r = *next
	}
	for _, who := range []string{"ann", "bob"} {
		if _, err := p.desks(t).Approve(person(t.Context(), who), r.ID, approval.Decision{Digest: r.Call}); !errors.As(err, new(*approval.ForbiddenError)) {
			t.Errorf("%s approves what they made: %v", who, err)
		}
	}
	if _, err := p.desks(t).Approve(person(t.Context(), "cfo"), r.ID, approval.Decision{Digest: r.Call}); err != nil || len(r.Editors) != 2 {
		t.Errorf("somebody else: %v; the editors are %v", err, r.Editors)
	}
	if op := p.operations()[3]; op.Editor != "ann" || len(op.Editors) != 2 {
		t.Errorf("the operation is %+v", op)
	}
}

// Desks that nobody made refuse, and do not panic.
func TestZeroDesks(t *testing.T) {
	t.Parallel()
	ctx := person(t.Context(), "ops")
	d, a := &effect.Desk{}, &approval.Desk{}
	rows := func(func(effect.TargetRow, error) bool) {}
	for name, err := range map[string]error{
		"list": second(d.List(ctx, effect.Filter{})), "unknown": second(d.Unknown(ctx)), "show": second(d.Show(ctx, "12345678")),
		"release": second(d.Release(ctx, "12345678", effect.Abandon(), "x")), "evidence": second(d.Evidence(ctx, "12345678", effect.Found{}, "x")),
		"reconcile": second(d.Reconcile(ctx, "12345678", "")), "redo": second(d.Redo(ctx, "12345678", "x")), "void": second(d.Void(ctx, "12345678", "x")), "edit": second(d.Edit(ctx, "x", effect.Edit{})),
		"reconciled": second(d.Reconciled(ctx, "x")), "restored": second(d.Restored(ctx)), "report": second(d.Report(ctx, rows, effect.ReportOptions{})),
		"decide":  d.Decide(ctx, []approval.Choice{{ID: "x", Verb: approval.VerbEdit}})[0].Err,
		"approve": second(a.Approve(ctx, "x", approval.Decision{})), "reject": second(a.Reject(ctx, "x", approval.Decision{})),
		"revoke": second(a.Revoke(ctx, "x", "")), "requests": second(a.List(ctx, approval.Filter{})), "request": second(a.Show(ctx, "x")),
		"an engine that nobody made": second((&effect.Ledger{}).Desk(&pawl.Engine{}, nil).List(ctx, effect.Filter{})),
		"do":                         second(money{}.Do(ctx, effect.Ref("a", "b"), hundred)), "compensate": second(money{}.Compensate(ctx, effect.Ref("a", "b"), hundred)),
		"no reference": second(bank(pawltest.NewTarget(pawltest.TargetOpaque)).Do(ctx, effect.Reference{}, hundred)),
		"no options":   second(effect.NewLedger(effect.Options{})),
	} {
		if err == nil {
			t.Errorf("%s was taken", name)
		}
	}
}

// What a source says is bounded.
func TestEvidenceIsBounded(t *testing.T) {
	t.Parallel()
	p, _, _ := doubtful(t, memory(t))
	key := p.operation().Key
	before := dump(t, p.db, append(ledgerKinds(), "audit")...)
	ops := person(t.Context(), "ops")
	for name, err := range map[string]error{
		"the note":   second(p.desk.Evidence(ops, key, effect.Found{Applied: true, Note: strings.Repeat("x", approval.MaxReason+1)}, "webhook")),
		"the source": second(p.desk.Evidence(ops, key, effect.Found{Applied: true}, strings.Repeat("x", 65))),
		"the reason": second(p.desk.Release(ops, key, effect.Abandon(), strings.Repeat("x", approval.MaxReason+1))),
		"the key":    second(p.desk.Release(ops, strings.Repeat("a", 1<<20), effect.Abandon(), "looked")),
	} {
		if err == nil || len(err.Error()) > 2000 {
			t.Errorf("%s: %.200v", name, err)
		}
	}
	if dump(t, p.db, append(ledgerKinds(), "audit")...) != before {
		t.Error("something was written")
	}
}

// What was abandoned is never swept, and holds up nothing behind it.
func TestTheAbandonedHoldUpNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := start(t, memory(t), fault.Plan{}, forgetful)
		target := pawltest.NewTarget(pawltest.TargetOpaque)
		e := approved(bank(target))
		in := func(ref string) *state { s := order(hundred); s.Ref.Set(ref); return s }
		for i := range 5 {
			target.DropAt(pawltest.TargetReceived, 1)
			id := fmt.Sprint(i)
			out, err := p.thread(e, id).Run(t.Context(), in(id))
			if err != nil || p.yes(out) != 1 {
				t.Fatal(out, err)
			}
			if _, err = p.thread(e, id).Resume(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, op := range p.operations() {
				if op.State == effect.StateQuarantined {
					if _, err := p.desk.Release(person(t.Context(), "ops"), op.Key, effect.Abandon(), "gone"); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		out, err := p.thread(e, "voided").Run(t.Context(), in("voided"))
		if err != nil || out.Status != pawl.Waiting || p.thread(e, "voided").Cancel(t.Context(), "no") != nil {
			t.Fatal(out, err)
		}
		<-time.After(31 * day)
		if n := p.sweep(); n != 1 || p.sweep() != 0 {
			t.Errorf("%d were swept", n)
		}
		for _, op := range p.operations() {
			if want := op.Ref.ID == "voided"; want != (op.State == effect.StateTombstone) {
				t.Errorf("%s is %s", op.Ref.ID, op.State)
			}
		}
	})
}

// A fork, a fork of it and another thread while a release is decided and not used: the permit sends once, whoever is first.
func TestForksAroundARelease(t *testing.T) {
	t.Parallel()
	for _, when := range []string{"before the decision", "after it"} {
		p, th, target := doubtful(t, memory(t))
		key, ops := p.operation().Key, person(t.Context(), "ops")
		release := func() {
			if op, err := p.desk.Release(ops, key, effect.SendOnce(), "looked"); err != nil || op.State != effect.StateReleased {
				t.Fatal(op, err)
			}
		}
		if when == "after it" {
			release()
		}
		for range 2 {
			if out, err := th.Replay(t.Context(), pawl.Before("pay")); err != nil || when != "after it" && out.Status != pawl.Waiting {
				t.Fatal(when, out, err)
			}
		}
		if when != "after it" {
			release()
		}
		var wg sync.WaitGroup
		for i := range 4 {
			wg.Go(func() {
				if i == 0 {
					_, _ = th.Resume(t.Context())
					return
				}
				_, _ = p.thread(bank(target), fmt.Sprint("u", i)).Run(t.Context(), order(hundred))
			})
		}
		wg.Wait()
		if op := p.operation(); op.State != effect.StateCommitted || op.Attempts != 2 || op.Permit != "" {
			t.Errorf("%s: it ends %+v", when, op)
		}
		if n := target.Count().Requests; n != 2 {
			t.Errorf("%s: %d requests, want 2", when, n)
		}
	}
}

// A grant of one tenant, presented by another, is not there: nothing is sent, and it stays unspent.
func TestAGrantOfAnotherTenant(t *testing.T) {
	t.Parallel()
	target := pawltest.NewTarget(pawltest.TargetOpaque)
	e := approved(bank(target))
	p := start(t, memory(t), fault.Plan{})
	out, err := p.thread(e, "t").Run(t.Context(), order(hundred))
	if err != nil || p.yes(out) != 1 {
		t.Fatal(out, err)
	}
	r := p.requests()[0]
	other := p.eng.Tenant("other")
	err = p.db.Update(t.Context(), func(_ context.Context, tx storage.Tx) error {
		return approval.Consume(tx, "other", r.ID, r.Call, r.Operation)
	})
	if !errors.Is(err, pawl.ErrNotFound) {
		t.Errorf("consumed as another tenant: %v", err)
	}
	out, err = p.graph(e).Thread(other, "t").Run(t.Context(), order(hundred))
	if err != nil || out.Status != pawl.Waiting || target.Count().Requests != 0 {
		t.Errorf("the same call of another tenant: %+v, %v, %s", out, err, target.Count())
	}
	ops := person(t.Context(), "ops")
	for name, err := range map[string]error{
		"approve": second(approval.NewDesk(other, p.db).Approve(ops, r.ID, approval.Decision{Digest: r.Call})),
		"edit":    second(p.led.Desk(other, p.db).Edit(ops, r.ID, effect.Edit{Digest: r.Call, Changes: []approval.Change{set("/amount", `"1.00"`)}})),
		"show":    second(p.led.Desk(other, p.db).Show(ops, r.Operation)), "evidence": second(p.led.Desk(other, p.db).Evidence(ops, r.Operation, effect.Found{Applied: true}, "webhook")),
	} {
		if !errors.Is(err, pawl.ErrNotFound) {
			t.Errorf("%s as another tenant: %v", name, err)
		}
	}
	if now, err := p.desks(t).Show(t.Context(), r.ID); err != nil || now.State != approval.Granted {
		t.Errorf("the grant is %+v, %v", now, err)
	}
}
