package pawl_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
)

// scratch is what the nodes of a diary pass on among themselves.
type scratch struct {
	Now   pawl.Last[int]      `json:"now" pawl:"private"`
	Tried pawl.Append[string] `json:"tried" pawl:"was=attempts,private"`
}

type diary struct {
	Hello pawl.Last[string] `json:"hello"`
	scratch
	Done pawl.Append[string] `json:"done"`
}

func diaryGraph(t *testing.T) *pawl.Graph[diary] {
	t.Helper()
	g, err := pawl.New[diary]("diary").
		Node("a", func(_ context.Context, s *diary) error { return jot(&s.scratch) }).
		Node("b", func(_ context.Context, s *diary) error {
			s.Done.Add(s.Tried.At(0))
			return nil
		}).
		Path(pawl.Start, "a", "b").Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// jot sees its part of the state alone.
func jot(s *scratch) error {
	s.Now.Set(123)
	s.Tried.Add("tried")
	return nil
}

func TestPrivateChannels(t *testing.T) {
	t.Parallel()
	for name, eng := range map[string]*pawl.Engine{"kept": opened(t, hooked(t), nil), "unkept": opened(t, nil, nil)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			th := diaryGraph(t).Thread(eng, "t")
			const public = `{"hello":"you","done":["tried"]}`
			shown := 0
			for ev, err := range th.Stream(t.Context(), &diary{Hello: pawl.Of("you")}) {
				if err != nil {
					t.Fatal(err)
				}
				snap, err := ev.Snapshot(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if snap != nil {
					if shown++; strings.Contains(string(snap.Values), "123") || strings.Contains(string(snap.Values), "tried\":") {
						t.Errorf("%s shows %s", ev.Kind, snap.Values)
					}
				}
				if ev.Kind == pawl.EventTaskEnd && ev.Node == "a" && (len(ev.Writes) != 2 || ev.Writes[0].Channel != "now") {
					t.Errorf("the task is told as having written %v", ev.Writes)
				}
				if ev.Outcome != nil && string(ev.Outcome.Values) != public {
					t.Errorf("the outcome shows %s", ev.Outcome.Values)
				}
			}
			if shown < 3 {
				t.Errorf("%d events had a snapshot", shown)
			}
			if name == "unkept" {
				return
			}
			const whole = `{"hello":"you","now":123,"tried":["tried"],"done":["tried"]}`
			st, err := th.State(t.Context())
			if err != nil || string(st.Values) != whole || string(st.Head.Values) != whole {
				t.Errorf("the state shows %s and %s, %v", st.Values, st.Head.Values, err)
			}
			if s, err := th.Read(st.Head); err != nil || s.Now.Get() != 123 {
				t.Errorf("read as %v, %v", s, err)
			}
			out, err := th.Run(t.Context(), nil)
			if _, ok := out.State.Now.Lookup(); err != nil || ok || out.State.Done.Len() != 2 {
				t.Errorf("%s, %v", out.Values, err)
			}
		})
	}
}

// A thread that is read and not run shows the same, and a run that was started before is told without them.
func TestPrivateInStandingOutcomes(t *testing.T) {
	t.Parallel()
	th := diaryGraph(t).Thread(opened(t, hooked(t), nil), "t")
	for range 2 {
		out, err := th.Run(t.Context(), &diary{Hello: pawl.Of("you")}, pawl.RunID("one"))
		if err != nil || string(out.Values) != `{"hello":"you","done":["tried"]}` {
			t.Errorf("%s, %v", out.Values, err)
		}
	}
	for ev, err := range th.Watch(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		if snap, err := ev.Snapshot(t.Context()); err != nil || snap != nil && strings.Contains(string(snap.Values), "now") {
			t.Errorf("%s shows %v, %v", ev.Kind, snap, err)
		}
		if ev.Kind == pawl.EventFinished {
			break
		}
	}
	page, err := th.History(t.Context(), pawl.Page{})
	if err != nil || !strings.Contains(string(page[0].Values), `"now":123`) {
		t.Errorf("the history shows %s, %v", page[0].Values, err)
	}
}

