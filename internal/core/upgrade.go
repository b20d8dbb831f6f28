package core

import (
	"encoding/json"
	"fmt"
	"slices"
)

// Upgrader reads a whole value of a channel that was stored when the channel's type was from.
type Upgrader func(channel, from string, whole []byte) ([]byte, error)

// Source finds the channel of an older topology from which t's c-th one is read, or -1.
func (t *Topology) Source(old *Topology, c int) int {
	for _, name := range append([]string{t.Channels[c].Name}, t.Channels[c].Was...) {
		if i := old.Channel(name); i >= 0 {
			return i
		}
	}
	return -1
}

// Heir finds the channel of t that reads what an older topology stored in its c-th one, or -1.
func (t *Topology) Heir(old *Topology, c int) int {
	for i := range t.Channels {
		if t.Source(old, i) == c {
			return i
		}
	}
	return -1
}

// alike says that two channels read each other's rows as they are.
func alike(a, b Channel) bool { return a.Merge == b.Merge && a.Type == b.Type && a.Number == b.Number }

// Upgraded returns a stored version as channel c of t reads it: the version itself where the channel is as it was, else
// a whole new one. The stored one is left as it is.
func (t *Topology) Upgraded(old Channel, c int, v *Value, up Upgrader) (*Value, error) {
	now := t.Channels[c]
	if alike(old, now) || !v.Has() {
		return v, nil
	}
	whole, err := v.Bytes()
	if err != nil {
		return nil, err
	}
	if whole, err = now.upgrade(old, whole, up); err != nil {
		return nil, err
	}
	return NewSet(whole), nil
}

func (c Channel) upgrade(old Channel, data []byte, up Upgrader) ([]byte, error) {
	if !slices.Contains(c.From, old.Type) || up == nil {
		return nil, fmt.Errorf("channel %q is %s, and what is stored is %s; nothing reads the one as the other", c.Name, signature(c), signature(old))
	}
	out, err := up(c.Name, old.Type, data)
	if err == nil {
		err = CheckSize(fmt.Sprintf("channel %q, upgraded,", c.Name), out)
	}
	return out, err
}

// UpgradeWrites returns writes that were made under an older topology as writes under t.
func UpgradeWrites(old, t *Topology, ws []Write, up Upgrader) ([]Write, error) {
	out := make([]Write, 0, len(ws))
	for _, w := range ws {
		was := old.Channel(w.Channel)
		if was < 0 {
			return nil, fmt.Errorf("a write to the unknown channel %q was stored", w.Channel)
		}
		c := t.Heir(old, was)
		if c < 0 {
			return nil, fmt.Errorf("channel %q was written, and graph %q has none that reads it", w.Channel, t.Graph)
		}
		now := t.Channels[c]
		w.Channel = now.Name
		if !alike(old.Channels[was], now) && w.Op != OpClear {
			if old.Channels[was].Merge != now.Merge && w.Op != OpSet {
				return nil, fmt.Errorf("channel %q was %s and is %s: what was added to it has no place", now.Name, signature(old.Channels[was]), signature(now))
			}
			data, err := upgradeData(old.Channels[was], now, w, up)
			if err != nil {
				return nil, err
			}
			w.Data, w.Value = data, nil
		}
		out = append(out, w)
	}
	return out, nil
}

// upgradeData converts a write in its own form: a list as a list, the settings of a patch as a map, the inputs of a fold
// one by one.
func upgradeData(old, now Channel, w Write, up Upgrader) ([]byte, error) {
	switch {
	case w.Op == OpMerge:
		var p Patch
		if err := json.Unmarshal(w.Data, &p); err != nil || p.Set == nil {
			return w.Data, err
		}
		whole, err := json.Marshal(p.Set)
		if err != nil {
			return nil, err
		}
		if whole, err = now.upgrade(old, whole, up); err != nil {
			return nil, err
		}
		p.Set = nil
		if err := json.Unmarshal(whole, &p.Set); err != nil {
			return nil, err
		}
		return json.Marshal(p)
	case w.Op == OpAdd && now.Merge == MergeFold:
		var items []json.RawMessage
		if err := json.Unmarshal(w.Data, &items); err != nil {
			return nil, err
		}
		for i := range items {
			var err error
			if items[i], err = now.upgrade(old, items[i], up); err != nil {
				return nil, err
			}
		}
		return json.Marshal(items)
	}
	return now.upgrade(old, w.Data, up)
}
