package pawl

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/local"
)

var (
	// ErrWaiting is what Ask and, below an open question, Step return inside a node: return it. Outside a node,
	// waiting is an outcome and never an error.
	ErrWaiting = errors.New("pawl: waiting for an answer; return this error from the node")
	// ErrNotFound: no such thread, question, node, channel, checkpoint or graph. See [NotFoundError].
	ErrNotFound = errors.New("pawl: not found")
	// ErrBusy: somebody else runs the thread now. Nothing was done.
	ErrBusy = errors.New("pawl: the thread is busy")
	// ErrExpired: nobody answered in time, and the question declares no default.
	ErrExpired = errors.New("pawl: the question expired without an answer")
	// ErrAnswered: the question has another answer already. See [AnswerError].
	ErrAnswered = errors.New("pawl: the question is answered")
	// ErrFenced: another owner took the thread over; what this one still did was not written.
	ErrFenced = local.ErrFenced
	// ErrClosed: the engine is closed. Nothing was done.
	ErrClosed = errors.New("pawl: the engine is closed")
	// ErrNameReused: one entry of a node used a name twice for the same kind of thing. Give each use a key.
	ErrNameReused = errors.New("pawl: name used twice in one entry of a node")
	// ErrDenied: Options.Allow refused. Nothing was read and nothing was done.
	ErrDenied = errors.New("pawl: not allowed")
)

// NotFoundError names what there is none of. It matches [ErrNotFound].
type NotFoundError struct {
	What   string // "thread", "question", "node", "channel", "checkpoint", "graph"
	ID     string
	Thread string
	Hint   string
}

// Error says what was refused, and what to do.
func (e *NotFoundError) Error() string {
	s := fmt.Sprintf("pawl: %s %q not found", e.What, e.ID)
	if e.Thread != "" {
		s += fmt.Sprintf(" in thread %q", e.Thread)
	}
	if e.Hint != "" {
		s += "; " + e.Hint
	}
	return s + "; nothing was changed"
}

// Is makes errors.Is(err, ErrNotFound) true.
func (e *NotFoundError) Is(target error) bool { return target == ErrNotFound }

// InputError: a JSON object was given for a state and does not fit its channels. Err has all faults at once.
type InputError struct{ Err error }

// Error says what is wrong with it; whoever refused it says what was not done.
func (e *InputError) Error() string { return "input refused: " + e.Err.Error() }

// Unwrap returns the faults.
func (e *InputError) Unwrap() error { return e.Err }

// VerbError refuses a verb in the thread's status. Nothing was changed. It matches [ErrBusy] when somebody runs it.
type VerbError struct {
	Verb   Verb
	Thread string
	Status Status
	Cause  Cause
	Legal  []Verb // what may be done now
	Advice string
}

// Error says what was refused, and what to do.
func (e *VerbError) Error() string {
	st := string(e.Status)
	if e.Cause != "" {
		st += " (" + string(e.Cause) + ")"
	}
	s := fmt.Sprintf("pawl: thread %q is %s: %s is refused and nothing was changed", e.Thread, st, e.Verb)
	if e.Advice != "" {
		s += "; " + e.Advice
	}
	if len(e.Legal) > 0 {
		names := make([]string, len(e.Legal))
		for i, v := range e.Legal {
			names[i] = string(v)
		}
		s += "; legal now: " + strings.Join(names, ", ")
	}
	return s
}

// Is makes errors.Is(err, ErrBusy) true for a thread that somebody runs.
func (e *VerbError) Is(target error) bool {
	return target == ErrBusy && (e.Status == Running || e.Status == Pending)
}

// AnswerError refuses an answer. The question is as it was.
type AnswerError struct {
	Question string
	Name     string
	Thread   string
	Reason   AnswerReason
	By       string    // who gave the answer that stands
	At       time.Time // when it was answered, or expired
	Newest   string    // the open question that took its place, if any
	Faults   []string  // what is wrong with the answer, field by field
	Open     []string  // ids of the open questions, when the answer named none; of those left out of a whole set
}

// AnswerReason says why an answer was refused.
type AnswerReason string

// Why an answer is refused.
const (
	ReasonRefused    AnswerReason = "refused"             // wrong shape, or against the question's rule
	ReasonAnswered   AnswerReason = "answered"            // another answer stands
	ReasonExpired    AnswerReason = "expired"             // too late
	ReasonSuperseded AnswerReason = "changed"             // the question was asked anew with another body
	ReasonWithdrawn  AnswerReason = "withdrawn"           // nobody waits for it any more
	ReasonAmbiguous  AnswerReason = "ambiguous"           // no id was given and not precisely one question is open
	ReasonPartial    AnswerReason = "a part of the set"   // AnswerAll was given, and a question was left out
	ReasonElsewhere  AnswerReason = "of another thread"   // the question belongs elsewhere
	ReasonKind       AnswerReason = "of another question" // the typed answer was made for another interrupt
)

