package approval_test

import (
	"context"
	"encoding/json"
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

func results(out *pawl.OutcomeOf[state]) string {
	var all []string
	for _, r := range out.State.Result.All() {
		all = append(all, r)
	}
	return strings.Join(all, ", ")
}

// One yes is one use: asked, granted, consumed by the call that was shown, all in the trail, which outlives the thread.
func TestAYesIsUsedOnce(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, db storage.DB) {
		p := (&shop{to: "finance"}).open(t, db, nil)
		r := p.ask("t", "call-1", "17")
		if r.Effect != "pay" || r.Ref != "17" || r.Operation != "op-17" || r.Call != "call-1" || r.N != 1 || r.Node != "pay" || r.Thread != "t" ||
			r.Graph != "shop" || r.To != "finance" || r.Run == "" || r.Attempt == "" || r.Task == "" || r.Lineage == "" || r.Redaction != "policy-1" ||
			string(r.View) != `{"pay":"17"}` || len(r.ViewDigest) != 64 || !r.Due.IsZero() || r.Requested.IsZero() {
			t.Errorf("the request is %+v", r)
		}
		st, err := p.g.Thread(p.eng, "t").State(t.Context())
		if err != nil || len(st.Waiting) != 1 || st.Waiting[0].ID != r.Wait || st.Waiting[0].Digest != r.Call {
			t.Errorf("the thread waits for %+v, %v; the request's wait is %s", st.Waiting, err, r.Wait)
		}
		if out := p.resume("t"); out.Status != pawl.Waiting || len(p.list(approval.Filter{})) != 1 {
			t.Errorf("resumed without an answer: %s, %d requests", out.Status, len(p.list(approval.Filter{})))
		}
		got, err := p.desk.Approve(as(t, "cfo"), r.ID, approval.Decision{Digest: "call-1", Reason: "fine"})
		if err != nil || got.State != approval.Granted || got.By != "cfo" || got.Reason != "fine" || got.Decided.IsZero() {
			t.Fatalf("got %+v, %v", got, err)
		}
		if p.shop.sent.Load() != 0 {
			t.Error("a decision ran something")
		}
		if out := p.resume("t"); out.Status != pawl.Done || results(out) != "sent call-1" {
			t.Fatalf("got %+v", out)
		}
		if r = p.show(r.ID); r.State != approval.Consumed || r.UsedBy != "op-17" || r.Unused != "" || r.By != "cfo" {
			t.Errorf("after its use the grant is %+v", r)
		}
		const trail = "requested granted consumed"
		if got := p.trail("", "t"); got != trail {
			t.Errorf("the trail is %q, want %q", got, trail)
		}
		rows, err := audit.Of(t.Context(), db, "", "op-17", 0)
		if err != nil || len(rows) != 3 {
			t.Fatalf("got %v, %v", rows, err)
		}
		yes := rows[1]
		if yes.Actor.ID != "cfo" || yes.Before != "requested" || yes.After != "granted" || yes.Digest != "call-1" || yes.View != r.ViewDigest ||
			yes.Reason != "fine" || yes.Approval != r.ID || yes.Run != r.Run || yes.Lineage != r.Lineage || !yes.At.Equal(r.Decided) {
			t.Errorf("the line of the yes is %+v", yes)
		}
		if err := p.g.Thread(p.eng, "t").Delete(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := p.trail("", "t"); got != trail {
			t.Errorf("after the thread's deletion the trail is %q", got)
		}
	})
}

// A no holds: for the same call in any thread, and not for another call or another reference.
func TestANoIsRemembered(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, db storage.DB) {
		p := (&shop{to: "finance"}).open(t, db, nil)
		r := p.ask("t", "call-1", "17")
		got, err := p.desk.Reject(as(t, "cfo"), r.ID, approval.Decision{Reason: "not this quarter"})
		if err != nil || got.State != approval.Denied || got.Reason != "not this quarter" {
			t.Fatalf("got %+v, %v", got, err)
		}
		if out := p.resume("t"); out.Status != pawl.Done || results(out) != "denied: not this quarter" {
			t.Fatalf("got %+v", out)
		}
		out, err := p.g.Thread(p.eng, "again").Run(t.Context(), &state{Call: pawl.Of("call-1"), Ref: pawl.Of("17")})
		if err != nil || out.Status != pawl.Done || results(out) != "denied: not this quarter" {
			t.Errorf("the same call from another thread: %+v, %v", out, err)
		}
		if n := len(p.list(approval.Filter{})); n != 1 || p.shop.sent.Load() != 0 {
			t.Errorf("asked %d times, sent %d", n, p.shop.sent.Load())
		}
		if got := p.trail("", "t") + "; " + p.trail("", "again"); got != "requested denied request.refused; request.refused" {
			t.Errorf("the trail is %q", got)
		}
		if l := p.last("again"); l.Before != l.After || l.After != "denied" || !strings.Contains(l.Reason, r.ID) {
			t.Errorf("the line of the refused asking is %+v", l)
		}
		p.ask("other call", "call-2", "17")
		p.ask("other ref", "call-1", "18")
	})
}

