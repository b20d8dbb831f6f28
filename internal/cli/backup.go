package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/internal/house"
)

const aboutBackup = `Write a copy of the database to a file that must not exist, while everything goes on. It is one moment of the database,
and no parts of two.

The key under which parameters and receipts are sealed is not in it: keep FILE.key of the database too, and elsewhere.`

func (p *Program) backup() *cobra.Command {
	return &cobra.Command{
		Use: "backup FILE", Short: "A copy of the database, taken while it is used", Long: aboutBackup, Args: p.takes(1, "the file to write"),
		Example: "  pawl backup /backups/pawl-2026-12-01.db",
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.within(cmd.Context(), func(h *home) error {
				if err := h.Backup(cmd.Context(), args[0]); err != nil {
					return err
				}
				st, err := os.Stat(args[0])
				if err != nil {
					return err
				}
				made := struct {
					File  string `json:"file"`
					Bytes int64  `json:"bytes"`
					Of    string `json:"of"`
					Key   string `json:"key_file,omitempty"` // that is not in it
				}{args[0], st.Size(), p.db, ""}
				if h.Keyed {
					made.Key = house.KeyFile(p.db)
				}
				return p.Emit(made, func(g *Page) {
					g.Line("backed up: %s to %s, %d bytes", made.Of, made.File, made.Bytes)
					if made.Key != "" {
						g.Line("Its key is not in it: keep %s too, and elsewhere.", made.Key)
					}
					g.Line("Put it back: %s", p.Command("restore %s --reason WHY", ShellWord(made.File)))
				})
			})
		},
	}
}

const aboutRestore = `Put a backup in the place of the database, at once or not at all. A database that some program has open is never replaced;
one that nobody has open only with --replace, and it is kept beside the new one under another name.

What happened after the backup is missing in it, effects too. So a restore epoch is opened: nothing is sent anew to a
target that could not recognise what it has seen, until somebody has compared both sides (effects report) and closes it
(effects reconciled). The key file must be beside the database, or beside the backup.`

func (p *Program) restore() *cobra.Command {
	var replace, yes bool
	c := &cobra.Command{
		Use: "restore FILE", Short: "Put a backup in the place of the database", Long: aboutRestore, Args: p.takes(1, "a backup"),
		Example: `  pawl restore /backups/pawl-2026-12-01.db --reason "the disk died"
  pawl restore /backups/pawl-2026-12-01.db --replace --yes --reason "a bad deployment"`,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			if p.reason == "" {
				return p.misuse(cmd, errors.New("say with --reason why; it is kept"))
			}
			if replace {
				if err := p.sure(ctx, cmd, yes, fmt.Sprintf("Replace %s by the backup %s?", p.db, args[0])); err != nil {
					return err
				}
			}
			return p.restored(ctx, args[0], replace)
		},
	}
	c.Flags().BoolVar(&replace, "replace", false, "replace a database that is there; it is kept under another name")
	c.Flags().BoolVar(&yes, "yes", false, "replace without asking")
	p.reasonFlag(c, "`why`; kept with the restore")
	return c
}

func (p *Program) restored(ctx context.Context, backup string, replace bool) error {
	out, err := house.Restore(ctx, backup, "sqlite:"+p.db, house.RestoreOptions{Replace: replace, By: p.who(), Reason: p.reason})
	if err != nil {
		return err
	}
	v := struct {
		File     string    `json:"file"`
		From     string    `json:"from"`
		Taken    time.Time `json:"taken,omitzero"` // when the backup began
		Replaced string    `json:"replaced,omitempty"`
	}{p.db, backup, out.Taken.UTC(), out.Replaced}
	return p.Emit(v, func(g *Page) {
		g.Line("restored: %s from %s, taken %s", v.File, v.From, g.Ago(v.Taken))
		if v.Replaced != "" {
			g.Line("What was there is %s.", v.Replaced)
		}
		g.Line("Effects to targets that recognise no key are held back. Compare: %s", p.Command("effects report --target FILE"))
		g.Line("Then let them go on: %s", p.Command("effects reconciled --reason HOW"))
	})
}
