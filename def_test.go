package pawl

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/core"
)

// runNode runs one task without an engine on the channels given as JSON.
func runNode[S any](g *Graph[S], node string, channels map[string]string, arg string, input ...core.Write) (core.TaskOutput, error) {
	return runNodeIn(context.Background(), g, node, channels, arg, input...)
}

func runNodeIn[S any](ctx context.Context, g *Graph[S], node string, channels map[string]string, arg string, input ...core.Write) (core.TaskOutput, error) {
	d := g.erased()
	in := core.TaskInput{Task: &core.Task{ID: "t1", Node: node, Index: -1}, Values: make([]*core.Value, len(d.Topology().Channels)), Input: input}
	for name, doc := range channels {
		in.Values[d.Topology().Channel(name)] = core.NewSet([]byte(doc))
	}
	if arg != "" {
		in.Task.Arg, in.Task.Index = []byte(arg), 0
	}
	return d.RunTask(ctx, in)
}

func TestPanicsAreErrorsOfTheTask(t *testing.T) {
	t.Parallel()
	boom := func() { panic("boom") }
	var null *parcel
	for _, c := range []struct {
		name   string
		fn     func(context.Context, *ledger) error
		choose func(*ledger) []Next
		value  string
		stack  string
	}{
		{"in the node", func(context.Context, *ledger) error { boom(); return nil }, nowhere, "boom", "TestPanicsAreErrorsOfTheTask"},
		{"in the route", nop, func(*ledger) []Next { boom(); return nil }, "boom", "TestPanicsAreErrorsOfTheTask"},
		{"at run time", func(context.Context, *ledger) error { null.N++; return nil }, nowhere, "nil pointer", "TestPanicsAreErrorsOfTheTask"},
		{"with nil", func(context.Context, *ledger) error { panic(nil) }, nowhere, "nil", "TestPanicsAreErrorsOfTheTask"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			out, err := runNode(routed(t, c.fn, c.choose, "a"), "from", nil, "")
			var e *PanicError
			if !errors.As(err, &e) || e.Node != "from" {
				t.Fatalf("got %v; want a *PanicError of the node", err)
			}
			if !strings.Contains(e.Error(), c.value) || !strings.Contains(string(e.Stack), c.stack) {
				t.Errorf("value and stack are lost: %v\n%s", e, e.Stack)
			}
			if len(out.Writes) > 0 || len(out.Next) > 0 {
				t.Errorf("a task that panicked did something: %+v", out)
			}
		})
	}
}

func TestWritesThatAreRefused(t *testing.T) {
	t.Parallel()
	t.Run("in a route", func(t *testing.T) {
		t.Parallel()
		g := routed(t, nop, func(s *ledger) []Next { s.Pick.Set("x"); return To("a") }, "a")
		out, err := runNode(g, "from", nil, "")
		if err == nil || !strings.Contains(err.Error(), "from") || !strings.Contains(err.Error(), "pick") || !strings.Contains(err.Error(), "route") {
			t.Errorf("got %v; want node, channel and route named", err)
		}
		if len(out.Writes) > 0 || len(out.Next) > 0 {
			t.Errorf("the task did something: %+v", out)
		}
	})
	t.Run("in a route that then fails", func(t *testing.T) {
		t.Parallel()
		g := routed(t, nop, func(s *ledger) []Next { s.Pick.Set("x"); return To("b") }, "a")
		_, err := runNode(g, "from", nil, "")
		var refused *StateError
		if !errors.As(err, &refused) || !strings.Contains(err.Error(), `chose "b"`) {
			t.Errorf("got %v; want the refused write, and the route's failure in the text", err)
		}
	})
	t.Run("in a route of Start", func(t *testing.T) {
		t.Parallel()
		g := mustBuild(t, sound().Route(Start, func(s *ledger) []Next { s.Total.Add(1); return nil }, "a"))
		if _, err := runNode(g, Start, nil, ""); err == nil || !strings.Contains(err.Error(), "total") {
			t.Errorf("got %v; want the channel named", err)
		}
	})
	t.Run("by a goroutine left behind", func(t *testing.T) {
		t.Parallel()
		written, routing := make(chan struct{}), make(chan struct{})
		g := routed(t, func(_ context.Context, s *ledger) error {
			go func() {
				<-routing
				s.Pick.Set("late")
				close(written)
			}()
			return nil
		}, func(s *ledger) []Next { close(routing); <-written; return To("a") }, "a")
		out, err := runNode(g, "from", nil, "")
		if err == nil || !strings.Contains(err.Error(), "pick") || len(out.Writes) > 0 {
			t.Errorf("got %+v, %v; want the late write to fail the task", out, err)
		}
	})
}

