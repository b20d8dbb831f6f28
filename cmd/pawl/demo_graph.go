package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/approval"
	"github.com/pawl-dev/pawl/effect"
)

// refund is the state of the demo's graph.
type refund struct {
	ID      pawl.Last[string]   `json:"id"` // of the business: one refund is paid once
	Order   pawl.Last[string]   `json:"order"`
	Cents   pawl.Last[int64]    `json:"cents"`
	Found   pawl.Append[string] `json:"found"`
	Why     pawl.Last[string]   `json:"why"`
	Receipt pawl.Last[string]   `json:"receipt"`
	Result  pawl.Last[string]   `json:"result"`
}

// claim is what the provider is told, and what a person approves.
type claim struct {
	Order string `json:"order"`
	Cents int64  `json:"cents"`
}

// letter is a mail.
type letter struct {
	To   string `json:"to"`
	Text string `json:"text"`
}

// agent is the code of the graph, and what it touches outside the database.
type agent struct {
	counts counts
	pay    effect.Effect[claim, string]
	mail   effect.Effect[letter, string]
	hold   string                                       // node that stops, for ever, after its step and before its end
	holds  func(ctx context.Context, node string) error // tells that it does
}

const (
	refundDesk = "refund-desk"    // the group that approves
	patience   = 15 * time.Minute // that it has
	mostCents  = 200_000          // the policy: more is not refunded at all
)

// newAgent declares the effects. The provider takes every request for a new payment, and can be asked; the post office
// recognises a key.
func newAgent(c counts, p provider) *agent {
	return &agent{
		counts: c,
		pay: effect.New("provider.pay", p.pay).
			Lookup(p.find).
			Approve(approval.Levels{{To: refundDesk, For: patience, Self: true}}). // one person plays both parts here
			Material("order", "cents").
			Timeout(payTime),
		mail: effect.New("post.mail", p.mail).Keys(effect.Forever),
	}
}

// graph: three look-ups side by side, a proposal under a policy, a payment, a mail.
func (a *agent) graph() (*pawl.Graph[refund], error) {
	b := pawl.New[refund]("refund").
		Node("order", a.lookUp("order", "find-order", "order: a bicycle, paid")).
		Node("customer", a.lookUp("customer", "find-customer", "customer since 2019")).
		Node("risk", a.lookUp("risk", "score-risk", "risk: low")).
		Node("policy", a.policy).
		Node("pay", a.pays, pawl.Uses(a.pay)).
		Node("mail", a.mails, pawl.Uses(a.mail))
	for _, n := range []string{"order", "customer", "risk"} {
		b.Path(pawl.Start, n, "policy")
	}
	return b.Edge("policy", "pay").Route("pay", paid, "mail", pawl.End).Build()
}

func (a *agent) lookUp(node, step, fact string) func(context.Context, *refund) error {
	return func(ctx context.Context, s *refund) error {
		if err := a.count(ctx, countNode, node); err != nil {
			return err
		}
		found, err := a.call(ctx, step, fact)
		if err != nil {
			return err
		}
		if a.hold == node {
			return a.holds(ctx, node)
		}
		s.Found.Add(found)
		return nil
	}
}

// policy lets the model propose, which is a script here, and checks the proposal.
func (a *agent) policy(ctx context.Context, s *refund) error {
	if err := a.count(ctx, countNode, "policy"); err != nil {
		return err
	}
	why, err := a.call(ctx, "ask-model", fmt.Sprintf("refund %s: paid, %d facts, nothing against it", dollars(s.Cents.Get()), s.Found.Len()))
	if err != nil {
		return err
	}
	if _, err := a.call(ctx, "check-policy", "allowed, with an approval"); err != nil {
		return err
	}
	if s.Cents.Get() > mostCents {
		return pawl.Conclude("the policy refunds at most " + dollars(mostCents))
	}
	s.Why.Set(why)
	return nil
}

// pays asks for approval, and pays, once for each refund.
func (a *agent) pays(ctx context.Context, s *refund) error {
	if err := errors.Join(a.count(ctx, countNode, "pay"), a.count(ctx, countLine, "pay")); err != nil {
		return err
	}
	receipt, err := a.pay.Do(ctx, effect.Ref("refund", s.ID.Get()), claim{s.Order.Get(), s.Cents.Get()})
	if denied := (*effect.DeniedError)(nil); errors.As(err, &denied) {
		s.Result.Set("not refunded: " + denied.Reason)
		return nil
	}
	if err != nil {
		return err
	}
	s.Receipt.Set(receipt)
	s.Result.Set("refunded " + dollars(s.Cents.Get()))
	return nil
}

func paid(s *refund) []pawl.Next {
	if s.Receipt.Get() == "" {
		return pawl.To(pawl.End)
	}
	return pawl.To("mail")
}

func (a *agent) mails(ctx context.Context, s *refund) error {
	if err := a.count(ctx, countNode, "mail"); err != nil {
		return err
	}
	_, err := a.mail.Do(ctx, effect.Ref("refund-mail", s.ID.Get()), letter{"the customer of order " + s.Order.Get(), s.Result.Get()})
	return err
}

// call is a step that counts twice: each time its line is reached, and each time it is called.
func (a *agent) call(ctx context.Context, step, result string) (string, error) {
	if err := a.count(ctx, countLine, step); err != nil {
		return "", err
	}
	return pawl.Step(ctx, step, func(ctx context.Context) (string, error) {
		return result, a.count(ctx, countCall, step)
	})
}

func (a *agent) count(ctx context.Context, what, name string) error {
	task, ok := pawl.TaskFrom(ctx)
	if !ok {
		return errors.New("there is no task to count for")
	}
	return a.counts.add(task.Info().Thread, what, name)
}

func dollars(cents int64) string {
	whole := cents / 100
	if whole < 1000 {
		return fmt.Sprintf("$%d.%02d", whole, cents%100)
	}
	return fmt.Sprintf("$%d,%03d.%02d", whole/1000, whole%1000, cents%100)
}
