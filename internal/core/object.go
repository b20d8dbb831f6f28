package core

import (
	"bytes"
	"encoding/json"
)

// Object writes the channels that hold something as a JSON object, in the topology's order.
func Object(t *Topology, values []*Value) (json.RawMessage, error) {
	return object(t, values, func(*Channel) bool { return true })
}

// Public is Object without the channels that are private: what a stream shows.
func Public(t *Topology, values []*Value) (json.RawMessage, error) {
	return object(t, values, func(c *Channel) bool { return !c.Private })
}

// Output is Public without the channels that are no output: what an outcome shows.
func Output(t *Topology, values []*Value) (json.RawMessage, error) {
	return object(t, values, func(c *Channel) bool { return !c.Private && !c.NoOutput })
}

func object(t *Topology, values []*Value, shows func(*Channel) bool) (json.RawMessage, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for c, v := range values {
		whole, err := v.Bytes()
		if err != nil {
			return nil, err
		}
		if whole == nil || t.Channels[c].Hidden || !shows(&t.Channels[c]) {
			continue
		}
		if b.Len() > 1 {
			b.WriteByte(',')
		}
		name, err := json.Marshal(t.Channels[c].Name)
		if err != nil {
			return nil, err
		}
		b.Write(append(append(name, ':'), whole...))
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// FromObject makes whole values of a JSON object. A channel is found under an older name of it, too.
func FromObject(t *Topology, doc []byte) ([]*Value, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(doc, &members); err != nil {
		return nil, err
	}
	values := make([]*Value, len(t.Channels))
	for c := range t.Channels {
		for _, name := range append([]string{t.Channels[c].Name}, t.Channels[c].Was...) {
			if raw, ok := members[name]; ok {
				values[c] = NewSet(raw)
				break
			}
		}
	}
	return values, nil
}
