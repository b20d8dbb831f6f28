package suite_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/nest"
	"github.com/pawl-dev/pawl/pawltest"
	"github.com/pawl-dev/pawl/sqlite"
	"github.com/pawl-dev/pawl/storage"
)

// sweepCase is a scenario of the crash sweep. drive goes on from wherever the home stands.
type sweepCase struct {
	name     string
	drive    func(ctx context.Context, eng *pawl.Engine) error
	discards bool
}

// sweepLeast is how many stop points each of the two sweeps has at least in an ordinary run, 2,000 together, which takes one
// in sweepEvery or payEvery: another part with each seed (see nest.Seed). PAWL_SWEEP=full takes all.
const (
	sweepLeast = 1000
	sweepEvery = 6
	payEvery   = 8
)

// TestSweep stops every scenario at storage points under every durability, and demands that nothing can be told from a
// run without a stop.
func TestSweep(t *testing.T) {
	cases := slices.Concat(sweepCases(t), sweepInside(t))
	swept := &swept{name: "sweep", of: 3 * len(cases), every: sweepEvery}
	for _, c := range cases {
		for _, mode := range []pawl.Durability{pawl.Sync, pawl.Async, pawl.Exit} {
			swept.run(t, c.name, mode, func(*testing.T) pawltest.Scenario {
				return pawltest.Scenario{
					Drive:    c.drive,
					Options:  pawl.Options{Durability: mode, Strict: true},
					Disk:     func(path string, kinds ...storage.Kind) (storage.DB, error) { return sqlite.Open(path, kinds...) },
					Discards: c.discards,
				}
			})
		}
	}
	swept.print(t)
}

// TestSweepEffects is the same for outside actions: at most one row of the target for an intent, the same receipt, one
// grant used, and nothing pending that is not said.
func TestSweepEffects(t *testing.T) {
	cases := slices.Concat(payCases(), payInside())
	swept := &swept{name: "sweep of effects", of: 3 * len(cases), every: payEvery}
	for _, c := range cases {
		for _, mode := range []pawl.Durability{pawl.Sync, pawl.Async, pawl.Exit} {
			swept.run(t, c.name, mode, func(t *testing.T) pawltest.Scenario { return c.scenario(t, mode) })
		}
	}
	swept.print(t)
}

// swept counts what the scenarios of a sweep tried.
type swept struct {
	name  string
	of    int // scenarios
	every int

	mu    sync.Mutex
	ran   int
	total pawltest.Report
}

func (s *swept) run(t *testing.T, name string, mode pawl.Durability, of func(*testing.T) pawltest.Scenario) {
	t.Run(name+"/"+string(mode), func(t *testing.T) {
		t.Parallel()
		scenario := of(t)
		scenario.Every, scenario.Seed = s.every, nest.Seed()
		report := pawltest.Sweep(t, scenario)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.ran++
		s.total.Points += report.Points
		s.total.Doubles += report.Doubles
		s.total.Killed += report.Killed
		s.total.Failures += report.Failures
	})
}

// print says at the end what was tried, unless some scenarios were not asked for.
func (s *swept) print(t *testing.T) {
	t.Cleanup(func() {
		if s.ran != s.of {
			return
		}
		share := fmt.Sprintf("one point in %d by PAWL_SEED=%d", s.every, nest.Seed())
		if os.Getenv("PAWL_SWEEP") == "full" {
			share = "all"
		}
		fmt.Printf("%s: %d scenarios, %s: %v\n", s.name, s.ran, share, s.total)
		if s.total.Points < sweepLeast {
			t.Errorf("%d stop points, want at least %d", s.total.Points, sweepLeast)
		}
	})
}

