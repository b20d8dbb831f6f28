package suite

import (
	"context"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/effect"
)

// submitting is the paid call as an effect. It tells the keys of its requests as rows "key:..." of counts, if any.
func submitting(world *ledger, counts ...*ledger) tool {
	return effect.New("submit", func(ctx context.Context, op effect.Op, _ params) (string, error) {
		for _, l := range counts {
			l.add("key:" + op.Key)
		}
		return world.submit(ctx)
	})
}

// paidEffectAndQuestion is S000-1 with an effect in place of the step.
func paidEffectAndQuestion(t *testing.T, h *home) {
	world, counts, ask := newLedger(t), newLedger(t), approve()
	submit := submitting(world, counts)
	g := atDepth(t, pawl.New[job]("paid").
		Node("submit_and_wait", func(ctx context.Context, s *job) error {
			counts.add("entry")
			id, err := submit.Do(ctx, effect.Ref("job", "1"), params{"kind": "gpu"})
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
		}, pawl.Uses(ask, submit)).
		Path(pawl.Start, "submit_and_wait", pawl.End))
	o := openOffice(t, h.open(t), g)
	th := g.Thread(o.eng, "t")
	out, err := th.Run(t.Context(), &job{})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "status", out.Status, pawl.Waiting)
	same(t, "pending", bodies(out.Waiting), []string{askJob1})
	same(t, "ledger", world.rows(), []string{"gpu-job-1"})
	same(t, "state at the pause", string(out.Values), "{}")
	before, op := history(t, th), o.operation(t, "submit")
	out, err = th.Resume(t.Context(), ask.Answer(out.Waiting[0].ID, true))
	if err != nil {
		t.Fatal(err)
	}
	same(t, "state", string(out.Values), doneJob)
	same(t, "ledger", world.rows(), []string{"gpu-job-1"})
	same(t, "entries", counts.count("entry"), 2)
	same(t, "operations", len(o.operations(t)), 1)
	same(t, "the operation", o.operation(t, "submit"), op)
	same(t, "dispatches", len(o.attempts(t, op)), 1)
	same(t, "requests", counts.count("key:"+op.Key), 1)
	o.explained(t, world.rows(), 1)
	stand(t, th, pawl.Done, 3, before)
}

// operationKeyIsNoTaskKey: a fork gives another task key and the same operation key, which contains neither.
func operationKeyIsNoTaskKey(t *testing.T, h *home) {
	world, counts := newLedger(t), newLedger(t)
	submit := submitting(world, counts)
	g := atDepth(t, pawl.New[job]("keyed").
		Node("submit", func(ctx context.Context, s *job) error {
			counts.add("key=" + pawl.TaskKey(ctx))
			id, err := submit.Do(ctx, effect.Ref("job", "1"), params{})
			s.JobID.Set(id)
			return err
		}, pawl.Uses(submit)).
		Path(pawl.Start, "submit", pawl.End))
	o := openOffice(t, h.open(t), g)
	th := g.Thread(o.eng, "t")
	if _, err := th.Run(t.Context(), &job{}); err != nil {
		t.Fatal(err)
	}
	before, op := history(t, th), o.operation(t, "submit")
	out, err := th.Fork(t.Context(), pawl.Before("submit"), nil)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "job_id in the fork", out.State.JobID.Get(), "gpu-job-1")
	same(t, "distinct task keys", distinct(keys(counts)), 2)
	same(t, "the operation's key", o.operation(t, "submit").Key, op.Key)
	same(t, "requests", counts.count("key:"+op.Key), 1)
	for _, k := range keys(counts) {
		if id := strings.TrimPrefix(k, "submit:"); strings.Contains(op.Key, id) {
			t.Errorf("the operation's key %s contains the task key %s", op.Key, k)
		}
	}
	o.explained(t, world.rows(), 1)
	grew(t, before, history(t, th))
	settled(t, statusOf(t, th))
}
