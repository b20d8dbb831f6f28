package suite

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/stream"
)

// shown are the chunks of a stream of events as "mode[child] data", without ids.
func shown(t testing.TB, v stream.View, events iter.Seq2[pawl.Event, error]) (out []string) {
	t.Helper()
	for c, err := range v.Of(t.Context(), events) {
		if failed := (*pawl.RunError)(nil); err != nil && !errors.As(err, &failed) {
			t.Fatal(err)
		}
		if err == nil {
			out = append(out, line(t, c))
		}
	}
	return out
}

func line(t testing.TB, c stream.Chunk) string {
	t.Helper()
	var data any
	switch d := c.Data.(type) {
	case stream.State:
		data = d.Values
		if d.Interrupts != nil {
			data = []any{d.Values, d.Interrupts[0].Value}
		}
	case stream.Update:
		data = map[string]json.RawMessage{d.Node: d.Writes}
		if d.Interrupts != nil {
			data = map[string]json.RawMessage{"interrupt": d.Interrupts[0].Value}
		}
	case stream.Said:
		data = map[string]json.RawMessage{d.Name: d.Value}
	case stream.Message:
		data = d.Whole
	default:
		data = d
	}
	doc, err := json.Marshal(data)
	if err != nil {
		t.Fatal(err)
	}
	mode := string(c.Mode)
	if c.Path != "" {
		mode += "[" + c.Path + "]"
	}
	return hexIDs.ReplaceAllString(mode+" "+string(doc), "<id>")
}

var hexIDs = regexp.MustCompile(`[0-9a-f]{32}`)

func modesOf(modes ...stream.Mode) stream.View { return stream.View{Modes: modes} }

func withChildren(modes ...stream.Mode) stream.View { return stream.View{Modes: modes, Children: true} }

func resuming(t testing.TB, th *pawl.Thread, options ...pawl.RunOption) iter.Seq2[pawl.Event, error] {
	return pawl.Stream(t.Context(), func(ctx context.Context, tell pawl.RunOption) error {
		_, err := th.Resume(ctx, append(options, tell)...)
		return err
	})
}

// rowRootValues is STR-01: without children only states of the root.
func rowRootValues(t *testing.T, h *home) {
	th := rowThread(t, h, nested(t, sayers("a", "b")), nil)
	same(t, "shown", shown(t, modesOf(stream.Values), th.Stream(t.Context(), &rowState{N: pawl.Total(1)})),
		[]string{`values {"n":1}`, `values {"log":["a","b"],"n":1}`})
}

// rowStablePath is STR-03: a child that remembers has its name as its path.
func rowStablePath(t *testing.T, h *home) {
	b := pawl.New[rowState]("outer").Add(pawl.Sub(build(t, sayers("a")).Child("inner", pawl.PerThread),
		func(*rowState) *rowState { return &rowState{} }, func(*rowState, *pawl.Result[rowState]) error { return nil })).Path(pawl.Start, "inner")
	th := rowThread(t, h, b, nil)
	same(t, "shown", shown(t, withChildren(stream.Updates), th.Stream(t.Context(), &rowState{})),
		[]string{`updates[inner] {"a":{"log":["a"]}}`, `updates {"inner":null}`})
}

// rowModes is STR-04: with several modes each chunk names its own, and with children its place.
func rowModes(t *testing.T, h *home) {
	th := rowThread(t, h, nested(t, sayers("a")), nil)
	same(t, "of the root", shown(t, modesOf(stream.Values, stream.Updates), th.Stream(t.Context(), &rowState{N: pawl.Total(1)})),
		[]string{`values {"n":1}`, `updates {"c":{"log":["a"]}}`, `values {"log":["a"],"n":1}`})
	same(t, "with children", shown(t, withChildren(stream.Values, stream.Updates), th.Stream(t.Context(), &rowState{N: pawl.Total(1)})), []string{
		`values {"log":["a"],"n":2}`, `updates[c:<id>] {"a":{"log":["a"]}}`, `values[c:<id>] {"log":["a"]}`,
		`updates {"c":{"log":["a"]}}`, `values {"log":["a","a"],"n":2}`,
	})
}

