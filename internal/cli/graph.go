package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/draw"
)

// drawn is what a graph can tell of itself.
type drawn interface {
	Name() string
	Digest() string
	draw.Drawable
}

// graphLine is one line of a list of graphs.
type graphLine struct {
	Graph   string `json:"graph"`
	Digest  string `json:"digest,omitempty"` // of the code that is here
	Served  bool   `json:"served"`           // this program has its code
	Threads int    `json:"threads"`          // in the database, where there is one
}

func (p *Program) graph() *cobra.Command {
	c := p.group("graph", "Graphs: their pictures and versions, and what becomes of threads under a new one", `  pawl graph list
  pawl graph show refund -o mermaid
  pawl graph versions refund
  pawl graph drain refund@9f2c41d0 --reason "replaced"`)
	c.Aliases = []string{"graphs"}
	c.AddCommand(p.graphList(), p.graphShow(), p.graphCheck(), p.graphVersions(), p.graphDrain(), p.graphMigrate(), p.graphForce())
	return c
}

func (p *Program) graphList() *cobra.Command {
	return &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "Graphs of this program, and of the threads in the database", Args: p.takes(0, "no argument"),
		Example: "  pawl graph list -o json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			list := []graphLine{}
			at := map[string]int{}
			for _, g := range p.drawings() {
				at[g.Name()] = len(list)
				list = append(list, graphLine{Graph: g.Name(), Digest: g.Digest(), Served: true})
			}
			err := p.within(cmd.Context(), func(h *home) error {
				threads, _, err := collect(cmd, h.eng, "", 0, func(pawl.ThreadInfo) bool { return true })
				for _, t := range threads {
					i, known := at[t.Graph]
					if !known {
						i, at[t.Graph] = len(list), len(list)
						list = append(list, graphLine{Graph: t.Graph})
					}
					list[i].Threads++
				}
				return err
			})
			if CodeOf(err) == Unreachable && len(list) > 0 { // the code needs no database
				err = nil
			}
			if err != nil {
				return err
			}
			return p.Emit(list, func(g *Page) { tableOfGraphs(g, list) })
		},
	}
}

func tableOfGraphs(g *Page, list []graphLine) {
	if len(list) == 0 {
		g.Line("no graphs")
		return
	}
	var rows [][]string
	for _, l := range list {
		code := "not in this program"
		if l.Served {
			code = short(l.Digest, 13)
		}
		rows = append(rows, []string{l.Graph, code, fmt.Sprint(l.Threads)})
	}
	g.Table([]string{"GRAPH", "CODE", "THREADS"}, rows...)
}

// pictures are the formats in which a graph is drawn.
var pictures = map[string]func(*draw.Graph) string{
	"mermaid": (*draw.Graph).Mermaid, "dot": (*draw.Graph).DOT, "svg": (*draw.Graph).SVG, "ascii": (*draw.Graph).ASCII,
}

func (p *Program) graphShow() *cobra.Command {
	depth := 1
	c := &cobra.Command{
		Use: "show GRAPH", Short: "Nodes, lines, children and channels of a graph; -o ascii, svg, dot or mermaid draws it",
		Args:              p.takes(1, "a graph's name"),
		Example:           "  pawl graph show refund\n  pawl graph show refund -o ascii\n  pawl graph show refund -o svg --depth 2 > refund.svg",
		Annotations:       map[string]string{moreFormats: "ascii svg dot mermaid"},
		ValidArgsFunction: p.completeGraphs,
		RunE: func(_ *cobra.Command, args []string) error {
			if err := p.needs(args[0], "graph show"); err != nil {
				return err
			}
			for _, d := range p.drawings() {
				if d.Name() == args[0] {
					return p.showGraph(d, depth)
				}
			}
			return nil
		},
	}
	c.Flags().IntVar(&depth, "depth", depth, "how many levels of children a picture opens; -1: all")
	return c
}

func (p *Program) showGraph(d drawn, depth int) error {
	if picture, ok := pictures[p.output]; ok {
		g, err := draw.Of(d, depth)
		if err == nil {
			_, err = fmt.Fprint(p.Stdout, picture(g))
		}
		return err
	}
	doc, err := d.JSON()
	if err != nil {
		return err
	}
	return errors.Join(p.Emit(json.RawMessage(doc), func(g *Page) { err = tableOfGraph(g, d, doc) }), err)
}

func (p *Program) drawings() []drawn {
	var out []drawn
	for _, g := range p.Graphs {
		if d, ok := g.(drawn); ok {
			out = append(out, d)
		}
	}
	return out
}

// topology is what a table tells of a graph.
type topology struct {
	Nodes []struct {
		Name                              string
		Kind                              string
		Version                           int
		Durable                           bool
		Uses, Asks, Sends, Edges, Targets []string
	}
	Joins []struct {
		From []string
		To   string
	}
	Children []struct {
		Name, Mode string
		Graph      struct{ Graph string }
	}
	Channels []struct {
		Name, Merge, Type string
		Hidden, Private   bool
		NoInput           bool `json:"no_input"`
		NoOutput          bool `json:"no_output"`
	}
}

func tableOfGraph(g *Page, d drawn, doc []byte) error {
	var t topology
	if err := json.Unmarshal(doc, &t); err != nil {
		return err
	}
	g.Line("graph %s, version %s", d.Name(), d.Digest())
	g.Line("durability: %s, unless a run chooses its own; durable nodes are on disk before anything goes on, in every run", pawl.Sync)
	var rows [][]string
	for _, n := range t.Nodes {
		kind := n.Kind
		if n.Durable {
			kind += ", durable"
		}
		asks := slices.Clone(n.Asks)
		for i, a := range asks {
			if slices.Contains(n.Sends, a) {
				asks[i] = a + " (approval)"
			}
		}
		rows = append(rows, []string{place(n.Name), kind, orDash(asks), orDash(n.Sends), orDash(n.Edges), orDash(n.Targets)})
	}
	g.Table([]string{"NODE", "KIND", "ASKS", "DISPATCHES", "THEN", "OR"}, rows...)
	for _, j := range t.Joins {
		g.Line("join of %s into %s", strings.Join(j.From, ", "), j.To)
	}
	rows = nil
	for _, c := range t.Children {
		rows = append(rows, []string{c.Name, c.Graph.Graph, draw.Mode(c.Mode)})
	}
	if len(rows) > 0 {
		g.Line("")
		g.Table([]string{"CHILD", "GRAPH", "KEEPS"}, rows...)
	}
	rows = nil
	for _, c := range t.Channels {
		if c.Hidden {
			continue
		}
		for _, limit := range []struct {
			holds bool
			said  string
		}{{c.Private, "private"}, {c.NoInput, "no input"}, {c.NoOutput, "no output"}} {
			if limit.holds {
				c.Merge += ", " + limit.said
			}
		}
		rows = append(rows, []string{c.Name, c.Merge, short(c.Type, widest)})
	}
	g.Line("")
	g.Table([]string{"CHANNEL", "RULE", "TYPE"}, rows...)
	return nil
}

func orDash(words []string) string {
	if len(words) == 0 {
		return "-"
	}
	named := make([]string, len(words))
	for i, w := range words {
		named[i] = place(w)
	}
	return strings.Join(named, " ")
}

// place is the name of a node as people say it.
func place(node string) string {
	switch node {
	case pawl.Start:
		return "(start)"
	case pawl.End:
		return "(end)"
	}
	return node
}
