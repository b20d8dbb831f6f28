package suite

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
)

// parentRows are of children that decide what their parents do, and of runs beside the one that a node belongs to.
func parentRows() []scenario {
	return []scenario{
		{id: "SUB-09", run: each(rowCalledTwice)}, {id: "SUB-11", run: each(rowOwnThread)},
		{id: "SUB-13", run: each(childLeadsOn, rowLeadsParentOn)}, {id: "SUB-14", run: each(rowLeadsThroughLevels)},
		{id: "SUB-15", run: each(rowKeyOfTheParent)}, {id: "SUB-16", run: each(rowNoParent)},
		{id: "RUN-10", run: each(rowOwnThread)}, {id: "STR-21", run: each(rowInnerStream)},
	}
}

// leading is a node of a child that says where its parent goes on, and with what.
func leading(to, with string) rowNode {
	return func(_ context.Context, s *rowState) error { s.M.Set("to", to); s.M.Set("with", with); return nil }
}

// led takes of a child what it said for its parent, and nothing else.
func led(s *rowState, r *pawl.Result[rowState]) error {
	to, _ := r.State.M.Get("to")
	with, _ := r.State.M.Get("with")
	s.M.Set("to", to)
	s.Log.Add(with)
	return nil
}

// asLed goes where the child said.
func asLed(s *rowState) []pawl.Next {
	to, _ := s.M.Get("to")
	return pawl.To(to)
}

// wholeLog hands a child all that its parent logged.
func wholeLog(s *rowState) *rowState { return &rowState{Log: pawl.List(logOf(s)...)} }

// rowLeadsParentOn: the child ends where it leads its parent on; what it did for itself before is not in the parent's
// state. The same with storage and without, and under a limit of time.
func rowLeadsParentOn(t *testing.T, h *home) {
	inner := pawl.New[rowState]("inner").Node("a_child", rowSays("a_child_state")).
		Node("b_child", leading("node_b_parent", "b_child_state")).Path(pawl.Start, "a_child", "b_child")
	outer := pawl.New[rowState]("outer").
		Add(pawl.Sub(build(t, inner).Child("child"), wholeLog, led, pawl.Timeout(time.Minute))).
		Node("node_a_parent", rowSays("node_a_parent")).Node("node_b_parent", rowSays("node_b_parent")).
		Edge(pawl.Start, "child").Route("child", asLed, "node_a_parent", "node_b_parent")
	g := build(t, outer)
	for _, eng := range []*pawl.Engine{engine(t, h.open(t), nil), engine(t, nil, nil)} {
		out, err := g.Thread(eng, "t").Run(t.Context(), &rowState{Log: pawl.List("init")})
		if err != nil {
			t.Fatal(err)
		}
		sameList(t, "log", logOf(out.State), []string{"init", "b_child_state", "node_b_parent"})
	}
}

// rowLeadsThroughLevels: the deepest of three graphs leads the middle one on, which returns all that it holds.
func rowLeadsThroughLevels(t *testing.T, h *home) {
	deepest := single(leading("sub_child_3", "sub_sub_child"))
	middle := pawl.New[rowState]("sub_child").Node("sub_child_1", rowSays("sub_child_1")).
		Add(pawl.Sub(build(t, deepest).Child("sub_sub"), wholeLog, led)).
		Node("sub_child_2", rowSays("sub_child_2")).Node("sub_child_3", rowSays("sub_child_3")).
		Path(pawl.Start, "sub_child_1", "sub_sub").Route("sub_sub", asLed, "sub_child_2", "sub_child_3")
	outer := pawl.New[rowState]("child").Node("child_1", rowSays("child_1")).
		Add(pawl.Sub(build(t, middle).Child("sub"), wholeLog, func(s *rowState, r *pawl.Result[rowState]) error {
			s.Log.Add(logOf(r.State)...)
			return nil
		})).Path(pawl.Start, "child_1", "sub")
	out, err := rowThread(t, h, outer, nil).Run(t.Context(), &rowState{Log: pawl.List("init")})
	if err != nil {
		t.Fatal(err)
	}
	sameList(t, "log", logOf(out.State), []string{"init", "child_1", "init", "child_1", "sub_child_1", "sub_sub_child", "sub_child_3"})
}

// toolState is the state of a child that does not know its parent's channels.
type toolState struct {
	Messages pawl.Append[string]            `json:"messages"`
	For      pawl.Last[map[string][]string] `json:"for"` // of the parent
}

