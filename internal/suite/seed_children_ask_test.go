package suite

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
)

func askNode(l *ledger, name string) *pawl.Builder[kin] {
	return pawl.New[kin](name+" graph").Node(name, asksAs(l, name), pawl.Uses(okay)).Path(pawl.Start, name)
}

// oneList: a root node, a child's node and a child's child's node ask in one super-step of the root.
func oneList(t *testing.T, _ *report) {
	for _, order := range [][]int{{0, 1, 2}, {2, 1, 0}, {1, 2, 0}} {
		onEach(t, func(t *testing.T, h *home) {
			l := newLedger(t)
			g := atDepth(t, pawl.New[kin]("root").
				Node("atRoot", asksAs(l, "atRoot"), pawl.Uses(okay)).
				Add(pawl.Sub(build(t, askNode(l, "inChild")).Child("child"), nothingIn, logOut)).
				Add(pawl.Sub(around(t, "middle", build(t, askNode(l, "deepest")).Child("inner")).Child("outer"), nothingIn, logOut)).
				Edge(pawl.Start, "atRoot").Edge(pawl.Start, "child").Edge(pawl.Start, "outer"))
			th := g.Thread(engine(t, h.open(t), nil), "t")
			out, err := th.Run(t.Context(), &kin{})
			if err != nil {
				t.Fatal(err)
			}
			qs := slices.Clone(paused(t, &out.Outcome, err, 3))
			slices.SortFunc(qs, func(a, b pawl.Question) int { return strings.Compare(a.Path, b.Path) })
			var paths []string
			for _, q := range qs {
				paths = append(paths, noIDs(ownPath(t, q.Path)))
			}
			same(t, "paths", paths, []string{"atRoot:<id>", "child:<id>|inChild:<id>", "outer:<id>|inner:<id>|deepest:<id>"})
			before := history(t, th)
			for i, n := range order {
				out, err := th.Resume(t.Context(), okay.Answer(qs[n].ID, fmt.Sprint("to ", n)))
				if err != nil {
					t.Fatal(err)
				}
				if left := 2 - i; left > 0 {
					paused(t, &out.Outcome, err, left)
				} else {
					same(t, "result", logged(out.State), []string{"atRoot:to 0", "inChild:to 1", "deepest:to 2"})
				}
			}
			tally(t, l, map[string]int{"atRoot": 2, "inChild": 2, "deepest": 2})
			stand(t, th, pawl.Done, 3, before)
		})
	}
}

// pathsSeen is a root node and a node of a child that note their task keys, and then a node asks at the place.
func topLevel(t *testing.T, r *report) {
	var outer, inner, guard string
	note := func(at *string) kinNode {
		return func(ctx context.Context, _ *kin) error { *at = pawl.TaskKey(ctx); return nil }
	}
	places := map[string]struct {
		path  string
		graph func(t *testing.T, l *ledger) *pawl.Builder[kin]
	}{
		"sub": {"sub:<id>|asks:<id>", func(t *testing.T, l *ledger) *pawl.Builder[kin] {
			return pawl.New[kin]("root").Node("outer", note(&outer)).
				Add(pawl.Sub(build(t, pawl.New[kin]("in").Node("inner", note(&inner)).Node("asks", asksAs(l, "asks"), pawl.Uses(okay)).
					Path(pawl.Start, "inner", "asks")).Child("sub"), nothingIn, logOut)).
				Path(pawl.Start, "outer", "sub")
		}},
		"called": {"calls:<id>|asks:<id>", func(t *testing.T, l *ledger) *pawl.Builder[kin] {
			child := build(t, askNode(l, "asks")).Child("child")
			return pawl.New[kin]("root").Node("calls", func(ctx context.Context, s *kin) error {
				r, err := child.Call(ctx, &kin{})
				if err != nil {
					return err
				}
				return logOut(s, r)
			}, pawl.Uses(child)).Path(pawl.Start, "calls")
		}},
		"worker": {"sub:<id>|asks:<id>", func(t *testing.T, l *ledger) *pawl.Builder[kin] {
			w := pawl.NewWorker("asks", func(ctx context.Context, s *kin, _ int) error { return asksAs(l, "asks")(ctx, s) }, pawl.Uses(okay))
			return pawl.New[kin]("root").Add(pawl.Sub(build(t, pawl.New[kin]("in").Add(w).
				Route(pawl.Start, func(*kin) []pawl.Next { return w.With(1) }, "asks")).Child("sub"), nothingIn, logOut)).Path(pawl.Start, "sub")
		}},
		"two levels": {"sub:<id>|level0:<id>|asks:<id>", func(t *testing.T, l *ledger) *pawl.Builder[kin] {
			return pawl.New[kin]("root").Add(pawl.Sub(deep(t, build(t, askNode(l, "asks")), 1).Child("sub"), nothingIn, logOut)).Path(pawl.Start, "sub")
		}},
	}
	for name, place := range places {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, h *home) {
				eng := engine(t, h.open(t), nil)
				l := newLedger(t)
				g := build(t, place.graph(t, l).AskAtTop())
				th := g.Thread(eng, "ruled")
				out, err := th.Run(t.Context(), &kin{})
				refused := (*pawl.TopLevelError)(nil)
				if !errors.As(err, &refused) || refused.Question != "ask" || noIDs(refused.Path) != place.path {
					t.Fatalf("%+v, %v", out, err)
				}
				for _, words := range []string{`"ask"`, refused.Path, "top level"} {
					same(t, "the error says "+words, strings.Contains(err.Error(), words), true)
				}
				same(t, "depth", strings.Count(refused.Path, "|"), strings.Count(place.path, "|"))
				state := statusOf(t, th)
				same(t, "status", state.Status, pawl.Failed)
				same(t, "pending", len(state.Waiting), 0)
				if name == "sub" {
					same(t, "outer path", noIDs(outer), "outer:<id>")
					same(t, "inner path", noIDs(inner), "sub:<id>|inner:<id>")
					text, _, _ := strings.Cut(refused.Error(), " (graph")
					guard = noIDs2(text)
				}
			})
			onEach(t, func(t *testing.T, h *home) {
				l := newLedger(t)
				th := build(t, place.graph(t, l)).Thread(engine(t, h.open(t), nil), "free")
				out, err := th.Run(t.Context(), &kin{})
				if err != nil {
					t.Fatal(err)
				}
				q := paused(t, &out.Outcome, err, 1)[0]
				out, err = th.Resume(t.Context(), okay.Answer(q.ID, "yes"))
				if err != nil || out.Status != pawl.Done {
					t.Fatal(out, err)
				}
				same(t, "result", logged(out.State), []string{"asks:yes"})
			})
		})
	}
	th := build(t, askNode(newLedger(t), "asks").AskAtTop()).Thread(engine(t, memory(t).open(t), nil), "root")
	if out, err := th.Run(t.Context(), &kin{}); err != nil || out.Status != pawl.Waiting {
		t.Errorf("a root node that asks: %+v, %v", out, err)
	}
	r.line(15, "outer path = '%s'", noIDs(outer))
	r.line(16, "inner path = '%s'", noIDs(inner))
	r.line(17, "guard: %s", guard)
}

