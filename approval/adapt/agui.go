package adapt

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/approval"
)

const aguiShape = "AG-UI"

// AGUI is a request as an interrupt of AG-UI.
type AGUI struct {
	ID             string          `json:"id"`
	Reason         string          `json:"reason"` // "confirmation"
	Message        string          `json:"message"`
	ResponseSchema json.RawMessage `json:"responseSchema"`
	ExpiresAt      string          `json:"expiresAt,omitempty"` // RFC 3339
	Metadata       AGUIMetadata    `json:"metadata"`
}

// AGUIMetadata is what is to be allowed.
type AGUIMetadata struct {
	Effect string            `json:"effect"`
	Ref    string            `json:"ref"`
	Args   map[string]any    `json:"args"`
	Hidden []string          `json:"hidden,omitempty"`
	Digest string            `json:"digest"` // of the exact call; an answer may repeat it
	Diff   []approval.Change `json:"diff,omitempty"`
}

// aguiAnswer is the schema of an answer's payload.
const aguiAnswer = `{"type":"object","required":["decision"],"additionalProperties":false,"properties":{` +
	`"decision":{"enum":["approve","edit","reject"]},"reason":{"type":"string"},"digest":{"type":"string"},"args":{"type":"object"}}}`

// ToAGUI shows requests.
func ToAGUI(rs []approval.Request) ([]AGUI, error) {
	out := []AGUI{}
	for _, r := range rs {
		call, err := args(aguiShape, r)
		if err != nil {
			return nil, err
		}
		i := AGUI{
			ID: r.ID, Reason: "confirmation", Message: describe(r, call.Hidden), ResponseSchema: json.RawMessage(aguiAnswer),
			Metadata: AGUIMetadata{Effect: r.Effect, Ref: r.Ref, Args: call.Params, Hidden: call.Hidden, Digest: r.Call, Diff: r.Diff},
		}
		if !r.Due.IsZero() {
			i.ExpiresAt = r.Due.UTC().Format(time.RFC3339Nano)
		}
		out = append(out, i)
	}
	return out, nil
}

// FromAGUI reads the resume entries that answer requests. An entry that is cancelled rejects. An unknown id and one that is
// answered twice are refused; a request without an entry stays as it is.
func FromAGUI(rs []approval.Request, resume json.RawMessage) ([]approval.Choice, error) {
	var entries []struct {
		ID      string          `json:"interruptId"`
		Status  string          `json:"status"`
		Payload json.RawMessage `json:"payload"`
	}
	if err := decoded(aguiShape, resume, &entries); err != nil {
		return nil, err
	}
	open := map[string]approval.Request{}
	for _, r := range rs {
		open[r.ID] = r
	}
	var out []approval.Choice
	for _, e := range entries {
		r, ok := open[e.ID]
		if !ok {
			return nil, &Error{Shape: aguiShape, ID: e.ID, Why: "it is none of the requests that were shown, or is answered twice"}
		}
		delete(open, e.ID)
		c, err := fromAGUI(r, e.Status, e.Payload)
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}

func fromAGUI(r approval.Request, status string, payload json.RawMessage) (approval.Choice, error) {
	refuse := func(format string, a ...any) (approval.Choice, error) {
		return approval.Choice{}, &Error{Shape: aguiShape, ID: r.ID, Why: fmt.Sprintf(format, a...)}
	}
	switch status {
	case "cancelled":
		return choice(r, approval.VerbReject, "cancelled by the user"), nil
	case "resolved":
	default:
		return refuse("there is no status %q", status)
	}
	var p struct {
		Decision string         `json:"decision"`
		Reason   string         `json:"reason"`
		Digest   string         `json:"digest"`
		Args     map[string]any `json:"args"`
	}
	if len(payload) == 0 {
		return refuse("it is resolved without saying how")
	}
	if err := decoded(aguiShape, payload, &p); err != nil {
		return refuse("its payload cannot be read")
	}
	switch {
	case p.Digest != "" && p.Digest != r.Call:
		return refuse("it is for the call %s, and the request is for %s", p.Digest, r.Call)
	case p.Decision == "approve" && p.Args == nil:
		return choice(r, approval.VerbApprove, p.Reason), nil
	case p.Decision == "reject":
		return choice(r, approval.VerbReject, p.Reason), nil
	case p.Decision == "edit":
		return edited(aguiShape, r, r.Effect, p.Args, p.Reason)
	}
	return refuse("its decision is %q, and a request takes approve (without args), edit or reject", p.Decision)
}
