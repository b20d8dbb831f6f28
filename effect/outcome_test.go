package effect_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
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

// scripted is an effect whose function does what the test says, attempt by attempt; then it succeeds.
func scripted(calls *counter, script ...func(ctx context.Context) error) money {
	return effect.New("bank.transfer", func(ctx context.Context, _ effect.Op, _ transfer) (receipt, error) {
		n := int(calls.Add(1))
		if n <= len(script) {
			if err := script[n-1](ctx); err != nil {
				return receipt{}, err
			}
		}
		return receipt{fmt.Sprintf("tx-%d", n)}, nil
	})
}

func fails(err error) func(context.Context) error {
	return func(context.Context) error { return err }
}

// What a function's end means: for the operation, for Do, and for the next entry.
func TestWhatAFunctionSays(t *testing.T) {
	t.Parallel()
	panics := func(context.Context) error { panic("boom") }
	exits := func(context.Context) error { runtime.Goexit(); return nil }
	for _, c := range []struct {
		name   string
		said   func(context.Context) error
		keys   bool
		status pawl.Status
		state  effect.State
		calls  int64  // in the first run
		err    string // of the run
		then   string // the receipt after a resume; empty: none
	}{
		{"not sent", fails(effect.NotSent(errTest)), false, pawl.Failed, effect.StateReserved, 1, "nothing was sent: the test says so; it may be tried again", "tx-2"},
		{"not sent, wrapped", fails(fmt.Errorf("dial: %w", effect.NotSent(errTest))), false, pawl.Failed, effect.StateReserved, 1, "it may be tried again", "tx-2"},
		{"rejected", fails(effect.Rejected(errTest)), false, pawl.Failed, effect.StateRejected, 1, "refused it for good: the test says so", ""},
		{"unknown, opaque", fails(errTest), false, pawl.Waiting, effect.StateQuarantined, 1, "", ""},
		{"unknown, keys", fails(errTest), true, pawl.Done, effect.StateCommitted, 2, "", "tx-2"},
		{"panic, opaque", panics, false, pawl.Waiting, effect.StateQuarantined, 1, "", ""},
		{"panic, keys", panics, true, pawl.Done, effect.StateCommitted, 2, "", "tx-2"},
		{"goexit, opaque", exits, false, pawl.Waiting, effect.StateQuarantined, 1, "", ""},
		{"goexit, keys", exits, true, pawl.Done, effect.StateCommitted, 2, "", "tx-2"},
		{"its own context's end, opaque", fails(context.DeadlineExceeded), false, pawl.Waiting, effect.StateQuarantined, 1, "", ""},
	} {
		for _, needsYes := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, approval %v", c.name, needsYes), func(t *testing.T) {
				t.Parallel()
				var calls counter
				e := scripted(&calls, c.said)
				if c.keys {
					e = e.Keys(effect.Forever)
				}
				if needsYes {
					e = approved(e)
				}
				p := start(t, memory(t), fault.Plan{})
				th := p.thread(e, "t")
				out, err := th.Run(t.Context(), order(hundred))
				if needsYes {
					if err != nil || p.yes(out) != 1 {
						t.Fatal(out, err)
					}
					out, err = th.Resume(t.Context())
				}
				if out == nil || out.Status != c.status || calls.Load() != c.calls {
					t.Fatalf("%d calls, %+v, %v", calls.Load(), out, err)
				}
				if c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
					t.Errorf("the error is %v, want %q", err, c.err)
				}
				op := p.operation()
				if op.State != c.state || op.Doubt != c.state.Unknown() {
					t.Errorf("the operation is %+v", op)
				}
				if needsYes {
					want := approval.Consumed
					if c.state == effect.StateReserved {
						want = approval.Granted // it came back with the proof
					}
					if r := p.requests()[0]; r.State != want {
						t.Errorf("the grant is %s, want %s", r.State, want)
					}
				}
				out, err = th.Resume(t.Context())
				if c.then != "" && (err != nil || out.State.Receipt.Get() != c.then) {
					t.Errorf("then: %+v, %v", out, err)
				}
				if c.then == "" && calls.Load() != c.calls {
					t.Errorf("it was called again: %d", calls.Load())
				}
				if c.state == effect.StateRejected {
					got := (*effect.RejectedError)(nil)
					if !errors.As(err, &got) || got.Reason != "the test says so" {
						t.Errorf("the next entry got %v", err)
					}
				}
				if n := len(p.requests()); needsYes && n != 1 {
					t.Errorf("asked %d times", n)
				}
			})
		}
	}
}

