package suite

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/approval"
	"github.com/pawl-dev/pawl/effect"
	"github.com/pawl-dev/pawl/internal/nest"
	"github.com/pawl-dev/pawl/pawltest"
	"github.com/pawl-dev/pawl/storage"
	"github.com/pawl-dev/pawl/storage/fault"
)

// acceptanceWindows: where a worker can die, and what is then left and done.
func acceptanceWindows() []scenario {
	return []scenario{
		{id: "A10", run: nothingSentYet},
		{id: "A11", run: perhapsSent},
		{id: "A12", run: committedUnheard},
		{id: "A13", run: outcomeStored},
		{id: "A16", run: yesterdaysLedger},
		{id: "A18", run: fullBeforeDispatch},
		{id: "A19", run: panicInEffect},
	}
}

// nothingSentYet is A10, the windows W0 to W4.
func nothingSentYet(t *testing.T, _ *report) {
	at := startBank(t)
	for _, d := range deaths[:3] {
		for _, mode := range allTargets {
			t.Run(d.name+"/"+string(mode), func(t *testing.T) {
				three(t, func(t *testing.T) string {
					f := d.killedAt(t, at, mode)
					o := firmIn(t, f.home)
					same(t, "the target saw", f.bank.books(t).Count, pawltest.TargetCount{})
					same(t, "approvals spent", len(o.requests(t, approval.Consumed)), 0)
					left := ""
					for _, op := range o.operations(t) {
						left += fmt.Sprint(op.State, " with ", op.Attempts, " attempts")
					}
					if want := "reserved with 0 attempts"; left != want && (d.state != effect.StateReserved || d.after || left != "") {
						t.Errorf("left behind: %q, want %q", left, want)
					}
					same(t, "end", o.toEnd(t, f.thread(t, o, "t"), "17"), "done")
					same(t, "operation", o.operation(t).State, effect.StateCommitted)
					f.count(t, o, f.thread(t, o, "t"))
					return f.line() + left
				})
			})
		}
	}
}

// perhapsSent is A11, the windows W5 and W6: sent again, looked up, or left to a person.
func perhapsSent(t *testing.T, _ *report) {
	at := startBank(t)
	for _, d := range deaths[3:5] {
		for i, mode := range allTargets {
			t.Run(d.name+"/"+string(mode), func(t *testing.T) {
				three(t, func(t *testing.T) string {
					f := d.die(t, at, mode)
					same(t, "requests / rows / end", fmt.Sprintf("%d / %d / %s", f.Requests, f.Rows, f.end), d.want[i])
					f.afterwards(t)
					return f.line()
				})
			})
		}
	}
}

// committedUnheard is A12, the windows W7 and W8, and a worker that lives and sees only a dropped connection.
func committedUnheard(t *testing.T, _ *report) {
	at := startBank(t)
	for _, mode := range allTargets {
		for _, d := range deaths[5:7] {
			t.Run(d.name+"/"+string(mode), func(t *testing.T) {
				three(t, func(t *testing.T) string {
					f := d.die(t, at, mode)
					same(t, "rows", f.Rows, 1)
					f.afterwards(t)
					return f.line()
				})
			})
		}
		t.Run("dropped/"+string(mode), func(t *testing.T) {
			onEachMoney(t, func(t *testing.T, h *home) {
				target, o := pawltest.NewTarget(mode), firmIn(t, h)
				target.DropAt(pawltest.TargetCommitted, 1)
				th := atDepth(t, payGraph(approvedWire(target))).Thread(o.eng, "t")
				end := o.toEnd(t, th, "17")
				if mode == pawltest.TargetOpaque {
					same(t, "end", end, "waits")
					saw(t, target, 1, 0, 1)
					return
				}
				same(t, "end", end, "done")
				same(t, "receipt", receiptIn(t, th), target.Rows()[0].ID)
				same(t, "rows", target.Count().Rows, 1)
			})
		})
	}
}

