package pawl

import "time"

// EventKind says what happened.
type EventKind string

// The kinds of event. Those with a Seq are facts that are stored; the others are told to whoever streams the run, and
// to nobody afterwards.
const (
	EventAccepted   EventKind = "accepted"   // a run and its input are stored
	EventTaskStart  EventKind = "task_start" // a node was entered
	EventTaskEnd    EventKind = "task_end"   // a task ended, or failed with Err
	EventTaskWait   EventKind = "task_wait"  // a task waits for an answer
	EventTaskRetry  EventKind = "task_retry" // a try failed with Err and another follows
	EventDropped    EventKind = "dropped"    // a node hid that it waits by returning nil; its writes were discarded
	EventStep       EventKind = "step"       // a step's result is stored, or was read from the journal (Replayed)
	EventQuestion   EventKind = "question"   // a question is stored
	EventAnswer     EventKind = "answer"     // a question changed its state
	EventCheckpoint EventKind = "checkpoint" // a super-step ended
	EventFinished   EventKind = "finished"   // the run stopped; Outcome says how
)

// Event is something that happened in a run.
type Event struct {
	Kind       EventKind `json:"kind"`
	Seq        int64     `json:"seq,omitempty"` // place in the thread's order of facts; 0: not a stored fact
	At         time.Time `json:"at,omitzero"`
	Step       int       `json:"step"`
	Run        string    `json:"run,omitempty"`
	Node       string    `json:"node,omitempty"`
	Task       string    `json:"task,omitempty"`
	Name       string    `json:"name,omitempty"` // of a step or question
	Key        string    `json:"key,omitempty"`
	Question   string    `json:"question,omitempty"`
	State      string    `json:"state,omitempty"` // of the question
	Checkpoint string    `json:"checkpoint,omitempty"`
	Replayed   bool      `json:"replayed,omitempty"`
	Err        error     `json:"-"`
	Error      string    `json:"error,omitempty"`
	Outcome    *Outcome  `json:"outcome,omitempty"`
}
