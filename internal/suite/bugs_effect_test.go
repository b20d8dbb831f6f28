package suite

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/approval"
	"github.com/pawl-dev/pawl/effect"
	"github.com/pawl-dev/pawl/internal/house"
	"github.com/pawl-dev/pawl/pawltest"
	"github.com/pawl-dev/pawl/sqlite"
	"github.com/pawl-dev/pawl/storage/fault"
)

func items[T any](all iter.Seq2[int, T]) (out []T) {
	for _, v := range all {
		out = append(out, v)
	}
	return out
}

// payRef pays a hundred under a reference.
func payRef(ctx context.Context, e wiring, ref string) (string, error) {
	r, err := e.Do(ctx, effect.Ref("order", ref), hundred)
	return r.ID, err
}

// threeChild is the process of 019: three nodes with an effect each, and a death at one of its storage points.
type threeChild struct {
	Path, Bank, Book string
	Mode             pawl.Durability
	Point            int
}

func threeEffects(b bank) (*pawl.Graph[mortalState], error) {
	e := wire(b)
	node := func(ref string) func(context.Context, *mortalState) error {
		return func(ctx context.Context, s *mortalState) error {
			id, err := payRef(ctx, e, ref)
			if err == nil {
				s.Log.Add(id)
			}
			return err
		}
	}
	return pawl.New[mortalState]("three").Node("a", node("1"), pawl.Uses(e)).Node("b", node("2"), pawl.Uses(e)).
		Node("c", node("3"), pawl.Uses(e)).Path(pawl.Start, "a", "b", "c").Build()
}

func threeEffectsChild(doc []byte) {
	c := args[threeChild](doc)
	db := fault.Wrap(must(sqlite.Open(c.Path, house.Kinds()...)), fault.Plan{At: fault.At(c.Point, fault.Do(killSelf))})
	o := must(openFirm(db, c.Path, "1"))
	g := must(threeEffects(&remoteBank{c.Bank, c.Book, pawltest.TargetKeys, os.Getpid()}))
	must(g.Thread(o.eng, "t").Run(context.Background(), &mortalState{}, pawl.WithDurability(c.Mode)))
	must(0, o.eng.Close())
	fmt.Println("over")
}

// killedBetweenResultAndCheckpoint is 019: a death before and after every durable write, in every durability.
func killedBetweenResultAndCheckpoint(t *testing.T, _ *report) {
	at := startBank(t)
	for _, mode := range []pawl.Durability{pawl.Sync, pawl.Async, pawl.Exit} {
		t.Run(string(mode), func(t *testing.T) {
			deaths := 0
			for n := 0; ; n++ {
				h := moneyHome(t, newFile(t))
				book := fmt.Sprint(t.Name(), n)
				c := spawn(t, "bug-three", threeChild{h.path, at, book, mode, n})
				over := c.line() == "over"
				c.cmd.Wait()
				o := firmIn(t, h)
				b := &remoteBank{URL: at, Book: book, mode: pawltest.TargetKeys}
				g, err := threeEffects(b)
				if err != nil {
					t.Fatal(err)
				}
				th := g.Thread(o.eng, "t")
				out, err := th.Run(context.Background(), &mortalState{}, pawl.WithDurability(mode))
				if refused := (*pawl.VerbError)(nil); errors.As(err, &refused) { // the run was accepted before the death
					out, err = th.Resume(context.Background())
				}
				if !over {
					deaths++
					mustBeDone(t, out, err)
				}
				books := b.books(t)
				seen := map[string]int{}
				for _, row := range books.Rows {
					seen[row.Ref]++
				}
				same(t, fmt.Sprintf("rows of the target, death %d", n), fmt.Sprint(seen), "map[order:1:1 order:2:1 order:3:1]")
				for _, op := range o.operations(t) {
					same(t, "state of "+op.Ref.String(), op.State, effect.StateCommitted)
				}
				same(t, "keys", distinct(books.Keys), 3)
				o.eng.Close()
				if over {
					break
				}
			}
			if deaths < 14 { // two for each of three dispatches and outcomes, at least
				t.Errorf("only %d deaths", deaths)
			}
		})
	}
}

