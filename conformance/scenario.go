package conformance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
)

// Scenario is a graph over the channels log (append), n (sum), x and y (last), messages (append), and what is done with one thread of it.
type Scenario struct {
	ID    string `json:"id"`
	About string `json:"about"`
	Nodes []Node `json:"nodes"`
	Edges []Edge `json:"edges"`
	Joins []Join `json:"joins,omitempty"`
	Mode  string `json:"durability,omitempty"` // sync (default), async, exit
	Limit int    `json:"limit,omitempty"`      // of super-steps; 0: more than it needs
	Stops
	Inputs    []string `json:"inputs,omitempty"`  // channels that a run may be given; none: all
	Outputs   []string `json:"outputs,omitempty"` // channels that its caller is shown; none: all
	Script    []Act    `json:"script"`
	Differs   string   `json:"differs,omitempty"`   // why Pawl's trace is another one, on purpose
	Excluded  string   `json:"excluded,omitempty"`  // why only one of the two can run it
	Streams   string   `json:"streams,omitempty"`   // why the updates that Pawl shows are others, on purpose, where the traces agree
	Uncounted string   `json:"uncounted,omitempty"` // why starts of nodes that ask are not compared
}

// Stops are a graph's breakpoints, by node or "*".
type Stops struct {
	Before []string `json:"before,omitempty"`
	After  []string `json:"after,omitempty"`
}

// Node is a function: its lines are done in order. One named __start__ is none: it has routes only.
type Node struct {
	Name   string  `json:"name"`
	Worker bool    `json:"worker,omitempty"` // runs once for each payload sent to it
	Do     []Line  `json:"do,omitempty"`
	Handle []Line  `json:"handle,omitempty"` // done once its tries are over, in the node's place
	Routes []Route `json:"routes,omitempty"`
	Tries  int     `json:"tries,omitempty"`
	Defer  bool    `json:"defer,omitempty"`
	Cache  bool    `json:"cache,omitempty"` // its results are reused for the same state
	Child  *Child  `json:"child,omitempty"` // runs that instead of lines
}

// Child is a graph inside a node. It is given x (the payload in a worker); at its end the node appends "node=log of the
// child" to its own log.
type Child struct {
	Memory string `json:"memory,omitempty"` // inherit (default), thread, none
	Nodes  []Node `json:"nodes"`
	Edges  []Edge `json:"edges"`
	Joins  []Join `json:"joins,omitempty"`
	Stops
}

// Line is one thing that a node does; one of its fields is set.
type Line struct {
	Write   *Values  `json:"write,omitempty"`
	Replace []string `json:"replace,omitempty"` // all that log holds
	Note    string   `json:"note,omitempty"`    // appends "node:channel=value as the node sees it" to log, of messages the texts; "arg": the payload; "error": what is handled
	Ask     string   `json:"ask,omitempty"`     // asks that, and appends "question=answer" to log
	Of      string   `json:"of,omitempty"`      // ends the question with ":value" of a channel, or of "arg"
	Fail    *Fail    `json:"fail,omitempty"`
	Goto    *Way     `json:"goto,omitempty"` // leads there, beside the node's lines
	Tell    string   `json:"tell,omitempty"` // tells "node: that" to who streams, of a worker "node(arg): that"
	Speak   *Speech  `json:"speak,omitempty"`

	Only  string `json:"only,omitempty"`  // for that payload; others skip it
	First int    `json:"first,omitempty"` // in that many entries of the node; later ones skip it
}

// Fail makes the node's first entries fail, after some that do not.
type Fail struct {
	With  string `json:"with"`
	First int    `json:"first"`
	After int    `json:"after,omitempty"`
}

// Speech is a message that is streamed in tokens, or that nobody hears, and then written. A worker's has its payload behind
// its id.
type Speech struct {
	ID     string   `json:"id"`
	Tokens []string `json:"tokens,omitempty"`
	Text   string   `json:"text,omitempty"` // of one without tokens
}

// Message is an item of the channel messages.
type Message struct {
	ID   string `json:"id"`
	Text string `json:"text"`
}

// Values are writes, or the state.
type Values struct {
	Log []string `json:"log,omitempty"`
	N   int64    `json:"n,omitempty"`
	X   *string  `json:"x,omitempty"`
	Y   *string  `json:"y,omitempty"`

	Messages []Message `json:"messages,omitempty"`
}

// Edge leads from one node to another.
type Edge [2]string

// Join leads to a node once all of From finished.
type Join struct {
	From []string `json:"from"`
	To   string   `json:"to"`
}

