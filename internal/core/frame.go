package core

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ChildMode says what of a child's runs is kept.
type ChildMode string

// The modes of a child. Inherit: each run starts empty and its checkpoints hang from the parent's task. Thread: each run
// of the child starts from the state that the one before left. Stateless: no checkpoint is kept, only the journal.
const (
	Inherit   ChildMode = "inherit"
	PerThread ChildMode = "thread"
	Stateless ChildMode = "stateless"
)

// Child is a graph inside another, without its code.
type Child struct {
	Name  string    `json:"name"`
	Mode  ChildMode `json:"mode"`
	Graph *Topology `json:"graph"`
}

// Memory is the hidden channel of a parent in which a child that remembers has its head.
func (c *Child) Memory() string { return "child:" + c.Name }

// Child finds a child by name.
func (t *Topology) Child(name string) (*Child, bool) {
	for i := range t.Children {
		if t.Children[i].Name == name {
			return &t.Children[i], true
		}
	}
	return nil, false
}

// Within finds the topology of a child's child, by the levels from here on down.
func (t *Topology) Within(under []Level) (*Topology, bool) {
	for _, level := range under {
		c, ok := t.Child(level.Child)
		if !ok {
			return nil, false
		}
		t = c.Graph
	}
	return t, true
}

// Inside finds the graph of a child's child, by the levels from d on down.
func Inside(d Def, under []Level) (Def, bool) {
	for _, level := range under {
		var ok bool
		if d, ok = d.Child(level.Child); !ok {
			return nil, false
		}
	}
	return d, true
}

// Paths are the names of all nodes: the graph's own, sorted, and behind them those of its children, "child|node".
func (t *Topology) Paths() []string {
	out := make([]string, 0, len(t.Nodes))
	for i := range t.Nodes {
		out = append(out, t.Nodes[i].Name)
	}
	for i := range t.Children {
		for _, path := range t.Children[i].Graph.Paths() {
			out = append(out, t.Children[i].Name+"|"+path)
		}
	}
	return out
}

// Frame is one run of a child whose checkpoints are kept: what these have in common. It is immutable, but for Stored.
type Frame struct {
	N      int64   // number of its first checkpoint
	Parent *Frame  // the run of a child that the parent's task belongs to; nil: the thread's own run
	Under  []Level // from the thread's graph on down; the last is the child itself, under the parent's task
	Key    string
	Mode   ChildMode
	Path   string // for people: of the parent's task, or of what remembers

	Checkpoint int64  // what the parent's task hangs from
	Node       string // of the parent's task
	Address    string // of the call, in the task
	In         string // addresses of the steps around the call

	Before int64   // the checkpoint whose state it started on; 0: it started empty
	Input  []Write // what it was given

	Stored bool `json:"-"` // the home has it; the home's own note
}

// Child is the name of the child.
func (f *Frame) Child() string { return f.Under[len(f.Under)-1].Child }

// Task is the parent's task.
func (f *Frame) Task() string { return f.Under[len(f.Under)-1].Task }

// Inside says whether f is the frame other, or lies in it. Everything lies in nil, the thread's own run.
func (f *Frame) Inside(other *Frame) bool {
	if other == nil {
		return true
	}
	for ; f != nil; f = f.Parent {
		if f.N == other.N {
			return true
		}
	}
	return false
}

// Remembers says whether the thread's state leads to the frame's checkpoints when its run is over.
func (f *Frame) Remembers() bool { return f != nil && f.Mode == PerThread }

// Level is one step from a thread's graph down to a question: a child, and the task that it runs under.
type Level struct{ Child, Task string }

// Open says whether a question has neither an answer nor come to its due time.
func (q *Question) Open(now time.Time) bool {
	return q.State == QuestionOpen && (q.Due.IsZero() || now.Before(q.Due))
}

// Asker is the path of the node that asked: "child|node" in children.
func (q *Question) Asker() string {
	path := ""
	for _, l := range q.Under {
		path += l.Child + "|"
	}
	return path + q.Node
}

// Blocked finds the due tasks that cannot be entered: something is open in them, and no task of a child of theirs can go
// on either. depth is how many children lie around the position.
func (p *Position) Blocked(thread string, depth int, now time.Time) map[string]bool {
	if len(p.Questions) == 0 && len(p.Children) == 0 {
		return nil
	}
	blocked := map[string]bool{}
	for task, asked := range p.Questions {
		for i := range asked {
			if q := &asked[i]; q.Open(now) {
				if len(q.Under) > depth { // of a child that keeps nothing of its own
					task = q.Under[depth].Task
				}
				blocked[task] = true
			}
		}
	}
	waits, goes := map[string]bool{}, map[string]bool{}
	for _, children := range p.Children {
		for _, c := range children {
			task := c.Frame.Under[depth].Task
			can, cannot := c.Enterable(thread, depth+1, now)
			goes[task], waits[task] = goes[task] || can, waits[task] || cannot
		}
	}
	for task := range waits {
		blocked[task] = blocked[task] || waits[task] && !goes[task]
	}
	return blocked
}

// Enterable says whether some due task can be entered, and whether some cannot.
func (p *Position) Enterable(thread string, depth int, now time.Time) (can, cannot bool) {
	blocked := p.Blocked(thread, depth, now)
	for _, task := range Plan(p.Head, thread, p.path()) {
		switch {
		case slices.ContainsFunc(p.Ended, func(e Ended) bool { return !e.Failed && e.Result.Task.ID == task.ID }):
		case blocked[task.ID]:
			cannot = true
		default:
			can = true
		}
	}
	return can, cannot
}

