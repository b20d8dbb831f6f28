package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/agent"
	"github.com/pawl-dev/pawl/memdb"
	"github.com/pawl-dev/pawl/stream"
)

// talking is a thread of a graph with one node over a chat.
func talking(t *testing.T, node func(context.Context, *agent.Chat) error, options ...pawl.NodeOption) *pawl.ThreadOf[agent.Chat] {
	t.Helper()
	g, err := pawl.New[agent.Chat]("talking").Node("talk", node, options...).Path(pawl.Start, "talk").Build()
	if err != nil {
		t.Fatal(err)
	}
	return thread(t, g)
}

func line(id, text string) agent.Message {
	return agent.Message{ID: id, Role: agent.Assistant, Text: text}
}

// seen are the messages of a stream, as "node id text"; what is stored has a "+" behind it.
func seen(t *testing.T, ctx context.Context, verb func(context.Context, pawl.RunOption) error) (out []string) {
	t.Helper()
	v := stream.View{Modes: []stream.Mode{stream.Messages}}
	for c, err := range v.Of(ctx, pawl.Stream(ctx, verb)) {
		if err == nil {
			out = append(out, heard(t, c))
		} else if !errors.As(err, new(*pawl.RunError)) {
			t.Fatal(err)
		}
	}
	return out
}

func heard(t *testing.T, c stream.Chunk) string {
	t.Helper()
	m := c.Data.(stream.Message)
	said, stored := agent.Message{}, ""
	if m.Token != nil {
		said.ID, said.Text = m.Token.Message, fmt.Sprint("#", m.Token.Index, " ", m.Token.Text)
	} else if err := json.Unmarshal(m.Whole, &said); err != nil {
		t.Fatal(err)
	}
	if c.Cursor != (stream.Cursor{}) {
		stored = " +"
	}
	return m.Node + " " + said.ID + " " + said.Text + stored
}

func running(th *pawl.ThreadOf[agent.Chat]) func(context.Context, pawl.RunOption) error {
	return func(ctx context.Context, tell pawl.RunOption) error {
		_, err := th.Run(ctx, &agent.Chat{}, tell)
		return err
	}
}

func stored(t *testing.T, th *pawl.ThreadOf[agent.Chat]) string {
	t.Helper()
	st, err := th.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var s struct{ Messages []agent.Message }
	if err := json.Unmarshal(st.Head.Values, &s); err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, m := range s.Messages {
		out = append(out, m.ID+" "+m.Text)
	}
	return strings.Join(out, ", ")
}

// What is pushed is told while the node runs, in order, and stored in order; what the node adds besides is told once, too.
func TestPush(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		told := make(chan bool)
		th := talking(t, func(ctx context.Context, s *agent.Chat) error {
			refused := (*stream.NoIDError)(nil)
			if err := agent.Push(ctx, &s.Messages, line("", "no id")); !errors.As(err, &refused) || refused.Node != "talk" {
				t.Errorf("without an id: %v", err)
			}
			if err := agent.Push(ctx, &s.Messages, agent.Remove("1")); err == nil {
				t.Error("a removal was pushed")
			}
			err := errors.Join(agent.Push(ctx, &s.Messages, line("1", "first")), agent.Push(ctx, &s.Messages, line("2", "second")))
			<-told // both were seen while the node runs
			s.Messages.Add(line("between", "written"))
			return errors.Join(err, agent.Push(ctx, &s.Messages, line("3", "third")))
		})
		var got []string
		v := stream.View{Modes: []stream.Mode{stream.Messages}}
		for c, err := range v.Of(t.Context(), pawl.Stream(t.Context(), running(th))) {
			if err != nil {
				t.Fatal(err)
			}
			if got = append(got, heard(t, c)); len(got) == 2 {
				close(told)
			}
		}
		same(t, "told", strings.Join(got, ", "), "talk 1 first, talk 2 second, talk 3 third, talk between written +")
		same(t, "stored", stored(t, th), "1 first, 2 second, between written, 3 third")
	})
}

