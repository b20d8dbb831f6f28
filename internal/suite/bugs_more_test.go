package suite

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/approval"
	"github.com/pawl-dev/pawl/effect"
	"github.com/pawl-dev/pawl/pawltest"
)

// bugsMore are those that need no machinery of their own.
func bugsMore() []scenario {
	return []scenario{
		{id: "002", run: each(answeredIsGone)},
		{id: "003", run: each(twoCopiesOfAChild)},
		{id: "004", run: each(unknownNames)},
		{id: "006", run: each(answeredIsGone)},
		{id: "008", run: each(goingBackAsksAgain)},
		{id: "009", run: each(secondQuestionShows)},
		{id: "021", run: triedAgainPaidOnce},
		{id: "028", run: each(nothingLeftToResume)},
		{id: "032", run: each(joinAfterAFailure)},
		{id: "043", run: each(driftEnds)},
		{id: "047", run: waitOutlivesTimeout},
		{id: "065", run: yesAndNoAtOnce},
		{id: "069", run: aNoIsTyped},
		{id: "098", run: each(onlyWhatWasAdded)},
		{id: "104", run: each(childAsksTwice)},
		{id: "105", run: each(goingBackAsksAgain)},
		{id: "119", run: each(closedEngine)},
		{id: "133", run: each(oneRunAThread)},
		{id: "135", run: each(manyRunsOneGraph)},
		{id: "136", run: each(conflictNamed)},
		{id: "144", run: each(wrongJSON)},
		{id: "156", run: each(idOfAnotherThread)},
		{id: "162", run: each(sameRunIDTogether)},
		{id: "169", run: limitsAreNamed},
		{id: "172", run: each(cancelHasItsReason)},
	}
}

// twoCopiesOfAChild is 003: in any order, and in one call, the end is the same.
func twoCopiesOfAChild(t *testing.T, h *home) {
	l := newLedger(t)
	inner := build(t, pawl.New[kin]("inner").Node("asks", asksAs(l, "asks"), pawl.Uses(okay)).Path(pawl.Start, "asks"))
	g := build(t, pawl.New[kin]("outer").Add(pawl.Sub(inner.Child("a"), nothingIn, logOut)).Add(pawl.Sub(inner.Child("b"), nothingIn, logOut)).
		Edge(pawl.Start, "a").Edge(pawl.Start, "b"))
	eng := engine(t, h.open(t), nil)
	for _, order := range [][][]string{{{"a"}, {"b"}}, {{"b"}, {"a"}}, {{"a", "b"}}} {
		th := g.Thread(eng, fmt.Sprint(order))
		out, err := th.Run(t.Context(), &kin{})
		id := map[string]string{}
		for _, q := range mustWaitFor(t, out, err, 2) {
			id[q.Path[:1]] = q.ID
		}
		left := 2
		for _, together := range order {
			var given []pawl.RunOption
			for _, of := range together {
				given = append(given, okay.Answer(id[of], "for "+of))
			}
			out, err = th.Resume(t.Context(), given...)
			if left -= len(given); left > 0 {
				mustWaitFor(t, out, err, left)
			}
		}
		same(t, fmt.Sprint(order), mustBeDone(t, out, err), values("asks:for a", "asks:for b"))
	}
}

// secondQuestionShows is 009: status, next and what is open never disagree.
func secondQuestionShows(t *testing.T, h *home) {
	th, _ := logging(t, h, pawl.New[mortalState]("g").Node("a", func(ctx context.Context, s *mortalState) error {
		for _, key := range []string{"1", "2"} {
			if _, err := gate.Ask(ctx, "ok?", pawl.Key(key)); err != nil {
				return err
			}
		}
		return nil
	}, pawl.Uses(gate)).Edge(pawl.Start, "a"))
	out, err := th.Run(context.Background(), &mortalState{})
	out, err = th.Resume(context.Background(), gate.Answer(mustWaitFor(t, out, err, 1)[0].ID, "yes"))
	mustWaitFor(t, out, err, 1)
	s := statusOf(t, th)
	same(t, "status", s.Status, pawl.Waiting)
	sameList(t, "next", s.Head.Next, []string{"a"})
	same(t, "open", ids(s.Waiting), ids(out.Waiting))
	same(t, "key", s.Waiting[0].Key, "2")
}

