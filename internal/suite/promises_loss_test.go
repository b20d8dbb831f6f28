package suite

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/nest"
	"github.com/pawl-dev/pawl/storage"
	"github.com/pawl-dev/pawl/storage/fault"
)

// nothingLostSilently is P5: each trouble is an error that names what and where.
func nothingLostSilently(t *testing.T, _ *report) {
	for name, run := range map[string]func(*testing.T, *home){
		"a failed save":                     failedSave,
		"a save of unknown outcome":         unknownSave,
		"an undeclared target":              undeclaredTarget,
		"a goto to no node":                 unknownTarget,
		"a join that can't fire":            joinCannotFire,
		"the step limit":                    stepLimit,
		"the task limit":                    taskLimit,
		"the question limit":                questionLimit,
		"an unreadable value":               unreadableValue,
		"a dropped wait":                    droppedWait,
		"a write inside a step":             writeInStep,
		"a new run beside finished work":    runBesideFinished,
		"a failing task's finished sibling": siblingKept,
	} {
		t.Run(name, func(t *testing.T) { onEach(t, run) })
	}
}

// lineOf is a -> b -> c, each adding its name.
func lineOf(g string) *pawl.Builder[mortalState] {
	node := func(name string) func(context.Context, *mortalState) error {
		return func(ctx context.Context, s *mortalState) error {
			v, err := pawl.Step(ctx, "say", func(context.Context) (string, error) { return name, nil })
			s.Log.Add(v)
			return err
		}
	}
	return pawl.New[mortalState](g).Node("a", node("a")).Node("b", node("b")).Node("c", node("c")).Path(pawl.Start, "a", "b", "c")
}

var errDisk = errors.New("the disk said no")

// failedSave fails each write of a run in turn, in each mode: the run stops with an error, nothing counts as saved that
// is not, and resume comes to the end.
func failedSave(t *testing.T, h *home) { savesGoWrong(t, h, fault.Before) }

// unknownSave fails each write after its commit.
func unknownSave(t *testing.T, h *home) { savesGoWrong(t, h, fault.After) }

func savesGoWrong(t *testing.T, h *home, place fault.Place) {
	ctx := context.Background()
	g := atDepth(t, lineOf("line"))
	home := h.open(t)
	for _, mode := range []pawl.Durability{pawl.Sync, pawl.Async, pawl.Exit} {
		failures := 0
		for call, more := 0, true; more; call++ {
			id := fmt.Sprint(mode, place, call)
			hit := false
			db := fault.Wrap(home, fault.Plan{At: func(p fault.Point) fault.Action {
				if p.Call != call || p.Place != place {
					return fault.Action{}
				}
				hit = true
				return fault.Fail(errDisk)
			}})
			dying, err := pawl.NewEngine(db, nil)
			if err != nil {
				t.Fatal(err)
			}
			out, err := g.Thread(dying, id).Run(ctx, &mortalState{}, pawl.WithDurability(mode))
			more = hit
			dying.Close()
			if err == nil {
				if out.Status != pawl.Done || hit && place == fault.Before && mode == pawl.Sync {
					t.Errorf("%s: the write failed and the run says %s", id, out.Status)
				}
			} else if failures++; !errors.Is(err, errDisk) {
				t.Errorf("%s: the error hides its cause: %v", id, err)
			} else if !strings.Contains(err.Error(), id) {
				t.Errorf("%s: the error does not name the thread: %v", id, err)
			}
			eng := engine(t, home, nil, g)
			th := g.Thread(eng, id)
			s := statusOf(t, th)
			switch s.Status {
			case pawl.Crashed, pawl.Failed:
				_, err = th.Resume(ctx)
			case pawl.StatusNew:
				_, err = th.Run(ctx, &mortalState{}, pawl.WithDurability(mode))
			case pawl.Done:
				err = nil
			default:
				t.Errorf("%s: the thread is %s", id, s.Status)
			}
			if err != nil {
				t.Errorf("%s: going on from %s: %v", id, s.Status, err)
			}
			s = statusOf(t, th)
			if s.Status != pawl.Done || string(s.Head.Values) != `{"log":["a","b","c"]}` {
				t.Errorf("%s: in the end %s with %s", id, s.Status, s.Head.Values)
			}
		}
		if failures == 0 && place == fault.Before {
			t.Errorf("%s: no write was ever refused", mode)
		}
	}
}

