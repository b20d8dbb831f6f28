package pawl_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
)

// A thread's facts are the same for everybody: who watches while they happen, and who comes later, after whatever number.
// Inside a bubble "nothing more comes" is known.
func TestFactsAreTheSameForEverybody(t *testing.T) {
	t.Parallel()
	for _, c := range tapes {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				eng := memoryEngine(t, nil)
				th := eng.Thread(c.graph(t, eng), "t")
				live := make(chan []string)
				ctx, cancel := context.WithCancel(t.Context())
				go func() { live <- texts(t, facts(t, ctx, th, 0)) }()
				streamed := c.drive(t, th)
				synctest.Wait()
				cancel()
				want := <-live
				all := told(t, th, 0)
				if got := texts(t, all); !slices.Equal(got, want) {
					t.Errorf("who came later was told\n%v\nand who was there\n%v", got, want)
				}
				last := int64(0)
				for i, e := range all {
					if e.Seq <= last {
						t.Errorf("fact %d follows fact %d", e.Seq, last)
					}
					last = e.Seq
					if rest := texts(t, told(t, th, e.Seq)); !slices.Equal(rest, want[i+1:]) {
						t.Errorf("after fact %d was told\n%v\nwant\n%v", e.Seq, rest, want[i+1:])
					}
				}
				asStored(t, streamed, all)
			})
		})
	}
}

// asStored: a stream tells each stored fact of its runs, under its number and in its order.
func asStored(t *testing.T, streamed, stored []pawl.Event) {
	t.Helper()
	by := map[int64]pawl.Event{}
	for _, e := range stored {
		by[e.Seq] = e
	}
	short := func(e pawl.Event) string {
		writes, _ := json.Marshal(e.Writes)
		return fmt.Sprint(e.Kind, e.Seq, e.Step, e.Path, e.Run, e.Attempt, e.Node, e.Task, e.Name, e.Question, e.Checkpoint, e.Source, e.Quiet, e.Error, string(writes), string(e.Data))
	}
	last := int64(0)
	for _, e := range streamed {
		if e.Seq == 0 {
			continue
		}
		if e.Seq <= last {
			t.Errorf("the stream told fact %d after %d", e.Seq, last)
		}
		last = e.Seq
		want := by[e.Seq]
		if short(e) != short(want) {
			t.Errorf("streamed\n%s\nstored\n%s", short(e), short(want))
		}
	}
}

// facts are told until ctx ends.
func facts(t *testing.T, ctx context.Context, th *pawl.Thread, after int64) (out []pawl.Event) {
	for e, err := range th.Watch(ctx, after) {
		if err != nil {
			t.Error(err)
			return out
		}
		out = append(out, e)
	}
	return out
}

// told are the facts after a number, up to now.
func told(t *testing.T, th *pawl.Thread, after int64) []pawl.Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour) // of the bubble's clock: no time passes
	defer cancel()
	return facts(t, ctx, th, after)
}

func texts(t *testing.T, events []pawl.Event) []string {
	out := []string{}
	for _, e := range events {
		s, err := e.Snapshot(context.Background())
		doc, err2 := json.Marshal(struct {
			E pawl.Event
			S *pawl.Snapshot
		}{e, s})
		if err := errors.Join(err, err2); err != nil {
			t.Error(err)
		}
		out = append(out, string(doc))
	}
	return out
}

type tape struct {
	name  string
	graph func(*testing.T, *pawl.Engine) string // registers one, and returns its name
	drive func(*testing.T, *pawl.Thread) []pawl.Event
}

