package suite

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/nest"
)

// invoiceState is approved by its amount, and by its currency when it is foreign.
type invoiceState struct {
	Foreign  pawl.Last[bool]   `json:"foreign"`
	Amount   pawl.Last[string] `json:"amount"`
	Currency pawl.Last[string] `json:"currency"`
}

var (
	askAmount   = pawl.Interrupt[string, string]{Name: "amount"}
	askCurrency = pawl.Interrupt[string, string]{Name: "currency"}
	askDetail   = pawl.Interrupt[string, string]{Name: "detail"} // asked for both, under a key
)

// invoiceProgram is one version of a graph's code: what its node asks, in order.
type invoiceProgram struct {
	keyed bool
	uses  []pawl.NodeOption
	last  string // a node after the first; none if empty
	asks  []string
}

func (p invoiceProgram) build(t testing.TB, l *ledger) *nest.Graph[invoiceState] {
	b := pawl.New[invoiceState]("invoice").Node("approve", func(ctx context.Context, s *invoiceState) error {
		l.add("approve")
		for _, name := range p.asks {
			if name == "currency" && !s.Foreign.Get() {
				continue
			}
			answer, err := p.ask(ctx, name)
			if err != nil {
				return err
			}
			map[string]*pawl.Last[string]{"amount": &s.Amount, "currency": &s.Currency}[name].Set(answer)
		}
		return nil
	}, p.uses...).Edge(pawl.Start, "approve")
	if p.last != "" {
		b.Node(p.last, func(context.Context, *invoiceState) error { return nil }).Edge("approve", p.last)
	}
	return atDepth(t, b)
}

func (p invoiceProgram) ask(ctx context.Context, name string) (string, error) {
	switch {
	case p.keyed:
		return askDetail.Ask(ctx, name+"?", pawl.Key(name))
	case name == "amount":
		return askAmount.Ask(ctx, "amount?")
	}
	return askCurrency.Ask(ctx, "currency?")
}

// asked is how an open question reads.
func (p invoiceProgram) asked(name string) string {
	if p.keyed {
		return "detail/" + name
	}
	return name
}

func (p invoiceProgram) answer(id, value string) pawl.RunOption {
	if p.keyed {
		return askDetail.Answer(id, value)
	}
	return askAmount.Answer(id, value)
}

func questionAboveAnOpenOne(t *testing.T, _ *report) {
	t.Run("refused", func(t *testing.T) { onEach(t, changedByName) })
	for _, keyed := range []bool{false, true} {
		for _, c := range []struct {
			name string
			asks []string
			end  string
		}{
			{"above", []string{"currency", "amount"}, `{"foreign":true,"amount":"yes","currency":"EUR"}`},
			{"below", []string{"amount", "currency"}, `{"foreign":true,"amount":"yes","currency":"EUR"}`},
			{"in its place", []string{"currency"}, `{"foreign":true,"currency":"EUR"}`},
			{"removed", nil, `{"foreign":true}`},
		} {
			for _, how := range []string{"before the change", "after the change", "with the resume", "without an id"} {
				t.Run(fmt.Sprintf("%s, keyed %v, answered %s", c.name, keyed, how), func(t *testing.T) {
					onEach(t, func(t *testing.T, h *home) { changedUnder(t, h, keyed, c.asks, how, c.end) })
				})
			}
		}
	}
}

// changedUnder pauses at amount under the old code, and gives its yes around the change to code that asks otherwise.
func changedUnder(t *testing.T, h *home, keyed bool, asks []string, how, end string) {
	old := invoiceProgram{keyed: keyed, uses: []pawl.NodeOption{pawl.Uses(askAmount, askCurrency, askDetail)}, asks: []string{"amount"}}
	now := old
	now.asks = asks
	l := newLedger(t)
	g := old.build(t, l)
	eng := engine(t, h.open(t), nil, g)
	out, err := g.Thread(eng, "t1").Run(t.Context(), &invoiceState{Foreign: pawl.Of(true)})
	amount := mustWait(t, out, err, old.asked("amount"))[0]
	if how == "before the change" {
		taken(t, eng, amount.ID, "yes", false)
	}
	eng.Close()

	changed := now.build(t, l)
	eng = engine(t, h.open(t), nil, changed)
	th := changed.Thread(eng, "t1")
	before := history(t, th)
	var options []pawl.RunOption
	switch how {
	case "after the change":
		taken(t, eng, amount.ID, "yes", false)
	case "with the resume":
		options = append(options, now.answer(amount.ID, "yes"))
	case "without an id":
		options = append(options, now.answer("", "yes"))
	}
	out, err = th.Resume(t.Context(), options...)
	entered := 2
	if slices.Contains(asks, "currency") {
		currency := mustWait(t, out, err, now.asked("currency"))[0]
		same(t, "state at the second pause", string(out.Values), `{"foreign":true}`)
		yesAgain(t, th, now, amount.ID, currency.ID)
		out, err = th.Resume(t.Context(), pawl.AnswerWith(currency.ID, "EUR"))
		entered++
	}
	same(t, "state", mustBeDone(t, out, err), end)
	same(t, "entries", l.count("approve"), entered)
	kept := questionIn(t, history(t, th), amount.ID)
	same(t, "the yes", fmt.Sprintf("%s %s", kept.State, kept.Answer), `answered "yes"`)
	var unused []string
	for _, q := range out.Unused {
		unused = append(unused, q.ID+string(q.Answer))
	}
	if slices.Contains(asks, "amount") {
		sameList(t, "unused answers", unused, nil)
	} else {
		sameList(t, "unused answers", unused, []string{amount.ID + `"yes"`})
	}
	grew(t, before, history(t, th))
	settled(t, statusOf(t, th))
}

