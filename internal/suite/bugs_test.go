package suite

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
)

// TestBugs holds failures that other engines had, under the numbers of the project's bug log.
func TestBugs(t *testing.T) { runAll(t, "bugs", bugs()) }

func bugs() []scenario {
	return slices.Concat(bugsMore(), bugsWait(), bugsChild(), bugsStorage(), bugsRun(), bugsAgain(), bugsOfStreams(), []scenario{
		{id: "001", run: threeQuestionsThreeIDs},
		{id: "005", run: bareValueIsAmbiguous},
		{id: "007", run: fiveRoundsFiveAnswers},
		{id: "011", run: swallowedPause},
		{id: "019", run: killedBetweenResultAndCheckpoint},
		{id: "020", run: thirdEffectFails},
		{id: "022", run: plannedAgain},
		{id: "023", run: failedAndApplied},
		{id: "040", run: recoveredInAnyOrder},
		{id: "041", run: earlierHistories},
		{id: "042", run: recordedCallAdded},
		{id: "044", run: longNodeKeepsItsThread},
		{id: "064", run: fiftyAnswers},
		{id: "076", run: changedWhileParked},
		{id: "107", run: headIsAVersionCheck},
		{id: "109", run: branchesDoNotMix},
		{id: "114", run: twoThousandSteps},
		{id: "127", run: unreadableFailsClosed},
		{id: "154", run: inputIsNoAnswer},
		{id: "174", run: answersAreNotReused},
	})
}

// threeCallers is one node with three calls at once, each asking its own question.
func threeCallers() *pawl.Builder[crowdState] {
	return pawl.New[crowdState]("callers").Node("tools", func(ctx context.Context, s *crowdState) error {
		told := make([]string, 3)
		var calls []func(context.Context) error
		for _, i := range rand.Perm(3) {
			calls = append(calls, func(ctx context.Context) (err error) {
				told[i], err = vote.Ask(ctx, fmt.Sprint("call ", i), pawl.Key(fmt.Sprint(i)))
				return err
			})
		}
		if err := pawl.All(ctx, calls...); err != nil {
			return err
		}
		for i, answer := range told {
			s.Told.Set(fmt.Sprint("call ", i), answer)
		}
		return nil
	}, pawl.Uses(vote)).Edge(pawl.Start, "tools")
}

// listIDsChild prints the open questions of a thread, body and id.
func listIDsChild(doc []byte) {
	eng := childEngine(args[string](doc), nil)
	fmt.Println(openIDs(must(eng.Thread("", "t").State(context.Background())).Waiting))
	must(0, eng.Close())
}

