package local

import (
	"context"
	"errors"
	"testing"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/records"
	"github.com/pawl-dev/pawl/storage"
	"github.com/pawl-dev/pawl/storage/fault"
)

// takenOver is a run whose process everybody took for dead, and the run of the process that took the thread.
func takenOver(t *testing.T, db storage.DB, mode core.Durability) (zombie, owner *run) {
	t.Helper()
	p := start(t, db, fault.Plan{})
	zombie = p.mustClaim(t, mode)
	if err := zombie.step("before"); err != nil {
		t.Fatal(err)
	}
	if err := p.member.Close(); err != nil {
		t.Fatal(err)
	}
	return zombie, start(t, db, fault.Plan{}).mustClaim(t, core.Sync)
}

func TestAZombieWritesNothing(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for _, c := range []struct {
		name string
		do   func(r *run) error
	}{
		{"a step", func(r *run) error { return r.step("zombie") }},
		{"a question", func(r *run) error { return r.Ask(ctx, r.question("zombie", 1), nil) }},
		{"a question in place of another", func(r *run) error {
			return r.Ask(ctx, r.question("zombie", 2), &core.Question{ID: "old", Rev: 1, State: core.QuestionOpen})
		}},
		{"a settled question", func(r *run) error {
			_, err := r.Settle(ctx, &core.Question{ID: "old", Rev: 1, State: core.QuestionOpen}, core.QuestionExpired)
			return err
		}},
		{"a super-step", func(r *run) error { return r.Commit(ctx, core.Commit{Next: r.next(r.result("ping")), Durable: true}) }},
		{"a task that ended", func(r *run) error {
			return r.Commit(ctx, core.Commit{Ended: []core.Ended{{Checkpoint: r.head.N, Result: r.result("ping")}}, Durable: true})
		}},
		{"its end", func(r *run) error { return r.stop(core.StatusDone) }},
		{"its cancelling", func(r *run) error { return r.stop(core.StatusCancelled) }},
		{"a new attempt", func(r *run) error {
			return r.Accept(ctx, &core.Run{N: 9, ID: "zombie", Status: core.StatusRunning, Mode: core.Sync}, nil)
		}},
	} {
		for _, mode := range modes {
			t.Run(c.name+"/"+string(mode), func(t *testing.T) {
				t.Parallel()
				db := disk(t)
				zombie, owner := takenOver(t, db, mode)
				before := text(contents(t, db))
				if err := c.do(zombie); !errors.Is(err, ErrFenced) {
					t.Fatalf("got %v; want ErrFenced", err)
				}
				if err := zombie.step("again"); !errors.Is(err, ErrFenced) {
					t.Errorf("after that got %v", err)
				}
				if err := zombie.Abandon(ctx); err != nil {
					t.Errorf("letting go gives %v", err)
				}
				if after := text(contents(t, db)); after != before {
					t.Errorf("the disk was\n%s\nand is\n%s", before, after)
				}
				if err := owner.advance(); err != nil {
					t.Errorf("the owner cannot go on: %v", err)
				}
			})
		}
	}
}

// A background write that comes too late is refused as well, and stops the run at its next commit.
func TestAZombieInTheBackground(t *testing.T) {
	t.Parallel()
	db := disk(t)
	zombie, _ := takenOver(t, db, core.Async)
	before := text(contents(t, db))
	err := zombie.advance()
	for range 4 {
		if err == nil {
			err = zombie.advance()
		}
	}
	if !errors.Is(err, ErrFenced) {
		t.Fatalf("four super-steps later the run is told %v", err)
	}
	if after := text(contents(t, db)); after != before {
		t.Errorf("the disk was\n%s\nand is\n%s", before, after)
	}
}

