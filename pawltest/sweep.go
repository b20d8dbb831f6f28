package pawltest

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/records"
	"github.com/pawl-dev/pawl/memdb"
	"github.com/pawl-dev/pawl/storage"
	"github.com/pawl-dev/pawl/storage/fault"
)

// Scenario is a program whose process may die anywhere.
type Scenario struct {
	// Drive drives an engine on an empty home to the end of the scenario and returns nil there. It must be written as
	// "go on from wherever it stands", because it is called again, on a new engine over the same home, after each
	// death: [Drive] does that for one run. Where it stands is told by the threads, and for what is outside the engine
	// by [Calls] on its ctx. It must end when the engine's calls fail, and do the same thing every time.
	Drive func(ctx context.Context, eng *pawl.Engine) error
	// Options of the engines. Strict is not set by the sweep.
	Options pawl.Options
	// Kinds of the home beside the engine's.
	Kinds []storage.Kind
	// Kept names those of Kinds whose rows are never changed nor lost once they are written, as those of a trail.
	Kept []string
	// Parts makes the parts of one process's engine, after those in Options. Nil: none.
	Parts func() ([]pawl.Part, error)
	// Extra names kinds of waits that a stop may bring and that are left out when the ends of threads are compared:
	// "doubt". None of them may stay open unseen either.
	Extra []string
	// Check says what else is wrong when the scenario has ended, with a stop or without: in the home, and outside by
	// [Calls] on ctx. Nil: nothing else is asked.
	Check func(ctx context.Context, home storage.DB) error
	// Disk opens a home on disk, for the share of the points where a real process is killed: it runs the same test in
	// a child process. Nil: no process is killed.
	Disk func(path string, kinds ...storage.Kind) (storage.DB, error)
	// Reads makes every read a point, too.
	Reads bool
	// Discards says that the scenario discards finished work on purpose (pawl.Again), so that tasks may end twice.
	Discards bool
	// Every tries one point in so many; 0 and 1: each. Seeds that follow one another try other points, so that as many of
	// them as Every says try each.
	Every int
	// Seed chooses the sample of points, double deaths and kills. Every test has another sample.
	Seed uint64
}

// Report counts what a sweep did.
type Report struct {
	Points   int // stop points that were tried
	Doubles  int // of them, those with a second stop during the recovery
	Killed   int // of them, those where a process was killed
	Failures int
}

// String is the line that a sweep prints.
func (r Report) String() string {
	return fmt.Sprintf("%d stop points, %d failures (%d with a second stop, %d by SIGKILL)",
		r.Points, r.Failures, r.Doubles, r.Killed)
}

// Sweep runs a scenario without a stop, and then once for every point where a process can die, before and after each
// durable write: there it stops the process, starts another on what the home holds, and demands that the scenario ends
// as if nothing had happened. The threads hold the same values, steps that were recorded are not called again, each
// question has the same answer, everything that was committed before the stop is still there byte by byte, and no
// question is open that its thread does not show. A seeded sample is stopped a second time during the recovery, and a
// seeded tenth of the points kills a real process (see Scenario.Disk). A long scenario may try a seeded share of its points
// (see Scenario.Every).
//
// PAWL_SWEEP=full in the environment sweeps some ten times deeper, whatever Every says: reads are points, half of the
// points are killed, and there are many more double stops.
func Sweep(t testing.TB, scenario Scenario) Report {
	t.Helper()
	s := &sweep{t: t, Scenario: scenario, share: 0.1, pairs: 1}
	if os.Getenv("PAWL_SWEEP") == "full" {
		s.share, s.pairs, s.Reads, s.Every = 0.5, 11, true, 1
	}
	s.Every = max(1, s.Every)
	if s.child() {
		return Report{}
	}
	seed := fnv.New64a()
	_, _ = seed.Write([]byte(t.Name()))
	s.rand = rand.New(rand.NewPCG(s.Seed, seed.Sum64()))
	s.first = int((s.Seed + seed.Sum64()%uint64(s.Every)) % uint64(s.Every))
	if !s.reference() {
		return s.report
	}
	s.singles()
	s.doubles()
	s.kills()
	t.Logf("%v; seed %d, one point in %d", s.report, s.Seed, s.Every)
	return s.report
}

type sweep struct {
	Scenario
	t      testing.TB
	rand   *rand.Rand
	share  float64 // of the points, that are killed
	pairs  int     // double stops, as a multiple of the points
	first  int     // of the points
	points int     // of the reference
	report Report

	threads *picture // how the reference ended
	tally   tally
}

// trial is one run of the scenario with its deaths.
type trial struct {
	name   string
	home   storage.DB
	ledger *ledger
	stops  []*picture // what the home held after each death
}

