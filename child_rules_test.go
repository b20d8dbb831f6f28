package pawl_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
)

// caller is a graph of one node that calls children.
func caller(t testing.TB, does func(context.Context, *family) error, uses ...pawl.Usable) *pawl.Graph[family] {
	return must(t, pawl.New[family]("caller").Node("calls", does, pawl.Uses(uses...)).Path(pawl.Start, "calls"))
}

func oneNode(t testing.TB, does func(context.Context, *family) error, opts ...pawl.NodeOption) *pawl.Graph[family] {
	return must(t, pawl.New[family]("inner").Node("node", does, opts...).Path(pawl.Start, "node"))
}

func TestChildCallsAreNamed(t *testing.T) {
	t.Parallel()
	good := func(_ context.Context, s *family) error { s.Log.Add("good"); return nil }
	child, other := oneNode(t, good).Child("child"), oneNode(t, good).Child("child")
	twice := func(ctx context.Context, s *family) error {
		for range 2 {
			if _, err := child.Call(ctx, nil); err != nil {
				return err
			}
		}
		return nil
	}
	_, err := caller(t, twice, child).Thread(memoryEngine(t, nil), "t").Run(t.Context(), &family{})
	if !errors.Is(err, pawl.ErrNameReused) || !strings.Contains(err.Error(), `child "child"`) {
		t.Error(err)
	}
	undeclared := (*pawl.UndeclaredError)(nil)
	_, err = caller(t, twice).Thread(memoryEngine(t, nil), "t").Run(t.Context(), &family{})
	if !errors.As(err, &undeclared) || undeclared.Name != "child" {
		t.Error(err)
	}
	_, err = caller(t, twice, other).Thread(memoryEngine(t, nil), "t").Run(t.Context(), &family{})
	if !errors.As(err, &undeclared) {
		t.Error("another graph under the declared name was called:", err)
	}
	_, err = pawl.New[family]("two").Node("a", good, pawl.Uses(child)).Node("b", good, pawl.Uses(other)).
		Edge(pawl.Start, "a").Edge(pawl.Start, "b").Build()
	if err == nil || !strings.Contains(err.Error(), "two children named") {
		t.Error(err)
	}
	var none *pawl.Graph[family]
	if _, err := pawl.New[family]("none").Add(pawl.Sub(none.Child("x"), handIn, takeOut)).Path(pawl.Start, "x").Build(); err == nil {
		t.Error("a child without a graph was built")
	}
	r, err := child.Call(t.Context(), &family{Log: pawl.List("in")})
	if err != nil || r.State.Log.Len() != 2 {
		t.Error("a plain call:", r, err)
	}
}

// A child remembers one thing at a time: two runs of it at once are a conflict, by name, in one node or in two.
func TestChildThatRemembersRunsOnceAtATime(t *testing.T) {
	t.Parallel()
	child := oneNode(t, func(_ context.Context, s *family) error { s.Log.Add("x"); return nil }).Child("agent", pawl.PerThread)
	started, hold := make(chan struct{}), make(chan struct{})
	slow := oneNode(t, func(context.Context, *family) error { close(started); <-hold; return nil }).Child("agent", pawl.PerThread)
	_, err := caller(t, func(ctx context.Context, s *family) error {
		return pawl.All(ctx,
			func(ctx context.Context) error { _, err := slow.Call(ctx, nil, pawl.Key("1")); return err },
			func(ctx context.Context) error {
				defer close(hold)
				<-started
				_, err := slow.Call(ctx, nil, pawl.Key("2"))
				return err
			})
	}, slow).Thread(memoryEngine(t, nil), "t").Run(t.Context(), &family{})
	conflict := (*pawl.ConflictError)(nil)
	if !errors.As(err, &conflict) || conflict.Channel != "child:agent" {
		t.Error(err)
	}
	call := func(ctx context.Context, _ *family) error { _, err := child.Call(ctx, nil); return err }
	g := must(t, pawl.New[family]("two").Node("a", call, pawl.Uses(child)).Node("b", call, pawl.Uses(child)).
		Edge(pawl.Start, "a").Edge(pawl.Start, "b"))
	th := g.Thread(memoryEngine(t, nil), "t")
	_, err = th.Run(t.Context(), &family{})
	if !errors.As(err, &conflict) || conflict.Channel != "child:agent" {
		t.Fatal(err)
	}
	out, err := th.Resume(t.Context(), pawl.Again("b"))
	if !errors.As(err, &conflict) {
		t.Fatal(out, err)
	}
}

