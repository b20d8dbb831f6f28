package suite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
)

type offer struct {
	Most int `json:"most"`
}

type bid struct {
	Amount int  `json:"amount"`
	Firm   bool `json:"firm"`
}

// auction is a question with a rule.
func auction(expires time.Duration) pawl.Interrupt[offer, bid] {
	return pawl.Interrupt[offer, bid]{Name: "auction", Expires: expires, Check: func(q offer, a bid) error {
		if a.Amount > q.Most {
			return fmt.Errorf("the amount is %d and at most %d is allowed", a.Amount, q.Most)
		}
		return nil
	}}
}

type sale struct {
	Sold pawl.Append[int] `json:"sold"`
}

func selling(l *ledger, expires time.Duration) *pawl.Builder[sale] {
	in := auction(expires)
	return pawl.New[sale]("sale").Node("sell", func(ctx context.Context, s *sale) error {
		l.add("entry")
		a, err := in.Ask(ctx, offer{Most: 100})
		switch {
		case errors.Is(err, pawl.ErrExpired):
			l.add("expired")
			s.Sold.Add(0)
			return nil
		case err == nil:
			s.Sold.Add(a.Amount)
		}
		return err
	}, pawl.Uses(in)).Edge(pawl.Start, "sell")
}

// door is one way to give an answer.
type door struct {
	name string
	give func(ctx context.Context, eng *pawl.Engine, thread, id string, value any) (*pawl.Verdict, error)
}

var doors = []door{
	{"engine", func(ctx context.Context, eng *pawl.Engine, _, id string, value any) (*pawl.Verdict, error) {
		return eng.Answer(ctx, id, value)
	}},
	{"thread", func(ctx context.Context, eng *pawl.Engine, thread, id string, value any) (*pawl.Verdict, error) {
		return eng.Thread("sale", thread).Answer(ctx, id, value)
	}},
	{"resume", func(ctx context.Context, eng *pawl.Engine, thread, id string, value any) (*pawl.Verdict, error) {
		_, err := eng.Thread("sale", thread).Resume(ctx, pawl.AnswerWith(id, value))
		return &pawl.Verdict{Taken: err == nil}, err
	}},
}

// verdicts runs the rows of the table. That each attempt is in the audit trail waits for the audit; exit codes are
// tested with the CLI.
func verdicts(t *testing.T, _ *report) {
	t.Log("without the audit trail of attempts: waits for audit")
	for _, d := range doors {
		t.Run(d.name, func(t *testing.T) {
			onEach(t, func(t *testing.T, h *home) {
				t.Run("wrong", func(t *testing.T) { wrongAnswers(t, h, d) })
				t.Run("not found", func(t *testing.T) { notFound(t, h, d) })
				t.Run("right, again, another", func(t *testing.T) { rightAnswer(t, h, d) })
			})
			t.Run("expired", func(t *testing.T) {
				for _, kind := range []func(testing.TB) *home{memory, onDisk} {
					synctest.Test(t, func(t *testing.T) { tooLate(t, kind(t), d) })
				}
			})
		})
	}
	t.Run("50 right values at once from two processes", fiftyAtOnce)
}

// sold is a sale that waits for a bid.
func sold(t testing.TB, h *home, expires time.Duration) (*ledger, *pawl.Engine, pawl.Question) {
	t.Helper()
	l := newLedger(t)
	eng := engine(t, h.open(t), nil, atDepth(t, selling(l, expires)))
	out, err := start(eng.Thread("sale", t.Name()))
	return l, eng, paused(t, out, err, 1)[0]
}

// untouched fails unless a thread still waits for the question, as it was, and the node was entered so often.
func untouched(t testing.TB, th *pawl.Thread, l *ledger, q pawl.Question, entries int) {
	t.Helper()
	s := statusOf(t, th)
	same(t, "status", s.Status, pawl.Waiting)
	same(t, "open questions", s.Waiting, []pawl.Question{q})
	tally(t, l, map[string]int{"entry": entries})
}

