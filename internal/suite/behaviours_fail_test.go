package suite

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/memdb"
	"github.com/pawl-dev/pawl/store"
)

var errRow = errors.New("bad")

// failing runs one node that fails, and returns how often it was entered and why the run failed.
func failing(t *testing.T, h *home, node rowNode, options ...pawl.NodeOption) (entries int, err error) {
	t.Helper()
	th := rowThread(t, h, single(func(ctx context.Context, s *rowState) error {
		entries++
		s.Log.Add("lost")
		return node(ctx, s)
	}, append(options, pawl.Backoff(0, 0))...), nil)
	_, err = ran(t, th, pawl.Failed)
	if s := statusOf(t, th); string(s.Values) != "{}" {
		t.Errorf("a failed node left %s", s.Values)
	}
	return entries, err
}

func rowTaskInfo(t *testing.T, h *home) {
	var seen []pawl.TaskInfo
	_, err := failing(t, h, func(ctx context.Context, _ *rowState) error {
		task, ok := pawl.TaskFrom(ctx)
		if !ok {
			return pawl.NoRetry(errors.New("a node without a task"))
		}
		seen = append(seen, task.Info())
		return errRow
	}, pawl.Tries(3))
	if !errors.Is(err, errRow) || len(seen) != 3 {
		t.Fatalf("%d tries, %v", len(seen), err)
	}
	for _, i := range seen {
		if i.Task == "" || i.Task != seen[0].Task || i.Thread != "t" || i.Checkpoint == "" || i.Checkpoint != seen[0].Checkpoint {
			t.Errorf("a try is told %+v", i)
		}
	}
}

func rowTimeout(t *testing.T, h *home) {
	n, err := failing(t, h, func(ctx context.Context, _ *rowState) error { <-ctx.Done(); return context.Cause(ctx) },
		pawl.Timeout(5*time.Millisecond), pawl.Tries(2))
	if n != 2 || err == nil {
		t.Errorf("a node over its time: %d entries, %v", n, err)
	}
}

func rowOwnTimeout(t *testing.T, h *home) {
	_, err := failing(t, h, func(context.Context, *rowState) error { return context.DeadlineExceeded }, pawl.Timeout(time.Hour))
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a node's own timeout: %v", err)
	}
}

func rowOwnCancel(t *testing.T, h *home) {
	_, err := failing(t, h, func(context.Context, *rowState) error { return context.Canceled })
	if node := (*pawl.RunError)(nil); !errors.As(err, &node) || node.Node != "a" {
		t.Errorf("a node that says it was cancelled: %v", err)
	}
}

func rowCallerLeaves(t *testing.T, h *home) {
	entries := 0
	ctx, leave := context.WithCancel(t.Context())
	th := rowThread(t, h, single(func(inside context.Context, s *rowState) error {
		if entries++; entries == 1 {
			leave()
			<-inside.Done()
			return context.Cause(inside)
		}
		s.Log.Add("a")
		return nil
	}), nil)
	if _, err := th.Run(ctx, &rowState{}); !errors.Is(err, context.Canceled) {
		t.Errorf("the caller left: %v", err)
	}
	out, err := th.Resume(t.Context())
	if err != nil || out.Status != pawl.Done || entries != 2 {
		t.Error(out, err, entries)
	}
}

// rowMemory is a store beside an engine.
func rowMemory(t *testing.T) *store.Store {
	t.Helper()
	m, err := store.New(store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	db, err := memdb.Open(append(pawl.Kinds(), store.Kinds()...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return m.Of(engine(t, db, &pawl.Options{Parts: []pawl.Part{m}}), db)
}

func rowNamespaces(t *testing.T, _ *report) {
	s := rowMemory(t)
	for _, space := range [][]string{{}, {"a", ""}, {"a.b"}} {
		if err := s.Put(t.Context(), space, "k", map[string]int{"n": 1}); !errors.As(err, new(*store.NamespaceError)) {
			t.Errorf("namespace %q: %v", space, err)
		}
	}
}

func rowFilters(t *testing.T, _ *report) {
	s := rowMemory(t)
	for key, n := range map[string]int{"nine": 9, "ten": 10} {
		if err := s.Put(t.Context(), []string{"f"}, key, map[string]int{"n": n}); err != nil {
			t.Fatal(err)
		}
	}
	for want, c := range map[string][]any{"nine": {9, store.Lte(9), store.Ne(10)}, "ten": {10, store.Gt(9)}} {
		for _, is := range c {
			hits, err := s.Search(t.Context(), store.Search{Prefix: []string{"f"}, Filter: store.Filter{"n": is}})
			if err != nil || len(hits) != 1 || hits[0].Key != want {
				t.Errorf("%v found %v, %v, want %s", is, hits, err, want)
			}
		}
	}
}

func rowBatch(t *testing.T, _ *report) {
	s := rowMemory(t)
	put := func(n int) store.Op {
		return store.Put{Namespace: []string{"b"}, Key: "k", Value: map[string]int{"n": n}}
	}
	if _, err := s.Batch(t.Context(), put(1), put(2), put(3)); err != nil {
		t.Fatal(err)
	}
	hits, err := s.Search(t.Context(), store.Search{Prefix: []string{"b"}})
	if err != nil || len(hits) != 1 {
		t.Fatal(hits, err)
	}
	var v struct{ N int }
	if err := hits[0].Decode(&v); err != nil || v.N != 3 {
		t.Errorf("the last of a batch: %v, %v", v, err)
	}
}