// A word about a second attempt is none about the first, which may have happened.
func TestALaterWordDoesNotClearADoubt(t *testing.T) {
	t.Parallel()
	for name, second := range map[string]error{"not sent": effect.NotSent(errTest), "rejected": effect.Rejected(errTest), "unknown": errTest} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var calls counter
			e := scripted(&calls, fails(errTest), fails(second)).Keys(effect.Forever)
			p := start(t, memory(t), fault.Plan{})
			th := p.thread(e, "t")
			_, err := th.Run(t.Context(), order(hundred))
			got := (*effect.InDoubtError)(nil)
			if !errors.As(err, &got) || got.Attempt != 2 || calls.Load() != 2 {
				t.Fatalf("%d calls, %v", calls.Load(), err)
			}
			if op := p.operation(); op.State != effect.StateInDoubt || !op.Doubt || op.Attempts != 2 {
				t.Errorf("the operation is %+v", op)
			}
			if out, err := th.Resume(t.Context()); err != nil || out.State.Receipt.Get() != "tx-3" {
				t.Errorf("then: %+v, %v", out, err)
			}
		})
	}
}

// A look-up that cannot tell leaves the doubt; one that can ends it, and is kept as evidence.
func TestLookUps(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		find    func(context.Context) (receipt, bool, error)
		state   effect.State
		calls   int64
		receipt string
		found   string
	}{
		{"found", func(context.Context) (receipt, bool, error) { return receipt{"tx-0"}, true, nil }, effect.StateCommitted, 1, "tx-0", "applied"},
		{"absent", func(context.Context) (receipt, bool, error) { return receipt{}, false, nil }, effect.StateCommitted, 2, "tx-2", "absent"},
		{"fails", func(context.Context) (receipt, bool, error) { return receipt{}, false, errTest }, effect.StateInDoubt, 1, "", ""},
		{"found and fails", func(context.Context) (receipt, bool, error) { return receipt{"x"}, true, errTest }, effect.StateInDoubt, 1, "", ""},
		{"panics", func(context.Context) (receipt, bool, error) { panic("boom") }, effect.StateInDoubt, 1, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var calls, asked counter
			e := scripted(&calls, fails(errTest)).Lookup(func(ctx context.Context, op effect.Op, in transfer) (receipt, bool, error) {
				if asked.Add(1); op.Sent.IsZero() || op.Attempt != 1 || in != hundred {
					t.Errorf("the look-up got %+v, %+v", op, in)
				}
				return c.find(ctx)
			})
			p := start(t, memory(t), fault.Plan{})
			out, err := p.thread(e, "t").Run(t.Context(), order(hundred))
			op := p.operation()
			if op.State != c.state || calls.Load() != c.calls || asked.Load() != 1 {
				t.Fatalf("%d calls, %d look-ups, %+v; %v", calls.Load(), asked.Load(), op, err)
			}
			if c.receipt != "" && (err != nil || out.State.Receipt.Get() != c.receipt) {
				t.Errorf("got %+v, %v", out, err)
			}
			got := (*effect.InDoubtError)(nil)
			if c.receipt == "" && !errors.As(err, &got) {
				t.Errorf("got %v", err)
			}
			s, err := p.desk.Show(t.Context(), op.Key)
			if err != nil {
				t.Fatal(err)
			}
			if c.found == "" && len(s.Evidence) != 0 || c.found != "" && (len(s.Evidence) != 1 || s.Evidence[0].Found != c.found || s.Evidence[0].Kind != "look-up") {
				t.Errorf("the evidence is %+v", s.Evidence)
			}
		})
	}
}

