package suite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/effect"
)

// kin is the state of graphs that are children, and of their parents.
type kin struct {
	Log pawl.Append[string] `json:"log"`
}

type (
	kinGraph = pawl.Graph[kin]
	kinNode  = func(context.Context, *kin) error
)

var okay = pawl.Interrupt[string, string]{Name: "ask"}

func nothingIn(*kin) *kin { return &kin{} }

func logOut(s *kin, r *pawl.Result[kin]) error { s.Log.Add(logged(r.State)...); return nil }

func logged(s *kin) (out []string) {
	for _, line := range s.Log.All() {
		out = append(out, line)
	}
	return out
}

func logs(l *ledger, name string) kinNode {
	return func(_ context.Context, s *kin) error { l.add(name); s.Log.Add(name); return nil }
}

// asksAs asks and logs the answer behind its name.
func asksAs(l *ledger, name string) kinNode {
	return func(ctx context.Context, s *kin) error {
		l.add(name)
		answer, err := okay.Ask(ctx, name+"?")
		if err == nil {
			s.Log.Add(name + ":" + answer)
		}
		return err
	}
}

// chainOf is a graph of n nodes in a row.
func chainOf(t testing.TB, l *ledger, name string, n int) *kinGraph {
	b, path := pawl.New[kin](name), []string{pawl.Start}
	for i := range n {
		node := fmt.Sprint("n", i)
		b.Node(node, logs(l, node))
		path = append(path, node)
	}
	return build(t, b.Path(path...))
}

// around is START -> child -> END.
func around(t testing.TB, name string, c pawl.Child[kin]) *kinGraph {
	return build(t, pawl.New[kin](name).Add(pawl.Sub(c, nothingIn, logOut)).Path(pawl.Start, c.UseName()))
}

// deep puts a graph into others, as a child of a child, each under the name.
func deep(t testing.TB, g *kinGraph, depth int) *kinGraph {
	for d := range depth {
		g = around(t, fmt.Sprint("around", d), g.Child(fmt.Sprint("level", d)))
	}
	return g
}

func values(lines ...string) string {
	doc, err := json.Marshal(map[string][]string{"log": lines})
	if err != nil {
		panic(err)
	}
	return string(doc)
}

// noIDs is a path with its ids left out.
func noIDs(path string) string {
	parts := strings.Split(path, "|")
	for i, p := range parts {
		if name, _, ok := strings.Cut(p, ":"); ok {
			parts[i] = name + ":<id>"
		}
	}
	return strings.Join(parts, "|")
}

func childIsOneStep(t *testing.T, r *report) {
	counts, modes := map[int]int{}, map[pawl.Durability]int{}
	onEach(t, func(t *testing.T, h *home) {
		eng := engine(t, h.open(t), nil)
		for _, n := range []int{1, 2, 5} {
			g := inOthers(t, around(t, fmt.Sprint("parent", n), chainOf(t, newLedger(t), "inner", n).Child("child")))
			th := g.Thread(eng, fmt.Sprint("t", n))
			if out, err := th.Run(t.Context(), &kin{}); err != nil || len(logged(out.State)) != n {
				t.Fatal(out, err)
			}
			counts[n] = len(history(t, th))
			same(t, fmt.Sprintf("snapshots of the parent of %d nodes", n), counts[n], 3)
			atEnd(t, th.Thread, nil)
		}
		chain := atDepth(t, counted(newLedger(t)).builder())
		for _, mode := range []pawl.Durability{pawl.Sync, pawl.Async, pawl.Exit} {
			th := chain.Thread(eng, "mode-"+string(mode))
			if _, err := th.Run(t.Context(), tenfoldOf(1), pawl.WithDurability(mode)); err != nil {
				t.Fatal(err)
			}
			modes[mode] = len(history(t, th))
		}
	})
	r.line(18, "snapshots: sync %d, async %d, exit %d | with a child of 1, 2, 5 nodes: %d, %d, %d",
		modes[pawl.Sync], modes[pawl.Async], modes[pawl.Exit], counts[1], counts[2], counts[5])
}

// pausing is a child whose second node asks.
func pausing(t testing.TB, l *ledger, mode pawl.ChildMode) *kinGraph {
	return around(t, "parent", build(t, pawl.New[kin]("inner").
		Node("one", logs(l, "one")).Node("two", asksAs(l, "two"), pawl.Uses(okay)).
		Path(pawl.Start, "one", "two")).Child("child", mode))
}

