package effect_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/approval"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/effect"
	"github.com/pawl-dev/pawl/pawltest"
	"github.com/pawl-dev/pawl/storage"
	"github.com/pawl-dev/pawl/storage/fault"
)

// Replay, fork, a fork of the fork, another thread and another node: one row, one receipt, nobody asked again.
func TestEveryBranchGetsTheReceipt(t *testing.T) {
	t.Parallel()
	for _, mode := range allModes {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			target := pawltest.NewTarget(mode)
			e := approved(bank(target))
			p := start(t, memory(t), fault.Plan{})
			th := p.thread(e, "t")
			out, asked := p.paid(th, hundred)
			want := out.State.Receipt.Get()
			check := func(name string, out *pawl.OutcomeOf[state], err error) {
				t.Helper()
				if err != nil || out.Status != pawl.Done || out.State.Receipt.Get() != want {
					t.Errorf("%s: %+v, %v", name, out, err)
				}
			}
			out, err := th.Replay(t.Context(), pawl.Before("pay"))
			check("replay", out, err)
			out, err = th.Fork(t.Context(), pawl.Before("pay"), nil)
			check("fork", out, err)
			out, err = th.Fork(t.Context(), pawl.Before("first"), nil)
			check("fork of the fork", out, err)
			out, err = p.thread(e, "t2").Run(t.Context(), order(hundred))
			check("another thread", out, err)
			g, err := pawl.New[state]("other").Node("renamed", payNode(e), pawl.Uses(e)).Edge(pawl.Start, "renamed").Build()
			if err != nil {
				t.Fatal(err)
			}
			out, err = g.Thread(p.eng, "t3").Run(t.Context(), order(hundred))
			check("another node of another graph", out, err)
			other := start(t, p.db, fault.Plan{}, func(o *effect.Options) { o.Policy = "2" })
			out, err = other.thread(e, "t4").Run(t.Context(), order(hundred))
			check("another process, under another policy", out, err)
			wantCount(t, target, 1, 0, 1)
			if n := len(p.requests()); n != 1 || asked != 1 {
				t.Errorf("asked %d times", n)
			}
			rows, err := audit.Of(t.Context(), p.db, "", p.operation().Key, 0)
			reused := 0
			for _, r := range rows {
				if r.Action == "effect.reused" {
					reused++
				}
			}
			if err != nil || reused != 6 {
				t.Errorf("%d branches are linked to the operation, want 6 (%v)", reused, err)
			}
		})
	}
}

// A fork while the outcome is unknown settles it like the first run, and sends nothing of its own.
func TestAForkSettlesADoubt(t *testing.T) {
	t.Parallel()
	for mode, want := range map[pawltest.TargetMode]string{
		pawltest.TargetKeys: "2 requests, 0 look-ups, 1 rows", pawltest.TargetLookup: "1 requests, 1 look-ups, 1 rows",
		pawltest.TargetOpaque: "1 requests, 0 look-ups, 1 rows",
	} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			target, home := pawltest.NewTarget(mode), memory(t)
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
			q := start(t, home, fault.Plan{})
			th := q.thread(e, "t")
			out, err := th.Replay(t.Context(), pawl.Before("pay"))
			if err != nil || target.Count().String() != want {
				t.Errorf("%+v, %v: the target saw %s, want %s", out, err, target.Count(), want)
			}
			if mode != pawltest.TargetOpaque {
				return
			}
			// The wait moves with the branch, and the person's word reaches whichever is open.
			if out, err = th.Fork(t.Context(), pawl.Before("pay"), nil); err != nil || out.Status != pawl.Waiting || out.Waiting[0].Kind != "doubt" {
				t.Fatalf("got %+v, %v", out, err)
			}
			if _, err := q.desk.Release(person(t.Context(), "ops"), q.operation().Key, effect.Applied(receipt{target.Rows()[0].ID}), "seen"); err != nil {
				t.Fatal(err)
			}
			if out, err = th.Resume(t.Context()); err != nil || out.Status != pawl.Done {
				t.Fatalf("got %+v, %v", out, err)
			}
			wantCount(t, target, 1, 0, 1)
		})
	}
}

