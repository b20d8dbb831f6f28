package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/pawl-dev/pawl"
)

// refund is the state of the demo's graph.
type refund struct {
	Amount pawl.Last[int64]    `json:"amount"` // cents
	Found  pawl.Append[string] `json:"found"`
	Letter pawl.Last[string]   `json:"letter"`
	Result pawl.Last[string]   `json:"result"`
}

// request is what the person is asked.
type request struct {
	Text   string `json:"text"`
	Letter string `json:"letter"`
}

// scene is what the demo's nodes touch outside the database.
type scene struct {
	ledger ledger
	hold   string                                       // node that stops, for ever, after its step and before its end
	holds  func(ctx context.Context, node string) error // tells that it does
}

var approval = pawl.Interrupt[request, string]{
	Name: "approve",
	Check: func(_ request, answer string) error {
		if answer != "yes" && answer != "no" {
			return errors.New("the answer is yes or no")
		}
		return nil
	},
}

// graph: three look-ups side by side, then one node that drafts, asks and pays.
func (s *scene) graph() (*pawl.Graph[refund], error) {
	b := pawl.New[refund]("refund").
		Node("order", s.lookUp("order", "find-order", "order 8841: a bicycle, paid")).
		Node("customer", s.lookUp("customer", "find-customer", "customer since 2019")).
		Node("risk", s.lookUp("risk", "score-risk", "risk: low")).
		Node("decide", s.decide, pawl.Uses(approval))
	for _, n := range []string{"order", "customer", "risk"} {
		b.Path(pawl.Start, n, "decide")
	}
	return b.Build()
}

func (s *scene) lookUp(node, step, fact string) func(context.Context, *refund) error {
	return func(ctx context.Context, st *refund) error {
		if err := s.ledger.add("node", node); err != nil {
			return err
		}
		found, err := s.call(ctx, step, fact)
		if err != nil {
			return err
		}
		if s.hold == node {
			return s.holds(ctx, node)
		}
		st.Found.Add(found)
		return nil
	}
}

func (s *scene) decide(ctx context.Context, st *refund) error {
	if err := s.ledger.add("node", "decide"); err != nil {
		return err
	}
	letter, err := s.call(ctx, "draft-letter", fmt.Sprintf("We refund %s.", dollars(st.Amount.Get())))
	if err != nil {
		return err
	}
	text := fmt.Sprintf("Refund %s for order 8841?", dollars(st.Amount.Get()))
	answer, err := approval.Ask(ctx, request{Text: text, Letter: letter})
	if err != nil {
		return err
	}
	st.Letter.Set(letter)
	if answer == "no" {
		st.Result.Set("not refunded")
		return nil
	}
	receipt, err := s.call(ctx, "send-refund", "refunded "+dollars(st.Amount.Get()))
	st.Result.Set(receipt)
	return err
}

// call is a step that counts twice: each time its line is reached, which is what a plain replay would call, and each
// time it is called.
func (s *scene) call(ctx context.Context, step, result string) (string, error) {
	if err := s.ledger.add("line", step); err != nil {
		return "", err
	}
	return pawl.Step(ctx, step, func(context.Context) (string, error) {
		return result, s.ledger.add("call", step)
	})
}

func dollars(cents int64) string {
	whole := cents / 100
	if whole < 1000 {
		return fmt.Sprintf("$%d.%02d", whole, cents%100)
	}
	return fmt.Sprintf("$%d,%03d.%02d", whole/1000, whole%1000, cents%100)
}

// ledger is a file outside the database that every process of the demo appends to: the world that a call changes.
type ledger string

func (l ledger) add(what, name string) error {
	f, err := os.OpenFile(string(l), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(what + " " + name + "\n")
	return errors.Join(err, f.Close())
}

// tally is a count of the ledger's lines, by what and name.
type tally map[string]map[string]int

func (l ledger) read() (tally, error) {
	doc, err := os.ReadFile(string(l))
	if err != nil {
		return nil, err
	}
	t := tally{"node": {}, "line": {}, "call": {}}
	for line := range strings.Lines(string(doc)) {
		what, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		if t[what] == nil {
			return nil, fmt.Errorf("ledger %s: what is %q?", l, line)
		}
		t[what][name]++
	}
	return t, nil
}

// since is what was counted after an earlier reading.
func (t tally) since(before tally) tally {
	out := tally{}
	for what, names := range t {
		out[what] = map[string]int{}
		for name, n := range names {
			if more := n - before[what][name]; more > 0 {
				out[what][name] = more
			}
		}
	}
	return out
}