// rowKeyOfTheParent: a tool in a child writes a channel that only the parent has; messages are not doubled, and a run that
// is saved at its end leaves one checkpoint.
func rowKeyOfTheParent(t *testing.T, h *home) {
	agent := pawl.New[toolState]("agent").Node("tool", func(_ context.Context, s *toolState) error {
		s.Messages.Add("called")
		s.For.Set(map[string][]string{"user": {"ann"}})
		return nil
	}).Path(pawl.Start, "tool")
	parent := pawl.New[rowState]("parent").Add(pawl.Sub(build(t, agent).Child("agent"),
		func(s *rowState) *toolState { return &toolState{Messages: pawl.List(logOf(s)...)} },
		func(s *rowState, r *pawl.Result[toolState]) error {
			added, err := r.Added()
			if err != nil {
				return err
			}
			for _, m := range added.Messages.All() {
				s.Log.Add(m)
			}
			s.M.Set("user", r.State.For.Get()["user"][0])
			return nil
		})).Path(pawl.Start, "agent")
	th := rowThread(t, h, parent, nil)
	out, err := th.Run(t.Context(), &rowState{Log: pawl.List("hello")}, pawl.WithDurability(pawl.Exit))
	if err != nil {
		t.Fatal(err)
	}
	same(t, "state", string(out.Values), `{"log":["hello","called"],"m":{"user":"ann"}}`)
	same(t, "checkpoints", len(history(t, th)), 1)
}

// rowNoParent: who leads a graph on to what only a graph around it could have fails, and the caller is told where to.
func rowNoParent(t *testing.T, h *home) {
	th := rowThread(t, h, single(func(ctx context.Context, _ *rowState) error { return pawl.Goto(ctx, pawl.To("node_b_parent")...) }), nil)
	_, err := ran(t, th, pawl.Failed)
	if no := (*pawl.UndeclaredTargetError)(nil); !errors.As(err, &no) || no.Target != "node_b_parent" {
		t.Errorf("a node without a parent led it on: %v", err)
	}
}

// rowOwnThread: a graph that a node runs on a thread by name has a history and a memory of its own; a child has its
// place in the node's.
func rowOwnThread(t *testing.T, h *home) {
	eng := engine(t, h.open(t), nil)
	counts := build(t, single(func(ctx context.Context, s *rowState) error {
		task, _ := pawl.TaskFrom(ctx)
		s.N.Add(1)
		s.M.Set("place", task.Info().Thread+" "+noIDs(task.Info().Path))
		return nil
	}))
	child := counts.Child("child")
	b := pawl.New[rowState]("outer").Node("b", func(ctx context.Context, s *rowState) error {
		out, err := counts.Thread(eng, "own").Run(ctx, &rowState{})
		if err != nil {
			return err
		}
		r, err := child.Call(ctx, &rowState{})
		if err != nil {
			return err
		}
		own, _ := out.State.M.Get("place")
		within, _ := r.State.M.Get("place")
		s.Log.Add(fmt.Sprint(out.State.N.Get(), " ", r.State.N.Get()), own, within)
		return nil
	}, pawl.Uses(child)).Path(pawl.Start, "b")
	th := build(t, b).Thread(eng, "outer")
	var out *pawl.OutcomeOf[rowState]
	for range 2 {
		out, _ = ran(t, th, pawl.Done)
	}
	sameList(t, "counts and places", logOf(out.State), []string{"1 1", "own a:<id>", "outer b:<id>|a:<id>", "2 1", "own a:<id>", "outer b:<id>|a:<id>"})
	same(t, "checkpoints of its own", len(history(t, counts.Thread(eng, "own"))), 6)
}

// rowInnerStream: who streams a run inside a node hears of it, and who streams the node's run does not.
func rowInnerStream(t *testing.T, h *home) {
	eng := engine(t, h.open(t), nil)
	inner, heard := build(t, pawl.New[rowState]("inner").Node("x", rowSays("x")).Node("y", rowSays("y")).Path(pawl.Start, "x", "y")), []string{}
	b := single(func(ctx context.Context, s *rowState) error {
		for e, err := range inner.Thread(eng, "inner").Stream(ctx, &rowState{}) {
			if err != nil {
				return err
			}
			if e.Kind == pawl.EventTaskEnd {
				heard = append(heard, e.Node)
			}
		}
		return nil
	})
	var outside []string
	for e, err := range build(t, b).Thread(eng, "outer").Stream(t.Context(), &rowState{}) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind == pawl.EventTaskEnd {
			outside = append(outside, e.Node)
		}
	}
	sameList(t, "heard inside", own(heard), []string{"x", "y"})
	sameList(t, "heard outside", own(outside), []string{"a"})
}
