package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/cli"
)

// report is what the demo measured.
type report struct {
	StepCalls   map[string]int `json:"step_calls"`         // before the fork
	PlainReplay map[string]int `json:"plain_replay_calls"` // times that a step's line was reached, before the fork
	NodeRuns    map[string]int `json:"node_runs"`          // entries of nodes before the fork
	Kills       int            `json:"kills"`              // workers that a signal ended
	AfterKill   []pawl.Status  `json:"status_after_kill"`
	Answer      string         `json:"answer"`
	Answers     []answer       `json:"answers"` // as the database has them, in the order of asking
	Status      pawl.Status    `json:"status"`  // before the fork
	Fork        branch         `json:"fork"`
	Checkpoints int            `json:"checkpoints"` // of both branches
	Elapsed     int64          `json:"elapsed_ms"`
	Kept        string         `json:"database,omitempty"`

	branch string // head of the first branch
	kept   bool   // the first branch's head is still there
}

type branch struct {
	Status    pawl.Status    `json:"status"`
	Answer    string         `json:"answer"`
	StepCalls map[string]int `json:"step_calls"`
	NodeRuns  map[string]int `json:"node_runs"`
}

type answer struct {
	Question string          `json:"question"`
	Body     json.RawMessage `json:"body"`
	Answer   json.RawMessage `json:"answer"`
	By       string          `json:"by"`
	Asked    time.Time       `json:"asked"`
}

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

// readHistory reads both branches from the database.
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
	calls := map[string]int{"find-order": 1, "find-customer": 1, "score-risk": 1, "draft-letter": 1}
	if r.Answer == "yes" {
		calls["send-refund"] = 1
	}
	expect("workers killed", r.Kills, 2)
	expect("status after the kills", r.AfterKill, []pawl.Status{pawl.Crashed, pawl.Waiting})
	expect("step calls", r.StepCalls, calls)
	expect("node entries", r.NodeRuns, map[string]int{"order": 1, "customer": 1, "risk": 2, "decide": 2})
	expect("lines reached of score-risk and draft-letter",
		[]int{r.PlainReplay["score-risk"], r.PlainReplay["draft-letter"]}, []int{2, 2})
	expect("status", r.Status, pawl.Done)
	expect("answers", len(r.Answers), 2)
	expect("status of the fork", r.Fork.Status, pawl.Done)
	expect("step calls of the fork", r.Fork.StepCalls, map[string]int{"draft-letter": 1, "send-refund": 1})
	expect("node entries of the fork", r.Fork.NodeRuns, map[string]int{"decide": 2})
	expect("the first branch is kept", r.kept, true)
	return errors.Join(wrong...)
}

func (r *report) print(g *cli.Page) {
	rows := [][]string{}
	for _, s := range [...]string{"find-order", "find-customer", "score-risk", "draft-letter", "send-refund"} {
		rows = append(rows, []string{s, fmt.Sprint(r.StepCalls[s]), fmt.Sprint(r.PlainReplay[s]), fmt.Sprint(r.Fork.StepCalls[s])})
	}
	g.Table([]string{"STEP", "CALLS", "PLAIN REPLAY", "IN THE FORK"}, rows...)
	g.Line("\n%d kills, %d answers, %d checkpoints, %d ms.", r.Kills, len(r.Answers), r.Checkpoints, r.Elapsed)
	pawl, db := self(), r.Kept
	g.Line("\nTry next:")
	next := []string{"threads show " + demoThread, "threads history " + demoThread, "doctor -v"}
	if db == "" {
		db = "tour/pawl.db"
		g.Line("  %s demo --yes --keep tour    (the same again, and the database stays)", pawl)
	} else if len(r.Answers) > 0 {
		next = append(next, "answer "+r.Answers[0].Question[:12]+" maybe")
	}
	for _, n := range next {
		g.Line("  %s %s --db %s", pawl, n, db)
	}
}

// self is how this program was started: go run leaves no command behind.
func self() string {
	if path, err := os.Executable(); err == nil && strings.Contains(path, "go-build") {
		return "go run ./cmd/pawl"
	}
	return "pawl"
}
