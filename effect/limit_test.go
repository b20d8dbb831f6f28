package effect_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/approval"
	"github.com/pawl-dev/pawl/effect"
	"github.com/pawl-dev/pawl/pawltest"
	"github.com/pawl-dev/pawl/storage"
	"github.com/pawl-dev/pawl/storage/fault"
)

// euros is what a transfer of whole euros uses.
func euros(in transfer) (int64, error) {
	return strconv.ParseInt(strings.TrimSuffix(in.Amount, ".00"), 10, 64)
}

func daily(max int64) effect.Limit[transfer] {
	return effect.Limit[transfer]{Name: "euros a day", Amount: euros, Max: max, Per: 24 * time.Hour}
}

func of(e money, p *process, thread, ref string, o transfer) (*pawl.OutcomeOf[state], error) {
	return p.thread(e, thread).Run(p.t.Context(), &state{Order: pawl.Of(o), Ref: pawl.Of(ref)})
}

// A72: forty distinct valid calls, from two processes at once. The cap stops them although every key is unique.
func TestFortyDistinctCalls(t *testing.T) {
	t.Parallel()
	onHomes(t, func(t *testing.T, db storage.DB) {
		target := pawltest.NewTarget(pawltest.TargetKeys)
		e := bank(target).Limit(daily(1500))
		one, two := start(t, db, fault.Plan{}), start(t, db, fault.Plan{})
		g := one.graph(e)
		two.g = g
		var wg sync.WaitGroup
		var mu sync.Mutex
		paid, held := 0, 0
		for i := range 40 {
			p := []*process{one, two}[i%2]
			wg.Go(func() {
				out, err := of(e, p, fmt.Sprint("t", i), fmt.Sprint(i), hundred)
				over := (*effect.LimitError)(nil)
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil && out.Status == pawl.Done:
					paid++
				case errors.As(err, &over) && over.Limit == "euros a day" && over.Max == 1500 && over.Amount == 100 && over.Used > 1400 && !over.Frees.IsZero():
					held++
				default:
					t.Errorf("%d: %+v, %v", i, out, err)
				}
			})
		}
		wg.Wait()
		if paid != 15 || held != 25 {
			t.Errorf("%d were paid and %d held", paid, held)
		}
		wantCount(t, target, 15, 0, 15)
		if again, err := one.thread(e, "t0").State(t.Context()); err != nil {
			t.Errorf("%+v, %v", again, err)
		}
		refusals := 0
		for i := range 40 {
			for _, a := range actions(t, db, fmt.Sprint("t", i)) {
				if a == "effect.refused" {
					refusals++
				}
			}
		}
		if refusals != 25 {
			t.Errorf("%d refusals are in the trail", refusals)
		}
	})
}

// A limit frees at the time that it said, a grant that was held back is then used, and other tenants are apart.
func TestALimitFrees(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		target := pawltest.NewTarget(pawltest.TargetKeys)
		e := bank(target).Approve(approval.Levels{{To: "finance", Valid: effect.Forever}}).Limit(daily(150))
		p := start(t, memory(t), fault.Plan{})
		run := func(id string) (*pawl.OutcomeOf[state], error) {
			out, err := of(e, p, id, id, hundred)
			if err != nil || p.yes(out) != 1 {
				t.Fatalf("%s: %+v, %v", id, out, err)
			}
			return p.thread(e, id).Resume(t.Context())
		}
		if out, err := run("1"); err != nil || out.Status != pawl.Done {
			t.Fatalf("got %+v, %v", out, err)
		}
		over := (*effect.LimitError)(nil)
		if _, err := run("2"); !errors.As(err, &over) {
			t.Fatalf("got %v", err)
		}
		for _, r := range p.requests() {
			if r.Ref == "invoice:2" && r.State != approval.Granted {
				t.Errorf("the grant is %s", r.State)
			}
		}
		<-time.After(time.Until(over.Frees) - time.Second)
		if _, err := p.thread(e, "2").Resume(t.Context()); !errors.As(err, &over) {
			t.Fatalf("a second early: %v", err)
		}
		<-time.After(time.Second)
		if out, err := p.thread(e, "2").Resume(t.Context()); err != nil || out.Status != pawl.Done {
			t.Fatalf("at the time: %+v, %v", out, err)
		}
		wantCount(t, target, 2, 0, 2)
		other := p.g.Thread(p.eng.Tenant("other"), "3")
		if out, err := other.Run(t.Context(), &state{Order: pawl.Of(hundred), Ref: pawl.Of("3")}); err != nil || out.Status != pawl.Waiting {
			t.Errorf("another tenant: %+v, %v", out, err)
		}
	})
}

