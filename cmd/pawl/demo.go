package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/cli"
)

const aboutDemo = `A tour of about two seconds: no key, no network, no account.

A refund agent looks three things up side by side, drafts a letter, asks a person and pays. Its worker is another process
on a SQLite file, and is ended by kill -9 twice: in the middle of a super-step, and while it waits for the person. Then the
thread is forked from before the question. Every number is read from a file that the calls append to, and from the
database. Exit 1: the run did not show what it says.`

func demoCommand(p *cli.Program) *cobra.Command {
	var yes bool
	var keep string
	c := &cobra.Command{
		Use: "demo", Short: "A tour: two kills, one question, one fork", Long: aboutDemo, Args: noArguments,
		Example: "  pawl demo\n  pawl demo --yes --keep tour     keep the database, to look around in it\n  pawl demo -o json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, done, err := stage(keep)
			if err != nil {
				return err
			}
			t := &tour{p: p, dir: dir, ask: p.MayAsk() && !yes, tale: io.Discard}
			if !p.JSON() {
				t.tale = p.Stdout
			}
			r, err := t.play(cmd.Context())
			if err := errors.Join(err, done()); err != nil {
				return err
			}
			if keep != "" {
				r.Kept = databaseOf(dir)
			}
			err = p.Emit(r, r.print)
			if wrong := r.verify(); wrong != nil {
				err = errors.Join(fmt.Errorf("the demo did not show what it says: %w", wrong), err)
			}
			return err
		},
	}
	c.Flags().BoolVar(&yes, "yes", false, "answer yes without asking")
	c.Flags().StringVar(&keep, "keep", "", "make this `folder` and keep the database there")
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

// tour is one performance of the demo.
type tour struct {
	p       *cli.Program
	dir     string
	ask     bool
	tale    io.Writer
	report  report
	thought time.Duration // by the person; not the demo's time
	place
}

func (t *tour) tell(format string, args ...any) { fmt.Fprintf(t.tale, format+"\n", args...) }

// play runs the whole tour. This process never runs a node: it starts workers, reads, and answers.
func (t *tour) play(ctx context.Context) (*report, error) {
	begin := time.Now()
	err := onStage(t.dir, &scene{ledger: ledgerOf(t.dir)}, func(at place) error {
		t.place = at
		t.tell(opening)
		for _, act := range []func(context.Context) error{t.killedInTheMiddle, t.killedWaiting, t.answered, t.forked} {
			if err := act(ctx); err != nil {
				return err
			}
		}
		return t.report.readAnswers(ctx, t.eng)
	})
	t.report.Elapsed = (time.Since(begin) - t.thought).Milliseconds()
	return &t.report, err
}

const opening = `A refund agent. Its nodes are Go functions, its state is in a SQLite file, its worker is a process that gets killed.

    start -+-> order ----+
           +-> customer -+-> decide (drafts a letter, asks you, pays) -> end
           +-> risk -----+
`

// killedInTheMiddle: one look-up has returned and is recorded, its node has not ended, and its siblings have.
func (t *tour) killedInTheMiddle(ctx context.Context) error {
	w, err := hire(ctx, t.dir, "run", "risk")
	if err != nil {
		return err
	}
	if err := w.expect(sayHolding, "risk"); err != nil {
		return err
	}
	if err := t.siblingsEnd(w.ctx); err != nil {
		return errors.Join(err, w.kill())
	}
	t.tell("1. Worker %d runs three look-ups side by side. order and customer are finished; the look-up of risk has returned,\n"+
		"   its node has not.   kill -9 %d", w.pid(), w.pid())
	state, err := t.kill(ctx, w)
	if err != nil {
		return err
	}
	t.report.AfterKill = append(t.report.AfterKill, state.Status)
	t.tell("   The thread is %s. Nobody has to notice first, and nothing times out.\n", state.Status)
	return nil
}

// siblingsEnd waits until the database says that the other two nodes are finished.
func (t *tour) siblingsEnd(ctx context.Context) error {
	for {
		since, _ := t.db.Changed(0)
		state, err := t.thread.State(ctx)
		if err != nil {
			return err
		}
		ended := 0
		for _, task := range state.Head.Tasks {
			if task.State == "done" {
				ended++
			}
		}
		if ended == 2 {
			return nil
		}
		_, wake := t.db.Changed(since)
		select {
		case <-wake:
		case <-ctx.Done():
			return fmt.Errorf("waiting for order and customer to finish: %w", context.Cause(ctx))
		}
	}
}

// kill ends a worker and says how the thread stands afterwards.
func (t *tour) kill(ctx context.Context, w *worker) (*pawl.ThreadState, error) {
	if err := w.kill(); err != nil {
		return nil, err
	}
	if w.killed() {
		t.report.Kills++
	}
	return t.thread.State(ctx)
}

