package suite

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/agent"
	"github.com/pawl-dev/pawl/approval"
	"github.com/pawl-dev/pawl/effect"
	"github.com/pawl-dev/pawl/internal/house"
	"github.com/pawl-dev/pawl/internal/nest"
	"github.com/pawl-dev/pawl/sqlite"
)

// helpDesk is a clerk that looks up and acts, in a graph that opens a case first.
type helpDesk struct {
	books *ledger
	dies  int // this process is killed when the world was called so often; below zero: never
}

type deskState struct {
	Case   pawl.Last[string] `json:"case"`
	Answer pawl.Last[string] `json:"answer"`
}

type ordered struct {
	Order string `json:"order"`
}

// called counts a call of the world, or dies just before it.
func (d *helpDesk) called(what string) {
	if len(d.books.rows()) == d.dies {
		killSelf()
	}
	d.books.add(what)
}

// lines are what the model says.
var clerksLines = agent.Script{agent.Wants("find", ordered{"17"}), agent.Wants("refund", ordered{"17"}), agent.Answers("paid back")}

func (d *helpDesk) reply(ctx context.Context, r agent.Request) (agent.Message, error) {
	d.called("reply")
	return clerksLines.Reply(ctx, r)
}

func (d *helpDesk) find(context.Context, ordered) (string, error) {
	d.called("find")
	return "it came broken", nil
}

func (d *helpDesk) paying() effect.Effect[ordered, string] {
	return effect.New("refund", func(context.Context, effect.Op, ordered) (string, error) {
		d.called("refund")
		return "receipt", nil
	}).Lookup(func(context.Context, effect.Op, ordered) (string, bool, error) {
		return "receipt", d.books.count("refund") > 0, nil
	}).Approve(approval.Levels{{To: "finance"}}).Material("order")
}

func (d *helpDesk) open(ctx context.Context, s *deskState) error {
	opened, err := pawl.Step(ctx, "open", func(context.Context) (string, error) {
		d.called("open")
		return "Order 17 came broken.", nil
	})
	s.Case.Set(opened)
	return err
}

// clerk is the agent as a graph; a model of nil is the scripted one.
func (d *helpDesk) clerk(model agent.Model) (*pawl.Graph[agent.Chat], error) {
	if model == nil {
		model = agent.ModelFunc(d.reply)
	}
	pay := d.paying()
	refund := func(ctx context.Context, in ordered) (string, error) {
		return pay.Do(ctx, effect.Ref("order", in.Order), in)
	}
	return agent.New("clerk", agent.Options{Model: model, Turns: 4, Tools: []agent.Tool{
		agent.Lookup("find", "", d.find), agent.Action("refund", "", refund, pay),
	}})
}

func (d *helpDesk) around(clerk *pawl.Graph[agent.Chat]) (*pawl.Graph[deskState], error) {
	ask := func(s *deskState) *agent.Chat { return agent.Ask(s.Case.Get()) }
	told := func(s *deskState, r *pawl.Result[agent.Chat]) error {
		s.Answer.Set(r.State.Answer.Get())
		return nil
	}
	return pawl.New[deskState]("desk").Node("open", d.open).Add(pawl.Sub(clerk.Child("clerk"), ask, told)).
		Path(pawl.Start, "open", "clerk", pawl.End).Build()
}

// plain is the same agent as one function.
func (d *helpDesk) plain() (*pawl.Graph[deskState], error) {
	pay := d.paying()
	talk := func(ctx context.Context, s *deskState) error {
		said := []agent.Message{agent.Says(s.Case.Get())}
		for turn := 1; ; turn++ {
			m, err := pawl.Step(ctx, "reply", func(ctx context.Context) (agent.Message, error) {
				return d.reply(ctx, agent.Request{Messages: said})
			}, pawl.Key(fmt.Sprint(turn)))
			if err != nil || len(m.Calls) == 0 {
				s.Answer.Set(m.Text)
				return err
			}
			m.Role = agent.Assistant
			result := ""
			if m.Calls[0].Tool == "find" {
				result, err = pawl.Step(ctx, "find", func(ctx context.Context) (string, error) { return d.find(ctx, ordered{"17"}) })
			} else {
				result, err = pay.Do(ctx, effect.Ref("order", "17"), ordered{"17"})
			}
			if err != nil {
				return err
			}
			said = append(said, m, agent.Message{Role: agent.ToolRole, Text: result})
		}
	}
	return pawl.New[deskState]("desk").Node("open", d.open).Node("clerk", talk, pawl.Uses(pay)).
		Path(pawl.Start, "open", "clerk", pawl.End).Build()
}

func (d *helpDesk) graph(plain bool) (*pawl.Graph[deskState], error) {
	if plain {
		return d.plain()
	}
	clerk, err := d.clerk(nil)
	if err != nil {
		return nil, err
	}
	return d.around(clerk)
}

// deskLife is one process of a case.
type deskLife struct {
	Path, Books string
	Plain       bool
	Dies        int
	At          string // a moment at which it dies: waiting, approved, over
}

