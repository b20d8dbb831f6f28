package effect_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/approval"
	"github.com/pawl-dev/pawl/effect"
	"github.com/pawl-dev/pawl/pawltest"
	"github.com/pawl-dev/pawl/storage"
	"github.com/pawl-dev/pawl/storage/fault"
)

// A row that cannot be read stops everything that needs it: nothing is sent.
func TestDamagedRowsFailClosed(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"operation", "attempt"} {
		for name, edit := range map[string]func(b []byte) []byte{
			"empty":         func([]byte) []byte { return nil },
			"format":        func(b []byte) []byte { b[0] = 9; return b },
			"a flipped bit": func(b []byte) []byte { b[len(b)/2] ^= 1; return b },
			"cut":           func(b []byte) []byte { return b[:len(b)-1] },
		} {
			t.Run(kind+", "+name, func(t *testing.T) {
				t.Parallel()
				p, _, target := doubtful(t, memory(t))
				err := p.db.Update(t.Context(), func(_ context.Context, tx storage.Tx) error {
					rows, err := tx.List(kind, storage.Query{})
					if err != nil {
						return err
					}
					rows[0].Body = edit(rows[0].Body)
					_, err = tx.Put(kind, rows[0], storage.Always())
					return err
				})
				if err != nil {
					t.Fatal(err)
				}
				damaged := (*effect.DamagedError)(nil)
				if _, err := p.thread(bank(target), "t2").Run(t.Context(), order(hundred)); !errors.As(err, &damaged) || damaged.Kind != kind || errors.Unwrap(damaged) == nil {
					t.Errorf("got %v", err)
				}
				if _, err := p.desk.Show(t.Context(), rowsOf(t, p.db, "operation")[0].Fields[0].(string)); !errors.As(err, &damaged) {
					t.Errorf("the desk shows it: %v", err)
				}
				wantCount(t, target, 1, 0, 1)
			})
		}
	}
}

// A task that wants another call before anybody said yes: the old revision is void, the new one is asked about.
func TestATaskMayChangeItsMind(t *testing.T) {
	t.Parallel()
	t.Run("while nobody answered", func(t *testing.T) {
		t.Parallel()
		target := pawltest.NewTarget(pawltest.TargetOpaque)
		e := approved(bank(target))
		p := start(t, memory(t), fault.Plan{})
		amount, broken := "100.00", true
		g := graphOf(t, func(ctx context.Context, s *state) error {
			o := hundred
			o.Amount = amount
			r, err := e.Do(ctx, effect.Ref("invoice", "17"), o)
			if broken {
				return errTest // the node fails while its request is open
			}
			s.Receipt.Set(r.ID)
			return err
		}, e)
		th := g.Thread(p.eng, "t")
		if _, err := th.Run(t.Context(), order(hundred)); !errors.Is(err, errTest) {
			t.Fatal(err)
		}
		amount, broken = "120.00", false
		out, err := th.Resume(t.Context())
		if err != nil || out.Status != pawl.Waiting || p.yes(out) != 1 {
			t.Fatalf("got %+v, %v", out, err)
		}
		ops := p.operations()
		if len(ops) != 2 || ops[0].State != effect.StateVoided || ops[1].Revision != 2 || ops[1].State != effect.StateReserved || ops[0].Key == ops[1].Key {
			t.Fatalf("the operations are %+v", ops)
		}
		for _, r := range p.requests() {
			if r.Operation == ops[0].Key && r.State != approval.Superseded || r.Operation == ops[1].Key && r.State != approval.Granted {
				t.Errorf("the request of %s is %s", r.Operation, r.State)
			}
			if d := r.Diff; r.Operation == ops[1].Key && (len(d) != 1 || d[0].Path != "/amount" || string(d[0].Old) != `"100.00"` || string(d[0].New) != `"120.00"`) {
				t.Errorf("the difference is %+v", d)
			}
		}
		amount = "130.00"
		if _, err = th.Resume(t.Context()); !errors.Is(err, effect.ErrIntentChanged) {
			t.Fatalf("a granted call was changed: %v", err)
		}
		amount = "120.00"
		if out, err = th.Resume(t.Context()); err != nil || out.Status != pawl.Done {
			t.Fatalf("got %+v, %v", out, err)
		}
		if rows := target.Rows(); len(rows) != 1 || rows[0].Key != ops[1].Key {
			t.Errorf("the target has %+v", rows)
		}
	})
	t.Run("the same call again after the node failed", func(t *testing.T) {
		t.Parallel()
		e := approved(bank(pawltest.NewTarget(pawltest.TargetOpaque)))
		p := start(t, memory(t), fault.Plan{})
		broken := true
		th := graphOf(t, func(ctx context.Context, s *state) error {
			err := payNode(e)(ctx, s)
			if broken {
				return errTest
			}
			return err
		}, e).Thread(p.eng, "t")
		if _, err := th.Run(t.Context(), order(hundred)); !errors.Is(err, errTest) {
			t.Fatal(err)
		}
		broken = false
		out, err := th.Resume(t.Context())
		if err != nil || out.Status != pawl.Waiting || p.yes(out) != 1 {
			t.Fatalf("the request cannot be answered any more: %+v, %v", out, err)
		}
		if out, err = th.Resume(t.Context()); err != nil || out.Status != pawl.Done {
			t.Fatalf("got %+v, %v", out, err)
		}
		if n := len(p.requests()); n != 1 {
			t.Errorf("%d requests, want 1", n)
		}
	})
	t.Run("after it was not sent, and after it was rejected", func(t *testing.T) {
		t.Parallel()
		for i, said := range []error{effect.NotSent(errTest), effect.Rejected(errTest)} {
			var calls counter
			e := scripted(&calls, fails(said))
			p := start(t, memory(t), fault.Plan{})
			amount := "100.00"
			th := graphOf(t, func(ctx context.Context, s *state) error {
				o := hundred
				o.Amount = amount
				_, err := e.Do(ctx, effect.Ref("invoice", "17"), o)
				return err
			}, e).Thread(p.eng, "t")
			if _, err := th.Run(t.Context(), order(hundred)); !errors.Is(err, errTest) {
				t.Fatal(err)
			}
			amount = "90.00"
			if out, err := th.Resume(t.Context()); err != nil || out.Status != pawl.Done {
				t.Fatalf("%d: %+v, %v", i, out, err)
			}
			want := []effect.State{effect.StateVoided, effect.StateRejected}[i]
			if ops := p.operations(); len(ops) != 2 || ops[0].State != want || ops[1].State != effect.StateCommitted {
				t.Errorf("%d: %+v", i, ops)
			}
		}
	})
}

