package suite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/approval"
	"github.com/pawl-dev/pawl/effect"
	"github.com/pawl-dev/pawl/internal/house"
	"github.com/pawl-dev/pawl/internal/nest"
	"github.com/pawl-dev/pawl/pawltest"
	"github.com/pawl-dev/pawl/storage"
)

// oneIntentOneDispatch is P2: verbs in any order over a target that fails at any point.
func oneIntentOneDispatch(t *testing.T, _ *report) {
	for _, mode := range allTargets {
		t.Run(string(mode), func(t *testing.T) {
			onEachMoney(t, func(t *testing.T, h *home) {
				for seed := range uint64(8) {
					anyVerbs(t, h, mode, rand.New(rand.NewPCG(seed, 2)), fmt.Sprint(seed))
				}
			})
		})
	}
}

// anyVerbs is one walk over one intent of its own.
func anyVerbs(t *testing.T, h *home, mode pawltest.TargetMode, r *rand.Rand, invoice string) {
	t.Helper()
	ctx, target, o := context.Background(), pawltest.NewTarget(mode), firmIn(t, h)
	th := atDepth(t, payGraph(wire(target))).Thread(o.eng, "walk "+invoice)
	said, receipts := 0, map[string]bool{}
	settle := func() {
		unknown, err := o.effects.Unknown(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, op := range unknown {
			is := effect.NotApplied()
			if rows := target.Rows(); len(rows) > 0 {
				is = effect.Applied(receipt{rows[0].ID})
			} else {
				said++
			}
			if _, err := o.effects.Release(actor("ops"), op.Key, is, "looked it up"); err != nil {
				t.Fatal(err)
			}
		}
	}
	verbs := []func() (*pawl.OutcomeOf[payment], error){
		func() (*pawl.OutcomeOf[payment], error) { return th.Resume(ctx) },
		func() (*pawl.OutcomeOf[payment], error) { return th.Retry(ctx) },
		func() (*pawl.OutcomeOf[payment], error) { return th.Replay(ctx, pawl.Before("transfer")) },
		func() (*pawl.OutcomeOf[payment], error) { return th.Fork(ctx, pawl.Before("first"), nil) },
	}
	run := func(do func() (*pawl.OutcomeOf[payment], error)) {
		out, err := do()
		if err != nil && !allowedInAWalk(err) {
			t.Fatalf("%v (%T)", err, err)
		}
		if err == nil && out.Status == pawl.Done {
			receipts[out.State.Receipt.Get()] = true
		}
	}
	drop := func() {
		target.DropAt([]pawltest.TargetPoint{pawltest.TargetReceived, pawltest.TargetCommitted}[r.IntN(2)], r.IntN(2))
	}
	drop()
	run(func() (*pawl.OutcomeOf[payment], error) { return th.Run(ctx, orderFor(invoice)) })
	for range 12 {
		drop()
		if r.IntN(4) == 0 {
			settle()
		}
		run(verbs[r.IntN(len(verbs))])
	}
	target.DropAt("", 0)
	settle()
	run(verbs[3])
	same(t, "walk "+invoice+": rows", target.Count().Rows, 1)
	same(t, "receipts", receipts, map[string]bool{target.Rows()[0].ID: true})
	attempts, absent, committed := 0, 0, 0
	for _, op := range o.operations(t) {
		if op.Ref.ID != invoice {
			continue
		}
		s, err := o.effects.Show(ctx, op.Key)
		if err != nil {
			t.Fatal(err)
		}
		attempts += len(s.Attempts)
		for _, e := range s.Evidence {
			if e.Found == "absent" {
				absent++
			}
		}
		switch op.State {
		case effect.StateCommitted:
			committed++
		case effect.StateVoided: // given up by a verb, after it was proven that nothing was done
		default:
			t.Errorf("walk %s: operation %s is %s", invoice, op.Key, op.State)
		}
	}
	same(t, "committed", committed, 1)
	same(t, "attempts", attempts, target.Count().Requests)
	// A second dispatch has a reason: a target that knows the key, or as many proofs or words of a person that nothing was done.
	if again := attempts - 1; mode != pawltest.TargetKeys && again > absent || mode == pawltest.TargetOpaque && again > said {
		t.Errorf("walk %s: sent %d times more, with %d proofs and %d words of a person", invoice, again, absent, said)
	}
}

// allowedInAWalk are the refusals and failures that a verb may meet.
func allowedInAWalk(err error) bool {
	run, verb, unsettled := (*pawl.RunError)(nil), (*pawl.VerbError)(nil), (*effect.UnsettledError)(nil)
	return errors.As(err, &run) || errors.As(err, &verb) || errors.As(err, &unsettled)
}

// spendings is a home that notes in which Updates grants are consumed and operations dispatched.
type spendings struct {
	storage.DB
	alone, together int
}

func (s *spendings) Update(ctx context.Context, fn func(ctx context.Context, tx storage.Tx) error) error {
	var w *spendingTx
	err := s.DB.Update(ctx, func(ctx context.Context, tx storage.Tx) error {
		w = &spendingTx{Tx: tx}
		return fn(ctx, w)
	})
	switch {
	case err != nil || w.consumed == "" && w.dispatched == "":
	case w.consumed == w.dispatched:
		s.together++
	default:
		s.alone++
	}
	return err
}

type spendingTx struct {
	storage.Tx
	consumed, dispatched string // operation
}

func (s *spendingTx) Put(kind string, row storage.Row, cond storage.If) (bool, error) {
	held, err := s.Tx.Put(kind, row, cond)
	if held && err == nil && kind == "approval" && row.Fields[4] == string(approval.Consumed) {
		s.consumed = row.Fields[0].(string)
	}
	if held && err == nil && kind == "operation" && row.Fields[1] == string(effect.StateDispatched) {
		s.dispatched = row.Fields[0].(string)
	}
	return held, err
}

// oneUseOfOneCall is P4.
func oneUseOfOneCall(t *testing.T, _ *report) {
	for _, mode := range allTargets {
		t.Run(string(mode), func(t *testing.T) {
			onEachMoney(t, func(t *testing.T, h *home) {
				ctx, target, db := context.Background(), pawltest.NewTarget(mode), &spendings{DB: h.open(t)}
				watched := &home{name: h.name, path: h.path, open: func(testing.TB) storage.DB { return db }}
				o := firmIn(t, watched)
				g := atDepth(t, payGraph(approvedWire(target)))
				one, two := g.Thread(o.eng, "one"), g.Thread(o.eng, "two")
				for _, th := range []*nest.Thread[payment]{one, two} { // one intent, asked for and granted twice
					out, err := th.Run(ctx, orderFor("17"))
					mustWaitFor(t, out, err, 1)
				}
				same(t, "granted", o.yes(t), 2)
				same(t, "consumed before the dispatch", len(o.requests(t, approval.Consumed)), 0)
				first := o.paid(t, one, "17")
				same(t, "the duplicate's receipt", o.paid(t, two, "17"), first)
				same(t, "consumed", len(o.requests(t, approval.Consumed)), 1)
				spare := o.requests(t, approval.Lapsed)
				if len(spare) != 1 || spare[0].Thread != "two" || spare[0].UsedBy != "" || !strings.HasPrefix(spare[0].Unused, "unused: duplicate of") {
					t.Errorf("the duplicate's grant is %+v", spare)
				}
				// Neither grant opens anything else: another invoice asks, and so does another call for a new one.
				for i, invoice := range []string{"18", "19"} {
					out, err := g.Thread(o.eng, invoice).Run(ctx, orderFor(invoice))
					mustWaitFor(t, out, err, 1)
					same(t, "rows without a yes", target.Count().Rows, 1+i)
					o.paid(t, g.Thread(o.eng, invoice), invoice)
				}
				same(t, "consumed", len(o.requests(t, approval.Consumed)), 3)
				same(t, "Updates that consume and dispatch, that do one of them", [2]int{db.together, db.alone}, [2]int{3, 0})
				saw(t, target, 3, 0, 3)
			})
		})
	}
}

// secretTransfer carries what an approver must not see.
type secretTransfer struct {
	transfer
	APIKey string `json:"api_key"`
}

const canary = "canary-5f1c77a0c2"

// truthWithoutSecrets is P9.
func truthWithoutSecrets(t *testing.T, _ *report) {
	onEachMoney(t, func(t *testing.T, h *home) {
		ctx, o := context.Background(), firmIn(t, h)
		ran := ""
		send := func(_ context.Context, _ effect.Op, in secretTransfer) (receipt, error) {
			ran = compact(in)
			return receipt{"tx-1"}, nil
		}
		e := effect.New("bank.transfer", send).Material("to", "amount", "currency").Approve(approval.Levels{{To: "finance"}})
		ask := pawl.Interrupt[map[string]string, string]{Name: "check"}
		order := secretTransfer{hundred, canary} // the secret comes from outside the state
		g := atDepth(t, pawl.New[payment]("pay").Node("check", func(ctx context.Context, _ *payment) error {
			_, err := ask.Ask(ctx, map[string]string{"vendor": "acme", "password": canary, "link": "https://u:" + canary + "@acme.example/"})
			return err
		}, pawl.Uses(ask)).Node("transfer", func(ctx context.Context, s *payment) error {
			r, err := e.Do(ctx, effect.Ref("invoice", "17"), order)
			s.Receipt.Set(r.ID)
			return err
		}, pawl.Uses(e)).Path(pawl.Start, "check", "transfer"))
		th := g.Thread(o.eng, "t")
		out, err := th.Run(ctx, &payment{})
		q := mustWaitFor(t, out, err, 1)[0]
		same(t, "the question", string(q.Body), `{"link":"https://[hidden]@acme.example/","password":"[hidden]","vendor":"acme"}`)
		out, err = th.Resume(ctx, ask.Answer(q.ID, "yes"))
		mustWaitFor(t, out, err, 1)
		r := o.requests(t, approval.Requested)[0]
		var view struct{ Params json.RawMessage }
		if err := json.Unmarshal(r.View, &view); err != nil {
			t.Fatal(err)
		}
		same(t, "the view", string(view.Params), strings.ReplaceAll(compact(order), canary, "[hidden]"))
		o.yes(t)
		out, err = th.Resume(ctx)
		mustBeDone(t, out, err)
		same(t, "what ran", ran, compact(order))
		same(t, "the digest of what was approved", o.operation(t).Call, r.Call)
		err = o.db.View(ctx, func(_ context.Context, tx storage.Tx) error {
			for _, kind := range house.Kinds() {
				rows, err := tx.List(kind.Name, storage.Query{})
				if err != nil {
					return err
				}
				for _, row := range rows {
					if text := fmt.Sprintf("%q %q %s", row.Key, row.Fields, row.Body); strings.Contains(text, canary) {
						t.Errorf("the secret is in a row of %s: %s", kind.Name, text)
					}
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		// What decides must be seen: an approval that would hide it is not asked for.
		hiding := e.Material("to", "amount", "api_key")
		var hidden *effect.HiddenError
		th = atDepth(t, pawl.New[payment]("hiding").Node("transfer", func(ctx context.Context, _ *payment) error {
			_, err := hiding.Do(ctx, effect.Ref("invoice", "18"), order)
			return err
		}, pawl.Uses(hiding)).Path(pawl.Start, "transfer")).Thread(o.eng, "hiding")
		if _, err := th.Run(ctx, &payment{}); !errors.As(err, &hidden) || fmt.Sprint(hidden.Fields) != "[api_key]" {
			t.Errorf("a hidden material field: %v", err)
		}
		same(t, "asked", len(o.requests(t)), 1)
	})
}
