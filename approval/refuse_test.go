package approval_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/approval"
	"github.com/pawl-dev/pawl/storage"
)

// Each refusal has its type, changes nothing, and is a line in the trail.
func TestRefusals(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, db storage.DB) {
		p := (&shop{to: "finance"}).open(t, db, nil)
		r := p.ask("t", "call-1", "17")
		finance := []string{"staff", "finance"}
		yes := approval.Decision{Digest: "call-1"}
		is := func(target any) func(error) bool {
			return func(err error) bool { return errors.As(err, target) }
		}
		for _, c := range []struct {
			name   string
			actor  pawl.Actor
			by     approval.Decision
			reject bool
			want   func(error) bool
			says   string
		}{
			{"another digest", pawl.Actor{ID: "eve", Groups: finance}, approval.Decision{Digest: "call-2"}, false, is(new(*approval.DigestError)), `names "call-2"`},
			{"no digest", pawl.Actor{ID: "eve", Groups: finance}, approval.Decision{}, false, is(new(*approval.DigestError)), "approve what it shows"},
			{"the view's digest", pawl.Actor{ID: "eve", Groups: finance}, approval.Decision{Digest: r.ViewDigest}, false, is(new(*approval.DigestError)), ""},
			{"a no with another digest", pawl.Actor{ID: "eve", Groups: finance}, approval.Decision{Digest: "call-2"}, true, is(new(*approval.DigestError)), ""},
			{"nobody", pawl.Actor{}, yes, false, is(new(*approval.ForbiddenError)), "WithActor"},
			{"a group without a person", pawl.Actor{Groups: finance}, yes, false, is(new(*approval.ForbiddenError)), ""},
			{"a service", pawl.Actor{ID: "bot", Groups: finance, Kind: "service"}, yes, false, is(new(*approval.ForbiddenError)), "services"},
			{"another group", pawl.Actor{ID: "eve", Groups: []string{"staff"}}, yes, false, is(new(*approval.ForbiddenError)), `"finance"`},
			{"another group says no", pawl.Actor{ID: "eve"}, approval.Decision{}, true, is(new(*approval.ForbiddenError)), ""},
			{"forbidden is denied", pawl.Actor{ID: "eve"}, yes, false, func(err error) bool { return errors.Is(err, pawl.ErrDenied) }, ""},
		} {
			ctx := pawl.WithActor(t.Context(), c.actor)
			decide, action := p.desk.Approve, "approval.approve.refused"
			if c.reject {
				decide, action = p.desk.Reject, "approval.reject.refused"
			}
			got, err := decide(ctx, r.ID, c.by)
			if got != nil || !c.want(err) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "nothing was changed") {
				t.Errorf("%s: %+v, %v", c.name, got, err)
			}
			if now := p.show(r.ID); now.Rev != r.Rev || now.State != approval.Requested || now.By != "" {
				t.Errorf("%s: it is %+v", c.name, now)
			}
			if l := p.last("t"); l.Action != action || l.Actor.ID != c.actor.ID || l.Before != "requested" || l.After != "requested" ||
				l.Reason != err.Error() || l.Approval != r.ID {
				t.Errorf("%s: the last line of the trail is %+v", c.name, l)
			}
		}
		if out := p.resume("t"); out.Status != pawl.Waiting {
			t.Errorf("the thread is %s", out.Status)
		}
		if _, err := p.desk.Approve(pawl.WithActor(t.Context(), pawl.Actor{ID: "finance"}), r.ID, yes); err != nil {
			t.Errorf("the actor whose id it is addressed to: %v", err)
		}
	})
}

// What is not there and what is another tenant's cannot be told apart.
func TestNotFound(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, db storage.DB) {
		p := (&shop{to: "finance"}).open(t, db, nil)
		r := p.ask("t", "call-1", "17")
		other := p.eng.Tenant("other")
		desk := approval.NewDesk(other, db)
		long := strings.Repeat("\u00e9", 5000)
		for _, id := range []string{r.ID, "unknown", "", long} {
			for name, err := range map[string]error{
				"approve": second(desk.Approve(as(t, "eve"), id, approval.Decision{Digest: "call-1"})),
				"reject":  second(desk.Reject(as(t, "eve"), id, approval.Decision{})),
				"show":    second(desk.Show(as(t, "eve"), id)),
			} {
				e := (*pawl.NotFoundError)(nil)
				if !errors.As(err, &e) || e.What != "approval" || e.ID != id || e.Thread != "" || e.Hint != "" {
					t.Errorf("%s %.40q: %v", name, id, err)
				}
			}
		}
		if now := p.show(r.ID); now.Rev != r.Rev {
			t.Errorf("another tenant changed it to %+v", now)
		}
		if got := strings.Count(p.trail("other", ""), "refused"); got != 8 {
			t.Errorf("%d refused attempts are in the other tenant's trail, want 8", got)
		}
		if got := p.trail("", "t") + p.trail("", ""); got != "requested" {
			t.Errorf("the trail of the owner is %q", got)
		}
		for _, f := range []func(tx storage.Tx) error{
			func(tx storage.Tx) error { return approval.Consume(tx, "other", r.ID, "call-1", "op-17") },
			func(tx storage.Tx) error { return approval.Lapse(tx, "other", r.ID, "x") },
			func(tx storage.Tx) error { return approval.Withdraw(tx, "other", r.ID, "x") },
			func(tx storage.Tx) error { return approval.Return(tx, "other", r.ID, "op-17", "x") },
		} {
			err := db.Update(t.Context(), func(_ context.Context, tx storage.Tx) error { return f(tx) })
			if !errors.Is(err, pawl.ErrNotFound) {
				t.Errorf("another tenant's: %v", err)
			}
		}
	})
}

