package effect_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/approval"
	"github.com/pawl-dev/pawl/effect"
	"github.com/pawl-dev/pawl/pawltest"
	"github.com/pawl-dev/pawl/storage/fault"
)

// What only a person can settle is quarantined, and each decision leads where it should.
func TestEveryRelease(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		say      effect.Decision
		state    effect.State // at once
		requests int          // in all, after the thread went on
		ends     effect.State
		receipt  string
	}{
		{"applied", effect.Applied(receipt{"tx-by-hand"}), effect.StateCommitted, 1, effect.StateCommitted, "tx-by-hand"},
		{"not applied", effect.NotApplied(), effect.StateReserved, 2, effect.StateCommitted, ""},
		{"send once", effect.SendOnce(), effect.StateReleased, 2, effect.StateCommitted, ""},
		{"abandon", effect.Abandon(), effect.StateVoided, 1, effect.StateVoided, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			target := pawltest.NewTarget(pawltest.TargetOpaque)
			e := approved(bank(target)).Queue("treasury")
			p := start(t, memory(t), fault.Plan{})
			th := p.thread(e, "t")
			target.DropAt(pawltest.TargetReceived, 1)
			out, err := th.Run(t.Context(), order(hundred))
			if err != nil || p.yes(out) != 1 {
				t.Fatal(out, err)
			}
			if out, err = th.Resume(t.Context()); err != nil || out.Waiting[0].Kind != "doubt" || !strings.Contains(string(out.Waiting[0].Body), `"queue":"treasury"`) {
				t.Fatalf("got %+v, %v", out, err)
			}
			op := p.operation()
			if op.State != effect.StateQuarantined || op.Queue != "treasury" || !op.Doubt {
				t.Fatalf("the operation is %+v", op)
			}
			if _, err := p.desk.Release(person(t.Context(), "ops"), op.Key, c.say, "looked"); !errors.Is(err, pawl.ErrDenied) {
				t.Errorf("somebody who is not of the queue: %v", err)
			}
			got, err := p.desk.Release(treasurer(t.Context(), "ann"), op.Key, c.say, "looked")
			if err != nil || got.State != c.state {
				t.Fatalf("got %+v, %v", got, err)
			}
			settled := (*effect.SettledError)(nil)
			if _, err := p.desk.Release(treasurer(t.Context(), "bob"), op.Key, c.say, "looked"); !errors.As(err, &settled) || settled.State != c.state {
				t.Errorf("the second release: %v", err)
			}
			out, err = th.Resume(t.Context())
			abandoned := (*effect.AbandonedError)(nil)
			if c.state == effect.StateVoided {
				if !errors.As(err, &abandoned) || abandoned.Operation != op.Key {
					t.Errorf("after it: %+v, %v", out, err)
				}
			} else if err != nil || out.Status != pawl.Done || c.receipt != "" && out.State.Receipt.Get() != c.receipt {
				t.Errorf("after it: %+v, %v", out, err)
			}
			op = p.operation()
			if op.State != c.ends || op.Permit != "" || target.Count().Requests != c.requests {
				t.Errorf("it ends %+v, %s", op, target.Count())
			}
			if n := len(p.requests()); n != 1 {
				t.Errorf("asked for approval %d times", n)
			}
		})
	}
}

func treasurer(ctx context.Context, id string) context.Context {
	return pawl.WithActor(ctx, pawl.Actor{ID: id, Groups: []string{"treasury"}, Kind: "person"})
}

// An abandoned operation is never sent again: not with the same parameters, not with others, not by another thread.
func TestAnAbandonedOperationIsOver(t *testing.T) {
	t.Parallel()
	p, th, target := doubtful(t, memory(t))
	if _, err := p.desk.Release(person(t.Context(), "ops"), p.operation().Key, effect.Abandon(), "written off"); err != nil {
		t.Fatal(err)
	}
	abandoned, changed := (*effect.AbandonedError)(nil), (*effect.ChangedError)(nil)
	if _, err := th.Resume(t.Context()); !errors.As(err, &abandoned) || !strings.Contains(err.Error(), "redo") {
		t.Errorf("the thread: %v", err)
	}
	if _, err := p.thread(bank(target), "t2").Run(t.Context(), order(hundred)); !errors.As(err, &abandoned) {
		t.Errorf("another thread: %v", err)
	}
	more := hundred
	more.Amount = "120.00"
	if _, err := p.thread(bank(target), "t3").Run(t.Context(), order(more)); !errors.As(err, &changed) {
		t.Errorf("another amount: %v", err)
	}
	wantCount(t, target, 1, 0, 1)
}

