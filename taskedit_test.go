package pawl_test

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

// says is a task edit that logs what the node would.
func says(node, line string) pawl.TaskEdit {
	return pawl.TaskEdit{Node: node, Changes: json.RawMessage(fmt.Sprintf(`{"log":[%q]}`, line))}
}

// forked is a -> two tasks of the worker w, one more by a goto -> z, with a question in z; it counts what runs.
func forked(t *testing.T, e *visits) *pawl.Graph[lines] {
	t.Helper()
	w := pawl.NewWorker("w", func(_ context.Context, s *lines, n int) error {
		e.add("w")
		s.Log.Add(fmt.Sprint("w", n))
		return nil
	})
	return linesOf(t, pawl.New[lines]("forked").
		Node("a", func(ctx context.Context, s *lines) error {
			e.add("a")
			s.Log.Add("a")
			return pawl.Goto(ctx, w.With(3)...)
		}, pawl.Targets("w")).Add(w).
		Node("z", func(_ context.Context, s *lines) error { e.add("z"); s.Log.Add("z"); return nil }).
		Edge(pawl.Start, "a").Edge("w", "z").
		Route("a", func(s *lines) []pawl.Next {
			if s.Log.Len() == 0 {
				return nil
			}
			return w.Each([]int{1, 2})
		}, "w"))
}

// rewritten is a history without what differs from thread to thread.
func rewritten(t *testing.T, th *pawl.ThreadOf[lines], sources bool) (out []string) {
	t.Helper()
	h, err := th.History(t.Context(), pawl.Page{})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range h {
		line := fmt.Sprintf("%d %s %v", s.Step, s.Values, s.Next)
		if sources {
			line += " " + s.Source
		}
		for _, task := range s.Tasks {
			line += fmt.Sprintf(" %s/%s", task.Node, task.Kind)
		}
		out = append(out, line)
	}
	return out
}

