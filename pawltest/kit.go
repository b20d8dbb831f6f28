// Package pawltest is for tests of programs that use pawl: engines in memory that are strict and leave nothing behind,
// people who answer by script, stores that are slow on purpose, and the crash sweep.
//
//	eng := pawltest.New(t, graph)
//	out := pawltest.Run(t, graph.Thread(eng, "order-17"), &State{}, pawltest.People{
//		"review": func(q pawl.Question) any { return "yes" },
//	})
package pawltest

import (
	"bytes"
	"context"
	"runtime"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/memdb"
	"github.com/pawl-dev/pawl/storage"
)

// New returns an engine in memory with the graphs registered. It is strict: a node that changes in place what it read,
// that asks something else when it runs again, or that hides by returning nil that it waits, fails its run. It is
// closed when the test ends, and the test fails if a goroutine is left then that was started after New by the test's
// goroutine or below it. New is called by that goroutine, which it labels.
func New(t testing.TB, graphs ...pawl.Registrable) *pawl.Engine {
	t.Helper()
	eng := Engine(t, Memory(t), nil)
	if err := eng.Register(graphs...); err != nil {
		t.Fatal(err)
	}
	return eng
}

// Memory returns an empty home in memory with the engine's kinds and others, closed when the test ends.
func Memory(t testing.TB, kinds ...storage.Kind) storage.DB {
	t.Helper()
	db, err := memdb.Open(append(pawl.Kinds(), kinds...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Errorf("closing the home: %v", err)
		}
	})
	return db
}

// Engine is New over a home and with options of the caller's, made strict. Several engines over one home are several
// processes that share it.
func Engine(t testing.TB, db storage.DB, options *pawl.Options) *pawl.Engine {
	t.Helper()
	var strict pawl.Options
	if options != nil {
		strict = *options
	}
	strict.Strict = true
	eng, err := pawl.NewEngine(db, &strict)
	if err != nil {
		t.Fatal(err)
	}
	pprof.SetGoroutineLabels(pprof.WithLabels(context.Background(), pprof.Labels(label, t.Name())))
	t.Cleanup(func() {
		if err := eng.Close(); err != nil {
			t.Errorf("closing the engine: %v", err)
		}
		if left := leftovers(t.Name()); left != "" {
			t.Errorf("goroutines are left after the engine was closed; end them before the test does:\n%s", left)
		}
	})
	return eng
}

// label marks the goroutines of a test, so that tests that run beside it are not blamed on it: goroutines inherit it.
const label = "pawltest"

// patience is how long goroutines may take to end that nothing holds any more.
const patience = 2 * time.Second

// leftovers waits for the goroutines of a test to end and describes those that do not.
func leftovers(test string) string {
	end := time.NewTimer(patience)
	defer end.Stop()
	for {
		left := labelled(test)
		if left == "" {
			return ""
		}
		select {
		case <-end.C:
			return left
		default:
			runtime.Gosched()
		}
	}
}

// labelled describes the goroutines of a test beside the caller's own, by stack.
func labelled(test string) string {
	var all bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&all, 1); err != nil {
		return err.Error()
	}
	mark := `"` + label + `":"` + strings.Trim(strings.ReplaceAll(test, `"`, `\"`), `"`) + `"`
	var left []string
	for _, group := range strings.Split(all.String(), "\n\n") {
		// An engine's watch ends with its Close, which waits for it: it is that of another engine of this test.
		own := strings.Contains(group, "pawltest.labelled") || strings.Contains(group, "pawl.(*house).watch")
		if strings.Contains(group, mark) && !own {
			left = append(left, group)
		}
	}
	return strings.Join(left, "\n\n")
}
