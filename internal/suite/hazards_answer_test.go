package suite

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// answersThatLookLikeMaps is H4: an answer that is a map, with the question's own id for a key, is a value like any
// other.
func answersThatLookLikeMaps(t *testing.T, h *home) {
	type mapped struct {
		Got pawl.Map[string, string] `json:"got"`
	}
	form := pawl.Interrupt[string, map[string]string]{Name: "form"}
	g := build(t, pawl.New[mapped]("g").Node("a", func(ctx context.Context, s *mapped) error {
		got, err := form.Ask(ctx, "fill in")
		for k, v := range got {
			s.Got.Set(k, v)
		}
		return err
	}, pawl.Uses(form)).Edge(pawl.Start, "a"))
	eng := engine(t, h.open(t), nil, g)
	for name, value := range map[string]func(id string) map[string]string{
		"empty": func(string) map[string]string { return map[string]string{} },
		"hex":   func(string) map[string]string { return map[string]string{"0123456789abcdef0123456789abcdef": "x"} },
		"id":    func(id string) map[string]string { return map[string]string{id: "x"} },
	} {
		th := g.Thread(eng, name)
		out, err := th.Run(context.Background(), &mapped{})
		q := mustWaitFor(t, out, err, 1)[0]
		given := value(q.ID)
		out, err = th.Resume(context.Background(), form.Answer(q.ID, given))
		mustBeDone(t, out, err)
		got := map[string]string{}
		for k, v := range out.State.Got.All() {
			got[k] = v
		}
		same(t, name, got, given)
	}
}

// nullIsAnAnswer is H5.
func nullIsAnAnswer(t *testing.T, h *home) {
	maybe := pawl.Interrupt[string, *string]{Name: "maybe"}
	g := build(t, pawl.New[mortalState]("g").Node("a", func(ctx context.Context, s *mortalState) error {
		answer, err := maybe.Ask(ctx, "anything to add?")
		if err == nil && answer == nil {
			s.Log.Add("no")
		}
		return err
	}, pawl.Uses(maybe)).Edge(pawl.Start, "a"))
	th := g.Thread(engine(t, h.open(t), nil, g), "t")
	out, err := th.Run(context.Background(), &mortalState{})
	q := mustWaitFor(t, out, err, 1)[0]
	out, err = th.Resume(context.Background(), pawl.AnswerWith(q.ID, nil))
	same(t, "state", mustBeDone(t, out, err), `{"log":["no"]}`)
}

// goingBackAsksAgain is H16: a replay asks under a new id, and the old answer neither answers it nor is overwritten.
func goingBackAsksAgain(t *testing.T, h *home) {
	ctx, l := context.Background(), newLedger(t)
	th, db := logging(t, h, pawl.New[mortalState]("g").Node("a", notes(l, "a")).Node("b", asks(l, "b"), pawl.Uses(gate)).Path(pawl.Start, "a", "b"))
	out, err := th.Run(ctx, &mortalState{})
	first := mustWaitFor(t, out, err, 1)[0]
	out, err = th.Resume(ctx, gate.Answer(first.ID, "yes"))
	mustBeDone(t, out, err)
	before := history(t, th)
	out, err = th.Replay(ctx, pawl.Before("b"))
	second := mustWaitFor(t, out, err, 1)[0]
	if second.ID == first.ID {
		t.Error("the question has the id that it had in the branch left behind")
	}
	refused(t, db, "the old id, another value", func() error { _, err := th.Answer(ctx, first.ID, "no"); return err },
		func(e *pawl.AnswerError) bool { return errors.Is(e, pawl.ErrAnswered) }, "nothing was consumed")
	out, err = th.Resume(ctx, gate.Answer(second.ID, "no"))
	same(t, "state", mustBeDone(t, out, err), `{"log":["a","b:no"]}`)
	tally(t, l, map[string]int{"a": 1, "b": 4})
	grew(t, before, history(t, th))
}

// answeredIsGone is H28: of two questions asked at once the answered one is listed nowhere any more, and answering it
// ran nothing.
func answeredIsGone(t *testing.T, h *home) {
	ctx, l := context.Background(), newLedger(t)
	th, _ := logging(t, h, pawl.New[mortalState]("g").Node("a", asks(l, "a"), pawl.Uses(gate)).Node("b", asks(l, "b"), pawl.Uses(gate)).
		Node("c", notes(l, "c")).Edge(pawl.Start, "a").Edge(pawl.Start, "b").Edge(pawl.Start, "c"))
	out, err := th.Run(ctx, &mortalState{})
	open := mustWaitFor(t, out, err, 2)
	slices.SortFunc(open, func(x, y pawl.Question) int { return bytes.Compare(x.Body, y.Body) })
	if _, err := th.Answer(ctx, open[1].ID, "yes"); err != nil {
		t.Fatal(err)
	}
	s := statusOf(t, th)
	same(t, "open", ids(s.Waiting), []string{open[0].ID})
	tally(t, l, map[string]int{"a": 1, "b": 1, "c": 1})
	out, err = th.Resume(ctx) // b has all its answers, a has not
	same(t, "open after b went on", ids(mustWaitFor(t, out, err, 1)), []string{open[0].ID})
	tally(t, l, map[string]int{"a": 1, "b": 2, "c": 1})
	out, err = th.Resume(ctx, gate.Answer(open[0].ID, "no"))
	same(t, "state", mustBeDone(t, out, err), `{"log":["a:no","b:yes","c"]}`)
	tally(t, l, map[string]int{"a": 2, "b": 2, "c": 1})
}

// numbersAndDeadlines is H29: the store compares numbers as numbers, and an item past its time is not seen, whether or
// not anybody swept.
func numbersAndDeadlines(t *testing.T, _ *report) {
	onEachClock(t, func(t *testing.T, h *home) {
		ctx, mem := t.Context(), must(store.New(store.Options{}))
		db := h.open(t)
		items := mem.Of(engine(t, db, &pawl.Options{Parts: []pawl.Part{mem}}), db)
		for key, n := range map[string]int{"nine": 9, "ten": 10} {
			if _, err := items.Batch(ctx, store.Put{Namespace: []string{"n"}, Key: key, Value: map[string]int{"v": n}, TTL: time.Hour}); err != nil {
				t.Fatal(err)
			}
		}
		found := func() (keys []string) {
			hits, err := items.Search(ctx, store.Search{Prefix: []string{"n"}, Filter: store.Filter{"v": store.Gt(9)}})
			if err != nil {
				t.Fatal(err)
			}
			for _, hit := range hits {
				keys = append(keys, hit.Key)
			}
			return keys
		}
		sameList(t, "above 9", found(), []string{"ten"})
		<-time.After(2 * time.Hour)
		sameList(t, "past their time", found(), nil)
	})
}
