package pawl

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/storage"
)

// Start and End are the two ends of every graph.
const (
	Start = core.Start
	End   = core.End
)

// Durability says when checkpoints and task writes are on disk. Accepted runs, finished steps, questions and answers
// are on disk when they are reported, in every mode.
type Durability = core.Durability

// The modes. Sync is the default: a finished super-step is on disk before the next starts. Async lets one super-step
// be in flight and one wait. Exit keeps only the newest checkpoint, and writes it when the run stops.
const (
	Sync  = core.Sync
	Async = core.Async
	Exit  = core.Exit
)

// Limits bound what one graph can do by accident. Zero means the default; a negative number is refused. math.MaxInt is as
// good as no limit.
type Limits struct {
	Steps     int // super-steps between two starts of a run: 10,000; of one call see StepLimit
	Tasks     int // tasks of one super-step: 100,000
	Questions int // open questions of one thread: 100,000
	Crashes   int // crashes of one run before it is parked: 5
}

func (l Limits) filled() (Limits, error) {
	for _, f := range []struct {
		name string
		at   *int
		def  int
	}{{"Steps", &l.Steps, 10_000}, {"Tasks", &l.Tasks, 100_000}, {"Questions", &l.Questions, 100_000}, {"Crashes", &l.Crashes, 5}} {
		if *f.at < 0 {
			return l, fmt.Errorf("pawl: Limits.%s is %d: a limit is positive; leave it at 0 for %d, or give math.MaxInt for none", f.name, *f.at, f.def)
		}
		if *f.at == 0 {
			*f.at = f.def
		}
	}
	return l, nil
}

// Options configure an engine. The zero value, and a nil pointer, are the defaults.
type Options struct {
	// Durability of runs that do not choose their own. Default: Sync.
	Durability Durability
	// Limits of every run.
	Limits Limits
	// Concurrency bounds the tasks of one run that run at once; 0: all of a super-step.
	Concurrency int
	// Codec encodes bodies at the storage border. Default: none.
	Codec storage.Codec
	// Allow is asked on every door before anything is read; for answers that come with Resume also as VerbAnswer, once
	// each. nil allows everything inside the tenant. An error refuses:
	// it is wrapped so that errors.Is(err, ErrDenied) holds.
	Allow func(ctx context.Context, v VerbInfo) error
	// Parts join every thread's life, in this order.
	Parts []Part
	// Logger is told what has no caller: late writes, takeovers, background trouble. Default: nothing is logged.
	Logger *slog.Logger
	// Strict is for tests: a node that changes in place what it read, asks something else when it runs again, or hides
	// by returning nil that it waits, fails.
	Strict bool
}

// Verb is what somebody wants of a thread. Which are legal in which status is one table, in internal/core/verb.go.
type Verb = core.Verb

// The verbs. Each is asked of Options.Allow under its own name.
const (
	VerbRun    = core.VerbRun
	VerbResume = core.VerbResume
	VerbRetry  = core.VerbRetry
	VerbFork   = core.VerbFork
	VerbReplay = core.VerbReplay
	VerbEdit   = core.VerbEdit
	VerbAnswer = core.VerbAnswer
	VerbCancel = core.VerbCancel
	VerbDelete = core.VerbDelete
	VerbRead   = core.VerbRead

	VerbMigrate = core.VerbMigrate
	VerbForce   = core.VerbForce
	VerbDrain   = core.VerbDrain
	VerbPrune   = core.VerbPrune
	VerbCopy    = core.VerbCopy
	VerbClear   = core.VerbClear
)

// VerbInfo is what Options.Allow judges.
type VerbInfo struct {
	Verb     Verb
	Actor    Actor
	Tenant   string
	Graph    string // as the caller named it; may be empty
	Thread   string // empty for an answer by id, before the question is read
	Question string // for answers
	Reason   string // in the actor's words, where the verb takes one
	// From and To are graph versions, for migrate and force; for copy the threads; for drain the version, and drained or
	// open; for clear To is what was done.
	From, To string

	// The rest is for parts, which are asked once the thread was read; Options.Allow is asked before.

	Run, Attempt string
	Name         string // of an answered question; of the node whose results are cleared
	Digest, View string // of what it asked, and of what of that was stored and shown
	// Stage is empty where one Update does it all. A running thread is cancelled in two: StageAsked, by who cancels,
	// and StageStopped, by the engine, once its tasks are over.
	Stage string
	// Tasks, of an edit of a child, are those that start anew. nil: all that are due in the thread.
	Tasks []string
}

// Covers says whether the verb starts a task of the thread anew, or leaves it behind.
func (v *VerbInfo) Covers(task string) bool { return v.Tasks == nil || slices.Contains(v.Tasks, task) }

// Actor is who acts. The library trusts what it is given: whoever puts it into a context has verified it, or says in
// Kind that nobody did.
type Actor struct {
	ID     string   `json:"id"`
	Groups []string `json:"groups,omitempty"`
	Kind   string   `json:"kind,omitempty"` // "person", "service", "unverified"
	Door   string   `json:"door,omitempty"` // by which they came: "command line", "inbox"; empty: the program itself
}

