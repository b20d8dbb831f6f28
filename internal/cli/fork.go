package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
)

const aboutFork = `Move a thread's head to a new branch from an older point, with changes, and run on from there.

What is due at that point runs under fresh tasks: steps are called again and questions are asked again; effects that
happened are not repeated, their receipts are reused. The old branch stays as it is, and what it asks is withdrawn.
--dry-run says all that without doing it, and needs no code. --hold moves the head and runs nothing: resume does that.
--beside makes another version of the point, which stands behind what the point stands behind, not behind the point.

--set takes a JSON object with the channels to change, or NAME=VALUE, where VALUE is JSON or plain text.`

// forking are the flags of a fork.
type forking struct {
	at, before        string
	set               []string
	dry, hold, beside bool
}

func (p *Program) threadsFork() *cobra.Command {
	var f forking
	c := &cobra.Command{
		Use: "fork THREAD", Short: "Go back to an older point and take another branch", Long: aboutFork, Args: p.takes(1, "a thread's id"),
		Example: `  pawl threads fork order-17 --before decide --dry-run
  pawl threads fork order-17 --before decide --set '{"amount": 7}' --reason "half is enough"
  pawl threads fork order-17 --at 0198c2… --hold`,
		ValidArgsFunction: p.completeThreads,
	}
	g := p.goingFlags(c)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		if (f.at == "") == (f.before == "") {
			return p.misuse(cmd, errors.New("name one point to go back to: --at CHECKPOINT or --before NODE"))
		}
		changes, err := changesOf(f.set)
		if err != nil {
			return p.misuse(cmd, err)
		}
		return p.within(ctx, func(h *home) error { return p.fork(ctx, h, g, &f, args[0], changes) })
	}
	fl := c.Flags()
	fl.StringVar(&f.at, "at", "", "the `checkpoint` to go back to, by its id or the start or end of it")
	fl.StringVar(&f.before, "before", "", "go back to before this `node` of the current branch")
	fl.StringArrayVar(&f.set, "set", nil, "change channels: a `JSON` object, or NAME=VALUE")
	fl.BoolVar(&f.dry, "dry-run", false, "only say what it would do")
	fl.BoolVar(&f.hold, "hold", false, "move the head and run nothing")
	fl.BoolVar(&f.beside, "beside", false, "make another version of the point, beside it")
	fl.StringVar(&p.reason, "reason", "", "`why`; kept with the branch")
	return c
}

func (p *Program) fork(ctx context.Context, h *home, g *going, f *forking, id string, changes json.RawMessage) error {
	t, state, err := p.thread(ctx, h.eng, id)
	if err != nil {
		return err
	}
	point, name, flag := pawl.Before(f.before), "before node "+f.before, "--before "+ShellWord(f.before)
	if f.at != "" {
		at, err := checkpoint(ctx, t, f.at)
		if err != nil {
			return err
		}
		point, name, flag = pawl.Checkpoint(at), "checkpoint "+at, "--at "+at
	}
	if f.dry {
		pre, err := t.PreviewFork(ctx, point)
		if err != nil {
			return err
		}
		for _, s := range f.set {
			flag += " --set " + ShellWord(s)
		}
		if f.beside {
			flag += " --beside"
		}
		return p.showPreview(previewView{
			Verb: "fork", Thread: t.ID(), Point: name, Action: p.Command("threads fork %s %s", ShellWord(t.ID()), flag),
		}, pre)
	}
	if err := p.needs(state.Graph, "fork"); err != nil {
		return err
	}
	options := []pawl.RunOption{pawl.Reason(p.reason)}
	if f.hold {
		options = append(options, pawl.Hold())
	}
	if f.beside {
		options = append(options, pawl.Beside())
	}
	return p.goes(ctx, g, func(ctx context.Context) (*pawl.Outcome, error) {
		if changes == nil {
			return t.Replay(ctx, point, options...)
		}
		return t.Fork(ctx, point, changes, options...)
	})
}

// changesOf makes one JSON object of what is to be changed; nil: nothing.
func changesOf(set []string) (json.RawMessage, error) {
	if len(set) == 0 {
		return nil, nil
	}
	all := map[string]json.RawMessage{}
	for _, s := range set {
		some := map[string]json.RawMessage{}
		name, val, pair := strings.Cut(s, "=")
		switch {
		case strings.HasPrefix(strings.TrimSpace(s), "{"):
			if err := json.Unmarshal([]byte(s), &some); err != nil {
				return nil, fmt.Errorf("--set %s: %w", s, err)
			}
		case !pair || name == "":
			return nil, fmt.Errorf("--set %s: it is neither a JSON object nor NAME=VALUE", s)
		case json.Valid([]byte(val)):
			some[name] = json.RawMessage(val)
		default:
			some[name], _ = json.Marshal(val) // a string always has a JSON form
		}
		for name, val := range some {
			if _, twice := all[name]; twice {
				return nil, fmt.Errorf("--set names %s twice", name)
			}
			all[name] = val
		}
	}
	return json.Marshal(all)
}
