package stream

import (
	"encoding/json"
	"time"

	"github.com/pawl-dev/pawl"
)

// State is the whole state.
type State struct {
	Values     json.RawMessage `json:"values"`
	Interrupts []Interrupt     `json:"interrupts,omitempty"` // what is asked: the run stopped here
}

// Update is what one task wrote, or one question.
type Update struct {
	Node string `json:"node"`
	Task string `json:"task"`
	// Writes is an object by channel: new items of an Append, what a Sum grows by, new entries of a Map (null: deleted), and
	// other values whole; null: nothing. A channel that merges and was written whole is {"__overwrite__": value}.
	Writes     json.RawMessage `json:"writes,omitempty"`
	Again      bool            `json:"again,omitempty"`  // told before, of a checkpoint that an edit replaced
	Cached     bool            `json:"cached,omitempty"` // the result is of an earlier task like it: the node was not entered
	Interrupts []Interrupt     `json:"interrupts,omitempty"`
}

// Interrupt is a question.
type Interrupt struct {
	ID    string          `json:"id"`
	Name  string          `json:"name"`
	Node  string          `json:"node"`
	Value json.RawMessage `json:"value,omitempty"` // what is asked, as stored
	State string          `json:"state"`
}

func interrupts(questions []pawl.Question) []Interrupt {
	var out []Interrupt
	for _, q := range questions {
		out = append(out, Interrupt{ID: q.ID, Name: q.Name, Node: q.Node, Value: q.Body, State: q.State})
	}
	return out
}

// Message is a whole message that a task wrote or pushed, or a token of one that is being made. What is said of where it comes from
// are the Chunk's fields and these, and nothing that the run was given.
type Message struct {
	ID    string          `json:"id,omitempty"`
	Node  string          `json:"node"`
	Task  string          `json:"task"`
	Try   int             `json:"try,omitempty"`   // of a token, and of what is pushed: a later try of the node begins anew
	Token *Token          `json:"token,omitempty"` // nil: the message is whole
	Whole json.RawMessage `json:"whole,omitempty"`
}

// Said is what a node said.
type Said struct {
	Name  string          `json:"name"`
	Value json.RawMessage `json:"value"`
	Node  string          `json:"node"`
	Task  string          `json:"task"`
	Try   int             `json:"try"`
	Lost  int             `json:"lost,omitempty"` // nothing was said: so much went by too fast
}

// Start is a task that is due, or a step that is called now: the latter is provisional, told to those who are there, and
// not of a step whose result is read from the journal or a cache. A step that fails has no End: its task has one.
type Start struct {
	ID    string          `json:"id"`
	Node  string          `json:"node"`            // or the name of the step
	In    string          `json:"in,omitempty"`    // of a step: the task that called it
	Key   string          `json:"key,omitempty"`   // of a step
	Input json.RawMessage `json:"input,omitempty"` // of a task: the state, or a worker's payload
}

// End is how a task ended, or that it waits; or that a step's result is stored, which is not shown.
type End struct {
	ID         string          `json:"id"`
	Node       string          `json:"node"`             // or the name of the step
	In         string          `json:"in,omitempty"`     // of a step: the task that called it
	Key        string          `json:"key,omitempty"`    // of a step
	Result     json.RawMessage `json:"result,omitempty"` // as Writes of an Update
	Error      string          `json:"error,omitempty"`
	Cached     bool            `json:"cached,omitempty"` // as in an Update
	Interrupts []Interrupt     `json:"interrupts,omitempty"`
}

// Detail is one thing of the debug mode.
type Detail struct {
	Step    int       `json:"step"`
	At      time.Time `json:"at,omitzero"`
	Type    string    `json:"type"` // checkpoint, task, task_result
	Payload any       `json:"payload"`
}

// Life is how a run stands.
type Life struct {
	Event string `json:"event"` // running, resumed, interrupted, completed, failed, cancelled
	Node  string `json:"node,omitempty"`
	Error string `json:"error,omitempty"`
}
