package suite

import (
	"context"
	"fmt"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/effect"
	"github.com/pawl-dev/pawl/pawltest"
)

// namedEffects makes an effect of each name, by effects of their own or by one effect under references, and then waits.
func namedEffects(target *pawltest.Target, own bool, names ...string) (procedure, []pawl.Usable) {
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
	return func(ctx context.Context, _ string) (map[string]string, error) {
		got := map[string]string{}
		for _, name := range names {
			ref := effect.Ref("of", name)
			if own {
				ref = effect.Ref("of", "all")
			}
			r, err := effects[name].Do(ctx, ref, transfer{To: name, Amount: "1.00", Currency: "EUR"})
			if err != nil {
				return nil, err
			}
			got[name] = r.ID
		}
		_, err := say.Ask(ctx, "Go on?")
		return got, err
	}, uses
}

// effectsMoved pauses behind two effects and goes on under code that has others; refused is the first difference where
// it must not.
func effectsMoved(t *testing.T, h *home, in shape, own bool, names []string, refused string) {
	target, id := pawltest.NewTarget(pawltest.TargetOpaque), t.Name()
	channel := ""
	thread := func(names ...string) *pawl.Thread {
		calls, uses := namedEffects(target, own, names...)
		g, c, err := in(calls, uses...)
		if err != nil {
			t.Fatal(err)
		}
		eng := firmIn(t, h).eng
		if channel, err = c, eng.Register(g); err != nil {
			t.Fatal(err)
		}
		return eng.Thread("calls", id)
	}
	th := thread("A", "B")
	out, err := start(th)
	q := paused(t, out, err, 1)[0]
	before := history(t, th)
	saw(t, target, 2, 0, 2)

	th = thread(names...)
	out, err = resume(th, q.ID, "yes")
	if refused != "" {
		refusedFor(t, out, err, refused)
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
	finished(t, out, err, fmt.Sprintf(`{%q:%s}`, channel, compact(want)))
	atEnd(t, th, before)
}