// yesAgain sends the yes for amount once more while currency is open: it stays where it is, and no part of it reaches
// currency.
func yesAgain(t *testing.T, th *nest.Thread[invoiceState], p invoiceProgram, amount, currency string) {
	t.Helper()
	standing := threadDump(t, th.Thread)
	out, err := th.Resume(t.Context(), p.answer(amount, "yes"))
	same(t, "open question", mustWait(t, out, err, p.asked("currency"))[0].ID, currency)
	if !p.keyed {
		_, err := th.Resume(t.Context(), p.answer("", "yes"))
		if e := (*pawl.AnswerError)(nil); !errors.As(err, &e) || e.Reason != pawl.ReasonKind {
			t.Errorf("a yes made for amount, without an id: %v, want it refused as of another question", err)
		}
	}
	q := questionIn(t, history(t, th), currency)
	same(t, "currency", fmt.Sprintf("%s %d", q.State, len(q.Answer)), "open 0")
	same(t, "the thread", threadDump(t, th.Thread), standing)
}

// taken gives an answer by id alone.
func taken(t *testing.T, eng *pawl.Engine, id, value string, already bool) {
	t.Helper()
	v, err := eng.Answer(t.Context(), id, value)
	if err != nil || !v.Taken || v.Already != already {
		t.Errorf("answer %q: %+v, %v", value, v, err)
	}
}

// questionIn finds a question as the history shows it.
func questionIn(t *testing.T, h []*pawl.Snapshot, id string) pawl.Question {
	t.Helper()
	for _, s := range h {
		for _, task := range s.Tasks {
			for _, q := range task.Questions {
				if q.ID == id {
					return q
				}
			}
		}
	}
	t.Errorf("question %s is not in the history", id)
	return pawl.Question{}
}

// changedByName pauses under the old code, and resumes under code that a run in flight must not go on under.
func changedByName(t *testing.T, h *home) {
	both := []string{"currency", "amount"}
	for _, c := range []struct {
		name    string
		now     invoiceProgram
		differs string
	}{
		{"another question declared", invoiceProgram{asks: both, uses: []pawl.NodeOption{pawl.Uses(askAmount, askCurrency)}},
			`declared uses of node "approve": was amount, is amount, currency`},
		{"another version", invoiceProgram{asks: both, uses: []pawl.NodeOption{pawl.Uses(askAmount), pawl.Version(2)}},
			`version of node "approve": was 1, is 2`},
		{"another edge", invoiceProgram{asks: both, uses: []pawl.NodeOption{pawl.Uses(askAmount)}, last: "book"},
			`edges of node "approve": was absent, is book`},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLedger(t)
			old := invoiceProgram{uses: []pawl.NodeOption{pawl.Uses(askAmount)}, asks: []string{"amount"}}.build(t, l)
			first := engine(t, h.open(t), nil, old)
			out, err := old.Thread(first, c.name).Run(t.Context(), &invoiceState{Foreign: pawl.Of(true)})
			amount := mustWait(t, out, err, "amount")[0]
			first.Close()

			changed := c.now.build(t, l)
			second := engine(t, h.open(t), nil, changed)
			th := changed.Thread(second, c.name)
			before, standing := history(t, th), threadDump(t, th.Thread)
			_, err = th.Resume(t.Context(), askAmount.Answer(amount.ID, "yes"))
			e := (*pawl.VersionError)(nil)
			if !errors.As(err, &e) {
				t.Fatalf("resumed under the changed graph: %v, want a *VersionError", err)
			}
			differs := inner(t, c.differs)
			same(t, "first difference", e.First, differs)
			if e.Graph != "invoice" || e.Thread != c.name || e.Was == e.Is || !strings.Contains(err.Error(), differs) {
				t.Errorf("the refusal names %+v: %v", e, err)
			}
			same(t, "the thread after the refusal", threadDump(t, th.Thread), standing)
			same(t, "entries", l.count("approve"), 1)
			taken(t, second, amount.ID, "yes", false)
			if _, err = th.Resume(t.Context()); !errors.As(err, &e) {
				t.Errorf("resumed under the changed graph after the answer: %v, want a *VersionError", err)
			}
			same(t, "entries", l.count("approve"), 1)
			second.Close()

			th = old.Thread(engine(t, h.open(t), nil, old), c.name)
			out, err = th.Resume(t.Context())
			same(t, "under the old code", mustBeDone(t, out, err), `{"foreign":true,"amount":"yes"}`)
			same(t, "entries", l.count("approve"), 2)
			grew(t, before, history(t, th))
			settled(t, statusOf(t, th))
		})
	}
}
