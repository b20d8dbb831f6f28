package core

import (
	"bytes"
	"fmt"
	"slices"
	"sort"
	"strings"
)

// Write is what one task did to one channel.
type Write struct {
	Channel string
	Op      Op
	Data    []byte
	Took    bool   // the task took a Once value, whatever it wrote afterwards
	Value   *Value // the version that the write is, once adopted; nil for sums, folds and takes
}

// HashWrites tells inputs apart.
func HashWrites(ws []Write) string {
	parts := []string{"input"}
	for _, w := range ws {
		parts = append(parts, w.Channel, string(w.Op), string(w.Data))
	}
	return ID(parts...)
}

// Result is a finished task: what it wrote and where it leads.
type Result struct {
	Task   Task
	Writes []Write
	Next   []Due    // what its routes and gotos chose, beside its plain edges
	Inside []string // paths of the nodes that ran in its children
	Cached bool     // it is of an earlier task with the same key: the node was not entered
}

// Folder runs a fold channel's own rule: old is nil when nothing was written yet. Pure.
type Folder func(channel string, old []byte, items []byte) ([]byte, error)

// ConflictError: two tasks of one super-step wrote a channel that takes one writer. Nothing was merged.
type ConflictError struct {
	Channel string
	Key     string // for maps
	Nodes   []string
	Tasks   []string
}

func (e *ConflictError) Error() string {
	at := fmt.Sprintf("channel %q", e.Channel)
	if e.Key != "" {
		at += fmt.Sprintf(", key %q", e.Key)
	}
	return fmt.Sprintf("%s was written by %s in one super-step and takes one writer; nothing was merged",
		at, strings.Join(e.Nodes, " and "))
}

// Adopt turns writes that can stand as versions of their own into values on cp, so that a host can store each once.
func Adopt(cp *Checkpoint, t *Topology, r *Result) error {
	for i := range r.Writes {
		w := &r.Writes[i]
		c := t.Channel(w.Channel)
		if c < 0 {
			return fmt.Errorf("node %q wrote the unknown channel %q; nothing was merged", r.Task.Node, w.Channel)
		}
		if w.Value != nil {
			continue
		}
		if len(w.Data) > MaxValue {
			return &SizeError{What: fmt.Sprintf("what node %q wrote to channel %q", r.Task.Node, w.Channel), Size: len(w.Data)}
		}
		switch merge := t.Channels[c].Merge; {
		case merge == MergeSum, merge == MergeFold && w.Op != OpSet, w.Op == OpClear:
		case w.Op == OpSet:
			w.Value = NewSet(w.Data)
		default:
			v := &Value{Base: base(cp.Values[c]), Op: w.Op, Data: w.Data}
			if err := v.measure(); err != nil {
				return fmt.Errorf("what node %q wrote to channel %q: %w; nothing was merged", r.Task.Node, w.Channel, err)
			}
			w.Value = v
		}
	}
	return nil
}

func base(v *Value) *Value {
	if v.Has() {
		return v
	}
	return nil
}

// Apply merges the results of cp's tasks, which must be in Plan's order, into the checkpoint that follows. The host
// gives it N and ID. Timing plays no part.
func Apply(cp *Checkpoint, t *Topology, fold Folder, results []Result) (*Checkpoint, error) {
	made := &struct { // one allocation for what most super-steps need
		next   Checkpoint
		values [4]*Value
		due    [1]Due
	}{}
	next := &made.next
	next.Parent, next.Step, next.Source = cp.N, cp.Step+1, SourceLoop
	next.Run, next.Graph, next.Frame = cp.Run, cp.Graph, cp.Frame
	values, err := mergeAll(made.values[:0], cp, t, fold, results)
	if err != nil {
		return nil, err
	}
	next.Values, next.Due = values, made.due[:0]
	next.Visited = visited(cp.Visited, results)
	if err := route(cp, t, next, results); err != nil {
		return nil, err
	}
	if len(next.Due) == 0 {
		next.Due = nil
	}
	return next, nil
}

// Soon is what the values would be if only these results were merged: the state as far as it is known while other tasks
// of the super-step are not over.
func Soon(cp *Checkpoint, t *Topology, fold Folder, results []Result) ([]*Value, error) {
	return mergeAll(nil, cp, t, fold, results)
}

func visited(before []string, results []Result) []string {
	out := before
	add := func(path string) {
		if i, found := slices.BinarySearch(out, path); !found {
			out = slices.Insert(slices.Clone(out), i, path)
		}
	}
	for _, r := range results {
		if r.Task.Node != Start {
			add(r.Task.Node)
		}
		for _, path := range r.Inside {
			add(path)
		}
	}
	return out
}

