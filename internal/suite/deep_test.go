package suite

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/nest"
)

// Why scenarios run as they are only.
const (
	noGraph    = "it runs no graph"
	underExit  = "under Exit a thread keeps its newest checkpoint, and a child that is done no end of its own"
	startsOver = "a migration starts the children of a task that is due over"
	itsBytes   = "it measures the bytes of one thread's own snapshots"
	ownFacts   = "it compares the facts of a graph that has a child of its own"
	forgets    = "a memory inside a child that does not remember ends with it"
)

// runDeep is runAll with each scenario as it is, and with its graphs inside one, two or three others, as a node or called: at
// one of these six levels by turns (see nest.ByTurns), or at all of them.
func runDeep(t *testing.T, suite string, all []scenario) {
	all = slices.Clone(all)
	for i := range all {
		if s := all[i]; s.run != nil {
			all[i].run = func(t *testing.T, r *report) { atAllDepths(t, r, s) }
		}
	}
	r := runAll(t, suite, all)
	t.Cleanup(func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		fmt.Print(r.depth.String(suite))
		for _, lines := range r.depth.differ {
			t.Errorf("measured differently at another depth: %s", lines)
		}
	})
}

// depths are the scenarios by how deep they ran.
type depths struct {
	inside []string
	died   int                 // of them, those with processes of their own
	flat   map[string][]string // those that ran as they are only, by the reason
	differ []string            // lines of the closing table that are not the same at every depth
}

// String is what is printed at the end.
func (d *depths) String(suite string) string {
	flat := 0
	for _, ids := range d.flat {
		flat += len(ids)
	}
	var b strings.Builder
	at := fmt.Sprintf("at one depth of 1-3 each by PAWL_SEED=%d", nest.Seed())
	if nest.Full() {
		at = "at every depth of 1-3"
	}
	fmt.Fprintf(&b, "%s, depth: %d scenarios inside others %s, %d of them with processes of their own; %d not nested\n",
		suite, len(d.inside), at, d.died, flat)
	list := func(what string, by map[string][]string) {
		for _, why := range slices.Sorted(maps.Keys(by)) {
			slices.Sort(by[why])
			fmt.Fprintf(&b, "  %s, as %s: %s\n", what, why, strings.Join(by[why], ", "))
		}
	}
	list("not", d.flat)
	list("not in part", partsOf(suite))
	return b.String()
}

// partsOf are the scenarios of a suite with parts that ran as they are only, by the reason.
func partsOf(suite string) map[string][]string {
	by := map[string][]string{}
	done.Range(func(key, _ any) bool {
		if p, ok := key.(part); ok {
			if test, id, _ := strings.Cut(p.scenario, "/"); strings.EqualFold(test, "Test"+suite) {
				by[p.why] = append(by[p.why], id)
			}
		}
		return true
	})
	return by
}

