package suite_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/approval"
	"github.com/pawl-dev/pawl/effect"
	"github.com/pawl-dev/pawl/internal/nest"
	"github.com/pawl-dev/pawl/pawltest"
	"github.com/pawl-dev/pawl/redact"
)

// sweepPay is a scenario around one payment. Its target lives in the sweep's ledger, so that it outlives every death, and
// is a stop point when a request has come and when it has committed.
type sweepPay struct {
	mode   pawltest.TargetMode
	levels approval.Levels      // empty: nobody is asked
	decide string               // "no": denied; else everything is approved
	drop   pawltest.TargetPoint // the first request that comes there gets no answer
	once   bool                 // an unknown outcome is sent once more
	wrong  bool                 // a node behind the payment fails until it is repaired
	rows   int                  // what the target holds at the end
	grants int                  // that were consumed
	ends   effect.State
	limit  bool                                                                                                // there is room for one payment, and the node wants two
	told   bool                                                                                                // a webhook tells what happened
	looked bool                                                                                                // what a death leaves is looked up at the desk
	before func(p *sweepPay, ctx context.Context, eng *pawl.Engine, r approval.Request) (done bool, err error) // a decision
	after  func(p *sweepPay, ctx context.Context, eng *pawl.Engine) error                                      // the decisions
}

type sweepTransfer struct {
	To, Amount string
}

type sweepWire = effect.Effect[sweepTransfer, string]

// finance has an hour.
func finance() approval.Levels { return approval.Levels{{To: "finance", For: time.Hour}} }

func (p *sweepPay) effect() sweepWire {
	e := effect.New("pay", func(ctx context.Context, op effect.Op, in sweepTransfer) (string, error) {
		return p.send(ctx, op.Key, op.Ref.String())
	})
	switch p.mode {
	case pawltest.TargetKeys:
		e = e.Keys(effect.Forever)
	case pawltest.TargetLookup:
		e = e.Lookup(func(ctx context.Context, op effect.Op, _ sweepTransfer) (string, bool, error) {
			if err := pawltest.Point(ctx); err != nil {
				return "", false, err
			}
			return "receipt for " + op.Ref.String(), happened(ctx, "row "+op.Ref.String()), nil
		})
	}
	if len(p.levels) > 0 {
		e = e.Approve(p.levels)
	}
	if p.limit {
		e = e.Limit(effect.Limit[sweepTransfer]{Name: "one", Max: 1})
	}
	return e
}

// send is the target.
func (p *sweepPay) send(ctx context.Context, key, ref string) (string, error) {
	pawltest.Called(ctx, "request")
	pawltest.Called(ctx, "request with "+key)
	if err := p.point(ctx, pawltest.TargetReceived); err != nil {
		return "", err
	}
	if p.mode != pawltest.TargetKeys || !happened(ctx, "row with "+key) {
		pawltest.Called(ctx, "row with "+key)
		pawltest.Called(ctx, "row "+ref)
	}
	if err := p.point(ctx, pawltest.TargetCommitted); err != nil {
		return "", err
	}
	return "receipt for " + ref, nil
}

func (p *sweepPay) point(ctx context.Context, at pawltest.TargetPoint) error {
	if err := pawltest.Point(ctx); err != nil {
		return err
	}
	if p.drop == at && !happened(ctx, "dropped") {
		once(ctx, "dropped")
		return pawltest.ErrTargetDropped
	}
	return nil
}

// graph pays invoice 17 between two nodes and notes what came of it.
func (p *sweepPay) graph(t *testing.T) *pawl.Graph[sweepState] {
	return built(t, p.nodes().Path(pawl.Start, "first", "pay", "after"))
}

func (p *sweepPay) nodes() *pawl.Builder[sweepState] {
	e := p.effect()
	pay := func(ctx context.Context, s *sweepState) error {
		if _, err := call(ctx, "above", ""); err != nil {
			return err
		}
		receipt, err := e.Do(ctx, effect.Ref("invoice", "17"), sweepTransfer{"acme", "100.00"})
		denied := (*effect.DeniedError)(nil)
		if errors.As(err, &denied) {
			receipt, err = fmt.Sprintf("denied by %q: %s, expired %v", denied.By, denied.Reason, denied.Expired), nil
		}
		if err == nil && p.limit {
			_, err = e.Do(ctx, effect.Ref("invoice", "18"), sweepTransfer{"acme", "1.00"})
			if over := (*effect.LimitError)(nil); errors.As(err, &over) {
				receipt, err = receipt+", and no more", nil
			}
		}
		if err == nil {
			s.Log.Add(receipt)
		}
		return err
	}
	after := func(ctx context.Context, s *sweepState) error {
		if p.wrong && !happened(ctx, "repaired") {
			return errors.New("out of order")
		}
		return steps("below")(ctx, s)
	}
	return pawl.New[sweepState]("pay").Node("first", steps("first")).Node("pay", pay, pawl.Uses(e)).Node("after", after)
}

