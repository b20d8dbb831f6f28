package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/effect"
)

// good is what a demo measures that goes as it should.
func good() *report {
	return &report{
		Rows: 2, Requests: 2, Approved: 2, Asked: 2, SameReceipt: true, Changed: "refused", LookUps: 1, Unknown: 1, Mails: 2, Plain: 5,
		StepCalls:   map[string]int{"find-order": 1, "find-customer": 1, "score-risk": 1, "ask-model": 1, "check-policy": 1},
		PlainReplay: map[string]int{"score-risk": 2},
		NodeRuns:    map[string]int{"order": 1, "customer": 1, "risk": 2, "policy": 1, "pay": 3, "mail": 1},
		Kills:       2, AfterKill: []pawl.Status{pawl.Crashed, pawl.Crashed}, Answer: "yes", Answers: make([]answer, 2), Status: pawl.Done,
		Fork:   branch{Status: pawl.Done, NodeRuns: map[string]int{"pay": 1, "mail": 1}},
		Second: second{Status: pawl.Done}, kept: true, ledgersAgree: true,
		Confirmed: "look-up", Honest: true, Flip: true, Finding: "row 3",
	}
}

// denied is what a demo measures where the person says no, and then yes to the second refund.
func denied() *report {
	r := good()
	r.Answer, r.Kills, r.AfterKill, r.Changed, r.SameReceipt = "no", 1, r.AfterKill[:1], "not tried", false
	r.Rows, r.Requests, r.Approved, r.Mails, r.Plain, r.LookUps, r.Unknown = 1, 1, 1, 1, 1, 0, 0
	r.NodeRuns["pay"] = 2
	delete(r.NodeRuns, "mail")
	delete(r.Fork.NodeRuns, "mail")
	return r
}

func TestReportVerifies(t *testing.T) {
	t.Parallel()
	if err := errors.Join(good().verify(), denied().verify()); err != nil {
		t.Errorf("a good report: %v", err)
	}
	for name, spoil := range map[string]func(*report){
		"workers killed":                  func(r *report) { r.Kills = 1 },
		"status after the kills":          func(r *report) { r.AfterKill[0] = pawl.Running },
		"step calls":                      func(r *report) { r.StepCalls["ask-model"] = 2 },
		"node entries":                    func(r *report) { r.NodeRuns["order"] = 2 },
		"node entries: map[customer":      func(r *report) { r.Answer = "no" },
		"lines reached":                   func(r *report) { r.PlainReplay["score-risk"] = 1 },
		"status: failed":                  func(r *report) { r.Status = pawl.Failed },
		"answers":                         func(r *report) { r.Answers = nil },
		"approvals asked":                 func(r *report) { r.Asked = 3 },
		"payment requests":                func(r *report) { r.Requests = 3 },
		"rows of the provider":            func(r *report) { r.Rows = 3 },
		"rows of the provider: 2":         func(r *report) { r.Approved = 1 },
		"the provider and its file agree": func(r *report) { r.ledgersAgree = false },
		"mails":                           func(r *report) { r.Mails = 3 },
		"look-ups":                        func(r *report) { r.LookUps = 0 },
		"outcomes unknown":                func(r *report) { r.Unknown = 0 },
		"same receipt":                    func(r *report) { r.SameReceipt = false },
		"the changed amount":              func(r *report) { r.Changed = "sent" },
		"payments of a plain replay":      func(r *report) { r.Plain = 2 },
		"status of the fork":              func(r *report) { r.Fork.Status = pawl.Waiting },
		"step calls of the fork":          func(r *report) { r.Fork.StepCalls = map[string]int{"score-risk": 1} },
		"node entries of the fork":        func(r *report) { r.Fork.NodeRuns["risk"] = 1 },
		"requests of the fork":            func(r *report) { r.Fork.Requests = 1 },
		"status of the second refund":     func(r *report) { r.Second.Status = pawl.Waiting },
		"confirmed by":                    func(r *report) { r.Confirmed = "person" },
		"unexplained rows":                func(r *report) { r.Unexplained = 1 },
		"the trail is honest":             func(r *report) { r.Honest = false },
		"the changed byte is found":       func(r *report) { r.Finding = "" },
		"the first branch is kept":        func(r *report) { r.kept = false },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := good()
			spoil(r)
			if err := r.verify(); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("told %v", err)
			}
		})
	}
}

// The document has what was measured: every step was called once over two kills, and each approved refund was paid once.
func TestDemoDocument(t *testing.T) {
	t.Parallel()
	doc, err := exec.Command("pawl", "demo", "--yes", "-o", "json").Output()
	if err != nil {
		t.Fatal(err)
	}
	var r struct {
		Rows      int            `json:"provider_rows"`
		Requests  int            `json:"payment_requests"`
		Approved  int            `json:"approved_refunds"`
		Asked     int            `json:"approvals_asked"`
		Same      bool           `json:"same_receipt"`
		Changed   string         `json:"changed_amount"`
		Plain     int            `json:"plain_replay_would_have_paid"`
		StepCalls map[string]int `json:"step_calls"`
		NodeRuns  map[string]int `json:"node_runs"`
		Kills     int            `json:"kills"`
		Answers   []struct {
			Answer struct {
				State string `json:"state"`
			} `json:"answer"`
		} `json:"answers"`
		Unexplained *int  `json:"unexplained_rows"`
		Honest      bool  `json:"audit_honest"`
		Flip        bool  `json:"flip_found"`
		Elapsed     int64 `json:"elapsed_ms"`
	}
	if err := json.Unmarshal(doc, &r); err != nil {
		t.Fatalf("%v: %s", err, doc)
	}
	want := good()
	if !maps.Equal(r.StepCalls, want.StepCalls) || !maps.Equal(r.NodeRuns, want.NodeRuns) {
		t.Errorf("measured %+v", r)
	}
	if r.Rows != 2 || r.Requests != 2 || r.Approved != 2 || r.Asked != 2 || !r.Same || r.Changed != "refused" || r.Plain <= r.Requests {
		t.Errorf("measured %+v", r)
	}
	if r.Unexplained == nil || *r.Unexplained != 0 || !r.Honest || !r.Flip {
		t.Errorf("proved %s", doc)
	}
	if r.Kills != 2 || len(r.Answers) != 2 || r.Answers[0].Answer.State != "granted" || r.Elapsed <= 0 {
		t.Errorf("measured %+v", r)
	}
}

