package suite

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/nest"
)

// submitAndWait is the paid call and the question in one node: through a step, or as the plain call it should not be.
func submitAndWait(t *testing.T, name string, world, counts *ledger, step bool) *nest.Graph[job] {
	ask := approve()
	return atDepth(t, pawl.New[job](name).
		Node("submit_and_wait", func(ctx context.Context, s *job) error {
			counts.add("entry")
			call := func(ctx context.Context) (string, error) { counts.add("call"); return world.submit(ctx) }
			id, err := "", error(nil)
			if step {
				id, err = pawl.Step(ctx, "submit", call)
			} else {
				id, err = call(ctx)
			}
			if err != nil {
				return err
			}
			yes, err := ask.Ask(ctx, asked{"approve " + id + "?"})
			if err != nil {
				return err
			}
			s.JobID.Set(id)
			s.Approved.Set(yes)
			return nil
		}, pawl.Uses(ask)).
		Path(pawl.Start, "submit_and_wait", pawl.End))
}

func paidCallAndQuestion(t *testing.T, r *report) {
	t.Run("effect", func(t *testing.T) { onEach(t, paidEffectAndQuestion) })
	onEach(t, func(t *testing.T, h *home) {
		world, counts := newLedger(t), newLedger(t)
		th := submitAndWait(t, "paid", world, counts, true).Thread(engine(t, h.open(t), nil), "t")
		out, err := th.Run(t.Context(), &job{})
		if err != nil {
			t.Fatal(err)
		}
		same(t, "status", out.Status, pawl.Waiting)
		same(t, "pending", bodies(out.Waiting), []string{askJob1})
		same(t, "ledger", world.rows(), []string{"gpu-job-1"})
		same(t, "state at the pause", string(out.Values), "{}")
		r.line(1, "paused with: %s | submitted so far: %s", out.Waiting[0].Body, compact(world.rows()))

		before := history(t, th)
		out, err = th.Resume(t.Context(), approve().Answer(out.Waiting[0].ID, true))
		if err != nil {
			t.Fatal(err)
		}
		same(t, "state", string(out.Values), doneJob)
		same(t, "ledger", world.rows(), []string{"gpu-job-1"})
		same(t, "entries", counts.count("entry"), 2)
		same(t, "step calls", counts.count("call"), 1)
		stand(t, th, pawl.Done, 3, before)
		r.line(2, "resumed, final state: %s | submitted so far: %s", out.Values, compact(world.rows()))
	})
}

func plainCallAboveQuestion(t *testing.T, _ *report) {
	onEach(t, func(t *testing.T, h *home) {
		world, counts := newLedger(t), newLedger(t)
		th := submitAndWait(t, "plain", world, counts, false).Thread(engine(t, h.open(t), nil), "t")
		ctx, yes := t.Context(), approve().Answer
		first, err := th.Run(ctx, &job{})
		if err != nil {
			t.Fatal(err)
		}
		q1 := first.Waiting[0]
		before := history(t, th)

		second, err := th.Resume(ctx, yes(q1.ID, true))
		changed := (*pawl.ChangedError)(nil)
		if !errors.As(err, &changed) {
			t.Fatalf("whoever said yes was told %v, want a *ChangedError", err)
		}
		same(t, "told", []string{changed.Node, changed.Name, string(changed.Old.Body), string(changed.New.Body)},
			[]string{"submit_and_wait", "approve", askJob1, askJob2})
		same(t, "ledger", world.rows(), []string{"gpu-job-1", "gpu-job-2"})
		same(t, "status", second.Status, pawl.Waiting)
		same(t, "pending", bodies(second.Waiting), []string{askJob2})
		same(t, "state", string(second.Values), "{}")
		q2 := second.Waiting[0]
		if q1.ID == q2.ID {
			t.Errorf("both questions have the id %s", q1.ID)
		}
		kept := questionsAt(history(t, th)[0])[q1.ID]
		same(t, "the yes for job 1", []string{kept.State, string(kept.Answer), kept.Digest}, []string{"superseded", "true", q1.Digest})
		if kept.Digest == q2.Digest {
			t.Error("both questions have one digest")
		}

		for range 2 { // a double click, a client's retry
			refused := (*pawl.AnswerError)(nil)
			if _, err = th.Resume(ctx, yes(q1.ID, true)); !errors.As(err, &refused) {
				t.Fatalf("the same yes once more: %v, want an *AnswerError", err)
			}
			same(t, "refused", []any{refused.Reason, refused.Newest}, []any{pawl.ReasonSuperseded, q2.ID})
		}
		same(t, "pending", bodies(statusOf(t, th).Waiting), []string{askJob2})
		same(t, "entries", counts.count("entry"), 2)

		answerAgainAndAgain(t, th, world, q2.ID)
		for _, s := range history(t, th) {
			same(t, "state of "+s.Checkpoint, string(s.Values), "{}")
		}
		grew(t, before, history(t, th))
		settled(t, statusOf(t, th))
		same(t, "submissions are plain calls, one an entry", len(world.rows()), counts.count("entry"))
	})
	t.Run("strict", plainCallUnderStrict)
}