// A node that runs again says its messages again: the log has them one time, and a stream shows again what changed.
func TestPushAgain(t *testing.T) {
	t.Parallel()
	fails := func(context.Context) error { return errors.New("failed") }
	waits := func(ctx context.Context) error { _, err := allow.Ask(ctx, "go on?"); return err }
	for _, c := range []struct {
		name        string
		again       string // what it says the second time
		first       func(context.Context) error
		told, shown string
	}{
		{"a try, the same", "hello", fails, "talk a hello", "a hello"},
		{"a try, another text", "hello again", fails, "talk a hello, talk a hello again", "a hello again"},
		{"an answer", "hello", waits, "talk a hello, talk a hello", "a hello"}, // told to two streams
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				entered := 0
				th := talking(t, func(ctx context.Context, s *agent.Chat) error {
					text, end := "hello", c.first
					if entered++; entered == 2 {
						text = c.again
						end = func(context.Context) error { return nil }
					}
					return errors.Join(agent.Push(ctx, &s.Messages, line("a", text)), end(ctx))
				}, pawl.Tries(2), pawl.Uses(allow))
				got := seen(t, t.Context(), running(th))
				if entered == 1 {
					same(t, "stored while it waits", stored(t, th), "")
					got = append(got, seen(t, t.Context(), func(ctx context.Context, tell pawl.RunOption) error {
						_, err := th.Resume(ctx, tell, allow.Answer("", true))
						return err
					})...)
				}
				same(t, "told", strings.Join(got, ", "), c.told)
				same(t, "stored", stored(t, th), c.shown)
			})
		})
	}
}

// Where the log takes no write nothing is told, and the node fails by name.
func TestPushWhereNothingIsWritten(t *testing.T) {
	t.Parallel()
	for name, node := range map[string]func(context.Context, *agent.Chat) error{
		"a step": func(ctx context.Context, s *agent.Chat) error {
			_, err := pawl.Step(ctx, "say", func(ctx context.Context) (bool, error) {
				return true, agent.Push(ctx, &s.Messages, line("a", "hello"))
			})
			return err
		},
		"a function of All": func(ctx context.Context, s *agent.Chat) error {
			return pawl.All(ctx, func(ctx context.Context) error { return agent.Push(ctx, &s.Messages, line("a", "hello")) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			th := talking(t, node)
			same(t, "told", strings.Join(seen(t, t.Context(), running(th)), ", "), "")
			if st, err := th.State(t.Context()); err != nil || st.Status != pawl.Failed || !strings.Contains(st.Reason, "the log takes no message here") {
				t.Errorf("%+v, %v", st, err)
			}
		})
	}
}

// A process that dies after a message was told, and before its node's writes are merged, leaves none in the log; the next
// process says it again, and the log has it one time.
func TestPushAndDeath(t *testing.T) {
	t.Parallel()
	db, err := memdb.Open(pawl.Kinds()...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	entered, dies := 0, make(chan struct{})
	g, err := pawl.New[agent.Chat]("talking").Node("talk", func(ctx context.Context, s *agent.Chat) error {
		entered++
		if err := agent.Push(ctx, &s.Messages, line("a", "hello")); err != nil || entered > 1 {
			return err
		}
		close(dies)
		<-ctx.Done()
		return ctx.Err()
	}).Path(pawl.Start, "talk").Build()
	if err != nil {
		t.Fatal(err)
	}
	ctx, die := context.WithCancel(t.Context())
	eng, err := pawl.NewEngine(db, nil)
	if err != nil {
		t.Fatal(err)
	}
	go func() { <-dies; die() }()
	th := g.Thread(eng, "t")
	same(t, "told", strings.Join(seen(t, ctx, running(th)), ", "), "talk a hello")
	same(t, "stored", stored(t, th), "")
	eng.Close()
	if eng, err = pawl.NewEngine(db, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { eng.Close() })
	th = g.Thread(eng, "t")
	if out, err := th.Resume(t.Context()); err != nil || out.Status != pawl.Done {
		t.Fatal(out, err)
	}
	same(t, "stored in the end", stored(t, th), "a hello")
	v := stream.View{Modes: []stream.Mode{stream.Messages}}
	watch, left := context.WithTimeout(t.Context(), time.Minute)
	defer left()
	for c, err := range v.Watch(watch, th.Thread, stream.Cursor{}) { // who was told nothing is told of the write
		if err != nil {
			t.Fatal(err)
		}
		same(t, "watched", heard(t, c), "talk a hello +")
		break
	}
}

// Without a running task a node is a plain function: what it pushes is in the log.
func TestPushWithoutATask(t *testing.T) {
	t.Parallel()
	s := &agent.Chat{}
	if err := agent.Push(t.Context(), &s.Messages, line("a", "hello")); err != nil || messages(s) != "assistant: hello" {
		t.Error(err, messages(s))
	}
	if err := agent.Push(t.Context(), &s.Messages, line("", "hello")); !errors.As(err, new(*stream.NoIDError)) || s.Messages.Len() != 1 {
		t.Error(err, messages(s))
	}
}
