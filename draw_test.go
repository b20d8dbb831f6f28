package pawl

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/draw"
	"github.com/pawl-dev/pawl/internal/core"
)

func mermaid(t *testing.T, g draw.Drawable) string {
	t.Helper()
	picture, err := draw.Of(g, 0)
	if err != nil {
		t.Fatal(err)
	}
	return picture.Mermaid()
}

// golden compares with a file; UPDATE_GOLDEN=1 writes it instead.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", "draw", name)
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs; got:\n%s\nwant:\n%s", file, got, want)
	}
}

// expense has every kind of node and line.
func expense() *Builder[ledger] {
	return New[ledger]("expense").
		Node("triage", nop, Tries(3)).
		Add(AskNode(question("review"), askShip, decideShip)).
		Add(lookup()).
		Node("collect", nop, Uses(question("why"))).
		Node("pay", nop, Durable(), Version(2)).
		Path(Start, "triage").
		Route("triage", nowhere, "review", "lookup", End).
		Join([]string{"review", "lookup"}, "collect").
		Edge("collect", "pay").
		Edge("pay", End)
}

func TestMermaidGolden(t *testing.T) {
	t.Parallel()
	for name, b := range map[string]*Builder[ledger]{
		"expense": expense(),
		"path":    sound(),
		"ends":    New[ledger]("g").Edge(Start, End),
		"loop":    New[ledger]("g").Node("a", nop).Edge(Start, "a").Edge("a", "a"),
		"joins": New[ledger]("g").Node("a", nop).Node("b", nop).Node("c", nop).Node("d", nop, Durable()).
			Edge(Start, "a").Edge(Start, "b").Join([]string{"a", "b"}, "d").Join([]string{"a", "b"}, "c"),
		"names": New[ledger]("g").Node("end", nop).Node("a b", nop).Node("a-20b", nop).Node(`"#1;" <b>&`, nop, Durable()).
			Node("прийом", nop).Add(AskNode(question("Ship it?"), askShip, decideShip)).
			Path(Start, "end", "a b", "a-20b", `"#1;" <b>&`, "прийом", "Ship it?"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			golden(t, name+".mmd", []byte(mermaid(t, mustBuild(t, b))))
		})
	}
}

func TestJSONGolden(t *testing.T) {
	t.Parallel()
	doc := mustJSON(t, mustBuild(t, expense()))
	var topology core.Topology
	if err := json.Unmarshal(doc, &topology); err != nil {
		t.Fatal(err)
	}
	if got, want := core.GraphDigest(&topology), mustBuild(t, expense()).Digest(); got != want {
		t.Errorf("the drawn topology has digest %s, the graph %s", got, want)
	}
	// Channels are the state's to describe; here only that they are there, in the order of its fields.
	var channels []string
	for _, c := range topology.Channels {
		channels = append(channels, c.Name)
	}
	if got := strings.Join(channels, " "); got != "notes total pick tags" {
		t.Errorf("channels: %s", got)
	}
	topology.Channels = nil
	doc, err := json.MarshalIndent(topology, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "expense.json", append(doc, '\n'))
}

// TestMermaidAnyName draws names of every printable ASCII character and checks the drawing's grammar line by line.
func TestMermaidAnyName(t *testing.T) {
	t.Parallel()
	b := New[ledger]("g")
	count := 0
	for c := rune(' '); c < 0x7f; c++ {
		for _, name := range []string{string(c), "x" + string(c) + "-", string(c) + string(c), fmt.Sprintf("%02x", c)} {
			if strings.ContainsAny(name, "|:") || strings.HasPrefix(name, "__") || b.has(name) {
				continue
			}
			b.Node(name, nop).Edge(Start, name)
			count++
		}
	}
	drawing := mermaid(t, mustBuild(t, b))
	const id = `(?:__start__|__end__|n_(?:[A-Za-z0-9_]|-[0-9a-f]{2})+)`
	node := regexp.MustCompile(`^\t(` + id + `)(?:\["([A-Za-z0-9_ .-]|#\d+;)+"\]|\(\["(Start|End)"\]\))$`)
	line := regexp.MustCompile(`^\t` + id + ` --> ` + id + `$`)
	ids := map[string]bool{}
	for i, l := range strings.Split(strings.TrimSuffix(drawing, "\n"), "\n") {
		m := node.FindStringSubmatch(l)
		switch {
		case i == 0 && l == "graph TD":
		case m != nil:
			if ids[m[1]] {
				t.Errorf("two nodes have the id %s", m[1])
			}
			ids[m[1]] = true
		case !line.MatchString(l):
			t.Errorf("line %d does not read as Mermaid: %s", i+1, l)
		}
	}
	if len(ids) != count+2 {
		t.Errorf("%d ids for %d nodes and two ends", len(ids), count)
	}
}

func (b *Builder[S]) has(name string) bool {
	for _, n := range b.nodes {
		if n.name == name {
			return true
		}
	}
	return false
}