func TestChildConflictIsSettledByPath(t *testing.T) {
	t.Parallel()
	e := entries{}
	sets := func(name string) func(context.Context, *family) error {
		return func(_ context.Context, s *family) error {
			if e[name]++; e[name] == 1 {
				s.Word.Set(name)
			}
			s.Log.Add(name)
			return nil
		}
	}
	child := must(t, pawl.New[family]("inner").Node("a", sets("a")).Node("b", sets("b")).Edge(pawl.Start, "a").Edge(pawl.Start, "b"))
	g := must(t, pawl.New[family]("outer").Add(pawl.Sub(child.Child("sub"), handIn, takeOut)).Path(pawl.Start, "sub"))
	th := g.Thread(memoryEngine(t, &pawl.Options{Concurrency: 1}), "t")
	out, err := th.Run(t.Context(), &family{})
	conflict := (*pawl.ConflictError)(nil)
	if !errors.As(err, &conflict) || out.Cause != pawl.CauseConflict {
		t.Fatal(out, err)
	}
	if _, err := th.Resume(t.Context()); err == nil {
		t.Error("the same results were merged again")
	}
	out, err = th.Resume(t.Context(), pawl.Again("sub|b"))
	if err != nil || out.Status != pawl.Done || e["a"] != 1 || e["b"] != 2 {
		t.Fatal(out, err, e)
	}
}

func TestChildTriesGoOnInside(t *testing.T) {
	t.Parallel()
	for _, kept := range []bool{true, false} {
		e := entries{}
		child := must(t, pawl.New[family]("inner").
			Node("one", e.node("one", nil)).
			Node("two", func(ctx context.Context, s *family) error {
				if _, err := pawl.Step(ctx, "s", func(context.Context) (bool, error) { e["step"]++; return true, nil }); err != nil {
					return err
				}
				if e["two"]++; e["two"] < 3 {
					return errors.New("not yet")
				}
				return nil
			}).Node("beside", e.node("beside", nil)).
			Edge(pawl.Start, "one").Edge("one", "two").Edge("one", "beside"))
		g := must(t, pawl.New[family]("outer").Add(pawl.Sub(child.Child("sub"), handIn, takeOut, pawl.Tries(3), pawl.Backoff(0, 0))).Path(pawl.Start, "sub"))
		eng := memoryEngine(t, &pawl.Options{Concurrency: 1})
		if !kept {
			var err error
			if eng, err = pawl.NewEngine(nil, &pawl.Options{Concurrency: 1}); err != nil {
				t.Fatal(err)
			}
		}
		out, err := g.Thread(eng, "t").Run(t.Context(), &family{})
		if err != nil || out.Status != pawl.Done || e["one"] != 1 || e["two"] != 3 || e["beside"] != 1 || e["step"] != 1 {
			t.Fatal(kept, out, err, e)
		}
	}
}

func TestChildLimitsPanicsAndEnds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		node  func(context.Context, *family) error
		cause pawl.Cause
		words string
	}{
		"panic":    {func(context.Context, *family) error { panic("at the disco") }, pawl.CauseError, "at the disco"},
		"conclude": {func(context.Context, *family) error { return pawl.Conclude("gave up") }, pawl.CauseConcluded, "gave up"},
		"fails":    {func(context.Context, *family) error { return errors.New("broken") }, pawl.CauseError, "|node:"},
	} {
		g := must(t, pawl.New[family]("outer").Add(pawl.Sub(oneNode(t, c.node).Child("sub"), handIn, takeOut)).Path(pawl.Start, "sub"))
		out, err := g.Thread(memoryEngine(t, nil), "t").Run(t.Context(), &family{})
		if err == nil || out.Status != pawl.Failed || out.Cause != c.cause || !strings.Contains(out.Reason, c.words) {
			t.Error(name, out, err)
		}
	}
	round := must(t, pawl.New[family]("round").Node("again", func(context.Context, *family) error { return nil }).
		Path(pawl.Start, "again").Edge("again", "again"))
	g := must(t, pawl.New[family]("outer").Add(pawl.Sub(round.Child("sub"), handIn, takeOut)).Path(pawl.Start, "sub"))
	out, err := g.Thread(memoryEngine(t, &pawl.Options{Limits: pawl.Limits{Steps: 5}}), "t").Run(t.Context(), &family{})
	limit := (*pawl.LimitError)(nil)
	if !errors.As(err, &limit) || out.Cause != pawl.CauseLimit || !strings.Contains(out.Reason, `child "sub" (sub:`) {
		t.Error(out, err)
	}
}

