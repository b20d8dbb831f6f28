package core

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// plain is a state as the naive interpreter keeps it: ordinary Go values, nil for what holds nothing.
type plain struct {
	last, once, flash, fold any
	list                    []any
	sum                     int64
	summed                  bool
	table                   map[string]any
	due                     []string // nodes and, as "node=arg", sends
	later                   []string // deferred ones that were led to
	joined                  map[string]bool
}

// deed is one write of one task, in the words of the interpreter.
type deed struct {
	channel string
	kind    string // set, add, patch, take
	items   []any
	keys    map[string]any // nil: delete
}

// act is what one task of the random run does.
type act struct {
	node  string
	deeds []deed
	next  []string
}

var errClash = errors.New("two tasks wrote what takes one writer")

// naive is the interpreter: it reads the rules of merging off the design and shares no code with Apply.
func (p plain) naive(top *Topology, acts []act) (plain, error) {
	out := p
	out.flash = nil
	out.list, out.table, out.joined = slices.Clone(p.list), maps.Clone(p.table), map[string]bool{}
	maps.Copy(out.joined, p.joined)
	writers, whole, keys := map[string]int{}, map[string]bool{}, map[string]int{}
	for i, a := range acts {
		for _, d := range a.deeds {
			if d.kind == "add" && d.channel == "int" {
				out.sum, out.summed = out.sum+d.items[0].(int64), true
				continue
			}
			single := d.channel == "last" || d.channel == "once" || d.channel == "flash"
			if writers[d.channel]++; writers[d.channel] > 1 && (single || whole[d.channel] || d.kind == "set") {
				return p, errClash
			}
			whole[d.channel] = whole[d.channel] || d.kind == "set"
			for k := range d.keys {
				if other, ok := keys[k]; ok && other != i {
					return p, errClash
				}
				keys[k] = i
			}
			out.apply(d)
		}
	}
	out.lead(top, acts)
	return out, nil
}

func (p *plain) apply(d deed) {
	switch {
	case d.channel == "last":
		p.last = d.items[0]
	case d.channel == "flash":
		p.flash = d.items[0]
	case d.channel == "once" && d.kind == "take":
		p.once = nil
	case d.channel == "once":
		p.once = d.items[0]
	case d.channel == "fold":
		s, _ := p.fold.(string)
		for _, i := range d.items {
			s += i.(string)
		}
		p.fold = s
	case d.channel == "list" && d.kind == "set":
		p.list = append([]any{}, d.items...)
	case d.channel == "list":
		p.list = append(p.list, d.items...)
		if p.list == nil {
			p.list = []any{}
		}
	case d.kind == "set":
		p.table = maps.Clone(d.keys)
	default:
		if p.table == nil {
			p.table = map[string]any{}
		}
		for k, v := range d.keys {
			if v == nil {
				delete(p.table, k)
			} else {
				p.table[k] = v
			}
		}
	}
}

// lead works out what is due next.
func (p *plain) lead(top *Topology, acts []act) {
	p.due = nil
	nodes := map[string]bool{}
	var sends []string
	for _, a := range acts {
		n, _ := top.Node(a.node)
		for _, to := range append(slices.Clone(n.Edges), a.next...) {
			if strings.Contains(to, "=") {
				sends = append(sends, to)
			} else if to != End {
				nodes[to] = true
			}
		}
		for _, j := range top.Joins {
			for _, f := range j.From {
				if f == a.node {
					p.joined[j.To+"<"+f] = true
				}
			}
		}
	}
	for _, j := range top.Joins {
		all := true
		for _, f := range j.From {
			all = all && p.joined[j.To+"<"+f]
		}
		if all {
			nodes[j.To] = true
			for _, f := range j.From {
				delete(p.joined, j.To+"<"+f)
			}
		}
	}
	for _, to := range p.later {
		nodes[to] = true
	}
	p.later = nil
	for _, to := range slices.Sorted(maps.Keys(nodes)) {
		if n, _ := top.Node(to); n.Defer {
			p.later = append(p.later, to)
		} else {
			p.due = append(p.due, to)
		}
	}
	if p.due = append(p.due, sends...); len(p.due) == 0 {
		p.due, p.later = p.later, nil
	}
}

// json shows the state as the channels' texts.
func (p plain) json() map[string]string {
	out := map[string]string{}
	put := func(name string, v any, there bool) {
		if there {
			doc, _ := json.Marshal(v)
			out[name] = string(doc)
		}
	}
	put("last", p.last, p.last != nil)
	put("once", p.once, p.once != nil)
	put("flash", p.flash, p.flash != nil)
	put("fold", p.fold, p.fold != nil)
	put("list", p.list, p.list != nil)
	put("int", p.sum, p.summed)
	put("map", p.table, p.table != nil)
	return out
}

