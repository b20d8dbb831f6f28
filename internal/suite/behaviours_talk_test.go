package suite

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
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
