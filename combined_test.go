package pawl_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/storage"
	"github.com/pawl-dev/pawl/storage/fault"
)

// goneOn resumes a thread that its process left, and answers what it asks, until it is done.
func goneOn[S any](t testing.TB, th *pawl.ThreadOf[S], answer string) *pawl.OutcomeOf[S] {
	t.Helper()
	for range 8 {
		out, err := th.Resume(t.Context())
		for err == nil && len(out.Waiting) > 0 {
			out, err = th.Resume(t.Context(), pawl.AnswerWith(out.Waiting[0].ID, answer))
		}
		if err != nil {
			t.Fatal(err)
		}
		if out.Status == pawl.Done {
			return out
		}
	}
	t.Fatal("it is not done after 8 resumes")
	return nil
}

// P1: whatever the process dies at, a node in a child whose failure its handler took over is not entered again once that is
// on disk, what the handler asked is asked once, and what finished in the child stays.
func TestHandlerThatAsksInAChildSurvivesDeath(t *testing.T) {
	t.Parallel()
	for _, mode := range []pawl.ChildMode{pawl.Inherit, pawl.PerThread} {
		for n := 0; ; n++ {
			var before, fails, handles atomic.Int32
			inner := must(t, pawl.New[family]("inner").
				Node("before", func(_ context.Context, s *family) error { before.Add(1); s.Log.Add("before"); return nil }).
				Node("fails", func(context.Context, *family) error { fails.Add(1); return errors.New("boom") }, pawl.Uses(okay),
					pawl.OnError(func(ctx context.Context, s *family, err error) error {
						handles.Add(1)
						answer, asked := okay.Ask(ctx, err.Error()[strings.LastIndex(err.Error(), " ")+1:])
						if asked == nil {
							s.Log.Add("handled:" + answer)
						}
						return asked
					})).
				Path(pawl.Start, "before", "fails"))
			g := must(t, pawl.New[family]("outer").Add(pawl.Sub(inner.Child("sub", mode), handIn, takeOut)).Path(pawl.Start, "sub"))
			db := hooked(t)
			mortal := fault.Wrap(db, fault.Plan{At: fault.At(n, fault.Stop())})
			th := g.Thread(opened(t, mortal, nil), "t")
			_, died := th.Run(t.Context(), &family{})
			if died == nil {
				_, died = th.Resume(t.Context(), okay.Answer("", "yes"))
			}
			if alive := g.Thread(opened(t, db, nil), "t"); standing(t, alive).Status != pawl.StatusNew {
				if out := goneOn(t, alive, "yes"); !slices.Equal(logOf(&out.State.Log), []string{"before", "handled:yes"}) {
					t.Errorf("%s, point %d: %v", mode, n, logOf(&out.State.Log))
				}
			}
			if died == nil {
				if n < 4 || before.Load() != 1 || fails.Load() != 1 || handles.Load() != 2 {
					t.Errorf("%s: %d points, entered %d, %d and %d times", mode, n, before.Load(), fails.Load(), handles.Load())
				}
				break
			}
			if before.Load() > 2 || fails.Load() > 2 || handles.Load() > 3 {
				t.Errorf("%s, point %d: entered %d, %d and %d times for one death", mode, n, before.Load(), fails.Load(), handles.Load())
			}
		}
	}
}

// purse holds a grant that is taken once.
type purse struct {
	Grant pawl.Once[string]   `json:"grant"`
	Log   pawl.Append[string] `json:"log"`
}

// P4, P5: a Once that a task took is taken when the task ended well, and not before: a try that failed, a wait, a death of the
// run and a fork from before have it still, and nobody has it twice on one branch.
func TestOnceIsTakenWithTheTask(t *testing.T) {
	t.Parallel()
	type thread = *pawl.ThreadOf[purse]
	for name, c := range map[string]struct {
		options []pawl.NodeOption
		fails   int32
		then    func(th thread, out *pawl.OutcomeOf[purse], err error) (*pawl.OutcomeOf[purse], error)
		want    string
	}{
		"tried again": {[]pawl.NodeOption{pawl.Tries(3), pawl.Backoff(0, 0)}, 2, nil, "took g true, nothing left"},
		"failed and resumed": {nil, 1, func(th thread, _ *pawl.OutcomeOf[purse], err error) (*pawl.OutcomeOf[purse], error) {
			return th.Resume(t.Context())
		}, "took g true, nothing left"},
		"failed and retried": {nil, 1, func(th thread, _ *pawl.OutcomeOf[purse], err error) (*pawl.OutcomeOf[purse], error) {
			return th.Retry(t.Context())
		}, "took g true, nothing left"},
		"replayed from before": {nil, 0, func(th thread, out *pawl.OutcomeOf[purse], err error) (*pawl.OutcomeOf[purse], error) {
			return th.Replay(t.Context(), pawl.Before("take"))
		}, "took g true, nothing left"},
		"replayed from behind": {nil, 0, func(th thread, out *pawl.OutcomeOf[purse], err error) (*pawl.OutcomeOf[purse], error) {
			return th.Replay(t.Context(), pawl.Before("look"))
		}, "took g true, nothing left"},
		"edited in again": {nil, 0, func(th thread, out *pawl.OutcomeOf[purse], err error) (*pawl.OutcomeOf[purse], error) {
			return th.Fork(t.Context(), pawl.Before("look"), func(s *purse) error { s.Grant.Put("more"); return nil })
		}, "took g true, left more"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onEachHome(t, func(t *testing.T, db storage.DB) {
				var entered atomic.Int32
				g := must(t, pawl.New[purse]("purse").
					Node("take", func(_ context.Context, s *purse) error {
						v, ok := s.Grant.Take()
						if entered.Add(1) <= c.fails {
							return errors.New("boom")
						}
						s.Log.Add(fmt.Sprintf("took %s %v", v, ok))
						return nil
					}, c.options...).
					Node("look", func(_ context.Context, s *purse) error {
						if v, ok := s.Grant.Take(); ok {
							s.Log.Add("left " + v)
						} else {
							s.Log.Add("nothing left")
						}
						return nil
					}).Path(pawl.Start, "take", "look"))
				in := &purse{}
				in.Grant.Put("g")
				th := g.Thread(opened(t, db, nil), "t")
				out, err := th.Run(t.Context(), in)
				if c.then != nil {
					out, err = c.then(th, out, err)
				}
				if err != nil || strings.Join(logOf(&out.State.Log), ", ") != c.want {
					t.Errorf("%+v, want %s: %v", out, c.want, err)
				}
			})
		})
	}
}

