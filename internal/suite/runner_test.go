package suite

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/pawltest"
)

// TestRunnerAfterApproval: an approval runs nothing, and a worker goes on with what it allows: of two one, and one dispatch.
func TestRunnerAfterApproval(t *testing.T) {
	onEachMoney(t, func(t *testing.T, h *home) {
		target := pawltest.NewTarget(pawltest.TargetOpaque)
		g := func() *pawl.Graph[payment] {
			e := approvedWire(target)
			return build(t, pawl.New[payment]("wish").Node("pay", pays(e), pawl.Uses(e)).Path(pawl.Start, "pay"))
		}
		desk := firmIn(t, h)
		th := g().Thread(desk.eng, "1")
		out, err := th.Run(t.Context(), orderFor("1"))
		mustWaitFor(t, out, err, 1)
		var all sync.WaitGroup
		var mu sync.Mutex
		resumed := 0
		due := func() {
			for range 2 {
				eng := firmIn(t, h).eng
				if err := eng.Register(g()); err != nil {
					t.Fatal(err)
				}
				all.Go(func() {
					r := eng.Runner()
					n, _, err := r.Due(context.Background(), 10)
					if err := errors.Join(err, r.Wait(context.Background())); err != nil {
						t.Error(err)
					}
					mu.Lock()
					defer mu.Unlock()
					resumed += n
				})
			}
			all.Wait()
		}
		if due(); resumed != 0 || target.Count().Requests != 0 {
			t.Errorf("before the approval %d resumed, the target saw %v", resumed, target.Count())
		}
		same(t, "approvals", desk.yes(t), 1)
		due()
		same(t, "status", statusOf(t, th).Status, pawl.Done)
		same(t, "rows of the target", len(target.Rows()), 1)
		if resumed == 0 {
			t.Error("nobody went on")
		}
	})
}
