package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/agent"
	"github.com/pawl-dev/pawl/memdb"
)

type order struct {
	ID string `json:"id"`
}

// shop counts what is asked of it.
type shop struct {
	finds, replies atomic.Int32
	fails          atomic.Bool
}

func (s *shop) find() agent.Tool {
	return agent.Lookup("find", "Looks an order up.", func(_ context.Context, o order) (map[string]string, error) {
		s.finds.Add(1)
		if s.fails.Load() {
			return nil, errors.New("the shop is closed")
		}
		return map[string]string{"order": o.ID, "state": "broken"}, nil
	})
}

var allow = pawl.Interrupt[string, bool]{Name: "allow"}

// throw is a tool that asks a person.
func throw() agent.Tool {
	return agent.Action("throw", "Throws an order away.", func(ctx context.Context, o order) (string, error) {
		yes, err := allow.Ask(ctx, "throw "+o.ID+" away?")
		if err == nil && !yes {
			err = agent.Tell(errors.New("a person said no"))
		}
		return "thrown away", err
	}, allow)
}

// counted is a model whose replies are counted.
func (s *shop) counted(m agent.Model) agent.Model {
	return agent.ModelFunc(func(ctx context.Context, r agent.Request) (agent.Message, error) {
		s.replies.Add(1)
		return m.Reply(ctx, r)
	})
}

func build(t *testing.T, o agent.Options) *pawl.Graph[agent.Chat] {
	t.Helper()
	g, err := agent.New("clerk", o)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func thread(t *testing.T, g *pawl.Graph[agent.Chat]) *pawl.ThreadOf[agent.Chat] {
	t.Helper()
	db, err := memdb.Open(pawl.Kinds()...)
	if err != nil {
		t.Fatal(err)
	}
	eng, err := pawl.NewEngine(db, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { eng.Close(); db.Close() })
	return g.Thread(eng, "t")
}

// spoken is a conversation, a line a message.
func spoken(messages []agent.Message) string {
	var out []string
	for _, m := range messages {
		line := string(m.Role) + ":"
		if m.Call != "" {
			line += " " + m.Call + " " + m.Tool
		}
		if m.Failed {
			line += " failed"
		}
		for _, c := range m.Calls {
			line += fmt.Sprintf(" %s %s%s", c.ID, c.Tool, c.Args)
		}
		out = append(out, strings.TrimSuffix(line+" "+m.Text, " "))
	}
	return strings.Join(out, "\n")
}

func messages(s *agent.Chat) string {
	var list []agent.Message
	for _, m := range s.Messages.All() {
		list = append(list, m)
	}
	return spoken(list)
}

func same(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s:\n%s\nwant:\n%s", what, got, want)
	}
}

func counts(s *shop) string {
	return fmt.Sprint(s.replies.Load(), " replies, ", s.finds.Load(), " looked up")
}

func TestFinished(t *testing.T) {
	t.Parallel()
	s := &shop{}
	var read []agent.Request
	script := agent.Script{agent.Wants("find", order{"17"}), agent.Answers("It is broken.")}
	g := build(t, agent.Options{System: "Be kind.", Tools: []agent.Tool{s.find(), throw()}, Model: s.counted(agent.ModelFunc(
		func(ctx context.Context, r agent.Request) (agent.Message, error) {
			read = append(read, r)
			return script.Reply(ctx, r)
		}))})
	out, err := thread(t, g).Run(t.Context(), agent.Ask("What of 17?"))
	if err != nil || out.Status != pawl.Done {
		t.Fatal(out, err)
	}
	same(t, "answer", out.State.Answer.Get(), "It is broken.")
	first := "user: What of 17?\nassistant: call-1-1 find{\"id\":\"17\"}\ntool: call-1-1 find {\"order\":\"17\",\"state\":\"broken\"}"
	same(t, "messages", messages(out.State), first+"\nassistant: It is broken.")
	same(t, "counts", counts(s), "2 replies, 1 looked up")
	same(t, "read at last", spoken(read[1].Messages), "system: Be kind.\n"+first)
	doc, _ := json.Marshal(read[0].Tools)
	want := `{"type":"object","properties":{"id":{"type":"string"}},"required":["id"],"additionalProperties":false}`
	same(t, "told of tools", string(doc), `[{"name":"find","about":"Looks an order up.","params":`+want+`},{"name":"throw","about":"Throws an order away.","params":`+want+`}]`)
}

