package suite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/agent"
	"github.com/pawl-dev/pawl/memdb"
	"github.com/pawl-dev/pawl/store"
)

// agentOf is a thread of an agent whose model says its lines.
func agentOf(t *testing.T, h *home, o agent.Options, lines ...agent.Message) *pawl.ThreadOf[agent.Chat] {
	t.Helper()
	if o.Model == nil {
		o.Model = agent.Script(lines)
	}
	g, err := agent.New("clerk", o)
	if err != nil {
		t.Fatal(err)
	}
	return g.Thread(engine(t, h.open(t), nil), "t")
}

// talked asks and returns what was said then, a line a message.
func talked(t *testing.T, th *pawl.ThreadOf[agent.Chat]) (string, *pawl.OutcomeOf[agent.Chat]) {
	t.Helper()
	out, err := th.Run(t.Context(), agent.Ask("Go."))
	if err != nil {
		t.Fatal(err)
	}
	return linesOf(t, out.State), out
}

func linesOf(t *testing.T, s *agent.Chat) string {
	t.Helper()
	said, err := s.Conversation()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, m := range said {
		line := string(m.Role) + ":"
		for _, c := range m.Calls {
			line += " " + c.ID + string(c.Args)
		}
		if m.Failed {
			line += " failed"
		}
		out = append(out, strings.TrimRight(line+" "+m.Text, " "))
	}
	return strings.Join(out, "\n")
}

// listed are ids and texts.
func listed(said []agent.Message) (out []string) {
	for _, m := range said {
		out = append(out, m.ID+" "+m.Text)
	}
	return out
}

// rowMessages folds what LangGraph's add_messages was given, update by update; both refuse the same.
func rowMessages(t *testing.T, _ *report) {
	doc, err := os.ReadFile("../../conformance/messages.json")
	if err != nil {
		t.Fatal(err)
	}
	type recorded struct {
		ID, Text, Remove string
		All              bool
	}
	var cases []struct {
		Name     string
		Updates  [][]recorded
		Messages []recorded
		Refused  bool
	}
	if err := json.Unmarshal(doc, &cases); err != nil || len(cases) == 0 {
		t.Fatal(len(cases), err)
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			chat, refused := &agent.Chat{}, error(nil)
			for _, update := range c.Updates {
				var put []agent.Message
				for _, m := range update {
					switch {
					case m.All:
						put = append(put, agent.RemoveAll())
					case m.Remove != "":
						put = append(put, agent.Remove(m.Remove))
					default:
						put = append(put, agent.Message{ID: m.ID, Role: agent.User, Text: m.Text})
					}
				}
				refused = errors.Join(refused, chat.Put(put...))
			}
			said, err := chat.Conversation()
			if (refused != nil) != c.Refused || err != nil {
				t.Fatalf("refused: %v, want %v; %v", refused, c.Refused, err)
			}
			var want []string
			for _, m := range c.Messages {
				want = append(want, m.ID+" "+m.Text)
			}
			if !c.Refused {
				same(t, "messages", listed(said), want)
			}
		})
	}
}

// rowScalar: the first node reads a list of one message where the input is a text, also in a list; what is neither a text nor
// messages is refused by name.
func rowScalar(t *testing.T, h *home) {
	var read []string
	model := agent.ModelFunc(func(_ context.Context, r agent.Request) (agent.Message, error) {
		read = listed(r.Messages)
		return agent.Answers("hi"), nil
	})
	th := agentOf(t, h, agent.Options{Model: model})
	for _, bad := range []string{`{"messages":1}`, `{"messages":[["hello"]]}`, `{"messages":{"hello":1}}`} {
		if _, err := th.Thread.Run(t.Context(), []byte(bad)); !errors.As(err, new(*pawl.InputError)) || !strings.Contains(err.Error(), `"messages"`) {
			t.Errorf("%s: %v", bad, err)
		}
	}
	for _, in := range []string{`{"messages":"hello"}`, `{"messages":["hello"]}`} {
		if _, err := th.Thread.Run(t.Context(), []byte(in)); err != nil {
			t.Fatal(err)
		}
		same(t, "what the first node read", read[len(read)-1:], []string{fmt.Sprintf("message-%d hello", len(read))})
	}
}

