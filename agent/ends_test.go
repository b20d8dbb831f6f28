package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/agent"
)

// With an apology the run is done where it would fail: the apology stands in the place of the calls that were not made, and
// the conversation goes on behind it.
func TestApology(t *testing.T) {
	t.Parallel()
	for _, turns := range []int{1, 3} {
		s := &shop{}
		answers := false
		var read []agent.Message
		g := build(t, agent.Options{Turns: turns, Apology: "Sorry, I need more steps.", Strict: true, Tools: []agent.Tool{s.find()}, Model: s.counted(agent.ModelFunc(
			func(_ context.Context, r agent.Request) (agent.Message, error) {
				if read = r.Messages; answers {
					return agent.Answers("done"), nil
				}
				return agent.Wants("find", order{"17"}), nil
			}))})
		th := thread(t, g)
		out, err := th.Run(t.Context(), agent.Ask("Go on."))
		if err != nil || out.Status != pawl.Done || out.State.Answer.Get() != "Sorry, I need more steps." {
			t.Fatal(out, err)
		}
		said, err := out.State.Conversation()
		if err != nil {
			t.Fatal(err)
		}
		same(t, "counts", counts(s), fmt.Sprintf("%d replies, %d looked up", turns, turns-1))
		lines := strings.Split(spoken(said), "\n")
		same(t, "the last of it", lines[len(lines)-1], "assistant: Sorry, I need more steps.")
		same(t, "how much was said", fmt.Sprint(len(lines)), fmt.Sprint(2*turns))
		answers = true
		if out, err = th.Run(t.Context(), agent.Ask("Try again.")); err != nil || out.State.Answer.Get() != "done" {
			t.Fatal(out, err)
		}
		same(t, "read after it", spoken(read[len(read)-2:]), "assistant: Sorry, I need more steps.\nuser: Try again.")
	}
}

// A call without a result, from wherever: the model is told that what came of it is not known, or, if the loop is strict,
// is not asked, until a person says what came of it or takes it out.
func TestCallsWithoutAResult(t *testing.T) {
	t.Parallel()
	wants := agent.Message{ID: "w", Role: agent.Assistant, Calls: []agent.Call{{ID: "a", Tool: "find", Args: json.RawMessage(`{"id":"1"}`)}, {ID: "b", Tool: "find"}}}
	found := func(call string) agent.Message {
		return agent.Message{Role: agent.ToolRole, Call: call, Tool: "find", Text: "found"}
	}
	for _, c := range []struct {
		name    string
		history []agent.Message
		open    string // calls without a result
	}{
		{"none", []agent.Message{wants, found("a"), found("b"), agent.Says("Well?")}, ""},
		{"one", []agent.Message{wants, found("a"), agent.Says("Well?")}, "b"},
		{"both", []agent.Message{wants, agent.Says("Well?")}, "a b"},
		{"at the end", []agent.Message{agent.Says("Well?"), wants, found("b")}, "a"},
		{"replaced", []agent.Message{wants, agent.Says("Well?"), {ID: "w", Role: agent.Assistant, Text: "never mind"}}, ""},
		{"removed", []agent.Message{wants, agent.Says("Well?"), agent.Remove("w")}, ""},
	} {
		for _, strict := range []bool{true, false} {
			t.Run(fmt.Sprint(c.name, " strict ", strict), func(t *testing.T) {
				t.Parallel()
				s := &shop{}
				var read string
				th := thread(t, build(t, agent.Options{Strict: strict, Tools: []agent.Tool{s.find()}, Think: []pawl.NodeOption{pawl.Tries(3)}, Model: s.counted(agent.ModelFunc(
					func(_ context.Context, r agent.Request) (agent.Message, error) {
						read = spoken(r.Messages)
						return agent.Answers("done"), nil
					}))}))
				in := &agent.Chat{}
				if err := in.Put(c.history...); err != nil {
					t.Fatal(err)
				}
				out, err := th.Run(t.Context(), in)
				if !strict || c.open == "" {
					if err != nil || strings.Count(read, "what came of this call is not known") != len(strings.Fields(c.open)) {
						t.Errorf("%v, %v, read:\n%s", out, err, read)
					}
					return
				}
				refused := (*agent.HistoryError)(nil)
				if !errors.As(err, &refused) || s.replies.Load() > 0 {
					t.Fatal(out, err, counts(s))
				}
				var open []string
				for _, call := range refused.Calls {
					open = append(open, call.ID)
					if !strings.Contains(err.Error(), call.ID+" (find)") {
						t.Errorf("%v does not name %s", err, call.ID)
					}
				}
				same(t, "calls without a result", strings.Join(open, " "), c.open)
				if _, err := th.Edit(t.Context(), func(s *agent.Chat) error {
					return s.Put(agent.Message{ID: "w", Role: agent.Assistant, Text: "never mind"})
				}); err != nil {
					t.Fatal(err)
				}
				if out, err := th.Resume(t.Context()); err != nil || out.State.Answer.Get() != "done" {
					t.Error(out, err)
				}
			})
		}
	}
}

// A text in the place of messages is what the user says.
func TestTextsAreMessages(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`{"messages":"hello"}`: "user: hello",
		`{"messages":["hello",{"role":"assistant","text":"hi"},"and"]}`: "user: hello\nassistant: hi\nuser: and",
		`{"messages":1}`:                    "",
		`{"messages":{"text":"hello"}}`:     "",
		`{"answer":"hello","messages":[1]}`: "",
	} {
		var read string
		th := thread(t, build(t, agent.Options{Model: agent.ModelFunc(func(_ context.Context, r agent.Request) (agent.Message, error) {
			read = spoken(r.Messages)
			return agent.Answers("done"), nil
		})}))
		_, err := th.Thread.Run(t.Context(), []byte(in))
		if same(t, in, read, want); errors.As(err, new(*pawl.InputError)) != (want == "") {
			t.Errorf("%s: %v", in, err)
		}
	}
}
