package suite

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/storage"
	"github.com/pawl-dev/pawl/storage/fault"
)

// TestADiskThatWasFull: a process whose writes fail for a while cannot even let its thread go. Once there is room again
// the thread is not held by a run that is over.
func TestADiskThatWasFull(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, h *home) {
		var full atomic.Bool
		db := fault.Wrap(h.open(t), fault.Plan{At: func(p fault.Point) fault.Action {
			if p.Place == fault.Before && full.Load() {
				return fault.Fail(storage.ErrFull)
			}
			return fault.Action{}
		}})
		l := newLedger(t)
		g := build(t, pawl.New[mortalState]("full").
			Node("a", func(ctx context.Context, s *mortalState) error {
				_, err := pawl.Step(ctx, "call", func(context.Context) (string, error) { l.add("call"); return "", nil })
				full.Store(l.count("b") == 0 && err == nil)
				return err
			}).
			Node("b", func(context.Context, *mortalState) error { l.add("b"); return nil }).
			Path(pawl.Start, "a", "b"))
		eng := engine(t, db, nil, g)
		th := g.Thread(eng, "t")
		if _, err := th.Run(t.Context(), &mortalState{}); !errors.Is(err, storage.ErrFull) {
			t.Fatalf("a run on a full disk: %v", err)
		}
		full.Store(false)
		l.add("b")
		other := g.Thread(engine(t, h.open(t), nil, g), "t")
		eventually(t, db, func() bool { return statusOf(t, th).Status == pawl.Crashed })
		same(t, "status, seen by another", statusOf(t, other).Status, pawl.Crashed)
		out, err := other.Resume(t.Context())
		if err != nil || out.Status != pawl.Done {
			t.Fatalf("resumed by another: %v, %v", out, err)
		}
		same(t, "calls", l.count("call"), 1)
	})
}

// eventually waits for what a change of the home brings about.
func eventually(t *testing.T, db storage.DB, what func() bool) {
	t.Helper()
	late := time.After(time.Minute)
	for {
		now, _ := db.Changed(0)
		if what() {
			return
		}
		_, wake := db.Changed(now)
		select {
		case <-wake:
		case <-late:
			t.Fatal("it did not come about in a minute")
		}
	}
}
