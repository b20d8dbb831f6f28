package suite

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/pawl-dev/pawl"
)

// bareValueInsideChild is H6: two askers under one task of the parent are two questions.
func bareValueInsideChild(t *testing.T, h *home) {
	l := newLedger(t)
	inner := build(t, pawl.New[kin]("inner").Node("a", asksAs(l, "a"), pawl.Uses(okay)).Node("b", asksAs(l, "b"), pawl.Uses(okay)).
		Edge(pawl.Start, "a").Edge(pawl.Start, "b"))
	db := h.open(t)
	th := deep(t, inner, 2).Thread(engine(t, db, nil), "t")
	out, err := th.Run(t.Context(), &kin{})
	open := mustWaitFor(t, out, err, 2)
	refused(t, db, "bare", func() error { _, err := th.Resume(t.Context(), okay.Answer("", "yes")); return err },
		func(e *pawl.AnswerError) bool { return e.Reason == pawl.ReasonAmbiguous && len(e.Open) == 2 }, open[0].ID, open[1].ID)
	out, err = th.Resume(t.Context(), okay.Answer(open[0].ID, "1"), okay.Answer(open[1].ID, "2"))
	mustBeDone(t, out, err)
	tally(t, l, map[string]int{"a": 2, "b": 2})
}

// forkAroundChild is H9: a child that finished before the point is not run again; one that is due at the point starts
// anew, its question under a new id.
func forkAroundChild(t *testing.T, h *home) {
	l, ctx := newLedger(t), t.Context()
	inner := build(t, pawl.New[kin]("inner").Node("one", logs(l, "one")).Node("two", asksAs(l, "two"), pawl.Uses(okay)).Path(pawl.Start, "one", "two"))
	c := inner.Child("child")
	g := build(t, pawl.New[kin]("outer").Add(pawl.Sub(c, nothingIn, logOut)).Node("after", logs(l, "after")).Path(pawl.Start, "child", "after"))
	th := g.Thread(engine(t, h.open(t), nil), "t")
	out, err := th.Run(ctx, &kin{})
	q := mustWaitFor(t, out, err, 1)[0]
	out, err = th.Resume(ctx, okay.Answer(q.ID, "yes"))
	mustBeDone(t, out, err)
	out, err = th.Replay(ctx, pawl.Before("after"))
	same(t, "forked after the child", mustBeDone(t, out, err), values("one", "two:yes", "after"))
	tally(t, l, map[string]int{"one": 1, "two": 2, "after": 2})
	out, err = th.Replay(ctx, pawl.Before("child"))
	again := mustWaitFor(t, out, err, 1)[0]
	if again.ID == q.ID {
		t.Error("the child's question has its old id")
	}
	out, err = th.Resume(ctx, okay.Answer(again.ID, "no"))
	same(t, "forked before the child", mustBeDone(t, out, err), values("one", "two:no", "after"))
	tally(t, l, map[string]int{"one": 2, "two": 4, "after": 3})
}

// childrenByName is H18: which memory a call finds is its name's, whatever the order of calls; and no name is used twice.
func childrenByName(t *testing.T, h *home) {
	ctx := t.Context()
	note := build(t, pawl.New[kin]("note").Node("n", func(context.Context, *kin) error { return nil }).Path(pawl.Start, "n"))
	x, y := note.Child("x", pawl.PerThread), note.Child("y", pawl.PerThread)
	order, round := []pawl.Child[kin]{x, y}, 0
	g := build(t, pawl.New[kin]("calls").Node("a", func(ctx context.Context, s *kin) error {
		for _, c := range order {
			r, err := c.Call(ctx, &kin{Log: pawl.List(fmt.Sprint(c.UseName(), round))})
			if err != nil {
				return err
			}
			s.Log.Add(fmt.Sprint(c.UseName(), logged(r.State)))
		}
		return nil
	}, pawl.Uses(x, y)).Path(pawl.Start, "a"))
	th := g.Thread(engine(t, h.open(t), nil), "t")
	for ; round < 2; round++ {
		out, err := th.Run(ctx, &kin{})
		mustBeDone(t, out, err)
		order[0], order[1] = order[1], order[0]
	}
	same(t, "state", string(statusOf(t, th).Head.Values), values("x[x0]", "y[y0]", "y[y0 y1]", "x[x0 x1]"))
	order = []pawl.Child[kin]{x, x}
	if _, err := th.Run(ctx, &kin{}); !errors.Is(err, pawl.ErrNameReused) {
		t.Errorf("one child called twice: %v", err)
	}
}

// childTriedAgain is H26: a node that is tried again goes on in the child that it had begun.
func childTriedAgain(t *testing.T, h *home) {
	l := newLedger(t)
	inner := build(t, pawl.New[kin]("inner").Node("one", logs(l, "one")).Node("two", func(_ context.Context, s *kin) error {
		if l.add("two"); l.count("two") < 3 {
			return errors.New("not yet")
		}
		s.Log.Add("two")
		return nil
	}).Path(pawl.Start, "one", "two"))
	g := build(t, pawl.New[kin]("outer").Add(pawl.Sub(inner.Child("child"), nothingIn, logOut, pawl.Tries(3), pawl.Backoff(0, 0))).Path(pawl.Start, "child"))
	out, err := g.Thread(engine(t, h.open(t), nil), "t").Run(t.Context(), &kin{})
	same(t, "state", mustBeDone(t, out, err), values("one", "two"))
	tally(t, l, map[string]int{"one": 1, "two": 3})
}

// childLeadsOn is H32: what a child wrote is in the parent before a node of the parent is chosen by it.
func childLeadsOn(t *testing.T, h *home) {
	l := newLedger(t)
	inner := build(t, pawl.New[kin]("inner").Node("decides", logs(l, "left")).Path(pawl.Start, "decides"))
	g := build(t, pawl.New[kin]("outer").Add(pawl.Sub(inner.Child("child"), nothingIn, logOut)).
		Node("left", logs(l, "went left")).Node("right", logs(l, "went right")).
		Edge(pawl.Start, "child").Route("child", func(s *kin) []pawl.Next { return pawl.To(logged(s)[0]) }, "left", "right"))
	out, err := g.Thread(engine(t, h.open(t), nil), "t").Run(t.Context(), &kin{})
	same(t, "state", mustBeDone(t, out, err), values("left", "went left"))
}
