package pawl_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
)

type parts struct {
	Text  pawl.Last[string]    `json:"text"`
	Words pawl.Append[string]  `json:"words"`
	Out   pawl.Last[string]    `json:"out"`
	Note  pawl.Last[int]       `json:"note" pawl:"private"`
	Tool  pawl.Untracked[*int] `json:"tool"`
}

// translating cuts a text into words and puts them together backwards.
func translating() *pawl.Builder[parts] {
	return pawl.New[parts]("translating").
		Node("cut", func(_ context.Context, s *parts) error {
			s.Words.Add(strings.Fields(s.Text.Get())...)
			s.Note.Set(1)
			return nil
		}).
		Node("join", func(_ context.Context, s *parts) error {
			var all []string
			for _, w := range s.Words.All() {
				all = append(all, w)
			}
			slices.Reverse(all)
			s.Out.Set(strings.Join(all, " "))
			return nil
		}).
		Path(pawl.Start, "cut", "join")
}

func narrow(t *testing.T) *pawl.Graph[parts] {
	t.Helper()
	g, err := translating().Output("out").Input("text").Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

const (
	wholeText  = `{"text":"so it is","words":["so","it","is"],"out":"is it so","note":1}`
	publicText = `{"text":"so it is","words":["so","it","is"],"out":"is it so"}`
	outputText = `{"out":"is it so"}`
)

func TestInputAndOutput(t *testing.T) {
	t.Parallel()
	for name, eng := range map[string]*pawl.Engine{"kept": opened(t, hooked(t), nil), "unkept": opened(t, nil, nil)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			th := narrow(t).Thread(eng, "t")
			tool := 7
			var last string
			for ev, err := range th.Stream(t.Context(), &parts{Text: pawl.Of("so it is"), Tool: pawl.Live(&tool)}) {
				if err != nil {
					t.Fatal(err)
				}
				snap, err := ev.Snapshot(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if snap != nil {
					last = string(snap.Values)
				}
				if ev.Outcome != nil && string(ev.Outcome.Values) != outputText {
					t.Errorf("the outcome shows %s", ev.Outcome.Values)
				}
			}
			if last != publicText {
				t.Errorf("the stream shows %s", last)
			}
			if name == "unkept" {
				return
			}
			st, err := th.State(t.Context())
			if err != nil || string(st.Values) != wholeText {
				t.Errorf("the state is %s, %v", st.Values, err)
			}
			page, err := th.History(t.Context(), pawl.Page{})
			if err != nil || string(page[0].Values) != wholeText {
				t.Errorf("the history shows %s, %v", page[0].Values, err)
			}
			out, err := th.Replay(t.Context(), pawl.Before("join"))
			if _, has := out.State.Text.Lookup(); err != nil || has || out.State.Out.Get() != "is it so" {
				t.Errorf("%s, %v", out.Values, err)
			}
		})
	}
}

// A run that was started before, and a thread that stands, are told as a run that ends.
func TestOutputOfStandingRuns(t *testing.T) {
	t.Parallel()
	th := narrow(t).Thread(opened(t, hooked(t), nil), "t")
	for range 2 {
		out, err := th.Run(t.Context(), &parts{Text: pawl.Of("so it is")}, pawl.RunID("one"))
		if err != nil || string(out.Values) != outputText {
			t.Errorf("%s, %v", out.Values, err)
		}
	}
	out, err := th.Thread.Edit(t.Context(), json.RawMessage(`{"words":["more"]}`))
	if err != nil || string(out.Values) != outputText {
		t.Errorf("after an edit: %s, %v", out.Values, err)
	}
}

func TestInputIsRefusedByName(t *testing.T) {
	t.Parallel()
	g, eng := narrow(t), opened(t, hooked(t), nil)
	wrong := &parts{Text: pawl.Of("x"), Out: pawl.Of("y")}
	wrong.Words.Add("z")
	wrong.Note.Set(2)
	outer, err := pawl.New[parts]("outer").Add(pawl.Sub(g.Child("inner"), func(*parts) *parts { return wrong },
		func(*parts, *pawl.Result[parts]) error { return nil })).Edge(pawl.Start, "inner").Build()
	if err != nil {
		t.Fatal(err)
	}
	for name, run := range map[string]func(id string) (*pawl.ThreadState, error){
		"typed": func(id string) (*pawl.ThreadState, error) {
			_, err := g.Thread(eng, id).Run(t.Context(), wrong)
			st, _ := g.Thread(eng, id).State(t.Context())
			return st, err
		},
		"JSON": func(id string) (*pawl.ThreadState, error) {
			_, err := g.Thread(eng, id).Thread.Run(t.Context(), json.RawMessage(`{"text":"x","out":"y","words":["z"],"note":2}`))
			st, _ := g.Thread(eng, id).State(t.Context())
			return st, err
		},
		"a parent's": func(id string) (*pawl.ThreadState, error) {
			_, err := outer.Thread(eng, id).Run(t.Context(), nil)
			return nil, err
		},
	} {
		st, err := run(name)
		if !errors.As(err, new(*pawl.InputError)) {
			t.Errorf("%s: %v, want an *InputError", name, err)
			continue
		}
		for _, says := range []string{`"out": is none of the graph's inputs`, `"words": is none of the graph's inputs`, `"note": is private`} {
			if !strings.Contains(err.Error(), says) {
				t.Errorf("%s: %v does not say %s", name, err, says)
			}
		}
		if st != nil && st.Status != pawl.StatusNew {
			t.Errorf("%s: the thread is %s", name, st.Status)
		}
	}
}

