package stream

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/pawl-dev/pawl"
)

// Token is a piece of a message that is being made.
type Token struct {
	Message string `json:"message"` // id of the message; of one without an id that of the task
	Index   int    `json:"index"`   // from 0
	Text    string `json:"text"`    // what it adds
}

const (
	tokenEvent   = "pawl.token"
	messageEvent = "pawl.message"
)

// Say tells a token from inside a node, as [pawl.Emit] tells an event. The whole message, written under that id, is not
// shown again to those who were shown all of its tokens.
func Say(ctx context.Context, t Token) error { return pawl.Emit(ctx, tokenEvent, t) }

// NoIDError: a message was pushed without an id, by which its write would be told apart from another one. Nothing was told.
type NoIDError struct {
	Node string // empty: no running task
}

// Error says what to give it.
func (e *NoIDError) Error() string {
	return fmt.Sprintf("node %q: a message that is pushed needs an id, the same one each time the node runs, such as "+
		"pawl.TaskKey(ctx)+\"-1\"; nothing was told", e.Node)
}

// TryAgain tells [pawl.Retryable] that it would be refused again.
func (e *NoIDError) TryAgain() bool { return false }

// Push tells a whole message from inside a node, before its write is merged: an object with an id, which m is encoded to.
// Like [pawl.Emit] it stores nothing; whoever writes the message under that id, too, has it shown one time. A message that
// is pushed again is shown again where it changed.
func Push(ctx context.Context, m any) error {
	doc, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("a message cannot be encoded as JSON: %w; nothing was told", err)
	}
	if idOf(doc) == "" {
		refused := &NoIDError{}
		if t, ok := pawl.TaskFrom(ctx); ok {
			refused.Node = t.Info().Node
		}
		return refused
	}
	return pawl.Emit(ctx, messageEvent, json.RawMessage(doc))
}

// telling is how much of a message was shown. A whole one, or one that was in the state, is not shown again.
type telling struct {
	whole bool
	try   int
	next  int // index of the next token; -1: some were missed

	pushed []byte // as it was shown before its write was
	task   string // that wrote it
}

func (p *projection) said() {
	switch e := p.event; e.Name {
	case tokenEvent:
		p.token()
	case messageEvent:
		p.pushed()
	default:
		p.show(Custom, Said{Name: e.Name, Value: e.Data, Node: e.Node, Task: e.Task, Try: e.Try})
	}
}

// pushed shows a message that its node has not written yet. A watcher may be told of the write first.
func (p *projection) pushed() {
	e := p.event
	id := idOf(e.Data)
	if at := p.told[id]; at != nil && (at.task == e.Task || bytes.Equal(at.pushed, e.Data)) {
		return
	}
	p.told[id] = &telling{whole: true, pushed: e.Data}
	p.show(Messages, Message{ID: id, Node: e.Node, Task: e.Task, Try: e.Try, Whole: e.Data})
}

func (p *projection) token() {
	e := p.event
	var t Token
	if json.Unmarshal(e.Data, &t) != nil {
		return
	}
	at := p.told[t.Message]
	if at == nil || at.try != e.Try && !at.whole {
		at = &telling{try: e.Try}
		p.told[t.Message] = at
	}
	if at.next == t.Index {
		at.next++
	} else {
		at.next = -1
	}
	if p.event.Path == "" || p.view.Children {
		p.show(Messages, Message{ID: t.Message, Node: e.Node, Task: e.Task, Try: e.Try, Token: &t})
	}
}

// lost notes that nobody knows what was said.
func (p *projection) lost(n int) {
	for _, at := range p.told {
		at.next = -1
	}
	p.show(Custom, Said{Lost: n})
}

// messages shows the messages that a task wrote, those with an id once.
func (p *projection) messages(doc json.RawMessage) {
	for _, m := range split(doc) {
		id := idOf(m)
		if id == "" && p.told[p.event.Task] != nil {
			id = p.event.Task // its tokens were said under that
		}
		if at := p.told[id]; id != "" && at != nil && (at.whole || at.next > 0) {
			at.whole, at.task = true, p.event.Task
			p.parts++
			continue
		}
		if id != "" {
			p.told[id] = &telling{whole: true, task: p.event.Task}
		}
		p.show(Messages, Message{ID: id, Node: p.event.Node, Task: p.event.Task, Whole: m})
	}
}

// known notes the messages of a state that no task of the run wrote: its input, and what was there before.
func (p *projection) known(s *pawl.Snapshot) {
	path := p.event.Path
	news := p.began[path]
	if p.began[path] = false; news && p.event.Source == "loop" {
		return
	}
	var state map[string]json.RawMessage
	if json.Unmarshal(s.Values, &state) != nil {
		return
	}
	for _, m := range split(state[p.channel]) {
		if id := idOf(m); id != "" && p.told[id] == nil {
			p.told[id] = &telling{whole: true}
		}
	}
	for _, task := range s.Tasks {
		for _, child := range task.Children {
			p.known(child)
		}
	}
}

// split finds the messages in what a channel holds: a list of them, or one.
func split(doc json.RawMessage) []json.RawMessage {
	var list []json.RawMessage
	if json.Unmarshal(doc, &list) == nil {
		return list
	}
	if idOf(doc) != "" {
		return []json.RawMessage{doc}
	}
	return nil
}

func idOf(doc json.RawMessage) string {
	var m struct {
		ID string `json:"id"`
	}
	if json.Unmarshal(doc, &m) != nil {
		return ""
	}
	return m.ID
}
