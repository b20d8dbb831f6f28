package effect_test

import (
	"context"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/approval"
	"github.com/pawl-dev/pawl/pawltest"
	"github.com/pawl-dev/pawl/storage/fault"
)

// beside is a graph that pays with an approval while a child asks for a size.
func beside(t *testing.T, e money, size pawl.Interrupt[string, string]) *pawl.Graph[state] {
	t.Helper()
	child, err := pawl.New[state]("sized").Node("size", func(ctx context.Context, s *state) error {
		answer, err := size.Ask(ctx, "of "+s.Ref.Get())
		if err == nil {
			s.Receipt.Set(answer)
		}
		return err
	}, pawl.Uses(size)).Edge(pawl.Start, "size").Build()
	if err != nil {
		t.Fatal(err)
	}
	sub := pawl.Sub(child.Child("sized"), func(*state) *state { return &state{Ref: pawl.Of("a")} }, func(s *state, r *pawl.Result[state]) error {
		s.Ref.Set(r.State.Receipt.Get())
		return nil
	})
	g, err := pawl.New[state]("beside").Node("pay", payNode(e), pawl.Uses(e)).Add(sub).Edge(pawl.Start, "pay").Edge(pawl.Start, "sized").Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// An edit of a child leaves alone what a node beside it waits for, or was given: the approval stays good, and pays. That holds
// when the process of the edit dies at any call of the home, too: the edit is there whole or not at all.
func TestAnEditOfAChildKeepsApprovalsBesideIt(t *testing.T) {
	t.Parallel()
	size := pawl.Interrupt[string, string]{Name: "size"}
	for n := range 16 {
		granted := n%2 == 0
		target, home := pawltest.NewTarget(pawltest.TargetOpaque), memory(t)
		g := beside(t, approved(bank(target)), size)
		p := start(t, home, fault.Plan{})
		th := g.Thread(p.eng, "t")
		out, err := th.Run(t.Context(), order(hundred))
		if err != nil || len(out.Waiting) != 2 {
			t.Fatalf("%+v, %v", out, err)
		}
		if granted {
			p.yes(out)
		}
		path := ""
		for _, q := range out.Waiting {
			if q.Name == "size" {
				path, _, _ = strings.Cut(string(q.Path), "|")
			}
		}
		edit := func(by *process) error {
			_, err := g.Thread(by.eng, "t").Thread.Edit(t.Context(), []byte(`{"ref":"b"}`), pawl.In(pawl.Path(path)))
			return err
		}
		if n > 1 { // the first two edits are left alone
			dying := start(t, home, fault.Plan{At: fault.At(n/2-1, fault.Stop())})
			_ = edit(dying)
			dying.db.Stop()
		}
		if err := edit(p); err != nil {
			t.Fatal(n, err)
		}
		if !granted {
			p.decideAll(t)
		}
		out, err = th.Resume(t.Context())
		if err != nil || len(out.Waiting) != 1 || string(out.Waiting[0].Body) != `"of b"` {
			t.Fatalf("%d: %+v, %v", n, out.Waiting, err)
		}
		out, err = th.Resume(t.Context(), size.Answer(out.Waiting[0].ID, "large"))
		if err != nil || out.Status != pawl.Done || out.State.Ref.Get() != "large" || out.State.Receipt.Get() == "" {
			t.Fatalf("%d: %+v, %v", n, out, err)
		}
		wantCount(t, target, 1, 0, 1)
		if r := p.requests(); len(r) != 1 || r[0].State != approval.Consumed {
			t.Errorf("%d: requests %+v", n, r)
		}
	}
}
