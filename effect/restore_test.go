package effect_test

import (
	"context"
	"errors"
	"slices"
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

// restoredHome is a home that was put back to a backup from before everything.
func restoredHome(t testing.TB, taken time.Time) storage.DB {
	t.Helper()
	home := memory(t)
	err := home.Update(t.Context(), func(_ context.Context, tx storage.Tx) error {
		return effect.MarkRestored(tx, taken, pawl.Actor{ID: "root", Kind: "person"}, "the disk died")
	})
	if err != nil {
		t.Fatal(err)
	}
	return home
}

// After a restore nothing is sent anew to a target that would not recognise it, until a person has reconciled the two.
func TestARestoredLedger(t *testing.T) {
	t.Parallel()
	for _, mode := range []pawltest.TargetMode{pawltest.TargetLookup, pawltest.TargetOpaque} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			target := pawltest.NewTarget(mode)
			e := bank(target)
			home := restoredHome(t, time.Now().Add(-time.Hour))
			p := start(t, home, fault.Plan{})
			th := p.thread(e, "t")
			held := (*effect.RestoredError)(nil)
			for range 2 {
				_, err := th.Run(t.Context(), order(hundred))
				if err != nil && !errors.As(err, &held) {
					_, err = th.Resume(t.Context())
				}
				if !errors.As(err, &held) || held.Effect != "bank.transfer" {
					t.Errorf("got %v", err)
				}
			}
			wantCount(t, target, 0, 0, 0)
			if r, err := p.desk.Restored(t.Context()); err != nil || r == nil || r.By != "root" || r.Reason != "the disk died" {
				t.Errorf("the epoch is %+v, %v", r, err)
			}
			if _, err := p.desk.Reconciled(t.Context(), "compared"); !errors.Is(err, pawl.ErrDenied) {
				t.Errorf("closed by nobody: %v", err)
			}
			if r, err := p.led.Desk(p.eng.Tenant("other"), p.db).Reconciled(person(t.Context(), "ops"), "another tenant"); err != nil || r == nil {
				t.Errorf("another tenant: %+v, %v", r, err)
			}
			if _, err := th.Resume(t.Context()); !errors.As(err, &held) {
				t.Errorf("another tenant's word counted: %v", err)
			}
			if r, err := p.desk.Reconciled(person(t.Context(), "ops"), "compared"); err != nil || r == nil {
				t.Fatalf("got %+v, %v", r, err)
			}
			if r, err := p.desk.Reconciled(person(t.Context(), "ops"), "compared"); err != nil || r != nil {
				t.Errorf("closed twice: %+v, %v", r, err)
			}
			if out, err := th.Resume(t.Context()); err != nil || out.Status != pawl.Done {
				t.Errorf("then: %+v, %v", out, err)
			}
			wantCount(t, target, 1, 0, 1)
			if got := actions(t, home, ""); !slices.Equal(got, []string{"effect.restored", "effect.reconciled"}) {
				t.Errorf("the trail is %v", got)
			}
		})
	}
}

// A target with keys answers with the old receipt, because the key is the same again; once it may have forgotten what was
// sent after the backup, it is sent nothing either.
func TestARestoredLedgerAndATargetWithKeys(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		target := pawltest.NewTarget(pawltest.TargetKeys)
		e := bank(target) // remembers keys for 24 hours
		p := start(t, memory(t), fault.Plan{})
		before, _ := p.paid(p.thread(e, "t"), hundred)
		taken := time.Now()
		<-time.After(time.Hour)
		q := start(t, restoredHome(t, taken), fault.Plan{})
		after, _ := q.paid(q.thread(e, "t"), hundred)
		if after.State.Receipt.Get() != before.State.Receipt.Get() || len(slices.Compact(target.Keys())) != 1 {
			t.Errorf("the receipt is %q, and was %q", after.State.Receipt.Get(), before.State.Receipt.Get())
		}
		wantCount(t, target, 2, 0, 1)
		r := start(t, restoredHome(t, taken), fault.Plan{})
		<-time.After(21 * time.Hour)
		held := (*effect.RestoredError)(nil)
		if _, err := r.thread(e, "t").Run(t.Context(), order(hundred)); !errors.As(err, &held) {
			t.Errorf("after the target may have forgotten: %v", err)
		}
		wantCount(t, target, 2, 0, 1)
	})
}

// What people approve waits for the reconciliation also where the target has keys: a call that was changed at the desk was
// sent under another key than the one that the restored ledger would make.
func TestARestoredLedgerAndAChangedCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		target := pawltest.NewTarget(pawltest.TargetKeys)
		e := approved(bank(target))
		p := start(t, memory(t), fault.Plan{})
		th := p.thread(e, "t")
		if out, err := th.Run(t.Context(), order(hundred)); err != nil || out.Status != pawl.Waiting {
			t.Fatal(out, err)
		}
		taken := time.Now()
		r := p.openRequest(t)
		if _, err := p.desk.Edit(person(t.Context(), "ann"), r.ID, effect.Edit{Digest: r.Call, Changes: []approval.Change{set("/amount", `"90.00"`)}}); err != nil {
			t.Fatal(err)
		}
		p.decideAll(t)
		if out, err := th.Resume(t.Context()); err != nil || out.Status != pawl.Done {
			t.Fatal(out, err)
		}
		q := start(t, restoredHome(t, taken), fault.Plan{})
		out, err := q.thread(e, "t").Run(t.Context(), order(hundred))
		if err != nil || q.yes(out) != 1 {
			t.Fatal(out, err)
		}
		if _, err := q.thread(e, "t").Resume(t.Context()); !errors.As(err, new(*effect.RestoredError)) {
			t.Errorf("got %v", err)
		}
		wantCount(t, target, 1, 0, 1)
		if got := q.requests()[0].State; got != approval.Granted {
			t.Errorf("the grant is %s", got)
		}
	})
}
