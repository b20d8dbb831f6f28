package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
)

func (p *Program) threads() *cobra.Command {
	c := p.group("threads", "Threads: what runs, what waits and what happened", `  pawl threads list --status waiting
  pawl threads show order-17
  pawl threads history order-17 -o json
  pawl threads fork order-17 --before decide --set amount=7 --dry-run`)
	c.Aliases = []string{"thread"}
	c.AddCommand(p.threadsList(), p.threadsShow(), p.threadsState(), p.threadsHistory(), p.threadsFork(), p.threadsExport(), p.threadsDelete())
	return c
}

var statuses = [...]pawl.Status{
	pawl.StatusNew, pawl.Pending, pawl.Running, pawl.Waiting, pawl.Done, pawl.Failed, pawl.Crashed, pawl.Cancelled,
}

func (p *Program) threadsList() *cobra.Command {
	var status, graph, after string
	var limit int
	c := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List threads by id", Args: p.takes(0, "no argument"),
		Example: "  pawl threads list\n  pawl threads list --status crashed -o json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			names := make([]string, len(statuses))
			for i, s := range statuses {
				names[i] = string(s)
			}
			switch {
			case status != "" && !slices.Contains(names, status):
				return p.misuse(cmd, fmt.Errorf("--status %s: there are %s%s", status, strings.Join(names, ", "), meant(status, names...)))
			case limit < 0:
				return p.misuse(cmd, fmt.Errorf("--limit %d is negative", limit))
			}
			keep := func(t pawl.ThreadInfo) bool {
				return (status == "" || string(t.Status) == status) && (graph == "" || t.Graph == graph)
			}
			return p.within(cmd.Context(), func(h *home) error {
				list, more, err := collect(cmd, h.eng, after, limit, keep)
				if err != nil {
					return err
				}
				if more {
					p.talk("there are more: --after %s, or --limit 0 for all", list[len(list)-1].Thread)
				}
				return p.Emit(list, func(g *Page) { tableOfThreads(g, list) })
			})
		},
	}
	f := c.Flags()
	f.StringVar(&status, "status", "", "only threads of this `status`")
	f.StringVar(&graph, "graph", "", "only threads of this `graph`")
	f.StringVar(&after, "after", "", "go on after this thread `id`")
	f.IntVar(&limit, "limit", 100, "at most so many; 0: all")
	return c
}

// collect reads pages until it has limit threads that are to be kept, and says whether there are more.
func collect(cmd *cobra.Command, eng *pawl.Engine, after string, limit int, keep func(pawl.ThreadInfo) bool) ([]pawl.ThreadInfo, bool, error) {
	const page = 500
	out := []pawl.ThreadInfo{}
	for {
		list, err := eng.Threads(cmd.Context(), after, page)
		if err != nil {
			return nil, false, err
		}
		for _, t := range list {
			if after = t.Thread; !keep(t) {
				continue
			}
			if limit > 0 && len(out) == limit {
				return out, true, nil
			}
			out = append(out, t)
		}
		if len(list) < page {
			return out, false, nil
		}
	}
}

func tableOfThreads(g *Page, list []pawl.ThreadInfo) {
	if len(list) == 0 {
		g.Line("no threads")
		return
	}
	var rows [][]string
	for _, t := range list {
		rows = append(rows, []string{t.Thread, t.Graph, string(t.Status), g.Ago(t.Updated), why(g, t)})
	}
	g.Table([]string{"THREAD", "GRAPH", "STATUS", "CHANGED", "WHY"}, rows...)
}

// why says in few words why a thread stands.
func why(g *Page, t pawl.ThreadInfo) string {
	switch {
	case len(t.Waiting) > 0:
		var open []string
		for _, w := range t.Waiting {
			s := strings.TrimSpace(w.Kind+" "+w.Name) + " " + w.ID[:min(8, len(w.ID))]
			if !w.Due.IsZero() {
				s += ", due " + g.Ago(w.Due)
			}
			open = append(open, s)
		}
		return strings.Join(open, "; ")
	case t.Breakpoint:
		return "breakpoint"
	case t.Status == pawl.Waiting && t.Cause == "":
		return "to be resumed"
	case t.Cause != "" && t.Reason != "":
		return string(t.Cause) + ": " + short(t.Reason, 40)
	}
	return short(t.Reason, 40)
}

func (p *Program) threadsHistory() *cobra.Command {
	var page pawl.Page
	c := &cobra.Command{
		Use: "history THREAD", Short: "The checkpoints of a thread, the newest first, all branches", Args: p.takes(1, "a thread's id"),
		Example:           "  pawl threads history order-17\n  pawl threads history order-17 --limit 5 -o json",
		ValidArgsFunction: p.completeThreads,
		RunE: func(cmd *cobra.Command, args []string) error {
			if page.Limit < 1 {
				return p.misuse(cmd, fmt.Errorf("--limit %d: it is at least 1", page.Limit))
			}
			return p.within(cmd.Context(), func(h *home) error {
				t, _, err := p.thread(cmd.Context(), h.eng, args[0])
				if err != nil {
					return err
				}
				history, err := t.History(cmd.Context(), page)
				if err != nil {
					return err
				}
				if history == nil {
					history = []*pawl.Snapshot{}
				}
				return p.Emit(history, func(g *Page) { tableOfHistory(g, history) })
			})
		},
	}
	f := c.Flags()
	f.IntVar(&page.Limit, "limit", 100, "at most so many checkpoints")
	f.StringVar(&page.Before, "before", "", "go on before this checkpoint `id`")
	f.StringVar(&page.Attempt, "attempt", "", "an `attempt` that a retry set aside")
	return c
}

func tableOfHistory(g *Page, history []*pawl.Snapshot) {
	if len(history) == 0 {
		g.Line("no checkpoints")
		return
	}
	var rows [][]string
	for _, s := range history {
		next := strings.Join(s.Next, " ")
		if next == "" {
			next = "-"
		}
		rows = append(rows, []string{fmt.Sprint(s.Step), s.Source, next, g.Ago(s.At), s.Checkpoint, end(s.Parent), short(compact(s.Values), widest)})
	}
	g.Table([]string{"STEP", "SOURCE", "NEXT", "MADE", "CHECKPOINT", "PARENT", "VALUES"}, rows...)
}

// end is the part of a checkpoint's id that tells it from others of its thread.
func end(id string) string {
	if len(id) < 8 {
		return "-"
	}
	return "…" + id[len(id)-8:]
}

func compact(doc []byte) string {
	var b bytes.Buffer
	if json.Compact(&b, doc) != nil {
		return string(doc)
	}
	return b.String()
}

// completeThreads offers ids to the shell. It says nothing of what goes wrong.
func (p *Program) completeThreads(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	var ids []string
	if len(args) == 0 && p.settle(cmd) == nil {
		_ = p.within(cmd.Context(), func(h *home) error {
			list, err := h.eng.Threads(cmd.Context(), "", 1000)
			for _, t := range list {
				if strings.HasPrefix(t.Thread, begun) {
					ids = append(ids, t.Thread+"\t"+string(t.Status))
				}
			}
			return err
		})
	}
	return ids, cobra.ShellCompDirectiveNoFileComp
}