// The end of a run does not cut a dispatch: it is awaited, recorded, and nothing new is sent.
func TestACancelledRunAwaitsWhatIsInFlight(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		said  error
		state effect.State
	}{{"it works", nil, effect.StateCommitted}, {"unknown", errTest, effect.StateInDoubt}, {"not sent", effect.NotSent(errTest), effect.StateReserved}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var calls counter
			inside, goOn := make(chan struct{}), make(chan struct{})
			e := scripted(&calls, func(ctx context.Context) error {
				close(inside)
				<-goOn
				if ctx.Err() != nil {
					t.Errorf("the call's context ended: %v", context.Cause(ctx))
				}
				return c.said
			}).Keys(effect.Forever)
			p := start(t, memory(t), fault.Plan{})
			th := p.thread(e, "t")
			ctx, cancel := context.WithCancel(t.Context())
			over := make(chan error, 1)
			go func() {
				_, err := th.Run(ctx, order(hundred))
				over <- err
			}()
			<-inside
			cancel()
			select {
			case err := <-over:
				t.Fatalf("the run did not wait for the dispatch: %v", err)
			default:
			}
			close(goOn)
			<-over
			if op := p.operation(); op.State != c.state || calls.Load() != 1 {
				t.Errorf("%d calls, the operation is %+v", calls.Load(), op)
			}
			if out, err := th.Resume(t.Context()); err != nil || out.Status != pawl.Done {
				t.Errorf("then: %+v, %v", out, err)
			}
			want := int64(1)
			if c.said != nil {
				want = 2
			}
			if calls.Load() != want || p.operation().State != effect.StateCommitted {
				t.Errorf("then: %d calls, %+v", calls.Load(), p.operation())
			}
		})
	}
}

// A function that never returns is left behind after its time, as an unknown outcome; the node's timeout does not matter.
func TestAFunctionThatDoesNotReturn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var calls counter
		stuck := make(chan struct{})
		e := scripted(&calls, func(ctx context.Context) error {
			if at, ok := ctx.Deadline(); !ok || time.Until(at) != 5*time.Second {
				t.Errorf("the deadline is %v", at)
			}
			<-stuck
			return nil
		}).Timeout(5 * time.Second)
		p := start(t, memory(t), fault.Plan{})
		g, err := pawl.New[state]("g").Node("pay", payNode(e), pawl.Uses(e), pawl.Timeout(time.Second)).Edge(pawl.Start, "pay").Build()
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		out, err := g.Thread(p.eng, "t").Run(t.Context(), order(hundred))
		if err != nil || out.Status != pawl.Waiting || out.Waiting[0].Kind != "doubt" || time.Since(begin) != 6*time.Second {
			t.Errorf("after %v: %+v, %v", time.Since(begin), out, err)
		}
		close(stuck)
		synctest.Wait()
		if op := p.operation(); op.State != effect.StateQuarantined {
			t.Errorf("a late answer made it %s", op.State)
		}
	})
}

