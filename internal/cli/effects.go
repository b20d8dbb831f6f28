package cli

import (
	"context"
	"encoding/json"
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
  pawl effects unknown --check          exit 8 when an outcome is unknown
  pawl effects show 5d41402a
  pawl effects release 5d41402a --not-applied --reason "not on the bank's statement"
  pawl effects report --target bank.jsonl --effect bank.transfer`)
	c.Aliases = []string{"effect"}
	c.AddCommand(p.effectsList(), p.effectsShow(), p.effectsUnknown(), p.effectsReconcile(), p.effectsRelease(), p.effectsVoid(), p.effectsRedo(),
		p.effectsReport(), p.effectsReconciled())
	return c
}

var operationStates = []string{
	"reserved", "dispatched", "committed", "rejected", "voided", "denied", "in_doubt", "quarantined", "released", "compensating", "compensated",
	"compensation_failed", "tombstone",
}

// picking are the flags that choose operations.
type picking struct {
	effect.Filter
	state, thread string
	only, check   bool
}

func (p *Program) effectsList() *cobra.Command {
	k := &picking{}
	c := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "Operations: outside actions and how they stand", Args: p.takes(0, "no argument"),
		Example: "  pawl effects list --thread order-17\n  pawl effects list --unknown --check -o json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if k.state != "" && !slices.Contains(operationStates, k.state) {
				return p.misuse(cmd, fmt.Errorf("--state %s: there are %s%s", k.state, strings.Join(operationStates, ", "), meant(k.state, operationStates...)))
			}
			return p.pick(cmd, k, func(g *Page, list []operationView) { tableOfOperations(g, list) })
		},
	}
	p.pickFlags(c, k)
	c.Flags().StringVar(&k.state, "state", "", "only operations in this `state`: "+strings.Join(operationStates, ", "))
	c.Flags().BoolVar(&k.only, "unknown", false, "only those of which nobody knows whether they happened")
	return c
}

func (p *Program) effectsUnknown() *cobra.Command {
	k := &picking{only: true}
	c := &cobra.Command{
		Use: "unknown", Short: "Operations of which nobody knows whether they happened, and what settles each", Args: p.takes(0, "no argument"),
		Example: "  pawl effects unknown\n  pawl effects unknown --check || page-somebody",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return p.pick(cmd, k, func(g *Page, list []operationView) { p.tableOfUnknown(g, list) })
		},
	}
	p.pickFlags(c, k)
	return c
}

func (p *Program) pickFlags(c *cobra.Command, k *picking) {
	fl := c.Flags()
	fl.StringVar(&k.Effect, "effect", "", "only operations of this `effect`")
	fl.StringVar(&k.thread, "thread", "", "only operations of this `thread`")
	fl.BoolVar(&k.check, "check", false, "exit 8 when one of those listed is of unknown outcome")
	fl.IntVar(&k.Limit, "limit", 100, "at most so many; 0: all")
}

func (p *Program) pick(cmd *cobra.Command, k *picking, table func(*Page, []operationView)) error {
	if k.Limit < 0 {
		return p.misuse(cmd, fmt.Errorf("--limit %d is negative", k.Limit))
	}
	f := effect.Filter{State: effect.State(k.state), Effect: k.Effect}
	return p.within(cmd.Context(), func(h *home) error {
		unknown, err := h.effects().Unknown(cmd.Context())
		if err != nil {
			return err
		}
		all := unknown
		if !k.only {
			if all, err = h.effects().List(cmd.Context(), f); err != nil {
				return err
			}
		}
		list := []operationView{}
		for i := range all {
			v := viewOfOperation(&all[i], unknown)
			if (k.thread == "" || v.Thread == k.thread) && (f.Effect == "" || v.Effect == f.Effect) && (k.state == "" || string(v.State) == k.state) {
				list = append(list, v)
			}
		}
		if k.Limit > 0 && len(list) > k.Limit {
			list = list[:k.Limit]
			p.talk("there are more: --limit 0 for all")
		}
		if err := p.Emit(list, func(g *Page) { table(g, list) }); err != nil || !k.check {
			return err
		}
		return p.doubts(list)
	})
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

func (p *Program) tableOfUnknown(g *Page, list []operationView) {
	if len(list) == 0 {
		g.Line("no effects of unknown outcome")
		return
	}
	var rows [][]string
	for _, o := range list {
		rows = append(rows, []string{o.Key[:12], string(o.State), o.Effect, o.Ref, o.Thread, g.Ago(o.Last), p.settling(&o)})
	}
	g.Table([]string{"OPERATION", "STATE", "EFFECT", "REF", "THREAD", "SENT", "NEXT"}, rows...)
}

// settling is the command that settles an operation of unknown outcome.
func (p *Program) settling(o *operationView) string {
	switch {
	case o.State == effect.StateQuarantined, o.Target == "opaque":
		return p.Command("effects release %s ... --reason HOW", o.Key[:12])
	case o.Target == "look-up" && p.serves(o.Graph):
		return p.Command("effects reconcile %s", o.Key[:12])
	}
	return p.Command("runs resume %s", ShellWord(o.Thread))
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
		Example: "  pawl effects show 5d41402a", ValidArgsFunction: p.completeOperations,
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
		if next := p.settling(&v.operationView); !strings.Contains(next, "effects release") {
			g.Line("  %s", next)
		}
		g.Line("  %s", p.Command("effects release %s --applied RECEIPT --reason HOW", v.Key[:12]))
		g.Line("  %s", p.Command("effects release %s --not-applied --reason HOW", v.Key[:12]))
	}
}

// completeOperations offers keys to the shell, those of unknown outcome first.
func (p *Program) completeOperations(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	var keys []string
	if len(args) == 0 && p.settle(cmd) == nil {
		_ = p.within(cmd.Context(), func(h *home) error {
			unknown, err := h.effects().Unknown(cmd.Context())
			if err != nil {
				return err
			}
			all, err := h.effects().List(cmd.Context(), effect.Filter{Limit: 1000})
			for _, o := range append(unknown, all...) {
				if key := o.Key[:12] + "\t" + o.Effect + " " + o.Ref.String() + ", " + string(o.State); strings.HasPrefix(o.Key, begun) && !slices.Contains(keys, key) {
					keys = append(keys, key)
				}
			}
			return err
		})
	}
	return keys, cobra.ShellCompDirectiveNoFileComp
}
