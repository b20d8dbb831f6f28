package core

import (
	"slices"
	"testing"
	"time"
)

func TestAdded(t *testing.T) {
	t.Parallel()
	top := &Topology{Channels: []Channel{
		{Name: "list", Merge: MergeAppend}, {Name: "map", Merge: MergeMap}, {Name: "sum", Merge: MergeSum, Number: Signed},
		{Name: "real", Merge: MergeSum, Number: Float}, {Name: "last", Merge: MergeLast},
	}}
	values := func(docs ...string) []*Value {
		out := make([]*Value, len(docs))
		for i, doc := range docs {
			if doc != "" {
				out[i] = NewSet([]byte(doc))
			}
		}
		return out
	}
	for name, c := range map[string]struct{ before, after, want []string }{
		"nothing":     {[]string{"[1]", `{"a":1}`, "3", "1.5", `"x"`}, []string{"[1]", `{"a":1}`, "3", "1.5", `"x"`}, []string{"", "", "", "", ""}},
		"everything":  {[]string{"", "", "", "", ""}, []string{"[1]", `{"a":1}`, "3", "1.5", `"x"`}, []string{"[1]", `{"a":1}`, "3", "1.5", `"x"`}},
		"more":        {[]string{"[1,[2]]", `{"a":1}`, "3", "1.5", `"x"`}, []string{"[1,[2],3,4]", `{"a":2,"b":1}`, "10", "2", `"y"`}, []string{"[3,4]", `{"a":2,"b":1}`, "7", "0.5", `"y"`}},
		"less":        {[]string{"[1,2]", `{"a":1,"b":2}`, "3", "1.5", `"x"`}, []string{"[1]", `{"b":2}`, "-3", "0.5", ""}, []string{"[1]", `{}`, "-6", "-1", ""}},
		"onto empty":  {[]string{"[]", `{}`, "0", "0", `""`}, []string{"[5]", `{"a":1}`, "1", "1", `"y"`}, []string{"[5]", `{"a":1}`, "1", "1", `"y"`}},
		"looks alike": {[]string{"[1]", "", "", "", ""}, []string{"[12]", "", "", "", ""}, []string{"[12]", "", "", "", ""}},
		"very large":  {[]string{"", "", "9223372036854775806", "", ""}, []string{"", "", "9223372036854775807", "", ""}, []string{"", "", "1", "", ""}},
	} {
		got, err := Added(top, values(c.before...), values(c.after...))
		if err != nil {
			t.Fatal(name, err)
		}
		for i, v := range got {
			doc := ""
			if v != nil {
				doc = string(v.Data)
			}
			if doc != c.want[i] {
				t.Errorf("%s: channel %q added %q, want %q", name, top.Channels[i].Name, doc, c.want[i])
			}
		}
	}
}

