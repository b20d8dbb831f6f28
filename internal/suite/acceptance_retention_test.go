package suite

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/effect"
	"github.com/pawl-dev/pawl/pawltest"
)

// acceptanceRetention: what is kept, for how long, and what a backup does not know.
func acceptanceRetention() []scenario {
	return []scenario{
		{id: "A15", run: sweepAgainstReplay},
		{id: "A34", run: olderThanItsKey},
		{id: "A35", run: tooShort, flat: noGraph},
		{id: "A36", run: doubtOutlivesSweeps},
	}
}

const day = 24 * time.Hour

// forgetful keeps operations for thirty days.
var forgetful = effect.Options{Policy: "policy-1", Retention: effect.Retention{Operations: 30 * day, Checkpoints: 20 * day, Approvals: day, Pause: day}}

func (o *firm) sweep(t testing.TB) {
	t.Helper()
	if _, _, err := o.ledger.Due(o.eng, o.db).Due(context.Background(), 10_000); err != nil {
		t.Error(err)
	}
}

// sweepAgainstReplay is A15, the window W15: a sweep and a replay of what it sweeps, 1,000 times.
func sweepAgainstReplay(t *testing.T, _ *report) {
	synctest.Test(t, func(t *testing.T) {
		h, target := moneyHome(t, ""), pawltest.NewTarget(pawltest.TargetOpaque)
		o, other := firmAs(t, h, forgetful), firmAs(t, h, forgetful)
		g := atDepth(t, payGraph(wire(target)))
		n := times(t, 1000)
		for i := range n {
			out, err := g.Thread(o.eng, fmt.Sprint(i)).Run(t.Context(), orderFor(fmt.Sprint(i)))
			mustBeDone(t, out, err)
		}
		later(30 * day)
		var all sync.WaitGroup
		all.Go(func() { other.sweep(t) })
		ends := make([]string, n)
		for w := range 4 {
			all.Go(func() {
				for i := w; i < n; i += 4 {
					out, err := g.Thread(o.eng, fmt.Sprint(i)).Replay(context.Background(), pawl.Before("transfer"))
					var expired *effect.ExpiredError
					switch {
					case errors.As(err, &expired):
						ends[i] = "refused"
					case err == nil && out.Status == pawl.Done:
						ends[i] = "receipt"
					default:
						t.Errorf("round %d: %+v, %v", i, out, err)
					}
				}
			})
		}
		all.Wait()
		saw(t, target, n, 0, n)
		count := map[string]int{}
		for _, e := range ends {
			count[e]++
		}
		same(t, "ends", count["refused"]+count["receipt"], n)
		t.Log(count)
	})
}

// olderThanItsKey is A34: the checkpoint can be looked at, and a replay of it sends nothing.
func olderThanItsKey(t *testing.T, _ *report) {
	onEachClock(t, func(t *testing.T, h *home) {
		target, o := pawltest.NewTarget(pawltest.TargetOpaque), firmAs(t, h, forgetful)
		th := atDepth(t, payGraph(approvedWire(target))).Thread(o.eng, "t")
		o.paid(t, th, "17")
		before := history(t, th)
		later(30 * day)
		o.sweep(t)
		same(t, "operation", o.operation(t).State, effect.StateTombstone)
		out, err := th.Replay(t.Context(), beforeTransfer(t, th))
		var expired *effect.ExpiredError
		if !errors.As(err, &expired) || expired.Final != effect.StateCommitted {
			t.Fatalf("%+v, %v", out, err)
		}
		saw(t, target, 1, 0, 1)
		grew(t, before, history(t, th)) // still there to be looked at
		rows, err := audit.Of(context.Background(), o.db, "t1", o.operation(t).Key, 0)
		if err != nil || len(rows) == 0 {
			t.Fatal(err)
		}
		refused := false
		for _, r := range rows {
			refused = refused || r.Action == "effect.refused"
		}
		same(t, "the refusal is in the trail", refused, true)
	})
}

// tooShort is A35.
func tooShort(t *testing.T, _ *report) {
	for _, kept := range []time.Duration{0, day, 20 * day, 21 * day} {
		r := forgetful
		r.Retention.Operations = kept
		_, err := openFirmAs(moneyHome(t, "").open(t), "", r)
		var short *effect.RetentionError
		switch fine := kept == 0 || kept >= 21*day; { // checkpoints and a pause
		case fine && err != nil:
			t.Errorf("%v: %v", kept, err)
		case !fine && (!errors.As(err, &short) || short.Operations != kept || short.Reach != 21*day):
			t.Errorf("%v: %v", kept, err)
		case !fine:
			says(t, err.Error(), kept.String(), (21 * day).String())
		}
	}
}

// keysLiveLongEnough is S003-14.
func keysLiveLongEnough(t *testing.T, r *report) {
	t.Run("refused at start", func(t *testing.T) { tooShort(t, r) })
	t.Run("after its expiry", func(t *testing.T) { olderThanItsKey(t, r) })
	t.Run("never expires", func(t *testing.T) { doubtOutlivesSweeps(t, r) })
}

// doubtOutlivesSweeps is A36, over a simulated year.
func doubtOutlivesSweeps(t *testing.T, _ *report) {
	onEachClock(t, func(t *testing.T, h *home) {
		target, o := pawltest.NewTarget(pawltest.TargetOpaque), firmAs(t, h, forgetful)
		target.DropAt(pawltest.TargetCommitted, 1)
		th := atDepth(t, payGraph(wire(target))).Thread(o.eng, "t")
		same(t, "end", o.toEnd(t, th, "17"), "waits")
		for range 12 {
			later(31 * day)
			o.sweep(t)
			same(t, "operation", o.operation(t).State, effect.StateQuarantined)
			same(t, "end", o.toEnd(t, th, "17"), "waits")
		}
		saw(t, target, 1, 0, 1)
	})
}
