package effect_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/effect"
	"github.com/pawl-dev/pawl/pawltest"
	"github.com/pawl-dev/pawl/storage"
	"github.com/pawl-dev/pawl/storage/fault"
)

// absent is a look-up that finds nothing, and found one that does.
func absent(context.Context, effect.Op, transfer) (receipt, bool, error) {
	return receipt{}, false, nil
}

func found(context.Context, effect.Op, transfer) (receipt, bool, error) {
	return receipt{"tx-found"}, true, nil
}

// "Absent" counts once the settle delay is over, at the second itself; "found" counts at once.
func TestTheSettleDelay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var calls counter
		e := scripted(&calls, fails(errTest)).Lookup(absent).Settle(time.Hour)
		p := start(t, memory(t), fault.Plan{})
		th := p.thread(e, "t")
		_, err := th.Run(t.Context(), order(hundred))
		began := time.Now()
		doubt := (*effect.InDoubtError)(nil)
		if !errors.As(err, &doubt) || !doubt.Due.Equal(began.Add(time.Hour)) || !strings.Contains(err.Error(), "from "+doubt.Due.UTC().Format(time.RFC3339)) {
			t.Fatalf("at once: %v", err)
		}
		<-time.After(time.Hour - time.Nanosecond)
		if _, err := th.Resume(t.Context()); !errors.As(err, &doubt) || calls.Load() != 1 {
			t.Errorf("before the hour is over: %v, %d calls", err, calls.Load())
		}
		<-time.After(time.Nanosecond)
		if out, err := th.Resume(t.Context()); err != nil || out.Status != pawl.Done || calls.Load() != 2 {
			t.Errorf("after the hour: %+v, %v, %d calls", out, err, calls.Load())
		}
	})
	synctest.Test(t, func(t *testing.T) {
		var calls counter
		p := start(t, memory(t), fault.Plan{})
		e := scripted(&calls, fails(errTest)).Lookup(found).Settle(time.Hour)
		if out, err := p.thread(e, "t").Run(t.Context(), order(hundred)); err != nil || out.State.Receipt.Get() != "tx-found" {
			t.Errorf("found at once: %+v, %v", out, err)
		}
	})
}

// Where deaths are presumed, what the dead one sent may still come until its hard deadline; where they are proved, not.
func TestTheHardDeadline(t *testing.T) {
	t.Parallel()
	for name, presumed := range map[string]bool{"a death that is proved": false, "a death that is presumed": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				home := memory(t)
				var calls counter
				p := start(t, home, fault.Plan{})
				dies := func(context.Context) error { p.db.Stop(); return errTest }
				e := scripted(&calls, dies).Lookup(absent).Timeout(time.Minute)
				if _, err := p.thread(e, "t").Run(t.Context(), order(hundred)); err == nil {
					t.Fatal("a dead process ended well")
				}
				q := start(t, home, fault.Plan{}, func(o *effect.Options) { o.Presumed = presumed })
				out, err := q.thread(e, "t").Resume(t.Context())
				if !presumed {
					if err != nil || out.Status != pawl.Done || calls.Load() != 2 {
						t.Errorf("got %+v, %v", out, err)
					}
					return
				}
				doubt := (*effect.InDoubtError)(nil)
				if !errors.As(err, &doubt) || calls.Load() != 1 {
					t.Fatalf("before the deadline: %+v, %v", out, err)
				}
				<-time.After(time.Minute + time.Second)
				if out, err := q.thread(e, "t").Resume(t.Context()); err != nil || out.Status != pawl.Done || calls.Load() != 2 {
					t.Errorf("after the deadline: %+v, %v", out, err)
				}
			})
		})
	}
}

