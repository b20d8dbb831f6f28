package pawl_test

import (
	"context"
	"errors"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/storage"
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

// A home that was full when the run broke off, and had room again later, does not keep the thread.
func TestResumeAfterAFullHome(t *testing.T) {
	t.Parallel()
	for name, verb := range map[string]func(context.Context, *pawl.ThreadOf[note]) error{
		"resume": func(ctx context.Context, th *pawl.ThreadOf[note]) error { _, err := th.Resume(ctx); return err },
		"cancel": func(ctx context.Context, th *pawl.ThreadOf[note]) error { return th.Cancel(ctx, "enough") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			home := hooked(t)
			fills := true
			th := single(t, func(context.Context, *note) error { home.full.Store(fills); return nil }).Thread(opened(t, home, nil), "t")
			if _, err := th.Run(t.Context(), nil); !errors.Is(err, storage.ErrFull) {
				t.Fatalf("run: %v", err)
			}
			if err := verb(t.Context(), th); !errors.Is(err, storage.ErrFull) {
				t.Errorf("while it is full: %v", err)
			}
			home.full.Store(false)
			fills = false
			if err := verb(t.Context(), th); err != nil {
				t.Errorf("when it has room: %v", err)
			}
		})
	}
}
