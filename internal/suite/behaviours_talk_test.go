package suite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/agent"
	"github.com/pawl-dev/pawl/stream"
)

// rowPushed: a message without an id is refused and told to nobody; those with one are told in their order, each before the
// node ends, and the state has the same ones in the same order.
func rowPushed(t *testing.T, h *home) {
	g := build(t, pawl.New[agent.Chat]("row").Path(pawl.Start, "chat").Node("chat", func(ctx context.Context, s *agent.Chat) error {
		if err := agent.Push(ctx, &s.Messages, agent.Message{Role: agent.Assistant, Text: "No ID"}); !errors.As(err, new(*stream.NoIDError)) {
			t.Errorf("without an id: %v", err)
		}
		return errors.Join(
			agent.Push(ctx, &s.Messages, agent.Message{Role: agent.Assistant, Text: "First", ID: "1"}),
			agent.Push(ctx, &s.Messages, agent.Message{Role: agent.User, Text: "Second", ID: "2"}),
			agent.Push(ctx, &s.Messages, agent.Message{Role: agent.Assistant, Text: "Third", ID: "3"}))
	}))
	th := g.Thread(engine(t, h.open(t), nil), "t")
	var told, held []agent.Message
	var early int
	for c, err := range modesOf(stream.Messages, stream.Values, stream.Updates).Of(t.Context(), th.Stream(t.Context(), &agent.Chat{})) {
		if err != nil {
			t.Fatal(err)
		}
		switch d := c.Data.(type) {
		case stream.Message:
			told = append(told, args[agent.Message](d.Whole))
		case stream.Update:
			early = len(told)
		case stream.State:
			var s struct{ Messages []agent.Message }
			if err := json.Unmarshal(d.Values, &s); err != nil {
				t.Fatal(err)
			}
			held = s.Messages
		}
	}
	if early != 3 || !slices.EqualFunc(told, held, func(a, b agent.Message) bool { return a.ID == b.ID && a.Text == b.Text && a.Role == b.Role }) {
		t.Errorf("told %v (%d before the write), in the state %v", told, early, held)
	}
	same(t, "ids", listed(told), []string{"1 First", "2 Second", "3 Third"})
}

// status is an error with an HTTP status.
type status int

func (s status) Error() string   { return fmt.Sprint("status ", int(s)) }
func (s status) StatusCode() int { return int(s) }

// rowRetryTable: a node with three tries and no policy is entered again for errors of the world and for unknown ones, and
// not for those that the same input makes again.
func rowRetryTable(t *testing.T, h *home) {
	_, value := strconv.Atoi("x")
	fails := func(err error) func() error { return func() error { return err } }
	for _, c := range []struct {
		name    string
		fails   func() error
		entries int
	}{
		{"a connection", fails(&net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}), 3},
		{"500", fails(status(500)), 3}, {"503", fails(status(503)), 3},
		{"400", fails(status(400)), 1}, {"404", fails(status(404)), 1},
		{"a value", fails(value), 1},
		{"a type", fails(json.Unmarshal([]byte(`"x"`), new(int))), 1},
		{"syntax", fails(json.Unmarshal([]byte(`{`), new(int))), 1},
		{"a look-up", func() error { return []error{}[len(h.name)] }, 1},
		{"arithmetic", func() error { return status(1 / len(h.name[len(h.name):])) }, 1},
		{"the system", fails(&fs.PathError{Op: "open", Path: "x", Err: syscall.ENOENT}), 1},
		{"unknown", fails(errRow), 3},
		{"marked as final", fails(pawl.NoRetry(errRow)), 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			entries := 0
			g := build(t, single(func(context.Context, *rowState) error { entries++; return c.fails() }, pawl.Tries(3), pawl.Backoff(0, 0)))
			if _, err := g.Thread(engine(t, h.open(t), nil), c.name).Run(t.Context(), &rowState{}); err == nil || entries != c.entries {
				t.Errorf("%d entries, want %d: %v", entries, c.entries, err)
			}
		})
	}
}

// rowZeroLimit: a limit of nothing, or less, is refused before anything is done.
func rowZeroLimit(t *testing.T, h *home) {
	th := rowThread(t, h, sayers("a", "b"), nil)
	for _, n := range []int{0, -1} {
		if _, err := th.Run(t.Context(), &rowState{}, pawl.StepLimit(n)); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("StepLimit(%d)", n)) {
			t.Errorf("a limit of %d: %v", n, err)
		}
	}
	if st := statusOf(t, th); st.Status != pawl.StatusNew {
		t.Errorf("a refused run left the thread %s", st.Status)
	}
	if _, err := th.Run(t.Context(), &rowState{}, pawl.StepLimit(1)); !errors.As(err, new(*pawl.LimitError)) {
		t.Errorf("a limit of one for two: %v", err)
	}
	if eng, err := pawl.NewEngine(h.open(t), &pawl.Options{Limits: pawl.Limits{Steps: -1}}); err == nil {
		eng.Close()
		t.Error("an engine took a negative limit")
	}
}

// rowNoDestination: a route that chooses a null in the place of a target fails its task by name; one that chooses nothing, as
// an empty list, leads nowhere.
func rowNoDestination(t *testing.T, h *home) {
	for name, null := range map[string][]pawl.Next{"an empty name": pawl.To(""), "no target": make([]pawl.Next, 1), "one of two": pawl.To("b", "")} {
		b := pawl.New[rowState]("row").Node("a", rowSays("a")).Node("b", rowSays("b")).Edge(pawl.Start, "a").
			Route("a", func(*rowState) []pawl.Next { return null }, "b", pawl.End)
		out, err := build(t, b).Thread(engine(t, h.open(t), nil), name).Run(t.Context(), &rowState{})
		if err == nil || out.Node != "a" || !strings.Contains(err.Error(), `node "a": its route to b, __end__ chose no valid destination`) || len(logOf(out.State)) > 0 {
			t.Errorf("%s: %v, %v", name, out, err)
		}
	}
	b := pawl.New[rowState]("row").Node("a", rowSays("a")).Node("b", rowSays("b")).Edge(pawl.Start, "a").
		Route("a", func(*rowState) []pawl.Next { return []pawl.Next{} }, "b", pawl.End)
	out, err := build(t, b).Thread(engine(t, h.open(t), nil), "nothing").Run(t.Context(), &rowState{})
	if err != nil || out.Status != pawl.Done || !slices.Equal(logOf(out.State), []string{"a"}) {
		t.Errorf("an empty list: %v, %v", out, err)
	}
}
