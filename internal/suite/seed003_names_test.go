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
// in a node, in the functional style, and there up to three functions deep.
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
	places := map[string]shape{"in a node": inNode}
	for depth := range 4 {
		places[fmt.Sprintf("in a function %d deep", depth)] = inFunc(depth)
	}
	for _, c := range changes {
		withSay := c.uses
		if withSay != "" {
			withSay = strings.NewReplacer("was A, B", "was A, B, say", "is A, B, zero", "is A, B, say, zero", "is B", "is B, say").Replace(withSay)
		}
		for place, in := range places {
			t.Run(c.name+"/"+place, func(t *testing.T) {
				onEach(t, func(t *testing.T, h *home) {
					t.Run("steps", func(t *testing.T) { stepsMoved(t, h, in, inOrder, c.names) })
					t.Run("steps of branches", func(t *testing.T) { stepsMoved(t, h, in, pawl.All, c.names) })
					t.Run("questions by key", func(t *testing.T) { questionsMoved(t, h, in, false, c.names, "") })
					t.Run("questions by name", func(t *testing.T) { questionsMoved(t, h, in, true, c.names, c.uses) })
				})
				onEachMoney(t, func(t *testing.T, h *home) {
					t.Run("effects by reference", func(t *testing.T) { effectsMoved(t, h, in, false, c.names, "") })
					t.Run("effects by name", func(t *testing.T) { effectsMoved(t, h, in, true, c.names, withSay) })
				})
			})
		}
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
	// procedure is what calls steps, asks or dispatches, without the graph around it.
	procedure func(ctx context.Context, _ string) (map[string]string, error)
	// shape is a graph named "calls" around a procedure that uses what it declares. It says the channel of the result.
	shape func(calls procedure, uses ...pawl.Usable) (g pawl.Registrable, channel string, err error)
)

func inNode(calls procedure, uses ...pawl.Usable) (pawl.Registrable, string, error) {
	g, err := pawl.New[found]("calls").Node("calls", func(ctx context.Context, s *found) error {
		got, err := calls(ctx, "")
		for name, result := range got {
			s.Got.Set(name, result)
		}
		return err
	}, pawl.Uses(uses...)).Edge(pawl.Start, "calls").Build()
	return g, "got", err
}

// inFunc is a function that is called by others, depth of them.
func inFunc(depth int) shape {
	return func(calls procedure, uses ...pawl.Usable) (pawl.Registrable, string, error) {
		f, err := pawl.Func("calls", calls, pawl.Uses(uses...))
		for range depth {
			if err != nil {
				return nil, "", err
			}
			child := f.Child("inner")
			f, err = pawl.Func("calls", func(ctx context.Context, in string) (map[string]string, error) {
				return child.Call(ctx, in)
			}, pawl.Uses(child))
		}
		return f, "output", err
	}
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

func stepsMoved(t *testing.T, h *home, in shape, run together, names []string) {
	l, id := newLedger(t), t.Name()
	was, _, err := in(namedSteps(l, run, "A", "B"), say)
	if err != nil {
		t.Fatal(err)
	}
	is, channel, err := in(namedSteps(l, run, names...), say)
	if err != nil {
		t.Fatal(err)
	}
	old := engine(t, h.open(t), nil, was)
	out, err := start(old.Thread("calls", id))
	q := paused(t, out, err, 1)[0]
	before := history(t, old.Thread("calls", id))
	tally(t, l, map[string]int{"entry": 1, "A": 1, "B": 1})

	th := engine(t, h.open(t), nil, is).Thread("calls", id)
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

// asksAll asks a question for each name with the same body, all of them before it waits: by interrupts of these names, or
// by one of them under keys.
func asksAll(l *ledger, own bool, names ...string) (procedure, []pawl.Usable) {
	var uses []pawl.Usable
	var asks []func(context.Context) (string, error)
	for _, name := range names {
		if !own {
			asks = append(asks, func(ctx context.Context) (string, error) { return say.Ask(ctx, "Which?", pawl.Key(name)) })
			continue
		}
		in := pawl.Interrupt[string, string]{Name: name}
		uses = append(uses, in)
		asks = append(asks, func(ctx context.Context) (string, error) { return in.Ask(ctx, "Which?") })
	}
	if !own {
		uses = append(uses, say)
	}
	return func(ctx context.Context, _ string) (map[string]string, error) {
		l.add("entry")
		var open error
		got := map[string]string{}
		for i, ask := range asks {
			answer, err := ask(ctx)
			if errors.Is(err, pawl.ErrWaiting) {
				open = err
			} else if err != nil {
				return nil, err
			}
			got[names[i]] = answer
		}
		return got, open
	}, uses
}

// asking is the graph of the questions.
func (in shape) asking(t *testing.T, l *ledger, own bool, names ...string) (pawl.Registrable, string) {
	t.Helper()
	calls, uses := asksAll(l, own, names...)
	g, channel, err := in(calls, uses...)
	if err != nil {
		t.Fatal(err)
	}
	return g, channel
}

// refusedFor fails unless a verb was refused because of the node's declared uses, in whatever child.
func refusedFor(t *testing.T, out *pawl.Outcome, err error, uses string) {
	t.Helper()
	v := (*pawl.VersionError)(nil)
	if !errors.As(err, &v) || !strings.HasPrefix(v.First, `declared uses of node "`) || !strings.HasSuffix(v.First, `calls": `+uses) {
		t.Fatalf("outcome %v, error %v; want %s", out, err, uses)
	}
}

// questionsMoved answers two questions and goes on under code that asks others; refused is the first difference where
// it must not.
func questionsMoved(t *testing.T, h *home, in shape, own bool, names []string, refused string) {
	l, id := newLedger(t), t.Name()
	was, channel := in.asking(t, l, own, "A", "B")
	is, _ := in.asking(t, l, own, names...)
	old := engine(t, h.open(t), nil, was)
	out, err := start(old.Thread("calls", id))
	given := map[string]string{}
	for _, q := range paused(t, out, err, 2) {
		name := strings.TrimPrefix(q.Name, "say") + q.Key
		given[name] = "to " + name
		if v, err := old.Answer(t.Context(), q.ID, given[name]); err != nil || !v.Taken {
			t.Fatalf("verdict %v, error %v", v, err)
		}
	}
	before := history(t, old.Thread("calls", id))

	th := engine(t, h.open(t), nil, is).Thread("calls", id)
	out, err = resume(th)
	if refused != "" {
		refusedFor(t, out, err, refused)
		tally(t, l, map[string]int{"entry": 1})
		same(t, "history", history(t, th), before)
		out, err = resume(old.Thread("calls", id))
		finished(t, out, err, fmt.Sprintf(`{%q:%s}`, channel, compact(given)))
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
	finished(t, out, err, fmt.Sprintf(`{%q:%s}`, channel, compact(got)))
	tally(t, l, map[string]int{"entry": entries})
	atEnd(t, th, before)
}