// Of two threads with one intent the first dispatch commits; what the other had ends unused, with the reason.
func TestTwoThreadsWithOneIntent(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		second bool // is granted, too
		ends   approval.State
	}{{"the other still open", false, approval.Withdrawn}, {"both granted", true, approval.Lapsed}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			target := pawltest.NewTarget(pawltest.TargetOpaque)
			e := approved(bank(target))
			p := start(t, memory(t), fault.Plan{})
			g := graphOf(t, payNode(e), e)
			one, two := g.Thread(p.eng, "one"), g.Thread(p.eng, "two")
			out1, err := one.Run(t.Context(), order(hundred))
			if err != nil {
				t.Fatal(err)
			}
			out2, err := two.Run(t.Context(), order(hundred))
			if err != nil || out2.Status != pawl.Waiting {
				t.Fatal(out2, err)
			}
			if c.second {
				p.yes(out2)
			}
			p.yes(out1)
			if out1, err = one.Resume(t.Context()); err != nil || out1.Status != pawl.Done {
				t.Fatal(out1, err)
			}
			if out2, err = two.Resume(t.Context()); err != nil || out2.Status != pawl.Done {
				t.Fatalf("the second thread: %+v, %v", out2, err)
			}
			wantCount(t, target, 1, 0, 1)
			if out1.State.Receipt.Get() != out2.State.Receipt.Get() {
				t.Errorf("receipts %q and %q", out1.State.Receipt.Get(), out2.State.Receipt.Get())
			}
			key := p.operation().Key
			for _, r := range p.requests() {
				if r.Thread == "one" && (r.State != approval.Consumed || r.UsedBy != key) ||
					r.Thread == "two" && (r.State != c.ends || r.Unused != "unused: duplicate of operation "+key) {
					t.Errorf("thread %s: %s, used by %q, unused %q", r.Thread, r.State, r.UsedBy, r.Unused)
				}
			}
		})
	}
}

// A turn calls B, then A. B is committed from earlier and spends nothing; the grant for A outlives a death between them.
func TestASkippedDuplicateSpendsNothing(t *testing.T) {
	t.Parallel()
	target, home := pawltest.NewTarget(pawltest.TargetOpaque), memory(t)
	e := approved(bank(target))
	early := start(t, home, fault.Plan{})
	in := order(hundred)
	in.Ref.Set("B")
	out, err := early.thread(e, "earlier").Run(t.Context(), in)
	if err != nil || early.yes(out) != 1 {
		t.Fatal(out, err)
	}
	if _, err := early.thread(e, "earlier").Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	p := start(t, home, fault.Plan{})
	between := func() {}
	node := func(ctx context.Context, s *state) error {
		b, err := e.Do(ctx, effect.Ref("invoice", "B"), hundred)
		if err != nil {
			return fmt.Errorf("B: %w", err)
		}
		between()
		a, err := e.Do(ctx, effect.Ref("invoice", "A"), hundred)
		if err == nil {
			s.Receipt.Set(b.ID + a.ID)
		}
		return err
	}
	turn := func(p *process) *pawl.ThreadOf[state] { return graphOf(t, node, e).Thread(p.eng, "turn") }
	if out, err = turn(p).Run(t.Context(), order(hundred)); err != nil || out.Status != pawl.Waiting || p.yes(out) != 1 {
		t.Fatal(out, err)
	}
	between = func() { p.db.Stop() }
	if _, err = turn(p).Resume(t.Context()); err == nil {
		t.Fatal("a dead process ended well")
	}
	wantCount(t, target, 1, 0, 1)
	between = func() {}
	p = start(t, home, fault.Plan{})
	unspent := 0
	for _, r := range p.requests() {
		if r.State == approval.Granted && r.Ref == "invoice:A" {
			unspent++
		}
	}
	if unspent != 1 {
		t.Errorf("%d unspent grants for A, want 1: %+v", unspent, p.requests())
	}
	if out, err = turn(p).Resume(t.Context()); err != nil || out.Status != pawl.Done {
		t.Fatal(out, err)
	}
	wantCount(t, target, 2, 0, 2)
	if n := len(p.requests()); n != 2 {
		t.Errorf("asked %d times, want once about B and once about A", n)
	}
}

