package suite

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
)

// crowdState collects what each asker was told.
type crowdState struct {
	Told pawl.Map[string, string] `json:"told"`
}

var (
	vote  = pawl.Interrupt[string, string]{Name: "vote"}
	other = pawl.Interrupt[string, string]{Name: "other"}
)

// crowd asks from two nodes at once, in each from three branches, in each branch two questions one after the other: six
// open at any time, twelve in all. Each asker notes what it was told under what it had asked.
func crowd() *pawl.Builder[crowdState] {
	node := func(name string) func(context.Context, *crowdState) error {
		return func(ctx context.Context, s *crowdState) error {
			told := make([][2]string, 3)
			var branches []func(context.Context) error
			for i := range told {
				branches = append(branches, func(ctx context.Context) (err error) {
					for round := range 2 {
						asked := fmt.Sprint(name, i, round)
						if told[i][round], err = vote.Ask(ctx, asked, pawl.Key(asked)); err != nil {
							return err
						}
					}
					return nil
				})
			}
			rand.Shuffle(len(branches), func(i, j int) { branches[i], branches[j] = branches[j], branches[i] })
			if err := pawl.All(ctx, branches...); err != nil {
				return err
			}
			for i, answers := range told {
				for round, a := range answers {
					s.Told.Set(fmt.Sprint(name, i, round), a)
				}
			}
			return nil
		}
	}
	return pawl.New[crowdState]("crowd").Node("x", node("x"), pawl.Uses(vote)).Node("y", node("y"), pawl.Uses(vote)).
		Edge(pawl.Start, "x").Edge(pawl.Start, "y")
}

type answering struct{ Path, ID, Answer string }

// promiseAnswerChild gives one answer in a process that has the graph's code.
func promiseAnswerChild(doc []byte) {
	a := args[answering](doc)
	eng := childEngine(a.Path, nil)
	must(0, eng.Register(atDepthHere(crowd())))
	v, err := eng.Answer(context.Background(), a.ID, a.Answer)
	fmt.Println(v != nil && v.Taken, err)
	must(0, eng.Close())
}

// answersReachTheirQuestion is P3.
func answersReachTheirQuestion(t *testing.T, _ *report) {
	t.Run("any order, any door", func(t *testing.T) {
		onEach(t, func(t *testing.T, h *home) {
			n := 60
			if h.name == "sqlite" {
				n = 10
			}
			for seed := range times(t, n) {
				interleave(t, h, uint64(seed))
			}
		})
	})
	t.Run("another process", func(t *testing.T) {
		h := onDisk(t)
		g := atDepth(t, crowd())
		th := g.Thread(engine(t, h.open(t), nil, g), "t")
		out, err := th.Run(context.Background(), &crowdState{})
		for round := range 2 {
			open := mustWaitFor(t, out, err, 6)
			for _, i := range rand.Perm(6) {
				c := spawn(t, "promise-answer", answering{h.path, open[i].ID, "to " + string(open[i].Body)})
				same(t, fmt.Sprint("answer ", i, " of round ", round), c.wait(t), "true <nil>")
			}
			out, err = th.Resume(context.Background())
		}
		crowdIsTold(t, out, err)
	})
	t.Run("consumed once", func(t *testing.T) { onEach(t, consumedOnce) })
	t.Run("bound to what was asked", func(t *testing.T) { onEach(t, boundToDigest) })
	t.Run("never by position", func(t *testing.T) { onEach(t, neverByPosition) })
}

func mustWaitFor[S any](t testing.TB, out *pawl.OutcomeOf[S], err error, n int) []pawl.Question {
	t.Helper()
	if err != nil || out.Status != pawl.Waiting || len(out.Waiting) != n {
		t.Fatalf("outcome %+v, error %v; want %d open questions", out, err, n)
	}
	return out.Waiting
}

// crowdIsTold fails unless every asker was told the answer to its own question.
func crowdIsTold(t testing.TB, out *pawl.OutcomeOf[crowdState], err error) {
	t.Helper()
	mustBeDone(t, out, err)
	same(t, "answers", out.State.Told.Len(), 12)
	for asked, told := range out.State.Told.All() {
		same(t, "what "+asked+" was told", told, `to "`+asked+`"`)
	}
}

