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
