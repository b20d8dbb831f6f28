package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/approval"
)

// approvals is the tenant's desk.
func (h *home) approvals() *approval.Desk { return approval.NewDesk(h.eng, h.DB) }

// requestView is a request as it is printed.
type requestView struct {
	ID         string            `json:"id"`
	State      approval.State    `json:"state"`
	Effect     string            `json:"effect"`
	Ref        string            `json:"ref"`
	Call       json.RawMessage   `json:"call"`   // redacted
	Digest     string            `json:"digest"` // of the exact call: what is approved
	ViewDigest string            `json:"view_digest"`
	Redaction  string            `json:"redaction"`
	To         string            `json:"to"`
	Word       string            `json:"word"`  // the state in plain words
	Asked      []string          `json:"asked"` // who may decide now
	Editor     string            `json:"editor,omitempty"`
	Instead    string            `json:"instead,omitempty"` // the request in whose place this one is
	Why        string            `json:"why,omitempty"`
	Diff       []approval.Change `json:"diff,omitempty"`
	Thread     string            `json:"thread"`
	Graph      string            `json:"graph"`
	Node       string            `json:"node"`
	Run        string            `json:"run"`
	Operation  string            `json:"operation"`
	Wait       string            `json:"wait"` // the id under which the thread shows it
	Requested  time.Time         `json:"requested"`
	Due        time.Time         `json:"due,omitzero"`
	Until      time.Time         `json:"until,omitzero"` // when an unused grant lapses
	Decided    time.Time         `json:"decided,omitzero"`
	By         string            `json:"by,omitempty"`
	Reason     string            `json:"reason,omitempty"`
	UsedBy     string            `json:"used_by,omitempty"`
	Unused     string            `json:"unused,omitempty"` // why it ended without a dispatch
}

func viewOfRequest(r *approval.Request) requestView {
	return requestView{
		ID: r.ID, State: r.State, Effect: r.Effect, Ref: r.Ref, Call: r.View, Digest: r.Call, ViewDigest: r.ViewDigest, Redaction: r.Redaction,
		To: r.To, Thread: r.Thread, Graph: r.Graph, Node: r.Node, Run: r.Run, Operation: r.Operation, Wait: r.Wait, Requested: r.Requested.UTC(),
		Due: r.Due.UTC(), Until: r.Until.UTC(), Decided: r.Decided.UTC(), By: r.By, Reason: r.Reason, UsedBy: r.UsedBy, Unused: r.Unused,
		Word: r.Word(), Asked: r.Asked(), Editor: r.Editor, Instead: r.Instead, Why: r.Why, Diff: r.Diff,
	}
}

func (p *Program) approvalsGroup() *cobra.Command {
	c := p.group("approvals", "Approvals: what people are asked to allow, and what they said", `  pawl approvals list
  pawl approvals show 3f9c27
  pawl approvals approve 3f9c27 --digest 9be1… --reason "checked the invoice"
  pawl approvals edit 3f9c27 --digest 9be1… --set /amount='"80.00"' --reason "half of it"
  pawl approvals reject 3f9c27 --reason "wrong account"`)
	c.Aliases = []string{"approval"}
	c.AddCommand(p.approvalsList(), p.approvalsShow(), p.approvalsApprove(), p.approvalsReject(), p.approvalsRespond(), p.approvalsEdit(),
		p.approvalsRevoke())
	return c
}

var requestStates = [...]approval.State{
	approval.Requested, approval.Granted, approval.Denied, approval.Expired, approval.Superseded, approval.Withdrawn, approval.Consumed, approval.Lapsed,
	approval.Revoked,
}

func (p *Program) approvalsList() *cobra.Command {
	var f approval.Filter
	state := string(approval.Requested)
	c := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "Requests; those that wait for a decision unless --state says otherwise", Args: p.takes(0, "no argument"),
		Example: "  pawl approvals list\n  pawl approvals list --state all --thread order-17 -o jsonl",
		RunE: func(cmd *cobra.Command, _ []string) error {
			names := []string{"all"}
			for _, s := range requestStates {
				names = append(names, string(s))
			}
			switch {
			case !slices.Contains(names, state):
				return p.misuse(cmd, fmt.Errorf("--state %s: there are %s%s", state, strings.Join(names, ", "), meant(state, names...)))
			case f.Limit < 0:
				return p.misuse(cmd, fmt.Errorf("--limit %d is negative", f.Limit))
			case state != "all":
				f.State = approval.State(state)
			}
			return p.within(cmd.Context(), func(h *home) error {
				found, err := h.approvals().List(cmd.Context(), f)
				if err != nil {
					return err
				}
				list := make([]requestView, len(found))
				for i := range found {
					list[i] = viewOfRequest(&found[i])
				}
				return p.Emit(list, func(g *Page) { tableOfRequests(g, list) })
			})
		},
	}
	fl := c.Flags()
	fl.StringVar(&state, "state", state, "only requests in this `state`, or all")
	fl.StringVar(&f.Thread, "thread", "", "only requests of this `thread`")
	fl.StringVar(&f.To, "to", "", "only requests to this `group` or person")
	fl.IntVar(&f.Limit, "limit", 100, "at most so many; 0: all")
	return c
}

func tableOfRequests(g *Page, list []requestView) {
	if len(list) == 0 {
		g.Line("no approvals")
		return
	}
	var rows [][]string
	for _, r := range list {
		ends := "never"
		if !r.Due.IsZero() && r.State == approval.Requested {
			ends = g.Ago(r.Due)
		}
		rows = append(rows, []string{r.ID[:12], string(r.State), r.Effect, r.Ref, r.To, ends, r.Thread, short(compact(r.Call), widest)})
	}
	g.Table([]string{"APPROVAL", "STATE", "EFFECT", "REF", "TO", "EXPIRES", "THREAD", "CALL"}, rows...)
}

