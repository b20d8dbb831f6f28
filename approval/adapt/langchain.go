package adapt

import (
	"encoding/json"
	"fmt"

	"github.com/pawl-dev/pawl/approval"
)

const langChainShape = "LangChain"

// LangChainAction is a call that waits for a review.
type LangChainAction struct {
	Name        string         `json:"name"`
	Args        map[string]any `json:"args"`
	Description string         `json:"description,omitempty"`
}

// LangChainConfig says which decisions an action takes.
type LangChainConfig struct {
	ActionName       string   `json:"action_name"`
	AllowedDecisions []string `json:"allowed_decisions"`
}

// LangChain is what the human-in-the-loop middleware of LangChain asks: a list of actions, and how each may be reviewed.
type LangChain struct {
	ActionRequests []LangChainAction `json:"action_requests"`
	ReviewConfigs  []LangChainConfig `json:"review_configs"`
}

// ToLangChain shows requests, in their order. Keep them for FromLangChain: the shape has no ids.
func ToLangChain(rs []approval.Request) (LangChain, error) {
	out := LangChain{ActionRequests: []LangChainAction{}, ReviewConfigs: []LangChainConfig{}}
	for _, r := range rs {
		call, err := args(langChainShape, r)
		if err != nil {
			return LangChain{}, err
		}
		out.ActionRequests = append(out.ActionRequests, LangChainAction{r.Effect, call.Params, describe(r, call.Hidden)})
		out.ReviewConfigs = append(out.ReviewConfigs, LangChainConfig{r.Effect, []string{"approve", "edit", "reject"}})
	}
	return out, nil
}

// FromLangChain reads the decisions on the requests that were shown. They are matched by place, so there must be as many as
// requests; the choices carry ids. An edit that names another action is refused, and so is a decision to respond: an outside
// action is not answered in its place.
func FromLangChain(rs []approval.Request, answer json.RawMessage) ([]approval.Choice, error) {
	var given struct {
		Decisions []struct {
			Type    string           `json:"type"`
			Message string           `json:"message"`
			Edited  *LangChainAction `json:"edited_action"`
		} `json:"decisions"`
	}
	if err := decoded(langChainShape, answer, &given); err != nil {
		return nil, err
	}
	if len(given.Decisions) != len(rs) {
		return nil, &Error{Shape: langChainShape, Why: fmt.Sprintf("it has %d decisions on %d requests, so it is not known which is which", len(given.Decisions), len(rs))}
	}
	out := make([]approval.Choice, len(rs))
	for i, d := range given.Decisions {
		r := rs[i]
		var err error
		switch {
		case d.Type == "approve":
			out[i] = choice(r, approval.VerbApprove, d.Message)
		case d.Type == "reject":
			out[i] = choice(r, approval.VerbReject, d.Message)
		case d.Type == "edit" && d.Edited != nil:
			out[i], err = edited(langChainShape, r, d.Edited.Name, d.Edited.Args, d.Message)
		default:
			err = &Error{Shape: langChainShape, ID: r.ID, Why: fmt.Sprintf("decision %d is %q, and a request takes approve, edit (with edited_action) or reject", i+1, d.Type)}
		}
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}
