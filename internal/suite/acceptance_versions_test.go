package suite

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/approval"
	"github.com/pawl-dev/pawl/effect"
	"github.com/pawl-dev/pawl/internal/nest"
	"github.com/pawl-dev/pawl/pawltest"
)

// acceptanceVersions: code is deployed while runs are in flight.
func acceptanceVersions() []scenario {
	return []scenario{
		{id: "A07", run: insertedBefore},
		{id: "A08", run: drained},
		{id: "A55", run: changedWhilePending, flat: startsOver}, // of the graph's version; the policy's is with the approvals
		{id: "A67", run: migrateOrForce, flat: startsOver},
		{id: "A68", run: otherFormat},
	}
}

// screenGraph is payGraph with a node before the transfer.
func screenGraph(e wiring, migrations ...pawl.Migration) *pawl.Builder[payment] {
	return pawl.New[payment]("pay").Node("first", noop).Node("screen", noop).Node("transfer", pays(e), pawl.Uses(e)).Node("last", noop).
		Path(pawl.Start, "first", "screen", "transfer", "last").Migrate(migrations...)
}

// deploy is a run of the old graph that waits for approval, and a program of the new graph.
type deploy struct {
	target   *pawltest.Target
	old, now *firm
	was, is  *nest.Graph[payment]
}

func deployed(t *testing.T, h *home, migrations ...pawl.Migration) *deploy {
	t.Helper()
	d := &deploy{target: pawltest.NewTarget(pawltest.TargetOpaque), old: firmIn(t, h), now: firmIn(t, h)}
	d.was, d.is = atDepth(t, payGraph(approvedWire(d.target))), atDepth(t, screenGraph(approvedWire(d.target), migrations...))
	out, err := d.was.Thread(d.old.eng, "t").Run(context.Background(), orderFor("17"))
	mustWaitFor(t, out, err, 1)
	return d
}

const inserted = `"screen" inserted before "transfer"`

// refuses is what the new program says of the run, and that nothing changed.
func (d *deploy) refuses(t *testing.T, operation effect.State) {
	t.Helper()
	th := d.is.Thread(d.now.eng, "t")
	before, past, run := d.old.kept(t, d.target), history(t, th), statusOf(t, th).Run
	verbs := map[string]func() (*pawl.OutcomeOf[payment], error){
		"replay": func() (*pawl.OutcomeOf[payment], error) {
			return th.Replay(context.Background(), pawl.Before("transfer"))
		},
	}
	if len(statusOf(t, th).Waiting) == 0 { // else resume only says what the run waits for
		verbs["resume"] = func() (*pawl.OutcomeOf[payment], error) { return th.Resume(context.Background()) }
	}
	for name, verb := range verbs {
		_, err := verb()
		refused := (*pawl.VersionError)(nil)
		if !errors.As(err, &refused) {
			t.Fatalf("%s under the new graph: %v", name, err)
		}
		says(t, refused.First, inserted)
		says(t, err.Error(), run, "pay@"+d.was.Digest()[:8], "pay@"+d.is.Digest()[:8], "2 nodes changed", inserted, "nothing was run and nothing changed",
			"(pin)", "pawl graph drain pay@", "pawl graph migrate t --from "+d.was.Digest()[:8]+" --to "+d.is.Digest()[:8]+" --dry-run",
			"Operation ", "bank.transfer invoice:17", "is "+string(operation))
	}
	same(t, "operations, requests and target", d.old.kept(t, d.target), before)
	same(t, "history", len(history(t, th)), len(past))
	st := statusOf(t, th)
	if !st.Stranded || st.Status != pawl.Waiting && st.Status != pawl.Done || st.Differs == "" {
		t.Errorf("as the new program shows it: %+v", st)
	}
}

// insertedBefore is A07: the run is pinned, the new program refuses it, the old one finishes it.
func insertedBefore(t *testing.T, _ *report) {
	onEachMoney(t, func(t *testing.T, h *home) {
		d := deployed(t, h)
		d.checked(t, "waiting pin "+inserted)
		d.refuses(t, effect.StateReserved)
		d.old.yes(t)
		d.refuses(t, effect.StateReserved)
		d.old.paid(t, d.was.Thread(d.old.eng, "t"), "17")
		saw(t, d.target, 1, 0, 1)
		d.checked(t, "done goes on")
	})
}

