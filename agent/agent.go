// Package agent is the loop in which a chat model thinks and has tools act, as a graph: every reply is recorded, every call
// is a task of its own, and a person can be asked in the middle.
//
//	find := agent.Lookup("find_order", "Looks an order up.", shop.Find)
//	refund := agent.Action("refund", "Pays an order back.", func(ctx context.Context, in Refund) (Receipt, error) {
//		return pay.Do(ctx, effect.Ref("order", in.Order), in)  // an effect with Approve: a person says yes first
//	}, pay)
//	g, err := agent.New("clerk", agent.Options{Model: model, Tools: []agent.Tool{find, refund}})
//	out, err := g.Thread(eng, "t1").Run(ctx, agent.Ask("Order 17 came broken."))
//
// The graph has one cycle, think and act, and two exits. It is finished when the model answers without a call: Chat.Answer
// has its words. It gave up when the model was not done within its turns: the run has then failed, cause concluded, so it
// is retried and not resumed. Use it as a child of another graph as any graph.
package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl"
)

// Chat is the state of the loop.
type Chat struct {
	Messages pawl.Append[Message] `json:"messages"`
	Answer   pawl.Last[string]    `json:"answer"`
}

// Ask is the input of a run: what the user says.
func Ask(text string) *Chat { return &Chat{Messages: pawl.List(Says(text))} }

// Options of a loop. A Model is needed.
type Options struct {
	Model  Model
	Tools  []Tool
	System string            // instructions; the model reads them before each conversation, and they are not in the state
	Turns  int               // replies to one message of the user; 0: 20
	Think  []pawl.NodeOption // of the node that calls the model, such as pawl.Tries
}

// The nodes of the loop.
const (
	think    = "think"
	act      = "act"
	finished = "finished"
	gaveUp   = "gave up"
)

// New builds the loop. Its name is stored with every thread.
func New(name string, o Options) (*pawl.Graph[Chat], error) {
	l := &loop{Options: o, tools: map[string]Tool{}}
	if o.Turns == 0 {
		l.Turns = 20
	}
	faults := []error{}
	if o.Model == nil {
		faults = append(faults, errors.New("it has no model"))
	}
	if o.Turns < 0 {
		faults = append(faults, fmt.Errorf("it has %d Turns; give it at least one, or 0 for 20", o.Turns))
	}
	uses := map[string]pawl.Usable{}
	for _, t := range o.Tools {
		if _, twice := l.tools[t.Name]; twice {
			faults = append(faults, fmt.Errorf("two tools are named %q", t.Name))
		}
		if t.err != nil || t.run == nil {
			faults = append(faults, errors.Join(t.err, missing(t)))
		}
		l.tools[t.Name] = t
		for _, u := range t.uses {
			if u != nil {
				uses[u.UseName()] = u // tools may share one
			}
		}
	}
	if len(faults) > 0 {
		return nil, fmt.Errorf("agent %q was not built: %w", name, errors.Join(faults...))
	}
	l.act = pawl.NewWorker(act, l.doCall, pawl.Uses(inOrder(uses)...))
	return pawl.New[Chat](name).
		Node(think, l.think, o.Think...).
		Add(l.act).
		Node(finished, finish).
		Node(gaveUp, l.giveUp).
		Edge(pawl.Start, think).
		Route(think, l.thought, act, finished, gaveUp).
		Edge(act, think).
		Build()
}

func missing(t Tool) error {
	if t.run == nil {
		return fmt.Errorf("tool %q does nothing; make it with Lookup or Action", t.Name)
	}
	return nil
}

func inOrder(uses map[string]pawl.Usable) []pawl.Usable {
	var out []pawl.Usable
	for _, u := range uses {
		out = append(out, u)
	}
	slices.SortFunc(out, func(a, b pawl.Usable) int { return strings.Compare(a.UseName(), b.UseName()) })
	return out
}

type loop struct {
	Options
	tools map[string]Tool
	act   *pawl.Worker[Chat, Call]
}

// think has the model reply once. The reply is a step: it is not paid for again when the process dies after it.
func (l *loop) think(ctx context.Context, s *Chat) error {
	r := Request{Messages: conversation(s)}
	if l.System != "" {
		r.Messages = slices.Insert(r.Messages, 0, Message{Role: System, Text: l.System})
	}
	for _, t := range l.Tools {
		r.Tools = append(r.Tools, t.Spec)
	}
	reply, err := pawl.Step(ctx, "reply", func(ctx context.Context) (Message, error) { return l.Model.Reply(ctx, r) })
	if err != nil {
		return err
	}
	reply.Role = Assistant
	reply.Calls = named(reply.Calls, s.Messages.Len())
	s.Messages.Add(reply)
	return nil
}

// conversation is what a model reads: all messages, and a result for every call. Models refuse a call without one, and a
// run that ended before its tools did leaves such.
func conversation(s *Chat) []Message {
	var out []Message
	var open []Call
	for _, m := range s.Messages.All() {
		if m.Role == ToolRole {
			open = slices.DeleteFunc(open, func(c Call) bool { return c.ID == m.Call })
		} else {
			for _, c := range open {
				out = append(out, Message{Role: ToolRole, Call: c.ID, Tool: c.Tool, Failed: true, Text: "what came of this call is not known"})
			}
			open = slices.Clone(m.Calls)
		}
		out = append(out, m)
	}
	return out
}

// named gives ids to calls that have none.
func named(calls []Call, at int) []Call {
	calls = slices.Clone(calls)
	for i := range calls {
		if calls[i].ID == "" {
			calls[i].ID = fmt.Sprintf("call-%d-%d", at, i+1)
		}
	}
	return calls
}

// thought is the way on from a reply. Its calls are made at once, each a task of its own: one that waits for a person
// does not have the others made again.
func (l *loop) thought(s *Chat) []pawl.Next {
	last := s.Messages.At(s.Messages.Len() - 1)
	switch {
	case len(last.Calls) == 0:
		return pawl.To(finished)
	case turns(s) >= l.Turns:
		return pawl.To(gaveUp)
	}
	return l.act.Each(last.Calls)
}

// turns is how often the model replied to the last message of the user.
func turns(s *Chat) int {
	n := 0
	for _, m := range s.Messages.All() {
		switch m.Role {
		case User:
			n = 0
		case Assistant:
			n++
		}
	}
	return n
}

// doCall makes one call and adds its result.
func (l *loop) doCall(ctx context.Context, s *Chat, c Call) error {
	result := Message{Role: ToolRole, Call: c.ID, Tool: c.Tool}
	t, known := l.tools[c.Tool]
	err := Tell(fmt.Errorf("there is no tool %q; there are %s", c.Tool, l.names()))
	if known {
		result.Text, err = t.run(ctx, c.Args)
	}
	if reason := (told{}); errors.As(err, &reason) && !errors.Is(err, pawl.ErrWaiting) {
		result.Text, result.Failed, err = reason.Error(), true, nil
	}
	if err != nil {
		return fmt.Errorf("tool %q: %w", c.Tool, err)
	}
	s.Messages.Add(result)
	return nil
}

func (l *loop) names() string {
	if len(l.Tools) == 0 {
		return "none"
	}
	var names []string
	for _, t := range l.Tools {
		names = append(names, t.Name)
	}
	return strings.Join(names, ", ")
}

func finish(_ context.Context, s *Chat) error {
	s.Answer.Set(s.Messages.At(s.Messages.Len() - 1).Text)
	return nil
}

func (l *loop) giveUp(context.Context, *Chat) error {
	return pawl.Conclude(fmt.Sprintf("the model was not done after %d turns", l.Turns))
}