// An expired request is a no for this time, and an old grant is asked for anew. Both are judged at the second itself.
func TestTheTwoClocks(t *testing.T) {
	t.Parallel()
	t.Run("nobody answers", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			var calls counter
			e := approved(scripted(&calls))
			p := start(t, memory(t), fault.Plan{})
			th := p.thread(e, "t")
			if out, err := th.Run(t.Context(), order(hundred)); err != nil || out.Status != pawl.Waiting {
				t.Fatal(out, err)
			}
			<-time.After(time.Hour - time.Nanosecond)
			if out, err := th.Resume(t.Context()); err != nil || out.Status != pawl.Waiting {
				t.Fatalf("before the hour is over: %+v, %v", out, err)
			}
			<-time.After(time.Nanosecond)
			_, err := th.Resume(t.Context())
			got := (*effect.DeniedError)(nil)
			if !errors.As(err, &got) || !got.Expired || !errors.Is(err, pawl.ErrExpired) || calls.Load() != 0 {
				t.Fatalf("got %v", err)
			}
			out, err := th.Resume(t.Context())
			if err != nil || out.Status != pawl.Waiting || p.yes(out) != 1 {
				t.Fatalf("asked anew: %+v, %v", out, err)
			}
			ops := p.operations()
			if len(ops) != 2 || ops[0].State != effect.StateVoided || ops[1].State != effect.StateReserved {
				t.Errorf("the operations are %+v", ops)
			}
		})
	})
	t.Run("nobody resumes", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			var calls counter
			e := approved(scripted(&calls))
			p := start(t, memory(t), fault.Plan{})
			th := p.thread(e, "t")
			out, err := th.Run(t.Context(), order(hundred))
			if err != nil || p.yes(out) != 1 {
				t.Fatal(out, err)
			}
			<-time.After(time.Hour)
			if out, err = th.Resume(t.Context()); err != nil || out.Status != pawl.Waiting || calls.Load() != 0 {
				t.Fatalf("an old grant was used: %+v, %v", out, err)
			}
			p.yes(out)
			if out, err = th.Resume(t.Context()); err != nil || out.Status != pawl.Done || calls.Load() != 1 {
				t.Fatal(out, err)
			}
			var states []approval.State
			for _, r := range p.requests() {
				states = append(states, r.State)
			}
			slices.Sort(states)
			if !slices.Equal(states, []approval.State{approval.Consumed, approval.Lapsed}) {
				t.Errorf("the requests are %v", states)
			}
		})
	})
	t.Run("the target forgets its keys", func(t *testing.T) {
		t.Parallel()
		for _, c := range []struct {
			after time.Duration
			want  pawl.Status
		}{{9*time.Hour - time.Minute, pawl.Done}, {9*time.Hour + time.Minute, pawl.Waiting}} {
			synctest.Test(t, func(t *testing.T) {
				var calls counter
				e := scripted(&calls, fails(errTest), fails(errTest)).Keys(10 * time.Hour)
				p := start(t, memory(t), fault.Plan{})
				th := p.thread(e, "t")
				if _, err := th.Run(t.Context(), order(hundred)); err == nil {
					t.Fatal("two unknown outcomes ended well")
				}
				<-time.After(c.after)
				out, err := th.Resume(t.Context())
				if err != nil || out.Status != c.want {
					t.Errorf("after %v: %+v, %v", c.after, out, err)
				}
			})
		}
	})
}

// Where the home cannot tell whether the dispatch is recorded, it is read back before a byte is sent.
func TestAnAttemptIsReadBackBeforeItIsSent(t *testing.T) {
	t.Parallel()
	for n := range 40 {
		target, home := pawltest.NewTarget(pawltest.TargetOpaque), memory(t)
		e := bank(target)
		lost := &storage.UnknownError{Err: errTest}
		p := start(t, home, fault.Plan{At: fault.At(n, fault.Fail(lost))})
		th := p.thread(e, "t")
		_, err := th.Run(t.Context(), order(hundred))
		c := target.Count()
		if err != nil && c.Requests > 0 && p.operation().State == effect.StateReserved {
			t.Errorf("point %d: sent without a record: %v", n, err)
		}
		if err == nil && c.Rows != 1 {
			t.Errorf("point %d: %s", n, c)
		}
		q := start(t, home, fault.Plan{})
		_ = p.eng.Close()
		asked, end := drive(t, q, home, e)
		if c := target.Count(); c.Requests > 1 || c.Rows > 1 || asked != 0 || end != "done" && end != "waits" {
			t.Errorf("point %d: %s, %s", n, c, end)
		}
	}
}

// The read-back finds the attempt, so the run goes on as if nothing had happened; the same for the outcome.
func TestAReadBackThatFindsItsRowGoesOn(t *testing.T) {
	t.Parallel()
	for _, state := range []effect.State{effect.StateDispatched, effect.StateCommitted} {
		t.Run(string(state), func(t *testing.T) {
			t.Parallel()
			target, home := pawltest.NewTarget(pawltest.TargetOpaque), memory(t)
			e := bank(target)
			hit := 0
			p := start(t, home, fault.Plan{At: func(at fault.Point) fault.Action {
				rows := rowsOf(t, home, "operation")
				if at.Place != fault.After || hit > 0 || len(rows) == 0 || rows[0].Fields[1] != string(state) {
					return fault.Action{}
				}
				hit++
				return fault.Fail(errTest)
			}})
			out, err := p.thread(e, "t").Run(t.Context(), order(hundred))
			if err != nil || out.Status != pawl.Done || hit != 1 {
				t.Errorf("hit %d: %+v, %v", hit, out, err)
			}
			wantCount(t, target, 1, 0, 1)
		})
	}
}
