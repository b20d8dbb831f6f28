package stream_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/memdb"
	"github.com/pawl-dev/pawl/stream"
)

type message struct {
	ID   string `json:"id,omitempty"`
	Text string `json:"text"`
}

type talk struct {
	Messages pawl.Append[message]      `json:"messages"`
	Last     pawl.Last[string]         `json:"last"`
	N        pawl.Sum[int]             `json:"n"`
	By       pawl.Map[string, message] `json:"by"`
}

var okay = pawl.Interrupt[string, string]{Name: "ok"}

var everything = []stream.Mode{
	stream.Values, stream.Updates, stream.Messages, stream.Custom, stream.Checkpoints, stream.Tasks, stream.Debug, stream.Input, stream.Lifecycle,
}

func engine(t testing.TB) *pawl.Engine {
	t.Helper()
	db, err := memdb.Open(pawl.Kinds()...)
	if err != nil {
		t.Fatal(err)
	}
	eng, err := pawl.NewEngine(db, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = eng.Close(); _ = db.Close() })
	return eng
}

func thread(t testing.TB, eng *pawl.Engine, b *pawl.Builder[talk]) *pawl.Thread {
	t.Helper()
	g, err := b.Build()
	if err == nil {
		err = eng.Register(g)
	}
	if err != nil {
		t.Fatal(err)
	}
	return eng.Thread(g.Name(), "t")
}

func says(id string) func(context.Context, *talk) error {
	return func(_ context.Context, s *talk) error {
		s.Messages.Add(message{id, "says " + id})
		s.N.Add(1)
		return nil
	}
}

func asks(ctx context.Context, s *talk) error {
	a, err := okay.Ask(ctx, "ok?")
	if err != nil {
		return err
	}
	s.Last.Set(a)
	return nil
}

func silent(context.Context, *talk) error { return nil }

// rich is a graph with two tasks at once, a worker, a child that asks, and a node that writes nothing.
func rich(t testing.TB) *pawl.Builder[talk] {
	t.Helper()
	inner, err := pawl.New[talk]("inner").Node("in", says("inside")).Node("ask", asks, pawl.Uses(okay)).Path(pawl.Start, "in", "ask").Build()
	if err != nil {
		t.Fatal(err)
	}
	child := pawl.Sub(inner.Child("child"), func(s *talk) *talk { return &talk{Messages: pawl.List(s.Messages.At(0))} },
		func(s *talk, r *pawl.Result[talk]) error {
			for _, m := range r.State.Messages.All() {
				s.Messages.Add(m) // also the one that it was given
			}
			return nil
		})
	work := pawl.NewWorker("work", func(ctx context.Context, s *talk, who string) error {
		s.By.Set(who, message{Text: who})
		return pawl.Emit(ctx, "worked", who)
	})
	return pawl.New[talk]("rich").Node("a", says("a")).Node("b", says("b")).Add(work).Add(child).Node("quiet", silent).
		Edge(pawl.Start, "a").Edge(pawl.Start, "b").
		Route("a", func(*talk) []pawl.Next { return work.Each([]string{"x", "y"}) }, "work").Edge("b", "child").Edge("child", "quiet")
}

func run(ctx context.Context, th *pawl.Thread, in string) func(func(pawl.Event, error) bool) {
	return th.Stream(ctx, []byte(in))
}

func resumed(ctx context.Context, th *pawl.Thread, options ...pawl.RunOption) func(func(pawl.Event, error) bool) {
	return pawl.Stream(ctx, func(ctx context.Context, tell pawl.RunOption) error {
		_, err := th.Resume(ctx, append(options, tell)...)
		return err
	})
}

func collect(t testing.TB, chunks func(func(stream.Chunk, error) bool)) (out []stream.Chunk) {
	t.Helper()
	for c, err := range chunks {
		if failed := (*pawl.RunError)(nil); err != nil && !errors.As(err, &failed) {
			t.Fatal(err)
		}
		if err == nil {
			out = append(out, c)
		}
	}
	return out
}

// watched are the chunks behind a cursor, up to now: in a bubble nothing more comes once time passes.
func watched(t testing.TB, v stream.View, th *pawl.Thread, after stream.Cursor) []stream.Chunk {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	return collect(t, v.Watch(ctx, th, after))
}

func text(t testing.TB, c stream.Chunk) string {
	t.Helper()
	doc, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	return string(doc)
}

var ids = regexp.MustCompile(`[0-9a-f]{32}|[0-9a-f-]{36}`)

// short is a chunk as mode, child, data, without ids.
func short(t testing.TB, c stream.Chunk) string {
	t.Helper()
	doc, err := json.Marshal(c.Data)
	if err != nil {
		t.Fatal(err)
	}
	if s, ok := c.Data.(*pawl.Snapshot); ok {
		doc = fmt.Appendf(nil, "%d %s %v of %t", s.Step, s.Source, s.Next, s.Parent != "")
		for _, task := range s.Tasks {
			doc = fmt.Appendf(doc, " %s %d %d %d", task.State, len(task.Writes), len(task.Questions), len(task.Children))
		}
	}
	path := c.Path
	if path != "" {
		path = "[" + path + "]"
	}
	return ids.ReplaceAllString(string(c.Mode)+path+" "+string(doc), "*")
}

func shorts(t testing.TB, chunks []stream.Chunk, only ...stream.Mode) []string {
	var out []string
	for _, c := range chunks {
		if len(only) == 0 || slices.Contains(only, c.Mode) {
			out = append(out, short(t, c))
		}
	}
	return out
}

