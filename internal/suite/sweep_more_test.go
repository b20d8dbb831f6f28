package suite_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/nest"
	"github.com/pawl-dev/pawl/pawltest"
)

// sweepDelete deletes a finished thread and runs another one under its id.
func sweepDelete(t *testing.T) sweepDrive {
	node := func(ctx context.Context, s *sweepState) error {
		if _, err := call(ctx, "work", s.Doc.Get()); err != nil {
			return err
		}
		answer, err := sweepQuestion.Ask(ctx, s.Doc.Get())
		if err == nil {
			s.Log.Add(answer)
		}
		return err
	}
	g := built(t, pawl.New[sweepState]("delete").Node("node", node, pawl.Uses(sweepQuestion)).Path(pawl.Start, "node"))
	return func(ctx context.Context, eng *pawl.Engine) error {
		th, err := within(ctx, eng, g, "t")
		if err != nil {
			return err
		}
		if !happened(ctx, "deleting") {
			if _, err := pawltest.Drive(ctx, th, "run-1", &sweepState{Doc: pawl.Of("first")}, sweepPeople); err != nil {
				return err
			}
			once(ctx, "deleting")
		}
		if !happened(ctx, "deleted") {
			if err := th.Delete(ctx); err != nil {
				return err
			}
			once(ctx, "deleted")
		}
		_, err = pawltest.Drive(ctx, th, "run-2", &sweepState{Doc: pawl.Of("second")}, sweepPeople)
		return err
	}
}

// sweepSecondRun goes on with a new input on a thread that is done.
func sweepSecondRun(t *testing.T) sweepDrive {
	g := built(t, pawl.New[sweepState]("second").
		Node("a", func(ctx context.Context, s *sweepState) error {
			did, err := call(ctx, "a", s.Doc.Get())
			s.Log.Add(did)
			return err
		}).
		Node("b", func(ctx context.Context, s *sweepState) error {
			answer, err := sweepQuestion.Ask(ctx, s.Doc.Get())
			if err == nil {
				s.Log.Add(answer)
			}
			return err
		}, pawl.Uses(sweepQuestion)).
		Path(pawl.Start, "a", "b"))
	return func(ctx context.Context, eng *pawl.Engine) error {
		th, err := within(ctx, eng, g, "t")
		if err != nil {
			return err
		}
		for _, run := range []string{"one", "two", "three"} {
			if _, err := pawltest.Drive(ctx, th, run, &sweepState{Doc: pawl.Of(run)}, sweepPeople); err != nil {
				return err
			}
		}
		return nil
	}
}

// sweepBig moves values that are far larger than what stands around them.
func sweepBig(t *testing.T) sweepDrive {
	piece := strings.Repeat("0123456789abcdef", 1024)
	node := func(name string) sweepNode {
		return func(ctx context.Context, s *sweepState) error {
			big, err := pawl.Step(ctx, name, func(ctx context.Context) (string, error) {
				pawltest.Called(ctx, name)
				return name + piece, nil
			})
			if err != nil {
				return err
			}
			if _, err := sweepQuestion.Ask(ctx, big); err != nil {
				return err
			}
			s.Log.Add(big)
			s.Doc.Set(big + s.Doc.Get())
			s.Map.Set(name, big)
			return nil
		}
	}
	return toTheEnd(built(t, pawl.New[sweepState]("big").
		Node("a", node("a"), pawl.Uses(sweepQuestion)).Node("b", node("b"), pawl.Uses(sweepQuestion)).
		Path(pawl.Start, "a", "b")), "t")
}

// sweepConn is a live value: it has no JSON.
type sweepConn struct{ say func(string) string }

// sweepLive has nodes that share a live value, and open one where there is none.
func sweepLive(t *testing.T) sweepDrive {
	use := func(name string) sweepNode {
		return func(ctx context.Context, s *sweepState) error {
			conn, ok := s.Conn.Get()
			if !ok {
				conn = &sweepConn{func(name string) string { return "said " + name }}
				s.Conn.Set(conn)
			}
			said, err := pawl.Step(ctx, name, func(ctx context.Context) (string, error) {
				pawltest.Called(ctx, name)
				return conn.say(name), nil
			})
			s.Log.Add(said)
			return err
		}
	}
	ask := func(ctx context.Context, s *sweepState) error {
		answer, err := sweepQuestion.Ask(ctx, s.Doc.Get())
		if err == nil {
			s.Log.Add(answer)
		}
		return err
	}
	return toTheEnd(built(t, pawl.New[sweepState]("live").
		Node("a", use("a")).Node("b", use("b")).Node("ask", ask, pawl.Uses(sweepQuestion)).Node("c", use("c")).
		Path(pawl.Start, "a", "b", "ask", "c")), "t")
}

