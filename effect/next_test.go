package effect

import (
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/approval"
)

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
		{"quarantined", levels, seen{op: op(StateQuarantined, mine, "you")}, toPerson},
		{"released", levels, seen{op: op(StateReleased, mine, "you")}, toPermitted},
		{"released, other parameters", nil, seen{op: op(StateReleased, other, "me")}, toChanged},
		{"abandoned", nil, seen{op: &Operation{State: StateVoided, Proposed: mine, Doubt: true}}, toAbandoned},
		{"abandoned, other parameters", nil, seen{op: &Operation{State: StateVoided, Proposed: other, Doubt: true}}, toChanged},
		{"tombstone", nil, seen{op: op(StateTombstone, mine, "me")}, toExpired},
		{"tombstone, other parameters", nil, seen{op: op(StateTombstone, other, "me")}, toExpired},
		{"compensating", nil, seen{op: op(StateCompensating, mine, "me")}, toReturn},
		{"compensated", nil, seen{op: op(StateCompensated, mine, "me")}, toReturn},
		{"compensation failed", nil, seen{op: op(StateCompensationFailed, mine, "me")}, toReturn},
		{"compensation of what was redone since", nil, seen{op: op(StateCommitted, mine, "me"), original: &Operation{Key: "2"}}, toOther},
		{"in doubt, other parameters", levels, seen{op: op(StateInDoubt, other, "me")}, toChanged},
		{"rejected", nil, seen{op: op(StateRejected, mine, "you")}, toRejected},
		{"rejected, corrected", nil, seen{op: op(StateRejected, other, "you")}, toMint},
		{"voided", nil, seen{op: op(StateVoided, mine, "you")}, toMint},
		{"voided, other parameters", nil, seen{op: op(StateVoided, other, "you")}, toMint},
		{"denied", levels, seen{op: op(StateDenied, mine, "you"), denied: no}, toDenied},
		{"denied, another call", levels, seen{op: op(StateDenied, other, "you")}, toMint},
		{"denied, back to a call that was denied earlier", levels, seen{op: op(StateDenied, other, "you"), denied: no}, toDenied},
		{"reserved", nil, seen{op: op(StateReserved, mine, "you")}, toDispatch},
		{"reserved, asked before the effect stopped asking", nil, seen{op: op(StateReserved, mine, "me"), request: req(approval.Requested, "call")}, toWait},
		{"reserved, granted before the effect stopped asking", nil, seen{op: op(StateReserved, mine, "me"), request: req(approval.Granted, "call")}, toDispatch},
		{"reserved, said no before the effect stopped asking", nil, seen{op: op(StateReserved, mine, "me"), request: req(approval.Denied, "call"), denied: no}, toDeny},
		{"reserved, said no elsewhere before the effect stopped asking", nil, seen{op: op(StateReserved, mine, "you"), denied: no}, toDeny},
		{"reserved, taken back before the effect stopped asking", nil, seen{op: op(StateReserved, mine, "me"), request: req(approval.Revoked, "call")}, toAsk},
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