func sweepCases(t *testing.T) []sweepCase {
	t.Helper()
	return []sweepCase{
		{name: "chain", drive: sweepChain(t)},
		{name: "fan-out", drive: sweepFanOut(t)},
		{name: "deferred", drive: sweepDeferred(t)},
		{name: "handler", drive: sweepHandler(t)},
		{name: "breakpoints", drive: sweepBreaks(t)},
		{name: "again", drive: sweepAgain(t)},
		{name: "cached", drive: sweepCache(t)},
		{name: "payload-timeout", drive: sweepTimeout(t, true)},
		{name: "drained", drive: sweepDrained(t, pawl.Inherit)},
		{name: "drained-in-memory", drive: sweepDrained(t, pawl.PerThread)},
		{name: "drained-stateless", drive: sweepDrained(t, pawl.Stateless)},
		{name: "edit-as", drive: sweepEditAs(t)},
		{name: "edit-first", drive: sweepEditFirst(t)},
		{name: "give-up", drive: sweepGiveUp(t)},
		{name: "super-step-timeout", drive: sweepTimeout(t, false)},
		{name: "several-questions", drive: sweepSeveral(t)},
		{name: "loop", drive: sweepLoop(t)},
		{name: "workers", drive: sweepWorkers(t)},
		{name: "conflict", drive: sweepConflict(t), discards: true},
		{name: "failure-resume", drive: sweepFailure(t, steps("sibling"), (*sweepThread).Resume)},
		{name: "failure-retry", drive: sweepFailure(t, steps(), (*sweepThread).Retry)},
		{name: "fork-edit-replay", drive: sweepTravel(t)},
		{name: "beside", drive: sweepBeside(t)},
		{name: "expiry", drive: sweepExpiry(t)},
		{name: "answers-alone", drive: sweepAnswers(t, false)},
		{name: "answers-and-a-runner", drive: sweepAnswers(t, true)},
		{name: "cancel", drive: sweepCancel(t)},
		{name: "delete", drive: sweepDelete(t)},
		{name: "second-run", drive: sweepSecondRun(t)},
		{name: "big-values", drive: sweepBig(t)},
		{name: "deltas", drive: sweepDeltas(t)},
		{name: "live-values", drive: sweepLive(t)},
		{name: "ask-node", drive: sweepAskNode(t)},
		{name: "two-threads", drive: sweepTwoThreads(t)},
		{name: "child", drive: sweepSub(t, pawl.Inherit, 1)},
		{name: "child-in-child", drive: sweepSub(t, pawl.Inherit, 2)},
		{name: "child-that-remembers", drive: sweepMemory(t)},
		{name: "child-stateless", drive: sweepSub(t, pawl.Stateless, 1)},
		{name: "stateless-in-stateless", drive: sweepSub(t, pawl.Stateless, 2)},
		{name: "children-called", drive: sweepCalls(t, pawl.Inherit)},
		{name: "children-called-stateless", drive: sweepCalls(t, pawl.Stateless)},
		{name: "children-sent", drive: sweepSent(t)},
		{name: "child-failure", drive: sweepChildFailure(t)},
	}
}

// sweepState has a channel of every kind.
type sweepState struct {
	Doc   pawl.Last[string]        `json:"doc"`
	Log   pawl.Append[string]      `json:"log"`
	Sum   pawl.Sum[int64]          `json:"sum"`
	Map   pawl.Map[string, string] `json:"map"`
	Pass  pawl.Once[string]        `json:"pass"`
	Note  pawl.Ephemeral[string]   `json:"note"`
	Most  pawl.Fold[int, most]     `json:"most"`
	Round pawl.Last[int]           `json:"round"`

	Conn pawl.Untracked[*sweepConn] `json:"conn"`
}

type most struct{}

func (most) Fold(have, in int) int { return max(have, in) }

type (
	sweepNode   = func(context.Context, *sweepState) error
	sweepThread = nest.Thread[sweepState]
	sweepVerb   = func(*sweepThread, context.Context, ...pawl.RunOption) (*pawl.OutcomeOf[sweepState], error)
	sweepDrive  = func(context.Context, *pawl.Engine) error
)

// sweepQuestion is the question of all scenarios.
var sweepQuestion = pawl.Interrupt[string, string]{Name: "ok"}

// sweepPeople answer every question by what was asked, so that an answer that lands elsewhere shows in the values.
var sweepPeople = pawltest.People{"ok": func(q pawl.Question) any { return "yes to " + string(q.Body[1:len(q.Body)-1]) }}

func built(t *testing.T, b *pawl.Builder[sweepState]) *pawl.Graph[sweepState] {
	t.Helper()
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// call is a step whose call is in the ledger.
func call(ctx context.Context, name string, key string) (string, error) {
	label, options := name, []pawl.Opt(nil)
	if key != "" {
		label, options = name+"/"+key, []pawl.Opt{pawl.Key(key)}
	}
	return pawl.Step(ctx, name, func(ctx context.Context) (string, error) {
		pawltest.Called(ctx, label)
		return "did " + label, nil
	}, options...)
}

// steps is a node that only calls.
func steps(names ...string) sweepNode {
	return func(ctx context.Context, s *sweepState) error {
		for _, name := range names {
			did, err := call(ctx, name, "")
			if err != nil {
				return err
			}
			s.Log.Add(did)
		}
		return nil
	}
}

// asks is a node that calls, asks and calls again.
func asks(name string) sweepNode {
	return func(ctx context.Context, s *sweepState) error {
		if _, err := call(ctx, name+"-above", ""); err != nil {
			return err
		}
		answer, err := sweepQuestion.Ask(ctx, name)
		if err != nil {
			return err
		}
		did, err := call(ctx, name+"-below", "")
		if err != nil {
			return err
		}
		s.Log.Add(answer, did)
		return nil
	}
}

// toTheEnd drives one run of one thread.
func toTheEnd(g *pawl.Graph[sweepState], thread string) sweepDrive {
	return func(ctx context.Context, eng *pawl.Engine) error {
		th, err := within(ctx, eng, g, thread)
		if err != nil {
			return err
		}
		_, err = pawltest.Drive(ctx, th, "run-1", &sweepState{Doc: pawl.Of("in")}, sweepPeople)
		return err
	}
}

// once does something outside the engine once in a trial, whatever dies.
func once(ctx context.Context, label string) {
	if pawltest.Calls(ctx, label) == 0 {
		pawltest.Called(ctx, label)
	}
}

func happened(ctx context.Context, label string) bool { return pawltest.Calls(ctx, label) > 0 }