// Error says what was refused, and what to do.
func (e *AnswerError) Error() string {
	if e.Reason == ReasonPartial {
		return fmt.Sprintf("pawl: thread %q: not answered: the answers are %s: they leave open %s; nothing was consumed; answer these too, or leave AnswerAll out",
			e.Thread, e.Reason, strings.Join(e.Open, ", "))
	}
	s := fmt.Sprintf("pawl: thread %q: question %q (%s) not answered: %s", e.Thread, e.Name, e.Question, e.Reason)
	if e.By != "" {
		s += " by " + e.By
	}
	if !e.At.IsZero() {
		s += " at " + e.At.UTC().Format(time.RFC3339)
	}
	if len(e.Faults) > 0 {
		s += ": " + strings.Join(e.Faults, "; ")
	}
	if e.Newest != "" {
		s += "; the open one is " + e.Newest
	}
	if e.Reason == ReasonAmbiguous {
		s += "; open questions: " + orNone(strings.Join(e.Open, ", ")) + "; name one by its id"
	}
	return s + "; nothing was consumed"
}

// Is maps reasons to ErrAnswered and ErrExpired.
func (e *AnswerError) Is(target error) bool {
	return target == ErrAnswered && e.Reason == ReasonAnswered || target == ErrExpired && e.Reason == ReasonExpired
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

// RunError is a run that failed or was cancelled. The outcome beside it has the details; Unwrap leads to the node's
// own error where the failure happened in this process.
type RunError struct {
	Thread string
	Run    string
	Status Status
	Cause  Cause
	Node   string
	Reason string
	Err    error
}

// Error says what was refused, and what to do.
func (e *RunError) Error() string {
	s := fmt.Sprintf("pawl: thread %q: run %s %s", e.Thread, e.Run, e.Status)
	if e.Cause != "" {
		s += " (" + string(e.Cause) + ")"
	}
	if e.Node != "" {
		s += fmt.Sprintf(" at node %q", e.Node)
	}
	return s + ": " + e.Reason + advice(e.Status, e.Cause)
}

// Unwrap returns the cause.
func (e *RunError) Unwrap() error { return e.Err }

func advice(s Status, c Cause) string {
	switch {
	case s == Cancelled:
		return "; go on with retry or a new run"
	case s == Crashed:
		return "; go on with resume"
	case c == CauseConcluded:
		return "; go on with retry or a new run"
	case c == CauseConflict:
		return "; go on with resume and pawl.Again for the nodes that should write again"
	}
	return "; what finished is kept: go on with resume, or start over with retry"
}

// ConflictError: two tasks of one super-step wrote a channel that takes one writer. Nothing was merged; go on with
// Resume(ctx, pawl.Again(node)).
type ConflictError = core.ConflictError

// NodeError is a node's own error with its place.
type NodeError struct {
	Thread string
	Node   string
	Task   string
	Path   string // of the child that the node is of; empty: none
	Try    int
	Err    error
}

// Error says what was refused, and what to do.
func (e *NodeError) Error() string {
	if e.Path != "" {
		return fmt.Sprintf("node %q at %s|%s:%s (try %d): %v", e.Node, e.Path, e.Node, e.Task, e.Try, e.Err)
	}
	return fmt.Sprintf("thread %q: node %q (try %d): %v", e.Thread, e.Node, e.Try, e.Err)
}

// Unwrap returns the cause.
func (e *NodeError) Unwrap() error { return e.Err }

// PanicError is a panic, or a runtime.Goexit, of a node or a route.
type PanicError struct {
	Node  string
	Value any // nil for Goexit
	Stack []byte
}

// Error says what was refused, and what to do.
func (e *PanicError) Error() string {
	if e.Value == nil {
		return fmt.Sprintf("node %q ended its goroutine (runtime.Goexit)", e.Node)
	}
	return fmt.Sprintf("node %q panicked: %v\n%s", e.Node, e.Value, e.Stack)
}

// SizeError: a value, a step's result, a question or an answer is larger than one value may be. Nothing was written.
type SizeError = core.SizeError

// LimitError: a named limit was reached, before anything beyond it was done.
type LimitError struct {
	Limit string // "steps a run", "tasks a super-step", "open questions a thread"
	Max   int
	Have  int
}

// Error says what was refused, and what to do.
func (e *LimitError) Error() string {
	return fmt.Sprintf("limit of %d %s reached (%d needed); nothing beyond it was run", e.Max, e.Limit, e.Have)
}

// JoinError: the run ended while a join still waits for nodes that never ran in it.
type JoinError struct {
	To      string
	Arrived []string
	Missing []string
}

// Error says what was refused, and what to do.
func (e *JoinError) Error() string {
	return fmt.Sprintf("the join to %q can't fire: %s arrived, %s never ran; %q was not run",
		e.To, strings.Join(e.Arrived, ", "), strings.Join(e.Missing, ", "), e.To)
}

// ChangedError tells whoever delivered an answer that the question was asked anew with another body when the node ran
// again: the answer was kept beside the old question and is not used. Answer the new one.
type ChangedError struct {
	Thread string
	Node   string
	Name   string
	Old    Question
	New    Question
	Path   string // first place where the bodies differ
}

// Error says what was refused, and what to do.
func (e *ChangedError) Error() string {
	return fmt.Sprintf("pawl: thread %q, node %q: question %q changed on replay at %s: it was %s, it is %s; the answer to "+
		"the first is kept and not used; answer %s, and put what must not run again into a step",
		e.Thread, e.Node, e.Name, e.Path, e.Old.Body, e.New.Body, e.New.ID)
}

// DriftError: the question changed on replay again and again, so no answer can ever land.
type DriftError struct {
	Node string
	Name string
	Path string
	Old  string
	New  string
}

// Error says what was refused, and what to do.
func (e *DriftError) Error() string {
	return fmt.Sprintf("node %q: question %q changes each time the node runs: at %s, from %s to %s; put what it is made of "+
		"into a step", e.Node, e.Name, e.Path, e.Old, e.New)
}

// UnfencedCallError: under Options.Strict, a node called out in no step and no effect and then waits, so it would call
// again when it goes on. It failed, and its questions are withdrawn.
type UnfencedCallError struct {
	Node     string
	Call     string // the first one, such as "POST https://bank.example/pay"
	Calls    int    // how many there were
	Question string // that the node waits for
}

// Error names all three, and says what to do.
func (e *UnfencedCallError) Error() string {
	more := ""
	if e.Calls > 1 {
		more = fmt.Sprintf(" and %d more", e.Calls-1)
	}
	return fmt.Sprintf("node %q: %s%s went out above question %q, outside a step or an effect: it would go out again with the answer; the "+
		"node failed; wrap the call in pawl.Step, make it an effect, or move it below the question", e.Node, e.Call, more, e.Question)
}

// HiddenWaitError: a node returned nil while a question of it is open. Elsewhere its writes are discarded and the run
// waits; under Options.Strict it fails.
type HiddenWaitError struct {
	Node      string
	Questions []string // names
}

// Error says what was refused, and what to do.
func (e *HiddenWaitError) Error() string {
	return fmt.Sprintf("node %q returned nil while it waits for %s; nothing that it wrote was merged; return the error of Ask",
		e.Node, strings.Join(e.Questions, ", "))
}

// NoStorageError: a question needs a database, and the engine was made without one. With no Node it refuses a verb, or
// an answer to the Question.
type NoStorageError struct{ Graph, Node, Question string }

// Error says what was refused, and what to do.
func (e *NoStorageError) Error() string {
	if e.Node == "" {
		return fmt.Sprintf("pawl: graph %q: %q needs what was kept, and this engine has no storage; nothing is pending; give "+
			"NewEngine a database, e.g. sqlite.Open", e.Graph, e.Question)
	}
	return fmt.Sprintf("pawl: graph %q, node %q asks %q, and this engine has no storage to keep the question in; nothing is "+
		"pending; give NewEngine a database, e.g. sqlite.Open", e.Graph, e.Node, e.Question)
}

// UndeclaredError: a node asks what its Uses option does not declare.
type UndeclaredError struct{ Node, Name string }

// Error says what was refused, and what to do.
func (e *UndeclaredError) Error() string {
	return fmt.Sprintf("node %q asks %q without declaring it; add pawl.Uses(%s) to the node; nothing was asked", e.Node, e.Name, e.Name)
}

type concluded struct{ reason string }

// Error says what was refused, and what to do.
func (e *concluded) Error() string { return e.reason }

// Conclude is returned by a node to say that the graph itself came to the conclusion that it failed. The run fails with
// cause concluded: resume is refused, retry starts over. What this task wrote is discarded.
func Conclude(reason string) error { return &concluded{reason} }

type noRetry struct{ err error }

// Error says what was refused, and what to do.
func (e *noRetry) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *noRetry) Unwrap() error { return e.err }

// NoRetry marks an error as final: the node's Tries end with it, whatever [Retryable] or a RetryOn says.
func NoRetry(err error) error {
	if err == nil {
		return nil
	}
	return &noRetry{err}
}
