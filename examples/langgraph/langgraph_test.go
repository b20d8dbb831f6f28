// Package langgraph holds the programs of docs/langgraph.md and docs/temporal.md, so that they are compiled and run.
package langgraph

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/approval"
	"github.com/pawl-dev/pawl/effect"
	"github.com/pawl-dev/pawl/internal/house"
	"github.com/pawl-dev/pawl/memdb"
	"github.com/pawl-dev/pawl/redact"
)

// opened is an engine in memory. A program says app.Open(ctx, "pawl.db", g) or app.Main(g).
func opened() *pawl.Engine {
	eng, err := pawl.NewEngine(must(memdb.Open(pawl.Kinds()...)), nil)
	return must(eng, err)
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}

type State struct {
	Topic pawl.Last[string]   `json:"topic"`
	Notes pawl.Append[string] `json:"notes"`
	Spent pawl.Sum[int]       `json:"spent"`
}

func plan(_ context.Context, s *State) error {
	s.Notes.Add("plan " + s.Topic.Get())
	s.Spent.Add(1)
	return nil
}

func write(_ context.Context, s *State) error {
	s.Notes.Add("write " + s.Topic.Get())
	s.Spent.Add(2)
	return nil
}

func Example_graph() {
	g, err := pawl.New[State]("essay").
		Node("plan", plan).
		Node("write", write).
		Edge(pawl.Start, "plan").
		Edge("plan", "write").
		Build()
	th := must(g, err).Thread(opened(), "t1")
	out, err := th.Run(context.Background(), &State{Topic: pawl.Of("tea")})
	fmt.Println(out.Status, string(out.Values), err)
	// Output: done {"topic":"tea","notes":["plan tea","write tea"],"spent":3} <nil>
}

func Example_route() {
	long := func(s *State) []pawl.Next {
		if s.Notes.Len() < 3 {
			return pawl.To("write")
		}
		return pawl.To(pawl.End)
	}
	g := must(pawl.New[State]("loop").
		Node("write", write).
		Edge(pawl.Start, "write").
		Route("write", long, "write", pawl.End).
		Build())
	out, err := g.Thread(opened(), "t1").Run(context.Background(), &State{Topic: pawl.Of("tea")})
	fmt.Println(out.Status, out.State.Notes.Len(), err)
	// Output: done 3 <nil>
}

func Example_send() {
	draft := pawl.NewWorker("draft", func(_ context.Context, s *State, part string) error {
		s.Notes.Add("draft " + part)
		return nil
	})
	fan := func(*State) []pawl.Next { return draft.Each([]string{"head", "body"}) }
	g := must(pawl.New[State]("parts").
		Add(draft).
		Node("plan", plan).
		Edge(pawl.Start, "plan").
		Route("plan", fan, "draft").
		Build())
	out, err := g.Thread(opened(), "t1").Run(context.Background(), &State{Topic: pawl.Of("tea")})
	fmt.Println(string(out.Values), err)
	// Output: {"topic":"tea","notes":["plan tea","draft head","draft body"],"spent":1} <nil>
}

var ship = pawl.Interrupt[string, bool]{Name: "ship", Expires: 24 * time.Hour}

func Example_interrupt() {
	review := func(ctx context.Context, s *State) error {
		yes, err := ship.Ask(ctx, "Ship "+s.Topic.Get()+"?")
		if err != nil {
			return err // waiting: the node runs again from its first line when the answer comes
		}
		s.Notes.Add(fmt.Sprint("shipped: ", yes))
		return nil
	}
	g := must(pawl.New[State]("review").
		Node("review", review, pawl.Uses(ship)).
		Edge(pawl.Start, "review").
		Build())
	ctx := context.Background()
	th := g.Thread(opened(), "t1")
	out, err := th.Run(ctx, &State{Topic: pawl.Of("tea")})
	fmt.Println(out.Status, string(out.Waiting[0].Body), err)
	out, err = th.Resume(ctx, ship.Answer(out.Waiting[0].ID, true))
	fmt.Println(out.Status, string(out.Values), err)
	// Output:
	// waiting "Ship tea?" <nil>
	// done {"topic":"tea","notes":["shipped: true"]} <nil>
}

func Example_step() {
	calls := 0
	review := func(ctx context.Context, s *State) error {
		price, err := pawl.Step(ctx, "quote", func(context.Context) (int, error) { calls++; return 7, nil })
		if err != nil {
			return err
		}
		_, err = ship.Ask(ctx, fmt.Sprint("Pay ", price, "?"))
		return err
	}
	g := must(pawl.New[State]("quote").Node("review", review, pawl.Uses(ship)).Edge(pawl.Start, "review").Build())
	ctx := context.Background()
	th := g.Thread(opened(), "t1")
	out := must(th.Run(ctx, nil))
	out = must(th.Resume(ctx, ship.Answer(out.Waiting[0].ID, true)))
	fmt.Println(out.Status, "calls:", calls)
	// Output: done calls: 1
}

