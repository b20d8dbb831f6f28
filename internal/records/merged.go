package records

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/pawl-dev/pawl/internal/core"
)

// mergedBody is what one task did, in the checkpoint that merged it: the node, the place among the sends if it is one,
// true if the result is of an earlier task, then the writes. A write that is the checkpoint's version of its channel is the channel's name alone; any other is the
// name, the form, and the version or data.
type mergedBody struct {
	node   string
	index  int
	cached bool
	writes []mergedWrite
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
	ids := map[string]core.Task{}
	path := ""
	if f := before.Checkpoint.Frame; f != nil {
		path = f.Path
	}
	for _, task := range core.Plan(before.Checkpoint, core.ID("thread", r.Info.Tenant, r.Info.ID), path) {
		ids[task.Node+"/"+strconv.Itoa(task.Index)] = task
	}
	out := make([]core.Ended, len(s.merged))
	for i, m := range s.merged {
		e := &out[i]
		e.Checkpoint, e.Result.Task = before.Checkpoint.N, ids[m.node+"/"+strconv.Itoa(m.index)]
		e.Result.Cached = m.cached
		e.Seq = s.Checkpoint.Seq - int64(len(s.merged)-i)
		if e.Result.Task.ID == "" {
			return nil, &DamagedError{Kind: Checkpoint, Where: s.Checkpoint.ID, Err: fmt.Errorf("it merged node %q, which was not due", m.node)}
		}
		for _, w := range m.writes {
			if w.op == 0 {
				w.ref = s.Refs[w.channel]
			}
			write, err := r.written(w)
			if err != nil {
				return nil, err
			}
			e.Result.Writes = append(e.Result.Writes, write)
		}
	}
	return out, nil
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
