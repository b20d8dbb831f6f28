package suite_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/approval"
	"github.com/pawl-dev/pawl/effect"
	"github.com/pawl-dev/pawl/internal/nest"
	"github.com/pawl-dev/pawl/pawltest"
	"github.com/pawl-dev/pawl/redact"
	"github.com/pawl-dev/pawl/storage"
)

// changesCases are payments whose calls, grants, people, homes and graphs change around them.
func changesCases() []payCase {
	committed := effect.StateCommitted
	keys, opaque, lookup := pawltest.TargetKeys, pawltest.TargetOpaque, pawltest.TargetLookup
	plain := (*sweepPay).plain
	asked := sweepPay{mode: opaque, levels: finance(), rows: 1, grants: 1, ends: committed}
	edited, revoked, escalated := asked, asked, asked
	edited.before, revoked.after = (*sweepPay).changed, (*sweepPay).revoked
	escalated.before, escalated.levels = (*sweepPay).escalated, approval.Levels{{To: "clerks", For: 1}, {To: "finance", For: time.Hour}}
	limited := sweepPay{mode: opaque, rows: 1, ends: committed, limit: true}
	told := sweepPay{mode: opaque, drop: pawltest.TargetCommitted, rows: 1, ends: committed, told: true}
	looked := sweepPay{mode: lookup, rows: 1, ends: committed, looked: true}
	back := sweepPay{mode: keys, levels: finance(), rows: 1, grants: 1, ends: committed}
	return []payCase{
		{name: "pay-edited", pay: edited, drive: plain, asked: 2, more: true},
		{name: "pay-revoked", pay: revoked, drive: plain, asked: 2},
		{name: "pay-escalated", pay: escalated, drive: plain, asked: 1},
		{name: "pay-limited", pay: limited, drive: plain},
		{name: "pay-told", pay: told, drive: plain},
		{name: "pay-looked-up-at-the-desk", pay: looked, drive: plain},
		{name: "pay-restored", pay: back, drive: (*sweepPay).restored, asked: 1},
		{name: "pay-migrated", pay: asked, drive: (*sweepPay).migrated, asked: 2, more: true},
	}
}

// desk is the operators' desk of a life.
func (p *sweepPay) desk(ctx context.Context, eng *pawl.Engine) (*effect.Desk, error) {
	led, err := effect.NewLedger(effect.Options{Key: sweepRing(), Redactor: redact.New(nil), Policy: "1", Effects: []effect.Declared{p.effect()}})
	if err != nil {
		return nil, err
	}
	return led.Desk(eng, pawltest.Home(ctx)), nil
}

// changed is a request that somebody changes before it is decided, once.
func (p *sweepPay) changed(ctx context.Context, eng *pawl.Engine, r approval.Request) (bool, error) {
	if r.Editor != "" {
		return false, nil
	}
	desk, err := p.desk(ctx, eng)
	if err != nil {
		return false, err
	}
	ann := pawl.WithActor(ctx, pawl.Actor{ID: "ann", Groups: []string{"finance"}, Kind: "person"})
	_, err = desk.Edit(ann, r.ID, effect.Edit{Digest: r.Call, Changes: []approval.Change{{Path: "/Amount", New: json.RawMessage(`"90.00"`)}}})
	return true, err
}

// escalated lets the timer write what became due first.
func (p *sweepPay) escalated(ctx context.Context, eng *pawl.Engine, r approval.Request) (bool, error) {
	_, _, err := approval.NewTimer(eng, pawltest.Home(ctx)).Due(ctx, 10)
	return false, err
}

// revoked takes the first grant back, once.
func (p *sweepPay) revoked(ctx context.Context, eng *pawl.Engine) error {
	desk := approval.NewDesk(eng, pawltest.Home(ctx))
	all, err := desk.List(ctx, approval.Filter{})
	if err != nil || len(all) != 1 || all[0].State != approval.Granted {
		return err
	}
	_, err = desk.Revoke(sweepPerson(ctx), all[0].ID, "wait")
	return err
}

// reconciled looks up at the desk what a dead process left.
func (p *sweepPay) reconciled(ctx context.Context, eng *pawl.Engine) error {
	desk, err := p.desk(ctx, eng)
	if err != nil {
		return err
	}
	open, err := desk.Unknown(ctx)
	for _, op := range open {
		if err == nil {
			_, err = desk.Reconcile(sweepPerson(ctx), op.Key, "it died")
		}
	}
	return err
}

// restored pays on a home that was put back to a backup, once somebody has compared it with the target.
func (p *sweepPay) restored(t *testing.T) sweepDrive {
	g := p.graph(t)
	return func(ctx context.Context, eng *pawl.Engine) error {
		desk, err := p.desk(ctx, eng)
		if err != nil {
			return err
		}
		if !happened(ctx, "restored") {
			open, err := desk.Restored(ctx)
			if err == nil && open == nil {
				err = pawltest.Home(ctx).Update(ctx, func(_ context.Context, tx storage.Tx) error {
					return effect.MarkRestored(tx, tx.Now(), pawl.Actor{ID: "root", Kind: "person"}, "the disk died")
				})
			}
			if err != nil {
				return err
			}
			once(ctx, "restored")
		}
		th, err := within(ctx, eng, g, "t")
		if err != nil {
			return err
		}
		for {
			if err := p.drive(ctx, eng, th, false); err != nil {
				return err
			}
			if failed, err := stands(ctx, th, pawl.Failed); err != nil || !failed {
				return err
			}
			if pawltest.Calls(ctx, "request") > 0 {
				return errors.New("it was sent before the reconciliation, or failed after it")
			}
			if _, err := desk.Reconciled(sweepPerson(ctx), "compared"); err != nil {
				return err
			}
			failed := (*pawl.RunError)(nil)
			if _, err := th.Resume(ctx); err != nil && !errors.As(err, &failed) {
				return err
			}
		}
	}
}

// migrated waits with its yes while its graph changes, moves to the new one, and is asked again there.
func (p *sweepPay) migrated(t *testing.T) sweepDrive {
	was := p.graph(t)
	is := built(t, p.nodes().Node("screen", steps("screen")).Path(pawl.Start, "first", "screen", "pay", "after").
		Migrate(pawl.Migration{From: was.Digest()}))
	return func(ctx context.Context, eng *pawl.Engine) error {
		old, err := nest.In(was, levelOf(ctx))
		if err != nil {
			return err
		}
		if !happened(ctx, "deployed") {
			th := old.Thread(eng, "t")
			if err := p.drive(ctx, eng, th, true); err != nil {
				return err
			}
			state, err := th.State(ctx)
			if err != nil {
				return err
			}
			for _, q := range state.Waiting {
				if err := p.decided(ctx, eng, q); err != nil {
					return err
				}
			}
			once(ctx, "deployed")
		}
		parts, err := sweepParts()
		if err != nil {
			return err
		}
		now, err := pawl.NewEngine(pawltest.Home(ctx), &pawl.Options{Parts: parts})
		if err != nil {
			return err
		}
		defer now.Close()
		deep, err := nest.In(is, levelOf(ctx), old)
		if err != nil {
			return err
		}
		th := deep.Thread(now, "t")
		state, err := th.State(ctx)
		if err == nil && state.Stranded {
			_, err = th.Migrate(sweepPerson(ctx), pawl.Reason("screen is in"))
		}
		if err != nil {
			return err
		}
		return p.drive(ctx, now, th, false)
	}
}