// triedAgainPaidOnce is 021: tries of a node are entries of one task, and an effect belongs to its reference.
func triedAgainPaidOnce(t *testing.T, _ *report) {
	for _, mode := range allTargets {
		t.Run(string(mode), func(t *testing.T) {
			onEachMoney(t, func(t *testing.T, h *home) {
				target, l := pawltest.NewTarget(mode), newLedger(t)
				e := wire(target)
				g := build(t, pawl.New[mortalState]("g").Node("pay", func(ctx context.Context, s *mortalState) error {
					id, err := payRef(ctx, e, "7")
					if err != nil {
						return err
					}
					if l.add("entry"); l.count("entry") < 3 {
						return errors.New("not yet")
					}
					s.Log.Add(id)
					return nil
				}, pawl.Uses(e), pawl.Tries(3), pawl.Backoff(0, 0)).Edge(pawl.Start, "pay"))
				out, err := g.Thread(firmIn(t, h).eng, "t").Run(t.Context(), &mortalState{})
				same(t, "state", mustBeDone(t, out, err), values(target.Rows()[0].ID))
				tally(t, l, map[string]int{"entry": 3})
				saw(t, target, 1, 0, 1)
			})
		})
	}
}

// nothingLeftToResume is 028: resuming what is done runs nothing.
func nothingLeftToResume(t *testing.T, h *home) {
	l := newLedger(t)
	th, db := logging(t, h, pawl.New[mortalState]("g").Node("a", notes(l, "a")).Node("b", notes(l, "b")).Path(pawl.Start, "a", "b"))
	out, err := th.Run(t.Context(), &mortalState{})
	mustBeDone(t, out, err)
	before := everything(t, db)
	out, err = th.Resume(t.Context(), pawl.At(out.Checkpoint))
	same(t, "state", mustBeDone(t, out, err), `{"log":["a","b"]}`)
	unchanged(t, db, before)
	out, err = th.Replay(t.Context(), pawl.Checkpoint(out.Checkpoint))
	same(t, "state", mustBeDone(t, out, err), `{"log":["a","b"]}`)
	tally(t, l, map[string]int{"a": 1, "b": 1})
}

// joinAfterAFailure is 032.
func joinAfterAFailure(t *testing.T, h *home) {
	l, bad := newLedger(t), true
	th, _ := logging(t, h, pawl.New[mortalState]("g").Node("a", notes(l, "a")).Node("b", func(ctx context.Context, s *mortalState) error {
		if bad {
			return errors.New("no luck")
		}
		return notes(l, "b")(ctx, s)
	}).Node("end", func(_ context.Context, s *mortalState) error {
		l.add("end:" + strings.Join(items(s.Log.All()), ","))
		return nil
	}).Edge(pawl.Start, "a").Edge(pawl.Start, "b").Join([]string{"a", "b"}, "end"))
	if out, err := th.Run(t.Context(), &mortalState{}); err == nil {
		t.Fatal(out)
	}
	bad = false
	out, err := th.Resume(t.Context())
	mustBeDone(t, out, err)
	tally(t, l, map[string]int{"a": 1, "b": 1, "end:a,b": 1})
}

// driftEnds is 043: a node that asks something else each time fails after the second answer that it cannot use, and says
// where it differs.
func driftEnds(t *testing.T, h *home) {
	n := 0
	th, _ := logging(t, h, pawl.New[mortalState]("drifts").Node("a", func(ctx context.Context, s *mortalState) error {
		n++
		_, err := gate.Ask(ctx, fmt.Sprint("at ", n))
		return err
	}, pawl.Uses(gate)).Edge(pawl.Start, "a"))
	out, err := th.Run(t.Context(), &mortalState{})
	changed, drift := (*pawl.ChangedError)(nil), (*pawl.DriftError)(nil)
	_, err = th.Resume(t.Context(), gate.Answer(mustWaitFor(t, out, err, 1)[0].ID, "yes"))
	if !errors.As(err, &changed) {
		t.Fatalf("the first answer: %v", err)
	}
	out, err = th.Resume(t.Context(), gate.Answer(statusOf(t, th).Waiting[0].ID, "yes"))
	if !errors.As(err, &drift) || out.Status != pawl.Failed || out.Cause != pawl.CauseDrift {
		t.Fatalf("the second answer: %v, %v", out, err)
	}
	says(t, err.Error(), `"t"`, `"a"`, "gate")
	same(t, "entries", n, 3)
}

