package pawl

import (
	"encoding/json"

	"github.com/pawl-dev/pawl/internal/core"
)

// AnswerAll refuses a Resume whose answers leave a question open that people answer, in children too: none of them is
// taken. It is for who decides a set, such as all calls of an agent's turn, when a part of it decided would be wrong.
func AnswerAll() RunOption { return func(c *runConfig) { c.all = true } }

// leftOpen refuses answers that are not all. What is decided elsewhere, such as an approval, is no part of the set, and a
// submitted answer has its slot.
func (v *view) leftOpen(thread string, answers map[string]json.RawMessage) error {
	e := &AnswerError{Thread: thread, Reason: ReasonPartial}
	for _, q := range v.Open {
		if _, answered := answers[q.ID]; !answered && q.Kind == "" && q.State == core.QuestionOpen {
			e.Open = append(e.Open, q.ID)
		}
	}
	if len(e.Open) > 0 {
		return e
	}
	return nil
}