// rowRemovedStays: what was removed, replaced and left without an id is the same after each reload, in every turn.
func rowRemovedStays(t *testing.T, h *home) {
	model := agent.ModelFunc(func(_ context.Context, r agent.Request) (agent.Message, error) {
		return agent.Answers(fmt.Sprint("of ", len(r.Messages))), nil
	})
	talked(t, agentOf(t, h, agent.Options{Model: model}))
	edit := func(s *agent.Chat) error {
		return s.Put(agent.Remove("message-1"), agent.Message{ID: "message-2", Role: agent.Assistant, Text: "another"})
	}
	if _, err := agentOf(t, h, agent.Options{Model: model}).Edit(t.Context(), edit); err != nil {
		t.Fatal(err)
	}
	for _, want := range [][]string{
		{"message-2 another", "message-5 Go.", "message-6 of 2"},
		{"message-2 another", "message-5 Go.", "message-6 of 2", "message-7 Go.", "message-8 of 4"},
	} {
		th := agentOf(t, h, agent.Options{Model: model})
		talked(t, th)
		s, err := th.Read(statusOf(t, th).Head)
		if err != nil {
			t.Fatal(err)
		}
		said, err := s.Conversation()
		if err != nil {
			t.Fatal(err)
		}
		same(t, "messages", listed(said), want)
	}
}

// finder looks orders up; what says why it cannot.
func finder(what func(ordered) error) agent.Tool {
	return agent.Lookup("find", "", func(_ context.Context, o ordered) (string, error) { return "found " + o.Order, what(o) })
}

func sound(ordered) error { return nil }

func rowUnknownTool(t *testing.T, h *home) {
	tools := []agent.Tool{finder(sound), agent.Lookup("other", "", func(context.Context, ordered) (string, error) { return "", nil })}
	said, _ := talked(t, agentOf(t, h, agent.Options{Tools: tools}, agent.Wants("fined", ordered{"1"}), agent.Answers("done")))
	same(t, "said", said, "user: Go.\nassistant: call-1-1{\"order\":\"1\"}\ntool: failed there is no tool \"fined\"; there are find, other\nassistant: done")
}

// rowToolErrors: what the model got wrong it is told; what the tool could not do fails the run.
func rowToolErrors(t *testing.T, h *home) {
	script := []agent.Message{agent.Wants("find", map[string]int{"order": 1}), agent.Wants("find", ordered{"1"}), agent.Answers("done")}
	th := agentOf(t, h, agent.Options{Tools: []agent.Tool{finder(func(ordered) error { return errRow })}}, script...)
	out, err := th.Run(t.Context(), agent.Ask("Go."))
	if !errors.Is(err, errRow) || out.Status != pawl.Failed {
		t.Fatal(out, err)
	}
	if said := linesOf(t, out.State); !strings.Contains(said, "tool: failed the arguments do not fit: ") {
		t.Error(said)
	}
}

// rowWhoIsTold: which errors a model hears, and in which words, is the program's to say.
func rowWhoIsTold(t *testing.T, h *home) {
	fixed := func(agent.Call, error) (string, bool) { return "try later", true }
	computed := func(c agent.Call, err error) (string, bool) { return c.Tool + " said: " + err.Error(), true }
	kinds := func(_ agent.Call, err error) (string, bool) {
		if errors.Is(err, errRow) {
			return "a kind", true
		}
		return agent.Told(err)
	}
	nothing := func(agent.Call, error) (string, bool) { return "", false }
	for name, c := range map[string]struct {
		tell  func(agent.Call, error) (string, bool)
		fails error
		args  any
		want  string // empty: the run fails
	}{
		"nothing":             {nothing, errRow, ordered{"1"}, ""},
		"not wrong arguments": {nothing, nil, 1, ""},
		"fixed":               {fixed, errRow, ordered{"1"}, "try later"},
		"computed":            {computed, errRow, ordered{"1"}, "find said: bad"},
		"a kind":              {kinds, errRow, ordered{"1"}, "a kind"},
		"another kind":        {kinds, errors.New("other"), ordered{"1"}, ""},
		"marked":              {kinds, agent.Tell(errors.New("marked")), ordered{"1"}, "marked"},
	} {
		t.Run(name, func(t *testing.T) {
			tool := finder(func(ordered) error { return c.fails })
			g, err := agent.New("clerk", agent.Options{Tell: c.tell, Tools: []agent.Tool{tool}, Model: agent.Script{agent.Wants("find", c.args), agent.Answers("done")}})
			if err != nil {
				t.Fatal(err)
			}
			out, err := g.Thread(engine(t, h.open(t), nil), name).Run(t.Context(), agent.Ask("Go."))
			if (err != nil) != (c.want == "") {
				t.Fatal(out, err)
			}
			if c.want != "" && !strings.Contains(linesOf(t, out.State), "tool: failed "+c.want+"\n") {
				t.Error(linesOf(t, out.State))
			}
		})
	}
}

