package suite

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/stream"
)

// workflow is a thread of a function on a home.
func workflow[In, Out any](t *testing.T, h *home, fn func(context.Context, In) (Out, error), options ...pawl.NodeOption) *pawl.FuncThread[In, Out] {
	t.Helper()
	return function(t, fn, options...).Thread(engine(t, h.open(t), nil), "t")
}

func function[In, Out any](t *testing.T, fn func(context.Context, In) (Out, error), options ...pawl.NodeOption) *pawl.FuncGraph[In, Out] {
	t.Helper()
	f, err := pawl.Func("workflow", fn, options...)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// answered answers the one question that is open, again and again, and returns how the run then stands.
func answered[In, Out any](t *testing.T, th *pawl.FuncThread[In, Out], in In, answers ...string) *pawl.FuncOutcome[Out] {
	t.Helper()
	out, err := th.Run(t.Context(), in)
	for _, a := range answers {
		if err != nil || out.Status != pawl.Waiting || len(out.Waiting) != 1 {
			t.Fatalf("before %q: %v, %v, want it to wait for one answer", a, out, err)
		}
		out, err = th.Resume(t.Context(), vote.Answer(out.Waiting[0].ID, a))
	}
	if err != nil || out.Status != pawl.Done {
		t.Fatalf("%v, %v, want it done", out, err)
	}
	return out
}

func rowMappedThenAsks(t *testing.T, h *home) {
	var mapped atomic.Int32
	th := workflow(t, h, func(ctx context.Context, items []int) ([]string, error) {
		out := make([]string, len(items))
		var fns []func(context.Context) error
		for i, item := range items {
			fns = append(fns, func(ctx context.Context) (err error) {
				out[i], err = pawl.Step(ctx, "mapper", func(context.Context) (string, error) {
					mapped.Add(1)
					return strings.Repeat(fmt.Sprint(item), 2), nil
				}, pawl.Key(fmt.Sprint(i)))
				return err
			})
		}
		if err := pawl.All(ctx, fns...); err != nil {
			return nil, err
		}
		answer, err := vote.Ask(ctx, "question")
		for i := range out {
			out[i] += answer
		}
		return out, err
	}, pawl.Uses(vote))
	same(t, "result", answered(t, th, []int{0, 1}, "answer").Result, []string{"00answer", "11answer"})
	same(t, "calls of the mapper", mapped.Load(), 2)
}

// asksInside is a step that asks before it returns, and puts the answer to what it was given.
func asksInside(ctx context.Context, name, given string) (string, error) {
	return pawl.Step(ctx, name, func(ctx context.Context) (string, error) {
		answer, err := vote.Ask(ctx, "of "+name)
		return given + answer, err
	})
}

// rowAsksInSteps: a step before, and then steps that ask, one after the other.
func rowAsksInSteps(t *testing.T, h *home) {
	for asking, want := range map[int]string{1: "foobar", 2: "foobarbaz"} {
		t.Run(fmt.Sprint(asking, " of them"), func(t *testing.T) {
			calls := 0
			f := function(t, func(ctx context.Context, _ string) (map[string]string, error) {
				said, err := pawl.Step(ctx, "first", func(context.Context) (string, error) { calls++; return "foo", nil })
				for i := range asking {
					if err != nil {
						break
					}
					said, err = asksInside(ctx, fmt.Sprint("asks", i), said)
				}
				return map[string]string{"a": said}, err
			}, pawl.Uses(vote))
			th := f.Thread(engine(t, h.open(t), nil), fmt.Sprint(asking))
			out := answered(t, th, "", []string{"bar", "baz"}[:asking]...)
			same(t, "result", out.Result, map[string]string{"a": want})
			same(t, "calls of the first step", calls, 1)
		})
	}
}

// rowStepsAndQuestions: rounds of a step and a question; where the question is inside a step of its own, too.
func rowStepsAndQuestions(rounds int, inside bool, answers, want []string) func(t *testing.T, h *home) {
	return func(t *testing.T, h *home) {
		calls := 0
		th := workflow(t, h, func(ctx context.Context, n int) (out []string, err error) {
			for i := range n {
				key := pawl.Key(fmt.Sprint(i))
				doubled, err := pawl.Step(ctx, "double", func(context.Context) (int, error) { calls++; return 2 * (i + 1), nil }, key)
				if err != nil {
					return nil, err
				}
				var answer string
				if inside {
					answer, err = asksInside(ctx, fmt.Sprint("asks", i), "")
				} else if answer, err = vote.Ask(ctx, fmt.Sprint(doubled), key); err == nil {
					out = append(out, fmt.Sprint(doubled))
				}
				if err != nil {
					return nil, err
				}
				out = append(out, answer)
			}
			return out, nil
		}, pawl.Uses(vote))
		same(t, "result", answered(t, th, rounds, answers...).Result, want)
		same(t, "calls of the step", calls, rounds)
	}
}

// rowCaughtError: the error of a step is the function's to handle.
func rowCaughtError(t *testing.T, h *home) {
	th := workflow(t, h, func(ctx context.Context, n int) (string, error) {
		double := func(key string) error {
			_, err := pawl.Step(ctx, "my_task", func(context.Context) (int, error) { return 2 * n, nil }, pawl.Key(key))
			return err
		}
		if err := double("1"); err != nil {
			return "", err
		}
		if _, err := pawl.Step(ctx, "fails", func(context.Context) (int, error) { return 0, errRow }); !errors.Is(err, errRow) {
			return "", fmt.Errorf("a step that fails returned %w", err)
		}
		return "done", double("2")
	})
	var told []string
	for e, err := range th.Stream(t.Context(), 1) {
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case e.Kind == pawl.EventStep:
			told = append(told, e.Name)
		case e.Kind == pawl.EventTaskEnd && e.Node != pawl.Start:
			told = append(told, e.Node)
		case e.Kind == pawl.EventFinished:
			result, err := th.Result(e.Outcome)
			if err != nil || result != "done" {
				t.Error(result, err)
			}
		}
	}
	same(t, "told", told, []string{"my_task", "my_task", "workflow"})
}