// Four processes at once, many rounds: one row a round, equal receipts, and no error but a typed busy.
func TestFourWorkersAtOnce(t *testing.T) {
	t.Parallel()
	const workers, rounds = 4, 25
	for _, mode := range allModes {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			target, home := pawltest.NewTarget(mode), memory(t)
			e := bank(target)
			var threads [workers]func(round int) (string, error)
			for i := range workers {
				p := start(t, home, fault.Plan{})
				g := graphOf(t, payNode(e), e)
				threads[i] = func(round int) (string, error) {
					th := g.Thread(p.eng, fmt.Sprintf("%d-%d", round, i))
					in := order(hundred)
					in.Ref.Set(fmt.Sprint(round))
					out, err := th.Run(t.Context(), in)
					for errors.Is(err, pawl.ErrBusy) {
						out, err = th.Resume(t.Context())
					}
					if err != nil {
						return "", err
					}
					return out.State.Receipt.Get(), nil
				}
			}
			for round := range rounds {
				var got [workers]string
				var wg sync.WaitGroup
				for i := range workers {
					wg.Go(func() {
						r, err := threads[i](round)
						if err != nil {
							t.Errorf("round %d, worker %d: %v", round, i, err)
						}
						got[i] = r
					})
				}
				wg.Wait()
				if got[0] == "" || got[1] != got[0] || got[2] != got[0] || got[3] != got[0] {
					t.Errorf("round %d: receipts %v", round, got)
				}
			}
			wantCount(t, target, rounds, 0, rounds)
		})
	}
}

// Parallel branches of one node with one reference: one is sent, the other waits for it and gets its receipt.
func TestBranchesOfOneNodeShareAnIntent(t *testing.T) {
	t.Parallel()
	target := pawltest.NewTarget(pawltest.TargetOpaque)
	e := bank(target)
	p := start(t, memory(t), fault.Plan{})
	g := graphOf(t, func(ctx context.Context, s *state) error {
		var got [4]receipt
		var fns []func(context.Context) error
		for i := range got {
			fns = append(fns, func(ctx context.Context) (err error) {
				got[i], err = e.Do(ctx, effect.Ref("invoice", "17"), hundred)
				return err
			})
		}
		if err := pawl.All(ctx, fns...); err != nil {
			return err
		}
		for _, r := range got {
			if r != got[0] {
				return fmt.Errorf("receipts %v", got)
			}
		}
		return nil
	}, e)
	if out, err := g.Thread(p.eng, "t").Run(t.Context(), order(hundred)); err != nil || out.Status != pawl.Done {
		t.Fatal(out, err)
	}
	wantCount(t, target, 1, 0, 1)
}

