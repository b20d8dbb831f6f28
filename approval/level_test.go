package approval_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/approval"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/storage"
)

// chain asks finance for an hour, then the boss as well, then nobody: no.
func chain() approval.Levels {
	return approval.Levels{{To: "finance", For: time.Hour}, {To: "boss", For: time.Hour, Valid: 10 * time.Minute}}
}

func boss(t testing.TB) context.Context {
	return pawl.WithActor(t.Context(), pawl.Actor{ID: "boss", Kind: "person"})
}

// after lets time pass inside a bubble.
func after(d time.Duration) { <-time.After(d) }

// Who may decide at which instant: a level joins those before it at its own time and not a nanosecond earlier, and at the
// final timeout nobody may.
func TestLevelsInTime(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name            string
		at              time.Duration
		finance, bosses string // words of the refusal; empty: may decide
		word            string
		asked           string
	}{
		{"at once", 0, "", `level 2, for "boss", is not reached; it is asked from 2000-01-01T01:00:00Z on`, "Waiting", "[finance]"},
		{"just before the escalation", time.Hour - 1, "", "is not reached", "Waiting", "[finance]"},
		{"at the escalation", time.Hour, "", "", "Escalated", "[finance boss]"},
		{"just before the end", 2*time.Hour - 1, "", "", "Escalated", "[finance boss]"},
		{"at the end", 2 * time.Hour, "was to be decided by 2000-01-01T02:00:00Z", "was to be decided by", "Expired", "[finance boss]"},
		{"a day later", 26 * time.Hour, "was to be decided by", "was to be decided by", "Expired", "[finance boss]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := (&shop{levels: chain()}).open(t, memory(t), nil)
				one, two := p.ask("one", "call", "1"), p.ask("two", "call", "2")
				if !one.Due.Equal(one.Requested.Add(2*time.Hour)) || one.To != "finance" || one.Level != 1 {
					t.Errorf("asked as %+v", one)
				}
				after(c.at)
				if r := p.show(one.ID); r.Word() != c.word || fmt.Sprint(r.Asked()) != c.asked {
					t.Errorf("shown as %s, asked %v", r.Word(), r.Asked())
				}
				for _, d := range []struct {
					r    approval.Request
					who  context.Context
					says string
				}{{one, as(t, "ann"), c.finance}, {two, boss(t), c.bosses}} {
					_, err := p.desk.Approve(d.who, d.r.ID, approval.Decision{Digest: d.r.Call})
					if (err == nil) != (d.says == "") || err != nil && !strings.Contains(err.Error(), d.says) {
						t.Errorf("%s: %v, want %q", d.r.Thread, err, d.says)
					}
				}
			})
		})
	}
}

// The two clocks: a request's and a grant's, which the level that said yes sets. Both end at the second itself.
func TestTheGrantHasItsOwnClock(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		who   func(testing.TB) context.Context
		valid time.Duration
	}{
		{"as long as the level", func(t testing.TB) context.Context { return as(t, "ann") }, time.Hour},
		{"its own", boss, 10 * time.Minute},
	} {
		for _, late := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, late %t", c.name, late), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					p := (&shop{levels: chain()}).open(t, memory(t), nil)
					r := p.ask("t", "call", "1")
					after(90 * time.Minute)
					g, err := p.desk.Approve(c.who(t), r.ID, approval.Decision{Digest: r.Call})
					if err != nil || !g.Until.Equal(g.Decided.Add(c.valid)) {
						t.Fatalf("got %+v, %v", g, err)
					}
					after(c.valid - time.Second)
					if late {
						after(time.Second)
					}
					out := p.resume("t")
					if used := out.Status == pawl.Done; used == late {
						t.Errorf("the thread is %s", out.Status)
					}
				})
			})
		}
	}
}