// failsWith runs a graph once and checks that the run fails, saying all parts, and that this is stored too.
func failsWith[E error, S any](t *testing.T, h *home, options *pawl.Options, b *pawl.Builder[S], cause pawl.Cause, parts ...string) (E, *nest.Thread[S]) {
	t.Helper()
	g := atDepth(t, b)
	th := g.Thread(engine(t, h.open(t), options, g), "t")
	out, err := th.Run(context.Background(), new(S))
	var typed E
	if !errors.As(err, &typed) {
		t.Fatalf("error %v (%T), want a %T", err, err, typed)
	}
	run := (*pawl.RunError)(nil)
	if !errors.As(err, &run) || run.Thread != "t" || run.Cause != cause {
		t.Errorf("error %v names thread and cause no more", err)
	}
	says(t, err.Error(), parts...)
	same(t, "outcome", [2]string{string(out.Status), string(out.Cause)}, [2]string{"failed", string(cause)})
	s := statusOf(t, th)
	same(t, "stored", [2]string{string(s.Status), string(s.Cause)}, [2]string{"failed", string(cause)})
	says(t, s.Reason, parts[1:]...)
	settled(t, s)
	return typed, th
}

func adds(what string) func(context.Context, *mortalState) error {
	return func(_ context.Context, s *mortalState) error { s.Log.Add(what); return nil }
}

func undeclaredTarget(t *testing.T, h *home) {
	e, th := failsWith[*pawl.UndeclaredTargetError](t, h, nil, pawl.New[mortalState]("g").Node("a", adds("a")).Node("b", adds("b")).Node("c", adds("c")).
		Edge(pawl.Start, "a").Route("a", func(*mortalState) []pawl.Next { return pawl.To("c") }, "b", pawl.End).Edge("b", "c"),
		pawl.CauseError, `"t"`, `"a"`, `"c"`, "nothing was merged", "Route")
	same(t, "names", [2]string{e.Node, e.Target}, [2]string{"a", "c"})
	same(t, "state", string(statusOf(t, th).Head.Values), `{}`)
}

func unknownTarget(t *testing.T, h *home) {
	e, _ := failsWith[*pawl.UndeclaredTargetError](t, h, nil, pawl.New[mortalState]("g").Node("a", adds("a")).Node("b", adds("b")).
		Edge(pawl.Start, "a").Route("a", func(*mortalState) []pawl.Next { return pawl.To("ghost") }, "b", pawl.End),
		pawl.CauseError, `"t"`, `"a"`, `"ghost"`, "nothing was merged")
	same(t, "names", [2]string{e.Node, e.Target}, [2]string{"a", "ghost"})
	if _, err := pawl.New[mortalState]("g").Node("a", adds("a")).Edge(pawl.Start, "a").Edge("a", "ghost").Build(); err == nil {
		t.Error("an edge to no node was built")
	} else {
		says(t, err.Error(), "ghost")
	}
}

func joinCannotFire(t *testing.T, h *home) {
	e, th := failsWith[*pawl.JoinError](t, h, nil, pawl.New[mortalState]("g").Node("a", adds("a")).Node("b", adds("b")).Node("c", adds("c")).Node("end", adds("end")).
		Edge(pawl.Start, "a").Edge(pawl.Start, "c").Route("c", func(*mortalState) []pawl.Next { return pawl.To(pawl.End) }, "b", pawl.End).
		Join([]string{"a", "b"}, "end"), pawl.CauseError, `"t"`, `"end"`, "a arrived", "b never ran", "was not run")
	same(t, "names", fmt.Sprint(e.To, e.Arrived, e.Missing), "end[a] [b]")
	same(t, "what ran is kept", string(statusOf(t, th).Head.Values), `{"log":["a","c"]}`)
}

func stepLimit(t *testing.T, h *home) {
	e, th := failsWith[*pawl.LimitError](t, h, &pawl.Options{Limits: pawl.Limits{Steps: 5}}, pawl.New[loops]("g").
		Node("round", func(_ context.Context, s *loops) error { s.Rounds.Add(1); return nil }).
		Edge(pawl.Start, "round").Route("round", again(8), "round", pawl.End),
		pawl.CauseLimit, `"t"`, "5 steps a run", "nothing beyond it was run")
	same(t, "limit", *e, pawl.LimitError{Limit: "steps a run", Max: 5, Have: 6})
	same(t, "state", string(statusOf(t, th).Head.Values), `{"rounds":5}`)
	out, err := th.Resume(context.Background()) // a person wants more of it
	same(t, "state in the end", mustBeDone(t, out, err), `{"rounds":8}`)
}

