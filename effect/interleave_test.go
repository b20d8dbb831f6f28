package effect_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/approval"
	"github.com/pawl-dev/pawl/effect"
	"github.com/pawl-dev/pawl/pawltest"
	"github.com/pawl-dev/pawl/redact"
	"github.com/pawl-dev/pawl/storage"
	"github.com/pawl-dev/pawl/storage/fault"
)

// Two releases of one operation, as often as rounds says: one counts, the other is told, and what runs is what was decided.
func TestReleasesInterleave(t *testing.T) {
	t.Parallel()
	target := pawltest.NewTarget(pawltest.TargetOpaque)
	e := bank(target)
	home := memory(t)
	p, q := start(t, home, fault.Plan{}), start(t, home, fault.Plan{})
	says := []effect.Decision{effect.Applied(receipt{"tx-by-hand"}), effect.NotApplied(), effect.SendOnce(), effect.Abandon()}
	names := []effect.Verdict{effect.VerdictApplied, effect.VerdictNotApplied, effect.VerdictSendOnce, effect.VerdictAbandon}
	won := map[effect.Verdict]int{}
	for i := range rounds {
		target.DropAt(pawltest.TargetReceived, 1)
		id := fmt.Sprint(i)
		in := order(hundred)
		in.Ref.Set(id)
		th := p.thread(e, id)
		out, err := th.Run(t.Context(), in)
		if err != nil || out.Status != pawl.Waiting {
			t.Fatal(out, err)
		}
		var body struct{ Operation string }
		if err := json.Unmarshal(out.Waiting[0].Body, &body); err != nil {
			t.Fatal(err)
		}
		a, b := i%4, (i/4)%4
		var errs [2]error
		var wg sync.WaitGroup
		wg.Go(func() { errs[0] = second(p.desk.Release(person(t.Context(), "a"), body.Operation, says[a], "looked")) })
		wg.Go(func() { errs[1] = second(q.desk.Release(person(t.Context(), "b"), body.Operation, says[b], "looked")) })
		wg.Wait()
		first, lost := a, errs[1]
		if errs[0] != nil {
			first, lost = b, errs[0]
		}
		if !errors.As(lost, new(*effect.SettledError)) || errs[0] != nil && errs[1] != nil {
			t.Fatalf("round %d: %v and %v", i, errs[0], errs[1])
		}
		before := target.Count().Requests
		out, err = th.Resume(t.Context())
		sent := target.Count().Requests - before
		want := map[effect.Verdict]int{effect.VerdictNotApplied: 1, effect.VerdictSendOnce: 1}[names[first]]
		if abandoned := names[first] == effect.VerdictAbandon; sent != want || abandoned != errors.As(err, new(*effect.AbandonedError)) || !abandoned && (err != nil || out.Status != pawl.Done) {
			t.Fatalf("round %d, %s: %d sent, %+v, %v", i, names[first], sent, out, err)
		}
		won[names[first]]++
	}
	for _, v := range names {
		if won[v] == 0 {
			t.Errorf("%q never counted: %v", v, won)
		}
	}
}

// A change, a yes, a no, a revocation and the clock meet at one instant, as often as rounds says: one of them stands, and what
// runs, if anything does, is what somebody approved who had no part in it.
func TestDecisionsInterleave(t *testing.T) {
	t.Parallel()
	ends := map[string]int{}
	synctest.Test(t, func(t *testing.T) {
		for i := range rounds {
			home := memory(t)
			s, p := newShop(t), start(t, home, fault.Plan{})
			s.e = s.e.Approve(approval.Levels{{To: "finance", For: time.Second}})
			node := func(ctx context.Context, st *editState) error {
				got, err := s.e.Do(ctx, effect.Ref("order", fmt.Sprint(i)), st.In.Get())
				st.Receipt.Set(got)
				return err
			}
			g, err := pawl.New[editState]("shop").Node("buy", node, pawl.Uses(s.e)).Edge(pawl.Start, "buy").Build()
			if err != nil {
				t.Fatal(err)
			}
			s.g = g
			id := fmt.Sprint("t", i)
			r := s.asked(t, p, id)
			desk := p.desks(t)
			by := approval.Decision{Digest: r.Call}
			var wg sync.WaitGroup
			at := func(d time.Duration, do func()) {
				wg.Go(func() { <-time.After(d); do() })
			}
			last := time.Second - time.Duration(i%3)*time.Millisecond // at the boundary, or just before
			at(last, func() {
				_, _ = p.desk.Edit(person(t.Context(), "ann"), r.ID, effect.Edit{Digest: r.Call, Changes: []approval.Change{set("/cents", "400")}})
			})
			at(last, func() {
				if _, err := desk.Approve(person(t.Context(), "bob"), r.ID, by); err == nil && i%2 == 0 {
					_, _ = desk.Revoke(person(t.Context(), "bob"), r.ID, "wait")
				}
			})
			at(last, func() {
				if i%5 == 0 {
					_, _ = desk.Reject(person(t.Context(), "cfo"), r.ID, by)
				}
			})
			at(last, func() { _, _, _ = approval.NewTimer(p.eng, p.db).Due(t.Context(), 10) })
			wg.Wait()
			th := g.Thread(p.eng, id)
			out, err := th.Resume(t.Context())
			for n := 0; err == nil && out.Status == pawl.Waiting && n < 3; n++ {
				open := p.openRequest(t)
				if _, err := desk.Approve(person(t.Context(), "carl"), open.ID, approval.Decision{Digest: open.Call}); err != nil {
					t.Fatal(err)
				}
				out, err = th.Resume(t.Context())
			}
			ends[endOf(t, home, s, fmt.Sprint(i), err)]++
			if err := p.eng.Close(); err != nil {
				t.Fatal(err)
			}
		}
	})
	for _, end := range []string{"bought as asked", "bought as changed", "not bought"} {
		if ends[end] == 0 {
			t.Errorf("never %q: %v", end, ends)
		}
	}
}