// A permit is one dispatch: two threads that go on at once make one between them, and an outcome that nobody knows again
// needs another decision.
func TestAPermitIsUsedOnce(t *testing.T) {
	t.Parallel()
	for name, again := range map[string]bool{"it works": false, "unknown again": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			home := memory(t)
			p, th, target := doubtful(t, home)
			two := start(t, home, fault.Plan{})
			other := two.thread(bank(target), "t2")
			if out, err := other.Run(t.Context(), order(hundred)); err != nil || out.Status != pawl.Waiting {
				t.Fatal(out, err)
			}
			if _, err := p.desk.Release(person(t.Context(), "ops"), p.operation().Key, effect.SendOnce(), "once more"); err != nil {
				t.Fatal(err)
			}
			if again {
				target.DropAt(pawltest.TargetCommitted, 1)
			}
			var wg sync.WaitGroup
			for _, th := range []*pawl.ThreadOf[state]{th, other} {
				wg.Go(func() {
					out, err := th.Resume(t.Context())
					if err != nil && !errors.Is(err, pawl.ErrBusy) {
						t.Errorf("got %+v, %v", out, err)
					}
				})
			}
			wg.Wait()
			want := effect.StateCommitted
			if again {
				want = effect.StateQuarantined
			}
			op := p.operation()
			if op.State != want || op.Attempts != 2 || op.Permit != "" || target.Count().Requests != 2 {
				t.Errorf("the operation is %+v, %s", op, target.Count())
			}
			s, err := p.desk.Show(t.Context(), op.Key)
			if err != nil || s.Attempts[0].Permit != "" || s.Attempts[1].Permit == "" {
				t.Errorf("the attempts are %+v, %v", s.Attempts, err)
			}
		})
	}
}

// Concurrent releases of any kind: one wins, the others are told how it stands.
func TestConcurrentReleases(t *testing.T) {
	t.Parallel()
	for range 20 {
		p, _, _ := doubtful(t, memory(t))
		key := p.operation().Key
		says := []effect.Decision{effect.Applied(receipt{"tx"}), effect.NotApplied(), effect.SendOnce(), effect.SendOnce(), effect.Abandon()}
		errs := make([]error, len(says))
		var wg sync.WaitGroup
		for i, say := range says {
			wg.Go(func() { _, errs[i] = p.desk.Release(person(t.Context(), fmt.Sprint("p", i)), key, say, "looked") })
		}
		wg.Wait()
		won := 0
		for _, err := range errs {
			settled := (*effect.SettledError)(nil)
			if err == nil {
				won++
			} else if !errors.As(err, &settled) {
				t.Errorf("a loser got %v", err)
			}
		}
		if won != 1 {
			t.Errorf("%d releases won", won)
		}
	}
}

// Above the limit one person is not enough: the second must be another one, and say the same.
func TestFourEyes(t *testing.T) {
	t.Parallel()
	target := pawltest.NewTarget(pawltest.TargetOpaque)
	e := bank(target).FourEyes(func(in transfer) bool { return in.Amount == "100.00" })
	p := start(t, memory(t), fault.Plan{})
	th := p.thread(e, "t")
	target.DropAt(pawltest.TargetReceived, 1)
	if out, err := th.Run(t.Context(), order(hundred)); err != nil || out.Status != pawl.Waiting {
		t.Fatal(out, err)
	}
	key := p.operation().Key
	pending := (*effect.SecondVoteError)(nil)
	for i, vote := range []struct {
		by    string
		say   effect.Decision
		votes int // so far; 0: released
	}{
		{"ann", effect.SendOnce(), 1},
		{"ann", effect.SendOnce(), 1}, // the same person again
		{"bob", effect.NotApplied(), 2},
		{"cid", effect.Applied(receipt{"tx-1"}), 3},
		{"dan", effect.Applied(receipt{"tx-2"}), 4}, // another receipt is another decision
		{"bob", effect.SendOnce(), 0},               // changed his mind
	} {
		op, err := p.desk.Release(person(t.Context(), vote.by), key, vote.say, "because")
		if vote.votes > 0 && (!errors.As(err, &pending) || len(pending.Votes) != vote.votes || p.operation().State != effect.StateQuarantined) {
			t.Errorf("vote %d: %v", i, err)
		}
		if vote.votes == 0 && (err != nil || op.State != effect.StateReleased) {
			t.Errorf("vote %d: %+v, %v", i, op, err)
		}
	}
	wantCount(t, target, 1, 0, 0)
	if out, err := th.Resume(t.Context()); err != nil || out.Status != pawl.Done {
		t.Errorf("then: %+v, %v", out, err)
	}
	wantCount(t, target, 2, 0, 1)
	if got := actions(t, p.db, "t"); !slices.Contains(got, "effect.release.voted") || !slices.Contains(got, "effect.released") {
		t.Errorf("the trail is %v", got)
	}
	small := hundred
	small.Amount = "1.00"
	in := order(small)
	in.Ref.Set("18")
	target.DropAt(pawltest.TargetReceived, 1)
	if out, err := p.thread(e, "t2").Run(t.Context(), in); err != nil || out.Status != pawl.Waiting {
		t.Fatal(out, err)
	}
	for _, op := range p.operations() {
		if op.Ref.ID == "18" {
			if _, err := p.desk.Release(person(t.Context(), "ann"), op.Key, effect.NotApplied(), "looked"); err != nil {
				t.Errorf("below the limit one person is enough: %v", err)
			}
		}
	}
}