// deskChild goes on with the case from wherever it stands, with somebody who approves.
func deskChild(doc []byte) {
	life := args[deskLife](doc)
	db := must(sqlite.Open(life.Path, house.Kinds()...))
	_, parts, err := staff()
	eng := must(pawl.NewEngine(db, &pawl.Options{Parts: must(parts, err)}))
	d := &helpDesk{&ledger{life.Books}, life.Dies}
	g := must(nest.In(must(d.graph(life.Plain)), levelHere()))
	th := g.Thread(eng, "case-1")
	die := func(at string) {
		if life.At == at {
			killSelf()
		}
	}
	ctx := context.Background()
	out, err := th.Run(ctx, &deskState{}, pawl.RunID("case-1"))
	for round := 0; ; round++ {
		if out != nil && out.Status == pawl.Crashed {
			out, err = th.Resume(ctx)
		}
		if out = must(out, err); out.Status == pawl.Done {
			break
		}
		die("waiting")
		if round == 5 {
			must(out, fmt.Errorf("it still waits: %+v", out.Waiting))
		}
		desk := approval.NewDesk(eng, db)
		for _, r := range must(desk.List(ctx, approval.Filter{State: approval.Requested})) {
			must(desk.Approve(cfo(ctx), r.ID, approval.Decision{Digest: r.Call}))
		}
		die("approved")
		out, err = th.Resume(ctx)
	}
	die("over")
	fmt.Println(out.State.Answer.Get())
	must(0, errors.Join(eng.Close(), db.Close()))
}

// An agent asks, looks up and acts once each, killed after whichever of these, as a child graph and as a function.
func agentWithTwoExits(t *testing.T, _ *report) {
	for name, plain := range map[string]bool{"child graph": false, "plain function": true} {
		t.Run(name, func(t *testing.T) {
			for calls := range 6 { // open, reply, find, reply, refund, reply
				if deepest := levelOf(t).Depth; calls%3 == deepest%3 || deepest == 0 {
					aCase(t, deskLife{Plain: plain, Dies: calls})
				}
			}
			for _, at := range []string{"waiting", "approved", "over"} {
				aCase(t, deskLife{Plain: plain, Dies: -1, At: at})
			}
		})
	}
	t.Run("gave up", func(t *testing.T) { onEach(t, givesUp) })
}

func aCase(t *testing.T, first deskLife) {
	t.Helper()
	dir := t.TempDir()
	first.Path, first.Books = filepath.Join(dir, "pawl.db"), filepath.Join(dir, "books")
	dead := spawn(t, "002-desk", first)
	if line := dead.line(); line != "" {
		t.Fatalf("%+v did not die and said %q", first, line)
	}
	dead.kill()
	second := first
	second.Dies, second.At = -1, ""
	same(t, "answer", spawn(t, "002-desk", second).wait(t), "paid back")
	d := &helpDesk{&ledger{first.Books}, -1}
	counts := func() string {
		return fmt.Sprint(d.books.count("open"), " opened, ", d.books.count("reply"), " replies, ", d.books.count("find"), " found, ", d.books.count("refund"), " paid")
	}
	same(t, fmt.Sprintf("after a death at %d %s", first.Dies, first.At), counts(), "1 opened, 3 replies, 1 found, 1 paid")
	plain, err := d.graph(first.Plain)
	if err != nil {
		t.Fatal(err)
	}
	g := inOthers(t, plain)
	o := openOffice(t, openFile(t, first.Path), g)
	same(t, "asked", len(o.requests(t)), 1)
	same(t, "status", statusOf(t, g.Thread(o.eng, "case-1")).Status, pawl.Done)
}

// A model that never ends leaves by the other exit, alone and inside another graph.
func givesUp(t *testing.T, h *home) {
	d := &helpDesk{newLedger(t), -1}
	clerk, err := d.clerk(agent.ModelFunc(func(context.Context, agent.Request) (agent.Message, error) {
		d.called("reply")
		return agent.Wants("find", ordered{"17"}), nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	desk, err := d.around(clerk)
	if err != nil {
		t.Fatal(err)
	}
	o := openOffice(t, h.open(t), clerk)
	alone, err := clerk.Thread(o.eng, "alone").Run(t.Context(), agent.Ask("Go on."))
	if err == nil {
		t.Fatal("it did not give up")
	}
	same(t, "alone", []string{string(alone.Status), string(alone.Cause), alone.Reason, alone.Node},
		[]string{"failed", "concluded", "the model was not done after 4 turns", "gave up"})
	same(t, "replies", d.books.count("reply"), 4)
	inside, err := inOthers(t, desk).Thread(o.eng, "inside").Run(t.Context(), &deskState{})
	if err == nil {
		t.Fatal("it did not give up inside")
	}
	same(t, "inside", []string{string(inside.Status), string(inside.Cause), inside.Reason}, []string{"failed", "concluded", "the model was not done after 4 turns"})
}
