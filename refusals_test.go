package pawl_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/storage"
	"github.com/pawl-dev/pawl/storage/fault"
)

// touchy is a part that panics at one of its doors.
type touchy struct{ at *string }

func (touchy) Name() string   { return "touchy" }
func (touchy) Digest() string { return "1" }

func (p touchy) Task(ctx context.Context, _ pawl.TaskInfo) (context.Context, func(error)) {
	if *p.at == "task" {
		panic("touchy")
	}
	return ctx, func(error) {
		if *p.at == "end of task" {
			panic("touchy")
		}
	}
}

func (p touchy) Verb(_ context.Context, _ storage.Tx, v pawl.VerbInfo) ([]pawl.Note, error) {
	if *p.at == string(v.Verb) {
		panic("touchy")
	}
	return nil, nil
}

func (p touchy) Store(_ string, doc []byte) ([]byte, error) {
	if *p.at == "store" {
		panic("touchy")
	}
	return doc, nil
}

// P5: a part that panics is an error of the verb or of the task and nothing else: nothing of it is done, nothing is left
// running, and the thread goes on once the part is well.
func TestPartsThatPanic(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]pawl.Status{
		"run": pawl.StatusNew, "resume": pawl.Waiting, "answer": pawl.Waiting, "cancel": pawl.Waiting, "delete": pawl.Waiting,
		"edit": pawl.Waiting, "replay": pawl.Waiting, "task": pawl.Failed, "end of task": pawl.Failed, "store": pawl.Failed,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onEachHome(t, func(t *testing.T, db storage.DB) {
				at := ""
				eng := opened(t, db, &pawl.Options{Parts: []pawl.Part{touchy{&at}}})
				th := pausing(t, entries{}, pawl.Inherit).Thread(eng, "t")
				start := func() error { _, err := th.Run(t.Context(), &family{}); return err }
				verbs := map[string]func() error{
					"resume": func() error { _, err := th.Resume(t.Context()); return err },
					"cancel": func() error { return th.Cancel(t.Context(), "") },
					"delete": func() error { return th.Delete(t.Context()) },
					"edit":   func() error { _, err := th.Thread.Edit(t.Context(), []byte(`{"word":"x"}`)); return err },
					"replay": func() error { _, err := th.Replay(t.Context(), pawl.Before("child")); return err },
					"answer": func() error { _, err := th.Answer(t.Context(), "", "no"); return err },
				}
				do := verbs[name]
				if do == nil {
					do = start
				} else if err := start(); err != nil {
					t.Fatal(err)
				}
				at = name
				if err := do(); err == nil || !strings.Contains(err.Error(), "touchy") {
					t.Errorf("it was told %v", err)
				}
				at = ""
				st := standing(t, th)
				if st.Status != want || st.Owner != "" || want == pawl.Waiting && len(st.Waiting) != 1 {
					t.Errorf("it is %s of owner %q, %d questions are open", st.Status, st.Owner, len(st.Waiting))
				}
				if want == pawl.StatusNew {
					if err := start(); err != nil {
						t.Fatal(err)
					}
				}
				if out := goneOn(t, th, "yes"); !slices.Equal(logOf(&out.State.Log), []string{"one", "two:yes"}) {
					t.Errorf("it goes on to %v", logOf(&out.State.Log))
				}
			})
		})
	}
}

// brittle is a codec that fails.
type brittle struct{ encode, decode *atomic.Bool }

var errBrittle = errors.New("no key")

func (brittle) KeyID() string { return "k" }
func (b brittle) Encode(_ string, body []byte) ([]byte, error) {
	if b.encode.Load() {
		return nil, errBrittle
	}
	return slices.Clone(body), nil
}
func (b brittle) Decode(_, _ string, body []byte) ([]byte, error) {
	if b.decode.Load() {
		return nil, errBrittle
	}
	return slices.Clone(body), nil
}