// saysBefore returns what was there before and its input.
func saysBefore(ctx context.Context, in string) (string, error) {
	before, ok := pawl.Previous[string](ctx)
	return fmt.Sprint(before, ok, in), nil
}

func rowPrevious(t *testing.T, h *home) {
	th := workflow(t, h, saysBefore)
	for _, want := range []string{"false1", "false1true2", "false1true2true3"} {
		same(t, "result", answered(t, th, want[len(want)-1:]).Result, want)
	}
}

// rowFinal: what a run keeps is not what it returns; null is kept, too.
func rowFinal(t *testing.T, h *home) {
	f := function(t, func(ctx context.Context, in string) (int, error) {
		list, _ := pawl.Previous[[]string](ctx)
		if in == "forget" {
			return pawl.Final(ctx, len(list), []string(nil))
		}
		return pawl.Final(ctx, len(list), append(list, in))
	})
	for i, in := range []string{"a", "b", "c", "forget", "d", "e"} {
		th := f.Thread(engine(t, h.open(t), nil), "t") // another process each time
		same(t, "result", answered(t, th, in).Result, []int{0, 1, 2, 3, 0, 1}[i])
		state, err := th.Read(statusOf(t, th).Head)
		if err != nil {
			t.Fatal(err)
		}
		same(t, "kept", string(state.Kept.Get().Value), []string{`["a"]`, `["a","b"]`, `["a","b","c"]`, `null`, `["d"]`, `["d","e"]`}[i])
	}
}

func rowNothingBefore(t *testing.T, _ *report) {
	f, eng := function(t, saysBefore), engine(t, nil, nil)
	for range 2 {
		same(t, "result", answered(t, f.Thread(eng, "t"), "1").Result, "false1")
	}
}

