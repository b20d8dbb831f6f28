package cli

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/approval"
	"github.com/pawl-dev/pawl/draw"
	"github.com/pawl-dev/pawl/effect"
)

// shown is a graph with every choice that a table tells.
func shown(t *testing.T) *pawl.Graph[note] {
	t.Helper()
	call := func(context.Context, effect.Op, string) (string, error) { return "", nil }
	wire, post := effect.New("wire", call).Approve(approval.Levels{{For: time.Hour}}), effect.New("post", call)
	why := pawl.Interrupt[string, string]{Name: "why"}
	nop := func(context.Context, *note) error { return nil }
	inner, err := pawl.New[note]("inner").Node("up", nop).Path(pawl.Start, "up", pawl.End).Build()
	if err != nil {
		t.Fatal(err)
	}
	kept, memory, whole := inner.Child("kept"), inner.Child("memory", pawl.PerThread), inner.Child("whole", pawl.Stateless)
	g, err := pawl.New[note]("choices").
		Node("pay", nop, pawl.Durable(), pawl.Uses(wire, post, why, memory, whole)).
		Add(pawl.Sub(kept, func(*note) *note { return &note{} }, func(*note, *pawl.Result[note]) error { return nil })).
		Add(pawl.AskNode(pawl.Interrupt[string, string]{Name: "review"}, func(*note) string { return "" }, func(*note, string) error { return nil })).
		Path(pawl.Start, "review", "kept", "pay").
		Route("pay", func(*note) []pawl.Next { return nil }, "review", pawl.End).
		Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func showing(t *testing.T, g pawl.Registrable, args ...string) (int, string, string) {
	t.Helper()
	var out, talk bytes.Buffer
	env := testEnv(&out, &talk)
	env.Graphs = []pawl.Registrable{g}
	code := New(env).Run(t.Context(), append([]string{"graph", "show"}, args...))
	return code, out.String(), talk.String()
}

// What was chosen for a graph can be read: durability, durable nodes, who asks, what dispatches, what children keep.
func TestChoicesAreVisible(t *testing.T) {
	t.Parallel()
	code, out, talk := showing(t, shown(t), "choices", "-o", "table")
	if code != OK {
		t.Fatal(code, talk)
	}
	for _, line := range []string{
		"durability: sync, unless a run chooses its own",
		"NODE KIND ASKS DISPATCHES THEN OR",
		"(start) node - - review -",
		"pay node, durable why wire (approval) post wire - (end) review",
		"review ask review - kept -",
		"kept child - - pay -",
		"CHILD GRAPH KEEPS kept inner inherit: each run starts empty and is kept under its parent",
		"memory inner per thread: each run goes on from the one before whole inner stateless: runs again as a whole",
		"text last",
	} {
		if !strings.Contains(strings.Join(strings.Fields(out), " "), line) {
			t.Errorf("%q is missing:\n%s", line, out)
		}
	}
}

func TestGraphFormats(t *testing.T) {
	t.Parallel()
	g := shown(t)
	picture, err := draw.Of(g, 0)
	if err != nil {
		t.Fatal(err)
	}
	for format, want := range map[string]string{"mermaid": picture.Mermaid(), "dot": picture.DOT(), "svg": picture.SVG(), "ascii": picture.ASCII()} {
		if code, out, talk := showing(t, g, "choices", "-o", format, "--depth", "0"); code != OK || out != want {
			t.Errorf("%s: code %d, %s\n%s\nwant:\n%s", format, code, talk, out, want)
		}
	}
	if code, out, _ := showing(t, g, "choices", "-o", "ascii"); code != OK || !strings.Contains(out, "| # whole |") || !strings.Contains(out, "| up |") {
		t.Errorf("opened: code %d\n%s", code, out)
	}
	if code, out, _ := showing(t, g, "choices", "-o", "json"); code != OK || !strings.Contains(out, `"durable": true`) || !strings.Contains(out, `"sends": [`) {
		t.Errorf("json: code %d\n%s", code, out)
	}
	if code, _, talk := showing(t, g, "choices", "-o", "png"); code != Usage || !strings.Contains(talk, "ascii, svg, dot, mermaid") {
		t.Errorf("png: code %d, %s", code, talk)
	}
	if code, _, talk := showing(t, g, "choice", "-o", "svg"); code != NotFound || !strings.Contains(talk, "did you mean choices") {
		t.Errorf("another name: code %d, %s", code, talk)
	}
}
