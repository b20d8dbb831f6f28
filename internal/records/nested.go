package records

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/storage"
)

// Checkpoints of a child's run are numbered like the thread's own and kept apart from them, so that the thread's history
// is what it is without children. What hangs from them, tasks, steps and questions, is kept by number like the rest.

func nestedKinds(thread, cp, seq storage.Field, bySeq storage.Index) []storage.Kind {
	return []storage.Kind{
		{
			Name: Nested, Key: []storage.Field{{Name: "place", Type: storage.Int}},
			Fields: []storage.Field{
				{Name: "uuid", Type: storage.Bytes}, thread, seq, {Name: "step", Type: storage.Int}, {Name: "frame", Type: storage.Int},
			},
			Indexes: []storage.Index{{Name: "by_frame", Fields: []string{"frame", "place"}}, bySeq},
		},
		{
			Name: Frame, Key: []storage.Field{thread, cp, {Name: "address", Type: storage.Text}},
			Fields: []storage.Field{{Name: "n", Type: storage.Int}, {Name: "parent", Type: storage.Int}, {Name: "path", Type: storage.Text}},
			Indexes: []storage.Index{
				{Name: "by_number", Fields: []string{"thread", "n"}}, {Name: "by_path", Fields: []string{"thread", "path"}},
			},
		},
	}
}

// NestedRow writes a checkpoint of a child's run.
func (b Box) NestedRow(thread int64, cp *core.Checkpoint, t *core.Topology) (storage.Row, error) {
	row, err := b.checkpointRow(Nested, thread, cp, t)
	if err == nil {
		row.Fields = []any{row.Fields[0], thread, int64(0), row.Fields[2], Place(thread, cp.Frame.N)}
	}
	return row, err
}

// ReadNested reads a row back, with the number of its frame.
func (b Box) ReadNested(thread string, row storage.Row) (s *Stored, frame int64, err error) {
	plain := storage.Row{Key: row.Key, Fields: []any{row.Fields[0], row.Fields[2], row.Fields[3]}, Body: row.Body}
	s, err = b.readCheckpoint(Nested, thread, plain)
	return s, Local(row.Fields[4].(int64)), err
}

func (r *Reader) nested(row storage.Row) (*Stored, error) {
	s, frame, err := r.Box.ReadNested(r.Info.ID, row)
	if err != nil {
		return nil, err
	}
	if s.Checkpoint.Frame, err = r.Frame(frame); err != nil {
		return nil, err
	}
	t, err := r.Topology(s.Checkpoint)
	if err != nil {
		return nil, err
	}
	return s, s.Under(t)
}

// Nested reads one checkpoint of a child's run without its values; nil when there is none.
func (r *Reader) Nested(n int64) (*Stored, error) {
	row, ok, err := r.Tx.Get(Nested, Place(r.Info.N, n))
	if err != nil || !ok {
		return nil, err
	}
	return r.nested(row)
}