func TestAThreadThatIsNotAsItWasSeen(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	claimAndStop := func(t *testing.T, db storage.DB, status core.Status) {
		t.Helper()
		if err := start(t, db, fault.Plan{}).mustClaim(t, core.Sync).stop(status); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name          string
		before, since func(t *testing.T, db storage.DB)
	}{
		{"made meanwhile", nil, func(t *testing.T, db storage.DB) { claimAndStop(t, db, core.StatusDone) }},
		{"run meanwhile", func(t *testing.T, db storage.DB) { claimAndStop(t, db, core.StatusDone) },
			func(t *testing.T, db storage.DB) { claimAndStop(t, db, core.StatusDone) }},
		{"running now", func(t *testing.T, db storage.DB) { claimAndStop(t, db, core.StatusDone) },
			func(t *testing.T, db storage.DB) { start(t, db, fault.Plan{}).mustClaim(t, core.Exit) }},
		{"deleted meanwhile", func(t *testing.T, db storage.DB) { claimAndStop(t, db, core.StatusDone) }, forget},
		{"deleted and made again", func(t *testing.T, db storage.DB) { claimAndStop(t, db, core.StatusDone) },
			func(t *testing.T, db storage.DB) { forget(t, db); claimAndStop(t, db, core.StatusDone) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			db := disk(t)
			if c.before != nil {
				c.before(t, db)
			}
			h, seen, r, err := start(t, db, fault.Plan{}).open(core.Sync)
			if err != nil {
				t.Fatal(err)
			}
			c.since(t, db)
			before := text(contents(t, db))
			if err := h.Claim(ctx, seen, r, Batch{Graph: graph(), Runs: []*core.Run{r}}); !errors.Is(err, ErrMoved) {
				t.Fatalf("the claim gives %v; want ErrMoved", err)
			}
			if err := h.Forget(ctx, seen, nil); !errors.Is(err, ErrMoved) && seen.Info != nil {
				t.Fatalf("the deletion gives %v; want ErrMoved", err)
			}
			if after := text(contents(t, db)); after != before {
				t.Errorf("the disk was\n%s\nand is\n%s", before, after)
			}
		})
	}
}

// Who is taken for dead, and is not, may write once more between the look of the one who takes over and its claim. That
// is not written over.
func TestAZombiesLastWordStays(t *testing.T) {
	t.Parallel()
	db := disk(t)
	p := start(t, db, fault.Plan{})
	zombie := p.mustClaim(t, core.Sync)
	if err := p.member.Close(); err != nil {
		t.Fatal(err)
	}
	h, seen, r, err := start(t, db, fault.Plan{}).open(core.Sync)
	if err != nil {
		t.Fatal(err)
	}
	if err := zombie.advance(); err != nil {
		t.Fatal(err)
	}
	if err := h.Claim(t.Context(), seen, r, Batch{Graph: graph(), Runs: []*core.Run{r}}); !errors.Is(err, ErrMoved) {
		t.Errorf("the claim gives %v; want ErrMoved", err)
	}
}

