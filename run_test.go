package pawl_test

import (
	"context"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
)

// Ids that storage would give back changed are refused before anything is made of them; all others work.
func TestThreadIDs(t *testing.T) {
	t.Parallel()
	ok := pawl.Interrupt[string, bool]{Name: "ok"}
	g := single(t, func(ctx context.Context, _ *note) error { _, err := ok.Ask(ctx, "?"); return err }, pawl.Uses(ok))
	for name, c := range map[string]struct{ tenant, thread, run, want string }{
		"empty thread":          {"", "", "", "empty"},
		"thread of other bytes": {"", "\xff", "", "UTF-8"},
		"tenant of other bytes": {"\xff", "t", "", "UTF-8"},
		"run of other bytes":    {"", "t", "\xff", "UTF-8"},
		"NUL":                   {"a\x00", "t\x00", "r\x00", ""},
		"long":                  {strings.Repeat("é", 1<<16), strings.Repeat("é", 1<<16), strings.Repeat("é", 1<<16), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eng := opened(t, hooked(t), nil).Tenant(c.tenant)
			th := g.Thread(eng, c.thread)
			_, err := th.Run(t.Context(), nil, pawl.RunID(c.run))
			if c.want != "" {
				if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "nothing was started") {
					t.Fatalf("run: %v", err)
				}
				if list, err := eng.Threads(t.Context(), "", 0); err != nil || len(list) > 0 {
					t.Errorf("%d threads are there, %v", len(list), err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if _, err := th.Answer(t.Context(), "", true); err != nil {
				t.Fatal(err)
			}
			if out, err := th.Resume(t.Context()); err != nil || out.Status != pawl.Done {
				t.Error(err)
			}
		})
	}
}
