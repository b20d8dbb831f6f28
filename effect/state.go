package effect

import (
	"encoding/json"
	"time"
)

// State is where an operation stands.
type State string

// The states. From Dispatched on the action may have happened, until evidence or a person says otherwise. InDoubt,
// Quarantined and CompensationFailed never expire.
const (
	StateReserved   State = "reserved"   // it has its key; nothing is on its way
	StateDispatched State = "dispatched" // an attempt is recorded, and may be on its way
	StateCommitted  State = "committed"  // it happened, and the receipt is stored
	StateRejected   State = "rejected"   // the target refused it for good
	StateVoided     State = "voided"     // given up before anything happened; with Doubt, abandoned by a person
	StateDenied     State = "denied"     // a person said no

	StateInDoubt     State = "in_doubt"    // outcome unknown; its key, or a look-up, can settle it
	StateQuarantined State = "quarantined" // outcome unknown, and only a person can say what becomes of it
	StateReleased    State = "released"    // a person permitted one more dispatch, which was not made yet

	StateCompensating       State = "compensating"        // it happened, and a compensation is on its way
	StateCompensated        State = "compensated"         // it happened, and was compensated
	StateCompensationFailed State = "compensation_failed" // it happened, and the target refused the compensation

	StateTombstone State = "tombstone" // over and past its retention: Final is what it was, the payload is gone
)

// known says that this program knows the state.
func (s State) known() bool {
	switch s {
	case StateReserved, StateDispatched, StateRejected, StateVoided, StateDenied, StateInDoubt, StateQuarantined, StateReleased, StateTombstone:
		return true
	}
	return s.happened()
}

// happened says that the action is done, whatever was done against it since.
func (s State) happened() bool {
	switch s {
	case StateCommitted, StateCompensating, StateCompensated, StateCompensationFailed:
		return true
	}
	return false
}

// Unknown says that nobody knows whether the action happened.
func (s State) Unknown() bool { return s == StateInDoubt || s == StateQuarantined }

// open says that the action may still happen or have happened: what it belongs to may not be forgotten.
func (s State) open() bool { return s == StateDispatched || s.Unknown() }

// Operation is one effect under one key: a revision of what is done for a reference.
type Operation struct {
	Key           string    `json:"-"` // its identity; see Op.Key
	Tenant        string    `json:"-"`
	Effect        string    `json:"-"`
	Ref           Reference `json:"-"`
	Revision      int64     `json:"-"` // counts what was proposed for the reference, from 1
	State         State     `json:"-"`
	Doubt         bool      `json:"doubt,omitempty"`       // an attempt may have happened, whatever became of a later one
	Proposed      Print     `json:"proposed"`              // what Do is compared with
	Authorised    Print     `json:"authorised"`            // what is sent
	Call          string    `json:"call"`                  // digest of the exact call, as approvals are bound to it
	Policy        string    `json:"policy"`                // in force at the reservation
	Target        string    `json:"target"`                // "keys", "look-up", "opaque": what its target promises; "inside": it is this database
	Grant         string    `json:"grant,omitempty"`       // the approval that its dispatch consumed
	Permit        string    `json:"permit,omitempty"`      // for one more dispatch, given by a release and not used yet
	Released      Verdict   `json:"released,omitempty"`    // what the last release decided
	FourEyes      bool      `json:"four_eyes,omitempty"`   // a release needs two people
	Votes         []Vote    `json:"votes,omitempty"`       // for the release that is pending
	Clash         bool      `json:"clash,omitempty"`       // evidence contradicts what was known
	Compensates   string    `json:"compensates,omitempty"` // the operation that it makes up for
	CompensatedBy string    `json:"compensated_by,omitempty"`
	Redoes        string    `json:"redoes,omitempty"` // the operation that it is a deliberate second time of
	Queue         string    `json:"queue,omitempty"`  // the group, or actor, that decides a quarantine; empty: whoever may release
	Final         State     `json:"final,omitempty"`  // of a tombstone: what it was
	Attempts      int64     `json:"attempts,omitempty"`
	First         time.Time `json:"first,omitzero"` // dispatch, by the database's clock
	Last          time.Time `json:"last,omitzero"`
	Told          bool      `json:"told,omitempty"`   // the trail says that Settles is over
	Settles       time.Time `json:"settles,omitzero"` // in doubt: from when on a look-up's "absent" is trusted

	// Where it was reserved, and then where it was dispatched last.
	Lineage    string `json:"lineage"`
	Thread     string `json:"thread"`
	Graph      string `json:"graph"`
	Run        string `json:"run"`
	RunAttempt string `json:"run_attempt"`
	Checkpoint string `json:"checkpoint"`
	Node       string `json:"node"`
	Task       string `json:"task"`

	Editor  string   `json:"editor,omitempty"`  // who made what is authorised of what was proposed, last
	Editors []string `json:"editors,omitempty"` // all who had a part in it
	Spent   []Spent  `json:"spent,omitempty"`   // what it counts for in limits

	Receipt string    `json:"receipt,omitempty"` // its id where the receipt has one, else its digest
	Reason  string    `json:"reason,omitempty"`  // of the state, in Pawl's words
	Asked   time.Time `json:"asked"`             // when it was reserved
	Updated time.Time `json:"-"`

	schema  json.RawMessage // of a receipt
	input   json.RawMessage // schema of the parameters
	fields  []string        // that are material; empty: all
	lag     time.Duration   // of the target's look-up, when it was sent last
	params  []byte          // sealed
	outcome []byte          // sealed
	rev     int64
}

