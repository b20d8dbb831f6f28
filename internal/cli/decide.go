package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/approval"
	"github.com/pawl-dev/pawl/effect"
)

func (p *Program) approvalsReject() *cobra.Command {
	var digest string
	c := &cobra.Command{
		Use: "reject ID", Short: "Say no to a call; the same call is not asked about again", Args: p.takes(1, "an approval's id"),
		Long: `Say no to a call. The denial is remembered: the same call under the same reference is not asked about again, in whatever
thread. The reason reaches the graph. Exit codes are those of approve.`,
		Example: `  pawl approvals reject 3f9c27 --reason "wrong account"`, ValidArgsFunction: p.completeRequests,
		RunE: func(cmd *cobra.Command, args []string) error { return p.reject(cmd, args[0], digest, p.reason) },
	}
	c.Flags().StringVar(&digest, "digest", "", "reject only the call that has this `digest`")
	p.reasonFlag(c, "`why`; reaches the graph")
	return c
}

func (p *Program) approvalsRespond() *cobra.Command {
	var digest string
	c := &cobra.Command{
		Use: "respond ID TEXT|-", Short: "Answer a call in words: it is not made, and the graph is told the words", Args: p.takes(2, "an approval's id and a text"),
		Long: `Answer a call in words in place of a yes: the call is not made, and the words reach the graph as the reason, such as for a
model that is to propose another call. It is a reject, and is remembered like one: the same call under the same
reference is not asked about again. "-" reads the text from the standard input.`,
		Example: `  pawl approvals respond 3f9c27 "ask the customer for the invoice first"`, ValidArgsFunction: p.completeRequests,
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := p.text(cmd.Context(), args[1])
			if err != nil {
				return err
			}
			if strings.TrimSpace(text) == "" {
				return p.misuse(cmd, errors.New("say something; nothing was decided"))
			}
			return p.reject(cmd, args[0], digest, text)
		},
	}
	c.Flags().StringVar(&digest, "digest", "", "answer only the call that has this `digest`")
	return c
}

func (p *Program) reject(cmd *cobra.Command, id, digest, reason string) error {
	ctx := cmd.Context()
	return p.within(ctx, func(h *home) error {
		r, err := p.request(ctx, h, id)
		if err != nil {
			return err
		}
		decided, err := h.approvals().Reject(ctx, r.ID, approval.Decision{Digest: digest, Reason: reason})
		return p.decided(decided, "rejected", err)
	})
}

func (p *Program) approvalsRevoke() *cobra.Command {
	c := &cobra.Command{
		Use: "revoke ID", Short: "Take a yes back that was not used yet; the call is asked about anew", Args: p.takes(1, "an approval's id"),
		Long: `Take a yes back that was not used yet: the call is asked about anew. What was dispatched is not taken back.

Exit 3: no such approval; 4: not yours to decide; 5: it was used, or there is no yes to take back.`,
		Example: `  pawl approvals revoke 3f9c27 --reason "the supplier called"`, ValidArgsFunction: p.completeRequests,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			if p.reason == "" {
				return p.misuse(cmd, errors.New("say with --reason why; it is kept"))
			}
			return p.within(ctx, func(h *home) error {
				r, err := p.request(ctx, h, args[0])
				if err != nil {
					return err
				}
				revoked, err := h.approvals().Revoke(ctx, r.ID, p.reason)
				return p.decided(revoked, "revoked", err)
			})
		},
	}
	p.reasonFlag(c, "`why`; kept with it")
	return c
}

const aboutEdit = `Change the parameters of a call that waits, and ask about the changed call anew: the request is superseded by one that shows
the difference, and somebody else approves it. The graph, entered again, finds its call and is told what ran.

--set takes a JSON pointer and a value, which is JSON or plain text (a text of digits needs quotes, as in
--set /amount='"80.00"'), --remove a pointer. --changes takes a file, or - for the standard input, with a list such as
[{"path": "/amount", "new": "80.00"}, {"path": "/note"}]; one without "new" is removed. Parameters keep their types, and
what is hidden from approvers is not changed. --digest names what you saw; on a terminal the call is shown instead.

Exit 1: the changed call is refused by the effect's type or rule; the others are those of approve.`

// editing are the flags of an edit.
type editing struct {
	digest, file string
	set, remove  []string
}

func (p *Program) approvalsEdit() *cobra.Command {
	e := &editing{}
	c := &cobra.Command{
		Use: "edit ID", Short: "Change a call that waits; somebody else approves the change", Long: aboutEdit, Args: p.takes(1, "an approval's id"),
		Example: `  pawl approvals edit 3f9c27 --digest 9be1… --set /cents=8000 --reason "half of it"
  pawl approvals edit 3f9c27 --digest 9be1… --changes changes.json --reason "as the customer wrote"`,
		ValidArgsFunction: p.completeRequests,
		RunE: func(cmd *cobra.Command, args []string) error {
			changes, err := p.changes(cmd, e)
			if err != nil {
				return err
			}
			return p.within(cmd.Context(), func(h *home) error { return p.edit(cmd, h, args[0], e.digest, changes) })
		},
	}
	c.Flags().StringVar(&e.digest, "digest", "", "change only the call that has this `digest`")
	c.Flags().StringArrayVar(&e.set, "set", nil, "put a value: `POINTER=VALUE`")
	c.Flags().StringArrayVar(&e.remove, "remove", nil, "take away what is at this `pointer`")
	c.Flags().StringVar(&e.file, "changes", "", "a `file` with a list of changes, or - for the standard input")
	p.reasonFlag(c, "`why`; kept with the change")
	return c
}