func TestGaveUp(t *testing.T) {
	t.Parallel()
	for _, turns := range []int{1, 3} {
		s := &shop{}
		g := build(t, agent.Options{Turns: turns, Tools: []agent.Tool{s.find()}, Model: s.counted(agent.ModelFunc(
			func(context.Context, agent.Request) (agent.Message, error) {
				return agent.Wants("find", order{"17"}), nil
			}))})
		th := thread(t, g)
		out, err := th.Run(t.Context(), agent.Ask("Go on."))
		if err == nil || out.Status != pawl.Failed || out.Cause != pawl.CauseConcluded || out.Node != "gave up" {
			t.Fatal(out, err)
		}
		same(t, "reason", out.Reason, fmt.Sprintf("the model was not done after %d turns", turns))
		same(t, "counts", counts(s), fmt.Sprintf("%d replies, %d looked up", turns, turns-1))
		if _, err := th.Resume(t.Context()); !errors.As(err, new(*pawl.VerbError)) {
			t.Errorf("resumed into the same failure: %v", err)
		}
	}
}

// Calls of one reply are made at once and told in their order; what the model got wrong it is told.
func TestSeveralCalls(t *testing.T) {
	t.Parallel()
	s := &shop{}
	g := build(t, agent.Options{Tools: []agent.Tool{s.find(), throw()}, Model: agent.Script{
		{Calls: []agent.Call{
			{ID: "b", Tool: "find", Args: json.RawMessage(`{"id":"2"}`)}, {ID: "a", Tool: "fined"},
			{Tool: "find"}, {Tool: "find", Args: json.RawMessage(`{"id":1}`)}, {Tool: "find", Args: json.RawMessage(`{"id":"3","x":1}`)},
		}},
		agent.Answers("done"),
	}})
	out, err := thread(t, g).Run(t.Context(), agent.Ask("Go."))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(messages(out.State), "\n")
	for i, want := range []string{
		`tool: b find {"order":"2","state":"broken"}`, `tool: a fined failed there is no tool "fined"; there are find, throw`,
		`tool: call-1-3 find failed the arguments do not fit: `, `tool: call-1-4 find failed the arguments do not fit: `, `tool: call-1-5 find failed the arguments do not fit: `,
	} {
		if !strings.HasPrefix(lines[2+i], want) {
			t.Errorf("result %d: %s, want %s", i, lines[2+i], want)
		}
	}
	same(t, "counts", counts(s), "0 replies, 1 looked up")
}

// One call waits for a person; the other one of the same reply, and the reply, are not made again.
func TestAPersonInTheMiddle(t *testing.T) {
	t.Parallel()
	for answer, want := range map[bool]string{true: "tool: t throw thrown away", false: "tool: t throw failed a person said no"} {
		s := &shop{}
		g := build(t, agent.Options{Tools: []agent.Tool{s.find(), throw()}, Model: s.counted(agent.Script{
			{Calls: []agent.Call{{ID: "t", Tool: "throw", Args: json.RawMessage(`{"id":"17"}`)}, {ID: "f", Tool: "find", Args: json.RawMessage(`{"id":"17"}`)}}},
			agent.Answers("done"),
		})})
		th := thread(t, g)
		out, err := th.Run(t.Context(), agent.Ask("Away with 17."))
		if err != nil || out.Status != pawl.Waiting || len(out.Waiting) != 1 {
			t.Fatal(out, err)
		}
		same(t, "while it waits", counts(s), "1 replies, 1 looked up")
		out, err = th.Resume(t.Context(), allow.Answer(out.Waiting[0].ID, answer))
		if err != nil || out.Status != pawl.Done {
			t.Fatal(out, err)
		}
		same(t, "result", strings.Split(messages(out.State), "\n")[2], want)
		same(t, "in the end", counts(s), "2 replies, 1 looked up")
	}
}