// A death of the desk's process at each durable write of each release: it counted whole, or not at all.
func TestReleasesAreWhole(t *testing.T) {
	t.Parallel()
	for name, say := range map[string]effect.Decision{
		"applied": effect.Applied(receipt{"tx"}), "not applied": effect.NotApplied(), "send once": effect.SendOnce(), "abandon": effect.Abandon(),
	} {
		for n := range 2 {
			home := memory(t)
			p, th, target := doubtful(t, home)
			key := p.operation().Key
			dying := start(t, home, fault.Plan{At: fault.At(n, fault.Stop())})
			if _, err := dying.desk.Release(person(t.Context(), "ops"), key, say, "seen"); err == nil {
				t.Fatalf("%s, point %d: a dead process released", name, n)
			}
			state := p.operation().State
			if (state == effect.StateQuarantined) != (n == 0) {
				t.Errorf("%s, point %d: it is %s", name, n, state)
			}
			if n == 0 {
				if _, err := p.desk.Release(person(t.Context(), "ops"), key, say, "seen"); err != nil {
					t.Errorf("%s: said again: %v", name, err)
				}
			}
			out, err := th.Resume(t.Context())
			if abandoned := (*effect.AbandonedError)(nil); (err != nil || out.Status != pawl.Done) && !errors.As(err, &abandoned) {
				t.Errorf("%s, point %d: %+v, %v", name, n, out, err)
			}
			if c := target.Count(); c.Requests > 2 {
				t.Errorf("%s, point %d: %s", name, n, c)
			}
		}
	}
}

// Not applied gives the grant back while it is valid, and to nobody whose branch is left.
func TestAReturnedGrantDoesNotOutliveItsBranch(t *testing.T) {
	t.Parallel()
	home, target := memory(t), pawltest.NewTarget(pawltest.TargetLookup)
	e := approved(bank(target))
	p := start(t, home, fault.Plan{})
	th := p.thread(e, "t")
	target.At(func(at pawltest.TargetPoint, _ pawltest.TargetRow) error {
		if at != pawltest.TargetReceived {
			return nil
		}
		p.db.Stop()
		return errTest
	})
	out, err := th.Run(t.Context(), order(hundred))
	if err != nil || p.yes(out) != 1 {
		t.Fatal(out, err)
	}
	if _, err := th.Resume(t.Context()); err == nil {
		t.Fatal("a dead process ended well")
	}
	target.At(nil)
	q := start(t, home, fault.Plan{})
	if out, err = q.thread(e, "t").Fork(t.Context(), pawl.Before("pay"), nil); err != nil || out.Status != pawl.Waiting {
		t.Fatalf("the fork: %+v, %v", out, err)
	}
	if r := q.requests(); len(r) != 2 || !slices.ContainsFunc(r, func(r approval.Request) bool { return r.State == approval.Lapsed }) {
		t.Errorf("the requests are %+v", r)
	}
	q.yes(out)
	if out, err = q.thread(e, "t").Resume(t.Context()); err != nil || out.Status != pawl.Done {
		t.Errorf("then: %+v, %v", out, err)
	}
}
