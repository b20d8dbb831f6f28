package suite

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
)

// grant holds a flag that opens one thing, and what its turns saw of it.
type grant struct {
	Flag pawl.Once[string]   `json:"flag"`
	Saw  pawl.Append[string] `json:"saw"`
}

func taking(_ context.Context, s *grant) error {
	v, ok := s.Flag.Take()
	if !ok {
		v = "absent"
	}
	s.Saw.Add(v)
	return nil
}

func granted() *grant {
	in := &grant{}
	in.Flag.Put("yes")
	return in
}

func (s *grant) saw() (all []string) {
	for _, item := range s.Saw.All() {
		all = append(all, item)
	}
	return all
}

func takenOnce(t *testing.T, _ *report) {
	t.Run("turns", func(t *testing.T) { onEach(t, takenInOneTurn) })
	t.Run("failed", func(t *testing.T) { onEach(t, takenByATaskThatFailed) })
	t.Run("conflict", func(t *testing.T) { onEach(t, takenByTwo) })
}

func takenInOneTurn(t *testing.T, h *home) {
	leaving := func(_ context.Context, s *grant) error { s.Saw.Add("left alone"); return nil }
	g := atDepth(t, pawl.New[grant]("turns").
		Node("leave", leaving).Node("take", taking).Node("next", taking).
		Path(pawl.Start, "leave", "take", "next", pawl.End))
	th := g.Thread(engine(t, h.open(t), nil), "t")
	out, err := th.Run(t.Context(), granted())
	if err != nil {
		t.Fatal(err)
	}
	same(t, "seen", out.State.saw(), []string{"left alone", "yes", "absent"})
	held := []bool{}
	for _, s := range slices.Backward(history(t, th)) {
		held = append(held, strings.Contains(string(s.Values), `"flag":"yes"`))
	}
	same(t, "the flag in each snapshot", held, []bool{false, true, true, false, false})
	stand(t, th, pawl.Done, 5, nil)
}

