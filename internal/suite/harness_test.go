// Package suite holds the numbered cases: one subtest a scenario, promise, bug or acceptance line, named by its number.
// A case that waits for a part prints why and never counts as passed.
package suite

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/house"
	"github.com/pawl-dev/pawl/internal/nest"
	"github.com/pawl-dev/pawl/memdb"
	"github.com/pawl-dev/pawl/sqlite"
	"github.com/pawl-dev/pawl/storage"
)

func TestMain(m *testing.M) {
	if name := os.Getenv("PAWL_SUITE_CHILD"); name != "" {
		program, ok := children()[name]
		if !ok {
			fmt.Fprintln(os.Stderr, "no such child:", name)
			os.Exit(2)
		}
		program([]byte(os.Getenv("PAWL_SUITE_ARGS")))
		os.Exit(0)
	}
	code := m.Run()
	if missing := notInMany(); len(missing) > 0 {
		fmt.Fprintf(os.Stderr, "cut short, and not in the Makefile's MANY: %v\n", missing)
		code = 1
	}
	if left := leftovers(); code == 0 && left != "" {
		fmt.Fprintf(os.Stderr, "goroutines left behind:\n%s\n", left)
		code = 1
	}
	os.Exit(code)
}

// leftovers waits for the engine's goroutines to end and returns the stacks of those that do not.
func leftovers() string {
	var stacks []string
	for range 200 {
		buf := make([]byte, 1<<20)
		stacks = nil
		for _, s := range strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
			if strings.Contains(s, "pawl-dev/pawl") && !strings.Contains(s, "TestMain") {
				stacks = append(stacks, s)
			}
		}
		if len(stacks) == 0 {
			return ""
		}
		runtime.Gosched()
		<-time.After(10 * time.Millisecond)
	}
	return strings.Join(stacks, "\n\n")
}

// scenario is one numbered case. Without run it waits, or is foreign to Go, for the reason given.
type scenario struct {
	id      string
	run     func(t *testing.T, r *report)
	waits   string
	foreign string
	differs string // why what it proves is on purpose not what the list of another engine's behaviours expects
	strict  bool   // the list expects more than that engine does, and it is shown
	flat    string // why its graph does not run inside others
}

// report collects what a suite prints at its end: counts, and the measured lines of its tables.
type report struct {
	mu     sync.Mutex
	passed []string
	failed []string
	waits  []string
	same   []string // numbers whose function ran under another
	// Rows of another engine's behaviours: by the reason, and those that are stricter.
	differs, foreign map[string][]string
	strict           []string
	lines            map[int]string
	depth            depths
}

// line sets one line of the closing table: made of measured values only. The place is its position in the table.
func (r *report) line(place int, format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lines == nil {
		r.lines = map[int]string{}
	}
	line := fmt.Sprintf(format, args...)
	if was, ok := r.lines[place]; ok && was != line {
		r.depth.differ = append(r.depth.differ, fmt.Sprintf("%q and %q", was, line))
	}
	r.lines[place] = line
}

// runAll runs a suite's scenarios side by side and prints the table and the counts when all are over.
func runAll(t *testing.T, suite string, all []scenario) *report {
	r := &report{differs: map[string][]string{}, foreign: map[string][]string{}, depth: depths{flat: map[string][]string{}}}
	t.Cleanup(func() { r.print(suite) })
	for _, s := range all {
		t.Run(s.id, func(t *testing.T) {
			if s.run == nil {
				r.mu.Lock()
				defer r.mu.Unlock()
				if s.foreign != "" {
					r.foreign[s.foreign] = append(r.foreign[s.foreign], s.id)
					t.Skip("not applicable: " + s.foreign)
				}
				r.waits = append(r.waits, s.id+": "+s.waits)
				t.Skip("waits: " + s.waits)
			}
			s.onlyOnce(t, r)
			t.Parallel()
			t.Cleanup(func() {
				r.mu.Lock()
				defer r.mu.Unlock()
				switch {
				case t.Skipped():
					return
				case t.Failed():
					r.failed = append(r.failed, s.id)
					return
				}
				r.passed = append(r.passed, s.id)
				if s.strict {
					r.strict = append(r.strict, s.id)
				} else if s.differs != "" {
					r.differs[s.differs] = append(r.differs[s.differs], s.id)
				}
			})
			s.run(t, r)
		})
	}
	return r
}

// onlyOnce leaves a scenario out whose function runs under another number: it is that case. PAWL_DEPTH=full runs it under
// each.
func (s *scenario) onlyOnce(t *testing.T, r *report) {
	name := runtime.FuncForPC(reflect.ValueOf(s.run).Pointer()).Name()
	if nest.Full() || strings.Contains(name, ".func") { // closures of the same code may differ
		return
	}
	if id, ran := ranAs.LoadOrStore(name, s.id); ran && id != s.id {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.same = append(r.same, fmt.Sprintf("%s is %s", s.id, id))
		t.Skipf("it is %s, which runs", id)
	}
}

// ranAs are the numbers by the functions that ran.
var ranAs sync.Map

func (r *report) print(suite string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var places []int
	for p := range r.lines {
		places = append(places, p)
	}
	slices.Sort(places)
	for _, p := range places {
		fmt.Println(r.lines[p])
	}
	fmt.Printf("%s: %d passed, %d waiting, %d failed %v\n", suite, len(r.passed), len(r.waits), len(r.failed), r.failed)
	if len(r.same) > 0 {
		slices.Sort(r.same)
		fmt.Printf("  run once for two numbers: %s\n", strings.Join(r.same, ", "))
	}
}

// home is one kind of storage that a scenario runs on. open returns the same home each time: another handle to the
// file, or the one in memory.
type home struct {
	name string
	path string // SQLite only
	open func(t testing.TB) storage.DB
}