// A call that never fits is not asked about; what certainly did not happen is given back; what is in doubt still counts.
func TestWhatCounts(t *testing.T) {
	t.Parallel()
	said := error(nil)
	e := effect.New("pay", func(context.Context, effect.Op, transfer) (receipt, error) { return receipt{"r"}, said }).
		Limit(effect.Limit[transfer]{Name: "three in all", Max: 3})
	p := start(t, memory(t), fault.Plan{})
	n := 0
	next := func(what error) error {
		n++
		said = what
		_, err := of(e, p, fmt.Sprint(n), fmt.Sprint(n), hundred)
		return err
	}
	if err := next(effect.NotSent(errTest)); err == nil {
		t.Fatal("what was not sent is done")
	}
	if err := next(effect.Rejected(errTest)); err == nil {
		t.Fatal("what was rejected is done")
	}
	if err := errors.Join(next(nil), next(nil)); err != nil {
		t.Fatal(err)
	}
	if err := next(errTest); err != nil && !errors.As(err, new(*effect.InDoubtError)) {
		t.Fatalf("of unknown outcome: %v", err)
	}
	over := (*effect.LimitError)(nil)
	if err := next(nil); !errors.As(err, &over) || over.Used != 3 || !over.Frees.IsZero() || !strings.Contains(err.Error(), "it will never fit") {
		t.Errorf("a fourth: %v", err)
	}
	asked := bank(pawltest.NewTarget(pawltest.TargetKeys)).Approve(approval.Levels{{To: "finance"}}).Limit(daily(50))
	p2 := start(t, memory(t), fault.Plan{})
	if _, err := of(asked, p2, "t", "1", hundred); !errors.As(err, &over) || len(p2.requests()) != 0 {
		t.Errorf("a call that never fits: %v, asked %d times", err, len(p2.requests()))
	}
}

func TestLimitDeclarations(t *testing.T) {
	t.Parallel()
	good := bank(pawltest.NewTarget(pawltest.TargetKeys))
	broken := good.Limit(effect.Limit[transfer]{Name: "x", Max: 1, Amount: func(transfer) (int64, error) { panic("no") }})
	for _, c := range []struct {
		name string
		e    money
		says string
	}{
		{"good", good.Limit(daily(1)).Limit(effect.Limit[transfer]{Name: "calls", Max: 5, Per: time.Minute}), ""},
		{"twice", good.Limit(daily(1)).Limit(daily(2)), "a name of its own"},
		{"no name", good.Limit(effect.Limit[transfer]{Max: 1}), "a name of its own"},
		{"nothing", good.Limit(daily(0)), "allows at most 0"},
		{"an instant", good.Limit(effect.Limit[transfer]{Name: "x", Max: 1, Per: 1}), "a second or more"},
		{"no rule", good.Check(nil), "Check(nil)"},
	} {
		if err := c.e.Fault(); (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	for name, e := range map[string]money{
		"panics":   broken,
		"negative": good.Limit(effect.Limit[transfer]{Name: "x", Max: 1, Amount: func(transfer) (int64, error) { return -1, nil }}),
		"fails":    good.Limit(effect.Limit[transfer]{Name: "x", Max: 1, Amount: func(transfer) (int64, error) { return 0, errTest }}),
		"refused":  good.Check(func(transfer) error { return errTest }),
	} {
		p := start(t, memory(t), fault.Plan{})
		if _, err := of(e, p, "t", "1", hundred); !errors.As(err, new(*effect.InputError)) {
			t.Errorf("%s: %v", name, err)
		}
		if len(p.operations()) != 0 {
			t.Errorf("%s: something was reserved", name)
		}
	}
}

// An agent may have so many requests open; one that is decided, or expired, makes room.
func TestOpenRequestsAreCapped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := approved(bank(pawltest.NewTarget(pawltest.TargetKeys)))
		p := start(t, memory(t), fault.Plan{}, func(o *effect.Options) { o.Open = approval.Caps{Graph: 2} })
		for i := range 2 {
			if out, err := of(e, p, fmt.Sprint(i), fmt.Sprint(i), hundred); err != nil || out.Status != pawl.Waiting {
				t.Fatalf("got %+v, %v", out, err)
			}
		}
		full := (*approval.FullError)(nil)
		if _, err := of(e, p, "2", "2", hundred); !errors.As(err, &full) || full.Of != "graph" || full.Name != "expense" || full.Max != 2 {
			t.Fatalf("a third: %v", err)
		}
		if out, err := p.thread(e, "0").Resume(t.Context()); err != nil || out.Status != pawl.Waiting {
			t.Errorf("one that is open already: %+v, %v", out, err)
		}
		<-time.After(time.Hour)
		if out, err := p.thread(e, "2").Resume(t.Context()); err != nil || out.Status != pawl.Waiting {
			t.Errorf("once the others have expired: %+v, %v", out, err)
		}
	})
}
