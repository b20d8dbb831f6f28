package pawl

import (
	"context"
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/local"
	"github.com/pawl-dev/pawl/internal/records"
	"github.com/pawl-dev/pawl/storage"
)

// within is a checkpoint of a child on the way from a thread's own to the one that a fork starts from.
type within struct {
	def core.Def
	cp  *core.Checkpoint // filled as def reads it
	was *core.Topology   // that the checkpoint was made under
}

// In makes Edit change the state of a child that is not done, by its path: at the child's head, where the child then
// goes on. Questions that are open in the child are withdrawn, and those of others stay.
func In(path Path) RunOption { return func(c *runConfig) { c.in = path } }

// climb finds the thread's own checkpoint around a child's, and the checkpoints from there on down, the outermost first.
func (t *Thread) climb(r *records.Reader, d core.Def, s *records.Stored) (*records.Stored, []within, error) {
	var way []within
	for s.Checkpoint.Frame != nil {
		f := s.Checkpoint.Frame
		child, ok := core.Inside(d, f.Under)
		if !ok {
			return nil, nil, &NotFoundError{What: "child", ID: f.Child(), Thread: t.id, Hint: "this program's graph has none of that name"}
		}
		if f.In != "" || len(f.Under) != depthOf(f.Parent)+1 {
			return nil, nil, &PointError{Thread: t.id, Wanted: "checkpoint " + s.Checkpoint.ID +
				" to go on from: the child runs inside a step or in a child that keeps no checkpoints; fork from the checkpoint around it"}
		}
		if err := r.Fill(s, child.Topology(), child.Upgrade); err != nil {
			return nil, nil, err
		}
		was, err := r.Topology(s.Checkpoint)
		if err != nil {
			return nil, nil, err
		}
		way = append([]within{{child, s.Checkpoint, was}}, way...)
		read := r.Checkpoint
		if f.Parent != nil {
			read = r.Nested
		}
		outer, err := read(f.Checkpoint)
		if err != nil {
			return nil, nil, err
		}
		if outer == nil {
			return nil, nil, &PointError{Thread: t.id, Wanted: "checkpoint around " + f.Path, Durability: Exit}
		}
		s = outer
	}
	return s, way, nil
}

// past are the paths of the nodes that ran or are due inside, on the way to a child's checkpoint.
func past(way []within) (out []string) {
	name := ""
	for _, w := range way {
		name += w.cp.Frame.Child() + "|"
		for _, node := range slices.Concat(w.cp.Visited, w.cp.Later, dueNames(w.cp.Due)) {
			out = append(out, name+node)
		}
	}
	return out
}

// metOn is a graph with the children on the way as the run knew them there: under graphs of their own checkpoints, which
// can be newer than their parent's.
func metOn(old *core.Topology, way []within) *core.Topology {
	if len(way) == 0 {
		return old
	}
	met := *old
	met.Children = slices.Clone(old.Children)
	for i := range met.Children {
		if met.Children[i].Name == way[0].cp.Frame.Child() {
			met.Children[i].Graph = metOn(way[0].was, way[1:])
		}
	}
	return &met
}

// target is the graph and the values that a fork's edits are for.
func (v *view) target(d core.Def) (core.Def, []*core.Value) {
	if n := len(v.way); n > 0 {
		return v.way[n-1].def, v.way[n-1].cp.Values
	}
	return d, v.from.Values
}

// branches makes the first checkpoints of a fork, and the position that they are: one, or with a way inside one more for
// each level, in frames of their own under the tasks that are due now.
func (t *Thread) branches(d core.Def, home *local.Home, run *core.Run, v *view) (*core.Position, []*core.Checkpoint, error) {
	edits := run.Edits
	if len(v.way) > 0 {
		edits = nil
	}
	cp, err := t.branch(d, home, run, v.from, v.beside, edits)
	if err != nil {
		return nil, nil, err
	}
	root := &core.Position{Run: run, Head: cp}
	cps, outer, at := []*core.Checkpoint{cp}, v.from, root
	for i, w := range v.way {
		if edits = nil; i == len(v.way)-1 {
			edits = run.Edits
		}
		inner, err := t.branch(w.def, home, run, w.cp, v.beside, edits)
		if err != nil {
			return nil, nil, err
		}
		f, err := t.frameAgain(outer, at, w.cp.Frame)
		if err != nil {
			return nil, nil, err
		}
		f.N, inner.Frame = inner.N, f
		next := &core.Position{Run: run, Frame: f, Head: inner}
		at.Children = map[string][]*core.Position{f.Task(): {next}}
		cps, outer, at = append(cps, inner), w.cp, next
	}
	return root, cps, nil
}

