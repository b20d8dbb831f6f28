package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/app"
	"github.com/pawl-dev/pawl/effect"
	"github.com/pawl-dev/pawl/internal/cli"
)

// The lines that a worker says on its standard output.
const (
	sayHolding = "holding" // and a node: its step is recorded, its function has not returned
	sayStopped = "stopped" // and how the run did, as JSON
)

// workerCommand is the process that the demo kills. It does the errands that come as lines on its standard input, one after
// the other, and ends with it.
func workerCommand(p *cli.Program) *cobra.Command {
	var dir, at string
	c := &cobra.Command{
		Use: "demo-worker", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithCancel(cmd.Context())
			defer cancel()
			errands := make(chan errand)
			go func() {
				defer cancel()
				for lines := bufio.NewScanner(p.Stdin); lines.Scan(); {
					var o errand
					if json.Unmarshal(lines.Bytes(), &o) != nil {
						return
					}
					select {
					case errands <- o:
					case <-ctx.Done():
						return
					}
				}
			}()
			a := newAgent(countsOf(dir), provider(at))
			a.holds = func(ctx context.Context, node string) error {
				fmt.Fprintln(p.Stdout, sayHolding, node)
				<-ctx.Done()
				return context.Cause(ctx)
			}
			return withAgent(ctx, dir, a, func(pl *place) error {
				for {
					select {
					case o := <-errands:
						a.hold = o.Hold
						doc, err := json.Marshal(perform(ctx, pl.thread(o.Thread), o))
						if err != nil {
							return err
						}
						fmt.Fprintf(p.Stdout, "%s %s\n", sayStopped, doc)
					case <-ctx.Done():
						return nil
					}
				}
			})
		},
	}
	c.Flags().StringVar(&dir, "dir", "", "")
	c.Flags().StringVar(&at, "provider", "", "")
	return c
}

// place is the demo's database, open with the agent's graph.
type place struct {
	*app.App
	graph *pawl.Graph[refund]
}

func (p *place) thread(id string) *pawl.ThreadOf[refund] { return p.graph.Thread(p.Engine, id) }

// withAgent opens the demo's database with the agent's graph for as long as use runs.
func withAgent(ctx context.Context, dir string, a *agent, use func(*place) error) error {
	g, err := a.graph()
	if err != nil {
		return err
	}
	at, err := app.Open(ctx, "sqlite:"+databaseOf(dir), g)
	if err != nil {
		return err
	}
	return errors.Join(use(&place{at, g}), at.Close())
}

func perform(ctx context.Context, t *pawl.ThreadOf[refund], o errand) stopped {
	var out *pawl.OutcomeOf[refund]
	var err error
	switch o.Verb {
	case "run":
		out, err = t.Run(ctx, &refund{ID: pawl.Of(o.Refund), Order: pawl.Of(o.Order), Cents: pawl.Of(o.Cents)})
	case "resume":
		out, err = t.Resume(ctx)
	case "fork":
		out, err = t.Fork(ctx, pawl.Before("pay"), func(s *refund) error {
			if o.Cents > 0 {
				s.Cents.Set(o.Cents)
			}
			return nil
		})
	default:
		err = fmt.Errorf("there is no verb %q", o.Verb)
	}
	changed := (*effect.ChangedError)(nil)
	s := stopped{Changed: errors.As(err, &changed)}
	switch {
	case s.Changed:
		s.Error = changed.Error()
	case err != nil:
		s.Error = err.Error()
	}
	if out != nil {
		s.Status = out.Status
	}
	return s
}
