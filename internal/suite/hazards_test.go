package suite

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/storage"
)

// TestHazards holds the known hazards of LangGraph, H1 to H32, each with the stricter outcome here.
// docs/langgraph.md has them in words.
func TestHazards(t *testing.T) {
	runAll(t, "hazards", []scenario{
		{id: "H1", run: killedBetweenResultAndCheckpoint},
		{id: "H2", run: each(routeFails)},
		{id: "H3", run: answersAreNotReused},
		{id: "H4", run: each(unknownNames, answersThatLookLikeMaps)},
		{id: "H5", run: each(nullIsAnAnswer)},
		{id: "H6", run: all(bareValueIsAmbiguous, each(bareValueInsideChild))},
		{id: "H7", run: threeQuestionsThreeIDs},
		{id: "H8", run: childPaused},
		{id: "H9", run: each(forkAroundChild)},
		{id: "H10", run: each(oneRunAThread)},
		{id: "H11", run: each(allWritesAtOnce)},
		{id: "H12", run: whatACrashLoses},
		{id: "H13", run: each(undeclaredTarget, unknownTarget, unknownNames)},
		{id: "H14", run: each(joinCannotFire, halfAJoinIsForgotten)},
		{id: "H15", run: notByPosition},
		{id: "H16", run: each(goingBackAsksAgain)},
		{id: "H17", run: each(cacheOfOtherCode, cacheOfFailures)},
		{id: "H18", run: each(childrenByName)},
		{id: "H19", run: branchesDoNotMix},
		{id: "H20", run: each(noSharedMemory)},
		{id: "H21", run: whenExitSaves},
		{id: "H22", run: each(runIDWithOtherInput)},
		{id: "H23", run: each(failsAfterWriting)},
		{id: "H24", run: each(stepLimit)},
		{id: "H25", run: each(runBesideFinished)},
		{id: "H26", run: each(childTriedAgain)},
		{id: "H27", run: each(editKeepsSends)},
		{id: "H28", run: each(answeredIsGone)},
		{id: "H29", run: numbersAndDeadlines},
		{id: "H30", run: each(noCheckpointNamed)},
		{id: "H31", run: each(inputOnce)},
		{id: "H32", run: each(childLeadsOn)},
	})
}

// all is a scenario made of others. What they print is theirs to print.
func all(parts ...func(*testing.T, *report)) func(*testing.T, *report) {
	return func(t *testing.T, _ *report) {
		for i, part := range parts {
			t.Run(fmt.Sprint(i+1), func(t *testing.T) { part(t, &report{}) })
		}
	}
}

// each runs cases on each home, one after the other.
func each(cases ...func(*testing.T, *home)) func(*testing.T, *report) {
	return func(t *testing.T, _ *report) {
		for i, c := range cases {
			t.Run(fmt.Sprint(i+1), func(t *testing.T) { onEach(t, c) })
		}
	}
}

// logging is a graph over mortalState with its engine and thread.
func logging(t *testing.T, h *home, b *pawl.Builder[mortalState]) (*pawl.ThreadOf[mortalState], storage.DB) {
	t.Helper()
	db, g := h.open(t), build(t, b)
	return g.Thread(engine(t, db, nil, g), "t"), db
}

// asks is a node that asks gate and logs the answer behind the node's question.
func asks(l *ledger, question string) func(context.Context, *mortalState) error {
	return func(ctx context.Context, s *mortalState) error {
		l.add(question)
		answer, err := gate.Ask(ctx, question)
		s.Log.Add(question + ":" + answer)
		return err
	}
}

// failsOnce runs a graph that fails, checks that nothing of the node was merged, and resumes it to its end.
func failsOnce(t *testing.T, h *home, l *ledger, thread string, b *pawl.Builder[mortalState], wanted error) {
	t.Helper()
	g := build(t, b)
	th := g.Thread(engine(t, h.open(t), nil, g), thread)
	out, err := th.Run(context.Background(), &mortalState{})
	if out == nil || out.Status != pawl.Failed || wanted != nil && !errors.Is(err, wanted) {
		t.Fatal(out, err)
	}
	head := statusOf(t, th).Head
	same(t, "merged", string(head.Values), `{}`)
	same(t, "due", head.Next, []string{"a"})
	out, err = th.Resume(context.Background())
	same(t, "state", mustBeDone(t, out, err), `{"log":["a","b"]}`)
	tally(t, l, map[string]int{"a": 2, "b": 1})
}

// notes adds to the ledger and to the log.
func notes(l *ledger, what string) func(context.Context, *mortalState) error {
	return func(_ context.Context, s *mortalState) error { l.add(what); s.Log.Add(what); return nil }
}

