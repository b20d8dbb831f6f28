package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/effect"
	"github.com/pawl-dev/pawl/internal/cli"
)

// report is what the demo measured.
type report struct {
	Rows        int            `json:"provider_rows"`                // payments in the provider's ledger
	Requests    int            `json:"payment_requests"`             // that the provider got
	Approved    int            `json:"approved_refunds"`             // by the database
	Asked       int            `json:"approvals_asked"`              // by the database
	SameReceipt bool           `json:"same_receipt"`                 // of the fork and of the branch before it
	Changed     string         `json:"changed_amount"`               // refused; not refused; sent; not tried, when nothing was paid
	LookUps     int            `json:"look_ups"`                     // after the kill
	Unknown     int            `json:"unknown_outcomes"`             // after the kill
	Confirmed   string         `json:"confirmed_by"`                 // what settled the unknown outcome
	Unexplained int            `json:"unexplained_rows"`             // of the provider's books and the ledger
	Honest      bool           `json:"audit_honest"`                 // the trail, verified
	Flip        bool           `json:"flip_found"`                   // one byte of a copy, verified
	Finding     string         `json:"flip_finding"`                 // and its place by name
	Mails       int            `json:"mails"`                        // that were sent
	Plain       int            `json:"plain_replay_would_have_paid"` // times that the line of an approved payment was reached
	StepCalls   map[string]int `json:"step_calls"`                   // of the first refund, before the fork, like the next two
	PlainReplay map[string]int `json:"plain_replay_calls"`           // times that a call's line was reached
	NodeRuns    map[string]int `json:"node_runs"`                    // entries of nodes
	Kills       int            `json:"kills"`                        // workers that a signal ended
	AfterKill   []pawl.Status  `json:"status_after_kill"`
	Answer      string         `json:"answer"`  // to the first approval
	Answers     []answer       `json:"answers"` // as the database has them, in the order of asking
	Status      pawl.Status    `json:"status"`  // before the fork
	Fork        branch         `json:"fork"`
	Second      second         `json:"second"`
	Checkpoints int            `json:"checkpoints"` // of all branches of the first refund
	Elapsed     int64          `json:"elapsed_ms"`  // without what a person thought
	Kept        string         `json:"database,omitempty"`

	branch       string // head of the first branch
	kept         bool   // the first branch's head is still there
	payments     []payment
	operations   []string
	ledgersAgree bool // what the provider says, and its file
}

type branch struct {
	Status    pawl.Status    `json:"status"`
	StepCalls map[string]int `json:"step_calls"`
	NodeRuns  map[string]int `json:"node_runs"`
	Requests  int            `json:"payment_requests"`
	Asked     int            `json:"approvals_asked"`
}

// second is the second refund.
type second struct {
	Status   pawl.Status `json:"status"`
	Requests int         `json:"payment_requests"`
}

type answer struct {
	Question string          `json:"question"`
	Body     json.RawMessage `json:"body"`
	Answer   json.RawMessage `json:"answer"`
	By       string          `json:"by"`
	Asked    time.Time       `json:"asked"`
}

var effectsOfPay = effect.Filter{Effect: "provider.pay"}

// readAnswers reads what was answered from the database.
func (r *report) readAnswers(ctx context.Context, eng *pawl.Engine) error {
	r.Answers = []answer{}
	questions, err := eng.FindQuestions(ctx, "", 0)
	for _, q := range questions {
		if q.State == "answered" {
			r.Answers = append(r.Answers, answer{q.ID, q.Body, q.Answer, q.By, q.Asked.UTC()})
		}
	}
	slices.SortFunc(r.Answers, func(a, b answer) int { return a.Asked.Compare(b.Asked) })
	return err
}

// readHistory reads all branches from the database.
func (r *report) readHistory(ctx context.Context, t *pawl.ThreadOf[refund]) error {
	history, err := t.History(ctx, pawl.Page{})
	r.Checkpoints = len(history)
	for _, s := range history {
		r.kept = r.kept || s.Checkpoint == r.branch
	}
	return err
}