// Of two people at once one wins, whatever each wants, and the other is told who did.
func TestTwoDecideAtOnce(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, db storage.DB) {
		p := (&shop{to: "finance"}).open(t, db, nil)
		for round := range 10 {
			thread := fmt.Sprint(round)
			r := p.ask(thread, "call", thread)
			const people = 6
			var wg sync.WaitGroup
			var got [people]*approval.Request
			var errs [people]error
			for i := range people {
				wg.Go(func() {
					ctx := as(t, fmt.Sprint("person-", i))
					if d := (approval.Decision{Digest: r.Call}); i%2 == 0 {
						got[i], errs[i] = p.desk.Approve(ctx, r.ID, d)
					} else {
						got[i], errs[i] = p.desk.Reject(ctx, r.ID, d)
					}
				})
			}
			wg.Wait()
			now := p.show(r.ID)
			won := 0
			for i, err := range errs {
				lost := (*approval.DecidedError)(nil)
				switch {
				case err == nil:
					won++
					if want := []approval.State{approval.Granted, approval.Denied}[i%2]; now.State != want || now.By != fmt.Sprint("person-", i) ||
						got[i].State != want || got[i].Rev != now.Rev {
						t.Errorf("person %d was told %+v, and stored is %+v", i, got[i], now)
					}
				case !errors.As(err, &lost) || lost.By != now.By || lost.State != now.State || !lost.At.Equal(now.Decided) || lost.ID != r.ID:
					t.Errorf("person %d was told %v, and stored is %+v", i, err, now)
				}
			}
			if won != 1 {
				t.Errorf("%d people won", won)
			}
			if out := p.resume(thread); out.Status != pawl.Done || (now.State == approval.Granted) != (results(out) == "sent call") {
				t.Errorf("it was %s and the thread says %q", now.State, results(out))
			}
			if n := strings.Count(p.trail("", thread), ".refused"); n < people-1 {
				t.Errorf("%d of %d refused attempts are in the trail: %s", n, people-1, p.trail("", thread))
			}
		}
	})
}

// A click that comes twice, or is sent again because its answer was lost, is one decision.
func TestTheSameDecisionAgain(t *testing.T) {
	t.Parallel()
	p := (&shop{to: "finance"}).open(t, memory(t), nil)
	yes, no := p.ask("yes", "call", "1"), p.ask("no", "call", "2")
	again := func(what string, want approval.State, decide func() (*approval.Request, error)) {
		t.Helper()
		if got, err := decide(); err != nil || got.State != want {
			t.Errorf("%s: %+v, %v", what, got, err)
		}
	}
	approve := func() (*approval.Request, error) {
		return p.desk.Approve(as(t, "cfo"), yes.ID, approval.Decision{Digest: "call", Reason: "fine"})
	}
	reject := func() (*approval.Request, error) {
		return p.desk.Reject(as(t, "cfo"), no.ID, approval.Decision{Reason: "no"})
	}
	again("a yes", approval.Granted, approve)
	again("a yes again", approval.Granted, approve)
	p.resume("yes")
	again("a yes after its use", approval.Consumed, approve)
	again("a no", approval.Denied, reject)
	again("a no again", approval.Denied, reject)
	for who, decide := range map[string]func() (*approval.Request, error){
		"another's yes": func() (*approval.Request, error) {
			return p.desk.Approve(as(t, "ceo"), yes.ID, approval.Decision{Digest: "call"})
		},
		"a no after the yes": func() (*approval.Request, error) { return p.desk.Reject(as(t, "cfo"), yes.ID, approval.Decision{}) },
		"a yes after the no": func() (*approval.Request, error) {
			return p.desk.Approve(as(t, "cfo"), no.ID, approval.Decision{Digest: "call"})
		},
	} {
		if _, err := decide(); !errors.As(err, new(*approval.DecidedError)) {
			t.Errorf("%s: %v", who, err)
		}
	}
	if got, want := p.trail("", "no"), "requested denied reject.repeated approve.refused"; got != want {
		t.Errorf("the trail is %q, want %q", got, want)
	}
}

// A plain answer does not decide a request: the wait has its own door.
func TestTheQuestionDoorDecidesNothing(t *testing.T) {
	t.Parallel()
	p := (&shop{}).open(t, memory(t), nil)
	r := p.ask("t", "call", "1")
	_, err := p.eng.Answer(t.Context(), r.Wait, json.RawMessage(`{"state":"granted"}`))
	if refused := (*pawl.AnswerError)(nil); !errors.As(err, &refused) || refused.Reason != pawl.ReasonKind {
		t.Errorf("a plain answer: %v", err)
	}
	if now := p.show(r.ID); now.State != approval.Requested {
		t.Errorf("it is %s", now.State)
	}
}

