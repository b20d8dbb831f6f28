package suite

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/approval"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/effect"
	"github.com/pawl-dev/pawl/internal/cli"
	"github.com/pawl-dev/pawl/internal/house"
	"github.com/pawl-dev/pawl/internal/nest"
	"github.com/pawl-dev/pawl/redact"
	"github.com/pawl-dev/pawl/storage"
)

// secretMail is a call whose arguments hold four secrets.
type secretMail struct {
	To     string     `json:"to"`
	File   string     `json:"file"`
	APIKey string     `json:"api_key"`
	Auth   secretAuth `json:"auth"`
	Link   string     `json:"link"`
}

type secretAuth struct {
	Password string `json:"password"`
}

func canaryMail() secretMail {
	return secretMail{"all-staff", "q3.pdf", "CANARY-1", secretAuth{"CANARY-2"},
		"https://files.example/q3.pdf?X-Amz-Expires=600&X-Amz-Signature=CANARY-3&X-Amz-Credential=CANARY-4"}
}

// leaks names the canaries that a text holds: as they are, and as base64 or hexadecimal would write them at any offset.
func leaks(doc []byte) (found []string) {
	for n := 1; n <= 4; n++ {
		canary := fmt.Sprintf("CANARY-%d", n)
		shapes := []string{canary, hex.EncodeToString([]byte(canary))}
		for pad := range 3 {
			enc := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", pad) + canary))
			shapes = append(shapes, enc[[]int{0, 2, 3}[pad]:[]int{10, 12, 13}[pad]]) // what no neighbour changes
		}
		if slices.ContainsFunc(shapes, func(s string) bool { return bytes.Contains(doc, []byte(s)) }) {
			found = append(found, canary)
		}
	}
	return found
}

func noLeak(t testing.TB, where string, doc []byte) {
	t.Helper()
	if found := leaks(doc); len(found) > 0 {
		at := max(0, bytes.Index(doc, []byte("CANARY"))-60)
		t.Errorf("%s: %v leaked: %.200q", where, found, doc[at:])
	}
}

// vault is a program with all parts and its outputs, which are scanned for canaries.
type vault struct {
	*house.House
	path  string // SQLite only
	logs  *bytes.Buffer
	graph *nest.Graph[found]
	got   []secretMail // what the target received
	ops   []effect.Op
	say   error // what the target says
	plain pawl.Interrupt[secretMail, string]
}

// openVault opens the same house that app.Main opens, with a graph that sends the mail, and one that only asks.
func openVault(t *testing.T, onFile bool) *vault {
	v := &vault{logs: &bytes.Buffer{}, plain: pawl.Interrupt[secretMail, string]{Name: "plain"}}
	dsn := "memory:"
	if onFile {
		v.path = filepath.Join(t.TempDir(), "pawl.db")
		dsn = v.path
	}
	mail := effect.New("send_email", func(_ context.Context, op effect.Op, in secretMail) (string, error) {
		v.got, v.ops = append(v.got, in), append(v.ops, op)
		return "sent with CANARY-1", v.say
	}).Approve(approval.Levels{{To: "finance", For: time.Hour}}).Material("to", "file")
	v.graph = atDepth(t, pawl.New[found]("mail").Node("send", func(ctx context.Context, s *found) error {
		_, err := mail.Do(ctx, effect.Ref("mail", "1"), canaryMail())
		if err == nil {
			s.Used.Add("sent")
		}
		return err
	}, pawl.Uses(mail)).Edge(pawl.Start, "send"))
	asks := atDepth(t, pawl.New[found]("asks").Node("ask", func(ctx context.Context, s *found) error {
		answer, err := v.plain.Ask(ctx, canaryMail())
		if err == nil {
			s.Used.Add(answer)
		}
		return err
	}, pawl.Uses(v.plain)).Edge(pawl.Start, "ask"))
	var err error
	if v.House, err = house.Open(t.Context(), dsn, v.graph, asks); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { v.Close() })
	if _, err := os.Stat(house.KeyFile(v.path)); onFile && err != nil {
		t.Fatal(err)
	}
	return v
}

