package records

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/pawl-dev/pawl/internal/core"
)

// mergedBody is what one task did, in the checkpoint that merged it: the node, the place among the sends if it is one,
// true if the result is of an earlier task, then the writes. A write that is the checkpoint's version of its channel is the
// channel's name alone; any other is the name, the form, and the version or data.
type mergedBody struct {
	node   string
	index  int
	cached bool
	writes []mergedWrite
	told   bool // nothing of this is stored: the checkpoint's difference from its parent tells it
}

// mergedList is the number 1 instead of the one result that the checkpoint tells by its difference.
type mergedList []mergedBody

func (l *mergedList) UnmarshalJSON(doc []byte) error {
	if string(doc) == "1" {
		*l = mergedList{{told: true}}
		return nil
	}
	return json.Unmarshal(doc, (*[]mergedBody)(l))
}

type mergedWrite struct {
	channel string
	op      core.Op // 0: the checkpoint's version
	took    bool
	ref     Ref
}

const tookMark = "t"

// appendMerged writes the results that no row of their own tells.
func appendMerged(out []byte, cp *core.Checkpoint, t *core.Topology) ([]byte, error) {
	if cp.Told && len(cp.Merged) == 1 {
		return append(out, `,"u":1`...), nil
	}
	for i := range cp.Merged {
		r := &cp.Merged[i]
		if i == 0 {
			out = append(out, `,"u":[`...)
		} else {
			out = append(out, ',')
		}
		out = appendText(append(out, '['), r.Task.Node)
		if r.Task.Index >= 0 {
			out = strconv.AppendInt(append(out, ','), int64(r.Task.Index), 10)
		}
		if r.Cached {
			out = append(out, ",true"...)
		}
		for w := range r.Writes {
			var err error
			if out, err = appendWrite(append(out, ','), &r.Writes[w], cp, t); err != nil {
				return nil, fmt.Errorf("node %q: %w", r.Task.Node, err)
			}
		}
		if out = append(out, ']'); i == len(cp.Merged)-1 {
			out = append(out, ']')
		}
	}
	return out, nil
}

func appendWrite(out []byte, w *core.Write, cp *core.Checkpoint, t *core.Topology) ([]byte, error) {
	if c := t.Channel(w.Channel); c >= 0 && w.Value != nil && cp.Values[c] == w.Value && !w.Took {
		return appendText(out, w.Channel), nil
	}
	form := string(w.Op)
	if w.Took {
		form += tookMark
	}
	out = appendText(append(appendText(append(out, '['), w.Channel), ','), form)
	switch {
	case w.Value != nil && w.Value.ID != 0:
		out = strconv.AppendInt(append(out, ','), w.Value.ID, 10)
	case len(w.Data) > 0 && !json.Valid(w.Data):
		return nil, fmt.Errorf("what was written to channel %q is no JSON", w.Channel)
	case len(w.Data) > 0:
		out = append(append(append(out, `,[`...), w.Data...), ']')
	}
	return append(out, ']'), nil
}

// UnmarshalJSON reads what appendMerged writes.
func (m *mergedBody) UnmarshalJSON(doc []byte) error {
	var parts []json.RawMessage
	if err := json.Unmarshal(doc, &parts); err != nil || len(parts) == 0 {
		return errors.New("a merged result is no list that starts with a node")
	}
	if err := json.Unmarshal(parts[0], &m.node); err != nil {
		return err
	}
	m.index, parts = -1, parts[1:]
	if len(parts) > 0 && json.Unmarshal(parts[0], &m.index) == nil {
		parts = parts[1:]
	}
	if len(parts) > 0 && string(parts[0]) == "true" {
		m.cached, parts = true, parts[1:]
	}
	m.writes = make([]mergedWrite, len(parts))
	for i, part := range parts {
		if err := m.writes[i].read(part); err != nil {
			return err
		}
	}
	return nil
}

func (w *mergedWrite) read(doc []byte) error {
	if json.Unmarshal(doc, &w.channel) == nil {
		return nil
	}
	var parts []json.RawMessage
	if err := json.Unmarshal(doc, &parts); err != nil || len(parts) < 2 || len(parts) > 3 {
		return errors.New("a merged write is neither a channel nor a list of channel, form and data")
	}
	var form string
	if err := errors.Join(json.Unmarshal(parts[0], &w.channel), json.Unmarshal(parts[1], &form)); err != nil {
		return err
	}
	if w.took = len(form) == 2 && form[1:] == tookMark; !w.took && len(form) != 1 {
		return fmt.Errorf("a merged write has the unknown form %q", form)
	}
	if w.op = core.Op(form[0]); len(parts) == 3 {
		return json.Unmarshal(parts[2], &w.ref)
	}
	return nil
}

