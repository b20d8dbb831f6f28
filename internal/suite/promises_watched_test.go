package suite

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/stream"
)

// watchedProgram is a process that streams a run, or that watches it.
type watchedProgram struct {
	Path  string
	More  int           // chunks after its first update, behind which it stands still
	After stream.Cursor // of one that watches
}

type watchedState struct {
	Log pawl.Append[string] `json:"log"`
}

var watchedView = withChildren(stream.Values, stream.Updates, stream.Custom, stream.Checkpoints, stream.Tasks, stream.Debug, stream.Input, stream.Lifecycle)

// watchedGraph has two nodes at once and a child; each node tells its name.
func watchedGraph() *pawl.Graph[watchedState] {
	says := func(name string) func(context.Context, *watchedState) error {
		return func(ctx context.Context, s *watchedState) error {
			s.Log.Add(name)
			return pawl.Emit(ctx, "told", name)
		}
	}
	inner := must(pawl.New[watchedState]("inner").Node("i", says("i")).Node("j", says("j")).Path(pawl.Start, "i", "j").Build())
	child := pawl.Sub(inner.Child("c"), func(*watchedState) *watchedState { return &watchedState{} },
		func(s *watchedState, r *pawl.Result[watchedState]) error { s.Log.Add("c"); return nil })
	return must(pawl.New[watchedState]("watched").Node("a", says("a")).Node("p", says("p")).Node("q", says("q")).Add(child).Node("z", says("z")).
		Edge(pawl.Start, "a").Edge("a", "p").Edge("a", "q").Edge("p", "c").Edge("c", "z").Build())
}

// streamWatched runs or resumes, prints what it streams, and stands still in the middle: it waits to be killed.
func streamWatched(doc []byte) {
	a, ctx := args[watchedProgram](doc), context.Background()
	eng := childEngine(a.Path, &pawl.Options{Limits: pawl.Limits{Crashes: 1000}}) // it dies until it is through
	th := watchedGraph().Thread(eng, "t")
	events := th.Stream(ctx, &watchedState{})
	if must(th.State(ctx)).Status != pawl.StatusNew {
		events = pawl.Stream(ctx, func(ctx context.Context, tell pawl.RunOption) error {
			_, err := th.Resume(ctx, tell)
			return err
		})
	}
	left := -1
	for c, err := range watchedView.Of(ctx, events) {
		fmt.Println(string(must(json.Marshal(must(c, err)))))
		if left < 0 && c.Mode == stream.Updates {
			left = a.More
		}
		if left == 0 {
			fmt.Println("still")
			os.Stdin.Read(make([]byte, 1))
		}
		left--
	}
	must(0, eng.Close())
}

func lookWatched(doc []byte) {
	a := args[watchedProgram](doc)
	eng := childEngine(a.Path, nil)
	for c, err := range watchedView.Watch(context.Background(), eng.Thread("watched", "t"), a.After) {
		fmt.Println(string(must(json.Marshal(must(c, err)))))
	}
}

// chunk is a printed chunk; text is the whole of it.
type chunk struct {
	stream.Chunk
	text string
}

func chunkOf(t testing.TB, line string) chunk {
	t.Helper()
	c := chunk{text: line}
	if err := json.Unmarshal([]byte(line), &c.Chunk); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	return c
}

func (c chunk) durable() bool { return c.Cursor != stream.Cursor{} }

// place says what a chunk is, and nothing that only those know who were there.
func (c chunk) place() string { return fmt.Sprint(c.Cursor, c.Mode, c.Path, c.Step) }

// watchedOverKills is a run that a process streams until it is killed, again and again, each one going on where the one before
// died. A process that watches by its cursor, and is killed too, is shown each durable fact one time. What nodes tell has no
// cursor: that is how a client knows that a death may take it.
func watchedOverKills(t *testing.T) {
	h := onDisk(t)
	var streamed, seen []chunk
	var after stream.Cursor
	look := func() *child { return spawn(t, "promise-look", watchedProgram{Path: h.path, After: after}) }
	watcher, told, deaths := look(), 0, 0
	for round, over := 0, false; !over; round++ {
		runner, last := spawn(t, "promise-streams", watchedProgram{Path: h.path, More: round % 4}), stream.Cursor{}
		line := runner.line()
		for ; line != "" && line != "still"; line = runner.line() {
			c := chunkOf(t, line)
			if streamed = append(streamed, c); c.durable() {
				last = c.Cursor
			}
			if c.Mode == stream.Custom {
				told++
			}
		}
		if over = line == ""; over {
			runner.wait(t)
		} else {
			runner.kill()
			deaths++
		}
		for after.Seq < last.Seq || after.Seq == last.Seq && after.Part < last.Part {
			c := chunkOf(t, watcher.line())
			seen, after = append(seen, c), c.Cursor
		}
		if round%2 == 1 || over {
			watcher.kill()
			watcher = look()
		}
	}
	watcher.kill()
	eng := engine(t, h.open(t), nil)
	var want, got []string
	places := map[string]bool{}
	for c := range chunksUntil(t, watchedView, eng.Thread("watched", "t"), after) {
		doc, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, string(doc))
		places[chunkOf(t, string(doc)).place()] = true
	}
	for _, c := range seen {
		if got = append(got, c.text); !c.durable() {
			t.Errorf("a watcher of another process was shown what is not stored: %s", c.text)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("over %d deaths the watcher was shown %d chunks, and %d are stored\n%q\n%q", deaths, len(got), len(want), got, want)
	}
	for _, c := range streamed {
		if c.durable() && !places[c.place()] {
			t.Errorf("it was streamed as stored, and is not there: %s", c.text)
		}
		if c.durable() && c.Mode == stream.Custom {
			t.Errorf("what a node told has a cursor: %s", c.text)
		}
	}
	if deaths < 4 || told == 0 {
		t.Errorf("%d deaths, %d times nodes told something: this shows nothing", deaths, told)
	}
}

// chunksUntil watches from the beginning up to a cursor.
func chunksUntil(t testing.TB, v stream.View, th *pawl.Thread, last stream.Cursor) func(func(stream.Chunk) bool) {
	return func(yield func(stream.Chunk) bool) {
		for c, err := range v.Watch(t.Context(), th, stream.Cursor{}) {
			if err != nil {
				t.Fatal(err)
			}
			if !yield(c) || c.Cursor == last {
				return
			}
		}
	}
}
