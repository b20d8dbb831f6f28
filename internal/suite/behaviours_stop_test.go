package suite

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/draw"
)

// stopRows are of breakpoints, handlers and limits of time.
func stopRows() []scenario {
	return []scenario{
		{id: "BLD-13", run: rowUnknownStop}, {id: "BLD-26", run: rowHandlerName},
		{id: "FLT-09", run: inBubble(rowBeatsAreNoExtension)}, {id: "FLT-10", run: inBubble(rowProgress)}, {id: "FLT-11", run: inBubble(rowHeartbeatsAlone)},
		{id: "FLT-23", run: each(rowHandlersSideBySide)}, {id: "FLT-28", run: each(rowDefaultHandler)},
		{id: "FLT-26", run: each(rowHandlerPauses), differs: "a handler is its node's last word and no node: no breakpoint is in front of it; it asks instead"},
		{id: "INT-25", run: each(rowStopIsNoQuestion)}, {id: "INT-28", run: each(rowDeepStop)},
		{id: "INT-29", run: each(rowAnswerToAStop), differs: "nothing is asked at a breakpoint: an answer is refused, Resume alone goes on"},
		{id: "INT-33", run: each(rowFlakyHistory)},
		{id: "DRW-09", run: rowStopsAreDrawn},
	}
}

// inBubble runs a row whose time is not real, without storage.
func inBubble(row func(*testing.T)) func(*testing.T, *report) {
	return func(t *testing.T, _ *report) { synctest.Test(t, row) }
}

// working takes a second for each piece of work, unless it is stopped.
func working(ctx context.Context, pieces int, each func(i int) error) error {
	for i := range pieces {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(time.Second):
		}
		if err := each(i); err != nil {
			return err
		}
	}
	return nil
}

// overTime runs one node without storage, and returns its timeout, if it had one, and how long it took.
func overTime(t *testing.T, node rowNode, options ...pawl.NodeOption) (over *pawl.TimeoutError, took time.Duration, err error) {
	t.Helper()
	began := time.Now()
	_, err = build(t, single(node, options...)).Thread(engine(t, nil, nil), "t").Run(t.Context(), &rowState{})
	errors.As(err, &over)
	return over, time.Since(began), err
}

func rowBeatsAreNoExtension(t *testing.T) {
	over, took, err := overTime(t, func(ctx context.Context, _ *rowState) error {
		return working(ctx, 60, func(int) error { pawl.Heartbeat(ctx); return nil })
	}, pawl.Timeout(10500*time.Millisecond), pawl.IdleTimeout(2*time.Second))
	if over == nil || over.Idle || took != 10500*time.Millisecond {
		t.Errorf("after %v: %v", took, err)
	}
}

// rowProgress: whatever the node does with the engine puts its idle timeout off, and nothing else does.
func rowProgress(t *testing.T) {
	child := build(t, single(func(ctx context.Context, _ *rowState) error { pawl.Heartbeat(ctx); return nil })).Child("c")
	for name, each := range map[string]func(ctx context.Context, i int) error{
		"heartbeats": func(ctx context.Context, _ int) error { pawl.Heartbeat(ctx); return nil },
		"steps": func(ctx context.Context, i int) error {
			_, err := pawl.Step(ctx, "s", func(context.Context) (int, error) { return i, nil }, pawl.Key(fmt.Sprint(i)))
			return err
		},
		"children": func(ctx context.Context, i int) error {
			_, err := child.Call(ctx, &rowState{}, pawl.Key(fmt.Sprint(i)))
			return err
		},
		"": func(context.Context, int) error { return nil },
	} {
		over, took, err := overTime(t, func(ctx context.Context, _ *rowState) error {
			return working(ctx, 5, func(i int) error { return each(ctx, i) })
		}, pawl.IdleTimeout(1500*time.Millisecond), pawl.Uses(child))
		if busy := name != ""; busy != (err == nil) || !busy && (over == nil || !over.Idle || took != 1500*time.Millisecond) {
			t.Errorf("progress by %q, after %v: %v", name, took, err)
		}
	}
}

func rowHeartbeatsAlone(t *testing.T) {
	limit := pawl.HeartbeatTimeout(1500 * time.Millisecond)
	over, took, err := overTime(t, func(ctx context.Context, _ *rowState) error {
		return working(ctx, 5, func(i int) error {
			_, err := pawl.Step(ctx, "s", func(context.Context) (int, error) { return i, nil }, pawl.Key(fmt.Sprint(i)))
			return err
		})
	}, limit)
	if over == nil || !over.Idle || took != 1500*time.Millisecond {
		t.Errorf("steps alone, after %v: %v", took, err)
	}
	if _, _, err = overTime(t, func(ctx context.Context, _ *rowState) error {
		return working(ctx, 5, func(int) error { pawl.Heartbeat(ctx); return nil })
	}, limit); err != nil {
		t.Error("heartbeats:", err)
	}
}