// What the verbs mean for effects: notes on fork, refusals of retry and delete, ends of requests and grants.
func TestVerbs(t *testing.T) {
	t.Parallel()
	verb := func(p *process, v pawl.Verb) (notes []pawl.Note, err error) {
		_ = p.db.Update(t.Context(), func(ctx context.Context, tx storage.Tx) error {
			notes, err = p.led.Verb(ctx, tx, pawl.VerbInfo{Verb: v, Thread: "t"})
			return errTest // only looking
		})
		return notes, err
	}
	text := func(notes []pawl.Note) string {
		var all []string
		for _, n := range notes {
			all = append(all, n.Text)
		}
		return strings.Join(all, "; ")
	}
	t.Run("done", func(t *testing.T) {
		t.Parallel()
		e := approved(bank(pawltest.NewTarget(pawltest.TargetOpaque)))
		p := start(t, memory(t), fault.Plan{})
		th := p.thread(e, "t")
		p.paid(th, hundred)
		notes, err := verb(p, pawl.VerbFork)
		if want := "effects already done 1 (receipt reused); effects that would need a new approval 0"; err != nil || text(notes) != want {
			t.Errorf("got %q, %v", text(notes), err)
		}
		if err := th.Delete(t.Context()); err != nil {
			t.Fatal(err)
		}
		// The operation outlives its thread, and so does the trail.
		if op := p.operation(); op.State != effect.StateCommitted || len(actions(t, p.db, "t")) == 0 {
			t.Errorf("after the deletion: %+v", op)
		}
		p.paid(p.thread(e, "t"), hundred)
		if n := len(p.requests()); n != 1 {
			t.Errorf("the same thread name asked again: %d", n)
		}
	})
	t.Run("waiting, granted", func(t *testing.T) {
		t.Parallel()
		for _, grant := range []bool{false, true} {
			for _, v := range []pawl.Verb{pawl.VerbFork, pawl.VerbCancel, pawl.VerbEdit, givenUp} {
				target := pawltest.NewTarget(pawltest.TargetOpaque)
				e := approved(bank(target))
				p := start(t, memory(t), fault.Plan{})
				th := p.thread(e, "t")
				out, err := th.Run(t.Context(), order(hundred))
				if err != nil {
					t.Fatal(err)
				}
				want := approval.Withdrawn
				if grant {
					p.yes(out)
					want = approval.Lapsed
				}
				notes, err := verb(p, v)
				if v == pawl.VerbFork && (err != nil || !strings.HasSuffix(text(notes), "need a new approval 1")) {
					t.Errorf("%s: %q, %v", v, text(notes), err)
				}
				switch v {
				case pawl.VerbFork:
					_, err = th.Fork(t.Context(), pawl.Before("pay"), nil)
				case pawl.VerbCancel:
					err = th.Cancel(t.Context(), "stop")
				case pawl.VerbEdit:
					_, err = th.Edit(t.Context(), func(s *state) error { s.Ref.Set("18"); return nil })
				case givenUp:
					var out *pawl.Outcome
					if out, err = giveUp(t, th); len(out.Waiting) > 0 || out.Status != pawl.Done {
						t.Errorf("given up, it is %s: %v", out.Status, out.Waiting)
					}
				}
				if err != nil {
					t.Fatalf("%s: %v", v, err)
				}
				if r := p.requests()[0]; r.State != want && p.requests()[len(p.requests())-1].State != want {
					t.Errorf("%s after a yes %v: the request is %s, want %s", v, grant, r.State, want)
				}
				if op := p.operations()[0]; op.State != effect.StateVoided {
					t.Errorf("%s: the operation is %s", v, op.State)
				}
				wantCount(t, target, 0, 0, 0)
			}
		}
	})
	t.Run("in doubt, given up", func(t *testing.T) {
		t.Parallel()
		target := pawltest.NewTarget(pawltest.TargetOpaque)
		p := start(t, memory(t), fault.Plan{})
		th := p.thread(bank(target), "t")
		target.DropAt(pawltest.TargetCommitted, 1)
		if out, err := th.Run(t.Context(), order(hundred)); err != nil || out.Status != pawl.Waiting {
			t.Fatal(out, err)
		}
		doubt := p.operation().State
		if out, err := giveUp(t, th); err != nil || len(out.Waiting) > 0 || p.operation().State != doubt {
			t.Errorf("%+v, %v: the operation was %s and is %s", out, err, doubt, p.operation().State)
		}
		if _, err := p.desk.Release(person(t.Context(), "ops"), p.operation().Key, effect.Applied(receipt{"tx"}), "seen"); err != nil {
			t.Error(err)
		}
		wantCount(t, target, 1, 0, 1)
	})
	t.Run("in doubt", func(t *testing.T) {
		t.Parallel()
		target := pawltest.NewTarget(pawltest.TargetOpaque)
		e := bank(target)
		p := start(t, memory(t), fault.Plan{})
		th := p.thread(e, "t")
		target.DropAt(pawltest.TargetCommitted, 1)
		if out, err := th.Run(t.Context(), order(hundred)); err != nil || out.Status != pawl.Waiting {
			t.Fatal(out, err)
		}
		if err := th.Cancel(t.Context(), "stop"); err != nil {
			t.Fatal(err)
		}
		before := dump(t, p.db, "operation", "attempt", "run", "thread", "checkpoint")
		refused := (*effect.UnsettledError)(nil)
		if _, err := th.Retry(t.Context()); !errors.As(err, &refused) || refused.Verb != pawl.VerbRetry {
			t.Errorf("retry: %v", err)
		}
		if err := th.Delete(t.Context()); !errors.As(err, &refused) || refused.Verb != pawl.VerbDelete {
			t.Errorf("delete: %v", err)
		}
		if now := dump(t, p.db, "operation", "attempt", "run", "thread", "checkpoint"); now != before {
			t.Error("a refused verb changed something")
		}
		if _, err := p.desk.Release(person(t.Context(), "ops"), p.operation().Key, effect.Applied(receipt{"tx"}), "seen"); err != nil {
			t.Fatal(err)
		}
		out, err := th.Retry(t.Context())
		if err != nil || out.Status != pawl.Done || out.State.Receipt.Get() != "tx" {
			t.Errorf("retry after the word of a person: %+v, %v", out, err)
		}
		wantCount(t, target, 1, 0, 1)
	})
}

// givenUp is an edit that gives a run up.
const givenUp pawl.Verb = "give up"

func giveUp(t *testing.T, th *pawl.ThreadOf[state]) (*pawl.Outcome, error) {
	t.Helper()
	return th.EditAs(t.Context(), [][]pawl.TaskEdit{{{Node: pawl.End}}})
}
