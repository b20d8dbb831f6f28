// Package approval keeps what people were asked to approve and what they said: requests, decisions and grants.
//
// A request is for one call of one operation, as a task wants to make it. It is bound to the digest of the exact call
// and keeps the redacted view that people see. A grant is used once, by that call of that operation, in the Update that
// dispatches it; a grant that nobody needed ends unused, with the reason. A denial is remembered: the same call is not
// asked about again.
//
// There are two clocks. Due is when an unanswered request expires: nobody's answer is a no. Until is when an unused grant
// ends. Both are facts in the row and judged by the database's clock, at the instant itself too late; nothing depends on
// a process that is awake. A row past its clock is shown as expired or lapsed, and is written so by whoever next wants
// something of it.
//
// One level of approval is served now.
package approval

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/storage"
)

// Level is who decides, and how long they have.
type Level struct {
	To  string        // a group, or the id of an actor; empty: whoever may call the desk
	For time.Duration // until the request expires, and then how long a grant may wait for its use; 0: for ever
}

// Levels are asked one after the other.
type Levels []Level

// Check refuses what is not served: more than one level, a time below zero.
func (l Levels) Check() error {
	switch {
	case len(l) == 0:
		return fmt.Errorf("approval: no level, so nobody could approve; name one, such as {To: %q}", "finance")
	case len(l) > 1:
		return fmt.Errorf("approval: %d levels (%q, then %q): more than one comes later; name one", len(l), l[0].To, l[1].To)
	case l[0].For < 0:
		return fmt.Errorf("approval: level %q has %s to decide; give it a time, or 0 for no limit", l[0].To, l[0].For)
	}
	return nil
}

// State is where a request stands.
type State string

// The states. A request is answered (granted, denied) or ends without an answer: expired, superseded by another request
// of its task, or withdrawn with its branch. A grant is consumed, or ends unused: lapsed or superseded.
const (
	Requested  State = "requested"
	Granted    State = "granted"
	Denied     State = "denied"
	Expired    State = "expired"
	Superseded State = "superseded"
	Withdrawn  State = "withdrawn"
	Consumed   State = "consumed"
	Lapsed     State = "lapsed"
)

// The verbs of the desk, as Options.Allow is asked about them with the request's id as VerbInfo.Question. Looking is
// [pawl.VerbRead].
const (
	VerbApprove pawl.Verb = "approve"
	VerbReject  pawl.Verb = "reject"
)

// Request is one asking. Call, View, ViewDigest and To never change.
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
	To         string
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
	switch {
	case r.State == Requested && past(r.Due, now):
		r.State, r.Unused = Expired, "nobody decided in time"
	case r.State == Granted && past(r.Until, now):
		r.State, r.Unused = Lapsed, "the grant was not used in time"
	}
	return r
}

func past(t, now time.Time) bool { return !t.IsZero() && !now.Before(t) }

// Kinds are the record kinds of this package; those of audit are needed too.
func Kinds() []storage.Kind {
	text := func(name string) storage.Field { return storage.Field{Name: name, Type: storage.Text} }
	return []storage.Kind{{
		Name: kind,
		Key:  []storage.Field{text("tenant"), text("id")},
		Fields: []storage.Field{
			text("operation"), {Name: "n", Type: storage.Int}, text("intent"), text("thread"), text("state"),
			{Name: "ends", Type: storage.Int}, text("addressee"),
		},
		Indexes: []storage.Index{
			{Name: "by_operation", Fields: []string{"tenant", "operation", "n"}},
			{Name: "by_intent", Fields: []string{"tenant", "intent", "state"}},
			{Name: "by_thread", Fields: []string{"tenant", "thread", "state"}},
			{Name: "by_state", Fields: []string{"tenant", "state", "ends"}},
		},
		Revised: true,
	}}
}