func openIDs(open []pawl.Question) string {
	var out []string
	for _, q := range open {
		out = append(out, string(q.Body)+"="+q.ID)
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// threeQuestionsThreeIDs is 001.
func threeQuestionsThreeIDs(t *testing.T, _ *report) {
	onEach(t, func(t *testing.T, h *home) {
		g := build(t, threeCallers())
		first := engine(t, h.open(t), nil, g)
		out, err := g.Thread(first, "t").Run(context.Background(), &crowdState{})
		open := mustWaitFor(t, out, err, 3)
		same(t, "distinct ids", distinct(ids(open)), 3)
		want := openIDs(open)
		same(t, "read again", openIDs(statusOf(t, g.Thread(first, "t")).Waiting), want)
		if h.path != "" {
			same(t, "read by another process", spawn(t, "bug-ids", h.path).wait(t), want)
		}
		first.Close()
		th := g.Thread(engine(t, h.open(t), nil, g), "t")
		same(t, "read after a restart", openIDs(statusOf(t, th).Waiting), want)
		var answers []pawl.RunOption
		for _, i := range rand.Perm(3) {
			answers = append(answers, pawl.AnswerWith(open[i].ID, "to "+string(open[i].Body)))
		}
		out, err = th.Resume(context.Background(), answers...)
		same(t, "state", mustBeDone(t, out, err), `{"told":{"call 0":"to \"call 0\"","call 1":"to \"call 1\"","call 2":"to \"call 2\""}}`)
		settled(t, statusOf(t, th))
	})
}

// bareValueIsAmbiguous is 005 without children.
func bareValueIsAmbiguous(t *testing.T, _ *report) {
	onEach(t, func(t *testing.T, h *home) {
		ctx := context.Background()
		ask := func(ctx context.Context, s *mortalState) error {
			a, err := gate.Ask(ctx, "?")
			s.Log.Add(a)
			return err
		}
		g := build(t, pawl.New[mortalState]("two").Node("a", ask, pawl.Uses(gate)).Node("b", ask, pawl.Uses(gate)).
			Edge(pawl.Start, "a").Edge(pawl.Start, "b"))
		db := h.open(t)
		th := g.Thread(engine(t, db, nil, g), "t")
		out, err := th.Run(ctx, &mortalState{})
		open := mustWaitFor(t, out, err, 2)
		before := everything(t, db)
		for name, give := range map[string]func() error{
			"answer":       func() error { _, err := th.Answer(ctx, "", "yes"); return err },
			"resume":       func() error { _, err := th.Resume(ctx, gate.Answer("", "yes")); return err },
			"resume, JSON": func() error { _, err := th.Thread.Resume(ctx, pawl.AnswerWith("", "yes")); return err },
		} {
			e := (*pawl.AnswerError)(nil)
			if err := give(); !errors.As(err, &e) || e.Reason != pawl.ReasonAmbiguous {
				t.Fatalf("%s: %v", name, err)
			}
			same(t, name+": ids that are open", e.Open, ids(open))
			says(t, e.Error(), open[0].ID, open[1].ID, "nothing was consumed", "name one by its id")
		}
		unchanged(t, db, before)
	})
}

// fiveRoundsFiveAnswers is 007: a review loop inside one node.
func fiveRoundsFiveAnswers(t *testing.T, _ *report) {
	onEach(t, func(t *testing.T, h *home) {
		l := newLedger(t)
		call := func(ctx context.Context, name string, options ...pawl.Opt) error {
			_, err := pawl.Step(ctx, name, func(context.Context) (int, error) { l.add(name); return 0, nil }, options...)
			return err
		}
		g := build(t, pawl.New[mortalState]("review").Node("review", func(ctx context.Context, s *mortalState) error {
			if err := call(ctx, "before"); err != nil {
				return err
			}
			for round := 1; ; round++ {
				key := pawl.Key(fmt.Sprint(round))
				if err := call(ctx, "inside", key); err != nil {
					return err
				}
				says, err := gate.Ask(ctx, fmt.Sprint("draft ", round), key)
				if err != nil {
					return err
				}
				if s.Log.Add(says); says == "good" {
					return nil
				}
			}
		}, pawl.Uses(gate)).Edge(pawl.Start, "review"))
		th := g.Thread(engine(t, h.open(t), nil, g), "t")
		out, err := th.Run(context.Background(), &mortalState{})
		for round := 1; round <= 5; round++ {
			q := mustWaitFor(t, out, err, 1)[0]
			same(t, "asked", string(q.Body), fmt.Sprintf(`"draft %d"`, round))
			answer := "change"
			if round == 5 {
				answer = "good"
			}
			out, err = th.Resume(context.Background(), gate.Answer(q.ID, answer))
		}
		same(t, "state", mustBeDone(t, out, err), `{"log":["change","change","change","change","good"]}`)
		tally(t, l, map[string]int{"before": 1, "inside": 5})
	})
}

// swallowedPause is 011: a tool asks inside a wrapper that lets no error out.
func swallowedPause(t *testing.T, _ *report) {
	// tool asks and, in one case, panics with the pause instead of returning it.
	tool := func(ctx context.Context, panics bool) string {
		a, err := gate.Ask(ctx, "may I?")
		if err != nil && panics {
			panic(err)
		}
		if err != nil {
			return "tool failed: " + err.Error()
		}
		return "tool said " + a
	}
	wrapped := func(ctx context.Context, panics bool) (text string) {
		defer func() {
			if p := recover(); p != nil {
				text = fmt.Sprint("tool panicked: ", p)
			}
		}()
		return tool(ctx, panics)
	}
	for name, panics := range map[string]bool{"error": false, "panic": true} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, h *home) {
				l := newLedger(t)
				g := build(t, pawl.New[mortalState]("agent").Node("agent", func(ctx context.Context, s *mortalState) error {
					text := wrapped(ctx, panics)
					_, err := pawl.Step(ctx, "send", func(context.Context) (int, error) { l.add("sent"); return 0, nil })
					s.Log.Add(text)
					if err != nil {
						s.Log.Add("not sent: " + err.Error()) // swallowed as well
					}
					return nil
				}, pawl.Uses(gate)).Node("after", func(_ context.Context, s *mortalState) error { l.add("after"); return nil }).
					Path(pawl.Start, "agent", "after"))
				th := g.Thread(engine(t, h.open(t), nil, g), "t")
				out, err := th.Run(context.Background(), &mortalState{})
				q := mustWaitFor(t, out, err, 1)[0]
				same(t, "state while it waits", string(out.Values), `{}`)
				tally(t, l, map[string]int{"sent": 0, "after": 0})
				out, err = th.Resume(context.Background(), gate.Answer(q.ID, "yes"))
				same(t, "state", mustBeDone(t, out, err), `{"log":["tool said yes"]}`)
				tally(t, l, map[string]int{"sent": 1, "after": 1})
			})
		})
	}
	// An error that hides the pause is a failure that says so, and nobody is left waiting.
	t.Run("another error", func(t *testing.T) {
		onEach(t, func(t *testing.T, h *home) {
			_, th := failsWith[*pawl.NodeError](t, h, nil, pawl.New[mortalState]("agent").Node("agent", func(ctx context.Context, s *mortalState) error {
				return errors.New(wrapped(ctx, false))
			}, pawl.Uses(gate)).Edge(pawl.Start, "agent"), pawl.CauseError, `"t"`, `"agent"`, "tool failed", "waiting for an answer")
			same(t, "open questions", len(statusOf(t, th).Waiting), 0)
		})
	})
}

