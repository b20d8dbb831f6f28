package pawltest

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/pawl-dev/pawl/storage"
	"github.com/pawl-dev/pawl/storage/fault"
)

// Called notes in the ledger of a [Sweep] that the outside world was called, and returns how often it was by now, this
// call included. The ledger survives the deaths of a trial, as the outside world does. Call it inside the function of a
// step, with the step's name as label, or name/key where the step has a key: then the sweep also checks that what was
// recorded is not called again. Other labels are the scenario's own. Outside a sweep it does nothing and returns 1.
func Called(ctx context.Context, label string) int {
	l, _ := ctx.Value(ledgerKey{}).(*ledger)
	if l == nil {
		return 1
	}
	return l.add(wasCalled, label)
}

// Calls returns how often [Called] was called with a label in this trial.
func Calls(ctx context.Context, label string) int {
	l, _ := ctx.Value(ledgerKey{}).(*ledger)
	if l == nil {
		return 0
	}
	return l.count(wasCalled, label)
}

// Point marks a place outside the home, such as a request to another system, where a [Sweep] lets the process die, too.
// Its error means that the process is dead: return it, as a connection that broke. Outside a sweep it is nil.
func Point(ctx context.Context) error {
	if db, _ := ctx.Value(homeKey{}).(*fault.DB); db != nil {
		return db.Pass(ctx)
	}
	return nil
}

// Home is the home of the process that a [Sweep] drives, as it sees it; nil outside a sweep.
func Home(ctx context.Context) storage.DB {
	if db, _ := ctx.Value(homeKey{}).(*fault.DB); db != nil {
		return db
	}
	return nil
}

// Alone gives one run of a scenario that nothing stops what [Sweep] gives to its trials: to Drive and Check a context
// with a ledger of its own, and to the engine the home.
func Alone(ctx context.Context, home storage.DB) (context.Context, storage.DB) {
	db := fault.Wrap(home, fault.Plan{})
	return context.WithValue((&ledger{}).in(ctx), homeKey{}, db), db
}

type (
	ledgerKey struct{}
	homeKey   struct{}
)

// What a ledger's lines say.
const (
	begins    = "life"   // a process begins
	wasCalled = "called" // a step's function ran
	recorded  = "record" // a step's result was committed
	killed    = "killed" // a process is about to kill itself
)

// ledger is what the world outside the engine saw in one trial. With a file it outlives its process.
type ledger struct {
	mu    sync.Mutex
	lines []line
	file  *os.File
}

type line struct{ what, label string }

// openLedger returns a ledger that appends to a file, with what stands there already.
func openLedger(path string) (*ledger, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	l := &ledger{file: file}
	for in := bufio.NewScanner(file); in.Scan(); {
		what, quoted, _ := strings.Cut(in.Text(), " ")
		label, err := strconv.Unquote(quoted)
		if err != nil {
			return nil, fmt.Errorf("pawltest: ledger %s: line %q: %w", path, in.Text(), err)
		}
		l.lines = append(l.lines, line{what, label})
	}
	return l, nil
}

func (l *ledger) close() {
	if l.file != nil {
		_ = l.file.Close()
	}
}

func (l *ledger) in(ctx context.Context) context.Context {
	return context.WithValue(ctx, ledgerKey{}, l)
}

// add appends lines and returns how many like the last there are now.
func (l *ledger) add(what string, labels ...string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, label := range labels {
		l.lines = append(l.lines, line{what, label})
		if l.file != nil {
			if _, err := fmt.Fprintf(l.file, "%s %q\n", what, label); err != nil {
				panic(fmt.Sprintf("pawltest: the ledger cannot be written: %v", err)) // a trial without it proves nothing
			}
		}
		n = l.countLocked(what, label)
	}
	return n
}

func (l *ledger) count(what, label string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.countLocked(what, label)
}

func (l *ledger) countLocked(what, label string) (n int) {
	for _, have := range l.lines {
		if have == (line{what, label}) {
			n++
		}
	}
	return n
}

// tally is what a whole trial came to, by label.
type tally struct {
	calls, records map[string]int
	lost           map[string]int // called in a life that ended before the result was recorded
}

func (l *ledger) tally() tally {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := tally{calls: map[string]int{}, records: map[string]int{}, lost: map[string]int{}}
	open := map[string]int{}
	for _, have := range l.lines {
		switch have.what {
		case begins:
			for label, n := range open {
				t.lost[label] += max(n, 0)
			}
			clear(open)
		case wasCalled:
			t.calls[have.label]++
			open[have.label]++
		case recorded:
			t.records[have.label]++
			open[have.label]--
		}
	}
	return t
}

// against compares a trial with one that nothing stopped.
func (t tally) against(want tally) []string {
	var faults []string
	for label, n := range want.records {
		if t.records[label] != n {
			faults = append(faults, fmt.Sprintf("step %q was recorded %d times, want %d", label, t.records[label], n))
		}
		if most := want.calls[label] + t.lost[label]; t.calls[label] > most {
			faults = append(faults, fmt.Sprintf("step %q was called %d times, want at most %d: a finished step was called again",
				label, t.calls[label], most))
		}
	}
	for label := range t.records {
		if want.records[label] == 0 {
			faults = append(faults, fmt.Sprintf("step %q was recorded, and without a stop it never is", label))
		}
	}
	return faults
}
