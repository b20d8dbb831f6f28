package main

import (
	"encoding/json"
	"maps"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
)

// good is what a demo measures that goes as it should.
func good() *report {
	return &report{
		StepCalls:   map[string]int{"find-order": 1, "find-customer": 1, "score-risk": 1, "draft-letter": 1, "send-refund": 1},
		PlainReplay: map[string]int{"score-risk": 2, "draft-letter": 2},
		NodeRuns:    map[string]int{"order": 1, "customer": 1, "risk": 2, "decide": 2},
		Kills:       2, AfterKill: []pawl.Status{pawl.Crashed, pawl.Waiting}, Answer: "yes", Answers: make([]answer, 2), Status: pawl.Done,
		Fork: branch{
			Status: pawl.Done, StepCalls: map[string]int{"draft-letter": 1, "send-refund": 1}, NodeRuns: map[string]int{"decide": 2},
		},
		kept: true,
	}
}

func TestReportVerifies(t *testing.T) {
	t.Parallel()
	if err := good().verify(); err != nil {
		t.Errorf("a good report: %v", err)
	}
	for name, spoil := range map[string]func(*report){
		"workers killed":               func(r *report) { r.Kills = 1 },
		"status after the kills":       func(r *report) { r.AfterKill[0] = pawl.Running },
		"step calls":                   func(r *report) { r.StepCalls["draft-letter"] = 2 },
		"step calls: map[draft-letter": func(r *report) { r.Answer = "no" },
		"node entries":                 func(r *report) { r.NodeRuns["order"] = 2 },
		"lines reached":                func(r *report) { r.PlainReplay["score-risk"] = 1 },
		"status: failed":               func(r *report) { r.Status = pawl.Failed },
		"answers":                      func(r *report) { r.Answers = nil },
		"status of the fork":           func(r *report) { r.Fork.Status = pawl.Waiting },
		"step calls of the fork":       func(r *report) { r.Fork.StepCalls["score-risk"] = 1 },
		"node entries of the fork":     func(r *report) { r.Fork.NodeRuns["risk"] = 1 },
		"the first branch is kept":     func(r *report) { r.kept = false },
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

// The document has what was measured, and every step was called once before the fork.
func TestDemoDocument(t *testing.T) {
	t.Parallel()
	doc, err := exec.Command("pawl", "demo", "-o", "json").Output()
	if err != nil {
		t.Fatal(err)
	}
	var r struct {
		StepCalls map[string]int `json:"step_calls"`
		NodeRuns  map[string]int `json:"node_runs"`
		Kills     int            `json:"kills"`
		Answers   []struct {
			Answer string `json:"answer"`
		} `json:"answers"`
		Fork struct {
			StepCalls map[string]int `json:"step_calls"`
		} `json:"fork"`
		Elapsed int64 `json:"elapsed_ms"`
	}
	if err := json.Unmarshal(doc, &r); err != nil {
		t.Fatalf("%v: %s", err, doc)
	}
	want := good()
	if !maps.Equal(r.StepCalls, want.StepCalls) || !maps.Equal(r.NodeRuns, want.NodeRuns) || !maps.Equal(r.Fork.StepCalls, want.Fork.StepCalls) {
		t.Errorf("measured %+v", r)
	}
	if r.Kills != 2 || len(r.Answers) != 2 || r.Answers[0].Answer != "yes" || r.Elapsed <= 0 {
		t.Errorf("measured %+v", r)
	}
}

func TestLedgerCounts(t *testing.T) {
	t.Parallel()
	l := ledger(filepath.Join(t.TempDir(), "ledger.txt"))
	for _, name := range []string{"a", "b", "a"} {
		if err := l.add("call", name); err != nil {
			t.Fatal(err)
		}
	}
	before, err := l.read()
	if err != nil || before["call"]["a"] != 2 || before["call"]["b"] != 1 {
		t.Fatalf("read %v, %v", before, err)
	}
	if err := l.add("call", "b"); err != nil {
		t.Fatal(err)
	}
	now, err := l.read()
	if more := now.since(before); err != nil || !maps.Equal(more["call"], map[string]int{"b": 1}) {
		t.Errorf("since: %v, %v", more, err)
	}
	if err := l.add("nonsense", "x"); err != nil {
		t.Fatal(err)
	}
	if _, err := l.read(); err == nil {
		t.Error("a line that nobody writes was read")
	}
}