type actorKey struct{}

// WithActor says who acts in calls under this context.
func WithActor(ctx context.Context, a Actor) context.Context {
	return context.WithValue(ctx, actorKey{}, a)
}

// ActorFrom returns who acts.
func ActorFrom(ctx context.Context) Actor {
	a, _ := ctx.Value(actorKey{}).(Actor)
	return a
}

// RunOption is an option of one call of Run, Stream, Resume, Retry, Fork or Replay. One that makes no sense for the
// verb is refused.
type RunOption func(*runConfig)

type runConfig struct {
	mode    Durability
	runID   string
	again   []string
	answers []givenAnswer
	all     bool // the answers are refused if they leave a question open
	head    string
	hold    bool
	breaks  *core.Breaks // of this call; nil: none were given
	waited  bool         // the thread, before this verb
	in      Path
	from    *Point // of EditAs; nil: the head
	beside  bool   // of a branch: it does not stand behind the checkpoint that it leaves from
	sink    func(Event)
	reason  string

	superStep time.Duration  // limit of each; 0: the graph's
	steps     *int           // limit of the call; nil: the engine's
	held      map[string]any // live values of the input
}

func configured(options []RunOption) *runConfig {
	c := &runConfig{}
	for _, o := range options {
		if o != nil {
			o(c)
		}
	}
	for i := range c.answers {
		c.answers[i].reason = c.reason
	}
	return c
}

// fits refuses options that make no sense for a verb.
func (t *Thread) fits(verb Verb, cfg *runConfig) error {
	misfit := ""
	switch {
	case len(cfg.again) > 0 && verb != VerbResume:
		misfit = "Again"
	case len(cfg.answers) > 0 && verb != VerbResume:
		misfit = "Answer"
	case cfg.all && verb != VerbResume:
		misfit = "AnswerAll"
	case cfg.runID != "" && verb != VerbRun:
		misfit = "RunID"
	case cfg.hold && verb != VerbFork && verb != VerbReplay:
		misfit = "Hold"
	case cfg.in != "" && verb != VerbEdit:
		misfit = "In"
	case cfg.from != nil && verb != VerbEdit:
		misfit = "From"
	case cfg.beside && cfg.from == nil && verb != VerbFork && verb != VerbReplay:
		misfit = "Beside"
	case cfg.superStep < 0:
		misfit = "negative SuperStepTimeout"
	case cfg.superStep > 0 && verb == VerbEdit:
		misfit = "SuperStepTimeout"
	case cfg.steps != nil && verb == VerbEdit:
		misfit = "StepLimit"
	case cfg.steps != nil && *cfg.steps < 1:
		misfit = fmt.Sprintf("StepLimit(%d)", *cfg.steps)
	}
	if misfit != "" {
		return fmt.Errorf("pawl: thread %q: %s takes no %s option; nothing was done", t.id, verb, misfit)
	}
	if cfg.mode == "" {
		cfg.mode = t.eng.opts.Durability
	}
	return checkMode(cfg.mode)
}

// WithDurability chooses the durability of this run.
func WithDurability(d Durability) RunOption { return func(c *runConfig) { c.mode = d } }

// RunID names the run: a second Run with the same id on the thread starts nothing and reports how that run stands, or
// the fork or replay that took its place before it was over.
func RunID(id string) RunOption { return func(c *runConfig) { c.runID = id } }

// At makes the verb conditional: it is refused unless the thread's head is this checkpoint. It is a version check, not
// time travel.
func At(checkpoint string) RunOption { return func(c *runConfig) { c.head = checkpoint } }

// StepLimit is how many super-steps this call may run, in place of Limits.Steps; at least 1. It holds in each child, too.
func StepLimit(n int) RunOption { return func(c *runConfig) { c.steps = &n } }

// Hold makes Fork and Replay move the head without running on; Resume does that later.
func Hold() RunOption { return func(c *runConfig) { c.hold = true } }

// Reason is kept with what the verb makes: the attempt of a Run, Retry, Fork or Replay, and a given answer.
func Reason(text string) RunOption { return func(c *runConfig) { c.reason = text } }

type givenAnswer struct {
	id     string // empty: the only open question
	name   string // of the interrupt that the answer was made for; empty: any
	value  []byte
	reason string // what the sender says about it
	err    error
}

// Answer gives an answer to an open question by id, to be taken by Resume before it goes on; an empty id means the
// only open question of the thread, and is refused when there are more. Several answers are taken together or not at
// all.
func (in Interrupt[Q, A]) Answer(id string, a A) RunOption {
	return func(c *runConfig) {
		doc, err := marshalAnswer(a)
		c.answers = append(c.answers, givenAnswer{id: id, name: in.Name, value: doc, err: err})
	}
}

// AnswerWith is Interrupt.Answer without the types: value is anything that encoding/json can encode, or raw JSON.
func AnswerWith(id string, value any) RunOption {
	return func(c *runConfig) {
		doc, err := marshalAnswer(value)
		c.answers = append(c.answers, givenAnswer{id: id, value: doc, err: err})
	}
}
