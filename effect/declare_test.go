package effect_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/approval"
	"github.com/pawl-dev/pawl/effect"
	"github.com/pawl-dev/pawl/pawltest"
	"github.com/pawl-dev/pawl/storage/fault"
)

func nothing(context.Context, effect.Op, transfer) (receipt, error) { return receipt{}, nil }

// What is wrong with a declaration is said when the graph is built, all at once.
func TestFaultsOfADeclaration(t *testing.T) {
	t.Parallel()
	good := effect.New("bank.transfer", nothing)
	for _, c := range []struct {
		name string
		e    money
		want string // empty: fine
	}{
		{"plain", good, ""},
		{"full", good.Keys(time.Hour).Material("to").Timeout(time.Second).Approve(approval.Levels{{To: "finance"}}), ""},
		{"two levels", good.Approve(approval.Levels{{To: "finance", For: time.Hour}, {To: "cfo"}}), ""},
		{"a level that is never reached", good.Approve(approval.Levels{{To: "finance"}, {To: "cfo"}}), `level "cfo" would never be asked`},
		{"no level", good.Approve(nil), "no level"},
		{"no retention", good.Keys(0), "how long the target remembers keys"},
		{"nil look-up", good.Lookup(nil), "Lookup(nil)"},
		{"nil function", effect.New[transfer, receipt]("x", nil), "no function"},
		{"material twice", good.Material("to", "to"), "each field once"},
		{"no material", good.Material(), "each field once"},
		{"no time", good.Timeout(0), "needs some time"},
		{"two faults", good.Keys(-1).Timeout(-1), "needs some time"},
		{"the zero effect's copy", money{}.Keys(time.Hour), "not made by effect.New"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			g := pawl.New[state]("g").Node("pay", payNode(c.e), pawl.Uses(c.e)).Edge(pawl.Start, "pay")
			_, err := g.Build()
			if c.want == "" {
				if err != nil || c.e.Fault() != nil {
					t.Errorf("got %v, %v", err, c.e.Fault())
				}
				return
			}
			if err == nil || c.e.UseName() != "" && !strings.Contains(err.Error(), c.want) {
				t.Errorf("Build: %v", err)
			}
			if _, err := c.e.Do(t.Context(), effect.Ref("k", "1"), hundred); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Do: %v", err)
			}
		})
	}
	if err := (money{}).Fault(); err == nil || (money{}).UseName() != "" {
		t.Errorf("the zero effect: %v", err)
	}
	if _, err := (money{}).Do(t.Context(), effect.Ref("k", "1"), hundred); err == nil {
		t.Error("the zero effect did something")
	}
}

// Each method returns a copy; the receiver stays as it was.
func TestDeclarationsAreValues(t *testing.T) {
	t.Parallel()
	base := effect.New("bank.transfer", nothing)
	_ = base.Keys(0)
	_ = base.Material("a", "a")
	if err := base.Fault(); err != nil {
		t.Errorf("the base has the faults of its copies: %v", err)
	}
}

