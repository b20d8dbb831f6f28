package suite_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/approval"
	"github.com/pawl-dev/pawl/effect"
	"github.com/pawl-dev/pawl/internal/house"
	"github.com/pawl-dev/pawl/pawltest"
	"github.com/pawl-dev/pawl/sqlite"
	"github.com/pawl-dev/pawl/storage"
)

// payCase is a scenario of the sweep over effects and approvals.
type payCase struct {
	name  string
	pay   sweepPay
	drive func(*sweepPay, *testing.T) sweepDrive
	asked int // requests for approval, at least; 0: none
	more  bool
	of    map[string]effect.State // how operations of other effects end
}

func payCases() (all []payCase) {
	add := func(name string, asked int, p sweepPay, drive func(*sweepPay, *testing.T) sweepDrive) {
		all = append(all, payCase{name: name, pay: p, drive: drive, asked: asked})
	}
	committed := effect.StateCommitted
	for _, mode := range []pawltest.TargetMode{pawltest.TargetKeys, pawltest.TargetLookup, pawltest.TargetOpaque} {
		for name, p := range map[string]sweepPay{
			"pay":           {},
			"pay-granted":   {levels: finance(), grants: 1},
			"pay-no-answer": {levels: finance(), grants: 1, drop: pawltest.TargetCommitted},
			"pay-lost":      {drop: pawltest.TargetReceived},
		} {
			p.mode, p.rows, p.ends = mode, 1, committed
			add(name+"-"+string(mode), p.grants, p, (*sweepPay).plain)
		}
		paid := sweepPay{mode: mode, levels: finance(), rows: 1, grants: 1, ends: committed}
		add("pay-travels-"+string(mode), 1, paid, (*sweepPay).travels)
		add("pay-two-threads-"+string(mode), 2, paid, func(p *sweepPay, t *testing.T) sweepDrive { return p.twoThreads(t, false) })
		add("pay-two-grants-"+string(mode), 2, paid, func(p *sweepPay, t *testing.T) sweepDrive { return p.twoThreads(t, true) })
		for child, depth := range map[pawl.ChildMode]int{pawl.Inherit: 1, pawl.PerThread: 2, pawl.Stateless: 2} {
			add("pay-in-child-"+string(child)+"-"+string(mode), 1, paid, func(p *sweepPay, t *testing.T) sweepDrive { return p.inChild(child, depth)(t) })
		}
		paid.wrong = true
		add("pay-retried-"+string(mode), 1, paid, (*sweepPay).retried)
	}
	asked := sweepPay{mode: pawltest.TargetOpaque, levels: finance()}
	denied := asked
	denied.decide, denied.ends = "no", effect.StateDenied
	add("pay-denied", 1, denied, (*sweepPay).plain)
	add("pay-denied-travels", 1, denied, (*sweepPay).travels)
	expired := asked
	expired.levels, expired.ends = approval.Levels{{To: "finance", For: 1}}, effect.StateVoided
	add("pay-expired", 1, expired, (*sweepPay).plain)
	all[len(all)-1].more = true // an entry that comes after the expiry was noted asks anew
	asked.ends = effect.StateVoided
	add("pay-cancelled", 1, asked, func(p *sweepPay, t *testing.T) sweepDrive { return p.cancelled(t, false) })
	add("pay-cancelled-granted", 1, asked, func(p *sweepPay, t *testing.T) sweepDrive { return p.cancelled(t, true) })
	return append(append(all, afterwardsCases()...), changesCases()...)
}

// scenario is the case under a durability.
func (c payCase) scenario(t *testing.T, mode pawl.Durability) pawltest.Scenario {
	p := c.pay
	s := pawltest.Scenario{
		Drive: c.drive(&p, t), Options: pawl.Options{Durability: mode, Strict: true},
		Kinds: house.Kinds()[len(pawl.Kinds()):], Kept: []string{"audit"}, Parts: sweepParts, Extra: []string{"doubt"}, Check: c.check,
		Disk: func(path string, kinds ...storage.Kind) (storage.DB, error) { return sqlite.Open(path, kinds...) },
	}
	if c.more {
		s.Extra = append(s.Extra, "approval")
	}
	return s
}

// check compares operations, approvals and the target's books.
func (c payCase) check(ctx context.Context, home storage.DB) error {
	eng, err := pawl.NewEngine(home, nil)
	if err != nil {
		return err
	}
	defer eng.Close()
	led, err := effect.NewLedger(effect.Options{Key: sweepRing()})
	if err != nil {
		return err
	}
	ops, err := led.Desk(eng, home).List(ctx, effect.Filter{})
	if err != nil {
		return err
	}
	requests, err := approval.NewDesk(eng, home).List(ctx, approval.Filter{})
	if err != nil {
		return err
	}
	var faults []error
	demand := func(holds bool, format string, args ...any) {
		if !holds {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	sent, rows := pawltest.Calls(ctx, "request"), pawltest.Calls(ctx, "row invoice:17")
	demand(rows == c.pay.rows, "the target has %d rows, want %d", rows, c.pay.rows)
	demand(len(ops) == 1 || c.more, "%d operations: %+v", len(ops), ops)
	withKey := 0
	for i, op := range ops {
		ends := c.pay.ends
		if i+1 < len(ops) && ops[i+1].Effect == op.Effect && ops[i+1].Ref == op.Ref && ops[i+1].Redoes == "" {
			ends = effect.StateVoided // another revision took its place
		}
		if other, ok := c.of[op.Effect]; ok {
			ends = other
		}
		demand(op.State == ends, "operation %s of %s is %s, want %s", op.Key, op.Effect, op.State, ends)
		withKey += pawltest.Calls(ctx, "request with "+op.Key)
		demand(int(op.Attempts) >= pawltest.Calls(ctx, "request with "+op.Key), "%d attempts are recorded, %d requests were seen", op.Attempts, sent)
	}
	demand(withKey == sent, "%d requests, %d of them with a key that is recorded", sent, withKey)
	if c.pay.mode == pawltest.TargetOpaque {
		said := pawltest.Calls(ctx, "said absent")
		demand(sent <= 1+said, "%d requests to an opaque target, and %d times a person said that it did not happen", sent, said)
	}
	consumed := 0
	for _, r := range requests {
		demand(r.State != approval.Requested && r.State != approval.Granted, "request %s is still %s", r.ID, r.State)
		if r.State == approval.Consumed {
			consumed++
		}
	}
	demand(consumed == c.pay.grants, "%d grants are consumed, want %d", consumed, c.pay.grants)
	demand(len(requests) == c.asked || c.more && len(requests) > c.asked, "asked %d times, want %d", len(requests), c.asked)
	return errors.Join(faults...)
}
