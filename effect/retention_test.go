package effect_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/approval"
	"github.com/pawl-dev/pawl/effect"
	"github.com/pawl-dev/pawl/pawltest"
	"github.com/pawl-dev/pawl/storage/fault"
)

const day = 24 * time.Hour

// Operations that would be forgotten before what can reach them are refused at the start, with both figures.
func TestRetentionIsChecked(t *testing.T) {
	t.Parallel()
	noop := func(context.Context, effect.Op, transfer) (receipt, error) { return receipt{}, nil }
	slow := effect.New("slow", noop).Approve(approval.Levels{{To: "a", For: 20 * day}})
	never := effect.New("never", noop).Approve(approval.Levels{{To: "a"}})
	for _, c := range []struct {
		name    string
		r       effect.Retention
		effects []effect.Declared
		want    string // in the error; empty: accepted
	}{
		{"for ever", effect.Retention{}, nil, ""},
		{"for ever, checkpoints end", effect.Retention{Checkpoints: day}, []effect.Declared{never}, ""},
		{"checkpoints never end", effect.Retention{Operations: 90 * day}, nil, "for 2160h0m0s, and checkpoints can reach them for ever"},
		{"longer", effect.Retention{Operations: 90 * day, Checkpoints: 30 * day}, nil, ""},
		{"equal", effect.Retention{Operations: 40 * day, Checkpoints: 30 * day, Pause: 10 * day}, nil, ""},
		{"the pause", effect.Retention{Operations: 40*day - 1, Checkpoints: 30 * day, Pause: 10 * day}, nil, "checkpoints can reach them for 960h0m0s"},
		{"the queue", effect.Retention{Operations: 30 * day, Checkpoints: day, Queue: 31 * day}, nil, "queued runs can reach"},
		{"approvals", effect.Retention{Operations: 30 * day, Checkpoints: day, Approvals: 31 * day}, nil, "approvals can reach"},
		{"an effect's approvals", effect.Retention{Operations: 30 * day, Checkpoints: day}, []effect.Declared{slow}, `approvals of "slow" can reach them for 960h0m0s`},
		{"an effect's approvals that never end", effect.Retention{Operations: 30 * day, Checkpoints: day}, []effect.Declared{never}, `approvals of "never"`},
		{"negative", effect.Retention{Operations: -1}, nil, "not negative"},
	} {
		_, err := effect.NewLedger(effect.Options{Key: testKey(1), Retention: c.r, Effects: c.effects})
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	if _, err := effect.NewLedger(effect.Options{Key: testKey(1), Effects: []effect.Declared{slow, slow}}); err == nil {
		t.Error("two effects of one name were taken")
	}
}

func forgetful(o *effect.Options) {
	o.Retention = effect.Retention{Operations: 30 * day, Checkpoints: 20 * day}
}

// sweep runs the source until nothing is due, and says how much that was.
func (p *process) sweep() (done int) {
	p.t.Helper()
	for {
		n, _, err := p.led.Due(p.eng, p.db).Due(p.t.Context(), 2)
		if err != nil {
			p.t.Fatal(err)
		}
		if done += n; n == 0 {
			return done
		}
	}
}

// What is over becomes a tombstone at the second itself; a replay that reaches one is refused, and sends nothing.
func TestTombstones(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		target := pawltest.NewTarget(pawltest.TargetOpaque)
		e := bank(target)
		p := start(t, memory(t), fault.Plan{}, forgetful)
		th := p.thread(e, "t")
		p.paid(th, hundred)
		was := p.operation()
		<-time.After(30*day - time.Second)
		if n := p.sweep(); n != 0 || p.operation().State != effect.StateCommitted {
			t.Errorf("before its time: %d, %+v", n, p.operation())
		}
		<-time.After(time.Second)
		if n := p.sweep(); n != 1 {
			t.Errorf("%d were swept", n)
		}
		op := p.operation()
		if op.State != effect.StateTombstone || op.Final != effect.StateCommitted || op.Key != was.Key || op.Receipt != was.Receipt || op.Proposed != was.Proposed {
			t.Errorf("the tombstone is %+v", op)
		}
		if s, err := p.desk.Show(t.Context(), op.Key); err != nil || len(s.Params) != 0 {
			t.Errorf("shown as %+v, %v", s, err)
		}
		expired := (*effect.ExpiredError)(nil)
		if _, err := th.Replay(t.Context(), pawl.Before("pay")); !errors.As(err, &expired) || expired.Operation != op.Key || expired.Final != effect.StateCommitted {
			t.Errorf("the replay: %v", err)
		}
		more := hundred
		more.Amount = "120.00"
		if _, err := p.thread(e, "t2").Run(t.Context(), order(more)); !errors.As(err, &expired) {
			t.Errorf("other parameters: %v", err)
		}
		if _, err := p.desk.Redo(person(t.Context(), "ops"), op.Key, "again"); err == nil {
			t.Error("a tombstone was redone")
		}
		if n := p.sweep(); n != 0 {
			t.Errorf("swept again: %d", n)
		}
		wantCount(t, target, 1, 0, 1)
	})
}

