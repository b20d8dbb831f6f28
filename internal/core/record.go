package core

import (
	"encoding/json"
	"slices"
	"time"
)

// Durability says when checkpoints and task writes are on disk. Steps, questions and answers are durable when they
// return, in every mode.
type Durability string

// The modes.
const (
	Sync  Durability = "sync"  // each super-step before the next starts
	Async Durability = "async" // one super-step in flight, one waiting
	Exit  Durability = "exit"  // when the run stops, or something durable hangs from it
)

// Status is where a thread stands.
type Status string

// The statuses. Crashed is not stored: it is running under an owner that is dead.
const (
	StatusNew       Status = "new"
	StatusPending   Status = "pending"
	StatusRunning   Status = "running"
	StatusWaiting   Status = "waiting"
	StatusDone      Status = "done"
	StatusFailed    Status = "failed"
	StatusCrashed   Status = "crashed"
	StatusCancelled Status = "cancelled"
)

// Cause says why a run failed, or waits with no question open.
type Cause string

// The causes.
const (
	CauseConcluded Cause = "concluded" // the graph said so
	CauseError     Cause = "error"
	CauseConflict  Cause = "conflict"
	CauseDrift     Cause = "drift"    // the questions keep changing
	CauseLimit     Cause = "limit"    // too many super-steps
	CauseCrashing  Cause = "crashing" // parked after too many crashes
	CauseDrained   Cause = "drained"  // it waits: it was asked to stop between two super-steps
)

// RunKind says how an attempt starts.
type RunKind string

// The kinds of run. A fork starts from an older checkpoint with edits, a replay without; neither has an input. The edits
// that made a thread are no run: they have the place of one, so that what belongs to a run can belong to them.
const (
	RunInput  RunKind = "run"
	RunFork   RunKind = "fork"
	RunReplay RunKind = "replay"
	RunEdit   RunKind = "edit"
)

// Run is one attempt of one run: an accepted input and all that follows.
type Run struct {
	N         int64 // number in the thread
	ID        string
	Attempt   string
	AttemptN  int
	Kind      RunKind
	Mode      Durability
	Status    Status
	Cause     Cause
	Error     string
	ErrorNode string
	Input     []Write
	InputHash string
	Edits     []Write  // changes that a fork starts with
	Before    int64    // checkpoint before the input, or that a fork starts from; 0 for none
	Inside    int64    `json:",omitempty"` // checkpoint of a child in it, that a fork starts from; 0 for none
	Graphs    []string // digests of the topologies that it went on under, the newest last
	Typed     int      `json:",omitempty"` // under which of them input and edits were given
	Since     int      `json:",omitempty"` // which of them it started under, or was migrated or forced onto
	Moved     *Moved   `json:",omitempty"` // it was migrated or forced, and nothing ran since
	Crashes   int
	Aside     bool // set aside by a retry: read-only, unseen by nodes
	Actor     string
	Earlier   []string `json:",omitempty"` // who else started it: earlier attempts, and the runs that it was forked from
	Breaks    *Breaks  `json:",omitempty"` // where it stops besides; nil: nowhere
	Reason    string   // why somebody asked for it, in their words
	Accepted  time.Time
	Resumed   bool  `json:",omitempty"` // it went on after a stop or a crash
	Began     int64 `json:",omitempty"` // the fact that it was running, which its end took the place of; 0: there is none
	Seq       int64
}

// Breaks are breakpoints: nodes before or after which a run stops and waits, with no question open, until it is resumed.
type Breaks struct {
	Before []string `json:",omitempty"`
	After  []string `json:",omitempty"`
}

// Moved is where a run stood before it was migrated or forced onto another version.
type Moved struct {
	From  int64 // its head
	Since int   // its Since
}

// Version is the graph version that the run is bound to: the digest of the topology that it started under. Going on under
// a graph that its past cannot tell from its own does not change it; only migrate and force do.
func (r *Run) Version() string {
	if r.Since >= len(r.Graphs) {
		return ""
	}
	return r.Graphs[r.Since]
}

