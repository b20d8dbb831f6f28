package pawl_test

import (
	"context"
	"fmt"
	"log"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/memdb"
)

// engine opens an engine in memory, as an example needs it; a program opens sqlite.Open("pawl.db", pawl.Kinds()...).
func engine(graphs ...pawl.Registrable) *pawl.Engine {
	db, err := memdb.Open(pawl.Kinds()...)
	if err != nil {
		log.Fatal(err)
	}
	eng, err := pawl.NewEngine(db, nil)
	if err != nil {
		log.Fatal(err)
	}
	if err := eng.Register(graphs...); err != nil {
		log.Fatal(err)
	}
	return eng
}

type Order struct {
	Item  pawl.Last[string]   `json:"item"`
	Price pawl.Last[int]      `json:"price"`
	Log   pawl.Append[string] `json:"log"`
}

// Conn is a client, of which nothing is stored.
type Conn struct{ name string }

func (c *Conn) Close() { fmt.Println("closed", c.name) }

type Report struct {
	Conn pawl.Untracked[*Conn] `json:"conn"`
	Rows pawl.Append[string]   `json:"rows"`
}

// conn is the client of the run, opened where there is none: in front, after a pause, after a crash.
func (s *Report) conn() *Conn {
	c, ok := s.Conn.Get()
	if !ok {
		c = &Conn{"crm"}
		s.Conn.Set(c)
	}
	return c
}

// A live value is shared by the nodes of a run, and not stored.
func ExampleUntracked() {
	read := func(name string) func(context.Context, *Report) error {
		return func(_ context.Context, s *Report) error {
			s.Rows.Add(name + " by " + s.conn().name)
			return nil
		}
	}
	g, err := pawl.New[Report]("report").Node("sales", read("sales")).Node("stock", read("stock")).
		Path(pawl.Start, "sales", "stock").Build()
	if err != nil {
		log.Fatal(err)
	}
	out, err := g.Thread(engine(), "r-1").Run(context.Background(), &Report{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(out.Values))
	if c, ok := out.State.Conn.Get(); ok {
		c.Close()
	}
	// Output:
	// {"rows":["sales by crm","stock by crm"]}
	// closed crm
}

// A node that asks: it runs again on the answer, and what stands in a step does not.
func Example() {
	approve := pawl.Interrupt[string, bool]{Name: "approve"}
	order := func(ctx context.Context, s *Order) error {
		price, err := pawl.Step(ctx, "quote", func(context.Context) (int, error) {
			fmt.Println("asking the supplier")
			return 120, nil
		})
		if err != nil {
			return err
		}
		yes, err := approve.Ask(ctx, fmt.Sprintf("Buy %s for %d?", s.Item.Get(), price))
		if err != nil {
			return err // waiting: the run pauses here, for a second or for a month
		}
		if yes {
			s.Price.Set(price)
		}
		return nil
	}
	g, err := pawl.New[Order]("order").
		Node("order", order, pawl.Uses(approve)).
		Edge(pawl.Start, "order").
		Build()
	if err != nil {
		log.Fatal(err)
	}
	eng := engine(g)
	defer eng.Close()
	ctx, th := context.Background(), g.Thread(eng, "order-17")

	out, err := th.Run(ctx, &Order{Item: pawl.Of("a kettle")})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(out.Status, string(out.Waiting[0].Body))
	out, err = th.Resume(ctx, approve.Answer(out.Waiting[0].ID, true))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(out.Status, out.State.Price.Get())
	// Output:
	// asking the supplier
	// waiting "Buy a kettle for 120?"
	// done 120
}

// Nodes that are due together run at once on one snapshot; what they wrote merges in the order of their names.
func ExampleBuilder_Join() {
	note := func(text string) func(context.Context, *Order) error {
		return func(_ context.Context, s *Order) error { s.Log.Add(text); return nil }
	}
	g, err := pawl.New[Order]("checks").
		Node("stock", note("in stock")).
		Node("credit", note("credit is fine")).
		Node("pack", note("packed")).
		Edge(pawl.Start, "stock").Edge(pawl.Start, "credit").
		Join([]string{"stock", "credit"}, "pack").
		Build()
	if err != nil {
		log.Fatal(err)
	}
	eng := engine(g)
	defer eng.Close()
	out, err := g.Thread(eng, "order-18").Run(context.Background(), &Order{})
	if err != nil {
		log.Fatal(err)
	}
	for _, line := range out.State.Log.All() {
		fmt.Println(line)
	}
	// Output:
	// credit is fine
	// in stock
	// packed
}

// A node that is only a question: no function runs again when the answer comes.
func ExampleAskNode() {
	size := pawl.Interrupt[string, int]{
		Name: "size",
		Check: func(_ string, n int) error {
			if n < 1 || n > 9 {
				return fmt.Errorf("%d is no size", n)
			}
			return nil
		},
	}
	g, err := pawl.New[Order]("size").
		Add(pawl.AskNode(size,
			func(s *Order) string { return "Which size of " + s.Item.Get() + "?" },
			func(s *Order, n int) error { s.Price.Set(10 * n); return nil })).
		Edge(pawl.Start, "size").
		Build()
	if err != nil {
		log.Fatal(err)
	}
	eng := engine(g)
	defer eng.Close()
	ctx, th := context.Background(), g.Thread(eng, "order-19")
	out, err := th.Run(ctx, &Order{Item: pawl.Of("kettle")})
	if err != nil {
		log.Fatal(err)
	}
	question := out.Waiting[0].ID
	_, err = eng.Answer(ctx, question, 12) // the sender learns the verdict, and the question stays open
	fmt.Println(strings.Replace(err.Error(), question, "<id>", 1))
	out, err = th.Resume(ctx, size.Answer(question, 3))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(out.Status, out.State.Price.Get())
	// Output:
	// pawl: thread "order-19": question "size" (<id>) not answered: refused: 12 is no size; nothing was consumed
	// done 30
}

// Going back: the head moves to an older checkpoint, with another value; the old branch stays as it is.
func ExampleThreadOf_Fork() {
	g, err := pawl.New[Order]("price").
		Node("quote", func(_ context.Context, s *Order) error { s.Price.Set(100); return nil }).
		Node("double", func(_ context.Context, s *Order) error { s.Price.Set(2 * s.Price.Get()); return nil }).
		Path(pawl.Start, "quote", "double").
		Build()
	if err != nil {
		log.Fatal(err)
	}
	eng := engine(g)
	defer eng.Close()
	ctx, th := context.Background(), g.Thread(eng, "order-20")
	if _, err := th.Run(ctx, &Order{}); err != nil {
		log.Fatal(err)
	}
	out, err := th.Fork(ctx, pawl.Before("double"), func(s *Order) error { s.Price.Set(7); return nil })
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(out.State.Price.Get())
	history, err := th.History(ctx, pawl.Page{})
	if err != nil {
		log.Fatal(err)
	}
	for _, h := range history {
		fmt.Println(h.Step, h.Source, string(h.Values))
	}
	// Output:
	// 14
	// 3 loop {"price":14}
	// 2 edit {"price":7}
	// 2 loop {"price":200}
	// 1 loop {"price":100}
	// 0 loop {}
	// -1 input {}
}