func TestAnOpenWaitEndsTheTaskWithoutEffect(t *testing.T) {
	t.Parallel()
	task := &Task{}
	g := routed(t, func(_ context.Context, s *ledger) error {
		task.open = map[string]*core.Question{"q": {}}
		s.Pick.Set("x")
		return nil
	}, func(*ledger) []Next { t.Error("the route ran"); return nil }, "a")
	out, err := runNodeIn(task.enter(t.Context()), g, "from", nil, "")
	if err != nil || len(out.Writes) > 0 || len(out.Next) > 0 {
		t.Errorf("got %+v, %v; want nothing at all", out, err)
	}
}

func TestLateWritesAreReported(t *testing.T) {
	t.Parallel()
	reports := make(chan error, 1)
	task := &Task{loop: &loop{late: func(err error) { reports <- err }}}
	var kept *ledger
	g := routed(t, func(_ context.Context, s *ledger) error { kept = s; return nil }, nowhere, "a")
	if _, err := runNodeIn(task.enter(t.Context()), g, "from", nil, ""); err != nil {
		t.Fatal(err)
	}
	if task.guard == nil {
		t.Error("the task did not get its state's guard")
	}
	kept.Pick.Set("late")
	var late *StateError
	if err := <-reports; !errors.As(err, &late) || late.Node != "from" || late.Channel != "pick" {
		t.Errorf("got %v; want node and channel of the late write", err)
	}
}

func TestStrictModeFindsChangesInPlace(t *testing.T) {
	t.Parallel()
	change := func(s *ledger) { s.Tags.Get()[0] = "changed" }
	node := func(_ context.Context, s *ledger) error { change(s); return nil }
	route := func(s *ledger) []Next { change(s); return nil }
	clean := func(s *ledger) []Next { s.Tags.Get(); return nil }
	broken := func(_ context.Context, s *ledger) error { change(s); return errors.New("broken") }
	for _, c := range []struct {
		name   string
		strict bool
		fn     func(context.Context, *ledger) error
		choose func(*ledger) []Next
		want   string
	}{
		{"strict, in the node", true, node, clean, "changed in place"},
		{"strict, in the route", true, nop, route, "changed in place"},
		{"strict, nothing changed", true, nop, clean, ""},
		{"strict, in a node that failed", true, broken, clean, "broken"},
		{"not strict", false, node, route, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			task := &Task{loop: &loop{strict: c.strict}}
			out, err := runNodeIn(task.enter(t.Context()), routed(t, c.fn, c.choose, "a"), "from", map[string]string{"tags": `["a"]`}, "")
			if c.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) || len(out.Next) > 0 {
				t.Errorf("got %+v, %v; want %q", out, err, c.want)
			}
			var state *StateError
			if c.want != "broken" && (!errors.As(err, &state) || state.Node != "from" || state.Channel != "tags") {
				t.Errorf("got %v; want a *StateError of node and channel", err)
			}
		})
	}
}

func TestUnreadableValuesAreToldBeforeWhatTheRouteMadeOfThem(t *testing.T) {
	t.Parallel()
	for name, choose := range map[string]func(*ledger) []Next{
		"declared":   func(s *ledger) []Next { s.Pick.Get(); return To("a") },
		"undeclared": func(s *ledger) []Next { return To(s.Pick.Get()) },
	} {
		g := mustBuild(t, sound().Route(Start, choose, "a").Route("b", choose, "a"))
		for _, node := range []string{Start, "b"} {
			out, err := runNode(g, node, map[string]string{"pick": `7`}, "")
			var state *StateError
			if !errors.As(err, &state) || state.Channel != "pick" || len(out.Next) > 0 {
				t.Errorf("%s, %s: got %+v, %v; want the channel that cannot be read", name, node, out, err)
			}
		}
	}
}

func TestGoexitLeavesTheStateSealed(t *testing.T) {
	t.Parallel()
	var kept *ledger
	g := routed(t, func(_ context.Context, s *ledger) error { kept = s; runtime.Goexit(); return nil }, nowhere, "a")
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		runNode(g, "from", nil, "")
		t.Error("RunTask returned from a goroutine that had ended")
	}()
	<-gone
	kept.Pick.Set("late")
	if v := kept.Pick.Get(); v == "late" {
		t.Error("a write after the task's end was taken")
	}
}