func taskLimit(t *testing.T, h *home) {
	ran := newLedger(t)
	w := pawl.NewWorker("w", func(_ context.Context, s *loops, n int) error { ran.add("ran"); s.Rounds.Add(n); return nil })
	e, _ := failsWith[*pawl.LimitError](t, h, &pawl.Options{Limits: pawl.Limits{Tasks: 3}}, pawl.New[loops]("g").Add(w).
		Node("round", func(_ context.Context, s *loops) error { s.Rounds.Add(1); return nil }).
		Edge(pawl.Start, "round").Route("round", func(*loops) []pawl.Next { return w.Each([]int{1, 2, 3, 4}) }, "w"),
		pawl.CauseLimit, `"t"`, "3 tasks a super-step", "4 needed")
	same(t, "limit", *e, pawl.LimitError{Limit: "tasks a super-step", Max: 3, Have: 4})
	same(t, "workers that ran", len(ran.rows()), 0)
}

func questionLimit(t *testing.T, h *home) {
	e, th := failsWith[*pawl.LimitError](t, h, &pawl.Options{Limits: pawl.Limits{Questions: 2}}, pawl.New[mortalState]("g").
		Node("ask", func(ctx context.Context, s *mortalState) error {
			var err error
			for i := range 3 {
				_, err = gate.Ask(ctx, "q", pawl.Key(fmt.Sprint(i)))
			}
			return err
		}, pawl.Uses(gate)).Edge(pawl.Start, "ask"), pawl.CauseError, `"t"`, `"ask"`, `"gate"`, "was not asked", "2 open questions a thread")
	same(t, "limit", *e, pawl.LimitError{Limit: "open questions a thread", Max: 2, Have: 3})
	same(t, "open questions of a failed task", len(statusOf(t, th).Waiting), 0)
}

