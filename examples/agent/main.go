// Command agent is a clerk who looks an order up, pays it back once a person approved, and says so. The model is a script,
// so it runs without a key: put your own agent.Model in its place.
//
//	go run . runs start clerk case-1 --input '{"messages": [{"role": "user", "text": "Order 17 came broken."}]}'
//	go run . approvals list
//	go run . approve ID --group support --actor sue       or reject it, with a --reason: the model is told
//	go run . runs resume case-1
//	go run . graph show clerk -o ascii
//
// Kill it wherever you like: no reply is paid for twice, no order is paid back twice.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/agent"
	"github.com/pawl-dev/pawl/app"
	"github.com/pawl-dev/pawl/approval"
	"github.com/pawl-dev/pawl/effect"
)

// Find asks for an order.
type Find struct {
	Order string `json:"order"`
}

// Order is what the shop knows of one.
type Order struct {
	ID    string `json:"id"`
	Cents int64  `json:"cents"`
	State string `json:"state"`
}

// Refund pays an order back.
type Refund struct {
	Order string `json:"order"`
	Cents int64  `json:"cents"`
	Why   string `json:"why"`
}

// shop keeps the refunds that it made in a file, a line each.
type shop struct{ file string }

func (shop) find(_ context.Context, in Find) (Order, error) {
	if in.Order != "17" {
		return Order{}, agent.Tell(fmt.Errorf("there is no order %q", in.Order))
	}
	return Order{ID: "17", Cents: 4200, State: "delivered"}, nil
}

func (s shop) refund(_ context.Context, op effect.Op, in Refund) (string, error) {
	f, err := os.OpenFile(s.file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return "", effect.NotSent(err)
	}
	err = json.NewEncoder(f).Encode(map[string]any{"key": op.Key, "order": in.Order, "cents": in.Cents})
	return "refund of order " + in.Order, errors.Join(err, f.Close())
}

// script is what the model says.
var script = agent.Script{
	agent.Wants("find_order", Find{"17"}),
	agent.Wants("refund", Refund{Order: "17", Cents: 4200, Why: "it came broken"}),
	agent.Answers("I am sorry. Your order was looked into, and you hear from us today."),
}

func clerk(s shop, model agent.Model) (*pawl.Graph[agent.Chat], error) {
	refund := effect.New("shop.refund", s.refund).Approve(approval.Levels{{To: "support"}}).Material("order", "cents")
	return agent.New("clerk", agent.Options{
		Model:  model,
		System: "You are a clerk. Look an order up before you pay it back.",
		Turns:  6,
		Tools: []agent.Tool{
			agent.Lookup("find_order", "Looks an order up by its number.", s.find),
			agent.Action("refund", "Pays an order back. A person approves it first.", func(ctx context.Context, in Refund) (string, error) {
				receipt, err := refund.Do(ctx, effect.Ref("order", in.Order), in)
				if errors.As(err, new(*effect.DeniedError)) {
					return "", agent.Tell(err)
				}
				return receipt, err
			}, refund),
		},
	})
}

func main() {
	g, err := clerk(shop{"refunds.jsonl"}, script)
	if err != nil {
		log.Fatal(err)
	}
	app.Main(g)
}
