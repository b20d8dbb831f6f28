package approval_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/approval"
	"github.com/pawl-dev/pawl/storage"
)

// A grant serves one call of one operation, once.
func TestWhatAGrantCovers(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, db storage.DB) {
		p := (&shop{to: "finance"}).open(t, db, nil)
		open, no, yes, used := p.ask("open", "call-1", "1"), p.ask("no", "call-1", "2"), p.ask("yes", "call-1", "3"), p.ask("used", "call-1", "4")
		if _, err := p.desk.Reject(as(t, "cfo"), no.ID, approval.Decision{}); err != nil {
			t.Fatal(err)
		}
		p.approve(yes, "cfo")
		p.approve(used, "cfo")
		p.resume("used")
		for _, c := range []struct {
			name          string
			r             approval.Request
			call, op, why string
		}{
			{"not decided", open, "call-1", "op-1", "not a grant"},
			{"denied", no, "call-1", "op-2", "not a grant"},
			{"another call", yes, "call-2", "op-3", "for the call call-1 and not for call-2"},
			{"another operation", yes, "call-1", "op-1", "for operation op-3 and not for op-1"},
			{"used", used, "call-1", "op-4", "operation op-4 used it"},
		} {
			before := p.show(c.r.ID)
			err := p.db.Update(t.Context(), func(_ context.Context, tx storage.Tx) error {
				return approval.Consume(tx, "", c.r.ID, c.call, c.op)
			})
			e := (*approval.GrantError)(nil)
			if !errors.As(err, &e) || e.ID != c.r.ID || e.State != before.State || !strings.Contains(e.Error(), c.why) {
				t.Errorf("%s: %v", c.name, err)
			}
			if now := p.show(c.r.ID); now.Rev != before.Rev {
				t.Errorf("%s: it became %+v", c.name, now)
			}
			trail := p.trail("", c.r.Thread)
			p.update(func(tx storage.Tx) error { // a caller who takes the refusal as a result keeps its line
				if err := approval.Consume(tx, "", c.r.ID, c.call, c.op); !errors.As(err, &e) {
					t.Errorf("%s, again: %v", c.name, err)
				}
				return nil
			})
			if got := p.trail("", c.r.Thread); got != trail+" consume.refused" || p.show(c.r.ID).Rev != before.Rev {
				t.Errorf("%s: the trail was %q and is %q", c.name, trail, got)
			}
		}
		if out := p.resume("yes"); results(out) != "sent call-1" {
			t.Errorf("after refused uses the grant gave %q", results(out))
		}
	})
}

func TestTwoWorkersOneGrant(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, db storage.DB) {
		p := (&shop{}).open(t, db, nil)
		r := p.ask("t", "call", "1")
		p.approve(r, "cfo")
		var wg sync.WaitGroup
		var used atomic.Int64
		for range 8 {
			wg.Go(func() {
				err := db.Update(t.Context(), func(_ context.Context, tx storage.Tx) error {
					return approval.Consume(tx, "", r.ID, "call", "op-1")
				})
				if e := (*approval.GrantError)(nil); err == nil {
					used.Add(1)
				} else if !errors.As(err, &e) || e.State != approval.Consumed {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if used.Load() != 1 || p.trail("", "t") != "requested granted consumed" {
			t.Errorf("used %d times; the trail is %q", used.Load(), p.trail("", "t"))
		}
	})
}

// Proven not sent: the grant goes back to its own operation, while its time lasts.
func TestAGrantComesBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := (&shop{due: time.Hour}).open(t, memory(t), nil)
		r := p.ask("t", "call", "1")
		p.approve(r, "cfo")
		consume := func(tx storage.Tx) error { return approval.Consume(tx, "", r.ID, "call", "op-1") }
		back := func(op string) error {
			return p.db.Update(t.Context(), func(_ context.Context, tx storage.Tx) error {
				return approval.Return(tx, "", r.ID, op, "no connection")
			})
		}
		e := (*approval.GrantError)(nil)
		if err := back("op-1"); !errors.As(err, &e) || p.show(r.ID).State != approval.Granted {
			t.Errorf("one that was not used came back: %v", err)
		}
		p.update(consume)
		if err := back("op-2"); !errors.As(err, &e) || p.show(r.ID).State != approval.Consumed {
			t.Errorf("another operation gave it back: %v", err)
		}
		if err := back("op-1"); err != nil {
			t.Fatal(err)
		}
		if now := p.show(r.ID); now.State != approval.Granted || now.UsedBy != "" || now.By != "cfo" {
			t.Errorf("back it is %+v", now)
		}
		p.update(consume)
		<-time.After(time.Hour)
		if err := back("op-1"); err != nil {
			t.Fatal(err)
		}
		if now := p.show(r.ID); now.State != approval.Lapsed || now.UsedBy != "" || now.Unused != "no connection" || now.Rev != p.show(r.ID).Rev {
			t.Errorf("back too late it is %+v", now)
		}
		if got := p.trail("", "t"); got != "requested granted consumed returned consumed returned" {
			t.Errorf("the trail is %q", got)
		}
	})
}