// answerAgainAndAgain answers whatever is open: the second superseded answer in a row is drift, and then a person
// resumes and is asked the newest question.
func answerAgainAndAgain(t *testing.T, th *nest.Thread[job], world *ledger, open string) {
	t.Helper()
	ctx, yes := t.Context(), approve().Answer
	_, err := th.Resume(ctx, yes(open, true))
	if drift := (*pawl.DriftError)(nil); !errors.As(err, &drift) {
		t.Fatalf("the second superseded answer in a row: %v, want a *DriftError", err)
	}
	same(t, "cause", statusOf(t, th).Cause, pawl.CauseDrift)
	for range 2 {
		var answer []pawl.RunOption
		for _, q := range statusOf(t, th).Waiting {
			answer = append(answer, yes(q.ID, true))
		}
		third, err := th.Resume(ctx, answer...)
		if changed := (*pawl.ChangedError)(nil); errors.As(err, &changed) != (len(answer) > 0) {
			t.Fatalf("with %d answers: %v; whoever brought one, and nobody else, is told by a *ChangedError", len(answer), err)
		}
		same(t, "superseded answers in the outcome", len(third.Superseded), 1)
		same(t, "pending", bodies(third.Waiting), []string{fmt.Sprintf(`{"ask":"approve gpu-job-%d?"}`, len(world.rows()))})
	}
	same(t, "submissions", len(world.rows()), 5)
}

func plainCallUnderStrict(t *testing.T) {
	onEach(t, func(t *testing.T, h *home) {
		world := newLedger(t)
		eng := engine(t, h.open(t), &pawl.Options{Strict: true})
		th := submitAndWait(t, "plain", world, newLedger(t), false).Thread(eng, "t")
		out, err := th.Run(t.Context(), &job{})
		if err != nil {
			t.Fatal(err)
		}
		out, err = th.Resume(t.Context(), approve().Answer(out.Waiting[0].ID, true))
		drift := (*pawl.DriftError)(nil)
		if !errors.As(err, &drift) {
			t.Fatalf("got %v, want a *DriftError", err)
		}
		same(t, "facts", *drift, pawl.DriftError{
			Node: "submit_and_wait", Name: "approve", Path: "$.ask", Old: `"approve gpu-job-1?"`, New: `"approve gpu-job-2?"`,
		})
		same(t, "state", string(out.Values), "{}")
		stand(t, th, pawl.Failed, 2, nil)
	})
}

// questionsAt are the questions that hang from a snapshot, by id.
func questionsAt(s *pawl.Snapshot) map[string]pawl.Question {
	out := map[string]pawl.Question{}
	for _, task := range s.Tasks {
		for _, q := range task.Questions {
			out[q.ID] = q
		}
	}
	return out
}

// two asks twice in one node and counts its lines, plain and in steps. It tells its task key on every entry.
func two(t testing.TB, counts *ledger, options ...pawl.NodeOption) *nest.Graph[job] {
	first, second := pawl.Interrupt[string, string]{Name: "first"}, pawl.Interrupt[string, string]{Name: "second"}
	line := func(ctx context.Context, name string) error {
		counts.add("line:" + name)
		_, err := pawl.Step(ctx, name, func(context.Context) (bool, error) { counts.add("step:" + name); return true, nil })
		return err
	}
	return atDepth(t, pawl.New[job]("two").
		Node("two_questions", func(ctx context.Context, s *job) error {
			counts.add("key=" + pawl.TaskKey(ctx))
			if err := line(ctx, "top"); err != nil {
				return err
			}
			if len(options) > 0 && counts.count("line:top") == 1 {
				return errors.New("the first try fails")
			}
			if _, err := first.Ask(ctx, "first?"); err != nil {
				return err
			}
			if err := line(ctx, "between"); err != nil {
				return err
			}
			if _, err := second.Ask(ctx, "second?"); err != nil {
				return err
			}
			return line(ctx, "after")
		}, append(options, pawl.Uses(first, second))...).
		Path(pawl.Start, "two_questions", pawl.End))
}

