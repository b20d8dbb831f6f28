package suite_test

import (
	"context"
	"errors"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/pawltest"
)

type sweepChild = pawl.Child[sweepState]

// sweepIn gives a child the document of its parent, sweepOut takes what it logged.
func sweepIn(s *sweepState) *sweepState { return &sweepState{Doc: pawl.Of(s.Doc.Get())} }

func sweepOut(s *sweepState, r *pawl.Result[sweepState]) error {
	added, err := r.Added()
	if err == nil {
		s.Log.Add(listed(&added.Log)...)
		s.Sum.Add(int64(r.State.Log.Len()))
	}
	return err
}

func listed(l *pawl.Append[string]) (out []string) {
	for _, item := range l.All() {
		out = append(out, item)
	}
	return out
}

// sweepInner is a child of three nodes: it calls, asks beside a sibling, and calls again.
func sweepInner(t *testing.T, name string) *pawl.Graph[sweepState] {
	return built(t, pawl.New[sweepState](name).
		Node("first", steps(name+"-1", name+"-2")).
		Node("ask", asks(name), pawl.Uses(sweepQuestion)).
		Node("beside", steps(name+"-beside")).
		Node("last", steps(name+"-last")).
		Edge(pawl.Start, "first").Edge("first", "ask").Edge("first", "beside").
		Join([]string{"ask", "beside"}, "last"))
}

// sweepSub runs a child as a node between two others, at a depth.
func sweepSub(t *testing.T, mode pawl.ChildMode, depth int) sweepDrive {
	g := sweepInner(t, "inner")
	for range depth {
		g = built(t, pawl.New[sweepState]("around").
			Node("before", steps("before "+string(mode))).
			Add(pawl.Sub(g.Child("sub", mode), sweepIn, sweepOut)).
			Node("behind", func(_ context.Context, s *sweepState) error { s.Log.Add("behind"); return nil }).
			Path(pawl.Start, "before", "sub", "behind"))
	}
	return toTheEnd(g, "t")
}

// sweepCalls calls two children in a node, one after the other and at once, with a question of the node between.
func sweepCalls(t *testing.T, mode pawl.ChildMode) sweepDrive {
	left, right := sweepInner(t, "left").Child("left", mode), sweepInner(t, "right").Child("right", mode)
	run := func(ctx context.Context, s *sweepState, c sweepChild, key string) (string, error) {
		r, err := c.Call(ctx, &sweepState{Doc: pawl.Of(key)}, pawl.Key(key))
		if err != nil {
			return "", err
		}
		return r.State.Doc.Get() + r.State.Log.At(0), nil
	}
	node := func(ctx context.Context, s *sweepState) error {
		if _, err := call(ctx, "above", ""); err != nil {
			return err
		}
		one, err := run(ctx, s, left, "1")
		if err != nil {
			return err
		}
		answer, err := sweepQuestion.Ask(ctx, "between")
		if err != nil {
			return err
		}
		var both [2]string
		err = pawl.All(ctx,
			func(ctx context.Context) (err error) { both[0], err = run(ctx, s, left, "2"); return err },
			func(ctx context.Context) (err error) { both[1], err = run(ctx, s, right, "2"); return err })
		if err != nil {
			return err
		}
		s.Log.Add(one, answer, both[0], both[1])
		return nil
	}
	return toTheEnd(built(t, pawl.New[sweepState]("calls").
		Node("calls", node, pawl.Uses(left, right, sweepQuestion)).
		Node("behind", steps("behind")).
		Path(pawl.Start, "calls", "behind")), "t")
}

// sweepSent calls a child in each worker of a fan-out.
func sweepSent(t *testing.T) sweepDrive {
	child := built(t, pawl.New[sweepState]("inner").
		Node("work", func(ctx context.Context, s *sweepState) error {
			did, err := call(ctx, "work", s.Doc.Get())
			if err == nil {
				did, err = sweepQuestion.Ask(ctx, did)
			}
			s.Log.Add(did)
			return err
		}, pawl.Uses(sweepQuestion)).
		Node("end", func(_ context.Context, s *sweepState) error { s.Log.Add("end"); return nil }).
		Path(pawl.Start, "work", "end")).Child("child")
	worker := pawl.NewWorker("worker", func(ctx context.Context, s *sweepState, doc string) error {
		r, err := child.Call(ctx, &sweepState{Doc: pawl.Of(doc)})
		if err == nil {
			s.Log.Add(listed(&r.State.Log)...)
		}
		return err
	}, pawl.Uses(child))
	return toTheEnd(built(t, pawl.New[sweepState]("sent").
		Add(worker).
		Node("end", steps("end")).
		Route(pawl.Start, func(*sweepState) []pawl.Next { return worker.Each([]string{"a", "b", "c"}) }, "worker").
		Edge("worker", "end")), "t")
}

// sweepMemory runs a child that remembers, twice in each of two runs of a thread.
func sweepMemory(t *testing.T) sweepDrive {
	child := sweepInner(t, "inner").Child("agent", pawl.PerThread)
	twice := func(ctx context.Context, s *sweepState) error {
		for _, key := range []string{"1", "2"} {
			r, err := child.Call(ctx, &sweepState{Doc: pawl.Of(key)}, pawl.Key(key))
			if err != nil {
				return err
			}
			s.Sum.Add(int64(r.State.Log.Len()))
		}
		return nil
	}
	g := built(t, pawl.New[sweepState]("memory").
		Node("twice", twice, pawl.Uses(child)).
		Node("behind", steps("behind")).
		Path(pawl.Start, "twice", "behind"))
	return func(ctx context.Context, eng *pawl.Engine) error {
		th, err := within(ctx, eng, g, "t")
		if err != nil {
			return err
		}
		for _, run := range []string{"one", "two"} {
			if _, err := pawltest.Drive(ctx, th, run, &sweepState{Doc: pawl.Of(run)}, sweepPeople); err != nil {
				return err
			}
		}
		return nil
	}
}

// sweepChildFailure fails once in a child, beside a sibling that is done, and is resumed.
func sweepChildFailure(t *testing.T) sweepDrive {
	failing := func(ctx context.Context, s *sweepState) error {
		if _, err := call(ctx, "failing", ""); err != nil {
			return err
		}
		if !happened(ctx, "repaired") {
			return errors.New("out of order")
		}
		s.Log.Add("went on")
		return nil
	}
	child := built(t, pawl.New[sweepState]("inner").
		Node("first", steps("first")).
		Node("failing", failing).
		Path(pawl.Start, "first", "failing"))
	g := built(t, pawl.New[sweepState]("failure").
		Add(pawl.Sub(child.Child("sub"), sweepIn, sweepOut)).Path(pawl.Start, "sub"))
	return repaired(g, "repaired", (*sweepThread).Resume)
}

// inChild pays in a child, at a depth.
func (p *sweepPay) inChild(mode pawl.ChildMode, depth int) func(t *testing.T) sweepDrive {
	return func(t *testing.T) sweepDrive {
		g := p.graph(t)
		for range depth {
			g = built(t, pawl.New[sweepState]("around").
				Add(pawl.Sub(g.Child("sub", mode), sweepIn, sweepOut)).Path(pawl.Start, "sub"))
		}
		return p.whole(g)
	}
}