// Nobody answers. The same records are there, with the same times, whether a timer was awake or nobody was.
func TestEscalationIsWrittenOnce(t *testing.T) {
	t.Parallel()
	trails := map[string]string{}
	for _, how := range []string{"a timer each minute", "two timers", "a look at the end", "the task at the end"} {
		synctest.Test(t, func(t *testing.T) {
			p := (&shop{levels: chain()}).open(t, memory(t), nil)
			r := p.ask("t", "call", "1")
			timers := []*approval.Timer{approval.NewTimer(p.eng, p.db), approval.NewTimer(p.eng, p.db)}
			if timers[0].Name() != "approvals" {
				t.Errorf("it is called %q", timers[0].Name())
			}
			switch how {
			case "a look at the end":
				after(3 * time.Hour)
				if _, err := p.desk.Show(as(t, "eve"), r.ID); err != nil {
					t.Fatal(err)
				}
			case "the task at the end":
				after(3 * time.Hour)
				p.resume("t")
			default:
				if how == "a timer each minute" {
					timers = timers[:1]
				}
				wrote := 0
				for range 180 {
					after(time.Minute)
					for _, timer := range timers {
						n, next, err := timer.Due(t.Context(), 10)
						if err != nil || n == 0 && next.IsZero() && time.Since(r.Requested) < 2*time.Hour {
							t.Fatalf("%d, %s, %v", n, next, err)
						}
						wrote += n
					}
				}
				if wrote != 2 {
					t.Errorf("%s: %d events", how, wrote)
				}
			}
			rows, err := audit.Of(t.Context(), p.db, "", "op-1", 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, row := range rows {
				if a := row.Action; a == "approval.escalated" || a == "approval.expired" {
					trails[how] += a + " " + row.Reason + "\n"
				}
			}
		})
	}
	want := "approval.escalated nobody decided by 2000-01-01T01:00:00Z: level 2, \"boss\", is asked too, until 2000-01-01T02:00:00Z\n" +
		"approval.expired nobody decided by 2000-01-01T02:00:00Z\n"
	for how, got := range trails {
		if got != want {
			t.Errorf("%s: %s", how, got)
		}
	}
	if len(trails) != 4 {
		t.Errorf("%d ways", len(trails))
	}
}

// A timer does what is due, as much as it may, says when to come back, and sees its own tenant.
func TestTimer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		onBoth := (&shop{levels: chain()}).open(t, memory(t), nil)
		p := onBoth
		timer, other := approval.NewTimer(p.eng, p.db), approval.NewTimer(p.eng.Tenant("other"), p.db)
		if n, next, err := timer.Due(t.Context(), 0); n != 0 || !next.IsZero() || err != nil {
			t.Errorf("with nothing asked: %d, %s, %v", n, next, err)
		}
		var last approval.Request
		for i := range 3 {
			last = p.ask(fmt.Sprint(i), "call", fmt.Sprint(i))
		}
		if n, next, err := timer.Due(t.Context(), 0); n != 0 || !next.Equal(last.Requested.Add(time.Hour)) || err != nil {
			t.Errorf("early: %d, %s, %v", n, next, err)
		}
		after(time.Hour)
		if n, _, err := other.Due(t.Context(), 0); n != 0 || err != nil {
			t.Errorf("another tenant's did %d, %v", n, err)
		}
		for _, want := range []int{2, 1, 0} {
			if n, _, err := timer.Due(t.Context(), 2); n != want || err != nil {
				t.Errorf("did %d, %v, want %d", n, err, want)
			}
		}
		if _, err := p.desk.Approve(boss(t), last.ID, approval.Decision{Digest: "call"}); err != nil {
			t.Fatal(err)
		}
		if n, next, err := timer.Due(t.Context(), 0); n != 0 || !next.Equal(time.Now().Add(10*time.Minute)) || err != nil {
			t.Errorf("with a grant: %d, %s, %v", n, next, err)
		}
		after(10 * time.Minute)
		if n, _, err := timer.Due(t.Context(), 0); n != 1 || err != nil {
			t.Errorf("the grant's end: %d, %v", n, err)
		}
		if row := stored(t, p.db, last.ID); row.Fields[4] != "lapsed" {
			t.Errorf("it is stored as %v", row.Fields)
		}
	})
}

