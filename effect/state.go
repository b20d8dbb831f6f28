package effect

import (
	"encoding/json"
	"fmt"
	"time"
)

// State is where an operation stands.
type State string

// The states. From Dispatched on the action may have happened, until evidence or a person says otherwise. Committed,
// Rejected, Voided and Denied are final; InDoubt never expires.
const (
	StateReserved   State = "reserved"   // it has its key; nothing is on its way
	StateDispatched State = "dispatched" // an attempt is recorded, and may be on its way
	StateCommitted  State = "committed"  // it happened, and the receipt is stored
	StateRejected   State = "rejected"   // the target refused it for good
	StateInDoubt    State = "in_doubt"   // outcome unknown
	StateVoided     State = "voided"     // given up before anything happened
	StateDenied     State = "denied"     // a person said no
)

// rule is the number of a transition, absent is where every operation comes from.
type rule string

const absent State = ""

// law says by which rule an operation may go from one state to another; empty: it may not.
func law(from, to State) rule {
	switch [2]State{from, to} {
	case [2]State{absent, StateReserved}:
		return "T1"
	case [2]State{StateReserved, StateVoided}, [2]State{StateReserved, StateDenied}:
		return "T2"
	case [2]State{StateReserved, StateDispatched}:
		return "T3"
	case [2]State{StateDispatched, StateCommitted}:
		return "T4"
	case [2]State{StateDispatched, StateReserved}:
		return "T5"
	case [2]State{StateDispatched, StateRejected}:
		return "T6"
	case [2]State{StateDispatched, StateInDoubt}:
		return "T7"
	case [2]State{StateInDoubt, StateDispatched}:
		return "T8"
	case [2]State{StateInDoubt, StateCommitted}:
		return "T9"
	case [2]State{StateInDoubt, StateReserved}:
		return "T10"
	}
	return ""
}

// Operation is one effect under one key: a revision of what is done for a reference.
type Operation struct {
	Key        string    `json:"-"` // its identity; see Op.Key
	Tenant     string    `json:"-"`
	Effect     string    `json:"-"`
	Ref        Reference `json:"-"`
	Revision   int64     `json:"-"` // counts what was proposed for the reference, from 1
	State      State     `json:"-"`
	Doubt      bool      `json:"doubt,omitempty"` // an attempt may have happened, whatever became of a later one
	Proposed   Print     `json:"proposed"`        // what Do is compared with
	Authorised Print     `json:"authorised"`      // what is sent
	Call       string    `json:"call"`            // digest of the exact call, as approvals are bound to it
	Policy     string    `json:"policy"`          // in force at the reservation
	Target     string    `json:"target"`          // "keys", "look-up", "opaque": what its target promises; "inside": it is this database
	Grant      string    `json:"grant,omitempty"` // the approval that its dispatch consumed
	Attempts   int64     `json:"attempts,omitempty"`
	First      time.Time `json:"first,omitzero"` // dispatch, by the database's clock
	Last       time.Time `json:"last,omitzero"`

	// Where it was reserved, and then where it was dispatched last.
	Lineage    string `json:"lineage"`
	Thread     string `json:"thread"`
	Graph      string `json:"graph"`
	Run        string `json:"run"`
	RunAttempt string `json:"run_attempt"`
	Checkpoint string `json:"checkpoint"`
	Node       string `json:"node"`
	Task       string `json:"task"`

	Receipt string    `json:"receipt,omitempty"` // its id where the receipt has one, else its digest
	Reason  string    `json:"reason,omitempty"`  // of the state, in Pawl's words
	Asked   time.Time `json:"asked"`             // when it was reserved
	Updated time.Time `json:"-"`

	schema  json.RawMessage // of a receipt
	params  []byte          // sealed
	outcome []byte          // sealed
	rev     int64
}

// to moves an operation on, or says why it may not.
func (o *Operation) to(next State, now time.Time, reason string) error {
	r := law(o.State, next)
	held := false
	switch r {
	case "T2", "T3":
		held = !o.Doubt // what may have happened is not given up, nor sent as if it were new
	case "T5", "T6":
		held = !o.Doubt // proof about one attempt is none about an earlier one
	case "T8":
		held = o.Doubt
	case "T1", "T4", "T7", "T9", "T10":
		held = true
	}
	if !held {
		from := o.State
		if from == absent {
			from = "absent"
		}
		return fmt.Errorf("effect %q %s: operation %s may not go from %s to %s; nothing was changed", o.Effect, o.Ref, o.Key, from, next)
	}
	switch r {
	case "T7":
		o.Doubt = true
	case "T4", "T9", "T10":
		o.Doubt = false
	}
	o.State, o.Reason, o.Updated = next, reason, now
	return nil
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
	At         time.Time `json:"at"`
	Deadline   time.Time `json:"deadline"`
	Outcome    string    `json:"outcome,omitempty"` // "applied", "not sent", "rejected", "unknown"; empty while it runs
	Ended      time.Time `json:"ended,omitzero"`
}

// Evidence is what settled a doubt, or tried to.
type Evidence struct {
	N         int64     `json:"-"` // counts from 1
	Operation string    `json:"-"`
	Kind      string    `json:"kind"`  // "look-up", "person"
	Found     string    `json:"found"` // "applied", "absent"
	By        string    `json:"by,omitempty"`
	Reason    string    `json:"reason,omitempty"`
	Receipt   string    `json:"receipt,omitempty"`
	At        time.Time `json:"at"`
}
