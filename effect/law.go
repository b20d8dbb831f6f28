package effect

import (
	"fmt"
	"time"
)

// rule is the number of a transition, absent is where every operation comes from.
type rule string

const absent State = ""

// law says by which rule an operation may go from one state to another. What is not named may not happen. T12
// and what follows it are one Update, except for a permit, which waits for its dispatch.
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
	case [2]State{StateInDoubt, StateCommitted}, [2]State{StateQuarantined, StateCommitted}:
		return "T9"
	case [2]State{StateInDoubt, StateReserved}:
		return "T10"
	case [2]State{StateInDoubt, StateQuarantined}:
		return "T11"
	case [2]State{StateQuarantined, StateReleased}:
		return "T12"
	case [2]State{StateReleased, StateCommitted}, [2]State{StateReleased, StateReserved}, [2]State{StateReleased, StateVoided},
		[2]State{StateReleased, StateDispatched}:
		return "T13"
	case [2]State{StateCommitted, StateCompensating}, [2]State{StateCompensationFailed, StateCompensating},
		[2]State{StateCompensating, StateCommitted}, [2]State{StateCompensating, StateCompensated},
		[2]State{StateCompensating, StateCompensationFailed}, [2]State{StateCompensated, StateCompensating}:
		return "T14"
	case [2]State{StateCommitted, StateTombstone}, [2]State{StateRejected, StateTombstone}, [2]State{StateVoided, StateTombstone},
		[2]State{StateDenied, StateTombstone}, [2]State{StateCompensated, StateTombstone}:
		return "T15"
	case [2]State{StateTombstone, StateReserved}, [2]State{StateTombstone, StateDispatched}:
		return "T16"
	case [2]State{StateReserved, StateQuarantined}, [2]State{StateCommitted, StateQuarantined}, [2]State{StateRejected, StateQuarantined},
		[2]State{StateVoided, StateQuarantined}, [2]State{StateDenied, StateQuarantined}, [2]State{StateReleased, StateQuarantined}:
		return "T17"
	}
	return ""
}

// grounds are what the Update that moves an operation has seen or done. The zero grounds permit little.
type grounds struct {
	allowed     bool // nobody has to be asked, or the grant for this very call was consumed in this Update
	reconciled  bool // no restored ledger waits to be reconciled, or the target would recognise the key
	attempt     int64
	alive       bool // a process that lives may be at the last attempt
	keyed       bool // the target still remembers the key
	budget      bool // the key was not sent too often
	evidence    bool // a look-up, a target or a person says so
	trusted     bool // absence is no longer premature
	hopeless    bool // neither key nor look-up can settle the doubt, or a person takes it over
	person      bool // decides
	agreed      bool // as many as are needed decide the same
	original    bool // what is compensated stands, or is in the compensation's hands
	aged        bool // past its retention
	contradicts bool // evidence does not fit the state
}

// clause is one condition of a rule, and why it may not hold.
type clause struct {
	holds bool
	why   string
}

// guards are all conditions under which a rule applies, one a line, so that each can be taken away and must be missed by
// a test: see CONTRIBUTING.md.
func (o *Operation) guards(r rule, to State, f grounds) []clause {
	switch r {
	case "T1":
		return []clause{
			{o.rev == 0, "it is there already"}, // guard T1
		}
	case "T2":
		return []clause{
			{!o.Doubt, "it may have happened, so it cannot be given up"}, // guard T2
		}
	case "T3":
		return []clause{
			{!o.Doubt, "it may have happened, so it cannot be sent as if it were new"},      // guard T3
			{f.allowed, "nobody has allowed this call"},                                     // guard T3
			{f.reconciled, "the ledger was restored and is not reconciled with the target"}, // guard T3
			{f.original, "what it compensates does not stand"},                              // guard T3
		}
	case "T4":
		return []clause{
			{f.attempt == o.Attempts, "another attempt is on record"}, // guard T4
		}
	case "T5":
		return []clause{
			{f.attempt == o.Attempts, "another attempt is on record"},          // guard T5
			{!o.Doubt, "proof about one attempt is none about an earlier one"}, // guard T5
		}
	case "T6":
		return []clause{
			{f.attempt == o.Attempts, "another attempt is on record"},             // guard T6
			{!o.Doubt, "a refusal of one attempt says nothing of an earlier one"}, // guard T6
		}
	}
	return o.guardsOfDoubt(r, to, f)
}

