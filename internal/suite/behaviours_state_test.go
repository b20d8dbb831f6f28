package suite

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
)

func rowTaskIDs(t *testing.T, h *home) {
	th := rowThread(t, h, sayers("a", "b"), nil)
	ran(t, th, pawl.Done)
	before := history(t, th)
	if _, err := th.Replay(t.Context(), pawl.Before("b")); err != nil {
		t.Fatal(err)
	}
	after := history(t, th)
	same(t, "tasks of the old checkpoints", compact(tasksOf(after[len(after)-len(before):])), compact(tasksOf(before)))
}

func tasksOf(snapshots []*pawl.Snapshot) (out [][]pawl.TaskState) {
	for _, s := range snapshots {
		out = append(out, s.Tasks)
	}
	return out
}

func rowNewThread(t *testing.T, h *home) {
	th := rowThread(t, h, sayers("a"), nil)
	s := statusOf(t, th)
	same(t, "status", s.Status, pawl.StatusNew)
	same(t, "open questions, checkpoints", [2]int{len(s.Waiting), len(history(t, th))}, [2]int{})
}

func rowNoStorage(t *testing.T, _ *report) {
	th := build(t, sayers("a")).Thread(engine(t, nil, nil), "t")
	if _, err := th.State(t.Context()); !errors.As(err, new(*pawl.NoStorageError)) {
		t.Errorf("state without storage: %v", err)
	}
}

// rowTasksOfAFailure: what ended beside a failure is kept, with the failure, under the checkpoint of both.
func rowTasksOfAFailure(t *testing.T, h *home) {
	done := make(chan struct{})
	b := pawl.New[rowState]("row").
		Node("one", func(_ context.Context, s *rowState) error { defer close(done); s.N.Add(2); return nil }).
		Node("two", func(context.Context, *rowState) error { <-done; return errRow }).
		Edge(pawl.Start, "one").Edge(pawl.Start, "two")
	th := rowThread(t, h, b, nil)
	_, err := ran(t, th, pawl.Failed)
	if !errors.Is(err, errRow) {
		t.Error(err)
	}
	head := history(t, th)[0]
	states := map[string]string{}
	for _, task := range head.Tasks {
		states[task.Node] = task.State
		if task.Node == "two" && !strings.Contains(task.Error, "bad") {
			t.Errorf("the failed task says %q", task.Error)
		}
	}
	same(t, "tasks", states, map[string]string{"one": "done", "two": "failed"})
	same(t, "due", head.Next, []string{"two"})
}

func rowPages(t *testing.T, h *home) {
	th := rowThread(t, h, sayers("a", "b", "c"), nil)
	ran(t, th, pawl.Done)
	all := history(t, th)
	var paged []*pawl.Snapshot
	for page := (pawl.Page{Limit: 1}); ; page.Before = paged[len(paged)-1].Checkpoint {
		next, err := th.History(t.Context(), page)
		if err != nil || len(next) > 1 {
			t.Fatal(len(next), err)
		}
		if len(next) == 0 {
			break
		}
		paged = append(paged, next...)
	}
	same(t, "page by page", compact(paged), compact(all))
	if !slices.IsSortedFunc(all, func(a, b *pawl.Snapshot) int { return b.Step - a.Step }) {
		t.Error("the newest is not first")
	}
	if _, err := th.History(t.Context(), pawl.Page{Before: "nothing"}); !errors.Is(err, pawl.ErrNotFound) {
		t.Errorf("before a checkpoint that is not there: %v", err)
	}
}

func rowSnapshots(t *testing.T, h *home) {
	th := rowThread(t, h, sayers("a", "b"), nil)
	ran(t, th, pawl.Done)
	for _, s := range history(t, th) {
		one, err := th.Snapshot(t.Context(), s.Checkpoint)
		if err != nil || fixed(one) != fixed(s) {
			t.Errorf("checkpoint %s: %v, %v", s.Checkpoint, one, err)
		}
	}
	if _, err := th.Snapshot(t.Context(), "nothing"); !errors.Is(err, pawl.ErrNotFound) {
		t.Errorf("a checkpoint that is not there: %v", err)
	}
}

func rowClosedHome(t *testing.T, h *home) {
	db := h.open(t)
	th := build(t, sayers("a")).Thread(engine(t, db, nil), "t")
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := th.Run(t.Context(), &rowState{}); err == nil {
		t.Error("a run on a home that is closed went through")
	}
}

func rowNoThread(t *testing.T, h *home) {
	g, eng := build(t, sayers("a")), engine(t, h.open(t), nil)
	if _, err := g.Thread(eng, "").Run(t.Context(), &rowState{}); err == nil {
		t.Errorf("a thread without an id: %v", err)
	}
}

func rowEditRemoves(t *testing.T, h *home) {
	th := rowThread(t, h, single(func(_ context.Context, s *rowState) error { s.M.Set("1", "a"); s.M.Set("2", "b"); return nil }), nil)
	ran(t, th, pawl.Done)
	out, err := th.Edit(t.Context(), func(s *rowState) error { s.M.Delete("1"); return nil })
	if err != nil || out.State.M.Len() != 1 {
		t.Error(out, err)
	}
}

func rowNoSuchPoint(t *testing.T, h *home) {
	th := rowThread(t, h, sayers("a"), nil)
	ran(t, th, pawl.Done)
	before := history(t, th)
	for _, at := range []pawl.Point{pawl.Checkpoint("nothing"), pawl.Before("b")} {
		if _, err := th.Replay(t.Context(), at); !errors.As(err, new(*pawl.PointError)) {
			t.Errorf("%s: %v", at, err)
		}
	}
	same(t, "history", compact(history(t, th)), compact(before))
}