// NestedIn reads a page of the checkpoints of a child's run, the newest first: those numbered below before (0: from its
// head).
func (r *Reader) NestedIn(f *core.Frame, before int64, limit int) ([]*Stored, error) {
	keys := storage.Range{Prefix: []any{Place(r.Info.N, f.N)}}
	if before > 0 {
		keys.To = Place(r.Info.N, before)
	}
	rows, err := r.Tx.List(Nested, storage.Query{Index: "by_frame", Range: keys, Desc: true, Limit: limit})
	if err != nil {
		return nil, err
	}
	out := make([]*Stored, 0, len(rows))
	for _, row := range rows {
		s, err := r.nested(row)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

type frameBody struct {
	Node   string         `json:"n"`
	Key    string         `json:"k,omitempty"`
	Mode   core.ChildMode `json:"m"`
	Under  []core.Level   `json:"u"`
	In     string         `json:"in,omitempty"`
	Before int64          `json:"b,omitempty"`
	Input  []writeBody    `json:"input,omitempty"`
}

// FrameRow writes that a task began a run of a child: the pointer from the task to the child's checkpoints.
func (b Box) FrameRow(thread int64, f *core.Frame) (storage.Row, error) {
	packed, err := b.packJSON(Frame, frameBody{
		Node: f.Node, Key: f.Key, Mode: f.Mode, Under: f.Under, In: f.In, Before: f.Before, Input: packWrites(f.Input),
	})
	parent := int64(0)
	if f.Parent != nil {
		parent = f.Parent.N
	}
	return storage.Row{
		Key: []any{thread, f.Checkpoint, f.Address}, Fields: []any{f.N, parent, f.Path}, Body: packed,
	}, err
}

// Frame reads a run of a child by its number.
func (r *Reader) Frame(n int64) (*core.Frame, error) {
	if f := r.frames[n]; f != nil {
		return f, nil
	}
	rows, err := r.Tx.List(Frame, storage.Query{Index: "by_number", Range: storage.Range{Prefix: []any{r.Info.N, n}}, Limit: 1})
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 {
		return nil, &storage.MissingError{Kind: Frame, ID: n}
	}
	return r.frame(rows[0])
}

func (r *Reader) frame(row storage.Row) (*core.Frame, error) {
	n, parent := row.Fields[0].(int64), row.Fields[1].(int64)
	if f := r.frames[n]; f != nil {
		return f, nil
	}
	f, err := r.Box.ReadFrame(r.Info.ID, row)
	if err != nil {
		return nil, err
	}
	if parent > 0 {
		if f.Parent, err = r.Frame(parent); err != nil {
			return nil, err
		}
	}
	r.frames[n] = f
	return f, nil
}

// ReadFrame reads a row back, without the frame around it.
func (b Box) ReadFrame(thread string, row storage.Row) (*core.Frame, error) {
	n := row.Fields[0].(int64)
	where := fmt.Sprintf("%d of thread %q", n, thread)
	var body frameBody
	if err := b.unpackJSON(Frame, where, row.Body, &body); err != nil {
		return nil, err
	}
	if body.Node == "" || len(body.Under) == 0 {
		return nil, lacks(Frame, where, "node or levels")
	}
	input, err := unpackWrites(body.Input)
	if err != nil {
		return nil, &DamagedError{Kind: Frame, Where: where, Err: err}
	}
	if parent := row.Fields[1].(int64); parent >= n {
		return nil, &DamagedError{Kind: Frame, Where: where, Err: errors.New("it lies in one that is not older")}
	}
	return &core.Frame{
		N: n, Key: body.Key, Mode: body.Mode, Under: body.Under, Path: row.Fields[2].(string), In: body.In,
		Checkpoint: row.Key[1].(int64), Node: body.Node, Address: row.Key[2].(string),
		Before: body.Before, Input: input, Stored: true,
	}, nil
}

// FramesAt reads the runs of children with a path, the oldest first.
func (r *Reader) FramesAt(path string) ([]*core.Frame, error) {
	return r.listFrames(storage.Query{Index: "by_path", Range: storage.Range{Prefix: []any{r.Info.N, path}}})
}

// Frames reads the runs of children that the tasks of a checkpoint began, the oldest first.
func (r *Reader) Frames(cp int64) ([]*core.Frame, error) {
	return r.listFrames(storage.Query{Range: storage.Range{Prefix: []any{r.Info.N, cp}}})
}

func (r *Reader) listFrames(q storage.Query) ([]*core.Frame, error) {
	rows, err := r.Tx.List(Frame, q)
	if err != nil {
		return nil, err
	}
	out := make([]*core.Frame, 0, len(rows))
	for _, row := range rows {
		f, err := r.frame(row)
		if err != nil {
			return nil, err
		}
		out = append(out, f)
	}
	slices.SortFunc(out, func(a, b *core.Frame) int { return cmp.Compare(a.N, b.N) })
	return out, nil
}

// Children reads where the runs of children stand that hang from a checkpoint, by task.
func (r *Reader) Children(cp int64) (map[string][]*core.Position, error) {
	frames, err := r.Frames(cp)
	if err != nil || len(frames) == 0 {
		return nil, err
	}
	out := map[string][]*core.Position{}
	for _, f := range frames {
		heads, err := r.NestedIn(f, 0, 1)
		if err != nil {
			return nil, err
		}
		if len(heads) == 0 { // of a run that was kept at its end only, and went on since
			continue
		}
		p := &core.Position{Frame: f, Head: heads[0].Checkpoint}
		if err := r.nestedUnder(heads[0], p); err != nil {
			return nil, err
		}
		out[f.Task()] = append(out[f.Task()], p)
	}
	return out, nil
}

// nestedUnder reads what a child's checkpoint holds and what hangs from it, as the program's graph reads it where the
// reader has one.
func (r *Reader) nestedUnder(s *Stored, p *core.Position) error {
	if r.Program == nil {
		return r.Hanging(p.Head.N, p)
	}
	f := s.Checkpoint.Frame
	d, ok := core.Inside(r.Program, f.Under)
	if !ok {
		return fmt.Errorf("thread %q: %s is of child %q, which graph %q does not have; nothing was run", r.Info.ID, f.Path, f.Child(), r.Info.Graph)
	}
	if err := r.Fill(s, d.Topology(), d.Upgrade); err != nil {
		return fmt.Errorf("child %s: %w", f.Path, err)
	}
	return r.HangingUnder(s.Checkpoint, d.Topology(), d.Upgrade, p)
}
