package suite

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/approval"
	"github.com/pawl-dev/pawl/effect"
	"github.com/pawl-dev/pawl/pawltest"
)

// targetRows are a target's books as its owner gives them.
func targetRows(all []pawltest.TargetRow) iter.Seq2[effect.TargetRow, error] {
	return func(yield func(effect.TargetRow, error) bool) {
		for _, r := range all {
			row := effect.TargetRow{Key: r.Key, Ref: r.Ref, Receipt: r.ID}
			if err := json.Unmarshal([]byte(r.Body), &row.Fields); !yield(row, err) {
				return
			}
		}
	}
}

// reconciled is the report of a tenant against its target.
func (o *firm) reconciled(t testing.TB, rows []pawltest.TargetRow) *effect.Report {
	t.Helper()
	r, err := o.effects.Report(context.Background(), targetRows(rows), effect.ReportOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// oneUnexplained fails unless a report has one finding of a kind, which says so much. It is not empty-handed, so a
// program that ends by it does not end with 0.
func oneUnexplained(t testing.TB, r *effect.Report, kind effect.FindingKind, says ...string) {
	t.Helper()
	if r.Unexplained != 1 || len(r.Findings) != 1 || r.Findings[0].Kind != kind {
		t.Fatalf("report %+v, want one %s", r, kind)
	}
	var b strings.Builder
	if err := r.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	for _, s := range says {
		if !strings.Contains(b.String(), s) {
			t.Errorf("the report does not say %q:\n%s", s, b.String())
		}
	}
}

// greenIsNoProof is S003-13: a report on honest books explains everything, and finds each of the four lies.
func greenIsNoProof(t *testing.T, _ *report) {
	onEachMoney(t, func(t *testing.T, h *home) {
		t.Run("honest", func(t *testing.T) { honestBooks(t, h) })
	})
	for _, c := range []struct {
		name string
		lie  func(t *testing.T, o *firm, target *pawltest.Target)
		kind effect.FindingKind
		says []string
	}{
		{"a stray row", func(t *testing.T, o *firm, target *pawltest.Target) {
			_, err := target.Send(t.Context(), "", "invoice:99", []byte(compact(hundred)))
			must(0, err)
		}, effect.FindStray, []string{"Unexplained: 1", "stray_row", "invoice:99"}},
		{"committed without a row", func(t *testing.T, o *firm, _ *pawltest.Target) {
			e := effect.New("bank.transfer", func(context.Context, effect.Op, transfer) (receipt, error) {
				return receipt{"tx-invented"}, nil
			}).Material("to", "amount", "currency")
			o.paid(t, atDepth(t, payGraph(e)).Thread(o.eng, "liar"), "18")
		}, effect.FindMissing, []string{"missing_row", "invoice:18", `the run of thread "liar" is done all the same`}},
		{"a grant without a dispatch", func(t *testing.T, o *firm, target *pawltest.Target) {
			out, err := atDepth(t, payGraph(approvedWire(target))).Thread(o.eng, "asks").Run(t.Context(), orderFor("18"))
			mustWaitFor(t, out, err, 1)
			o.yes(t)
			grant := o.requests(t, approval.Granted)[0]
			must(0, o.present(grant, grant.Call, grant.Operation))
		}, effect.FindGrant, []string{"grant_without_dispatch", "invoice:18"}},
		{"success with two rows", func(t *testing.T, o *firm, target *pawltest.Target) {
			_, err := target.Send(t.Context(), o.operation(t).Key, "invoice:17", []byte(compact(hundred)))
			must(0, err)
		}, effect.FindTwice, []string{"two_rows", "the target has 2 rows for one operation", `the run of thread "t" is done all the same`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			onEachMoney(t, func(t *testing.T, h *home) {
				target, o := pawltest.NewTarget(pawltest.TargetOpaque), firmIn(t, h)
				o.paid(t, atDepth(t, payGraph(approvedWire(target))).Thread(o.eng, "t"), "17")
				if r := o.reconciled(t, target.Rows()); r.Unexplained != 0 || r.Matched != 1 {
					t.Fatalf("before: %+v", r)
				}
				c.lie(t, firmIn(t, h), target) // of another process
				before := o.kept(t, target)
				oneUnexplained(t, o.reconciled(t, target.Rows()), c.kind, c.says...)
				same(t, "what the report left", o.kept(t, target), before)
			})
		})
	}
}

// honestBooks is a stormy day at the three targets: 0 unexplained rows at its end, and what nobody knows is listed.
func honestBooks(t *testing.T, h *home) {
	for _, mode := range allTargets {
		target, o := pawltest.NewTarget(mode), firmIn(t, h)
		e := wireAs("bank."+strings.ReplaceAll(string(mode), "-", ""), target)
		g := atDepth(t, payGraph(e))
		target.DropAt(pawltest.TargetCommitted, 1)
		end := o.toEnd(t, g.Thread(o.eng, string(mode)+"-dropped"), "17")
		o.paid(t, g.Thread(o.eng, string(mode)), "18")
		o.paid(t, g.Thread(o.eng, string(mode)+"-again"), "18")
		changed := orderFor("18")
		changed.Order = pawl.Of(transfer{To: "acme", Amount: "120.00", Currency: "EUR"})
		if _, err := g.Thread(o.eng, string(mode)+"-changed").Run(t.Context(), changed); !errors.Is(err, effect.ErrIntentChanged) {
			t.Fatal(err)
		}
		r, err := o.effects.Report(t.Context(), targetRows(target.Rows()), effect.ReportOptions{Effects: []string{e.UseName()}})
		if err != nil {
			t.Fatal(err)
		}
		open := 0
		if end == "waits" {
			open = 1
		}
		same(t, "unexplained rows: "+string(mode), r.Unexplained, 0)
		same(t, "rows explained", r.Matched, len(target.Rows()))
		same(t, "open", len(r.Open), open)
	}
}