// outcomeStored is A13, the windows W9 and W10: the receipt is returned, nothing is sent, and whoever watches over the
// death gets one event a seq.
func outcomeStored(t *testing.T, _ *report) {
	at := startBank(t)
	for i, mode := range allTargets {
		t.Run(string(mode), func(t *testing.T) {
			three(t, func(t *testing.T) string {
				d := deaths[7]
				f := d.killedAt(t, at, mode)
				o := firmIn(t, f.home)
				th := f.thread(t, o, "t")
				left := 0 // what the watcher sees of the run that died
				seen := watched(t, th, 0, func(pawl.Event) bool { left++; return left == 3 })
				same(t, "end", o.toEnd(t, th, "17"), "done")
				seen = append(seen, watched(t, th, seen[len(seen)-1].Seq, func(e pawl.Event) bool { return e.Kind == pawl.EventFinished })...)
				for i, e := range seen[1:] {
					if e.Seq <= seen[i].Seq {
						t.Errorf("event %d after event %d", e.Seq, seen[i].Seq)
					}
				}
				f.count(t, o, th)
				same(t, "requests / rows", fmt.Sprintf("%d / %d / done", f.Requests, f.Rows), d.want[i])
				return f.line()
			})
		})
	}
}

// watched are a thread's events after a number, up to the one that is enough.
func watched(t testing.TB, th *nest.Thread[payment], after int64, enough func(pawl.Event) bool) (events []pawl.Event) {
	t.Helper()
	for e, err := range th.Watch(context.Background(), after) {
		if err != nil {
			t.Fatal(err)
		}
		if events = append(events, e); enough(e) {
			break
		}
	}
	return events
}

// fullBeforeDispatch is A18, the window W19: the store refuses the write, so nothing is sent.
func fullBeforeDispatch(t *testing.T, _ *report) {
	for _, mode := range allTargets {
		t.Run(string(mode), func(t *testing.T) {
			onEachMoney(t, func(t *testing.T, h *home) {
				var full atomic.Bool
				real := h.open(t)
				cramped := &home{name: h.name, path: h.path, open: func(testing.TB) storage.DB {
					return fault.Wrap(real, fault.Plan{At: func(p fault.Point) fault.Action {
						if p.Place == fault.Before && full.Load() {
							return fault.Fail(storage.ErrFull)
						}
						return fault.Action{}
					}})
				}}
				target, o := pawltest.NewTarget(mode), firmIn(t, cramped)
				e := approvedWire(target)
				g := atDepth(t, pawl.New[payment]("pay").Node("transfer", func(ctx context.Context, s *payment) error {
					if len(o.requests(t, approval.Granted)) > 0 {
						full.CompareAndSwap(false, target.Count().Requests == 0 && !full.Load())
					}
					return pays(e)(ctx, s)
				}, pawl.Uses(e)).Path(pawl.Start, "transfer"))
				th := g.Thread(o.eng, "t")
				out, err := th.Run(context.Background(), orderFor("17"))
				mustWaitFor(t, out, err, 1)
				o.yes(t)
				before := o.kept(t, target)
				if _, err := th.Resume(context.Background()); !errors.Is(err, storage.ErrFull) {
					t.Fatalf("on a full disk: %v", err)
				}
				saw(t, target, 0, 0, 0)
				same(t, "operations, requests and target", o.kept(t, target), before)
				full.Store(false)
				again := firmIn(t, h)
				eventually(t, real, func() bool { return statusOf(t, th).Status != pawl.Running })
				same(t, "end", again.toEnd(t, atDepth(t, payGraphOf(e)).Thread(again.eng, "t"), "17"), "done")
				saw(t, target, 1, 0, 1)
				same(t, "asked", len(again.requests(t)), 1)
			})
		})
	}
}

// payGraphOf pays and does nothing else.
func payGraphOf(e wiring) *pawl.Builder[payment] {
	return pawl.New[payment]("pay").Node("transfer", pays(e), pawl.Uses(e)).Path(pawl.Start, "transfer")
}

// panicInEffect is A19: nobody knows what a function did that panicked.
func panicInEffect(t *testing.T, _ *report) {
	onEachMoney(t, func(t *testing.T, h *home) {
		o, calls := firmIn(t, h), 0
		e := effect.New("bank.transfer", func(context.Context, effect.Op, transfer) (receipt, error) {
			calls++
			panic("index out of range")
		})
		th := atDepth(t, payGraphOf(e)).Thread(o.eng, "t")
		for range 3 {
			same(t, "end", o.toEnd(t, th, "17"), "waits")
			same(t, "calls", calls, 1)
		}
		unknown, err := o.effects.Unknown(context.Background())
		if err != nil || len(unknown) != 1 {
			t.Fatalf("in doubt: %+v, %v", unknown, err)
		}
		same(t, "status", statusOf(t, th).Status, pawl.Waiting)
	})
}