// The rules in force changed between the yes and the call: the yes does not cover it any more.
func TestAnotherPolicyAsksAgain(t *testing.T) {
	t.Parallel()
	for _, granted := range []bool{false, true} {
		target, home := pawltest.NewTarget(pawltest.TargetOpaque), memory(t)
		e := approved(bank(target))
		p := start(t, home, fault.Plan{})
		out, err := p.thread(e, "t").Run(t.Context(), order(hundred))
		if err != nil {
			t.Fatal(err)
		}
		if granted {
			p.yes(out)
		}
		key := p.operation().Key
		_ = p.eng.Close()
		q := start(t, home, fault.Plan{}, func(o *effect.Options) { o.Policy = "2" })
		th := q.thread(e, "t")
		if !granted { // the wait of the old call is open: the task is entered when somebody answers, or when its branch is left
			if _, err := th.Edit(t.Context(), func(*state) error { return nil }); err != nil {
				t.Fatal(err)
			}
		}
		out, err = th.Resume(t.Context())
		if err != nil || out.Status != pawl.Waiting || out.Waiting[0].Kind != "approval" {
			t.Fatalf("granted %v: %+v, %v", granted, out, err)
		}
		wantCount(t, target, 0, 0, 0)
		if q.yes(out) != 1 {
			t.Fatal("nothing to approve")
		}
		if out, err = th.Resume(t.Context()); err != nil || out.Status != pawl.Done {
			t.Fatalf("granted %v: %+v, %v", granted, out, err)
		}
		wantCount(t, target, 1, 0, 1)
		if granted && target.Keys()[0] != key {
			t.Error("the key changed with the policy after it was minted")
		}
		if n := len(q.requests()); n != 2 {
			t.Errorf("granted %v: %d requests, want 2", granted, n)
		}
	}
}

// The desk reads back a settlement that the home cannot vouch for.
func TestTheDeskReadsBack(t *testing.T) {
	t.Parallel()
	for i, say := range []effect.Decision{effect.Applied(receipt{"tx"}), effect.NotApplied()} {
		for n, counted := range []bool{false, true} {
			home := memory(t)
			p, _, _ := doubtful(t, home)
			q := start(t, home, fault.Plan{At: fault.At(n, fault.Fail(&storage.UnknownError{Err: errTest}))})
			op, err := q.desk.Release(person(t.Context(), "ops"), p.operation().Key, say, "seen")
			unknown := (*storage.UnknownError)(nil)
			if counted && (err != nil || op.State.Unknown()) || !counted && !errors.As(err, &unknown) {
				t.Errorf("%d, point %d: %+v, %v", i, n, op, err)
			}
		}
	}
}

// What a fork would mean is told before, by the engine's own preview, and nothing is changed by telling.
func TestAPreviewTellsAndChangesNothing(t *testing.T) {
	t.Parallel()
	target := pawltest.NewTarget(pawltest.TargetOpaque)
	e := approved(bank(target))
	p := start(t, memory(t), fault.Plan{})
	notes := func(th *pawl.ThreadOf[state]) string {
		t.Helper()
		before := dump(t, p.db, append(ledgerKinds(), "audit", "question", "operation_use")...)
		pre, err := th.PreviewFork(t.Context(), pawl.Before("pay"))
		if err != nil || pre.Refused != nil {
			t.Fatal(pre, err)
		}
		if now := dump(t, p.db, append(ledgerKinds(), "audit", "question", "operation_use")...); now != before {
			t.Error("a preview changed something")
		}
		return fmt.Sprint(pre.Notes)
	}
	th := p.thread(e, "t")
	out, err := th.Run(t.Context(), order(hundred))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := notes(th), "[{effect effects already done 0 (receipt reused)} {effect effects that would need a new approval 1}]"; got != want {
		t.Errorf("waiting: %s, want %s", got, want)
	}
	p.yes(out)
	if _, err = th.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, want := notes(th), "[{effect effects already done 1 (receipt reused)} {effect effects that would need a new approval 0}]"; got != want {
		t.Errorf("done: %s, want %s", got, want)
	}
	if p.led.Digest() == start(t, memory(t), fault.Plan{}, func(o *effect.Options) { o.Policy = "2" }).led.Digest() || p.led.Name() != "effect" {
		t.Error("another policy has the same digest")
	}
}
