package effect

import (
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/approval"
)

var states = []State{absent, StateReserved, StateDispatched, StateCommitted, StateRejected, StateInDoubt, StateVoided, StateDenied}

// Every pair of states: the ten rules, and nothing else. Each rule is tried with and without a doubt.
func TestTheLawOfStates(t *testing.T) {
	t.Parallel()
	type guarded struct {
		rule         rule
		clear, doubt bool // may go without, and with, an earlier attempt in doubt
		after        bool // in doubt afterwards, when it was before
	}
	want := map[[2]State]guarded{
		{absent, StateReserved}:           {"T1", true, true, true},
		{StateReserved, StateVoided}:      {"T2", true, false, false},
		{StateReserved, StateDenied}:      {"T2", true, false, false},
		{StateReserved, StateDispatched}:  {"T3", true, false, false},
		{StateDispatched, StateCommitted}: {"T4", true, true, false},
		{StateDispatched, StateReserved}:  {"T5", true, false, false},
		{StateDispatched, StateRejected}:  {"T6", true, false, false},
		{StateDispatched, StateInDoubt}:   {"T7", true, true, true},
		{StateInDoubt, StateDispatched}:   {"T8", false, true, true},
		{StateInDoubt, StateCommitted}:    {"T9", true, true, false},
		{StateInDoubt, StateReserved}:     {"T10", true, true, false},
	}
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for _, from := range states {
		for _, to := range states {
			w := want[[2]State{from, to}]
			if got := law(from, to); got != w.rule {
				t.Errorf("%q to %q is rule %q, want %q", from, to, got, w.rule)
			}
			for _, doubt := range []bool{false, true} {
				o := Operation{Effect: "e", Ref: Ref("k", "1"), Key: "abc", State: from, Doubt: doubt}
				before := o
				err := o.to(to, now, "because")
				may := w.clear && !doubt || w.doubt && doubt
				switch {
				case (err == nil) != may:
					t.Errorf("%q to %q with doubt %v: %v, want allowed %v", from, to, doubt, err, may)
				case err != nil && (o.State != before.State || o.Doubt != before.Doubt || !strings.Contains(err.Error(), "nothing was changed")):
					t.Errorf("%q to %q was refused with %q and left %+v", from, to, err, o)
				case err == nil && (o.State != to || o.Reason != "because" || !o.Updated.Equal(now)):
					t.Errorf("%q to %q left %+v", from, to, o)
				case err == nil && doubt && o.Doubt != w.after:
					t.Errorf("%q to %q left doubt %v, want %v", from, to, o.Doubt, w.after)
				case err == nil && to == StateInDoubt && !o.Doubt:
					t.Errorf("%q to %q left no doubt", from, to)
				}
			}
		}
	}
}

