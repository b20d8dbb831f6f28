package core

import "slices"

// Source says what made a checkpoint.
type Source string

// The sources of checkpoints.
const (
	SourceInput Source = "input" // a run was accepted; its input is not yet applied
	SourceLoop  Source = "loop"  // a super-step ended
	SourceEdit  Source = "edit"  // somebody changed the state from outside
	SourceFork  Source = "fork"  // the head was moved to an older checkpoint

	SourceMigrate Source = "migrate" // the thread was moved onto another version of its graph, or back
	SourceForce   Source = "force"   // the same without a migration
)

// Checkpoint is the state of a thread at a super-step boundary. It is immutable.
type Checkpoint struct {
	N      int64  // its number in the thread: order of writing
	ID     string // UUIDv7 that carries N
	Parent int64  // number of the parent, 0 for none
	Step   int    // -1 for the first input
	Source Source
	Run    int64 // number of the run's attempt
	Seq    int64 // place in the thread's order of facts; 0 until stored

	Values  []*Value            // by channel, in the topology's order; nil: never written
	Due     []Due               // nodes by name, then sends in order
	Later   []string            // deferred nodes that were led to while others are due, sorted
	Joins   map[string][]string // joins that some, not all, sources have reached
	Visited []string            // paths of nodes that have run in this run, sorted
	Graph   int                 // which of the run's graphs it was made under
	Frame   *Frame              // the run of a child that it belongs to; nil: it is the thread's own
	Merged  []Result            // of its super-step: those that no row of their own tells, in plan order
	Told    bool                // Merged is what the difference from the parent tells
	Quiet   bool                // no task of its super-step wrote anything
}

// Plan returns the tasks of the super-step that follows cp: nodes by name, then sends in the order of sending. It is
// the same for the same checkpoint, always.
func Plan(cp *Checkpoint, thread, namespace string) []Task {
	return PlanIn(nil, cp, thread, namespace, TaskID)
}

// PlanIn is Plan in the room of an earlier plan that nobody needs any more, with identities by id.
func PlanIn(tasks []Task, cp *Checkpoint, thread, namespace string, id func(Place, string, int) string) []Task {
	place := Place{Thread: thread, Namespace: namespace, Checkpoint: cp.ID, Step: cp.Step + 1}
	tasks = slices.Grow(tasks, len(cp.Due))
	sends := 0
	for i := range cp.Due {
		d, index := &cp.Due[i], -1
		if d.Send {
			index = sends
			sends++
		}
		tasks = append(tasks, Task{ID: id(place, d.Node, index), Node: d.Node, Index: index, Arg: d.Arg, Step: place.Step, Outer: namespace, Timeout: d.Timeout})
	}
	return tasks
}
