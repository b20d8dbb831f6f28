package pawl

import (
	"context"
	"encoding/json"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/local"
)

// EventKind says what happened.
type EventKind string

// The kinds of event. Those with a Seq are facts that are stored; the others are told to whoever streams the run, and
// to nobody afterwards, but for custom ones, see [Emit]. The start of a step is told to who watches in this process, too.
const (
	EventAccepted   EventKind = "accepted"   // an attempt of a run and its input are stored
	EventResumed    EventKind = "resumed"    // a run goes on from the head, after it had stopped or its process died
	EventTaskStart  EventKind = "task_start" // a node was entered
	EventTaskEnd    EventKind = "task_end"   // a task ended: Writes says with what, Err that it failed
	EventTaskWait   EventKind = "task_wait"  // a task waits for an answer
	EventTaskRetry  EventKind = "task_retry" // a try failed with Err and another follows
	EventDropped    EventKind = "dropped"    // a node hid that it waits by returning nil; its writes were discarded
	EventStepStart  EventKind = "step_start" // the function of a step is called, which was not told before; no fact, see [Event].Address
	EventStep       EventKind = "step"       // a step's result is stored, or was read from the journal (Replayed)
	EventQuestion   EventKind = "question"   // a question is stored
	EventAnswer     EventKind = "answer"     // a question changed its state
	EventCheckpoint EventKind = "checkpoint" // a super-step ended, or a run or an edit made one outside of any
	EventFinished   EventKind = "finished"   // the run stopped; State says how, and to whoever streams it Outcome
	EventCustom     EventKind = "custom"     // a node said something with Emit
	EventLost       EventKind = "lost"       // Count custom events are gone that this reader was too slow for
)

// StepHandedOver is the Name of an EventStep that is no step of its node: the journal holds the node's failure, which its
// [OnError] handler takes over.
const StepHandedOver = "__error__"

// Event is something that happened in a run.
type Event struct {
	Kind       EventKind       `json:"kind"`
	Seq        int64           `json:"seq,omitempty"` // place in the thread's order of facts; 0: not stored, or not yet
	At         time.Time       `json:"at,omitzero"`
	Step       int             `json:"step"`           // of a checkpoint; of what a task did, the one that it leads to
	Path       string          `json:"path,omitempty"` // of the child that it happened in; empty: in the thread's own run
	Run        string          `json:"run,omitempty"`
	Attempt    string          `json:"attempt,omitempty"`
	Node       string          `json:"node,omitempty"`
	Task       string          `json:"task,omitempty"`
	Try        int             `json:"try,omitempty"`  // of a custom event: which entry of the node in this start of the run
	Name       string          `json:"name,omitempty"` // of a step, question or custom event
	Key        string          `json:"key,omitempty"`
	Address    string          `json:"address,omitempty"` // of a step and of its start: the same in each entry of its task
	Question   string          `json:"question,omitempty"`
	Data       json.RawMessage `json:"data,omitempty"`  // of a question what is asked, as stored; of a custom event its value
	State      string          `json:"state,omitempty"` // of the question; of the run that stopped its status
	Checkpoint string          `json:"checkpoint,omitempty"`
	Source     string          `json:"source,omitempty"` // of a checkpoint, as in a Snapshot
	Quiet      bool            `json:"quiet,omitempty"`  // a checkpoint of a super-step in which no task wrote anything
	Writes     []Written       `json:"writes,omitempty"` // of a task that ended well, in the order of the channels
	Replayed   bool            `json:"replayed,omitempty"`
	Cached     bool            `json:"cached,omitempty"` // the result is of an earlier task or step like it: nothing was called
	Count      int             `json:"count,omitempty"`
	Err        error           `json:"-"`
	Error      string          `json:"error,omitempty"`
	Outcome    *Outcome        `json:"outcome,omitempty"`

	snapshot func(context.Context) (*Snapshot, error)
	after    int64 // of a custom event: the newest fact that it came after, as far as its run knows
}

// Snapshot is how things stood at an event: of EventCheckpoint the checkpoint as it was made, its tasks due; of
// EventResumed and EventFinished the head, with what of its tasks had ended, their children and which questions were open in
// them, those of their children too. Of other events, and where Prune took it, it is nil. It is read or encoded when it is
// asked for, and may be asked for at any time. Private channels are left out, which State and History show.
func (e Event) Snapshot(ctx context.Context) (*Snapshot, error) {
	if e.snapshot == nil {
		return nil, nil
	}
	return e.snapshot(ctx)
}

// Written is what a task did to one channel.
type Written struct {
	Channel string `json:"channel"`
	// Value is JSON: an Append's new items, what a Sum grows by, a Map's new entries (null: deleted), the items for a
	// Fold, and the value of every other channel.
	Value   json.RawMessage `json:"value,omitempty"`
	Replace bool            `json:"replace,omitempty"` // an Append, Sum, Map or Fold is written whole
	Clear   bool            `json:"clear,omitempty"`   // the channel holds nothing any more
}

func writtenOf(t *core.Topology, writes []core.Write) []Written {
	var out []Written
	for _, w := range writes {
		c := t.Channel(w.Channel)
		if c < 0 || t.Channels[c].Hidden {
			continue
		}
		merge := t.Channels[c].Merge
		single := merge == core.MergeLast || merge == core.MergeEphemeral || merge == core.MergeOnce
		one := Written{Channel: w.Channel, Value: w.Data, Clear: w.Op == core.OpClear, Replace: w.Op == core.OpSet && !single}
		if w.Op == core.OpMerge {
			one.Value = entries(w.Data)
		}
		out = append(out, one)
	}
	return out
}

// entries shows a patch of a Map as an object, what it deletes as null.
func entries(doc []byte) json.RawMessage {
	var p core.Patch
	if json.Unmarshal(doc, &p) != nil {
		return doc
	}
	out := map[string]json.RawMessage{}
	for _, key := range p.Delete {
		out[key] = json.RawMessage("null")
	}
	for key, value := range p.Set {
		out[key] = value
	}
	doc, err := json.Marshal(out)
	if err != nil {
		return nil
	}
	return doc
}

// shown is what of the values is shown: core.Object or core.Public.
type shown = func(*core.Topology, []*core.Value) (json.RawMessage, error)

// bare is a snapshot of a checkpoint with its values, as it stood when it was made.
func bare(identity string, cp *core.Checkpoint, run *core.Run, topology *core.Topology, parent string, show shown) (*Snapshot, error) {
	out := &Snapshot{
		Checkpoint: cp.ID, Parent: parent, Step: cp.Step, Source: string(cp.Source), Run: run.ID, Attempt: run.Attempt,
		At: local.StampOf(cp.ID).UTC(), Next: []string{},
	}
	if f := cp.Frame; f != nil {
		out.Path, out.Child, out.Key = Path(f.Path), f.Child(), f.Key
	}
	var err error
	if out.Values, err = show(topology, cp.Values); err != nil {
		return nil, err
	}
	for _, task := range core.Plan(cp, identity, string(out.Path)) {
		state := TaskState{ID: task.ID, Node: task.Node, Path: task.Path(), State: "due", Arg: task.Arg}
		if n, ok := topology.Node(task.Node); ok {
			state.Kind = string(n.Kind)
		}
		out.Next, out.Tasks = append(out.Next, task.Node), append(out.Tasks, state)
	}
	return out, nil
}
