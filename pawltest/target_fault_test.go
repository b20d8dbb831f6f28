package pawltest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/pawltest"
)

// What each fault does to the first request, and to the same one again.
func TestTargetFaults(t *testing.T) {
	t.Parallel()
	failed := func(err error) bool {
		status := (*pawltest.TargetStatusError)(nil)
		return errors.As(err, &status) && status.Status == 500
	}
	ok := func(err error) bool { return err == nil }
	for _, c := range []struct {
		name  string
		mode  pawltest.TargetMode
		fault pawltest.TargetFault
		first func(error) bool
		rows  int // after the first request
		again int // after the second one
	}{
		{"500 before", pawltest.TargetKeys, pawltest.TargetFault{At: pawltest.TargetReceived, Times: 1, Status: 500}, failed, 0, 1},
		{"500 after the commit", pawltest.TargetKeys, pawltest.TargetFault{At: pawltest.TargetCommitted, Times: 1, Status: 500}, failed, 1, 1},
		{"500 after the commit, opaque", pawltest.TargetOpaque, pawltest.TargetFault{At: pawltest.TargetCommitted, Times: 1, Status: 500}, failed, 1, 2},
		{"duplicate-prone", pawltest.TargetKeys, pawltest.TargetFault{At: pawltest.TargetCommitted, Times: 1, Twice: true}, ok, 2, 2},
		{"slow", pawltest.TargetKeys, pawltest.TargetFault{At: pawltest.TargetReceived, Times: 1, Delay: time.Millisecond}, ok, 1, 1},
	} {
		for _, where := range []string{"in process", "over HTTP"} {
			t.Run(c.name+", "+where, func(t *testing.T) {
				t.Parallel()
				target := pawltest.NewTarget(c.mode)
				var s sender = target
				if where == "over HTTP" {
					at := target.Serve(t)
					if err := at.Fault(t.Context(), c.fault); err != nil {
						t.Fatal(err)
					}
					s = at
				} else {
					target.Fault(c.fault)
				}
				if _, err := s.Send(t.Context(), "k", "r", nil); !c.first(err) || target.Count().Rows != c.rows {
					t.Errorf("the first: %v, %s", err, target.Count())
				}
				if _, err := s.Send(t.Context(), "k", "r", nil); err != nil || target.Count().Rows != c.again {
					t.Errorf("the second: %v, %s", err, target.Count())
				}
				ids := map[string]bool{}
				for _, r := range target.Rows() {
					ids[r.ID] = true
				}
				if len(ids) != c.again {
					t.Errorf("%d receipts of %d rows", len(ids), c.again)
				}
			})
		}
	}
}

// A target with a short retention takes an old key for a new one.
func TestATargetForgetsKeys(t *testing.T) {
	t.Parallel()
	for _, where := range []string{"in process", "over HTTP"} {
		target := pawltest.NewTarget(pawltest.TargetKeys)
		c := target.Serve(t)
		forget := func() error { target.Forget(); return nil }
		if where == "over HTTP" {
			forget = func() error { return c.Fault(t.Context(), pawltest.TargetFault{Forget: true}) }
		}
		send := func() string {
			id, err := c.Send(t.Context(), "k", "r", nil)
			if err != nil {
				t.Fatal(err)
			}
			return id
		}
		first := send()
		if send() != first {
			t.Error("the key is not known")
		}
		if err := forget(); err != nil {
			t.Fatal(err)
		}
		second := send()
		if second == first || send() != second || target.Count().Rows != 2 {
			t.Errorf("%s: %q after %q, %s", where, second, first, target.Count())
		}
	}
}

// Look-ups that lag behind say absent of what is there, so often.
func TestATargetsLookUpsLag(t *testing.T) {
	t.Parallel()
	target := pawltest.NewTarget(pawltest.TargetLookup)
	c := target.Serve(t)
	if err := c.Fault(t.Context(), pawltest.TargetFault{At: pawltest.TargetAsked, Times: 2}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Send(t.Context(), "", "r", nil); err != nil {
		t.Fatal(err)
	}
	for i, want := range []bool{false, false, true, true} {
		if _, found, err := c.Find(t.Context(), "r"); err != nil || found != want {
			t.Errorf("look-up %d: found %v, %v", i, found, err)
		}
	}
}

// A slow target is waited for no longer than the sender has.
func TestASlowTargetIsNotWaitedForLonger(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		target := pawltest.NewTarget(pawltest.TargetOpaque)
		target.Fault(pawltest.TargetFault{At: pawltest.TargetCommitted, Times: 2, Delay: time.Minute})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		_, err := target.Send(ctx, "", "r", nil)
		if !errors.Is(err, pawltest.ErrTargetDropped) || !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		if _, err := target.Send(t.Context(), "", "r", nil); err != nil || time.Since(began) != time.Minute+time.Second || target.Count().Rows != 2 {
			t.Errorf("%v after %v, %s", err, time.Since(began), target.Count())
		}
	})
}
