package draw

import "encoding/json"

// JSON describes the picture as LangGraph's API does: nodes with an id, a type and data, edges with a source and a target.
// What is more than that stands in the nodes' metadata.
func (g *Graph) JSON() ([]byte, error) {
	type data struct {
		ID   []string `json:"id,omitempty"`
		Name string   `json:"name"`
	}
	type facts struct {
		Durable bool     `json:"durable,omitempty"`
		Defer   bool     `json:"defer,omitempty"`
		Mode    string   `json:"mode,omitempty"`
		Uses    []string `json:"uses,omitempty"`
		Stops   string   `json:"__interrupt,omitempty"`
	}
	type node struct {
		ID       string `json:"id"`
		Type     string `json:"type"`
		Data     any    `json:"data"`
		Metadata *facts `json:"metadata,omitempty"`
	}
	type edge struct {
		Source      string `json:"source"`
		Target      string `json:"target"`
		Data        string `json:"data,omitempty"`
		Conditional bool   `json:"conditional,omitempty"`
	}
	out := struct {
		Nodes []node `json:"nodes"`
		Edges []edge `json:"edges"`
	}{[]node{}, []edge{}}
	f := g.flat()
	for _, n := range f.nodes {
		if n.Inside != nil && !f.met(n.ID) {
			continue
		}
		j := node{ID: n.ID, Type: "runnable", Data: data{ID: []string{"pawl", string(n.Kind)}, Name: n.Name}}
		if n.Kind == Start || n.Kind == End {
			j.Type, j.Data = "schema", n.Name
		}
		if n.Durable || n.Defer || n.Mode != "" || len(n.Uses) > 0 || n.Stops != "" {
			j.Metadata = &facts{n.Durable, n.Defer, n.Mode, n.Uses, n.Stops}
		}
		out.Nodes = append(out.Nodes, j)
	}
	for _, e := range f.edges {
		out.Edges = append(out.Edges, edge{e.From, e.To, e.Label, e.Conditional})
	}
	return json.MarshalIndent(out, "", "  ")
}

// met says whether a line leads to or from a node.
func (f *flat) met(id string) bool {
	for _, e := range f.edges {
		if e.From == id || e.To == id {
			return true
		}
	}
	return false
}