func atAllDepths(t *testing.T, r *report, s scenario) {
	s.onlyOnce(t, r)
	flat := s.runAt(t, r, nest.Level{})
	if s.flat != "" {
		if !flat {
			t.Skip("left out by the flags of the test")
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.depth.flat[s.flat] = append(r.depth.flat[s.flat], s.id)
		return
	}
	inside := false
	for _, l := range nest.ByTurns(nest.Levels(3), s.id, nest.Seed()) {
		inside = s.runAt(t, r, l) || inside
	}
	switch {
	case !inside && !flat:
		t.Skip("left out by the flags of the test")
	case !inside:
		return
	case !t.Failed() && !noted(t, wentIn):
		t.Error("none of its graphs ran inside another: say why not")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.depth.inside = append(r.depth.inside, s.id)
	if noted(t, spawned) {
		r.depth.died++
	}
}

// runAt says whether the flags of the test let the scenario run at a level.
func (s *scenario) runAt(t *testing.T, r *report, l nest.Level) (ran bool) {
	t.Run(l.String(), func(t *testing.T) {
		ran = true
		s.run(t, r)
	})
	return ran
}

// atDepth is build, and the graph runs inside as many others as the test's name says.
func atDepth[S any](t testing.TB, b *pawl.Builder[S]) *nest.Graph[S] {
	t.Helper()
	g, err := atLevel(levelFor(t), b)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func atLevel[S any](l nest.Level, b *pawl.Builder[S]) (*nest.Graph[S], error) {
	g, err := b.Build()
	if err != nil {
		return nil, err
	}
	return nest.In(g, l)
}

// levelFor is how deep a graph of a test is to run inside others, and levelHere one of a child process: as deep as those
// of the test that spawned it.
func levelFor(t testing.TB) nest.Level {
	l := levelOf(t)
	if l.Depth > 0 {
		note(t, wentIn)
	}
	return l
}

func levelOf(t testing.TB) nest.Level { return nest.Of(t.Name()) }

// inOthers is atDepth of a graph that is built.
func inOthers[S any](t testing.TB, g *pawl.Graph[S]) *nest.Graph[S] {
	t.Helper()
	deep, err := nest.In(g, levelFor(t))
	if err != nil {
		t.Fatal(err)
	}
	return deep
}

// ownPath is a path as the scenario has it, from its outermost graph on; empty: it is one of those around.
func ownPath(t testing.TB, path string) string {
	for range levelOf(t).Depth {
		_, path, _ = strings.Cut(path, "|")
	}
	return path
}

// flatPart leaves a part of a scenario out inside others, where it means something else.
func flatPart(t *testing.T, why string) {
	if levelOf(t).Depth > 0 {
		done.Store(part{scenarioOf(t), why}, true)
		t.Skip(why)
	}
}

// part is one of a scenario that runs as it is only.
type part struct{ scenario, why string }

// innermost is a path without the graphs around.
func innermost(path string) string { return path[strings.LastIndex(path, "|")+1:] }

// inner is what a refusal says of a node of the innermost graph.
func inner(t testing.TB, refusal string) string {
	return strings.ReplaceAll(refusal, `node "`, `node "`+levelOf(t).Node(""))
}

func levelHere() nest.Level { return nest.Of(os.Getenv("PAWL_SUITE_TEST")) }

func atDepthHere[S any](b *pawl.Builder[S]) *nest.Graph[S] { return must(atLevel(levelHere(), b)) }

// inMemoryOnly holds the time: SQLite sees each scenario as it is and inside one other.
func inMemoryOnly(t testing.TB) bool { return levelOf(t).Depth > 1 }

// times is how often a scenario does what it does many times: n, or a tenth of it inside others, where each time costs more,
// unless PAWL_DEPTH=full, and where the race detector watches, which sees in a few what it sees in all. Without it the
// scenario runs again for all of them: see notInMany.
func times(t testing.TB, n int) int {
	if detector {
		note(t, cutShort)
	}
	if detector || levelOf(t).Depth > 0 && !nest.Full() {
		n = max(1, n/10)
	}
	t.Logf("%d times", n)
	return n
}

// notInMany are the scenarios that were cut short and that `make rest` would not run in full, since they are not in the
// Makefile's MANY.
func notInMany() (missing []string) {
	if !detector {
		return nil
	}
	doc, err := os.ReadFile("../../Makefile")
	if err != nil {
		return []string{err.Error()}
	}
	_, many, _ := strings.Cut(string(doc), "\nMANY = ")
	many, _, _ = strings.Cut(many, "\n")
	listed := strings.FieldsFunc(many, func(r rune) bool { return strings.ContainsRune("^$/(|)", r) })
	done.Range(func(key, _ any) bool {
		if what, ok := key.(string); ok {
			if test, ok := strings.CutPrefix(what, cutShort+" in "); ok && !slices.Contains(listed, test[strings.Index(test, "/")+1:]) {
				missing = append(missing, test)
			}
		}
		return true
	})
	return missing
}

// What a scenario did, as the depths at which it runs depend on it.
const (
	spawned = "spawned a process"
	wentIn  = "put a graph into another"

	cutShort = "did less than all, since the race detector watched"
)

// done is what the scenarios did, by the name of the test: the only thing that they share.
var done sync.Map

func note(t testing.TB, what string) { done.Store(what+" in "+scenarioOf(t), true) }

func noted(t testing.TB, what string) bool {
	_, did := done.Load(what + " in " + scenarioOf(t))
	return did
}

// scenarioOf is the name of the scenario that a test belongs to.
func scenarioOf(t testing.TB) string {
	parts := strings.SplitN(t.Name(), "/", 3)
	return strings.Join(parts[:min(2, len(parts))], "/")
}

// failedAt is the node at which a thread stands failed.
func failedAt(t testing.TB, th *pawl.Thread) string { return nest.FailedIn(statusOf(t, th).Head) }
