package agent

import (
	"fmt"
	"iter"
	"slices"
)

// Remove takes the message with an id out of the conversation. It is put like any other.
func Remove(id string) Message { return Message{Role: Removed, ID: id} }

// RemoveAll takes out all messages before it.
func RemoveAll() Message { return Message{Role: Cleared} }

// Conversation is what a log of messages comes to. A message without an id has one by its place in the log, "message-1" the
// first; one with the id of an earlier message stands in its place; Remove and RemoveAll take out. So a change is stored as
// one small line behind all others, and nodes that run side by side lose nothing of each other's. A log that removes what
// it never held is an error.
func Conversation(log iter.Seq2[int, Message]) ([]Message, error) {
	var out []Message
	place, held := map[string]int{}, map[string]bool{}
	for i, m := range log {
		if m.ID == "" {
			m.ID = fmt.Sprintf("message-%d", i+1)
		}
		at, there := place[m.ID]
		switch {
		case m.Role == Cleared:
			out = nil
			clear(place)
		case m.Role == Removed && !held[m.ID]:
			return nil, unknown(m.ID)
		case m.Role == Removed && there:
			out = slices.Delete(out, at, at+1)
			delete(place, m.ID)
			for j := at; j < len(out); j++ {
				place[out[j].ID] = j
			}
		case m.Role == Removed: // another node was faster
		case there:
			out[at] = m
		default:
			place[m.ID], held[m.ID] = len(out), true
			out = append(out, m)
		}
	}
	return out, nil
}

func unknown(id string) error {
	return fmt.Errorf("the conversation holds no message %q to remove; nothing was removed; Conversation lists the ids that there are", id)
}

// Conversation is what has been said.
func (c *Chat) Conversation() ([]Message, error) { return Conversation(c.Messages.All()) }

// Put adds messages, puts those with an id that is there in the place of the other, and removes. What is not there cannot
// be removed: then nothing is put.
func (c *Chat) Put(messages ...Message) error {
	said, err := c.Conversation()
	if err != nil {
		return err
	}
	held := map[string]bool{}
	for _, m := range said {
		held[m.ID] = true
	}
	for i, m := range messages {
		if m.Role == Removed && !held[m.ID] {
			return unknown(m.ID)
		}
		if m.ID == "" {
			m.ID = fmt.Sprintf("message-%d", c.Messages.Len()+i+1)
		}
		held[m.ID] = true
	}
	c.Messages.Add(messages...)
	return nil
}
