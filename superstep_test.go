package pawl_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/pawl-dev/pawl"
)

// Tasks that wait for their turn are not entered any more once a sibling failed or the run was cancelled.
func TestQueuedTasksStayOut(t *testing.T) {
	t.Parallel()
	ids := []int{0, 1, 2, 3, 4, 5, 6, 7}
	for name, c := range map[string]struct {
		first func(ctx context.Context, th *pawl.ThreadOf[note]) error
		want  pawl.Status
	}{
		"a sibling failed": {func(context.Context, *pawl.ThreadOf[note]) error { return errors.New("the bank says no") }, pawl.Failed},
		"cancelled": {func(ctx context.Context, th *pawl.ThreadOf[note]) error {
			go func() { _ = th.Cancel(context.Background(), "enough") }()
			<-ctx.Done()
			return nil
		}, pawl.Cancelled},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var th *pawl.ThreadOf[note]
			var entered atomic.Int32
			fail := true
			pay := pawl.NewWorker("pay", func(ctx context.Context, _ *note, i int) error {
				if entered.Add(1); i == 0 && fail {
					return c.first(ctx, th)
				}
				return nil
			})
			g := built(t, pawl.New[note]("payroll").Add(pay).Node("list", func(context.Context, *note) error { return nil }).
				Edge(pawl.Start, "list").Route("list", func(*note) []pawl.Next { return pay.Each(ids) }, "pay"))
			th = g.Thread(opened(t, hooked(t), &pawl.Options{Concurrency: 1}), "t")
			out, err := th.Run(t.Context(), nil)
			if err == nil || out.Status != c.want || entered.Load() > 1 {
				t.Fatalf("%d of %d entered: %v", entered.Load(), len(ids), err)
			}
			if c.want == pawl.Failed {
				fail = false
				if out, err = th.Resume(t.Context()); err != nil || out.Status != pawl.Done {
					t.Errorf("resume: %v", err)
				}
			}
		})
	}
}