// What is no longer needed ends with its reason: a grant unused, a request withdrawn. What ended stays as it is.
func TestEnds(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, db storage.DB) {
		for i, end := range []func(tx storage.Tx, tenant, id, why string) error{approval.Lapse, approval.Withdraw} {
			p := (&shop{}).open(t, db, nil)
			id := []string{"l", "w"}[i]
			open, yes, no := p.ask(id+"open", "call", id+"1"), p.ask(id+"yes", "call", id+"2"), p.ask(id+"no", "call", id+"3")
			p.approve(yes, "cfo")
			if _, err := p.desk.Reject(as(t, "cfo"), no.ID, approval.Decision{Reason: "no"}); err != nil {
				t.Fatal(err)
			}
			want := map[string]approval.State{open.ID: approval.Withdrawn, yes.ID: approval.Lapsed, no.ID: approval.Denied}
			for round := range 2 {
				for _, r := range []approval.Request{open, yes, no} {
					p.update(func(tx storage.Tx) error { return end(tx, "", r.ID, "duplicate of op-9") })
					now := p.show(r.ID)
					if now.State != want[r.ID] || (now.Unused == "duplicate of op-9") != (r.ID != no.ID) {
						t.Errorf("round %d: %s is %+v", round, r.Thread, now)
					}
				}
			}
			if got := p.trail("", id+"open") + "; " + p.trail("", id+"yes") + "; " + p.trail("", id+"no"); got !=
				"requested withdrawn; requested granted lapsed; requested denied" {
				t.Errorf("the trails are %q", got)
			}
			if l := p.last(id + "yes"); l.Reason != "duplicate of op-9" || l.Before != "granted" || l.After != "lapsed" {
				t.Errorf("the line is %+v", l)
			}
			lost := (*approval.DecidedError)(nil)
			if _, err := p.desk.Approve(as(t, "cfo"), open.ID, approval.Decision{Digest: "call"}); !errors.As(err, &lost) ||
				lost.State != approval.Withdrawn || lost.Reason != "duplicate of op-9" {
				t.Errorf("a withdrawn request: %v", err)
			}
		}
	})
}

// Two threads want one operation, each with its own request. When one settles it, the other's wait is answered, so that
// it can be resumed.
func TestOneOfTwoThreads(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, db storage.DB) {
		p := (&shop{}).open(t, db, nil)
		one, two, three := p.ask("one", "call", "1"), p.ask("two", "call", "1"), p.ask("three", "call", "1")
		if one.Operation != two.Operation || one.Task == two.Task || one.ID == two.ID || two.N != 2 || three.N != 3 {
			t.Fatalf("got %+v and %+v", one, two)
		}
		p.update(func(tx storage.Tx) error {
			newest, ok, err := approval.Of(tx, "", "op-1")
			mine, found, err2 := approval.OfTask(tx, "", "op-1", one.Task)
			if !ok || !found || newest.ID != three.ID || mine.ID != one.ID {
				t.Errorf("the newest is %+v, the first task's %+v", newest, mine)
			}
			_, ok, err3 := approval.Of(tx, "", "op-2")
			_, found, err4 := approval.OfTask(tx, "", "op-1", "another task")
			if ok || found {
				t.Error("a request was found that nobody made")
			}
			return errors.Join(err, err2, err3, err4)
		})
		p.approve(one, "cfo")
		p.approve(three, "cfo")
		p.resume("one")
		n := 0
		p.update(func(tx storage.Tx) (err error) {
			n, err = approval.EndOthers(tx, p.eng.AnswerTx, "", "op-1", one.ID, "duplicate of op-1, dispatched by thread one")
			return err
		})
		if a, b, c := p.show(one.ID), p.show(two.ID), p.show(three.ID); n != 2 || a.State != approval.Consumed ||
			b.State != approval.Withdrawn || c.State != approval.Lapsed || b.Unused != c.Unused || !strings.HasPrefix(b.Unused, "duplicate of op-1") {
			t.Errorf("%d ended: %+v, %+v, %+v", n, a, b, c)
		}
		st, err := p.g.Thread(p.eng, "two").State(t.Context())
		if err != nil || len(st.Waiting) != 0 {
			t.Errorf("the other thread still waits for %+v, %v", st.Waiting, err)
		}
		if open, err := p.eng.Questions(t.Context(), 10); err != nil || len(open) != 0 {
			t.Errorf("open: %+v, %v", open, err)
		}
		p.update(func(tx storage.Tx) (err error) {
			n, err = approval.EndOthers(tx, p.eng.AnswerTx, "", "op-1", one.ID, "again")
			return err
		})
		if n != 0 || p.show(two.ID).Unused == "again" {
			t.Errorf("%d ended twice", n)
		}
	})
}

