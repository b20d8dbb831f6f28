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
	"github.com/pawl-dev/pawl/effect"
)

// effects is the tenant's desk.
func (h *home) effects() *effect.Desk { return h.Ledger.Desk(h.eng, h.DB) }

// operation finds an operation by its key, or by the start of it that no other has.
func (p *Program) operation(ctx context.Context, h *home, key string) (*effect.Operation, error) {
	const least = 8
	all, err := h.effects().List(ctx, effect.Filter{})
	if err != nil {
		return nil, err
	}
	var found []*effect.Operation
	for i := range all {
		if len(key) >= least && strings.HasPrefix(all[i].Key, key) {
			found = append(found, &all[i])
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return nil, &pawl.NotFoundError{What: "operation", ID: key, Hint: p.Name + " effects list shows their keys; give eight digits or more"}
	}
	return nil, ambiguous("operation", key, []string{found[0].Key, found[1].Key})
}

// operationView is an operation as it is printed.
type operationView struct {
	Key      string       `json:"key"`
	Effect   string       `json:"effect"`
	Ref      string       `json:"ref"`
	Revision int64        `json:"revision"`
	State    effect.State `json:"state"`
	Unknown  bool         `json:"unknown"` // nobody knows whether it happened, and nobody is at it
	Target   string       `json:"target"`  // what the target promises: keys, look-up, opaque
	Attempts int64        `json:"attempts"`
	Digest   string       `json:"digest"` // of the exact call
	Approval string       `json:"approval,omitempty"`
	Receipt  string       `json:"receipt,omitempty"` // its id, or its digest
	Reason   string       `json:"reason,omitempty"`
	Thread   string       `json:"thread"`
	Graph    string       `json:"graph"`
	Node     string       `json:"node"`
	Run      string       `json:"run"`
	First    time.Time    `json:"first,omitzero"` // dispatch
	Last     time.Time    `json:"last,omitzero"`
	Updated  time.Time    `json:"updated"`
}

func viewOfOperation(o *effect.Operation, unknown []effect.Operation) operationView {
	return operationView{
		Key: o.Key, Effect: o.Effect, Ref: o.Ref.String(), Revision: o.Revision, State: o.State, Target: o.Target, Attempts: o.Attempts,
		Unknown: slices.ContainsFunc(unknown, func(u effect.Operation) bool { return u.Key == o.Key }),
		Digest:  o.Call, Approval: o.Grant, Receipt: o.Receipt, Reason: o.Reason, Thread: o.Thread, Graph: o.Graph, Node: o.Node, Run: o.Run,
		First: o.First.UTC(), Last: o.Last.UTC(), Updated: o.Updated.UTC(),
	}
}

func (p *Program) effectsGroup() *cobra.Command {
	c := p.group("effects", "Effects: outside actions, what became of them, and doubts to settle", `  pawl effects list
  pawl effects list --unknown --check     exit 8 when an outcome is unknown
  pawl effects show 5d41402a
  pawl effects settle 5d41402a --not-applied --reason "not on the bank's statement"`)
	c.Aliases = []string{"effect"}
	c.AddCommand(p.effectsList(), p.effectsShow(), p.effectsSettle())
	return c
}

func (p *Program) effectsList() *cobra.Command {
	var f effect.Filter
	var state, thread string
	var only, check bool
	c := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "Operations: outside actions and how they stand", Args: p.takes(0, "no argument"),
		Example: "  pawl effects list --thread order-17\n  pawl effects list --unknown --check -o json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.Limit < 0 {
				return p.misuse(cmd, fmt.Errorf("--limit %d is negative", f.Limit))
			}
			limit := f.Limit
			f.State, f.Limit = effect.State(state), 0
			return p.within(cmd.Context(), func(h *home) error {
				unknown, err := h.effects().Unknown(cmd.Context())
				if err != nil {
					return err
				}
				all := unknown
				if !only {
					if all, err = h.effects().List(cmd.Context(), f); err != nil {
						return err
					}
				}
				list := []operationView{}
				for i := range all {
					v := viewOfOperation(&all[i], unknown)
					if (thread == "" || v.Thread == thread) && (f.Effect == "" || v.Effect == f.Effect) && (state == "" || string(v.State) == state) {
						list = append(list, v)
					}
				}
				if limit > 0 && len(list) > limit {
					list = list[:limit]
					p.talk("there are more: --limit 0 for all")
				}
				if err := p.Emit(list, func(g *Page) { tableOfOperations(g, list) }); err != nil || !check {
					return err
				}
				return p.doubts(list)
			})
		},
	}
	fl := c.Flags()
	fl.StringVar(&state, "state", "", "only operations in this `state`: reserved, dispatched, committed, rejected, voided, denied, in_doubt, quarantined, released, compensating, compensated, compensation_failed, tombstone")
	fl.StringVar(&f.Effect, "effect", "", "only operations of this `effect`")
	fl.StringVar(&thread, "thread", "", "only operations of this `thread`")
	fl.BoolVar(&only, "unknown", false, "only those of which nobody knows whether they happened")
	fl.BoolVar(&check, "check", false, "exit 8 when one of those listed is of unknown outcome")
	fl.IntVar(&f.Limit, "limit", 100, "at most so many; 0: all")
	return c
}

