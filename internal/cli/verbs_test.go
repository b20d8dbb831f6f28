package cli

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/approval"
	"github.com/pawl-dev/pawl/effect"
	"github.com/pawl-dev/pawl/internal/house"
)

func TestMoreExitCodes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err  error
		want int
	}{
		"decided":           {&approval.DecidedError{}, Conflict},
		"approval expired":  {&approval.ExpiredError{}, Conflict},
		"another digest":    {&approval.DigestError{}, Conflict},
		"not yours":         {&approval.ForbiddenError{}, Denied},
		"settled":           {&effect.SettledError{}, Conflict},
		"no migration":      {&pawl.MigrationError{}, Conflict},
		"draining":          {&pawl.DrainingError{}, Conflict},
		"in doubt":          {&effect.InDoubtError{}, InDoubt},
		"no such step":      {&effect.LawError{}, Conflict},
		"no redo":           {&effect.RedoError{}, Conflict},
		"held back":         {&effect.RestoredError{}, Conflict},
		"one of two":        {&effect.SecondVoteError{Votes: []effect.Vote{{}}}, Stopped},
		"used":              {&approval.UsedError{}, Conflict},
		"no grant":          {&approval.GrantError{}, Conflict},
		"too many":          {&approval.RateError{}, Denied},
		"unsettled":         {&effect.UnsettledError{}, Conflict},
		"input":             {&pawl.InputError{Err: &pawl.NotFoundError{}}, Usage},
		"node ran late":     {&pawl.RunError{Err: context.DeadlineExceeded}, Failed},
		"command ran late":  {late(over(t), errors.New("x")), TimedOut},
		"command in time":   {late(t.Context(), errors.New("x")), Failed},
		"waits":             {stoppedFor(&pawl.Outcome{Waiting: []pawl.Question{{Name: "q"}}}), Stopped},
		"waits with doubts": {stoppedFor(&pawl.Outcome{Waiting: []pawl.Question{{}, {Kind: kindDoubt}}}), InDoubt},
	} {
		if got := CodeOf(c.err); got != c.want {
			t.Errorf("%s: code %d, should be %d", name, got, c.want)
		}
	}
}

// over is a context whose time is over.
func over(t *testing.T) context.Context {
	ctx, stop := context.WithDeadline(t.Context(), time.Unix(0, 0))
	t.Cleanup(stop)
	return ctx
}

func TestChanges(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		set        []string
		want, says string
	}{
		"none":          {nil, "", ""},
		"object":        {[]string{` {"a": 1}`}, `{"a":1}`, ""},
		"text":          {[]string{"a=short and sweet"}, `{"a":"short and sweet"}`, ""},
		"number":        {[]string{"a=7", `b="7"`}, `{"a":7,"b":"7"}`, ""},
		"equals inside": {[]string{"a=x=y"}, `{"a":"x=y"}`, ""},
		"empty":         {[]string{"a="}, `{"a":""}`, ""},
		"mixed":         {[]string{`{"a":[1]}`, "b=true"}, `{"a":[1],"b":true}`, ""},
		"twice":         {[]string{`{"a":1}`, "a=2"}, "", "a twice"},
		"broken":        {[]string{`{"a":`}, "", "unexpected end"},
		"no name":       {[]string{"=1"}, "", "neither"},
		"no value":      {[]string{"a"}, "", "neither"},
	} {
		got, err := changesOf(c.set)
		if string(got) != c.want || (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
}

func TestLines(t *testing.T) {
	t.Parallel()
	for want, val := range map[string]any{
		"":                           []string{},
		"\"a\"\n{\"x\":[1,\"<\"]}\n": []any{"a", map[string]any{"x": []any{1, "<"}}},
		"{\"x\":1}\n":                map[string]int{"x": 1},
	} {
		var b bytes.Buffer
		if err := writeLines(&b, val); err != nil || b.String() != want {
			t.Errorf("%q, %v, should be %q", b.String(), err, want)
		}
	}
}

func TestProgramName(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"/usr/bin/orders": "orders", "./orders.exe": "orders", "/tmp/go-build12/b001/exe/orders": "go run .",
	} {
		if got := ProgramName(path); got != want {
			t.Errorf("%s: %q", path, got)
		}
	}
}