// What comes next, for each state of an operation and of its request.
func TestNext(t *testing.T) {
	t.Parallel()
	mine, other := Print{1, "m", "w"}, Print{1, "m2", "w2"}
	levels := approval.Levels{{To: "finance"}}
	op := func(s State, p Print, task string) *Operation { return &Operation{State: s, Proposed: p, Task: task} }
	req := func(s approval.State, call string) *approval.Request { return &approval.Request{State: s, Call: call} }
	no := req(approval.Denied, "call")
	for _, c := range []struct {
		name   string
		levels approval.Levels
		seen   seen
		want   step
	}{
		{"nothing there", nil, seen{}, toMint},
		{"nothing there, needs a yes", levels, seen{}, toMint},
		{"nothing there, denied before", levels, seen{denied: no}, toDenied},
		{"committed", nil, seen{op: op(StateCommitted, mine, "me")}, toReturn},
		{"committed by another task", nil, seen{op: op(StateCommitted, mine, "you")}, toReuse},
		{"committed by another task, noted", nil, seen{op: op(StateCommitted, mine, "you"), known: true}, toReturn},
		{"committed, my grant unspent", levels, seen{op: op(StateCommitted, mine, "you"), known: true, request: req(approval.Granted, "call")}, toReuse},
		{"committed, my request open", levels, seen{op: op(StateCommitted, mine, "you"), known: true, request: req(approval.Requested, "call")}, toReuse},
		{"committed, my request ended", levels, seen{op: op(StateCommitted, mine, "you"), known: true, request: req(approval.Lapsed, "call")}, toReturn},
		{"committed, other parameters", nil, seen{op: op(StateCommitted, other, "me")}, toChanged},
		{"dispatched, its owner lives", nil, seen{op: op(StateDispatched, mine, "you"), alive: true}, toBusy},
		{"dispatched, its owner is gone", nil, seen{op: op(StateDispatched, mine, "you")}, toDoubt},
		{"dispatched, other parameters", nil, seen{op: op(StateDispatched, other, "me")}, toChanged},
		{"in doubt", levels, seen{op: op(StateInDoubt, mine, "you")}, toSettle},
		{"in doubt, other parameters", levels, seen{op: op(StateInDoubt, other, "me")}, toChanged},
		{"rejected", nil, seen{op: op(StateRejected, mine, "you")}, toRejected},
		{"rejected, corrected", nil, seen{op: op(StateRejected, other, "you")}, toMint},
		{"voided", nil, seen{op: op(StateVoided, mine, "you")}, toMint},
		{"voided, other parameters", nil, seen{op: op(StateVoided, other, "you")}, toMint},
		{"denied", levels, seen{op: op(StateDenied, mine, "you"), denied: no}, toDenied},
		{"denied, another call", levels, seen{op: op(StateDenied, other, "you")}, toMint},
		{"denied, back to a call that was denied earlier", levels, seen{op: op(StateDenied, other, "you"), denied: no}, toDenied},
		{"reserved", nil, seen{op: op(StateReserved, mine, "you")}, toDispatch},
		{"reserved, nobody asked", levels, seen{op: op(StateReserved, mine, "you")}, toAsk},
		{"reserved, open", levels, seen{op: op(StateReserved, mine, "me"), request: req(approval.Requested, "call")}, toWait},
		{"reserved, open for another call", levels, seen{op: op(StateReserved, mine, "me"), request: req(approval.Requested, "call2")}, toAsk},
		{"reserved, granted", levels, seen{op: op(StateReserved, mine, "me"), request: req(approval.Granted, "call")}, toDispatch},
		{"reserved, granted for another call", levels, seen{op: op(StateReserved, mine, "me"), request: req(approval.Granted, "call2")}, toAsk},
		{"reserved, said no", levels, seen{op: op(StateReserved, mine, "me"), request: req(approval.Denied, "call"), denied: no}, toDeny},
		{"reserved, said no to another thread", levels, seen{op: op(StateReserved, mine, "you"), denied: no}, toDeny},
		{"reserved, nobody answered", levels, seen{op: op(StateReserved, mine, "me"), request: req(approval.Expired, "call")}, toDeny},
		{"reserved, grant too old", levels, seen{op: op(StateReserved, mine, "me"), request: req(approval.Lapsed, "call")}, toAsk},
		{"reserved, withdrawn", levels, seen{op: op(StateReserved, mine, "me"), request: req(approval.Withdrawn, "call")}, toAsk},
		{"reserved, other parameters from its task", levels, seen{op: op(StateReserved, other, "me"), request: req(approval.Requested, "call2")}, toMint},
		{"reserved, other parameters after the yes", levels, seen{op: op(StateReserved, other, "me"), request: req(approval.Granted, "call2")}, toChanged},
		{"reserved, other parameters from elsewhere", levels, seen{op: op(StateReserved, other, "you")}, toChanged},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := &doing{d: &declaration{levels: c.levels}, info: pawl.TaskInfo{Task: "me"}, print: mine, call: "call"}
			if got := w.next(&c.seen); got != c.want {
				t.Errorf("next is %d, want %d", got, c.want)
			}
		})
	}
}

// The same key is sent again up to nine tenths of the time that the target remembers it.
func TestKeysAreSentAgainWithinTheRetentionOnly(t *testing.T) {
	t.Parallel()
	first := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	o := Operation{First: first}
	for _, c := range []struct {
		name      string
		retention time.Duration
		after     time.Duration
		want      bool
	}{
		{"at once", 10 * time.Hour, 0, true},
		{"a minute before", 10 * time.Hour, 9*time.Hour - time.Minute, true},
		{"at the margin", 10 * time.Hour, 9 * time.Hour, false},
		{"a minute after", 10 * time.Hour, 9*time.Hour + time.Minute, false},
		{"no keys", 0, 0, false},
		{"for ever", Forever, 100 * 365 * 24 * time.Hour, true},
	} {
		if got := o.sendable(c.retention, first.Add(c.after)); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	if (&Operation{}).sendable(Forever, first) {
		t.Error("an operation that was never dispatched is sent again")
	}
}
