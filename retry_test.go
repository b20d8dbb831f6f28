package pawl_test

import (
	"context"
	"errors"
	"testing"

	"github.com/pawl-dev/pawl"
)

// A fork starts in the middle of a run, so its retry goes on under an equal graph only.
func TestRetryOfForkUnderOtherVersion(t *testing.T) {
	t.Parallel()
	home := hooked(t)
	var ran []int
	version := func(n int) *pawl.ThreadOf[note] {
		g := built(t, pawl.New[note]("g").Node("a", func(context.Context, *note) error { return nil }).
			Node("b", func(context.Context, *note) error { ran = append(ran, n); return errors.New("no luck") }, pawl.Version(n)).
			Path(pawl.Start, "a", "b"))
		return g.Thread(opened(t, home, nil), "t")
	}
	before, after := version(1), version(2)
	if _, err := before.Run(t.Context(), nil); err == nil {
		t.Fatal("the run ended well")
	}
	if _, err := before.Replay(t.Context(), pawl.Before("b")); err == nil {
		t.Fatal("the replay ended well")
	}
	refused := (*pawl.VersionError)(nil)
	if _, err := after.Retry(t.Context()); !errors.As(err, &refused) || len(ran) != 2 {
		t.Errorf("retry under another version: %v; versions that ran: %v", err, ran)
	}
	if _, err := before.Retry(t.Context()); err == nil || len(ran) != 3 {
		t.Errorf("retry under its own version: %v; versions that ran: %v", err, ran)
	}
}

// A retry's history begins with the state before the input and leads into no attempt that was set aside, also where
// its first checkpoints were never written.
func TestRetryHasNoParent(t *testing.T) {
	t.Parallel()
	for _, mode := range []pawl.Durability{pawl.Sync, pawl.Async, pawl.Exit} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			fail := false
			g := built(t, pawl.New[note]("g").Node("a", func(context.Context, *note) error { return nil }).
				Node("b", func(context.Context, *note) error {
					if fail {
						return errors.New("no luck")
					}
					return nil
				}).Path(pawl.Start, "a", "b"))
			th := g.Thread(opened(t, hooked(t), nil), "t")
			first, err := th.Run(t.Context(), nil, pawl.WithDurability(mode))
			if err != nil {
				t.Fatal(err)
			}
			fail = true
			if _, err := th.Run(t.Context(), nil, pawl.WithDurability(mode)); err == nil {
				t.Fatal("the second run ended well")
			}
			fail = false
			again, err := th.Retry(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			history, err := th.History(t.Context(), pawl.Page{Attempt: again.Attempt})
			if err != nil || len(history) == 0 {
				t.Fatal(len(history), err)
			}
			if root := history[len(history)-1]; root.Parent != "" {
				t.Errorf("the first checkpoint of the retry has the parent %s; the run before ended at %s", root.Parent, first.Checkpoint)
			}
		})
	}
}