// rowEditedBefore: what is edited is what the next run was left, whether the run before kept something else or not.
func rowEditedBefore(t *testing.T, h *home) {
	keeps := function(t, func(ctx context.Context, in string) (string, error) {
		said, _ := saysBefore(ctx, in)
		return pawl.Final(ctx, said, "kept of "+in)
	})
	eng := engine(t, h.open(t), nil)
	plain := function(t, saysBefore).Thread(eng, "plain")
	answered(t, plain, "1")
	out, err := plain.Edit(t.Context(), func(s *pawl.FuncState[string, string]) error { s.Output.Set("edited"); return nil })
	if err != nil || out.Status != pawl.Done || out.Result != "edited" {
		t.Fatal(out, err)
	}
	same(t, "result", answered(t, plain, "2").Result, "editedtrue2")

	left := keeps.Thread(engine(t, h.open(t), nil), "keeps")
	answered(t, left, "1")
	if _, err := left.Edit(t.Context(), func(s *pawl.FuncState[string, string]) error { return s.Leave("edited") }); err != nil {
		t.Fatal(err)
	}
	same(t, "result", answered(t, left, "2").Result, "editedtrue2")
	same(t, "result", answered(t, left, "3").Result, "kept of 2true3")
}

// rowFuncInside: a function in a step of another, in a function and in a node, several times.
func rowFuncInside(t *testing.T, h *home) {
	add := function(t, func(_ context.Context, n int) (int, error) { return n + 1, nil }).Child("add")
	outer, err := pawl.Func("outer", func(ctx context.Context, n int) (out []int, err error) {
		for i := range 2 {
			if n, err = add.Call(ctx, n, pawl.Key(fmt.Sprint(i))); err != nil {
				return nil, err
			}
			out = append(out, n)
		}
		return out, nil
	}, pawl.Uses(add))
	if err != nil {
		t.Fatal(err)
	}
	eng := engine(t, h.open(t), nil)
	same(t, "in a function", answered(t, outer.Thread(eng, "function"), 4).Result, []int{5, 6})

	total := pawl.New[rowState]("total").Node("adds", func(ctx context.Context, s *rowState) error {
		for i := range 5 {
			n, err := pawl.Step(ctx, "add", func(ctx context.Context) (int, error) { return add.Call(ctx, i) }, pawl.Key(fmt.Sprint(i)))
			if err != nil {
				return err
			}
			s.N.Add(n)
		}
		return nil
	}, pawl.Uses(add)).Path(pawl.Start, "adds")
	out, _ := ran(t, build(t, total).Thread(eng, "node"), pawl.Done)
	same(t, "in steps of a node", out.State.N.Get(), 15)
}

// rowTimeoutOfAFunction: a function over its time fails; the step that had ended is kept.
func rowTimeoutOfAFunction(t *testing.T, h *home) {
	calls, hang := 0, true
	th := workflow(t, h, func(ctx context.Context, _ string) (string, error) {
		said, err := pawl.Step(ctx, "ends", func(context.Context) (string, error) { calls++; return "ended", nil })
		if hang && err == nil {
			<-ctx.Done()
			err = context.Cause(ctx)
		}
		return said, err
	}, pawl.Timeout(50*time.Millisecond), pawl.Tries(1))
	out, err := th.Run(t.Context(), "")
	if err == nil || out.Status != pawl.Failed || out.Node != "workflow" {
		t.Fatal(out, err)
	}
	hang = false
	if out, err = th.Resume(t.Context()); err != nil || out.Result != "ended" || calls != 1 {
		t.Error(out, err, calls)
	}
}

// asksAfterAStep is saved at its end only.
func asksAfterAStep(t *testing.T, h *home) *pawl.FuncThread[string, string] {
	return workflow(t, h, func(ctx context.Context, in string) (string, error) {
		said, err := pawl.Step(ctx, "child", func(context.Context) (string, error) { return "said", nil })
		if err != nil {
			return "", err
		}
		answer, err := vote.Ask(ctx, "which?")
		return said + answer, err
	}, pawl.Uses(vote))
}

