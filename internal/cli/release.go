package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/effect"
)

const aboutReconcile = `Ask the target what became of an operation in doubt, without entering any node. Found, it is committed with its receipt;
certainly absent, it may be sent by the thread that goes on; what the look-up contradicts is quarantined. It needs the
code of the operation's graph, whose effect has the look-up.

Exit 8: it is too early to trust that nothing is there, or the target gave no answer; 5: it is not in doubt.`

func (p *Program) effectsReconcile() *cobra.Command {
	c := &cobra.Command{
		Use: "reconcile KEY", Short: "Ask the target what became of an operation in doubt", Long: aboutReconcile, Args: p.takes(1, anOperation),
		Example: `  refund effects reconcile 5d41402a --reason "the customer called"`, ValidArgsFunction: p.completeOperations,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			return p.within(ctx, func(h *home) error {
				op, err := p.operation(ctx, h, args[0])
				if err != nil {
					return err
				}
				if err := p.needs(op.Graph, "reconcile"); err != nil {
					return err
				}
				op, err = h.effects().Reconcile(ctx, op.Key, p.reason)
				return p.settled("reconciled", op, err)
			})
		},
	}
	p.reasonFlag(c, "`why`; kept with what is found")
	return c
}

const anOperation = "an operation's key, or eight digits of it"

func (p *Program) reasonFlag(c *cobra.Command, text string) {
	c.Flags().StringVar(&p.reason, "reason", "", text)
}

// settled prints what became of an operation.
func (p *Program) settled(what string, op *effect.Operation, err error) error {
	if err != nil {
		return err
	}
	v := viewOfOperation(op, nil)
	return p.Emit(v, func(g *Page) {
		g.Line("%s: %s %s is %s", what, v.Effect, v.Ref, string(v.State))
		g.Line("Look: %s", p.Command("effects show %s", v.Key[:12]))
		g.Line("Go on: %s", p.Command("runs resume %s", ShellWord(v.Thread)))
	})
}

const aboutRelease = `Decide about an operation of unknown outcome, when you found out by other means or have to choose: that it happened, with
its receipt as JSON; that it did not happen and will not, so that it may be sent again; that it is sent once more, whatever
happened; or that it is given up. --reason says how you know, or why. The threads that wait for it go on with a resume.
Where the effect asks for two people, the first decision is recorded and counts once another person decides the same.

Exit 5: it is not in doubt, or still on its way; 6: recorded, and a second person is needed.`

// verdict are the flags of a release.
type verdict struct {
	applied            string
	not, once, abandon bool
}

func (p *Program) effectsRelease() *cobra.Command {
	v := &verdict{}
	c := &cobra.Command{
		Use: "release KEY", Aliases: []string{"settle"}, Short: "Decide what becomes of an operation of unknown outcome", Long: aboutRelease,
		Args: p.takes(1, anOperation), ValidArgsFunction: p.completeOperations,
		Example: `  pawl effects release 5d41402a --applied '{"id": "tr-991"}' --reason "on the bank's statement"
  pawl effects release 5d41402a --not-applied --reason "the bank has no such transfer"
  pawl effects release 5d41402a --send-once --reason "the bank refuses duplicates by hand"`,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			say, err := p.decision(cmd, v)
			if err != nil {
				return err
			}
			return p.within(ctx, func(h *home) error {
				if v.applied != "" && !h.Keyed {
					return &Error{Failed, fmt.Errorf("the receipt would be sealed under a key that ends with this process: the key file %s.key is not there; nothing was changed", p.db)}
				}
				op, err := h.effects().Release(ctx, args[0], say, p.reason)
				return p.settled("settled", op, err)
			})
		},
	}
	c.Flags().StringVar(&v.applied, "applied", "", "it happened, with this `receipt` as JSON, or - for the standard input")
	c.Flags().BoolVar(&v.not, "not-applied", false, "it did not happen and will not")
	c.Flags().BoolVar(&v.once, "send-once", false, "permit one more dispatch, whatever became of those before")
	c.Flags().BoolVar(&v.abandon, "abandon", false, "give it up: nobody will know, and it is not sent again")
	p.reasonFlag(c, "`how` you know, or why; kept as evidence")
	return c
}

