package pawl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/memdb"
)

// world is what lies outside of the graph: it counts what steps did and is repaired by people.
type world struct {
	mu        sync.Mutex
	calls     map[string]int
	up, fixed bool
}

func newWorld() *world { return &world{calls: map[string]int{}} }

func (w *world) call(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls[name]++
}

func (w *world) is(what *bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return *what
}

func (w *world) set(what *bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	*what = true
}

// tour is the state of the scenario.
type tour struct {
	Stops Last[[]int]         `json:"stops"`
	Seen  Append[string]      `json:"seen"`
	Total Sum[int64]          `json:"total"`
	Said  Map[string, string] `json:"said"`
	Pick  Last[string]        `json:"pick"`
	Flash Ephemeral[string]   `json:"flash"`
}

var guide = Interrupt[string, string]{Name: "guide"}

// tourGraph has a fan-out of workers with steps, questions in two parallel nodes (one asks two at once), joins, a node
// that fails until somebody repairs the world, and two nodes that write what takes one writer.
func tourGraph(t *testing.T, w *world) *Graph[tour] {
	t.Helper()
	work := func(ctx context.Context, name, key string) (string, error) {
		return Step(ctx, name, func(context.Context) (string, error) { w.call(name + "/" + key); return name + " of " + key, nil }, Key(key))
	}
	visit := NewWorker("visit", func(ctx context.Context, s *tour, stop int) error {
		got, err := work(ctx, "visit", fmt.Sprint(stop))
		if err != nil {
			return err
		}
		s.Seen.Add(got)
		s.Total.Add(int64(stop))
		return nil
	})
	left := func(ctx context.Context, s *tour) error {
		if _, err := work(ctx, "prepare", "left"); err != nil {
			return err
		}
		answer, err := guide.Ask(ctx, "left?")
		if err != nil {
			return err
		}
		s.Said.Set("left", answer)
		_, err = work(ctx, "book", answer)
		return err
	}
	right := func(ctx context.Context, s *tour) error {
		var one, two string
		err := All(ctx,
			func(ctx context.Context) (err error) { one, err = guide.Ask(ctx, "one?", Key("1")); return err },
			func(ctx context.Context) (err error) {
				if _, err := work(ctx, "prepare", "right"); err != nil {
					return err
				}
				two, err = guide.Ask(ctx, "two?", Key("2"))
				return err
			})
		if err != nil {
			return err
		}
		s.Said.Set("one", one)
		s.Said.Set("two", two)
		s.Flash.Set("both")
		return nil
	}
	pick := func(who string) func(context.Context, *tour) error {
		return func(ctx context.Context, s *tour) error {
			if _, err := work(ctx, "pick", who); err != nil {
				return err
			}
			if who == "a" || !w.is(&w.fixed) {
				s.Pick.Set(who)
			}
			s.Seen.Add(who)
			return nil
		}
	}
	flaky := func(ctx context.Context, s *tour) error {
		if _, err := work(ctx, "climb", "flaky"); err != nil {
			return err
		}
		if !w.is(&w.up) {
			return errors.New("the world is down")
		}
		s.Seen.Add("flaky")
		return nil
	}
	end := func(_ context.Context, s *tour) error {
		s.Seen.Add(fmt.Sprintf("%d visits, %q picked", s.Total.Get(), s.Pick.Get()))
		return nil
	}
	none := func(context.Context, *tour) error { return nil }
	return mustBuild(t, New[tour]("tour").
		Node("plan", none).Node("left", left, Uses(guide)).Node("right", right, Uses(guide)).Node("gather", none).
		Node("a", pick("a")).Node("b", pick("b")).Node("flaky", flaky).Node("end", end).Add(visit).
		Edge(Start, "plan").
		Route("plan", func(s *tour) []Next { return append(To("left", "right"), visit.Each(s.Stops.Get())...) }, "left", "right", "visit").
		Join([]string{"left", "right"}, "gather").Edge("gather", "a").Edge("gather", "b").Edge("gather", "flaky").
		Join([]string{"a", "b", "flaky"}, "end"))
}

