// Command bench measures the engine beside the raw limits of the machine that it runs on. Each figure comes with its
// goal; results are asserted, times are not: a missed goal is printed as missed.
package main

import (
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/memdb"
	"github.com/pawl-dev/pawl/sqlite"
	"github.com/pawl-dev/pawl/storage"
)

// lab runs the measurements in one folder and prints their lines.
type lab struct {
	dir    string
	rounds int
	missed int
}

func main() {
	dir := flag.String("dir", "", "folder for database files; default: a temporary one")
	rounds := flag.Int("rounds", 3, "runs of each measurement; the median is printed")
	only := flag.String("run", "", "run only measurements whose name contains this")
	flag.Parse()
	l := &lab{dir: *dir, rounds: *rounds}
	if l.dir == "" {
		tmp, err := os.MkdirTemp("", "pawl-bench")
		if err != nil {
			fail(err)
		}
		defer os.RemoveAll(tmp)
		l.dir = tmp
	}
	fmt.Printf("%s %s/%s, %d cores, files in %s\n\n", runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), l.dir)
	for _, m := range []struct {
		name string
		run  func(*lab)
	}{
		{"memory", memory}, {"commit", commits}, {"bytes", bytes}, {"depth", depth}, {"sends", sends}, {"audit", trail}, {"effects", effects},
		{"redaction", redaction},
	} {
		if strings.Contains(m.name, *only) {
			m.run(l)
		}
	}
	fmt.Printf("\n%d goals missed\n", l.missed)
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "bench:", err)
	os.Exit(1)
}

func must[T any](v T, err error) T {
	if err != nil {
		fail(err)
	}
	return v
}

// line prints one figure with its goal.
func (l *lab) line(what, figure, goal string, met bool) {
	verdict := "met"
	if !met {
		verdict = "MISSED"
		l.missed++
	}
	fmt.Printf("%-52s %-34s goal %-28s %s\n", what, figure, goal, verdict)
}

// note prints a figure without a goal.
func (l *lab) note(what, figure string) { fmt.Printf("%-52s %s\n", what, figure) }

// median runs f several times and returns the middle of what it measured.
func (l *lab) median(f func() time.Duration) time.Duration {
	out := make([]time.Duration, l.rounds)
	for i := range out {
		runtime.GC()
		out[i] = f()
	}
	slices.Sort(out)
	return out[len(out)/2]
}

// file opens a new database file and returns its path.
func (l *lab) file() (storage.DB, string) {
	path := filepath.Join(must(os.MkdirTemp(l.dir, "file")), "pawl.db")
	return must(sqlite.Open(path, pawl.Kinds()...)), path
}

func (l *lab) inMemory() storage.DB { return must(memdb.Open(pawl.Kinds()...)) }

// with runs f on an engine over db and closes both.
func with(db storage.DB, options *pawl.Options, f func(*pawl.Engine)) {
	eng := must(pawl.NewEngine(db, options))
	f(eng)
	if err := eng.Close(); err != nil {
		fail(err)
	}
	if db != nil {
		if err := db.Close(); err != nil {
			fail(err)
		}
	}
}

// unlimited lets a measurement run as many super-steps and tasks as it needs.
func unlimited() *pawl.Options {
	return &pawl.Options{Limits: pawl.Limits{Steps: math.MaxInt, Tasks: math.MaxInt}}
}