// A history written by hand is that of the runs that it stands for, and goes on like them.
func TestEditAsTellsTheSameHistory(t *testing.T) {
	t.Parallel()
	e := &visits{}
	g := forked(t, e)
	w := pawl.NewWorker("w", func(context.Context, *lines, int) error { return nil })
	real := g.Thread(opened(t, hooked(t), nil), "real")
	for _, in := range []string{"one", "two"} {
		s := &lines{}
		s.Log.Add(in)
		if _, err := real.Run(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	run := func(in string) [][]pawl.TaskEdit {
		return [][]pawl.TaskEdit{
			{says(pawl.Start, in)},
			{{Node: "a", Changes: json.RawMessage(`{"log":["a"]}`), Next: w.With(3)}},
			{says("w", "w1"), g.As("w", func(s *lines) error { s.Log.Add("w2"); return nil }), says("w", "w3")},
			{says("z", "z")},
		}
	}
	was := e.String()
	for name, calls := range map[string][][][]pawl.TaskEdit{
		"in one call":  {append(run("one"), run("two")...)},
		"in two calls": {run("one"), run("two")},
		"in eight":     {run("one")[:1], run("one")[1:2], run("one")[2:3], run("one")[3:], run("two")[:1], run("two")[1:2], run("two")[2:3], run("two")[3:]},
	} {
		th := g.Thread(opened(t, hooked(t), nil), "edited")
		for i, steps := range calls {
			out, err := th.EditAs(t.Context(), steps)
			if err != nil {
				t.Fatal(name, err)
			}
			if over := len(out.Next) == 0; over != (out.Status == pawl.Done) || !over && out.Status != pawl.Waiting || len(out.Dropped) > 0 {
				t.Errorf("%s: after call %d it is %s: %v, %v dropped", name, i+1, out.Status, out.Next, out.Dropped)
			}
		}
		if got, want := rewritten(t, th, false), rewritten(t, real, false); !slices.Equal(got, want) {
			t.Errorf("%s:\n%s\nwant\n%s", name, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		runs, err := th.Runs(t.Context())
		if err != nil || len(runs) != 2 || runs[0].Status != pawl.Done || runs[1].Status != pawl.Done {
			t.Errorf("%s: %+v, %v", name, runs, err)
		}
		for _, th := range []*pawl.ThreadOf[lines]{th} { // what comes next is a run like another
			if out, err := th.Run(t.Context(), nil); err != nil || out.State.Log.Len() != 17 {
				t.Errorf("%s: then a run: %v, %v", name, out, err)
			}
		}
	}
	if !strings.HasPrefix(e.String(), was) || strings.Count(e.String(), "z") != 2+3 {
		t.Errorf("nodes ran: %s", e)
	}
}

// Where a thread stands after edits, and what Resume does then.
func TestEditAs(t *testing.T) {
	t.Parallel()
	q := pawl.Interrupt[string, string]{Name: "q"}
	log := func(name string) func(context.Context, *lines) error {
		return func(_ context.Context, s *lines) error { s.Log.Add(name); return nil }
	}
	graph := linesOf(t, pawl.New[lines]("g").Node("a", log("a")).Node("b", log("b")).Node("end", log("end")).
		Node("ask", func(ctx context.Context, s *lines) error {
			_, err := q.Ask(ctx, "?")
			if err == nil {
				s.Log.Add("asked")
			}
			return err
		}, pawl.Uses(q)).
		Edge(pawl.Start, "a").Edge("a", "b").Edge("a", "ask").Join([]string{"b", "ask"}, "end"))
	type steps = [][]pawl.TaskEdit
	for _, c := range []struct {
		name    string
		run     bool // up to the question first
		steps   steps
		status  pawl.Status
		next    []string
		dropped []string
		log     []string // after the edit
		resumed []string
	}{
		{"a new thread", false, steps{{says("a", "A")}}, pawl.Waiting, []string{"ask", "b"}, nil, []string{"A"}, nil},
		{"an input alone", false, steps{{says(pawl.Start, "in")}}, pawl.Waiting, []string{"a"}, nil, []string{"in"}, nil},
		{"two super-steps", false, steps{{says("a", "A")}, {says("ask", "ASK"), says("b", "B")}}, pawl.Waiting, []string{"end"}, nil,
			[]string{"A", "ASK", "B"}, []string{"A", "ASK", "B", "end"}},
		{"in plan order, not in that of the list", false, steps{{says("a", "A")}, {says("b", "B"), says("ask", "ASK")}}, pawl.Waiting, []string{"end"}, nil,
			[]string{"A", "ASK", "B"}, nil},
		{"a node that is not due", false, steps{{says("a", "A")}, {says("end", "END")}}, pawl.Done, nil, []string{"ask", "b"}, []string{"A", "END"}, nil},
		{"to the end", false, steps{{says("a", "A")}, {says("b", "B"), {Node: "ask"}}, {{Node: "end"}}}, pawl.Done, nil, nil, []string{"A", "B"}, nil},
		{"the stuck one by hand", true, steps{{says("ask", "by hand")}}, pawl.Waiting, []string{"end"}, nil, []string{"a", "by hand", "b"}, []string{"a", "by hand", "b", "end"}},
		{"the finished one anew", true, steps{{says("ask", "by hand"), says("b", "B")}}, pawl.Waiting, []string{"end"}, nil, []string{"a", "by hand", "B"}, nil},
		{"as the node before", true, steps{{says("a", "again")}}, pawl.Waiting, []string{"ask", "b"}, []string{"ask"}, []string{"a", "b", "again"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			th := graph.Thread(opened(t, hooked(t), nil), "t")
			if c.run {
				if out, err := th.Run(t.Context(), nil); err != nil || len(out.Waiting) != 1 {
					t.Fatal(out, err)
				}
			}
			out, err := th.EditAs(t.Context(), c.steps)
			if err != nil || out.Status != c.status || !slices.Equal(out.Next, c.next) || !slices.Equal(out.Dropped, c.dropped) || len(out.Waiting) > 0 {
				t.Fatalf("%+v, %v", out, err)
			}
			st, err := th.State(t.Context())
			if err != nil || st.Status != c.status || len(st.Waiting) > 0 {
				t.Fatalf("%+v, %v", st, err)
			}
			if s, err := th.Read(st.Head); err != nil || !slices.Equal(logged(s), c.log) || (st.Head.Source == "edit") != (c.name != "an input alone") {
				t.Errorf("%v (%s), %v", logged(s), st.Head.Source, err)
			}
			if c.resumed == nil {
				return
			}
			if out, err := th.Resume(t.Context()); err != nil || out.Status != pawl.Done || !slices.Equal(logged(out.State), c.resumed) {
				t.Errorf("resumed: %+v, %v", out, err)
			}
		})
	}
}

// What is refused changes nothing, not even what stood before it in the list.
func TestEditAsRefuses(t *testing.T) {
	t.Parallel()
	g := forked(t, &visits{})
	good := []pawl.TaskEdit{says("a", "A")}
	other := linesOf(t, pawl.New[lines]("other").Node("a", func(context.Context, *lines) error { return nil }).Path(pawl.Start, "a"))
	for _, c := range []struct {
		name  string
		steps [][]pawl.TaskEdit
		opts  []pawl.RunOption
		want  string
	}{
		{"no super-steps", nil, nil, "there are no super-steps"},
		{"none of them has an edit", [][]pawl.TaskEdit{{}, {}}, nil, "super-step 1: it has no edits"},
		{"the last has none", [][]pawl.TaskEdit{good, {}}, nil, "super-step 2: it has no edits"},
		{"edits without a node", [][]pawl.TaskEdit{{{Changes: json.RawMessage(`{}`)}, {}}}, nil, "edit 1 names no node"},
		{"an unknown node", [][]pawl.TaskEdit{good, {says("nobody", "x")}}, nil, `node "nobody" not found`},
		{"an end that writes", [][]pawl.TaskEdit{good, {says(pawl.End, "x")}}, nil, "super-step 2 as node \"__end__\": the end writes nothing"},
		{"an end that leads on", [][]pawl.TaskEdit{good, {{Node: pawl.End, Next: pawl.To("a")}}}, nil, "leads nowhere"},
		{"an end by a function", [][]pawl.TaskEdit{good, {g.As(pawl.End, nil)}}, nil, "the end writes nothing"},
		{"an end beside others", [][]pawl.TaskEdit{{{Node: pawl.End}, says("a", "A")}}, nil, "the end stands alone"},
		{"an end of a branch", [][]pawl.TaskEdit{{{Node: pawl.End}}}, []pawl.RunOption{pawl.From(pawl.Before("a"))}, "leave From out"},
		{"an end where nothing began", [][]pawl.TaskEdit{{{Node: pawl.End}}}, nil, "nothing is due"},
		{"an end behind the end", [][]pawl.TaskEdit{good, {{Node: pawl.End}}, {{Node: pawl.End}}}, nil, "super-step 3 as node \"__end__\": nothing is due"},
		{"an input beside others", [][]pawl.TaskEdit{{says(pawl.Start, "x"), says("a", "A")}}, nil, "an input stands alone"},
		{"an input that leads on", [][]pawl.TaskEdit{{{Node: pawl.Start, Next: pawl.To("a")}}}, nil, "not to a Next"},
		{"an input where something is due", [][]pawl.TaskEdit{good, {says(pawl.Start, "x")}}, nil, `nothing is due, and here "w" is`},
		{"an unknown channel", [][]pawl.TaskEdit{good, {{Node: "z", Changes: json.RawMessage(`{"nothing":1}`)}}}, nil, "super-step 2 as node \"z\""},
		{"no JSON", [][]pawl.TaskEdit{{{Node: "a", Changes: json.RawMessage(`{`)}}}, nil, "super-step 1 as node \"a\""},
		{"a target that is not declared", [][]pawl.TaskEdit{{{Node: "a", Next: pawl.To("z")}}}, nil, `chose "z", which it does not declare`},
		{"an edit that fails", [][]pawl.TaskEdit{good, {g.As("z", func(*lines) error { return errBroken })}}, nil, errBroken.Error()},
		{"an edit of another graph", [][]pawl.TaskEdit{{other.As("a", nil)}}, nil, `is of graph "other"`},
		{"of a child", [][]pawl.TaskEdit{good}, []pawl.RunOption{pawl.In("c:1")}, "takes no In option"},
		{"at another head", [][]pawl.TaskEdit{good}, []pawl.RunOption{pawl.At("x")}, "not found"},
		{"from a point that is not there", [][]pawl.TaskEdit{good}, []pawl.RunOption{pawl.From(pawl.Before("a"))}, "not found"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			th := g.Thread(opened(t, hooked(t), nil), "t")
			_, err := th.EditAs(t.Context(), c.steps, c.opts...)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "nothing was changed") {
				t.Fatal(err)
			}
			if st, err := th.State(t.Context()); err != nil || st.Status != pawl.StatusNew {
				t.Errorf("the thread is %s, %v", st.Status, err)
			}
		})
	}
}

// A route that fails, and two writers of one channel, are refused as they would fail a run.
func TestEditAsMerges(t *testing.T) {
	t.Parallel()
	g := built(t, pawl.New[note]("g").Node("a", func(context.Context, *note) error { return nil }).Node("b", func(context.Context, *note) error { return nil }).
		Edge(pawl.Start, "a").Edge(pawl.Start, "b").Route("a", func(s *note) []pawl.Next {
		if s.Text.Get() == "panic" {
			panic("no way")
		}
		return nil
	}, "b"))
	text := func(node, s string) pawl.TaskEdit {
		return g.As(node, func(n *note) error { n.Text.Set(s); return nil })
	}
	th := g.Thread(opened(t, hooked(t), nil), "t")
	_, err := th.EditAs(t.Context(), [][]pawl.TaskEdit{{text("a", "1"), text("b", "2")}})
	if conflict := (*pawl.ConflictError)(nil); !errors.As(err, &conflict) || !errors.As(err, new(*pawl.TaskEditError)) {
		t.Error(err)
	}
	_, err = th.EditAs(t.Context(), [][]pawl.TaskEdit{{text("a", "panic")}})
	if p := (*pawl.PanicError)(nil); !errors.As(err, &p) || p.Node != "a" {
		t.Error(err)
	}
	if st := status(t, th); st.Status != pawl.StatusNew {
		t.Error(st.Status)
	}
}

// From an older point the edits are a branch beside what was, and the old one stays.
func TestEditAsFrom(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		at    pawl.Point
		steps [][]pawl.TaskEdit
		edit  []string // the log after the edits
		done  []string
	}{
		{"another input", pawl.Before(pawl.Start), [][]pawl.TaskEdit{{says(pawl.Start, "in*")}}, []string{"in*"}, []string{"in*", "a", "w1", "w2", "w3", "z"}},
		{"another first node, without its goto", pawl.Before("a"), [][]pawl.TaskEdit{{says("a", "a*")}}, []string{"in", "a*"}, []string{"in", "a*", "w1", "w2", "z"}},
		{"other workers", pawl.Before("w"), [][]pawl.TaskEdit{{says("w", "1*"), says("w", "2*"), says("w", "3*")}}, []string{"in", "a", "1*", "2*", "3*"}, []string{"in", "a", "1*", "2*", "3*", "z"}},
		{"two super-steps", pawl.Before("a"), [][]pawl.TaskEdit{{says("a", "a*")}, {says("w", "1*"), says("w", "2*")}}, []string{"in", "a*", "1*", "2*"}, []string{"in", "a*", "1*", "2*", "z"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			th := forked(t, &visits{}).Thread(opened(t, hooked(t), nil), "t")
			in := &lines{}
			in.Log.Add("in")
			if _, err := th.Run(t.Context(), in); err != nil {
				t.Fatal(err)
			}
			before := rewritten(t, th, true)
			out, err := th.EditAs(t.Context(), c.steps, pawl.From(c.at))
			if err != nil || out.Status != pawl.Waiting {
				t.Fatalf("%+v, %v", out, err)
			}
			st, err := th.State(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if s, err := th.Read(st.Head); err != nil || !slices.Equal(logged(s), c.edit) || st.Head.Source != "edit" {
				t.Errorf("%v, %v", logged(s), err)
			}
			if after := rewritten(t, th, true); !slices.Equal(after[len(after)-len(before):], before) || len(after) != len(before)+1+len(c.steps) {
				t.Errorf("the old branch: %v", after)
			}
			done, err := th.Resume(t.Context())
			if err != nil || done.Status != pawl.Done || !slices.Equal(logged(done.State), c.done) {
				t.Errorf("%+v, %v", done, err)
			}
		})
	}
}

// Permission to edit is none to start a run.
func TestEditAsIsAskedFor(t *testing.T) {
	t.Parallel()
	eng := opened(t, hooked(t), &pawl.Options{Allow: func(_ context.Context, v pawl.VerbInfo) error {
		if v.Verb == pawl.VerbRun {
			return errors.New("not you")
		}
		return nil
	}})
	th := forked(t, &visits{}).Thread(eng, "t")
	if _, err := th.EditAs(t.Context(), [][]pawl.TaskEdit{{says(pawl.Start, "x")}}); !errors.Is(err, pawl.ErrDenied) {
		t.Error(err)
	}
	if _, err := th.EditAs(t.Context(), [][]pawl.TaskEdit{{says("a", "x")}}); err != nil {
		t.Error(err)
	}
}

// A run that was ended for good stays so.
func TestEditAsOfWhatIsOver(t *testing.T) {
	t.Parallel()
	q := pawl.Interrupt[string, string]{Name: "q"}
	g := single(t, func(ctx context.Context, _ *note) error { _, err := q.Ask(ctx, "?"); return err }, pawl.Uses(q))
	th := g.Thread(opened(t, hooked(t), nil), "t")
	if _, err := th.Run(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if err := th.Cancel(t.Context(), "for good"); err != nil {
		t.Fatal(err)
	}
	out, err := th.EditAs(t.Context(), [][]pawl.TaskEdit{{g.As("only", func(s *note) error { s.Text.Set("x"); return nil })}})
	if err != nil || out.Status != pawl.Cancelled {
		t.Errorf("%+v, %v", out, err)
	}
}

// As End a run is given up: what had finished is kept, what was open is withdrawn, what was given is told, and nothing of
// it comes back with the next run.
func TestGivingUp(t *testing.T) {
	t.Parallel()
	q := pawl.Interrupt[string, string]{Name: "q"}
	log := func(name string) func(context.Context, *lines) error {
		return func(_ context.Context, s *lines) error { s.Log.Add(name); return nil }
	}
	g := linesOf(t, pawl.New[lines]("g").Node("a", log("a")).Node("b", log("b")).Node("both", log("both")).Node("last", log("last"), pawl.Defer()).
		Node("ask", func(ctx context.Context, s *lines) error {
			for _, key := range []string{"1", "2"} {
				if _, err := q.Ask(ctx, "?", pawl.Key(key)); err != nil && key == "2" {
					return err
				}
			}
			s.Log.Add("asked")
			return nil
		}, pawl.Uses(q)).
		Node("fail", func(_ context.Context, s *lines) error {
			if s.Log.Len() > 0 && s.Log.At(0) == "broken" {
				return errBroken
			}
			return nil
		}).
		Edge(pawl.Start, "a").Edge("a", "b").Edge("a", "ask").Edge("a", "last").Edge("a", "fail").Join([]string{"b", "ask"}, "both"))
	end := [][]pawl.TaskEdit{{{Node: pawl.End}}}
	for _, in := range []string{"in", "broken"} {
		t.Run(in, func(t *testing.T) {
			t.Parallel()
			eng := opened(t, hooked(t), nil)
			th := g.Thread(eng, "t")
			s := &lines{}
			s.Log.Add(in)
			out, err := th.Run(t.Context(), s)
			if (err != nil) != (in == "broken") {
				t.Fatal(out, err)
			}
			dropped := []string{"ask", "last"}
			if in == "broken" {
				dropped = []string{"ask", "fail", "last"}
			} else if _, err := eng.Answer(t.Context(), out.Waiting[0].ID, "yes"); err != nil || len(out.Waiting) != 2 {
				t.Fatal(out.Waiting, err)
			}
			before := out.Checkpoint
			given, err := th.EditAs(t.Context(), end, pawl.At(before))
			if err != nil || given.Status != pawl.Done || len(given.Next)+len(given.Waiting) > 0 || !slices.Equal(given.Dropped, dropped) {
				t.Fatalf("%+v, %v", given, err)
			}
			if unused := len(given.Unused); unused != len(dropped)%3/2 {
				t.Errorf("%d answers are said to be unused", unused)
			}
			st, err := th.State(t.Context())
			if err != nil || st.Head.Source != "edit" || st.Head.Parent != before || string(st.Head.Values) != fmt.Sprintf(`{"log":[%q,"a","b"]}`, in) {
				t.Errorf("%+v, %v", st.Head, err)
			}
			if _, err := th.EditAs(t.Context(), end); !errors.As(err, new(*pawl.TaskEditError)) {
				t.Errorf("given up twice: %v", err)
			}
			next := &lines{}
			next.Log.Add("next")
			if out, err := th.Run(t.Context(), next); (err != nil) != (in == "broken") || slices.Contains(logged(out.State), "both") || len(out.Dropped) > 0 {
				t.Errorf("the next run: %+v, %v", out, err)
			}
		})
	}
}
