package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/memdb"
)

const threeLines = "approve node entered\napprove node entered\nresumed with 'yes'\n"

func TestProgramPrintsThreeLines(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "approve")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	out, err := exec.Command(program).Output()
	if err != nil || string(out) != threeLines {
		t.Fatalf("it printed %q (%v), should be %q", out, err, threeLines)
	}
}

// played is one pause and one answer, with what was printed up to either.
type played struct {
	paused, over         *pawl.OutcomeOf[state]
	atPause, afterAnswer string
}

func play(t *testing.T, node func(context.Context, *state) error, in *state) played {
	t.Helper()
	printed := capture(t)
	db, err := memdb.Open(pawl.Kinds()...)
	if err != nil {
		t.Fatal(err)
	}
	eng, err := pawl.NewEngine(db, nil)
	if err != nil {
		t.Fatal(err)
	}
	g, err := pawl.New[state]("approve").Node("approve", node, pawl.Uses(ship)).Edge(pawl.Start, "approve").Build()
	if err != nil {
		t.Fatal(err)
	}
	thread := g.Thread(eng, "release-1")
	var p played
	if p.paused, err = thread.Run(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	p.atPause = printed()
	if p.over, err = thread.Resume(t.Context(), ship.Answer(p.paused.Waiting[0].ID, "yes")); err != nil {
		t.Fatal(err)
	}
	p.afterAnswer = printed()
	if err := errors.Join(eng.Close(), db.Close()); err != nil {
		t.Fatal(err)
	}
	return p
}

// capture sends the standard output to a file until the test ends, and returns how to read it.
func capture(t *testing.T) func() string {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	terminal := os.Stdout
	os.Stdout = f
	t.Cleanup(func() { os.Stdout = terminal; f.Close() })
	return func() string {
		doc, err := os.ReadFile(f.Name())
		if err != nil {
			t.Fatal(err)
		}
		return string(doc)
	}
}

// Nothing after the question has happened at the pause.
func TestPause(t *testing.T) {
	p := play(t, approve, &state{Decision: pawl.Of("")})
	if p.atPause != "approve node entered\n" || p.afterAnswer != threeLines {
		t.Errorf("printed %q at the pause, %q in all", p.atPause, p.afterAnswer)
	}
	if d, ok := p.paused.State.Decision.Lookup(); p.paused.Status != pawl.Waiting || !ok || d != "" {
		t.Errorf("at the pause: %s, decision %q (there: %v)", p.paused.Status, d, ok)
	}
	if q := p.paused.Waiting; len(q) != 1 || string(q[0].Body) != `"Ship it?"` || len(p.paused.Next) != 1 || p.paused.Next[0] != "approve" {
		t.Errorf("at the pause: questions %v, next %v", q, p.paused.Next)
	}
	if p.over.Status != pawl.Done || p.over.State.Decision.Get() != "yes" || len(p.over.Waiting) != 0 {
		t.Errorf("in the end: %s, decision %q, questions %v", p.over.Status, p.over.State.Decision.Get(), p.over.Waiting)
	}
}

// What stands in a step does not happen again.
func TestPrintInAStep(t *testing.T) {
	p := play(t, func(ctx context.Context, s *state) error {
		if _, err := pawl.Step(ctx, "enter", func(context.Context) (int, error) {
			return os.Stdout.WriteString("approve node entered\n")
		}); err != nil {
			return err
		}
		decision, err := ship.Ask(ctx, "Ship it?")
		if err != nil {
			return err
		}
		_, err = os.Stdout.WriteString("resumed with '" + decision + "'\n")
		return err
	}, &state{})
	if want := "approve node entered\nresumed with 'yes'\n"; p.afterAnswer != want {
		t.Errorf("printed %q, should be %q", p.afterAnswer, want)
	}
}