// P1, P5: a run that is cancelled, or whose caller leaves, keeps what had finished under every durability, and the verbs that
// go on repeat none of it.
func TestStoppedInTheMiddle(t *testing.T) {
	t.Parallel()
	type thread = *pawl.ThreadOf[lines]
	for name, c := range map[string]struct {
		stop func(th thread, leave context.CancelFunc)
		goOn func(th thread) (*pawl.OutcomeOf[lines], error)
		want string // what was entered in all
		says pawl.Status
	}{
		"cancelled, then retried": {func(th thread, _ context.CancelFunc) { go func() { _ = th.Cancel(context.Background(), "enough") }() },
			func(th thread) (*pawl.OutcomeOf[lines], error) { return th.Retry(t.Context()) }, "a b slow a b slow", pawl.Cancelled},
		"cancelled, then replayed from the slow one": {func(th thread, _ context.CancelFunc) { go func() { _ = th.Cancel(context.Background(), "enough") }() },
			func(th thread) (*pawl.OutcomeOf[lines], error) { return th.Replay(t.Context(), pawl.Before("slow")) }, "a b slow slow", pawl.Cancelled},
		"left, then resumed": {func(_ thread, leave context.CancelFunc) { leave() },
			func(th thread) (*pawl.OutcomeOf[lines], error) { return th.Resume(t.Context()) }, "a b slow slow", pawl.Failed},
	} {
		for _, mode := range []pawl.Durability{pawl.Sync, pawl.Async, pawl.Exit} {
			t.Run(name+", "+string(mode), func(t *testing.T) {
				t.Parallel()
				onEachHome(t, func(t *testing.T, db storage.DB) {
					var v visits
					var slow atomic.Bool
					slow.Store(true)
					reached := make(chan struct{})
					g := must(t, pawl.New[lines]("line").Node("a", linesNode(&v, "a")).Node("b", linesNode(&v, "b")).
						Node("slow", func(ctx context.Context, s *lines) error {
							if v.add("slow"); slow.Load() {
								close(reached)
								<-ctx.Done()
								return ctx.Err()
							}
							s.Log.Add("slow")
							return nil
						}).Path(pawl.Start, "a", "b", "slow"))
					th := g.Thread(opened(t, db, nil), "t")
					ctx, leave := context.WithCancel(t.Context())
					defer leave()
					go func() { <-reached; c.stop(th, leave) }()
					out, err := th.Run(ctx, &lines{}, pawl.WithDurability(mode))
					if stopped := (*pawl.RunError)(nil); !errors.As(err, &stopped) || stopped.Status != c.says || !slices.Equal(logged(out.State), []string{"a", "b"}) {
						t.Fatalf("it stopped as %+v, %v", out, err)
					}
					stands(t, th, c.says, `{"log":["a","b"]}`)
					slow.Store(false)
					out, err = c.goOn(th)
					if err != nil || out.Status != pawl.Done || !slices.Equal(logged(out.State), []string{"a", "b", "slow"}) || v.String() != c.want {
						t.Errorf("%+v, entered %s, want %s: %v", out, v.String(), c.want, err)
					}
				})
			})
		}
	}
}

