package core

import "time"

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

// Cause says why a run failed.
type Cause string

// The causes of a failure.
const (
	CauseConcluded Cause = "concluded" // the graph said so
	CauseError     Cause = "error"
	CauseConflict  Cause = "conflict"
	CauseDrift     Cause = "drift"    // the questions keep changing
	CauseLimit     Cause = "limit"    // too many super-steps
	CauseCrashing  Cause = "crashing" // parked after too many crashes
)

// Run is one attempt of one run: an accepted input and all that follows.
type Run struct {
	N          int64 // number in the thread
	ID         string
	Attempt    string
	AttemptN   int
	Kind       string // run, retry, fork, replay, edit
	Mode       Durability
	Status     Status
	Cause      Cause
	Error      string
	ErrorNode  string
	Input      []Write
	InputHash  string
	Before     int64  // checkpoint before the input, 0 for none
	Root       int64  // first checkpoint of the attempt
	RootID     string // minted at acceptance, so that a run whose checkpoints were lost starts under the same ids
	FirstID    string // id of the checkpoint that applies the input
	Graph      string // digest of the topology that it goes on under
	Crashes    int
	Aside      bool  // set aside by a retry: read-only, unseen by nodes
	Superseded int   // answers in a row that landed on a question that had changed
	Steps      int   // super-steps done before this start of the loop
	Of         int64 // the run that a retry, fork or replay comes from
	Actor      string
	Accepted   time.Time
	Seq        int64
}

// Step is the journal's row of one finished step.
type Step struct {
	Address    string // row key
	Checkpoint int64
	Task       string
	Node       string
	Name       string
	Key        string
	Result     []byte
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
	Address    string
	Revision   int
	Tenant     string
	Thread     string
	ThreadN    int64
	Graph      string
	Run        string
	Checkpoint int64
	Task       string
	Path       string
	Node       string
	Name       string
	Key        string
	Body       []byte // as stored: redacted
	Digest     string // of the body before redaction
	Schema     []byte
	State      QuestionState
	Due        time.Time // zero: never
	Asked      time.Time
	Answer     []byte
	AnsweredBy string
	AnsweredAt time.Time
	Seq        int64
	Rev        int64 // revision of the row
}

// Stop says how a run stops.
type Stop struct {
	Status    Status
	Cause     Cause
	Error     string
	ErrorNode string
	Withdraw  []string // questions to withdraw
}

// Commit is what a super-step did, handed to the host at once: everything in it becomes durable together.
type Commit struct {
	Checkpoint *Checkpoint // where the tasks hang from
	Ended      []Ended     // tasks that ended while others go on
	Next       *Checkpoint // the merge, when all ended
	Stop       *Stop       // the run stops here
	Durable    bool        // a node that ended is declared durable: wait for this commit in every mode
}

// Position is all that a host knows of a thread's head: where the loop goes on.
type Position struct {
	Run       *Run
	Head      *Checkpoint
	Ended     []Ended               // of Head, in seq order
	Steps     map[string][]Step     // by task
	Questions map[string][]Question // by task, newest revision of an address last
}