// Starters are those who started it or what it goes on from, this attempt's first; empty: nobody is known.
func (r *Run) Starters() []string {
	var out []string
	for _, who := range append([]string{r.Actor}, r.Earlier...) {
		if who != "" && !slices.Contains(out, who) {
			out = append(out, who)
		}
	}
	return out
}

// Step is the journal's row of one finished step.
type Step struct {
	Address    string // row key
	Checkpoint int64
	Task       string
	Path       string // of the child that the task runs in; empty: none
	Node       string
	Name       string
	Key        string
	Result     []byte
	Cached     bool // the result is of an earlier step with the same key, and nothing was called
	Seq        int64
	At         time.Time
}

// Ended is a task that ended while its super-step goes on: done with its result, or failed.
type Ended struct {
	Checkpoint int64
	Result     Result
	Failed     bool
	Error      string
	Cause      Cause
	Tries      int
	Seq        int64
	At         time.Time
	Before     *Ended // the failure whose place it takes; nil: there is none
	Again      bool   // it was told before, of the checkpoint that this one stands in for
}

// QuestionState is where one asking of a question stands.
type QuestionState string

// The states of a question. Submitted: an answer was taken without the graph's code and is checked before use.
const (
	QuestionOpen       QuestionState = "open"
	QuestionSubmitted  QuestionState = "submitted"
	QuestionAnswered   QuestionState = "answered"
	QuestionExpired    QuestionState = "expired"
	QuestionSuperseded QuestionState = "superseded"
	QuestionWithdrawn  QuestionState = "withdrawn"
)

// Question is one asking: an address at a revision, bound to the digest of what was asked.
type Question struct {
	ID         string // hash(address, revision)
	Kind       string `json:",omitempty"` // empty: a declared question; else a wait that is decided elsewhere
	Address    string
	Revision   int
	Tenant     string
	Thread     string
	ThreadN    int64 `json:"-"`
	Graph      string
	Run        string
	Checkpoint int64
	Task       string
	Path       string
	Under      []Level `json:",omitempty"` // the children around its task, the outermost first
	Node       string
	Name       string
	Key        string
	Body       json.RawMessage // as stored: redacted
	Digest     string          // of the body before redaction
	Schema     json.RawMessage
	Rule       bool // the answer must also pass a declared rule, which only the graph's code knows
	Drift      int  // answers in a row that landed on earlier revisions
	State      QuestionState
	Due        time.Time // zero: never
	Asked      time.Time
	Answer     json.RawMessage `json:",omitempty"`
	AnsweredBy string
	AnsweredAt time.Time
	Reason     string `json:",omitempty"` // what the sender of the answer said about it
	AskedSeq   int64
	Seq        int64 // of the newest fact about it
	Rev        int64 // revision of the row
}

// Stop says how a run stops.
type Stop struct {
	Status    Status
	Cause     Cause
	Error     string
	ErrorNode string
	Withdraw  []Question // open questions that nobody waits for any more
	Seq       int64      // of the fact, once it is stored
}

// Commit is what a super-step did, handed to the host at once: everything in it becomes durable together.
type Commit struct {
	Checkpoint *Checkpoint // where the tasks hang from
	Ended      []Ended     // tasks that ended while others go on
	First      *Checkpoint // of a child: its input, on which Next stands, if that was made
	Next       *Checkpoint // the merge, when all ended
	Stop       *Stop       // the run stops here
	Keep       []*Cached   // results for other tasks
	Durable    bool        // a node that ended is declared durable: wait for this commit in every mode
	Lazy       bool        // may wait for what is written next, in every mode
}

// Position is all that a host knows of the head of a thread, or of a child's run: where the loop goes on.
type Position struct {
	Run       *Run
	Frame     *Frame // of a child; nil: the thread's own
	Head      *Checkpoint
	Ended     []Ended                // of Head, in seq order
	Steps     map[string][]Step      // by task
	Questions map[string][]Question  // by task, newest revision of an address last
	Children  map[string][]*Position // by task, those that the task began
}
