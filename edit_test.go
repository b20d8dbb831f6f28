package pawl_test

import (
	"context"
	"errors"
	"testing"

	"github.com/pawl-dev/pawl"
)

// An edit does not bring a run back that was ended for good.
func TestEditOfWhatIsOver(t *testing.T) {
	t.Parallel()
	ok := pawl.Interrupt[string, bool]{Name: "ok"}
	for name, c := range map[string]struct {
		node func(ctx context.Context) error
		end  func(th *pawl.ThreadOf[note]) error
		want pawl.Status
	}{
		"cancelled": {
			func(ctx context.Context) error { _, err := ok.Ask(ctx, "?"); return err },
			func(th *pawl.ThreadOf[note]) error { return th.Cancel(context.Background(), "for good") }, pawl.Cancelled,
		},
		"concluded": {
			func(context.Context) error { return pawl.Conclude("not for us") },
			func(*pawl.ThreadOf[note]) error { return nil }, pawl.Failed,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			th := single(t, func(ctx context.Context, _ *note) error { return c.node(ctx) }, pawl.Uses(ok)).Thread(opened(t, hooked(t), nil), "t")
			_, _ = th.Run(t.Context(), nil)
			if err := c.end(th); err != nil {
				t.Fatal(err)
			}
			out, err := th.Edit(t.Context(), func(s *note) error { s.Text.Set("edited"); return nil })
			if err != nil || out.Status != c.want || out.State.Text.Get() != "edited" {
				t.Fatalf("edit: %v", err)
			}
			refused := (*pawl.VerbError)(nil)
			if _, err := th.Resume(t.Context()); !errors.As(err, &refused) {
				t.Errorf("resume after the edit: %v", err)
			}
			if st := status(t, th); st.Status != c.want {
				t.Errorf("the thread is %s", st.Status)
			}
		})
	}
}

// A run that a replay left behind is reported as the run that took its place stands, not as waiting for nobody.
func TestRunIDOfARunLeftBehind(t *testing.T) {
	t.Parallel()
	ok := pawl.Interrupt[string, bool]{Name: "ok"}
	th := single(t, func(ctx context.Context, _ *note) error { _, err := ok.Ask(ctx, "?"); return err }, pawl.Uses(ok)).
		Thread(opened(t, hooked(t), nil), "t")
	if _, err := th.Run(t.Context(), nil, pawl.RunID("order 1")); err != nil {
		t.Fatal(err)
	}
	replayed, err := th.Replay(t.Context(), pawl.Before("only"))
	if err != nil {
		t.Fatal(err)
	}
	again := func(want pawl.Status, open int) {
		out, err := th.Run(t.Context(), nil, pawl.RunID("order 1"))
		if err != nil || out.Status != want || len(out.Waiting) != open || out.Run != replayed.Run {
			t.Errorf("the same run again: %s, %d open, %v", out.Status, len(out.Waiting), err)
		}
	}
	again(pawl.Waiting, 1)
	if _, err := th.Resume(t.Context(), ok.Answer("", true)); err != nil {
		t.Fatal(err)
	}
	again(pawl.Done, 0)
}
