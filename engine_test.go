package pawl_test

import (
	"context"
	"errors"
	"testing"

	"github.com/pawl-dev/pawl"
)

// An engine that is closed between the Update that claims a thread and the first task leaves the thread resumable.
func TestCloseAfterClaim(t *testing.T) {
	t.Parallel()
	db := hooked(t)
	eng := opened(t, db, nil)
	g := single(t, func(context.Context, *note) error { return nil })
	shut := func() { _ = eng.Close() }
	db.after.Store(&shut)
	if _, err := g.Thread(eng, "t").Run(t.Context(), nil); !errors.Is(err, pawl.ErrClosed) {
		t.Fatalf("run of a closed engine: %v", err)
	}
	out, err := g.Thread(opened(t, db, nil), "t").Resume(t.Context())
	if err != nil || out.Status != pawl.Done {
		t.Errorf("resume elsewhere: %v", err)
	}
}