// A tree of positions: root task r of two children, one of which waits.
func TestBlocked(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	root := &Checkpoint{ID: "root", Due: []Due{{Node: "r"}, {Node: "s"}}}
	tasks := Plan(root, "t", "")
	r, s := tasks[0].ID, tasks[1].ID
	child := func(n int64, due ...string) *Position {
		f := &Frame{N: n, Under: []Level{{"child", r}}, Path: "r:" + r}
		p := &Position{Frame: f, Head: &Checkpoint{ID: "c", N: n, Frame: f}, Questions: map[string][]Question{}}
		for _, node := range due {
			p.Head.Due = append(p.Head.Due, Due{Node: node})
		}
		return p
	}
	open := func(p *Position, node string, q Question) *Position {
		for _, task := range Plan(p.Head, "t", p.path()) {
			if task.Node == node {
				q.State, q.Under = QuestionOpen, p.Frame.Under
				p.Questions[task.ID] = []Question{q}
			}
		}
		return p
	}
	for name, c := range map[string]struct {
		children []*Position
		own      []Question
		deep     []Question // of a child of r that keeps no checkpoints
		want     []string
	}{
		"nothing":                  {},
		"own question":             {own: []Question{{State: QuestionOpen}}, want: []string{r}},
		"own question, answered":   {own: []Question{{State: QuestionAnswered}}},
		"own question, due":        {own: []Question{{State: QuestionOpen, Due: noon}}},
		"a stateless child's":      {deep: []Question{{State: QuestionOpen, Under: []Level{{"child", r}}}}, want: []string{r}},
		"a child waits":            {children: []*Position{open(child(2, "a"), "a", Question{})}, want: []string{r}},
		"a task of it can go on":   {children: []*Position{open(child(2, "a", "b"), "a", Question{})}},
		"another child can go on":  {children: []*Position{open(child(2, "a"), "a", Question{}), child(3, "a")}},
		"another child is over":    {children: []*Position{open(child(2, "a"), "a", Question{}), child(3)}, want: []string{r}},
		"own beside a child's":     {own: []Question{{State: QuestionOpen}}, children: []*Position{child(2, "a")}, want: []string{r}},
		"all of its children over": {children: []*Position{child(2)}},
	} {
		p := &Position{Head: root, Questions: map[string][]Question{}, Children: map[string][]*Position{}}
		if len(c.own) > 0 {
			p.Questions[r] = c.own
		}
		if len(c.deep) > 0 {
			p.Questions["inside"] = c.deep
		}
		if len(c.children) > 0 {
			p.Children[r] = c.children
		}
		var got []string
		for task, is := range p.Blocked("t", 0, noon) {
			if is {
				got = append(got, task)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: blocked are %v, want %v", name, got, c.want)
		}
		if can, cannot := p.Enterable("t", 0, noon); !can || cannot != (len(c.want) > 0) {
			t.Errorf("%s: enterable %v, %v; task %s always is", name, can, cannot, s)
		}
	}
}

func TestPastInChildren(t *testing.T) {
	t.Parallel()
	at := func(under []Level, visited, due string) *Position {
		f := &Frame{N: 1, Under: under}
		return &Position{Frame: f, Head: &Checkpoint{Frame: f, Visited: []string{visited}, Due: []Due{{Node: due}}},
			Ended: []Ended{{Result: Result{Task: Task{Node: due}}}}}
	}
	inner := at([]Level{{"sub", "1"}, {"plain", "2"}, {"deep", "3"}}, "x", "y") // plain keeps no checkpoints
	outer := at([]Level{{"sub", "1"}}, "a", "b")
	outer.Children = map[string][]*Position{"3": {inner}}
	p := &Position{Children: map[string][]*Position{"1": {outer}}}
	got := p.Past()
	slices.Sort(got)
	if want := []string{"sub|a", "sub|b", "sub|plain|deep|x", "sub|plain|deep|y"}; !slices.Equal(got, want) {
		t.Errorf("the past is %v, want %v", got, want)
	}
	for path, n := range map[string]int{"sub|b": 1, "sub|plain|deep|y": 1, "sub|a": 0, "b": 0, "deep|y": 0} {
		if found := p.EndedIn(path); len(found) != n {
			t.Errorf("%s ended %d times, want %d", path, len(found), n)
		}
	}
}

func TestCompareInChildren(t *testing.T) {
	t.Parallel()
	graph := func(version int, mode ChildMode, channel string) *Topology {
		inner := &Topology{Graph: "inner", Nodes: []Node{{Name: "n", Version: version}, {Name: "other", Version: 1}},
			Channels: []Channel{{Name: "c", Merge: MergeLast, Type: channel}}}
		return &Topology{Graph: "outer", Nodes: []Node{{Name: "sub"}}, Children: []Child{{Name: "sub", Mode: mode, Graph: inner}}}
	}
	was := graph(1, Inherit, "int")
	for name, c := range map[string]struct {
		now  *Topology
		past []string
		want string
	}{
		"same":               {graph(1, Inherit, "int"), []string{"sub", "sub|n"}, ""},
		"not met":            {graph(2, Inherit, "text"), []string{"sub"}, ""},
		"another node":       {graph(2, Inherit, "int"), []string{"sub|other"}, ""},
		"the node":           {graph(2, Inherit, "int"), []string{"sub|n"}, "sub|n"},
		"its channels":       {graph(1, Inherit, "text"), []string{"sub|n"}, "sub|c"},
		"its mode":           {graph(1, Stateless, "int"), []string{"sub|n"}, "sub"},
		"the child is gone":  {&Topology{Graph: "outer", Nodes: []Node{{Name: "sub"}}}, []string{"sub|n"}, "sub"},
		"and was not needed": {&Topology{Graph: "outer", Nodes: []Node{{Name: "sub"}}}, []string{"sub"}, ""},
	} {
		d, got := Compare(was, c.now, c.past), ""
		if d != nil {
			got = d.Name
		}
		if got != c.want {
			t.Errorf("%s: differs by %q, want %q", name, got, c.want)
		}
	}
}
