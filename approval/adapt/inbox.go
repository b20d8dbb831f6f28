package adapt

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/approval"
)

const inboxShape = "Agent Inbox"

// InboxAction is an action with its arguments.
type InboxAction struct {
	Action string         `json:"action"`
	Args   map[string]any `json:"args"`
}

// InboxConfig says which answers a request takes.
type InboxConfig struct {
	AllowIgnore  bool `json:"allow_ignore"`
	AllowRespond bool `json:"allow_respond"`
	AllowEdit    bool `json:"allow_edit"`
	AllowAccept  bool `json:"allow_accept"`
}

// Inbox is a request as Agent Inbox shows it.
type Inbox struct {
	Action      InboxAction `json:"action_request"`
	Config      InboxConfig `json:"config"`
	Description string      `json:"description,omitempty"`
}

// ToInbox shows a request.
func ToInbox(r approval.Request) (Inbox, error) {
	call, err := args(inboxShape, r)
	if err != nil {
		return Inbox{}, err
	}
	return Inbox{
		Action:      InboxAction{r.Effect, call.Params},
		Config:      InboxConfig{AllowIgnore: true, AllowRespond: true, AllowEdit: true, AllowAccept: true},
		Description: describe(r, call.Hidden),
	}, nil
}

// FromInbox reads an answer: a list of one. Accept approves, edit changes the call, ignore rejects it, and a response
// rejects it with those words, which reach the graph: words are no permission.
func FromInbox(r approval.Request, answer json.RawMessage) (approval.Choice, error) {
	type response struct {
		Type string          `json:"type"`
		Args json.RawMessage `json:"args"`
	}
	var all []response
	if err := decoded(inboxShape, answer, &all); err != nil {
		return approval.Choice{}, err
	}
	refuse := func(format string, a ...any) (approval.Choice, error) {
		return approval.Choice{}, &Error{Shape: inboxShape, ID: r.ID, Why: fmt.Sprintf(format, a...)}
	}
	if len(all) != 1 {
		return refuse("it is a list of %d, and must be one answer", len(all))
	}
	given := all[0]
	switch given.Type {
	case "ignore":
		return choice(r, approval.VerbReject, "ignored in the inbox"), nil
	case "response":
		var words string
		if err := json.Unmarshal(given.Args, &words); err != nil {
			return refuse("a response is a text")
		}
		return choice(r, approval.VerbReject, words), nil
	case "accept", "edit":
	default:
		return refuse("there is no answer of type %q", given.Type)
	}
	if given.Type == "accept" && (len(given.Args) == 0 || string(given.Args) == "null") {
		return choice(r, approval.VerbApprove, ""), nil
	}
	var action InboxAction
	if err := decoded(inboxShape, given.Args, &action); err != nil {
		return refuse("its arguments cannot be read")
	}
	c, err := edited(inboxShape, r, action.Action, action.Args, "")
	if err == nil && given.Type == "accept" && c.Verb != approval.VerbApprove {
		return refuse("it accepts another call than was shown, first different at %s; a change is an edit", c.Changes[0].Path)
	}
	return c, err
}

// describe says in words what is asked, and what of it nobody may see.
func describe(r approval.Request, hidden []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Allow one call of %s for %s, by node %s of thread %s.", r.Effect, r.Ref, r.Node, r.Thread)
	if len(hidden) > 0 {
		fmt.Fprintf(&b, " Hidden: %s.", strings.Join(hidden, ", "))
	}
	if r.Why != "" {
		fmt.Fprintf(&b, " Asked again: %s.", r.Why)
	}
	for _, c := range r.Diff {
		switch {
		case c.Hidden:
			fmt.Fprintf(&b, " %s changed and is hidden.", c.Path)
		default:
			fmt.Fprintf(&b, " %s: %s, before %s.", c.Path, orNothing(c.New), orNothing(c.Old))
		}
	}
	if !r.Due.IsZero() {
		fmt.Fprintf(&b, " Until %s; nobody's answer is a no.", r.Due.UTC().Format(time.RFC3339))
	}
	return b.String()
}

func orNothing(v json.RawMessage) string {
	if len(v) == 0 {
		return "nothing"
	}
	return string(v)
}