func TestWhereAnEffectMayBeUsed(t *testing.T) {
	t.Parallel()
	target := pawltest.NewTarget(pawltest.TargetOpaque)
	e := bank(target)
	p := start(t, memory(t), fault.Plan{})
	t.Run("undeclared", func(t *testing.T) {
		_, err := graphOf(t, func(ctx context.Context, s *state) error {
			_ = payNode(e)(ctx, s) // ignoring it does not help
			return nil
		}).Thread(p.eng, "t").Run(t.Context(), order(hundred))
		got := (*pawl.UndeclaredError)(nil)
		if !errors.As(err, &got) || got.Node != "pay" || got.Name != "bank.transfer" {
			t.Errorf("got %v", err)
		}
	})
	t.Run("no ledger", func(t *testing.T) {
		eng, err := pawl.NewEngine(memory(t), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer eng.Close()
		_, err = graphOf(t, payNode(e), e).Thread(eng, "t").Run(t.Context(), order(hundred))
		if err == nil || !strings.Contains(err.Error(), "effect.NewLedger") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("no storage", func(t *testing.T) {
		eng, err := pawl.NewEngine(nil, &pawl.Options{Parts: []pawl.Part{p.led}})
		if err != nil {
			t.Fatal(err)
		}
		defer eng.Close()
		_, err = graphOf(t, payNode(e), e).Thread(eng, "t").Run(t.Context(), order(hundred))
		got := (*pawl.NoStorageError)(nil)
		if !errors.As(err, &got) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("bad parameters", func(t *testing.T) {
		f := effect.New("float", func(context.Context, effect.Op, map[string]any) (int, error) { return 0, nil })
		q := start(t, p.db, fault.Plan{})
		for name, in := range map[string]map[string]any{"float": {"amount": 1.5}, "big": {"amount": uint64(1 << 60)}, "no JSON": {"f": func() {}}} {
			g, err := pawl.New[state]("g-"+name).Node("n", func(ctx context.Context, _ *state) error {
				_, err := f.Do(ctx, effect.Ref("k", "1"), in)
				return err
			}, pawl.Uses(f)).Edge(pawl.Start, "n").Build()
			if err != nil {
				t.Fatal(err)
			}
			_, err = g.Thread(q.eng, "t-"+name).Run(t.Context(), order(hundred))
			got := (*effect.InputError)(nil)
			if !errors.As(err, &got) || len(q.operations()) != 0 {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
	wantCount(t, target, 0, 0, 0)
}

// In a plain test of a node there is no run: the function is called under a made-up Op, and nobody is asked.
func TestWithoutARun(t *testing.T) {
	t.Parallel()
	target := pawltest.NewTarget(pawltest.TargetKeys)
	s := order(hundred)
	if err := payNode(approved(bank(target)))(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if err := payNode(approved(bank(target)))(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	wantCount(t, target, 2, 0, 1)
	op := effect.Op{}
	e := effect.New("e", func(ctx context.Context, o effect.Op, _ transfer) (receipt, error) {
		op = o
		if _, ok := ctx.Deadline(); !ok {
			t.Error("the call has no deadline")
		}
		return receipt{}, errTest
	})
	if _, err := e.Do(t.Context(), effect.Ref("k", "1"), hundred); !errors.Is(err, errTest) {
		t.Errorf("got %v", err)
	}
	if len(op.Key) != 64 || len(op.UUID()) != 36 || op.UUID()[14] != '8' || op.Attempt != 1 || op.Ref != effect.Ref("k", "1") {
		t.Errorf("the made-up op is %+v", op)
	}
	if _, _, err := e.Result(t.Context(), effect.Ref("k", "1")); err == nil {
		t.Error("Result outside a run told something")
	}
}

// Result tells what ran, without sending.
func TestResult(t *testing.T) {
	t.Parallel()
	target := pawltest.NewTarget(pawltest.TargetOpaque)
	e := bank(target)
	p := start(t, memory(t), fault.Plan{})
	g := graphOf(t, func(ctx context.Context, s *state) error {
		if _, ok, err := e.Result(ctx, effect.Ref("invoice", "17")); ok || err != nil {
			return fmt.Errorf("before: %v, %w", ok, err)
		}
		if err := payNode(e)(ctx, s); err != nil {
			return err
		}
		r, ok, err := e.Result(ctx, effect.Ref("invoice", "17"))
		if !ok || err != nil || r.Ran != hundred || r.Receipt.ID != target.Rows()[0].ID || r.Operation.State != effect.StateCommitted {
			return fmt.Errorf("after: %+v, %v, %w", r, ok, err)
		}
		return nil
	}, e)
	if _, err := g.Thread(p.eng, "t").Run(t.Context(), order(hundred)); err != nil {
		t.Fatal(err)
	}
	wantCount(t, target, 1, 0, 1)
}

// An effect without approval costs two durable writes, one with approval four, and a receipt that is known none.
func TestDurableWrites(t *testing.T) {
	t.Parallel()
	writes := func(p *process, th *pawl.ThreadOf[state]) int {
		before := p.eng.Stats().Writes
		p.paid(th, hundred)
		return p.eng.Stats().Writes - before
	}
	plain, err := pawl.New[state]("plain").Node("pay", func(context.Context, *state) error { return nil }).Edge(pawl.Start, "pay").Build()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		e    money
		want int
	}{
		{"plain", bank(pawltest.NewTarget(pawltest.TargetOpaque)), 2},
		// reserve, dispatch, outcome, and the yes, which is not the run's; the wait stops the run and the resume claims it: two more
		{"approved", approved(bank(pawltest.NewTarget(pawltest.TargetOpaque))), 5},
	} {
		p := start(t, memory(t), fault.Plan{})
		base := writes(p, plain.Thread(p.eng, "base"))
		g, err := pawl.New[state]("g").Node("pay", payNode(c.e), pawl.Uses(c.e)).Edge(pawl.Start, "pay").Build()
		if err != nil {
			t.Fatal(err)
		}
		if got := writes(p, g.Thread(p.eng, "t")) - base; got != c.want {
			t.Errorf("%s: %d durable writes more, want %d", c.name, got, c.want)
		}
		th := g.Thread(p.eng, "t")
		before := p.eng.Stats().Writes
		if _, err := th.Replay(t.Context(), pawl.Before("pay")); err != nil {
			t.Fatal(err)
		}
		if got := p.eng.Stats().Writes - before; got > base+1 {
			t.Errorf("%s: a replay cost %d writes, a plain run %d", c.name, got, base)
		}
	}
}