// Decided says whether some due task can be entered that asked, because nothing of it is open any more.
func (p *Position) Decided(thread string, depth int, now time.Time) bool {
	blocked, asked := p.Blocked(thread, depth, now), map[string]bool{}
	for task, list := range p.Questions {
		for i := range list {
			if len(list[i].Under) > depth { // of a child that keeps nothing of its own
				task = list[i].Under[depth].Task
			}
			asked[task] = true
		}
	}
	for _, children := range p.Children {
		for _, c := range children {
			task := c.Frame.Under[depth].Task
			asked[task] = asked[task] || c.Decided(thread, depth+1, now)
		}
	}
	for _, task := range Plan(p.Head, thread, p.path()) {
		over := slices.ContainsFunc(p.Ended, func(e Ended) bool { return !e.Failed && e.Result.Task.ID == task.ID })
		if asked[task.ID] && !blocked[task.ID] && !over {
			return true
		}
	}
	return false
}

// Under notes under which of its run's graphs the position goes on, in the children that are not done, too.
func (p *Position) Under(graph int) {
	p.Head.Graph = graph
	for _, children := range p.Children {
		for _, c := range children {
			if c.Head.Run == p.Head.Run {
				c.Under(graph)
			}
		}
	}
}

// Past are the paths of the nodes that ran, or are due, in children that are not done.
func (p *Position) Past() []string {
	var out []string
	for _, children := range p.Children {
		for _, c := range children {
			inside := slices.Concat(c.Head.Visited, c.Head.Later, c.Past())
			for _, d := range c.Head.Due {
				inside = append(inside, d.Node)
			}
			for _, path := range inside {
				out = append(out, p.down(c)+path)
			}
		}
	}
	return out
}

// Tasks are the ids of the tasks that are due in p and in its children that are not done, and of those that asked in children
// that keep nothing.
func (p *Position) Tasks(thread string) []string {
	out := slices.Collect(maps.Keys(p.Questions))
	for _, task := range Plan(p.Head, thread, p.path()) {
		out = append(out, task.ID)
	}
	for _, children := range p.Children {
		for _, c := range children {
			out = append(out, c.Tasks(thread)...)
		}
	}
	return out
}

// Finished are the nodes of p's own whose work is not merged: those of due tasks that ended, in the order of their ends.
func (p *Position) Finished() (out []string) {
	for i := range p.Ended {
		if e := &p.Ended[i]; !e.Failed {
			out = append(out, e.Result.Task.Node)
		}
	}
	return out
}

// FinishedInside are the paths of the nodes that ran to their end in children that are not done, sorted.
func (p *Position) FinishedInside() (out []string) {
	for _, children := range p.Children {
		for _, c := range children {
			for _, path := range slices.Concat(c.Head.Visited, c.Finished(), c.FinishedInside()) {
				out = append(out, p.down(c)+path)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// EndedIn finds what ended and counts so far, by the path of the node: "child|node" in children.
func (p *Position) EndedIn(path string) []*Ended {
	var out []*Ended
	for i := range p.Ended {
		if p.Ended[i].Result.Task.Node == path {
			out = append(out, &p.Ended[i])
		}
	}
	for _, children := range p.Children {
		for _, c := range children {
			if rest, inside := strings.CutPrefix(path, p.down(c)); inside {
				out = append(out, c.EndedIn(rest)...)
			}
		}
	}
	return out
}

// down are the names that lead from a position to one in it, each with its separator.
func (p *Position) down(c *Position) string {
	depth, out := 0, ""
	if p.Frame != nil {
		depth = len(p.Frame.Under)
	}
	for _, level := range c.Frame.Under[depth:] {
		out += level.Child + "|"
	}
	return out
}

func (p *Position) path() string {
	if p.Frame == nil {
		return ""
	}
	return p.Frame.Path
}

// MergedID is the id of the checkpoint that follows another where none is kept: equal for equal results.
func MergedID(before string, results []Result) string {
	parts := []string{"merged", before}
	for _, r := range results {
		parts = append(parts, r.Task.ID, HashWrites(r.Writes))
		for _, d := range r.Next {
			parts = append(parts, d.Node, strconv.FormatBool(d.Send), string(d.Arg))
		}
	}
	return ID(parts...)
}

// PointTo is the write that leads from a hidden channel to a checkpoint.
func PointTo(channel string, n int64) Write {
	return Write{Channel: channel, Op: OpSet, Data: strconv.AppendInt(nil, n, 10)}
}

// PointedAt is the checkpoint that a hidden channel leads to; 0: none.
func PointedAt(v *Value) int64 {
	if !v.Has() {
		return 0
	}
	n, _ := strconv.ParseInt(string(v.Data), 10, 64)
	return n
}

// Copy is the checkpoint with values of its own, on which another run may go on; nil of nil.
func (cp *Checkpoint) Copy() *Checkpoint {
	if cp == nil {
		return nil
	}
	out := *cp
	out.Values = make([]*Value, len(cp.Values))
	for i, v := range cp.Values {
		if v != nil {
			out.Values[i] = &Value{ID: v.ID, Base: v.Base, Op: v.Op, Data: v.Data, Parts: v.Parts, Size: v.Size, Cost: v.Cost}
		}
	}
	return &out
}