// waitOutlivesTimeout is 047: a node's time counts while it runs, not while it waits.
func waitOutlivesTimeout(t *testing.T, _ *report) {
	onEachClock(t, func(t *testing.T, h *home) {
		l := newLedger(t)
		g := build(t, pawl.New[mortalState]("g").Node("a", asks(l, "a"), pawl.Uses(gate), pawl.Timeout(time.Second)).Edge(pawl.Start, "a"))
		th := g.Thread(firmIn(t, h).eng, "t")
		out, err := th.Run(t.Context(), &mortalState{})
		q := mustWaitFor(t, out, err, 1)[0]
		later(30 * 24 * time.Hour)
		tally(t, l, map[string]int{"a": 1})
		out, err = th.Resume(t.Context(), gate.Answer(q.ID, "yes"))
		same(t, "state", mustBeDone(t, out, err), values("a:yes"))
	})
}

// yesAndNoAtOnce is 065: the first decision that is stored wins, and the other is told.
func yesAndNoAtOnce(t *testing.T, _ *report) {
	onEachMoney(t, func(t *testing.T, h *home) {
		target := pawltest.NewTarget(pawltest.TargetKeys)
		g := build(t, payGraph(approvedWire(target)))
		for round := range 8 {
			o, invoice := firmIn(t, h), fmt.Sprint(round)
			th := g.Thread(o.eng, invoice)
			out, err := th.Run(t.Context(), orderFor(invoice))
			mustWaitFor(t, out, err, 1)
			r := o.requests(t, approval.Requested)[0]
			ann, bob := pawl.WithActor(context.Background(), pawl.Actor{ID: "ann", Groups: []string{"finance"}}), pawl.WithActor(context.Background(), pawl.Actor{ID: "bob", Groups: []string{"finance"}})
			by := approval.Decision{Digest: r.Call, Reason: "seen"}
			errs := make([]error, 2)
			var both sync.WaitGroup
			both.Go(func() { _, errs[0] = o.approvals.Approve(ann, r.ID, by) })
			both.Go(func() { _, errs[1] = o.approvals.Reject(bob, r.ID, by) })
			both.Wait()
			if (errs[0] == nil) == (errs[1] == nil) {
				t.Fatalf("yes: %v; no: %v", errs[0], errs[1])
			}
			_, err = th.Resume(t.Context())
			same(t, "paid", err == nil, errs[0] == nil)
		}
		same(t, "payments", target.Count().Rows, len(firmIn(t, h).requests(t, approval.Consumed)))
	})
}

// aNoIsTyped is 069: the node is told, and nothing that it does about it dispatches the call.
func aNoIsTyped(t *testing.T, _ *report) {
	onEachMoney(t, func(t *testing.T, h *home) {
		target := pawltest.NewTarget(pawltest.TargetKeys)
		e, told := approvedWire(target), 0
		g := build(t, pawl.New[mortalState]("stubborn").Node("pay", func(ctx context.Context, s *mortalState) error {
			for range 3 {
				_, err := payRef(ctx, e, "7")
				if errors.Is(err, pawl.ErrWaiting) {
					return err
				}
				if e := (*effect.DeniedError)(nil); errors.As(err, &e) {
					told++
				}
			}
			return nil
		}, pawl.Uses(e)).Edge(pawl.Start, "pay"))
		o := firmIn(t, h)
		th := g.Thread(o.eng, "t")
		out, err := th.Run(t.Context(), &mortalState{})
		mustWaitFor(t, out, err, 1)
		saw(t, target, 0, 0, 0)
		r := o.requests(t, approval.Requested)[0]
		bob := pawl.WithActor(context.Background(), pawl.Actor{ID: "bob", Groups: []string{"finance"}})
		if _, err := o.approvals.Reject(bob, r.ID, approval.Decision{Digest: r.Call, Reason: "not this one"}); err != nil {
			t.Fatal(err)
		}
		out, err = th.Resume(t.Context())
		mustBeDone(t, out, err)
		same(t, "refusals that the node got", told, 3)
		saw(t, target, 0, 0, 0)
	})
}