// A request whose thread does not wait any more is not granted, and ends.
func TestNobodyWaitsForIt(t *testing.T) {
	t.Parallel()
	p := (&shop{to: "finance"}).open(t, memory(t), nil)
	gone, left := p.ask("gone", "call", "1"), p.ask("left", "call", "2")
	if err := p.g.Thread(p.eng, "gone").Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := p.g.Thread(p.eng, "left").Cancel(t.Context(), "enough"); err != nil {
		t.Fatal(err)
	}
	for _, r := range []approval.Request{gone, left} {
		_, err := p.desk.Approve(as(t, "cfo"), r.ID, approval.Decision{Digest: r.Call})
		if e := (*approval.DecidedError)(nil); !errors.As(err, &e) || e.State != approval.Withdrawn || !strings.Contains(e.Reason, r.Thread) {
			t.Errorf("%s: %v", r.Thread, err)
		}
		if now := p.show(r.ID); now.State != approval.Withdrawn || now.Unused == "" || now.By != "" {
			t.Errorf("%s: it is %+v", r.Thread, now)
		}
		if got := p.trail("", r.Thread); got != "requested approve.refused withdrawn" {
			t.Errorf("the trail is %q", got)
		}
	}
}

func TestLists(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, db storage.DB) {
		one, two := (&shop{to: "finance"}).open(t, db, nil), (&shop{to: "cfo"}).open(t, db, nil)
		a, b, c := one.ask("a", "call", "1"), one.ask("b", "call", "2"), two.ask("c", "call", "3")
		one.approve(a, "eve")
		other := approval.NewDesk(one.eng.Tenant("other"), db)
		for _, want := range []struct {
			name string
			f    approval.Filter
			ids  []string
		}{
			{"all", approval.Filter{}, []string{a.ID, b.ID, c.ID}},
			{"open", approval.Filter{State: approval.Requested}, []string{b.ID, c.ID}},
			{"granted", approval.Filter{State: approval.Granted}, []string{a.ID}},
			{"denied", approval.Filter{State: approval.Denied}, nil},
			{"of a thread", approval.Filter{Thread: "b"}, []string{b.ID}},
			{"of a thread, in a state", approval.Filter{Thread: "b", State: approval.Granted}, nil},
			{"to a person", approval.Filter{To: "cfo"}, []string{c.ID}},
			{"to a group, open", approval.Filter{To: "finance", State: approval.Requested}, []string{b.ID}},
		} {
			got := map[string]bool{}
			for _, r := range one.list(want.f) {
				got[r.ID] = true
			}
			if len(got) != len(want.ids) {
				t.Errorf("%s: %d requests, want %d", want.name, len(got), len(want.ids))
			}
			for _, id := range want.ids {
				if !got[id] {
					t.Errorf("%s: %s is missing", want.name, id)
				}
			}
		}
		if n := len(one.list(approval.Filter{Limit: 2})); n != 2 {
			t.Errorf("a limit of 2 gave %d", n)
		}
		if theirs, err := other.List(t.Context(), approval.Filter{}); err != nil || len(theirs) != 0 {
			t.Errorf("another tenant sees %v, %v", theirs, err)
		}
		if _, err := other.Show(t.Context(), a.ID); !errors.Is(err, pawl.ErrNotFound) {
			t.Errorf("another tenant looks: %v", err)
		}
	})
}

// Options.Allow is asked first, under the desk's own verbs; refused attempts are in the trail.
func TestPermission(t *testing.T) {
	t.Parallel()
	asked := map[pawl.Verb]pawl.VerbInfo{}
	shut := false
	p := (&shop{to: "finance"}).open(t, memory(t), &pawl.Options{Allow: func(_ context.Context, v pawl.VerbInfo) error {
		if asked[v.Verb] = v; shut {
			return errors.New("closed on Sundays")
		}
		return nil
	}})
	r := p.ask("t", "call", "1")
	shut = true
	calls := map[pawl.Verb]func() error{
		approval.VerbApprove: func() error {
			_, err := p.desk.Approve(as(t, "eve"), r.ID, approval.Decision{Digest: r.Call})
			return err
		},
		approval.VerbReject: func() error { _, err := p.desk.Reject(as(t, "eve"), r.ID, approval.Decision{}); return err },
		pawl.VerbRead:       func() error { _, err := p.desk.Show(as(t, "eve"), r.ID); return err },
	}
	for verb, call := range calls {
		delete(asked, verb)
		if err := call(); !errors.Is(err, pawl.ErrDenied) || !strings.Contains(err.Error(), "Sundays") {
			t.Errorf("%s: %v", verb, err)
		}
		if v := asked[verb]; v.Question != r.ID || v.Actor.ID != "eve" {
			t.Errorf("%s was asked about as %+v", verb, v)
		}
	}
	if _, err := p.desk.List(t.Context(), approval.Filter{}); !errors.Is(err, pawl.ErrDenied) {
		t.Errorf("list: %v", err)
	}
	shut = false
	if now := p.show(r.ID); now.State != approval.Requested || now.Rev != r.Rev {
		t.Errorf("it is %+v", now)
	}
	if got := p.trail("", ""); got != "approve.refused reject.refused" && got != "reject.refused approve.refused" {
		t.Errorf("the trail of no thread is %q", got)
	}
	if l := p.last(""); l.Approval != r.ID || l.Actor.ID != "eve" || l.Reason == "" {
		t.Errorf("the line of a refused attempt is %+v", l)
	}
}