func sweepRing() []byte { return bytes.Repeat([]byte{3}, effect.KeySize) }

func sweepParts() ([]pawl.Part, error) {
	red := redact.New(nil)
	led, err := effect.NewLedger(effect.Options{Key: sweepRing(), Redactor: red, Policy: "1"})
	return []pawl.Part{red, led}, err
}

func sweepPerson(ctx context.Context) context.Context {
	return pawl.WithActor(ctx, pawl.Actor{ID: "cfo", Groups: []string{"finance"}, Kind: "person"})
}

// decided is what people do about a wait: they approve or deny what they are asked, and look an unknown outcome up in
// the target's own books.
func (p *sweepPay) decided(ctx context.Context, eng *pawl.Engine, q pawl.Question) error {
	if !q.Due.IsZero() && !time.Now().Before(q.Due) {
		return nil
	}
	db, person := pawltest.Home(ctx), sweepPerson(ctx)
	if q.Kind == "doubt" {
		var body struct{ Operation string }
		if err := json.Unmarshal(q.Body, &body); err != nil {
			return err
		}
		led, err := effect.NewLedger(effect.Options{Key: sweepRing()})
		if err != nil {
			return err
		}
		if desk := led.Desk(eng, db); p.told && happened(ctx, "row "+q.Key) {
			_, err = desk.Evidence(person, body.Operation, effect.Found{Applied: true, Receipt: "receipt for " + q.Key}, "webhook")
			return err
		}
		said := effect.Applied("receipt for " + q.Key)
		if !happened(ctx, "row "+q.Key) {
			pawltest.Called(ctx, "said absent")
			if said = effect.NotApplied(); p.once {
				said = effect.SendOnce()
			}
		}
		_, err = led.Desk(eng, db).Release(person, body.Operation, said, "looked it up")
		return err
	}
	desk := approval.NewDesk(eng, db)
	open, err := desk.List(person, approval.Filter{State: approval.Requested, Thread: q.Thread})
	if err != nil {
		return err
	}
	for _, r := range open {
		if r.Wait != q.ID {
			continue
		}
		if p.before != nil {
			if done, err := p.before(p, ctx, eng, r); err != nil || done {
				return err
			}
		}
		if p.decide == "no" {
			_, err = desk.Reject(person, r.ID, approval.Decision{Reason: "too much"})
		} else {
			_, err = desk.Approve(person, r.ID, approval.Decision{Digest: r.Call})
		}
		return err
	}
	return fmt.Errorf("question %s is no request", q.ID)
}

// drive goes on with a run from wherever it stands; with nobody to decide, to where it waits.
func (p *sweepPay) drive(ctx context.Context, eng *pawl.Engine, th *sweepThread, nobody bool) error {
	_, err := th.Run(ctx, &sweepState{Doc: pawl.Of("in")}, pawl.RunID("run-1"))
	for {
		failed := (*pawl.RunError)(nil)
		if err != nil && !errors.As(err, &failed) {
			return err
		}
		state, lost := th.State(ctx)
		if lost != nil {
			return lost
		}
		switch state.Status {
		case pawl.Waiting:
			if nobody {
				return nil
			}
			for _, q := range state.Waiting {
				if err := p.decided(ctx, eng, q); err != nil {
					return err
				}
			}
			if p.after != nil {
				if err := p.after(p, ctx, eng); err != nil {
					return err
				}
			}
			_, err = th.Resume(ctx)
		case pawl.Crashed:
			if p.looked {
				if err := p.reconciled(ctx, eng); err != nil {
					return err
				}
			}
			_, err = th.Resume(ctx)
		case pawl.Failed: // one entry asks or sends once to settle a doubt; another one goes on with it
			unknown, lost := p.unknown(ctx, eng)
			if lost != nil || !unknown {
				return lost
			}
			_, err = th.Resume(ctx)
		default:
			return nil
		}
	}
}