func forget(t *testing.T, db storage.DB) {
	t.Helper()
	h, seen, _, err := start(t, db, fault.Plan{}).open(core.Sync)
	if err == nil {
		err = h.Forget(context.Background(), seen, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestForgetLeavesNothing(t *testing.T) {
	t.Parallel()
	db := disk(t)
	if _, err := script(start(t, db, fault.Plan{}), core.Sync); err != nil {
		t.Fatal(err)
	}
	other := start(t, db, fault.Plan{})
	seen, err := other.Peek(context.Background(), "", "another")
	if err != nil {
		t.Fatal(err)
	}
	h := NewHome(other.Store, seen, "", "another", graph(), 0)
	r := &core.Run{N: h.NewRun(), ID: "r", Status: core.StatusRunning, Mode: core.Sync, Graphs: []string{core.GraphDigest(graph())}}
	if err := h.Claim(context.Background(), seen, r, Batch{Graph: graph(), Runs: []*core.Run{r}}); err != nil {
		t.Fatal(err)
	}
	forget(t, db)
	for kind, rows := range contents(t, db) {
		want := 0
		if kind == records.Thread || kind == records.Run || kind == records.Graph {
			want = 1 // the other thread's, and the graph of both
		}
		if len(rows) != want {
			t.Errorf("%d rows of %s are left; want %d", len(rows), kind, want)
		}
	}
}

// lossy answers one Update with an unknown outcome without running it, and calls meanwhile at that moment.
type lossy struct {
	storage.DB
	armed     bool
	meanwhile func()
}

var errLost = &storage.UnknownError{Err: errors.New("the connection was lost")}

func (l *lossy) Update(ctx context.Context, fn func(context.Context, storage.Tx) error) error {
	if !l.armed {
		return l.DB.Update(ctx, fn)
	}
	l.armed = false
	if l.meanwhile == nil {
		return errLost
	}
	undo := errors.New("undone")
	err := l.DB.Update(ctx, func(ctx context.Context, tx storage.Tx) error { // it ran, and its commit never arrived
		if err := fn(ctx, tx); err != nil {
			return err
		}
		return undo
	})
	if !errors.Is(err, undo) {
		return err
	}
	l.meanwhile()
	return errLost
}

// An Update of unknown outcome that was not durable is told as unknown, and nothing more is written.
func TestUnknownAndNotDurable(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for _, c := range []struct {
		name string
		do   func(r *run) error
	}{
		{"a step", func(r *run) error { return r.step("lost") }},
		{"a question", func(r *run) error { return r.Ask(ctx, r.question("lost", 1), nil) }},
		{"a super-step", (*run).advance},
		{"a stop alone", func(r *run) error { return r.stop(core.StatusWaiting) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			db := disk(t)
			l := &lossy{DB: db}
			r := start(t, l, fault.Plan{}).mustClaim(t, core.Sync)
			before := text(contents(t, db))
			l.armed, l.meanwhile = true, func() {}
			var unknown *storage.UnknownError
			if err := c.do(r); !errors.As(err, &unknown) {
				t.Fatalf("got %v; want an unknown outcome", err)
			}
			if err := r.step("after"); !errors.As(err, &unknown) {
				t.Errorf("after that got %v", err)
			}
			if after := text(contents(t, db)); after != before {
				t.Errorf("the disk was\n%s\nand is\n%s", before, after)
			}
		})
	}
}

// The next owner does at the same place what the first one meant to do: what it wrote must not pass for the first
// one's.
func TestUnknownAndTakenOver(t *testing.T) {
	t.Parallel()
	db := disk(t)
	l := &lossy{DB: db}
	p := start(t, l, fault.Plan{})
	r := p.mustClaim(t, core.Sync)
	l.armed, l.meanwhile = true, func() {
		if err := p.member.Close(); err != nil {
			t.Error(err)
		}
		next := start(t, db, fault.Plan{})
		h, seen, again, err := next.open(core.Sync)
		if err != nil {
			t.Error(err)
			return
		}
		*again = *seen.Run
		if err := h.Claim(context.Background(), seen, again, Batch{}); err != nil {
			t.Error(err)
		}
		other := &run{h, seen.Head.Checkpoint}
		other.head.Values = make([]*core.Value, 2)
		if err := other.advance(); err != nil {
			t.Error(err)
		}
	}
	if err := r.advance(); err == nil {
		t.Error("the first owner took the other's checkpoint for its own")
	}
	if err := r.step("zombie"); err == nil {
		t.Error("the first owner went on")
	}
	sound(t, db, "after the takeover")
}

// Two processes claim, the first one's Update is lost: it must not believe that the other's claim is its own.
func TestAClaimThatSomebodyElseMade(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for _, known := range []bool{false, true} {
		t.Run(map[bool]string{false: "of a new thread", true: "of a crashed thread"}[known], func(t *testing.T) {
			t.Parallel()
			db := disk(t)
			if known {
				dead := start(t, db, fault.Plan{})
				dead.mustClaim(t, core.Sync)
				dead.faults.Stop()
			}
			l := &lossy{DB: db}
			first, second := start(t, l, fault.Plan{}), start(t, db, fault.Plan{})
			claim := func(p *process) (*Home, error) {
				h, seen, r, err := p.open(core.Sync)
				if err != nil {
					t.Fatal(err)
				}
				r.N, r.ID = 1, "the same run"
				return h, h.Claim(ctx, seen, r, Batch{Graph: graph(), Runs: []*core.Run{r}})
			}
			var owner *Home
			l.armed, l.meanwhile = true, func() {
				var err error
				if owner, err = claim(second); err != nil {
					t.Error(err)
				}
			}
			zombie, err := claim(first)
			var unknown *storage.UnknownError
			if !errors.As(err, &unknown) {
				t.Errorf("the claim gives %v; want an unknown outcome", err)
			}
			cp := &core.Checkpoint{Source: core.SourceLoop, Run: 1}
			cp.N, cp.ID = zombie.Fresh()
			if err := zombie.Commit(ctx, core.Commit{Next: cp}); err == nil {
				t.Error("both processes write")
			}
			cp = &core.Checkpoint{Source: core.SourceLoop, Run: 1}
			cp.N, cp.ID = owner.Fresh()
			if err := owner.Commit(ctx, core.Commit{Next: cp}); err != nil {
				t.Errorf("the owner cannot write: %v", err)
			}
		})
	}
}

// An edit stops in the Update that claims. If its reply is lost it is read back like any other.
func TestAnEditWhoseReplyIsLost(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	db := disk(t)
	if err := start(t, db, fault.Plan{}).mustClaim(t, core.Sync).stop(core.StatusDone); err != nil {
		t.Fatal(err)
	}
	p := start(t, db, fault.Plan{At: fault.At(1, fault.Fail(errors.New("the connection was lost")))})
	h, seen, _, err := p.open(core.Sync)
	if err != nil {
		t.Fatal(err)
	}
	r := *seen.Run
	cp := &core.Checkpoint{Source: core.SourceEdit, Run: r.N, Parent: seen.Head.Checkpoint.N}
	cp.N, cp.ID = h.Fresh()
	b := Batch{Runs: []*core.Run{&r}, Checkpoints: []*core.Checkpoint{cp}, Stop: &core.Stop{Status: core.StatusWaiting}}
	if err := h.Claim(ctx, seen, &r, b); err != nil {
		t.Fatal(err)
	}
	samePlaces(t, db, 1, 2)
	if cp.Seq == 0 {
		t.Error("the checkpoint does not know its number")
	}
	sound(t, db, "after the edit")
}

func TestAnAbandonedThreadIsCrashed(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for _, mode := range modes {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			db := disk(t)
			p := start(t, db, fault.Plan{})
			r := p.mustClaim(t, mode)
			if err := r.advance(); err != nil {
				t.Fatal(err)
			}
			if err := r.Abandon(ctx); err != nil {
				t.Fatal(err)
			}
			if err := r.step("late"); !errors.Is(err, ErrFenced) {
				t.Errorf("after letting go a step gives %v", err)
			}
			seen, err := p.Peek(ctx, "", thread)
			if err != nil || seen.Status != core.StatusCrashed {
				t.Fatalf("the thread is %s, %v", seen.Status, err)
			}
			next := p.mustClaim(t, core.Sync) // a living process may take it at once
			if err := r.Abandon(ctx); err != nil {
				t.Fatal(err)
			}
			if err := next.advance(); err != nil {
				t.Errorf("letting go a second time took the thread from its owner: %v", err)
			}
			sound(t, db, "after all")
		})
	}
}

func TestStopLetsGo(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for _, status := range []core.Status{core.StatusDone, core.StatusWaiting, core.StatusFailed, core.StatusCancelled} {
		t.Run(string(status), func(t *testing.T) {
			t.Parallel()
			db := disk(t)
			p := start(t, db, fault.Plan{})
			r := p.mustClaim(t, core.Exit)
			open, answered := r.question("open", 1), r.question("answered", 1)
			for _, q := range []*core.Question{open, answered} {
				if err := r.Ask(ctx, q, nil); err != nil {
					t.Fatal(err)
				}
			}
			answer(t, db, answered.ID, `"yes"`)
			stop := &core.Stop{Status: status, Cause: core.CauseError, Error: "why", ErrorNode: "ping"}
			if status == core.StatusFailed {
				stop.Withdraw = []core.Question{*open, *answered}
			}
			if err := r.Commit(ctx, core.Commit{Checkpoint: r.head, Stop: stop}); err != nil {
				t.Fatal(err)
			}
			seen, err := p.Peek(ctx, "", thread)
			if err != nil {
				t.Fatal(err)
			}
			if seen.Status != status || seen.Run.Status != status || seen.Run.Error != "why" || seen.Run.ErrorNode != "ping" || seen.Lease.Alive {
				t.Errorf("the thread is %s, its run %+v, its lease %+v", seen.Status, seen.Run, seen.Lease)
			}
			want := map[core.Status]int{core.StatusFailed: 0, core.StatusCancelled: 0}
			if n, ok := want[status]; ok && len(seen.Open) != n || !ok && len(seen.Open) != 1 {
				t.Errorf("%d questions are open", len(seen.Open))
			}
			var after core.Question
			after.ID = answered.ID
			if err := r.reload(ctx, &after); err != nil || after.State != core.QuestionAnswered || string(after.Answer) != `"yes"` {
				t.Errorf("the answer that was taken became %s %s, %v", after.State, after.Answer, err)
			}
			if err := r.step("late"); !errors.Is(err, ErrFenced) {
				t.Errorf("after the stop a step gives %v", err)
			}
			sound(t, db, "after the stop")
		})
	}
}
