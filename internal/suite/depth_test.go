package suite_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/approval"
	"github.com/pawl-dev/pawl/effect"
	"github.com/pawl-dev/pawl/internal/house"
	"github.com/pawl-dev/pawl/internal/nest"
	"github.com/pawl-dev/pawl/internal/records"
	"github.com/pawl-dev/pawl/memdb"
	"github.com/pawl-dev/pawl/pawltest"
	"github.com/pawl-dev/pawl/storage"
)

// depthCase is a scenario of the sweep, run without a stop at depths that it is compared at.
type depthCase struct {
	drive sweepDrive
	parts func() ([]pawl.Part, error)
	check func(ctx context.Context, home storage.DB) error
	runs  bool                      // several on one thread: each begins a history where its child keeps one a run
	left  map[pawl.ChildMode]string // why it is left out in a mode
}

const (
	noPoint   = "a stateless child has no checkpoint to go back to"
	noResult  = "a stateless child keeps no result to discard"
	remembers = "a child that remembers would be handed again what it remembers"
	forgets   = "a memory inside a child that does not remember ends with it"
	startsNew = "a migration starts the children of a task that is due over"
	ownTasks  = "edits are of the thread's own graph, as nobody or as its tasks"
)

// leftOut says which scenarios mean something else in a mode, and why.
func leftOut(name string) map[pawl.ChildMode]string {
	switch {
	case strings.HasPrefix(name, "pay-travels-"), slices.Contains([]string{"fork-edit-replay", "pay-denied-travels", "pay-forgotten", "pay-redo"}, name):
		return map[pawl.ChildMode]string{pawl.Stateless: noPoint}
	case name == "conflict":
		return map[pawl.ChildMode]string{pawl.Stateless: noResult}
	case name == "second-run":
		return map[pawl.ChildMode]string{pawl.PerThread: remembers}
	case name == "child-that-remembers":
		return map[pawl.ChildMode]string{pawl.Inherit: forgets, pawl.Stateless: forgets, pawl.PerThread: remembers}
	case slices.Contains([]string{"beside", "edit-as", "edit-first", "give-up"}, name):
		return map[pawl.ChildMode]string{pawl.Inherit: ownTasks, pawl.PerThread: ownTasks, pawl.Stateless: ownTasks}
	case name == "pay-migrated":
		return map[pawl.ChildMode]string{pawl.Inherit: startsNew, pawl.PerThread: startsNew, pawl.Stateless: startsNew}
	}
	return nil
}

func depthCases(t *testing.T) map[string]depthCase {
	all := map[string]depthCase{}
	for _, c := range sweepCases(t) {
		all[c.name] = depthCase{drive: c.drive, runs: c.name == "second-run", left: leftOut(c.name)}
	}
	for _, c := range payCases() {
		s := c.scenario(t, pawl.Sync)
		all[c.name] = depthCase{drive: s.Drive, parts: s.Parts, check: s.Check, left: leftOut(c.name)}
	}
	return all
}

// TestDepth runs every scenario of the sweep as it is and inside others, in each mode of a child at one depth by turns (see
// nest.ByTurns), and demands the same snapshots, steps, questions, operations and approvals.
func TestDepth(t *testing.T) {
	t.Parallel()
	cases, seed := depthCases(t), nest.Seed()
	var mu sync.Mutex
	ran, left := 0, map[string][]string{}
	t.Cleanup(func() {
		fmt.Printf("depth: %d scenarios of the sweep, %d runs inside others by PAWL_SEED=%d\n", len(cases), ran, seed)
		for _, why := range slices.Sorted(maps.Keys(left)) {
			slices.Sort(left[why])
			fmt.Printf("  left out, as %s: %s\n", why, strings.Join(left[why], ", "))
		}
	})
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for mode, why := range c.left {
				mu.Lock()
				left[why] = append(left[why], name+" ("+string(mode)+")")
				mu.Unlock()
			}
			want := map[bool][]string{false: c.seenAt(t, nest.Level{}), true: c.seenAt(t, nest.Level{Mode: pawl.Stateless})}
			for _, l := range nest.ByTurns(nest.Levels(3, pawl.Inherit, pawl.PerThread, pawl.Stateless), name, seed) {
				if c.left[l.Mode] != "" {
					continue
				}
				t.Run(l.String(), func(t *testing.T) {
					got, want := c.seenAt(t, l), want[l.Mode == pawl.Stateless]
					for i := range max(len(got), len(want)) {
						have, wanted := at(got, i), at(want, i)
						if have != wanted {
							t.Fatalf("%s\nat the root:\n%s", have, wanted)
						}
					}
					mu.Lock()
					defer mu.Unlock()
					ran++
				})
			}
		})
	}
}

