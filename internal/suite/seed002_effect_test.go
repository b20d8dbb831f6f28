package suite

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/effect"
)

// oneRow is an effect that writes its name into a ledger.
func oneRow(l *ledger, name string) tool {
	return effect.New(name, func(context.Context, effect.Op, params) (string, error) {
		l.add(name)
		return "done", nil
	})
}

// of are the ledger's rows of one name.
func (l *ledger) of(name string) []string {
	return slices.DeleteFunc(l.rows(), func(row string) bool { return row != name })
}

// creditEffectThenAsk issues a credit as an effect and then asks; it returns the credits.
func creditEffectThenAsk(t *testing.T, h *home) int {
	l := newLedger(t)
	credit := oneRow(l, "credit")
	g := atDepth(t, pawl.New[found]("credit").Node("approve", func(ctx context.Context, s *found) error {
		l.add("approve")
		if _, err := credit.Do(ctx, effect.Ref("credit", "1"), params{"amount": "10.00"}); err != nil {
			return err
		}
		answer, err := say.Ask(ctx, "Keep it?")
		if err == nil {
			s.Used.Add(answer)
		}
		return err
	}, pawl.Uses(say, credit)).Edge(pawl.Start, "approve"))
	o := openOffice(t, h.open(t), g)
	th := o.eng.Thread("credit", "t1")
	out, err := start(th)
	q := paused(t, out, err, 1)[0]
	before := history(t, th)
	out, err = resume(th, q.ID, "yes")
	finished(t, out, err, `{"used":["yes"]}`)
	tally(t, l, map[string]int{"approve": 2, "credit": 1})
	o.explained(t, l.of("credit"), 1)
	atEnd(t, th, before)
	return l.count("credit")
}

// creditWithApproval issues a credit as an effect that needs approval; it returns the credits.
func creditWithApproval(t *testing.T, h *home, answer string) int {
	l := newLedger(t)
	credit := financed(oneRow(l, "credit"))
	g := atDepth(t, pawl.New[found]("credit").Node("approve", func(ctx context.Context, s *found) error {
		l.add("approve")
		receipt, err := credit.Do(ctx, effect.Ref("credit", "1"), params{"amount": "10.00"})
		if denied := (*effect.DeniedError)(nil); errors.As(err, &denied) {
			s.Used.Add("denied: " + denied.Reason)
			return nil
		}
		if err == nil {
			s.Used.Add(receipt)
		}
		return err
	}, pawl.Uses(credit)).Edge(pawl.Start, "approve"))
	o := openOffice(t, h.open(t), g)
	th := o.eng.Thread("credit", "t1")
	out, err := start(th)
	q := paused(t, out, err, 1)[0]
	same(t, "asked about", shownCall(t, q), "credit(amount=10.00)")
	before, want := history(t, th), `{"used":["done"]}`
	if answer == onlyYes {
		o.yes(t, q)
	} else {
		o.no(t, q, answer)
		want = `{"used":["denied: no"]}`
	}
	out, err = resume(th)
	finished(t, out, err, want)
	same(t, "entries", l.count("approve"), 2)
	same(t, "asked", len(o.requests(t)), 1)
	o.explained(t, l.of("credit"), l.count("credit"))
	atEnd(t, th, before)
	return l.count("credit")
}