// log writes what there is to say of a value as programs do: through a plain handler, as they would without thinking.
func (v *vault) log(values ...any) {
	log := slog.New(slog.NewJSONHandler(v.logs, nil))
	text := slog.New(slog.NewTextHandler(v.logs, nil))
	for _, x := range values {
		log.Info("happened", "value", x)
		text.Info("happened", "value", x)
		fmt.Fprintf(v.logs, "%v %+v\n", x, x)
	}
}

// scan looks for canaries in everything that comes out of the program and in everything that it stored.
func (v *vault) scan(t *testing.T, when string, threads ...string) {
	t.Helper()
	noLeak(t, when+": log", v.logs.Bytes())
	for kind, doc := range v.rows(t) {
		noLeak(t, when+": rows of "+kind, doc)
	}
	for _, id := range threads {
		v.scanThread(t, when, id)
	}
	if v.path == "" {
		return
	}
	files := 0
	err := filepath.WalkDir(filepath.Dir(v.path), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		doc, err := os.ReadFile(path)
		if strings.HasPrefix(path, v.path) {
			files++
		}
		noLeak(t, when+": file "+filepath.Base(path), doc)
		return err
	})
	if _, gone := os.Stat(v.path + "-wal"); err != nil || gone != nil || files < 2 {
		t.Fatalf("scanned %d files, %v; the log: %v", files, err, gone)
	}
	v.scanCommands(t, when, threads...)
}