// routeFails is H2: a router belongs to its task, so what the task wrote is not kept beside the failure.
func routeFails(t *testing.T, h *home) {
	for name, wrong := range map[string]func() []pawl.Next{
		"panics":            func() []pawl.Next { panic("no way on") },
		"undeclared target": func() []pawl.Next { return pawl.To("ghost") },
	} {
		t.Run(name, func(t *testing.T) {
			l, bad := newLedger(t), true
			failsOnce(t, h, l, name, pawl.New[mortalState]("g").Node("a", notes(l, "a")).Node("b", notes(l, "b")).
				Edge(pawl.Start, "a").Route("a", func(*mortalState) []pawl.Next {
				if bad {
					bad = false
					return wrong()
				}
				return pawl.To("b")
			}, "b", pawl.End), nil)
		})
	}
}

// failsAfterWriting is H23.
func failsAfterWriting(t *testing.T, h *home) {
	l, trouble := newLedger(t), errors.New("no luck")
	wanted := trouble
	failsOnce(t, h, l, "t", pawl.New[mortalState]("g").Node("a", func(ctx context.Context, s *mortalState) (err error) {
		l.add("a")
		s.Log.Add("a")
		err, trouble = trouble, nil
		return err
	}).Node("b", notes(l, "b")).Path(pawl.Start, "a", "b"), wanted)
}

// oneRunAThread is H10: while a run owns its thread nobody else starts, moves or edits it.
func oneRunAThread(t *testing.T, h *home) {
	ctx, l := context.Background(), newLedger(t)
	entered, release := make(chan struct{}), make(chan struct{})
	b := pawl.New[mortalState]("slow").Node("a", func(_ context.Context, s *mortalState) error {
		l.add("a")
		close(entered)
		<-release
		return nil
	}).Node("b", notes(l, "b")).Path(pawl.Start, "a", "b")
	th, db := logging(t, h, b)
	again := build(t, b)
	second := again.Thread(engine(t, db, nil, again), "t")
	type end struct {
		out *pawl.OutcomeOf[mortalState]
		err error
	}
	first := make(chan end, 1)
	go func() {
		out, err := th.Run(ctx, &mortalState{})
		first <- end{out, err}
	}()
	<-entered
	for name, verb := range map[string]func(th *pawl.ThreadOf[mortalState]) error{
		"run":    func(th *pawl.ThreadOf[mortalState]) error { _, err := th.Run(ctx, &mortalState{}); return err },
		"resume": func(th *pawl.ThreadOf[mortalState]) error { _, err := th.Resume(ctx); return err },
		"replay": func(th *pawl.ThreadOf[mortalState]) error { _, err := th.Replay(ctx, pawl.Before("a")); return err },
		"edit": func(th *pawl.ThreadOf[mortalState]) error {
			_, err := th.Edit(ctx, func(s *mortalState) error { s.Log.Add("x"); return nil })
			return err
		},
	} {
		for where, th := range map[string]*pawl.ThreadOf[mortalState]{"same engine": th, "another engine": second} {
			refused[error](t, db, name+", "+where, func() error { return verb(th) }, is(pawl.ErrBusy), `"t"`, "nothing was changed")
		}
	}
	close(release)
	done := <-first
	same(t, "state", mustBeDone(t, done.out, done.err), `{"log":["b"]}`)
	tally(t, l, map[string]int{"a": 1, "b": 1})
	parentsBelow(t, history(t, th))
}

// allWritesAtOnce is H11: what many tasks write at once all arrives, in the order of sending.
func allWritesAtOnce(t *testing.T, h *home) {
	const n = 200
	w := pawl.NewWorker("w", func(_ context.Context, s *mortalState, i int) error {
		s.Log.Add(fmt.Sprint(i))
		s.Calls.Add(1)
		return nil
	})
	var items []int
	var want []string
	for i := range n {
		items, want = append(items, i), append(want, fmt.Sprint(i))
	}
	th, _ := logging(t, h, pawl.New[mortalState]("wide").Add(w).Node("a", adds("a")).Edge(pawl.Start, "a").
		Route("a", func(*mortalState) []pawl.Next { return w.Each(items) }, "w"))
	out, err := th.Run(context.Background(), &mortalState{})
	mustBeDone(t, out, err)
	var got []string
	for _, line := range out.State.Log.All() {
		got = append(got, line)
	}
	sameList(t, "log", got, append([]string{"a"}, want...))
	same(t, "calls", out.State.Calls.Get(), n)
}

// halfAJoinIsForgotten is H14: what arrived at a join in one run does not fire it in the next.
func halfAJoinIsForgotten(t *testing.T, h *home) {
	l, way := newLedger(t), "a"
	th, _ := logging(t, h, pawl.New[mortalState]("half").Node("pick", adds("pick")).Node("a", notes(l, "a")).Node("b", notes(l, "b")).Node("end", notes(l, "end")).
		Edge(pawl.Start, "pick").Route("pick", func(*mortalState) []pawl.Next { return pawl.To(way) }, "a", "b").Join([]string{"a", "b"}, "end"))
	for _, c := range []struct{ way, missing string }{{"a", "[b]"}, {"b", "[a]"}} {
		way = c.way
		_, err := th.Run(context.Background(), &mortalState{})
		e := (*pawl.JoinError)(nil)
		if !errors.As(err, &e) {
			t.Fatalf("only %s ran: %v", c.way, err)
		}
		same(t, "missing", fmt.Sprint(e.Missing), c.missing)
	}
	tally(t, l, map[string]int{"a": 1, "b": 1, "end": 0})
}