// killedWaiting: another process goes on, and is killed while the person thinks.
func (t *tour) killedWaiting(ctx context.Context) error {
	before, err := ledgerOf(t.dir).read()
	if err != nil {
		return err
	}
	w, err := hire(ctx, t.dir, "resume", "")
	if err != nil {
		return err
	}
	if err := w.expect(sayStopped, string(pawl.Waiting)); err != nil {
		return err
	}
	now, err := ledgerOf(t.dir).read()
	if err != nil {
		return err
	}
	again := now.since(before)
	t.tell("2. Worker %d resumes. Entries: order %d, customer %d, risk %d. risk ran again from its first line, and its look-up came\n"+
		"   from the journal: it was called %d time in all; a plain replay would have called it %d times.", w.pid(),
		again["node"]["order"], again["node"]["customer"], again["node"]["risk"], now["call"]["score-risk"], now["line"]["score-risk"])
	t.tell("   decide drafts the letter, asks, and waits.   kill -9 %d", w.pid())
	state, err := t.kill(ctx, w)
	if err != nil {
		return err
	}
	t.report.AfterKill = append(t.report.AfterKill, state.Status)
	t.tell("   The thread is %s. A question needs no process to be alive.\n", state.Status)
	return nil
}

// answered: the answer goes to the database, and a third process does the rest.
func (t *tour) answered(ctx context.Context) error {
	t.tell("3. The question is answered, in the database; no worker is alive.")
	answer, err := t.answer(ctx, t.ask)
	if err != nil {
		return err
	}
	t.report.Answer = answer
	if err := t.finish(ctx, &t.report.Status); err != nil {
		return err
	}
	count, err := ledgerOf(t.dir).read()
	if err != nil {
		return err
	}
	t.report.StepCalls, t.report.PlainReplay, t.report.NodeRuns = count["call"], count["line"], count["node"]
	t.tell("   A third worker resumes: decide runs again from its first line, %d entries in all. Letters drafted: %d, a plain\n"+
		"   replay would have drafted %d. Refunds sent: %d.\n", count["node"]["decide"], count["call"]["draft-letter"], count["line"]["draft-letter"],
		count["call"]["send-refund"])
	return nil
}

// answer answers the open question: the person does, or the script.
func (t *tour) answer(ctx context.Context, ask bool) (string, error) {
	state, err := t.thread.State(ctx)
	if err != nil {
		return "", err
	}
	if len(state.Waiting) != 1 {
		return "", fmt.Errorf("%d questions are open, there should be 1", len(state.Waiting))
	}
	q := state.Waiting[0]
	var asked request
	if err := json.Unmarshal(q.Body, &asked); err != nil {
		return "", err
	}
	t.tell("   %s (question %.8s)", asked.Text, q.ID)
	answer, who := "yes", "The script answers"
	if ask {
		who = "You answer"
		if answer, err = t.person(ctx); err != nil {
			return "", err
		}
	}
	if _, err := t.thread.Answer(ctx, q.ID, answer); err != nil {
		return "", err
	}
	t.tell("   %s %s. It counts for this question, as it was asked, and for no other.", who, answer)
	return answer, nil
}

// person asks whoever sits at the terminal.
func (t *tour) person(ctx context.Context) (string, error) {
	begin := time.Now()
	defer func() { t.thought += time.Since(begin) }()
	return cli.Await(ctx, func() (string, error) {
		in := bufio.NewScanner(t.p.Stdin)
		for range 3 {
			fmt.Fprint(t.p.Stderr, "   [y/n] ")
			if !in.Scan() {
				break
			}
			switch strings.ToLower(strings.TrimSpace(in.Text())) {
			case "y", "yes":
				return "yes", nil
			case "n", "no":
				return "no", nil
			}
		}
		return "", &cli.Error{Code: cli.Usage, Err: errors.New("there was no answer of y or n; with --yes the demo answers itself")}
	})
}

// finish lets another process run the thread to its end.
func (t *tour) finish(ctx context.Context, status *pawl.Status) error {
	w, err := hire(ctx, t.dir, "resume", "")
	if err != nil {
		return err
	}
	if err := errors.Join(w.expect(sayStopped, string(pawl.Done)), w.leave()); err != nil {
		return err
	}
	state, err := t.thread.State(ctx)
	if err == nil {
		*status = state.Status
	}
	return err
}

// forked goes back to before the question with another amount. What was above that point is shared, the rest happens
// again on a branch of its own.
func (t *tour) forked(ctx context.Context) error {
	before, err := ledgerOf(t.dir).read()
	if err != nil {
		return err
	}
	old, err := t.thread.State(ctx)
	if err != nil {
		return err
	}
	t.report.branch = old.Head.Checkpoint
	w, err := hire(ctx, t.dir, "fork", "")
	if err != nil {
		return err
	}
	t.tell("4. Worker %d forks the thread from before decide, with %s in place of %s.", w.pid(), dollars(half), dollars(paid))
	if err := errors.Join(w.expect(sayStopped, string(pawl.Waiting)), w.leave()); err != nil {
		return err
	}
	t.tell("   The earlier answer is not used; the question is asked anew.")
	if t.report.Fork.Answer, err = t.answer(ctx, false); err != nil {
		return err
	}
	if err := t.finish(ctx, &t.report.Fork.Status); err != nil {
		return err
	}
	now, err := ledgerOf(t.dir).read()
	if err != nil {
		return err
	}
	more := now.since(before)
	t.report.Fork.StepCalls, t.report.Fork.NodeRuns = more["call"], more["node"]
	lookUps := more["call"]["find-order"] + more["call"]["find-customer"] + more["call"]["score-risk"]
	t.tell("   Look-ups called again: %d. Refunds sent on the new branch: %d, because a fork runs again what comes after its point.\n"+
		"   The old branch is in the history as it was.\n", lookUps, more["call"]["send-refund"])
	return t.report.readHistory(ctx, t.thread)
}
