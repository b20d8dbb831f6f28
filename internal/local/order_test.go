package local

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/records"
	"github.com/pawl-dev/pawl/storage"
	"github.com/pawl-dev/pawl/storage/fault"
)

// promised is what a run was told to be on disk.
type promised struct {
	steps     []string
	questions []string
	places    []int64 // of checkpoints that a synchronous commit returned
	claimed   bool
	stopped   bool
}

// script is a run with everything that hangs from checkpoints: it stops at the first error.
func script(p *process, mode core.Durability) (got promised, err error) {
	ctx := context.Background()
	r, err := p.claim(mode)
	if err != nil {
		return got, err
	}
	got.claimed = true
	step := func(name string) error {
		err := r.step(name)
		if err == nil {
			got.steps = append(got.steps, name)
			got.places = append(got.places, r.head.N)
		}
		return err
	}
	advance := func() error {
		err := r.advance()
		if err == nil && mode == core.Sync {
			got.places = append(got.places, r.head.N)
		}
		return err
	}
	ask := func(q, old *core.Question) error {
		err := r.Ask(ctx, q, old)
		if err == nil {
			got.questions = append(got.questions, q.ID)
		}
		return err
	}
	for i := range 3 {
		if err := advance(); err != nil {
			return got, err
		}
		if err := step(fmt.Sprint("step-", i)); err != nil {
			return got, err
		}
		if err := r.ended(r.result("ping")); err != nil {
			return got, err
		}
		if err := advance(); err != nil {
			return got, err
		}
		if err := advance(); err != nil {
			return got, err
		}
	}
	first := r.question("ship", 1)
	second := r.question("ship", 2)
	if err := ask(first, nil); err != nil {
		return got, err
	}
	if err := step("after-asking"); err != nil {
		return got, err
	}
	if err := ask(second, first); err != nil {
		return got, err
	}
	if _, err := r.Settle(ctx, second, core.QuestionExpired); err != nil {
		return got, err
	}
	if err := r.ended(r.result("ping")); err != nil {
		return got, err
	}
	if err := r.stop(core.StatusWaiting); err != nil {
		return got, err
	}
	got.stopped, got.places = true, append(got.places, r.head.N)
	return got, nil
}

// kept fails unless what was promised is on disk.
func (p promised) kept(t *testing.T, db storage.DB, when string) {
	t.Helper()
	rows := contents(t, db)
	on := places(rows)
	for _, n := range p.places {
		if !slices.Contains(on, n) {
			t.Fatalf("%s: checkpoint %d was promised and is not on disk: %v", when, n, on)
		}
	}
	steps := stepNames(t, db)
	for _, name := range p.steps {
		if !slices.Contains(steps, name) {
			t.Fatalf("%s: step %s was promised and is not on disk: %v", when, name, steps)
		}
	}
	var asked []string
	for _, row := range rows[records.Question] {
		asked = append(asked, row.Key[0].(string))
	}
	for _, id := range p.questions {
		if !slices.Contains(asked, id) {
			t.Fatalf("%s: question %s was promised and is not on disk", when, id)
		}
	}
	if p.claimed && len(rows[records.Run]) == 0 {
		t.Fatalf("%s: the run was accepted and is not on disk", when)
	}
}

// The process dies at every point of every Update. Whatever is on disk then hangs together, and all that was promised
// is there; the next process takes the thread and goes on.
func TestDeathAtEveryPoint(t *testing.T) {
	t.Parallel()
	for _, mode := range modes {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			db := disk(t)
			whole := start(t, db, fault.Plan{})
			want, err := script(whole, mode)
			if err != nil || !want.stopped {
				t.Fatal(err)
			}
			sound(t, db, "without a fault")
			want.kept(t, db, "without a fault")
			deaths := 0
			for n := range whole.faults.Calls() {
				when := fmt.Sprint("dead at point ", n)
				db := disk(t)
				p := start(t, db, fault.Plan{At: fault.At(n, fault.Stop())})
				got, err := script(p, mode)
				if err == nil && mode == core.Sync {
					t.Fatalf("%s: the run did not notice", when)
				}
				if err != nil {
					deaths++
				}
				p.faults.Stop()
				sound(t, db, when)
				got.kept(t, db, when)
				next := start(t, db, fault.Plan{})
				seen, err := next.Peek(context.Background(), "", thread)
				if err != nil {
					t.Fatalf("%s: %v", when, err)
				}
				if got.claimed && !got.stopped && seen.Status != core.StatusCrashed && seen.Status != core.StatusWaiting {
					t.Fatalf("%s: the thread is %s", when, seen.Status)
				}
				if _, err := script(next, mode); err != nil {
					t.Fatalf("%s: the next process failed: %v", when, err)
				}
				sound(t, db, when+", then run again")
			}
			if deaths == 0 {
				t.Fatal("no process died")
			}
		})
	}
}