// rowToolAsks: a question of a tool is a question of the run, also where all errors are told.
func rowToolAsks(t *testing.T, h *home) {
	asks := agent.Action("asks", "", func(ctx context.Context, o ordered) (string, error) { return vote.Ask(ctx, "about "+o.Order) }, vote)
	everything := func(_ agent.Call, err error) (string, bool) { return err.Error(), true }
	th := agentOf(t, h, agent.Options{Tools: []agent.Tool{asks}, Tell: everything}, agent.Wants("asks", ordered{"1"}), agent.Answers("done"))
	_, out := talked(t, th)
	same(t, "questions", bodies(out.Waiting), []string{`"about 1"`})
	out, err := th.Resume(t.Context(), vote.Answer("", "yes"))
	if err != nil || !strings.Contains(linesOf(t, out.State), "tool: yes\n") {
		t.Fatal(out, err)
	}
}

// rowInjected: a tool has the call, the conversation and the store, of which the model is told nothing and sets nothing.
func rowInjected(t *testing.T, _ *report) {
	m, err := store.New(store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	db, err := memdb.Open(append(pawl.Kinds(), store.Kinds()...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	var told string
	tool := agent.Action("knows", "", func(ctx context.Context, o ordered) (string, error) {
		c, _ := agent.CallFrom(ctx)
		said, err := agent.ChatFrom(ctx).Conversation()
		if err == nil {
			err = store.From(ctx).Put(ctx, []string{"kept"}, c.ID, o)
		}
		return fmt.Sprint(c.ID, " after ", len(said), " messages"), err
	})
	script := agent.Script{agent.Wants("knows", map[string]string{"order": "1", "call": "mine", "store": "mine"}), agent.Wants("knows", ordered{"2"}), agent.Answers("done")}
	g, err := agent.New("clerk", agent.Options{Tools: []agent.Tool{tool}, Model: agent.ModelFunc(func(ctx context.Context, r agent.Request) (agent.Message, error) {
		told = string(r.Tools[0].Params)
		return script.Reply(ctx, r)
	})})
	if err != nil {
		t.Fatal(err)
	}
	eng := engine(t, db, &pawl.Options{Parts: []pawl.Part{m}})
	said, _ := talked(t, g.Thread(eng, "t"))
	same(t, "what the model is told", told, `{"type":"object","properties":{"order":{"type":"string"}},"required":["order"],"additionalProperties":false}`)
	if !strings.Contains(said, "tool: failed the arguments do not fit: ") || !strings.Contains(said, "\ntool: call-3-1 after 4 messages\n") {
		t.Error(said)
	}
	hits, err := m.Of(eng, db).Search(t.Context(), store.Search{Prefix: []string{"kept"}})
	if err != nil || len(hits) != 1 || hits[0].Key != "call-3-1" {
		t.Error(hits, err)
	}
}

// rowLoopEnds: the four ways in which the loop leaves its usual round.
func rowLoopEnds(t *testing.T, h *home) {
	two := agent.Message{Calls: []agent.Call{
		{ID: "a", Tool: "find", Args: json.RawMessage(`{"order":"1"}`)}, {ID: "b", Tool: "says", Args: json.RawMessage(`{"order":"2"}`)}}}
	says := agent.Lookup("says", "", func(_ context.Context, o ordered) (string, error) {
		if o.Order == "" {
			return "", agent.Tell(errors.New("no order"))
		}
		return "says " + o.Order, nil
	})
	run := func(thread string, o agent.Options, script ...agent.Message) (*pawl.OutcomeOf[agent.Chat], error) {
		o.Model = agent.Script(script)
		g, err := agent.New("clerk", o)
		if err != nil {
			t.Fatal(err)
		}
		return g.Thread(engine(t, h.open(t), nil), thread).Run(t.Context(), agent.Ask("Go."))
	}
	tools := agent.Options{Tools: []agent.Tool{finder(sound), says}}
	out, err := run("parallel", tools, two, agent.Answers("done"))
	if err != nil || !strings.HasSuffix(linesOf(t, out.State), "\ntool: found 1\ntool: says 2\nassistant: done") {
		t.Error("parallel calls", out, err)
	}
	direct := agent.Options{Tools: []agent.Tool{finder(sound), says.Direct()}}
	out, err = run("direct", direct, two)
	if err != nil || out.State.Answer.Get() != "says 2" || !strings.HasSuffix(linesOf(t, out.State), "\ntool: found 1\ntool: says 2") {
		t.Error("a direct result", out, err)
	}
	out, err = run("direct failed", direct, agent.Wants("says", ordered{}), agent.Answers("sorry"))
	if err != nil || out.State.Answer.Get() != "sorry" {
		t.Error("a direct tool that failed", out, err)
	}
	out, err = run("few", agent.Options{Turns: 1, Tools: tools.Tools}, two, agent.Answers("done"))
	if err == nil || out.Cause != pawl.CauseConcluded || !strings.Contains(out.Reason, "not done after 1 turns") {
		t.Error("too few turns", out, err)
	}
	out, err = run("sorry", agent.Options{Turns: 1, Apology: "Sorry, need more steps to process this request.", Tools: tools.Tools}, two, agent.Answers("done"))
	if err != nil || out.Status != pawl.Done || linesOf(t, out.State) != "user: Go.\nassistant: Sorry, need more steps to process this request." {
		t.Error("too few turns, with an apology", out, err)
	}
	var read string
	model := agent.ModelFunc(func(_ context.Context, r agent.Request) (agent.Message, error) {
		read = compact(r.Messages)
		return agent.Answers("done"), nil
	})
	in := agent.Ask("Go.")
	if err := in.Put(agent.Message{Role: agent.Assistant, Calls: two.Calls[:1]}, agent.Says("Well?")); err != nil {
		t.Fatal(err)
	}
	strict, err := agent.New("clerk", agent.Options{Model: model, Strict: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := strict.Thread(engine(t, h.open(t), nil), "strict").Run(t.Context(), in); !errors.As(err, new(*agent.HistoryError)) || read != "" {
		t.Error("a call without a result, refused", read, err)
	}
	if out, err := agentOf(t, h, agent.Options{Model: model}).Run(t.Context(), in); err != nil || !strings.Contains(read, `"text":"what came of this call is not known"`) {
		t.Error("a call without a result", read, out, err)
	}
}

// rowEditedCall: a person changes a call at a breakpoint, and another takes one out.
func rowEditedCall(t *testing.T, h *home) {
	two := agent.Message{Calls: []agent.Call{
		{ID: "a", Tool: "find", Args: json.RawMessage(`{"order":"1"}`)}, {ID: "b", Tool: "find", Args: json.RawMessage(`{"order":"2"}`)}}}
	var found []string
	var mu sync.Mutex // calls run at once
	tool := agent.Lookup("find", "", func(_ context.Context, o ordered) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		found = append(found, o.Order)
		return "found " + o.Order, nil
	})
	th := agentOf(t, h, agent.Options{Tools: []agent.Tool{tool}}, two, agent.Answers("done"))
	out, err := th.Run(t.Context(), agent.Ask("Go."), pawl.BreakBefore("act"))
	if err != nil || out.Status != pawl.Waiting || len(found) > 0 {
		t.Fatal(out, err, found)
	}
	_, err = th.Edit(t.Context(), func(s *agent.Chat) error {
		said, err := s.Conversation()
		if err != nil {
			return err
		}
		m := said[1]
		m.Calls = []agent.Call{{ID: "b", Tool: "find", Args: json.RawMessage(`{"order":"3"}`)}}
		return s.Put(m)
	})
	if err != nil {
		t.Fatal(err)
	}
	out, err = th.Resume(t.Context(), pawl.BreakBefore())
	if err != nil || out.Status != pawl.Done {
		t.Fatal(out, err)
	}
	same(t, "found", found, []string{"3"})
	same(t, "said", linesOf(t, out.State), "user: Go.\nassistant: b{\"order\":\"3\"}\ntool: found 3\nassistant: done")
}

// rowReviewed: a person approves, changes and rejects calls, each by its own question.
func rowReviewed(t *testing.T, h *home) {
	var found, read []string
	var mu sync.Mutex // calls run at once
	tool := agent.Lookup("find", "", func(_ context.Context, o ordered) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		found = append(found, o.Order)
		return "found " + o.Order, nil
	})
	script := agent.Script{{Calls: []agent.Call{
		{ID: "a", Tool: "find", Args: json.RawMessage(`{"order":"1"}`)}, {ID: "b", Tool: "find", Args: json.RawMessage(`{"order":"2"}`)},
		{ID: "c", Tool: "find", Args: json.RawMessage(`{"order":"3"}`)}, {ID: "d", Tool: "find", Args: json.RawMessage(`{"order":4}`)},
	}}, agent.Answers("done")}
	th := agentOf(t, h, agent.Options{Tools: []agent.Tool{tool.Reviewed()}, Model: agent.ModelFunc(func(ctx context.Context, r agent.Request) (agent.Message, error) {
		for _, m := range r.Messages {
			for _, c := range m.Calls {
				read = append(read, c.ID+string(c.Args))
			}
		}
		return script.Reply(ctx, r)
	})})
	out, err := th.Run(t.Context(), agent.Ask("Go."))
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]string{}
	for _, q := range paused(t, &out.Outcome, err, 3) { // what does not fit is not asked about
		c := args[agent.Call](q.Body)
		ids[c.ID] = q.ID
		same(t, "name", q.Name, "review find")
	}
	for _, wrong := range []agent.Decision{{Verdict: "respond"}, {}, {Verdict: agent.Edit, Args: json.RawMessage(`{"other":"x"}`)}, {Verdict: agent.Approve, Args: json.RawMessage(`{"order":"9"}`)}} {
		if _, err := th.Resume(t.Context(), pawl.AnswerWith(ids["a"], wrong)); err == nil {
			t.Errorf("%+v was taken", wrong)
		}
	}
	yes := agent.Decision{Verdict: agent.Approve}
	for what, answers := range map[string][]pawl.RunOption{
		"one too few":       {pawl.AnswerWith(ids["a"], yes), pawl.AnswerWith(ids["b"], yes), pawl.AnswerAll()},
		"one too many":      {pawl.AnswerWith(ids["a"], yes), pawl.AnswerWith(ids["b"], yes), pawl.AnswerWith(ids["c"], yes), pawl.AnswerWith("another", yes)},
		"one for all three": {pawl.AnswerWith("", yes)},
	} {
		if _, err := th.Resume(t.Context(), answers...); err == nil {
			t.Errorf("%s was taken", what)
		}
		if st, err := th.State(t.Context()); err != nil || len(st.Waiting) != 3 || len(found) > 0 {
			t.Errorf("%s: %d questions are open, found %v, %v", what, len(st.Waiting), found, err)
		}
	}
	out, err = th.Resume(t.Context(), pawl.AnswerWith(ids["a"], yes),
		pawl.AnswerWith(ids["b"], agent.Decision{Verdict: agent.Edit, Args: json.RawMessage(`{"order":"22"}`)}),
		pawl.AnswerWith(ids["c"], agent.Decision{Verdict: agent.Reject, Say: "not this one"}))
	if err != nil || out.Status != pawl.Done {
		t.Fatal(out, err)
	}
	same(t, "found", len(found), 2)
	said := strings.Split(linesOf(t, out.State), "\n")
	same(t, "results", said[2:5], []string{"tool: found 1", "tool: found 22", "tool: failed not this one"})
	same(t, "calls that the model reads", read[1], `b{"order":"22"}`)

	strict := agentOf(t, memory(t), agent.Options{Tools: []agent.Tool{tool.Reviewed(agent.Approve)}}, agent.Wants("find", ordered{"5"}), agent.Answers("done"))
	out, err = strict.Run(t.Context(), agent.Ask("Go."))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := strict.Resume(t.Context(), pawl.AnswerWith(out.Waiting[0].ID, agent.Decision{Verdict: agent.Reject})); err == nil {
		t.Error("a verdict that is not allowed was taken")
	}
}
