package suite

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/stream"
)

func bugsOfStreams() []scenario {
	return []scenario{
		{id: "148", run: each(cutBeforeTheEnd)}, {id: "149", run: each(watchingChangesNothing)}, {id: "150", run: each(everyInterruptIsTold)},
		{id: "151", run: each(saidBeforeThePause)}, {id: "152", run: each(cancelledTokens)}, {id: "153", run: each(halfTextTriedAgain)},
	}
}

// until watches behind a cursor up to the first chunk that is enough.
func until(t *testing.T, v stream.View, th *pawl.Thread, after stream.Cursor, enough func(stream.Chunk) bool) (out []stream.Chunk) {
	t.Helper()
	for c, err := range v.Watch(context.Background(), th, after) {
		if err != nil {
			t.Fatal(err)
		}
		if out = append(out, c); enough(c) {
			return out
		}
	}
	return out
}

func life(event string) func(stream.Chunk) bool {
	return func(c stream.Chunk) bool {
		l, ok := c.Data.(stream.Life)
		return ok && l.Event == event
	}
}

// cutBeforeTheEnd is 148: who lost the connection before the last event, and comes back after the run, in a fresh process
// too, is told the rest alone, the end with it.
func cutBeforeTheEnd(t *testing.T, h *home) {
	g := build(t, sayers("a", "b", "c"))
	db := h.open(t)
	th := g.Thread(engine(t, db, nil), "t")
	v := withChildren(stream.Values, stream.Updates, stream.Lifecycle)
	var all []string
	var cursors []stream.Cursor
	for c, err := range v.Of(t.Context(), th.Stream(t.Context(), &rowState{})) {
		if err != nil {
			t.Fatal(err)
		}
		all, cursors = append(all, line(t, c)), append(cursors, c.Cursor)
	}
	later := engine(t, db, nil).Thread("row", "t")
	for i := range cursors[:len(cursors)-1] {
		var rest []string
		for _, c := range until(t, v, later, cursors[i], life("completed")) {
			rest = append(rest, line(t, c))
		}
		same(t, "behind "+cursors[i].String(), rest, all[i+1:])
	}
}

// watchingChangesNothing is 149: the state, the history and the facts are the same in every mode and in none.
func watchingChangesNothing(t *testing.T, h *home) {
	g := build(t, pawl.New[chatRow]("chat").Node("a", chatSays("one", "")).Node("b", chatSays("", "one")).Path(pawl.Start, "a", "b"))
	eng := engine(t, h.open(t), nil)
	in := func() *chatRow { return &chatRow{Messages: pawl.List(chatLine{"", "hello"})} }
	record := func(name string, do func(th *pawl.ThreadOf[chatRow])) string {
		th := g.Thread(eng, name)
		do(th)
		var out []string
		for _, s := range history(t, th) {
			out = append(out, fmt.Sprint(s.Step, s.Source, s.Next, string(s.Values)))
		}
		for e, err := range th.Watch(t.Context(), 0) {
			if err != nil {
				t.Fatal(err)
			}
			if out = append(out, fmt.Sprint(e.Seq, e.Kind, e.Node)); e.Kind == pawl.EventFinished {
				break
			}
		}
		return strings.Join(out, "\n")
	}
	want := record("alone", func(th *pawl.ThreadOf[chatRow]) {
		if _, err := th.Run(t.Context(), in()); err != nil {
			t.Fatal(err)
		}
	})
	for _, mode := range []stream.Mode{stream.Values, stream.Updates, stream.Messages, stream.Custom, stream.Checkpoints, stream.Tasks, stream.Debug, stream.Input, stream.Lifecycle} {
		got := record(string(mode), func(th *pawl.ThreadOf[chatRow]) { shown(t, withChildren(mode), th.Stream(t.Context(), in())) })
		same(t, "with "+string(mode), got, want)
	}
}

// everyInterruptIsTold is 150: three questions one after the other and three at once, on the start and on the resume, are
// each told once, and that the run was interrupted.
func everyInterruptIsTold(t *testing.T, h *home) {
	asks := func(names ...string) rowNode {
		return func(ctx context.Context, s *rowState) error {
			for _, name := range names {
				if _, err := vote.Ask(ctx, name, pawl.Key(name)); err != nil {
					return err
				}
			}
			return nil
		}
	}
	b := pawl.New[rowState]("row").Node("serial", asks("1", "2", "3"), pawl.Uses(vote))
	b.Edge(pawl.Start, "serial")
	for _, n := range []string{"x", "y", "z"} {
		b.Node(n, asks(n), pawl.Uses(vote)).Edge("serial", n)
	}
	for _, mode := range []stream.Mode{stream.Values, stream.Updates, stream.Tasks, stream.Debug, stream.Messages, stream.Custom, stream.Checkpoints} {
		th := build(t, b).Thread(engine(t, h.open(t), nil), "t-"+string(mode))
		v := modesOf(mode, stream.Input, stream.Lifecycle)
		events := th.Stream(t.Context(), &rowState{})
		for _, want := range [][]string{{"1"}, {"2"}, {"3"}, {"x", "y", "z"}} {
			told, stops, inMode := map[string]int{}, 0, map[string]int{}
			for c, err := range v.Of(t.Context(), events) {
				if err != nil {
					t.Fatal(err)
				}
				var own []stream.Interrupt
				switch d := c.Data.(type) {
				case stream.Interrupt:
					if d.State == "open" {
						told[string(d.Value)]++
					}
				case stream.Life:
					if d.Event == "interrupted" {
						stops++
					}
				case stream.State:
					own = d.Interrupts
				case stream.Update:
					own = d.Interrupts
				case stream.End:
					own = d.Interrupts
				case stream.Detail:
					if end, ok := d.Payload.(stream.End); ok {
						own = end.Interrupts
					}
				}
				for _, q := range own {
					inMode[string(q.Value)]++
				}
			}
			one := map[string]int{}
			for _, q := range want {
				one[`"`+q+`"`] = 1
			}
			same(t, string(mode)+": told", told, one)
			same(t, string(mode)+": interrupted", stops, 1)
			switch mode {
			case stream.Values, stream.Updates, stream.Tasks, stream.Debug:
				same(t, string(mode)+": in the mode itself", inMode, one)
			}
			var answers []pawl.RunOption
			for _, q := range statusOf(t, th).Waiting {
				answers = append(answers, pawl.AnswerWith(q.ID, "yes"))
			}
			events = resuming(t, th.Thread, answers...)
		}
	}
}