// P5: a codec that fails, for a while, refuses what needs it by name; what was stored before is there when it is well again,
// and what was not stored is not said to be.
func TestCodecThatFails(t *testing.T) {
	t.Parallel()
	type thread = *pawl.ThreadOf[family]
	verbs := map[string]func(eng *pawl.Engine, th thread, id string) error{
		"run": func(eng *pawl.Engine, _ thread, _ string) error {
			_, err := eng.Thread("outer", "u").Run(t.Context(), []byte(`{}`))
			return err
		},
		"resume": func(_ *pawl.Engine, th thread, id string) error {
			_, err := th.Resume(t.Context(), okay.Answer(id, "yes"))
			return err
		},
		"answer": func(_ *pawl.Engine, th thread, id string) error {
			_, err := th.Answer(t.Context(), id, "yes")
			return err
		},
		"replay": func(_ *pawl.Engine, th thread, _ string) error {
			_, err := th.Replay(t.Context(), pawl.Before("child"))
			return err
		},
		"edit": func(_ *pawl.Engine, th thread, _ string) error {
			_, err := th.Thread.Edit(t.Context(), []byte(`{"word":"x"}`))
			return err
		},
		"copy": func(_ *pawl.Engine, th thread, _ string) error {
			_, err := th.Copy(t.Context(), "copy", pawl.Point{})
			return err
		},
		"history": func(_ *pawl.Engine, th thread, _ string) error {
			_, err := th.History(t.Context(), pawl.Page{})
			return err
		},
	}
	for name, verb := range verbs {
		for fails, what := range map[string]func(b brittle, on bool){
			"encode": func(b brittle, on bool) { b.encode.Store(on) },
			"decode": func(b brittle, on bool) { b.decode.Store(on) },
		} {
			if name == "history" && fails == "encode" || name == "run" && fails == "decode" {
				continue // neither needs it
			}
			t.Run(name+", "+fails, func(t *testing.T) {
				t.Parallel()
				db, codec := hooked(t), brittle{&atomic.Bool{}, &atomic.Bool{}}
				eng := opened(t, db, &pawl.Options{Codec: codec})
				th := pausing(t, entries{}, pawl.Inherit).Thread(eng, "t")
				out, err := th.Run(t.Context(), &family{})
				if err != nil {
					t.Fatal(err)
				}
				before := standing(t, th)
				what(codec, true)
				if err := verb(eng, th, out.Waiting[0].ID); !errors.Is(err, errBrittle) {
					t.Errorf("it was told %v", err)
				}
				what(codec, false)
				after := standing(t, th)
				if after.Status != pawl.Waiting || after.Head.Checkpoint != before.Head.Checkpoint || len(after.Waiting) != 1 {
					t.Errorf("it is %s at %s", after.Status, after.Head.Checkpoint)
				}
				if out := goneOn(t, th, "yes"); !slices.Equal(logOf(&out.State.Log), []string{"one", "two:yes"}) {
					t.Errorf("it goes on to %v", logOf(&out.State.Log))
				}
			})
		}
	}
}

// P1, P6: a run that keeps killing its process is parked and says so; a person's resume goes on, and repeats nothing that
// had finished.
func TestRunThatKillsItsProcessIsParked(t *testing.T) {
	t.Parallel()
	onEachHome(t, func(t *testing.T, db storage.DB) {
		const most = 2
		var v visits
		var mortal atomic.Pointer[fault.DB]
		g := must(t, pawl.New[lines]("line").Node("first", linesNode(&v, "first")).
			Node("kills", func(_ context.Context, s *lines) error {
				v.add("kills")
				if db := mortal.Load(); db != nil {
					db.Stop()
				}
				s.Log.Add("kills")
				return nil
			}).Path(pawl.Start, "first", "kills"))
		limits := &pawl.Options{Limits: pawl.Limits{Crashes: most}}
		dies := func(verb func(th *pawl.ThreadOf[lines]) error) {
			t.Helper()
			mortal.Store(fault.Wrap(db, fault.Plan{}))
			if err := verb(g.Thread(opened(t, mortal.Load(), limits), "t")); err == nil {
				t.Fatal("it did not die")
			}
			mortal.Store(nil)
		}
		resume := func(th *pawl.ThreadOf[lines]) error { _, err := th.Resume(t.Context()); return err }
		dies(func(th *pawl.ThreadOf[lines]) error { _, err := th.Run(t.Context(), &lines{}); return err })
		for range most {
			dies(resume)
		}
		th := g.Thread(opened(t, db, limits), "t")
		stands(t, th, pawl.Crashed, `{"log":["first"]}`)
		parked := (*pawl.RunError)(nil)
		out, err := th.Resume(t.Context())
		if !errors.As(err, &parked) || parked.Cause != pawl.CauseCrashing || out.Status != pawl.Failed || !strings.Contains(out.Reason, "3 times") {
			t.Errorf("%+v, %v", out, err)
		}
		if st := standing(t, th); st.Status != pawl.Failed || st.Cause != pawl.CauseCrashing || st.Owner != "" {
			t.Errorf("it stands as %+v", st)
		}
		if done := pickUp(t, opened(t, db, limits)); done != 0 {
			t.Error("a runner went on with it")
		}
		if out, err = th.Resume(t.Context()); err != nil || out.Status != pawl.Done || v.String() != "first kills kills kills kills" {
			t.Errorf("%+v, entered %s: %v", out, v.String(), err)
		}
	})
}