func takenByATaskThatFailed(t *testing.T, h *home) {
	broken := true
	g := atDepth(t, pawl.New[grant]("failing").
		Node("take", func(ctx context.Context, s *grant) error {
			if err := taking(ctx, s); err != nil || !broken {
				return err
			}
			return errors.New("down")
		}).
		Path(pawl.Start, "take", pawl.End))
	th := g.Thread(engine(t, h.open(t), nil), "t")
	if _, err := th.Run(t.Context(), granted()); err == nil {
		t.Fatal("the task did not fail")
	}
	before := history(t, th)
	same(t, "state after the failure", string(before[0].Values), `{"flag":"yes"}`)
	broken = false
	out, err := th.Resume(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	same(t, "seen after the failure", out.State.saw(), []string{"yes"})
	stand(t, th, pawl.Done, 3, before)
}

func takenByTwo(t *testing.T, h *home) {
	g := atDepth(t, pawl.New[grant]("both").
		Node("left", taking).Node("right", taking).
		Edge(pawl.Start, "left").Edge(pawl.Start, "right"))
	th := g.Thread(engine(t, h.open(t), nil), "t")
	_, err := th.Run(t.Context(), granted())
	conflict := (*pawl.ConflictError)(nil)
	if !errors.As(err, &conflict) {
		t.Fatalf("two takers: %v, want a *ConflictError", err)
	}
	same(t, "conflict's channel", conflict.Channel, "flag")
	same(t, "conflict's nodes", conflict.Nodes, []string{"left", "right"})
	stand(t, th, pawl.Failed, 2, nil)
	same(t, "cause", statusOf(t, th).Cause, pawl.CauseConflict)
}

// Depths 1 to 3 wait for children.
func separatorsAreFixed(t *testing.T, _ *report) {
	for _, name := range []string{"a|b", "a:b", "|", ":"} {
		t.Run("node "+name, func(t *testing.T) {
			_, err := pawl.New[job]("g").Node(name, func(context.Context, *job) error { return nil }).Edge(pawl.Start, name).Build()
			if bad := (*pawl.BuildError)(nil); !errors.As(err, &bad) || !strings.Contains(err.Error(), `"`+name+`"`) {
				t.Errorf("got %v, want a *BuildError that names it", err)
			}
		})
	}
	t.Run("paths", func(t *testing.T) {
		onEach(t, func(t *testing.T, h *home) {
			ask, path := approve(), ""
			g := atDepth(t, pawl.New[job]("g").
				Node("outer", func(ctx context.Context, _ *job) error {
					path = pawl.TaskKey(ctx)
					_, err := ask.Ask(ctx, asked{"?"})
					return err
				}, pawl.Uses(ask)).
				Path(pawl.Start, "outer", pawl.End))
			th := g.Thread(engine(t, h.open(t), nil), "t")
			out, err := th.Run(t.Context(), &job{})
			if err != nil {
				t.Fatal(err)
			}
			same(t, "separators in "+path, strings.Count(path, "|"), levelOf(t).Depth)
			same(t, "the path reads outer:<id>", isKeyOf("outer", innermost(path)), true)
			same(t, "path of the question", out.Waiting[0].Path, path)
			same(t, "path of the task", history(t, th)[0].Tasks[0].Path, path)
			stand(t, th, pawl.Waiting, 2, nil)
		})
	})
}

// box is a state whose list can be changed in place by whoever reads it.
type box struct {
	List pawl.Last[[]string] `json:"list"`
	Done pawl.Last[bool]     `json:"done"`
}

// checked is a node that asks a question made of what it knows, and ends in a way.
func checked(l *ledger, question func(*box) string, end func(*box)) *pawl.Builder[box] {
	ask := approve()
	return pawl.New[box]("g").
		Node("node", func(ctx context.Context, s *box) error {
			l.add("entry")
			_, err := ask.Ask(ctx, asked{question(s)})
			if err == nil {
				end(s)
			}
			return err
		}, pawl.Uses(ask)).
		Path(pawl.Start, "node", pawl.End)
}

func checklistIsChecked(t *testing.T, _ *report) {
	t.Run("a, a call above the question", callAboveIsReported)
	first := func(s *box) string { return s.List.Get()[0] }
	for _, c := range []struct {
		name     string
		question func(*ledger) func(*box) string
		end      func(*box)
		report   func(*testing.T, error)
	}{
		{"b, another question", func(l *ledger) func(*box) string {
			return func(*box) string { return strings.Repeat("!", len(l.rows())) }
		}, func(*box) {}, func(t *testing.T, err error) {
			drift := (*pawl.DriftError)(nil)
			if !errors.As(err, &drift) {
				t.Fatalf("got %v, want a *DriftError", err)
			}
			same(t, "report", *drift, pawl.DriftError{Node: "node", Name: "approve", Path: "$.ask", Old: `"!"`, New: `"!!"`})
		}},
		{"c, changed in place", func(*ledger) func(*box) string { return first },
			func(s *box) { s.List.Get()[0] = "changed" }, func(t *testing.T, err error) {
				bad := (*pawl.StateError)(nil)
				if !errors.As(err, &bad) {
					t.Fatalf("got %v, want a *StateError", err)
				}
				same(t, "report", []string{bad.Node, bad.Channel}, []string{"node", "list"})
			}},
		{"clean", func(*ledger) func(*box) string { return first },
			func(s *box) { s.List.Set(append(slices.Clone(s.List.Get()), "more")) },
			func(t *testing.T, err error) { same(t, "reports", err, nil) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			onEach(t, func(t *testing.T, h *home) {
				l := newLedger(t)
				checkedOnce(t, h, l, checked(l, c.question(l), c.end), c.report)
			})
		})
	}
}

// checkedOnce runs a node to its question and again with the answer, in strict mode.
func checkedOnce(t *testing.T, h *home, l *ledger, b *pawl.Builder[box], report func(*testing.T, error)) {
	th := atDepth(t, b).Thread(engine(t, h.open(t), &pawl.Options{Strict: true}), "t")
	in := &box{}
	in.List.Set([]string{"first"})
	out, err := th.Run(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	before := history(t, th)
	_, err = th.Resume(t.Context(), approve().Answer(out.Waiting[0].ID, true))
	report(t, err)
	same(t, "entries", l.count("entry"), 2)
	status, snapshots := pawl.Failed, 2
	if err == nil {
		status, snapshots = pawl.Done, 3
	}
	stand(t, th, status, snapshots, before)
}
