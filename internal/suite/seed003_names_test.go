package suite

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
)

// notByPosition runs its lines of steps, questions and effects, for changes of the code between a pause and its answer:
// in node functions, in the functional style, and steps one level down. Questions and effects of other depths are not
// among them.
func notByPosition(t *testing.T, _ *report) {
	changes := []struct {
		name  string
		names []string // of the new code; the old has A and B
		uses  string   // the first difference, where the names are declared to the graph
	}{
		{"swapped", []string{"B", "A"}, ""},
		{"one inserted above", []string{"zero", "A", "B"}, "was A, B, is A, B, zero"},
		{"the first removed", []string{"B"}, "was A, B, is B"},
	}
	for _, c := range changes {
		t.Run(c.name, func(t *testing.T) {
			onEach(t, func(t *testing.T, h *home) {
				t.Run("steps", func(t *testing.T) { stepsMoved(t, h, inNode, inOrder, c.names) })
				t.Run("steps of branches", func(t *testing.T) { stepsMoved(t, h, inNode, pawl.All, c.names) })
				t.Run("steps of a function", func(t *testing.T) { stepsMoved(t, h, inFunc, inOrder, c.names) })
				t.Run("steps of branches of a function", func(t *testing.T) { stepsMoved(t, h, inFunc, pawl.All, c.names) })
				t.Run("steps of a function in a function", func(t *testing.T) { stepsMoved(t, h, oneDown, inOrder, c.names) })
				t.Run("questions by key", func(t *testing.T) { questionsMoved(t, h, keyedQuestions, c.names, "") })
				t.Run("questions by name", func(t *testing.T) { questionsMoved(t, h, namedQuestions, c.names, c.uses) })
			})
			onEachMoney(t, func(t *testing.T, h *home) {
				uses := c.uses
				if uses != "" {
					uses = strings.NewReplacer("was A, B", "was A, B, say", "is A, B, zero", "is A, B, say, zero", "is B", "is B, say").Replace(uses)
				}
				t.Run("effects by reference", func(t *testing.T) { effectsMoved(t, h, false, c.names, "") })
				t.Run("effects by name", func(t *testing.T) { effectsMoved(t, h, true, c.names, uses) })
			})
		})
	}
}

// inOrder is All for one after the other.
func inOrder(ctx context.Context, fns ...func(context.Context) error) error {
	for _, fn := range fns {
		if err := fn(ctx); err != nil {
			return err
		}
	}
	return nil
}

type (
	// together runs functions, at once or not.
	together func(context.Context, ...func(context.Context) error) error
	// procedure is what calls steps, without the graph around it.
	procedure func(ctx context.Context, _ string) (map[string]string, error)
)

// inNode, inFunc and oneDown are graphs around a procedure.
func inNode(calls procedure) (pawl.Registrable, string, error) {
	g, err := pawl.New[found]("steps").Node("calls", func(ctx context.Context, s *found) error {
		got, err := calls(ctx, "")
		for name, result := range got {
			s.Got.Set(name, result)
		}
		return err
	}, pawl.Uses(say)).Edge(pawl.Start, "calls").Build()
	return g, "got", err
}

func inFunc(calls procedure) (pawl.Registrable, string, error) {
	f, err := pawl.Func("steps", calls, pawl.Uses(say))
	return f, "output", err
}

func oneDown(calls procedure) (pawl.Registrable, string, error) {
	inner, err := pawl.Func("inner", calls, pawl.Uses(say))
	if err != nil {
		return nil, "", err
	}
	child := inner.Child("inner")
	f, err := pawl.Func("steps", func(ctx context.Context, in string) (map[string]string, error) {
		return child.Call(ctx, in)
	}, pawl.Uses(child))
	return f, "output", err
}

// namedSteps calls a step of each name and then waits.
func namedSteps(l *ledger, run together, names ...string) procedure {
	return func(ctx context.Context, _ string) (map[string]string, error) {
		l.add("entry")
		entry := l.count("entry")
		results := make([]string, len(names))
		var calls []func(context.Context) error
		for i, name := range names {
			calls = append(calls, func(ctx context.Context) (err error) {
				results[i], err = pawl.Step(ctx, name, func(context.Context) (string, error) {
					l.add(name)
					return fmt.Sprintf("%s in entry %d", name, entry), nil
				})
				return err
			})
		}
		if err := run(ctx, calls...); err != nil {
			return nil, err
		}
		if _, err := say.Ask(ctx, "Go on?"); err != nil {
			return nil, err
		}
		got := map[string]string{}
		for i, name := range names {
			got[name] = results[i]
		}
		return got, nil
	}
}