// sweepDeltas writes to channels of every kind over many short super-steps, with a step now and then.
func sweepDeltas(t *testing.T) sweepDrive {
	node := func(ctx context.Context, s *sweepState) error {
		n := s.Round.Get()
		key := string(rune('a' + n))
		if n%3 == 1 {
			if _, err := call(ctx, "now and then", key); err != nil {
				return err
			}
		}
		s.Log.Add("log " + key)
		s.Sum.Add(int64(n))
		s.Map.Set(key, "map "+key)
		s.Most.Add(n * (7 - n))
		switch n {
		case 2:
			s.Map.Delete("a")
			s.Pass.Put("pass")
			s.Note.Set("for the next only")
		case 3:
			pass, ok := s.Pass.Take()
			if !ok {
				return errors.New("the pass is gone")
			}
			s.Log.Add(pass, s.Note.Get())
		case 4:
			s.Log.Replace("replaced", s.Note.Get())
		}
		s.Round.Set(n + 1)
		return nil
	}
	again := func(s *sweepState) []pawl.Next {
		if s.Round.Get() < 7 {
			return pawl.To("node")
		}
		return pawl.To(pawl.End)
	}
	return toTheEnd(built(t, pawl.New[sweepState]("deltas").
		Node("node", node).Edge(pawl.Start, "node").Route("node", again, "node", pawl.End)), "t")
}

// sweepAskNode has nodes that are only questions, one with a second try behind it.
func sweepAskNode(t *testing.T) sweepDrive {
	first, second := pawl.Interrupt[string, string]{Name: "first"}, pawl.Interrupt[string, string]{Name: "second"}
	people := pawltest.People{}
	for _, name := range []string{"first", "second"} {
		people[name] = func(q pawl.Question) any { return name + " to " + strings.Trim(string(q.Body), `"`) }
	}
	decided := func(s *sweepState, answer string) error { s.Log.Add(answer); return nil }
	tried := func(ctx context.Context, s *sweepState) error {
		if _, err := call(ctx, "tried", ""); err != nil {
			return err
		}
		if !happened(ctx, "failed once") {
			once(ctx, "failed once")
			return errors.New("the first try fails")
		}
		s.Log.Add("tried")
		return nil
	}
	g := built(t, pawl.New[sweepState]("ask-node").
		Add(pawl.AskNode(first, func(s *sweepState) string { return "one after " + s.Doc.Get() }, decided)).
		Node("tried", tried, pawl.Tries(2), pawl.Backoff(0, 0)).
		Add(pawl.AskNode(second, func(*sweepState) string { return "two" }, decided)).
		Path(pawl.Start, "first", "tried", "second"))
	return func(ctx context.Context, eng *pawl.Engine) error {
		th, err := within(ctx, eng, g, "t")
		if err != nil {
			return err
		}
		_, err = pawltest.Drive(ctx, th, "run-1", &sweepState{Doc: pawl.Of("in")}, people)
		return err
	}
}

// sweepTwoThreads runs two threads of one process at once: its death is both theirs.
func sweepTwoThreads(t *testing.T) sweepDrive {
	g := built(t, pawl.New[sweepState]("two").
		Node("a", func(ctx context.Context, s *sweepState) error {
			if _, err := call(ctx, "work", s.Doc.Get()); err != nil {
				return err
			}
			answer, err := sweepQuestion.Ask(ctx, s.Doc.Get())
			if err == nil {
				s.Log.Add(answer)
			}
			return err
		}, pawl.Uses(sweepQuestion)).
		Node("b", func(_ context.Context, s *sweepState) error { s.Log.Add("b"); return nil }).
		Path(pawl.Start, "a", "b"))
	return func(ctx context.Context, eng *pawl.Engine) error {
		deep, err := nest.In(g, levelOf(ctx))
		if err != nil {
			return err
		}
		errs := make(chan error, 2)
		for _, id := range []string{"left", "right"} {
			go func() {
				_, err := pawltest.Drive(ctx, deep.Thread(eng, id), "run-1", &sweepState{Doc: pawl.Of(id)}, sweepPeople)
				errs <- err
			}()
		}
		return errors.Join(<-errs, <-errs)
	}
}
