package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/house"
	"github.com/pawl-dev/pawl/storage"
)

func TestExitCodes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err  error
		want int
	}{
		"nothing":     {nil, OK},
		"any":         {errors.New("any"), Failed},
		"use":         {fmt.Errorf("x: %w", &Error{Usage, errors.New("y")}), Usage},
		"no thread":   {&pawl.NotFoundError{}, NotFound},
		"no point":    {&pawl.PointError{}, NotFound},
		"not allowed": {fmt.Errorf("x: %w", pawl.ErrDenied), Denied},
		"status":      {&pawl.VerbError{}, Conflict},
		"version":     {&pawl.VersionError{}, Conflict},
		"answered":    {&pawl.AnswerError{Reason: pawl.ReasonAnswered}, Conflict},
		"expired":     {&pawl.AnswerError{Reason: pawl.ReasonExpired}, Conflict},
		"changed":     {&pawl.AnswerError{Reason: pawl.ReasonSuperseded}, Conflict},
		"withdrawn":   {&pawl.AnswerError{Reason: pawl.ReasonWithdrawn}, Conflict},
		"refused":     {&pawl.AnswerError{Reason: pawl.ReasonRefused}, Failed},
		"which":       {&pawl.AnswerError{Reason: pawl.ReasonAmbiguous}, Usage},
		"elsewhere":   {&pawl.AnswerError{Reason: pawl.ReasonElsewhere}, NotFound},
		"damaged":     {&storage.OpenError{Reason: storage.Damaged}, Failed},
		"newer":       {&storage.OpenError{Reason: storage.NewerVersion}, Failed},
		"foreign":     {&storage.OpenError{Reason: storage.NotPawl}, Failed},
		"network":     {&storage.OpenError{Reason: storage.NetworkFS}, Unreachable},
		"read-only":   {&storage.OpenError{Reason: storage.NotWritable}, Unreachable},
		"time":        {fmt.Errorf("x: %w", context.DeadlineExceeded), TimedOut},
		"interrupted": {context.Canceled, Interrupted},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := CodeOf(c.err); got != c.want {
				t.Errorf("code %d, should be %d", got, c.want)
			}
		})
	}
}

func TestNear(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		got, want string
		from      []string
	}{
		{"waitng", "waiting", []string{"running", "waiting", "done"}},
		{"JSON", "json", []string{"table", "json"}},
		{"order-71", "order-17", []string{"order-17", "order-99", "x"}},
		{"zebra", "", []string{"done", "waiting"}},
		{"", "", []string{"done"}},
		{"x", "", nil},
	} {
		if got := meant(c.got, c.from...); (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%q: %q, should name %q", c.got, got, c.want)
		}
	}
}

func TestAgo(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	g := &Page{now: now}
	for _, c := range []struct {
		at   time.Duration
		want string
	}{
		{0, "now"}, {-59 * time.Second, "59s ago"}, {-90 * time.Second, "1m ago"}, {-47 * time.Hour, "47h ago"},
		{-49 * time.Hour, "2d ago"}, {30 * time.Minute, "in 30m"},
	} {
		if got := g.Ago(now.Add(c.at)); got != c.want {
			t.Errorf("%s: %q, should be %q", c.at, got, c.want)
		}
	}
	if got := g.Ago(time.Time{}); got != "-" {
		t.Errorf("no time: %q", got)
	}
}

// What comes from data cannot steer the terminal.
func TestClean(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain ÄÖ 日本":        "plain ÄÖ 日本",
		"\x1b[31mred":        `\u001b[31mred`,
		"a\u202eb":           `a\u202eb`,
		"bell\a\u009b":       `bell\u0007\u009b`,
		"two\nlines\tcolumn": "two\nlines\tcolumn",
		"bad \xff":           "bad \ufffd",
	} {
		if got := clean(in); got != want {
			t.Errorf("%q became %q, should be %q", in, got, want)
		}
	}
}

