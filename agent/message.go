package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
)

// Role says who speaks.
type Role string

// The roles.
const (
	System    Role = "system"
	User      Role = "user"
	Assistant Role = "assistant" // the model
	ToolRole  Role = "tool"      // the result of a call

	Removed Role = "removed" // no turn: takes out the message with its id, see Remove
	Cleared Role = "cleared" // no turn: takes out all before it, see RemoveAll
)

// Message is one turn of a conversation.
type Message struct {
	ID     string `json:"id,omitempty"` // empty: by its place, see Conversation
	Role   Role   `json:"role"`
	Text   string `json:"text,omitempty"`
	Calls  []Call `json:"calls,omitempty"`  // of the model: what it wants to have done
	Call   string `json:"call,omitempty"`   // of a tool: the id of the call that this is the result of
	Tool   string `json:"tool,omitempty"`   // of a tool: its name
	Failed bool   `json:"failed,omitempty"` // of a tool: the text says why

	Args json.RawMessage `json:"args,omitempty"` // of a tool: what was called, where a person changed it
}

// Call is one use of a tool that the model wants.
type Call struct {
	ID   string          `json:"id"` // unique in the conversation; where the model gives none, the loop does
	Tool string          `json:"tool"`
	Args json.RawMessage `json:"args,omitempty"` // an object
}

// Says makes a message of the user.
func Says(text string) Message { return Message{Role: User, Text: text} }

// OfText is Says. It has a [pawl.Append] of messages read a text, alone or in a list, as a message of the user.
func (Message) OfText(text string) Message { return Says(text) }

// HistoryError: calls in the conversation have no result, and Options.Strict asks for one of each. The model was not asked.
type HistoryError struct{ Calls []Call }

// Error names the calls, and what to do.
func (e *HistoryError) Error() string {
	names := make([]string, len(e.Calls))
	for i, c := range e.Calls {
		names[i] = fmt.Sprintf("%s (%s)", c.ID, c.Tool)
	}
	return fmt.Sprintf("the conversation has calls without a result: %s; the model was not asked; edit the thread and put a tool's message for "+
		"each, or take the message with the calls out", strings.Join(names, ", "))
}

// TryAgain tells [pawl.Retryable] that it would be refused again.
func (e *HistoryError) TryAgain() bool { return false }

// Request is what a model replies to.
type Request struct {
	Messages []Message // the instructions first, where there are any
	Tools    []Spec
}

// Model is a chat model. Reply returns the model's next message, with calls or with the answer; its role is set by the
// loop. It must be safe for concurrent use. Retries belong to the node that calls it, see Options.Think.
type Model interface {
	Reply(ctx context.Context, r Request) (Message, error)
}

// Speaker is a Model that says its reply as it makes it. Speak is Reply that hands each piece of the text to say, in order,
// before it returns the whole. Pieces are no facts: whoever streams the run sees them, nothing keeps them. An error of say
// ends the reply.
type Speaker interface {
	Model
	Speak(ctx context.Context, r Request, say func(text string) error) (Message, error)
}

// ModelFunc is a function that is a model.
type ModelFunc func(ctx context.Context, r Request) (Message, error)

// Reply calls the function.
func (f ModelFunc) Reply(ctx context.Context, r Request) (Message, error) { return f(ctx, r) }
