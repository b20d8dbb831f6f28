package pawl_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/storage"
	"github.com/pawl-dev/pawl/storage/fault"
)

// recounting is a chain of children that remember, of a depth, the innermost of which counts its runs.
func recounting(t testing.TB, depth int) *pawl.Graph[family] {
	g := must(t, pawl.New[family]("inner").Node("n", func(_ context.Context, s *family) error {
		s.N.Add(1)
		s.Log.Add(fmt.Sprint(s.N.Get()))
		return nil
	}).Path(pawl.Start, "n"))
	latest := func(s *family, r *pawl.Result[family]) error {
		s.Word.Set(r.State.Word.Get())
		if log := logOf(&r.State.Log); len(log) > 0 {
			s.Word.Set(log[len(log)-1])
		}
		return nil
	}
	for d := range depth {
		g = must(t, pawl.New[family](fmt.Sprint("around", d)).
			Add(pawl.Sub(g.Child("agent", pawl.PerThread), func(*family) *family { return &family{} }, latest)).
			Path(pawl.Start, "agent"))
	}
	return g
}

// oneMore runs a thread once and returns what the innermost child counted.
func oneMore(t testing.TB, th *pawl.ThreadOf[family]) string {
	t.Helper()
	out, err := th.Run(t.Context(), &family{})
	if err != nil || out.Status != pawl.Done {
		t.Fatal(out, err)
	}
	return out.State.Word.Get()
}

// P8: what a child remembers is part of the state that is copied, at any depth: the copy counts on from where it was
// copied, and neither thread sees the other's runs, nor needs the other to be there.
func TestCopyOfWhatChildrenRemember(t *testing.T) {
	t.Parallel()
	for _, depth := range []int{1, 3} {
		t.Run(fmt.Sprint("depth ", depth), func(t *testing.T) {
			t.Parallel()
			onEachHome(t, func(t *testing.T, db storage.DB) {
				g, eng := recounting(t, depth), opened(t, db, nil)
				th := g.Thread(eng, "t")
				for n := 1; n <= 3; n++ {
					if got := oneMore(t, th); got != fmt.Sprint(n) {
						t.Fatalf("run %d counted %s", n, got)
					}
				}
				h, err := th.History(t.Context(), pawl.Page{})
				if err != nil {
					t.Fatal(err)
				}
				second := h[slices.IndexFunc(h, func(s *pawl.Snapshot) bool {
					return len(s.Next) == 0 && strings.Contains(string(s.Values), `"word":"2"`)
				})]
				for to, from := range map[string]pawl.Point{"whole": {}, "older": pawl.Checkpoint(second.Checkpoint)} {
					if _, err := th.Copy(t.Context(), to, from); err != nil {
						t.Fatal(err)
					}
				}
				whole, older := g.Thread(eng, "whole"), g.Thread(eng, "older")
				if got := oneMore(t, whole) + oneMore(t, whole) + oneMore(t, th) + oneMore(t, older); got != "4543" {
					t.Errorf("the copy twice, the original and the copy of an older point counted %s", got)
				}
				if err := th.Delete(t.Context()); err != nil {
					t.Fatal(err)
				}
				if _, err := whole.Copy(t.Context(), "again", pawl.Point{}); err != nil {
					t.Fatal(err)
				}
				if got := oneMore(t, g.Thread(eng, "again")) + oneMore(t, whole); got != "66" {
					t.Errorf("a copy of the copy, and the copy once more, counted %s", got)
				}
				in, err := whole.History(t.Context(), pawl.Page{In: "agent"})
				if err != nil || len(in) == 0 || in[0].Path != "agent" {
					t.Errorf("the child's history in the copy: %v, %v", in, err)
				}
			})
		})
	}
}

// P8: a death at any write of a copy leaves no thread, or a whole one.
func TestCopySurvivesDeath(t *testing.T) {
	t.Parallel()
	for n := 0; ; n++ {
		db := hooked(t)
		g, eng := recounting(t, 2), opened(t, db, nil)
		oneMore(t, g.Thread(eng, "t"))
		mortal := fault.Wrap(db, fault.Plan{At: fault.At(n, fault.Stop()), Views: true})
		_, died := g.Thread(opened(t, mortal, nil), "t").Copy(t.Context(), "copy", pawl.Point{})
		twin := g.Thread(eng, "copy")
		switch there := standing(t, twin).Status != pawl.StatusNew; {
		case !there && died == nil:
			t.Fatalf("point %d: it was called done and is not there", n)
		case there:
			if got := oneMore(t, twin); got != "2" {
				t.Errorf("point %d: the copy counted %s", n, got)
			}
		}
		if died == nil {
			if n < 2 {
				t.Errorf("only %d points", n)
			}
			return
		}
	}
}