// A client that lost its connection behind any chunk goes on with what follows, in any view: nothing is left out, nothing
// comes twice.
func TestCutBehindEveryChunk(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		eng := engine(t)
		th := thread(t, eng, rich(t))
		in := `{"messages":[{"id":"in","text":"hello"}]}`
		views := []stream.View{{Modes: everything, Children: true}, {Modes: everything}}
		for _, m := range everything {
			views = append(views, stream.View{Modes: []stream.Mode{m}, Children: true})
		}
		live := make([]chan []stream.Chunk, len(views))
		ctx, cancel := context.WithCancel(t.Context())
		for i, v := range views {
			live[i] = make(chan []stream.Chunk, 1)
			go func() { live[i] <- collect(t, v.Watch(ctx, th, stream.Cursor{})) }()
		}
		synctest.Wait()
		collect(t, views[0].Of(t.Context(), run(t.Context(), th, in)))
		collect(t, views[0].Of(t.Context(), resumed(t.Context(), th, pawl.AnswerWith("", "yes"))))
		collect(t, views[0].Of(t.Context(), run(t.Context(), th, in)))
		synctest.Wait()
		cancel()
		synctest.Wait() // all are gone, and with them what was said
		for i, v := range views {
			var want []string
			var cursors []stream.Cursor
			for _, c := range <-live[i] {
				if c.Cursor != (stream.Cursor{}) { // what is said is told to who is there
					want, cursors = append(want, text(t, c)), append(cursors, c.Cursor)
				} else if c.Mode != stream.Custom {
					t.Errorf("%v has no cursor", c)
				}
			}
			if len(want) == 0 && !slices.Contains(v.Modes, stream.Custom) {
				t.Errorf("view %v shows nothing", v.Modes)
			}
			for k, after := range append([]stream.Cursor{{}}, cursors...) {
				var got []string
				for _, c := range watched(t, v, th, after) {
					got = append(got, text(t, c))
				}
				if !slices.Equal(got, want[k:]) {
					t.Fatalf("view %v behind %s: %d chunks, want %d\n%s\n\n%s", v.Modes, after, len(got), len(want[k:]), strings.Join(got, "\n"), strings.Join(want[k:], "\n"))
				}
			}
		}
	})
}

// What a Stream shows and what a Watch shows is the same, but for what is said.
func TestStreamShowsWhatIsStored(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		th := thread(t, engine(t), rich(t))
		v := stream.View{Modes: []stream.Mode{stream.Values, stream.Updates, stream.Tasks, stream.Checkpoints, stream.Messages, stream.Input, stream.Lifecycle}, Children: true}
		streamed := collect(t, v.Of(t.Context(), run(t.Context(), th, `{"messages":[{"id":"in","text":"hello"}]}`)))
		streamed = append(streamed, collect(t, v.Of(t.Context(), resumed(t.Context(), th, pawl.AnswerWith("", "yes"))))...)
		stored := shorts(t, watched(t, v, th, stream.Cursor{}))
		got := shorts(t, streamed)
		slices.Sort(got) // a child's first checkpoints are stored with what comes next
		slices.Sort(stored)
		if !slices.Equal(got, stored) {
			t.Errorf("streamed\n%s\n\nstored\n%s", strings.Join(got, "\n"), strings.Join(stored, "\n"))
		}
	})
}

func TestCursorText(t *testing.T) {
	t.Parallel()
	for _, c := range []stream.Cursor{{}, {Seq: 12}, {Seq: 7, Part: 3}} {
		var got stream.Cursor
		if err := got.UnmarshalText([]byte(c.String())); err != nil || got != c {
			t.Errorf("%s came back as %v, %v", c, got, err)
		}
	}
	var c stream.Cursor
	if err := c.UnmarshalText(nil); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{"x", "1", "1.", "-1.0", "1.-2", "1.2.3"} {
		if err := c.UnmarshalText([]byte(bad)); err == nil {
			t.Errorf("%q was taken for %v", bad, c)
		}
	}
}

// Tokens are shown as they come; the message that they make is shown to those who missed some. A new try begins anew.
func TestTokens(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		try := 0
		speak := func(ctx context.Context, s *talk) error {
			try++
			for i, word := range []string{"he", "llo"}[:try] {
				if err := stream.Say(ctx, stream.Token{Message: "m", Index: i, Text: word}); err != nil {
					return err
				}
			}
			if try < 2 {
				return errors.New("cut off")
			}
			s.Messages.Add(message{"m", "hello"})
			return nil
		}
		th := thread(t, engine(t), pawl.New[talk]("speaks").Node("speak", speak, pawl.Tries(2)).Edge(pawl.Start, "speak"))
		v := stream.View{Modes: []stream.Mode{stream.Messages}}
		var got []string
		for _, c := range collect(t, v.Of(t.Context(), run(t.Context(), th, `{}`))) {
			m := c.Data.(stream.Message)
			got = append(got, fmt.Sprint(m.Try, m.Token.Text))
		}
		if want := []string{"1he", "2he", "2llo"}; !slices.Equal(got, want) {
			t.Errorf("shown while it runs: %q, want %q", got, want)
		}
		after := watched(t, v, th, stream.Cursor{})
		if len(after) != 1 || string(after[0].Data.(stream.Message).Whole) != `{"id":"m","text":"hello"}` {
			t.Errorf("shown afterwards: %v", after)
		}
	})
}
