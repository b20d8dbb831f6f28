package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
)

func (p *Program) runs() *cobra.Command {
	c := p.group("runs", "Runs: start, resume, retry and cancel", `  pawl runs start refund order-17 --input '{"amount": 7}'
  pawl runs resume order-17
  pawl runs list --thread order-17
  pawl runs cancel order-17 --reason "ordered twice"`)
	c.Aliases = []string{"run"}
	c.AddCommand(p.runsList(), p.runsStart(), p.runsResume(), p.runsRetry(), p.runsCancel())
	return c
}

func (p *Program) runsList() *cobra.Command {
	var thread, status string
	var limit int
	c := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "Attempts of runs, by thread, the newest first", Args: p.takes(0, "no argument"),
		Example: "  pawl runs list --thread order-17\n  pawl runs list --status failed -o jsonl",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 0 {
				return p.misuse(cmd, fmt.Errorf("--limit %d is negative", limit))
			}
			if err := p.knownStatus(cmd, status); err != nil {
				return err
			}
			return p.within(cmd.Context(), func(h *home) error {
				list, more, err := p.listRuns(cmd, h, thread, status, limit)
				if err != nil {
					return err
				}
				if more {
					p.talk("there are more: --thread, or --limit 0 for all")
				}
				return p.Emit(list, func(g *Page) { tableOfRuns(g, list) })
			})
		},
	}
	f := c.Flags()
	f.StringVar(&thread, "thread", "", "only runs of this `thread`")
	f.StringVar(&status, "status", "", "only runs of this `status`")
	f.IntVar(&limit, "limit", 100, "at most so many; 0: all")
	return c
}

func (p *Program) listRuns(cmd *cobra.Command, h *home, thread, status string, limit int) (out []pawl.RunInfo, more bool, err error) {
	ctx := cmd.Context()
	var threads []string
	if thread != "" {
		t, _, err := p.thread(ctx, h.eng, thread)
		if err != nil {
			return nil, false, err
		}
		threads = []string{t.ID()}
	} else {
		all, _, err := collect(cmd, h.eng, "", 0, func(pawl.ThreadInfo) bool { return true })
		if err != nil {
			return nil, false, err
		}
		for _, t := range all {
			threads = append(threads, t.Thread)
		}
	}
	out = []pawl.RunInfo{}
	for _, id := range threads {
		runs, err := h.eng.Thread("", id).Runs(ctx)
		if err != nil {
			return nil, false, err
		}
		for _, r := range runs {
			if status != "" && string(r.Status) != status {
				continue
			}
			if limit > 0 && len(out) == limit {
				return out, true, nil
			}
			out = append(out, r)
		}
	}
	return out, false, nil
}

func tableOfRuns(g *Page, list []pawl.RunInfo) {
	if len(list) == 0 {
		g.Line("no runs")
		return
	}
	var rows [][]string
	for _, r := range list {
		note := r.Error
		switch {
		case r.Aside:
			note = strings.TrimSpace("set aside by a retry; " + note)
		case !r.Current:
			note = strings.TrimSpace("replaced; " + note)
		}
		rows = append(rows, []string{r.Thread, r.Kind, fmt.Sprint(r.Number), string(r.Status), g.Ago(r.Accepted), r.By, r.Run, short(note, widest)})
	}
	g.Table([]string{"THREAD", "KIND", "ATTEMPT", "STATUS", "ACCEPTED", "BY", "RUN", "NOTE"}, rows...)
}

func (p *Program) runsCancel() *cobra.Command {
	var dry bool
	c := &cobra.Command{
		Use: "cancel THREAD", Short: "End a run for good, whoever runs it", Args: p.takes(1, "a thread's id"),
		Long: `End a thread's run for good, in whatever process it is. What is open is withdrawn; only retry or a new run go on.

It returns when the run has stopped, or after --timeout. No code is needed.`,
		Example:           `  pawl runs cancel order-17 --reason "ordered twice"`,
		ValidArgsFunction: p.completeThreads,
	}
	timeout := timeoutFlag(c)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		return p.within(cmd.Context(), func(h *home) error {
			t, _, err := p.thread(cmd.Context(), h.eng, args[0])
			if err != nil {
				return err
			}
			if dry {
				return p.previewVerb(cmd.Context(), t, pawl.VerbCancel, "runs cancel "+ShellWord(t.ID()))
			}
			ctx, stop := timeout(cmd.Context())
			defer stop()
			if err := t.Cancel(ctx, p.reason); err != nil {
				return late(ctx, err)
			}
			state, err := t.State(cmd.Context())
			if err != nil {
				return err
			}
			return p.Emit(p.viewOf(state), func(g *Page) {
				g.Line("cancelled: thread %s, run %s: %s", t.ID(), state.Run, state.Reason)
				g.Line("Look: %s", p.Command("threads show %s", ShellWord(t.ID())))
				g.Line("Start it over: %s", p.Command("runs retry %s", ShellWord(t.ID())))
			})
		})
	}
	p.reasonFlag(c, "`why`; kept with the run")
	c.Flags().BoolVar(&dry, "dry-run", false, "only say what it would do")
	return c
}

func (p *Program) knownStatus(cmd *cobra.Command, status string) error {
	names := make([]string, len(statuses))
	for i, s := range statuses {
		names[i] = string(s)
	}
	if status != "" && !slices.Contains(names, status) {
		return p.misuse(cmd, fmt.Errorf("--status %s: there are %s%s", status, strings.Join(names, ", "), meant(status, names...)))
	}
	return nil
}
