package pawl

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/local"
	"github.com/pawl-dev/pawl/internal/records"
	"github.com/pawl-dev/pawl/internal/schema"
	"github.com/pawl-dev/pawl/storage"
)

// Status is where a thread stands.
type Status = core.Status

// The statuses of a thread. Waiting is an outcome like Done, not an error. Crashed means that its owner died while it
// ran.
const (
	StatusNew = core.StatusNew // nobody ran it: there is none, or it was only edited
	Pending   = core.StatusPending
	Running   = core.StatusRunning
	Waiting   = core.StatusWaiting
	Done      = core.StatusDone
	Failed    = core.StatusFailed
	Crashed   = core.StatusCrashed
	Cancelled = core.StatusCancelled
)

// Cause says why a run failed, or waits though nothing is asked.
type Cause = core.Cause

// The causes. Concluded: the graph said so (Conclude). Conflict: two tasks wrote one Last. Drift: a question kept
// changing on replay. Limit: see Limits. Crashing: parked after too many crashes. Drained: see [WithDrain] and [Engine.Close].
const (
	CauseConcluded = core.CauseConcluded
	CauseError     = core.CauseError
	CauseConflict  = core.CauseConflict
	CauseDrift     = core.CauseDrift
	CauseLimit     = core.CauseLimit
	CauseCrashing  = core.CauseCrashing
	CauseDrained   = core.CauseDrained
)

// Question is one asking of a declared question, as people see it.
type Question struct {
	ID       string          `json:"id"`
	Thread   string          `json:"thread"`
	Graph    string          `json:"graph"`
	Node     string          `json:"node"`
	Path     string          `json:"path"`
	Kind     string          `json:"kind,omitempty"` // empty: answered by Answer; else decided elsewhere, e.g. "approval"
	Name     string          `json:"name"`
	Key      string          `json:"key,omitempty"`
	Revision int             `json:"revision"`
	State    string          `json:"state"`
	Body     json.RawMessage `json:"body"`
	Schema   json.RawMessage `json:"schema,omitempty"` // of the answer
	Digest   string          `json:"digest"`           // of what was asked
	Asked    time.Time       `json:"asked"`
	Due      time.Time       `json:"due,omitzero"`
	Answer   json.RawMessage `json:"answer,omitempty"`
	By       string          `json:"by,omitempty"`
	At       time.Time       `json:"at,omitzero"` // of the answer
	Reason   string          `json:"reason,omitempty"`
}

func questionOf(q *core.Question) Question {
	return Question{
		ID: q.ID, Thread: q.Thread, Graph: q.Graph, Node: q.Node, Path: q.Path, Kind: q.Kind, Name: q.Name, Key: q.Key,
		Revision: q.Revision, State: string(q.State), Body: q.Body, Schema: q.Schema, Digest: q.Digest, Asked: q.Asked,
		Due: q.Due, Answer: q.Answer, By: q.AnsweredBy, At: q.AnsweredAt, Reason: q.Reason,
	}
}

func questionsOf(qs []core.Question) []Question {
	out := make([]Question, len(qs))
	for i := range qs {
		out[i] = questionOf(&qs[i])
	}
	return out
}

// Outcome is how a run stands when a verb returns: whole for Done and Waiting, and beside the error for Failed and
// Cancelled.
type Outcome struct {
	Thread     string          `json:"thread"`
	Graph      string          `json:"graph"`
	Run        string          `json:"run"`
	Attempt    string          `json:"attempt"`
	Status     Status          `json:"status"`
	Cause      Cause           `json:"cause,omitempty"`
	Reason     string          `json:"reason,omitempty"`
	Node       string          `json:"node,omitempty"`       // where it failed
	Checkpoint string          `json:"checkpoint,omitempty"` // the head
	Next       []string        `json:"next,omitempty"`       // nodes that are due
	Values     json.RawMessage `json:"values,omitempty"`     // the state, as a JSON object: the graph's Output, without private channels
	Waiting    []Question      `json:"waiting,omitempty"`    // open questions, in the order of asking
	// Dropped are nodes, also in children, whose finished work a new run or an edit left behind, unmerged; and of EditAs those
	// that were due and are not named.
	Dropped    []string        `json:"dropped,omitempty"`
	Superseded []*ChangedError `json:"-"`                // answers that landed on a question that had changed
	Unused     []Question      `json:"unused,omitempty"` // answered, and not asked any more by the node that then ended

	held  map[string]any // live values, for the state of an OutcomeOf
	whole []*core.Value  // the state with all channels, for the parent of a child that ran without storage
}

// RunInfo is one attempt of one run.
type RunInfo struct {
	Thread   string     `json:"thread"`
	Graph    string     `json:"graph"`
	Run      string     `json:"run"`
	Attempt  string     `json:"attempt"`
	Number   int        `json:"number"` // of the attempt, from 1
	Kind     string     `json:"kind"`   // run, fork, replay; edit: nobody ran it
	Status   Status     `json:"status"`
	Cause    Cause      `json:"cause,omitempty"`
	Error    string     `json:"error,omitempty"`
	Node     string     `json:"node,omitempty"` // where it failed
	Mode     Durability `json:"durability"`
	Crashes  int        `json:"crashes,omitempty"`
	Aside    bool       `json:"aside,omitempty"` // set aside by a retry
	Current  bool       `json:"current"`         // the one that a verb would act on
	By       string     `json:"by,omitempty"`
	Reason   string     `json:"reason,omitempty"`
	Accepted time.Time  `json:"accepted"`
}

// Runs lists the thread's attempts, the newest first, with those that a retry set aside or another run replaced. The
// status is the thread's for the current one, and for the others as they were left.
func (t *Thread) Runs(ctx context.Context) ([]RunInfo, error) {
	var out []RunInfo
	err := t.read(ctx, func(tx storage.Tx, seen *local.Seen) error {
		out = []RunInfo{}
		if seen.Info == nil || seen.Run == nil {
			return nil
		}
		r := records.NewReader(t.eng.store.Box, tx, seen.Info)
		for n := seen.Run.N; n > 0; n-- {
			run, err := r.Run(n)
			if err != nil {
				return err
			}
			i := RunInfo{
				Thread: t.id, Graph: seen.Info.Graph, Run: run.ID, Attempt: run.Attempt, Number: run.AttemptN, Kind: string(run.Kind),
				Status: run.Status, Cause: run.Cause, Error: run.Error, Node: run.ErrorNode, Mode: run.Mode, Crashes: run.Crashes,
				Aside: run.Aside, Current: n == seen.Run.N, By: run.Actor, Reason: run.Reason, Accepted: run.Accepted,
			}
			if i.Current {
				i.Status = seen.Status
			}
			out = append(out, i)
		}
		return nil
	})
	return out, err
}

func marshalAnswer(v any) ([]byte, error) {
	doc, err := schema.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("pawl: the answer cannot be encoded as JSON: %w; nothing was consumed", err)
	}
	return doc, nil
}