// noSharedMemory is H20: what a node changes in place is neither stored nor merged, the caller's value is its own, and
// strict mode fails the node. What Get returned is still shared inside the process: Get says so.
func noSharedMemory(t *testing.T, h *home) {
	type shared struct {
		List pawl.Last[[]int] `json:"list"`
	}
	g := build(t, pawl.New[shared]("shared").Node("changes", func(_ context.Context, s *shared) error {
		s.List.Get()[0] = 99
		return nil
	}).Node("after", func(context.Context, *shared) error { return nil }).Path(pawl.Start, "changes", "after"))
	input := []int{1, 2}
	db := h.open(t)
	loose, strict := engine(t, db, nil, g), engine(t, db, &pawl.Options{Strict: true}, g)
	out, err := g.Thread(loose, "t").Run(context.Background(), &shared{List: pawl.Of(input)})
	same(t, "state", mustBeDone(t, out, err), `{"list":[1,2]}`)
	same(t, "the caller's list", fmt.Sprint(input), "[1 2]")
	_, err = g.Thread(strict, "strict").Run(context.Background(), &shared{List: pawl.Of(input)})
	e := (*pawl.StateError)(nil)
	if !errors.As(err, &e) {
		t.Fatalf("changed in place: %v", err)
	}
	same(t, "names", [2]string{e.Node, e.Channel}, [2]string{"changes", "list"})
	says(t, err.Error(), "changed in place", "change a copy and Set it")
}

// editKeepsSends is H27: an edit changes values; what is due stays due.
func editKeepsSends(t *testing.T, h *home) {
	ctx := context.Background()
	w := pawl.NewWorker("w", func(_ context.Context, s *mortalState, i int) error { s.Calls.Add(i); return nil })
	th, _ := logging(t, h, pawl.New[mortalState]("sends").Add(w).Node("a", adds("a")).Edge(pawl.Start, "a").
		Route("a", func(*mortalState) []pawl.Next { return w.Each([]int{1, 10, 100}) }, "w"))
	out, err := th.Run(ctx, &mortalState{})
	mustBeDone(t, out, err)
	if _, err := th.Replay(ctx, pawl.Before("w"), pawl.Hold()); err != nil {
		t.Fatal(err)
	}
	if _, err := th.Edit(ctx, func(s *mortalState) error { s.Log.Add("edited"); return nil }); err != nil {
		t.Fatal(err)
	}
	same(t, "due after the edit", len(statusOf(t, th).Head.Tasks), 3)
	out, err = th.Resume(ctx)
	same(t, "state", mustBeDone(t, out, err), `{"log":["a","edited"],"calls":111}`)
}

// noCheckpointNamed is H30: an empty name of a checkpoint is no time travel.
func noCheckpointNamed(t *testing.T, h *home) {
	ctx, l := context.Background(), newLedger(t)
	th, db := logging(t, h, pawl.New[mortalState]("g").Node("a", notes(l, "a")).Node("b", asks(l, "b"), pawl.Uses(gate)).Path(pawl.Start, "a", "b"))
	out, err := th.Run(ctx, &mortalState{})
	q := mustWaitFor(t, out, err, 1)[0]
	refused[*pawl.PointError](t, db, "replay at no name", func() error { _, err := th.Replay(ctx, pawl.Checkpoint("")); return err }, nil, "nothing was changed")
	out, err = th.Resume(ctx, gate.Answer(q.ID, "yes"), pawl.At(""))
	same(t, "state", mustBeDone(t, out, err), `{"log":["a","b:yes"]}`)
	tally(t, l, map[string]int{"a": 1, "b": 2})
}

// inputOnce is H31: the first input of a fresh thread is merged one time, and so is an edit that makes the thread.
func inputOnce(t *testing.T, h *home) {
	ctx := context.Background()
	b := pawl.New[mortalState]("g").Node("a", adds("a")).Edge(pawl.Start, "a")
	th, db := logging(t, h, b)
	out, err := th.Run(ctx, &mortalState{Log: pawl.List("in"), Calls: pawl.Total(1)})
	same(t, "state", mustBeDone(t, out, err), `{"log":["in","a"],"calls":1}`)
	edited := build(t, b).Thread(engine(t, db, nil), "edited")
	if out, err = edited.Edit(ctx, func(s *mortalState) error { s.Log.Add("x"); s.Calls.Add(1); return nil }); err != nil {
		t.Fatal(err)
	}
	same(t, "edited", string(out.Values), `{"log":["x"],"calls":1}`)
	out, err = edited.Run(ctx, &mortalState{Log: pawl.List("in"), Calls: pawl.Total(1)})
	same(t, "state", mustBeDone(t, out, err), `{"log":["x","in","a"],"calls":2}`)
}
