package suite

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/effect"
	"github.com/pawl-dev/pawl/internal/nest"
	"github.com/pawl-dev/pawl/pawltest"
)

// beforeTransfer is the last checkpoint before the transfer.
func beforeTransfer(t testing.TB, th *nest.Thread[payment]) pawl.Point {
	t.Helper()
	for _, s := range history(t, th) {
		if slices.Contains(s.Next, "transfer") {
			return pawl.Checkpoint(s.Checkpoint)
		}
	}
	t.Fatal("no checkpoint before the transfer")
	return pawl.Point{}
}

// replayBeforeDispatch is S003-2.
func replayBeforeDispatch(t *testing.T, _ *report) {
	for _, mode := range allTargets {
		t.Run(string(mode), func(t *testing.T) {
			onEachMoney(t, func(t *testing.T, h *home) {
				target := pawltest.NewTarget(mode)
				o := firmIn(t, h)
				th := atDepth(t, payGraph(approvedWire(target))).Thread(o.eng, "t")
				want := o.paid(t, th, "17")
				saw(t, target, 1, 0, 1)
				before := history(t, th)
				out, err := th.Replay(context.Background(), beforeTransfer(t, th))
				mustBeDone(t, out, err)
				same(t, "receipt of the branch", out.State.Receipt.Get(), want)
				saw(t, target, 1, 0, 1)
				same(t, "asked", len(o.requests(t)), 1)
				grew(t, before, history(t, th))
				settled(t, statusOf(t, th))
			})
		})
	}
	// While the outcome is unknown the branch settles it like the first run. What certainly did not happen is a new
	// question in the branch: a grant is for the task that asked for it.
	at := startBank(t)
	for i, mode := range allTargets {
		for _, d := range deaths[3:7] {
			t.Run("unknown/"+d.name+"/"+string(mode), func(t *testing.T) {
				three(t, func(t *testing.T) string {
					f := d.killedAt(t, at, mode)
					o := firmIn(t, f.home)
					th := f.thread(t, o, "t")
					before := history(t, th)
					out, err := th.Replay(context.Background(), beforeTransfer(t, th))
					absent := d.at == pawltest.TargetReceived || d.state == effect.StateDispatched
					switch {
					case mode == pawltest.TargetOpaque:
						same(t, "waits for", mustWaitFor(t, out, err, 1)[0].Kind, "doubt")
						if f.end = "waits"; absent {
							f.later++
						}
					case mode == pawltest.TargetLookup && absent:
						same(t, "waits for", mustWaitFor(t, out, err, 1)[0].Kind, "approval")
						same(t, "rows before the yes", f.bank.books(t).Count.Rows, 0)
						f.asks, f.end = 2, o.toEnd(t, th, "17")
					default:
						mustBeDone(t, out, err)
						f.end = "done"
					}
					f.count(t, o, th)
					same(t, "requests / rows / end", fmt.Sprintf("%d / %d / %s", f.Requests, f.Rows, f.end), d.want[i])
					grew(t, before, history(t, th))
					f.afterwards(t)
					return f.line()
				})
			})
		}
	}
}

// forkOfTheFork is S003-3.
func forkOfTheFork(t *testing.T, _ *report) {
	for _, mode := range allTargets {
		t.Run(string(mode), func(t *testing.T) {
			onEachMoney(t, func(t *testing.T, h *home) {
				ctx, target := context.Background(), pawltest.NewTarget(mode)
				o := firmIn(t, h)
				th := atDepth(t, payGraph(approvedWire(target))).Thread(o.eng, "t")
				receipts := []string{o.paid(t, th, "17")}
				for range 2 {
					before, at := history(t, th), beforeTransfer(t, th)
					p, err := th.PreviewFork(ctx, at)
					if err != nil || p.Refused != nil {
						t.Fatal(p, err)
					}
					var notes []string
					for _, n := range p.Notes {
						notes = append(notes, n.Text)
					}
					same(t, "notes of the preview", notes, []string{
						"effects already done 1 (receipt reused)", "effects that would need a new approval 0",
					})
					same(t, "questions that it would withdraw", len(p.Withdraw), 0)
					out, err := th.Fork(ctx, at, nil)
					mustBeDone(t, out, err)
					receipts = append(receipts, out.State.Receipt.Get())
					grew(t, before, history(t, th))
				}
				same(t, "branches", len(receipts), 3)
				same(t, "distinct receipts", distinct(receipts), 1)
				saw(t, target, 1, 0, 1)
				same(t, "asked", len(o.requests(t)), 1)
				linked(t, o, th, 3)
				settled(t, statusOf(t, th))
			})
		})
	}
}

// linked fails unless the trail links so many runs of a thread to the only operation: one dispatched it, the others
// reused its receipt.
func linked(t testing.TB, o *firm, th *nest.Thread[payment], branches int) {
	t.Helper()
	rows, err := audit.Of(context.Background(), o.db, "t1", o.operation(t).Key, 0)
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	var runs []string
	for _, r := range rows {
		count[r.Action]++
		if r.Action == "effect.committed" || r.Action == "effect.reused" {
			same(t, "thread in the trail", r.Thread, th.ID())
			runs = append(runs, r.Run)
		}
	}
	same(t, "dispatched, committed, reused", [3]int{count["effect.dispatched"], count["effect.committed"], count["effect.reused"]},
		[3]int{1, 1, branches - 1})
	same(t, "branches in the trail", distinct(runs), branches)
	same(t, "operation", o.operation(t).State, effect.StateCommitted)
}