// A tool that is broken fails the run, and the run goes on where it failed; a new message after it finds no call without
// a result, and turns of its own.
func TestBrokenTools(t *testing.T) {
	t.Parallel()
	s := &shop{}
	s.fails.Store(true)
	var last []agent.Message
	script := agent.Script{agent.Wants("find", order{"17"}), agent.Answers("first"), agent.Wants("find", order{"18"}), agent.Answers("second")}
	g := build(t, agent.Options{Turns: 2, Tools: []agent.Tool{s.find()}, Model: s.counted(agent.ModelFunc(
		func(ctx context.Context, r agent.Request) (agent.Message, error) {
			last = r.Messages
			return script.Reply(ctx, r)
		}))})
	th := thread(t, g)
	out, err := th.Run(t.Context(), agent.Ask("What of 17?"))
	if err == nil || out.Cause != pawl.CauseError || !strings.Contains(err.Error(), `tool "find": `) || !strings.Contains(err.Error(), "the shop is closed") {
		t.Fatal(out, err)
	}
	s.fails.Store(false)
	if out, err = th.Resume(t.Context()); err != nil || out.State.Answer.Get() != "first" {
		t.Fatal(out, err)
	}
	same(t, "after resume", counts(s), "2 replies, 2 looked up")
	s.fails.Store(true)
	if out, err = th.Run(t.Context(), agent.Ask("And 18?")); err == nil || out.Cause != pawl.CauseError {
		t.Fatal(out, err)
	}
	s.fails.Store(false)
	if out, err = th.Run(t.Context(), agent.Ask("Well?")); err != nil || out.State.Answer.Get() != "second" {
		t.Fatal(out, err)
	}
	same(t, "read", spoken(last[4:]), "user: And 18?\nassistant: call-5-1 find{\"id\":\"18\"}\ntool: call-5-1 find failed what came of this call is not known\nuser: Well?")
}

func TestFaults(t *testing.T) {
	t.Parallel()
	s := &shop{}
	script := agent.Script{}
	number := func(context.Context, int) (string, error) { return "", nil }
	channel := func(context.Context, struct{ C chan int }) (string, error) { return "", nil }
	for says, o := range map[string]agent.Options{
		"it has no model":                {},
		"it has -1 Turns":                {Model: script, Turns: -1},
		`two tools are named "find"`:     {Model: script, Tools: []agent.Tool{s.find(), s.find()}},
		"a tool needs a name":            {Model: script, Tools: []agent.Tool{agent.Lookup("", "", s.nothing)}},
		`tool "n": its arguments are a`:  {Model: script, Tools: []agent.Tool{agent.Lookup("n", "", number)}},
		`tool "c": `:                     {Model: script, Tools: []agent.Tool{agent.Action("c", "", channel)}},
		`make it with Lookup or Action`:  {Model: script, Tools: []agent.Tool{{Spec: agent.Spec{Name: "x"}}}},
		"node \"think\": Tries(0): a no": {Model: script, Think: []pawl.NodeOption{pawl.Tries(0)}},
	} {
		if _, err := agent.New("clerk", o); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
	out, err := thread(t, build(t, agent.Options{Model: script})).Run(t.Context(), agent.Ask("Hello"))
	if err == nil || out.Cause != pawl.CauseError || !strings.Contains(err.Error(), "the script has 0 lines, and line 1 is wanted") {
		t.Errorf("past the script's end: %v, %v", out, err)
	}
	if agent.Tell(nil) != nil {
		t.Error("Tell made an error of nothing")
	}
}

func (s *shop) nothing(context.Context, order) (string, error) { return "", nil }
