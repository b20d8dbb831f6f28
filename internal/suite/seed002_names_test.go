package suite

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
)

func nothingByPosition(t *testing.T, _ *report) {
	for name, node := range map[string]func(context.Context, *ledger) [2]error{
		"a question twice":               questionTwice,
		"a question twice, both at once": questionTwiceAtOnce,
		"a step twice":                   stepTwice,
	} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, h *home) { refusedTwice(t, h, node) })
		})
	}
	for _, keys := range [][]string{{"c", "a", "b"}, {"a", "c", "b"}, {"a", "b", "c"}} {
		t.Run(strings.Join(keys, " "), func(t *testing.T) {
			onEach(t, func(t *testing.T, h *home) {
				t.Run("questions", func(t *testing.T) { thirdQuestion(t, h, keys) })
				t.Run("steps", func(t *testing.T) { thirdStep(t, h, keys) })
			})
		})
	}
}

// These use one name twice without a key and return what the two uses got, in the order in which they ended.

func questionTwice(ctx context.Context, l *ledger) (errs [2]error) {
	_, errs[0] = say.Ask(ctx, "This?")
	_, errs[1] = say.Ask(ctx, "Or that?")
	return errs
}

func questionTwiceAtOnce(ctx context.Context, l *ledger) (errs [2]error) {
	first := make(chan struct{})
	pawl.All(ctx, func(ctx context.Context) error {
		defer close(first)
		_, errs[0] = say.Ask(ctx, "This?")
		return errs[0]
	}, func(ctx context.Context) error {
		<-first
		_, errs[1] = say.Ask(ctx, "Or that?")
		return errs[1]
	})
	return errs
}

func stepTwice(ctx context.Context, l *ledger) (errs [2]error) {
	for i, row := range []string{"first-call", "second-call"} {
		_, errs[i] = pawl.Step(ctx, "say", func(context.Context) (string, error) { l.add(row); return row, nil })
	}
	return errs
}

func refusedTwice(t *testing.T, h *home, node func(context.Context, *ledger) [2]error) {
	l := newLedger(t)
	var errs [2]error
	g := atDepth(t, pawl.New[found]("twice").Node("twice", func(ctx context.Context, _ *found) error {
		l.add("entry")
		errs = node(ctx, l)
		return nil // the refusal does not depend on what the node makes of it
	}, pawl.Uses(say)).Edge(pawl.Start, "twice"))
	th := engine(t, h.open(t), nil, g).Thread("twice", "t1")
	out, err := start(th)
	if errs[0] != nil && !errors.Is(errs[0], pawl.ErrWaiting) {
		t.Errorf("the first use: %v", errs[0])
	}
	for what, err := range map[string]error{"the second use": errs[1], "the run": err} {
		if !errors.Is(err, pawl.ErrNameReused) || !strings.Contains(err.Error(), `say`) || !strings.Contains(err.Error(), "pawl.Key") {
			t.Errorf("%s: %v; want the name and the advice to give a key", what, err)
		}
	}
	if out == nil || out.Status != pawl.Failed || failedAt(t, th) != "twice" || len(out.Waiting) > 0 {
		t.Fatalf("outcome %+v", out)
	}
	want := map[string]int{"entry": 1}
	if errs[0] == nil {
		want["first-call"] = 1
	}
	tally(t, l, want)
	atEnd(t, th, nil)
}

// keyedQuestions asks say with the same body under each key, all of them before it waits.
func keyedQuestions(l *ledger, keys ...string) *pawl.Builder[found] {
	return pawl.New[found]("keyed").Node("asks", func(ctx context.Context, s *found) error {
		l.add("entry")
		var open error
		got := make([]string, len(keys))
		for i, key := range keys {
			var err error
			if got[i], err = say.Ask(ctx, "Which?", pawl.Key(key)); errors.Is(err, pawl.ErrWaiting) {
				open = err
			} else if err != nil {
				return err
			}
		}
		for i, key := range keys {
			s.Got.Set(key, got[i])
		}
		return open
	}, pawl.Uses(say)).Edge(pawl.Start, "asks")
}

// answerKeys answers open questions by key, without running on.
func answerKeys(t *testing.T, eng *pawl.Engine, open []pawl.Question) {
	t.Helper()
	for _, q := range open {
		if v, err := eng.Answer(t.Context(), q.ID, "to "+q.Key); err != nil || !v.Taken {
			t.Fatalf("verdict %v, error %v", v, err)
		}
	}
}

// thirdQuestion answers two questions under the old code and goes on under code that asks three.
func thirdQuestion(t *testing.T, h *home, keys []string) {
	l := newLedger(t)
	old := engine(t, h.open(t), nil, atDepth(t, keyedQuestions(l, "a", "b")))
	out, err := start(old.Thread("keyed", "questions"))
	answerKeys(t, old, paused(t, out, err, 2))
	before := history(t, old.Thread("keyed", "questions"))

	now := engine(t, h.open(t), nil, atDepth(t, keyedQuestions(l, keys...)))
	th := now.Thread("keyed", "questions")
	out, err = resume(th)
	q := paused(t, out, err, 1)[0]
	same(t, "the open question", q.Key, "c")
	answerKeys(t, now, out.Waiting)
	out, err = resume(th)
	finished(t, out, err, `{"got":{"a":"to a","b":"to b","c":"to c"}}`)
	tally(t, l, map[string]int{"entry": 3})
	atEnd(t, th, before)
}

// keyedSteps calls one step under each key and then waits.
func keyedSteps(l *ledger, keys ...string) *pawl.Builder[found] {
	return pawl.New[found]("keyed").Node("calls", func(ctx context.Context, s *found) error {
		l.add("entry")
		for _, key := range keys {
			got, err := pawl.Step(ctx, "call", func(context.Context) (string, error) {
				l.add("call-" + key)
				return fmt.Sprintf("%s in entry %d", key, l.count("entry")), nil
			}, pawl.Key(key))
			if err != nil {
				return err
			}
			s.Got.Set(key, got)
		}
		answer, err := say.Ask(ctx, "Go on?")
		s.Used.Add(answer)
		return err
	}, pawl.Uses(say)).Edge(pawl.Start, "calls")
}

// thirdStep records two results under the old code and goes on under code that has three steps.
func thirdStep(t *testing.T, h *home, keys []string) {
	l := newLedger(t)
	old := engine(t, h.open(t), nil, atDepth(t, keyedSteps(l, "a", "b")))
	out, err := start(old.Thread("keyed", "steps"))
	q := paused(t, out, err, 1)[0]
	before := history(t, old.Thread("keyed", "steps"))
	th := engine(t, h.open(t), nil, atDepth(t, keyedSteps(l, keys...))).Thread("keyed", "steps")
	out, err = resume(th, q.ID, "yes")
	finished(t, out, err, `{"got":{"a":"a in entry 1","b":"b in entry 1","c":"c in entry 2"},"used":["yes"]}`)
	tally(t, l, map[string]int{"entry": 2, "call-a": 1, "call-b": 1, "call-c": 1})
	atEnd(t, th, before)
}
