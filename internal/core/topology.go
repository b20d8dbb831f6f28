package core

// Start and End are the names of the graph's two ends. A node cannot have them.
const (
	Start = "__start__"
	End   = "__end__"
)

// Merge names the rule by which writes to a channel combine.
type Merge string

// The merge rules. Last, Once and Ephemeral take one writing task a super-step, the others any number.
const (
	MergeLast      Merge = "last"
	MergeAppend    Merge = "append"
	MergeSum       Merge = "sum"
	MergeMap       Merge = "map"
	MergeFold      Merge = "fold"
	MergeOnce      Merge = "once"
	MergeEphemeral Merge = "ephemeral"
)

// Channel is one field of the state.
type Channel struct {
	Name     string `json:"name"`
	Merge    Merge  `json:"merge"`
	Type     string `json:"type"`                // stable description of the value's shape; compared between versions
	Number   Number `json:"number,omitempty"`    // for sums
	Optional bool   `json:"optional,omitempty"`  // a run in flight may go on without it ever having been written
	Private  bool   `json:"private,omitempty"`   // no input sets it, and no outcome and no stream shows it
	NoInput  bool   `json:"no_input,omitempty"`  // no input sets it
	NoOutput bool   `json:"no_output,omitempty"` // no outcome shows it
	Hidden   bool   `json:"hidden,omitempty"`    // the engine's own: no part of the state that nodes and people see

	Was  []string `json:"was,omitempty"`  // names under which it was stored before, the newest first
	From []string `json:"from,omitempty"` // types of stored values that an upgrade reads, sorted
}

// Number is the arithmetic of a sum.
type Number string

// The three arithmetics. An overflow is an error, never a wrap.
const (
	Signed   Number = "int"
	Unsigned Number = "uint"
	Float    Number = "float"
)

// NodeKind says what a node is made of.
type NodeKind string

// The kinds of node.
const (
	KindNode   NodeKind = "node"
	KindAsk    NodeKind = "ask"    // only a question: no function runs again on the answer
	KindWorker NodeKind = "worker" // reached by sends alone, with a payload
	KindChild  NodeKind = "child"  // runs another graph, of the child with its name
)

// Node is what the engine knows of a node without its code.
type Node struct {
	Name    string   `json:"name"`
	Kind    NodeKind `json:"kind"`
	Version int      `json:"version"`
	Durable bool     `json:"durable,omitempty"`
	Defer   bool     `json:"defer,omitempty"`   // runs once nothing else is due
	Uses    []string `json:"uses,omitempty"`    // names of interrupts and effects, sorted
	Asks    []string `json:"asks,omitempty"`    // of these, what a person answers or approves
	Sends   []string `json:"sends,omitempty"`   // of these, the effects
	Edges   []string `json:"edges,omitempty"`   // plain targets, sorted
	Targets []string `json:"targets,omitempty"` // declared targets of routes, sorted

	Labels map[string]string `json:"labels,omitempty"` // of lines in pictures, by where they lead
}

// Join makes To due once all of From finished since it last fired.
type Join struct {
	From []string `json:"from"` // sorted
	To   string   `json:"to"`
}

// Name is the join's own name, for errors and records.
func (j Join) Name() string {
	s := ""
	for i, f := range j.From {
		if i > 0 {
			s += "+"
		}
		s += f
	}
	return s + ">" + j.To
}

// Topology is a graph without its code: what plans, versions and drawings read. Nodes are sorted by name and include
// Start; channels are in the order of the state's fields, hidden ones behind them.
type Topology struct {
	Graph    string    `json:"graph"`
	Nodes    []Node    `json:"nodes"`
	Joins    []Join    `json:"joins,omitempty"`
	Channels []Channel `json:"channels"`
	Children []Child   `json:"children,omitempty"`   // sorted by name
	AskAtTop bool      `json:"ask_at_top,omitempty"` // nodes of children may not ask
}

// Node finds a node by name.
func (t *Topology) Node(name string) (*Node, bool) {
	from, to := 0, len(t.Nodes)
	for from < to {
		i := (from + to) / 2
		switch n := &t.Nodes[i]; {
		case n.Name == name:
			return n, true
		case n.Name < name:
			from = i + 1
		default:
			to = i
		}
	}
	return nil, false
}

// Channel finds a channel's place by name, or -1.
func (t *Topology) Channel(name string) int {
	for i := range t.Channels {
		if t.Channels[i].Name == name {
			return i
		}
	}
	return -1
}
