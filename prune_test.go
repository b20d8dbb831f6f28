package pawl_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/storage"
	"github.com/pawl-dev/pawl/storage/fault"
)

// grown has lists and maps that grow with each round, by two writers at once.
type grown struct {
	Round pawl.Last[int]           `json:"round"`
	List  pawl.Append[string]      `json:"list"`
	Map   pawl.Map[string, string] `json:"map"`
	Sum   pawl.Sum[int64]          `json:"sum"`
}

// growing runs some rounds of two nodes, and asks at the end of them.
func growing(t *testing.T, rounds int) *pawl.Graph[grown] {
	t.Helper()
	work := func(name string) func(context.Context, *grown) error {
		return func(_ context.Context, s *grown) error {
			n := s.Round.Get()
			s.List.Add(fmt.Sprint(name, n))
			s.Map.Set(fmt.Sprint(name, n%3), fmt.Sprint(n))
			s.Sum.Add(1)
			return nil
		}
	}
	g, err := pawl.New[grown]("growing").Node("a", work("a")).Node("b", work("b")).
		Node("count", func(_ context.Context, s *grown) error { s.Round.Set(s.Round.Get() + 1); return nil }).
		Node("ask", func(ctx context.Context, _ *grown) error { _, err := gate.Ask(ctx, "?"); return err }, pawl.Uses(gate)).
		Node("beside", work("beside")).
		Edge(pawl.Start, "a").Edge(pawl.Start, "b").Join([]string{"a", "b"}, "count").
		Route("count", func(s *grown) []pawl.Next {
			if s.Round.Get() < rounds {
				return pawl.To("a", "b")
			}
			return pawl.To("ask", "beside")
		}, "a", "b", "ask", "beside").Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// snapshots are a thread's checkpoints as they read, by id: without their parents, and without what came of their tasks,
// which the next ones tell.
func snapshots(t *testing.T, th *pawl.ThreadOf[grown]) map[string]string {
	t.Helper()
	h, err := th.History(context.Background(), pawl.Page{Limit: 10_000})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, s := range h {
		out[s.Checkpoint] = fmt.Sprint(s.Step, s.Source, s.Next, string(s.Values))
		for _, task := range s.Tasks {
			out[s.Checkpoint] += fmt.Sprint(task.ID, task.Node, task.Kind, task.Steps, task.Questions)
		}
	}
	return out
}

func TestPrune(t *testing.T) {
	t.Parallel()
	onEachHome(t, func(t *testing.T, db storage.DB) {
		ctx := context.Background()
		g, eng := growing(t, 30), opened(t, db, nil)
		th := g.Thread(eng, "t")
		if _, err := th.Run(ctx, &grown{}); err != nil {
			t.Fatal(err)
		}
		other := g.Thread(eng, "other")
		if _, err := other.Run(ctx, &grown{}); err != nil {
			t.Fatal(err)
		}
		h, err := th.History(ctx, pawl.Page{Limit: 100})
		if err != nil {
			t.Fatal(err)
		}
		marked, left := h[20].Checkpoint, h[0].Checkpoint
		if _, err := th.Fork(ctx, pawl.Checkpoint(h[10].Checkpoint), nil); err != nil { // what is left behind ends a branch
			t.Fatal(err)
		}
		before, others, rows := snapshots(t, th), snapshots(t, other), len(valueRows(t, db))
		if _, err := th.Prune(ctx, pawl.Keep{Newest: 5}); err == nil || !strings.Contains(err.Error(), "needs a reason") {
			t.Errorf("without a reason: %v", err)
		}
		if _, err := th.Prune(ctx, pawl.Keep{}, because); err == nil || !strings.Contains(err.Error(), "at least the head") {
			t.Errorf("without anything to keep: %v", err)
		}
		out, err := th.Prune(ctx, pawl.Keep{Newest: 5, Also: []string{marked}}, because)
		if err != nil {
			t.Fatal(err)
		}
		after := snapshots(t, th)
		if out.Checkpoints == 0 || out.Values == 0 || out.Written == 0 || out.Kept != len(after) || len(before)-len(after) != out.Checkpoints ||
			rows-len(valueRows(t, db)) != out.Values {
			t.Errorf("%+v; %d of %d checkpoints are there", out, len(after), len(before))
		}
		for id, want := range after {
			if before[id] != want {
				t.Errorf("checkpoint %s was %s, is %s", id, before[id], want)
			}
		}
		if after[marked] == "" || after[left] == "" {
			t.Errorf("a checkpoint that was to be kept, or that ends a branch, is gone: %v", after)
		}
		if !reflect.DeepEqual(snapshots(t, other), others) {
			t.Error("another thread changed")
		}
		again, err := th.Prune(ctx, pawl.Keep{Newest: 5, Also: []string{marked}}, because)
		if err != nil || again.Checkpoints+again.Values+again.Written != 0 {
			t.Errorf("a second time: %+v, %v", again, err)
		}
		if _, err := th.Fork(ctx, pawl.Checkpoint(h[30].Checkpoint), nil); !errors.Is(err, pawl.ErrNotFound) {
			t.Errorf("a fork from what is gone: %v", err)
		}
		done, err := th.Resume(ctx, pawl.AnswerWith("", "yes"))
		if err != nil || done.Status != pawl.Done || done.State.List.Len() != 61 || done.State.Sum.Get() != 61 {
			t.Fatalf("the run after it: %+v, %v", done, err)
		}
		if out, err = th.Prune(ctx, pawl.Keep{Newest: 1}, because); err != nil || snapshots(t, th)[done.Checkpoint] == "" {
			t.Errorf("down to the head: %+v, %v", out, err)
		}
		if read, err := th.Run(ctx, &grown{}); err != nil || read.State.List.Len() != 63 {
			t.Errorf("a run on what is left: %+v, %v", read, err)
		}
	})
}

// Prune takes facts away and changes none: what is told of the rest is what was told before.
func TestPruneKeepsFacts(t *testing.T) {
	t.Parallel()
	onEachHome(t, func(t *testing.T, db storage.DB) {
		g, eng := growing(t, 12), opened(t, db, nil)
		th := g.Thread(eng, "t")
		if _, err := th.Run(t.Context(), &grown{}); err != nil {
			t.Fatal(err)
		}
		told := func() map[int64]string {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			out := map[int64]string{}
			for e, err := range th.Watch(ctx, 0) {
				if err != nil {
					t.Fatal(err)
				}
				if e.Kind == pawl.EventFinished {
					return out
				}
				out[e.Seq] = fmt.Sprint(e.Kind, e.Node, e.Checkpoint, e.Writes)
			}
			return out
		}
		before := told()
		if _, err := th.Prune(t.Context(), pawl.Keep{Newest: 4}, because); err != nil {
			t.Fatal(err)
		}
		after := told()
		if len(after) < 8 || len(after) >= len(before) {
			t.Errorf("%d facts before, %d after", len(before), len(after))
		}
		for seq, fact := range after {
			if before[seq] != fact {
				t.Errorf("fact %d was %s, is %s", seq, before[seq], fact)
			}
		}
	})
}

// A death at any write of a prune leaves what is kept as it was, and the next prune finishes it.
func TestPruneSurvivesDeath(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	g := growing(t, 150)
	for n := 0; ; n++ {
		db := hooked(t)
		eng := opened(t, db, nil)
		if _, err := g.Thread(eng, "t").Run(ctx, &grown{}); err != nil {
			t.Fatal(err)
		}
		before := snapshots(t, g.Thread(eng, "t"))
		mortal := fault.Wrap(db, fault.Plan{At: fault.At(n, fault.Stop())})
		_, died := g.Thread(opened(t, mortal, nil), "t").Prune(ctx, pawl.Keep{Newest: 3}, because)
		if died == nil {
			if n < 4 {
				t.Errorf("only %d points", n)
			}
			return
		}
		th := g.Thread(eng, "t")
		for id, got := range snapshots(t, th) {
			if before[id] != got {
				t.Fatalf("point %d: checkpoint %s was %s, is %s", n, id, before[id], got)
			}
		}
		if _, err := th.Prune(ctx, pawl.Keep{Newest: 3}, because); err != nil {
			t.Fatalf("point %d: %v", n, err)
		}
		if got := len(snapshots(t, th)); got != 3 {
			t.Errorf("point %d: %d checkpoints are left", n, got)
		}
		if out, err := th.Resume(ctx, pawl.AnswerWith("", "yes")); err != nil || out.State.List.Len() != 301 {
			t.Fatalf("point %d: %+v, %v", n, out, err)
		}
	}
}

func TestCopy(t *testing.T) {
	t.Parallel()
	onEachHome(t, func(t *testing.T, db storage.DB) {
		ctx := context.Background()
		g, eng := growing(t, 10), opened(t, db, nil)
		th := g.Thread(eng, "t")
		out, err := th.Run(ctx, &grown{})
		if err != nil {
			t.Fatal(err)
		}
		before := snapshots(t, th)
		if _, err := th.Copy(ctx, "copy", pawl.Point{}, because); err != nil {
			t.Fatal(err)
		}
		twin := g.Thread(eng, "copy")
		st := standing(t, twin)
		if st.Status != pawl.Waiting || len(st.Waiting) != 0 || string(st.Head.Values) != string(out.Values) || fmt.Sprint(st.Head.Next) != "[ask beside]" {
			t.Errorf("the copy stands as %+v, %s", st, st.Head.Values)
		}
		if !reflect.DeepEqual(snapshots(t, th), before) {
			t.Error("the thread that was copied changed")
		}
		if _, err := th.Copy(ctx, "copy", pawl.Point{}); err == nil || !strings.Contains(err.Error(), `thread "copy" exists`) {
			t.Errorf("over a thread: %v", err)
		}
		if _, err := g.Thread(eng, "nobody").Copy(ctx, "x", pawl.Point{}); !errors.Is(err, pawl.ErrNotFound) {
			t.Errorf("of nothing: %v", err)
		}
		if err := th.Delete(ctx); err != nil {
			t.Fatal(err)
		}
		res, err := twin.Resume(ctx)
		if err != nil || res.Status != pawl.Waiting {
			t.Fatalf("%+v, %v", res, err)
		}
		if res, err = twin.Resume(ctx, gate.Answer(res.Waiting[0].ID, "yes")); err != nil || res.Status != pawl.Done || res.State.List.Len() != 21 {
			t.Errorf("the copy goes on: %+v, %v", res, err)
		}
	})
}
