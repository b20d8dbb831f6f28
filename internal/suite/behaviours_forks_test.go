package suite

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/pawl-dev/pawl"
)

// twosAndThree runs start > one > two, two > three, where one of the twos is by a goto.
func twosAndThree(t *testing.T, h *home) *pawl.ThreadOf[rowState] {
	t.Helper()
	two := pawl.NewWorker("two", func(_ context.Context, s *rowState, _ int) error { s.Log.Add("two"); return nil })
	th := rowThread(t, h, pawl.New[rowState]("row").Add(two).
		Node("one", func(ctx context.Context, s *rowState) error { s.Log.Add("one"); return pawl.Goto(ctx, two.With(2)...) }, pawl.Targets("two")).
		Node("three", rowSays("three")).
		Edge(pawl.Start, "one").Route("one", func(*rowState) []pawl.Next { return two.With(1) }, "two").Edge("two", "three"), nil)
	in := &rowState{}
	in.Log.Add("start")
	if _, err := th.Run(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	return th
}

// placed is a history by places, the oldest first: which checkpoint stands behind which, and what its tasks came to.
func placed(t *testing.T, th *pawl.ThreadOf[rowState]) []string {
	t.Helper()
	h := history(t, th)
	slices.Reverse(h)
	place, out := map[string]int{"": -1}, make([]string, len(h))
	for i, s := range h {
		place[s.Checkpoint] = i
		if out[i] = fmt.Sprint(i, " after ", place[s.Parent], ", step ", s.Step, " ", s.Source, ": ", string(s.Values)); len(s.Tasks) > 0 {
			out[i] += " >"
		}
		for _, task := range s.Tasks {
			out[i] += " " + task.Node + " " + wrote(task)
		}
	}
	return out
}

// copied goes on beside the point, with edits or without, and wants these checkpoints behind what there was.
func copied(t *testing.T, th *pawl.ThreadOf[rowState], at string, edits []pawl.TaskEdit, want ...string) {
	t.Helper()
	before := placed(t, th)
	var out *pawl.OutcomeOf[rowState]
	var err error
	if len(edits) == 0 {
		out, err = th.Replay(t.Context(), pawl.Before(at), pawl.Beside())
	} else if _, err = th.EditAs(t.Context(), [][]pawl.TaskEdit{edits}, pawl.From(pawl.Before(at)), pawl.Beside()); err == nil {
		out, err = th.Resume(t.Context())
	}
	if err != nil || out.Status != pawl.Done {
		t.Fatal(out, err)
	}
	after := placed(t, th)
	same(t, "what was", after[:len(before)], before)
	same(t, "the branch", after[len(before):], want)
}

func rowCopyStart(t *testing.T, h *home) {
	copied(t, twosAndThree(t, h), pawl.Start, []pawl.TaskEdit{does(pawl.Start, "start*")},
		`5 after -1, step 0 fork: {} > __start__ log=["start*"]`,
		`6 after 5, step 1 edit: {"log":["start*"]} > one log=["one"]`,
		`7 after 6, step 2 loop: {"log":["start*","one"]} > two log=["two"] two log=["two"]`,
		`8 after 7, step 3 loop: {"log":["start*","one","two","two"]} > three log=["three"]`,
		`9 after 8, step 4 loop: {"log":["start*","one","two","two","three"]}`)
}

func rowCopyOne(t *testing.T, h *home) { // what one* does not send is gone
	th := twosAndThree(t, h)
	if _, err := th.EditAs(t.Context(), [][]pawl.TaskEdit{{does(pawl.Start, "start*")}}, pawl.From(pawl.Before(pawl.Start)), pawl.Beside()); err != nil {
		t.Fatal(err)
	}
	copied(t, th, "one", []pawl.TaskEdit{does("one", "one*")},
		`7 after 5, step 2 fork: {"log":["start*"]} > one log=["one*"]`,
		`8 after 7, step 3 edit: {"log":["start*","one*"]} > two log=["two"]`,
		`9 after 8, step 4 loop: {"log":["start*","one*","two"]} > three log=["three"]`,
		`10 after 9, step 5 loop: {"log":["start*","one*","two","three"]}`)
}

func rowCopyTwo(t *testing.T, h *home) {
	th := twosAndThree(t, h)
	copied(t, th, "two", []pawl.TaskEdit{does("two", "two"), does("two", "two")},
		`5 after 1, step 2 fork: {"log":["start","one"]} > two log=["two"] two log=["two"]`,
		`6 after 5, step 3 edit: {"log":["start","one","two","two"]} > three log=["three"]`,
		`7 after 6, step 4 loop: {"log":["start","one","two","two","three"]}`)
	copied(t, th, "two", []pawl.TaskEdit{does("two", "two*"), does("two", "two**")}, // a version of a version
		`8 after 1, step 3 fork: {"log":["start","one"]} > two log=["two*"] two log=["two**"]`,
		`9 after 8, step 4 edit: {"log":["start","one","two*","two**"]} > three log=["three"]`,
		`10 after 9, step 5 loop: {"log":["start","one","two*","two**","three"]}`)
}

func rowCopyAgain(t *testing.T, h *home) {
	copied(t, twosAndThree(t, h), "two", nil,
		`5 after 1, step 2 fork: {"log":["start","one"]} > two log=["two"] two log=["two"]`,
		`6 after 5, step 3 loop: {"log":["start","one","two","two"]} > three log=["three"]`,
		`7 after 6, step 4 loop: {"log":["start","one","two","two","three"]}`)
}

// Beside is of verbs that make a branch, and of no others.
func TestBesideIsOfBranches(t *testing.T) {
	onEach(t, func(t *testing.T, h *home) {
		th := twosAndThree(t, h)
		before := placed(t, th)
		for name, verb := range map[string]func() error{
			"run":    func() error { _, err := th.Run(t.Context(), &rowState{}, pawl.Beside()); return err },
			"resume": func() error { _, err := th.Resume(t.Context(), pawl.Beside()); return err },
			"retry":  func() error { _, err := th.Retry(t.Context(), pawl.Beside()); return err },
			"edit": func() error {
				_, err := th.Edit(t.Context(), func(*rowState) error { return nil }, pawl.Beside())
				return err
			},
			"edit from": func() error {
				_, err := th.Edit(t.Context(), func(*rowState) error { return nil }, pawl.From(pawl.Before("one")))
				return err
			},
			"fork from": func() error {
				_, err := th.Replay(t.Context(), pawl.Before("one"), pawl.From(pawl.Before("one")))
				return err
			},
			"edit as": func() error {
				_, err := th.EditAs(t.Context(), [][]pawl.TaskEdit{{does("one", "x")}}, pawl.Beside())
				return err
			},
			"no such point": func() error { _, err := th.Replay(t.Context(), pawl.Checkpoint("x"), pawl.Beside()); return err },
		} {
			if err := verb(); err == nil {
				t.Errorf("%s: done", name)
			} else if name == "no such point" != errors.Is(err, pawl.ErrNotFound) {
				t.Errorf("%s: %v", name, err)
			}
		}
		same(t, "history", placed(t, th), before)
	})
}