// frameAgain is the frame of a child under the task of a new checkpoint that stands where the task of the old one stood.
func (t *Thread) frameAgain(old *core.Checkpoint, at *core.Position, was *core.Frame) (*core.Frame, error) {
	oldPath, path, levels := "", "", []core.Level(nil)
	if old.Frame != nil {
		oldPath, path, levels = old.Frame.Path, at.Frame.Path, at.Frame.Under
	}
	before, now := core.Plan(old, t.identity(), oldPath), core.Plan(at.Head, t.identity(), path)
	i := slices.IndexFunc(before, func(task core.Task) bool { return task.ID == was.Task() })
	if i < 0 || i >= len(now) {
		return nil, &PointError{Thread: t.id, Wanted: "task that " + was.Path + " ran under"}
	}
	task := &now[i]
	f := &core.Frame{
		Parent: at.Frame, Under: append(slices.Clone(levels), core.Level{Child: was.Child(), Task: task.ID}), Key: was.Key, Mode: was.Mode,
		Path: task.Path(), Checkpoint: at.Head.N, Node: was.Node, Before: was.Before, Input: was.Input,
		Address: core.Address{Task: task.ID, Kind: "child", Name: was.Child(), Key: was.Key}.ID(),
	}
	if f.Mode == PerThread {
		f.Path = was.Path
	}
	return f, nil
}

// editIn is edit for a child.
func (t *Thread) editIn(ctx context.Context, d core.Def, v *view, edit change, cfg *runConfig) (*Outcome, error) {
	found := find(&v.pos, cfg.in, nil)
	if len(found) != 1 {
		return nil, &NotFoundError{What: "child", ID: string(cfg.in), Thread: t.id,
			Hint: fmt.Sprintf("%d children of that path are not done at the head; an edit needs one", len(found))}
	}
	pos := found[0]
	child, ok := core.Inside(d, pos.Frame.Under)
	if !ok {
		return nil, &NotFoundError{What: "child", ID: pos.Frame.Child(), Thread: t.id}
	}
	run := *v.Run
	if err := t.ontoGraph(v, &run, d); err != nil {
		return nil, err
	}
	head, err := t.headOf(ctx, v, pos, child)
	if err != nil {
		return nil, err
	}
	writes, err := edit(child, head.Values)
	if err != nil {
		return nil, fmt.Errorf("pawl: thread %q: edit of %s: %w; nothing was changed", t.id, cfg.in, err)
	}
	home := t.home(v, d)
	values, err := t.withEdits(child, head, writes)
	if err != nil {
		return nil, err
	}
	cp := &core.Checkpoint{
		Parent: head.N, Step: head.Step + 1, Source: core.SourceEdit, Run: run.N, Graph: len(run.Graphs) - 1, Values: values,
		Due: head.Due, Later: head.Later, Joins: head.Joins, Visited: head.Visited, Frame: pos.Frame,
	}
	cp.N, cp.ID = home.Fresh()
	info := t.of(ctx, VerbEdit, &run, cfg.reason)
	info.Tasks = pos.Tasks(t.identity())
	b := local.Batch{
		Graph: d.Topology(), Runs: []*core.Run{&run}, Checkpoints: []*core.Checkpoint{cp}, Stop: afterEdit(v, len(v.from.Due)),
		Do: t.eng.consenting(info),
	}
	for _, q := range stillAsked([]*core.Position{pos}, nil) {
		b.Stop.Withdraw = append(b.Stop.Withdraw, *q)
	}
	if b.Ended, err = t.carried(child, head, pos.Ended, cp); err != nil {
		return nil, err
	}
	if err := home.Claim(ctx, v.Seen, &run, b); err != nil {
		return nil, err
	}
	return t.edited(ctx, t.newLoop(d, &core.Position{Run: &run, Head: v.from}, home, cfg), &run, b.Stop)
}

// headOf reads the head of a child's run with its values.
func (t *Thread) headOf(ctx context.Context, v *view, pos *core.Position, child core.Def) (cp *core.Checkpoint, err error) {
	err = t.eng.store.View(ctx, func(tx storage.Tx) error {
		r := records.NewReader(t.eng.store.Box, tx, v.Info)
		stored, err := r.Nested(pos.Head.N)
		if err != nil || stored == nil {
			return fmt.Errorf("thread %q: %s cannot be read: %w", t.id, pos.Frame.Path, err)
		}
		cp = stored.Checkpoint
		cp.Frame = pos.Frame
		return r.Fill(stored, child.Topology(), child.Upgrade)
	})
	return cp, err
}

// find are the runs of children with a path that are not done.
func find(p *core.Position, path Path, out []*core.Position) []*core.Position {
	for _, children := range p.Children {
		for _, c := range children {
			if Path(c.Frame.Path) == path && len(c.Head.Due) > 0 {
				out = append(out, c)
			}
			out = find(c, path, out)
		}
	}
	return out
}

// lookAt is look for a fork or replay from a point, also one of a child.
func (t *Thread) lookAt(ctx context.Context, d core.Def, pick func(*records.Reader, *local.Seen) (*records.Stored, error)) (*view, error) {
	var way []within
	v, err := t.look(ctx, d, func(r *records.Reader, seen *local.Seen) (*records.Stored, error) {
		s, err := pick(r, seen)
		if err == nil && s != nil {
			s, way, err = t.climb(r, d, s)
		}
		return s, err
	})
	if err == nil {
		v.way = way
	}
	return v, err
}
