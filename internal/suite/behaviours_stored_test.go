package suite

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
)

// storedRows are of what is stored, and of how it is read again.
func storedRows() []scenario {
	return []scenario{
		{id: "RET-09", run: each(rowNull)}, {id: "RET-11", run: each(rowInPlace, rowChangedAndReturned)},
		{id: "CHN-03", run: each(rowListKeeps)}, {id: "CHN-04", run: each(rowCopiesApart)}, {id: "CHN-05", run: each(rowSums)},
		{id: "STA-36", run: each(rowInputOfThePast)},
		{id: "SAV-01..17", run: each(rowRoundTrip, rowChannelsComeAndGo)}, {id: "SAV-18..27", run: each(rowWritesOfTasks)}, {id: "SAV-91", run: each(rowWritesOfTasks)},
		{id: "SER-02", run: each(rowNothingRevived), differs: "what is stored is never made into a type that it names: the strict mode is the only one"},
		{id: "SER-03", run: each(rowNothingRevived)}, {id: "SER-05", run: each(rowNothingRevived)},
		{id: "SER-07", run: each(rowPayloads)},
		{id: "FUN-17", run: each(rowStepNames)}, {id: "FUN-18", run: each(rowGivenMore)}, {id: "RUN-19", run: each(rowBatchOfInputs)},
		{id: "STR-18", run: each(rowPrinted)}, {id: "STR-24", run: each(rowValuesAndQuestions)},
	}
}

// rowNull: null that a node sets is a value like any other.
func rowNull(t *testing.T, h *home) {
	type state struct {
		Foo pawl.Last[*string] `json:"foo"`
	}
	had := "had"
	g := build(t, pawl.New[state]("null").Node("a", func(_ context.Context, s *state) error { s.Foo.Set(nil); return nil }).Path(pawl.Start, "a"))
	out, err := g.Thread(engine(t, h.open(t), nil), "t").Run(t.Context(), &state{Foo: pawl.Of(&had)})
	if err != nil || string(out.Values) != `{"foo":null}` || out.State.Foo.Get() != nil {
		t.Error(out, err)
	}
}

// rowChangedAndReturned: what was read, changed, inside too, and set is what is stored.
func rowChangedAndReturned(t *testing.T, h *home) {
	type inner struct {
		A int `json:"a"`
	}
	type outer struct {
		Outer int    `json:"outer"`
		Inner *inner `json:"inner"`
	}
	type state struct {
		V pawl.Last[outer] `json:"v"`
	}
	g := build(t, pawl.New[state]("model").Node("a", func(_ context.Context, s *state) error {
		v := s.V.Get()
		v.Outer, v.Inner.A = 10, 5
		s.V.Set(v)
		return nil
	}).Path(pawl.Start, "a"))
	out, err := g.Thread(engine(t, h.open(t), nil), "t").Run(t.Context(), &state{V: pawl.Of(outer{1, &inner{2}})})
	if err != nil || string(out.Values) != `{"v":{"outer":10,"inner":{"a":5}}}` {
		t.Error(out, err)
	}
}

// rowListKeeps: a list keeps what each super-step adds, in order, and a node that adds nothing leaves it alone.
func rowListKeeps(t *testing.T, h *home) {
	adds := func(items ...string) rowNode {
		return func(_ context.Context, s *rowState) error { s.Log.Add(items...); return nil }
	}
	b := pawl.New[rowState]("row").Node("a", adds("a", "b")).Node("b", adds(append([]string{"b"}, "c", "d", "d")...)).Node("c", adds()).
		Path(pawl.Start, "a", "b", "c")
	th := rowThread(t, h, b, nil)
	ran(t, th, pawl.Done)
	var seen []string
	for _, s := range history(t, th) {
		seen = append(seen, string(s.Values))
	}
	all := `{"log":["a","b","b","c","d","d"]}`
	sameList(t, "the newest first", seen, []string{all, all, `{"log":["a","b"]}`, `{}`, `{}`})
}

// rowSums: zero at first, what was added together later, and the same when it is read again.
func rowSums(t *testing.T, h *home) {
	var seen []int
	adds := func(ns ...int) rowNode {
		return func(_ context.Context, s *rowState) error {
			seen = append(seen, s.N.Get())
			for _, n := range ns {
				s.N.Add(n)
			}
			return nil
		}
	}
	b := pawl.New[rowState]("row").Node("a", adds(1, 2, 3)).Node("b", adds(4)).Node("c", adds()).Path(pawl.Start, "a", "b", "c")
	th := rowThread(t, h, b, nil)
	ran(t, th, pawl.Done)
	same(t, "seen", seen, []int{0, 6, 10})
	s, err := th.Read(statusOf(t, rowThread(t, h, b, nil)).Head)
	if err != nil || s.N.Get() != 10 {
		t.Error(s, err)
	}
}