// headIsAVersionCheck is 107.
func headIsAVersionCheck(t *testing.T, _ *report) {
	onEach(t, func(t *testing.T, h *home) {
		ctx := context.Background()
		var shapes, entries []string
		for _, named := range []bool{false, true} {
			l := newLedger(t)
			g := build(t, pawl.New[mortalState]("g").Node("a", func(_ context.Context, s *mortalState) error { l.add("a"); s.Log.Add("a"); return nil }).
				Node("ask", func(ctx context.Context, s *mortalState) error {
					l.add("ask")
					a, err := gate.Ask(ctx, "?")
					s.Log.Add(a)
					return err
				}, pawl.Uses(gate)).Path(pawl.Start, "a", "ask"))
			db := h.open(t)
			th := g.Thread(engine(t, db, nil, g), fmt.Sprint("named ", named))
			out, err := th.Run(ctx, &mortalState{})
			q := mustWaitFor(t, out, err, 1)[0]
			options := []pawl.RunOption{gate.Answer(q.ID, "yes")}
			if named {
				before, h := everything(t, db), history(t, th)
				older := h[1].Checkpoint
				_, err := th.Resume(ctx, gate.Answer(q.ID, "yes"), pawl.At(older))
				refused := (*pawl.VerbError)(nil)
				if !errors.As(err, &refused) {
					t.Fatalf("resume at an older checkpoint: %v", err)
				}
				says(t, err.Error(), older, h[0].Checkpoint, "nothing was changed", "fork it")
				unchanged(t, db, before)
				options = append(options, pawl.At(out.Checkpoint))
			}
			out, err = th.Resume(ctx, options...)
			mustBeDone(t, out, err)
			shapes = append(shapes, strings.Join(historyTable(history(t, th)), "\n"))
			entries = append(entries, strings.Join(l.rows(), " "))
			parentsBelow(t, history(t, th))
		}
		same(t, "history with and without the head's name", shapes[1], shapes[0])
		same(t, "entries", entries[1], entries[0])
		same(t, "entries", entries[0], "a ask ask")
	})
}

// branchesDoNotMix is 109: a property test beside full states, and the plain case.
func branchesDoNotMix(t *testing.T, _ *report) {
	onEach(t, func(t *testing.T, h *home) {
		for seed := range times(t, 8) {
			forksOfForks(t, h, uint64(1000+seed), 12)
		}
		g := build(t, lineOf("line"))
		th := g.Thread(engine(t, h.open(t), nil, g), "t")
		out, err := th.Run(context.Background(), &mortalState{})
		mustBeDone(t, out, err)
		from := history(t, th)[1] // c is due
		for _, branch := range []string{"left", "right"} {
			out, err := th.Fork(context.Background(), pawl.Checkpoint(from.Checkpoint), func(s *mortalState) error { s.Log.Add(branch); return nil })
			mustBeDone(t, out, err)
			fresh := g.Thread(engine(t, h.open(t), nil, g), "t")
			same(t, "reloaded", string(statusOf(t, fresh).Head.Values), fmt.Sprintf(`{"log":["a","b",%q,"c"]}`, branch))
		}
	})
}

