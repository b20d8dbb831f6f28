package agent

import (
	"context"
	"encoding/json"
	"fmt"
)

// Script is a model that says its lines, for tests and examples: its n-th reply in a conversation is the n-th line,
// however often it is asked for it, in whatever process.
type Script []Message

// Reply returns the line that is due, or an error where the script has ended.
func (s Script) Reply(_ context.Context, r Request) (Message, error) {
	n := 0
	for _, m := range r.Messages {
		if m.Role == Assistant {
			n++
		}
	}
	if n >= len(s) {
		return Message{}, fmt.Errorf("the script has %d lines, and line %d is wanted", len(s), n+1)
	}
	return s[n], nil
}

// Wants is a line of a script that calls a tool. args is marshalled; it must be possible.
func Wants(tool string, args any) Message {
	doc, err := json.Marshal(args)
	if err != nil { // the tool tells what is wrong with it
		doc, _ = json.Marshal(err.Error())
	}
	return Message{Calls: []Call{{Tool: tool, Args: doc}}}
}

// Answers is a line of a script that ends it.
func Answers(text string) Message { return Message{Text: text} }
