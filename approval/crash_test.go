package approval_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/approval"
	"github.com/pawl-dev/pawl/storage"
	"github.com/pawl-dev/pawl/storage/fault"
)

// The process of the desk dies before and after every durable write of a decision. Who was told "granted" finds it
// stored; who was not told asks again and is told; the call is made once.
func TestTheDeskDies(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, db storage.DB) {
		for _, reject := range []bool{false, true} {
			decide := func(home storage.DB, r approval.Request) (*approval.Request, error) {
				desk := (&shop{to: "finance"}).open(t, home, nil).desk
				if reject {
					return desk.Reject(as(t, "cfo"), r.ID, approval.Decision{Reason: "no"})
				}
				return desk.Approve(as(t, "cfo"), r.ID, approval.Decision{Digest: r.Call})
			}
			p := (&shop{to: "finance"}).open(t, db, nil)
			name := func(n int) string { return fmt.Sprintf("%t-%d", reject, n) }
			whole := fault.Wrap(db, fault.Plan{})
			if _, err := decide(whole, p.ask(name(-1), "call", name(-1))); err != nil {
				t.Fatal(err)
			}
			points := whole.Calls()
			if points < 2 {
				t.Fatalf("a decision passes %d points", points)
			}
			for n := range points {
				for what, action := range map[string]fault.Action{"dies": fault.Stop(), "fails": fault.Fail(errors.New("a bad disk"))} {
					thread := name(n) + what
					r := p.ask(thread, "call", thread)
					home := fault.Wrap(db, fault.Plan{At: fault.At(n, action)})
					got, err := decide(home, r)
					home.Stop()
					now := p.show(r.ID)
					decided := now.State == approval.Granted || now.State == approval.Denied
					if err == nil && (!decided || got.State != now.State || got.Rev != now.Rev) {
						t.Errorf("%s: told %+v, and stored is %+v", thread, got, now)
					}
					if err == nil && what == "dies" {
						t.Errorf("%s: a dead process said yes", thread)
					}
					if unknown := (*storage.UnknownError)(nil); decided && err != nil && !errors.As(err, &unknown) {
						t.Errorf("%s: it is %s, and the sender was told that nothing happened: %v", thread, now.State, err)
					}
					if _, err := decide(db, r); err != nil {
						t.Errorf("%s: sent again: %v", thread, err)
					}
					want := map[bool]string{false: "sent call", true: "denied: no"}[reject]
					if out := p.resume(thread); out.Status != pawl.Done || results(out) != want {
						t.Errorf("%s: the thread is %s and says %q", thread, out.Status, results(out))
					}
					verdict := map[bool]string{false: "granted", true: "denied"}[reject]
					if trail := p.trail("", thread); strings.Count(trail, verdict) != 1 {
						t.Errorf("%s: the trail is %q", thread, trail)
					}
				}
			}
		}
	})
}

// The worker dies at every durable write of the whole story. Somebody is asked once, and the grant is used once.
func TestTheWorkerDies(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, db storage.DB) {
		healthy := (&shop{to: "finance"}).open(t, db, nil)
		story := func(home storage.DB, thread string) error {
			p := (&shop{to: "finance"}).open(t, home, nil)
			th := p.g.Thread(p.eng, thread)
			if _, err := th.Run(t.Context(), &state{Call: pawl.Of("call"), Ref: pawl.Of(thread)}); err != nil {
				return err
			}
			list, err := p.desk.List(t.Context(), approval.Filter{Thread: thread})
			if err != nil {
				return err
			}
			if _, err := p.desk.Approve(as(t, "cfo"), list[0].ID, approval.Decision{Digest: "call"}); err != nil {
				return err
			}
			_, err = th.Resume(t.Context())
			return err
		}
		whole := fault.Wrap(db, fault.Plan{})
		if err := story(whole, "whole"); err != nil {
			t.Fatal(err)
		}
		points := whole.Calls()
		if points < 8 {
			t.Fatalf("the story passes %d points", points)
		}
		for n := range points {
			thread := fmt.Sprint("died-", n)
			home := fault.Wrap(db, fault.Plan{At: fault.At(n, fault.Stop())})
			_ = story(home, thread)
			home.Stop()
			finish(t, healthy, thread)
			r := healthy.only(approval.Filter{Thread: thread})
			if r.State != approval.Consumed || r.By != "cfo" {
				t.Errorf("point %d: the request is %+v", n, r)
			}
			if got := healthy.trail("", thread); got != "requested granted consumed" {
				t.Errorf("point %d: the trail is %q", n, got)
			}
		}
	})
}

// finish does what is still to be done of a thread whose worker died.
func finish(t *testing.T, p *place, thread string) {
	t.Helper()
	th := p.g.Thread(p.eng, thread)
	for range 5 {
		st, err := th.State(t.Context())
		if errors.Is(err, pawl.ErrNotFound) || err == nil && st.Status == pawl.StatusNew {
			_, err = th.Run(t.Context(), &state{Call: pawl.Of("call"), Ref: pawl.Of(thread)})
		} else if err == nil && st.Status == pawl.Done {
			return
		} else if err == nil {
			for _, r := range p.list(approval.Filter{Thread: thread, State: approval.Requested}) {
				p.approve(r, "cfo")
			}
			_, err = th.Resume(t.Context())
		}
		if err != nil {
			t.Fatalf("%s: %v", thread, err)
		}
	}
	t.Errorf("%s does not end", thread)
}

// A full disk: nothing is decided, and the sender is told so.
func TestADeskThatCannotWrite(t *testing.T) {
	t.Parallel()
	db := memory(t)
	p := (&shop{to: "finance"}).open(t, db, nil)
	r := p.ask("t", "call", "1")
	home := fault.Wrap(db, fault.Plan{At: func(pt fault.Point) fault.Action {
		if pt.Place == fault.Before {
			return fault.Fail(storage.ErrFull)
		}
		return fault.Action{}
	}})
	desk := approval.NewDesk(p.eng, home)
	if got, err := desk.Approve(as(t, "cfo"), r.ID, approval.Decision{Digest: "call"}); got != nil || !errors.Is(err, storage.ErrFull) {
		t.Errorf("got %+v, %v", got, err)
	}
	ended, cancel := context.WithCancel(as(t, "cfo"))
	cancel()
	if got, err := p.desk.Approve(ended, r.ID, approval.Decision{Digest: "call"}); got != nil || err == nil {
		t.Errorf("under a context that ended: %+v, %v", got, err)
	}
	if now := p.show(r.ID); now.State != approval.Requested || p.trail("", "t") != "requested" {
		t.Errorf("it is %s, the trail %q", now.State, p.trail("", "t"))
	}
}
