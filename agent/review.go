package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl"
)

// Verdict is what a person says of a call.
type Verdict string

// The verdicts. Edit makes the call with other arguments; Reject has the model told that it was not made.
const (
	Approve Verdict = "approve"
	Edit    Verdict = "edit"
	Reject  Verdict = "reject"
)

// Decision answers the question whether a call may be made.
type Decision struct {
	Verdict Verdict         `json:"verdict"`
	Args    json.RawMessage `json:"args,omitempty"` // to edit: all of them
	Say     string          `json:"say,omitempty"`  // to reject: what the model is told
}

// Reviewed makes a tool whose calls a person decides on first: each call is a question of its own, named "review" and the
// tool, with the [Call] as its body and a [Decision] as its answer. Without verdicts all are allowed. Another verdict, and
// arguments that do not fit the tool, are refused to the person; a call of the model that does not fit is not asked about.
// For an effect that must not happen without a yes, an effect with Approve is the stronger thing.
func (t Tool) Reviewed(verdicts ...Verdict) Tool {
	if len(verdicts) == 0 {
		verdicts = []Verdict{Approve, Edit, Reject}
	}
	in := pawl.Interrupt[Call, Decision]{Name: "review " + t.Name, Check: t.decidable(verdicts)}
	call := t.run
	t.uses = append(slices.Clip(t.uses), in)
	t.run = func(ctx context.Context, args json.RawMessage) (result, error) {
		if err := t.fits(args); err != nil {
			return result{}, err
		}
		c, _ := CallFrom(ctx)
		d, err := in.Ask(ctx, c)
		switch {
		case err != nil:
			return result{}, err
		case d.Verdict == Reject && d.Say == "":
			return result{}, Tell(errors.New("a person rejected the call: it was not made"))
		case d.Verdict == Reject:
			return result{}, Tell(errors.New(d.Say))
		case d.Verdict == Edit:
			r, err := call(ctx, d.Args)
			r.args = d.Args
			return r, err
		}
		return call(ctx, args)
	}
	return t
}

// decidable is the rule of the question.
func (t Tool) decidable(verdicts []Verdict) func(Call, Decision) error {
	return func(_ Call, d Decision) error {
		switch {
		case !slices.Contains(verdicts, d.Verdict):
			return fmt.Errorf("the verdict %q is none of %q", d.Verdict, verdicts)
		case d.Verdict == Edit:
			return t.fits(d.Args)
		case len(d.Args) > 0:
			return fmt.Errorf("the verdict %q takes no arguments; to change them say %q", d.Verdict, Edit)
		}
		return nil
	}
}
