package local

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/storage/fault"
)

// onCall acts before the n-th Update of a process, counted from 0: the claim.
func onCall(n int, a fault.Action) fault.Plan {
	return fault.Plan{At: func(p fault.Point) fault.Action {
		if p.Call == n && p.Place == fault.Before {
			return a
		}
		return fault.Action{}
	}}
}

// Under Async one super-step may be on its way to the disk and one wait behind it; the run itself stops at the third.
// The bubble fails if a goroutine is left when the run is over.
func TestOneSuperStepInFlightAndOneWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := disk(t)
		gate := fault.NewGate()
		r := start(t, db, onCall(1, fault.Hold(gate))).mustClaim(t, core.Async)
		if err := r.advance(); err != nil {
			t.Fatal(err)
		}
		<-gate.Reached()
		samePlaces(t, db)
		if err := r.advance(); err != nil {
			t.Fatal(err)
		}
		third := make(chan error, 1)
		go func() { third <- r.advance() }()
		synctest.Wait()
		select {
		case err := <-third:
			t.Fatalf("a third super-step ended before the first was on disk: %v", err)
		default:
		}
		samePlaces(t, db)
		gate.Release()
		if err := <-third; err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		samePlaces(t, db, 1, 2, 3, 4)
		if err := r.stop(core.StatusDone); err != nil {
			t.Fatal(err)
		}
		sound(t, db, "at the end")
	})
}

// What waits behind a held write goes to disk in one Update, with the step that needs it.
func TestAStepWaitsForWhatIsInFlight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := disk(t)
		gate := fault.NewGate()
		r := start(t, db, onCall(1, fault.Hold(gate))).mustClaim(t, core.Async)
		if err := r.advance(); err != nil {
			t.Fatal(err)
		}
		<-gate.Reached()
		if err := r.advance(); err != nil {
			t.Fatal(err)
		}
		step := make(chan error, 1)
		go func() { step <- r.step("s") }()
		synctest.Wait()
		if len(stepNames(t, db)) > 0 || len(step) > 0 {
			t.Fatal("the step did not wait for the checkpoint that it hangs from")
		}
		gate.Release()
		if err := <-step; err != nil {
			t.Fatal(err)
		}
		samePlaces(t, db, 1, 2, 3)
		sound(t, db, "after the step")
		if err := r.stop(core.StatusDone); err != nil {
			t.Fatal(err)
		}
	})
}

// Steps of several tasks at once, beside tasks that end: one write at a time, each with what it hangs from.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	for _, mode := range modes {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				db := disk(t)
				r := start(t, db, fault.Plan{Delay: time.Millisecond}).mustClaim(t, mode)
				errs := make(chan error, 60)
				for i := range 20 {
					go func() { errs <- r.step("step-" + string(rune('a'+i))) }()
					go func() { errs <- r.Ask(t.Context(), r.question("ask-"+string(rune('a'+i)), 1), nil) }()
					go func() { errs <- r.ended(r.result("ping")) }()
				}
				for range 60 {
					if err := <-errs; err != nil {
						t.Error(err)
					}
				}
				if err := r.stop(core.StatusWaiting); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if got := stepNames(t, db); len(got) != 20 {
					t.Errorf("%d of 20 steps are on disk: %v", len(got), got)
				}
				sound(t, db, string(mode))
			})
		})
	}
}

func TestAFailedBackgroundWriteStopsTheRun(t *testing.T) {
	t.Parallel()
	full := errors.New("the disk is full")
	for _, c := range []struct {
		name string
		do   func(r *run) error
	}{
		{"at the next super-step", (*run).advance},
		{"at the next step", func(r *run) error { return r.step("s") }},
		{"at the next question", func(r *run) error { return r.Ask(context.Background(), r.question("q", 1), nil) }},
		{"at its end", func(r *run) error { return r.stop(core.StatusDone) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				db := disk(t)
				r := start(t, db, onCall(1, fault.Fail(full))).mustClaim(t, core.Async)
				before := text(contents(t, db))
				if err := r.advance(); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if err := c.do(r); !errors.Is(err, full) {
					t.Errorf("got %v; want the failure of the write", err)
				}
				synctest.Wait()
				if after := text(contents(t, db)); after != before {
					t.Errorf("after the failure more was written: %s", after)
				}
			})
		})
	}
}

// A run that is blocked behind a write that fails is told, too.
func TestAFailureWakesWhoWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := disk(t)
		gate := fault.NewGate()
		p := start(t, db, onCall(1, fault.Hold(gate)))
		r := p.mustClaim(t, core.Async)
		if err := r.advance(); err != nil {
			t.Fatal(err)
		}
		<-gate.Reached()
		if err := r.advance(); err != nil {
			t.Fatal(err)
		}
		blocked := make(chan error, 1)
		go func() { blocked <- r.advance() }()
		synctest.Wait()
		p.faults.Stop()
		if err := <-blocked; !errors.Is(err, fault.ErrStopped) {
			t.Errorf("the run that waited is told %v", err)
		}
		samePlaces(t, db)
	})
}

