package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
)

func (p *Program) threadsDelete() *cobra.Command {
	var yes, dry bool
	c := &cobra.Command{
		Use: "delete THREAD", Short: "Remove a thread and all of its history", Args: p.takes(1, "a thread's whole id"),
		Long: `Remove a thread: state, history, journal and questions. It cannot be undone; the audit trail stays. It is refused while
somebody runs the thread, and while an effect of it is of unknown outcome. It asks first; --yes says yes.`,
		Example:           "  pawl threads delete order-17 --dry-run\n  pawl threads delete order-17 --yes",
		ValidArgsFunction: p.completeThreads,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			return p.within(ctx, func(h *home) error {
				t, state, err := p.thread(ctx, h.eng, args[0])
				if err != nil {
					return err
				}
				if t.ID() != args[0] && !dry {
					return p.misuse(cmd, fmt.Errorf("delete wants the whole id %s; nothing was deleted", t.ID()))
				}
				if dry {
					return p.previewVerb(ctx, t, pawl.VerbDelete, "threads delete "+ShellWord(t.ID()))
				}
				if err := p.sure(ctx, cmd, yes, fmt.Sprintf("Delete thread %s (graph %s, %s) with all of its history?", t.ID(), state.Graph, state.Status)); err != nil {
					return err
				}
				if err := t.Delete(ctx, pawl.Reason(p.reason)); err != nil {
					return err
				}
				gone := struct {
					Thread  string `json:"thread"`
					Deleted bool   `json:"deleted"`
				}{t.ID(), true}
				return p.Emit(gone, func(g *Page) {
					g.Line("deleted: thread %s", t.ID())
					g.Line("Its audit trail stays: %s", p.Command("audit list %s", ShellWord(t.ID())))
				})
			})
		},
	}
	p.reasonFlag(c, "`why`; kept in the trail")
	c.Flags().BoolVar(&yes, "yes", false, "delete without asking")
	c.Flags().BoolVar(&dry, "dry-run", false, "only say what it would do")
	return c
}

// sure asks a person before something that cannot be undone, and needs --yes where nobody can be asked.
func (p *Program) sure(ctx context.Context, cmd *cobra.Command, yes bool, question string) error {
	if yes {
		return nil
	}
	if !p.MayAsk() {
		return p.misuse(cmd, errors.New("it asks first, and nobody is there to be asked: give --yes; nothing was done"))
	}
	said, err := p.ask(ctx, question+" [y/N] ")
	if err != nil {
		return err
	}
	if said != "y" && said != "yes" {
		return &Error{Failed, errors.New("not confirmed; nothing was done")}
	}
	return nil
}
