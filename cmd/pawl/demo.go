package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/internal/cli"
)

const aboutDemo = `A tour of a few seconds: no key, no account, no network but this machine's own.

A refund agent looks three things up side by side, lets a scripted model propose a refund, checks a policy, asks a person,
pays and sends a mail. Its worker is a process on a SQLite file, and is ended by kill -9 twice: in the middle of a
super-step, and after the provider has paid and before that is recorded. Then the thread is forked from before the payment,
the same refund is tried with another amount, and a second refund is asked for. The provider is another process with a
ledger of its own. At the end its books are reconciled with the database, the audit trail is verified, and one byte of a
copy is changed and found.

Every number is read from the provider's ledger, from the database, or from a file that the nodes append to. Exit 1: the
run did not show what it says.`

func demoCommand(p *cli.Program) *cobra.Command {
	var yes bool
	var keep string
	c := &cobra.Command{
		Use: "demo", Short: "A tour: two kills, one payment, one fork", Long: aboutDemo, Args: noArguments,
		Example: "  pawl demo\n  pawl demo --yes --keep tour     keep the files, to look around in them\n  pawl demo -o json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, done, err := stage(keep)
			if err != nil {
				return err
			}
			t := &tour{dir: dir, tale: io.Discard, ask: p.MayAsk() && !yes, in: bufio.NewScanner(p.Stdin), prompt: p.Stderr}
			if !p.JSON() {
				t.tale = p.Stdout
			}
			r, err := t.play(cmd.Context())
			if err := errors.Join(err, done()); err != nil {
				return err
			}
			if keep != "" {
				r.Kept = databaseOf(keep)
			}
			err = p.Emit(r, r.print)
			if wrong := r.verify(); wrong != nil {
				err = errors.Join(fmt.Errorf("the demo did not show what it says: %w", wrong), err)
			}
			return err
		},
	}
	c.Flags().BoolVar(&yes, "yes", false, "approve without asking")
	c.Flags().StringVar(&keep, "keep", "", "make this `folder` and keep the database and the ledgers there")
	return c
}

func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return &cli.Error{Code: cli.Usage, Err: fmt.Errorf("%s takes no argument; see %s --help", cmd.CommandPath(), cmd.CommandPath())}
	}
	return nil
}

// stage makes the folder that the demo plays in. done removes it, unless it is kept.
func stage(keep string) (dir string, done func() error, err error) {
	if keep == "" {
		dir, err = os.MkdirTemp("", "pawl-demo-")
		return dir, func() error { return os.RemoveAll(dir) }, err
	}
	if dir, err = filepath.Abs(keep); err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if _, there := os.Stat(databaseOf(dir)); err == nil && there == nil {
		err = fmt.Errorf("%s is there already; give --keep another folder; nothing was changed", databaseOf(dir))
	}
	return dir, func() error { return nil }, err
}

// The files of the demo.
func databaseOf(dir string) string { return filepath.Join(dir, "pawl.db") }
func countsOf(dir string) counts   { return counts(filepath.Join(dir, "counts.txt")) }
func ledgerOf(dir string) ledger   { return ledger{path: filepath.Join(dir, "provider.jsonl")} }
