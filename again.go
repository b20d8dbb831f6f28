package pawl

import (
	"fmt"

	"github.com/pawl-dev/pawl/internal/core"
)

// Again discards what these nodes wrote in the unfinished super-step and runs them again: the way out of a conflict. Where
// one waits it is entered without an answer instead: its open questions are withdrawn, what it still asks is asked anew,
// and its steps, the answers that it has, and what other payloads of a worker came to stay. For Resume.
func Again(nodes ...string) RunOption {
	return func(c *runConfig) { c.again = append(c.again, nodes...) }
}

// again finds the stored results that are to be discarded, and the open questions of nodes that are to ask anew.
func (t *Thread) again(v *view, nodes []string) (ended []*core.Ended, asked []string, err error) {
	for _, n := range nodes {
		found, open := v.pos.EndedIn(n), 0
		for i := range v.Open {
			if q := &v.Open[i]; q.Asker() == n {
				if q.Kind != "" {
					return nil, nil, &VerbError{Verb: VerbResume, Thread: t.id, Status: v.Status,
						Advice: fmt.Sprintf("node %q waits for an %s (%s), which is decided, not asked again", n, q.Kind, q.ID)}
				}
				asked, open = append(asked, q.ID), open+1
			}
		}
		if len(found)+open == 0 {
			return nil, nil, &NotFoundError{What: "node", ID: n, Thread: t.id,
				Hint: "Again names a node that ended in the unfinished super-step, or waits in it, in a child as child|node"}
		}
		if open == 0 {
			ended = append(ended, found...)
		}
	}
	if v.Run != nil && v.Status == Failed && v.Run.Cause == CauseConflict && len(nodes) == 0 {
		return nil, nil, &VerbError{Verb: VerbResume, Thread: t.id, Status: Failed, Cause: CauseConflict,
			Advice: "the same results would conflict again: resume with pawl.Again and the nodes that should write again (" + v.Run.Error + ")"}
	}
	return ended, asked, nil
}