// dice draws graphs and writes from a seed.
type dice struct{ *rand.Rand }

func (d dice) graph() *Topology {
	top := board()
	top.Joins = nil
	for i := range top.Nodes {
		n := &top.Nodes[i]
		n.Defer = n.Name != Start && d.IntN(4) == 0
		for _, to := range []string{"a", "b", "c", "d", "w"} {
			if d.IntN(4) == 0 {
				n.Edges = append(n.Edges, to)
			}
		}
	}
	for _, to := range []string{"a", "d"} {
		if from := [][]string{{"b", "c"}, {"a", "c", "w"}, nil}[d.IntN(3)]; from != nil {
			top.Joins = append(top.Joins, Join{From: from, To: to})
		}
	}
	return top
}

func (d dice) deed(taskNo int) deed {
	n := int64(d.IntN(100))
	text := fmt.Sprintf("t%d-%d", taskNo, n)
	many := make([]any, d.IntN(4))
	for i := range many {
		many[i] = fmt.Sprint(text, i)
	}
	switch d.IntN(10) {
	case 0:
		return deed{channel: "last", kind: "set", items: []any{text}}
	case 1:
		return deed{channel: "once", kind: []string{"set", "take"}[d.IntN(2)], items: []any{text}}
	case 2:
		return deed{channel: "flash", kind: "set", items: []any{text}}
	case 3:
		return deed{channel: "fold", kind: "add", items: many}
	case 4, 5:
		return deed{channel: "list", kind: []string{"add", "add", "add", "set"}[d.IntN(4)], items: many}
	case 6:
		return deed{channel: "int", kind: "add", items: []any{n - 50}}
	}
	keys := map[string]any{}
	for range d.IntN(3) {
		k := fmt.Sprintf("k%d", d.IntN(30))
		if keys[k] = any(text); d.IntN(3) == 0 {
			keys[k] = nil
		}
	}
	if d.IntN(8) == 0 {
		maps.DeleteFunc(keys, func(_ string, v any) bool { return v == nil })
		return deed{channel: "map", kind: "set", keys: keys}
	}
	return deed{channel: "map", kind: "patch", keys: keys}
}

func (d dice) act(node string, taskNo int) act {
	a := act{node: node}
	used := map[string]bool{}
	for range d.IntN(4) {
		if next := d.deed(taskNo); !used[next.channel] {
			used[next.channel] = true
			a.deeds = append(a.deeds, next)
		}
	}
	for range d.IntN(3) {
		a.next = append(a.next, []string{"a", "b", "c", End, "w=1", "w=2", "d=3"}[d.IntN(7)])
	}
	return a
}

func (d deed) write() Write {
	doc := func(v any) []byte { b, _ := json.Marshal(v); return b }
	switch {
	case d.kind == "take":
		return taken(d.channel)
	case d.channel == "int":
		return Write{Channel: "int", Op: OpAdd, Data: doc(d.items[0])}
	case d.channel == "map" && d.kind == "set":
		return Write{Channel: "map", Op: OpSet, Data: doc(d.keys)}
	case d.channel == "map":
		p := Patch{Set: map[string]json.RawMessage{}}
		for k, v := range d.keys {
			if v == nil {
				p.Delete = append(p.Delete, k)
			} else {
				p.Set[k] = doc(v)
			}
		}
		return Write{Channel: "map", Op: OpMerge, Data: doc(p)}
	case d.kind == "add":
		return Write{Channel: d.channel, Op: OpAdd, Data: doc(d.items)}
	case d.channel == "list":
		return Write{Channel: "list", Op: OpSet, Data: doc(d.items)}
	}
	return Write{Channel: d.channel, Op: OpSet, Data: doc(d.items[0])}
}

func (a act) result(task Task) Result {
	r := Result{Task: task}
	for _, d := range a.deeds {
		r.Writes = append(r.Writes, d.write())
	}
	for _, to := range a.next {
		node, arg, send := strings.Cut(to, "=")
		r.Next = append(r.Next, Due{Node: node, Send: send, Arg: []byte(arg)})
	}
	return r
}

func dueTexts(due []Due) []string {
	var out []string
	for _, d := range due {
		if d.Send {
			out = append(out, d.Node+"="+string(d.Arg))
		} else {
			out = append(out, d.Node)
		}
	}
	return out
}