func TestStartAppliesTheInput(t *testing.T) {
	t.Parallel()
	var saw []string
	var total int64
	g := mustBuild(t, sound().Route(Start, func(s *ledger) []Next {
		saw, total = listed(&s.Notes), s.Total.Get()
		return To(s.Pick.Get())
	}, "b", End))
	input := []core.Write{
		{Channel: "notes", Op: core.OpAdd, Data: []byte(`["new"]`)},
		{Channel: "total", Op: core.OpAdd, Data: []byte(`2`)},
		{Channel: "pick", Op: core.OpSet, Data: []byte(`"b"`)},
	}
	out, err := runNode(g, Start, map[string]string{"notes": `["old"]`, "total": `40`}, "", input...)
	if err != nil || !slices.Equal(names(out.Next), []string{"b"}) {
		t.Errorf("led to %q, error %v; want b, from the input", names(out.Next), err)
	}
	if !slices.Equal(saw, []string{"old", "new"}) || total != 42 {
		t.Errorf("the route of Start saw %q and %d", saw, total)
	}
	if len(out.Writes) != 3 || out.Writes[0].Channel != "notes" || out.Writes[0].Value != nil || input[0].Value != nil {
		t.Errorf("writes: %+v; want the input, untouched", out.Writes)
	}
}

func TestStartWithoutRoutes(t *testing.T) {
	t.Parallel()
	input := core.Write{Channel: "pick", Op: core.OpSet, Data: []byte(`"b"`)}
	out, err := runNode(mustBuild(t, sound()), Start, nil, "", input)
	if err != nil || len(out.Next) > 0 || len(out.Writes) != 1 || out.Writes[0].Channel != "pick" {
		t.Errorf("got %+v, %v", out, err)
	}
}

func TestStartRouteFailures(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		choose func(*ledger) []Next
		input  core.Write
		want   string
	}{
		"undeclared":      {func(*ledger) []Next { return To("b") }, core.Write{Channel: "pick", Op: core.OpSet, Data: []byte(`"x"`)}, `chose "b"`},
		"panic":           {func(*ledger) []Next { panic("boom") }, core.Write{Channel: "pick", Op: core.OpSet, Data: []byte(`"x"`)}, "boom"},
		"unknown channel": {nowhere, core.Write{Channel: "x", Op: core.OpSet, Data: []byte(`1`)}, `unknown channel "x"`},
		"overflow":        {nowhere, core.Write{Channel: "total", Op: core.OpAdd, Data: []byte(`9223372036854775807`)}, "overflows"},
	} {
		g := mustBuild(t, sound().Route(Start, c.choose, "a"))
		out, err := runNode(g, Start, map[string]string{"total": "1"}, "", c.input)
		if err == nil || !strings.Contains(err.Error(), c.want) || len(out.Writes) > 0 {
			t.Errorf("%s: got %+v, %v; want %q", name, out, err, c.want)
		}
	}
}

func TestUnknownNodeIsNotRun(t *testing.T) {
	t.Parallel()
	g := mustBuild(t, sound())
	if _, err := runNode(g, "gone", nil, ""); err == nil || err.Error() != `graph "g" has no node "gone"; its task was not run` {
		t.Errorf("got %v", err)
	}
}

func TestFold(t *testing.T) {
	t.Parallel()
	type state struct {
		Worst Fold[int, worst] `json:"worst"`
	}
	g := mustBuild(t, New[state]("g").Edge(Start, End))
	if out, err := g.erased().Fold("worst", []byte("3"), []byte("[5,4]")); err != nil || string(out) != "5" {
		t.Errorf("got %s, %v; want 5", out, err)
	}
	out, err := g.erased().Fold("worst", []byte("3"), []byte("[-1]"))
	if err == nil || out != nil || !strings.Contains(err.Error(), `channel "worst"`) || !strings.Contains(err.Error(), "negative") {
		t.Errorf("got %s, %v; want the panic as an error that names the channel", out, err)
	}
}

type worst struct{}

func (worst) Fold(old, item int) int {
	if item < 0 {
		panic("negative")
	}
	return max(old, item)
}

// BenchmarkRunTask measures what a task costs over its function.
func BenchmarkRunTask(b *testing.B) {
	g, err := New[ledger]("g").Node("a", func(_ context.Context, s *ledger) error { s.Total.Add(1); return nil }).Edge(Start, "a").Build()
	if err != nil {
		b.Fatal(err)
	}
	in := core.TaskInput{Task: &core.Task{ID: "t", Node: "a", Index: -1}, Values: make([]*core.Value, 4)}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := g.def.RunTask(b.Context(), in); err != nil {
			b.Fatal(err)
		}
	}
}