// Who started a run may refuse what it asks for and not approve it, unless the level says so; forks and retries by others do
// not wash that off. Where nobody is known, nobody is kept out.
func TestNobodyApprovesTheirOwn(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, db storage.DB) {
		own := (&shop{levels: approval.Levels{{To: "finance"}}}).open(t, db, nil)
		self := (&shop{levels: approval.Levels{{To: "finance", Self: true}}}).open(t, db, nil)
		start := func(p *place, ctx context.Context, thread string) approval.Request {
			out, err := p.g.Thread(p.eng, thread).Run(ctx, &state{Call: pawl.Of("call"), Ref: pawl.Of(thread)})
			if err != nil || out.Status != pawl.Waiting {
				t.Fatalf("%s: %+v, %v", thread, out, err)
			}
			return p.only(approval.Filter{Thread: thread, State: approval.Requested})
		}
		yes := func(p *place, who string, r approval.Request) error {
			return second(p.desk.Approve(as(t, who), r.ID, approval.Decision{Digest: r.Call}))
		}
		refused := func(what string, err error) {
			t.Helper()
			if e := (*approval.ForbiddenError)(nil); !errors.As(err, &e) || !strings.Contains(e.Why, "they started the run") {
				t.Errorf("%s: %v", what, err)
			}
		}
		r := start(own, as(t, "ann"), "own")
		refused("the starter", yes(own, "ann", r))
		if err := yes(own, "bob", r); err != nil {
			t.Error(err)
		}
		r = start(own, as(t, "ann"), "forked")
		if _, err := own.g.Thread(own.eng, "forked").Replay(as(t, "bob"), pawl.Before("pay")); err != nil {
			t.Fatal(err)
		}
		if old := own.show(r.ID); old.State == approval.Requested {
			t.Log("the branch left behind keeps its request: no part ends it here")
			own.update(func(tx storage.Tx) error { return approval.Withdraw(tx, "", r.ID, "left") })
		}
		r = own.only(approval.Filter{Thread: "forked", State: approval.Requested})
		refused("who started what was forked", yes(own, "ann", r))
		refused("who forked it", yes(own, "bob", r))
		if err := yes(own, "carl", r); err != nil {
			t.Error(err)
		}
		r = start(own, as(t, "ann"), "no")
		if err := second(own.desk.Reject(as(t, "ann"), r.ID, approval.Decision{})); err != nil {
			t.Errorf("the starter's no: %v", err)
		}
		if err := yes(self, "ann", start(self, as(t, "ann"), "allowed")); err != nil {
			t.Errorf("a level that allows it: %v", err)
		}
		if err := yes(own, "ann", start(own, t.Context(), "nobody")); err != nil {
			t.Errorf("nobody started it: %v", err)
		}
		service := pawl.WithActor(t.Context(), pawl.Actor{ID: "bot", Groups: []string{"finance"}, Kind: "service"})
		r = start(own, t.Context(), "service")
		if e := (*approval.ForbiddenError)(nil); !errors.As(second(own.desk.Approve(service, r.ID, approval.Decision{Digest: r.Call})), &e) {
			t.Error("a service approved")
		}
	})
}

// An actor grants no faster than the level allows; a no is never too fast, and another actor is not held up.
func TestRate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := (&shop{levels: approval.Levels{{To: "finance", Rate: approval.Rate{N: 2, Per: time.Hour}}}}).open(t, memory(t), nil)
		var rs []approval.Request
		for i := range 6 {
			rs = append(rs, p.ask(fmt.Sprint(i), "call", fmt.Sprint(i)))
		}
		yes := func(who string, i int) error {
			return second(p.desk.Approve(as(t, who), rs[i].ID, approval.Decision{Digest: "call"}))
		}
		if err := errors.Join(yes("ann", 0), yes("ann", 0), yes("ann", 1)); err != nil {
			t.Fatal(err)
		}
		e := (*approval.RateError)(nil)
		if err := yes("ann", 2); !errors.As(err, &e) || e.Actor != "ann" || e.Frees.IsZero() || !strings.Contains(err.Error(), "2 requests within 1h") {
			t.Fatalf("a third: %v", err)
		}
		if now := p.show(rs[2].ID); now.State != approval.Requested || p.trail("", "2") != "requested approve.refused" {
			t.Errorf("it is %+v; the trail is %s", now, p.trail("", "2"))
		}
		if err := errors.Join(second(p.desk.Reject(as(t, "ann"), rs[3].ID, approval.Decision{})), yes("bob", 2)); err != nil {
			t.Error(err)
		}
		after(time.Until(e.Frees) - time.Second)
		if err := yes("ann", 4); !errors.As(err, &e) {
			t.Errorf("a second early: %v", err)
		}
		after(time.Second)
		if err := yes("ann", 4); err != nil {
			t.Errorf("at the second: %v", err)
		}
	})
}

func TestWords(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		r    approval.Request
		want string
	}{
		{approval.Request{State: approval.Requested, Level: 1}, "Waiting"},
		{approval.Request{State: approval.Requested, Level: 2}, "Escalated"},
		{approval.Request{State: approval.Granted}, "Approved"},
		{approval.Request{State: approval.Consumed}, "Approved"},
		{approval.Request{State: approval.Consumed, Editor: "ann"}, "Approved with changes"},
		{approval.Request{State: approval.Denied}, "Rejected"},
		{approval.Request{State: approval.Expired}, "Expired"},
		{approval.Request{State: approval.Lapsed}, "Expired"},
		{approval.Request{State: approval.Superseded}, "Withdrawn"},
		{approval.Request{State: approval.Revoked}, "Withdrawn"},
		{approval.Request{State: approval.Withdrawn}, "Withdrawn"},
	} {
		if got := c.r.Word(); got != c.want {
			t.Errorf("%s: %q, want %q", c.r.State, got, c.want)
		}
	}
}