// rowFuncSavedAtItsEnd: each of the two runs leaves one checkpoint; under that of the first hang the step and the question.
func rowFuncSavedAtItsEnd(t *testing.T, h *home) {
	th := asksAfterAStep(t, h)
	if _, err := th.Run(t.Context(), "", pawl.WithDurability(pawl.Exit)); err != nil {
		t.Fatal(err)
	}
	first := history(t, th)
	if len(first) != 1 || first[0].Step != 0 || len(first[0].Tasks) != 1 {
		t.Fatalf("after the first run: %s", compact(first))
	}
	task := first[0].Tasks[0]
	same(t, "its task", []string{task.Node, task.State, strings.Join(task.Steps, " "), task.Questions[0].State}, []string{"workflow", "waiting", "child", "open"})
	if out, err := th.Resume(t.Context(), vote.Answer("", "!")); err != nil || out.Result != "said!" {
		t.Fatal(out, err)
	}
	second := history(t, th)
	if len(second) != 2 || second[0].Step != 1 || second[0].Parent != first[0].Checkpoint {
		t.Errorf("after the second run: %s", compact(second))
	}
	grew(t, first, second)
}

// rowFuncTold: before anything is stored a stream tells the checkpoint, and the step as a task that starts and ends.
func rowFuncTold(t *testing.T, h *home) {
	th := asksAfterAStep(t, h)
	var told, debug []string
	view := stream.View{Modes: []stream.Mode{stream.Debug}}
	for c, err := range view.Of(t.Context(), th.Stream(t.Context(), "", pawl.WithDurability(pawl.Exit))) {
		if err != nil {
			t.Fatal(err)
		}
		d, line := c.Data.(stream.Detail), ""
		switch p := d.Payload.(type) {
		case *pawl.Snapshot:
			same(t, "checkpoints that are stored when one is told", len(history(t, th)), 0)
		case stream.Start:
			line = " " + p.Node
		case stream.End:
			if line = " " + p.Node; p.Interrupts != nil {
				line += " " + string(p.Interrupts[0].Value)
			}
		}
		debug = append(debug, fmt.Sprint(d.Step, " ", d.Type, line))
	}
	same(t, "debug", debug, []string{"-1 checkpoint", "0 checkpoint", "1 task workflow", "1 task child", "1 task_result child", `1 task_result workflow "which?"`})

	th = asksAfterAStep(t, memory(t))
	for e, err := range th.Stream(t.Context(), "", pawl.WithDurability(pawl.Exit)) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind == pawl.EventTaskStart {
			same(t, "checkpoints that are stored when the function is called", len(history(t, th)), 0)
		}
		if told = append(told, string(e.Kind)); e.Kind == pawl.EventFinished {
			same(t, "questions of the outcome", bodies(e.Outcome.Waiting), []string{`"which?"`})
		}
	}
	same(t, "told", told, []string{"accepted", "checkpoint", "checkpoint", "task_start", "step_start", "step", "question", "task_wait", "finished"})
}

// Each verb of a thread, without the erased handle.
func TestVerbsOfAFunction(t *testing.T) {
	onEach(t, func(t *testing.T, h *home) {
		fails := true
		th := workflow(t, h, func(ctx context.Context, in string) (string, error) {
			before, _ := pawl.Previous[string](ctx)
			calls, err := pawl.Step(ctx, "call", func(context.Context) (string, error) { return before + in, nil })
			if err == nil && in == "fails" && fails {
				err = errRow
			}
			return calls, err
		})
		same(t, "run", answered(t, th, "a").Result, "a")
		at := pawl.Before("workflow")
		out, err := th.Fork(t.Context(), at, func(s *pawl.FuncState[string, string]) error {
			s.Input.Set("forked")
			return s.Leave("before ")
		})
		if err != nil || out.Result != "before forked" {
			t.Fatal(out, err)
		}
		if out, err = th.Replay(t.Context(), at); err != nil || out.Result != "before forked" {
			t.Fatal(out, err)
		}
		out, err = th.Run(t.Context(), "fails")
		if !errors.Is(err, errRow) || out.Status != pawl.Failed || out.Result != "before forked" {
			t.Fatal(out, err)
		}
		fails = false
		if out, err = th.Retry(t.Context()); err != nil || out.Result != "before forkedfails" {
			t.Fatal(out, err)
		}
		s, err := th.Read(history(t, th)[1])
		if err != nil || s.Input.Get() != "fails" || s.Output.Get() != "before forked" {
			t.Error(s, err)
		}
	})
}