// onEach runs a case on memory and on SQLite. kinds are those of the case's own.
func onEach(t *testing.T, run func(t *testing.T, h *home), kinds ...storage.Kind) {
	t.Run("memory", func(t *testing.T) { run(t, memoryWith(t, kinds...)) })
	if inMemoryOnly(t) {
		return
	}
	t.Run("sqlite", func(t *testing.T) { run(t, onDiskWith(t, kinds...)) })
}

func memory(t testing.TB) *home { return memoryWith(t) }

func memoryWith(t testing.TB, kinds ...storage.Kind) *home {
	db, err := memdb.Open(append(house.Kinds(), kinds...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return &home{name: "memory", open: func(testing.TB) storage.DB { return db }}
}

func onDisk(t testing.TB) *home { return onDiskWith(t) }

func onDiskWith(t testing.TB, kinds ...storage.Kind) *home {
	path := filepath.Join(t.TempDir(), "pawl.db")
	return &home{name: "sqlite", path: path, open: func(t testing.TB) storage.DB { return openFile(t, path, kinds...) }}
}

func openFile(t testing.TB, path string, kinds ...storage.Kind) storage.DB {
	db, err := sqlite.Open(path, append(house.Kinds(), kinds...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// engine makes an engine that is closed at the end of the test, before its database.
func engine(t testing.TB, db storage.DB, options *pawl.Options, graphs ...pawl.Registrable) *pawl.Engine {
	t.Helper()
	eng, err := pawl.NewEngine(db, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { eng.Close() })
	if err := eng.Register(graphs...); err != nil {
		t.Fatal(err)
	}
	return eng
}

// build ends a graph's declaration, or the test.
func build[S any](t testing.TB, b *pawl.Builder[S]) *pawl.Graph[S] {
	t.Helper()
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// ledger is a file outside the engine that counts real calls.
type ledger struct{ path string }

func newLedger(t testing.TB) *ledger { return &ledger{filepath.Join(t.TempDir(), "ledger")} }

// add writes one line; it is there when add returns, whatever happens to the process.
func (l *ledger) add(line string) {
	f, err := os.OpenFile(l.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = fmt.Fprintln(f, line)
		err2 := f.Close()
		if err == nil {
			err = err2
		}
	}
	if err != nil {
		panic(err)
	}
}

func (l *ledger) rows() []string {
	doc, err := os.ReadFile(l.path)
	if err != nil && !os.IsNotExist(err) {
		panic(err)
	}
	return strings.Fields(string(doc))
}

func (l *ledger) count(line string) int {
	n := 0
	for _, r := range l.rows() {
		if r == line {
			n++
		}
	}
	return n
}

// history returns a thread's snapshots, the newest first.
func history(t testing.TB, th interface {
	History(context.Context, pawl.Page) ([]*pawl.Snapshot, error)
}) []*pawl.Snapshot {
	t.Helper()
	page := pawl.Page{Limit: 10_000}
	h, err := th.History(context.Background(), page)
	if erased, ok := th.(*pawl.Thread); ok {
		h, err = nest.History(context.Background(), erased, levelOf(t), page)
	}
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// statusOf reads where a thread stands.
func statusOf(t testing.TB, th interface {
	State(context.Context, ...pawl.Path) (*pawl.ThreadState, error)
}) *pawl.ThreadState {
	t.Helper()
	s, err := th.State(context.Background())
	if erased, ok := th.(*pawl.Thread); ok {
		s, err = nest.State(context.Background(), erased, levelOf(t))
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// grew fails unless every snapshot of before is in after, byte for byte.
func grew(t testing.TB, before, after []*pawl.Snapshot) {
	t.Helper()
	have := map[string]string{}
	for _, s := range after {
		have[s.Checkpoint] = fixed(s)
	}
	for _, s := range before {
		if have[s.Checkpoint] != fixed(s) {
			t.Errorf("history changed: checkpoint %s was %s, is %s", s.Checkpoint, fixed(s), have[s.Checkpoint])
		}
	}
}

// fixed is what must never change of a snapshot; tasks and next may go on.
func fixed(s *pawl.Snapshot) string {
	return fmt.Sprint(s.Checkpoint, s.Parent, s.Step, s.Source, s.Run, s.Attempt, s.Seq, string(s.Values))
}

// settled is checked at the end of a scenario: what is pending shows in the status.
func settled(t testing.TB, s *pawl.ThreadState) {
	t.Helper()
	if len(s.Waiting) > 0 && s.Status != pawl.Waiting && s.Status != pawl.Failed && s.Status != pawl.Crashed && s.Status != pawl.Running {
		t.Errorf("thread %s is %s with %d open questions", s.Thread, s.Status, len(s.Waiting))
	}
}

// same fails unless a measured value is the expected one.
func same[T any](t testing.TB, what string, got, want T) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// three runs a case with a death three times and returns its line, which must be the same each time. Inside others, and
// where the race detector watches, it runs once, as in times.
func three(t *testing.T, run func(t *testing.T) string) string {
	t.Helper()
	var lines []string
	if detector {
		note(t, cutShort)
		return run(t)
	}
	if levelOf(t).Depth > 0 {
		return run(t)
	}
	for i := range 3 {
		t.Run(fmt.Sprint("run ", i+1), func(t *testing.T) { lines = append(lines, run(t)) })
	}
	if len(lines) != 3 || lines[0] != lines[1] || lines[0] != lines[2] {
		t.Fatalf("three runs gave %q", lines)
	}
	return lines[0]
}

// compact is a value as JSON in one line.
func compact(v any) string {
	doc, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(doc)
}