// noIDs2 leaves the ids out of the path in a sentence.
func noIDs2(text string) string {
	parts := strings.Split(text, "'")
	parts[1] = noIDs(parts[1])
	return strings.Join(parts, "'")
}

// samePlaceInTheSource uses one node function at the root and in a child of the same graph.
func samePlaceInTheSource(t *testing.T, _ *report) {
	onEach(t, func(t *testing.T, h *home) {
		l := newLedger(t)
		asks := asksAs(l, "asks")
		child := build(t, pawl.New[kin]("in").Node("asks", asks, pawl.Uses(okay)).Path(pawl.Start, "asks")).Child("sub")
		g := build(t, pawl.New[kin]("root").Node("asks", asks, pawl.Uses(okay)).Add(pawl.Sub(child, nothingIn, logOut)).
			Path(pawl.Start, "asks", "sub").AskAtTop())
		th := g.Thread(engine(t, h.open(t), nil), "t")
		out, err := th.Run(t.Context(), &kin{})
		if err != nil {
			t.Fatal(err)
		}
		q := paused(t, &out.Outcome, err, 1)[0]
		same(t, "path", noIDs(q.Path), "asks:<id>")
		_, err = th.Resume(t.Context(), okay.Answer(q.ID, "yes"))
		refused := (*pawl.TopLevelError)(nil)
		if !errors.As(err, &refused) || noIDs(refused.Path) != "sub:<id>|asks:<id>" {
			t.Fatal(err)
		}
		same(t, "pending", len(statusOf(t, th).Waiting), 0)
	})
}

// severalQuestionsInside: two askers beside each other, and one after them, at depth 1 to 3.
func severalQuestionsInside(t *testing.T, _ *report) {
	for depth := 1; depth <= 3; depth++ {
		t.Run(fmt.Sprint("its own ", depth), func(t *testing.T) {
			onEach(t, func(t *testing.T, h *home) {
				l := newLedger(t)
				b := pawl.New[kin]("askers")
				for _, name := range []string{"a", "b", "c"} {
					b.Node(name, asksAs(l, name), pawl.Uses(okay))
				}
				g := inOthers(t, deep(t, build(t, b.Edge(pawl.Start, "a").Edge(pawl.Start, "b").Join([]string{"a", "b"}, "c")), depth))
				th := g.Thread(engine(t, h.open(t), nil), "t")
				out, err := th.Run(t.Context(), &kin{})
				if err != nil {
					t.Fatal(err)
				}
				qs := paused(t, &out.Outcome, err, 2)
				same(t, "depth", strings.Count(ownPath(t, qs[0].Path), "|"), depth)
				before := history(t, th)
				of := map[string]string{"a": "v1", "b": "v2", "c": "v3"}
				out, err = th.Resume(t.Context(), okay.Answer(qs[0].ID, of[qs[0].Node]))
				if err != nil {
					t.Fatal(err)
				}
				same(t, "still open", ids(paused(t, &out.Outcome, err, 1)), []string{qs[1].ID})
				out, err = th.Resume(t.Context(), okay.Answer(qs[1].ID, of[qs[1].Node]))
				if err != nil {
					t.Fatal(err)
				}
				third := paused(t, &out.Outcome, err, 1)[0]
				same(t, "the third", []string{third.Node, third.State}, []string{"c", "open"})
				out, err = th.Resume(t.Context(), okay.Answer(third.ID, "v3"))
				if err != nil {
					t.Fatal(err)
				}
				same(t, "each its own", logged(out.State), []string{"a:v1", "b:v2", "c:v3"})
				tally(t, l, map[string]int{"a": 2, "b": 2, "c": 2})
				stand(t, th, pawl.Done, 3, before)
			})
		})
	}
}