// thirdEffectFails is 020.
func thirdEffectFails(t *testing.T, _ *report) {
	for _, mode := range allTargets {
		t.Run(string(mode), func(t *testing.T) {
			onEachMoney(t, func(t *testing.T, h *home) {
				target, l := pawltest.NewTarget(mode), newLedger(t)
				broken := true
				e := effect.New("mail", func(ctx context.Context, op effect.Op, to string) (string, error) {
					l.add(op.Ref.ID)
					if broken && op.Ref.ID == "E3" {
						return "", effect.NotSent(errors.New("no route to the host"))
					}
					return target.Send(ctx, op.Key, op.Ref.String(), []byte(to))
				})
				g := build(t, pawl.New[mortalState]("turn").Node("tools", func(ctx context.Context, s *mortalState) error {
					for _, id := range []string{"E1", "E2", "E3"} {
						r, err := e.Do(ctx, effect.Ref("mail", id), "acme")
						if err != nil {
							return err
						}
						s.Log.Add(r)
					}
					return nil
				}, pawl.Uses(e)).Path(pawl.Start, "tools"))
				th := g.Thread(firmIn(t, h).eng, "t")
				unsent := (*effect.NotSentError)(nil)
				if _, err := th.Run(context.Background(), &mortalState{}); !errors.As(err, &unsent) {
					t.Fatal(err)
				}
				tally(t, l, map[string]int{"E1": 1, "E2": 1, "E3": 1})
				saw(t, target, 2, 0, 2)
				broken = false
				out, err := th.Resume(context.Background())
				mustBeDone(t, out, err)
				tally(t, l, map[string]int{"E1": 1, "E2": 1, "E3": 2})
				saw(t, target, 3, 0, 3)
				var want []string
				for _, row := range target.Rows() {
					want = append(want, row.ID)
				}
				same(t, "receipts", items(out.State.Log.All()), want)
			})
		})
	}
}

// plannedAgain is 022: a model that was told of a timeout proposes the same action under a new call id.
func plannedAgain(t *testing.T, _ *report) {
	for _, mode := range allTargets {
		t.Run(string(mode), func(t *testing.T) {
			onEachMoney(t, func(t *testing.T, h *home) {
				ctx, target := context.Background(), pawltest.NewTarget(mode)
				e, calls := wire(target), 0
				g := build(t, pawl.New[mortalState]("agent").Node("agent", func(ctx context.Context, s *mortalState) error {
					var err error
					for range 3 { // each proposal is a tool call of its own
						calls++
						id := ""
						if id, err = payRef(ctx, e, "7"); err == nil {
							s.Log.Add(id)
							return nil
						}
					}
					return err
				}, pawl.Uses(e)).Path(pawl.Start, "agent"))
				target.DropAt(pawltest.TargetCommitted, 1)
				o := firmIn(t, h)
				th := g.Thread(o.eng, "t")
				out, err := th.Run(ctx, &mortalState{})
				switch mode {
				case pawltest.TargetKeys:
					saw(t, target, 2, 0, 1)
				case pawltest.TargetLookup:
					saw(t, target, 1, 1, 1)
				default: // unknown blocks every other dispatch, until somebody knows
					same(t, "waits for", mustWaitFor(t, out, err, 1)[0].Kind, "doubt")
					same(t, "proposals", calls, 3)
					saw(t, target, 1, 0, 1)
					said := effect.Applied(receipt{target.Rows()[0].ID})
					if _, err := o.effects.Release(actor("ops"), o.operation(t).Key, said, "it is on the statement"); err != nil {
						t.Fatal(err)
					}
					out, err = th.Resume(ctx)
					saw(t, target, 1, 0, 1)
				}
				same(t, "state", mustBeDone(t, out, err), fmt.Sprintf(`{"log":[%q]}`, target.Rows()[0].ID))
				same(t, "keys", distinct(target.Keys()), 1)
				// The same proposal in another turn of the conversation gets the recorded result.
				out, err = g.Thread(o.eng, "another turn").Run(ctx, &mortalState{})
				same(t, "state", mustBeDone(t, out, err), fmt.Sprintf(`{"log":[%q]}`, target.Rows()[0].ID))
				same(t, "rows", target.Count().Rows, 1)
			})
		})
	}
}