// damage changes the body of the newest row of a kind.
func damage(t testing.TB, db storage.DB, kind string, change func([]byte) []byte) {
	t.Helper()
	err := db.Update(context.Background(), func(_ context.Context, tx storage.Tx) error {
		rows, err := tx.List(kind, storage.Query{Desc: true, Limit: 1})
		if err != nil {
			return err
		}
		rows[0].Body = change(rows[0].Body)
		_, err = tx.Put(kind, rows[0], storage.Always())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func unreadableValue(t *testing.T, h *home) {
	l := newLedger(t)
	g := atDepth(t, pawl.New[mortalState]("g").Node("a", adds("a")).Node("ask", func(ctx context.Context, s *mortalState) error {
		l.add("entry")
		_, err := gate.Ask(ctx, "?")
		return err
	}, pawl.Uses(gate)).Path(pawl.Start, "a", "ask"))
	db := h.open(t)
	th := g.Thread(engine(t, db, nil, g), "t")
	out, err := th.Run(context.Background(), &mortalState{})
	q := mustWaitFor(t, out, err, 1)[0]
	damage(t, db, "value", func(b []byte) []byte { return b[:len(b)-1] })
	before := everything(t, db)
	_, err = th.Resume(context.Background(), gate.Answer(q.ID, "yes"))
	if err == nil {
		t.Fatal("the run went on from a value that cannot be read")
	}
	says(t, err.Error(), `"t"`, `"log"`, "nothing was run")
	same(t, "entries", len(l.rows()), 1)
	unchanged(t, db, before)
}

// droppedWait hides a wait behind a nil error: the node's writes are discarded, the run waits, and somebody is told.
func droppedWait(t *testing.T, h *home) {
	b := func() *pawl.Builder[mortalState] {
		return pawl.New[mortalState]("g").Node("hides", func(ctx context.Context, s *mortalState) error {
			a, _ := gate.Ask(ctx, "?")
			s.Log.Add("said " + a)
			return nil
		}, pawl.Uses(gate)).Edge(pawl.Start, "hides")
	}
	g := atDepth(t, b())
	db := h.open(t)
	th := g.Thread(engine(t, db, nil, g), "hiding")
	dropped := 0
	var out *pawl.Outcome
	for e, err := range th.Stream(context.Background(), &mortalState{}) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind == pawl.EventDropped && e.Node == "hides" {
			dropped++
		}
		if e.Kind == pawl.EventFinished {
			out = e.Outcome
		}
	}
	same(t, "dropped waits told", dropped, 1)
	same(t, "outcome", fmt.Sprintf("%s %d %s", out.Status, len(out.Waiting), out.Values), "waiting 1 {}")
	end, err := th.Resume(context.Background(), gate.Answer("", "yes"))
	same(t, "state", mustBeDone(t, end, err), `{"log":["said yes"]}`)

	e, _ := failsWith[*pawl.HiddenWaitError](t, h, &pawl.Options{Strict: true}, b(), pawl.CauseError, `"t"`, `"hides"`, "gate", "nothing that it wrote was merged")
	same(t, "names", fmt.Sprint(e.Node, e.Questions), "hides[gate]")
}

func writeInStep(t *testing.T, h *home) {
	_, th := failsWith[*pawl.StateError](t, h, nil, pawl.New[mortalState]("g").Node("a", func(ctx context.Context, s *mortalState) error {
		_, err := pawl.Step(ctx, "call", func(context.Context) (int, error) { s.Log.Add("lost on replay"); return 1, nil })
		return err
	}).Edge(pawl.Start, "a"), pawl.CauseError, `"t"`, `"a"`, `"log"`, "call")
	same(t, "state", string(statusOf(t, th).Head.Values), `{}`)
}

// halfDone fails in one of two nodes that run at once; what the other did is kept but not merged.
func halfDone(t *testing.T, h *home) (*nest.Thread[mortalState], *ledger, *error) {
	t.Helper()
	l, trouble := newLedger(t), errors.New("no luck")
	ended := make(chan struct{}, 9)
	g := atDepth(t, pawl.New[mortalState]("half").
		Node("good", func(_ context.Context, s *mortalState) error {
			defer func() { ended <- struct{}{} }()
			l.add("good")
			s.Log.Add("good")
			return nil
		}).
		Node("bad", func(_ context.Context, s *mortalState) error {
			if l.add("bad"); trouble != nil {
				<-ended
				return trouble
			}
			s.Log.Add("bad")
			return nil
		}).Edge(pawl.Start, "good").Edge(pawl.Start, "bad"))
	th := g.Thread(engine(t, h.open(t), nil, g), "t")
	out, err := th.Run(context.Background(), &mortalState{})
	if !errors.Is(err, trouble) || out.Status != pawl.Failed || out.Node != "bad" {
		t.Fatalf("outcome %+v, error %v", out, err)
	}
	says(t, err.Error(), `"t"`, `"bad"`, "no luck", "what finished is kept", "resume")
	return th, l, &trouble
}

func siblingKept(t *testing.T, h *home) {
	th, l, trouble := halfDone(t, h)
	*trouble = nil
	out, err := th.Resume(context.Background())
	same(t, "state", mustBeDone(t, out, err), `{"log":["bad","good"]}`)
	same(t, "entries of good, bad", [2]int{l.count("good"), l.count("bad")}, [2]int{1, 2})
}

// runBesideFinished starts a new run on a failed thread whose super-step had finished siblings. Their work is not part
// of the new run; it stays readable at the checkpoint that it hangs from.
func runBesideFinished(t *testing.T, h *home) {
	th, l, trouble := halfDone(t, h)
	before, failed := history(t, th), statusOf(t, th).Head
	*trouble = nil
	out, err := th.Run(context.Background(), &mortalState{})
	same(t, "state", mustBeDone(t, out, err), `{"log":["bad","good"]}`)
	same(t, "entries of good, bad", [2]int{l.count("good"), l.count("bad")}, [2]int{2, 2})
	same(t, "left behind, and said so", fmt.Sprint(out.Dropped), "["+levelOf(t).Node("good")+"]")
	grew(t, before, history(t, th))
	old, err := th.Snapshot(context.Background(), failed.Checkpoint)
	if err != nil {
		t.Fatal(err)
	}
	states := map[string]string{}
	for _, task := range old.Tasks {
		states[task.Node] = task.State
	}
	same(t, "tasks of the failed super-step", states, map[string]string{"good": "done", "bad": "failed"})
}