// A wait that ended by itself is no obstacle to ending its request.
func TestEndOthersWithoutTheirThreads(t *testing.T) {
	t.Parallel()
	p := (&shop{}).open(t, memory(t), nil)
	gone, left := p.ask("gone", "call", "1"), p.ask("left", "call", "1")
	if err := errors.Join(p.g.Thread(p.eng, "gone").Delete(t.Context()), p.g.Thread(p.eng, "left").Cancel(t.Context(), "")); err != nil {
		t.Fatal(err)
	}
	p.update(func(tx storage.Tx) error {
		_, err := approval.EndOthers(tx, p.eng.AnswerTx, "", "op-1", "", "dropped")
		return err
	})
	for _, r := range []approval.Request{gone, left} {
		if now := p.show(r.ID); now.State != approval.Withdrawn || now.Unused != "dropped" {
			t.Errorf("%s: %+v", r.Thread, now)
		}
	}
}

// A branch that is left: its requests are withdrawn and its grants lapse, in one Update; the fork asks again.
func TestABranchIsLeft(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, db storage.DB) {
		s := &shop{}
		p := s.open(t, db, &pawl.Options{Parts: []pawl.Part{leaving{}}})
		r, other := p.ask("t", "call", "1"), p.ask("other", "call", "2")
		p.approve(r, "cfo")
		out, err := p.g.Thread(p.eng, "t").Replay(t.Context(), pawl.Before("pay"))
		if err != nil || out.Status != pawl.Waiting || len(out.Waiting) != 1 {
			t.Fatalf("got %+v, %v", out, err)
		}
		now, next := p.show(r.ID), p.only(approval.Filter{Thread: "t", State: approval.Requested})
		if now.State != approval.Lapsed || now.Unused != "left by replay" || next.N != 2 || next.Task == r.Task || out.Waiting[0].ID != next.Wait {
			t.Errorf("left behind: %+v; asked: %+v", now, next)
		}
		if p.show(other.ID).Rev != other.Rev {
			t.Error("another thread's request was touched")
		}
		out, err = p.g.Thread(p.eng, "t").Replay(t.Context(), pawl.Before("pay"))
		if err != nil || out.Status != pawl.Waiting || p.show(next.ID).State != approval.Withdrawn {
			t.Errorf("got %+v, %v, %+v", out, err, p.show(next.ID))
		}
		p.approve(p.only(approval.Filter{Thread: "t", State: approval.Requested}), "cfo")
		if out := p.resume("t"); results(out) != "sent call" {
			t.Errorf("got %q", results(out))
		}
	})
}

type leaving struct{}

func (leaving) Name() string   { return "leaving" }
func (leaving) Digest() string { return "" }
func (leaving) Verb(_ context.Context, tx storage.Tx, v pawl.VerbInfo) ([]pawl.Note, error) {
	if v.Verb != pawl.VerbReplay {
		return nil, nil
	}
	requests, grants, err := approval.EndThread(tx, v, "left by "+string(v.Verb))
	if err == nil && requests+grants != 1 {
		err = errors.New("a thread with one request has another number of them")
	}
	return nil, err
}
