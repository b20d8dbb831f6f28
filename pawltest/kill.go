package pawltest

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/records"
	"github.com/pawl-dev/pawl/storage/fault"
)

// childVar tells a child process, in the environment, what to do.
const childVar = "PAWL_SWEEP_CHILD"

// errand is a child's: live one life of the test's scenario on the home under a path, and die at a point.
type errand struct {
	Test  string
	Path  string
	Point int
}

// child lives the child's life, if this is one. Its own test is the only one that matters in a child process.
func (s *sweep) child() bool {
	doc := os.Getenv(childVar)
	if doc == "" {
		return false
	}
	var e errand
	if err := json.Unmarshal([]byte(doc), &e); err != nil {
		s.t.Fatalf("%s: %v", childVar, err)
	}
	if e.Test != s.t.Name() {
		return true
	}
	tr, done := s.disk("child", e.Path)
	defer done()
	_, err := s.life(tr, e.Point, fault.Do(func() {
		tr.ledger.add(killed, "")
		self, err := os.FindProcess(os.Getpid())
		if err == nil {
			err = self.Kill()
		}
		if err != nil {
			panic(err)
		}
		select {} // until the signal is delivered
	}))
	if err != nil {
		s.t.Fatal(err)
	}
	return true
}

// disk opens a trial on disk.
func (s *sweep) disk(name, path string) (tr *trial, done func()) {
	s.t.Helper()
	home, err := s.Disk(path, append(pawl.Kinds(), s.Kinds...)...)
	if err != nil {
		s.t.Fatal(err)
	}
	book, err := openLedger(path + ".ledger")
	if err != nil {
		s.t.Fatal(err)
	}
	return &trial{name: name, home: home, ledger: book}, func() {
		book.close()
		if err := home.Close(); err != nil {
			s.t.Errorf("%s: closing the home: %v", name, err)
		}
	}
}

// kills kills a child process at a sample of the points, one at least, and goes on here.
func (s *sweep) kills() {
	if s.Disk == nil {
		return
	}
	n := max(1, int(s.share*float64(s.points))/s.Every)
	for _, point := range s.rand.Perm(s.points)[:n] {
		s.kill(point)
	}
}

func (s *sweep) kill(n int) {
	name := fmt.Sprintf("killed at point %d of %d", n, s.points)
	dir, err := os.MkdirTemp(s.t.TempDir(), "killed")
	if err != nil {
		s.t.Fatal(err)
	}
	path := filepath.Join(dir, "home.db")
	doc, err := json.Marshal(errand{s.t.Name(), path, n})
	if err != nil {
		s.t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		s.t.Fatal(err)
	}
	cmd := exec.CommandContext(s.t.Context(), exe, "-test.run="+only(s.t.Name()), "-test.count=1")
	cmd.Env = append(os.Environ(), childVar+"="+string(doc))
	output, err := cmd.CombinedOutput()
	tr, done := s.disk(name, path)
	defer done()
	if tr.ledger.count(killed, "") == 0 {
		if err != nil {
			s.fail(tr, fmt.Sprintf("the child failed before it was killed: %v\n%s", err, output))
		}
		return // it came to its end: this run had fewer points
	}
	s.report.Points++
	s.report.Killed++
	if err := tr.ledger.reconcile(s.t.Context(), tr.home, records.Box{Codec: s.Options.Codec}); err != nil {
		s.fail(tr, err.Error())
		return
	}
	s.died(tr)
	s.finish(tr)
}

// only is the pattern of -test.run that matches one test.
func only(test string) string {
	parts := strings.Split(test, "/")
	for i, part := range parts {
		parts[i] = "^" + regexp.QuoteMeta(part) + "$"
	}
	return strings.Join(parts, "/")
}
