package suite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/effect"
	"github.com/pawl-dev/pawl/internal/house"
	"github.com/pawl-dev/pawl/pawltest"
)

// yesterdaysLedger is A16, W16: the home is restored to a backup from before a payment. Nothing is sent to a target that
// could not recognise it until a person has reconciled, and one with keys answers with the old receipt.
func yesterdaysLedger(t *testing.T, _ *report) {
	for _, mode := range allTargets {
		t.Run(string(mode), func(t *testing.T) {
			ctx, h, target := context.Background(), moneyHome(t, newFile(t)), pawltest.NewTarget(mode)
			g := atDepth(t, payGraph(wire(target)))
			o, err := openFirm(h.open(t), h.path, "policy-1") // closed below, before the restore
			if err != nil {
				t.Fatal(err)
			}
			o.paid(t, g.Thread(o.eng, "before"), "16")
			backup := h.path + ".backup"
			if err := (&house.House{DB: o.db}).Backup(ctx, backup); err != nil {
				t.Fatal(err)
			}
			receipt := o.paid(t, g.Thread(o.eng, "t"), "17")
			by := house.RestoreOptions{Replace: true, By: pawl.Actor{ID: "ops", Kind: "person"}, Reason: "the disk is gone"}
			if _, err := house.Restore(ctx, backup, h.path, by); err == nil {
				t.Fatal("restored under a program that has it open")
			}
			if err := errors.Join(o.eng.Close(), o.db.Close()); err != nil {
				t.Fatal(err)
			}
			if _, err := house.Restore(ctx, backup, h.path, by); err != nil {
				t.Fatal(err)
			}
			o = firmIn(t, h)
			th := g.Thread(o.eng, "t")
			if st := statusOf(t, th); st.Status != pawl.StatusNew {
				t.Fatalf("the payment is in the backup: %+v", st)
			}
			out, err := th.Run(ctx, orderFor("17"))
			if mode == pawltest.TargetKeys {
				same(t, "end", mustBeDone(t, out, err) != "", true)
				same(t, "receipt", receiptIn(t, th), receipt)
				saw(t, target, 3, 0, 2)
				return
			}
			if !errors.As(err, new(*effect.RestoredError)) {
				t.Fatalf("outcome %+v, error %v; want a *RestoredError", out, err)
			}
			same(t, "requests", target.Count().Requests, 2)
			if _, err := o.effects.Reconciled(actor("cfo"), "the bank's list has 16 alone since then"); err != nil {
				t.Fatal(err)
			}
			if _, err := th.Resume(ctx); err != nil {
				t.Fatal(err)
			}
			same(t, "requests after a person reconciled", target.Count().Requests, map[pawltest.TargetMode]int{pawltest.TargetLookup: 3, pawltest.TargetOpaque: 3}[mode])
		})
	}
	t.Run("the key must be there", func(t *testing.T) {
		ctx, h := context.Background(), moneyHome(t, newFile(t))
		o := firmIn(t, h)
		backup, to := h.path+".backup", newFile(t)
		if err := (&house.House{DB: o.db}).Backup(ctx, backup); err != nil {
			t.Fatal(err)
		}
		_, err := house.Restore(ctx, backup, to, house.RestoreOptions{})
		if err == nil {
			t.Fatal("restored without the key")
		}
		says(t, err.Error(), house.KeyFile(to)+" is not there", "nothing was changed")
		if _, err := os.Stat(to); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("a refused restore left %s: %v", to, err)
		}
		key, err := os.ReadFile(house.KeyFile(h.path))
		if err == nil {
			err = os.WriteFile(house.KeyFile(backup), key, 0o600)
		}
		if err == nil {
			_, err = house.Restore(ctx, backup, to, house.RestoreOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
		if copied, err := os.ReadFile(house.KeyFile(to)); err != nil || fmt.Sprint(copied) != fmt.Sprint(key) {
			t.Errorf("the key was not copied: %v", err)
		}
	})
}
