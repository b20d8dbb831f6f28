package effect_test

import (
	"context"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/approval"
	"github.com/pawl-dev/pawl/pawltest"
	"github.com/pawl-dev/pawl/storage/fault"
)

// A run that is forced onto another version while its request is open is asked again: a yes is for one meaning of the graph.
func TestAnotherGraphVersionIsAskedAgain(t *testing.T) {
	t.Parallel()
	home, target := memory(t), pawltest.NewTarget(pawltest.TargetOpaque)
	e := approved(bank(target))
	p := start(t, home, fault.Plan{})
	out, err := p.thread(e, "t").Run(t.Context(), order(hundred))
	if err != nil || out.Status != pawl.Waiting {
		t.Fatal(out, err)
	}
	_ = p.eng.Close()
	q := start(t, home, fault.Plan{})
	noop := func(context.Context, *state) error { return nil }
	g, err := pawl.New[state]("expense").Node("first", noop, pawl.Version(2)).Node("pay", payNode(e), pawl.Uses(e)).Node("last", noop).
		Edge(pawl.Start, "first").Edge("first", "pay").Edge("pay", "last").Build()
	if err != nil {
		t.Fatal(err)
	}
	q.g = g
	th := q.thread(e, "t")
	if _, err := th.Force(t.Context(), pawl.Reason("deployed")); err != nil {
		t.Fatal(err)
	}
	if out, err = th.Resume(t.Context()); err != nil || out.Status != pawl.Waiting {
		t.Fatalf("forced: %+v, %v", out, err)
	}
	rs := q.requests()
	if len(rs) != 2 || rs[0].Call == rs[1].Call || (rs[0].State == approval.Requested) == (rs[1].State == approval.Requested) {
		t.Errorf("the requests are %+v", rs)
	}
	if q.yes(out) != 1 {
		t.Error("nobody was asked again")
	}
	if out, err = th.Resume(t.Context()); err != nil || out.Status != pawl.Done {
		t.Errorf("then: %+v, %v", out, err)
	}
	wantCount(t, target, 1, 0, 1)
}
