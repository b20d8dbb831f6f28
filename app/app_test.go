package app_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/app"
	"github.com/pawl-dev/pawl/approval"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/effect"
)

type state struct {
	Sent pawl.Last[string] `json:"sent"`
}

type letter struct {
	To    string `json:"to"`
	Token string `json:"token"`
}

// mailing is a graph that posts a letter once it is approved, and counts.
func mailing(t *testing.T, posted *int) *pawl.Graph[state] {
	t.Helper()
	post := effect.New("post", func(context.Context, effect.Op, letter) (string, error) {
		*posted++
		return "stamp-1", nil
	}).Approve(approval.Levels{{}}).Material("to")
	g, err := pawl.New[state]("mailing").Node("post", func(ctx context.Context, s *state) error {
		got, err := post.Do(ctx, effect.Ref("letter", "1"), letter{"ann", "hunter2hunter2"})
		if err == nil {
			s.Sent.Set(got)
		}
		return err
	}, pawl.Uses(post)).Edge(pawl.Start, "post").Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func open(t *testing.T, dsn string, graphs ...pawl.Registrable) *app.App {
	t.Helper()
	a, err := app.Open(t.Context(), dsn, graphs...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	return a
}

// What one App asked, another one over the same file approves and finishes; secrets are neither shown nor in the file.
func TestOpen(t *testing.T) {
	t.Parallel()
	for name, dsn := range map[string]string{"file": "", "sqlite": "sqlite:", "slashes": "sqlite://"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "pawl.db")
			posted := 0
			g := mailing(t, &posted)
			first := open(t, dsn+path, g)
			out, err := g.Thread(first.Engine, "t").Run(t.Context(), &state{})
			if err != nil || out.Status != pawl.Waiting {
				t.Fatalf("%+v, %v", out, err)
			}
			if err := errors.Join(first.Close(), first.Close()); err != nil {
				t.Fatal(err)
			}
			if st, err := os.Stat(path + ".key"); err != nil || st.Mode().Perm() != 0o600 || st.Size() != effect.KeySize {
				t.Fatalf("the key file: %v, %v", st, err)
			}
			for _, file := range []string{path, path + "-wal"} {
				if doc, _ := os.ReadFile(file); bytes.Contains(doc, []byte("hunter2hunter2")) {
					t.Errorf("the secret is in %s", file)
				}
			}

			second := open(t, path, g)
			asked, err := second.Approvals().List(t.Context(), approval.Filter{})
			if err != nil || len(asked) != 1 || strings.Contains(string(asked[0].View), "hunter2") {
				t.Fatalf("%+v, %v", asked, err)
			}
			ctx := pawl.WithActor(t.Context(), pawl.Actor{ID: "bob", Kind: "person"})
			if _, err := second.Approvals().Approve(ctx, asked[0].ID, approval.Decision{Digest: asked[0].Call}); err != nil {
				t.Fatal(err)
			}
			out, err = g.Thread(second.Engine, "t").Resume(t.Context())
			if err != nil || out.Status != pawl.Done || out.State.Sent.Get() != "stamp-1" || posted != 1 {
				t.Fatalf("%+v, %v, posted %d", out, err, posted)
			}
			ops, err := second.Effects().List(t.Context(), effect.Filter{})
			if err != nil || len(ops) != 1 || string(ops[0].State) != "committed" {
				t.Fatalf("%+v, %v", ops, err)
			}
		})
	}
}

// A database that cannot be opened is refused by name, and nothing is left behind.
func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	posted := 0
	g := mailing(t, &posted)
	bad := filepath.Join(dir, "bad.db")
	if err := os.WriteFile(bad+".key", make([]byte, effect.KeySize), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ dsn, want string }{
		"nothing":    {"", "no name"},
		"postgres":   {"postgres://ann:secret@localhost/db", "PostgreSQL comes later"},
		"unknown":    {"mysql://ann:secret@localhost/db", "none of FILE"},
		"no file":    {"sqlite:", "none of FILE"},
		"no folder":  {filepath.Join(dir, "nosuch", "pawl.db"), "nosuch"},
		"open key":   {bad, "can be read by others"},
		"two graphs": {"memory:", "registered already"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			graphs := []pawl.Registrable{g}
			if name == "two graphs" {
				graphs = append(graphs, mailing(t, &posted))
			}
			_, err := app.Open(t.Context(), c.dsn, graphs...)
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret") {
				t.Errorf("%v, should say %q", err, c.want)
			}
		})
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := app.Open(over, filepath.Join(dir, "new.db"), g); !errors.Is(err, context.Canceled) {
		t.Errorf("under a context that is over: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "new.db")); err == nil {
		t.Error("a file was made")
	}
}

