package suite

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
)

func liveRows() []scenario {
	return []scenario{
		{id: "CHN-06", run: each(rowLiveIsNotStored)}, {id: "CHN-11", run: each(rowLiveInSends)}, {id: "CHN-12", run: each(rowLiveKeyInSends)},
	}
}

// resource has no JSON: what is stored of it would fail the run.
type resource struct {
	name string
	open func() string
}

func opens(name string) *resource { return &resource{name, func() string { return "open " + name }} }

type rowLive struct {
	Messages pawl.Append[string]          `json:"messages"`
	Session  pawl.Untracked[*resource]    `json:"session,omitzero"`
	Nested   pawl.Last[map[string]string] `json:"nested"`
}

func (s *rowLive) session() string {
	if r, ok := s.Session.Get(); ok {
		return r.open()
	}
	return "none"
}

// rowLiveIsNotStored: what was written is read by the next node, is in no checkpoint, and empty once it is restored.
func rowLiveIsNotStored(t *testing.T, h *home) {
	wait := pawl.Interrupt[string, string]{Name: "wait"}
	reads := func(_ context.Context, s *rowLive) error { s.Messages.Add(s.session()); return nil }
	g := build(t, pawl.New[rowLive]("row").
		Node("write", func(_ context.Context, s *rowLive) error { s.Session.Set(opens("a")); return nil }).
		Node("read", reads).
		Node("wait", func(ctx context.Context, s *rowLive) error { _, err := wait.Ask(ctx, "?"); return err }, pawl.Uses(wait)).
		Node("restored", reads).
		Path(pawl.Start, "write", "read", "wait", "restored"))
	if _, err := g.Thread(engine(t, h.open(t), nil), "t").Run(t.Context(), &rowLive{}); err != nil {
		t.Fatal(err)
	}
	th := g.Thread(engine(t, h.open(t), nil), "t")
	history, err := th.History(t.Context(), pawl.Page{})
	if err != nil || len(history) < 3 {
		t.Fatalf("%d checkpoints, %v", len(history), err)
	}
	for _, snap := range history {
		state, err := th.Read(snap)
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := state.Session.Get(); ok || strings.Contains(string(snap.Values), "session") {
			t.Errorf("checkpoint %d holds %s", snap.Step, snap.Values)
		}
	}
	out, err := th.Resume(t.Context(), pawl.AnswerWith("", "go on"))
	if err != nil {
		t.Fatal(err)
	}
	same(t, "what the nodes read", string(out.Values), `{"messages":["open a","none"]}`)
}

// sending is a graph whose route sends the whole state to a worker, which sets another session. saw is told what the
// worker has in its state and in what was sent.
func sending(t *testing.T, saw *[]string) *pawl.Graph[rowLive] {
	t.Helper()
	tool := pawl.NewWorker("tool", func(_ context.Context, s *rowLive, arg *rowLive) error {
		*saw = append(*saw, s.session(), arg.session(), fmt.Sprint(arg.Messages.Len()), arg.Nested.Get()["session"])
		s.Session.Set(opens("tool"))
		return nil
	})
	return build(t, pawl.New[rowLive]("row").
		Node("setup", func(_ context.Context, s *rowLive) error {
			s.Messages.Add("setup")
			s.Session.Set(opens("setup"))
			s.Nested.Set(map[string]string{"session": "nested"})
			return nil
		}).Add(tool).
		Edge(pawl.Start, "setup").Route("setup", func(s *rowLive) []pawl.Next { return tool.With(s) }, "tool"))
}

// rowLiveInSends: the worker sees the live session of the run, though the whole state was sent, and the run ends with the
// one that the worker set, which nothing that is stored shows.
func rowLiveInSends(t *testing.T, h *home) {
	var saw []string
	th := sending(t, &saw).Thread(engine(t, h.open(t), nil), "t")
	out, err := th.Run(t.Context(), &rowLive{})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "what the worker saw", strings.Join(saw, ", "), "open setup, none, 1, nested")
	same(t, "what the run ends with", out.State.session(), "open tool")
	st, err := th.State(t.Context())
	if err != nil || strings.Contains(string(st.Values), `"session":"open`) || strings.Contains(string(st.Values), `"session":null`) {
		t.Errorf("the state is %s, %v", st.Values, err)
	}
	same(t, "the state", string(st.Values), `{"messages":["setup"],"nested":{"session":"nested"}}`)
}

// rowLiveKeyInSends: of what is sent the live session is left out; a key of its name further in stays.
func rowLiveKeyInSends(t *testing.T, h *home) {
	var saw []string
	th := sending(t, &saw).Thread(engine(t, h.open(t), nil), "t")
	stored := map[string]json.RawMessage{}
	for e, err := range th.Stream(t.Context(), &rowLive{}) {
		if err != nil {
			t.Fatal(err)
		}
		snap, err := e.Snapshot(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if snap != nil && slices.Equal(snap.Next, []string{"tool"}) {
			if err := json.Unmarshal(snap.Tasks[0].Arg, &stored); err != nil {
				t.Error(err)
			}
		}
	}
	if _, ok := stored["session"]; ok || len(stored) != 2 {
		t.Errorf("what is stored of the payload has the members %v", stored)
	}
	same(t, "the nested key", string(stored["nested"]), `{"session":"nested"}`)
}