func TestChildTimesOutAndIsCancelled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		waits := func(ctx context.Context, _ *family) error { <-ctx.Done(); return context.Cause(ctx) }
		g := must(t, pawl.New[family]("outer").
			Add(pawl.Sub(oneNode(t, waits).Child("sub"), handIn, takeOut, pawl.Timeout(time.Minute))).Path(pawl.Start, "sub"))
		th := g.Thread(memoryEngine(t, nil), "t")
		out, err := th.Run(t.Context(), &family{})
		if err == nil || out.Status != pawl.Failed || !strings.Contains(out.Reason, "its timeout of 1m0s") {
			t.Error(out, err)
		}
		over := make(chan *pawl.OutcomeOf[family], 1)
		go func() { out, _ := th.Run(t.Context(), &family{}); over <- out }()
		<-time.After(time.Second)
		if err := th.Cancel(t.Context(), "enough"); err != nil {
			t.Error(err)
		}
		if out := <-over; out == nil || out.Status != pawl.Cancelled || out.Reason != "enough" {
			t.Error(out)
		}
	})
}

// A node that takes its child's failure for an end leaves no question of it open.
func TestChildLeftBehindAsksNoMore(t *testing.T) {
	t.Parallel()
	child := must(t, pawl.New[family]("inner").
		Node("asks", asksOkay, pawl.Uses(okay)).
		Node("fails", func(context.Context, *family) error { return errors.New("no") }).
		Edge(pawl.Start, "asks").Edge(pawl.Start, "fails")).Child("child")
	g := caller(t, func(ctx context.Context, s *family) error {
		_, err := child.Call(ctx, nil)
		if failed := (*pawl.ChildError)(nil); !errors.As(err, &failed) {
			return err
		}
		s.Log.Add("without it")
		return nil
	}, child)
	th := g.Thread(memoryEngine(t, &pawl.Options{Concurrency: 1}), "t")
	out, err := th.Run(t.Context(), &family{})
	if err != nil || out.Status != pawl.Done || len(out.Waiting) != 0 {
		t.Fatal(out, err)
	}
	state, err := th.State(t.Context())
	if err != nil || len(state.Waiting) != 0 {
		t.Fatal(state, err)
	}
}

// What happens in a child is told with its path, while the run is streamed and by who watches afterwards.
func TestChildFactsHaveTheirPath(t *testing.T) {
	t.Parallel()
	e := entries{}
	th := pausing(t, e, pawl.Inherit).Thread(memoryEngine(t, nil), "t")
	told := map[pawl.EventKind]int{}
	path := ""
	for ev, err := range th.Stream(t.Context(), &family{}) {
		if err != nil {
			t.Fatal(err)
		}
		if ev.Path != "" {
			told[ev.Kind]++
			path = ev.Path
		}
	}
	if told[pawl.EventTaskStart] != 2 || told[pawl.EventCheckpoint] != 3 || told[pawl.EventQuestion] != 1 || told[pawl.EventTaskWait] != 1 || !strings.HasPrefix(path, "child:") {
		t.Error(told, path)
	}
	stored := map[pawl.EventKind]int{}
	for ev, err := range th.Watch(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		if ev.Path == path {
			stored[ev.Kind]++
		}
		if ev.Kind == pawl.EventFinished {
			break
		}
	}
	if stored[pawl.EventCheckpoint] != 3 || stored[pawl.EventQuestion] != 1 {
		t.Error(stored)
	}
}