// What the demo says to try next does something, in the folder in which it was said.
func TestDemoFollowUps(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("pawl", args...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("pawl %s: %v: %s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	_, next, _ := strings.Cut(run("demo", "--yes", "--keep", "tour"), "Try next:\n")
	want := map[string]string{
		"threads show": "failed", "threads history": "fork", "approvals list": "consumed", "effects list": "refund:8841-2",
		"effects show": "Evidence of a look-up", "audit list": "settled", "audit verify": "honest: ", "effects report": "Unexplained: 0",
	}
	var flipped []string
	for line := range strings.Lines(next) {
		args := strings.Fields(line)
		if len(args) < 3 || args[0] != "pawl" {
			continue
		}
		what := strings.Join(args[1:3], " ")
		if strings.Contains(line, "flipped.db") {
			flipped = strings.Fields(line)[1:5]
			continue
		}
		if out := run(args[1:]...); want[what] == "" || !strings.Contains(out, want[what]) {
			t.Errorf("%s printed %s", line, out)
		}
		delete(want, what)
	}
	spoilt := exec.Command("pawl", flipped...)
	spoilt.Dir = dir
	if out, err := spoilt.CombinedOutput(); err == nil || spoilt.ProcessState.ExitCode() != 7 || !strings.Contains(string(out), "found: row ") {
		t.Errorf("pawl %s: %v: %s", strings.Join(flipped, " "), err, out)
	}
	if len(want) > 0 {
		t.Errorf("not among what to try next: %v", want)
	}
}

func TestCounts(t *testing.T) {
	t.Parallel()
	c := counts(filepath.Join(t.TempDir(), "counts.txt"))
	for _, name := range []string{"a", "b", "a"} {
		if err := c.add("here", countCall, name); err != nil {
			t.Fatal(err)
		}
	}
	before, err := c.of("here")
	if err != nil || before[countCall]["a"] != 2 || before[countCall]["b"] != 1 {
		t.Fatalf("read %v, %v", before, err)
	}
	if err := errors.Join(c.add("here", countCall, "b"), c.add("there", countCall, "a")); err != nil {
		t.Fatal(err)
	}
	now, err := c.of("here")
	if more := now.since(before); err != nil || !maps.Equal(more[countCall], map[string]int{"b": 1}) {
		t.Errorf("since: %v, %v", more, err)
	}
	if err := c.add("here", "nonsense", "x"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.of("here"); err == nil {
		t.Error("a line that nobody writes was read")
	}
}

// The provider is what the demo says it is: it pays for every request, and its post office sends a letter for each key.
func TestProvider(t *testing.T) {
	t.Parallel()
	ctx, book := context.Background(), ledgerOf(t.TempDir())
	var said bytes.Buffer
	server := httptest.NewServer((&counter{ledger: book, out: &said}).routes())
	defer server.Close()
	p := provider(strings.TrimPrefix(server.URL, "http://"))
	op := effect.Op{Ref: effect.Ref("refund", "1"), Key: "k"}

	if _, found, err := p.find(ctx, op, claim{}); found || err != nil {
		t.Errorf("found %v, %v in an empty ledger", found, err)
	}
	var ids []string
	for range 2 {
		id, err := p.pay(ctx, op, claim{"7", 100})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	if ids[0] == ids[1] {
		t.Errorf("two requests, and the one payment %s", ids[0])
	}
	if id, found, err := p.find(ctx, op, claim{}); id != ids[0] || !found || err != nil {
		t.Errorf("found %s, %v, %v", id, found, err)
	}
	for range 2 {
		if id, err := p.mail(ctx, op, letter{"you", "hello"}); id != "mail-0001" || err != nil {
			t.Errorf("mailed %s, %v", id, err)
		}
	}
	if _, err := p.pay(ctx, op, claim{"7", 0}); err == nil {
		t.Error("nothing was paid, with a receipt")
	}
	told, err := p.statement(ctx)
	kept, bad := book.read()
	if err := errors.Join(err, bad); err != nil || told.String() != "2 payment requests, 2 payments" || kept.String() != told.String() {
		t.Errorf("told %v, kept %v, %v", told, kept, err)
	}
	if told.LookUps != 2 || told.MailRequests != 2 || len(told.Mails) != 1 {
		t.Errorf("told %+v", told)
	}
}

// Nobody says that a payment did not happen while its request may be on its way.
func TestProviderIsAskedTooEarly(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer((&counter{ledger: ledgerOf(t.TempDir())}).routes())
	defer server.Close()
	p := provider(strings.TrimPrefix(server.URL, "http://"))
	op := effect.Op{Ref: effect.Ref("refund", "1"), Sent: time.Now().Add(time.Hour)}
	if _, found, err := p.find(context.Background(), op, claim{}); found || err == nil {
		t.Errorf("found %v, %v", found, err)
	}
	server.Close()
	_, err := p.pay(context.Background(), op, claim{"7", 100})
	if err == nil {
		t.Error("paid where nobody listens")
	}
}