func rowDeleteOne(t *testing.T, h *home) {
	g, eng := build(t, sayers("a")), engine(t, h.open(t), nil)
	one, other := g.Thread(eng, "one"), g.Thread(eng, "other")
	ran(t, one, pawl.Done)
	ran(t, other, pawl.Done)
	if err := one.Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	same(t, "checkpoints of one, of the other", [2]int{len(history(t, one)), len(history(t, other))}, [2]int{0, 3})
}

func rowCopy(t *testing.T, h *home) {
	g, eng := build(t, sayers("a", "b")), engine(t, h.open(t), nil)
	th := g.Thread(eng, "one")
	out, _ := ran(t, th, pawl.Done)
	before := compact(history(t, th))
	if _, err := th.Copy(t.Context(), "two", pawl.Point{}, pawl.Reason("a test")); err != nil {
		t.Fatal(err)
	}
	same(t, "state of the copy", string(statusOf(t, g.Thread(eng, "two")).Values), string(out.Values))
	same(t, "source", compact(history(t, th)), before)
}

func rowPrune(t *testing.T, h *home) {
	th := rowThread(t, h, sayers("a", "b", "c"), nil)
	out, _ := ran(t, th, pawl.Done)
	if _, err := th.Prune(t.Context(), pawl.Keep{Newest: 1}, pawl.Reason("a test")); err != nil {
		t.Fatal(err)
	}
	left := history(t, th)
	if len(left) >= 5 || left[0].Checkpoint != out.Checkpoint || string(left[0].Values) != string(out.Values) {
		t.Errorf("%d checkpoints left, the newest %s", len(left), compact(left[0]))
	}
}

// nested is a parent whose child says two things.
func nested(t *testing.T, inner *pawl.Builder[rowState]) *pawl.Builder[rowState] {
	return pawl.New[rowState]("outer").Add(pawl.Sub(build(t, inner).Child("c"),
		func(*rowState) *rowState { return &rowState{} },
		func(s *rowState, r *pawl.Result[rowState]) error { s.Log.Add(logOf(r.State)...); return nil })).Path(pawl.Start, "c")
}

func rowCalledTwice(t *testing.T, h *home) {
	child := build(t, single(func(_ context.Context, s *rowState) error { s.N.Add(s.N.Get() * 2); return nil })).Child("triple")
	calls := func(options ...pawl.Opt) *pawl.Builder[rowState] {
		return single(func(ctx context.Context, s *rowState) error {
			for range 2 {
				r, err := child.Call(ctx, &rowState{N: pawl.Total(s.N.Get() + 1)}, options...)
				if err != nil {
					return err
				}
				s.N.Add(r.State.N.Get())
				options = []pawl.Opt{pawl.Key("again")}
			}
			return nil
		}, pawl.Uses(child))
	}
	out, _ := ran(t, rowThread(t, h, calls(), nil), pawl.Done)
	same(t, "total", out.State.N.Get(), 15)
	_, err := build(t, calls(pawl.Key("again"))).Thread(engine(t, h.open(t), nil), "twice").Run(t.Context(), &rowState{})
	if !errors.Is(err, pawl.ErrNameReused) {
		t.Errorf("two calls under one name: %v", err)
	}
}

func rowNoSuchChild(t *testing.T, h *home) {
	th := rowThread(t, h, nested(t, sayers("a", "b")), nil)
	ran(t, th, pawl.Done)
	if _, err := th.History(t.Context(), pawl.Page{In: "nothing:x"}); err == nil {
		t.Error("the history of a child that is not there was read")
	}
}

func rowPlace(t *testing.T, h *home) {
	place := ""
	inner := single(func(ctx context.Context, _ *rowState) error {
		if task, ok := pawl.TaskFrom(ctx); ok {
			place = noIDs(task.Info().Path)
		}
		return nil
	})
	ran(t, rowThread(t, h, nested(t, inner), nil), pawl.Done)
	same(t, "the place of a node of a child", place, "c:<id>|a:<id>")
}

// events runs a graph and returns what was told.
func events(t *testing.T, th *pawl.ThreadOf[rowState]) (out []pawl.Event) {
	t.Helper()
	for e, err := range th.Stream(t.Context(), &rowState{}) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, e)
	}
	return out
}

// rowChildEvents: what happens in a child is told with its path, before the parent's node ends.
func rowChildEvents(t *testing.T, h *home) {
	var told []string
	for _, e := range events(t, rowThread(t, h, nested(t, sayers("a", "b")), nil)) {
		if e.Kind == pawl.EventTaskEnd && e.Node != pawl.Start {
			told = append(told, noIDs(e.Path)+" "+e.Node)
		}
	}
	same(t, "ends of tasks", told, []string{"c:<id> a", "c:<id> b", " c"})
}

// rowTaskEvents: each task is told at its start and its end, and each checkpoint as the history has it.
func rowTaskEvents(t *testing.T, h *home) {
	th := rowThread(t, h, sayers("a", "b"), nil)
	tasks, checkpoints := map[string]int{}, []string{}
	for _, e := range events(t, th) {
		switch e.Kind {
		case pawl.EventTaskStart:
			tasks[e.Task]++
		case pawl.EventTaskEnd:
			tasks[e.Task]--
		case pawl.EventCheckpoint:
			checkpoints = append(checkpoints, e.Checkpoint)
		}
	}
	for task, open := range tasks {
		same(t, "starts without an end of "+task, open, 0)
	}
	all := history(t, th)
	for i, id := range checkpoints {
		same(t, "a checkpoint that was told", id, all[len(checkpoints)-1-i].Checkpoint)
	}
	if len(checkpoints) < 2 {
		t.Errorf("%d checkpoints were told", len(checkpoints))
	}
}