// verify says what of the demo's story the measurements do not bear out.
func (r *report) verify() error {
	var wrong []error
	expect := func(what string, have, want any) {
		if fmt.Sprint(have) != fmt.Sprint(want) {
			wrong = append(wrong, fmt.Errorf("%s: %v, should be %v", what, have, want))
		}
	}
	yes := r.Answer == "yes"
	kills, entries, fork, changed, plain := 1, map[string]int{"pay": 2}, map[string]int{"pay": 1}, "not tried", r.Approved
	after := []pawl.Status{pawl.Crashed}
	if yes {
		kills, changed, after = 2, "refused", append(after, pawl.Crashed)
		entries["pay"], entries["mail"], fork["mail"] = 3, 1, 1
		plain += 3 // after the kill, in the fork, with another amount
		expect("outcomes unknown after the kill", r.Unknown, 1)
		expect("look-ups", r.LookUps, 1)
		expect("confirmed by", r.Confirmed, "look-up")
	}
	entries["order"], entries["customer"], entries["risk"], entries["policy"] = 1, 1, 2, 1
	expect("workers killed", r.Kills, kills)
	expect("status after the kills", r.AfterKill, after)
	expect("step calls", r.StepCalls, map[string]int{"find-order": 1, "find-customer": 1, "score-risk": 1, "ask-model": 1, "check-policy": 1})
	expect("node entries", r.NodeRuns, entries)
	expect("lines reached of score-risk", r.PlainReplay["score-risk"], 2)
	expect("status", r.Status, pawl.Done)
	expect("approvals asked", r.Asked, 2)
	expect("answers", len(r.Answers), 2)
	expect("payment requests", r.Requests, r.Approved)
	expect("rows of the provider", r.Rows, r.Approved)
	expect("the provider and its file agree", r.ledgersAgree, true)
	expect("unexplained rows", r.Unexplained, 0)
	expect("the trail is honest", r.Honest, true)
	expect("the changed byte is found", r.Flip && r.Finding != "", true)
	expect("mails", r.Mails, r.Approved)
	expect("same receipt", r.SameReceipt, yes)
	expect("the changed amount", r.Changed, changed)
	expect("payments of a plain replay", r.Plain, plain)
	expect("status of the fork", r.Fork.Status, pawl.Done)
	expect("step calls of the fork", len(r.Fork.StepCalls), 0)
	expect("node entries of the fork", r.Fork.NodeRuns, fork)
	expect("requests of the fork, to the provider and to people", []int{r.Fork.Requests, r.Fork.Asked}, []int{0, 0})
	expect("status of the second refund", r.Second.Status, pawl.Done)
	expect("the first branch is kept", r.kept, true)
	return errors.Join(wrong...)
}

func (r *report) print(g *cli.Page) {
	rows := [][]string{}
	for _, p := range r.payments {
		rows = append(rows, []string{p.ID, p.Ref, p.Order, dollars(p.Cents)})
	}
	g.Line("\nThe provider's ledger, at the end:\n")
	if len(rows) == 0 {
		g.Line("no payments")
	} else {
		g.Table([]string{"PAYMENT", "REF", "ORDER", "AMOUNT"}, rows...)
	}
	g.Line("\n%s, %s, %s.\nA plain replay would have made %s.", several(r.Approved, "approved refund"), several(r.Requests, "payment request"),
		several(r.Rows, "payment"), several(r.Plain, "payment"))
	g.Line("Unexplained in the provider's books: %d. The trail is honest: %v. One changed byte is found: %v.", r.Unexplained, r.Honest, r.Flip)
	g.Line("%s, %s asked, %s, %d ms.", several(r.Kills, "kill"), several(r.Asked, "approval"), several(r.Checkpoints, "checkpoint"), r.Elapsed)
	pawl, db := self(), r.Kept
	g.Line("\nTry next:")
	if db == "" {
		db = "tour/pawl.db"
		g.Line("  %s demo --yes --keep tour    (the same again, and the files stay)", pawl)
	}
	next := []string{"threads show " + demoThread, "threads history " + demoThread, "approvals list --state all", "effects list"}
	if len(r.operations) > 0 {
		next = append(next, fmt.Sprintf("effects show %.12s", r.operations[0]))
	}
	next = append(next, "audit list "+demoThread, "audit verify", "effects report --target "+cli.ShellWord(targetOf(filepath.Dir(db))))
	for _, n := range next {
		g.Line("  %s %s --db %s", pawl, n, cli.ShellWord(db))
	}
	g.Line("  %s audit verify --db %s    (exit 7: one byte of it is another)", pawl, cli.ShellWord(flippedOf(filepath.Dir(db))))
	g.Line("\nPrograms to start from: examples/readme, and with payments examples/expense.")
}

// self is how this program was started: go run leaves no command behind.
func self() string {
	if path, err := os.Executable(); err == nil && strings.Contains(path, "go-build") {
		return "go run ./cmd/pawl"
	}
	return "pawl"
}

// paragraph breaks a text into lines for a terminal of 80 columns.
func paragraph(text, indent string) string {
	var b strings.Builder
	at := 0
	for i, word := range strings.Fields(text) {
		switch {
		case i == 0 || at+1+len(word) > 79:
			if i > 0 {
				b.WriteByte('\n')
			}
			b.WriteString(indent)
			at = len(indent)
		default:
			b.WriteByte(' ')
			at++
		}
		b.WriteString(word)
		at += len(word)
	}
	return b.String()
}
