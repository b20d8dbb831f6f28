package core

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// board is a topology with one channel of every merge rule.
func board() *Topology {
	t := &Topology{
		Graph: "board",
		Joins: []Join{{From: []string{"a", "b"}, To: "d"}},
		Channels: []Channel{
			{Name: "last", Merge: MergeLast, Type: "string"},
			{Name: "list", Merge: MergeAppend, Type: "list of string"},
			{Name: "int", Merge: MergeSum, Type: "int64", Number: Signed},
			{Name: "uint", Merge: MergeSum, Type: "uint64", Number: Unsigned},
			{Name: "float", Merge: MergeSum, Type: "float64", Number: Float},
			{Name: "map", Merge: MergeMap, Type: "map of int"},
			{Name: "fold", Merge: MergeFold, Type: "list of string"},
			{Name: "once", Merge: MergeOnce, Type: "string"},
			{Name: "flash", Merge: MergeEphemeral, Type: "string"},
		},
	}
	for _, name := range []string{Start, "a", "b", "c", "d", "w"} {
		t.Nodes = append(t.Nodes, Node{Name: name, Kind: KindNode, Version: 1})
	}
	return t
}

func (t *Topology) edge(from string, to ...string) *Topology {
	n, _ := t.Node(from)
	n.Edges = append(n.Edges, to...)
	slices.Sort(n.Edges)
	return t
}

// first is a checkpoint that holds the given channels in full.
func first(t *Topology, values map[string]string) *Checkpoint {
	cp := &Checkpoint{N: 1, ID: "cp-1", Values: make([]*Value, len(t.Channels))}
	for name, doc := range values {
		cp.Values[t.Channel(name)] = NewSet([]byte(doc))
	}
	return cp
}

// wrote is the result of a task of a node.
func wrote(node string, ws ...Write) Result {
	return Result{Task: Task{ID: "task-" + node, Node: node, Index: -1}, Writes: ws}
}

func (r Result) to(due ...Due) Result { r.Next = append(r.Next, due...); return r }

func sendTo(node, arg string) Due { return Due{Node: node, Send: true, Arg: []byte(arg)} }

func set(channel, doc string) Write  { return Write{Channel: channel, Op: OpSet, Data: []byte(doc)} }
func add(channel, doc string) Write  { return Write{Channel: channel, Op: OpAdd, Data: []byte(doc)} }
func merged(channel, p string) Write { return Write{Channel: channel, Op: OpMerge, Data: []byte(p)} }
func taken(channel string) Write     { return Write{Channel: channel, Op: OpClear, Took: true} }
func joined(_ string, old, items []byte) ([]byte, error) {
	var have string
	var in []string
	if old != nil {
		if err := json.Unmarshal(old, &have); err != nil {
			return nil, err
		}
	}
	if err := json.Unmarshal(items, &in); err != nil {
		return nil, err
	}
	return json.Marshal(have + strings.Join(in, ""))
}

// texts shows a checkpoint's channels, those that hold nothing left out.
func texts(t testing.TB, top *Topology, cp *Checkpoint) map[string]string {
	t.Helper()
	out := map[string]string{}
	for c, v := range cp.Values {
		doc, err := v.Bytes()
		if err != nil {
			t.Fatalf("channel %q: %v", top.Channels[c].Name, err)
		}
		if v.Has() {
			out[top.Channels[c].Name] = string(doc)
		}
	}
	return out
}

func mustApply(t testing.TB, cp *Checkpoint, top *Topology, results ...Result) *Checkpoint {
	t.Helper()
	next, err := Apply(cp, top, joined, results)
	if err != nil {
		t.Fatal(err)
	}
	next.N, next.ID = cp.N+1, fmt.Sprintf("cp-%d", cp.N+1)
	return next
}

// cold is a value as another process loads it: nothing decoded, nothing measured.
func cold(v *Value) *Value {
	if v == nil {
		return nil
	}
	out := &Value{ID: v.ID, Base: cold(v.Base), Op: v.Op, Data: slices.Clone(v.Data), Size: v.Size, Cost: v.Cost}
	for _, p := range v.Parts {
		out.Parts = append(out.Parts, &Value{Base: out.Base, Op: p.Op, Data: slices.Clone(p.Data)})
	}
	return out
}