// rowCustom is STR-06: what a node says comes before what it writes.
func rowCustom(t *testing.T, h *home) {
	th := rowThread(t, h, single(func(ctx context.Context, s *rowState) error {
		s.Log.Add("a")
		return pawl.Emit(ctx, "progress", 1)
	}), nil)
	same(t, "shown", shown(t, modesOf(stream.Updates, stream.Custom), th.Stream(t.Context(), &rowState{})),
		[]string{`custom {"progress":1}`, `updates {"a":{"log":["a"]}}`})
}

// rowDebug is STR-08: each task is told at its start and its end, under its step, with what it wrote by channel.
func rowDebug(t *testing.T, h *home) {
	b := pawl.New[rowState]("row")
	for _, n := range []string{"rewrite", "analyze", "one", "two"} {
		b.Node(n, rowSays(n))
	}
	b.Node("qa", rowSays("qa"), pawl.Defer()).Edge(pawl.Start, "rewrite").
		Edge("rewrite", "analyze").Edge("analyze", "one").Edge("rewrite", "two").Edge("one", "qa").Edge("two", "qa")
	th := rowThread(t, h, b, nil)
	open, step, ends := map[string]string{}, map[string]int{}, 0
	for c, err := range modesOf(stream.Debug).Of(t.Context(), th.Stream(t.Context(), &rowState{})) {
		if err != nil {
			t.Fatal(err)
		}
		d := c.Data.(stream.Detail)
		switch p := d.Payload.(type) {
		case stream.Start:
			open[p.ID], step[p.Node] = p.Node, d.Step
		case stream.End:
			ends++
			same(t, "start of "+p.Node, open[p.ID], p.Node)
			same(t, "step of "+p.Node, d.Step, step[p.Node])
			same(t, "result of "+p.Node, string(p.Result), `{"log":["`+p.Node+`"]}`)
		}
	}
	same(t, "ends", ends, 5)
	same(t, "steps", step, map[string]int{"rewrite": 1, "analyze": 2, "two": 2, "one": 3, "qa": 4})
}

type chatRow struct {
	Messages pawl.Append[chatLine] `json:"messages"`
}

type chatLine struct {
	ID   string `json:"id"`
	Text string `json:"text"`
}

func chatSays(ids ...string) func(context.Context, *chatRow) error {
	return func(_ context.Context, s *chatRow) error {
		for _, id := range ids {
			s.Messages.Add(chatLine{id, "-"})
		}
		return nil
	}
}

// rowMessagesOnce is STR-13 and STR-14: what nodes write is shown once an id; the input, earlier turns, what a child was given
// and what a parent takes over from it are not shown again.
func rowMessagesOnce(t *testing.T, h *home) {
	inner := build(t, pawl.New[chatRow]("inner").Node("deep", chatSays("deep", "in")).Path(pawl.Start, "deep"))
	all := func(s *chatRow) (out []chatLine) {
		for _, m := range s.Messages.All() {
			out = append(out, m)
		}
		return out
	}
	first := func(ctx context.Context, s *chatRow) error {
		return errors.Join(chatSays("one", "in")(ctx, s), pawl.Goto(ctx, pawl.To("second")...))
	}
	g := build(t, pawl.New[chatRow]("chat").Node("first", first, pawl.Targets("second")).Node("second", chatSays("two")).
		Add(pawl.Sub(inner.Child("child"), func(s *chatRow) *chatRow { return &chatRow{Messages: pawl.List(all(s)...)} },
			func(s *chatRow, r *pawl.Result[chatRow]) error { s.Messages.Add(all(r.State)...); return nil })).
		Edge(pawl.Start, "first").Edge("second", "child"))
	th := g.Thread(engine(t, h.open(t), nil), "t")
	in := &chatRow{Messages: pawl.List(chatLine{"in", "-"})}
	same(t, "first turn", shown(t, withChildren(stream.Messages), th.Stream(t.Context(), in)), []string{
		`messages {"id":"one","text":"-"}`, `messages {"id":"two","text":"-"}`, `messages[child:<id>] {"id":"deep","text":"-"}`,
	})
	in = &chatRow{Messages: pawl.List(chatLine{"more", "-"})}
	same(t, "second turn", len(shown(t, withChildren(stream.Messages), th.Stream(t.Context(), in))), 0)
}