func TestPrivateIsNoInput(t *testing.T) {
	t.Parallel()
	g := diaryGraph(t)
	eng := opened(t, hooked(t), nil)
	literal := &diary{Hello: pawl.Of("you")}
	literal.Now.Set(345)
	literal.Tried.Add("x")
	for name, run := range map[string]func(*pawl.ThreadOf[diary]) error{
		"typed": func(th *pawl.ThreadOf[diary]) error { _, err := th.Run(t.Context(), literal); return err },
		"JSON": func(th *pawl.ThreadOf[diary]) error {
			_, err := th.Thread.Run(t.Context(), json.RawMessage(`{"now":345,"hello":"you","tried":["x"]}`))
			return err
		},
		"a stream": func(th *pawl.ThreadOf[diary]) (err error) {
			for _, e := range th.Stream(t.Context(), literal) {
				err = e
			}
			return err
		},
	} {
		th := g.Thread(eng, name)
		err := run(th)
		var refused *pawl.InputError
		if !errors.As(err, &refused) || !strings.Contains(err.Error(), `"now"`) || !strings.Contains(err.Error(), `"tried"`) {
			t.Errorf("%s: %v, want both channels refused", name, err)
		}
		if st, err := th.State(t.Context()); err != nil || st.Status != pawl.StatusNew {
			t.Errorf("%s: the thread is %s, %v", name, st.Status, err)
		}
	}
	outer, err := pawl.New[diary]("outer").Add(pawl.Sub(g.Child("inner"), func(*diary) *diary { return literal },
		func(*diary, *pawl.Result[diary]) error { return nil })).Edge(pawl.Start, "inner").Build()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := outer.Thread(eng, "outer").Run(t.Context(), nil); !errors.As(err, new(*pawl.InputError)) {
		t.Errorf("a child was given it: %v", err)
	}
}

// People with the right to edit may.
func TestPrivateIsEdited(t *testing.T) {
	t.Parallel()
	th := diaryGraph(t).Thread(opened(t, hooked(t), nil), "t")
	if _, err := th.Run(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := th.Edit(t.Context(), func(s *diary) error { s.Now.Set(s.Now.Get() + 1); return nil }); err != nil {
		t.Fatal(err)
	}
	if _, err := th.Thread.Edit(t.Context(), json.RawMessage(`{"tried":["again"]}`)); err != nil {
		t.Fatal(err)
	}
	if st, err := th.State(t.Context()); err != nil || string(st.Values) != `{"now":124,"tried":["tried","again"],"done":["tried"]}` {
		t.Errorf("%s, %v", st.Values, err)
	}
	out, err := th.Fork(t.Context(), pawl.Before("b"), func(s *diary) error { s.Tried.Replace("forked"); return nil })
	if err != nil || out.State.Done.At(0) != "forked" {
		t.Errorf("%s, %v", out.Values, err)
	}
}

func TestPrivateTag(t *testing.T) {
	t.Parallel()
	type wrong struct {
		A pawl.Last[int] `json:"a" pawl:"privat"`
	}
	if _, err := pawl.New[wrong]("w").Build(); err == nil || !strings.Contains(err.Error(), "only private and was=NAME") {
		t.Errorf("a misspelt tag: %v", err)
	}
	type part struct {
		A pawl.Last[int] `json:"a"`
	}
	type whole struct {
		part `pawl:"private"`
	}
	if _, err := pawl.New[whole]("w").Build(); err == nil || !strings.Contains(err.Error(), "tag its channels") {
		t.Errorf("a tag on what is embedded: %v", err)
	}
	doc, err := diaryGraph(t).JSON()
	if err != nil || strings.Count(string(doc), `"private": true`) != 2 {
		t.Errorf("the topology says %s, %v", doc, err)
	}
}
