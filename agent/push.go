package agent

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/stream"
)

// Push says a message from inside a node while the node goes on: whoever streams the run sees it at once among the messages,
// and it is added to the log of the node's state, which holds it from when the node's writes are merged, in the order of
// adding.
//
//	err := agent.Push(ctx, &s.Messages, agent.Message{ID: pawl.TaskKey(ctx) + "-1", Role: agent.Assistant, Text: "One moment."})
//
// It needs an id, else it is refused with a [*stream.NoIDError] and neither told nor added. Until the merge it is provisional:
// of a node that fails, waits, or dies with its process, nothing is in the log. When the node runs again it says the message
// again; what the earlier entry added was discarded, so the log has it one time, and a stream shows it again only where it
// changed. That takes an id that is the same on every entry, not a random one. It is a write: not in a Step and not in a
// function of All.
func Push(ctx context.Context, log *pawl.Append[Message], m Message) error {
	if m.Role == Removed || m.Role == Cleared {
		return fmt.Errorf("message %q only removes, so there is nothing to say; add it to the log; nothing was told", m.ID)
	}
	if m.ID == "" {
		return stream.Push(ctx, m) // which refuses it
	}
	before := log.Len()
	if log.Add(m); log.Len() == before {
		return errors.New("the log takes no message here, in a step, a function of All, or after the node returned; nothing was told")
	}
	return stream.Push(ctx, m)
}