// rowMessageMeta is STR-15: nothing of what the run was given beside its input is told.
func rowMessageMeta(t *testing.T, h *home) {
	g := build(t, pawl.New[chatRow]("chat").Node("a", chatSays("one")).Path(pawl.Start, "a"))
	ctx := pawl.WithActor(pawl.WithValue(t.Context(), "sk-secret"), pawl.Actor{ID: "secret-actor"})
	seen := 0
	for c, err := range modesOf(stream.Messages).Of(ctx, g.Thread(engine(t, h.open(t), nil), "t").Stream(ctx, &chatRow{}, pawl.Reason("secret reason"))) {
		if err != nil {
			t.Fatal(err)
		}
		doc, err := json.Marshal(c)
		if err != nil || strings.Contains(string(doc), "secret") {
			t.Errorf("%s, %v", doc, err)
		}
		m := c.Data.(stream.Message)
		if seen++; m.Node != "a" || m.Task == "" || c.Run == "" || c.Attempt == "" || c.Step != 1 {
			t.Errorf("it does not say where it comes from: %s", doc)
		}
	}
	same(t, "messages", seen, 1)
}

// rowSlow is STR-20: what a task wrote is shown when it ends, not at the end of the run.
func rowSlow(t *testing.T, _ *report) {
	synctest.Test(t, func(t *testing.T) {
		slow := func(context.Context, *rowState) error { <-time.After(time.Minute); return nil }
		th := rowThread(t, memory(t), pawl.New[rowState]("row").Node("a", slow).Node("b", slow).Path(pawl.Start, "a", "b"), nil)
		began := time.Now()
		var at []time.Duration
		for _, err := range modesOf(stream.Updates).Of(t.Context(), th.Stream(t.Context(), &rowState{})) {
			if err != nil {
				t.Fatal(err)
			}
			at = append(at, time.Since(began))
		}
		same(t, "shown after", at, []time.Duration{time.Minute, 2 * time.Minute})
	})
}

// rowInterrupts is STR-23: a chunk is mode, place and data, and a state has its interrupts beside the values.
func rowInterrupts(t *testing.T, h *home) {
	th := rowThread(t, h, asking(), nil)
	var got []stream.State
	for c, err := range modesOf(stream.Values).Of(t.Context(), th.Stream(t.Context(), &rowState{N: pawl.Total(1)})) {
		if err != nil {
			t.Fatal(err)
		}
		same(t, "mode and place", []string{string(c.Mode), c.Path}, []string{"values", ""})
		got = append(got, c.Data.(stream.State))
	}
	if len(got) != 2 || got[0].Interrupts != nil || len(got[1].Interrupts) != 1 || string(got[1].Interrupts[0].Value) != `"which?"` || string(got[1].Values) != `{"n":1}` {
		t.Errorf("states: %+v", got)
	}
}

// rowAroundAPause is INT-14.
func rowAroundAPause(t *testing.T, h *home) {
	b := pawl.New[rowState]("row").Node("a", rowSays("a")).Node("b", func(ctx context.Context, s *rowState) error {
		answer, err := vote.Ask(ctx, "which?")
		if err == nil {
			s.Log.Add(answer)
		}
		return err
	}, pawl.Uses(vote)).Path(pawl.Start, "a", "b")
	th := rowThread(t, h, b, nil)
	v := modesOf(stream.Updates, stream.Values)
	same(t, "until the pause", shown(t, v, th.Stream(t.Context(), &rowState{})), []string{
		`updates {"a":{"log":["a"]}}`, `values {"log":["a"]}`, `updates {"interrupt":"which?"}`, `values [{"log":["a"]},"which?"]`,
	})
	same(t, "from the answer on", shown(t, v, resuming(t, th.Thread, vote.Answer("", "x"))), []string{
		`values {"log":["a"]}`, `updates {"b":{"log":["x"]}}`, `values {"log":["a","x"]}`,
	})
}

// rowEmptyInput is INT-15: an input that writes nothing shows no state.
func rowEmptyInput(t *testing.T, h *home) {
	th := rowThread(t, h, sayers("a"), nil)
	got := shown(t, modesOf(stream.Values), th.Stream(t.Context(), &rowState{}))
	same(t, "shown", got, []string{`values {"log":["a"]}`})
	if slices.Contains(got, `values {}`) {
		t.Error("the empty state was shown")
	}
}
