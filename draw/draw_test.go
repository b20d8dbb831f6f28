package draw_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/draw"
)

const agent = `{"graph":"agent","nodes":[{"name":"__start__","edges":["think"]},{"name":"act","edges":["think"]},
	{"name":"think","targets":["act","gave up","finished"]},{"name":"finished"},{"name":"gave up"}]}`

// The graphs that are drawn: topologies as graphs describe them.
var graphs = map[string]string{
	"path":  `{"graph":"path","nodes":[{"name":"__start__","edges":["a"]},{"name":"a","edges":["b"]},{"name":"b"}]}`,
	"empty": `{"graph":"empty","nodes":[{"name":"__start__","edges":["__end__"]}]}`,
	"self":  `{"graph":"self","nodes":[{"name":"__start__","edges":["again"]},{"name":"again","edges":["again"],"targets":["__end__"]}]}`,
	"endless": `{"graph":"endless","nodes":[{"name":"__start__","edges":["human"]},{"name":"agent","edges":["human"]},
		{"name":"human","edges":["agent"]}]}`,
	"crossed": `{"graph":"crossed","nodes":[{"name":"__start__","edges":["a","b"]},{"name":"a","edges":["c","d"]},
		{"name":"b","edges":["c","d"]},{"name":"c"},{"name":"d"}]}`,
	"joins": `{"graph":"joins","nodes":[{"name":"__start__","edges":["a","b","c"]},{"name":"a"},{"name":"b"},{"name":"c"},
		{"name":"d","durable":true},{"name":"e"}],"joins":[{"from":["a","b"],"to":"d"},{"from":["b","c"],"to":"d"},{"from":["a","c"],"to":"e"}]}`,
	"stops": `{"graph":"stops","nodes":[{"name":"__start__","edges":["a"]},{"name":"a","edges":["b"]},{"name":"b","kind":"child","uses":["b"]}],
		"children":[{"name":"b","mode":"inherit","graph":{"graph":"in","nodes":[{"name":"__start__","edges":["a"]},{"name":"a","edges":["c"]},{"name":"c"}]}}],
		"before":["a","b|c"],"after":["b|*"]}`,
	"names": `{"graph":"a \"graph\" <&>","nodes":[{"name":"__start__","edges":["прийом","end","\"#1;\" <b>&\\"]},{"name":"прийом","edges":["承認 する"]},
		{"name":"end"},{"name":"\"#1;\" <b>&\\"},{"name":"承認 する","kind":"ask","uses":["承認 する"]}]}`,
	"deferred": `{"graph":"deferred","nodes":[{"name":"__start__","targets":["ask","look"],"labels":{"ask":"it \"costs\"","look":"else"}},
		{"name":"ask","edges":["write"],"labels":{"write":"yes"}},{"name":"look"},{"name":"sum","defer":true,"edges":["tell"]},
		{"name":"tell"},{"name":"write","edges":["sum"]}]}`,
	"agent": agent,
	"refund": `{"graph":"refund","nodes":[{"name":"__start__","edges":["triage"]},
		{"name":"agent","kind":"child","edges":["pay"],"uses":["agent"]},
		{"name":"collect","edges":["pay"],"uses":["note","sum"]},
		{"name":"lookup","kind":"worker"},
		{"name":"pay","durable":true,"targets":["__end__","triage"],"uses":["bank.transfer"],"asks":["bank.transfer"],"sends":["bank.transfer"]},
		{"name":"review","kind":"ask","edges":["pay"],"uses":["review"],"asks":["review"]},
		{"name":"triage","targets":["__end__","agent","lookup","review"]}],
		"joins":[{"from":["agent","lookup"],"to":"collect"},{"from":["lookup","review"],"to":"collect"}],
		"children":[{"name":"agent","mode":"inherit","graph":` + agent + `},{"name":"sum","mode":"stateless","graph":` + agent + `}]}`,
}