// results reads what the tasks did that a checkpoint tells itself. None where the checkpoint before it is gone: what
// hung from that went with it.
func (r *Reader) results(s *Stored) ([]core.Ended, error) {
	if len(s.merged) == 0 {
		return nil, nil
	}
	before, err := r.any(s.Checkpoint.Parent)
	if err != nil || before == nil {
		return nil, err
	}
	return r.resultsOf(before, s)
}

func (r *Reader) resultsOf(before, s *Stored) (out []core.Ended, err error) {
	if len(s.merged) == 0 {
		return nil, nil
	}
	due := r.due(before)
	out = make([]core.Ended, len(s.merged))
	for i, m := range s.merged {
		e := &out[i]
		e.Checkpoint, e.Seq = before.Checkpoint.N, s.Checkpoint.Seq-int64(len(s.merged)-i)
		if e.Result, err = r.result(before, s, due, m); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (r *Reader) result(before, s *Stored, due []core.Task, m mergedBody) (core.Result, error) {
	out := core.Result{Cached: m.cached}
	i := slices.IndexFunc(due, func(t core.Task) bool { return m.told || t.Node == m.node && t.Index == m.index })
	if i < 0 {
		return out, &DamagedError{Kind: Checkpoint, Where: s.Checkpoint.ID, Err: fmt.Errorf("it merged node %q, which was not due", m.node)}
	}
	if out.Task = due[i]; m.told {
		var err error
		out.Writes, err = r.difference(before, s)
		return out, err
	}
	for _, w := range m.writes {
		if w.op == 0 {
			w.ref = s.Refs[w.channel]
		}
		write, err := r.written(w)
		if err != nil {
			return out, err
		}
		out.Writes = append(out.Writes, write)
	}
	return out, nil
}

// difference is what the one task between two checkpoints wrote.
func (r *Reader) difference(before, s *Stored) ([]core.Write, error) {
	t, err := r.Topology(s.Checkpoint)
	if err != nil {
		return nil, err
	}
	var out []core.Write
	for c := range t.Channels {
		ch := &t.Channels[c]
		old, now, err := r.versions(ch, before, s)
		if err != nil {
			return nil, err
		}
		if now == nil {
			continue
		}
		w, told := ch.Difference(old, now)
		if !told {
			return nil, &DamagedError{Kind: Checkpoint, Where: s.Checkpoint.ID, Err: fmt.Errorf("what was written to channel %q is not told by what it holds", ch.Name)}
		}
		w.Value, out = nil, append(out, w)
	}
	return out, nil
}

// versions are a channel's in two checkpoints, the old one only where it matters; none if they are one version, or if the
// channel forgot. A version that got a number between them is in place in the first and a row in the second.
func (r *Reader) versions(ch *core.Channel, before, s *Stored) (old, now *core.Value, err error) {
	was, had := before.Refs[ch.Name]
	is, has := s.Refs[ch.Name]
	if !has || had && was.N == is.N && bytes.Equal(was.Data, is.Data) {
		return nil, nil, nil
	}
	if now, err = r.version(ch.Name, is); err != nil || !had || ch.Merge != core.MergeSum && (was.N == 0) == (is.N == 0) {
		return nil, now, err
	}
	if old, err = r.version(ch.Name, was); err != nil || old.Op == now.Op && bytes.Equal(old.Data, now.Data) {
		return nil, nil, err
	}
	return old, now, nil
}

// version reads a version without what it stands on.
func (r *Reader) version(channel string, ref Ref) (*core.Value, error) {
	if ref.Data != nil {
		return core.NewSet(ref.Data), nil
	}
	return r.own(channel, ref.N)
}

func (r *Reader) written(w mergedWrite) (core.Write, error) {
	out := core.Write{Channel: w.channel, Op: w.op, Took: w.took, Data: w.ref.Data}
	switch {
	case w.ref.N != 0:
		v, err := r.own(w.channel, w.ref.N)
		if err != nil {
			return out, err
		}
		out.Op, out.Data = v.Op, v.Data
	case w.op == 0:
		out.Op = core.OpSet
	}
	return out, nil
}

// own reads a version's own contribution, without what it stands on.
func (r *Reader) own(channel string, n int64) (*core.Value, error) {
	row, ok, err := r.Tx.Get(Value, Place(r.Info.N, n))
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, fmt.Errorf("thread %q, channel %q: version %d is referred to and missing", r.Info.ID, channel, n)
	}
	return r.values.one(r.Tx, channel, row, nil)
}

// any reads a checkpoint, of the thread or of a child of it; nil when there is none.
func (r *Reader) any(n int64) (*Stored, error) {
	s, err := r.Checkpoint(n)
	if err != nil || s != nil {
		return s, err
	}
	return r.Nested(n)
}