// interleave answers the crowd in a random order by random doors, with answers sent again and resumes in between.
func interleave(t *testing.T, h *home, seed uint64) {
	t.Helper()
	ctx, rng := context.Background(), rand.New(rand.NewPCG(seed, 3))
	g := atDepth(t, crowd())
	db := h.open(t)
	eng, elsewhere := engine(t, db, nil, g), engine(t, h.open(t), nil, g)
	id := fmt.Sprint("t", seed)
	th := g.Thread(eng, id)
	out, err := th.Run(ctx, &crowdState{})
	open := mustWaitFor(t, out, err, 6)
	given := 0
	for len(open) > 0 {
		n := 1 + rng.IntN(min(3, len(open)))
		rng.Shuffle(len(open), func(i, j int) { open[i], open[j] = open[j], open[i] })
		var options []pawl.RunOption
		for _, q := range open[:n] {
			given++
			answer := "to " + string(q.Body)
			switch rng.IntN(4) {
			case 0:
				_, err = eng.Answer(ctx, q.ID, answer)
			case 1:
				_, err = elsewhere.Answer(ctx, q.ID, answer)
			case 2:
				_, err = g.Thread(elsewhere, id).Answer(ctx, q.ID, answer)
			default:
				options = append(options, vote.Answer(q.ID, answer))
				continue
			}
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if v, err := elsewhere.Answer(ctx, q.ID, answer); err != nil || !v.Already {
				t.Errorf("seed %d: the same answer again: %+v, %v", seed, v, err)
			}
			if _, err := eng.Answer(ctx, q.ID, "something else"); !errors.Is(err, pawl.ErrAnswered) {
				t.Errorf("seed %d: another answer to an answered question: %v", seed, err)
			}
		}
		if len(options) > 0 || rng.IntN(2) == 0 || n == len(open) {
			if out, err = th.Resume(ctx, options...); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		open = statusOf(t, th).Waiting
		if len(open) == 0 && statusOf(t, th).Status == pawl.Waiting {
			if out, err = th.Resume(ctx); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			open = out.Waiting
		}
	}
	same(t, fmt.Sprintf("seed %d: answers given", seed), given, 12)
	crowdIsTold(t, out, err)
	settled(t, statusOf(t, th))
}

// consumedOnce asks the same thing in three super-steps: each asking needs an answer of its own.
func consumedOnce(t *testing.T, h *home) {
	g := atDepth(t, pawl.New[mortalState]("loop").Node("ask", func(ctx context.Context, s *mortalState) error {
		a, err := gate.Ask(ctx, "the same")
		if err == nil {
			s.Log.Add(a)
			s.Calls.Add(1)
		}
		return err
	}, pawl.Uses(gate)).Edge(pawl.Start, "ask").Route("ask", func(s *mortalState) []pawl.Next {
		if s.Calls.Get() < 3 {
			return pawl.To("ask")
		}
		return pawl.To(pawl.End)
	}, "ask", pawl.End))
	db := h.open(t)
	eng := engine(t, db, nil, g)
	th := g.Thread(eng, "t")
	out, err := th.Run(context.Background(), &mortalState{})
	seen := map[string]bool{}
	for i := range 3 {
		q := mustWaitFor(t, out, err, 1)[0]
		if seen[q.ID] {
			t.Fatalf("question %s was asked before", q.ID)
		}
		for id := range seen { // an old answer sent again changes nothing
			v, err := eng.Answer(context.Background(), id, "answer 0")
			if i == 1 && (err != nil || !v.Already) {
				t.Errorf("the same answer again: %+v, %v", v, err)
			}
		}
		seen[q.ID] = true
		same(t, "open", len(statusOf(t, th).Waiting), 1)
		out, err = th.Resume(context.Background(), gate.Answer(q.ID, fmt.Sprint("answer ", i)))
	}
	same(t, "state", mustBeDone(t, out, err), `{"log":["answer 0","answer 1","answer 2"],"calls":3}`)
}

// boundToDigest changes what is asked between question and answer: the answer stays with what it was given for.
func boundToDigest(t *testing.T, h *home) {
	asks := "pay 10"
	g := atDepth(t, pawl.New[mortalState]("drifting").Node("ask", func(ctx context.Context, s *mortalState) error {
		a, err := gate.Ask(ctx, asks)
		if err == nil {
			s.Log.Add(asks + ": " + a)
		}
		return err
	}, pawl.Uses(gate)).Edge(pawl.Start, "ask"))
	db := h.open(t)
	eng := engine(t, db, nil, g)
	th := g.Thread(eng, "t")
	out, err := th.Run(context.Background(), &mortalState{})
	old := mustWaitFor(t, out, err, 1)[0]
	asks = "pay 10,000"
	out, err = th.Resume(context.Background(), gate.Answer(old.ID, "yes"))
	changed := (*pawl.ChangedError)(nil)
	if !errors.As(err, &changed) {
		t.Fatalf("the answer was given for another question: error %v", err)
	}
	says(t, err.Error(), `"t"`, `"ask"`, `"gate"`, "pay 10", "pay 10,000", "not used", changed.New.ID)
	same(t, "old and new", [2]string{changed.Old.ID, changed.New.ID}, [2]string{old.ID, out.Waiting[0].ID})
	if changed.New.ID == old.ID || changed.New.Digest == old.Digest {
		t.Errorf("a changed question has the id or digest of the old one")
	}
	before := everything(t, db)
	_, err = eng.Answer(context.Background(), old.ID, "yes")
	refused := (*pawl.AnswerError)(nil)
	if !errors.As(err, &refused) || refused.Reason != pawl.ReasonSuperseded || refused.Newest != changed.New.ID {
		t.Errorf("a stale answer: %v", err)
	}
	unchanged(t, db, before)
	out, err = th.Resume(context.Background(), gate.Answer(changed.New.ID, "no"))
	same(t, "state", mustBeDone(t, out, err), `{"log":["pay 10,000: no"]}`)
}

// neverByPosition sends answers that would fit if they were counted off.
func neverByPosition(t *testing.T, h *home) {
	ctx := context.Background()
	g := atDepth(t, crowd())
	db := h.open(t)
	eng := engine(t, db, nil, g)
	th, second := g.Thread(eng, "t"), g.Thread(eng, "second")
	out, err := th.Run(ctx, &crowdState{})
	open := mustWaitFor(t, out, err, 6)
	_, err = second.Run(ctx, &crowdState{})
	if err != nil {
		t.Fatal(err)
	}
	before := everything(t, db)
	for name, give := range map[string]func() error{
		"no id, thread":     func() error { _, err := th.Answer(ctx, "", "yes"); return err },
		"no id, resume":     func() error { _, err := th.Resume(ctx, vote.Answer("", "yes")); return err },
		"another interrupt": func() error { _, err := th.Resume(ctx, other.Answer(open[0].ID, "yes")); return err },
		"of another thread": func() error { _, err := second.Resume(ctx, vote.Answer(open[0].ID, "yes")); return err },
		"one good, one lost": func() error {
			_, err := th.Resume(ctx, vote.Answer(open[0].ID, "yes"), vote.Answer("lost", "no"))
			return err
		},
		"two for one": func() error {
			_, err := th.Resume(ctx, vote.Answer(open[0].ID, "yes"), vote.Answer(open[0].ID, "no"))
			return err
		},
	} {
		err := give()
		answer, lost := (*pawl.AnswerError)(nil), (*pawl.NotFoundError)(nil)
		if !errors.As(err, &answer) && !errors.As(err, &lost) {
			t.Errorf("%s: %v", name, err)
		} else if !strings.Contains(err.Error(), "nothing was") {
			t.Errorf("%s: does not say what was not done: %v", name, err)
		}
		if t.Run(name, func(t *testing.T) { unchanged(t, db, before) }); answer != nil && answer.Reason == pawl.ReasonAmbiguous && strings.HasPrefix(name, "no id") {
			same(t, name+": ids that are open", answer.Open, ids(open))
		}
	}
}