// life runs the scenario on a home until it ends, or until the action at point n ends it.
func (s *sweep) life(tr *trial, n int, action fault.Action) (db *fault.DB, err error) {
	tr.ledger.add(begins, "")
	options := s.Options
	home := &observed{tr.home, tr.ledger, records.Box{Codec: options.Codec}}
	db = fault.Wrap(home, fault.Plan{At: fault.At(n, action), Views: s.Reads})
	if s.Parts != nil {
		parts, err := s.Parts()
		if err != nil {
			return db, err
		}
		options.Parts = slices.Concat(options.Parts, parts)
	}
	eng, err := pawl.NewEngine(db, &options)
	if err != nil {
		return db, err
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), hung)
	defer cancel()
	err = s.Drive(context.WithValue(tr.ledger.in(ctx), homeKey{}, db), eng)
	if ctx.Err() != nil {
		err = errors.Join(fmt.Errorf("the scenario did not end within %v", hung), err)
	}
	return db, errors.Join(err, eng.Close())
}

// hung is how long a scenario may take before it counts as hanging.
const hung = time.Minute

// never is a point that no scenario reaches.
const never = -1

// memory makes a trial on an empty home in memory, which is garbage after it.
func (s *sweep) memory(name string) *trial {
	s.t.Helper()
	home, err := memdb.Open(append(pawl.Kinds(), s.Kinds...)...)
	if err != nil {
		s.t.Fatal(err)
	}
	return &trial{name: name, home: home, ledger: &ledger{}}
}

// reference runs the scenario without a stop.
func (s *sweep) reference() bool {
	s.t.Helper()
	tr := s.memory("without a stop")
	db, err := s.life(tr, never, fault.Action{})
	if err == nil {
		s.threads, err = s.photograph(tr)
	}
	if err == nil && len(s.threads.faults) > 0 {
		err = errors.New(strings.Join(s.threads.faults, "\n"))
	}
	if err == nil {
		err = s.check(tr)
	}
	if err != nil {
		s.t.Errorf("the scenario fails without a stop: %v", err)
		return false
	}
	s.points, s.tally = db.Calls(), tr.ledger.tally()
	return true
}

func (s *sweep) photograph(tr *trial) (*picture, error) {
	mode := s.Options.Durability
	return photograph(s.t.Context(), tr.home, s.Options, view{mode == "" || mode == pawl.Sync, s.Kept, s.Extra})
}

// check asks the scenario's own Check.
func (s *sweep) check(tr *trial) error {
	if s.Check == nil {
		return nil
	}
	return s.Check(tr.ledger.in(s.t.Context()), tr.home)
}

// stopAt lives one life that ends at point n, and says whether it did.
func (s *sweep) stopAt(tr *trial, n int) (stopped bool) {
	db, err := s.life(tr, n, fault.Stop())
	if stopped = db.Calls() > n; !stopped {
		s.judge(tr, err)
		return false
	}
	s.died(tr)
	return true
}

// died keeps what a death left.
func (s *sweep) died(tr *trial) {
	left, err := s.photograph(tr)
	if err != nil {
		s.fail(tr, fmt.Sprintf("what the stop left cannot be read: %v", err))
		return
	}
	tr.stops = append(tr.stops, left)
}

// finish lives the last life.
func (s *sweep) finish(tr *trial) {
	_, err := s.life(tr, never, fault.Action{})
	s.judge(tr, err)
}

// judge compares the end of a trial with the reference.
func (s *sweep) judge(tr *trial, err error) {
	var faults []string
	if err != nil {
		faults = append(faults, fmt.Sprintf("the scenario does not come to its end: %v", err))
	}
	end, err := s.photograph(tr)
	if err != nil {
		s.fail(tr, append(faults, err.Error())...)
		return
	}
	if err := s.check(tr); err != nil {
		faults = append(faults, err.Error())
	}
	faults = append(faults, end.against(s.threads)...)
	faults = append(faults, tr.ledger.tally().against(s.tally)...)
	for _, stop := range tr.stops {
		faults = append(faults, end.grewFrom(stop, s.Discards)...)
	}
	if len(faults) > 0 {
		s.fail(tr, faults...)
	}
}

// shown is how many failures of a sweep are told in full.
const shown = 5

func (s *sweep) fail(tr *trial, faults ...string) {
	s.t.Helper()
	s.report.Failures++
	if s.report.Failures > shown {
		s.t.Fail()
		return
	}
	s.t.Errorf("%s:\n%s", tr.name, strings.Join(faults, "\n"))
}

// singles stops the scenario at every point, or at one in so many.
func (s *sweep) singles() {
	for n := s.first; ; n += s.Every {
		tr := s.memory(fmt.Sprintf("stopped at point %d of %d", n, s.points))
		if !s.stopAt(tr, n) {
			return
		}
		s.report.Points++
		s.finish(tr)
	}
}

// doubles stops it at a sample of points, and at another one during the recovery.
func (s *sweep) doubles() {
	for range s.pairs * s.points / s.Every {
		n, m := s.rand.IntN(s.points), s.rand.IntN(s.points)
		tr := s.memory(fmt.Sprintf("stopped at point %d of %d, and at %d of the recovery", n, s.points, m))
		if !s.stopAt(tr, n) || !s.stopAt(tr, m) {
			continue // the second life was over before: judged
		}
		s.report.Points++
		s.report.Doubles++
		s.finish(tr)
	}
}