func second[T any](_ T, err error) error { return err }

func TestReasonsAreBounded(t *testing.T) {
	t.Parallel()
	p := (&shop{}).open(t, memory(t), nil)
	r := p.ask("t", "call-1", "17")
	for _, reason := range []string{strings.Repeat("x", approval.MaxReason+1), "\xff"} {
		if _, err := p.desk.Reject(as(t, "eve"), r.ID, approval.Decision{Reason: reason}); err == nil || !strings.Contains(err.Error(), "nothing was decided") {
			t.Errorf("a reason of %d bytes: %v", len(reason), err)
		}
	}
	long := strings.Repeat("x", approval.MaxReason)
	if got, err := p.desk.Reject(as(t, "eve"), r.ID, approval.Decision{Reason: long}); err != nil || got.Reason != long {
		t.Errorf("the longest reason: %v", err)
	}
}

// A request ends at the instant that it is due, by the database's clock; the desk writes so, and the thread asks anew.
func TestExpiry(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		wait time.Duration
		late bool
	}{{"just in time", time.Hour - 1, false}, {"at the instant", time.Hour, true}, {"a day late", 25 * time.Hour, true}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := (&shop{to: "finance", due: time.Hour}).open(t, memory(t), nil)
				r := p.ask("t", "call-1", "17")
				if !r.Due.Equal(r.Requested.Add(time.Hour)) {
					t.Errorf("asked at %s and due at %s", r.Requested, r.Due)
				}
				<-time.After(c.wait)
				seen := p.show(r.ID)
				_, err := p.desk.Approve(as(t, "cfo"), r.ID, approval.Decision{Digest: r.Call})
				now := p.show(r.ID)
				if !c.late {
					if err != nil || seen.State != approval.Requested || now.State != approval.Granted {
						t.Errorf("seen %s, then %s: %v", seen.State, now.State, err)
					}
					return
				}
				if e := (*approval.ExpiredError)(nil); !errors.As(err, &e) || !errors.Is(err, pawl.ErrExpired) || e.Grant || !e.At.Equal(r.Due) {
					t.Errorf("too late: %v", err)
				}
				if seen.State != approval.Expired || seen.Rev != 1 || now.State != approval.Expired || now.Rev != 2 || now.Unused == "" {
					t.Errorf("seen as %+v, then %+v", seen, now)
				}
				if got := p.trail("", "t"); got != "requested expired approve.refused" {
					t.Errorf("the trail is %q", got)
				}
				out := p.resume("t")
				if e := (*approval.ExpiredError)(nil); !errors.As(second(p.desk.Reject(as(t, "cfo"), r.ID, approval.Decision{})), &e) {
					t.Error("a request in whose place another is open was denied")
				}
				next := p.only(approval.Filter{State: approval.Requested})
				if out.Status != pawl.Waiting || len(out.Waiting) != 1 || next.ID == r.ID || next.N != 2 || out.Waiting[0].ID != next.Wait {
					t.Errorf("after it the thread is %s and asks %+v", out.Status, next)
				}
				p.approve(next, "cfo")
				if out := p.resume("t"); results(out) != "sent call-1" {
					t.Errorf("got %q", results(out))
				}
			})
		})
	}
}

// A no after the time is over is a no: it is stored as one, with who said it, beside the expiry, and remembered.
func TestALateNo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := (&shop{to: "finance", due: time.Hour}).open(t, memory(t), nil)
		r := p.ask("t", "call-1", "17")
		<-time.After(time.Hour)
		if e := (*approval.ForbiddenError)(nil); !errors.As(second(p.desk.Reject(pawl.WithActor(t.Context(), pawl.Actor{ID: "eve"}), r.ID, approval.Decision{})), &e) {
			t.Error("somebody else said no")
		}
		for range 2 { // said again, it stands
			no, err := p.desk.Reject(as(t, "cfo"), r.ID, approval.Decision{Reason: "no"})
			if err != nil || no.State != approval.Denied || no.By != "cfo" || no.Reason != "no" || !no.Decided.Equal(r.Due) {
				t.Fatalf("a late no: %+v, %v", no, err)
			}
		}
		if e := (*approval.DecidedError)(nil); !errors.As(second(p.desk.Approve(as(t, "cfo"), r.ID, approval.Decision{Digest: r.Call})), &e) {
			t.Error("a yes after the no")
		}
		if got := p.trail("", "t"); got != "requested expired reject.refused denied reject.repeated approve.refused" {
			t.Errorf("the trail is %q", got)
		}
		if out := p.resume("t"); out.Status == pawl.Waiting || len(p.list(approval.Filter{})) != 1 {
			t.Errorf("it was asked again: %+v", out)
		}
	})
}