// P1: a stream that its reader leaves, at whatever event, leaves a thread that goes on to the same end, and finished nodes,
// those of children included, are entered once.
func TestStreamLeftInTheMiddle(t *testing.T) {
	t.Parallel()
	for _, mode := range []pawl.Durability{pawl.Sync, pawl.Async, pawl.Exit} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			for n := 1; ; n++ {
				e := entries{}
				th := relatives(t, e, pawl.Inherit, 1).Thread(memoryEngine(t, nil), "t")
				seen, over := 0, false
				for ev, err := range th.Stream(t.Context(), &family{}, pawl.WithDurability(mode)) {
					if err != nil {
						t.Fatal(err)
					}
					over = ev.Kind == pawl.EventFinished
					if seen++; seen == n {
						break
					}
				}
				if st := standing(t, th); st.Status != pawl.Waiting && st.Status != pawl.Failed {
					t.Errorf("left after %d events it is %s", n, st.Status)
				}
				out := goneOn(t, th, "yes")
				if got := logOf(&out.State.Log); !slices.Equal(got, []string{"a", "b", "two:yes"}) {
					t.Errorf("left after %d events: %v", n, got)
				}
				if e["a"] > 2 || e["b"] > 2 || e["before"] > 2 {
					t.Errorf("left after %d events: entered %v", n, e)
				}
				if over {
					if n < 8 || e["a"] != 1 || e["b"] != 1 || e["before"] != 1 {
						t.Errorf("%d events, entered %v", n, e)
					}
					return
				}
			}
		})
	}
}

// P3: of many who answer one question at once, one is taken; the others are told who was, and the node gets that answer.
func TestManyAnswerAtOnce(t *testing.T) {
	t.Parallel()
	onEachHome(t, func(t *testing.T, db storage.DB) {
		const people = 8
		for name, way := range map[string]func(th *pawl.ThreadOf[family], ctx context.Context, id, answer string) error{
			"by the engine": func(th *pawl.ThreadOf[family], ctx context.Context, id, answer string) error {
				v, err := th.Answer(ctx, id, answer)
				if err == nil && (!v.Taken || v.Already) {
					return fmt.Errorf("neither taken nor refused: %+v", v)
				}
				return err
			},
			"with a resume": func(th *pawl.ThreadOf[family], ctx context.Context, id, answer string) error {
				_, err := th.Resume(ctx, okay.Answer(id, answer))
				return err
			},
		} {
			g := pausing(t, entries{}, pawl.Inherit)
			first := g.Thread(opened(t, db, nil), name)
			out, err := first.Run(t.Context(), &family{})
			if err != nil {
				t.Fatal(err)
			}
			errs := make([]error, people)
			var all sync.WaitGroup
			for i := range people {
				th := g.Thread(opened(t, db, nil), name) // of an engine, as in a process, of its own
				all.Go(func() {
					who := fmt.Sprint("person", i)
					errs[i] = way(th, pawl.WithActor(t.Context(), pawl.Actor{ID: who}), out.Waiting[0].ID, who)
				})
			}
			all.Wait()
			taken := slices.Index(errs, nil)
			for i, err := range errs {
				var late *pawl.AnswerError
				var busy *pawl.VerbError
				switch {
				case i == taken:
				case err == nil:
					t.Errorf("%s: %d and %d were both taken", name, taken, i)
				case errors.As(err, &late) && late.Reason == pawl.ReasonAnswered && late.By == fmt.Sprint("person", taken):
				case errors.As(err, &busy) && name == "with a resume":
				default:
					t.Errorf("%s: %d was told %v", name, i, err)
				}
			}
			if out = goneOn(t, first, "nobody"); !slices.Equal(logOf(&out.State.Log), []string{"one", fmt.Sprint("two:person", taken)}) {
				t.Errorf("%s: the node got %v, %d was taken", name, logOf(&out.State.Log), taken)
			}
		}
	})
}

// P5: the limit of open questions counts those of children, at any depth, and is reached before anything is asked.
func TestQuestionsInChildrenAreCounted(t *testing.T) {
	t.Parallel()
	for _, mode := range []pawl.ChildMode{pawl.Inherit, pawl.PerThread, pawl.Stateless} {
		for most, fits := range map[int]bool{2: false, 3: true, math.MaxInt: true} {
			inner := must(t, pawl.New[family]("inner").Node("asks", func(ctx context.Context, _ *family) error {
				_, a := okay.Ask(ctx, "a?", pawl.Key("a"))
				_, b := okay.Ask(ctx, "b?", pawl.Key("b"))
				return errors.Join(a, b)
			}, pawl.Uses(okay)).Path(pawl.Start, "asks"))
			g := must(t, pawl.New[family]("outer").Node("asks", func(ctx context.Context, _ *family) error { _, err := okay.Ask(ctx, "c?"); return err }, pawl.Uses(okay)).
				Add(pawl.Sub(inner.Child("sub", mode), handIn, takeOut)).Edge(pawl.Start, "sub").Edge(pawl.Start, "asks"))
			out, err := g.Thread(memoryEngine(t, &pawl.Options{Limits: pawl.Limits{Questions: most}, Concurrency: 1}), "t").Run(t.Context(), &family{})
			limit := (*pawl.LimitError)(nil)
			if fits != (err == nil && len(out.Waiting) == 3) || !fits && (!errors.As(err, &limit) || limit.Max != most || len(out.Waiting) > most) {
				t.Errorf("%s, at most %d: %d are open, %v", mode, most, len(out.Waiting), err)
			}
		}
	}
}
