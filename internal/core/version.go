package core

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// GraphDigest names a graph's version: the digest of its topology.
func GraphDigest(t *Topology) string {
	doc, err := json.Marshal(t)
	if err != nil {
		return ""
	}
	return ID("graph", string(doc))
}

// Difference is the first thing in which a run's past differs from the graph that it would go on under.
type Difference struct {
	What string // node, edge, join, channel
	Name string
	Old  string
	New  string

	Inserted, Before string // a new node that now stands before one that was led to; empty: none
}

func (d *Difference) String() string {
	s := fmt.Sprintf("%s %q: was %s, is %s", d.What, d.Name, orNone(d.Old), orNone(d.New))
	if d.Inserted != "" {
		s = fmt.Sprintf("%q inserted before %q (%s)", d.Inserted, d.Before, s)
	}
	return s
}

func orNone(s string) string {
	if s == "" {
		return "absent"
	}
	return s
}

// Compare says whether a run may go on under another graph: nil, or the first difference that its past can tell. past
// holds the paths of the nodes that ran or are due, those in children as "child|node"; with none, only channels are
// compared. Nodes and children that the past never met may differ in any way.
func Compare(old, now *Topology, past []string) *Difference {
	past = slices.Clone(past)
	slices.Sort(past)
	past, inner := split(slices.Compact(past))
	for _, name := range past {
		if _, was := old.Node(name); was {
			if _, is := now.Node(name); !is {
				return &Difference{What: "node", Name: name, Old: "there"} // said before the edges that led to it
			}
		}
	}
	for _, name := range past {
		before, ok := old.Node(name)
		if !ok {
			continue
		}
		after, ok := now.Node(name)
		if !ok {
			return &Difference{What: "node", Name: name, Old: "there"}
		}
		if d := compareNode(before, after); d != nil {
			d.Inserted, d.Before = inserted(old, now, before, after)
			return d
		}
		if a, b := joinsOf(old, name), joinsOf(now, name); a != b {
			return &Difference{What: "joins of node", Name: name, Old: a, New: b}
		}
	}
	if d := compareChannels(old, now); d != nil {
		return d
	}
	for i := range old.Children {
		was := &old.Children[i]
		if inside, met := inner[was.Name]; met {
			if d := compareChild(was, now, append(inside, Start)); d != nil { // whoever met a node in it came through its beginning
				return d
			}
		}
	}
	return nil
}

// split parts the names of a graph's own nodes from those in its children.
func split(past []string) (own []string, inner map[string][]string) {
	for _, path := range past {
		child, rest, deeper := strings.Cut(path, "|")
		if !deeper {
			own = append(own, path)
			continue
		}
		if inner == nil {
			inner = map[string][]string{}
		}
		inner[child] = append(inner[child], rest)
	}
	return own, inner
}

func compareChild(was *Child, now *Topology, past []string) *Difference {
	is, ok := now.Child(was.Name)
	if !ok {
		return &Difference{What: "child", Name: was.Name, Old: "there"}
	}
	if was.Mode != is.Mode {
		return &Difference{What: "mode of child", Name: was.Name, Old: string(was.Mode), New: string(is.Mode)}
	}
	d := Compare(was.Graph, is.Graph, past)
	if d != nil {
		d.Name = was.Name + "|" + d.Name
	}
	return d
}

func compareNode(a, b *Node) *Difference {
	for _, c := range []struct{ what, a, b string }{
		{"kind of node", string(a.Kind), string(b.Kind)},
		{"deferral of node", deferral(a), deferral(b)},
		{"version of node", fmt.Sprint(a.Version), fmt.Sprint(b.Version)},
		{"edges of node", leads(a.Edges), leads(b.Edges)},
		{"route targets of node", strings.Join(a.Targets, ", "), strings.Join(b.Targets, ", ")},
		{"declared uses of node", strings.Join(a.Uses, ", "), strings.Join(b.Uses, ", ")},
	} {
		if c.a != c.b {
			return &Difference{What: c.what, Name: a.Name, Old: c.a, New: c.b}
		}
	}
	return nil
}

func deferral(n *Node) string {
	if n.Defer {
		return "deferred"
	}
	return "not deferred"
}

// inserted finds a node that is new, that a node now leads to, and that leads on to one which it led to before.
func inserted(old, now *Topology, before, after *Node) (node, follows string) {
	is := slices.Concat(after.Edges, after.Targets)
	for _, to := range slices.Concat(before.Edges, before.Targets) {
		if slices.Contains(is, to) {
			continue
		}
		for _, via := range is {
			if _, was := old.Node(via); !was && via != End && reaches(old, now, via, to) {
				return via, to
			}
		}
	}
	return "", ""
}

// reaches says whether a new node leads to another over new nodes alone.
func reaches(old, now *Topology, from, to string) bool {
	seen := []string{from}
	for i := 0; i < len(seen); i++ {
		n, ok := now.Node(seen[i])
		if !ok {
			continue
		}
		for _, next := range slices.Concat(n.Edges, n.Targets) {
			if next == to {
				return true
			}
			if _, was := old.Node(next); !was && !slices.Contains(seen, next) {
				seen = append(seen, next)
			}
		}
	}
	return false
}

// Changed counts the nodes that differ between two versions: other ones, new ones, and those that are gone, in the graph
// and in its children.
func Changed(old, now *Topology) int {
	n := 0
	for i := range old.Nodes {
		if is, ok := now.Node(old.Nodes[i].Name); !ok || compareNode(&old.Nodes[i], is) != nil {
			n++
		}
	}
	for i := range now.Nodes {
		if _, was := old.Node(now.Nodes[i].Name); !was {
			n++
		}
	}
	for i := range old.Children {
		if is, ok := now.Child(old.Children[i].Name); ok {
			n += Changed(old.Children[i].Graph, is.Graph)
		}
	}
	return n
}

// leads lists where edges go; an edge to the end and none at all cannot be told apart by a run.
func leads(edges []string) string {
	return strings.Join(slices.DeleteFunc(slices.Clone(edges), func(to string) bool { return to == End }), ", ")
}

func joinsOf(t *Topology, node string) string {
	var out []string
	for _, j := range t.Joins {
		if j.To == node || slices.Contains(j.From, node) {
			out = append(out, j.Name())
		}
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

func compareChannels(old, now *Topology) *Difference {
	for at, c := range old.Channels {
		i := now.Heir(old, at)
		if i < 0 {
			return &Difference{What: "channel", Name: c.Name, Old: signature(c)}
		}
		if a, b := signature(c), signature(now.Channels[i]); !alike(c, now.Channels[i]) && !slices.Contains(now.Channels[i].From, c.Type) {
			return &Difference{What: "channel", Name: c.Name, Old: a, New: b}
		}
	}
	for i, c := range now.Channels {
		if now.Source(old, i) < 0 && !c.Optional {
			return &Difference{What: "channel", Name: c.Name, New: signature(c) + ", not optional"}
		}
	}
	return nil
}

func signature(c Channel) string { return string(c.Merge) + " of " + c.Type }