// rowCopiesApart: what is added to a copy is in that copy alone.
func rowCopiesApart(t *testing.T, h *home) {
	g, eng := build(t, sayers("a")), engine(t, h.open(t), nil)
	th := g.Thread(eng, "one")
	ran(t, th, pawl.Done)
	for _, to := range []string{"two", "three"} {
		if _, err := th.Copy(t.Context(), to, pawl.Point{}, pawl.Reason("a test")); err != nil {
			t.Fatal(err)
		}
		if _, err := g.Thread(eng, to).Run(t.Context(), &rowState{Log: pawl.List(to)}); err != nil {
			t.Fatal(err)
		}
	}
	for thread, want := range map[string]string{"one": `{"log":["a"]}`, "two": `{"log":["a","two","a"]}`, "three": `{"log":["a","three","a"]}`} {
		same(t, thread, string(statusOf(t, g.Thread(eng, thread)).Values), want)
	}
}

// rowInputOfThePast: a new input from an older checkpoint is a branch of it, without what came after.
func rowInputOfThePast(t *testing.T, h *home) {
	th := rowThread(t, h, sayers("a"), nil)
	first, _ := th.Run(t.Context(), &rowState{Log: pawl.List("1")})
	if _, err := th.Run(t.Context(), &rowState{Log: pawl.List("2")}); err != nil {
		t.Fatal(err)
	}
	before := history(t, th)
	if _, err := th.Replay(t.Context(), pawl.Checkpoint(first.Checkpoint), pawl.Hold()); err != nil {
		t.Fatal(err)
	}
	out, err := th.Run(t.Context(), &rowState{Log: pawl.List("3")})
	if err != nil {
		t.Fatal(err)
	}
	sameList(t, "the branch", logOf(out.State), []string{"1", "a", "3", "a"})
	after := history(t, th)
	same(t, "the old branch", compact(after[len(after)-len(before):]), compact(before))
	parents := map[string]string{}
	for _, s := range after {
		parents[s.Checkpoint] = s.Parent
	}
	at := out.Checkpoint
	for range len(after) - len(before) {
		at = parents[at]
	}
	same(t, "what the branch grew from", at, first.Checkpoint)
}

// rowRoundTrip: who opens a home anew reads every checkpoint as it was written, each under its parent, of its own thread
// and its own child, also in a program whose state has one channel more.
func rowRoundTrip(t *testing.T, h *home) {
	outer := nested(t, sayers("a", "b")).Node("z", func(_ context.Context, s *rowState) error {
		s.N.Add(-7)
		s.X.Set([]int{1, 2})
		s.M.Set("ключ", "\x00\" <&>")
		return nil
	}).Edge("c", "z")
	g := build(t, outer)
	one, other := g.Thread(engine(t, h.open(t), nil), "one"), g.Thread(engine(t, h.open(t), nil), "other")
	ran(t, other, pawl.Done)
	apart := compact(history(t, other))
	out, _ := ran(t, one, pawl.Done)
	written := history(t, one)
	for i, s := range written[1:] {
		same(t, "parent", written[i].Parent, s.Checkpoint)
	}
	again := g.Thread(engine(t, h.open(t), nil), "one")
	same(t, "read again", compact(history(t, again)), compact(written))
	s, err := again.Read(written[0])
	if said, _ := s.M.Get("ключ"); err != nil || s.N.Get() != -7 || len(s.X.Get()) != 2 || said != "\x00\" <&>" {
		t.Error(s, err)
	}
	same(t, "the other thread", compact(history(t, other)), apart)
	inside, err := one.History(t.Context(), pawl.Page{In: pawl.Path(written[len(written)-2].Tasks[0].Path)})
	if err != nil || len(inside) != 4 || string(inside[0].Values) != `{"log":["a","b"]}` {
		t.Error(inside, err)
	}
	type more struct {
		Log pawl.Append[string]      `json:"log"`
		N   pawl.Sum[int]            `json:"n"`
		X   pawl.Last[[]int]         `json:"x"`
		M   pawl.Map[string, string] `json:"m"`
		Y   pawl.Last[string]        `json:"y,omitzero"`
	}
	later := build(t, pawl.New[more]("outer").Node("c", func(_ context.Context, s *more) error { s.Y.Set("new"); return nil }).Path(pawl.Start, "c"))
	next, err := later.Thread(engine(t, h.open(t), nil), "one").Run(t.Context(), &more{})
	if err != nil || next.State.Y.Get() != "new" || next.State.N.Get() != out.State.N.Get() {
		t.Error("with a channel more:", next, err)
	}
}