// A look-up that finds something else leaves it to a person.
func TestALookUpThatContradicts(t *testing.T) {
	t.Parallel()
	var calls counter
	e := scripted(&calls, fails(errTest)).Lookup(func(context.Context, effect.Op, transfer) (receipt, bool, error) {
		return receipt{}, false, effect.Conflict(errTest)
	})
	p := start(t, memory(t), fault.Plan{}, func(o *effect.Options) { o.Effects = []effect.Declared{e} })
	out, err := p.thread(e, "t").Run(t.Context(), order(hundred))
	if err != nil || out.Status != pawl.Waiting || out.Waiting[0].Kind != "doubt" {
		t.Fatalf("got %+v, %v", out, err)
	}
	op := p.operation()
	if op.State != effect.StateQuarantined || !op.Clash {
		t.Fatalf("the operation is %+v", op)
	}
	if got, err := p.desk.Evidence(t.Context(), op.Key, effect.Found{Applied: true, Receipt: receipt{"tx"}}, "webhook"); err != nil || got.State != effect.StateQuarantined {
		t.Errorf("evidence decided over a contradiction: %+v, %v", got, err)
	}
	if _, err := p.desk.Release(person(t.Context(), "ops"), op.Key, effect.Applied(receipt{"tx"}), "it is ours"); err != nil {
		t.Error(err)
	}
}

// The key is sent as often as the budget says; then a look-up or a person settles it.
func TestTheBudget(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		lookup bool
		ends   effect.State
	}{{"a look-up", true, effect.StateCommitted}, {"a person", false, effect.StateQuarantined}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var calls counter
			e := scripted(&calls, fails(errTest), fails(errTest), fails(errTest)).Keys(effect.Forever).Budget(3)
			if c.lookup {
				e = e.Lookup(found)
			}
			p := start(t, memory(t), fault.Plan{})
			th := p.thread(e, "t")
			_, err := th.Run(t.Context(), order(hundred))
			for range 3 {
				if err != nil {
					_, err = th.Resume(t.Context())
				}
			}
			if op := p.operation(); op.State != c.ends || calls.Load() != 3 {
				t.Errorf("%d calls, %+v, %v", calls.Load(), op, err)
			}
		})
	}
}

// What a webhook says, for each state that it can come in.
func TestEvidence(t *testing.T) {
	t.Parallel()
	applied := effect.Found{Applied: true, Receipt: receipt{"tx-hook"}, Note: "event 7"}
	for _, c := range []struct {
		name   string
		mode   pawltest.TargetMode
		drop   bool
		say    effect.Found
		ends   effect.State
		alarm  bool
		settle bool // the thread goes on
	}{
		{"applied, quarantined", pawltest.TargetOpaque, true, applied, effect.StateCommitted, false, true},
		{"applied without a receipt, quarantined", pawltest.TargetOpaque, true, effect.Found{Applied: true}, effect.StateQuarantined, false, false},
		{"absent, quarantined", pawltest.TargetOpaque, true, effect.Found{}, effect.StateQuarantined, false, false},
		{"applied, committed", pawltest.TargetOpaque, false, applied, effect.StateCommitted, false, false},
		{"absent, committed", pawltest.TargetOpaque, false, effect.Found{}, effect.StateQuarantined, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			target := pawltest.NewTarget(c.mode)
			p := start(t, memory(t), fault.Plan{})
			th := p.thread(bank(target), "t")
			if c.drop {
				target.DropAt(pawltest.TargetCommitted, 1)
			}
			if _, err := th.Run(t.Context(), order(hundred)); err != nil {
				t.Fatal(err)
			}
			key := p.operation().Key
			op, err := p.desk.Evidence(pawl.WithActor(t.Context(), pawl.Actor{ID: "hook", Kind: "service"}), key[:12], c.say, "webhook")
			if err != nil || op.State != c.ends || p.operation().State != c.ends {
				t.Fatalf("got %+v, %v", op, err)
			}
			if got := slices.Contains(actions(t, p.db, "t"), "effect.alarm"); got != c.alarm {
				t.Errorf("an alarm: %v, want %v", got, c.alarm)
			}
			s, err := p.desk.Show(t.Context(), key)
			if err != nil || len(s.Evidence) != 1 || s.Evidence[0].Kind != "webhook" || s.Evidence[0].By != "hook" || s.Evidence[0].Reason != c.say.Note {
				t.Errorf("the evidence is %+v, %v", s.Evidence, err)
			}
			if c.settle {
				if out, err := th.Resume(t.Context()); err != nil || out.State.Receipt.Get() != "tx-hook" {
					t.Errorf("then: %+v, %v", out, err)
				}
			}
			wantCount(t, target, 1, 0, 1)
		})
	}
	p, _, _ := doubtful(t, memory(t))
	before := dump(t, p.db, append(ledgerKinds(), "audit")...)
	key := p.operation().Key
	for name, err := range map[string]error{
		"no source":      second(p.desk.Evidence(t.Context(), key, applied, "")),
		"our own source": second(p.desk.Evidence(t.Context(), key, applied, "person")),
		"no receipt":     second(p.desk.Evidence(t.Context(), key, effect.Found{Applied: true, Receipt: 7}, "webhook")),
		"no JSON":        second(p.desk.Evidence(t.Context(), key, effect.Found{Applied: true, Receipt: func() {}}, "webhook")),
		"unknown":        second(p.desk.Evidence(t.Context(), strings.Repeat("0", 64), applied, "webhook")),
	} {
		if err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	if dump(t, p.db, append(ledgerKinds(), "audit")...) != before {
		t.Error("a refused piece of evidence changed something")
	}
}