// endOf compares what ran with what was approved, and names the end.
func endOf(t *testing.T, home storage.DB, s *shopOf, ref string, err error) string {
	t.Helper()
	led, fault := effect.NewLedger(effect.Options{Key: testKey(7), Redactor: redact.New(nil), Policy: "1"})
	if fault != nil {
		t.Fatal(fault)
	}
	eng, fault := pawl.NewEngine(home, nil)
	if fault != nil {
		t.Fatal(fault)
	}
	defer eng.Close()
	ops, fault := led.Desk(eng, home).List(t.Context(), effect.Filter{})
	if fault != nil {
		t.Fatal(fault)
	}
	committed := 0
	for _, op := range ops {
		if op.Ref.ID != ref || op.State != effect.StateCommitted {
			continue
		}
		committed++
		r, fault := approval.NewDesk(eng, home).Show(t.Context(), op.Grant)
		if fault != nil || r.State != approval.Consumed || r.Call != op.Call || r.Operation != op.Key || r.By == r.Editor || len(s.bought) != 1 ||
			!bytes.Contains(r.View, fmt.Appendf(nil, `"cents":%d`, s.bought[0].Cents)) {
			t.Fatalf("%s ran %+v under %+v, %v", ref, s.bought, r, fault)
		}
	}
	switch {
	case committed != len(s.bought) || committed > 1:
		t.Fatalf("%s: %d committed, %d bought", ref, committed, len(s.bought))
	case committed == 0 && !errors.As(err, new(*effect.DeniedError)):
		t.Fatalf("%s: nothing was bought, and %v", ref, err)
	case committed == 0:
		return "not bought"
	case s.bought[0].Cents == 400:
		return "bought as changed"
	}
	return "bought as asked"
}

// One process died after the target had committed. One resumes, one replays and two fork, from four processes at once, a
// thousand times: one row, and all have its receipt.
func TestVerbsInterleave(t *testing.T) {
	t.Parallel()
	for i := range rounds {
		target, home := pawltest.NewTarget(allModes[i%2]), memory(t)
		e := bank(target)
		p := start(t, home, fault.Plan{})
		target.At(func(at pawltest.TargetPoint, _ pawltest.TargetRow) error {
			if at == pawltest.TargetCommitted {
				p.db.Stop()
				return errTest
			}
			return nil
		})
		if _, err := p.thread(e, "t").Run(t.Context(), order(hundred)); err == nil {
			t.Fatal("a dead process ended well")
		}
		target.At(nil)
		var got [4]string
		var wg sync.WaitGroup
		for w := range got {
			q := start(t, home, fault.Plan{})
			th := q.thread(e, "t")
			wg.Go(func() {
				got[w] = untilPaid(t.Context(), th, w)
				if err := q.eng.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		c := target.Count()
		if c.Rows != 1 || c.Requests > 2 || target.Mode() == pawltest.TargetLookup && c.Requests > 1 {
			t.Fatalf("round %d, %s: %s", i, target.Mode(), c)
		}
		for _, receipt := range got {
			if receipt != target.Rows()[0].ID {
				t.Fatalf("round %d: receipts %q, and the row is %+v", i, got, target.Rows()[0])
			}
		}
	}
}

// untilPaid does one of the verbs until it has a receipt. It is patient with what is busy, and with nothing else.
func untilPaid(ctx context.Context, th *pawl.ThreadOf[state], verb int) string {
	for {
		var out *pawl.OutcomeOf[state]
		var err error
		switch verb {
		case 0:
			out, err = th.Resume(ctx)
		case 1:
			out, err = th.Replay(ctx, pawl.Before("pay"))
		default:
			out, err = th.Fork(ctx, pawl.Before("pay"), nil)
		}
		switch {
		case err == nil && out.Status == pawl.Done:
			return out.State.Receipt.Get()
		case !errors.Is(err, pawl.ErrBusy):
			return fmt.Sprintf("%+v, %v", out, err)
		}
		runtime.Gosched()
	}
}