// rowChannelsComeAndGo: a checkpoint holds the channels that had a value then, no others, whatever came before and after.
func rowChannelsComeAndGo(t *testing.T, h *home) {
	type state struct {
		Gone pawl.Ephemeral[string] `json:"gone"`
		Late pawl.Last[string]      `json:"late"`
	}
	g := build(t, pawl.New[state]("channels").
		Node("a", func(_ context.Context, s *state) error { s.Gone.Set("x"); return nil }).
		Node("b", func(_ context.Context, s *state) error { s.Late.Set("y"); return nil }).
		Path(pawl.Start, "a", "b"))
	if _, err := g.Thread(engine(t, h.open(t), nil), "t").Run(t.Context(), &state{}); err != nil {
		t.Fatal(err)
	}
	var seen []string
	for _, s := range history(t, g.Thread(engine(t, h.open(t), nil), "t")) {
		seen = append(seen, string(s.Values))
	}
	sameList(t, "the newest first", seen, []string{`{"late":"y"}`, `{"gone":"x"}`, `{}`, `{}`})
}

// rowWritesOfTasks: what a task came to is kept under it, one time, however often its super-step goes on; of a task that
// fails again the newest error is kept; and the next checkpoint starts with nothing.
func rowWritesOfTasks(t *testing.T, h *home) {
	tries := 0
	ended := make(chan struct{}, 1)
	b := pawl.New[rowState]("row").
		Node("one", func(_ context.Context, s *rowState) error {
			defer func() { ended <- struct{}{} }()
			s.N.Add(2)
			return nil
		}).
		Node("two", func(context.Context, *rowState) error {
			if tries++; tries == 1 {
				<-ended
			}
			if tries < 3 {
				return fmt.Errorf("bad %d", tries)
			}
			return nil
		}).Edge(pawl.Start, "one").Edge(pawl.Start, "two")
	th := rowThread(t, h, b, nil)
	ran(t, th, pawl.Failed)
	first := history(t, th)[0]
	for try := 1; try < 3; try++ {
		s := statusOf(t, th)
		same(t, "values so far", string(s.Values), `{"n":2}`)
		for i, task := range s.Head.Tasks {
			same(t, "task", task.ID, first.Tasks[i].ID)
			want, text := "done", ""
			if task.Node == "two" {
				want, text = "failed", fmt.Sprint("bad ", try)
			}
			if task.State != want || !strings.HasSuffix(task.Error, text) {
				t.Errorf("after try %d: %+v", try, task)
			}
		}
		if _, err := th.Resume(t.Context()); (err == nil) != (try == 2) {
			t.Fatal(err)
		}
	}
	head := statusOf(t, th).Head
	same(t, "values at the end", string(head.Values), `{"n":2}`)
	same(t, "tasks of the new checkpoint", len(head.Tasks), 0)
}

// rowNothingRevived: a value that names a type, or how to make one, is data; a declared type is decoded.
func rowNothingRevived(t *testing.T, h *home) {
	type declared struct {
		Name string `json:"name"`
	}
	type state struct {
		Any  pawl.Last[any]      `json:"any"`
		Mine pawl.Last[declared] `json:"mine"`
		Saw  pawl.Last[string]   `json:"saw"`
	}
	g := build(t, pawl.New[state]("typed").Node("a", func(_ context.Context, s *state) error {
		s.Saw.Set(fmt.Sprintf("%T %T", s.Any.Get(), s.Mine.Get()))
		return nil
	}).Path(pawl.Start, "a"))
	const named = `{"lc":2,"type":"constructor","id":["subprocess","Popen"],"method":"run","kwargs":{"args":["true"]}}`
	eng := engine(t, h.open(t), nil)
	out, err := g.Thread(eng, "t").Thread.Run(t.Context(), []byte(`{"any":`+named+`,"mine":{"name":"ann"}}`))
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Any  map[string]any
		Mine declared
		Saw  string
	}
	if err := json.Unmarshal(statusOf(t, g.Thread(engine(t, h.open(t), nil), "t")).Values, &got); err != nil {
		t.Fatal(err, string(out.Values))
	}
	same(t, "types in a node", got.Saw, "map[string]interface {} suite.declared")
	same(t, "what was named", got.Any["method"], any("run"))
	same(t, "what was declared", got.Mine.Name, "ann")
	if _, err := g.Thread(eng, "other").Thread.Run(t.Context(), []byte(`{"mine":`+named+`}`)); err == nil {
		t.Error("an undeclared shape became a declared type")
	}
}

