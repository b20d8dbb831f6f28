package suite

import (
	"context"
	"errors"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/effect"
	"github.com/pawl-dev/pawl/pawltest"
)

// namedEffects makes an effect of each name, by effects of their own or by one effect under references, and then waits.
func namedEffects(target *pawltest.Target, own bool, names ...string) *pawl.Builder[found] {
	effects := map[string]wiring{}
	uses := []pawl.Usable{say}
	for _, name := range names {
		switch {
		case own:
			effects[name] = wireAs(name, target)
			uses = append(uses, effects[name])
		case len(effects) == 0:
			effects[name] = wire(target)
			uses = append(uses, effects[name])
		default:
			effects[name] = effects[names[0]]
		}
	}
	return pawl.New[found]("effects").Node("calls", func(ctx context.Context, s *found) error {
		got := map[string]string{}
		for _, name := range names {
			ref := effect.Ref("of", name)
			if own {
				ref = effect.Ref("of", "all")
			}
			r, err := effects[name].Do(ctx, ref, transfer{To: name, Amount: "1.00", Currency: "EUR"})
			if err != nil {
				return err
			}
			got[name] = r.ID
		}
		if _, err := say.Ask(ctx, "Go on?"); err != nil {
			return err
		}
		for name, id := range got {
			s.Got.Set(name, id)
		}
		return nil
	}, pawl.Uses(uses...)).Edge(pawl.Start, "calls")
}

// effectsMoved pauses behind two effects and goes on under code that has others; refused is the first difference where
// it must not.
func effectsMoved(t *testing.T, h *home, own bool, names []string, refused string) {
	target, id := pawltest.NewTarget(pawltest.TargetOpaque), t.Name()
	old := firmIn(t, h)
	th := build(t, namedEffects(target, own, "A", "B")).Thread(old.eng, id)
	out, err := start(th.Thread)
	q := paused(t, out, err, 1)[0]
	before := history(t, th)
	saw(t, target, 2, 0, 2)

	now := firmIn(t, h)
	th = build(t, namedEffects(target, own, names...)).Thread(now.eng, id)
	out, err = resume(th.Thread, q.ID, "yes")
	if refused != "" {
		if v := (*pawl.VersionError)(nil); !errors.As(err, &v) || v.First != `declared uses of node "calls": `+refused {
			t.Fatalf("outcome %v, error %v; want %s", out, err, refused)
		}
		saw(t, target, 2, 0, 2)
		same(t, "history", history(t, th), before)
		return
	}
	// Each name has the receipt of its own row, and what is new ran once.
	rows, want := 2, map[string]string{}
	for _, name := range names {
		if name == "zero" {
			rows++
		}
		for _, row := range target.Rows() {
			if row.Body == compact(transfer{To: name, Amount: "1.00", Currency: "EUR"}) {
				want[name] = row.ID
			}
		}
	}
	saw(t, target, rows, 0, rows)
	same(t, "names with a row", len(want), len(names))
	finished(t, out, err, `{"got":`+compact(want)+`}`)
	atEnd(t, th.Thread, before)
}