// doubts is the error that leads to exit 8.
func (p *Program) doubts(list []operationView) error {
	var of []string
	for _, o := range list {
		if o.Unknown {
			of = append(of, o.Effect+" "+o.Ref)
		}
	}
	if len(of) == 0 {
		return nil
	}
	return &Error{InDoubt, fmt.Errorf("nobody knows the outcome of: %s", strings.Join(of, ", "))}
}

func tableOfOperations(g *Page, list []operationView) {
	if len(list) == 0 {
		g.Line("no effects")
		return
	}
	var rows [][]string
	for _, o := range list {
		state := string(o.State)
		if o.Unknown && !o.State.Unknown() {
			state += " (unknown)"
		}
		rows = append(rows, []string{o.Key[:12], state, o.Effect, o.Ref, fmt.Sprint(o.Attempts), o.Thread, g.Ago(o.Updated), short(o.Receipt, 20)})
	}
	g.Table([]string{"OPERATION", "STATE", "EFFECT", "REF", "ATTEMPTS", "THREAD", "CHANGED", "RECEIPT"}, rows...)
}

// shownView is all about one operation.
type shownView struct {
	operationView
	Parameters json.RawMessage   `json:"parameters,omitempty"` // redacted
	Sent       []effect.Attempt  `json:"sent"`
	Evidence   []effect.Evidence `json:"evidence"`
	Request    *requestView      `json:"request,omitempty"`
}

func (p *Program) effectsShow() *cobra.Command {
	var check bool
	c := &cobra.Command{
		Use: "show KEY", Short: "One operation: what was sent, how often, and what is known", Args: p.takes(1, "an operation's key, or eight digits of it"),
		Example: "  pawl effects show 5d41402a",
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.within(cmd.Context(), func(h *home) error {
				s, err := h.effects().Show(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				unknown, err := h.effects().Unknown(cmd.Context())
				if err != nil {
					return err
				}
				v := shownView{
					operationView: viewOfOperation(&s.Operation, unknown), Parameters: s.Params,
					Sent: append([]effect.Attempt{}, s.Attempts...), Evidence: append([]effect.Evidence{}, s.Evidence...),
				}
				if s.Request != nil {
					r := viewOfRequest(s.Request)
					v.Request = &r
				}
				if err := p.Emit(v, func(g *Page) { v.print(g, p) }); err != nil || !check {
					return err
				}
				return p.doubts([]operationView{v.operationView})
			})
		},
	}
	c.Flags().BoolVar(&check, "check", false, "exit 8 when its outcome is unknown")
	return c
}

