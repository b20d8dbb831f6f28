package suite_test

import (
	"context"
	"errors"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/effect"
	"github.com/pawl-dev/pawl/pawltest"
)

// afterwardsCases are payments that are released, taken back, made again and forgotten.
func afterwardsCases() []payCase {
	permit := sweepPay{mode: pawltest.TargetOpaque, levels: finance(), drop: pawltest.TargetReceived, once: true, rows: 1, grants: 1, ends: effect.StateCommitted}
	redo := sweepPay{mode: pawltest.TargetKeys, levels: finance(), rows: 2, grants: 2, ends: effect.StateCommitted}
	back := sweepPay{mode: pawltest.TargetKeys, levels: finance(), rows: 1, grants: 2, ends: effect.StateCompensated}
	gone := sweepPay{mode: pawltest.TargetOpaque, rows: 1, ends: effect.StateTombstone}
	return []payCase{
		{name: "pay-permit", pay: permit, drive: (*sweepPay).plain, asked: 1},
		{name: "pay-redo", pay: redo, drive: (*sweepPay).redone, asked: 2, more: true},
		{name: "pay-back", pay: back, drive: (*sweepPay).compensated, asked: 2, more: true, of: map[string]effect.State{"refund": effect.StateCommitted}},
		{name: "pay-forgotten", pay: gone, drive: (*sweepPay).forgotten},
	}
}

// redone pays, and a second time on purpose.
func (p *sweepPay) redone(t *testing.T) sweepDrive {
	g := p.graph(t)
	return func(ctx context.Context, eng *pawl.Engine) error {
		th, err := within(ctx, eng, g, "t")
		if err != nil {
			return err
		}
		led, err := effect.NewLedger(effect.Options{Key: sweepRing(), Policy: "1"})
		if err != nil {
			return err
		}
		desk := led.Desk(eng, pawltest.Home(ctx))
		for range 10 {
			if err := p.drive(ctx, eng, th, false); err != nil {
				return err
			}
			ops, err := desk.List(ctx, effect.Filter{})
			switch {
			case err != nil:
				return err
			case len(ops) == 1:
				_, err = desk.Redo(sweepPerson(ctx), ops[0].Key, "the bank lost it")
			case ops[len(ops)-1].State == effect.StateCommitted:
				return nil
			default:
				_, err = th.Replay(ctx, pawl.Before("pay"))
			}
			if err != nil {
				return err
			}
		}
		return errors.New("the second payment does not come to an end")
	}
}

// compensated pays and takes it back in the next node.
func (p *sweepPay) compensated(t *testing.T) sweepDrive {
	e := p.effect()
	refund := effect.New("refund", func(ctx context.Context, op effect.Op, _ sweepTransfer) (string, error) {
		return p.send(ctx, op.Key, "refund of "+op.Ref.String())
	}).Keys(effect.Forever).Compensates(e).Approve(p.levels)
	ref, in := effect.Ref("invoice", "17"), sweepTransfer{"acme", "100.00"}
	pay := func(ctx context.Context, _ *sweepState) error {
		_, err := e.Do(ctx, ref, in)
		return err
	}
	takeBack := func(ctx context.Context, _ *sweepState) error {
		_, err := refund.Compensate(ctx, ref, in)
		return err
	}
	g := built(t, pawl.New[sweepState]("pay").Node("pay", pay, pawl.Uses(e)).Node("refund", takeBack, pawl.Uses(refund)).
		Path(pawl.Start, "pay", "refund"))
	return p.whole(g)
}

// forgotten pays, forgets the payment, and replays from before it.
func (p *sweepPay) forgotten(t *testing.T) sweepDrive {
	g := p.graph(t)
	return func(ctx context.Context, eng *pawl.Engine) error {
		th, err := within(ctx, eng, g, "t")
		if err != nil {
			return err
		}
		if err := p.drive(ctx, eng, th, false); err != nil {
			return err
		}
		led, err := effect.NewLedger(effect.Options{Key: sweepRing(), Retention: effect.Retention{Operations: 1, Checkpoints: 1}})
		if err != nil {
			return err
		}
		for due := led.Due(eng, pawltest.Home(ctx)); ; {
			if n, _, err := due.Due(ctx, 10); err != nil || n == 0 {
				if err != nil {
					return err
				}
				break
			}
		}
		if done, err := stands(ctx, th, pawl.Done); err != nil || !done {
			return err
		}
		_, err = th.Replay(ctx, pawl.Before("pay"))
		if expired := (*effect.ExpiredError)(nil); errors.As(err, &expired) {
			err = nil
		}
		return err
	}
}