// Route chooses the first of its ways whose condition holds.
type Route struct {
	Name string `json:"name"` // of its function; to_b is one that is declared in both languages, the others are made
	Ways []Way  `json:"ways"`
}

// Way leads somewhere while n is below a bound (0: always).
type Way struct {
	Below int64    `json:"below,omitempty"`
	To    []string `json:"to,omitempty"`
	Send  []Send   `json:"send,omitempty"`
}

// Send is one payload for a worker.
type Send struct {
	To  string `json:"to"`
	Arg string `json:"arg"`
}

// Act is one thing that a caller does; one of its fields is set.
type Act struct {
	Run    *Values           `json:"run,omitempty"`
	Answer map[string]string `json:"answer,omitempty"` // by what was asked
	Again  bool              `json:"again,omitempty"`  // go on with what failed
	GoOn   bool              `json:"go_on,omitempty"`  // with whatever there is, without an answer
	Enter  string            `json:"enter,omitempty"`  // the same, with that node, which waits, entered again
	Replay string            `json:"replay,omitempty"` // from the newest checkpoint before that node
	From   *int              `json:"from,omitempty"`   // replays a checkpoint by its place; 0: the first that was made
	Fork   *Fork             `json:"fork,omitempty"`
	In     string            `json:"in,omitempty"` // of a replay or fork: at the child's checkpoint, of the newest run
	Copy   *Copy             `json:"copy,omitempty"`
	Edit   *Fork             `json:"edit,omitempty"` // writes at the head, and does not go on
	Delete bool              `json:"delete,omitempty"`
	Clear  bool              `json:"clear,omitempty"` // forgets the results that are kept
}

// Fork goes back to the newest checkpoint before a node, or to a place, writes as another node, and goes on. An edit as
// __end__ writes nothing and gives the run up.
type Fork struct {
	Before string `json:"before,omitempty"`
	From   *int   `json:"from,omitempty"`
	As     string `json:"as,omitempty"`
	Write  Values `json:"write"`
}

// Copy goes on from another version of a checkpoint, beside it: the newest before a node, or by its place. Its tasks came
// to what is written, those that none of them is do not run; without any they run again.
type Copy struct {
	Before string `json:"before,omitempty"`
	From   *int   `json:"from,omitempty"`
	Tasks  []Fork `json:"tasks,omitempty"`
}

// Read decodes a scenario strictly.
func Read(doc []byte) (*Scenario, error) {
	s := &Scenario{}
	d := json.NewDecoder(bytes.NewReader(doc))
	d.DisallowUnknownFields()
	if err := d.Decode(s); err != nil {
		return nil, fmt.Errorf("conformance: a scenario cannot be read: %w", err)
	}
	return s, nil
}

// Trace is what could be seen of a scenario, without ids and times.
type Trace struct {
	Refused bool           `json:"refused,omitempty"` // the graph was not built
	Acts    []Seen         `json:"acts"`
	History []Checkpoint   `json:"history"` // the newest first
	Entries map[string]int `json:"entries"` // starts of each node
	Shown   []Shown        `json:"-"`       // what a client saw that streamed each act; kept apart
}

// Seen is what the caller of an act saw.
type Seen struct {
	Status string   `json:"status"` // done, waiting, failed, deleted, cleared; skipped: there was nothing to do it on; refused
	Cause  string   `json:"cause,omitempty"`
	Values *Values  `json:"values,omitempty"` // not after a conflict
	Next   []string `json:"next,omitempty"`
	Asks   []string `json:"asks,omitempty"`   // what is asked, sorted
	Output *Values  `json:"output,omitempty"` // what the caller was given, of the first act of a scenario with outputs
}

// Checkpoint is one item of the history.
type Checkpoint struct {
	Step   int      `json:"step"`
	Source string   `json:"source"` // input, loop, fork
	Parent int      `json:"parent"` // its place in the history; -1: none
	Next   []string `json:"next"`
	Values Values   `json:"values"`
}

// ReadFile reads a file of scenarios strictly.
func ReadFile(path string) ([]*Scenario, error) {
	doc, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var raw []json.RawMessage
	if err := json.Unmarshal(doc, &raw); err != nil {
		return nil, fmt.Errorf("conformance: %s: %w", path, err)
	}
	out := make([]*Scenario, len(raw))
	for i := range raw {
		if out[i], err = Read(raw[i]); err != nil {
			return nil, fmt.Errorf("%s: scenario %d: %w", path, i+1, err)
		}
	}
	return out, nil
}