// Nobody looked while it was due: lists show it as expired, and the thread asks anew without anybody's help.
func TestExpiryUnseen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := (&shop{due: time.Hour}).open(t, memory(t), nil)
		r := p.ask("t", "call-1", "17")
		<-time.After(2 * time.Hour)
		if n := len(p.list(approval.Filter{State: approval.Requested})); n != 0 {
			t.Errorf("%d requests are shown as open", n)
		}
		if got := p.only(approval.Filter{State: approval.Expired}); got.ID != r.ID || got.Unused == "" {
			t.Errorf("expired is %+v", got)
		}
		out := p.resume("t")
		if out.Status != pawl.Waiting || len(out.Waiting) != 1 || len(p.list(approval.Filter{State: approval.Expired})) != 1 {
			t.Errorf("after it the thread is %s, waiting for %+v", out.Status, out.Waiting)
		}
		if got := p.trail("", "t"); got != "requested expired requested" {
			t.Errorf("the trail is %q", got)
		}
		open, err := p.eng.Questions(t.Context(), 10)
		if err != nil || len(open) != 1 || open[0].ID != p.only(approval.Filter{State: approval.Requested}).Wait {
			t.Errorf("the open waits are %+v, %v", open, err)
		}
		if old, err := p.eng.FindQuestions(t.Context(), r.Wait, 1); err != nil || len(old) != 1 || old[0].State != "expired" {
			t.Errorf("the earlier wait is %+v, %v", old, err)
		}
	})
}

// In a list of one state, what ends first comes first and what never ends last.
func TestListsBeginWithWhatEndsFirst(t *testing.T) {
	t.Parallel()
	db := memory(t)
	var want []string
	for _, due := range []time.Duration{3 * time.Hour, time.Hour, 0, 2 * time.Hour} {
		p := (&shop{due: due}).open(t, db, nil)
		p.ask(due.String(), "call", due.String())
	}
	want = []string{"1h0m0s", "2h0m0s", "3h0m0s", "0s"}
	p := (&shop{}).open(t, db, nil)
	for _, f := range []approval.Filter{{State: approval.Requested}, {State: approval.Requested, Limit: 2}} {
		for i, r := range p.list(f) {
			if r.Thread != want[i] {
				t.Errorf("limit %d: place %d has %s, want %s", f.Limit, i, r.Thread, want[i])
			}
		}
	}
}

// A grant that is not used in time lapses, at the instant itself; the thread asks anew and cannot use the old one.
func TestAGrantLapses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		wait time.Duration
		late bool
	}{{"just in time", time.Hour - 1, false}, {"at the instant", time.Hour, true}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := (&shop{to: "finance", due: time.Hour}).open(t, memory(t), nil)
				r := p.ask("t", "call-1", "17")
				<-time.After(30 * time.Minute)
				p.approve(r, "cfo")
				if g := p.show(r.ID); !g.Until.Equal(g.Decided.Add(time.Hour)) {
					t.Errorf("granted at %s until %s", g.Decided, g.Until)
				}
				<-time.After(c.wait)
				if !c.late {
					if out := p.resume("t"); results(out) != "sent call-1" {
						t.Errorf("got %q", results(out))
					}
					return
				}
				seen := p.show(r.ID)
				err := p.db.Update(t.Context(), func(_ context.Context, tx storage.Tx) error {
					return approval.Consume(tx, "", r.ID, r.Call, r.Operation)
				})
				if e := (*approval.ExpiredError)(nil); !errors.As(err, &e) || !e.Grant || seen.State != approval.Lapsed || seen.Unused == "" {
					t.Errorf("shown as %+v, consumed with %v", seen, err)
				}
				if got := p.only(approval.Filter{State: approval.Lapsed}); got.ID != r.ID {
					t.Errorf("lapsed is %+v", got)
				}
				out := p.resume("t")
				next := p.only(approval.Filter{State: approval.Requested})
				if out.Status != pawl.Waiting || p.shop.sent.Load() != 0 || next.N != 2 || p.show(r.ID).Rev != seen.Rev+1 {
					t.Errorf("after it the thread is %s, sent %d, asks %+v", out.Status, p.shop.sent.Load(), next)
				}
				if got := p.trail("", "t"); got != "requested granted lapsed requested" {
					t.Errorf("the trail is %q", got)
				}
			})
		})
	}
}
