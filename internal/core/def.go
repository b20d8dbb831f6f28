package core

import "context"

// Def is a graph erased to bytes: what the loop runs. It is safe for concurrent use.
type Def interface {
	Topology() *Topology
	// RunTask runs one task: the node's function, then its routes. The engine's side of the task travels in ctx. For
	// the Start task it applies the input and runs the routes of Start.
	RunTask(ctx context.Context, in TaskInput) (TaskOutput, error)
	// Fold runs a fold channel's rule.
	Fold(channel string, old, items []byte) ([]byte, error)
	// Upgrade reads a whole value that was stored when the channel had another type, one of its From.
	Upgrade(channel, from string, whole []byte) ([]byte, error)
	// Interrupt finds a declared question's rules by name.
	Interrupt(name string) (Interrupt, bool)
	// Policy returns how a node is run. It is not to be changed.
	Policy(node string) *Policy
	// Child finds a child's graph by name.
	Child(name string) (Def, bool)
}

// TaskInput is what a task sees.
type TaskInput struct {
	Task   *Task
	Values []*Value // by channel, in the topology's order
	Input  []Write  // the run's input, for the Start task
	Failed error    // what the node's handler takes over; nil: the node itself is entered
}

// TaskOutput is what a task did.
type TaskOutput struct {
	Writes []Write
	Next   []Due
	Cached bool    // the writes are of an earlier task with the same key: the node was not entered
	Keep   *Cached // what the host keeps for others; nil: nothing
}

// Interrupt is a declared question without its types.
type Interrupt interface {
	// Refuse says why an answer to a stored question is not acceptable, or nil: shape first, then the declared rule.
	Refuse(question, answer []byte) error
	// Readable says why a stored question cannot be read by its rules, or nil.
	Readable(question []byte) error
	// Default is the answer that stands in once the question expired; false: the node gets ErrExpired.
	Default(question []byte) ([]byte, bool, error)
	// Schema is the JSON Schema of the answer.
	Schema() []byte
}