// onlyWhatWasAdded is 098: a list that goes into children and comes out does not double, at depth 3.
func onlyWhatWasAdded(t *testing.T, h *home) {
	whole := func(s *kin) *kin { return &kin{Log: pawl.List(logged(s)...)} }
	added := func(s *kin, r *pawl.Result[kin]) error {
		a, err := r.Added()
		if err == nil {
			s.Log.Add(logged(a)...)
		}
		return err
	}
	g := build(t, pawl.New[kin]("inner").Node("adds", logs(newLedger(t), "new")).Path(pawl.Start, "adds"))
	for depth := range 3 {
		g = build(t, pawl.New[kin](fmt.Sprint("around", depth)).Add(pawl.Sub(g.Child("c"), whole, added)).Path(pawl.Start, "c"))
	}
	out, err := g.Thread(engine(t, h.open(t), nil), "t").Run(t.Context(), &kin{Log: pawl.List("old")})
	same(t, "state", mustBeDone(t, out, err), values("old", "new"))
}

// childAsksTwice is 104.
func childAsksTwice(t *testing.T, h *home) {
	l := newLedger(t)
	inner := build(t, pawl.New[kin]("inner").Node("n1", logs(l, "n1")).Node("q1", asksAs(l, "q1"), pawl.Uses(okay)).
		Node("n2", logs(l, "n2")).Node("q2", asksAs(l, "q2"), pawl.Uses(okay)).Node("n3", logs(l, "n3")).Path(pawl.Start, "n1", "q1", "n2", "q2", "n3"))
	th := deep(t, inner, 2).Thread(engine(t, h.open(t), nil), "t")
	out, err := th.Run(t.Context(), &kin{})
	for range 2 {
		out, err = th.Resume(t.Context(), okay.Answer(mustWaitFor(t, out, err, 1)[0].ID, "yes"))
	}
	same(t, "state", mustBeDone(t, out, err), values("n1", "q1:yes", "n2", "q2:yes", "n3"))
	tally(t, l, map[string]int{"n1": 1, "q1": 2, "n2": 1, "q2": 2, "n3": 1})
}

// manyRunsOneGraph is 135: no run sees another's marker.
func manyRunsOneGraph(t *testing.T, h *home) {
	runs := 1000
	if h.path != "" {
		runs = 100
	}
	g := build(t, pawl.New[mortalState]("g").Node("a", func(_ context.Context, s *mortalState) error {
		s.Log.Add("a of " + items(s.Log.All())[0])
		return nil
	}).Edge(pawl.Start, "a"))
	eng := engine(t, h.open(t), nil, g)
	var all sync.WaitGroup
	for i := range runs {
		all.Go(func() {
			mark := fmt.Sprint("run ", i)
			out, err := g.Thread(eng, mark).Run(t.Context(), &mortalState{Log: pawl.List(mark)})
			if err != nil || string(out.Values) != values(mark, "a of "+mark) {
				t.Error(mark, out, err)
			}
		})
	}
	all.Wait()
}

// conflictNamed is 136: two writers of one plain field.
func conflictNamed(t *testing.T, h *home) {
	sets := func(_ context.Context, s *tenfoldState) error { s.N.Set(1); return nil }
	g := build(t, pawl.New[tenfoldState]("g").Node("a", sets).Node("b", sets).Edge(pawl.Start, "a").Edge(pawl.Start, "b"))
	th := g.Thread(engine(t, h.open(t), nil, g), "t")
	out, err := th.Run(t.Context(), tenfoldOf(0))
	e := (*pawl.ConflictError)(nil)
	if !errors.As(err, &e) || out.Cause != pawl.CauseConflict {
		t.Fatal(out, err)
	}
	says(t, err.Error(), `"t"`, `"n"`, "written by a and b")
}