// howFarUp: a node calls a graph whose node calls a graph whose node asks.
func howFarUp(t *testing.T, _ *report) {
	onEach(t, func(t *testing.T, h *home) {
		l := newLedger(t)
		above := func(ctx context.Context, level string) error {
			l.add("plain-" + level)
			_, err := pawl.Step(ctx, "step", func(context.Context) (bool, error) { l.add("step-" + level); return true, nil })
			return err
		}
		g := build(t, pawl.New[kin]("child").Node("before", logs(l, "before-child")).Node("asks", func(ctx context.Context, s *kin) error {
			if err := above(ctx, "child"); err != nil {
				return err
			}
			answer, err := okay.Ask(ctx, "ok?")
			if err == nil {
				s.Log.Add(answer)
			}
			return err
		}, pawl.Uses(okay)).Path(pawl.Start, "before", "asks"))
		for _, level := range []string{"parent", "grandparent"} {
			c := g.Child("call")
			g = build(t, pawl.New[kin](level).Node("before", logs(l, "before-"+level)).Node("calls", func(ctx context.Context, s *kin) error {
				if err := above(ctx, level); err != nil {
					return err
				}
				r, err := c.Call(ctx, &kin{})
				if err != nil {
					return err
				}
				return logOut(s, r)
			}, pawl.Uses(c)).Path(pawl.Start, "before", "calls"))
		}
		th := inOthers(t, g).Thread(engine(t, h.open(t), nil), "t")
		out, err := th.Run(t.Context(), &kin{})
		if err != nil {
			t.Fatal(err)
		}
		q := paused(t, &out.Outcome, err, 1)[0]
		preview, err := th.PreviewResume(t.Context())
		if err != nil || len(preview.Wait) != 3+levelOf(t).Depth || len(preview.Enter) != 0 {
			t.Fatalf("%+v, %v", preview, err)
		}
		before := history(t, th)
		if _, err := th.Answer(t.Context(), q.ID, "yes"); err != nil {
			t.Fatal(err)
		}
		if preview, err = th.PreviewResume(t.Context()); err != nil {
			t.Fatal(err)
		}
		var again []string
		for _, task := range preview.Enter {
			if own := ownPath(t, task.Path); own != "" {
				again = append(again, noIDs(own))
			}
		}
		same(t, "runs again", again, []string{"calls:<id>", "calls:<id>|calls:<id>", "calls:<id>|calls:<id>|asks:<id>"})
		out, err = th.Resume(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		same(t, "result", logged(out.State), []string{"before-grandparent", "before-parent", "before-child", "yes"})
		want := map[string]int{}
		for _, level := range []string{"child", "parent", "grandparent"} {
			want["plain-"+level], want["step-"+level], want["before-"+level] = 2, 1, 1
		}
		tally(t, l, want)
		stand(t, th, pawl.Done, 4, before)
	})
}

// keysInChildren are the task keys of nodes inside.
func keysInChildren(t *testing.T) {
	onEach(t, func(t *testing.T, h *home) {
		l := newLedger(t)
		g := around(t, "root", build(t, pawl.New[kin]("in").Node("inner", func(ctx context.Context, s *kin) error {
			l.add(pawl.TaskKey(ctx))
			return asksAs(newLedger(t), "inner")(ctx, s)
		}, pawl.Uses(okay)).Path(pawl.Start, "inner")).Child("sub"))
		th := g.Thread(engine(t, h.open(t), nil), "t")
		out, err := th.Run(t.Context(), &kin{})
		if err == nil {
			_, err = th.Resume(t.Context(), okay.Answer(out.Waiting[0].ID, "yes"))
		}
		if err != nil {
			t.Fatal(err)
		}
		same(t, "entries", len(l.rows()), 2)
		same(t, "distinct keys", distinct(l.rows()), 1)
		same(t, "the key", noIDs(l.rows()[0]), "sub:<id>|inner:<id>")
	})
}
