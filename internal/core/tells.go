package core

import (
	"bytes"
	"strconv"
)

// Tells says whether next, which follows before, tells by itself what its super-step's one task did: it was the only one
// due, and its writes are the differences between the two. Both must be stored as they are here.
func (t *Topology) Tells(before, next *Checkpoint, r *Result) bool {
	if len(before.Due) != 1 || before.Due[0].Send || r.Cached || before.Graph != next.Graph {
		return false
	}
	writes := r.Writes
	for c := range t.Channels {
		old, now := before.Values[c], next.Values[c]
		if old == now || t.Channels[c].forgot(now) {
			continue
		}
		w, told := t.Channels[c].Difference(old, now)
		if !told || len(writes) == 0 || !w.same(&writes[0]) {
			return false
		}
		writes = writes[1:]
	}
	return len(writes) == 0
}

// Difference is the write of one task that made old into now, if the two tell it: the version itself, or what a sum of
// integers grew by.
func (ch *Channel) Difference(old, now *Value) (w Write, told bool) {
	switch {
	case !now.Has():
		return w, false
	case ch.Merge != MergeSum:
		return Write{Channel: ch.Name, Op: now.Op, Data: now.Data, Value: now}, true
	}
	was := []byte("0")
	if old.Has() {
		was = old.Data
	}
	by, told := growth(ch.Number, was, now.Data)
	return Write{Channel: ch.Name, Op: OpAdd, Data: by}, told
}

// forgot says whether a channel without a value was emptied by the super-step's end, not by a task.
func (ch *Channel) forgot(now *Value) bool { return ch.Merge == MergeEphemeral && !now.Has() }

func (w *Write) same(o *Write) bool {
	return w.Channel == o.Channel && w.Op == o.Op && w.Value == o.Value && w.Took == o.Took && bytes.Equal(w.Data, o.Data)
}

// growth undoes AddNumbers where that loses nothing.
func growth(n Number, was, now []byte) ([]byte, bool) {
	switch n {
	case Signed:
		a, err := strconv.ParseInt(string(was), 10, 64)
		b, err2 := strconv.ParseInt(string(now), 10, 64)
		return strconv.AppendInt(nil, b-a, 10), err == nil && err2 == nil
	case Unsigned:
		a, err := strconv.ParseUint(string(was), 10, 64)
		b, err2 := strconv.ParseUint(string(now), 10, 64)
		return strconv.AppendUint(nil, b-a, 10), err == nil && err2 == nil
	}
	return nil, false
}