// idOfAnotherThread is 156.
func idOfAnotherThread(t *testing.T, h *home) {
	db, l := h.open(t), newLedger(t)
	g := build(t, pawl.New[mortalState]("g").Node("a", asks(l, "a"), pawl.Uses(gate)).Edge(pawl.Start, "a"))
	eng := engine(t, db, nil, g)
	open := map[string]string{}
	for _, name := range []string{"1", "2"} {
		out, err := g.Thread(eng, name).Run(t.Context(), &mortalState{})
		open[name] = mustWaitFor(t, out, err, 1)[0].ID
	}
	for name, give := range map[string]func() error{
		"answer": func() error { _, err := g.Thread(eng, "2").Answer(t.Context(), open["1"], "yes"); return err },
		"resume": func() error {
			_, err := g.Thread(eng, "2").Resume(t.Context(), gate.Answer(open["1"], "yes"))
			return err
		},
	} {
		refused[error](t, db, name, give, is(pawl.ErrNotFound), open["1"], "nothing was")
	}
}

// sameRunIDTogether is 162: many callers with one run id start one run.
func sameRunIDTogether(t *testing.T, h *home) {
	l := newLedger(t)
	g := build(t, pawl.New[mortalState]("g").Node("a", notes(l, "a")).Edge(pawl.Start, "a"))
	eng := engine(t, h.open(t), nil, g)
	runs, errs := make([]string, 50), make([]error, 50)
	var all sync.WaitGroup
	for i := range runs {
		all.Go(func() {
			out, err := g.Thread(eng, "t").Run(t.Context(), &mortalState{}, pawl.RunID("order 1"))
			if errs[i] = err; err == nil {
				runs[i] = out.Run
			}
		})
	}
	all.Wait()
	for i, err := range errs {
		if err != nil && !errors.Is(err, pawl.ErrBusy) {
			t.Error(err)
		}
		if err == nil && runs[i] != "order 1" {
			t.Errorf("run %q", runs[i])
		}
	}
	out, err := g.Thread(eng, "t").Run(t.Context(), &mortalState{}, pawl.RunID("order 1"))
	same(t, "state", mustBeDone(t, out, err), values("a"))
	tally(t, l, map[string]int{"a": 1})
}

// limitsAreNamed is 169: which limit ended a node is said, nothing of it is merged, and it can go on.
func limitsAreNamed(t *testing.T, _ *report) {
	onEachClock(t, func(t *testing.T, h *home) {
		slow := true
		g := build(t, pawl.New[mortalState]("g").Node("a", func(ctx context.Context, s *mortalState) error {
			s.Log.Add("a")
			if slow {
				<-ctx.Done()
				return context.Cause(ctx)
			}
			return nil
		}, pawl.Timeout(time.Minute)).Edge(pawl.Start, "a"))
		th := g.Thread(firmIn(t, h).eng, "t")
		_, err := th.Run(t.Context(), &mortalState{})
		if err == nil {
			t.Fatal("it ended well")
		}
		says(t, err.Error(), `"t"`, `"a"`, "1m0s")
		same(t, "merged", string(statusOf(t, th).Head.Values), `{}`)
		slow = false
		out, err := th.Resume(t.Context())
		same(t, "state", mustBeDone(t, out, err), values("a"))
	})
}

// cancelHasItsReason is 172.
func cancelHasItsReason(t *testing.T, h *home) {
	entered := make(chan struct{})
	cause := make(chan error, 1)
	th, _ := logging(t, h, pawl.New[mortalState]("g").Node("a", func(ctx context.Context, s *mortalState) error {
		close(entered)
		<-ctx.Done()
		cause <- context.Cause(ctx)
		return ctx.Err()
	}).Edge(pawl.Start, "a"))
	end := make(chan error, 1)
	go func() { _, err := th.Run(context.Background(), &mortalState{Log: pawl.List("in")}); end <- err }()
	<-entered
	if err := th.Cancel(t.Context(), "the order was withdrawn"); err != nil {
		t.Fatal(err)
	}
	if err := <-end; err == nil || !strings.Contains(err.Error(), "the order was withdrawn") {
		t.Errorf("the run: %v", err)
	}
	if err := <-cause; err == nil {
		t.Error("the node was not told why")
	}
	s := statusOf(t, th)
	same(t, "status", s.Status, pawl.Cancelled)
	says(t, s.Reason, "the order was withdrawn")
	same(t, "input", string(s.Head.Values), values("in"))
	if !slices.Contains(s.Legal, pawl.VerbRetry) {
		t.Errorf("legal: %v", s.Legal)
	}
}
