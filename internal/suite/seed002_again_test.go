package suite

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/effect"
)

// whatRunsAgain runs the row of the root; its other rows wait for children.
func whatRunsAgain(t *testing.T, _ *report) {
	t.Log("without its rows of children: waits for children")
	onEach(t, func(t *testing.T, h *home) {
		l := newLedger(t)
		above := oneRow(l, "effect-above")
		g := atDepth(t, pawl.New[found]("again").
			Node("earlier", func(context.Context, *found) error { l.add("earlier"); return nil }).
			Node("asks", func(ctx context.Context, s *found) error {
				l.add("line-above")
				rate, err := pawl.Step(ctx, "rate", func(context.Context) (int, error) { l.add("step-above"); return 7, nil })
				if err != nil {
					return err
				}
				if _, err := above.Do(ctx, effect.Ref("rate", "1"), params{"rate": fmt.Sprint(rate)}); err != nil {
					return err
				}
				answer, err := say.Ask(ctx, fmt.Sprintf("Pay at %d?", rate))
				if err != nil {
					return err
				}
				l.add("line-below")
				s.Used.Add(answer)
				return nil
			}, pawl.Uses(say, above)).
			Path(pawl.Start, "earlier", "asks"))
		o := openOffice(t, h.open(t), g)
		th := o.eng.Thread("again", "t1")
		out, err := start(th)
		q := paused(t, out, err, 1)[0]
		before := history(t, th)
		tally(t, l, map[string]int{"earlier": 1, "line-above": 1, "step-above": 1, "effect-above": 1})
		out, err = resume(th, q.ID, "yes")
		finished(t, out, err, `{"used":["yes"]}`)
		tally(t, l, map[string]int{"earlier": 1, "line-above": 2, "step-above": 1, "effect-above": 1, "line-below": 1})
		same(t, "dispatches", len(o.attempts(t, o.operation(t, "effect-above"))), 1)
		o.explained(t, l.of("effect-above"), 1)
		same(t, "snapshots", len(history(t, th)), 4)
		atEnd(t, th, before)
	})
}

// onlyYes is the answer that pays.
const onlyYes = "yes"

// issued is measured by the rows of payBeforeAndAfter for the line "credits issued".
type issued struct{ above, after, refused int }

func payBeforeAndAfter(t *testing.T, r *report) {
	var n issued
	for _, c := range []struct {
		name   string
		graph  func(*ledger) *pawl.Builder[found]
		answer string
		want   map[string]int
	}{
		{"one node, credit above the question", creditThenAsk("Keep it?"), "yes", map[string]int{"approve": 2, "credit": 2}},
		{"a node that asks, a node that pays: yes", askThenCredit, "yes", map[string]int{"approve": 2, "pay": 1, "credit": 1}},
		{"a node that asks, a node that pays: no", askThenCredit, "no", map[string]int{"approve": 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			onEach(t, func(t *testing.T, h *home) {
				l := newLedger(t)
				th := engine(t, h.open(t), nil, atDepth(t, c.graph(l))).Thread("credit", "t1")
				out, err := start(th)
				q := paused(t, out, err, 1)[0]
				before := history(t, th)
				out, err = resume(th, q.ID, c.answer)
				finished(t, out, err, fmt.Sprintf(`{"used":[%q]}`, c.answer))
				tally(t, l, c.want)
				atEnd(t, th, before)
				switch {
				case c.answer != onlyYes:
					n.refused += l.count("credit")
				case l.count("pay") > 0:
					n.after = l.count("credit")
				}
			})
		})
	}
	t.Run("strict", creditStrict)
	t.Run("one node, the credit is an effect above the question", func(t *testing.T) {
		onEach(t, func(t *testing.T, h *home) { n.above = creditEffectThenAsk(t, h) })
	})
	for answer, want := range map[string]int{onlyYes: 1, "no": 0} {
		t.Run("one node, the credit is an effect that needs approval: "+answer, func(t *testing.T) {
			onEach(t, func(t *testing.T, h *home) {
				credits := creditWithApproval(t, h, answer)
				same(t, "credits", credits, want)
				if answer != onlyYes {
					n.refused += credits
				}
			})
		})
	}
	r.line(21, "credits issued: effect above the question %d, own node after it %d, refused %d", n.above, n.after, n.refused)
}

// creditThenAsk issues a credit by a plain call and then asks. Without a question of the caller's it asks about the
// credit by number.
func creditThenAsk(question string) func(*ledger) *pawl.Builder[found] {
	return func(l *ledger) *pawl.Builder[found] {
		return pawl.New[found]("credit").Node("approve", func(ctx context.Context, s *found) error {
			l.add("approve")
			l.add("credit")
			body := question
			if body == "" {
				body = fmt.Sprintf("Keep credit %d?", l.count("credit"))
			}
			answer, err := say.Ask(ctx, body)
			if err == nil {
				s.Used.Add(answer)
			}
			return err
		}, pawl.Uses(say)).Edge(pawl.Start, "approve")
	}
}

func askThenCredit(l *ledger) *pawl.Builder[found] {
	return pawl.New[found]("credit").
		Node("approve", func(ctx context.Context, s *found) error {
			l.add("approve")
			answer, err := say.Ask(ctx, "Issue it?")
			if err == nil {
				s.Used.Add(answer)
			}
			return err
		}, pawl.Uses(say)).
		Node("pay", func(context.Context, *found) error {
			l.add("pay")
			l.add("credit")
			return nil
		}).
		Edge(pawl.Start, "approve").
		Route("approve", func(s *found) []pawl.Next {
			if s.Used.At(0) == onlyYes {
				return pawl.To("pay")
			}
			return pawl.To(pawl.End)
		}, "pay", pawl.End)
}

// creditStrict: the engine cannot see a plain call, but its trace in the question.
func creditStrict(t *testing.T) {
	onEach(t, func(t *testing.T, h *home) {
		l := newLedger(t)
		th := engine(t, h.open(t), &pawl.Options{Strict: true}, atDepth(t, creditThenAsk("")(l))).Thread("credit", "t1")
		out, err := start(th)
		q := paused(t, out, err, 1)[0]
		before := history(t, th)
		out, err = resume(th, q.ID, "yes")
		drift := (*pawl.DriftError)(nil)
		if !errors.As(err, &drift) || out.Status != pawl.Failed || failedAt(t, th) != "approve" {
			t.Fatalf("outcome %+v, error %v", out, err)
		}
		same(t, "drift", [3]string{drift.Name, drift.Old, drift.New}, [3]string{"say", `"Keep credit 1?"`, `"Keep credit 2?"`})
		tally(t, l, map[string]int{"approve": 2, "credit": 2})
		atEnd(t, th, before)
	})
}
