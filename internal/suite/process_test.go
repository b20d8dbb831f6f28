package suite

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/sqlite"
)

// child is another process: this test binary, running one of children(), or the one that PAWL_SUITE_CHILDREN names: it is
// built without the race detector, which is there for the process that lives.
type child struct {
	cmd *exec.Cmd
	out *bufio.Reader
	in  io.WriteCloser
}

// spawn starts a child with arguments; it is killed at the end of the test if it still lives.
func spawn(t testing.TB, name string, args any) *child {
	t.Helper()
	note(t, spawned)
	levelFor(t) // its program builds its graphs at this depth
	doc, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(cmp.Or(os.Getenv("PAWL_SUITE_CHILDREN"), os.Args[0]), "-test.run=^$")
	cmd.Env = append(os.Environ(), "PAWL_SUITE_CHILD="+name, "PAWL_SUITE_ARGS="+string(doc), "PAWL_SUITE_TEST="+t.Name())
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return &child{cmd: cmd, out: bufio.NewReader(out), in: in}
}

// line reads the child's next line of output; "" when it ended.
func (c *child) line() string {
	s, _ := c.out.ReadString('\n')
	return strings.TrimSuffix(s, "\n")
}

// kill ends the child with SIGKILL and waits until it is gone.
func (c *child) kill() {
	c.cmd.Process.Signal(syscall.SIGKILL)
	c.cmd.Wait()
}

// wait reads the rest of the child's output and waits for its end.
func (c *child) wait(t testing.TB) string {
	t.Helper()
	rest, _ := io.ReadAll(c.out)
	if err := c.cmd.Wait(); err != nil {
		t.Errorf("child ended with %v", err)
	}
	return strings.TrimSpace(string(rest))
}

// killSelf is a death at this very instruction. For children.
func killSelf() {
	syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

// args reads a child's arguments.
func args[T any](doc []byte) (v T) {
	if err := json.Unmarshal(doc, &v); err != nil {
		panic(err)
	}
	return v
}

// must ends a child that cannot do its work.
func must[T any](v T, err error) T {
	if err != nil {
		fmt.Fprintln(os.Stderr, "child:", err)
		os.Exit(3)
	}
	return v
}

// childEngine opens a file in a child and makes an engine over it.
func childEngine(path string, options *pawl.Options) *pawl.Engine {
	db := must(sqlite.Open(path, pawl.Kinds()...))
	return must(pawl.NewEngine(db, options))
}
