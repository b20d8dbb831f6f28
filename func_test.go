package pawl_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/pawl-dev/pawl"
)

func function[In, Out any](t *testing.T, fn func(context.Context, In) (Out, error), options ...pawl.NodeOption) *pawl.FuncGraph[In, Out] {
	t.Helper()
	f, err := pawl.Func("workflow", fn, options...)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// Steps side by side, then a question: the answer meets the recorded results (FUN-01).
func TestFuncMapsAndAsks(t *testing.T) {
	t.Parallel()
	q := pawl.Interrupt[string, string]{Name: "q"}
	var mapped atomic.Int32
	f := function(t, func(ctx context.Context, items []int) ([]string, error) {
		out := make([]string, len(items))
		var fns []func(context.Context) error
		for i, item := range items {
			fns = append(fns, func(ctx context.Context) (err error) {
				out[i], err = pawl.Step(ctx, "mapper", func(context.Context) (string, error) {
					mapped.Add(1)
					return fmt.Sprint(item, item), nil
				}, pawl.Key(fmt.Sprint(i)))
				return err
			})
		}
		if err := pawl.All(ctx, fns...); err != nil {
			return nil, err
		}
		answer, err := q.Ask(ctx, "question")
		for i := range out {
			out[i] = strings.ReplaceAll(out[i], " ", "") + answer
		}
		return out, err
	}, pawl.Uses(q))
	th := f.Thread(opened(t, hooked(t), nil), "t")
	out, err := th.Run(t.Context(), []int{0, 1})
	if err != nil || out.Status != pawl.Waiting || out.Result != nil {
		t.Fatal(out, err)
	}
	out, err = th.Resume(t.Context(), q.Answer("", "answer"))
	if err != nil || !slices.Equal(out.Result, []string{"00answer", "11answer"}) || mapped.Load() != 2 {
		t.Error(out, err, mapped.Load())
	}
}

// Questions one after the other, with a step before each (FUN-03, FUN-04, FUN-06).
func TestFuncAsksInALoop(t *testing.T) {
	t.Parallel()
	q := pawl.Interrupt[int, string]{Name: "q"}
	steps, entries := 0, 0
	f := function(t, func(ctx context.Context, n int) (out []string, err error) {
		entries++
		for i := range n {
			key := pawl.Key(fmt.Sprint(i))
			doubled, err := pawl.Step(ctx, "double", func(context.Context) (int, error) { steps++; return 2 * (i + 1), nil }, key)
			if err != nil {
				return nil, err
			}
			answer, err := q.Ask(ctx, doubled, key)
			if err != nil {
				return nil, err
			}
			out = append(out, fmt.Sprint(doubled), answer)
		}
		return out, nil
	}, pawl.Uses(q))
	th := f.Thread(opened(t, hooked(t), nil), "t")
	out, err := th.Run(t.Context(), 3)
	for _, answer := range []string{"a", "b", "c"} {
		if err != nil || out.Status != pawl.Waiting || len(out.Waiting) != 1 {
			t.Fatal(out, err)
		}
		out, err = th.Resume(t.Context(), q.Answer("", answer))
	}
	if err != nil || !slices.Equal(out.Result, []string{"2", "a", "4", "b", "6", "c"}) || steps != 3 || entries != 4 {
		t.Error(out, err, steps, entries)
	}
}

// What a run returns is what the next one was left, unless it says otherwise (FUN-11, FUN-12).
func TestFuncPreviousAndFinal(t *testing.T) {
	t.Parallel()
	db := hooked(t)
	var seen []string
	f := function(t, func(ctx context.Context, how string) (string, error) {
		before, ok := pawl.Previous[string](ctx)
		seen = append(seen, fmt.Sprint(before, ok))
		switch how {
		case "fail":
			_, _ = pawl.Final(ctx, "", "not kept")
			return "", errBroken
		case "return":
			return "returned", nil
		}
		return pawl.Final(ctx, "told "+how, how)
	})
	th := f.Thread(opened(t, db, nil), "t")
	for _, how := range []string{"a", "b", "return", "fail"} {
		out, err := th.Run(t.Context(), how)
		if want := map[string]string{"return": "returned", "fail": "returned"}[how]; out.Result != "told "+how && out.Result != want || (err == nil) != (how != "fail") {
			t.Fatal(how, out.Result, err)
		}
	}
	th = f.Thread(opened(t, db, nil), "t")
	if _, err := th.Run(t.Context(), "c"); err != nil {
		t.Fatal(err)
	}
	if _, err := th.Thread.Edit(t.Context(), []byte(`{"kept":{"value":"edited"}}`)); err != nil {
		t.Fatal(err)
	}
	if _, err := th.Run(t.Context(), "d"); err != nil {
		t.Fatal(err)
	}
	want := []string{"false", "atrue", "btrue", "returnedtrue", "returnedtrue", "editedtrue"}
	if !slices.Equal(seen, want) {
		t.Errorf("saw %q; want %q", seen, want)
	}
}

func TestFuncPreviousOfAnotherType(t *testing.T) {
	t.Parallel()
	f := function(t, func(ctx context.Context, _ int) (string, error) {
		_, _ = pawl.Previous[int](ctx)
		return "text", nil
	})
	th := f.Thread(opened(t, hooked(t), nil), "t")
	if _, err := th.Run(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if out, err := th.Run(t.Context(), 2); err == nil || out.Status != pawl.Failed || !strings.Contains(err.Error(), "what the run before left is no int") {
		t.Error(out, err)
	}
}

// A function is called in a function, several times, and in a node; each has a memory of its own (FUN-19).
func TestFuncAsAChild(t *testing.T) {
	t.Parallel()
	add := function(t, func(ctx context.Context, n int) (int, error) {
		before, _ := pawl.Previous[int](ctx)
		return before + n, nil
	})
	fresh, total := add.Child("fresh"), add.Child("total", pawl.PerThread)
	outer, err := pawl.Func("outer", func(ctx context.Context, n int) ([]int, error) {
		a, err := fresh.Call(ctx, n, pawl.Key("1"))
		if err != nil {
			return nil, err
		}
		b, err := fresh.Call(ctx, a+1, pawl.Key("2"))
		if err != nil {
			return nil, err
		}
		c, err := total.Call(ctx, n)
		return []int{a, b, c}, err
	}, pawl.Uses(fresh, total))
	if err != nil {
		t.Fatal(err)
	}
	th := outer.Thread(opened(t, hooked(t), nil), "t")
	for _, want := range [][]int{{5, 6, 5}, {5, 6, 10}} {
		out, err := th.Run(t.Context(), 5)
		if err != nil || !slices.Equal(out.Result, want) {
			t.Error(out, err)
		}
	}
}

func TestFuncOutsideOfRuns(t *testing.T) {
	t.Parallel()
	if v, err := pawl.Final(t.Context(), 1, 2); v != 1 || err != nil {
		t.Error(v, err)
	}
	if _, ok := pawl.Previous[int](t.Context()); ok {
		t.Error("there is something before nothing")
	}
	g := single(t, func(ctx context.Context, _ *note) error { _, err := pawl.Final(ctx, 1, 2); return err })
	if _, err := g.Thread(opened(t, hooked(t), nil), "t").Run(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "functions made by Func") {
		t.Error(err)
	}
	_, err := pawl.Func[int, int]("", nil)
	if faults := (*pawl.BuildError)(nil); !errors.As(err, &faults) {
		t.Error(err)
	}
}
