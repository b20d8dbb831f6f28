package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
)

// going are the flags of the verbs that run nodes.
type going struct {
	wait    bool
	timeout func(context.Context) (context.Context, context.CancelFunc)
}

func (p *Program) goingFlags(c *cobra.Command) *going {
	g := &going{timeout: timeoutFlag(c)}
	c.Flags().BoolVar(&g.wait, "wait", false, "exit 6 when the run stopped for a person, 8 when an effect's outcome is unknown")
	return g
}

func timeoutFlag(c *cobra.Command) func(context.Context) (context.Context, context.CancelFunc) {
	limit := c.Flags().Duration("timeout", 0, "give up after this `time`, with exit 124; what is done is kept")
	return func(ctx context.Context) (context.Context, context.CancelFunc) {
		if *limit <= 0 {
			return context.WithCancel(ctx)
		}
		return context.WithTimeout(ctx, *limit)
	}
}

// late tells a command that ran out of its own time from one that failed.
func late(ctx context.Context, err error) error {
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return &Error{TimedOut, err}
	}
	return err
}

// outcomeView is how a run stopped, and what may be done about it.
type outcomeView struct {
	*pawl.Outcome
	Waiting []pawl.Question `json:"waiting"`
	Actions []string        `json:"actions"`
}

// goes runs a verb and prints how the run stopped.
func (p *Program) goes(ctx context.Context, g *going, verb func(context.Context) (*pawl.Outcome, error)) error {
	within, stop := g.timeout(ctx)
	defer stop()
	out, err := verb(within)
	err = late(within, err)
	if out == nil {
		return err
	}
	v := &outcomeView{Outcome: out, Waiting: append([]pawl.Question{}, out.Waiting...), Actions: []string{}}
	id := ShellWord(out.Thread)
	for _, q := range v.Waiting {
		v.Actions = append(v.Actions, p.actionOn(q))
	}
	switch {
	case out.Status == pawl.Waiting:
		v.Actions = append(v.Actions, p.Command("runs resume %s", id))
	case out.Status == pawl.Failed && out.Cause != pawl.CauseConcluded:
		v.Actions = append(v.Actions, p.Command("runs resume %s", id), p.Command("runs retry %s", id))
	}
	v.Actions = append(v.Actions, p.Command("threads show %s", id))
	err = errors.Join(err, p.Emit(v, func(g *Page) { v.print(g) }))
	if err == nil && g.wait && out.Status != pawl.Done {
		err = stoppedFor(out)
	}
	return err
}

func stoppedFor(out *pawl.Outcome) error {
	code, names := Stopped, []string{}
	for _, q := range out.Waiting {
		if names = append(names, q.Name); q.Kind == kindDoubt {
			code = InDoubt
		}
	}
	return &Error{code, fmt.Errorf("thread %q waits for a person: %s", out.Thread, strings.Join(names, ", "))}
}

func (v *outcomeView) print(g *Page) {
	rows := [][]string{{"thread", v.Thread}, {"graph", v.Graph}, {"status", string(v.Status)}}
	if v.Status == pawl.Failed || v.Status == pawl.Cancelled {
		rows = append(rows, []string{"cause", string(v.Cause)}, []string{"reason", v.Reason})
	}
	rows = append(rows, []string{"run", v.Run}, []string{"values", short(compact(v.Values), 4*widest)})
	g.Table(nil, rows...)
	printQuestions(g, v.Waiting)
	g.Line("\nTry:")
	for _, a := range v.Actions {
		g.Line("  %s", a)
	}
}

func (p *Program) runsStart() *cobra.Command {
	var input, id, mode string
	c := &cobra.Command{
		Use: "start GRAPH THREAD", Short: "Start a run of a graph, and run it until it stops", Args: p.takes(2, "a graph and a thread's id"),
		Long: `Start a run of a graph on a new or finished thread, and run it in this process until it is over or waits.

The input is a JSON object with the channels to set: in the flag, in @FILE, or "-" for the standard input. --id names the
run: a second start with the same id starts nothing and tells how that run stands. Needs the graph's code.`,
		Example: `  pawl runs start refund order-17 --input '{"amount": 7}' --wait
  pawl runs start refund order-17 --input @order.json -o json`,
		ValidArgsFunction: p.completeGraphs,
	}
	g := p.goingFlags(c)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		if err := p.needs(args[0], "start"); err != nil {
			return err
		}
		doc, err := p.document(ctx, input)
		if err != nil {
			return err
		}
		options := []pawl.RunOption{pawl.Reason(p.reason)}
		if id != "" {
			options = append(options, pawl.RunID(id))
		}
		if mode != "" {
			modes := []string{string(pawl.Sync), string(pawl.Async), string(pawl.Exit)}
			if !slices.Contains(modes, mode) {
				return p.misuse(cmd, fmt.Errorf("--durability %s: there are %s%s", mode, strings.Join(modes, ", "), meant(mode, modes...)))
			}
			options = append(options, pawl.WithDurability(pawl.Durability(mode)))
		}
		return p.made(ctx, func(h *home) error {
			t := h.eng.Thread(args[0], args[1])
			return p.goes(ctx, g, func(ctx context.Context) (*pawl.Outcome, error) { return t.Run(ctx, doc, options...) })
		})
	}
	f := c.Flags()
	f.StringVar(&input, "input", "{}", "the `JSON` object to start with, @FILE, or - for the standard input")
	f.StringVar(&id, "id", "", "the run's `id`; makes starting repeatable")
	f.StringVar(&mode, "durability", "", "sync, async or exit: when finished work is on disk; default `sync`")
	f.StringVar(&p.reason, "reason", "", "`why`; kept with the run")
	return c
}