func stepsMoved(t *testing.T, h *home, graph func(procedure) (pawl.Registrable, string, error), run together, names []string) {
	l, id := newLedger(t), t.Name()
	was, _, err := graph(namedSteps(l, run, "A", "B"))
	if err != nil {
		t.Fatal(err)
	}
	is, channel, err := graph(namedSteps(l, run, names...))
	if err != nil {
		t.Fatal(err)
	}
	old := engine(t, h.open(t), nil, was)
	out, err := start(old.Thread("steps", id))
	q := paused(t, out, err, 1)[0]
	before := history(t, old.Thread("steps", id))
	tally(t, l, map[string]int{"entry": 1, "A": 1, "B": 1})

	th := engine(t, h.open(t), nil, is).Thread("steps", id)
	out, err = resume(th, q.ID, "yes")
	got, rows := map[string]string{}, map[string]int{"entry": 2, "A": 1, "B": 1}
	for _, name := range names {
		if got[name] = name + " in entry 1"; name == "zero" {
			got[name], rows[name] = name+" in entry 2", 1
		}
	}
	finished(t, out, err, fmt.Sprintf(`{%q:%s}`, channel, compact(got)))
	tally(t, l, rows)
	atEnd(t, th, before)
}

// namedQuestions asks a question of each name with the same body, all of them before it waits.
func namedQuestions(l *ledger, names ...string) *pawl.Builder[found] {
	var uses []pawl.Usable
	var asks []pawl.Interrupt[string, string]
	for _, name := range names {
		in := pawl.Interrupt[string, string]{Name: name}
		uses, asks = append(uses, in), append(asks, in)
	}
	return pawl.New[found]("keyed").Node("asks", func(ctx context.Context, s *found) error {
		l.add("entry")
		var open error
		got := make([]string, len(names))
		for i, in := range asks {
			var err error
			if got[i], err = in.Ask(ctx, "Which?"); errors.Is(err, pawl.ErrWaiting) {
				open = err
			} else if err != nil {
				return err
			}
		}
		for i, name := range names {
			s.Got.Set(name, got[i])
		}
		return open
	}, pawl.Uses(uses...)).Edge(pawl.Start, "asks")
}

// questionsMoved answers two questions and goes on under code that asks others; refused is the first difference where
// it must not.
func questionsMoved(t *testing.T, h *home, graph func(*ledger, ...string) *pawl.Builder[found], names []string, refused string) {
	l, id := newLedger(t), t.Name()
	old := engine(t, h.open(t), nil, build(t, graph(l, "A", "B")))
	out, err := start(old.Thread("keyed", id))
	given := map[string]string{}
	for _, q := range paused(t, out, err, 2) {
		name := strings.TrimPrefix(q.Name, "say") + q.Key
		given[name] = "to " + name
		if v, err := old.Answer(t.Context(), q.ID, given[name]); err != nil || !v.Taken {
			t.Fatalf("verdict %v, error %v", v, err)
		}
	}
	before := history(t, old.Thread("keyed", id))

	now := engine(t, h.open(t), nil, build(t, graph(l, names...)))
	th := now.Thread("keyed", id)
	out, err = resume(th)
	if refused != "" {
		if v := (*pawl.VersionError)(nil); !errors.As(err, &v) || v.First != `declared uses of node "asks": `+refused {
			t.Fatalf("outcome %v, error %v; want %s", out, err, refused)
		}
		tally(t, l, map[string]int{"entry": 1})
		same(t, "history", history(t, th), before)
		out, err = resume(old.Thread("keyed", id))
		finished(t, out, err, fmt.Sprintf(`{"got":%s}`, compact(given)))
		tally(t, l, map[string]int{"entry": 2})
		atEnd(t, th, before)
		return
	}
	entries := 2
	got := map[string]string{}
	for _, name := range names {
		got[name] = "to " + name
	}
	if len(names) > 2 {
		q := paused(t, out, err, 1)[0]
		same(t, "the open question", q.Key, "zero")
		out, err = resume(th, q.ID, "to zero")
		entries++
	}
	finished(t, out, err, fmt.Sprintf(`{"got":%s}`, compact(got)))
	tally(t, l, map[string]int{"entry": entries})
	atEnd(t, th, before)
}