var tapes = []tape{
	{"two at once, then one", func(t *testing.T, eng *pawl.Engine) string {
		return registered(t, eng, must(t, pawl.New[family]("two").
			Node("a", wait(2, writes("a"))).Node("b", wait(1, writes("b"))).Node("c", func(context.Context, *family) error { return nil }).
			Edge(pawl.Start, "a").Edge(pawl.Start, "b").Edge("a", "c").Edge("b", "c")))
	}, func(t *testing.T, th *pawl.Thread) []pawl.Event { return streamedRun(t, th, `{"word":"x"}`) }},
	{"a failure, a resume, another failure, a retry", func(t *testing.T, eng *pawl.Engine) string {
		n := 0
		return registered(t, eng, must(t, pawl.New[family]("fails").
			Node("a", writes("a")).Node("b", wait(1, func(_ context.Context, s *family) error {
			if n++; n < 4 {
				return fmt.Errorf("failure %d", n)
			}
			s.N.Add(1)
			return nil
		})).Edge(pawl.Start, "a").Edge(pawl.Start, "b")))
	}, func(t *testing.T, th *pawl.Thread) []pawl.Event {
		out := streamedRun(t, th, `{}`)
		out = append(out, streamedVerb(t, th.Resume)...)
		out = append(out, streamedVerb(t, th.Retry)...)
		return append(out, streamedVerb(t, th.Resume)...)
	}},
	{"a child that pauses", func(t *testing.T, eng *pawl.Engine) string {
		return registered(t, eng, pausing(t, entries{}, pawl.Inherit))
	}, askedAndAnswered},
	{"a child that remembers, twice", func(t *testing.T, eng *pawl.Engine) string {
		return registered(t, eng, pausing(t, entries{}, pawl.PerThread))
	}, func(t *testing.T, th *pawl.Thread) []pawl.Event {
		return append(askedAndAnswered(t, th), askedAndAnswered(t, th)...)
	}},
	{"a fork inside a child", func(t *testing.T, eng *pawl.Engine) string {
		return registered(t, eng, pausing(t, entries{}, pawl.Inherit))
	}, func(t *testing.T, th *pawl.Thread) []pawl.Event {
		out := askedAndAnswered(t, th)
		h, err := th.History(t.Context(), pawl.Page{})
		if err != nil {
			t.Fatal(err)
		}
		s, err := th.Snapshot(t.Context(), h[1].Checkpoint)
		if err != nil {
			t.Fatal(err)
		}
		inner, err := th.History(t.Context(), pawl.Page{In: s.Tasks[0].Children[0].Path})
		if err != nil {
			t.Fatal(err)
		}
		forked := streamedVerb(t, func(ctx context.Context, o ...pawl.RunOption) (*pawl.Outcome, error) {
			return th.Fork(ctx, pawl.Checkpoint(inner[1].Checkpoint), []byte(`{"word":"z"}`), o...)
		})
		paths := map[string]bool{}
		for _, e := range forked {
			if s, err := e.Snapshot(t.Context()); err != nil || s != nil && e.Kind == pawl.EventCheckpoint && string(s.Path) != e.Path {
				t.Error(e, s, err)
			}
			paths[e.Path] = paths[e.Path] || e.Kind == pawl.EventCheckpoint
		}
		if len(paths) < 2 {
			t.Error("the fork tells nothing of the child", paths)
		}
		return append(out, forked...)
	}},
	{"an edit, a fork, a replay", func(t *testing.T, eng *pawl.Engine) string {
		return registered(t, eng, must(t, pawl.New[family]("goes back").
			Node("a", writes("a")).Node("b", asksOkay, pawl.Uses(okay)).Node("c", writes("c")).
			Path(pawl.Start, "a", "b").Edge("a", "c")))
	}, func(t *testing.T, th *pawl.Thread) []pawl.Event {
		out := streamedRun(t, th, `{"word":"x"}`)
		if _, err := th.Edit(t.Context(), []byte(`{"word":"y"}`)); err != nil {
			t.Fatal(err)
		}
		out = append(out, streamedVerb(t, th.Resume)...)
		for range 2 {
			out = append(out, streamedVerb(t, func(ctx context.Context, o ...pawl.RunOption) (*pawl.Outcome, error) {
				return th.Fork(ctx, pawl.Before("a"), []byte(`{"word":"z"}`), o...)
			})...)
		}
		if err := th.Cancel(t.Context(), "enough"); err != nil {
			t.Fatal(err)
		}
		return out
	}},
	{"without a wait for the disk", func(t *testing.T, eng *pawl.Engine) string {
		return registered(t, eng, must(t, pawl.New[family]("async").Node("a", writes("a")).Node("b", asksOkay, pawl.Uses(okay)).Path(pawl.Start, "a", "b")))
	}, func(t *testing.T, th *pawl.Thread) []pawl.Event {
		for _, mode := range []pawl.Durability{pawl.Async, pawl.Exit} {
			if _, err := th.Run(t.Context(), []byte(`{}`), pawl.WithDurability(mode)); err != nil {
				t.Fatal(err)
			}
			if _, err := th.Resume(t.Context(), pawl.AnswerWith("", "yes")); err != nil {
				t.Fatal(err)
			}
		}
		return nil
	}},
}

func registered(t *testing.T, eng *pawl.Engine, g *pawl.Graph[family]) string {
	t.Helper()
	if err := eng.Register(g); err != nil {
		t.Fatal(err)
	}
	return g.Name()
}

func writes(what string) func(context.Context, *family) error {
	return func(_ context.Context, s *family) error {
		s.Log.Add(what)
		s.N.Add(1)
		return nil
	}
}

// wait is a node that takes its time, so that others end before it.
func wait(d time.Duration, f func(context.Context, *family) error) func(context.Context, *family) error {
	return func(ctx context.Context, s *family) error { <-time.After(d); return f(ctx, s) }
}

func streamedRun(t *testing.T, th *pawl.Thread, in string) []pawl.Event {
	t.Helper()
	return heard(t, pawl.Stream(t.Context(), func(ctx context.Context, tell pawl.RunOption) error {
		_, err := th.Run(ctx, []byte(in), tell)
		return err
	}))
}

func streamedVerb(t *testing.T, verb func(context.Context, ...pawl.RunOption) (*pawl.Outcome, error), options ...pawl.RunOption) []pawl.Event {
	t.Helper()
	return heard(t, pawl.Stream(t.Context(), func(ctx context.Context, tell pawl.RunOption) error {
		_, err := verb(ctx, append(options, tell)...)
		return err
	}))
}