// pair is one state in both worlds.
type pair struct {
	cp *Checkpoint
	p  plain
}

// Random runs with forks of forks: whatever the path to a checkpoint was, its channels hold what the interpreter
// holds, and rebuilding them from deltas gives what was written.
func TestApplyAgainstANaiveInterpreter(t *testing.T) {
	t.Parallel()
	for seed := range uint64(30) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			d := dice{rand.New(rand.NewPCG(seed, 1))}
			top := d.graph()
			root := first(top, nil)
			root.Due = []Due{{Node: Start}}
			known := []pair{{root, plain{due: []string{Start}, joined: map[string]bool{}}}}
			clashes := 0
			for range 250 {
				from := known[max(0, len(known)-1-d.IntN(3))] // mostly go on, sometimes fork
				if d.IntN(10) == 0 {
					from = known[d.IntN(len(known))]
				}
				next, clash := step(t, d, top, from, int64(len(known)+1))
				if clash {
					clashes++
					continue
				}
				known = append(known, next)
				if len(next.p.due) == 0 { // a run ended: the next one starts on its state
					again := next
					cp := *next.cp
					cp.Due, again.p.due, again.cp = []Due{{Node: Start}}, []string{Start}, &cp
					known[len(known)-1] = again
				}
			}
			if len(known) < 20 {
				t.Fatalf("only %d checkpoints came of it, %d clashes: the dice are loaded", len(known), clashes)
			}
			for i, k := range known {
				compare(t, top, k, i)
			}
		})
	}
}

// step runs one super-step in both worlds.
func step(t *testing.T, d dice, top *Topology, from pair, n int64) (pair, bool) {
	t.Helper()
	tasks := Plan(from.cp, "thread", "")
	if len(tasks) > 12 {
		tasks = tasks[:12]
	}
	var acts []act
	var results []Result
	for i, task := range tasks {
		a := d.act(task.Node, i)
		acts, results = append(acts, a), append(results, a.result(task))
	}
	if d.IntN(2) == 0 { // half of the time from what another process loaded
		cp := *from.cp
		cp.Values = slices.Clone(cp.Values)
		for c := range cp.Values {
			cp.Values[c] = cold(cp.Values[c])
		}
		from.cp = &cp
	}
	want, clash := from.p.naive(top, acts)
	next, err := Apply(from.cp, top, joined, results)
	if conflict := (*ConflictError)(nil); errors.As(err, &conflict) != (clash != nil) {
		t.Fatalf("the merge says %v, the interpreter %v", err, clash)
	}
	if clash != nil {
		return pair{}, true
	}
	if err != nil {
		t.Fatal(err)
	}
	next.N, next.ID = n, fmt.Sprint("cp-", n)
	return pair{next, want}, false
}

func compare(t *testing.T, top *Topology, k pair, i int) {
	t.Helper()
	if got, want := texts(t, top, k.cp), k.p.json(); !maps.Equal(got, want) {
		t.Fatalf("checkpoint %d holds\n%v\nthe interpreter\n%v", i, got, want)
	}
	if got := dueTexts(k.cp.Due); !slices.Equal(got, k.p.due) {
		t.Fatalf("checkpoint %d: due are %v, and %v in the interpreter", i, got, k.p.due)
	}
	if !slices.Equal(k.cp.Later, k.p.later) {
		t.Fatalf("checkpoint %d: later come %v, and %v in the interpreter", i, k.cp.Later, k.p.later)
	}
	waiting := map[string]bool{}
	for _, j := range top.Joins {
		for _, f := range k.cp.Joins[j.Name()] {
			waiting[j.To+"<"+f] = true
		}
	}
	if !reflect.DeepEqual(waiting, k.p.joined) {
		t.Fatalf("checkpoint %d: joins wait with %v, and %v in the interpreter", i, waiting, k.p.joined)
	}
	for c, v := range k.cp.Values {
		if v == nil || v.Op == OpSet {
			continue
		}
		if v.Cost > 2*v.Size+4096 {
			t.Fatalf("checkpoint %d, channel %q: %d bytes to rebuild %d", i, top.Channels[c].Name, v.Cost, v.Size)
		}
		warm, err := v.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		fresh, err := cold(v).Bytes()
		if err != nil || string(fresh) != string(warm) {
			t.Fatalf("checkpoint %d, channel %q: loaded as %s, %v; written as %s", i, top.Channels[c].Name, fresh, err, warm)
		}
	}
}