func twoQuestions(t *testing.T, r *report) {
	onEach(t, func(t *testing.T, h *home) {
		counts := newLedger(t)
		th := two(t, counts).Thread(engine(t, h.open(t), nil), "t")
		out, err := th.Run(t.Context(), &job{})
		var ids []string
		var before []*pawl.Snapshot
		for _, want := range []string{`"first?"`, `"second?"`} {
			if err != nil {
				t.Fatal(err)
			}
			same(t, "pending", bodies(out.Waiting), []string{want})
			ids, before = append(ids, out.Waiting[0].ID), history(t, th)
			out, err = th.Resume(t.Context(), pawl.AnswerWith(out.Waiting[0].ID, "yes"))
		}
		if err != nil {
			t.Fatal(err)
		}
		same(t, "pending", bodies(out.Waiting), []string{})
		if ids[0] == ids[1] {
			t.Errorf("both questions have the id %s", ids[0])
		}
		measured := func(kind, name string) int { return counts.count(kind + ":" + name) }
		for name, want := range map[string]int{"top": 3, "between": 2, "after": 1} {
			same(t, "plain counter, "+name, measured("line", name), want)
			same(t, "step, "+name, measured("step", name), 1)
		}
		stand(t, th, pawl.Done, 3, before)
		shown := func(kind string) string {
			return fmt.Sprintf(`{"top of node":%d,"between the interrupts":%d}`, measured(kind, "top"), measured(kind, "between"))
		}
		r.line(3, "line counts: %s | step counts: %s", shown("line"), shown("step"))
	})
}

func callAndPauseApart(t *testing.T, r *report) {
	onEach(t, func(t *testing.T, h *home) {
		world, counts, ask := newLedger(t), newLedger(t), approve()
		g := atDepth(t, pawl.New[job]("apart").
			Node("submit", func(ctx context.Context, s *job) error {
				counts.add("submit")
				id, err := world.submit(ctx)
				s.JobID.Set(id)
				return err
			}).
			Node("wait_for_approval", func(ctx context.Context, s *job) error {
				counts.add("wait_for_approval")
				yes, err := ask.Ask(ctx, asked{"approve " + s.JobID.Get() + "?"})
				if err != nil {
					return err
				}
				s.Approved.Set(yes)
				return nil
			}, pawl.Uses(ask)).
			Path(pawl.Start, "submit", "wait_for_approval", pawl.End))
		th := g.Thread(engine(t, h.open(t), nil), "t")
		out, err := th.Run(t.Context(), &job{})
		if err != nil {
			t.Fatal(err)
		}
		same(t, "pending", bodies(out.Waiting), []string{askJob1})
		same(t, "job_id at the pause", out.State.JobID.Get(), "gpu-job-1")
		same(t, "next", out.Next, []string{"wait_for_approval"})
		before := history(t, th)
		if out, err = th.Resume(t.Context(), ask.Answer(out.Waiting[0].ID, true)); err != nil {
			t.Fatal(err)
		}
		same(t, "state", string(out.Values), doneJob)
		same(t, "ledger", world.rows(), []string{"gpu-job-1"})
		same(t, "entries of submit", counts.count("submit"), 1)
		same(t, "entries of wait_for_approval", counts.count("wait_for_approval"), 2)
		stand(t, th, pawl.Done, 4, before)
		r.line(4, "split nodes, final state: %s | submitted: %s", out.Values, compact(world.rows()))
	})
}

// functionalStyle is a plain function that calls a step and asks.
func functionalStyle(t *testing.T, _ *report) {
	onEach(t, func(t *testing.T, h *home) {
		world, counts, ask := newLedger(t), newLedger(t), approve()
		type result struct {
			JobID    string `json:"job_id"`
			Approved bool   `json:"approved"`
		}
		workflow := func(ctx context.Context, _ string) (out result, err error) {
			counts.add("entry")
			submit := func(ctx context.Context) (string, error) { counts.add("call"); return world.submit(ctx) }
			if out.JobID, err = pawl.Step(ctx, "submit", submit); err != nil {
				return out, err
			}
			out.Approved, err = ask.Ask(ctx, asked{"approve " + out.JobID + "?"})
			return out, err
		}
		f, err := pawl.Func("functional", workflow, pawl.Uses(ask))
		if err != nil {
			t.Fatal(err)
		}
		if f, err = nest.Func(f, levelFor(t)); err != nil {
			t.Fatal(err)
		}
		th := f.Thread(engine(t, h.open(t), nil), "t")
		out, err := th.Run(t.Context(), "job")
		if err != nil {
			t.Fatal(err)
		}
		same(t, "pending", bodies(out.Waiting), []string{askJob1})
		before := history(t, th.Thread)
		if out, err = th.Resume(t.Context(), ask.Answer(out.Waiting[0].ID, true)); err != nil {
			t.Fatal(err)
		}
		same(t, "final", compact(out.Result), doneJob)
		same(t, "submitted", world.rows(), []string{"gpu-job-1"})
		same(t, "function entries", counts.count("entry"), 2)
		same(t, "step calls", counts.count("call"), 1)
		stand(t, th.Thread, pawl.Done, 3, before)
	})
}
