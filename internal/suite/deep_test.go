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
	hasChildren = "it has children of its own"
	noGraph     = "it runs no graph"
	underExit   = "under Exit a thread keeps its newest checkpoint, and a child that is done no end of its own"
	startsOver  = "a migration starts the children of a task that is due over"
)

// runDeep is runAll with each scenario at every depth: as it is, and with its graphs inside up to three others, as a node
// and called. One with a process that dies runs at depths 0 and 1, to hold the time.
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
	three, one []string
	flat       map[string][]string // those that ran as they are only, by the reason
	differ     []string            // lines of the closing table that are not the same at every depth
}

// String is what is printed at the end.
func (d *depths) String(suite string) string {
	flat := 0
	for _, ids := range d.flat {
		flat += len(ids)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s, depth: %d scenarios at depths 0-3, %d at 0-1, %d not nested\n", suite, len(d.three), len(d.one), flat)
	for _, why := range slices.Sorted(maps.Keys(d.flat)) {
		slices.Sort(d.flat[why])
		fmt.Fprintf(&b, "  %s: %s\n", why, strings.Join(d.flat[why], ", "))
	}
	return b.String()
}

func atAllDepths(t *testing.T, r *report, s scenario) {
	s.onlyOnce(t)
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
	levels, list := []nest.Level{{Depth: 1}, {Depth: 1, Called: true}, {Depth: 2}, {Depth: 3, Called: true}}, &r.depth.three
	if noted(t, spawned) {
		levels, list = levels[:1], &r.depth.one
	}
	inside := false
	for _, l := range levels {
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
	*list = append(*list, s.id)
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

// innermost is a path without the graphs around.
func innermost(path string) string { return path[strings.LastIndex(path, "|")+1:] }

// inner is what a refusal says of a node of the innermost graph.
func inner(t testing.TB, refusal string) string {
	return strings.ReplaceAll(refusal, `node "`, `node "`+levelOf(t).Node(""))
}

func levelHere() nest.Level { return nest.Of(os.Getenv("PAWL_SUITE_TEST")) }

func atDepthHere[S any](b *pawl.Builder[S]) *nest.Graph[S] { return must(atLevel(levelHere(), b)) }

// inMemoryOnly holds the time: SQLite sees each scenario as it is and inside one other.
func inMemoryOnly(t testing.TB) bool {
	l := levelOf(t)
	return l.Depth > 1 || l.Called
}

// What a scenario did, as the depths at which it runs depend on it.
const (
	spawned = "spawned a process"
	wentIn  = "put a graph into another"
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