// document reads a JSON object from a flag.
func (p *Program) document(ctx context.Context, arg string) (json.RawMessage, error) {
	text, err := "", error(nil)
	if name, ok := strings.CutPrefix(arg, "@"); ok {
		var doc []byte
		if doc, err = os.ReadFile(name); err != nil {
			return nil, &Error{Usage, fmt.Errorf("reading the JSON: %w; nothing was done", err)}
		}
		text = string(doc)
	} else if text, err = p.text(ctx, arg); err != nil {
		return nil, err
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &members); err != nil {
		return nil, &Error{Usage, fmt.Errorf("it is no JSON object: %w; nothing was done", err)}
	}
	return json.RawMessage(text), nil
}

func (p *Program) runsResume() *cobra.Command {
	var again []string
	var head string
	var dry bool
	c := &cobra.Command{
		Use: "resume THREAD", Short: "Go on: after answers, a crash or a failure", Args: p.takes(1, "a thread's id"),
		Long: `Go on from where a thread stands: what finished is kept, and only unfinished tasks run. Needs the graph's code.

--again runs nodes of the unfinished super-step once more, which is the way out of a conflict. --at refuses unless the
head is that checkpoint. --dry-run says which nodes would be entered, without doing it.`,
		Example:           "  pawl runs resume order-17 --wait\n  pawl runs resume order-17 --dry-run",
		ValidArgsFunction: p.completeThreads,
	}
	g := p.goingFlags(c)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		return p.within(ctx, func(h *home) error {
			t, state, err := p.thread(ctx, h.eng, args[0])
			if err != nil {
				return err
			}
			if dry {
				return p.previewResume(ctx, t)
			}
			if err := p.needs(state.Graph, "resume"); err != nil {
				return err
			}
			options := []pawl.RunOption{pawl.Reason(p.reason)}
			if len(again) > 0 {
				options = append(options, pawl.Again(again...))
			}
			if head != "" {
				options = append(options, pawl.At(head))
			}
			return p.goes(ctx, g, func(ctx context.Context) (*pawl.Outcome, error) { return t.Resume(ctx, options...) })
		})
	}
	p.reasonFlag(c, "`why`; kept in the trail")
	f := c.Flags()
	f.StringSliceVar(&again, "again", nil, "run this `node` of the unfinished super-step again")
	f.StringVar(&head, "at", "", "only if the head is this `checkpoint`")
	f.BoolVar(&dry, "dry-run", false, "only say what it would do")
	return c
}

func (p *Program) runsRetry() *cobra.Command {
	var dry bool
	c := &cobra.Command{
		Use: "retry THREAD", Short: "Start a failed or cancelled run over, with the same input", Args: p.takes(1, "a thread's id"),
		Long: `Start a failed or cancelled run over: the same input in a fresh attempt, from the state before it. The failed attempt is
set aside, for reading only. It is refused while an effect of the attempt is of unknown outcome. Needs the graph's code.`,
		Example:           `  pawl runs retry order-17 --reason "the bank is back"`,
		ValidArgsFunction: p.completeThreads,
	}
	g := p.goingFlags(c)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		return p.within(ctx, func(h *home) error {
			t, state, err := p.thread(ctx, h.eng, args[0])
			if err != nil {
				return err
			}
			if dry {
				return p.previewVerb(ctx, t, pawl.VerbRetry, "runs retry "+ShellWord(t.ID()))
			}
			if err := p.needs(state.Graph, "retry"); err != nil {
				return err
			}
			return p.goes(ctx, g, func(ctx context.Context) (*pawl.Outcome, error) { return t.Retry(ctx, pawl.Reason(p.reason)) })
		})
	}
	p.reasonFlag(c, "`why`; kept with the attempt")
	c.Flags().BoolVar(&dry, "dry-run", false, "only say what it would do")
	return c
}

// completeGraphs offers the graphs whose code is here.
func (p *Program) completeGraphs(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return p.served(), cobra.ShellCompDirectiveNoFileComp
}
