package pawl

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
)

// asker is a host that remembers what was asked.
type asker struct {
	core.Host
	asked []core.Question
}

func (a *asker) Ask(_ context.Context, q, _ *core.Question) error {
	a.asked = append(a.asked, *q)
	return nil
}

func (a *asker) Now() time.Time { return time.Unix(0, 0) }

// enterNode is one entry of a node on a host, with the questions that its task asked before.
func enterNode[S any](t *testing.T, g *Graph[S], node string, before ...core.Question) (context.Context, *asker) {
	t.Helper()
	home := &asker{}
	l := &loop{def: g.erased(), topology: g.erased().Topology(), host: home, pos: &core.Position{
		Run: &core.Run{}, Head: &core.Checkpoint{}, Questions: map[string][]core.Question{"t1": before}}}
	task := &Task{}
	task.init(l, core.Task{ID: "t1", Node: node, Index: -1}, g.erased().Policy(node))
	return task.enter(t.Context()), home
}

type calls struct{ question, decided int }

func askingGraph(t *testing.T, n *calls, opts ...NodeOption) *Graph[ledger] {
	t.Helper()
	ask := func(s *ledger) ship { n.question++; return ship{Order: s.Pick.Get()} }
	decide := func(s *ledger, v verdict) error {
		n.decided++
		if !v.OK {
			return errors.New("declined")
		}
		s.Notes.Add("yes to " + s.Pick.Get())
		return nil
	}
	return mustBuild(t, sound().Add(AskNode(question("ok"), ask, decide, opts...)).Edge("b", "ok").
		Route("ok", func(s *ledger) []Next { return To("a") }, "a"))
}

func TestAskNodeAsksFromTheState(t *testing.T) {
	t.Parallel()
	var n calls
	g := askingGraph(t, &n)
	ctx, home := enterNode(t, g, "ok")
	out, err := runNodeIn(ctx, g, "ok", map[string]string{"pick": `"o-1"`}, "")
	if !errors.Is(err, ErrWaiting) || len(out.Writes) > 0 || len(out.Next) > 0 {
		t.Errorf("got %+v, %v; want a wait and nothing else", out, err)
	}
	if len(home.asked) != 1 || string(home.asked[0].Body) != `{"Order":"o-1"}` || home.asked[0].Name != "ok" || n != (calls{1, 0}) {
		t.Errorf("asked %+v with %+v", home.asked, n)
	}
}

func TestAskNodeRunsNothingAgainOnTheAnswer(t *testing.T) {
	t.Parallel()
	address := core.Address{Task: "t1", Kind: "ask", Name: "ok"}.ID()
	for name, c := range map[string]struct {
		answer string
		want   string
	}{
		"yes": {`{"OK":true}`, ""},
		"no":  {`{"OK":false}`, "declined"},
	} {
		var n calls
		g := askingGraph(t, &n)
		ctx, home := enterNode(t, g, "ok", core.Question{Address: address, State: core.QuestionAnswered, Answer: []byte(c.answer)})
		out, err := runNodeIn(ctx, g, "ok", map[string]string{"pick": `"o-2"`}, "")
		if n != (calls{0, 1}) || len(home.asked) > 0 {
			t.Errorf("%s: %+v, asked again %d times; want the decision alone", name, n, len(home.asked))
		}
		if c.want != "" {
			if err == nil || !strings.Contains(err.Error(), c.want) || len(out.Writes) > 0 {
				t.Errorf("%s: got %+v, %v", name, out, err)
			}
			continue
		}
		if err != nil || len(out.Writes) != 1 || string(out.Writes[0].Data) != `["yes to o-2"]` || len(out.Next) != 1 || out.Next[0].Node != "a" {
			t.Errorf("%s: got %+v, %v", name, out, err)
		}
	}
}

func TestAskNodeQuestionMayNotWrite(t *testing.T) {
	t.Parallel()
	ask := func(s *ledger) ship { s.Pick.Set("lost otherwise"); return ship{} }
	g := mustBuild(t, sound().Add(AskNode(question("ok"), ask, decideShip)).Edge("b", "ok"))
	ctx, _ := enterNode(t, g, "ok")
	_, err := runNodeIn(ctx, g, "ok", nil, "")
	var refused *StateError
	if !errors.As(err, &refused) || refused.Channel != "pick" || errors.Is(err, ErrWaiting) {
		t.Errorf("got %v; want the refused write, and no wait", err)
	}
}

func TestAskNodeQuestionThatPanics(t *testing.T) {
	t.Parallel()
	g := mustBuild(t, sound().Add(AskNode(question("ok"), func(*ledger) ship { panic("boom") }, decideShip)).Edge("b", "ok"))
	ctx, home := enterNode(t, g, "ok")
	_, err := runNodeIn(ctx, g, "ok", nil, "")
	var panicked *PanicError
	if !errors.As(err, &panicked) || panicked.Node != "ok" || len(home.asked) > 0 {
		t.Errorf("got %v, asked %d; want the panic and no question", err, len(home.asked))
	}
}

func TestAskNodeOutsideARun(t *testing.T) {
	t.Parallel()
	var n calls
	if _, err := runNode(askingGraph(t, &n), "ok", nil, ""); err == nil || !strings.Contains(err.Error(), `"ok"`) || n != (calls{}) {
		t.Errorf("got %v with %+v; want a refusal that names the question", err, n)
	}
}

func TestAskNodeTakesOptions(t *testing.T) {
	t.Parallel()
	var n calls
	p := askingGraph(t, &n, Tries(2), Durable(), Uses(question("other"))).erased().Policy("ok")
	if p.Tries != 2 || !p.Durable || !p.Uses["ok"] || !p.Uses["other"] {
		t.Errorf("policy %+v", p)
	}
}

func TestANodeAsksOnlyWhatItUses(t *testing.T) {
	t.Parallel()
	ask := func(ctx context.Context, _ *ledger) error {
		_, err := question("ok").Ask(ctx, ship{})
		return err
	}
	g := mustBuild(t, sound().Node("declares", ask, Uses(question("ok"))).Node("does not", ask).Path("b", "declares", "does not"))
	ctx, home := enterNode(t, g, "declares")
	if _, err := runNodeIn(ctx, g, "declares", nil, ""); !errors.Is(err, ErrWaiting) || len(home.asked) != 1 {
		t.Errorf("got %v, asked %d", err, len(home.asked))
	}
	ctx, home = enterNode(t, g, "does not")
	_, err := runNodeIn(ctx, g, "does not", nil, "")
	var undeclared *UndeclaredError
	if !errors.As(err, &undeclared) || undeclared.Node != "does not" || undeclared.Name != "ok" || len(home.asked) > 0 {
		t.Errorf("got %v, asked %d; want node and question named", err, len(home.asked))
	}
}

func TestPolicyDefaults(t *testing.T) {
	t.Parallel()
	p := mustBuild(t, with(Tries(3))).erased().Policy("c")
	if p.Wait != 500*time.Millisecond || p.MaxWait != 128*time.Second {
		t.Errorf("waits %v and %v; want 500ms and 128s", p.Wait, p.MaxWait)
	}
}

func TestWorkerOptionsAreItsOwn(t *testing.T) {
	t.Parallel()
	opts := []NodeOption{Tries(2)}
	w := lookup(opts...)
	opts[0] = Tries(0)
	if p := mustBuild(t, New[ledger]("g").Add(w).Route(Start, nowhere, "lookup")).erased().Policy("lookup"); p.Tries != 2 {
		t.Errorf("tries %d; want what NewWorker was given", p.Tries)
	}
}