// P6: a copy that failed or was cancelled is retried as any run: from what was copied, in a fresh attempt.
func TestCopyIsRetried(t *testing.T) {
	t.Parallel()
	for name, ends := range map[string]func(th *pawl.ThreadOf[note], fails *bool) error{
		"failed": func(th *pawl.ThreadOf[note], fails *bool) error {
			*fails = true
			if _, err := th.Resume(t.Context()); err == nil {
				return errors.New("it did not fail")
			}
			return nil
		},
		"cancelled": func(th *pawl.ThreadOf[note], _ *bool) error { return th.Cancel(t.Context(), "enough") },
		"cancelled after a step": func(th *pawl.ThreadOf[note], _ *bool) error {
			if _, err := th.Resume(t.Context(), pawl.BreakBefore("end")); err != nil {
				return err
			}
			return th.Cancel(t.Context(), "enough")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onEachHome(t, func(t *testing.T, db storage.DB) {
				fails := false
				add := func(s string) func(context.Context, *note) error {
					return func(_ context.Context, n *note) error {
						if n.Text.Set(n.Text.Get() + s); fails {
							return errors.New("boom")
						}
						return nil
					}
				}
				g := built(t, pawl.New[note]("line").Node("a", add("a")).Node("b", add("b")).Node("end", add("c")).Path(pawl.Start, "a", "b", "end"))
				eng := opened(t, db, nil)
				if _, err := g.Thread(eng, "t").Run(t.Context(), &note{Text: pawl.Of("-")}, pawl.BreakBefore("b")); err != nil {
					t.Fatal(err)
				}
				if _, err := g.Thread(eng, "t").Copy(t.Context(), "copy", pawl.Point{}); err != nil {
					t.Fatal(err)
				}
				th := g.Thread(eng, "copy")
				if err := ends(th, &fails); err != nil {
					t.Fatal(err)
				}
				before := standing(t, th)
				fails = false
				for try := range 2 { // the second, once more, of an attempt that failed again
					if fails = try == 0; try == 1 {
						before = standing(t, th)
					}
					out, err := th.Retry(t.Context())
					if fails {
						if failed := (*pawl.RunError)(nil); !errors.As(err, &failed) || failed.Node != "b" {
							t.Fatalf("a retry that fails: %v", err)
						}
						fails = false
						continue
					}
					if err == nil && name == "cancelled after a step" && out.Status == pawl.Waiting { // its breakpoint stays with the run
						out, err = th.Resume(t.Context())
					}
					if err != nil || out.Status != pawl.Done || out.State.Text.Get() != "-abc" || out.Run != before.Run || out.Attempt == before.Attempt {
						t.Errorf("%+v, %v", out, err)
					}
				}
			})
		})
	}
}

// P5: a thread is copied from checkpoints of its own; one of a child's, or of an input that is not applied, is refused by
// name, and no thread is made.
func TestCopyIsOfTheThreadsOwn(t *testing.T) {
	t.Parallel()
	eng := memoryEngine(t, nil)
	th := relatives(t, entries{}, pawl.Inherit, 2).Thread(eng, "t")
	out, err := th.Run(t.Context(), &family{})
	if err != nil {
		t.Fatal(err)
	}
	in := childOf(out.Waiting[0])
	for name, point := range map[string]pawl.Point{
		"a child's child's": pawl.Checkpoint(at(t, th.Thread, in, "b").Checkpoint),
		"an input":          pawl.Before(pawl.Start),
		"unknown":           pawl.Checkpoint("01890a5d-ac96-774b-bcce-b302099a8057"),
	} {
		refused := (*pawl.PointError)(nil)
		if _, err := th.Copy(t.Context(), "copy", point); !errors.As(err, &refused) || refused.Thread != "t" {
			t.Errorf("%s: %v", name, err)
		}
		if st := standing(t, eng.Thread("outer", "copy")); st.Status != pawl.StatusNew || st.Head != nil {
			t.Errorf("%s: a thread was made: %+v", name, st)
		}
	}
}
