package core

import (
	"testing"
)

// The difference of two checkpoints tells what one task did only where it tells all of it.
func TestTells(t *testing.T) {
	t.Parallel()
	channels := []Channel{
		{Name: "last", Merge: MergeLast}, {Name: "whole", Merge: MergeSum, Number: Signed}, {Name: "count", Merge: MergeSum, Number: Unsigned},
		{Name: "part", Merge: MergeSum, Number: Float}, {Name: "flash", Merge: MergeEphemeral}, {Name: "pass", Merge: MergeOnce}, {Name: "list", Merge: MergeAppend},
	}
	top := &Topology{Graph: "g", Nodes: []Node{{Name: "a"}, {Name: "b"}}, Channels: channels}
	set := func(channel, doc string) Write { return Write{Channel: channel, Op: OpSet, Data: []byte(doc)} }
	add := func(channel, doc string) Write { return Write{Channel: channel, Op: OpAdd, Data: []byte(doc)} }
	for _, c := range []struct {
		name   string
		writes []Write
		change func(before, next *Checkpoint, r *Result)
		want   bool
	}{
		{name: "nothing", want: true},
		{name: "a new version", writes: []Write{set("last", `"new"`)}, want: true},
		{name: "the version that is there", writes: []Write{set("last", `"old"`)}},
		{name: "more of a list", writes: []Write{add("list", `["b"]`)}, want: true},
		{name: "another list", writes: []Write{set("list", `["b"]`)}, want: true},
		{name: "a sum grows", writes: []Write{add("whole", "5"), add("count", "7")}, want: true},
		{name: "a sum shrinks", writes: []Write{add("whole", "-9223372036854775808")}, want: true},
		{name: "a sum as far as it goes", writes: []Write{add("count", "18446744073709551611")}, want: true},
		{name: "nothing is added", writes: []Write{add("whole", "0")}},
		{name: "a sum is set", writes: []Write{set("whole", "12")}},
		{name: "a sum that rounds", writes: []Write{add("part", "0.1")}},
		{name: "a number written at length", writes: []Write{add("whole", "+5")}},
		{name: "out of the order of channels", writes: []Write{add("whole", "5"), set("last", `"new"`)}},
		{name: "what is left to be forgotten", writes: []Write{set("last", `"new"`)}, want: true, change: func(before, next *Checkpoint, _ *Result) {
			before.Values[4] = NewSet([]byte(`"gone"`))
		}},
		{name: "taken", writes: []Write{{Channel: "pass", Op: OpClear, Took: true}}},
		{name: "taken and put", writes: []Write{{Channel: "pass", Op: OpSet, Data: []byte("2"), Took: true}}},
		{name: "of an earlier task", writes: []Write{set("last", `"new"`)}, change: func(_, _ *Checkpoint, r *Result) { r.Cached = true }},
		{name: "two were due", change: func(before, _ *Checkpoint, _ *Result) { before.Due = append(before.Due, Due{Node: "b"}) }},
		{name: "it was sent", change: func(before, _ *Checkpoint, _ *Result) { before.Due[0].Send = true }},
		{name: "under another graph", change: func(before, _ *Checkpoint, _ *Result) { before.Graph = 1 }},
	} {
		before := &Checkpoint{N: 1, ID: "id", Due: []Due{{Node: "a"}}, Values: make([]*Value, len(channels))}
		before.Values[0], before.Values[6] = NewSet([]byte(`"old"`)), NewSet([]byte(`["a"]`))
		before.Values[1], before.Values[2], before.Values[5] = NewSet([]byte("-1")), NewSet([]byte("4")), NewSet([]byte("1"))
		if c.name == "a sum shrinks" {
			before.Values[1] = NewSet([]byte("0"))
		}
		results := []Result{{Task: Task{Node: "a", Index: -1}, Writes: c.writes}}
		next, err := Apply(before, top, nil, results)
		if err != nil {
			t.Fatal(c.name, err)
		}
		if c.change != nil {
			c.change(before, next, &results[0])
		}
		if got := top.Tells(before, next, &results[0]); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
	for _, n := range []Number{Signed, Unsigned} {
		for _, by := range []string{"0", "1", "250"} {
			total, err := AddNumbers(n, []byte("5"), []byte(by))
			if err != nil {
				t.Fatal(err)
			}
			if got, told := growth(n, []byte("5"), total); !told || string(got) != by {
				t.Errorf("%v: 5 grew to %s by %s, %v", n, total, got, told)
			}
		}
		if _, told := growth(n, []byte("5"), []byte("x")); told {
			t.Errorf("%v: it grew to no number", n)
		}
	}
}