func at(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return "nothing more"
}

// seenAt is what a scenario leaves at a depth, by lines.
func (c depthCase) seenAt(t *testing.T, l nest.Level) []string {
	t.Helper()
	home, err := memdb.Open(house.Kinds()...)
	if err != nil {
		t.Fatal(err)
	}
	defer home.Close()
	ctx, db := pawltest.Alone(atLevel(t.Context(), l), home)
	options := &pawl.Options{Strict: true}
	if c.parts != nil {
		if options.Parts, err = c.parts(); err != nil {
			t.Fatal(err)
		}
	}
	eng, err := pawl.NewEngine(db, options)
	if err != nil {
		t.Fatal(err)
	}
	defer eng.Close()
	if err := c.drive(ctx, eng); err != nil {
		t.Fatal(l, err)
	}
	if c.check != nil {
		if err := c.check(ctx, db); err != nil {
			t.Error(l, err)
		}
	}
	return slices.Concat(c.threadsAt(t, ctx, eng, l), journaled(t, ctx, home, l), decided(t, ctx, eng, home))
}

// threadsAt are the threads with their snapshots.
func (c depthCase) threadsAt(t *testing.T, ctx context.Context, eng *pawl.Engine, l nest.Level) (out []string) {
	t.Helper()
	threads, err := eng.Threads(ctx, "", 10)
	if err != nil {
		t.Fatal(err)
	}
	for _, info := range threads {
		th := eng.Thread(info.Graph, info.Thread)
		s, err := nest.State(ctx, th, l)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, fmt.Sprintf("thread %s is %s and waits for %d", info.Thread, s.Status, len(s.Waiting)))
		if s.Status == pawl.Done {
			out = append(out, string(s.Values))
		}
		if l.Mode == pawl.Stateless || c.runs {
			continue // it has no history, or one a run
		}
		history, err := nest.History(ctx, th, l, pawl.Page{})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range slices.Backward(history) {
			step := s.Step
			if s.Source == "edit" { // it follows the last step of the outermost
				step = 0
			}
			out = append(out, fmt.Sprintf("step %d, %s: %s, next %v", step, s.Source, s.Values, s.Next))
		}
	}
	return out
}

// journaled are the steps and the questions.
func journaled(t *testing.T, ctx context.Context, db storage.DB, l nest.Level) (out []string) {
	t.Helper()
	err := db.View(ctx, func(_ context.Context, tx storage.Tx) error {
		out = nil
		inside, err := tx.List(records.Nested, storage.Query{NoBody: true})
		if err == nil && l.Depth > 0 && l.Mode != pawl.Stateless && len(inside) == 0 {
			t.Errorf("%v: nothing ran inside", l)
		}
		if err != nil {
			return err
		}
		steps, err := tx.List(records.Step, storage.Query{})
		if err != nil {
			return err
		}
		for _, row := range steps {
			s, err := records.Box{}.ReadStep("t", row)
			if err != nil {
				return err
			}
			out = append(out, fmt.Sprintf("%s: step %s/%s = %s", s.Node, s.Name, s.Key, s.Result))
		}
		asked, err := tx.List(records.Question, storage.Query{})
		for _, row := range asked {
			q, err := records.Box{}.ReadQuestion(row)
			if err != nil {
				return err
			}
			out = append(out, fmt.Sprintf("%s: %s/%s revision %d is %s, answered %s", q.Node, q.Name, q.Key, q.Revision, q.State, q.Answer))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(out)
	return out
}

// decided are the operations and the approvals.
func decided(t *testing.T, ctx context.Context, eng *pawl.Engine, db storage.DB) (out []string) {
	t.Helper()
	led, err := effect.NewLedger(effect.Options{Key: sweepRing()})
	if err != nil {
		t.Fatal(err)
	}
	ops, err := led.Desk(eng, db).List(ctx, effect.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	for _, op := range ops {
		out = append(out, fmt.Sprintf("operation %s %s revision %d is %s after %d attempts", op.Effect, op.Ref, op.Revision, op.State, op.Attempts))
	}
	requests, err := approval.NewDesk(eng, db).List(ctx, approval.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	states := map[string]int{}
	for _, r := range requests {
		states[fmt.Sprintf("of %s %s are %s", r.Effect, r.Ref, r.State)]++
	}
	for _, state := range slices.Sorted(maps.Keys(states)) {
		out = append(out, fmt.Sprintf("%d approvals %s", states[state], state))
	}
	return out
}