func TestLettingGoWaitsForWhatIsInFlight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := disk(t)
		gate := fault.NewGate()
		p := start(t, db, onCall(1, fault.Hold(gate)))
		r := p.mustClaim(t, core.Async)
		if err := r.advance(); err != nil {
			t.Fatal(err)
		}
		<-gate.Reached()
		gone := make(chan error, 1)
		go func() { gone <- r.Abandon(context.Background()) }()
		synctest.Wait()
		if len(gone) > 0 {
			t.Fatal("the thread was let go while a write was on its way")
		}
		gate.Release()
		if err := <-gone; err != nil {
			t.Fatal(err)
		}
		samePlaces(t, db, 1, 2)
		seen, err := p.Peek(context.Background(), "", thread)
		if err != nil || seen.Status != core.StatusCrashed {
			t.Errorf("the thread is %s, %v", seen.Status, err)
		}
	})
}

// Under Exit nothing of the super-steps is written before the run stops; then the newest alone, its parent the last
// one on disk.
func TestExitKeepsTheNewest(t *testing.T) {
	t.Parallel()
	db := disk(t)
	p := start(t, db, fault.Plan{})
	r := p.mustClaim(t, core.Exit)
	before := text(contents(t, db))
	advance := func() {
		t.Helper()
		if err := r.advance(); err != nil {
			t.Fatal(err)
		}
	}
	parents := func() (out [][2]int64) {
		t.Helper()
		seen, err := p.Peek(context.Background(), "", thread)
		if err != nil {
			t.Fatal(err)
		}
		for at := seen.Head.Checkpoint; ; {
			out = append(out, [2]int64{at.N, at.Parent})
			if at.Parent == 0 {
				return out
			}
			at = readCheckpoint(t, p, at.Parent)
		}
	}
	for range 3 {
		advance()
		if err := r.ended(r.result("ping")); err != nil {
			t.Fatal(err)
		}
	}
	if after := text(contents(t, db)); after != before {
		t.Fatalf("before anything hangs from it something was written: %s", after)
	}
	if err := r.step("first"); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		advance()
	}
	if err := r.step("second"); err != nil {
		t.Fatal(err)
	}
	if err := r.step("third"); err != nil {
		t.Fatal(err)
	}
	advance()
	advance()
	if err := r.stop(core.StatusDone); err != nil {
		t.Fatal(err)
	}
	if got, want := parents(), [][2]int64{{9, 7}, {7, 4}, {4, 0}}; !slices.Equal(got, want) {
		t.Errorf("checkpoints and their parents are %v; want %v", got, want)
	}
	sound(t, db, "at the end")
	seen, err := p.Peek(context.Background(), "", thread)
	if err != nil {
		t.Fatal(err)
	}
	pos, err := NewHome(p.Store, seen, "", thread, graph(), 0).Own(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if doc, err := pos.Head.Values[0].Bytes(); err != nil || string(doc) != "[1,2,3,4,5,6,7,8]" {
		t.Errorf("of the list %s is left, %v", doc, err)
	}
}

// A node that is declared durable waits for its super-step in every mode.
func TestDurableSuperSteps(t *testing.T) {
	t.Parallel()
	for mode, want := range map[core.Durability][]int64{core.Sync: {1, 2, 3}, core.Async: {1, 2, 3}, core.Exit: {3}} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			db := disk(t)
			r := start(t, db, fault.Plan{}).mustClaim(t, mode)
			if err := r.advance(); err != nil {
				t.Fatal(err)
			}
			cp := r.next(r.result("ping"))
			if err := r.Commit(context.Background(), core.Commit{Checkpoint: r.head, Next: cp, Durable: true}); err != nil {
				t.Fatal(err)
			}
			samePlaces(t, db, want...)
		})
	}
}

func TestTheWindowIsMeasured(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := start(t, disk(t), fault.Plan{Delay: 10 * time.Millisecond})
		r := p.mustClaim(t, core.Exit)
		for range 3 {
			<-time.After(time.Second) // of the bubble's clock: no time passes
			if err := r.advance(); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.stop(core.StatusDone); err != nil {
			t.Fatal(err)
		}
		f := p.Stats.Read()
		if f.Writes != 2 || f.Least != 10*time.Millisecond || f.Most != f.Least || f.Median != f.Least {
			t.Errorf("two writes of 10 ms are %+v", f)
		}
		if f.Window < 2*time.Second {
			t.Errorf("finished work waited two seconds, and the window is %v", f.Window)
		}
	})
}
