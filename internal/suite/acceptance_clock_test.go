package suite

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/approval"
	"github.com/pawl-dev/pawl/effect"
	"github.com/pawl-dev/pawl/pawltest"
)

// acceptanceClocks: what the database's clock decides, with nobody awake.
func acceptanceClocks() []scenario {
	return []scenario{
		{id: "A33", run: windowOfAKey},
		{id: "A47", run: twoClocks},
		{id: "A51", run: escalates},
	}
}

// onEachClock is onEachMoney under a virtual clock.
func onEachClock(t *testing.T, run func(t *testing.T, h *home)) {
	for _, path := range []string{"", newFile(t)} {
		t.Run(map[bool]string{true: "memory", false: "sqlite"}[path == ""], func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { run(t, moneyHome(t, path)) })
		})
	}
}

func later(d time.Duration) { <-time.After(d) }

// windowOfAKey is A33: a minute before the end of the window the key is sent again, a minute after it is not: the target
// is asked instead, where it can be, or a person.
func windowOfAKey(t *testing.T, _ *report) {
	const retention = 20 * time.Hour // and a margin of a tenth
	for _, c := range []struct {
		name    string
		after   time.Duration
		lookup  bool
		end     string
		again   int // requests after the first entry
		lookups int
	}{
		{"a minute before", 18*time.Hour - time.Minute, false, "done", 1, 0},
		{"a minute after", 18*time.Hour + time.Minute, false, "waits", 0, 0},
		{"a minute after, looked up", 18*time.Hour + time.Minute, true, "done", 0, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			onEachClock(t, func(t *testing.T, h *home) {
				target, o := pawltest.NewTarget(pawltest.TargetKeys), firmIn(t, h)
				asked := 0
				e := wire(target).Keys(retention).Budget(100)
				if c.lookup {
					e = e.Lookup(func(context.Context, effect.Op, transfer) (receipt, bool, error) {
						asked++
						return receipt{target.Rows()[0].ID}, true, nil
					})
				}
				target.DropAt(pawltest.TargetCommitted, 1)
				down := true
				target.At(func(p pawltest.TargetPoint, _ pawltest.TargetRow) error {
					if down && p == pawltest.TargetCommitted {
						return errors.New("the line is down")
					}
					return nil
				})
				looks := func(context.Context, effect.Op, transfer) (receipt, bool, error) {
					return receipt{}, false, errors.New("the line is down")
				}
				first := e
				if c.lookup {
					first = e.Lookup(looks)
				}
				_, err := atDepth(t, payGraphOf(first)).Thread(o.eng, "t").Run(t.Context(), orderFor("17"))
				var doubt *effect.InDoubtError
				if !errors.As(err, &doubt) {
					t.Fatalf("the first entry: %v", err)
				}
				down = false
				before := target.Count().Requests
				later(c.after)
				fresh := firmIn(t, h)
				th := atDepth(t, payGraphOf(e)).Thread(fresh.eng, "t")
				same(t, "end", fresh.toEnd(t, th, "17"), c.end)
				same(t, "requests since", target.Count().Requests-before, c.again)
				same(t, "look-ups", asked, c.lookups)
				same(t, "rows", target.Count().Rows, 1)
				same(t, "keys", distinct(target.Keys()), 1)
			})
		})
	}
}

// twoClocks is A47: a request that nobody decides expires, a grant that nobody uses lapses, each at its very instant, by
// the database's clock.
func twoClocks(t *testing.T, _ *report) {
	levels := approval.Levels{{To: "finance", For: time.Hour, Valid: 30 * time.Minute}}
	for _, c := range []struct {
		name           string
		decide, resume time.Duration
		expired        bool // the decision comes too late
		ran            bool
	}{
		{"in time", time.Hour - time.Nanosecond, time.Hour, false, true},
		{"decided at the instant", time.Hour, time.Hour, true, false},
		{"used at the last instant", 0, 30*time.Minute - time.Nanosecond, false, true},
		{"used at the instant", 0, 30 * time.Minute, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			onEachClock(t, func(t *testing.T, h *home) {
				target, o := pawltest.NewTarget(pawltest.TargetOpaque), firmIn(t, h)
				th := atDepth(t, payGraphOf(wire(target).Approve(levels))).Thread(o.eng, "t")
				out, err := th.Run(t.Context(), orderFor("17"))
				mustWaitFor(t, out, err, 1)
				r := o.requests(t)[0]
				later(c.decide)
				_, err = o.approvals.Approve(actor("cfo"), r.ID, approval.Decision{Digest: r.Call})
				if errors.Is(err, pawl.ErrExpired) != c.expired || !c.expired && err != nil {
					t.Fatalf("the decision: %v", err)
				}
				later(c.resume - c.decide)
				out, err = th.Resume(t.Context())
				same(t, "requests", target.Count().Requests, map[bool]int{true: 1}[c.ran])
				switch {
				case c.ran:
					mustBeDone(t, out, err)
				case c.expired: // nobody's answer is a no
					if denied := (*effect.DeniedError)(nil); !errors.As(err, &denied) || !denied.Expired {
						t.Errorf("after nobody decided: %+v, %v", out, err)
					}
				default: // asked anew
					mustWaitFor(t, out, err, 1)
					same(t, "the first request", o.requests(t, approval.Lapsed)[0].Unused, "the grant was not used by 2000-01-01T00:30:00Z")
				}
				same(t, "consumed", len(o.requests(t, approval.Consumed)), target.Count().Requests)
			})
		})
	}
}

// escalates is A51 without calendars: no worker runs, levels are reached by the clock, and the last time out denies.
func escalates(t *testing.T, _ *report) {
	onEachClock(t, func(t *testing.T, h *home) {
		levels := approval.Levels{{To: "clerks", For: time.Hour}, {To: "finance", For: time.Hour}}
		target, o := pawltest.NewTarget(pawltest.TargetOpaque), firmIn(t, h)
		g := atDepth(t, payGraphOf(wire(target).Approve(levels)))
		for _, invoice := range []string{"17", "18"} {
			out, err := g.Thread(o.eng, invoice).Run(t.Context(), orderFor(invoice))
			mustWaitFor(t, out, err, 1)
		}
		o.eng.Close() // from here on there are only people
		desk := firmIn(t, h)
		var r approval.Request
		for _, open := range desk.requests(t, approval.Requested) {
			if open.Ref == "invoice:17" {
				r = open
			}
		}
		var forbidden *approval.ForbiddenError
		if _, err := desk.approvals.Approve(actor("cfo"), r.ID, approval.Decision{Digest: r.Call}); !errors.As(err, &forbidden) {
			t.Errorf("finance before its turn: %v", err)
		}
		later(time.Hour)
		shown, err := desk.approvals.Show(actor("cfo"), r.ID)
		if err != nil || shown.State != approval.Requested || shown.Level != 2 {
			t.Fatalf("%+v, %v", shown, err)
		}
		if _, err := desk.approvals.Approve(actor("cfo"), r.ID, approval.Decision{Digest: r.Call}); err != nil {
			t.Fatalf("finance in its turn: %v", err)
		}
		out, err := g.Thread(desk.eng, "17").Resume(t.Context())
		mustBeDone(t, out, err)
		later(time.Hour)
		out, err = g.Thread(desk.eng, "18").Resume(t.Context())
		if denied := (*effect.DeniedError)(nil); !errors.As(err, &denied) || !denied.Expired {
			t.Errorf("after the last time out: %+v, %v", out, err)
		}
		saw(t, target, 1, 0, 1)
	})
}