// A write that fails before its commit breaks the home: what follows is refused with the same failure and writes
// nothing, so that nothing on disk ever hangs in the air.
func TestFailureAtEveryPoint(t *testing.T) {
	t.Parallel()
	full := errors.New("the disk is full")
	for _, mode := range modes {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			whole := start(t, disk(t), fault.Plan{})
			if _, err := script(whole, mode); err != nil {
				t.Fatal(err)
			}
			for n := 0; n < whole.faults.Calls(); n += 2 {
				when := fmt.Sprint("failed at point ", n)
				db := disk(t)
				p := start(t, db, fault.Plan{At: fault.At(n, fault.Fail(full))})
				got, err := script(p, mode)
				if p.faults.Calls() > n && !errors.Is(err, full) {
					t.Fatalf("%s: the run went on: %v", when, err)
				}
				sound(t, db, when)
				got.kept(t, db, when)
			}
		})
	}
}

// After a commit whose outcome nobody told the home reads back and goes on as if nothing had been.
func TestUnknownOutcomesAreReadBack(t *testing.T) {
	t.Parallel()
	lost := errors.New("the connection was lost")
	for _, mode := range modes {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			clean := disk(t)
			whole := start(t, clean, fault.Plan{})
			if _, err := script(whole, mode); err != nil {
				t.Fatal(err)
			}
			for n := 1; n < whole.faults.Calls(); n += 2 {
				when := fmt.Sprint("lost at point ", n)
				db := disk(t)
				got, err := script(start(t, db, fault.Plan{At: fault.At(n, fault.Fail(lost))}), mode)
				if err != nil || !got.stopped {
					t.Fatalf("%s: %v", when, err)
				}
				sound(t, db, when)
				got.kept(t, db, when)
				if mode == core.Async { // how much each background write takes is a matter of chance
					continue
				}
				a, b := contents(t, clean), contents(t, db)
				for kind := range a {
					if len(a[kind]) != len(b[kind]) {
						t.Fatalf("%s: %d rows of %s, and %d without a fault", when, len(b[kind]), kind, len(a[kind]))
					}
				}
			}
		})
	}
}

// A step that is on disk has its checkpoint, in all modes and at once; under Exit alone the checkpoints before it are
// not there.
func TestAStepBringsItsCheckpoint(t *testing.T) {
	t.Parallel()
	for mode, want := range map[core.Durability][]int64{core.Sync: {1, 2, 3, 4}, core.Async: {1, 2, 3, 4}, core.Exit: {4}} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			db := disk(t)
			r := start(t, db, fault.Plan{}).mustClaim(t, mode)
			for range 3 {
				if err := r.advance(); err != nil {
					t.Fatal(err)
				}
			}
			if err := r.step("s"); err != nil {
				t.Fatal(err)
			}
			samePlaces(t, db, want...)
			sound(t, db, "after the step")
		})
	}
}

// A task's write is stored once: the version of the channel is the row of the task that ended before.
func TestWritesAreStoredOnce(t *testing.T) {
	t.Parallel()
	for _, mode := range modes {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			db := disk(t)
			r := start(t, db, fault.Plan{}).mustClaim(t, mode)
			res, other := r.result("ping"), r.result("pong")
			if err := r.ended(res); err != nil {
				t.Fatal(err)
			}
			if err := r.step("s"); err != nil {
				t.Fatal(err)
			}
			cp := r.next(res, other)
			if err := r.Commit(context.Background(), core.Commit{Checkpoint: r.head, Next: cp, Durable: true}); err != nil {
				t.Fatal(err)
			}
			if n := len(contents(t, db)[records.Value]); n != 3 { // two writes and the list of both
				t.Errorf("two writes made %d rows", n)
			}
			sound(t, db, "after the merge")
			r.head = cp
			one := r.result("ping")
			if err := r.ended(one); err != nil {
				t.Fatal(err)
			}
			cp = r.next(one)
			if err := r.Commit(context.Background(), core.Commit{Checkpoint: r.head, Next: cp, Durable: true}); err != nil {
				t.Fatal(err)
			}
			rows := contents(t, db)[records.Value]
			last := rows[len(rows)-1]
			if v := cp.Values[0]; len(rows) != 4 || last.Fields[1] != int64(v.Size) || last.Fields[2] != int64(v.Cost) || v.Size == 0 {
				t.Errorf("a write alone made the row %v of %d; its version has size %d and cost %d", last.Fields, len(rows), v.Size, v.Cost)
			}
		})
	}
}