func wrongAnswers(t *testing.T, h *home, d door) {
	for _, c := range []struct{ name, answer, names string }{
		{"wrong type", `{"amount":"much","firm":true}`, "amount"},
		{"wrong shape", `"yes"`, "object"},
		{"unknown field", `{"amount":1,"firm":true,"colour":"red"}`, "colour"},
		{"missing field", `{"amount":1}`, "firm"},
		{"against the rule", `{"amount":101,"firm":true}`, "the amount is 101 and at most 100 is allowed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, eng, q := sold(t, h, 0)
			th := eng.Thread("sale", t.Name())
			before := history(t, th)
			v, err := d.give(t.Context(), eng, t.Name(), q.ID, json.RawMessage(c.answer))
			refused := (*pawl.AnswerError)(nil)
			if !errors.As(err, &refused) || refused.Reason != pawl.ReasonRefused || refused.Question != q.ID {
				t.Fatalf("verdict %v, error %v", v, err)
			}
			if faults := strings.Join(refused.Faults, "; "); !strings.Contains(faults, c.names) || !strings.Contains(err.Error(), c.names) {
				t.Errorf("the refusal %q does not name %q", faults, c.names)
			}
			untouched(t, th, l, q, 1)
			same(t, "history", history(t, th), before)
			out, err := th.Resume(t.Context(), pawl.AnswerWith(q.ID, bid{Amount: 5}))
			finished(t, out, err, `{"sold":[5]}`)
			tally(t, l, map[string]int{"entry": 2})
			atEnd(t, th, before)
		})
	}
}

