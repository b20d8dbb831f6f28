// Package approval keeps what people were asked to approve and what they said: requests, decisions and grants.
//
// A request is for one call of one operation, as a task wants to make it. It is bound to the digest of the exact call
// and keeps the redacted view that people see. A grant is used once, by that call of that operation, in the Update that
// dispatches it; a grant that nobody needed ends unused, with the reason. A denial is remembered: the same call is not
// asked about again.
//
// There are two clocks. Due is when an unanswered request expires: nobody's answer is a no. Until is when an unused grant
// ends. Both are facts in the row and judged by the database's clock, at the instant itself too late; nothing depends on
// a process that is awake. A row past its clock is shown as expired, lapsed or escalated, and is written so, once, by
// whoever next wants something of it: a person, the task, or a [Timer].
//
// Whoever started a run does not approve what it asks for, unless a level says that they may; who changed a call does not
// approve the change; services decide nothing.
package approval

import (
	"encoding/json"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/tally"
	"github.com/pawl-dev/pawl/storage"
)

// State is where a request stands.
type State string

// The states. A request is answered (granted, denied) or ends without an answer: expired, superseded by another request
// of its task, or withdrawn with its branch. A grant is consumed, or ends unused: lapsed, revoked or superseded.
const (
	Requested  State = "requested"
	Granted    State = "granted"
	Denied     State = "denied"
	Expired    State = "expired"
	Superseded State = "superseded"
	Withdrawn  State = "withdrawn"
	Consumed   State = "consumed"
	Lapsed     State = "lapsed"
	Revoked    State = "revoked"
)

// The verbs of the desk, as Options.Allow is asked about them with the request's id as VerbInfo.Question. Looking is
// [pawl.VerbRead].
const (
	VerbApprove pawl.Verb = "approve"
	VerbReject  pawl.Verb = "reject"
	VerbRevoke  pawl.Verb = "revoke"
	VerbEdit    pawl.Verb = "edit-call" // at the effect's desk, which knows the exact parameters
)

// Request is one asking. Call, View, ViewDigest, Levels and Diff never change.
type Request struct {
	ID         string // a hash
	Tenant     string
	Lineage    string
	Thread     string
	Graph      string
	Run        string
	Attempt    string
	Node       string
	Task       string
	Effect     string
	Ref        string
	Operation  string
	N          int             // counts the requests of the operation, from 1
	Call       string          // digest of the exact call: what is approved
	View       json.RawMessage // what people see: redacted, before it comes here
	ViewDigest string
	Redaction  string // the policy that made the view
	To         string // who was asked first
	Levels     Levels
	Level      int      `json:"-"` // how many levels are asked, as the clock shows it
	Escalated  int      // how many levels after the first are in the trail
	Policy     string   `json:",omitempty"` // in force when it was asked
	Version    string   `json:",omitempty"` // of the graph
	Starters   []string `json:",omitempty"` // who started the run; empty: not known
	Editor     string   `json:",omitempty"` // who made the call what it is, if not the graph
	Editors    []string `json:",omitempty"` // all who had a part in that; none of them approves it
	Instead    string   `json:",omitempty"` // the request in whose place it was made
	Why        string   `json:",omitempty"` // it was made in that place
	Diff       []Change `json:",omitempty"` // what differs from the call before
	State      State
	Requested  time.Time
	Due        time.Time // when it expires; zero: never
	Until      time.Time // when the grant lapses; zero: never
	Decided    time.Time
	By         string
	Reason     string // of the decision
	Wait       string // the id of the wait that the thread shows
	UsedBy     string // the operation whose dispatch consumed the grant
	Unused     string // why it ended without a dispatch
	Rev        int64  `json:"-"`
}

// seen is the request as the clock shows it.
func (r Request) seen(now time.Time) Request {
	r.Level = r.Escalated + 1
	switch {
	case r.State == Requested && past(r.Due, now):
		r.State, r.Unused = Expired, "nobody decided by "+stamp(r.Due)
		r.Level = len(r.Levels)
	case r.State == Requested:
		r.Level = r.Levels.at(r.Requested, now) + 1
	case r.State == Granted && past(r.Until, now):
		r.State, r.Unused = Lapsed, "the grant was not used by "+stamp(r.Until)
	}
	return r
}

// Asked are those who may decide: the levels that were reached.
func (r Request) Asked() []string {
	var out []string
	for _, level := range r.Levels[:min(r.Level, len(r.Levels))] {
		out = append(out, level.To)
	}
	return out
}

// Word is the state as operators read it: Waiting, Escalated, Approved, Approved with changes, Rejected, Expired, Withdrawn.
func (r Request) Word() string {
	switch r.State {
	case Requested:
		if r.Level > 1 || r.Escalated > 0 {
			return "Escalated"
		}
		return "Waiting"
	case Granted, Consumed:
		if r.Editor != "" {
			return "Approved with changes"
		}
		return "Approved"
	case Denied:
		return "Rejected"
	case Expired, Lapsed:
		return "Expired"
	}
	return "Withdrawn"
}

func past(t, now time.Time) bool { return !t.IsZero() && !now.Before(t) }

// Kinds are the record kinds of this package; those of audit are needed too.
func Kinds() []storage.Kind {
	text := func(name string) storage.Field { return storage.Field{Name: name, Type: storage.Text} }
	return []storage.Kind{tally.Kind(), {
		Name: views, Key: []storage.Field{text("tenant"), text("id"), text("actor")},
	}, {
		Name: kind,
		Key:  []storage.Field{text("tenant"), text("id")},
		Fields: []storage.Field{
			text("operation"), {Name: "n", Type: storage.Int}, text("intent"), text("thread"), text("state"),
			{Name: "ends", Type: storage.Int}, text("addressee"), text("lineage"), text("graph"),
		},
		Indexes: []storage.Index{
			{Name: "by_operation", Fields: []string{"tenant", "operation", "n"}},
			{Name: "by_intent", Fields: []string{"tenant", "intent", "state"}},
			{Name: "by_thread", Fields: []string{"tenant", "thread", "state"}},
			{Name: "by_state", Fields: []string{"tenant", "state", "ends"}},
			{Name: "by_lineage", Fields: []string{"tenant", "state", "lineage"}},
			{Name: "by_graph", Fields: []string{"tenant", "state", "graph"}},
		},
		Revised: true,
	}}
}
