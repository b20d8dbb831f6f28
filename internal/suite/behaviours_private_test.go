package suite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/stream"
)

func privateRows() []scenario {
	return []scenario{
		{id: "BLD-19", run: each(rowOutputKeepsRules)}, {id: "STR-17", run: each(rowWiderStream)},
		{id: "BLD-22", run: each(rowPrivateChannel), differs: "an input for a private channel is refused by name, not ignored"},
		{id: "BLD-23", run: each(rowPartOfTheState)},
	}
}

// rowTimes is what some nodes alone work with.
type rowTimes struct {
	Bye pawl.Last[string] `json:"bye" pawl:"private"`
	Now pawl.Last[int]    `json:"now" pawl:"private"`
}

type rowPrivate struct {
	Hello pawl.Append[string] `json:"hello"`
	rowTimes
}

// outputs runs a graph and returns what each node is told to have written, and the outcome.
func outputs(t *testing.T, th *pawl.ThreadOf[rowPrivate], in *rowPrivate) (updates []string, out *pawl.Outcome) {
	t.Helper()
	for e, err := range th.Stream(t.Context(), in) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind == pawl.EventTaskEnd && e.Node != pawl.Start {
			line := e.Node
			for _, w := range e.Writes {
				line += fmt.Sprintf(" %s=%s", w.Channel, w.Value)
			}
			updates = append(updates, line)
		}
		if e.Outcome != nil {
			out = e.Outcome
		}
	}
	return updates, out
}

// rowOutputKeepsRules: what is shown is one channel, which still adds up.
func rowOutputKeepsRules(t *testing.T, h *home) {
	g := build(t, pawl.New[rowPrivate]("row").
		Node("a", func(_ context.Context, s *rowPrivate) error { s.Hello.Add("a"); s.Now.Set(1); return nil }).
		Node("b", func(_ context.Context, s *rowPrivate) error { s.Hello.Add("b"); return nil }).
		Edge(pawl.Start, "a").Edge(pawl.Start, "b"))
	in := &rowPrivate{}
	in.Hello.Add("in")
	if _, out := outputs(t, g.Thread(engine(t, h.open(t), nil), "t"), in); string(out.Values) != `{"hello":["in","a","b"]}` {
		t.Errorf("the output is %s", out.Values)
	}
}

// rowWiderStream is STR-17: the states that a stream shows are wider than the output.
func rowWiderStream(t *testing.T, h *home) {
	th := rowThread(t, h, sayers("a").Output("n"), nil)
	same(t, "shown", shown(t, modesOf(stream.Values), th.Stream(t.Context(), &rowState{N: pawl.Total(1)})),
		[]string{`values {"n":1}`, `values {"log":["a"],"n":1}`})
	if out, err := th.Run(t.Context(), nil); err != nil || string(out.Values) != `{"n":1}` {
		t.Errorf("the output is %s, %v", out.Values, err)
	}
}

// rowPrivateChannel: no input reaches it, the nodes behind b see what b wrote, and the output does not hold it.
func rowPrivateChannel(t *testing.T, h *home) {
	var saw []string
	sees := func(name string, s *rowTimes) { saw = append(saw, fmt.Sprint(name, " ", s.Now.Get())) }
	g := build(t, pawl.New[rowPrivate]("row").
		Node("a", func(_ context.Context, s *rowPrivate) error { sees("a", &s.rowTimes); return nil }).
		Node("b", func(_ context.Context, s *rowPrivate) error {
			sees("b", &s.rowTimes)
			s.Hello.Add("again")
			s.Now.Set(123)
			return nil
		}).
		Node("c", func(_ context.Context, s *rowPrivate) error { sees("c", &s.rowTimes); return nil }).
		Path(pawl.Start, "a", "b", "c"))
	eng := engine(t, h.open(t), nil)
	refused := (*pawl.InputError)(nil)
	if _, err := g.Thread(eng, "refused").Thread.Run(t.Context(), json.RawMessage(`{"hello":["there"],"now":345}`)); !errors.As(err, &refused) || len(saw) > 0 {
		t.Errorf("an input for a private channel: %v; nodes saw %v", err, saw)
	}
	in := &rowPrivate{}
	in.Hello.Add("there")
	th := g.Thread(eng, "t")
	updates, out := outputs(t, th, in)
	if want := []string{"a", `b hello=["again"] now=123`, "c"}; !slices.Equal(updates, want) {
		t.Errorf("updates %q, want %q", updates, want)
	}
	if want := []string{"a 0", "b 0", "c 123"}; !slices.Equal(saw, want) {
		t.Errorf("nodes saw %q, want %q", saw, want)
	}
	if string(out.Values) != `{"hello":["there","again"]}` {
		t.Errorf("the output is %s", out.Values)
	}
	if st, err := th.State(t.Context()); err != nil || string(st.Values) != `{"hello":["there","again"],"now":123}` {
		t.Errorf("the state is %s, %v", st.Values, err)
	}
}

// rowPartOfTheState: a node that is handed a part of the state sees what of it was written, and that alone.
func rowPartOfTheState(t *testing.T, h *home) {
	var saw string
	part := func(s *rowTimes) {
		bye, _ := s.Bye.Lookup()
		now, written := s.Now.Lookup()
		saw = fmt.Sprintf("%s, %d, %v", bye, now, written)
	}
	g := build(t, pawl.New[rowPrivate]("row").
		Node("a", func(_ context.Context, s *rowPrivate) error { s.Bye.Set("world"); return nil }).
		Node("b", func(_ context.Context, s *rowPrivate) error { part(&s.rowTimes); return nil }).
		Path(pawl.Start, "a", "b"))
	if outputs(t, g.Thread(engine(t, h.open(t), nil), "t"), &rowPrivate{}); saw != "world, 0, false" {
		t.Errorf("the node saw %q", saw)
	}
}