func read(t *testing.T, doc string, depth int) *draw.Graph {
	t.Helper()
	g, err := draw.Read([]byte(doc), depth)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func picture(t *testing.T, g *draw.Graph, format string) string {
	t.Helper()
	switch format {
	case "mmd":
		return g.Mermaid()
	case "dot":
		return g.DOT()
	case "svg":
		return g.SVG()
	case "txt":
		return g.ASCII()
	}
	doc, err := g.JSON()
	if err != nil {
		t.Fatal(err)
	}
	return string(doc) + "\n"
}

var formats = []string{"mmd", "dot", "svg", "txt", "json"}

// UPDATE_GOLDEN=1 writes the pictures instead of comparing with them.
func TestGolden(t *testing.T) {
	t.Parallel()
	for name, doc := range graphs {
		for _, format := range formats {
			file := filepath.Join("testdata", name+"."+format)
			got := picture(t, read(t, doc, -1), format)
			if os.Getenv("UPDATE_GOLDEN") != "" {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("%s differs; got:\n%s\nwant:\n%s", file, got, want)
			}
			for range 3 {
				if again := picture(t, read(t, doc, -1), format); again != got {
					t.Errorf("%s: drawn again it differs:\n%s", file, again)
				}
			}
		}
	}
}

// The lines of a topology as LangGraph draws it: "a->b", with "?" where a route decides.
var lines = map[string]string{
	"path":    "__start__->a a->b b->__end__",
	"endless": "__start__->human agent->human human->agent",
	"agent":   "__start__->think act->think finished->__end__ gave up->__end__ think->act? think->finished? think->gave up?",
	"joins":   "__start__->a __start__->b __start__->c a->d a->e b->d b->d c->d c->e d->__end__ e->__end__",
	// Who leads nowhere else is waited for; "tell" comes after.
	"deferred": "__start__->ask? __start__->look? ask->write look->sum? sum->tell tell->__end__ write->sum",
	"self":     "__start__->again again->__end__? again->again",
	// One node alone leads to the child's start, so lines go to its ends; within "sum" nobody leads in or out.
	"refund": "__start__->triage agent:__end__->collect agent:__end__->pay agent:__start__->agent:think agent:act->agent:think " +
		"agent:finished->agent:__end__ agent:gave up->agent:__end__ agent:think->agent:act? agent:think->agent:finished? " +
		"agent:think->agent:gave up? collect->pay collect:sum:__start__->collect:sum:think collect:sum:act->collect:sum:think " +
		"collect:sum:finished->collect:sum:__end__ collect:sum:gave up->collect:sum:__end__ collect:sum:think->collect:sum:act? " +
		"collect:sum:think->collect:sum:finished? collect:sum:think->collect:sum:gave up? lookup->collect lookup->collect " +
		"pay->__end__? pay->triage? review->collect review->pay triage->__end__? triage->agent:__start__? triage->lookup? triage->review?",
}

func sorted(list []string) string {
	slices.Sort(list)
	return strings.Join(list, " ")
}

func TestMermaidHoldsTheSameLines(t *testing.T) {
	t.Parallel()
	node := regexp.MustCompile(`^\t+(?:subgraph )?(\w[\w-]*)(?:\W.*|)$`)
	line := regexp.MustCompile(`^\t(\S+) (-->|-\.->|==>)(?:\|"[^"|]*"\|)? (\S+)$`)
	hex := regexp.MustCompile(`-[0-9a-f]{2}`)
	name := func(id string) string {
		id = strings.TrimPrefix(id, "n_")
		return hex.ReplaceAllStringFunc(id, func(s string) string {
			var c byte
			fmt.Sscanf(s, "-%02x", &c)
			return string([]byte{c})
		})
	}
	for graph, want := range lines {
		nodes, got := map[string]bool{}, []string{}
		for _, l := range strings.Split(read(t, graphs[graph], -1).Mermaid(), "\n") {
			if m := line.FindStringSubmatch(l); m != nil {
				mark := ""
				if m[2] == "-.->" {
					mark = "?"
				}
				got = append(got, name(m[1])+"->"+name(m[3])+mark)
				if !nodes[m[1]] || !nodes[m[3]] {
					t.Errorf("%s: a line of a node that was not drawn: %s", graph, l)
				}
			} else if m := node.FindStringSubmatch(l); m != nil && !strings.Contains(l, "classDef") {
				nodes[m[1]] = true
			}
		}
		if sorted(got) != want {
			t.Errorf("%s: lines:\n%s\nwant:\n%s", graph, sorted(got), want)
		}
	}
}

func TestJSONHoldsTheSameLines(t *testing.T) {
	t.Parallel()
	for graph, want := range lines {
		doc, err := read(t, graphs[graph], -1).JSON()
		if err != nil {
			t.Fatal(err)
		}
		var g struct {
			Nodes []struct {
				ID, Type string
				Data     any
			}
			Edges []map[string]any
		}
		if err := json.Unmarshal(doc, &g); err != nil {
			t.Fatal(err)
		}
		ids, got := map[any]bool{}, []string{}
		for _, n := range g.Nodes {
			if ids[n.ID] || n.Data == nil || n.Type != "schema" && n.Type != "runnable" {
				t.Errorf("%s: node %+v", graph, n)
			}
			ids[n.ID] = true
		}
		for _, e := range g.Edges {
			mark := ""
			if e["conditional"] == true {
				mark = "?"
			}
			if !ids[e["source"]] || !ids[e["target"]] {
				t.Errorf("%s: a line of a node that is not there: %v", graph, e)
			}
			for key := range e {
				if !slices.Contains([]string{"source", "target", "data", "conditional"}, key) {
					t.Errorf("%s: clients do not know %q", graph, key)
				}
			}
			got = append(got, fmt.Sprint(e["source"], "->", e["target"], mark))
		}
		if sorted(got) != want {
			t.Errorf("%s: lines:\n%s\nwant:\n%s", graph, sorted(got), want)
		}
	}
}

// An end of a child is left out where one line alone goes through it.
func TestOpenedChildren(t *testing.T) {
	t.Parallel()
	const inner = `{"graph":"inner","nodes":[{"name":"__start__","edges":["up"]},{"name":"up"}]}`
	around := func(child, mode string) string {
		return `{"graph":"outer","nodes":[{"name":"__start__","edges":["in"]},{"name":"in","kind":"child","edges":["after"]},{"name":"after"}],
			"children":[{"name":"in","mode":"` + mode + `","graph":` + child + `}]}`
	}
	for name, c := range map[string]struct {
		doc   string
		depth int
		want  string
	}{
		"closed":      {around(inner, "inherit"), 0, "__start__->in after->__end__ in->after"},
		"opened":      {around(inner, "inherit"), 1, "__start__->in:up after->__end__ in:up->after"},
		"two levels":  {around(around(inner, "inherit"), "thread"), 1, "__start__->in:in after->__end__ in:after->after in:in->in:after"},
		"all levels":  {around(around(inner, "inherit"), "thread"), -1, "__start__->in:in:up after->__end__ in:after->after in:in:up->in:after"},
		"no end":      {around(graphs["endless"], "inherit"), -1, "__start__->in:__start__ after->__end__ in->after in:__start__->in:human in:agent->in:human in:human->in:agent"},
		"not told of": {strings.Replace(around(inner, "inherit"), inner, "null", 1), -1, "__start__->in after->__end__ in->after"},
	} {
		g := read(t, c.doc, c.depth)
		var doc struct {
			Edges []struct{ Source, Target string }
		}
		if err := json.Unmarshal([]byte(picture(t, g, "json")), &doc); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range doc.Edges {
			got = append(got, e.Source+"->"+e.Target)
		}
		if sorted(got) != c.want {
			t.Errorf("%s: lines %s, want %s", name, sorted(got), c.want)
		}
	}
	for mode, says := range map[string]string{"inherit": "each run starts empty", "thread": "goes on from the one before", "stateless": "runs again as a whole"} {
		if svg := read(t, around(inner, mode), 0).SVG(); !strings.Contains(svg, says) {
			t.Errorf("%s: the picture does not say %q:\n%s", mode, says, svg)
		}
	}
}

// An SVG is one well-formed document in which every node can be found by its id and its path.
func TestSVGIsForPages(t *testing.T) {
	t.Parallel()
	for name, doc := range graphs {
		g := read(t, doc, -1)
		ids, paths, elements := map[string]bool{}, map[string]bool{}, map[string]bool{}
		for d := xml.NewDecoder(strings.NewReader(g.SVG())); ; {
			token, err := d.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			tag, ok := token.(xml.StartElement)
			if !ok {
				continue
			}
			elements[tag.Name.Local] = true
			for _, a := range tag.Attr {
				switch a.Name.Local {
				case "id":
					if ids[a.Value] {
						t.Errorf("%s: two elements have the id %s", name, a.Value)
					}
					ids[a.Value] = true
				case "data-node":
					paths[a.Value] = true
				case "style":
					t.Errorf("%s: a style that a page's policy would refuse", name)
				}
			}
		}
		if want := nodesOf(g); !maps.Equal(paths, want) || len(ids) != len(want) {
			t.Errorf("%s: nodes %v and %d ids, want %v", name, paths, len(ids), want)
		}
		if elements["style"] || elements["script"] {
			t.Errorf("%s: it holds a style sheet or a script", name)
		}
	}
}

func nodesOf(g *draw.Graph) map[string]bool {
	out := map[string]bool{}
	for _, n := range g.Nodes {
		out[n.ID] = true
		if n.Inside != nil {
			maps.Copy(out, nodesOf(n.Inside))
		}
	}
	return out
}

func TestASCIIIsASCII(t *testing.T) {
	t.Parallel()
	for name, doc := range graphs {
		text := read(t, doc, -1).ASCII()
		if i := strings.IndexFunc(text, func(r rune) bool { return r >= 0x7f && name != "names" }); i >= 0 {
			t.Errorf("%s: %q", name, text[i:])
		}
		for _, l := range strings.Split(text, "\n") {
			if strings.TrimRight(l, " ") != l {
				t.Errorf("%s: a line ends in blanks: %q", name, l)
			}
		}
	}
}

func TestRead(t *testing.T) {
	t.Parallel()
	for _, doc := range []string{"", "{}", "[]", `{"nodes":1}`} {
		if _, err := draw.Read([]byte(doc), 0); err == nil || !strings.Contains(err.Error(), "describes no graph") {
			t.Errorf("%q: %v", doc, err)
		}
	}
	if _, err := draw.Of(broken{}, 0); !errors.Is(err, bytes.ErrTooLarge) {
		t.Errorf("of what cannot be told: %v", err)
	}
}

type broken struct{}

func (broken) JSON() ([]byte, error) { return nil, bytes.ErrTooLarge }