func TestColour(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		env    map[string]string
		screen bool
		want   bool
	}{
		"a file":           {nil, false, false},
		"a terminal":       {nil, true, true},
		"NO_COLOR":         {map[string]string{"NO_COLOR": "1"}, true, false},
		"dumb":             {map[string]string{"TERM": "dumb"}, true, false},
		"forced":           {map[string]string{"CLICOLOR_FORCE": "1"}, false, true},
		"forced with zero": {map[string]string{"CLICOLOR_FORCE": "0"}, false, false},
	} {
		p := &Program{Env: Env{Getenv: func(k string) string { return c.env[k] }, Screen: c.screen}}
		if got := p.colour(); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func testEnv(out io.Writer, talk *bytes.Buffer) Env {
	return Env{
		Stdin: strings.NewReader(""), Stdout: out, Stderr: talk, Getenv: func(string) string { return "" }, Now: time.Now, User: "ann",
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

// A result that could not be written is a failure.
func TestOutputIsLost(t *testing.T) {
	t.Parallel()
	var talk bytes.Buffer
	if code := New(testEnv(fullDisk{}, &talk)).Run(t.Context(), []string{"version"}); code != Failed || !strings.Contains(talk.String(), "no space left") {
		t.Errorf("code %d, %q", code, &talk)
	}
}

// Whoever answers is recorded, and what is printed back is what was stored.
func TestAnswerIsRecorded(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "pawl.db")
	id := ask(t, path)
	var out, talk bytes.Buffer
	if code := New(testEnv(&out, &talk)).Run(t.Context(), []string{"answer", id[:6], "yes", "--db", path, "--reason", "why not"}); code != OK {
		t.Fatalf("code %d: %s", code, &talk)
	}
	withEngine(t, path, func(eng *pawl.Engine) {
		q, err := eng.FindQuestions(t.Context(), id, 1)
		if err != nil || len(q) != 1 || q[0].By != "ann" || string(q[0].Answer) != `"yes"` || q[0].Reason != "why not" {
			t.Errorf("stored %+v, %v", q, err)
		}
	})
}

// An interrupt ends a command that waits for its standard input, and nothing was done.
func TestInterruptWhileReading(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "pawl.db")
	id := ask(t, path)
	var out, talk bytes.Buffer
	env := testEnv(&out, &talk)
	ctx, interrupt := context.WithCancel(t.Context())
	never, end := io.Pipe()
	defer end.Close()
	env.Stdin = readFunc(func(b []byte) (int, error) {
		interrupt()
		return never.Read(b)
	})
	if code := New(env).Run(ctx, []string{"answer", id, "-", "--db", path}); code != Interrupted || out.Len() > 0 {
		t.Errorf("code %d, %q, %q", code, &out, &talk)
	}
	withEngine(t, path, func(eng *pawl.Engine) {
		if open, err := eng.Questions(t.Context(), 0); err != nil || len(open) != 1 {
			t.Errorf("open: %v, %v", open, err)
		}
	})
}

// Tenants do not see each other's threads and questions.
func TestTenants(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "pawl.db")
	id := ask(t, path)
	for tenant, want := range map[string][]int{"": {OK, OK}, "other": {NotFound, NotFound}} {
		for i, args := range [][]string{{"threads", "show", "t"}, {"answer", id, "yes"}} {
			var out, talk bytes.Buffer
			env := testEnv(&out, &talk)
			env.Getenv = func(k string) string { return map[string]string{"PAWL_DB": path, "PAWL_TENANT": tenant}[k] }
			if code := New(env).Run(t.Context(), args); code != want[i] {
				t.Errorf("tenant %q, %s: code %d, should be %d; %s", tenant, args[0], code, want[i], &talk)
			}
		}
	}
}

type readFunc func([]byte) (int, error)

func (f readFunc) Read(b []byte) (int, error) { return f(b) }

func withEngine(t *testing.T, path string, use func(*pawl.Engine)) {
	t.Helper()
	db, err := house.OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	eng, err := pawl.NewEngine(db, nil)
	if err != nil {
		t.Fatal(err)
	}
	use(eng)
	if err := errors.Join(eng.Close(), db.Close()); err != nil {
		t.Fatal(err)
	}
}

// ask makes a database with one open question and returns its id.
func ask(t *testing.T, path string) (id string) {
	t.Helper()
	type state struct {
		Text pawl.Last[string] `json:"text"`
	}
	ship := pawl.Interrupt[string, string]{Name: "ship"}
	g, err := pawl.New[state]("g").Add(pawl.AskNode(ship, func(*state) string { return "Ship it?" },
		func(*state, string) error { return nil })).Edge(pawl.Start, "ship").Build()
	if err != nil {
		t.Fatal(err)
	}
	withEngine(t, path, func(eng *pawl.Engine) {
		out, err := g.Thread(eng, "t").Run(t.Context(), &state{})
		if err != nil {
			t.Fatal(err)
		}
		id = out.Waiting[0].ID
	})
	return id
}