// changes reads what is to be changed.
func (p *Program) changes(cmd *cobra.Command, e *editing) (out []approval.Change, err error) {
	if e.file != "" {
		if out, err = p.changesIn(cmd, e.file); err != nil {
			return nil, p.misuse(cmd, fmt.Errorf("--changes %s: %w", e.file, err))
		}
	}
	for _, s := range e.set {
		path, val, ok := strings.Cut(s, "=")
		if !ok || !strings.HasPrefix(path, "/") {
			return nil, p.misuse(cmd, fmt.Errorf("--set %s: it is no POINTER=VALUE, as in /amount=7", s))
		}
		c := approval.Change{Path: path, New: json.RawMessage(val)}
		if !json.Valid(c.New) {
			c.New, _ = json.Marshal(val) // a string always has a JSON form
		}
		out = append(out, c)
	}
	for _, path := range e.remove {
		out = append(out, approval.Change{Path: path})
	}
	if len(out) == 0 {
		return nil, p.misuse(cmd, errors.New("say what to change: --set, --remove or --changes; nothing was changed"))
	}
	return out, nil
}

func (p *Program) changesIn(cmd *cobra.Command, file string) (out []approval.Change, err error) {
	doc := ""
	if file == "-" {
		doc, err = p.text(cmd.Context(), file)
	} else {
		var b []byte
		b, err = os.ReadFile(file)
		doc = string(b)
	}
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(strings.NewReader(doc))
	d.DisallowUnknownFields()
	return out, d.Decode(&out)
}

func (p *Program) edit(cmd *cobra.Command, h *home, id, digest string, changes []approval.Change) error {
	ctx := cmd.Context()
	if !h.Keyed {
		return &Error{Failed, fmt.Errorf("the call cannot be read: the key file %s.key is not there; nothing was changed", p.db)}
	}
	r, err := p.request(ctx, h, id)
	if err != nil {
		return err
	}
	if digest, err = p.seen(cmd, r, digest, "Change this call?"); err != nil {
		return err
	}
	next, err := h.effects().Edit(ctx, r.ID, effect.Edit{Digest: digest, Changes: changes, Reason: p.reason})
	if err != nil {
		return err
	}
	v := viewOfRequest(next)
	return p.Emit(v, func(g *Page) {
		g.Line("changed: approval %s stands in place of %s; somebody else approves it", v.ID[:12], r.ID[:12])
		v.print(g)
		v.printTry(g, p)
	})
}

// seen is the digest of what somebody saw: they name it, or are shown the call and asked.
func (p *Program) seen(cmd *cobra.Command, r *approval.Request, digest, question string) (string, error) {
	if digest != "" || r.State != approval.Requested {
		return digest, nil
	}
	if !p.MayAsk() {
		return "", p.misuse(cmd, fmt.Errorf("say with --digest what you saw; %s shows it; nothing was done", p.Command("approvals show %s", r.ID[:12])))
	}
	v := viewOfRequest(r)
	return r.Call, p.sure(cmd.Context(), cmd, false, p.page(v.print)+"\n"+question)
}

func (p *Program) decided(r *approval.Request, what string, err error) error {
	if err != nil {
		return err
	}
	v := viewOfRequest(r)
	return p.Emit(v, func(g *Page) {
		g.Line("%s: %s %s of thread %s by %s (unverified)", what, v.Effect, v.Ref, v.Thread, p.who().ID)
		if v.State == approval.Granted {
			v.print(g)
		}
		g.Line("Look: %s", p.Command("threads show %s", ShellWord(v.Thread)))
		if p.serves(v.Graph) {
			g.Line("Go on: %s", p.Command("runs resume %s", ShellWord(v.Thread)))
		} else {
			g.Line("The thread goes on with a resume, or a worker, of the program that has graph %q.", v.Graph)
		}
	})
}

// completeRequests offers open requests to the shell.
func (p *Program) completeRequests(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	var ids []string
	if len(args) == 0 && p.settle(cmd) == nil {
		_ = p.within(cmd.Context(), func(h *home) error {
			open, err := h.approvals().List(cmd.Context(), approval.Filter{State: approval.Requested, Limit: 1000})
			for _, r := range open {
				if strings.HasPrefix(r.ID, begun) {
					ids = append(ids, r.ID+"\t"+r.Effect+" "+r.Ref+" of "+r.Thread)
				}
			}
			return err
		})
	}
	return ids, cobra.ShellCompDirectiveNoFileComp
}