func (p *sweepPay) unknown(ctx context.Context, eng *pawl.Engine) (bool, error) {
	led, err := effect.NewLedger(effect.Options{Key: sweepRing()})
	if err != nil {
		return false, err
	}
	open, err := led.Desk(eng, pawltest.Home(ctx)).Unknown(ctx)
	return len(open) > 0, err
}

// whole drives one run of a graph to its end.
func (p *sweepPay) whole(g *pawl.Graph[sweepState]) sweepDrive {
	return func(ctx context.Context, eng *pawl.Engine) error {
		th, err := within(ctx, eng, g, "t")
		if err != nil {
			return err
		}
		return p.drive(ctx, eng, th, false)
	}
}

// plain is one run, to its end.
func (p *sweepPay) plain(t *testing.T) sweepDrive {
	g := p.graph(t)
	return p.whole(g)
}

// retried fails behind the payment and is retried as another attempt.
func (p *sweepPay) retried(t *testing.T) sweepDrive {
	g := p.graph(t)
	return func(ctx context.Context, eng *pawl.Engine) error {
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
			once(ctx, "repaired")
			again := (*pawl.RunError)(nil)
			if _, err := th.Retry(ctx); err != nil && !errors.As(err, &again) {
				return err
			}
		}
	}
}

// travels pays, forks before the payment, makes a version beside the fork, forks that, and replays.
func (p *sweepPay) travels(t *testing.T) sweepDrive {
	g := p.graph(t)
	return func(ctx context.Context, eng *pawl.Engine) error {
		th, err := within(ctx, eng, g, "t")
		if err != nil {
			return err
		}
		fork := func(note string, options ...pawl.RunOption) func() error {
			return func() error {
				_, err := th.Fork(ctx, pawl.Before("pay"), func(s *sweepState) error { s.Doc.Set(note); return nil }, options...)
				return err
			}
		}
		for _, turn := range []struct {
			mark string
			do   func() error
		}{
			{"forked", fork("forked")}, {"beside", fork("beside", pawl.Beside())}, {"again", fork("again")},
			{"fork{", func() error { _, err := th.Replay(ctx, pawl.Before("pay")); return err }},
		} {
			history, err := th.History(ctx, pawl.Page{})
			if err != nil && !errors.Is(err, pawl.ErrNotFound) {
				return err
			}
			gone := false
			for _, s := range history {
				gone = gone || strings.Contains(s.Source+string(s.Values), turn.mark)
			}
			if gone {
				continue
			}
			if err := p.drive(ctx, eng, th, false); err != nil {
				return err
			}
			if err := turn.do(); err != nil {
				return err
			}
		}
		return p.drive(ctx, eng, th, false)
	}
}

// twoThreads want the same payment, and both ask. both: both are approved before the first dispatch.
func (p *sweepPay) twoThreads(t *testing.T, both bool) sweepDrive {
	g := p.graph(t)
	return func(ctx context.Context, eng *pawl.Engine) error {
		deep, err := nest.In(g, levelOf(ctx))
		if err != nil {
			return err
		}
		one, two := deep.Thread(eng, "one"), deep.Thread(eng, "two")
		if !happened(ctx, "both ask") {
			if err := errors.Join(p.drive(ctx, eng, one, true), p.drive(ctx, eng, two, true)); err != nil {
				return err
			}
			once(ctx, "both ask")
		}
		state, err := two.State(ctx)
		if err != nil {
			return err
		}
		if both && !happened(ctx, "two has its yes") {
			for _, q := range state.Waiting {
				if err := p.decided(ctx, eng, q); err != nil && !strings.Contains(err.Error(), "is no request") {
					return err
				}
			}
			once(ctx, "two has its yes")
		}
		if err := p.drive(ctx, eng, one, false); err != nil {
			return err
		}
		return p.drive(ctx, eng, two, false)
	}
}

// cancelled is given up while its approval is open, or granted and not used.
func (p *sweepPay) cancelled(t *testing.T, granted bool) sweepDrive {
	g := p.graph(t)
	return func(ctx context.Context, eng *pawl.Engine) error {
		th, err := within(ctx, eng, g, "t")
		if err != nil {
			return err
		}
		if is, err := stands(ctx, th, pawl.Cancelled); err == nil && is {
			return nil
		}
		if err := p.drive(ctx, eng, th, true); err != nil {
			return err
		}
		state, err := th.State(ctx)
		if err != nil {
			return err
		}
		for _, q := range state.Waiting {
			if !granted {
				break
			}
			if err := p.decided(ctx, eng, q); err != nil {
				return err
			}
		}
		return th.Cancel(ctx, "enough")
	}
}