// Whoever acts under a name of their own is recorded with the system's user; the environment is overruled by flags.
func TestWho(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args []string
		env  map[string]string
		want pawl.Actor
	}{
		"the user":     {nil, nil, pawl.Actor{ID: "ann", Kind: "unverified", Door: "command line", Groups: []string{"staff"}}},
		"flag":         {[]string{"--actor", "bob", "--group", "a,b"}, map[string]string{"PAWL_ACTOR": "eve", "PAWL_GROUP": "z"}, pawl.Actor{ID: "bob", Kind: "unverified, given by ann", Door: "command line", Groups: []string{"staff", "a", "b"}}},
		"environment":  {nil, map[string]string{"PAWL_ACTOR": "eve", "PAWL_GROUP": "z"}, pawl.Actor{ID: "eve", Kind: "unverified, given by ann", Door: "command line", Groups: []string{"staff", "z"}}},
		"the own name": {[]string{"--actor", "ann"}, nil, pawl.Actor{ID: "ann", Kind: "unverified", Door: "command line", Groups: []string{"staff"}}},
	} {
		var out, talk bytes.Buffer
		env := testEnv(&out, &talk)
		env.Groups, env.Getenv = []string{"staff"}, func(k string) string { return c.env[k] }
		p := New(env)
		if code := p.Run(t.Context(), append([]string{"version"}, c.args...)); code != OK {
			t.Fatalf("%s: code %d, %s", name, code, &talk)
		}
		got := p.who()
		if got.ID != c.want.ID || got.Kind != c.want.Kind || strings.Join(got.Groups, " ") != strings.Join(c.want.Groups, " ") {
			t.Errorf("%s: %+v, should be %+v", name, got, c.want)
		}
	}
	var out, talk bytes.Buffer
	env := testEnv(&out, &talk)
	env.Getenv = func(k string) string { return map[string]string{"PAWL_NO_INPUT": "perhaps"}[k] }
	if code := New(env).Run(t.Context(), []string{"version"}); code != Usage || !strings.Contains(talk.String(), "PAWL_NO_INPUT=perhaps") {
		t.Errorf("code %d, %s", code, &talk)
	}
}

type note struct {
	Text pawl.Last[string] `json:"text"`
}

// sending makes a database with one call that waits to be allowed.
func sending(t *testing.T, path string) {
	t.Helper()
	send := effect.New("send", func(context.Context, effect.Op, map[string]string) (string, error) { return "sent", nil }).
		Approve(approval.Levels{{To: "ann"}})
	g, err := pawl.New[note]("g").Node("send", func(ctx context.Context, s *note) error {
		_, err := send.Do(ctx, effect.Ref("note", "1"), map[string]string{"to": "\x1b[31mbob"})
		return err
	}, pawl.Uses(send)).Edge(pawl.Start, "send").Build()
	if err != nil {
		t.Fatal(err)
	}
	h, err := house.Open(t.Context(), path, g)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.Thread(h.Engine, "t").Run(t.Context(), &note{}); err != nil {
		t.Fatal(err)
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
}

// On a terminal a person sees the call and is asked; only a yes is one.
func TestApproveAsks(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "pawl.db")
	sending(t, path)
	run := func(said string, args ...string) (int, string, string) {
		var out, talk bytes.Buffer
		env := testEnv(&out, &talk)
		env.Person, env.Stdin = true, strings.NewReader(said)
		return New(env).Run(t.Context(), append(args, "--db", path)), out.String(), talk.String()
	}
	_, list, _ := run("", "approvals", "list", "-o", "table")
	id := strings.Fields(strings.Split(list, "\n")[1])[0]
	for _, said := range []string{"", "\n", "n\n", "yes please\n"} {
		if code, out, _ := run(said, "approve", id); code != Failed || out != "" {
			t.Errorf("%q: code %d, %s", said, code, out)
		}
	}
	if code, _, _ := run("y\n", "approve", id, "--no-input"); code != Usage {
		t.Errorf("nobody may be asked: code %d", code)
	}
	code, out, talk := run("Y\n", "approve", id)
	if code != OK || !strings.Contains(out, "approved: send note:1") || !strings.Contains(talk, `"to": "\u001b[31mbob"`) || !strings.Contains(talk, "Approve this call? [y/N]") || !strings.Contains(talk, "digest") || strings.Contains(talk, "Try:") {
		t.Errorf("code %d, %s, asked: %s", code, out, talk)
	}
	if strings.Contains(talk, "\x1b") {
		t.Error("the call moves the cursor")
	}
}

// A person is asked before a thread is deleted.
func TestDeleteAsks(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "pawl.db")
	sending(t, path)
	run := func(said string) (int, string) {
		var out, talk bytes.Buffer
		env := testEnv(&out, &talk)
		env.Person, env.Stdin = true, strings.NewReader(said)
		return New(env).Run(t.Context(), []string{"threads", "delete", "t", "--db", path}), talk.String()
	}
	if code, talk := run("no\n"); code != Failed || !strings.Contains(talk, "Delete thread t (graph g, waiting)") {
		t.Errorf("code %d, %s", code, talk)
	}
	if code, talk := run("yes\n"); code != OK {
		t.Errorf("code %d, %s", code, talk)
	}
	if code, _ := run("yes\n"); code != NotFound {
		t.Errorf("deleted twice: code %d", code)
	}
}
