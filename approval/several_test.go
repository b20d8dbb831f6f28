package approval_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/approval"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/storage"
)

// Each choice settles alone, by the id of its request, whatever became of the others.
func TestABatch(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, db storage.DB) {
		p := (&shop{to: "finance"}).open(t, db, nil)
		a, b, c := p.ask("a", "call", "1"), p.ask("b", "call", "2"), p.ask("c", "call", "3")
		got := p.desk.Decide(as(t, "cfo"), []approval.Choice{
			{ID: c.ID, Verb: approval.VerbReject, Decision: approval.Decision{Reason: "no"}},
			{ID: "nothing", Verb: approval.VerbApprove},
			{ID: a.ID, Verb: approval.VerbApprove, Decision: approval.Decision{Digest: "another"}},
			{ID: b.ID, Verb: approval.VerbApprove, Decision: approval.Decision{Digest: b.Call}},
			{ID: c.ID, Verb: approval.VerbApprove, Decision: approval.Decision{Digest: c.Call}},
			{ID: a.ID, Verb: approval.VerbEdit},
		})
		var ids []string
		for _, d := range got {
			ids = append(ids, d.ID)
			if (d.Request == nil) == (d.Err == nil) {
				t.Errorf("%s: %+v, %v", d.ID, d.Request, d.Err)
			}
		}
		if fmt.Sprint(ids) != fmt.Sprint([]string{c.ID, "nothing", a.ID, b.ID, c.ID, a.ID}) {
			t.Errorf("the order is %v", ids)
		}
		if got[0].Request.State != approval.Denied || got[3].Request.State != approval.Granted {
			t.Errorf("got %+v and %+v", got[0], got[3])
		}
		late := (*approval.DecidedError)(nil)
		if !errors.Is(got[1].Err, pawl.ErrNotFound) || !errors.As(got[2].Err, new(*approval.DigestError)) || !errors.As(got[4].Err, &late) ||
			late.By != "cfo" || got[5].Err == nil {
			t.Errorf("got %v; %v; %v; %v", got[1].Err, got[2].Err, got[4].Err, got[5].Err)
		}
		if s := fmt.Sprintln(p.show(a.ID).State, p.show(b.ID).State, p.show(c.ID).State); s != "requested granted denied\n" {
			t.Errorf("they are %s", s)
		}
	})
}

// A grant can be taken back until it is used; then the error says what is left to do.
func TestRevoke(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, db storage.DB) {
		p := (&shop{to: "finance"}).open(t, db, nil)
		r := p.ask("t", "call", "1")
		if e := (*approval.GrantError)(nil); !errors.As(second(p.desk.Revoke(as(t, "cfo"), r.ID, "")), &e) {
			t.Error("what was not granted was revoked")
		}
		p.approve(r, "cfo")
		stranger := pawl.WithActor(t.Context(), pawl.Actor{ID: "eve"})
		if err := second(p.desk.Revoke(stranger, r.ID, "")); !errors.Is(err, pawl.ErrDenied) {
			t.Errorf("a stranger: %v", err)
		}
		for range 2 {
			got, err := p.desk.Revoke(as(t, "ann"), r.ID, "wrong account")
			if err != nil || got.State != approval.Revoked || !strings.Contains(got.Unused, "wrong account") || got.By != "cfo" {
				t.Fatalf("got %+v, %v", got, err)
			}
		}
		out := p.resume("t")
		if out.Status != pawl.Waiting || p.shop.sent.Load() != 0 {
			t.Fatalf("the thread is %s, sent %d", out.Status, p.shop.sent.Load())
		}
		next := p.only(approval.Filter{State: approval.Requested})
		if next.N != 2 {
			t.Errorf("asked anew as %+v", next)
		}
		p.approve(next, "cfo")
		p.resume("t")
		e := (*approval.UsedError)(nil)
		if err := second(p.desk.Revoke(as(t, "cfo"), next.ID, "")); !errors.As(err, &e) || e.Operation != "op-1" || !strings.Contains(err.Error(), "a compensation") {
			t.Errorf("after its use: %v", err)
		}
		want := "requested revoke.refused granted revoke.refused revoked revoke.repeated requested granted consumed revoke.refused"
		if got := p.trail("", "t"); got != want {
			t.Errorf("the trail is %q, want %q", got, want)
		}
	})
}

// Who saw which view is in the trail, once a person and request.
func TestViewed(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, db storage.DB) {
		p := (&shop{to: "finance"}).open(t, db, nil)
		r := p.ask("t", "call", "1")
		p.show(r.ID)
		for _, who := range []string{"ann", "bob", "ann"} {
			if got, err := p.desk.Show(as(t, who), r.ID); err != nil || got.ID != r.ID || got.Rev != r.Rev {
				t.Errorf("%s sees %+v, %v", who, got, err)
			}
		}
		rows, err := audit.List(t.Context(), db, "", "t", 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		seen := ""
		for _, row := range rows {
			if row.Action == "approval.viewed" && row.View == r.ViewDigest && row.Digest == r.Call && row.Approval == r.ID {
				seen += row.Actor.ID + " (" + row.Reason + ") "
			}
		}
		if seen != "ann (redaction policy-1) bob (redaction policy-1) " {
			t.Errorf("seen by %s", seen)
		}
	})
}

// Requests are shown and decided where the graph's code is not, and with no worker.
func TestTheDeskNeedsNoGraph(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, db storage.DB) {
		shop := &shop{to: "finance"}
		p := shop.open(t, db, nil)
		r := p.ask("t", "call", "1")
		if err := p.eng.Close(); err != nil {
			t.Fatal(err)
		}
		bare, err := pawl.NewEngine(db, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := approval.NewDesk(bare, db).Approve(as(t, "cfo"), r.ID, approval.Decision{Digest: r.Call}); err != nil || got.State != approval.Granted {
			t.Fatalf("got %+v, %v", got, err)
		}
		if err := bare.Close(); err != nil {
			t.Fatal(err)
		}
		if out := shop.open(t, db, nil).resume("t"); results(out) != "sent call" {
			t.Errorf("got %q", results(out))
		}
	})
}

// Two answers at once, a thousand times: one wins, and the other is told who won and when.
func TestInterleavings(t *testing.T) {
	t.Parallel()
	p := (&shop{to: "finance"}).open(t, memory(t), nil)
	rounds := 1000
	yes := 0
	for i := range rounds {
		r := p.ask(fmt.Sprint(i), "call", fmt.Sprint(i))
		people := [2]string{"ann", "bob"}
		var got [2]*approval.Request
		var errs [2]error
		var wg sync.WaitGroup
		for k, decide := range []func(context.Context, string, approval.Decision) (*approval.Request, error){p.desk.Approve, p.desk.Reject} {
			wg.Go(func() { got[k], errs[k] = decide(as(t, people[k]), r.ID, approval.Decision{Digest: r.Call}) })
		}
		wg.Wait()
		won := 0
		if errs[0] != nil {
			won = 1
		}
		now, lost := p.show(r.ID), (*approval.DecidedError)(nil)
		if errs[won] != nil || !errors.As(errs[1-won], &lost) {
			t.Fatalf("round %d: %v and %v", i, errs[0], errs[1])
		}
		if lost.By != people[won] || !lost.At.Equal(now.Decided) || lost.State != now.State || now.By != people[won] || got[won].State != now.State {
			t.Fatalf("round %d: told %+v, and stored is %+v", i, lost, now)
		}
		yes += 1 - won
	}
	t.Logf("%d of %d were a yes", yes, rounds)
}