// request finds a request by the start of its id, or of the id under which its thread shows it. Whoever looks is in the trail.
func (p *Program) request(ctx context.Context, h *home, id string) (*approval.Request, error) {
	desk := h.approvals()
	if r, err := desk.Show(ctx, id); !errors.Is(err, pawl.ErrNotFound) {
		return r, err
	}
	all, err := desk.List(ctx, approval.Filter{})
	if err != nil {
		return nil, err
	}
	var found []string
	for _, r := range all {
		if id != "" && (strings.HasPrefix(r.ID, id) || strings.HasPrefix(r.Wait, id)) {
			found = append(found, r.ID)
		}
	}
	switch len(found) {
	case 1:
		return desk.Show(ctx, found[0])
	case 0:
		return nil, &pawl.NotFoundError{What: "approval", ID: id, Hint: p.Name + " approvals list shows what waits"}
	}
	return nil, ambiguous("approval", id, found)
}

func (p *Program) approvalsShow() *cobra.Command {
	return &cobra.Command{
		Use: "show ID", Short: "What is to be allowed: the call, who decides, and until when", Args: p.takes(1, "an approval's id"),
		Example: "  pawl approvals show 3f9c27\n  pawl approvals show 3f9c27 -o json", ValidArgsFunction: p.completeRequests,
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.within(cmd.Context(), func(h *home) error {
				r, err := p.request(cmd.Context(), h, args[0])
				if err != nil {
					return err
				}
				v := viewOfRequest(r)
				return p.Emit(v, func(g *Page) {
					v.print(g)
					v.printTry(g, p)
				})
			})
		},
	}
}

// print is the card that people decide on.
func (v *requestView) print(g *Page) {
	rows := [][]string{{"approval", v.ID}, {"state", string(v.State)}, {"effect", v.Effect + " " + v.Ref}}
	add := func(name, val string) {
		if val != "" {
			rows = append(rows, []string{name, val})
		}
	}
	add("to", strings.Join(v.Asked, ", "))
	add("asked again", v.Why)
	for _, c := range v.Diff {
		add("changed", c.Path+": "+seenAs(c.Old, c.Hidden)+" -> "+seenAs(c.New, c.Hidden))
	}
	add("asked", g.Ago(v.Requested)+" by node "+v.Node+" of graph "+v.Graph+", thread "+v.Thread)
	if v.State == approval.Requested {
		if ends := "never"; !v.Due.IsZero() {
			ends = g.Ago(v.Due) + "; nobody's answer is a no"
			add("expires", ends)
		}
	}
	if v.By != "" {
		add("decided", g.Ago(v.Decided)+" by "+v.By+" (unverified)")
	}
	if v.State == approval.Granted && !v.Until.IsZero() {
		add("lapses", g.Ago(v.Until))
	}
	add("reason", v.Reason)
	add("used by", v.UsedBy)
	add("unused", v.Unused)
	add("digest", v.Digest)
	g.Table(nil, rows...)
	g.Line("\nThe call, without its secrets:")
	g.Line("%s", indented(v.Call))
}

// seenAs is one side of a change.
func seenAs(doc json.RawMessage, hidden bool) string {
	switch {
	case hidden:
		return "[hidden]"
	case len(doc) == 0:
		return "nothing"
	}
	return compact(doc)
}

// printTry prints what may be decided.
func (v *requestView) printTry(g *Page, p *Program) {
	if v.State != approval.Requested {
		return
	}
	g.Line("\nTry:")
	g.Line("  %s", p.Command("approvals approve %s --digest %s", v.ID[:12], v.Digest))
	g.Line("  %s", p.Command("approvals edit %s --digest %s --set POINTER=VALUE --reason WHY", v.ID[:12], v.Digest))
	g.Line("  %s", p.Command("approvals reject %s --reason WHY", v.ID[:12]))
}

func indented(doc []byte) string {
	out, err := json.MarshalIndent(json.RawMessage(doc), "  ", "  ")
	if err != nil {
		return "  " + string(doc)
	}
	return "  " + string(out)
}

const aboutApprove = `Allow one exact call, once. What is approved is named by its digest, as approvals show prints it: with --digest a script
approves what it saw and nothing else. On a terminal the call is shown and asked about instead.

Whoever decides must be who the request is for: --group and --actor say who you are, unverified, and that is recorded.
Approving runs nothing: the thread goes on with a resume, or where a worker of its program runs.

The call is printed as it was approved, without its secrets, with what differs from the one before it.

Exit 3: no such approval; 4: not yours to decide; 5: decided, expired, withdrawn, or another digest.`

func (p *Program) approvalsApprove() *cobra.Command {
	var digest string
	c := &cobra.Command{
		Use: "approve ID", Short: "Allow one exact call, once", Long: aboutApprove, Args: p.takes(1, "an approval's id"),
		ValidArgsFunction: p.completeRequests,
		Example:           `  pawl approvals approve 3f9c27 --digest 9be1… --group finance --reason "checked the invoice"`,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			return p.within(ctx, func(h *home) error {
				r, err := p.request(ctx, h, args[0])
				if err != nil {
					return err
				}
				if digest, err = p.seen(cmd, r, digest, "Approve this call?"); err != nil {
					return err
				}
				decided, err := h.approvals().Approve(ctx, r.ID, approval.Decision{Digest: digest, Reason: p.reason})
				return p.decided(decided, "approved", err)
			})
		},
	}
	c.Flags().StringVar(&digest, "digest", "", "approve only the call that has this `digest`")
	p.reasonFlag(c, "`why`; kept with the decision")
	return c
}
