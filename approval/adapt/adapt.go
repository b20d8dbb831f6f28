// Package adapt shows requests in the shapes of other programs' inboxes, and reads their answers back: Agent Inbox, the
// human-in-the-loop middleware of LangChain, and the interrupts of AG-UI.
//
// It is pure: it asks nobody and decides nothing. What it shows is the redacted view. What it reads back are choices for a
// desk, each by the id of its request and bound to the digest of the call that was shown, however the shape matches answers.
// Types are kept: a number that a form sends back as text becomes a number again, or is refused. What cannot be mapped is
// refused as a whole, as [*Error], and then nothing is to be decided.
package adapt

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/approval"
)

// Error: an answer, or a request, has no meaning in the other shape. Nothing was decided.
type Error struct {
	Shape string // "Agent Inbox", "LangChain", "AG-UI"
	ID    string // of the request, where one is meant
	Why   string
}

// Error says what was refused.
func (e *Error) Error() string {
	about := "the answer"
	if e.ID != "" {
		about = "the answer to " + e.ID
	}
	return fmt.Sprintf("approval: %s (%s) is refused: %s; nothing was decided", about, e.Shape, e.Why)
}

// shown is what people see of a call.
type shown struct {
	Params map[string]any `json:"params"`
	Hidden []string       `json:"hidden"`
}

// args are the visible parameters of a request's call.
func args(shape string, r approval.Request) (shown, error) {
	var s shown
	d := json.NewDecoder(bytes.NewReader(r.View))
	d.UseNumber()
	if err := d.Decode(&s); err != nil || s.Params == nil {
		return s, &Error{Shape: shape, ID: r.ID, Why: "the parameters of " + r.Effect + " are no object with names"}
	}
	return s, nil
}

func choice(r approval.Request, verb pawl.Verb, reason string) approval.Choice {
	return approval.Choice{ID: r.ID, Verb: verb, Decision: approval.Decision{Digest: r.Call, Reason: reason}}
}

// edited is the choice to change a call to what a form sent back: the visible parameters, some of them changed.
func edited(shape string, r approval.Request, name string, given map[string]any, reason string) (approval.Choice, error) {
	fail := func(format string, a ...any) (approval.Choice, error) {
		return approval.Choice{}, &Error{Shape: shape, ID: r.ID, Why: fmt.Sprintf(format, a...)}
	}
	if name != r.Effect {
		return fail("it would make %q of %q, which is another outside action with rules of its own", name, r.Effect)
	}
	was, err := args(shape, r)
	if err != nil {
		return approval.Choice{}, err
	}
	if given == nil {
		return fail("it has no parameters")
	}
	now, err := typed("", was.Params, given)
	if err != nil {
		return fail("%v", err)
	}
	old, err := json.Marshal(was.Params)
	if err != nil {
		return fail("%v", err)
	}
	doc, err := json.Marshal(now)
	if err != nil {
		return fail("%v", err)
	}
	c := choice(r, approval.VerbEdit, reason)
	if c.Changes, err = approval.Diff(old, doc); err != nil {
		return fail("%v", err)
	}
	if len(c.Changes) == 0 {
		c.Verb = approval.VerbApprove
	}
	return c, nil
}

// typed gives what a form sent back the types of what it was shown.
func typed(path string, was, now any) (any, error) {
	switch old := was.(type) {
	case map[string]any:
		if given, ok := now.(map[string]any); ok {
			out := map[string]any{}
			for name, v := range given {
				var err error
				if out[name], err = typed(path+"/"+name, old[name], v); err != nil {
					return nil, err
				}
			}
			return out, nil
		}
	case []any:
		if given, ok := now.([]any); ok {
			out := make([]any, len(given))
			for i, v := range given {
				var like any
				if len(old) > 0 {
					like = old[min(i, len(old)-1)]
				}
				var err error
				if out[i], err = typed(fmt.Sprintf("%s/%d", path, i), like, v); err != nil {
					return nil, err
				}
			}
			return out, nil
		}
	}
	text, isText := now.(string)
	if _, same := was.(string); !isText || same || was == nil {
		return now, nil
	}
	var v any
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil || d.More() || kindOf(v) != kindOf(was) {
		return nil, fmt.Errorf("%s was %s and came back as the text %q", path, kindOf(was), text)
	}
	return v, nil
}

func kindOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "a truth value"
	case json.Number:
		return "a number"
	case string:
		return "a text"
	case []any:
		return "a list"
	}
	return "an object"
}

// decoded reads an answer strictly, with numbers as they are written.
func decoded(shape string, doc []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(doc))
	d.UseNumber()
	if err := d.Decode(into); err != nil {
		return &Error{Shape: shape, Why: "it cannot be read: " + err.Error()}
	}
	if d.More() {
		return &Error{Shape: shape, Why: "it is more than one document"}
	}
	return nil
}
