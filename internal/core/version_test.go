package core

import (
	"strings"
	"testing"
)

// deployed is a graph: Start -> a -> b -> c, with a join of a and b into d.
func deployed() *Topology {
	return board().edge(Start, "a").edge("a", "b").edge("b", "c")
}

func TestWhatThePastCanTell(t *testing.T) {
	t.Parallel()
	node := func(name string, change func(*Node)) func(*Topology) {
		return func(t *Topology) { n, _ := t.Node(name); change(n) }
	}
	channel := func(name string, change func(*Channel)) func(*Topology) {
		return func(t *Topology) { change(&t.Channels[t.Channel(name)]) }
	}
	without := func(name string) func(*Topology) {
		return func(t *Topology) {
			kept := t.Nodes[:0]
			for _, n := range t.Nodes {
				if n.Name != name {
					kept = append(kept, n)
				}
			}
			t.Nodes = kept
		}
	}
	more := func(c Channel) func(*Topology) { return func(t *Topology) { t.Channels = append(t.Channels, c) } }
	past := []string{Start, "b", "a", "b"}
	for _, c := range []struct {
		name   string
		change func(*Topology)
		what   string // empty: the past cannot tell
		about  string
	}{
		{"nothing", func(*Topology) {}, "", ""},
		{"a node that ran is gone", without("a"), "node", "a"},
		{"its kind", node("a", func(n *Node) { n.Kind = KindAsk }), "kind of node", "a"},
		{"its version", node("a", func(n *Node) { n.Version = 2 }), "version of node", "a"},
		{"its edges", node("b", func(n *Node) { n.Edges = []string{"c", "w"} }), "edges of node", "b"},
		{"its edges are gone", node("b", func(n *Node) { n.Edges = nil }), "edges of node", "b"},
		{"its route targets", node("b", func(n *Node) { n.Targets = []string{"w"} }), "route targets of node", "b"},
		{"its questions and effects", node("b", func(n *Node) { n.Uses = []string{"ship"} }), "declared uses of node", "b"},
		{"a join from it", func(t *Topology) { t.Joins[0].To = "w" }, "joins of node", "a"},
		{"a join from it is gone", func(t *Topology) { t.Joins = nil }, "joins of node", "a"},
		{"a new join into it", func(t *Topology) { t.Joins = append(t.Joins, Join{From: []string{"c", "w"}, To: "b"}) }, "joins of node", "b"},
		{"the edges of Start", node(Start, func(n *Node) { n.Edges = []string{"b"} }), "edges of node", Start},
		{"a channel's rule", channel("last", func(c *Channel) { c.Merge = MergeOnce }), "channel", "last"},
		{"a channel's type", channel("last", func(c *Channel) { c.Type = "int" }), "channel", "last"},
		{"a channel is gone", func(t *Topology) { t.Channels = t.Channels[1:] }, "channel", "last"},
		{"a new channel that must be written", more(Channel{Name: "new", Merge: MergeLast, Type: "int"}), "channel", "new"},
		{"a new channel that is optional", more(Channel{Name: "new", Merge: MergeLast, Type: "int", Optional: true}), "", ""},
		{"channels in another order", func(t *Topology) { t.Channels[0], t.Channels[1] = t.Channels[1], t.Channels[0] }, "", ""},
		{"a node that never ran is gone", without("w"), "", ""},
		{"its version, edges, targets, uses and kind", node("c", func(n *Node) {
			*n = Node{Name: "c", Kind: KindWorker, Version: 9, Edges: []string{"w"}, Targets: []string{"a"}, Uses: []string{"x"}}
		}), "", ""},
		{"a new node", func(t *Topology) { t.Nodes = append(t.Nodes, Node{Name: "z", Kind: KindNode, Version: 1}) }, "", ""},
		{"a join of strangers", func(t *Topology) { t.Joins = append(t.Joins, Join{From: []string{"c", "w"}, To: "d"}) }, "", ""},
		{"the durability of a node", node("a", func(n *Node) { n.Durable = true }), "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			old, now := deployed(), deployed()
			c.change(now)
			d := Compare(old, now, past)
			if c.what == "" {
				if d != nil {
					t.Fatalf("the past tells: %v", d)
				}
				return
			}
			if d == nil || d.What != c.what || d.Name != c.about {
				t.Fatalf("got %v; want a difference of %s %q", d, c.what, c.about)
			}
			if s := d.String(); !strings.Contains(s, c.about) || !strings.Contains(s, "was ") || strings.Contains(s, "was ,") {
				t.Errorf("people read %q", s)
			}
			if GraphDigest(old) == GraphDigest(now) {
				t.Error("both graphs have one digest")
			}
			if c.what == "channel" {
				if Compare(old, now, nil) == nil {
					t.Error("without a past channels are not compared")
				}
			} else if d := Compare(old, now, nil); d != nil {
				t.Errorf("without a past nodes are compared: %v", d)
			}
		})
	}
}

func TestANameThatTheOldGraphDidNotHave(t *testing.T) {
	t.Parallel()
	if d := Compare(deployed(), deployed(), []string{"ghost"}); d != nil {
		t.Errorf("a name that neither graph has tells %v", d)
	}
}

func TestDifferencesAreTheSameEveryTime(t *testing.T) {
	t.Parallel()
	now := deployed()
	for i := range now.Nodes {
		now.Nodes[i].Version = 2
	}
	for _, past := range [][]string{{"b", "a", "c"}, {"c", "b", "a"}, {"a", "c", "b"}} {
		kept := strings.Join(past, "")
		if d := Compare(deployed(), now, past); d == nil || d.Name != "a" {
			t.Errorf("the first difference of %v is %v", past, d)
		}
		if strings.Join(past, "") != kept {
			t.Errorf("the caller's list was sorted: %v", past)
		}
	}
}
