package cli

import (
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/worker"
)

const aboutWorker = `Fire what is due, until it is interrupted: questions that nobody answered in time, approvals that escalate or end, settle
delays and retentions of effects, and the order of the audit trail. Any number may run, in any processes. One that has a
graph's code goes on with its threads: those whose questions and approvals are decided, that were drained, or whose process
died, and those whose question is due. One without marks that as expired a minute later.

Nothing depends on it: without one a due time is judged when somebody looks, and a thread goes on when somebody resumes it.
--once does what is due now and ends.`

func (p *Program) worker() *cobra.Command {
	var once bool
	c := &cobra.Command{
		Use: "worker [TENANT...]", Short: "Fire due times until interrupted", Long: aboutWorker, Args: cobra.ArbitraryArgs,
		Example: "  pawl worker\n  pawl worker acme globex\n  pawl worker --once",
		RunE: func(cmd *cobra.Command, tenants []string) error {
			if len(tenants) == 0 {
				tenants = []string{p.tenant}
			}
			return p.within(cmd.Context(), func(h *home) error {
				if once {
					n, err := h.Fire(cmd.Context(), tenants...)
					if err != nil {
						return err
					}
					return p.Emit(map[string]int{"fired": n}, func(g *Page) { g.Line("fired: %d", n) })
				}
				p.talk("Fires what is due in %s. Interrupt to end.", p.db)
				o := &worker.Options{Logger: slog.New(slog.NewTextHandler(p.Stderr, nil))}
				return h.Worker(o, tenants...).Run(cmd.Context())
			})
		},
	}
	c.Flags().BoolVar(&once, "once", false, "fire what is due now, and end")
	return c
}