// A database in memory needs no file at all.
func TestMemory(t *testing.T) {
	t.Chdir(t.TempDir())
	posted := 0
	g := mailing(t, &posted)
	a := open(t, "memory:", g)
	if out, err := g.Thread(a.Engine, "t").Run(t.Context(), &state{}); err != nil || out.Status != pawl.Waiting {
		t.Fatalf("%+v, %v", out, err)
	}
	if left, err := os.ReadDir("."); err != nil || len(left) > 0 {
		t.Errorf("files: %v, %v", left, err)
	}
}

// A worker that runs beside the engine puts the trail in order, and stops with its context.
func TestWorker(t *testing.T) {
	t.Parallel()
	posted := 0
	g := mailing(t, &posted)
	a := open(t, "memory:", g)
	ctx, stop := context.WithCancel(t.Context())
	over := make(chan error)
	go func() { over <- a.Worker(nil, "", "t1").Run(ctx) }()
	if out, err := g.Thread(a.Engine, "t").Run(t.Context(), &state{}); err != nil || out.Status != pawl.Waiting {
		t.Fatalf("%+v, %v", out, err)
	}
	for {
		since, _ := a.DB.Changed(0)
		r, err := audit.Verify(t.Context(), a.DB, "")
		if err != nil || !r.Honest() {
			t.Fatalf("%+v, %v", r, err)
		}
		if r.Size > 1 && r.Pending == 0 {
			break
		}
		_, wake := a.DB.Changed(since)
		<-wake
	}
	stop()
	if err := <-over; err != nil {
		t.Error(err)
	}
}

// Run is the whole command line, over the world that it is given.
func TestRun(t *testing.T) {
	t.Parallel()
	posted := 0
	g := mailing(t, &posted)
	path := filepath.Join(t.TempDir(), "pawl.db")
	run := func(want int, args ...string) string {
		t.Helper()
		var out, talk bytes.Buffer
		env := app.Env{Name: "post", User: "ann", Stdin: strings.NewReader("y\n"), Stdout: &out, Stderr: &talk, Getenv: func(name string) string {
			return map[string]string{"PAWL_DB": path, "PAWL_OUTPUT": "jsonl"}[name]
		}}
		if code := app.Run(t.Context(), env, args, g); code != want {
			t.Fatalf("%s: exit %d, should be %d: %s%s", strings.Join(args, " "), code, want, &out, &talk)
		}
		return out.String()
	}
	run(9, "threads", "list")
	run(6, "runs", "start", "mailing", "t", "--wait")
	if out := run(0, "approvals", "list"); !strings.Contains(out, `"effect":"post"`) {
		t.Error(out)
	}
	run(2, "approvals", "approve", "x", "y")
	run(3, "approvals", "approve", "nosuch")
	if out := run(0, "threads", "list"); !strings.HasPrefix(out, `{"thread":"t","graph":"mailing","status":"waiting"`) {
		t.Error(out)
	}
	var talk bytes.Buffer
	if code := app.Run(t.Context(), app.Env{Name: "post", Stderr: &talk}, nil, g, mailing(t, &posted)); code != 1 || !strings.Contains(talk.String(), `two graphs are named "mailing"`) {
		t.Errorf("exit %d: %s", code, &talk)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if code := app.Run(over, app.Env{Name: "post", Stderr: &talk, Stdout: &talk, Getenv: func(string) string { return "" }}, []string{"threads", "list", "--db", path}, g); code != 130 {
		t.Errorf("interrupted: exit %d", code)
	}
}