func Example_history() {
	g := must(pawl.New[State]("essay").Node("plan", plan).Node("write", write).Path(pawl.Start, "plan", "write").Build())
	ctx := context.Background()
	th := g.Thread(opened(), "t1")
	must(th.Run(ctx, &State{Topic: pawl.Of("tea")}))
	out := must(th.Fork(ctx, pawl.Before("write"), func(s *State) error { s.Topic.Set("coffee"); return nil }))
	fmt.Println(string(out.Values))
	for _, snap := range must(th.History(ctx, pawl.Page{})) {
		fmt.Println(snap.Step, snap.Source, snap.Next)
	}
	// Output:
	// {"topic":"coffee","notes":["plan tea","write coffee"],"spent":3}
	// 3 loop []
	// 2 edit [write]
	// 2 loop []
	// 1 loop [write]
	// 0 loop [plan]
	// -1 input [__start__]
}

func Example_child() {
	inner := must(pawl.New[State]("inner").Node("write", write).Edge(pawl.Start, "write").Build())
	essay := pawl.Sub(inner.Child("essay"),
		func(s *State) *State { return &State{Topic: pawl.Of(s.Topic.Get())} },
		func(s *State, r *pawl.Result[State]) error { s.Spent.Add(r.State.Spent.Get()); return nil })
	g := must(pawl.New[State]("outer").Add(essay).Edge(pawl.Start, "essay").Build())
	out := must(g.Thread(opened(), "t1").Run(context.Background(), &State{Topic: pawl.Of("tea")}))
	fmt.Println(string(out.Values))
	// Output: {"topic":"tea","spent":2}
}

type Bill struct {
	To     string `json:"to"`
	Amount int    `json:"amount"`
}

func Example_effect() {
	sent := 0
	pay := effect.New("bank.pay", func(_ context.Context, op effect.Op, b Bill) (string, error) {
		sent++ // a real one hands op.Key to the bank
		return fmt.Sprint("receipt for ", b.Amount), nil
	}).Keys(24*time.Hour).Approve(approval.Levels{{To: "finance", For: time.Hour}}).Material("to", "amount")
	node := func(ctx context.Context, s *State) error {
		receipt, err := pay.Do(ctx, effect.Ref("invoice", "17"), Bill{To: "acme", Amount: 100})
		if err != nil {
			return err
		}
		s.Notes.Add(receipt)
		return nil
	}
	g := must(pawl.New[State]("pay").Node("pay", node, pawl.Uses(pay)).Edge(pawl.Start, "pay").Build())

	db := must(memdb.Open(house.Kinds()...))
	views := redact.New(nil)
	ledger := must(effect.NewLedger(effect.Options{Key: make([]byte, effect.KeySize), Redactor: views}))
	eng := must(pawl.NewEngine(db, &pawl.Options{Parts: []pawl.Part{views, ledger}}))
	ctx := context.Background()
	th := g.Thread(eng, "t1")
	out := must(th.Run(ctx, nil))
	fmt.Println(out.Status, sent)
	desk := approval.NewDesk(eng, db)
	open := must(desk.List(ctx, approval.Filter{}))[0]
	ann := pawl.WithActor(ctx, pawl.Actor{ID: "ann", Groups: []string{"finance"}})
	must(desk.Approve(ann, open.ID, approval.Decision{Digest: open.Call}))
	out = must(th.Resume(ctx))
	fmt.Println(out.Status, sent, string(out.Values))
	out = must(th.Replay(ctx, pawl.Before("pay"))) // the receipt comes back; nobody is asked, nothing is sent
	fmt.Println(out.Status, sent, string(out.Values))
	// Output:
	// waiting 0
	// done 1 {"notes":["receipt for 100"]}
	// done 1 {"notes":["receipt for 100"]}
}

// In Temporal: a workflow that runs an activity, waits for an update or a timer, and runs another.
func Example_workflow() {
	trip := func(ctx context.Context, s *State) error {
		seat, err := pawl.Step(ctx, "hold a seat", func(context.Context) (string, error) { return "12A", nil })
		if err != nil {
			return err
		}
		yes, err := ship.Ask(ctx, "Book "+seat+"?")
		if errors.Is(err, pawl.ErrExpired) {
			yes, err = false, nil // nobody answered in time: the path that the workflow's timer would take
		}
		if err != nil {
			return err
		}
		s.Notes.Add(fmt.Sprint(seat, " booked: ", yes))
		return nil
	}
	g := must(pawl.New[State]("trip").Node("trip", trip, pawl.Uses(ship)).Edge(pawl.Start, "trip").Build())
	ctx := context.Background()
	eng := opened()
	th := g.Thread(eng, "t1")
	out := must(th.Run(ctx, nil))
	verdict, err := eng.Answer(ctx, out.Waiting[0].ID, true) // any process, with no worker up; the sender learns what became of it
	fmt.Println(verdict.Taken, err)
	out, err = th.Resume(ctx)
	fmt.Println(out.Status, string(out.Values), err)
	// Output:
	// true <nil>
	// done {"notes":["12A booked: true"]} <nil>
}