func second[T any](_ T, err error) error { return err }

// A doubt is settled by a look-up without entering a node, and the thread goes on with it.
func TestReconcile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			name string
			find func(context.Context, effect.Op, transfer) (receipt, bool, error)
			ends effect.State
		}{
			{"found", found, effect.StateCommitted}, {"absent", absent, effect.StateReserved},
			{"contradicts", func(context.Context, effect.Op, transfer) (receipt, bool, error) {
				return receipt{}, false, effect.Conflict(errTest)
			}, effect.StateQuarantined},
			{"cannot tell", func(context.Context, effect.Op, transfer) (receipt, bool, error) { return receipt{}, false, errTest }, effect.StateInDoubt},
		} {
			home := memory(t)
			var calls counter
			p := start(t, home, fault.Plan{})
			e := scripted(&calls, func(context.Context) error { p.db.Stop(); return errTest }).Lookup(c.find).Settle(time.Hour)
			if _, err := p.thread(e, "t").Run(t.Context(), order(hundred)); err == nil {
				t.Fatal("a dead process ended well")
			}
			q := start(t, home, fault.Plan{}, func(o *effect.Options) { o.Effects = []effect.Declared{e} })
			key := q.operation().Key
			doubt := (*effect.InDoubtError)(nil)
			op, err := q.desk.Reconcile(person(t.Context(), "ops"), key, "asked")
			if c.ends == effect.StateReserved {
				if !errors.As(err, &doubt) || doubt.Due.IsZero() {
					t.Errorf("%s, at once: %+v, %v", c.name, op, err)
				}
				<-time.After(time.Hour)
				op, err = q.desk.Reconcile(person(t.Context(), "ops"), key, "asked")
			}
			if c.ends == effect.StateInDoubt {
				if !errors.As(err, &doubt) || !errors.Is(err, errTest) {
					t.Errorf("%s: %+v, %v", c.name, op, err)
				}
			} else if err != nil || op.State != c.ends {
				t.Errorf("%s: %+v, %v", c.name, op, err)
			}
			if shown, err := q.desk.Show(t.Context(), key); err != nil || op != nil && len(shown.Evidence) > 0 && shown.Evidence[0].Reason != "asked" {
				t.Errorf("%s: the evidence is %+v, %v", c.name, shown.Evidence, err)
			}
			if got := q.operation().State; got != c.ends || calls.Load() != 1 {
				t.Errorf("%s: it is %s after %d calls", c.name, got, calls.Load())
			}
			settled := (*effect.SettledError)(nil)
			if _, err := q.desk.Reconcile(person(t.Context(), "ops"), key, "asked"); c.ends != effect.StateInDoubt && !errors.As(err, &settled) {
				t.Errorf("%s: reconciled again: %v", c.name, err)
			}
			if strange := start(t, home, fault.Plan{}); second(strange.desk.Reconcile(t.Context(), key, "")) == nil {
				t.Errorf("%s: a program that does not know the effect looked it up", c.name)
			}
		}
	})
}