// checked is what the new build says of the thread before it is deployed.
func (d *deploy) checked(t *testing.T, want string) {
	t.Helper()
	for c, err := range d.old.eng.Check(context.Background(), d.is) {
		if err != nil {
			t.Fatal(err)
		}
		if c.Thread == "t" {
			got := fmt.Sprint(c.Status, " ", c.Fit)
			if c.First != "" {
				got += " " + c.First
			}
			says(t, got, want)
			return
		}
	}
	t.Error("the check told nothing of the thread")
}

// drained is A08: new runs take the new code, and the count of old ones falls to 0.
func drained(t *testing.T, _ *report) {
	onEachMoney(t, func(t *testing.T, h *home) {
		ctx, d := context.Background(), deployed(t, h)
		unfinished := func() (old, now int) {
			t.Helper()
			list, err := d.now.eng.Versions(ctx, "pay")
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range list {
				switch v.Version {
				case d.was.Digest():
					old += v.Unfinished
				case d.is.Digest():
					now += v.Unfinished
				}
			}
			return old, now
		}
		if err := d.now.eng.Drain(actor("ops"), "pay", d.was.Digest(), "screen is in"); err != nil {
			t.Fatal(err)
		}
		draining := (*pawl.DrainingError)(nil)
		if _, err := d.was.Thread(d.old.eng, "u").Run(ctx, orderFor("18")); !errors.As(err, &draining) || draining.By != "ops" {
			t.Fatalf("a new run of the old code: %v", err)
		}
		out, err := d.is.Thread(d.now.eng, "u").Run(ctx, orderFor("18"))
		mustWaitFor(t, out, err, 1)
		if old, now := unfinished(); old != 1 || now != 1 {
			t.Errorf("%d old runs, %d new ones; want 1 and 1", old, now)
		}
		d.refuses(t, effect.StateReserved)
		d.old.yes(t)
		d.refuses(t, effect.StateReserved)
		d.old.paid(t, d.was.Thread(d.old.eng, "t"), "17")
		if old, now := unfinished(); old != 0 || now != 1 {
			t.Errorf("%d old runs, %d new ones; want 0 and 1", old, now)
		}
		d.old.eng.Close()
		d.now.paid(t, d.is.Thread(d.now.eng, "u"), "18")
		saw(t, d.target, 2, 0, 2)
	})
}

// insertedEarlier is S003-12: both, as the story tells them.
func insertedEarlier(t *testing.T, r *report) {
	t.Run("pin", func(t *testing.T) { insertedBefore(t, r) })
	t.Run("drain", func(t *testing.T) { drained(t, r) })
}

// changedWhilePending is A55: the graph's version changes while a request is open. It ends unused, and the call is asked
// about again.
func changedWhilePending(t *testing.T, _ *report) {
	for _, verb := range []string{"migrate", "force"} {
		t.Run(verb, func(t *testing.T) {
			onEachMoney(t, func(t *testing.T, h *home) {
				d := deployed(t, h, pawl.Migration{From: inserted, Map: func(m *pawl.Moving) error { m.Move("transfer", "screen"); return nil }})
				th, old := d.is.Thread(d.now.eng, "t"), d.old.requests(t)[0]
				move := th.Migrate
				if verb == "force" {
					move = th.Force
				}
				if _, err := move(actor("ops"), pawl.Reason("screen is in")); err != nil {
					t.Fatal(err)
				}
				if _, err := d.now.approvals.Approve(actor("cfo"), old.ID, approval.Decision{Digest: old.Call}); err == nil {
					t.Error("the request of the old version was approved")
				}
				out, err := th.Resume(context.Background())
				mustWaitFor(t, out, err, 1)
				open := d.now.requests(t, approval.Requested)
				if len(open) != 1 || open[0].ID == old.ID {
					t.Fatalf("open requests: %+v", open)
				}
				d.now.paid(t, th, "17")
				saw(t, d.target, 1, 0, 1)
			})
		})
	}
}

