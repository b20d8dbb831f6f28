package suite

import (
	"context"
	"fmt"
	"testing"

	"github.com/pawl-dev/pawl"
)

// seed000 is pause, pay, approve, retry.
func seed000() []scenario {
	return []scenario{
		{id: "S000-1", run: paidCallAndQuestion},
		{id: "S000-2", run: plainCallAboveQuestion},
		{id: "S000-3", run: twoQuestions},
		{id: "S000-4", run: callAndPauseApart},
		{id: "S000-5", run: taskKeys},
		{id: "S000-6", run: keyInUsersTable},
		{id: "S000-7", run: functionalStyle},
		{id: "S000-8", run: whatACrashLoses},
		{id: "S000-9", run: goingOnAfterThatCrash},
		{id: "S000-10", run: windowIsMeasured},
		{id: "S000-11", run: twoRiskyCalls},
		{id: "S000-12", run: oneYesOneUse},
		{id: "S000-13", run: duplicateSpendsNothing},
		{id: "S000-14", run: diesAfterYes},
		{id: "S000-15", run: aNoHolds},
		{id: "S000-16", run: takenOnce},
		{id: "S000-17", run: redactedBeforeStored},
		{id: "S000-18", run: approvedRunsUnmasked},
		{id: "S000-19", run: concludedThenRetried},
		{id: "S000-20", run: newInputIsNoFreshStart, flat: "a failed run of a child leaves nothing to its parent"},
		{id: "S000-21", run: diedThenResumed},
		{id: "S000-22", run: verbsAndStatuses},
		{id: "S000-23", run: checksComeFirst},
		{id: "S000-24", run: deletingAThread},
		{id: "S000-25", run: oneList},
		{id: "S000-26", run: topLevel, flat: "its rule is about the outermost graph"},
		{id: "S000-27", run: samePlaceInTheSource, flat: "it is about the places of calls in the source"},
		{id: "S000-28", run: separatorsAreFixed},
		{id: "S000-29", run: checklistIsChecked},
	}
}

func children000() map[string]func([]byte) {
	return map[string]func([]byte){
		"000-keys": keysThenWait, "000-loss": submitThenDie, "000-five": dieInTheThird, "000-table": dieInTheTable,
		"000-retry": dieInRetry, "000-risk": riskChild,
	}
}

// job is the state of the paid call: what was submitted, and that a person agreed to it.
type job struct {
	JobID    pawl.Last[string] `json:"job_id"`
	Approved pawl.Last[bool]   `json:"approved"`
}

type asked struct {
	Ask string `json:"ask"`
}

func approve() pawl.Interrupt[asked, bool] { return pawl.Interrupt[asked, bool]{Name: "approve"} }

// submit is the paid call: a new job each time, and a row in the world's ledger.
func (l *ledger) submit(context.Context) (string, error) {
	id := fmt.Sprintf("gpu-job-%d", len(l.rows())+1)
	l.add(id)
	return id, nil
}

const (
	doneJob = `{"job_id":"gpu-job-1","approved":true}`
	askJob1 = `{"ask":"approve gpu-job-1?"}`
	askJob2 = `{"ask":"approve gpu-job-2?"}`
)

// bodies are the open questions as people read them.
func bodies(open []pawl.Question) []string {
	out := []string{}
	for _, q := range open {
		out = append(out, string(q.Body))
	}
	return out
}

// stand checks at a scenario's end that the thread is in a status with nothing pending behind it, and that history only
// grew.
func stand(t *testing.T, th interface {
	State(context.Context, ...pawl.Path) (*pawl.ThreadState, error)
	History(context.Context, pawl.Page) ([]*pawl.Snapshot, error)
}, status pawl.Status, snapshots int, before []*pawl.Snapshot) {
	t.Helper()
	s := statusOf(t, th)
	settled(t, s)
	same(t, "status", s.Status, status)
	after := history(t, th)
	same(t, "snapshots", len(after), snapshots)
	grew(t, before, after)
}
