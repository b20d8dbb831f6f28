package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/approval"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/effect"
)

func (p *Program) threadsState() *cobra.Command {
	var at string
	c := &cobra.Command{
		Use: "state THREAD", Short: "The values of a thread's state, now or at a checkpoint", Args: p.takes(1, "a thread's id"),
		Example:           "  pawl threads state order-17\n  pawl threads state order-17 --at 0198c2… -o json",
		ValidArgsFunction: p.completeThreads,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			return p.within(ctx, func(h *home) error {
				t, state, err := p.thread(ctx, h.eng, args[0])
				if err != nil {
					return err
				}
				snap := state.Head
				if at != "" {
					id, err := checkpoint(ctx, t, at)
					if err != nil {
						return err
					}
					if snap, err = t.Snapshot(ctx, id); err != nil {
						return err
					}
				}
				if snap == nil {
					return &pawl.NotFoundError{What: "checkpoint", ID: "head", Thread: t.ID(), Hint: "nothing was saved of this run yet"}
				}
				return p.Emit(snap, func(g *Page) { tableOfState(g, snap) })
			})
		},
	}
	c.Flags().StringVar(&at, "at", "", "at this `checkpoint`, by its id or the start or end of it")
	return c
}

func tableOfState(g *Page, s *pawl.Snapshot) {
	g.Line("checkpoint %s, step %d, made %s", s.Checkpoint, s.Step, g.Ago(s.At))
	d := json.NewDecoder(bytes.NewReader(s.Values))
	rows := [][]string{}
	for d.More() {
		name, err := d.Token()
		if _, open := name.(json.Delim); open {
			continue
		}
		var val json.RawMessage
		if err == nil {
			err = d.Decode(&val)
		}
		if err != nil {
			break
		}
		rows = append(rows, []string{fmt.Sprint(name), short(compact(val), 8*widest)})
	}
	if len(rows) == 0 {
		g.Line("no channel has a value")
		return
	}
	g.Table([]string{"CHANNEL", "VALUE"}, rows...)
}

// exported is all that the database knows of a thread. It holds values in the clear.
type exported struct {
	Format    string            `json:"format"`
	At        time.Time         `json:"at"`
	Tenant    string            `json:"tenant"`
	Thread    *pawl.ThreadState `json:"thread"`
	Runs      []pawl.RunInfo    `json:"runs"`      // the newest first
	History   []*pawl.Snapshot  `json:"history"`   // all attempts and branches, the newest first
	Questions []pawl.Question   `json:"questions"` // in any state, in the order of asking
	Approvals []requestView     `json:"approvals"`
	Effects   []operationView   `json:"effects"`
	Audit     []auditView       `json:"audit"`
}

func (p *Program) threadsExport() *cobra.Command {
	return &cobra.Command{
		Use: "export THREAD", Short: "All of a thread as one JSON document", Args: p.takes(1, "a thread's id"),
		Long: `Write all that the database knows of a thread as one JSON document: state, runs, history of all branches and attempts,
questions in any state, approvals and the audit trail. The state's values are in it as they are, secrets too; the
parameters of effects are not.`,
		Example:           "  pawl threads export order-17 > order-17.json",
		ValidArgsFunction: p.completeThreads,
		RunE: func(cmd *cobra.Command, args []string) error {
			if p.output == "table" {
				p.output = "json"
			}
			return p.within(cmd.Context(), func(h *home) error {
				t, state, err := p.thread(cmd.Context(), h.eng, args[0])
				if err != nil {
					return err
				}
				doc := &exported{Format: "pawl.thread/1", At: p.Now().UTC(), Tenant: p.tenant, Thread: state}
				if err := doc.read(cmd.Context(), h, t); err != nil {
					return err
				}
				return p.Emit(doc, nil)
			})
		},
	}
}

func (x *exported) read(ctx context.Context, h *home, t *pawl.Thread) (err error) {
	if x.Runs, err = t.Runs(ctx); err != nil {
		return err
	}
	attempts := []string{""} // all that is not set aside
	for _, r := range x.Runs {
		if r.Aside {
			attempts = append(attempts, r.Attempt)
		}
	}
	x.History, x.Questions = []*pawl.Snapshot{}, []pawl.Question{}
	for _, a := range attempts {
		if err := x.readHistory(ctx, t, a); err != nil {
			return err
		}
	}
	slices.SortStableFunc(x.History, func(a, b *pawl.Snapshot) int { return cmp.Compare(b.Seq, a.Seq) })
	slices.SortStableFunc(x.Questions, func(a, b pawl.Question) int { return a.Asked.Compare(b.Asked) })
	requests, err := h.approvals().List(ctx, approval.Filter{Thread: t.ID()})
	if err != nil {
		return err
	}
	x.Approvals, x.Effects = []requestView{}, []operationView{}
	for i := range requests {
		x.Approvals = append(x.Approvals, viewOfRequest(&requests[i]))
	}
	unknown, err := h.effects().Unknown(ctx)
	if err != nil {
		return err
	}
	operations, err := h.effects().List(ctx, effect.Filter{})
	for i := range operations {
		if operations[i].Thread == t.ID() {
			x.Effects = append(x.Effects, viewOfOperation(&operations[i], unknown))
		}
	}
	if err != nil {
		return err
	}
	trail, err := audit.List(ctx, h.DB, x.Tenant, t.ID(), 0, 0)
	x.Audit = viewOfTrail(trail)
	return err
}

func (x *exported) readHistory(ctx context.Context, t *pawl.Thread, attempt string) error {
	const page = 500
	for before := ""; ; {
		list, err := t.History(ctx, pawl.Page{Before: before, Limit: page, Attempt: attempt})
		if err != nil {
			return err
		}
		for _, s := range list {
			before = s.Checkpoint
			for i := range s.Tasks {
				x.Questions = append(x.Questions, s.Tasks[i].Questions...)
			}
		}
		if x.History = append(x.History, list...); len(list) < page {
			return nil
		}
	}
}
