package local

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/records"
	"github.com/pawl-dev/pawl/storage"
	"github.com/pawl-dev/pawl/storage/fault"
)

func stored(t *testing.T, db storage.DB, id string) *core.Question {
	t.Helper()
	var q *core.Question
	err := db.View(context.Background(), func(_ context.Context, tx storage.Tx) error {
		row, ok, err := tx.Get(records.Question, id)
		if err == nil && ok {
			q, err = records.Box{}.ReadQuestion(row)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func mustAsk(t *testing.T, r *run, q, old *core.Question) {
	t.Helper()
	if err := r.Ask(context.Background(), q, old); err != nil {
		t.Fatal(err)
	}
}

// What the run remembers of a question is what another process reads.
func TestAsking(t *testing.T) {
	t.Parallel()
	for _, mode := range modes {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			db := disk(t)
			r := start(t, db, fault.Plan{}).mustClaim(t, mode)
			q := r.question("ship", 1)
			mustAsk(t, r, q, nil)
			got := stored(t, db, q.ID)
			if got == nil || got.State != core.QuestionOpen || got.Rev != q.Rev || got.Seq != q.Seq || got.AskedSeq != q.AskedSeq || got.ThreadN == 0 {
				t.Fatalf("on disk is %+v; the run remembers %+v", got, q)
			}
			if got.Thread != thread || got.Graph != "loop" || got.Run != "run-1" {
				t.Errorf("the question does not say whose it is: %+v", got)
			}
			sound(t, db, "after asking")
		})
	}
}

func TestAskingSomethingElse(t *testing.T) {
	t.Parallel()
	db := disk(t)
	r := start(t, db, fault.Plan{}).mustClaim(t, core.Sync)
	one, two := r.question("ship", 1), r.question("ship", 2)
	mustAsk(t, r, one, nil)
	mustAsk(t, r, two, one)
	if got := stored(t, db, one.ID); got.State != core.QuestionSuperseded || got.Rev != one.Rev || one.State != core.QuestionSuperseded {
		t.Errorf("the earlier asking is %+v on disk and %+v in the run", got, one)
	}
	if got := stored(t, db, two.ID); got.State != core.QuestionOpen || got.Drift != 0 || got.Seq >= one.Seq {
		t.Errorf("the new asking is %+v", got)
	}
}

// An answer lands while the node asks something else: it is kept with the question that it was given for, and counted.
func TestAnAnswerThatComesTooLate(t *testing.T) {
	t.Parallel()
	db := disk(t)
	r := start(t, db, fault.Plan{}).mustClaim(t, core.Exit)
	one, two := r.question("ship", 1), r.question("ship", 2)
	mustAsk(t, r, one, nil)
	if err := r.advance(); err != nil { // something is queued, and must not be lost on the way
		t.Fatal(err)
	}
	answer(t, db, one.ID, `"yes"`)
	mustAsk(t, r, two, one)
	got := stored(t, db, one.ID)
	if got.State != core.QuestionSuperseded || string(got.Answer) != `"yes"` || string(one.Answer) != `"yes"` {
		t.Errorf("the answered question is %+v on disk and %+v in the run", got, one)
	}
	if got := stored(t, db, two.ID); got.Drift != 1 || two.Drift != 1 {
		t.Errorf("the answer that landed on the earlier asking is not counted: %d", got.Drift)
	}
	samePlaces(t, db, 1, 2)
	sound(t, db, "after both")
}

func TestSettling(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for _, c := range []struct {
		name     string
		answered bool
		to       core.QuestionState
		did      bool
		want     core.QuestionState
	}{
		{"it expires", false, core.QuestionExpired, true, core.QuestionExpired},
		{"it was answered before it could", true, core.QuestionExpired, false, core.QuestionAnswered},
		{"an answer is checked and stands", false, core.QuestionAnswered, true, core.QuestionAnswered},
	} {
		for _, mode := range modes {
			t.Run(c.name+"/"+string(mode), func(t *testing.T) {
				t.Parallel()
				db := disk(t)
				r := start(t, db, fault.Plan{}).mustClaim(t, mode)
				q := r.question("ship", 1)
				mustAsk(t, r, q, nil)
				if c.answered {
					answer(t, db, q.ID, `"yes"`)
				}
				if err := r.advance(); err != nil {
					t.Fatal(err)
				}
				did, err := r.Settle(ctx, q, c.to)
				if err != nil || did != c.did || q.State != c.want {
					t.Fatalf("settled %v, %v; the run remembers %s", did, err, q.State)
				}
				got := stored(t, db, q.ID)
				if got.State != c.want || got.Rev != q.Rev || c.answered != (string(q.Answer) == `"yes"`) {
					t.Errorf("on disk is %+v; the run remembers %+v", got, q)
				}
				if err := r.stop(core.StatusWaiting); err != nil {
					t.Fatal(err)
				}
				if mode != core.Exit {
					samePlaces(t, db, 1, 2)
				}
				sound(t, db, "at the end")
			})
		}
	}
}

func TestARefusedAnswerReopensItsQuestion(t *testing.T) {
	t.Parallel()
	db := disk(t)
	r := start(t, db, fault.Plan{}).mustClaim(t, core.Sync)
	q := r.question("ship", 1)
	mustAsk(t, r, q, nil)
	answer(t, db, q.ID, `"yes"`)
	if err := r.reload(context.Background(), q); err != nil {
		t.Fatal(err)
	}
	if did, err := r.Settle(context.Background(), q, core.QuestionOpen); !did || err != nil {
		t.Fatal(did, err)
	}
	if got := stored(t, db, q.ID); got.State != core.QuestionOpen || got.Answer != nil || got.AnsweredBy != "" || !got.AnsweredAt.IsZero() {
		t.Errorf("the question is %+v", got)
	}
}

func TestTooManyQuestions(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	db := disk(t)
	p := start(t, db, fault.Plan{})
	r := p.mustClaim(t, core.Sync)
	r.questions = 2
	one, two := r.question("one", 1), r.question("two", 1)
	mustAsk(t, r, one, nil)
	mustAsk(t, r, two, nil)
	before := text(contents(t, db))
	if err := r.Ask(ctx, r.question("three", 1), nil); !errors.Is(err, ErrTooMany) {
		t.Fatalf("a third question gives %v", err)
	}
	if text(contents(t, db)) != before {
		t.Error("a refused question was written")
	}
	mustAsk(t, r, r.question("one", 2), one) // it takes the place of another
	if _, err := r.Settle(ctx, two, core.QuestionExpired); err != nil {
		t.Fatal(err)
	}
	mustAsk(t, r, r.question("three", 1), nil)
	if err := r.Ask(ctx, r.question("four", 1), nil); !errors.Is(err, ErrTooMany) {
		t.Errorf("a third open question gives %v", err)
	}
	if err := r.step("s"); err != nil {
		t.Errorf("after the refusal the run cannot go on: %v", err)
	}
	if err := r.stop(core.StatusWaiting); err != nil {
		t.Fatal(err)
	}
	seen, err := p.Peek(ctx, "", thread)
	if err != nil || len(seen.Open) != 2 {
		t.Fatalf("%d questions are open, %v", len(seen.Open), err)
	}
	again := NewHome(p.Store, seen, "", thread, graph(), 2)
	run2 := *seen.Run
	if err := again.Claim(ctx, seen, &run2, Batch{Runs: []*core.Run{&run2}}); err != nil {
		t.Fatal(err)
	}
	if err := again.Ask(ctx, r.question("five", 1), nil); !errors.Is(err, ErrTooMany) {
		t.Errorf("the next process does not count what is open: %v", err)
	}
}

func TestWithdrawingAll(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	db := disk(t)
	p := start(t, db, fault.Plan{})
	r := p.mustClaim(t, core.Sync)
	open, answered := r.question("open", 1), r.question("answered", 1)
	mustAsk(t, r, open, nil)
	mustAsk(t, r, answered, nil)
	answer(t, db, answered.ID, `1`)
	if err := r.stop(core.StatusWaiting); err != nil {
		t.Fatal(err)
	}
	h, seen, next, err := p.open(core.Sync)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Claim(ctx, seen, next, Batch{Graph: graph(), Runs: []*core.Run{next}, Withdraw: true}); err != nil {
		t.Fatal(err)
	}
	if got := stored(t, db, open.ID); got.State != core.QuestionWithdrawn {
		t.Errorf("the open question is %s", got.State)
	}
	if got := stored(t, db, answered.ID); got.State != core.QuestionAnswered {
		t.Errorf("the answered question is %s", got.State)
	}
	sound(t, db, "after the withdrawal")
}

// A position read by the next process is the one that the first one left, in the order of asking.
func TestOwnReadsThePosition(t *testing.T) {
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
			var asked []string
			var last *core.Question
			for rev := range 8 { // ids are hashes: their order is not that of asking
				q := r.question("ship", rev+1)
				mustAsk(t, r, q, last)
				asked, last = append(asked, q.ID), q
			}
			if err := r.ended(r.result("ping")); err != nil {
				t.Fatal(err)
			}
			if err := r.step("s"); err != nil {
				t.Fatal(err)
			}
			if err := r.stop(core.StatusWaiting); err != nil {
				t.Fatal(err)
			}
			seen, err := p.Peek(ctx, "", thread)
			if err != nil {
				t.Fatal(err)
			}
			pos, err := NewHome(p.Store, seen, "", thread, graph(), 0).Own(ctx)
			if err != nil {
				t.Fatal(err)
			}
			task := r.task("pong").ID
			var got []string
			for _, q := range pos.Questions[task] {
				got = append(got, q.ID)
			}
			if strings.Join(got, " ") != strings.Join(asked, " ") {
				t.Errorf("questions come as\n%v\nand were asked as\n%v", got, asked)
			}
			if pos.Head.ID != r.head.ID || pos.Head.Step != r.head.Step || len(pos.Ended) != 1 || pos.Ended[0].Result.Task.ID != r.task("ping").ID {
				t.Errorf("the head is %+v with %+v", pos.Head, pos.Ended)
			}
			if steps := pos.Steps[r.task("ping").ID]; len(steps) != 1 || steps[0].Name != "s" || string(steps[0].Result) != "1" {
				t.Errorf("the steps are %+v", pos.Steps)
			}
			if pos.Run.ID != "run-1" || pos.Run.Status != core.StatusWaiting {
				t.Errorf("the run is %+v", pos.Run)
			}
		})
	}
}

// Ended tasks that are to run again go in the Update that claims.
func TestAgainDiscardsWhatEnded(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	db := disk(t)
	p := start(t, db, fault.Plan{})
	r := p.mustClaim(t, core.Sync)
	for _, node := range []string{"ping", "pong"} {
		if err := r.ended(r.result(node)); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.stop(core.StatusFailed); err != nil {
		t.Fatal(err)
	}
	seen, err := p.Peek(ctx, "", thread)
	if err != nil {
		t.Fatal(err)
	}
	h := NewHome(p.Store, seen, "", thread, graph(), 0)
	again := &core.Ended{Checkpoint: r.head.N, Result: r.result("ping")}
	if err := h.Claim(ctx, seen, seen.Run, Batch{Runs: []*core.Run{seen.Run}, Again: []*core.Ended{again}}); err != nil {
		t.Fatal(err)
	}
	pos, err := h.Own(ctx)
	if err != nil || len(pos.Ended) != 1 || pos.Ended[0].Result.Task.Node != "pong" {
		t.Errorf("of two ended tasks %+v are left, %v", pos.Ended, err)
	}
}