// rowHandlersSideBySide: a handler starts while the node beside still runs.
func rowHandlersSideBySide(t *testing.T, h *home) {
	started := make(chan struct{})
	b := pawl.New[rowState]("row").
		Node("a", func(context.Context, *rowState) error { return errRow }, pawl.OnError(func(_ context.Context, s *rowState, err error) error {
			close(started)
			s.Log.Add("a: " + failedNode(err))
			return nil
		})).
		Node("b", func(context.Context, *rowState) error { <-started; return errRow }, pawl.OnError(func(_ context.Context, s *rowState, err error) error {
			s.Log.Add("b: " + failedNode(err))
			return nil
		})).
		Edge(pawl.Start, "a").Edge(pawl.Start, "b")
	out, _ := ran(t, rowThread(t, h, b, nil), pawl.Done)
	same(t, "log", logOf(out.State), []string{"a: a", "b: b"})
}

func failedNode(err error) string {
	if node := (*pawl.NodeError)(nil); errors.As(err, &node) {
		return node.Node
	}
	return "no node"
}

// rowHandlerPauses: between the failure and what is made of it a person is asked, and another process goes on with what
// is stored.
func rowHandlerPauses(t *testing.T, h *home) {
	calls, told := 0, ""
	b := single(func(context.Context, *rowState) error { calls++; return errRow }, pawl.Uses(vote),
		pawl.OnError(func(ctx context.Context, s *rowState, err error) error {
			if _, err := vote.Ask(ctx, "go on?"); err != nil {
				return err
			}
			told = failedNode(err) + " " + errors.Unwrap(err).Error()
			return nil
		}))
	ran(t, rowThread(t, h, b, nil), pawl.Waiting)
	out, err := rowThread(t, h, b, nil).Resume(t.Context(), vote.Answer("", "yes"))
	if err != nil || out.Status != pawl.Done || calls != 1 || told != "a bad" {
		t.Error(out, err, calls, told)
	}
}

// rowDefaultHandler: the handler of all nodes is told where it runs.
func rowDefaultHandler(t *testing.T, h *home) {
	b := single(func(context.Context, *rowState) error { return errRow }).Defaults(pawl.OnError(func(ctx context.Context, s *rowState, err error) error {
		if task, ok := pawl.TaskFrom(ctx); ok {
			s.Log.Add(task.Info().Thread, task.Info().Node, failedNode(err))
		}
		return nil
	}))
	out, _ := ran(t, rowThread(t, h, b, nil), pawl.Done)
	same(t, "told", logOf(out.State), []string{"t", "a", "a"})
}

// rowHandlerName: a graph with a handler for all, and a node of the name that it has in LangGraph.
func rowHandlerName(t *testing.T, _ *report) {
	fine := func(context.Context, *rowState, error) error { return nil }
	build(t, sayers("a").Defaults(pawl.OnError(fine)))
	refusedGraph(t, sayers("__default_error_handler__").Defaults(pawl.OnError(fine)))
}

func rowUnknownStop(t *testing.T, _ *report) {
	refusedGraph(t, sayers("a").BreakBefore("b"))
	refusedGraph(t, sayers("a").BreakAfter("b"))
}

// rowStopsAreDrawn: a breakpoint is in a node's metadata, and in the picture of it.
func rowStopsAreDrawn(t *testing.T, _ *report) {
	g, err := draw.Of(build(t, sayers("a", "b").BreakBefore("b")), 0)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := g.JSON()
	if err != nil || !strings.Contains(compacted(doc), `"id":"b","type":"runnable","data":{"id":["pawl","node"],"name":"b"},"metadata":{"__interrupt":"before"}`) {
		t.Errorf("%s, %v", doc, err)
	}
	if text := strings.ReplaceAll(g.Mermaid(), "#61;", "="); strings.Count(text, `n_b["b<br/>__interrupt = before"]`) != 1 || strings.Count(text, "__interrupt") != 1 {
		t.Error(text)
	}
}

func compacted(doc []byte) string {
	return strings.NewReplacer("\n", "", "  ", "", ": ", ":").Replace(string(doc))
}

// rowStopIsNoQuestion: who streams a run that stops inside a child is told that it waits, and for nobody.
func rowStopIsNoQuestion(t *testing.T, h *home) {
	told := events(t, rowThread(t, h, nested(t, sayers("a", "b").BreakBefore("b")), nil))
	last := told[len(told)-1]
	if last.Kind != pawl.EventFinished || last.Outcome.Status != pawl.Waiting || len(last.Outcome.Waiting) != 0 {
		t.Errorf("the last event: %+v", last)
	}
}