// route works out what is due next: edges, joins and routes of all finished tasks.
func route(cp *Checkpoint, t *Topology, next *Checkpoint, results []Result) error {
	var room [8]string
	nodes := room[:0]
	var sends []Due
	joins := copyJoins(cp.Joins)
	for _, r := range results {
		n, ok := t.Node(r.Task.Node)
		if !ok {
			return fmt.Errorf("node %q is not in graph %q; nothing was merged", r.Task.Node, t.Graph)
		}
		nodes = append(nodes, n.Edges...)
		for _, d := range r.Next {
			if d.Node == End {
				continue
			}
			if _, ok := t.Node(d.Node); !ok {
				return fmt.Errorf("node %q leads to %q, which is not in graph %q; nothing was merged", n.Name, d.Node, t.Graph)
			}
			if d.Send {
				if sends == nil {
					sends = make([]Due, 0, len(r.Next))
				}
				sends = append(sends, d)
			} else {
				nodes = append(nodes, d.Node)
			}
		}
		for _, j := range t.Joins {
			if slices.Contains(j.From, n.Name) && !slices.Contains(joins[j.Name()], n.Name) {
				if joins == nil {
					joins = map[string][]string{}
				}
				joins[j.Name()] = append(joins[j.Name()], n.Name)
			}
		}
	}
	for _, j := range t.Joins {
		if arrived := joins[j.Name()]; len(arrived) == len(j.From) {
			delete(joins, j.Name())
			nodes = append(nodes, j.To)
		} else if arrived != nil {
			sort.Strings(arrived)
		}
	}
	if len(joins) > 0 {
		next.Joins = joins
	}
	next.due(cp, t, nodes, sends)
	return nil
}

// due makes the nodes that were chosen due, in order and each once, and then the sends. What is deferred is kept for
// when nothing else is.
func (next *Checkpoint) due(cp *Checkpoint, t *Topology, nodes []string, sends []Due) {
	slices.Sort(nodes)
	next.Later = cp.Later
	for i, n := range nodes {
		switch {
		case n == End || i > 0 && nodes[i-1] == n:
		case t.defers(n):
			next.Later = later(next.Later, n)
		default:
			next.Due = append(next.Due, Due{Node: n})
		}
	}
	if next.Due = append(next.Due, sends...); len(next.Due) == 0 {
		for _, n := range next.Later {
			next.Due = append(next.Due, Due{Node: n})
		}
		next.Later = nil
	}
}

func (t *Topology) defers(node string) bool {
	n, ok := t.Node(node)
	return ok && n.Defer
}

// later adds a node to a sorted list that earlier checkpoints share.
func later(list []string, node string) []string {
	if i, found := slices.BinarySearch(list, node); !found {
		return slices.Insert(slices.Clone(list), i, node)
	}
	return list
}

func copyJoins(in map[string][]string) map[string][]string {
	if len(in) == 0 {
		return nil
	}
	out := make(map[string][]string, len(in))
	for k, v := range in {
		out[k] = slices.Clone(v)
	}
	return out
}

type write struct {
	task *Task
	w    *Write
}

// mergeAll merges channel by channel, in the topology's order, and appends the versions to values.
func mergeAll(values []*Value, cp *Checkpoint, t *Topology, fold Folder, results []Result) ([]*Value, error) {
	for i := range results {
		if err := Adopt(cp, t, &results[i]); err != nil {
			return nil, err
		}
	}
	var room [8]write
	all := room[:0] // grouped by channel below
	count := make([]int, 0, 16)
	count = append(count, make([]int, len(t.Channels)+1)...)
	last, ordered := 0, true
	for i := range results {
		for j := range results[i].Writes {
			c := t.Channel(results[i].Writes[j].Channel)
			all = append(all, write{&results[i].Task, &results[i].Writes[j]})
			count[c+1]++
			last, ordered = c, ordered && c >= last
		}
	}
	if !ordered {
		all = grouped(all, count, t)
	}
	at := 0
	for c := range t.Channels {
		old := cp.Values[c]
		v, err := merge(&t.Channels[c], old, all[at:at+count[c+1]], fold)
		if err != nil {
			return nil, err
		}
		if v != nil && v.Op == OpSet && old != nil && old.Op == OpSet && bytes.Equal(v.Data, old.Data) {
			v = old
		}
		at += count[c+1]
		values = append(values, v)
	}
	return values, nil
}

// grouped sorts writes by channel and keeps their order within one: tasks in plan order.
func grouped(all []write, count []int, t *Topology) []write {
	next := make([]int, len(count))
	for c := 1; c < len(count); c++ {
		next[c] = next[c-1] + count[c-1]
	}
	out := make([]write, len(all))
	for _, w := range all {
		c := t.Channel(w.w.Channel) + 1
		out[next[c]] = w
		next[c]++
	}
	return out
}

func merge(ch *Channel, old *Value, ws []write, fold Folder) (*Value, error) {
	if len(ws) == 0 {
		if ch.Merge == MergeEphemeral {
			return nil, nil
		}
		return old, nil
	}
	whole := slices.ContainsFunc(ws, func(w write) bool { return w.w.Op == OpSet })
	single := ch.Merge == MergeLast || ch.Merge == MergeEphemeral || ch.Merge == MergeOnce
	if len(ws) > 1 && (single || whole) {
		return nil, conflict(ch.Name, "", ws)
	}
	switch {
	case ws[0].w.Op == OpClear:
		return nil, nil
	case whole:
		return ws[0].w.Value, nil
	case ch.Merge == MergeSum:
		return mergeSum(ch, old, ws)
	case ch.Merge == MergeFold:
		return mergeFold(ch, old, ws, fold)
	case ch.Merge == MergeMap:
		return mergeMap(ch, old, ws)
	}
	return mergeAppend(old, ws)
}

func conflict(channel, key string, ws []write) error {
	e := &ConflictError{Channel: channel, Key: key}
	for _, w := range ws {
		e.Nodes = append(e.Nodes, w.task.Node)
		e.Tasks = append(e.Tasks, w.task.ID)
	}
	return e
}