// captured is a home whose members can be closed over the heads of their owners: what is left of them is fenced.
type captured struct {
	storage.DB
	member storage.Member
}

func (c *captured) Join(ctx context.Context) (storage.Member, error) {
	m, err := c.DB.Join(ctx)
	c.member = m
	return m, err
}

// The result of a worker that was taken over is kept, and raises the alarm where it contradicts what was decided since.
func TestLateResults(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		said  error
		say   []effect.Decision // meanwhile
		ends  effect.State
		found string
		alarm bool
	}{
		{"applied, and nobody decided", nil, nil, effect.StateDispatched, "applied", false},
		{"applied, as was decided", nil, []effect.Decision{effect.Applied(receipt{"tx"})}, effect.StateCommitted, "applied", false},
		{"applied, decided that it was not", nil, []effect.Decision{effect.NotApplied()}, effect.StateQuarantined, "applied", true},
		{"applied, to be sent once more", nil, []effect.Decision{effect.SendOnce()}, effect.StateQuarantined, "applied", true},
		{"applied, abandoned", nil, []effect.Decision{effect.Abandon()}, effect.StateVoided, "applied", false},
		{"not sent, decided that it was", effect.NotSent(errTest), []effect.Decision{effect.Applied(receipt{"tx"})}, effect.StateQuarantined, "not sent", true},
		{"rejected, decided that it was not", effect.Rejected(errTest), []effect.Decision{effect.NotApplied()}, effect.StateReserved, "rejected", false},
		{"unknown", errTest, []effect.Decision{effect.NotApplied()}, effect.StateReserved, "unknown", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			home := memory(t)
			shared := &captured{DB: home}
			zombie, people := start(t, shared, fault.Plan{}), start(t, home, fault.Plan{})
			var calls counter
			e := scripted(&calls, func(context.Context) error {
				if err := shared.member.Close(); err != nil {
					t.Error(err)
				}
				if err := people.thread(bank(pawltest.NewTarget(pawltest.TargetOpaque)), "t").Cancel(t.Context(), "enough"); err != nil {
					t.Error(err)
				}
				for _, say := range c.say {
					if _, err := people.desk.Release(person(t.Context(), "ops"), people.operation().Key, say, "looked"); err != nil {
						t.Error(err)
					}
				}
				return c.said
			})
			out, err := zombie.thread(e, "t").Run(t.Context(), order(hundred))
			if err == nil {
				t.Errorf("the zombie ended well: %+v", out)
			}
			op := people.operation()
			if op.State != c.ends || op.Permit != "" {
				t.Errorf("the operation is %+v, %v", op, err)
			}
			s, err := people.desk.Show(t.Context(), op.Key)
			if err != nil {
				t.Fatal(err)
			}
			last := s.Evidence[len(s.Evidence)-1]
			if last.Kind != "late" || last.Found != c.found || last.Attempt != 1 || (last.Receipt != "") != (c.said == nil) {
				t.Errorf("the evidence is %+v", s.Evidence)
			}
			if got := slices.Contains(actions(t, home, "t"), "effect.alarm"); got != c.alarm {
				t.Errorf("an alarm: %v, want %v", got, c.alarm)
			}
		})
	}
}