// onEngine runs the tour on the engine's own host, as a program does.
func onEngine(t *testing.T, mode Durability) (values string, w *world) {
	t.Helper()
	ctx := context.Background()
	db, err := memdb.Open(Kinds()...)
	if err != nil {
		t.Fatal(err)
	}
	eng, err := NewEngine(db, &Options{Durability: mode})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = eng.Close() }()
	w = newWorld()
	th := tourGraph(t, w).Thread(eng, "t")
	out, err := th.Run(ctx, &tour{Stops: Of([]int{3, 1, 2})})
	for range 10 {
		switch {
		case out == nil:
			t.Fatal(err)
		case out.Status == Done:
			return string(out.Values), w
		case out.Status == Waiting:
			for _, q := range out.Waiting {
				if _, err := eng.Answer(ctx, q.ID, "yes, "+string(q.Body)); err != nil {
					t.Fatal(err)
				}
			}
			out, err = th.Resume(ctx)
		case out.Cause == CauseConflict:
			w.set(&w.fixed)
			out, err = th.Resume(ctx, Again("b"))
		default:
			w.set(&w.up)
			out, err = th.Resume(ctx)
		}
	}
	t.Fatalf("the tour does not end: %+v, %v", out, err)
	return "", nil
}

// onJournal goes on with the tour from whatever the journal holds, until it is done or the journal dies.
func onJournal(t *testing.T, j *journal, w *world) (values string, err error) {
	t.Helper()
	ctx := context.Background()
	eng, err := NewEngine(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = eng.Close() }()
	g := tourGraph(t, w)
	th, d := eng.Thread(g.Name(), "t"), g.erased()
	for range 20 {
		pos, err := j.Own(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if pos.Run == nil {
			run := &core.Run{N: 1, ID: "run", AttemptN: 1, Status: Running, Mode: Sync, Graphs: []string{g.Digest()},
				Input: []core.Write{{Channel: "stops", Op: core.OpSet, Data: []byte("[3,1,2]")}}}
			if err := j.Accept(ctx, run, th.start(ctx, d, j.Fresh, run, nil, nil)); err != nil {
				return "", err
			}
			continue
		}
		if pos.Run.Status == Done {
			doc, err := d.(jsonDef).encode(pos.Head.Values)
			return string(doc), err
		}
		stop, _, err := th.newLoop(d, pos, j, &runConfig{}).run(ctx)
		if err != nil {
			return "", err
		}
		if err := j.people(w, stop); err != nil {
			return "", err
		}
	}
	return "", errors.New("the tour does not end")
}

// people do what a stopped tour needs.
func (j *journal) people(w *world, stop *core.Stop) error {
	pos, err := j.Own(context.Background())
	if err != nil {
		return err
	}
	switch {
	case stop.Status == Waiting:
		for _, task := range slices.Sorted(maps.Keys(pos.Questions)) {
			for _, q := range pos.Questions[task] {
				if q.State != core.QuestionOpen {
					continue
				}
				answer, _ := json.Marshal("yes, " + string(q.Body))
				if _, err := j.append(event{Question: q.ID, State: core.QuestionAnswered, Answer: answer}); err != nil {
					return err
				}
			}
		}
	case stop.Cause == CauseConflict:
		w.set(&w.fixed)
		_, err = j.append(event{Again: "b"})
	case stop.Status == Failed:
		w.set(&w.up)
	}
	return err
}

// recorded are the steps whose results the journal holds.
func (j *journal) recorded(t testing.TB) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	for _, line := range j.lines {
		var e event
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatal(err)
		}
		if e.Step != nil {
			out[e.Step.Name+"/"+e.Step.Key] = true
		}
	}
	return out
}

// stops are the ways in which the run stopped, in order.
func (j *journal) stops(t testing.TB) (out []string) {
	t.Helper()
	for _, line := range j.lines {
		var e event
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatal(err)
		}
		switch {
		case e.Stop != nil && e.Stop.Status == Failed:
			out = append(out, "failed: "+string(e.Stop.Cause))
		case e.Stop != nil:
			out = append(out, string(e.Stop.Status))
		}
	}
	return out
}