// A parent's code sees what its child's outcome would not show, with storage and without.
func TestOutputOfAChild(t *testing.T) {
	t.Parallel()
	child := narrow(t).Child("inner")
	calls := func(ctx context.Context, s *parts) error {
		r, err := child.Call(ctx, &parts{Text: pawl.Of(s.Text.Get())})
		if err != nil {
			return err
		}
		s.Words.Add(r.State.Words.At(2), r.State.Out.Get())
		s.Note.Set(r.State.Note.Get())
		return nil
	}
	outer, err := pawl.New[parts]("outer").Node("calls", func(ctx context.Context, s *parts) error {
		s.Text.Set("so it is")
		own := &parts{Text: pawl.Of(s.Text.Get())}
		if err := calls(ctx, own); err != nil {
			return err
		}
		s.Words.Add(own.Words.At(0), own.Words.At(1))
		s.Note.Set(own.Note.Get())
		return nil
	}, pawl.Uses(child)).Edge(pawl.Start, "calls").Build()
	if err != nil {
		t.Fatal(err)
	}
	th := outer.Thread(opened(t, hooked(t), nil), "t")
	if _, err := th.Run(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if st, err := th.State(t.Context()); err != nil || string(st.Values) != `{"text":"so it is","words":["is","is it so"],"note":1}` {
		t.Errorf("in a run: %s, %v", st.Values, err)
	}
	plain := &parts{Text: pawl.Of("so it is")}
	if err := calls(t.Context(), plain); err != nil || plain.Words.At(0) != "is" || plain.Words.At(1) != "is it so" || plain.Note.Get() != 1 {
		t.Errorf("without a run: %v, %v", plain, err)
	}
}

// What a graph is given and shows may change under a run in flight, and its version says that it did.
func TestInputAndOutputOfARunInFlight(t *testing.T) {
	t.Parallel()
	db := hooked(t)
	plain, err := translating().BreakBefore("join").Build()
	if err != nil {
		t.Fatal(err)
	}
	first := opened(t, db, nil)
	if out, err := plain.Thread(first, "t").Run(t.Context(), &parts{Text: pawl.Of("so it is")}); err != nil || string(out.Values) != `{"text":"so it is","words":["so","it","is"]}` {
		t.Fatal(out.Values, err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	g, err := translating().BreakBefore("join").Output("out").Input("out").Build()
	if err != nil {
		t.Fatal(err)
	}
	out, err := g.Thread(opened(t, db, nil), "t").Resume(t.Context())
	if err != nil || string(out.Values) != outputText {
		t.Errorf("%s, %v", out.Values, err)
	}
	if plain.Digest() == g.Digest() {
		t.Error("both graphs have one version")
	}
	doc, err := g.JSON()
	if err != nil || strings.Count(string(doc), `"no_input": true`) != 2 || strings.Count(string(doc), `"no_output": true`) != 2 {
		t.Errorf("the topology says %s, %v", doc, err)
	}
}

func TestFaultsOfInputAndOutput(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		b    *pawl.Builder[parts]
		want []string
	}{
		"unknown": {translating().Input("txt", "text").Output("Out"),
			[]string{`Input: there is no channel "txt"; there are ["text" "words" "out" "note" "tool"]`, `Output: there is no channel "Out"; there are`}},
		"twice":       {translating().Input("text").Input("text"), []string{`Input: channel "text" is named twice`}},
		"private":     {translating().Output("note"), []string{`Output: channel "note" is private; leave it out, or take its tag away`}},
		"live":        {translating().Input("tool"), []string{`Input: channel "tool" holds a live value, which is no part of it; leave it out`}},
		"none":        {translating().Input().Output(), []string{`Input(): name the channels`, `Output(): name the channels`}},
		"with others": {translating().Output("x").Edge("cut", "nowhere"), []string{`Output: there is no channel "x"`, `there is no node "nowhere"`}},
	} {
		_, err := c.b.Build()
		refused := (*pawl.BuildError)(nil)
		if !errors.As(err, &refused) || len(refused.Faults) != len(c.want) {
			t.Errorf("%s: %v, want %d faults", name, err, len(c.want))
			continue
		}
		for i, want := range c.want {
			if !strings.Contains(refused.Faults[i], want) {
				t.Errorf("%s: %s, want %s", name, refused.Faults[i], want)
			}
		}
	}
	if _, err := translating().Input("text").Input("words").Output("out").Output("text").Build(); err != nil {
		t.Error(err)
	}
}