// twoThousandSteps is 114: each adds 1 kB.
func twoThousandSteps(t *testing.T, _ *report) {
	onEach(t, func(t *testing.T, h *home) {
		const item = 1000
		rounds := times(t, 2000)
		m, th := grow(t, h, "t", growth{item: item}, rounds)
		if total := m.total(); total > rounds*(item+300) {
			t.Errorf("%d bytes written for %d that the nodes wrote", total, rounds*item)
		}
		size := 0
		rows, read := m.loads(func() { size = len(statusOf(t, th).Head.Values) })
		if size < rounds*item || read > 2*size || rows > rounds+20 {
			t.Errorf("loading %d bytes reads %d rows of %d bytes", size, rows, read)
		}
		t.Logf("%d bytes written, %d kept, %d read", m.total(), size, read)
	})
}

// inputIsNoAnswer is 154.
func inputIsNoAnswer(t *testing.T, _ *report) {
	onEach(t, func(t *testing.T, h *home) {
		ctx, l := context.Background(), newLedger(t)
		g := build(t, pawl.New[mortalState]("chat").Node("start", func(_ context.Context, s *mortalState) error { l.add("start"); return nil }).
			Node("ask", func(ctx context.Context, s *mortalState) error { _, err := gate.Ask(ctx, "?"); return err }, pawl.Uses(gate)).
			Path(pawl.Start, "start", "ask"))
		db := h.open(t)
		th := g.Thread(engine(t, db, nil, g), "t")
		out, err := th.Run(ctx, &mortalState{})
		mustWaitFor(t, out, err, 1)
		before := everything(t, db)
		for name, send := range map[string]func() error{
			"typed":  func() error { _, err := th.Run(ctx, &mortalState{Log: pawl.List("yes, please")}); return err },
			"JSON":   func() error { _, err := th.Thread.Run(ctx, []byte(`{"log":["yes, please"]}`)); return err },
			"run id": func() error { _, err := th.Run(ctx, &mortalState{}, pawl.RunID("another")); return err },
			"stream": func() (last error) {
				for _, err := range th.Stream(ctx, &mortalState{}) {
					last = err
				}
				return last
			},
			"retry": func() error { _, err := th.Retry(ctx); return err },
		} {
			e := (*pawl.VerbError)(nil)
			if err := send(); !errors.As(err, &e) {
				t.Fatalf("%s: %v", name, err)
			}
			same(t, name+": status", e.Status, pawl.Waiting)
			says(t, e.Error(), `"t"`, "waiting", "refused and nothing was changed", "answer its question", "resume", "cancel")
			unchanged(t, db, before)
		}
		same(t, "entries of start", l.count("start"), 1)
	})
}

// answersAreNotReused is 174 without children.
func answersAreNotReused(t *testing.T, _ *report) {
	onEach(t, func(t *testing.T, h *home) {
		ctx, l := context.Background(), newLedger(t)
		g := build(t, pawl.New[mortalState]("two").Node("ask", func(ctx context.Context, s *mortalState) error {
			l.add("entry")
			for _, key := range []string{"Q1", "Q2"} {
				a, err := gate.Ask(ctx, "the same text", pawl.Key(key))
				if err != nil {
					return err
				}
				s.Log.Add(key + " " + a)
			}
			return nil
		}, pawl.Uses(gate)).Edge(pawl.Start, "ask"))
		db := h.open(t)
		th := g.Thread(engine(t, db, nil, g), "t")
		out, err := th.Run(ctx, &mortalState{})
		q1 := mustWaitFor(t, out, err, 1)[0]
		out, err = th.Resume(ctx, gate.Answer(q1.ID, "yes"))
		q2 := mustWaitFor(t, out, err, 1)[0]
		same(t, "the second question", q2.Key, "Q2")
		before := everything(t, db)
		for range 2 {
			out, err = th.Resume(ctx)
			same(t, "still open", mustWaitFor(t, out, err, 1)[0].ID, q2.ID)
			out, err = th.Resume(ctx, gate.Answer(q1.ID, "yes")) // delivered again
			same(t, "still open", mustWaitFor(t, out, err, 1)[0].ID, q2.ID)
		}
		unchanged(t, db, before)
		same(t, "entries", l.count("entry"), 2)
		out, err = th.Resume(ctx, gate.Answer(q2.ID, "no"))
		same(t, "state", mustBeDone(t, out, err), `{"log":["Q1 yes","Q2 no"]}`)
	})
}
