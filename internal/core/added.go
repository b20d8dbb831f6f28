package core

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"
)

// Added is what values have beyond earlier ones, by channel: the items behind those of before (Append), the entries that
// are new or other (Map), the difference (Sum), and else the value where it is another one. A list that was replaced is
// new as a whole; entries that are gone do not show.
func Added(t *Topology, before, after []*Value) ([]*Value, error) {
	out := make([]*Value, len(t.Channels))
	for c := range t.Channels {
		ch := &t.Channels[c]
		old, err := before[c].Bytes()
		if err != nil {
			return nil, err
		}
		now, err := after[c].Bytes()
		if err != nil {
			return nil, err
		}
		if now == nil || bytes.Equal(old, now) {
			continue
		}
		if old != nil {
			switch ch.Merge {
			case MergeAppend:
				now = itemsBehind(old, now)
			case MergeMap:
				now, err = entriesBeyond(old, now)
			case MergeSum:
				now, err = difference(ch.Number, now, old)
			}
			if err != nil {
				return nil, fmt.Errorf("channel %q: %w", ch.Name, err)
			}
		}
		out[c] = NewSet(now)
	}
	return out, nil
}

// itemsBehind are the items of a JSON array that follow those of another, which begins like it byte by byte.
func itemsBehind(old, now []byte) []byte {
	begin, rest := bytes.TrimRight(bytes.TrimSuffix(bytes.TrimSpace(old), []byte("]")), " \t\r\n"), bytes.TrimSpace(now)
	if len(begin) == 1 || !bytes.HasPrefix(rest, begin) {
		return now
	}
	switch rest = bytes.TrimLeft(rest[len(begin):], " \t\r\n"); rest[0] {
	case ',':
		return append([]byte{'['}, rest[1:]...)
	case ']':
		return []byte("[]")
	}
	return now
}

func entriesBeyond(old, now []byte) ([]byte, error) {
	var was, is map[string]json.RawMessage
	if err := json.Unmarshal(old, &was); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(now, &is); err != nil {
		return nil, err
	}
	for key, entry := range is {
		if had, ok := was[key]; ok && bytes.Equal(had, entry) {
			delete(is, key)
		}
	}
	return json.Marshal(is)
}

func difference(n Number, now, old []byte) ([]byte, error) {
	if n == Float {
		var a, b float64
		if err := json.Unmarshal(now, &a); err != nil {
			return nil, err
		}
		if err := json.Unmarshal(old, &b); err != nil {
			return nil, err
		}
		return json.Marshal(a - b)
	}
	a, ok := new(big.Int).SetString(string(now), 10)
	b, fine := new(big.Int).SetString(string(old), 10)
	if !ok || !fine {
		return nil, fmt.Errorf("%s - %s is no number", now, old)
	}
	return []byte(a.Sub(a, b).String()), nil
}
