package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/cli"
	"github.com/pawl-dev/pawl/internal/house"
	"github.com/pawl-dev/pawl/storage"
)

const (
	demoThread = "order-8841"
	paid       = 124_000 // cents
	half       = 62_000  // cents, in the fork
)

// The lines that a worker says on its standard output.
const (
	sayHolding = "holding" // and a node: its step is recorded, its function has not returned
	sayStopped = "stopped" // and a status: the run stopped
)

func ledgerOf(dir string) ledger   { return ledger(filepath.Join(dir, "ledger.txt")) }
func databaseOf(dir string) string { return filepath.Join(dir, "pawl.db") }

// workerCommand is the process that the demo starts and kills. It does one verb, says how the run stopped, and stays
// until its standard input ends, so that it never outlives the demo.
func workerCommand(p *cli.Program) *cobra.Command {
	var dir, verb, hold string
	c := &cobra.Command{
		Use: "demo-worker", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithCancel(cmd.Context())
			defer cancel()
			left := make(chan struct{})
			go func() {
				defer close(left)
				defer cancel()
				_, _ = io.Copy(io.Discard, p.Stdin)
			}()
			s := &scene{ledger: ledgerOf(dir), hold: hold, holds: func(ctx context.Context, node string) error {
				fmt.Fprintln(p.Stdout, sayHolding, node)
				<-ctx.Done()
				return context.Cause(ctx)
			}}
			return onStage(dir, s, func(at place) error {
				status, err := perform(ctx, at.thread, verb)
				if err != nil {
					return err
				}
				fmt.Fprintln(p.Stdout, sayStopped, status)
				<-left
				return nil
			})
		},
	}
	c.Flags().StringVar(&dir, "dir", "", "")
	c.Flags().StringVar(&verb, "verb", "", "")
	c.Flags().StringVar(&hold, "hold", "", "")
	return c
}

// place is the demo's thread and where it is kept.
type place struct {
	db     storage.DB
	eng    *pawl.Engine
	thread *pawl.ThreadOf[refund]
}

// onStage opens the demo's database with its graph for as long as use runs.
func onStage(dir string, s *scene, use func(place) error) (err error) {
	db, err := house.OpenFile(databaseOf(dir))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	eng, err := pawl.NewEngine(db, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, eng.Close()) }()
	g, err := s.graph()
	if err != nil {
		return err
	}
	return use(place{db, eng, g.Thread(eng, demoThread)})
}

func perform(ctx context.Context, t *pawl.ThreadOf[refund], verb string) (pawl.Status, error) {
	var out *pawl.OutcomeOf[refund]
	var err error
	switch verb {
	case "run":
		out, err = t.Run(ctx, &refund{Amount: pawl.Of(int64(paid))})
	case "resume":
		out, err = t.Resume(ctx)
	case "fork":
		out, err = t.Fork(ctx, pawl.Before("decide"), func(s *refund) error {
			s.Amount.Set(half)
			return nil
		})
	default:
		return "", fmt.Errorf("there is no verb %q", verb)
	}
	if err != nil {
		return "", err
	}
	return out.Status, nil
}

// workerTime bounds a worker's life.
const workerTime = time.Minute

// worker is a started process, seen from the demo.
type worker struct {
	ctx   context.Context // ends with workerTime
	end   context.CancelFunc
	cmd   *exec.Cmd
	stdin io.Closer
	lines *bufio.Scanner
	said  bytes.Buffer // on its standard error
}

// hire starts a worker: this program again, as another process.
func hire(ctx context.Context, dir, verb, hold string) (*worker, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	w := &worker{}
	w.ctx, w.end = context.WithTimeout(ctx, workerTime)
	w.cmd = exec.CommandContext(w.ctx, self, "demo-worker", "--dir", dir, "--verb", verb, "--hold", hold)
	w.cmd.Stderr = &w.said
	if w.stdin, err = w.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	w.lines = bufio.NewScanner(out)
	return w, w.cmd.Start()
}

func (w *worker) pid() int { return w.cmd.Process.Pid }

// expect waits for the worker's next line, which must be this one.
func (w *worker) expect(line ...string) error {
	want := strings.Join(line, " ")
	if w.lines.Scan() && w.lines.Text() == want {
		return nil
	}
	err := context.Cause(w.ctx)
	_ = w.kill()
	if err != nil {
		return fmt.Errorf("worker %d, which should have said %q: %w", w.pid(), want, err)
	}
	return fmt.Errorf("worker %d should have said %q and said %q; %s", w.pid(), want, w.lines.Text(), strings.TrimSpace(w.said.String()))
}

// kill ends the process as kill -9 does, and returns when the operating system has freed all that it held.
func (w *worker) kill() error {
	defer w.end()
	if err := w.cmd.Process.Kill(); err != nil {
		return fmt.Errorf("worker %d could not be killed: %w", w.pid(), err)
	}
	_ = w.cmd.Wait() // says that it was killed
	return nil
}

// killed says whether a signal ended the process.
func (w *worker) killed() bool { return w.cmd.ProcessState != nil && !w.cmd.ProcessState.Exited() }

// leave lets the worker end by itself.
func (w *worker) leave() error {
	defer w.end()
	if err := w.stdin.Close(); err != nil {
		return err
	}
	if err := w.cmd.Wait(); err != nil {
		return fmt.Errorf("worker %d: %w: %s", w.pid(), err, strings.TrimSpace(w.said.String()))
	}
	return nil
}
