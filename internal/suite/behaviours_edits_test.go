package suite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
)

// does is a node that logs a line, done by hand.
func does(node, line string) pawl.TaskEdit {
	return pawl.TaskEdit{Node: node, Changes: json.RawMessage(fmt.Sprintf(`{"log":[%q]}`, line))}
}

// historyOf is a history in what two threads can have in common, the oldest first.
func historyOf(t *testing.T, th *pawl.ThreadOf[rowState]) (out []string) {
	t.Helper()
	h, err := th.History(t.Context(), pawl.Page{})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range h {
		line := fmt.Sprint(s.Step, " ", string(s.Values), " ", s.Next)
		for _, task := range s.Tasks {
			line += " " + task.Node + " " + wrote(task)
		}
		out = append(out, line)
	}
	slices.Reverse(out)
	return out
}

// wrote is what a task of a history came to.
func wrote(task pawl.TaskState) string {
	var out []string
	for _, w := range task.Writes {
		out = append(out, w.Channel+"="+string(w.Value))
	}
	return strings.Join(out, " ")
}

// byHandOf applies lists of super-steps, each list in a call.
func byHandOf(t *testing.T, th *pawl.ThreadOf[rowState], calls ...[][]pawl.TaskEdit) *pawl.Outcome {
	t.Helper()
	var out *pawl.Outcome
	for _, steps := range calls {
		var err error
		if out, err = th.EditAs(t.Context(), steps); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// twoThreads are threads of one graph on two engines of one home: that which runs, and that which is edited.
func twoThreads(t *testing.T, h *home, b *pawl.Builder[rowState]) (real, byHand *pawl.ThreadOf[rowState]) {
	t.Helper()
	g := build(t, b)
	eng := engine(t, h.open(t), nil)
	return g.Thread(eng, "real"), g.Thread(eng, "by hand")
}

func rowEditAsNobody(t *testing.T, h *home) {
	th := rowThread(t, h, sayers("a"), nil)
	_, err := th.EditAs(t.Context(), [][]pawl.TaskEdit{{does("nobody", "x")}})
	if unknown := (*pawl.NotFoundError)(nil); !errors.As(err, &unknown) || unknown.What != "node" || unknown.ID != "nobody" {
		t.Error(err)
	}
	if s := statusOf(t, th); s.Status != pawl.StatusNew {
		t.Error(s.Status)
	}
}

func rowEditAsSteps(t *testing.T, h *home) {
	b := sayers("a", "b")
	one, two := twoThreads(t, h, b)
	first := []pawl.TaskEdit{{Node: "a", Changes: json.RawMessage(`{"m":{"foo":"bar"}}`)}}
	second := []pawl.TaskEdit{
		{Node: "a", Changes: json.RawMessage(`{"m":{"foo":"updated"}}`)},
		{Node: "b", Changes: json.RawMessage(`{"m":{"baz":"new"}}`)},
	}
	byHandOf(t, one, [][]pawl.TaskEdit{first}, [][]pawl.TaskEdit{second})
	byHandOf(t, two, [][]pawl.TaskEdit{first, second})
	want := []string{`0 {"m":{"foo":"bar"}} [b] b m={"baz":"new"}`, `1 {"m":{"baz":"new","foo":"updated"}} [b] b `}
	for name, th := range map[string]*pawl.ThreadOf[rowState]{"in two calls": one, "in one": two} {
		if got := historyOf(t, th); !slices.Equal(got, want) {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func rowEditAsRefuses(t *testing.T, h *home) {
	th := rowThread(t, h, sayers("a", "b"), nil)
	changes := json.RawMessage(`{"log":["x"]}`)
	for name, steps := range map[string][][]pawl.TaskEdit{
		"nothing":                nil,
		"empty super-steps":      {{}, {}},
		"two updates as nobody":  {{{Changes: changes}, {Changes: changes}}},
		"the end beside a node":  {{{Node: pawl.End}, does("a", "x")}},
		"an input beside a node": {{does(pawl.Start, "x"), does("a", "x")}},
	} {
		if _, err := th.EditAs(t.Context(), steps); !errors.As(err, new(*pawl.TaskEditError)) || !strings.Contains(err.Error(), "nothing was changed") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if s := statusOf(t, th); s.Status != pawl.StatusNew {
		t.Error(s.Status)
	}
	if out, err := th.Run(t.Context(), &rowState{}); err != nil {
		t.Fatal(out, err)
	}
	before := len(history(t, th))
	_, err := th.EditAs(t.Context(), [][]pawl.TaskEdit{{{Node: pawl.End}}}, pawl.From(pawl.Before("b")))
	if refused := (*pawl.TaskEditError)(nil); !errors.As(err, &refused) || refused.Node != pawl.End || !strings.Contains(err.Error(), "nothing was changed") {
		t.Errorf("the end of a copy: %v", err)
	}
	same(t, "checkpoints", len(history(t, th)), before)
}

func rowEditAsRuns(t *testing.T, h *home) {
	real, byHand := twoThreads(t, h, sayers("agent", "tool"))
	var steps [][]pawl.TaskEdit
	for _, in := range []string{"one", "two"} {
		s := &rowState{}
		s.Log.Add(in)
		if out, err := real.Run(t.Context(), s); err != nil {
			t.Fatal(out, err)
		}
		steps = append(steps, []pawl.TaskEdit{does(pawl.Start, in)}, []pawl.TaskEdit{does("agent", "agent")}, []pawl.TaskEdit{does("tool", "tool")})
	}
	byHandOf(t, byHand, steps)
	same(t, "history", strings.Join(historyOf(t, byHand), "\n"), strings.Join(historyOf(t, real), "\n"))
}

func rowEditAsSends(t *testing.T, h *home) {
	task := pawl.NewWorker("task", func(_ context.Context, s *rowState, n int) error { s.Log.Add(fmt.Sprint("task ", n)); return nil })
	real, byHand := twoThreads(t, h, pawl.New[rowState]("row").Add(task).
		Node("map", func(ctx context.Context, s *rowState) error {
			s.Log.Add("map")
			return pawl.Goto(ctx, task.Each([]int{0, 1, 2})...)
		}, pawl.Targets("task")).Path(pawl.Start, "map"))
	if _, err := real.Run(t.Context(), &rowState{}); err != nil {
		t.Fatal(err)
	}
	sent := does("map", "map")
	sent.Next = task.Each([]int{0, 1, 2})
	byHandOf(t, byHand, [][]pawl.TaskEdit{
		{{Node: pawl.Start}}, {sent}, {does("task", "task 0"), does("task", "task 1"), does("task", "task 2")},
	})
	got := historyOf(t, byHand)
	same(t, "history", strings.Join(got, "\n"), strings.Join(historyOf(t, real), "\n"))
	if !strings.HasSuffix(got[2], `] task log=["task 0"] task log=["task 1"] task log=["task 2"]`) {
		t.Errorf("the tasks: %s", got[2])
	}
}

func rowEditAsTasks(t *testing.T, h *home) {
	real, byHand := twoThreads(t, h, pawl.New[rowState]("row").Path(pawl.Start, "double").
		Node("double", func(_ context.Context, s *rowState) error { s.N.Add(2); return nil }))
	if _, err := real.Run(t.Context(), &rowState{}); err != nil {
		t.Fatal(err)
	}
	byHandOf(t, byHand, [][]pawl.TaskEdit{{{Node: pawl.Start}}, {{Node: "double", Changes: json.RawMessage(`{"n":2}`)}}})
	got := historyOf(t, byHand)
	same(t, "history", strings.Join(got, "\n"), strings.Join(historyOf(t, real), "\n"))
	if !strings.HasSuffix(got[1], "double n=2") {
		t.Errorf("the task's result: %s", got[1])
	}
}

// rowEditsAppend: edits make a thread, stand one behind the other, and add to the list; the first version of it is whole.
func rowEditsAppend(t *testing.T, h *home) {
	for i := range 3 {
		th := rowThread(t, h, replies(), nil)
		before := history(t, th)
		if _, err := th.Edit(t.Context(), func(s *rowState) error { s.Log.Add(fmt.Sprint("edit ", i)); return nil }); err != nil {
			t.Fatal(err)
		}
		after := history(t, th)
		if len(after) != len(before)+1 || i > 0 && after[0].Parent != before[0].Checkpoint || i == 0 && after[0].Parent != "" {
			t.Errorf("history %s", compact(after))
		}
		whole, all, _ := versions(t, h)
		same(t, "whole versions, of all", [2]int{whole, all}, [2]int{1, i + 1})
		grew(t, before, after)
	}
	same(t, "log", reloaded(t, h), []string{"edit 0", "edit 1", "edit 2"})
	turnOf(t, h, "turn", pawl.Sync)
	same(t, "log", reloaded(t, h), []string{"edit 0", "edit 1", "edit 2", "turn", "reply to turn"})
}

// rowGiveUp: a question of a pause that was given up takes no answer any more.
func rowGiveUp(t *testing.T, h *home) {
	th := rowThread(t, h, asking(), nil)
	out, _ := ran(t, th, pawl.Waiting)
	given := byHandOf(t, th, [][]pawl.TaskEdit{{{Node: pawl.End}}})
	same(t, "status", given.Status, pawl.Done)
	s := statusOf(t, th)
	same(t, "source, open questions, what is next", fmt.Sprintf("%s %d %v", s.Head.Source, len(s.Waiting), s.Head.Next), "edit 0 []")
	same(t, "parent", s.Head.Parent, out.Checkpoint)
	if _, err := th.Resume(t.Context(), vote.Answer(out.Waiting[0].ID, "a")); err == nil {
		t.Error("a question that was given up took an answer")
	}
}