// rowPayloads: a payload is the same after a restart, with a limit of time of its own and without.
func rowPayloads(t *testing.T, h *home) {
	type parcel struct {
		To   string
		Kilo float64
		In   map[string][]int
	}
	sent := parcel{"ann", 0.1, map[string][]int{"box": {1, 2}}}
	w := pawl.NewWorker("w", func(ctx context.Context, s *rowState, p parcel) error {
		if _, err := vote.Ask(ctx, "?"); err != nil {
			return err
		}
		s.Log.Add(fmt.Sprint(p))
		return nil
	}, pawl.Uses(vote))
	b := sayers("a").Add(w).Route("a", func(*rowState) []pawl.Next {
		return append(w.With(sent), pawl.Within(time.Hour, w.With(sent)...)...)
	}, "w")
	out, _ := ran(t, rowThread(t, h, b, nil), pawl.Waiting)
	var answers []pawl.RunOption
	for _, q := range out.Waiting {
		answers = append(answers, vote.Answer(q.ID, "yes"))
	}
	out, err := rowThread(t, h, b, nil).Resume(t.Context(), answers...)
	if err != nil || out.Status != pawl.Done {
		t.Fatal(out, err)
	}
	sameList(t, "received", logOf(out.State), []string{"a", fmt.Sprint(sent), fmt.Sprint(sent)})
}

type namer struct{ prefix string }

func (n namer) name(context.Context) (string, error) { return n.prefix, nil }

// rowStepNames: a step has the name that it is given, whatever is called: a method, a closure, a function under two names.
func rowStepNames(t *testing.T, h *home) {
	foo := func(context.Context) (string, error) { return "foo", nil }
	partial := func(s string) func(context.Context) (string, error) {
		return func(context.Context) (string, error) { return s, nil }
	}
	names := []string{"custom_foo", "other_foo", "custom_bar", "baz", "custom_baz", "qux"}
	calls := []func(context.Context) (string, error){foo, foo, namer{"bar"}.name, partial("baz"), partial("baz"), (&namer{"qux"}).name}
	workflow, err := pawl.Func("workflow", func(ctx context.Context, _ int) (string, error) {
		for i, name := range names {
			if _, err := pawl.Step(ctx, name, calls[i]); err != nil {
				return "", err
			}
		}
		return "done", nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	for e, err := range workflow.Thread(engine(t, h.open(t), nil), "t").Stream(t.Context(), 1) {
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case e.Kind == pawl.EventStep:
			told = append(told, e.Name)
		case e.Kind == pawl.EventTaskEnd && e.Node != pawl.Start:
			told = append(told, e.Node)
		}
	}
	sameList(t, "told", told, append(names, "workflow"))
}

// rowBatchOfInputs: several inputs at once, on threads of their own, and their results in the order of the inputs.
func rowBatchOfInputs(t *testing.T, h *home) {
	g, eng := build(t, single(func(_ context.Context, s *rowState) error { s.N.Add(100); return nil })), engine(t, h.open(t), nil)
	var all sync.WaitGroup
	results, want := make([]int, 10), make([]int, 10)
	for i := range results {
		want[i] = 100 + i
		all.Go(func() {
			if out, err := g.Thread(eng, fmt.Sprint("batch ", i)).Run(t.Context(), &rowState{N: pawl.Total(i)}); err == nil {
				results[i] = out.State.N.Get()
			}
		})
	}
	all.Wait()
	same(t, "results", results, want)
}

// rowPrinted: a run that is told and logged comes to what it comes to otherwise.
func rowPrinted(t *testing.T, h *home) {
	b := nested(t, sayers("a", "b"))
	plain, err := rowThread(t, h, b, nil).Run(t.Context(), &rowState{})
	if err != nil {
		t.Fatal(err)
	}
	var printed bytes.Buffer
	log := slog.New(slog.NewTextHandler(&printed, nil))
	g, eng := build(t, b), engine(t, h.open(t), &pawl.Options{Logger: log})
	var out *pawl.Outcome
	for e, err := range g.Thread(eng, "printed").Stream(t.Context(), &rowState{}) {
		if log.Info("event", "kind", e.Kind, "node", e.Node); err != nil {
			t.Fatal(err)
		}
		if e.Kind == pawl.EventFinished {
			out = e.Outcome
		}
	}
	if printed.Len() == 0 || out == nil || string(out.Values) != string(plain.Values) {
		t.Errorf("printed %q, and came to %v", printed.String(), out)
	}
}

// rowValuesAndQuestions: what a run returns is one object, of what the state is and of what is asked.
func rowValuesAndQuestions(t *testing.T, h *home) {
	th := rowThread(t, h, asking(), nil)
	out, _ := ran(t, th, pawl.Waiting)
	same(t, "values", string(out.Values), "{}")
	same(t, "asked", string(out.Waiting[0].Body), `"which?"`)
	out, err := th.Resume(t.Context(), vote.Answer(out.Waiting[0].ID, "this"))
	if err != nil {
		t.Fatal(err)
	}
	same(t, "values", string(out.Values), `{"log":["this"]}`)
	same(t, "asked", len(out.Waiting), 0)
}