// decision reads what the flags decide.
func (p *Program) decision(cmd *cobra.Command, v *verdict) (none effect.Decision, err error) {
	said := 0
	for _, is := range []bool{v.applied != "", v.not, v.once, v.abandon} {
		if is {
			said++
		}
	}
	switch {
	case said != 1:
		return none, p.misuse(cmd, errors.New("decide one thing: --applied RECEIPT, --not-applied, --send-once or --abandon"))
	case p.reason == "":
		return none, p.misuse(cmd, errors.New("say with --reason how you know"))
	case v.once:
		return effect.SendOnce(), nil
	case v.abandon:
		return effect.Abandon(), nil
	case v.not:
		return effect.NotApplied(), nil
	}
	doc, err := p.text(cmd.Context(), v.applied)
	if err != nil {
		return none, err
	}
	if !json.Valid([]byte(doc)) {
		return none, p.misuse(cmd, errors.New("the receipt is no JSON; text needs quotes, as in '\"tr-991\"'"))
	}
	return effect.Applied(json.RawMessage(doc)), nil
}

const aboutVoid = `Give an operation up. One that is only reserved is voided: nothing of it was sent, its request ends, and a thread that still
wants the call asks anew (to say no to a call, reject its approval instead). A redo that is given up leaves the first
operation as it was. One of unknown outcome is abandoned: nobody will know, and it is never sent again.

It asks first; --yes says yes. Exit 5: it happened, is over, or is on its way.`

func (p *Program) effectsVoid() *cobra.Command {
	var yes bool
	c := &cobra.Command{
		Use: "void KEY", Short: "Give up an operation that is reserved, or whose outcome nobody will know", Long: aboutVoid,
		Args: p.takes(1, anOperation), ValidArgsFunction: p.completeOperations,
		Example: `  pawl effects void 5d41402a --yes --reason "the redo is not needed"`,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			if p.reason == "" {
				return p.misuse(cmd, errors.New("say with --reason why; it is kept"))
			}
			return p.within(ctx, func(h *home) error {
				op, err := p.operation(ctx, h, args[0])
				if err != nil {
					return err
				}
				if err := p.sure(ctx, cmd, yes, fmt.Sprintf("Give up %s %s, which is %s?", op.Effect, op.Ref, op.State)); err != nil {
					return err
				}
				return p.void(ctx, h, op)
			})
		},
	}
	c.Flags().BoolVar(&yes, "yes", false, "give it up without asking")
	p.reasonFlag(c, "`why`; kept with it")
	return c
}

func (p *Program) void(ctx context.Context, h *home, op *effect.Operation) (err error) {
	if op.State.Unknown() || op.State == effect.StateDispatched {
		op, err = h.effects().Release(ctx, op.Key, effect.Abandon(), p.reason)
	} else {
		op, err = h.effects().Void(ctx, op.Key, p.reason)
	}
	return p.settled("given up", op, err)
}

const aboutRedo = `Authorise an effect that happened, or was abandoned, a second time: a new operation with a key of its own, and an approval of
its own where the effect asks for one. Nothing is sent by it. The next time that a node asks for the same call under the
same reference, it is sent once: fork the thread from before that node. effects void gives it up again.

Exit 5: it did not happen, or another operation stands for its reference.`

func (p *Program) effectsRedo() *cobra.Command {
	c := &cobra.Command{
		Use: "redo KEY", Short: "Authorise an effect a second time, on purpose", Long: aboutRedo, Args: p.takes(1, anOperation),
		Example: `  pawl effects redo 5d41402a --reason "the parcel was lost"`, ValidArgsFunction: p.completeOperations,
		RunE: func(cmd *cobra.Command, args []string) error {
			if p.reason == "" {
				return p.misuse(cmd, errors.New("say with --reason why it is done twice; it is kept"))
			}
			return p.within(cmd.Context(), func(h *home) error {
				was, err := p.operation(cmd.Context(), h, args[0])
				if err != nil {
					return err
				}
				op, err := h.effects().Redo(cmd.Context(), was.Key, p.reason)
				if err != nil {
					return err
				}
				v := viewOfOperation(op, nil)
				return p.Emit(v, func(g *Page) {
					g.Line("authorised a second time: %s %s, operation %s, in place of %s", v.Effect, v.Ref, v.Key[:12], was.Key[:12])
					g.Line("Nothing was sent. Send it: %s", p.Command("threads fork %s --before %s", ShellWord(was.Thread), ShellWord(was.Node)))
					g.Line("Give it up: %s", p.Command("effects void %s --reason WHY", v.Key[:12]))
				})
			})
		},
	}
	p.reasonFlag(c, "`why` it is done twice; kept with both")
	return c
}
