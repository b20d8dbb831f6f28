package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/effect"
)

const aboutReport = `Reconcile a target's own books with the operations, dispatches and approvals of the database. Every row is explained by one
operation or named, and so is what has no row. It changes nothing, and values of parameters are compared and never told.

--target is a file with one JSON object a line, or - for the standard input:

  {"key": "5b1f...", "ref": "invoice:17", "receipt": "tx-81", "fields": {"amount": "100.00"}, "at": "2026-12-01T09:30:00Z"}

A row of one target must not lack the operations of another: name the target's effects with --effect. --from and --until
say which time the rows cover; end it before now.

Exit 8: something is unexplained.`

func (p *Program) effectsReport() *cobra.Command {
	var target, from, until string
	var o effect.ReportOptions
	c := &cobra.Command{
		Use: "report --target FILE", Short: "Do the target's books and ours fit? Exit 8 when something is unexplained", Long: aboutReport,
		Args: p.takes(0, "no argument"),
		Example: `  pawl effects report --target bank.jsonl --effect bank.transfer
  bank-statement | pawl effects report --target - --until 2026-12-01T00:00:00Z -o json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := errors.Join(moment(from, "from", &o.From), moment(until, "until", &o.Until))
			if err == nil && target == "" {
				err = errors.New("name the target's rows with --target FILE")
			}
			if err != nil {
				return p.misuse(cmd, err)
			}
			return p.within(cmd.Context(), func(h *home) error { return p.report(cmd.Context(), h, target, o) })
		},
	}
	c.Flags().StringVar(&target, "target", "", "the target's rows: a `file` of JSON lines, or - for the standard input")
	c.Flags().StringSliceVar(&o.Effects, "effect", nil, "only this `effect`, which is of the target")
	c.Flags().StringVar(&from, "from", "", "the rows cover the time from this `moment` on, such as 2026-12-01T00:00:00Z")
	c.Flags().StringVar(&until, "until", "", "the rows cover the time before this `moment`")
	return c
}

func moment(text, flag string, to *time.Time) error {
	if text == "" {
		return nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return fmt.Errorf("--%s %s: it is no moment as in 2026-12-01T00:00:00Z", flag, text)
	}
	*to = t
	return nil
}

func (p *Program) report(ctx context.Context, h *home, target string, o effect.ReportOptions) (err error) {
	rows := io.Reader(p.Stdin)
	if target != "-" {
		f, err := os.Open(target)
		if err != nil {
			return fmt.Errorf("reading the target's rows: %w; there is no report", err)
		}
		defer f.Close()
		rows = f
	}
	report, err := Await(ctx, func() (*effect.Report, error) { return h.effects().Report(ctx, effect.ReadTargetRows(rows), o) })
	if err != nil {
		return err
	}
	var text strings.Builder
	if err := report.WriteText(&text); err != nil {
		return err
	}
	if err := p.Emit(report, func(g *Page) { g.Line("%s", strings.TrimSuffix(text.String(), "\n")) }); err != nil || report.Unexplained == 0 {
		return err
	}
	return &Error{InDoubt, fmt.Errorf("%d unexplained, the first: %s", report.Unexplained, report.Findings[0].Text)}
}

const aboutReconciled = `Close the restore epoch of the tenant: somebody has compared the ledger with the targets since the backup (effects report),
and recorded what was missing. Effects to targets that recognise no key are sent again from now on.`

func (p *Program) effectsReconciled() *cobra.Command {
	c := &cobra.Command{
		Use: "reconciled", Short: "After a restore: the ledger fits the targets again, effects go on", Long: aboutReconciled, Args: p.takes(0, "no argument"),
		Example: `  pawl effects reconciled --reason "compared with the statement of November, nothing was missing"`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if p.reason == "" {
				return p.misuse(cmd, errors.New("say with --reason how you know; it is kept"))
			}
			return p.within(cmd.Context(), func(h *home) error {
				closed, err := h.effects().Reconciled(cmd.Context(), p.reason)
				if err != nil {
					return err
				}
				v := struct {
					Closed bool      `json:"closed"`
					Number int64     `json:"restore,omitempty"` // counts the restores of the home
					Taken  time.Time `json:"taken,omitzero"`    // the backup
				}{Closed: closed != nil}
				if closed != nil {
					v.Number, v.Taken = closed.Number, closed.Taken.UTC()
				}
				return p.Emit(v, func(g *Page) {
					if !v.Closed {
						g.Line("no restore waits to be reconciled; nothing was changed")
						return
					}
					g.Line("reconciled: restore %d, from a backup taken %s; effects go on", v.Number, g.Ago(v.Taken))
				})
			})
		},
	}
	p.reasonFlag(c, "`how` you know; kept")
	return c
}
