package pawl_test

import (
	"context"
	"errors"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/storage/fault"
)

// A death at any write of what moves or copies a thread leaves it as it was, or moved: never in between. Done again, it
// comes to the same end.
func TestMovesSurviveDeath(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	var calls []string
	before := oldShop(t, &calls)
	after := newShop(t, &calls, pawl.Migration{From: before.Digest(), Map: toScreen})
	for name, move := range map[string]func(th *pawl.ThreadOf[newOrder]) error{
		"migrate": func(th *pawl.ThreadOf[newOrder]) error { _, err := th.Migrate(ctx, because); return err },
		"there and back": func(th *pawl.ThreadOf[newOrder]) error {
			if standing(t, th).Head.Source != "migrate" {
				if _, err := th.Migrate(ctx, because); err != nil {
					return err
				}
			}
			if standing(t, th).Stranded {
				return nil // it is back
			}
			_, err := th.MigrateBack(ctx, because)
			return err
		},
		"copy": func(th *pawl.ThreadOf[newOrder]) error {
			_, err := th.Copy(ctx, "copy", pawl.Point{}, because)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			for n := 0; ; n++ {
				db := hooked(t)
				old, eng := opened(t, db, nil), opened(t, db, nil)
				if _, err := before.Thread(old, "t").Run(ctx, &oldOrder{Total: pawl.Of(7), Gone: pawl.Of("x")}); err != nil {
					t.Fatal(err)
				}
				mortal := fault.Wrap(db, fault.Plan{At: fault.At(n, fault.Stop())})
				died := move(after.Thread(opened(t, mortal, nil), "t"))
				th := after.Thread(eng, "t")
				st := standing(t, th)
				if stood, moved := st.Stranded && len(st.Waiting) == 1, st.Head.Source == "migrate" && len(st.Waiting) == 0; !stood && !moved {
					t.Fatalf("point %d: it stands in between: %+v", n, st)
				}
				if died == nil {
					if n < 1 {
						t.Error("no point was stopped at")
					}
					return
				}
				finish(t, name, n, move(th), th, before.Thread(old, "t"))
			}
		})
	}
}

// A death at any write of a force, too: done again, the thread goes on under the other graph, asked anew.
func TestForceSurvivesDeath(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	var saw []string
	before, after := gated(t, &saw), screened(t)
	for n := 0; ; n++ {
		db := hooked(t)
		if _, err := before.Thread(opened(t, db, nil), "t").Run(ctx, &note{}); err != nil {
			t.Fatal(err)
		}
		mortal := fault.Wrap(db, fault.Plan{At: fault.At(n, fault.Stop())})
		_, died := after.Thread(opened(t, mortal, nil), "t").Force(ctx, because)
		th := after.Thread(opened(t, db, nil), "t")
		st := standing(t, th)
		if stood, moved := st.Stranded && len(st.Waiting) == 1, st.Head.Source == "force" && len(st.Waiting) == 0; !stood && !moved {
			t.Fatalf("point %d: it stands in between: %+v", n, st)
		}
		if st.Stranded {
			if _, err := th.Force(ctx, because); err != nil {
				t.Fatalf("point %d: again: %v", n, err)
			}
		}
		out, err := th.Resume(ctx)
		if err == nil && out.Status == pawl.Waiting {
			out, err = th.Resume(ctx, gate.Answer(out.Waiting[0].ID, "yes"))
		}
		if err != nil || out.Status != pawl.Done {
			t.Fatalf("point %d: %+v, %v", n, out, err)
		}
		if died == nil {
			if n < 1 {
				t.Error("no point was stopped at")
			}
			return
		}
	}
}

// finish takes a thread to its end after a move was done again, which may say that it was done before.
func finish(t *testing.T, name string, n int, again error, th *pawl.ThreadOf[newOrder], old *pawl.ThreadOf[oldOrder]) {
	t.Helper()
	ctx := context.Background()
	switch name {
	case "migrate":
		if again != nil && !errors.As(again, new(*pawl.MigrationError)) {
			t.Fatalf("point %d: %v", n, again)
		}
		out, err := th.Resume(ctx)
		if err == nil {
			out, err = th.Resume(ctx, gate.Answer(out.Waiting[0].ID, "yes"))
		}
		if err != nil || string(out.Values) != `{"total":"7 EUR","log":["check","beside","screen","transfer yes"]}` {
			t.Fatalf("point %d: %s, %v", n, out.Values, err)
		}
		return
	case "there and back":
		if again != nil {
			t.Fatalf("point %d: %v", n, again)
		}
	case "copy":
		if st := standing(t, th.Thread); again != nil && st.Status != pawl.Waiting {
			t.Fatalf("point %d: %v; %+v", n, again, st)
		}
	}
	out, err := old.Resume(ctx)
	if err == nil {
		out, err = old.Resume(ctx, gate.Answer(out.Waiting[0].ID, "yes"))
	}
	if err != nil || string(out.Values) != `{"total":7,"log":["check","beside","old pay yes"],"gone":"x"}` {
		t.Fatalf("point %d: %s, %v", n, out.Values, err)
	}
}