// An operation of unknown outcome, an abandoned one, one that waits for its dispatch and one whose compensation failed
// survive every sweep of a year.
func TestWhatNeverExpires(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := start(t, memory(t), fault.Plan{}, forgetful)
		target := pawltest.NewTarget(pawltest.TargetOpaque)
		e := bank(target)
		in := func(ref string) *state { s := order(hundred); s.Ref.Set(ref); return s }
		for ref, say := range map[string]*effect.Decision{
			"quarantined": nil, "voided": decision(effect.Abandon()), "released": decision(effect.SendOnce()), "reserved": decision(effect.NotApplied()),
		} {
			target.DropAt(pawltest.TargetReceived, 1)
			if _, err := p.thread(e, ref).Run(t.Context(), in(ref)); err != nil {
				t.Fatal(err)
			}
			if say == nil {
				continue
			}
			for _, op := range p.operations() {
				if op.Ref.ID == ref {
					if _, err := p.desk.Release(person(t.Context(), "ops"), op.Key, *say, "because"); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		p.paid(p.thread(e, "compensation_failed"), hundred)
		refund := effect.New("bank.refund", func(context.Context, effect.Op, transfer) (receipt, error) {
			return receipt{}, effect.Rejected(errTest)
		}).Compensates(e)
		if _, err := refunds(t, refund).Thread(p.eng, "r").Run(t.Context(), order(hundred)); err == nil {
			t.Fatal("a refused refund ended well")
		}
		for range 13 {
			<-time.After(30 * day)
			p.sweep()
		}
		for _, op := range p.operations() {
			switch {
			case op.Effect == "bank.refund":
				if op.State != effect.StateTombstone || op.Final != effect.StateRejected {
					t.Errorf("the refund is %s", op.State)
				}
			case op.Ref.ID == "17" && op.State != effect.StateCompensationFailed, op.Ref.ID != "17" && string(op.State) != op.Ref.ID:
				t.Errorf("%s is %s", op.Ref.ID, op.State)
			}
		}
	})
}

// A sweep against replays: each sees the receipt or is refused, and nothing is sent.
func TestInterleavings(t *testing.T) {
	t.Parallel()
	seen := map[string]int{}
	synctest.Test(t, func(t *testing.T) {
		home, target := memory(t), pawltest.NewTarget(pawltest.TargetOpaque)
		e := bank(target)
		sweeper, runner := start(t, home, fault.Plan{}, forgetful), start(t, home, fault.Plan{}, forgetful)
		in := func(i int) *state { s := order(hundred); s.Ref.Set(fmt.Sprint(i)); return s }
		for i := range rounds {
			if _, err := runner.thread(e, fmt.Sprint("a", i)).Run(t.Context(), in(i)); err != nil {
				t.Fatal(err)
			}
		}
		<-time.After(31 * day)
		var mu sync.Mutex
		var wg sync.WaitGroup
		wg.Go(func() { sweeper.sweep() })
		for w := range 4 {
			wg.Go(func() {
				for i := w; i < rounds; i += 4 {
					out, err := runner.thread(e, fmt.Sprint("b", i)).Run(t.Context(), in(i))
					end := "receipt"
					if expired := (*effect.ExpiredError)(nil); errors.As(err, &expired) {
						end = "refused"
					} else if err != nil || out.Status != pawl.Done {
						t.Errorf("round %d: %+v, %v", i, out, err)
					}
					mu.Lock()
					seen[end]++
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		wantCount(t, target, rounds, 0, rounds)
		for _, op := range runner.operations() {
			if op.State != effect.StateTombstone || op.Attempts != 1 {
				t.Errorf("it ends %+v", op)
			}
		}
	})
	if seen["receipt"]+seen["refused"] != rounds {
		t.Errorf("the replays ended %v", seen)
	}
}

// The source says when it is due next, tells of a settled delay once, and leaves the rest alone.
func TestTheSourceOfTimers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var calls counter
		e := scripted(&calls, fails(errTest)).Lookup(absent).Settle(time.Hour)
		p := start(t, memory(t), fault.Plan{}, forgetful)
		due := p.led.Due(p.eng, p.db)
		if due.Name() != "effect" {
			t.Errorf("it is called %q", due.Name())
		}
		if n, next, err := due.Due(t.Context(), 10); n != 0 || !next.IsZero() || err != nil {
			t.Errorf("with nothing there: %d, %v, %v", n, next, err)
		}
		if _, err := p.thread(e, "t").Run(t.Context(), order(hundred)); err == nil {
			t.Fatal("a doubt ended well")
		}
		began := time.Now()
		if n, next, err := due.Due(t.Context(), 10); n != 0 || !next.Equal(began.Add(time.Hour)) || err != nil {
			t.Errorf("before the delay is over: %d, %v, %v", n, next, err)
		}
		<-time.After(time.Hour)
		for want := 1; want >= 0; want-- {
			if n, next, err := due.Due(t.Context(), 10); n != want || !next.IsZero() || err != nil {
				t.Errorf("after it: %d, want %d, %v, %v", n, want, next, err)
			}
		}
		told := 0
		for _, a := range actions(t, p.db, "t") {
			if a == "effect.due" {
				told++
			}
		}
		if told != 1 || p.operation().State != effect.StateInDoubt || calls.Load() != 1 {
			t.Errorf("told %d times, %d calls, %+v", told, calls.Load(), p.operation())
		}
		if out, err := p.thread(e, "t").Resume(t.Context()); err != nil || out.Status != pawl.Done {
			t.Fatal(out, err)
		}
		if n, next, err := due.Due(t.Context(), 10); n != 0 || !next.Equal(p.operation().Updated.Add(30*day)) || err != nil {
			t.Errorf("committed: %d, %v, %v", n, next, err)
		}
	})
}