// saidBeforeThePause is 151: what was committed comes before the question, and a question carries no state.
func saidBeforeThePause(t *testing.T, h *home) {
	ask := func(ctx context.Context, s *chatRow) error { _, err := vote.Ask(ctx, "go on?"); return err }
	g := build(t, pawl.New[chatRow]("chat").Node("a", chatSays("one")).Node("ask", ask, pawl.Uses(vote)).
		Node("b", chatSays("two")).Node("again", ask, pawl.Uses(vote)).Path(pawl.Start, "a", "ask", "b", "again"))
	th := g.Thread(engine(t, h.open(t), nil), "t")
	v := modesOf(stream.Messages, stream.Updates, stream.Values)
	same(t, "until the first", shown(t, v, th.Stream(t.Context(), &chatRow{})), []string{
		`messages {"id":"one","text":"-"}`, `updates {"a":{"messages":[{"id":"one","text":"-"}]}}`, `values {"messages":[{"id":"one","text":"-"}]}`,
		`updates {"interrupt":"go on?"}`, `values [{"messages":[{"id":"one","text":"-"}]},"go on?"]`,
	})
	both := `{"messages":[{"id":"one","text":"-"},{"id":"two","text":"-"}]}`
	got := shown(t, v, resuming(t, th.Thread, vote.Answer("", "y")))
	same(t, "until the second", got[len(got)-3:], []string{`values ` + both, `updates {"interrupt":"go on?"}`, `values [` + both + `,"go on?"]`})
}

// cancelledTokens is 152: tokens are provisional, and only what was committed is told with a cursor, also after a cancel.
func cancelledTokens(t *testing.T, h *home) {
	for _, mode := range allModes {
		g := build(t, pawl.New[chatRow]("chat").Node("a", chatSays("kept")).Node("b", func(ctx context.Context, s *chatRow) error {
			if err := stream.Say(ctx, stream.Token{Message: "half", Text: "I was about to"}); err != nil {
				return err
			}
			<-ctx.Done()
			return context.Cause(ctx)
		}).Path(pawl.Start, "a", "b"))
		th := g.Thread(engine(t, h.open(t), nil), "t-"+string(mode))
		v := modesOf(stream.Messages, stream.Lifecycle)
		var seen []stream.Message
		for c, err := range v.Of(t.Context(), th.Stream(t.Context(), &chatRow{}, pawl.WithDurability(mode))) {
			if run := (*pawl.RunError)(nil); err != nil && !errors.As(err, &run) {
				t.Fatal(err)
			}
			m, ok := c.Data.(stream.Message)
			if !ok {
				continue
			}
			if seen = append(seen, m); m.Token != nil {
				same(t, "the cursor of a token", c.Cursor, stream.Cursor{})
				if err := th.Cancel(t.Context(), "enough"); err != nil {
					t.Fatal(err)
				}
			}
		}
		same(t, "messages and tokens", len(seen), 2)
		s := statusOf(t, th)
		same(t, "status", s.Status, pawl.Cancelled)
		same(t, "what was kept", string(s.Head.Values), `{"messages":[{"id":"kept","text":"-"}]}`)
		for _, c := range until(t, v, th.Thread, stream.Cursor{}, life("cancelled")) {
			if m, ok := c.Data.(stream.Message); ok {
				same(t, "told afterwards", m.ID, "kept")
			}
		}
	}
}

// halfTextTriedAgain is 153: tokens say which message and which try they are of, and the message is told once.
func halfTextTriedAgain(t *testing.T, h *home) {
	tries := 0
	g := build(t, pawl.New[chatRow]("chat").Node("a", func(ctx context.Context, s *chatRow) error {
		tries++
		for i, word := range []string{"hel", "lo"}[:tries] {
			if err := stream.Say(ctx, stream.Token{Message: "m", Index: i, Text: word}); err != nil {
				return err
			}
		}
		if tries == 1 {
			return errors.New("the line was cut")
		}
		s.Messages.Add(chatLine{"m", "hello"})
		return nil
	}, pawl.Tries(2)).Path(pawl.Start, "a"))
	th := g.Thread(engine(t, h.open(t), nil), "t")
	text, try := map[string]string{}, map[string]int{}
	for c, err := range modesOf(stream.Messages).Of(t.Context(), th.Stream(t.Context(), &chatRow{})) {
		if err != nil {
			t.Fatal(err)
		}
		m := c.Data.(stream.Message)
		if m.Token == nil {
			t.Fatalf("the whole message was told to who had it: %s", m.Whole)
		}
		if m.Try != try[m.ID] {
			text[m.ID], try[m.ID] = "", m.Try
		}
		text[m.ID] += m.Token.Text
	}
	same(t, "what a client shows", text, map[string]string{"m": "hello"})
	once := 0
	for _, c := range until(t, modesOf(stream.Messages, stream.Lifecycle), th.Thread, stream.Cursor{}, life("completed")) {
		if c.Mode == stream.Messages {
			once++
		}
	}
	same(t, "told to who comes later", once, 1)
}
