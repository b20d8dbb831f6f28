package cli

import (
	"context"
	"errors"
	"fmt"
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
	c := p.group("audit", "The trail: who did what to threads, who asked, who decided, what was sent", `  pawl audit list order-17 -o jsonl
  pawl audit show pay-0001                who is behind a receipt
  pawl audit verify --anchor anchor.json  exit 7 when it was changed
  pawl audit export trail.jsonl           for pawl-verify, which needs no database`)
	c.AddCommand(p.auditList(), p.auditShow(), p.auditVerify(), p.auditExport())
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
		rows = append(rows, []string{r.At.UTC().Format(time.RFC3339), r.Action, r.Effect + " " + r.Ref, r.After, r.who(), short(r.Reason, widest)})
	}
	g.Table([]string{"AT", "ACTION", "EFFECT", "STATE", "BY", "REASON"}, rows...)
}

func (r *auditView) who() string {
	switch {
	case r.Actor.ID == "":
		return "the engine"
	case r.Actor.Kind != "":
		return r.Actor.ID + " (" + r.Actor.Kind + ")"
	}
	return r.Actor.ID
}

const aboutAuditShow = `Everything behind a receipt or an operation, over all threads: who asked, who was shown which view of it, who decided, what
was sent and what came back. A receipt is named as effects show names it, an operation by its key or eight digits of it.

--anchor prints the anchor of the tenant's log instead, once what is pending has its place in it. Kept where whoever can
write to the database cannot, it shows later that the log was not cut off or written anew.`

func (p *Program) auditShow() *cobra.Command {
	var anchor bool
	c := &cobra.Command{
		Use: "show RECEIPT|OPERATION", Short: "The trail behind a receipt or an operation; with --anchor what to keep elsewhere", Long: aboutAuditShow,
		Args:    p.takesUpTo(1, "a receipt or an operation's key"),
		Example: "  pawl audit show pay-0001\n  pawl audit show 5d41402a -o json\n  pawl audit show --anchor >> /mnt/elsewhere/anchors.json",
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			if anchor == (len(args) == 1) {
				return p.misuse(cmd, errors.New("name a receipt or an operation, or give --anchor"))
			}
			return p.within(ctx, func(h *home) error {
				if anchor {
					a, err := p.anchor(ctx, h)
					if err != nil {
						return err
					}
					return p.Emit(a, func(g *Page) { g.Line("%s", anchorLine(a)) })
				}
				rows, err := p.behind(ctx, h, args[0])
				if err != nil {
					return err
				}
				list := viewOfTrail(rows)
				return p.Emit(list, func(g *Page) { tableBehind(g, list) })
			})
		},
	}
	c.Flags().BoolVar(&anchor, "anchor", false, "print the anchor of the log")
	return c
}

// behind finds the rows behind a receipt, or of an operation.
func (p *Program) behind(ctx context.Context, h *home, id string) ([]audit.Row, error) {
	if err := h.eng.Allowed(ctx, pawl.VerbInfo{Verb: pawl.VerbRead, Question: id}); err != nil {
		return nil, err
	}
	rows, err := audit.Trail(ctx, h.DB, p.tenant, id)
	if !errors.Is(err, pawl.ErrNotFound) {
		return rows, err
	}
	if rows, err = audit.Of(ctx, h.DB, p.tenant, id, 0); err != nil || len(rows) > 0 {
		return rows, err
	}
	op, err := p.operation(ctx, h, id)
	if errors.Is(err, pawl.ErrNotFound) {
		return nil, &pawl.NotFoundError{What: "receipt or operation", ID: id, Hint: p.Name + " effects list shows both"}
	}
	if err != nil {
		return nil, err
	}
	return audit.Of(ctx, h.DB, p.tenant, op.Key, 0)
}

func tableBehind(g *Page, list []auditView) {
	var rows [][]string
	for i := range list {
		r := &list[i]
		rows = append(rows, []string{
			r.At.UTC().Format(time.RFC3339), r.Thread + " " + fmt.Sprint(r.N), r.Action, r.After, r.who(), orNone(short(r.View, 13)), orNone(short(r.Receipt, 20)), short(r.Reason, widest),
		})
	}
	g.Line("%s %s, operation %s, %d entries", list[0].Effect, list[0].Ref, list[0].Operation, len(list))
	g.Table([]string{"AT", "THREAD AND ROW", "ACTION", "STATE", "BY", "VIEW", "RECEIPT", "REASON"}, rows...)
}

func orNone(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