func heard(t *testing.T, stream func(func(pawl.Event, error) bool)) (out []pawl.Event) {
	t.Helper()
	for e, err := range stream {
		if run := (*pawl.RunError)(nil); err != nil && !errors.As(err, &run) {
			t.Fatal(err)
		}
		if err == nil {
			out = append(out, e)
		}
	}
	return out
}

// askedAndAnswered streams a run that asks, and the resume that answers.
func askedAndAnswered(t *testing.T, th *pawl.Thread) []pawl.Event {
	t.Helper()
	out := streamedRun(t, th, `{"word":"x"}`)
	return append(out, streamedVerb(t, th.Resume, pawl.AnswerWith("", "yes"))...)
}

// A node says things: the stream and the watchers of this process hear them, each behind the facts that it came after, and
// who comes too late for some hears how many.
func TestEmit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		eng := memoryEngine(t, nil)
		talk := func(n int) func(context.Context, *family) error {
			return func(ctx context.Context, s *family) error {
				for i := range n {
					if err := pawl.Emit(ctx, "progress", i); err != nil {
						return err
					}
				}
				<-time.After(time.Minute)
				return nil
			}
		}
		g := must(t, pawl.New[family]("talks").Node("a", talk(2)).Node("b", talk(1030)).Path(pawl.Start, "a", "b"))
		th := eng.Thread(registered(t, eng, g), "t")
		heardNow := make(chan []pawl.Event)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { heardNow <- facts(t, ctx, th, 0) }()
		synctest.Wait()
		late := make(chan []pawl.Event)
		go func() {
			<-time.After(90 * time.Second) // b spoke, and waits
			late <- facts(t, ctx, th, 0)
		}()
		streamed := streamedRun(t, th, `{}`)
		synctest.Wait()
		cancel()
		order := func(events []pawl.Event) (out []string) {
			for _, e := range events {
				if e.Kind == pawl.EventCustom && e.Node == "a" {
					out = append(out, fmt.Sprint(e.Name, string(e.Data), e.Step, e.Try))
				} else if e.Kind == pawl.EventCheckpoint && e.Step < 2 {
					out = append(out, fmt.Sprint("checkpoint ", e.Step))
				}
			}
			return out
		}
		want := []string{"checkpoint -1", "checkpoint 0", "progress01 1", "progress11 1", "checkpoint 1"}
		if got := order(streamed); !slices.Equal(got, want) {
			t.Errorf("the stream told %q", got)
		}
		if got := order(<-heardNow); !slices.Equal(got, want) {
			t.Errorf("the watcher was told %q", got)
		}
		customs, lost := 0, 0
		for _, e := range <-late {
			if e.Kind == pawl.EventCustom {
				customs++
			}
			lost += e.Count
		}
		if customs != 1024 || lost != 1032-1024 {
			t.Errorf("who came late heard %d, and that %d are lost", customs, lost)
		}
		for _, e := range told(t, th, 0) {
			if e.Kind == pawl.EventCustom {
				t.Fatal("what was said is told after the run")
			}
		}
	})
}

// What cannot be said is refused, and outside of a run nobody listens.
func TestEmitRefuses(t *testing.T) {
	t.Parallel()
	if err := pawl.Emit(t.Context(), "x", func() {}); err != nil {
		t.Error(err)
	}
	var inside, late error
	left := make(chan struct{})
	g := single(t, func(ctx context.Context, _ *note) error {
		inside = pawl.Emit(ctx, "x", func() {})
		context.AfterFunc(ctx, func() { late = pawl.Emit(ctx, "x", 1); close(left) })
		return nil
	})
	if _, err := g.Thread(opened(t, hooked(t), nil), "t").Run(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	<-left
	if inside == nil || late == nil {
		t.Error(inside, late)
	}
}

// A Stream without storage tells the same, without numbers.
func TestStreamWithoutStorage(t *testing.T) {
	t.Parallel()
	eng, err := pawl.NewEngine(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer eng.Close()
	g := must(t, pawl.New[family]("plain").Node("a", writes("a")).Path(pawl.Start, "a"))
	var out []string
	for _, e := range streamedRun(t, eng.Thread(registered(t, eng, g), "t"), `{"word":"x"}`) {
		s, err := e.Snapshot(t.Context())
		if err != nil || e.Seq != 0 {
			t.Error(e, err)
		}
		line := string(e.Kind)
		if s != nil {
			line += string(s.Values)
		}
		out = append(out, line)
	}
	want := []string{"accepted", "checkpoint{}", `checkpoint{"word":"x"}`, "task_start", "task_end", `checkpoint{"log":["a"],"word":"x","n":1}`, `finished{"log":["a"],"word":"x","n":1}`}
	if !slices.Equal(out, want) {
		t.Errorf("told %q", out)
	}
}