// watcher is told of the ends of nodes.
type watcher struct {
	mu    sync.Mutex
	ended []string
}

func (*watcher) Name() string   { return "watcher" }
func (*watcher) Digest() string { return "" }

func (w *watcher) Task(ctx context.Context, i pawl.TaskInfo) (context.Context, func(error)) {
	return ctx, func(err error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if err == nil {
			w.ended = append(w.ended, i.Node)
		}
	}
}

func (w *watcher) since() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := w.ended
	w.ended = nil
	return out
}

// rowDeepStop: a breakpoint two levels deep, and the order in which nodes end before and after it.
func rowDeepStop(t *testing.T, h *home) {
	in := func(*rowState) *rowState { return &rowState{} }
	out := func(*rowState, *pawl.Result[rowState]) error { return nil }
	grandchild := sayers("grandchild_1", "grandchild_2").BreakBefore("grandchild_2")
	child := pawl.New[rowState]("child").Add(pawl.Sub(build(t, grandchild).Child("grandchild"), in, out)).
		Node("child_1", rowSays("child_1")).Path(pawl.Start, "grandchild", "child_1")
	parent := pawl.New[rowState]("parent").Node("parent_1", rowSays("parent_1")).Node("parent_2", rowSays("parent_2")).
		Add(pawl.Sub(build(t, child).Child("child"), in, out)).Path(pawl.Start, "parent_1", "child", "parent_2")
	w := &watcher{}
	th := rowThread(t, h, parent, &pawl.Options{Parts: []pawl.Part{w}})
	ran(t, th, pawl.Waiting)
	sameList(t, "ended before the stop", own(w.since()), []string{"parent_1", "grandchild_1"})
	if end, err := th.Resume(t.Context()); err != nil || end.Status != pawl.Done {
		t.Fatal(end, err)
	}
	sameList(t, "ended after it", own(w.since()), []string{"grandchild_2", "grandchild", "child_1", "child", "parent_2"})
}

// own leaves the ends of Start out.
func own(nodes []string) (out []string) {
	for _, n := range nodes {
		if n != pawl.Start {
			out = append(out, n)
		}
	}
	return out
}

// rowAnswerToAStop: nothing is asked at a breakpoint, so no answer is taken there; Resume goes on without one.
func rowAnswerToAStop(t *testing.T, h *home) {
	th := rowThread(t, h, sayers("a", "b").BreakBefore("a"), nil)
	ran(t, th, pawl.Waiting)
	if _, err := th.Resume(t.Context(), pawl.AnswerWith("", "anything")); !errors.As(err, new(*pawl.AnswerError)) {
		t.Errorf("an answer to nothing: %v", err)
	}
	out, err := th.Resume(t.Context())
	if err != nil || out.Status != pawl.Done {
		t.Fatal(out, err)
	}
	same(t, "log", logOf(out.State), []string{"a", "b"})
}

// rowFlakyHistory: the task that asked first and then did not shows both its question and its result. Under Exit too, where
// LangGraph has lost the result of whichever task was the last.
func rowFlakyHistory(t *testing.T, h *home) {
	for _, mode := range []pawl.Durability{pawl.Sync, pawl.Exit} {
		var entered sync.Map
		w := pawl.NewWorker("w", func(ctx context.Context, s *rowState, n int) error {
			if _, again := entered.LoadOrStore(n, true); n == 2 && !again {
				if _, err := vote.Ask(ctx, "?"); err != nil {
					return err
				}
			}
			s.Log.Add(fmt.Sprint(n))
			return nil
		}, pawl.Uses(vote))
		b := sayers("a").Add(w).Route("a", func(*rowState) []pawl.Next { return w.Each([]int{1, 2, 3}) }, "w")
		th := build(t, b).Thread(engine(t, h.open(t), &pawl.Options{Durability: mode}), string(mode))
		ran(t, th, pawl.Waiting)
		out, err := th.Resume(t.Context(), pawl.Again("w"))
		if err != nil || out.Status != pawl.Done {
			t.Fatal(out, err)
		}
		same(t, "log", logOf(out.State), []string{"a", "1", "2", "3"})
		for _, s := range history(t, th) {
			if len(s.Tasks) != 3 {
				continue
			}
			states := []string{}
			for _, task := range s.Tasks {
				states = append(states, fmt.Sprint(task.State, " ", len(task.Questions), " ", wrote(task)))
			}
			same(t, string(mode), states, []string{`done 0 log=["1"]`, `done 1 log=["2"]`, `done 0 log=["3"]`})
		}
	}
}
