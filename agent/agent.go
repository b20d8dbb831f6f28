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
// is retried and not resumed, or ends with Options.Apology. Use it as a child of another graph as any graph.
//
// People come in by a tool that is Reviewed or asks, or at a breakpoint: th.Run(ctx, in, pawl.BreakBefore("act")) stops
// before calls are made, and th.Edit with Chat.Put changes the message that wants them.
package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/stream"
)

// Chat is the state of the loop.
type Chat struct {
	Messages pawl.Append[Message] `json:"messages"` // the log: write it with Put, read it with Conversation
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

	// Apology is said when the model was not done within its turns, in the place of the message with the calls that are not
	// made any more: the run is then done, and this its answer. Empty: it fails.
	Apology string
	// Strict refuses a history in which a call has no result, with a [*HistoryError]. Else the model is told that what came
	// of it is not known: a run that ended before its tools did leaves such calls, too.
	Strict bool

	// Tell decides what the model hears of an error of a call; false: the run fails with it, and can be resumed. nil: Told,
	// which tells what was marked by Tell, such as a call that the model got wrong. Whoever decides more calls Told, too.
	Tell func(Call, error) (text string, ok bool)
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
	if o.Tell == nil {
		l.Tell = func(_ Call, err error) (string, bool) { return Told(err) }
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
		Node(finished, l.finish).
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

// think has the model reply once, unless a direct tool said the answer. The reply is a step: it is not paid for again when
// the process dies after it.
func (l *loop) think(ctx context.Context, s *Chat) error {
	said, err := s.Conversation()
	if err != nil || l.answer(said) != nil {
		return err
	}
	asked, open := whole(said)
	if l.Strict && len(open) > 0 {
		return &HistoryError{Calls: open}
	}
	r := Request{Messages: asked}
	if l.System != "" {
		r.Messages = slices.Insert(r.Messages, 0, Message{Role: System, Text: l.System})
	}
	for _, t := range l.Tools {
		r.Tools = append(r.Tools, t.Spec)
	}
	reply, err := pawl.Step(ctx, "reply", func(ctx context.Context) (Message, error) { return l.reply(ctx, r) })
	if err != nil {
		return err
	}
	reply.ID, reply.Role = "", Assistant
	reply.Calls = named(reply.Calls, s.Messages.Len())
	return s.Put(reply)
}

// reply asks the model, and passes on what it says meanwhile.
func (l *loop) reply(ctx context.Context, r Request) (Message, error) {
	m, ok := l.Model.(Speaker)
	if !ok {
		return l.Model.Reply(ctx, r)
	}
	id, n := messageID(ctx), 0
	return m.Speak(ctx, r, func(text string) error {
		if ctx.Err() != nil { // a model that does not look at it stops here
			return context.Cause(ctx)
		}
		n++
		return stream.Say(ctx, stream.Token{Message: id, Index: n - 1, Text: text})
	})
}

// messageID names the message that a task makes, the same on every entry; empty outside of a run.
func messageID(ctx context.Context) string {
	if t, ok := pawl.TaskFrom(ctx); ok {
		return t.Info().Task
	}
	return ""
}

// whole is what a model reads: its calls as they were made, and a result for every call, since models refuse one without.
// dangling are the calls that had none.
func whole(said []Message) (out []Message, dangling []Call) {
	var open []Call
	settle := func() {
		for _, c := range open {
			out = append(out, Message{Role: ToolRole, Call: c.ID, Tool: c.Tool, Failed: true, Text: "what came of this call is not known"})
		}
		dangling = append(dangling, open...)
	}
	wanted := 0 // place of the message with the open calls
	for _, m := range said {
		if m.Role == ToolRole {
			if i := slices.IndexFunc(open, func(c Call) bool { return c.ID == m.Call }); i >= 0 && m.Args != nil {
				calls := slices.Clone(out[wanted].Calls)
				calls[slices.IndexFunc(calls, func(c Call) bool { return c.ID == m.Call })].Args = m.Args
				out[wanted].Calls = calls
			}
			open = slices.DeleteFunc(open, func(c Call) bool { return c.ID == m.Call })
		} else {
			settle()
			open, wanted = slices.Clone(m.Calls), len(out)
		}
		out = append(out, m)
	}
	settle()
	return out, dangling
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
	said, _ := s.Conversation() // think has read it
	last := said[len(said)-1]
	switch {
	case len(last.Calls) == 0: // a direct tool's result, too
		return pawl.To(finished)
	case turns(said) >= l.Turns:
		return pawl.To(gaveUp)
	}
	return l.act.Each(last.Calls)
}

// turns is how often the model replied to the last message of the user.
func turns(said []Message) int {
	n := 0
	for _, m := range said {
		switch m.Role {
		case User:
			n = 0
		case Assistant:
			n++
		}
	}
	return n
}

// answer is the result of the first direct tool that was called for the last reply; nil: there is none.
func (l *loop) answer(said []Message) (m *Message) {
	for i := len(said) - 1; i >= 0 && said[i].Role == ToolRole; i-- {
		if l.tools[said[i].Tool].direct && !said[i].Failed {
			m = &said[i]
		}
	}
	return m
}

// doCall makes one call and adds its result. A person may have changed the call since the model wanted it, or taken it out.
func (l *loop) doCall(ctx context.Context, s *Chat, c Call) error {
	c, wanted, err := now(s, c)
	if err != nil || !wanted {
		return err
	}
	m := Message{Role: ToolRole, Call: c.ID, Tool: c.Tool}
	t, known := l.tools[c.Tool]
	err = Tell(fmt.Errorf("there is no tool %q; there are %s", c.Tool, l.names()))
	if known {
		var r result
		r, err = t.run(context.WithValue(ctx, callKey{}, making{c, s}), c.Args)
		m.Text, m.Args = r.text, r.args
	}
	if err != nil && !errors.Is(err, pawl.ErrWaiting) {
		if text, tell := l.Tell(c, err); tell {
			m.Text, m.Failed, err = text, true, nil
		}
	}
	if err != nil {
		return fmt.Errorf("tool %q: %w", c.Tool, err)
	}
	return s.Put(m)
}

// now is a call as the conversation has it.
func now(s *Chat, c Call) (Call, bool, error) {
	said, err := s.Conversation()
	for _, m := range slices.Backward(said) {
		if i := slices.IndexFunc(m.Calls, func(o Call) bool { return o.ID == c.ID }); i >= 0 {
			return m.Calls[i], true, err
		}
	}
	return c, false, err
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

func (l *loop) finish(_ context.Context, s *Chat) error {
	said, err := s.Conversation()
	if err != nil {
		return err
	}
	last := &said[len(said)-1]
	if direct := l.answer(said); direct != nil {
		last = direct
	}
	s.Answer.Set(last.Text)
	return nil
}

func (l *loop) giveUp(_ context.Context, s *Chat) error {
	if l.Apology != "" {
		said, err := s.Conversation()
		if err != nil {
			return err
		}
		s.Answer.Set(l.Apology)
		return s.Put(Message{ID: said[len(said)-1].ID, Role: Assistant, Text: l.Apology})
	}
	return pawl.Conclude(fmt.Sprintf("the model was not done after %d turns", l.Turns))
}