func childPaused(t *testing.T, r *report) {
	line := ""
	onEach(t, func(t *testing.T, h *home) {
		l := newLedger(t)
		th := inOthers(t, pausing(t, l, pawl.Inherit)).Thread(engine(t, h.open(t), nil), "t")
		out, err := th.Run(t.Context(), &kin{})
		if err != nil {
			t.Fatal(err)
		}
		q := paused(t, &out.Outcome, err, 1)[0]
		in := pawl.Path(q.Path[:strings.LastIndex(q.Path, "|")])
		same(t, "path", noIDs(ownPath(t, string(in))), "child:<id>")
		same(t, "snapshots at the pause", [2]int{len(history(t, th)), len(historyIn(t, th.Thread, in))}, [2]int{2, 3})
		state, err := th.State(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		same(t, "the child's values", string(state.Head.Values), values("one"))
		same(t, "the child's next", state.Head.Next, []string{"two"})
		same(t, "open in the child", ids(state.Waiting), []string{q.ID})
		before := history(t, th)
		out, err = th.Resume(t.Context(), okay.Answer(q.ID, "yes"))
		if err != nil {
			t.Fatal(err)
		}
		same(t, "result", logged(out.State), []string{"one", "two:yes"})
		tally(t, l, map[string]int{"one": 1, "two": 2})
		same(t, "snapshots at the end", [2]int{len(history(t, th)), len(historyIn(t, th.Thread, in))}, [2]int{3, 4})
		line = fmt.Sprintf("child paused in its second node: one %d, two %d", l.count("one"), l.count("two"))
		stand(t, th, pawl.Done, 3, before)
	})
	l := newLedger(t)
	th := inOthers(t, pausing(t, l, pawl.Stateless)).Thread(engine(t, memory(t).open(t), nil), "t")
	out, err := th.Run(t.Context(), &kin{})
	if err == nil {
		_, err = th.Resume(t.Context(), okay.Answer(out.Waiting[0].ID, "yes"))
	}
	if err != nil {
		t.Fatal(err)
	}
	r.line(19, "%s | stateless: one %d, two %d", line, l.count("one"), l.count("two"))
}

func historyIn(t testing.TB, th *pawl.Thread, in pawl.Path) []*pawl.Snapshot {
	t.Helper()
	h, err := th.History(context.Background(), pawl.Page{In: in})
	if err != nil && !errors.Is(err, pawl.ErrNotFound) {
		t.Fatal(err)
	}
	return h
}

func whereChildrenLive(t *testing.T, _ *report) {
	onEach(t, func(t *testing.T, h *home) {
		l := newLedger(t)
		innermost := build(t, pawl.New[kin]("innermost").Node("leaf", asksAs(l, "leaf"), pawl.Uses(okay)).Path(pawl.Start, "leaf"))
		g := inOthers(t, around(t, "root", around(t, "middle", innermost.Child("grandchild")).Child("child")))
		th := g.Thread(engine(t, h.open(t), nil), "t")
		var paths []string
		for range 2 {
			out, err := th.Run(t.Context(), &kin{})
			if err != nil {
				t.Fatal(err)
			}
			q := out.Waiting[0]
			same(t, "path of the question", noIDs(ownPath(t, q.Path)), "child:<id>|grandchild:<id>|leaf:<id>")
			state, err := th.State(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			child := state.Head.Tasks[0].Children[0]
			grandchild := child.Tasks[0].Children[0]
			same(t, "paths", []string{noIDs(ownPath(t, string(child.Path))), noIDs(ownPath(t, string(grandchild.Path)))}, []string{"child:<id>", "child:<id>|grandchild:<id>"})
			parents := map[pawl.Path]string{state.Head.Path: state.Head.Checkpoint}
			maps.Copy(parents, state.Head.Parents)
			same(t, "around the child", child.Parents, parents)
			parents[child.Path] = child.Checkpoint
			same(t, "around the grandchild", grandchild.Parents, parents)
			paths = append(paths, string(child.Path))
			if _, err := th.Resume(t.Context(), okay.Answer(q.ID, "yes")); err != nil {
				t.Fatal(err)
			}
		}
		same(t, "different ids", paths[0] != paths[1], true)
		if err := th.Delete(t.Context()); err != nil {
			t.Fatal(err)
		}
		same(t, "snapshots after a delete", len(historyIn(t, th.Thread, pawl.Path(paths[0]))), 0)
	})
}

func threeKindsOfMemory(t *testing.T, _ *report) {
	for _, c := range []struct {
		mode    pawl.ChildMode
		lengths []int
		paths   []string // distinct, ids left out
		kept    int
	}{
		{pawl.Inherit, []int{1, 1}, []string{"child:<id>", "child:<id>"}, 6},
		{pawl.PerThread, []int{1, 2}, []string{"child"}, 6},
		{pawl.Stateless, []int{1, 1}, nil, 0},
	} {
		t.Run(string(c.mode), func(t *testing.T) {
			if c.mode == pawl.PerThread {
				flatPart(t, forgets)
			}
			onEach(t, func(t *testing.T, h *home) {
				child := build(t, pawl.New[kin]("inner").Node("add", logs(newLedger(t), "item")).Path(pawl.Start, "add")).Child("child", c.mode)
				var lengths []int
				g := atDepth(t, pawl.New[kin]("parent").Add(pawl.Sub(child, nothingIn, func(_ *kin, r *pawl.Result[kin]) error {
					lengths = append(lengths, r.State.Log.Len())
					return nil
				})).Path(pawl.Start, "child"))
				eng := engine(t, h.open(t), nil)
				for _, id := range []string{"t", "another"} {
					lengths = nil
					var paths []string
					kept, th := 0, g.Thread(eng, id)
					for ev, err := range twice(t, th.ThreadOf) {
						if err != nil {
							t.Fatal(err)
						}
						if ownPath(t, ev.Path) != "" && !slices.Contains(paths, ev.Path) {
							paths = append(paths, ev.Path)
							kept += len(historyIn(t, th.Thread, pawl.Path(ev.Path)))
						}
					}
					same(t, "lengths", lengths, c.lengths)
					if c.mode == pawl.PerThread {
						same(t, "one growing history", len(historyIn(t, th.Thread, "child")), c.kept)
					} else if same(t, "child snapshots kept", kept, c.kept); c.mode == pawl.Stateless {
						continue
					}
					for i := range paths {
						paths[i] = noIDs(ownPath(t, paths[i]))
					}
					same(t, "paths", paths, c.paths)
				}
			})
		})
	}
}

// twice streams two runs of a thread.
func twice(t testing.TB, th *pawl.ThreadOf[kin]) func(yield func(pawl.Event, error) bool) {
	return func(yield func(pawl.Event, error) bool) {
		for range 2 {
			var all []pawl.Event
			for ev, err := range th.Stream(t.Context(), &kin{}) {
				if err != nil {
					yield(ev, err)
					return
				}
				all = append(all, ev)
			}
			for _, ev := range all {
				if !yield(ev, nil) {
					return
				}
			}
		}
	}
}

func statelessPauses(t *testing.T, _ *report) {
	onEach(t, func(t *testing.T, h *home) {
		l, o := newLedger(t), openOffice(t, h.open(t))
		mail := effect.New("mail", func(context.Context, effect.Op, string) (string, error) { l.add("dispatch"); return "sent", nil })
		inner := build(t, pawl.New[kin]("inner").
			Node("one", func(ctx context.Context, s *kin) error {
				l.add("one")
				if _, err := pawl.Step(ctx, "step", func(context.Context) (bool, error) { l.add("step"); return true, nil }); err != nil {
					return err
				}
				s.Log.Add("one")
				_, err := mail.Do(ctx, effect.Ref("order", "17"), "hello")
				return err
			}, pawl.Uses(mail)).
			Node("two", asksAs(l, "two"), pawl.Uses(okay)).Path(pawl.Start, "one", "two"))
		g := around(t, "parent", inner.Child("child", pawl.Stateless))
		th := inOthers(t, g).Thread(o.eng, "t")
		out, err := th.Run(t.Context(), &kin{})
		if err != nil {
			t.Fatal(err)
		}
		q := paused(t, &out.Outcome, err, 1)[0]
		same(t, "path", noIDs(ownPath(t, q.Path)), "child:<id>|two:<id>")
		before := history(t, th)
		out, err = th.Resume(t.Context(), okay.Answer(q.ID, "yes"))
		if err != nil {
			t.Fatal(err)
		}
		same(t, "result", logged(out.State), []string{"one", "two:yes"})
		tally(t, l, map[string]int{"one": 2, "two": 2, "step": 1, "dispatch": 1})
		same(t, "child snapshots", len(historyIn(t, th.Thread, pawl.Path(q.Path[:strings.LastIndex(q.Path, "|")]))), 0)
		doc, err := g.JSON()
		same(t, "the picture says so", err == nil && strings.Contains(string(doc), `"mode": "stateless"`), true)
		stand(t, th, pawl.Done, 3, before)
	})
}
