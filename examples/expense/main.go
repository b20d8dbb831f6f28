// Command expense pays expenses: a small one at once, a large one after somebody looked at it, each with a bank transfer
// that finance approves and that is sent once, whatever happens to the process.
//
//	go run .                                             plays an expense through, with you in both roles
//	go run . runs start expense e-1 --input '{"expense": {"id": "17", "vendor": "acme", "cents": 4200}}'
//	go run . approvals list
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/app"
	"github.com/pawl-dev/pawl/approval"
	"github.com/pawl-dev/pawl/effect"
)

// Expense is what somebody wants to have paid.
type Expense struct {
	ID     string `json:"id"` // of the business: one expense is paid once
	Vendor string `json:"vendor"`
	Cents  int64  `json:"cents"`
	Why    string `json:"why"`
}

// State is the graph's state.
type State struct {
	Expense pawl.Last[Expense]  `json:"expense"`
	Allowed pawl.Last[bool]     `json:"allowed"`
	Notes   pawl.Append[string] `json:"notes"`
	Receipt pawl.Last[Receipt]  `json:"receipt"`
}

// Decision is what a reviewer says of a large expense.
type Decision struct {
	Pay   bool   `json:"pay"`
	Cents int64  `json:"cents"` // how much of it; 0: all
	Note  string `json:"note,omitempty"`
}

var review = pawl.Interrupt[Expense, Decision]{
	Name: "review",
	Check: func(asked Expense, d Decision) error {
		if d.Cents < 0 || d.Cents > asked.Cents {
			return fmt.Errorf("cents: between 0 and %d", asked.Cents)
		}
		return nil
	},
	Expires: 24 * time.Hour,
}

const (
	large    = 100_000       // cents: from here on somebody looks at it
	pocket   = 500           // cents: up to here it is not worth a transfer
	deadline = 4 * time.Hour // for finance
)

func triage(ctx context.Context, s *State) error {
	e := s.Expense.Get()
	if e.ID == "" || e.Vendor == "" || e.Cents <= 0 {
		return pawl.Conclude("an expense needs an id, a vendor and an amount")
	}
	rating, err := pawl.Step(ctx, "rating", func(context.Context) (string, error) { return rate(e.Vendor) })
	if err != nil {
		return err
	}
	s.Notes.Add(fmt.Sprintf("%s is %s", e.Vendor, rating))
	s.Allowed.Set(true)
	return nil
}

// rate stands for a look-up elsewhere.
func rate(vendor string) (string, error) {
	if vendor == "acme" {
		return "a known vendor", nil
	}
	return "a new vendor", nil
}

func sorted(s *State) []pawl.Next {
	switch cents := s.Expense.Get().Cents; {
	case cents >= large:
		return pawl.To("review")
	case cents > pocket:
		return pawl.To("pay")
	}
	return pawl.To(pawl.End)
}

func asked(s *State) Expense { return s.Expense.Get() }

func decided(s *State, d Decision) error {
	e := s.Expense.Get()
	if d.Cents > 0 {
		e.Cents = d.Cents
	}
	s.Expense.Set(e)
	s.Allowed.Set(d.Pay)
	if d.Note != "" {
		s.Notes.Add(d.Note)
	}
	return nil
}

func reviewed(s *State) []pawl.Next {
	if s.Allowed.Get() {
		return pawl.To("pay")
	}
	return pawl.To(pawl.End)
}

// payment is the effect that pays at a bank.
type payment = effect.Effect[Transfer, Receipt]

func paidBy(b bank) payment {
	return effect.New("bank.transfer", b.Transfer).
		Lookup(b.Find).
		Approve(approval.Levels{{To: "finance", For: deadline}}).
		Material("to", "cents")
}

func pay(transfer payment) func(context.Context, *State) error {
	return func(ctx context.Context, s *State) error {
		e := s.Expense.Get()
		receipt, err := transfer.Do(ctx, effect.Ref("expense", e.ID), Transfer{To: e.Vendor, Cents: e.Cents, Text: e.Why})
		if denied := (*effect.DeniedError)(nil); errors.As(err, &denied) {
			s.Allowed.Set(false)
			s.Notes.Add("not paid: " + denied.Reason)
			return nil
		}
		if err != nil {
			return err // waiting for finance, or the bank did not answer
		}
		s.Receipt.Set(receipt)
		return nil
	}
}

func graph(b bank) (*pawl.Graph[State], error) {
	transfer := paidBy(b)
	return pawl.New[State]("expense").
		Node("triage", triage, pawl.Tries(3), pawl.Timeout(time.Minute)).
		Add(pawl.AskNode(review, asked, decided)).
		Node("pay", pay(transfer), pawl.Uses(transfer), pawl.Durable()).
		Edge(pawl.Start, "triage").
		Route("triage", sorted, "review", "pay", pawl.End).
		Route("review", reviewed, "pay", pawl.End).
		Build()
}

func main() {
	if len(os.Args) == 1 {
		if err := play(context.Background(), os.Stdout); err != nil {
			log.Fatal(err)
		}
		return
	}
	g, err := graph(bank{"bank.jsonl"})
	if err != nil {
		log.Fatal(err)
	}
	app.Main(g)
}
