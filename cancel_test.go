package pawl_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
)

// What Cancel reports is so: a failure that the cancelling brought about, or that came first, ends cancelled, and a run
// that ended well is not called cancelled.
func TestCancelTellsTheTruth(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		node    func(ctx context.Context) error
		options []pawl.NodeOption
		want    pawl.Status
	}{
		"between two tries": {
			func(context.Context) error { return errors.New("flaky") },
			[]pawl.NodeOption{pawl.Tries(2), pawl.Backoff(time.Hour, time.Hour)}, pawl.Cancelled,
		},
		"answered with another error": {
			func(ctx context.Context) error { <-ctx.Done(); return errors.New("connection closed") }, nil, pawl.Cancelled,
		},
		"answered with success": {func(ctx context.Context) error { <-ctx.Done(); return nil }, nil, pawl.Done},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			entered, over := make(chan struct{}, 2), make(chan struct{})
			th := single(t, func(ctx context.Context, _ *note) error {
				entered <- struct{}{}
				return c.node(ctx)
			}, c.options...).Thread(opened(t, hooked(t), nil), "t")
			go func() { defer close(over); _, _ = th.Run(context.Background(), nil) }()
			<-entered
			err := th.Cancel(t.Context(), "enough")
			<-over
			st := status(t, th)
			if st.Status != c.want || (err == nil) != (c.want == pawl.Cancelled) {
				t.Fatalf("cancel returned %v and the thread is %s", err, st.Status)
			}
			refused := (*pawl.VerbError)(nil)
			if c.want == pawl.Done && (!errors.As(err, &refused) || refused.Status != pawl.Done) {
				t.Errorf("a finished run: %v", err)
			}
		})
	}
}

// A request to cancel a run reaches that run or none: not the one that starts between looking and asking.
func TestCancelOfARunThatEnds(t *testing.T) {
	t.Parallel()
	home := hooked(t)
	entered, goOn := make(chan struct{}), make(chan struct{})
	g := single(t, func(ctx context.Context, _ *note) error {
		entered <- struct{}{}
		select {
		case <-goOn:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	first, second := g.Thread(opened(t, home.DB, nil), "t"), g.Thread(opened(t, home.DB, nil), "t")
	ended := make(chan error, 2)
	run := func(th *pawl.ThreadOf[note]) { _, err := th.Run(context.Background(), nil); ended <- err }
	go run(first)
	<-entered
	between := func() { // Cancel saw the first run and is about to ask
		goOn <- struct{}{}
		if err := <-ended; err != nil {
			t.Error(err)
		}
		go run(second)
		<-entered
	}
	home.before.Store(&between)
	refused := (*pawl.VerbError)(nil)
	if err := g.Thread(opened(t, home, nil), "t").Cancel(t.Context(), "the first"); !errors.As(err, &refused) || refused.Verb != pawl.VerbCancel {
		t.Errorf("cancel of a run that ended: %v", err)
	}
	goOn <- struct{}{}
	if err := <-ended; err != nil {
		t.Errorf("the second run: %v", err)
	}
}

// A thread is claimed a moment before its run can be reached: a request that comes in between is not lost.
func TestCancelAfterClaim(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		home := hooked(t)
		eng := opened(t, home, nil)
		g := single(t, func(ctx context.Context, _ *note) error { <-ctx.Done(); return ctx.Err() })
		th, busy := g.Thread(eng, "t"), g.Thread(eng, "busy")
		go func() { _, _ = busy.Run(context.Background(), nil) }() // keeps the engine's watch going
		synctest.Wait()
		cancelled := make(chan error, 1)
		claimed := func() {
			go func() {
				ctx, end := context.WithTimeout(context.Background(), time.Minute)
				defer end()
				cancelled <- th.Cancel(ctx, "enough")
			}()
			<-time.After(time.Second) // of the bubble: the watch has seen the request by then, and nobody to tell
		}
		home.after.Store(&claimed)
		go func() { _, _ = th.Run(context.Background(), nil) }()
		if err := <-cancelled; err != nil {
			t.Error(err)
		}
		_ = eng.Close()
	})
}
