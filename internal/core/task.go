package core

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"time"
)

// Due is one thing that the next super-step must run: a node, or a send to one with its payload.
type Due struct {
	Node string
	Send bool
	Arg  []byte // JSON payload of a send

	Timeout time.Duration // of one try of a send's task; 0: the node's
}

// Task is one execution of one node in one super-step. Its ID is the same for the same checkpoint, graph and place,
// on every host and in every process, and another everywhere else.
type Task struct {
	ID    string
	Node  string
	Index int // place among the sends of the super-step; -1 for a node reached by edges
	Arg   []byte
	Step  int
	Outer string // path of the child that it runs in; empty: none

	Timeout time.Duration // of one try; 0: the node's
}

// Path shows a task's place to people: node:<id>, behind the paths of the tasks around it.
func (t *Task) Path() string {
	if t.Outer != "" {
		return t.Outer + "|" + t.Node + ":" + t.ID
	}
	return t.Node + ":" + t.ID
}

// Place is where tasks hang from: a checkpoint of a thread.
type Place struct {
	Lineage    string
	Thread     string
	Namespace  string
	Checkpoint string
	Step       int
}

// TaskID is hash(thread, namespace, checkpoint, node, trigger or send index).
func TaskID(p Place, node string, index int) string {
	trigger := "edge"
	if index >= 0 {
		trigger = "send/" + strconv.Itoa(index)
	}
	return ID("task", p.Thread, p.Namespace, p.Checkpoint, node, trigger)
}

// NumberedID names a task of a run that is stored nowhere. It costs a quarter of [TaskID], and is as unique while its
// checkpoints' identities are: they are of one run.
func NumberedID(p Place, node string, index int) string {
	var room [128]byte
	return string(append(append(strconv.AppendInt(append(append(room[:0], p.Checkpoint...), '.'), int64(index), 10), '.'), node...))
}

// ID is a 128-bit hash of its parts, in hex. Each part is framed by its length, so parts never run together.
func ID(parts ...string) string {
	var room [256]byte
	b := room[:0]
	for _, p := range parts {
		if n := len(p); n < 10 { // most are
			b = append(b, '0'+byte(n))
		} else {
			b = strconv.AppendInt(b, int64(n), 10)
		}
		b = append(append(b, ':'), p...)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16])
}

// Address names what a node asked of the engine: the task, the path inside it, the kind, the name and the key.
type Address struct {
	Task string
	Path string // addresses of enclosing steps, joined by "/"
	Kind string // step, ask, effect, child
	Name string
	Key  string
}

// ID is the address as a row key.
func (a Address) ID() string { return ID("address", a.Task, a.Path, a.Kind, a.Name, a.Key) }

// String shows the address to people.
func (a Address) String() string {
	if a.Key != "" {
		return a.Kind + " " + strconv.Quote(a.Name) + " with key " + strconv.Quote(a.Key)
	}
	return a.Kind + " " + strconv.Quote(a.Name)
}
