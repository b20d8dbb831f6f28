package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
)

// threadView is what threads show prints: the thread's state, and what a resume would do.
type threadView struct {
	*pawl.ThreadState
	Waiting   []pawl.Question `json:"waiting"`
	RunsAgain []again         `json:"runs_again"`
	RunsFirst []string        `json:"runs_first"`
	Actions   []string        `json:"actions"` // commands that are worth trying now
}

// again is a node that a resume enters again, from its first line.
type again struct {
	Node     string   `json:"node"`
	Path     string   `json:"path"`
	Because  string   `json:"because"`
	Recorded []string `json:"recorded"` // steps whose results are kept: they are not called again
}

func (p *Program) threadsShow() *cobra.Command {
	return &cobra.Command{
		Use: "show THREAD", Short: "Where a thread stands, what it asks and what will run again", Args: p.takes(1, "a thread's id"),
		Example:           "  pawl threads show order-17\n  pawl threads show ord -o json",
		ValidArgsFunction: p.completeThreads,
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.within(cmd.Context(), func(h *home) error {
				_, state, err := p.thread(cmd.Context(), h.eng, args[0])
				if err != nil {
					return err
				}
				v := p.viewOf(state)
				return p.Emit(v, func(g *Page) { v.print(g) })
			})
		},
	}
}

func (p *Program) viewOf(s *pawl.ThreadState) *threadView {
	v := &threadView{ThreadState: s, Waiting: s.Waiting, RunsAgain: []again{}, RunsFirst: []string{}, Actions: []string{}}
	if v.Waiting == nil {
		v.Waiting = []pawl.Question{}
	}
	for _, q := range v.Waiting {
		v.Actions = append(v.Actions, p.actionOn(q))
	}
	if p.serves(s.Graph) {
		for _, verb := range s.Legal {
			if verb == pawl.VerbResume || verb == pawl.VerbRetry {
				v.Actions = append(v.Actions, p.Command("runs %s %s", verb, ShellWord(s.Thread)))
			}
		}
	}
	v.Actions = append(v.Actions, p.Command("threads history %s", ShellWord(s.Thread)))
	if s.Head == nil || s.Status == pawl.Done || s.Status == pawl.Cancelled || s.Cause == pawl.CauseConcluded {
		return v
	}
	for _, t := range s.Head.Tasks {
		switch why := entered(s, t); {
		case t.State == "done", t.Kind == "ask":
		case why == "":
			v.RunsFirst = append(v.RunsFirst, t.Node)
		default:
			v.RunsAgain = append(v.RunsAgain, again{t.Node, t.Path, why, append([]string{}, t.Steps...)})
		}
	}
	return v
}

// actionOn is the command that a person wants for an open question.
func (p *Program) actionOn(q pawl.Question) string {
	switch q.Kind {
	case "":
		return p.Command("answer %s VALUE --digest %s", q.ID[:12], q.Digest)
	case kindApproval:
		return p.Command("approvals show %s", q.ID[:12])
	}
	return p.Command("effects list --thread %s", ShellWord(q.Thread))
}

// The kinds of waits that are decided at a desk.
const (
	kindApproval = "approval"
	kindDoubt    = "doubt"
)

// entered says why a task that has not ended was entered before, as far as the database knows.
func entered(s *pawl.ThreadState, t pawl.TaskState) string {
	switch {
	case t.State == "waiting":
		return "it waits for an answer"
	case t.State == "failed":
		return "it failed"
	case len(t.Questions) > 0:
		return "its question is settled"
	case s.Status == pawl.Crashed:
		return "its process died"
	case len(t.Steps) > 0:
		return "it has recorded steps"
	}
	return ""
}

func (v *threadView) print(g *Page) {
	status := string(v.Status)
	verbs := make([]string, len(v.Legal))
	for i, l := range v.Legal {
		verbs[i] = string(l)
	}
	rows := [][]string{{"thread", v.Thread}, {"graph", v.Graph}, {"status", status}}
	if v.Cause != "" {
		rows = append(rows, []string{"cause", string(v.Cause)})
	}
	if v.Reason != "" {
		rows = append(rows, []string{"reason", v.Reason})
	}
	rows = append(rows, []string{"changed", g.Ago(v.Updated)}, []string{"run", v.Run}, []string{"legal now", strings.Join(verbs, ", ")})
	if v.Head != nil {
		rows = append(rows, []string{"values", short(compact(v.Head.Values), 4*widest)})
	}
	g.Table(nil, rows...)
	if v.Stranded {
		g.Line("\nVerbs that run nodes need the program that has graph %q; this one reads and answers.", v.Graph)
	}
	printQuestions(g, v.Waiting)
	v.printNext(g)
}

func printQuestions(g *Page, open []pawl.Question) {
	for _, q := range open {
		what := map[string]string{"": "Question", kindApproval: "Approval of", kindDoubt: "Outcome unknown:"}[q.Kind]
		g.Line("\n%s %s (%s), node %s, asked %s, expires %s", what, q.Name, q.ID, q.Node, g.Ago(q.Asked), expiry(g, q))
		g.Line("  %s", short(compact(q.Body), 16*widest))
		g.Line("  digest %s", q.Digest)
	}
}

func expiry(g *Page, q pawl.Question) string {
	if q.Due.IsZero() {
		return "never"
	}
	return g.Ago(q.Due)
}

func (v *threadView) printNext(g *Page) {
	if len(v.RunsAgain)+len(v.RunsFirst) > 0 {
		g.Line("\nA resume runs:")
	}
	for _, a := range v.RunsAgain {
		kept := "nothing recorded"
		if len(a.Recorded) > 0 {
			kept = "recorded and not called again: " + strings.Join(a.Recorded, ", ")
		}
		g.Line("  %s again, from its first line, because %s (%s)", a.Node, a.Because, kept)
	}
	for _, n := range v.RunsFirst {
		g.Line("  %s for the first time", n)
	}
	g.Line("\nTry:")
	for _, a := range v.Actions {
		g.Line("  %s", a)
	}
}