// P1: a run's id starts it once, while it waits, too, in whatever process it is sent again, and is no other input's.
func TestRunIDWhileItWaits(t *testing.T) {
	t.Parallel()
	onEachHome(t, func(t *testing.T, db storage.DB) {
		e := entries{}
		g := pausing(t, e, pawl.Inherit)
		in := func(word string) *family { return &family{Word: pawl.Of(word)} }
		out, err := g.Thread(opened(t, db, nil), "t").Run(t.Context(), in("a"), pawl.RunID("r"))
		if err != nil || out.Run != "r" {
			t.Fatal(out, err)
		}
		th := g.Thread(opened(t, db, nil), "t")
		again, err := th.Run(t.Context(), in("a"), pawl.RunID("r"))
		if err != nil || again.Status != pawl.Waiting || again.Run != "r" || again.Attempt != out.Attempt || again.Waiting[0].ID != out.Waiting[0].ID {
			t.Errorf("sent again: %+v, %v", again, err)
		}
		refused := (*pawl.VerbError)(nil)
		if _, err := th.Run(t.Context(), in("b"), pawl.RunID("r")); !errors.As(err, &refused) || !strings.Contains(err.Error(), "another input") {
			t.Errorf("with another input: %v", err)
		}
		if _, err := th.Run(t.Context(), in("a"), pawl.RunID("s")); !errors.As(err, &refused) || refused.Status != pawl.Waiting {
			t.Errorf("another run beside it: %v", err)
		}
		goneOn(t, th, "yes")
		over, err := th.Run(t.Context(), in("a"), pawl.RunID("r"))
		if err != nil || over.Status != pawl.Done || !slices.Equal(logOf(&over.State.Log), []string{"one", "two:yes"}) || e["one"] != 1 || e["two"] != 2 {
			t.Errorf("sent again when it is over: %+v, entered %v: %v", over, e, err)
		}
	})
}

// P1: a cached node is not entered on a fork or a copy that sees what it saw, in a child as elsewhere, and is on one that
// sees something else.
func TestCacheAndForks(t *testing.T) {
	t.Parallel()
	onEachHome(t, func(t *testing.T, db storage.DB) {
		e := entries{}
		inner := must(t, pawl.New[family]("inner").
			Node("slow", e.node("slow", func(_ context.Context, s *family) error { s.Log.Add("slow:" + s.Word.Get()); return nil }), pawl.Cache(time.Hour)).
			Path(pawl.Start, "slow"))
		g := must(t, pawl.New[family]("outer").Node("first", e.node("first", func(context.Context, *family) error { return nil })).
			Add(pawl.Sub(inner.Child("sub"), handIn, takeOut)).Path(pawl.Start, "first", "sub"))
		eng := opened(t, db, nil)
		th := g.Thread(eng, "t")
		if _, err := th.Run(t.Context(), &family{Word: pawl.Of("a")}); err != nil {
			t.Fatal(err)
		}
		if _, err := th.Copy(t.Context(), "copy", pawl.Before("sub")); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			name string
			does func() (*pawl.OutcomeOf[family], error)
			want string
			slow int
		}{
			{"replay", func() (*pawl.OutcomeOf[family], error) { return th.Replay(t.Context(), pawl.Before("sub")) }, "slow:a", 1},
			{"copy", func() (*pawl.OutcomeOf[family], error) { return g.Thread(eng, "copy").Resume(t.Context()) }, "slow:a", 1},
			{"fork", func() (*pawl.OutcomeOf[family], error) {
				return th.Fork(t.Context(), pawl.Before("sub"), func(s *family) error { s.Word.Set("b"); return nil })
			}, "slow:b", 2},
			{"replay of the fork", func() (*pawl.OutcomeOf[family], error) { return th.Replay(t.Context(), pawl.Before("sub")) }, "slow:b", 2},
		} {
			out, err := c.does()
			if err != nil || !slices.Equal(logOf(&out.State.Log), []string{c.want}) || e["slow"] != c.slow || e["first"] != 1 {
				t.Errorf("%s: %+v, entered %v, want %s and %d: %v", c.name, out, e, c.want, c.slow, err)
			}
		}
	})
}