// migrateOrForce is A67.
func migrateOrForce(t *testing.T, _ *report) {
	onEachMoney(t, func(t *testing.T, h *home) {
		ctx, target := actor("ops"), pawltest.NewTarget(pawltest.TargetOpaque)
		old, now := firmIn(t, h), firmIn(t, h)
		was := atDepth(t, payGraph(wire(target)))
		is := atDepth(t, screenGraph(wire(target), pawl.Migration{From: was.Digest()}))
		for _, id := range []string{"settled", "forced"} {
			target.DropAt(pawltest.TargetCommitted, 1)
			same(t, "end", old.toEnd(t, was.Thread(old.eng, id), id), "waits")
		}
		th := is.Thread(now.eng, "settled")
		before := old.kept(t, target)
		for name, verb := range map[string]func() (*pawl.Migrated, error){
			"dry run": func() (*pawl.Migrated, error) { return th.PreviewMigrate(ctx) },
			"migrate": func() (*pawl.Migrated, error) { return th.Migrate(ctx, pawl.Reason("screen is in")) },
		} {
			if _, err := verb(); !errors.As(err, new(*effect.UnsettledError)) {
				t.Errorf("%s with an operation in doubt: %v", name, err)
			}
		}
		same(t, "operations, requests and target", old.kept(t, target), before)
		for _, op := range old.operations(t) {
			if op.Ref.String() == "invoice:settled" {
				if _, err := old.effects.Release(actor("cfo"), op.Key, effect.Applied(receipt{"r-1"}), "the bank says so"); err != nil {
					t.Fatal(err)
				}
			}
		}
		tried, err := th.PreviewMigrate(ctx)
		if err != nil {
			t.Fatal(err)
		}
		done, err := th.Migrate(ctx, pawl.Reason("screen is in"))
		if err != nil || !reflect.DeepEqual(done, tried) {
			t.Fatalf("migrated: %+v, %v\ntried: %+v", done, err, tried)
		}
		same(t, "receipt", now.paid(t, th, "settled"), "r-1")

		forced := is.Thread(now.eng, "forced")
		tried, err = forced.PreviewForce(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if done, err = forced.Force(ctx, pawl.Reason("screen is in")); err != nil || !reflect.DeepEqual(done, tried) {
			t.Fatalf("forced: %+v, %v\ntried: %+v", done, err, tried)
		}
		for _, op := range now.operations(t) {
			if op.Ref.String() == "invoice:forced" {
				same(t, "the operation after force", op.State, effect.StateQuarantined)
			}
		}
		same(t, "end of the forced run", now.toEnd(t, forced, "forced"), "waits")
		saw(t, target, 2, 0, 2)
	})
}

// otherFormat is A68: an old program never takes a run of the new version, which is shown as stranded.
func otherFormat(t *testing.T, _ *report) {
	onEachMoney(t, func(t *testing.T, h *home) {
		ctx, target := context.Background(), pawltest.NewTarget(pawltest.TargetOpaque)
		old, now := firmIn(t, h), firmIn(t, h)
		was, is := atDepth(t, payGraph(approvedWire(target))), atDepth(t, screenGraph(approvedWire(target)))
		out, err := is.Thread(now.eng, "t").Run(ctx, orderFor("17"))
		mustWaitFor(t, out, err, 1)
		th := was.Thread(old.eng, "t")
		if st := statusOf(t, th); !st.Stranded || st.Status != pawl.Waiting {
			t.Errorf("as the old program shows it: %+v", st)
		}
		list, err := old.eng.Versions(ctx, "pay")
		if err != nil || len(list) != 2 || list[1].Stranded != 1 || list[1].Version != is.Digest() {
			t.Errorf("the old program counts %+v, %v", list, err)
		}
		old.yes(t) // answering needs no code
		before := old.kept(t, target)
		if _, err := th.Resume(ctx); !errors.As(err, new(*pawl.VersionError)) {
			t.Errorf("the old program resumes it: %v", err)
		}
		if _, err := th.Migrate(actor("ops"), pawl.Reason("back")); !errors.As(err, new(*pawl.MigrationError)) {
			t.Errorf("the old program migrates it: %v", err)
		}
		same(t, "operations, requests and target", old.kept(t, target), before)
		now.paid(t, is.Thread(now.eng, "t"), "17")
		saw(t, target, 1, 0, 1)
	})
}