// sendable says whether the target still remembers the key, with a margin of a tenth of its retention.
func (o *Operation) sendable(retention time.Duration, now time.Time) bool {
	if retention <= 0 || o.First.IsZero() {
		return false
	}
	return retention == Forever || now.Before(o.First.Add(retention-retention/10))
}

// Attempt is one dispatch of an operation.
type Attempt struct {
	N          int64     `json:"-"` // counts from 1
	Operation  string    `json:"-"`
	Owner      string    `json:"owner"`  // the ledger that made it: one per process
	Number     int64     `json:"number"` // of the thread's lease, and its epoch
	Epoch      int64     `json:"epoch"`
	Lineage    string    `json:"lineage"`
	Thread     string    `json:"thread"`
	Run        string    `json:"run"`
	RunAttempt string    `json:"run_attempt"`
	Task       string    `json:"task"`
	Call       string    `json:"call"`
	Grant      string    `json:"grant,omitempty"`
	Permit     string    `json:"permit,omitempty"` // that it used up
	At         time.Time `json:"at"`
	Deadline   time.Time `json:"deadline"`
	Outcome    string    `json:"outcome,omitempty"` // "applied", "not sent", "rejected", "unknown"; empty while it runs
	Ended      time.Time `json:"ended,omitzero"`
}

// Verdict is what a person decides about an operation that nothing else settles.
type Verdict string

// The verdicts.
const (
	VerdictApplied    Verdict = "applied"     // it happened
	VerdictNotApplied Verdict = "not applied" // it did not happen and will not
	VerdictSendOnce   Verdict = "send once"   // one more dispatch, whatever became of those before
	VerdictAbandon    Verdict = "abandon"     // nobody will know, and it is not sent again
)

// leads says whether a verdict brings an operation into a state.
func (v Verdict) leads(to State) bool {
	return map[Verdict]State{
		VerdictApplied: StateCommitted, VerdictNotApplied: StateReserved, VerdictSendOnce: StateDispatched, VerdictAbandon: StateVoided,
	}[v] == to
}

// Vote is one person's decision of the two that a release needs.
type Vote struct {
	By      string    `json:"by"`
	Verdict Verdict   `json:"verdict"`
	Receipt string    `json:"receipt,omitempty"` // its digest
	At      time.Time `json:"at"`
}

// Evidence is what settled a doubt, or tried to.
type Evidence struct {
	N         int64     `json:"-"` // counts from 1
	Operation string    `json:"-"`
	Kind      string    `json:"kind"`              // "look-up", "person", "vote", "late", or the source that was named
	Found     string    `json:"found"`             // "applied", "absent", or a Verdict
	Attempt   int64     `json:"attempt,omitempty"` // that a late result is of
	By        string    `json:"by,omitempty"`
	Reason    string    `json:"reason,omitempty"`
	Receipt   string    `json:"receipt,omitempty"`
	At        time.Time `json:"at"`
}