// guardsOfDoubt are those of outcomes that nobody knows.
func (o *Operation) guardsOfDoubt(r rule, to State, f grounds) []clause {
	switch r {
	case "T7":
		return []clause{
			{f.attempt == o.Attempts, "another attempt is on record"}, // guard T7
			{!f.alive, "a living process is at it"},                   // guard T7
		}
	case "T8":
		return []clause{
			{o.Doubt, "there is no doubt to settle"},                            // guard T8
			{f.keyed, "the target may have forgotten the key"},                  // guard T8
			{f.budget, "the key was sent as often as the effect's budget says"}, // guard T8
		}
	case "T9":
		return []clause{
			{f.evidence, "nobody has evidence that it happened"},                // guard T9
			{!o.Clash, "evidence contradicts itself, so that a person decides"}, // guard T9
		}
	case "T10":
		return []clause{
			{f.evidence, "nobody has evidence that it did not happen"},           // guard T10
			{f.trusted, "it is too early to trust that it is not at the target"}, // guard T10
		}
	case "T11":
		return []clause{
			{o.Doubt, "there is no doubt to decide"},           // guard T11
			{f.hopeless, "its key or a look-up can settle it"}, // guard T11
		}
	case "T12":
		return []clause{
			{f.person, "only a person decides it"},               // guard T12
			{f.agreed, "a second person has to decide the same"}, // guard T12
		}
	case "T13":
		return []clause{
			{o.Released.leads(to), "that is not what was decided"},                  // guard T13
			{to != StateDispatched || o.Permit != "", "its permit is used already"}, // guard T13
		}
	}
	return o.guardsAfter(r, f)
}

// guardsAfter are those of operations that are over.
func (o *Operation) guardsAfter(r rule, f grounds) []clause {
	switch r {
	case "T14":
		return []clause{
			{f.original, "no compensation does that"}, // guard T14
		}
	case "T15":
		return []clause{
			{!o.Doubt, "it may have happened, and a doubt never expires"}, // guard T15
			{f.aged, "its retention is not over"},                         // guard T15
		}
	case "T16":
		return []clause{
			{false, "what it was is forgotten"}, // guard T16
		}
	case "T17":
		return []clause{
			{f.contradicts, "nothing contradicts its state"}, // guard T17
		}
	}
	return []clause{{false, "there is no such way"}}
}

// to moves an operation on, or says why it may not.
func (o *Operation) to(next State, now time.Time, reason string, f grounds) error {
	r := law(o.State, next)
	for _, g := range o.guards(r, next, f) {
		if !g.holds {
			return &LawError{Effect: o.Effect, Ref: o.Ref, Operation: o.Key, From: o.State, To: next, Why: g.why}
		}
	}
	switch r {
	case "T7":
		o.Doubt = true
	case "T11":
		o.Votes, o.Released, o.Permit, o.Settles = nil, "", "", time.Time{}
	case "T17":
		o.Doubt, o.Clash = true, true
		o.Votes, o.Released, o.Permit = nil, "", ""
	case "T12":
		o.Clash = false
	case "T4", "T9", "T10":
		o.Doubt = false
	case "T13":
		o.Doubt = next == StateVoided || next == StateDispatched
		o.Permit = ""
	}
	o.Told = false
	o.State, o.Reason, o.Updated = next, reason, now
	return nil
}

// LawError: an operation may not go from one state to another now. Nothing was changed.
type LawError struct {
	Effect    string
	Ref       Reference
	Operation string
	From, To  State
	Why       string
}

// Error says what may not be, and why.
func (e *LawError) Error() string {
	from := e.From
	if from == absent {
		from = "absent"
	}
	return fmt.Sprintf("effect %q %s: operation %.12s may not go from %s to %s: %s; nothing was changed", e.Effect, e.Ref, e.Operation, from, e.To, e.Why)
}
