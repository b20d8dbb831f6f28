package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The program pauses, is answered by its own command line in another process, and finishes.
func TestReadme(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	program := filepath.Join(dir, "order")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.Command(program, args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "PAWL_DB=pawl.db")
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v: %s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	var out struct {
		Status  string
		Waiting []struct {
			ID     string
			Body   string
			Digest string
		}
		Values struct{ Price int }
	}
	read := func(doc string) {
		t.Helper()
		out.Waiting = nil
		if err := json.Unmarshal([]byte(doc), &out); err != nil {
			t.Fatalf("%v: %s", err, doc)
		}
	}
	read(run("runs", "start", "order", "no-17", "--input", `{"item": "a kettle"}`, "-o", "json"))
	if out.Status != "waiting" || len(out.Waiting) != 1 || out.Waiting[0].Body != "Buy a kettle for 56?" {
		t.Fatalf("after the start: %+v", out)
	}
	run("answer", out.Waiting[0].ID, "true", "--digest", out.Waiting[0].Digest)
	read(run("runs", "resume", "no-17", "--wait", "-o", "json"))
	if out.Status != "done" || out.Values.Price != 56 {
		t.Fatalf("in the end: %+v", out)
	}
}
