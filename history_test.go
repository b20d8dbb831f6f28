package pawl_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/storage"
)

// A past checkpoint shows of each of its tasks what it wrote, whichever was the last to end, with the questions that it
// asked; the one at which a run stands shows what is known.
func TestHistoryShowsResults(t *testing.T) {
	t.Parallel()
	onEachHome(t, func(t *testing.T, db storage.DB) {
		asks := func(ctx context.Context, s *family) error {
			word, err := okay.Ask(ctx, "?")
			if err == nil {
				s.Word.Set(word)
			}
			return err
		}
		g := must(t, pawl.New[family]("results").Node("a", writes("a")).Node("b", asks, pawl.Uses(okay)).Node("c", writes("c")).
			Edge(pawl.Start, "a").Edge(pawl.Start, "b").Edge("a", "c").Edge("b", "c"))
		eng := opened(t, db, nil)
		th := eng.Thread(registered(t, eng, g), "t")
		if _, err := th.Run(t.Context(), []byte(`{"word":"x"}`)); err != nil {
			t.Fatal(err)
		}
		wantResults(t, th, "", `-1 input: __start__ done word="x"`, `0 loop: a done log=["a"] n=1, b waiting ?`)
		if _, err := th.Resume(t.Context(), pawl.AnswerWith("", "yes")); err != nil {
			t.Fatal(err)
		}
		first := []string{`-1 input: __start__ done word="x"`, `0 loop: a done log=["a"] n=1, b done word="yes" ?`, `1 loop: c done log=["c"] n=1`, `2 loop:`}
		wantResults(t, th, "", first...)
		// What hangs beside has tasks of its own.
		if _, err := th.Fork(t.Context(), pawl.Before("c"), []byte(`{"word":"z"}`)); err != nil {
			t.Fatal(err)
		}
		forked := append(slices.Clone(first), `2 edit: c done log=["c"] n=1`, `3 loop:`)
		wantResults(t, th, "", forked...)
		if _, err := th.Replay(t.Context(), pawl.Before("a"), pawl.Hold()); err != nil {
			t.Fatal(err)
		}
		if _, err := th.Edit(t.Context(), []byte(`{"word":"w"}`)); err != nil {
			t.Fatal(err)
		}
		if _, err := th.EditAs(t.Context(), [][]pawl.TaskEdit{{{Node: "a", Changes: []byte(`{"n":5}`)}}}); err != nil {
			t.Fatal(err)
		}
		wantResults(t, th, "", append(forked, "1 fork: a due, b due", "2 edit: a done n=5, b due", "3 edit: c due")...)
	})
}

// Also at depth: a child's history tells what its tasks did, and its parent's what the child came to.
func TestHistoryShowsResultsOfChildren(t *testing.T) {
	t.Parallel()
	onEachHome(t, func(t *testing.T, db storage.DB) {
		for _, mode := range []pawl.ChildMode{pawl.Inherit, pawl.PerThread} {
			eng := opened(t, db, nil)
			th := eng.Thread(registered(t, eng, pausing(t, entries{}, mode)), fmt.Sprint(mode))
			askedAndAnswered(t, th)
			h, err := th.History(t.Context(), pawl.Page{})
			if err != nil {
				t.Fatal(err)
			}
			shown, deep := 0, 0
			for i, s := range h {
				if i > 0 && strings.Contains(resultsIn(s), " due") {
					t.Errorf("%v: %s", mode, resultsIn(s))
				}
				shown += strings.Count(resultsIn(s), "=")
				whole, err := th.Snapshot(t.Context(), s.Checkpoint)
				if err != nil {
					t.Fatal(err)
				}
				for _, task := range whole.Tasks {
					for _, child := range task.Children {
						inner, err := th.History(t.Context(), pawl.Page{In: child.Path})
						if err != nil {
							t.Fatal(err)
						}
						for k, c := range inner {
							if k > 0 && strings.Contains(resultsIn(c), " due") {
								t.Errorf("%v: in the child: %s", mode, resultsIn(c))
							}
							deep += strings.Count(resultsIn(c), "=")
						}
					}
				}
			}
			if shown < 2 || deep < 2 {
				t.Errorf("%v: %d writes are shown, and %d of the child", mode, shown, deep)
			}
		}
	})
}

// wantResults compares a history, the oldest first.
func wantResults(t *testing.T, th *pawl.Thread, in pawl.Path, want ...string) {
	t.Helper()
	h, err := th.History(t.Context(), pawl.Page{In: in})
	if err != nil {
		t.Fatal(err)
	}
	got := make([]string, len(h))
	for i, s := range h {
		got[len(h)-1-i] = resultsIn(s)
	}
	if !slices.Equal(got, want) {
		t.Errorf("history\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for i, s := range h {
		one, err := th.Snapshot(t.Context(), s.Checkpoint)
		if err != nil {
			t.Fatal(err)
		}
		if got := resultsIn(one); got != want[len(h)-1-i] {
			t.Errorf("by its id a checkpoint is %s; want %s", got, want[len(h)-1-i])
		}
	}
}

func resultsIn(s *pawl.Snapshot) string {
	var tasks []string
	for _, task := range s.Tasks {
		line := " " + task.Node + " " + task.State
		for _, w := range task.Writes {
			line += fmt.Sprintf(" %s=%s", w.Channel, w.Value)
			if w.Replace {
				line += "!"
			}
		}
		for _, q := range task.Questions {
			var what string
			if json.Unmarshal(q.Body, &what) == nil {
				line += " " + what
			}
		}
		tasks = append(tasks, line)
	}
	return fmt.Sprintf("%d %s:%s", s.Step, s.Source, strings.Join(tasks, ","))
}