// ordered fails if an entry names a checkpoint that no entry before it made.
func (j *journal) ordered(t testing.TB) {
	t.Helper()
	there := map[int64]bool{}
	for i, line := range j.lines {
		var e event
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatal(err)
		}
		var names []int64
		for _, n := range e.Ended {
			names = append(names, n.Checkpoint)
		}
		if e.Step != nil {
			names = append(names, e.Step.Checkpoint)
		}
		if e.Ask != nil {
			names = append(names, e.Ask.Checkpoint)
		}
		for _, n := range names {
			if !there[n] {
				t.Fatalf("entry %d names checkpoint %d before it was journaled: %s", i, n, line)
			}
		}
		for _, cp := range append(e.Start, e.Next) {
			if cp != nil {
				there[cp.N] = true
			}
		}
	}
}

// The loop keeps its promises on a host that shares nothing with the local one: the seam for workflow engines.
func TestTheLoopOnAJournal(t *testing.T) {
	t.Parallel()
	want, known := onEngine(t, Sync)
	once := func(what string, calls map[string]int) {
		t.Helper()
		for name, n := range calls {
			if n != 1 {
				t.Errorf("%s: step %s was called %d times", what, name, n)
			}
		}
		if len(calls) != 9 {
			t.Errorf("%s: %d steps were called, want 9: %v", what, len(calls), calls)
		}
	}
	once("on the engine", known.calls)
	if end := `{"stops":[3,1,2],"seen":["visit of 3","visit of 1","visit of 2","a","b","flaky","6 visits, \"a\" picked"],"total":6,` +
		`"said":{"left":"yes, \"left?\"","one":"yes, \"one?\"","two":"yes, \"two?\""},"pick":"a"}`; want != end {
		t.Fatalf("the tour ends as\n%s\nwant\n%s", want, end)
	}
	w, j := newWorld(), &journal{room: -1}
	got, err := onJournal(t, j, w)
	if err != nil || got != want {
		t.Fatalf("on a journal the tour ends as\n%s, %v\non the engine as\n%s", got, err, want)
	}
	once("on a journal", w.calls)
	j.ordered(t)
	if stops := j.stops(t); !slices.Equal(stops, []string{"waiting", "failed: error", "failed: conflict", "done"}) {
		t.Fatalf("the tour stopped as %v", stops)
	}
	if len(j.lines) < 25 {
		t.Fatalf("the journal has only %d entries", len(j.lines))
	}
	for n := range len(j.lines) + 1 {
		t.Run(fmt.Sprintf("cut to %d entries", n), func(t *testing.T) {
			t.Parallel()
			w := newWorld() // it is broken again, too
			after(t, &journal{room: -1, lines: slices.Clone(j.lines[:n])}, w, want)
		})
		t.Run(fmt.Sprintf("dead after %d entries", n), func(t *testing.T) {
			t.Parallel()
			w := newWorld()
			dying := &journal{room: n}
			if _, err := onJournal(t, dying, w); err != nil && !errors.Is(err, errNoLife) {
				t.Fatalf("the loop tells of the death as %v", err)
			}
			w.calls = map[string]int{}
			after(t, &journal{room: -1, lines: dying.lines}, w, want)
		})
	}
}

// after is the next life: it ends as all others do, and calls nothing again whose result is journaled.
func after(t *testing.T, j *journal, w *world, want string) {
	t.Helper()
	before := j.recorded(t)
	got, err := onJournal(t, j, w)
	if err != nil || got != want {
		t.Fatalf("the next life ends as\n%s, %v\nwant\n%s", got, err, want)
	}
	for name, n := range w.calls {
		if before[name] || n > 1 {
			t.Errorf("step %s was called %d times in the next life; journaled before: %v", name, n, before[name])
		}
	}
	if len(w.calls)+len(before) != 9 {
		t.Errorf("%d steps were journaled and %d called; want 9 in all", len(before), len(w.calls))
	}
	j.ordered(t)
}

// Every mode of the engine ends the tour in the same state.
func TestTheTourInEveryMode(t *testing.T) {
	t.Parallel()
	want, _ := onEngine(t, Sync)
	for _, mode := range []Durability{Async, Exit} {
		got, w := onEngine(t, mode)
		if got != want {
			t.Errorf("%s ends as\n%s\nand sync as\n%s", mode, got, want)
		}
		for name, n := range w.calls {
			if n != 1 {
				t.Errorf("%s: step %s was called %d times", mode, name, n)
			}
		}
	}
}