func notFound(t *testing.T, h *home, d door) {
	l, eng, q := sold(t, h, 0)
	th, value := eng.Thread("sale", t.Name()), bid{Amount: 5}
	out, err := start(eng.Thread("sale", "another"))
	other := paused(t, out, err, 1)[0]
	before := history(t, th)
	for _, c := range []struct {
		name       string
		eng        *pawl.Engine
		thread, id string
	}{
		{"unknown id", eng, t.Name(), "no such question"},
		{"id of another tenant", eng.Tenant("another"), t.Name(), q.ID},
		{"id of another thread", eng, "another", q.ID},
	} {
		if d.name == "engine" && c.thread == "another" {
			continue // the id names the thread
		}
		_, err := d.give(t.Context(), c.eng, c.thread, c.id, value)
		if !errors.Is(err, pawl.ErrNotFound) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	tally(t, l, map[string]int{"entry": 2})
	untouched(t, th, l, q, 2)
	untouched(t, eng.Thread("sale", "another"), l, other, 2)
	atEnd(t, th, before)
}

func rightAnswer(t *testing.T, h *home, d door) {
	l, eng, q := sold(t, h, 0)
	th := eng.Thread("sale", t.Name())
	before := history(t, th)
	ann := pawl.WithActor(t.Context(), pawl.Actor{ID: "ann"})
	v, err := d.give(ann, eng, t.Name(), q.ID, bid{Amount: 5})
	if err != nil || !v.Taken || v.Already {
		t.Fatalf("right: verdict %+v, error %v", v, err)
	}
	if d.name != "resume" {
		tally(t, l, map[string]int{"entry": 1})
	}
	out, err := th.Resume(t.Context())
	finished(t, out, err, `{"sold":[5]}`)
	tally(t, l, map[string]int{"entry": 2})

	after := history(t, th)
	v, err = d.give(t.Context(), eng, t.Name(), q.ID, bid{Amount: 5})
	if err != nil || !v.Taken || !v.Already && d.name != "resume" {
		t.Errorf("the same again: verdict %+v, error %v", v, err)
	}
	_, err = d.give(pawl.WithActor(t.Context(), pawl.Actor{ID: "bob"}), eng, t.Name(), q.ID, bid{Amount: 6})
	refused := (*pawl.AnswerError)(nil)
	if !errors.Is(err, pawl.ErrAnswered) || !errors.As(err, &refused) || refused.By != "ann" || refused.At.Before(q.Asked) {
		t.Errorf("another value: %+v, %v", refused, err)
	} else if at := refused.At.UTC().Format(time.RFC3339); !strings.Contains(err.Error(), "answered by ann at "+at) {
		t.Errorf("another value: %v, want by whom and when", err)
	}
	same(t, "history", history(t, th), after)
	tally(t, l, map[string]int{"entry": 2})
	atEnd(t, th, before)
}

// tooLate answers after the deadline. Entered again, the node gets the typed error.
func tooLate(t *testing.T, h *home, d door) {
	l, eng, q := sold(t, h, time.Hour)
	th := eng.Thread("sale", t.Name())
	before := history(t, th)
	same(t, "due", q.Due, q.Asked.Add(time.Hour))
	<-time.After(time.Hour)
	_, err := d.give(context.Background(), eng, t.Name(), q.ID, bid{Amount: 5})
	refused := (*pawl.AnswerError)(nil)
	if !errors.Is(err, pawl.ErrExpired) || !errors.As(err, &refused) || !refused.At.Equal(q.Due) {
		t.Errorf("error %v, want expired at %v", err, q.Due)
	} else if !strings.Contains(err.Error(), "expired at "+q.Due.UTC().Format(time.RFC3339)) {
		t.Errorf("error %v, want when", err)
	}
	tally(t, l, map[string]int{"entry": 1})
	out, err := th.Resume(context.Background())
	finished(t, out, err, `{"sold":[0]}`)
	tally(t, l, map[string]int{"entry": 2, "expired": 1})
	atEnd(t, th, before)
}

type rush struct {
	Path, Thread, ID string
	From             int // the first of 25 values
}

// fiftyAtOnce has two processes give 25 values each. Both are ready before either begins.
func fiftyAtOnce(t *testing.T) {
	h := onDisk(t)
	l, eng, q := sold(t, h, 0)
	th := eng.Thread("sale", t.Name())
	before := history(t, th)
	var rushing []*child
	for _, from := range []int{0, 25} {
		rushing = append(rushing, spawn(t, "002-rush", rush{h.path, t.Name(), q.ID, from}))
	}
	for _, c := range rushing {
		same(t, "the child", c.line(), "ready")
	}
	for _, c := range rushing {
		fmt.Fprintln(c.in, "go")
	}
	taken, refused := []string{}, 0
	for _, c := range rushing {
		for _, said := range strings.Fields(c.wait(t)) {
			if said == "refused" {
				refused++
			} else {
				taken = append(taken, said)
			}
		}
	}
	same(t, "taken", len(taken), 1)
	same(t, "refused", refused, 49)
	out, err := th.Resume(t.Context())
	finished(t, out, err, fmt.Sprintf(`{"sold":[%s]}`, strings.Join(taken, ",")))
	tally(t, l, map[string]int{"entry": 2})
	atEnd(t, th, before)
}

// rushChild gives 25 answers at once and says of each what became of it.
func rushChild(doc []byte) {
	a := args[rush](doc)
	eng := childEngine(a.Path, nil)
	must(0, eng.Register(atDepthHere(selling(nil, 0))))
	fmt.Println("ready")
	must(fmt.Scanln(new(string)))
	var wg sync.WaitGroup
	said := make([]string, 25)
	for i := range said {
		wg.Go(func() {
			v, err := eng.Answer(context.Background(), a.ID, bid{Amount: a.From + i})
			switch {
			case err == nil && v.Taken && !v.Already:
				said[i] = fmt.Sprint(a.From + i)
			case errors.Is(err, pawl.ErrAnswered):
				said[i] = "refused"
			default:
				said[i] = strings.ReplaceAll(fmt.Sprintf("%+v,%v", v, err), " ", "-")
			}
		})
	}
	wg.Wait()
	fmt.Println(strings.Join(said, " "))
	must(0, eng.Close())
}
