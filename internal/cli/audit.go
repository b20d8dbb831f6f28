package cli

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
)

// auditView is a line of the trail as it is printed.
type auditView struct {
	Thread    string `json:"thread"`
	N         int64  `json:"n"`
	Operation string `json:"operation,omitempty"`
	audit.Row
}

func viewOfTrail(rows []audit.Row) []auditView {
	out := make([]auditView, len(rows))
	for i, r := range rows {
		out[i] = auditView{Thread: r.Thread, N: r.N, Operation: r.Operation, Row: r}
	}
	return out
}

func (p *Program) auditGroup() *cobra.Command {
	c := p.group("audit", "The trail of outside actions: who asked, who decided, what was sent", "  pawl audit list order-17 -o jsonl")
	c.AddCommand(p.auditList())
	return c
}

func (p *Program) auditList() *cobra.Command {
	var after int64
	var limit int
	c := &cobra.Command{
		Use: "list THREAD", Aliases: []string{"ls"}, Short: "The trail of a thread, also of one that was deleted", Args: p.takes(1, "a thread's whole id"),
		Example:           "  pawl audit list order-17\n  pawl audit list order-17 -o jsonl",
		ValidArgsFunction: p.completeThreads,
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.within(cmd.Context(), func(h *home) error {
				if err := h.eng.Allowed(cmd.Context(), pawl.VerbInfo{Verb: pawl.VerbRead, Thread: args[0]}); err != nil {
					return err
				}
				rows, err := audit.List(cmd.Context(), h.DB, p.tenant, args[0], after, limit)
				if err != nil {
					return err
				}
				list := viewOfTrail(rows)
				return p.Emit(list, func(g *Page) { tableOfTrail(g, list) })
			})
		},
	}
	c.Flags().Int64Var(&after, "after", 0, "go on after this `number`")
	c.Flags().IntVar(&limit, "limit", 0, "at most so many; 0: all")
	return c
}

func tableOfTrail(g *Page, list []auditView) {
	if len(list) == 0 {
		g.Line("no entries")
		return
	}
	var rows [][]string
	for _, r := range list {
		who := r.Actor.ID
		if who == "" {
			who = "the engine"
		} else if r.Actor.Kind != "" {
			who += " (" + r.Actor.Kind + ")"
		}
		rows = append(rows, []string{r.At.UTC().Format(time.RFC3339), r.Action, r.Effect + " " + r.Ref, r.After, who, short(r.Reason, widest)})
	}
	g.Table([]string{"AT", "ACTION", "EFFECT", "STATE", "BY", "REASON"}, rows...)
}
