package suite

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/effect"
	"github.com/pawl-dev/pawl/internal/nest"
	"github.com/pawl-dev/pawl/pawltest"
	"github.com/pawl-dev/pawl/redact"
	"github.com/pawl-dev/pawl/storage"
)

// acceptanceRest: what people see, what can be proved, and the verbs.
func acceptanceRest() []scenario {
	return []scenario{
		{id: "A58", run: redactedBeforeStored},
		{id: "A65", run: everyVerbItsPermission, flat: "it counts what a verb reads, and looking inside reads"},
		{id: "A70", run: unfencedCallIsReported},
		{id: "A71", run: plannedAsANewCall},
	}
}

type tx = storage.Tx

func update(db storage.DB, fn func(tx) error) error {
	return db.Update(context.Background(), func(_ context.Context, tx tx) error { return fn(tx) })
}

// everyVerbItsPermission is A65: each verb is allowed by itself, refused without its permission before anything is read,
// and none of them sends what may have happened.
func everyVerbItsPermission(t *testing.T, _ *report) {
	verbs := map[pawl.Verb]func(context.Context, *nest.Thread[payment]) error{
		pawl.VerbResume: func(ctx context.Context, th *nest.Thread[payment]) error { _, err := th.Resume(ctx); return err },
		pawl.VerbRetry:  func(ctx context.Context, th *nest.Thread[payment]) error { _, err := th.Retry(ctx); return err },
		pawl.VerbReplay: func(ctx context.Context, th *nest.Thread[payment]) error {
			_, err := th.Replay(ctx, pawl.Before("transfer"))
			return err
		},
		pawl.VerbFork: func(ctx context.Context, th *nest.Thread[payment]) error {
			_, err := th.Fork(ctx, pawl.Before("transfer"), nil)
			return err
		},
	}
	for verb, do := range verbs {
		t.Run(string(verb), func(t *testing.T) {
			onEachMoney(t, func(t *testing.T, h *home) {
				ctx, target := context.Background(), pawltest.NewTarget(pawltest.TargetOpaque)
				target.DropAt(pawltest.TargetCommitted, 1)
				o := firmIn(t, h)
				g := atDepth(t, payGraph(wire(target)))
				same(t, "end", o.toEnd(t, g.Thread(o.eng, "t"), "17"), "waits")
				counted := &reads{DB: o.db}
				only := func(allow func(pawl.Verb) bool) *nest.Thread[payment] {
					return g.Thread(o.guarded(t, counted, allow), "t")
				}
				before := o.kept(t, target)
				others := only(func(v pawl.Verb) bool { return v != verb })
				counted.n.Store(0)
				if err := do(ctx, others); !errors.Is(err, pawl.ErrDenied) {
					t.Errorf("without its permission: %v", err)
				}
				same(t, "reads before the refusal", counted.n.Load(), 0)
				same(t, "operations, requests and target", o.kept(t, target), before)
				if err := do(ctx, only(func(v pawl.Verb) bool { return v == verb })); errors.Is(err, pawl.ErrDenied) {
					t.Errorf("with its permission: %v", err)
				}
				saw(t, target, 1, 0, 1)
			})
		})
	}
}

// guarded is another engine of the same process, which allows some verbs.
func (o *firm) guarded(t testing.TB, db storage.DB, allow func(pawl.Verb) bool) *pawl.Engine {
	return engine(t, db, &pawl.Options{Parts: []pawl.Part{redact.New(nil), o.ledger}, Allow: func(_ context.Context, v pawl.VerbInfo) error {
		if !allow(v.Verb) {
			return fmt.Errorf("%s is not allowed", v.Verb)
		}
		return nil
	}}).Tenant("t1")
}

// reads counts how often a home is looked into.
type reads struct {
	storage.DB
	n atomic.Int64 // an engine looks by itself, too
}

func (r *reads) View(ctx context.Context, fn func(context.Context, storage.Tx) error) error {
	r.n.Add(1)
	return r.DB.View(ctx, fn)
}

func (r *reads) Update(ctx context.Context, fn func(context.Context, storage.Tx) error) error {
	r.n.Add(1)
	return r.DB.Update(ctx, fn)
}

// plannedAsANewCall is A71: the agent times out and plans the same payment as a new tool call.
func plannedAsANewCall(t *testing.T, _ *report) {
	for _, mode := range []pawltest.TargetMode{pawltest.TargetKeys, pawltest.TargetLookup} {
		t.Run(string(mode), func(t *testing.T) {
			onEachMoney(t, func(t *testing.T, h *home) {
				ctx, target, calls := context.Background(), pawltest.NewTarget(mode), 0
				target.DropAt(pawltest.TargetCommitted, 1)
				o, e := firmIn(t, h), wire(target)
				g := atDepth(t, pawl.New[payment]("agent").Node("plan", func(ctx context.Context, s *payment) error {
					calls++
					id := fmt.Sprintf("call_%d", calls) // the model gives each call an id of its own
					if _, err := pawl.Step(ctx, id, func(context.Context) (string, error) { return "a plan", nil }); err != nil {
						return err
					}
					r, err := e.Do(ctx, effect.Ref("invoice", "17"), hundred)
					if doubt := (*effect.InDoubtError)(nil); errors.As(err, &doubt) {
						return nil // it says that it failed, and is asked again
					}
					s.Receipt.Set(r.ID)
					return err
				}, pawl.Uses(e)).Path(pawl.Start, "plan").Route("plan", func(s *payment) []pawl.Next {
					if s.Receipt.Get() == "" {
						return pawl.To("plan")
					}
					return pawl.To(pawl.End)
				}, "plan", pawl.End))
				for _, id := range []string{"one", "two"} {
					out, err := g.Thread(o.eng, id).Run(ctx, &payment{})
					mustBeDone(t, out, err)
					same(t, "receipt", out.State.Receipt.Get(), target.Rows()[0].ID)
				}
				same(t, "rows", target.Count().Rows, 1)
				same(t, "operation", o.operation(t).State, effect.StateCommitted)
				if calls < 2 {
					t.Errorf("%d plans", calls)
				}
			})
		})
	}
}
