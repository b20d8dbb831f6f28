package effect_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/effect"
	"github.com/pawl-dev/pawl/pawltest"
	"github.com/pawl-dev/pawl/sqlite"
	"github.com/pawl-dev/pawl/storage/fault"
)

// workerVar makes a child process a worker on a home of disk.
const workerVar = "PAWL_EFFECT_WORKER"

type workerErrand struct {
	Dir, URL string
	Mode     pawltest.TargetMode
}

// Real processes: a worker on SQLite is killed by the target, in a process of its own, at the two points that only a
// target sees. Another worker goes on. The decisions of people come from a third process.
func TestKilledWorkers(t *testing.T) {
	if doc := os.Getenv(workerVar); doc != "" {
		work(t, doc)
		return
	}
	for _, mode := range allModes {
		for at, row := range map[pawltest.TargetPoint]string{pawltest.TargetReceived: received, pawltest.TargetCommitted: noAnswer} {
			t.Run(string(mode)+", "+string(at), func(t *testing.T) { killed(t, mode, at, row) })
		}
	}
}

func killed(t *testing.T, mode pawltest.TargetMode, at pawltest.TargetPoint, row string) {
	target := pawltest.TargetProcess(t, mode)
	e := workerErrand{t.TempDir(), target.URL, mode}
	if said := e.start(t); said != "asks" {
		t.Fatalf("the worker says %q", said)
	}
	e.open(t).decideAll(t) // in this process, which is none of the workers
	if err := target.Fault(t.Context(), pawltest.TargetFault{At: at, Times: 1, Kill: true}); err != nil {
		t.Fatal(err)
	}
	if said := e.start(t); said != "killed" {
		t.Fatalf("the worker says %q", said)
	}
	said := e.start(t)
	l, err := target.Ledger(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprintf("%d / %d / %s", l.Count.Requests, l.Count.Rows, said); got != deaths[row][mode] {
		t.Errorf("%s: %s, want %s", row, got, deaths[row][mode])
	}
	p := e.open(t)
	op, rs, want := p.operation(), p.requests(), effect.StateCommitted
	if said == "waits" {
		want = effect.StateQuarantined
	}
	if op.State != want || len(rs) != 1 || rs[0].State != "consumed" || rs[0].UsedBy != op.Key || slices.Compact(l.Keys)[0] != op.Key {
		t.Errorf("at the end: %+v, %+v, keys %v", op, rs, l.Keys)
	}
}

// start runs a worker to its end and returns its last word.
func (e workerErrand) start(t *testing.T) string {
	t.Helper()
	doc, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, "-test.run=^TestKilledWorkers$", "-test.count=1")
	cmd.Env = append(os.Environ(), workerVar+"="+string(doc))
	out, err := cmd.Output()
	if err != nil && !cmd.ProcessState.Exited() {
		return "killed"
	}
	for line := range strings.Lines(string(out)) {
		if said, ok := strings.CutPrefix(line, "worker: "); ok {
			return strings.TrimSpace(said)
		}
	}
	t.Fatalf("the worker said nothing: %v\n%s", err, out)
	return ""
}

// open opens the errand's home here.
func (e workerErrand) open(t *testing.T) *process {
	t.Helper()
	db, err := sqlite.Open(filepath.Join(e.Dir, "pawl.db"), kinds()...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	key, err := effect.KeyFile(filepath.Join(e.Dir, "pawl.key"))
	if err != nil {
		t.Fatal(err)
	}
	return start(t, db, fault.Plan{}, func(o *effect.Options) { o.Key = key })
}

// work is the life of a worker.
func work(t *testing.T, doc string) {
	var e workerErrand
	if err := json.Unmarshal([]byte(doc), &e); err != nil {
		t.Fatal(err)
	}
	p := e.open(t)
	target := approved(bank(pawltest.NewTargetClient(e.URL, e.Mode)))
	th := p.thread(target, "t")
	out, err := th.Run(t.Context(), order(hundred))
	if err != nil {
		out, err = th.Resume(context.Background())
	}
	switch {
	case err != nil:
		fmt.Println("worker: " + err.Error())
	case len(out.Waiting) == 0:
		fmt.Println("worker: done")
	case out.Waiting[0].Kind == "doubt":
		fmt.Println("worker: waits")
	default:
		fmt.Println("worker: asks")
	}
}