// rows are all rows by kind, as a driver would write them.
func (v *vault) rows(t *testing.T) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	err := v.DB.View(t.Context(), func(_ context.Context, tx storage.Tx) error {
		clear(out)
		for _, k := range house.Kinds() {
			rows, err := tx.List(k.Name, storage.Query{})
			if err != nil {
				return err
			}
			for _, row := range rows {
				out[k.Name] = append(fmt.Append(out[k.Name], row.Key, row.Fields), row.Body...)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// scanThread reads a thread through every door of the library.
func (v *vault) scanThread(t *testing.T, when, id string) {
	t.Helper()
	ctx := t.Context()
	th := v.Engine.Thread(map[bool]string{true: "asks", false: "mail"}[id == "plain"], id)
	see := func(door string, x any, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", door, err)
		}
		noLeak(t, when+": "+door+" of "+id, []byte(compact(x)+fmt.Sprintf("%+v", x)))
	}
	s, err := th.State(ctx)
	see("state", s, err)
	see("history", history(t, th), nil)
	runs, err := th.Runs(ctx)
	see("runs", runs, err)
	open, err := v.Engine.Questions(ctx, 0)
	see("questions", open, err)
	list, err := v.Engine.Threads(ctx, "", 0)
	see("threads", list, err)
	preview, err := th.PreviewResume(ctx)
	see("preview", preview, err)
	var told []pawl.Event
	if s.Status != pawl.Running {
		for e, err := range th.Watch(ctx, 0) {
			if err != nil {
				t.Fatal(err)
			}
			told = append(told, e)
			if e.Kind == pawl.EventFinished {
				break
			}
		}
	}
	see("watched events", told, nil)
	rs, err := approval.NewDesk(v.Engine, v.DB).List(ctx, approval.Filter{})
	see("approvals", rs, err)
	desk := v.Ledger.Desk(v.Engine, v.DB)
	ops, err := desk.List(ctx, effect.Filter{})
	see("effects", ops, err)
	for _, op := range ops {
		shown, err := desk.Show(ctx, op.Key)
		see("effect", shown, err)
		see("effect's parameters", string(shown.Params), err)
	}
	trail, err := audit.List(ctx, v.DB, "", id, 0, 0)
	see("audit", trail, err)
}

// scanCommands runs the command line over the file, as tables and as JSON.
func (v *vault) scanCommands(t *testing.T, when string, threads ...string) {
	t.Helper()
	lines := [][]string{
		{"threads", "list"}, {"approvals", "list", "--state", "all"}, {"effects", "list"}, {"doctor", "-v"},
	}
	for _, id := range threads {
		lines = append(lines, []string{"threads", "show", id}, []string{"threads", "history", id}, []string{"threads", "state", id},
			[]string{"threads", "export", id}, []string{"audit", "list", id}, []string{"runs", "list", "--thread", id})
	}
	for _, r := range v.requests(t) {
		lines = append(lines, []string{"approvals", "show", r.ID})
	}
	ops, err := v.Ledger.Desk(v.Engine, v.DB).List(t.Context(), effect.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	for _, op := range ops {
		lines = append(lines, []string{"effects", "show", op.Key})
	}
	for _, line := range lines {
		for _, format := range []string{"table", "json"} {
			data, talk := v.command(t, append(line, "-o", format)...)
			noLeak(t, fmt.Sprintf("%s: %q as %s", when, line, format), append(data, talk...))
		}
	}
}

// command runs one command line of a program that has the graphs.
func (v *vault) command(t *testing.T, args ...string) (data, talk []byte) {
	t.Helper()
	var out, said bytes.Buffer
	code := cli.New(cli.Env{
		Stdin: strings.NewReader(""), Stdout: &out, Stderr: &said, Now: time.Now, User: "ann", Graphs: []pawl.Registrable{v.graph},
		Getenv: func(string) string { return "" },
	}).Run(t.Context(), append(args, "--db", v.path))
	if code == cli.Usage || code == cli.Unreachable || out.Len() == 0 {
		t.Errorf("%q: exit %d, %s", args, code, &said)
	}
	return out.Bytes(), said.Bytes()
}

func (v *vault) requests(t *testing.T) []approval.Request {
	t.Helper()
	all, err := approval.NewDesk(v.Engine, v.DB).List(t.Context(), approval.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// streamed runs a verb and scans every event that it tells.
func (v *vault) streamed(t *testing.T, th *pawl.Thread, resume bool) *pawl.Outcome {
	t.Helper()
	var out *pawl.Outcome
	if resume {
		var err error
		if out, err = th.Resume(t.Context()); err != nil {
			v.log(err)
			noLeak(t, "error", []byte(fmt.Sprintf("%v %+v %s", err, err, compact(out))))
		}
		v.log(out)
		return out
	}
	for e, err := range th.Stream(t.Context(), []byte("{}")) {
		v.log(e)
		if err != nil {
			v.log(err)
		}
		noLeak(t, "event", []byte(compact(e)+fmt.Sprintf("%+v %v", e, err)))
		if e.Outcome != nil {
			out = e.Outcome
		}
	}
	if out == nil {
		t.Fatal("no event told how it ended")
	}
	noLeak(t, "outcome", []byte(compact(out)+fmt.Sprintf("%+v", out)))
	return out
}

// visible fails unless the approver sees what is no secret, and that there are secrets.
func visible(t *testing.T, body []byte) {
	t.Helper()
	for _, part := range []string{"all-staff", "q3.pdf", "https://files.example/q3.pdf?", "X-Amz-Expires=600", redact.Mask + "=2"} {
		plain := strings.ReplaceAll(string(body), `\u0026`, "&")
		if !strings.Contains(plain, part) {
			t.Errorf("%q is not in %s", part, plain)
		}
	}
	same(t, "hidden values", strings.Count(string(body), `"`+redact.Mask+`"`), 2)
}

func redactedBeforeStored(t *testing.T, _ *report) {
	for n := 1; n <= 4; n++ { // the scan would find them
		canary := fmt.Sprintf("CANARY-%d", n)
		for _, pad := range []string{"", "y", "yz"} {
			doc := []byte(pad + canary + "...")
			for _, shape := range []string{string(doc), hex.EncodeToString(doc), base64.StdEncoding.EncodeToString(doc)} {
				same(t, "found in "+shape, slices.Contains(leaks([]byte("{"+shape+"}")), canary), true)
			}
		}
	}
	for _, onFile := range []bool{false, true} {
		t.Run(map[bool]string{false: "memory", true: "sqlite"}[onFile], func(t *testing.T) {
			t.Run("call", func(t *testing.T) { redactedCall(t, openVault(t, onFile)) })
			t.Run("plain question", func(t *testing.T) { redactedQuestion(t, openVault(t, onFile)) })
		})
	}
}

func redactedCall(t *testing.T, v *vault) {
	th := v.Engine.Thread("mail", "t")
	out := v.streamed(t, th, false)
	q := paused(t, out, nil, 1)[0]
	visible(t, q.Body)
	var shown struct {
		Hidden []string `json:"hidden"`
	}
	if err := json.Unmarshal(q.Body, &shown); err != nil {
		t.Fatal(err)
	}
	same(t, "what is said to be hidden", shown.Hidden, []string{"$.api_key", "$.auth.password", "$.link"})
	before := history(t, th)
	v.scan(t, "asked", "t")

	desk, r := approval.NewDesk(v.Engine, v.DB), v.requests(t)[0]
	visible(t, r.View)
	_, err := desk.Approve(cfo(t.Context()), r.ID, approval.Decision{Digest: "of another call"})
	if !errors.As(err, new(*approval.DigestError)) {
		t.Fatal(err)
	}
	if _, err := desk.Approve(cfo(t.Context()), r.ID, approval.Decision{Digest: r.Call}); err != nil {
		t.Fatal(err)
	}
	v.scan(t, "granted", "t")

	// Errors quote what was sent: net/http the URL, a target what it does not like.
	v.say = effect.NotSent(fmt.Errorf("Put %q: connection refused: neither CANARY-1 nor CANARY-2 is known", canaryMail().Link))
	if out = v.streamed(t, th, true); out.Status != pawl.Failed {
		t.Fatalf("the target is away: %+v", out)
	}
	v.scan(t, "not sent", "t")
	v.say = errors.New("Put " + canaryMail().Link + ": connection reset with api_key=CANARY-1 in the header")
	if out = v.streamed(t, th, true); out.Status != pawl.Waiting {
		t.Fatalf("the target hung up: %+v", out)
	}
	v.scan(t, "in doubt", "t")
	op := v.requests(t)[0].Operation
	if _, err := v.Ledger.Desk(v.Engine, v.DB).Release(cfo(t.Context()), op, effect.NotApplied(), "looked"); err != nil {
		t.Fatal(err)
	}
	v.say = nil
	out = v.streamed(t, th, true)
	finished(t, out, nil, `{"used":["sent"]}`)
	v.scan(t, "done", "t")
	atEnd(t, th, before)
}

func redactedQuestion(t *testing.T, v *vault) {
	th := v.Engine.Thread("asks", "plain")
	out := v.streamed(t, th, false)
	q := paused(t, out, nil, 1)[0]
	visible(t, q.Body)
	before := history(t, th)
	v.scan(t, "asked", "plain")
	if _, err := th.Resume(t.Context(), pawl.AnswerWith(q.ID, 17)); err == nil {
		t.Fatal("a number answered the question")
	} else {
		noLeak(t, "refused", []byte(fmt.Sprintf("%v %+v", err, err)))
	}
	out, err := resume(th, q.ID, "yes")
	finished(t, out, err, `{"used":["yes"]}`)
	v.scan(t, "done", "plain")
	atEnd(t, th, before)
}

// approvedRunsUnmasked: the target receives what was approved, once.
func approvedRunsUnmasked(t *testing.T, _ *report) {
	for _, onFile := range []bool{false, true} {
		t.Run(map[bool]string{false: "memory", true: "sqlite"}[onFile], func(t *testing.T) {
			v := openVault(t, onFile)
			th := v.Engine.Thread("mail", "t")
			out, err := start(th)
			paused(t, out, err, 1)
			before := history(t, th)
			r := v.requests(t)[0]
			if _, err := approval.NewDesk(v.Engine, v.DB).Approve(cfo(t.Context()), r.ID, approval.Decision{Digest: r.Call}); err != nil {
				t.Fatal(err)
			}
			out, err = resume(th)
			finished(t, out, err, `{"used":["sent"]}`)
			same(t, "received", v.got, []secretMail{canaryMail()})
			same(t, "canaries received", leaks([]byte(compact(v.got))), []string{"CANARY-1", "CANARY-2", "CANARY-3", "CANARY-4"})
			shown, err := v.Ledger.Desk(v.Engine, v.DB).Show(t.Context(), v.ops[0].Key)
			if err != nil {
				t.Fatal(err)
			}
			r = *shown.Request
			same(t, "attempts", len(shown.Attempts), 1)
			same(t, "digest dispatched", []string{shown.Attempts[0].Call, shown.Operation.Call}, []string{r.Call, r.Call})
			same(t, "grant used by", []string{string(r.State), r.UsedBy}, []string{string(approval.Consumed), v.ops[0].Key})
			if r.ViewDigest == "" || r.ViewDigest == r.Call {
				t.Errorf("the digest of the view is %q, of the call %q", r.ViewDigest, r.Call)
			}
			atEnd(t, th, before)
		})
	}
}
