package pawl_test

import (
	"context"
	"errors"
	"testing"

	"github.com/pawl-dev/pawl"
)

// A caller who leaves while the thread is being claimed stops the run; no process died, so nothing counts as a crash.
func TestResumeOfACallerWhoLeaves(t *testing.T) {
	t.Parallel()
	home := hooked(t)
	fail := true
	th := single(t, func(context.Context, *note) error {
		if fail {
			return errors.New("no luck")
		}
		return nil
	}).Thread(opened(t, home, nil), "t")
	if _, err := th.Run(t.Context(), nil); err == nil {
		t.Fatal("the run ended well")
	}
	ctx, leave := context.WithCancel(t.Context())
	hook := func() { leave() }
	home.after.Store(&hook)
	if _, err := th.Resume(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("resume: %v", err)
	}
	if st := status(t, th); st.Status != pawl.Failed {
		t.Errorf("the thread is %s", st.Status)
	}
	fail = false
	if out, err := th.Resume(t.Context()); err != nil || out.Status != pawl.Done {
		t.Errorf("resume: %v", err)
	}
}