// failedAndApplied is 023: the target reports a failure, with an empty message, after it made the change; the node is
// tried three times by itself.
func failedAndApplied(t *testing.T, _ *report) {
	for name, c := range map[string]struct {
		says  func(error) error
		first pawltest.TargetPoint // where the first request fails
		want  map[pawltest.TargetMode]string
		ends  effect.State
	}{
		"unknown": {func(err error) error { return err }, pawltest.TargetCommitted, map[pawltest.TargetMode]string{
			pawltest.TargetKeys: "2 requests, 0 look-ups, 1 rows", pawltest.TargetLookup: "1 requests, 1 look-ups, 1 rows",
			pawltest.TargetOpaque: "1 requests, 0 look-ups, 1 rows",
		}, ""},
		"failed without effect": {effect.NotSent, pawltest.TargetReceived, map[pawltest.TargetMode]string{
			pawltest.TargetKeys: "2 requests, 0 look-ups, 1 rows", pawltest.TargetLookup: "2 requests, 0 look-ups, 1 rows",
			pawltest.TargetOpaque: "2 requests, 0 look-ups, 1 rows",
		}, effect.StateCommitted},
		"refused for good": {effect.Rejected, pawltest.TargetReceived, map[pawltest.TargetMode]string{
			pawltest.TargetKeys: "1 requests, 0 look-ups, 0 rows", pawltest.TargetLookup: "1 requests, 0 look-ups, 0 rows",
			pawltest.TargetOpaque: "1 requests, 0 look-ups, 0 rows",
		}, effect.StateRejected},
	} {
		for _, mode := range allTargets {
			t.Run(name+"/"+string(mode), func(t *testing.T) {
				onEachMoney(t, func(t *testing.T, h *home) {
					target := pawltest.NewTarget(mode)
					target.DropAt(c.first, 1)
					e := wire(&saying{target, c.says})
					g := build(t, pawl.New[payment]("pay").Node("transfer", pays(e), pawl.Uses(e), pawl.Tries(3), pawl.Backoff(0, 0)).
						Path(pawl.Start, "transfer"))
					o := firmIn(t, h)
					out, err := g.Thread(o.eng, "t").Run(context.Background(), orderFor("17"))
					same(t, "the target saw", target.Count().String(), c.want[mode])
					want := c.ends
					if want == "" {
						if want = effect.StateCommitted; mode == pawltest.TargetOpaque {
							want = effect.StateQuarantined
							same(t, "waits for", mustWaitFor(t, out, err, 1)[0].Kind, "doubt")
						}
					}
					same(t, "the operation", o.operation(t).State, want)
					refused := (*effect.RejectedError)(nil)
					same(t, "the run was refused", errors.As(err, &refused), want == effect.StateRejected)
				})
			})
		}
	}
}

// saying is a bank whose failures are told as something else.
type saying struct {
	*pawltest.Target
	says func(error) error
}

func (s *saying) Send(ctx context.Context, key, ref string, body []byte) (string, error) {
	id, err := s.Target.Send(ctx, key, ref, body)
	if err != nil {
		err = s.says(errors.New(""))
	}
	return id, err
}

// changedWhileParked is 076: a hundred is approved, and then the call is for another amount.
func changedWhileParked(t *testing.T, _ *report) {
	for _, mode := range allTargets {
		t.Run("edit/"+string(mode), func(t *testing.T) {
			onEachMoney(t, func(t *testing.T, h *home) { approvedThenChanged(t, h, mode, true) })
		})
		t.Run("outside/"+string(mode), func(t *testing.T) {
			onEachMoney(t, func(t *testing.T, h *home) { approvedThenChanged(t, h, mode, false) })
		})
	}
}

// approvedThenChanged changes the amount by an edit of the state, or behind the state's back.
func approvedThenChanged(t *testing.T, h *home, mode pawltest.TargetMode, edit bool) {
	ctx, target, more := context.Background(), pawltest.NewTarget(mode), "120.00"
	e, amount := approvedWire(target), ""
	o := firmIn(t, h)
	node := func(ctx context.Context, s *payment) error {
		order := s.Order.Get()
		if amount != "" {
			order.Amount = amount
		}
		_, err := e.Do(ctx, effect.Ref("invoice", "17"), order)
		return err
	}
	th := build(t, pawl.New[payment]("pay").Node("transfer", node, pawl.Uses(e)).Path(pawl.Start, "transfer")).Thread(o.eng, "t")
	out, err := th.Run(ctx, orderFor("17"))
	mustWaitFor(t, out, err, 1)
	o.yes(t)
	granted := o.requests(t)[0]
	if edit {
		_, err = th.Edit(ctx, func(s *payment) error { s.Order.Set(transfer{"acme", more, "EUR"}); return nil })
		if err != nil {
			t.Fatal(err)
		}
		out, err = th.Resume(ctx)
	} else {
		amount = more
		changed := (*effect.ChangedError)(nil)
		before := o.kept(t, target)
		if out, err = th.Resume(ctx); !errors.As(err, &changed) || changed.Path != "$.amount" && changed.Path != "/amount" {
			t.Fatalf("got %+v, %v", out, err)
		}
		same(t, "operations, requests and target", o.kept(t, target), before)
		out, err = th.Retry(ctx)
	}
	q := mustWaitFor(t, out, err, 1)[0] // asked again, about what would run
	says(t, string(q.Body), `"120.00"`)
	saw(t, target, 0, 0, 0)
	old, err := o.approvals.Show(ctx, granted.ID)
	if err != nil || old.State != approval.Lapsed {
		t.Errorf("the grant for a hundred is %+v, %v", old, err)
	}
	o.yes(t)
	out, err = th.Resume(ctx)
	mustBeDone(t, out, err)
	saw(t, target, 1, 0, 1)
	says(t, target.Rows()[0].Body, `"120.00"`)
	same(t, "consumed", len(o.requests(t, approval.Consumed)), 1)
	same(t, "asked", len(o.requests(t)), 2)
}