func (v *shownView) print(g *Page, p *Program) {
	rows := [][]string{{"operation", v.Key}, {"effect", v.Effect}, {"reference", v.Ref}, {"state", string(v.State)}}
	add := func(name, val string) {
		if val != "" {
			rows = append(rows, []string{name, val})
		}
	}
	if v.Unknown {
		add("outcome", "unknown: it may have happened")
	}
	add("reason", v.Reason)
	add("receipt", v.Receipt)
	add("target", v.Target)
	add("from", "node "+v.Node+" of graph "+v.Graph+", thread "+v.Thread)
	add("approval", v.Approval)
	add("digest", v.Digest)
	g.Table(nil, rows...)
	if len(v.Parameters) > 0 {
		g.Line("\nThe call, without its secrets:")
		g.Line("%s", indented(v.Parameters))
	}
	for _, a := range v.Sent {
		outcome := a.Outcome
		if outcome == "" {
			outcome = "no outcome recorded"
		}
		g.Line("\nAttempt %d, %s: %s", a.N, g.Ago(a.At), outcome)
	}
	for _, e := range v.Evidence {
		g.Line("\nEvidence of a %s, %s: %s %s %s", e.Kind, g.Ago(e.At), e.Found, e.By, e.Reason)
	}
	if v.Unknown {
		g.Line("\nTry:")
		g.Line("  %s", p.Command("effects settle %s --applied RECEIPT --reason HOW", v.Key[:12]))
		g.Line("  %s", p.Command("effects settle %s --not-applied --reason HOW", v.Key[:12]))
	}
}

const aboutSettle = `Decide about an operation of unknown outcome, when you found out by other means or have to choose: that it happened, with
its receipt as JSON; that it did not happen and will not, so that it may be sent again; that it is sent once more, whatever
happened; or that it is given up. --reason says how you know, or why. The threads that wait for it go on with a resume.
Where the effect asks for two people, the first decision is recorded and counts once another person decides the same.

Exit 5: it is not in doubt, or still on its way.`

func (p *Program) effectsSettle() *cobra.Command {
	var applied string
	var not, once, abandon bool
	c := &cobra.Command{
		Use: "settle KEY", Aliases: []string{"release", "reconcile"}, Short: "Decide what becomes of an operation of unknown outcome", Long: aboutSettle,
		Args: p.takes(1, "an operation's key, or eight digits of it"),
		Example: `  pawl effects settle 5d41402a --applied '{"id": "tr-991"}' --reason "on the bank's statement"
  pawl effects settle 5d41402a --not-applied --reason "the bank has no such transfer"
  pawl effects settle 5d41402a --send-once --reason "the bank refuses duplicates by hand"`,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			found, said := effect.NotApplied(), 0
			for _, is := range []bool{applied != "", not, once, abandon} {
				if is {
					said++
				}
			}
			switch {
			case said != 1:
				return p.misuse(cmd, errors.New("decide one thing: --applied RECEIPT, --not-applied, --send-once or --abandon"))
			case p.reason == "":
				return p.misuse(cmd, errors.New("say with --reason how you know"))
			case applied != "":
				doc, err := p.text(ctx, applied)
				if err != nil {
					return err
				}
				if !json.Valid([]byte(doc)) {
					return p.misuse(cmd, errors.New("the receipt is no JSON; text needs quotes, as in '\"tr-991\"'"))
				}
				found = effect.Applied(json.RawMessage(doc))
			case once:
				found = effect.SendOnce()
			case abandon:
				found = effect.Abandon()
			}
			return p.within(ctx, func(h *home) error {
				if applied != "" && !h.Keyed {
					return &Error{Failed, fmt.Errorf("the receipt would be sealed under a key that ends with this process: the key file %s.key is not there; nothing was changed", p.db)}
				}
				op, err := h.effects().Release(ctx, args[0], found, p.reason)
				if err != nil {
					return err
				}
				v := viewOfOperation(op, nil)
				return p.Emit(v, func(g *Page) {
					g.Line("settled: %s %s is %s", v.Effect, v.Ref, string(v.State))
					g.Line("Look: %s", p.Command("effects show %s", v.Key[:12]))
					g.Line("Go on: %s", p.Command("runs resume %s", ShellWord(v.Thread)))
				})
			})
		},
	}
	c.Flags().StringVar(&applied, "applied", "", "it happened, with this `receipt` as JSON, or - for the standard input")
	c.Flags().BoolVar(&not, "not-applied", false, "it did not happen and will not")
	c.Flags().BoolVar(&once, "send-once", false, "permit one more dispatch, whatever became of those before")
	c.Flags().BoolVar(&abandon, "abandon", false, "give it up: nobody will know, and it is not sent again")
	c.Flags().StringVar(&p.reason, "reason", "", "`how` you know, or why; kept as evidence")
	return c
}
