package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/audit/proof"
)

const aboutVerify = `Check the tenant's trail: that no row was changed, taken out, put in or moved, in its thread's chain and in the log. What
is found is named by thread and row. It writes nothing and may run beside anything.

Nothing inside the database shows that its end was cut off, or that all of it was written anew. An anchor does that was
kept elsewhere: --anchor takes a file with one or more, as audit show --anchor prints them.

Exit 7: something was found.`

func (p *Program) auditVerify() *cobra.Command {
	var anchor string
	c := &cobra.Command{
		Use: "verify", Short: "Was the trail changed? Exit 7 when it was", Long: aboutVerify, Args: p.takes(0, "no argument"),
		Example: "  pawl audit verify\n  pawl audit verify --anchor /mnt/elsewhere/anchors.json -o json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			anchors, err := anchorsIn(anchor)
			if err != nil {
				return p.misuse(cmd, err)
			}
			return p.within(ctx, func(h *home) error {
				if err := h.eng.Allowed(ctx, pawl.VerbInfo{Verb: pawl.VerbRead}); err != nil {
					return err
				}
				report, err := audit.Verify(ctx, h.DB, p.tenant, anchors...)
				if err != nil {
					return err
				}
				v := verdictView{report, report.Honest()}
				if err := p.Emit(v, func(g *Page) { v.print(g) }); err != nil || v.Honest {
					return err
				}
				return &Error{Unverified, fmt.Errorf("the trail is not as it was written: %s", report.Findings[0])}
			})
		},
	}
	c.Flags().StringVar(&anchor, "anchor", "", "a `file` with anchors that were kept elsewhere")
	return c
}

// anchorsIn reads a file of anchors; no name: none.
func anchorsIn(path string) ([]proof.Anchor, error) {
	if path == "" {
		return nil, nil
	}
	doc, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the anchors: %w", err)
	}
	anchors, err := proof.ReadAnchors(bytes.NewReader(doc))
	if err != nil {
		return nil, fmt.Errorf("%s %w", path, err)
	}
	return anchors, nil
}

// verdictView is the report of a check, with its verdict.
type verdictView struct {
	*proof.Report
	Honest bool `json:"honest"`
}

func (v verdictView) print(g *Page) {
	for _, f := range v.Findings {
		g.Line("found: %s", f.String())
	}
	if v.More > 0 {
		g.Line("found: %d more", v.More)
	}
	for _, n := range v.Notes {
		g.Line("note: %s", n)
	}
	what := "honest"
	if !v.Honest {
		what = "not as it was written"
	}
	g.Line("%s: %d rows in %d chains, %d of them ordered, %d pending; head %.16s", what, v.Rows+v.Old, v.Chains, v.Size, v.Pending, v.Head.String())
}

// anchor orders what is pending, and returns the anchor of the log.
func (p *Program) anchor(ctx context.Context, h *home) (audit.Anchor, error) {
	if err := h.eng.Allowed(ctx, pawl.VerbInfo{Verb: pawl.VerbRead}); err != nil {
		return audit.Anchor{}, err
	}
	if _, _, err := audit.NewSequencer(h.DB).Due(ctx, 0); err != nil {
		return audit.Anchor{}, err
	}
	return audit.Head(ctx, h.DB, p.tenant)
}

const aboutExport = `Write the tenant's trail as lines of JSON, which pawl-verify checks without the database, to a file that must not exist, or
to the standard output. Rows hold names, digests and reasons, never the parameters of a call.

The anchor of what was exported is printed: keep it elsewhere. With an export to the standard output it goes to the
standard error.`

func (p *Program) auditExport() *cobra.Command {
	return &cobra.Command{
		Use: "export [FILE]", Short: "The trail in a form that is checked without the database", Long: aboutExport, Args: p.takesUpTo(1, "at most a file's name"),
		Example: "  pawl audit export trail.jsonl > anchor.json\n  pawl audit export | pawl-verify",
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			return p.within(ctx, func(h *home) error {
				if _, err := p.anchor(ctx, h); err != nil {
					return err
				}
				if len(args) == 0 || args[0] == "-" {
					a, err := audit.Export(ctx, h.DB, p.tenant, p.Stdout)
					if err == nil {
						p.talk("%s", anchorLine(a))
					}
					return err
				}
				a, err := exportTo(args[0], func(w io.Writer) (audit.Anchor, error) { return audit.Export(ctx, h.DB, p.tenant, w) })
				if err != nil {
					return err
				}
				p.talk("exported to %s; keep the anchor elsewhere; check it with: pawl-verify %s", args[0], ShellWord(args[0]))
				return p.Emit(a, func(g *Page) { g.Line("%s", anchorLine(a)) })
			})
		},
	}
}

// exportTo writes a new file, whole or not at all.
func exportTo(path string, write func(io.Writer) (audit.Anchor, error)) (a audit.Anchor, err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return a, fmt.Errorf("nothing was exported: %w", err)
	}
	a, err = write(f)
	if err == nil {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		_ = os.Remove(path) // half an export is none
	}
	return a, err
}

func anchorLine(a audit.Anchor) string {
	doc, _ := json.Marshal(a) // hashes, a name and a time always have a JSON form
	return string(doc)
}
