package suite

import (
	"cmp"
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/draw"
)

// mermaid is what a flowchart says, without ids, classes and order. In recorded ones it is what LangGraph's says.
type mermaid struct {
	Nodes  []string            `json:"nodes"`
	Lines  []mermaidLine       `json:"lines"`
	Frames map[string][]string `json:"frames"`
}

type mermaidLine struct {
	From   string `json:"from"`
	To     string `json:"to"`
	Dotted bool   `json:"dotted"`
	Label  string `json:"label"`
}

var (
	lineForm  = regexp.MustCompile(`^(\S+) (-->|-\.->|==>)(?:\|"([^"|]*)"\|)? (\S+)$`)
	frameForm = regexp.MustCompile(`^subgraph (\S+) \["`)
	nodeForm  = regexp.MustCompile(`^([\w-]+)[([{]+".*"[)\]}]+(:::\w+)?$`)
	hexForm   = regexp.MustCompile(`-([0-9a-f]{2})`)
	charForm  = regexp.MustCompile(`#(\d+);`)
)

// readMermaid reads what Pawl draws. A node that is opened but holds no lines of its own is a frame alone.
func readMermaid(t *testing.T, text string) mermaid {
	t.Helper()
	m := mermaid{Lines: []mermaidLine{}, Frames: map[string][]string{}}
	name := func(id string) string {
		return hexForm.ReplaceAllStringFunc(strings.TrimPrefix(id, "n_"), func(hex string) string {
			c, _ := strconv.ParseUint(hex[1:], 16, 8)
			return string(rune(c))
		})
	}
	frame := ""
	for _, l := range strings.Split(strings.TrimPrefix(text, "graph TD\n"), "\n") {
		l = strings.TrimSpace(l)
		if line := lineForm.FindStringSubmatch(l); line != nil {
			label := charForm.ReplaceAllStringFunc(line[3], func(code string) string {
				c, _ := strconv.Atoi(strings.Trim(code, "#;"))
				return string(rune(c))
			})
			m.Lines = append(m.Lines, mermaidLine{name(line[1]), name(line[4]), line[2] == "-.->", label})
		} else if f := frameForm.FindStringSubmatch(l); f != nil {
			frame = name(f[1])
		} else if node := nodeForm.FindStringSubmatch(l); node != nil {
			m.Nodes = append(m.Nodes, name(node[1]))
			if frame != "" {
				m.Frames[frame] = append(m.Frames[frame], name(node[1]))
			}
		} else if l == "end" {
			frame = ""
		} else if l != "" {
			t.Fatalf("a line that nobody understands: %s", l)
		}
	}
	slices.Sort(m.Nodes)
	slices.SortFunc(m.Lines, func(a, b mermaidLine) int {
		return cmp.Or(strings.Compare(a.From, b.From), strings.Compare(a.To, b.To))
	})
	for _, inside := range m.Frames {
		slices.Sort(inside)
	}
	return m
}

// drawn compares a picture with LangGraph's of the same graph, of which without leaves lines out.
func drawn(of string, b *pawl.Builder[rowState], without ...mermaidLine) func(t *testing.T, _ *report) {
	return func(t *testing.T, _ *report) {
		doc, err := os.ReadFile("../../conformance/drawings/" + of + ".json")
		if err != nil {
			t.Fatal(err)
		}
		var want mermaid
		if err := json.Unmarshal(doc, &want); err != nil {
			t.Fatal(err)
		}
		for _, line := range without {
			i := slices.Index(want.Lines, line)
			if i < 0 {
				t.Fatalf("LangGraph does not draw %v", line)
			}
			want.Lines = slices.Delete(want.Lines, i, i+1)
			if !slices.ContainsFunc(want.Lines, func(l mermaidLine) bool { return l.From == line.To || l.To == line.To }) {
				want.Nodes = slices.DeleteFunc(want.Nodes, func(n string) bool { return n == line.To })
			}
		}
		g, err := draw.Of(build(t, b), -1)
		if err != nil {
			t.Fatal(err)
		}
		same(t, "picture", compact(readMermaid(t, g.Mermaid())), compact(want))
	}
}

func chooses(*rowState) []pawl.Next { return pawl.To(pawl.End) }

// silent is a graph of nodes that do nothing.
func silent(names ...string) *pawl.Builder[rowState] {
	b := pawl.New[rowState]("row")
	for _, n := range names {
		b.Node(n, noop[rowState])
	}
	return b
}

func inside(name string, inner *pawl.Builder[rowState]) pawl.Node[rowState] {
	g, err := inner.Build()
	if err != nil {
		panic(err)
	}
	return pawl.Sub(g.Child(name), func(*rowState) *rowState { return nil }, func(*rowState, *pawl.Result[rowState]) error { return nil })
}

func drawRows() []scenario {
	labelled := silent("Researcher", "Chart Generator", "Call Tool").Edge(pawl.Start, "Researcher").
		Route("Call Tool", chooses, "Researcher", "Chart Generator")
	for name, other := range map[string]string{"Researcher": "Chart Generator", "Chart Generator": "Researcher"} {
		labelled.Route(name, chooses, other, "Call Tool", pawl.End).
			Label(name, other, "continue").Label(name, "Call Tool", "call_tool").Label(name, pawl.End, "end")
	}
	deferred := silent("rewrite", "retriever_one", "retriever_two", "analyzer_one").Node("qa", noop[rowState], pawl.Defer()).
		Path(pawl.Start, "rewrite", "retriever_one", "analyzer_one").Path("rewrite", "retriever_two", "qa").Edge("retriever_one", "qa")
	return []scenario{
		{id: "DRW-02", run: drawn("DRW-02", silent("side").Add(inside("inner", silent("up").Edge(pawl.Start, "up"))).Path(pawl.Start, "inner", "side"))},
		{id: "DRW-03", run: drawn("DRW-03", labelled)},
		{id: "DRW-04", differs: "a loop that nothing ends has no line to the end: nobody declared one, and LangGraph draws it behind the node that its 251st step happens to reach",
			run: drawn("DRW-04", silent("human", "agent").Path(pawl.Start, "human", "agent", "human"), mermaidLine{"agent", pawl.End, true, ""})},
		{id: "DRW-05", run: drawn("DRW-05", deferred)},
		{id: "DRW-06", run: drawn("DRW-06", silent("tool_one", "tool_three").
			Add(inside("tool_two", silent("slow", "fast").Route(pawl.Start, chooses, "slow", "fast"))).
			Route(pawl.Start, chooses, "tool_one", "tool_two", "tool_three", pawl.End))},
		{id: "DRW-07", run: func(t *testing.T, r *report) {
			gotos := func() *pawl.Builder[rowState] {
				return silent("b", "c").Node("a", noop[rowState], pawl.Targets("b", "c")).Edge(pawl.Start, "a")
			}
			drawn("DRW-07-tuple", gotos())(t, r)
			drawn("DRW-07-mapping", gotos().Label("a", "b", "to b").Label("a", "c", "to c"))(t, r)
		}},
	}
}
