package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
)

// moving are the flags of migrate and force.
type moving struct {
	verb           pawl.Verb
	from, to       string
	dry, back, yes bool
}

const aboutMigrate = `Move a thread onto the version of its graph that this program has, by the migration that the graph declares. A new
checkpoint is written, what is due goes on under it, and open questions are asked anew. It is refused while an effect of
the thread is of unknown outcome. --from and --to, starts of digests, refuse anything but that move. --dry-run says what
it would do. --back undoes it while nothing has run since, and needs no code of the older version.

Exit 5: no migration works on it, or it is another move than was named.`

func (p *Program) graphMigrate() *cobra.Command {
	m := &moving{verb: pawl.VerbMigrate}
	c := &cobra.Command{
		Use: "migrate THREAD", Short: "Move a thread onto this program's version of its graph", Long: aboutMigrate, Args: p.takes(1, "a thread's id"),
		Example: `  refund graph migrate order-17 --dry-run
  refund graph migrate order-17 --from 9f2c41d0 --to c41a77b2 --reason "the fraud check"
  refund graph migrate order-17 --back --reason "the new one is wrong"`,
		ValidArgsFunction: p.completeThreads,
		RunE:              func(cmd *cobra.Command, args []string) error { return p.moves(cmd, m, args[0]) },
	}
	p.movingFlags(c, m)
	c.Flags().BoolVar(&m.back, "back", false, "undo the last migration, or force, of the thread")
	return c
}

const aboutForce = `Move a thread onto the version of its graph that this program has, without a migration: whatever its past could tell, it goes
on where it stands. What does not fit is left behind and named. Effects of unknown outcome are quarantined: a person says
what became of them. It asks first; --yes says yes. graph migrate THREAD --back undoes it while nothing has run since.`

func (p *Program) graphForce() *cobra.Command {
	m := &moving{verb: pawl.VerbForce}
	c := &cobra.Command{
		Use: "force THREAD", Short: "Move a thread onto this program's version without a migration", Long: aboutForce, Args: p.takes(1, "a thread's id"),
		Example: `  refund graph force order-17 --dry-run
  refund graph force order-17 --yes --reason "the removed node was never reached"`,
		ValidArgsFunction: p.completeThreads,
		RunE:              func(cmd *cobra.Command, args []string) error { return p.moves(cmd, m, args[0]) },
	}
	p.movingFlags(c, m)
	c.Flags().BoolVar(&m.yes, "yes", false, "do it without asking")
	return c
}

func (p *Program) movingFlags(c *cobra.Command, m *moving) {
	c.Flags().StringVar(&m.from, "from", "", "only if the thread stands under this `version`")
	c.Flags().StringVar(&m.to, "to", "", "only if it would stand under this `version`")
	c.Flags().BoolVar(&m.dry, "dry-run", false, "only say what it would do")
	p.reasonFlag(c, "`why`; kept with the move")
}

func (p *Program) moves(cmd *cobra.Command, m *moving, id string) error {
	ctx := cmd.Context()
	if p.reason == "" && !m.dry {
		return p.misuse(cmd, errors.New("say with --reason why; it is kept"))
	}
	return p.within(ctx, func(h *home) error {
		t, state, err := p.thread(ctx, h.eng, id)
		if err != nil {
			return err
		}
		if m.back {
			back, err := t.MigrateBack(ctx, pawl.Reason(p.reason))
			if err != nil {
				return err
			}
			return p.moved(back, "moved back")
		}
		if err := p.needs(state.Graph, string(m.verb)); err != nil {
			return err
		}
		return p.move(cmd, m, t)
	})
}

// move previews first, so that what was named is what is done.
func (p *Program) move(cmd *cobra.Command, m *moving, t *pawl.Thread) error {
	ctx := cmd.Context()
	preview, do, done := t.PreviewMigrate, t.Migrate, "migrated"
	if m.verb == pawl.VerbForce {
		preview, do, done = t.PreviewForce, t.Force, "forced"
	}
	would, err := preview(ctx)
	if err != nil {
		return err
	}
	if !strings.HasPrefix(would.From, m.from) || !strings.HasPrefix(would.To, m.to) {
		return &Error{Conflict, fmt.Errorf("thread %q would move from %s to %s, and that is not from %q to %q; nothing was changed",
			t.ID(), digits(would.From), digits(would.To), m.from, m.to)}
	}
	if m.dry {
		return p.moved(would, "would be "+done)
	}
	if m.verb == pawl.VerbForce {
		question := fmt.Sprintf("Force thread %s from %s to %s (first difference: %s)?", t.ID(), digits(would.From), digits(would.To), would.First)
		if err := p.sure(ctx, cmd, m.yes, question); err != nil {
			return err
		}
	}
	return p.did(ctx, do, done)
}

func (p *Program) did(ctx context.Context, do func(context.Context, ...pawl.RunOption) (*pawl.Migrated, error), done string) error {
	report, err := do(ctx, pawl.Reason(p.reason))
	if err != nil {
		return err
	}
	return p.moved(report, done)
}

func (p *Program) moved(r *pawl.Migrated, how string) error {
	return p.Emit(r, func(g *Page) {
		g.Line("%s: thread %s of graph %s, from %s to %s", how, r.Thread, r.Graph, digits(r.From), digits(r.To))
		rows := [][]string{{"first difference", orNone(r.First)}, {"status", string(r.Status)}, {"due before", orDash(r.Was)}, {"due now", orDash(r.Due)}}
		for _, is := range []struct {
			name string
			of   []string
		}{{"channels converted", r.Converted}, {"channels left behind", r.Dropped}, {"finished work left behind", r.Discarded}, {"forgotten", r.Forgotten}} {
			if len(is.of) > 0 {
				rows = append(rows, []string{is.name, orDash(is.of)})
			}
		}
		g.Table(nil, rows...)
		for _, q := range r.Withdrawn {
			g.Line("withdrawn: %s (%s)", q.Name, q.ID[:12])
		}
		for _, n := range r.Notes {
			g.Line("%s: %s", n.Part, n.Text)
		}
		if strings.HasPrefix(how, "would") {
			g.Line("Nothing was changed.")
			return
		}
		g.Line("Look: %s", p.Command("threads show %s", ShellWord(r.Thread)))
		if how != "moved back" {
			g.Line("Undo: %s", p.Command("graph migrate %s --back --reason WHY", ShellWord(r.Thread)))
		}
	})
}
