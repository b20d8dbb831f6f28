package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
)

// processTime bounds how long a process of the demo may say nothing.
const processTime = 2 * time.Minute

// process is this program again, as another process, seen from the demo. It ends with its standard input, so that it
// never outlives the demo.
type process struct {
	name  string
	cmd   *exec.Cmd
	stdin io.WriteCloser
	lines chan string
	said  bytes.Buffer // on its standard error; complete once it ended
}

func start(ctx context.Context, name string, args ...string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	w := &process{name: name, cmd: exec.CommandContext(ctx, self, args...), lines: make(chan string)}
	w.cmd.Stderr = &w.said
	if w.stdin, err = w.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := w.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(w.lines)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			select {
			case w.lines <- lines.Text():
			case <-ctx.Done():
				return
			}
		}
	}()
	return w, nil
}

func (w *process) pid() int { return w.cmd.Process.Pid }

// expect waits for the next line, which must start with this word, and returns the rest.
func (w *process) expect(ctx context.Context, word string) (string, error) {
	limit := time.NewTimer(processTime)
	defer limit.Stop()
	select {
	case line, ok := <-w.lines:
		first, rest, _ := strings.Cut(line, " ")
		if first == word {
			return rest, nil
		}
		if ok {
			_ = w.cmd.Process.Kill()
		}
		w.end()
		return "", fmt.Errorf("the %s (process %d) should have said %q and said %q; %s", w.name, w.pid(), word, line, strings.TrimSpace(w.said.String()))
	case <-limit.C:
		_ = w.cmd.Process.Kill()
		return "", fmt.Errorf("the %s (process %d) said nothing for %s, and should have said %q", w.name, w.pid(), processTime, word)
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// kill ends the process as kill -9 does, and returns when the operating system has freed all that it held. It says
// whether the signal ended it.
func (w *process) kill() (bool, error) {
	if err := w.cmd.Process.Kill(); err != nil {
		return false, fmt.Errorf("the %s (process %d) could not be killed: %w", w.name, w.pid(), err)
	}
	w.end()
	return !w.cmd.ProcessState.Exited(), nil
}

// end lets the process end by itself. What it says meanwhile is read, so that it can.
func (w *process) end() {
	if w.cmd.ProcessState != nil {
		return
	}
	_ = w.stdin.Close()
	for range w.lines {
		continue
	}
	_ = w.cmd.Wait()
}

// errand is what a worker is told to do with a thread.
type errand struct {
	Verb   string `json:"verb"` // run, resume, fork
	Thread string `json:"thread"`
	Order  string `json:"order,omitempty"`
	Refund string `json:"refund,omitempty"`
	Cents  int64  `json:"cents,omitempty"` // for a run, and for a fork that changes the amount
	Hold   string `json:"hold,omitempty"`  // node that stops, for ever, after its step
}

// stopped is how the run stopped.
type stopped struct {
	Status  pawl.Status `json:"status"`
	Changed bool        `json:"changed"` // an effect refused: its reference stands for another call
	Error   string      `json:"error,omitempty"`
}

// tell sends a worker on an errand. What comes of it is read with expect.
func (w *process) tell(o errand) error {
	doc, err := json.Marshal(o)
	if err == nil {
		_, err = w.stdin.Write(append(doc, '\n'))
	}
	return err
}

// does waits until the errand is done.
func (w *process) does(ctx context.Context, o errand) (s stopped, err error) {
	if err := w.tell(o); err != nil {
		return s, err
	}
	doc, err := w.expect(ctx, sayStopped)
	if err != nil {
		return s, fmt.Errorf("%s %s: %w", o.Verb, o.Thread, err)
	}
	return s, json.Unmarshal([]byte(doc), &s)
}
