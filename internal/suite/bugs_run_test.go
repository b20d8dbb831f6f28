package suite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/effect"
	"github.com/pawl-dev/pawl/internal/records"
	"github.com/pawl-dev/pawl/pawltest"
	"github.com/pawl-dev/pawl/storage"
	"github.com/pawl-dev/pawl/storage/fault"
)

// bugsRun are those of running, failing and going on.
func bugsRun() []scenario {
	return []scenario{
		{id: "029", run: each(rebuiltFromTheLog)},
		{id: "035", run: each(handledBesideOthers)},
		{id: "037", run: closedCalls},
		{id: "038", run: each(drawnOnce)},
		{id: "053", run: each(recoveryBesideStarts)},
		{id: "057", run: orphansAreListed},
		{id: "059", run: each(hangingStepIsNoWait, hangingEffectIsSettled)},
		{id: "060", run: cancelledInRetries},
		{id: "061", run: slowWritesAreNotSilence},
		{id: "130", run: each(reloadedEachStep)},
		{id: "134", run: whoHasIt},
		{id: "137", run: each(gotoBesideAnEdge)},
		{id: "138", run: each(branchesBesideAWait)},
		{id: "168", run: each(triedAgainOnRequest)},
		{id: "171", run: each(pausedFromOutside)},
	}
}

// answersWork is a node that asks, and calls out in between.
func answersWork(world func(name string) string) *pawl.Graph[mortalState] {
	node := func(name string) func(context.Context, *mortalState) error {
		return func(ctx context.Context, s *mortalState) error {
			for _, key := range []string{"1", "2"} {
				got, err := pawl.Step(ctx, "call", func(context.Context) (string, error) { return world(name + key), nil }, pawl.Key(key))
				if err != nil {
					return err
				}
				answer, err := gate.Ask(ctx, got+"?", pawl.Key(key))
				if err != nil {
					return err
				}
				s.Log.Add(got, answer)
			}
			return nil
		}
	}
	return must(pawl.New[mortalState]("log").Node("a", node("a"), pawl.Uses(gate)).Node("b", node("b"), pawl.Uses(gate)).
		Path(pawl.Start, "a", "b").Build())
}

// rebuiltFromTheLog is 029: input, answers and results of calls, as the thread's facts hold them, make the same run again
// on an empty home, with no world to call and nobody to ask.
func rebuiltFromTheLog(t *testing.T, h *home) {
	db := h.open(t)
	g := answersWork(func(name string) string { return name + " " + uuid.NewString() })
	th := g.Thread(engine(t, db, nil, g), "t")
	out, err := th.Run(t.Context(), &mortalState{Log: pawl.List("input"), Calls: pawl.Total(3)})
	for range 4 {
		q := mustWaitFor(t, out, err, 1)[0]
		out, err = th.Resume(t.Context(), gate.Answer(q.ID, uuid.NewString()))
	}
	want := mustBeDone(t, out, err)
	input, results, answers := map[string]json.RawMessage{}, map[string]string{}, map[string]json.RawMessage{}
	err = db.View(t.Context(), func(_ context.Context, tx storage.Tx) error {
		info, err := records.Box{}.FindThread(tx, "", "t")
		if err != nil {
			return err
		}
		facts, err := records.NewReader(records.Box{}, tx, info).Facts(0)
		for _, f := range facts {
			switch {
			case f.Step != nil:
				results[f.Step.Node+f.Step.Key] = args[string](f.Step.Result)
			case f.Question != nil:
				answers[f.Question.Node+f.Question.Key] = f.Question.Answer
			case f.Checkpoint == nil:
				for _, w := range f.Run.Input {
					input[w.Channel] = w.Data
				}
			}
		}
		return err
	})
	if err != nil || len(results) != 4 || len(answers) != 4 {
		t.Fatalf("the log: %v, %v, %v", results, answers, err)
	}
	empty := memory(t)
	again := answersWork(func(name string) string { return results[name] })
	rebuilt := again.Thread(engine(t, empty.open(t), nil, again), "t")
	first := history(t, th)
	raw, err := rebuilt.Thread.Run(t.Context(), first[len(first)-2].Values)
	for range 4 {
		if err != nil || len(raw.Waiting) != 1 {
			t.Fatal(raw, err)
		}
		q := raw.Waiting[0]
		raw, err = rebuilt.Thread.Resume(t.Context(), pawl.AnswerWith(q.ID, answers[q.Node+q.Key]))
	}
	if err != nil || string(raw.Values) != want || len(input) == 0 {
		t.Errorf("rebuilt: %+v, %v; want %s", raw, err, want)
	}
	sameList(t, "history", historyTable(history(t, rebuilt)), historyTable(first))
}

// handledBesideOthers is 035: a failure that its handler takes is taken, alone and beside two others.
func handledBesideOthers(t *testing.T, h *home) {
	for others := range 3 {
		l := newLedger(t)
		b := pawl.New[mortalState](fmt.Sprint("beside ", others)).Node("fails", func(context.Context, *mortalState) error {
			l.add("fails")
			return errors.New("no luck")
		}, pawl.OnError(func(_ context.Context, s *mortalState, err error) error {
			l.add("handled")
			s.Log.Add("handled")
			return nil
		})).Node("after", notes(l, "after")).Edge(pawl.Start, "fails").Edge("fails", "after")
		for i := range others {
			name := fmt.Sprint("other", i)
			b.Node(name, notes(l, name)).Edge(pawl.Start, name).Edge(name, "after")
		}
		g := build(t, b)
		out, err := g.Thread(engine(t, h.open(t), nil, g), fmt.Sprint(others)).Run(t.Context(), &mortalState{})
		same(t, "state", mustBeDone(t, out, err), values(append(append([]string{"handled"}, []string{"other0", "other1"}[:others]...), "after")...))
		want := map[string]int{"fails": 1, "handled": 1, "after": 1}
		for i := range others {
			want[fmt.Sprint("other", i)] = 1
		}
		tally(t, l, want)
	}
}

// drawnOnce is 038: a loop draws a number and waits in each pass. What is drawn in a step is drawn once, whichever
// process enters the node how often; code that draws outside of one is told so.
func drawnOnce(t *testing.T, h *home) {
	drawn := 0
	g := func() *pawl.Graph[mortalState] {
		return build(t, pawl.New[mortalState]("loop").Node("a", func(ctx context.Context, s *mortalState) error {
			for i := range 3 {
				key := pawl.Key(fmt.Sprint(i))
				n, err := pawl.Step(ctx, "draw", func(context.Context) (int64, error) { drawn++; return rand.Int64(), nil }, key)
				if err != nil {
					return err
				}
				at, err := pawl.Step(ctx, "now", func(context.Context) (time.Time, error) { return time.Now(), nil }, key)
				if err != nil {
					return err
				}
				if _, err := gate.Ask(ctx, fmt.Sprint(n, " at ", at.UTC().Format(time.RFC3339Nano)), key); err != nil {
					return err
				}
				s.Log.Add(fmt.Sprint(n, " at ", at.UTC().Format(time.RFC3339Nano)))
			}
			return nil
		}, pawl.Uses(gate)).Edge(pawl.Start, "a"))
	}
	var asked []string
	strict := func() *pawl.ThreadOf[mortalState] {
		return g().Thread(engine(t, h.open(t), &pawl.Options{Strict: true}), "t")
	}
	out, err := strict().Run(t.Context(), &mortalState{})
	for range 3 {
		q := mustWaitFor(t, out, err, 1)[0]
		asked = append(asked, args[string](q.Body))
		if _, err := strict().Resume(t.Context()); err != nil { // nothing to go on with
			t.Fatal(err)
		}
		out, err = strict().Resume(t.Context(), gate.Answer(q.ID, "yes"))
	}
	same(t, "state", mustBeDone(t, out, err), values(asked...))
	same(t, "drawn", drawn, 3)

	bad := build(t, pawl.New[mortalState]("drifts").Node("a", func(ctx context.Context, s *mortalState) error {
		_, err := gate.Ask(ctx, fmt.Sprint(rand.Int64()))
		return err
	}, pawl.Uses(gate)).Edge(pawl.Start, "a"))
	th := bad.Thread(engine(t, h.open(t), &pawl.Options{Strict: true}), "drifts")
	out, err = th.Run(t.Context(), &mortalState{})
	_, err = th.Resume(t.Context(), gate.Answer(mustWaitFor(t, out, err, 1)[0].ID, "yes"))
	drift := (*pawl.DriftError)(nil)
	if !errors.As(err, &drift) {
		t.Fatalf("a number drawn outside a step: %v", err)
	}
	says(t, err.Error(), `"a"`, "gate")
}

// recoveryBesideStarts is 053: while threads are started, the same process takes up all that seem left behind. What it has
// started itself is none of these.
func recoveryBesideStarts(t *testing.T, h *home) {
	runs := map[string]int{"memory": 300, "sqlite": 60}[h.name]
	l := newLedger(t)
	g := build(t, pawl.New[mortalState]("g").Node("a", notes(l, "a")).Node("b", notes(l, "b")).Path(pawl.Start, "a", "b"))
	eng := engine(t, h.open(t), nil, g)
	over := make(chan struct{})
	var scan, starts sync.WaitGroup
	for range 2 {
		scan.Go(func() {
			for ended := false; !ended; {
				select {
				case <-over:
					ended = true
				default:
				}
				threads, err := eng.Threads(t.Context(), "", 0)
				if err != nil {
					t.Error(err)
				}
				for _, i := range threads {
					if i.Status == pawl.Done {
						continue
					}
					if i.Status == pawl.Crashed {
						t.Errorf("thread %s, which runs here, is shown as crashed", i.Thread)
					}
					if _, err := g.Thread(eng, i.Thread).Resume(t.Context()); err != nil && !errors.Is(err, pawl.ErrBusy) {
						t.Error(err)
					}
				}
			}
		})
	}
	for i := range runs {
		starts.Go(func() {
			out, err := g.Thread(eng, fmt.Sprint(i)).Run(t.Context(), &mortalState{})
			mustBeDone(t, out, err)
		})
	}
	starts.Wait()
	close(over)
	scan.Wait()
	tally(t, l, map[string]int{"a": runs, "b": runs})
}

// orphansAreListed is 057: a process is killed between two nodes. Its run is listed for what it is, blocks nobody, and is
// taken up by whoever resumes it.
func orphansAreListed(t *testing.T, _ *report) {
	h := onDisk(t)
	c := spawn(t, "bug-block", h.path)
	same(t, "the child", c.line(), "inside")
	c.kill()
	g := build(t, blocking(func() {}))
	eng := engine(t, h.open(t), &pawl.Options{Concurrency: 1}, g)
	out, err := g.Thread(eng, "behind").Run(t.Context(), &mortalState{})
	mustBeDone(t, out, err)
	s := statusOf(t, g.Thread(eng, "t"))
	if s.Status != pawl.Crashed || s.Owner != "" || !slices.Contains(s.Legal, pawl.VerbResume) || !slices.Equal(s.Head.Next, []string{"b"}) {
		t.Errorf("the orphan: %+v", s)
	}
	code, told, talk := typedAs("", h.path, "doctor", "-v")
	says(t, told, "1 crashed", "1 done")
	same(t, "doctor", fmt.Sprint(code, talk), "0")
	code, told, talk = typedAs("", h.path, "threads", "list", "--status", "crashed")
	says(t, fmt.Sprint(code, told, talk), "t", "crashed")
	out, err = g.Thread(eng, "t").Resume(t.Context())
	same(t, "state", mustBeDone(t, out, err), values("a", "b"))
	_, told, _ = typedAs("", h.path, "threads", "list", "--status", "crashed", "-o", "json")
	same(t, "crashed now", strings.Contains(told, `"t"`), false)
}

// hangingStepIsNoWait is 059: a call hangs and its node is given up. The run has failed: it does not wait for anybody, and
// can be gone on with, retried or cancelled.
func hangingStepIsNoWait(t *testing.T, h *home) {
	hangs := true
	g := build(t, pawl.New[mortalState]("hangs").Node("a", func(ctx context.Context, s *mortalState) error {
		v, err := pawl.Step(ctx, "call", func(ctx context.Context) (string, error) {
			if hangs {
				<-ctx.Done()
				return "", context.Cause(ctx)
			}
			return "answered", nil
		})
		s.Log.Add(v)
		return err
	}, pawl.IdleTimeout(20*time.Millisecond)).Edge(pawl.Start, "a"))
	th := g.Thread(engine(t, h.open(t), nil, g), "t")
	_, err := th.Run(t.Context(), &mortalState{})
	idle := (*pawl.TimeoutError)(nil)
	if !errors.As(err, &idle) || !idle.Idle {
		t.Fatal(err)
	}
	s := statusOf(t, th)
	same(t, "status", fmt.Sprint(s.Status, len(s.Waiting)), "failed0")
	for _, verb := range []pawl.Verb{pawl.VerbResume, pawl.VerbRetry, pawl.VerbCancel, pawl.VerbFork} {
		same(t, string(verb), slices.Contains(s.Legal, verb), true)
	}
	hangs = false
	out, err := th.Resume(t.Context())
	same(t, "state", mustBeDone(t, out, err), values("answered"))
}

// hangingEffectIsSettled is 059 for an outside action: its outcome is unknown, and a person says what it was.
func hangingEffectIsSettled(t *testing.T, h *home) {
	o := firmAs(t, h, effect.Options{})
	e := effect.New("hangs", func(ctx context.Context, _ effect.Op, _ string) (string, error) {
		<-ctx.Done()
		return "", context.Cause(ctx)
	}).Timeout(20 * time.Millisecond)
	g := build(t, pawl.New[mortalState]("effect").Node("a", func(ctx context.Context, s *mortalState) error {
		receipt, err := e.Do(ctx, effect.Ref("order", "7"), "x")
		s.Log.Add(receipt)
		return err
	}, pawl.Uses(e)).Edge(pawl.Start, "a"))
	th := g.Thread(o.eng, "effect")
	out, err := th.Run(t.Context(), &mortalState{})
	same(t, "waits for", mustWaitFor(t, out, err, 1)[0].Kind, "doubt")
	if _, err := o.effects.Release(actor("ops"), o.operation(t).Key, effect.Applied("receipt"), "seen on the statement"); err != nil {
		t.Fatal(err)
	}
	out, err = th.Resume(t.Context())
	same(t, "state", mustBeDone(t, out, err), values("receipt"))
}

// cancelledInRetries is 060: a thousand runs are cancelled while they pause between tries, half of them by another process.
// None is tried again.
func cancelledInRetries(t *testing.T, _ *report) {
	for _, path := range []string{"", newFile(t)} {
		synctest.Test(t, func(t *testing.T) {
			h, runs := moneyHome(t, path), 1000
			if path != "" {
				runs = 100
			}
			var mu sync.Mutex
			tries := 0
			g := func() *pawl.Graph[mortalState] {
				return build(t, pawl.New[mortalState]("g").Node("a", func(context.Context, *mortalState) error {
					mu.Lock()
					defer mu.Unlock()
					tries++
					return errors.New("no luck")
				}, pawl.Tries(1000), pawl.Backoff(time.Minute, time.Minute)).Edge(pawl.Start, "a"))
			}
			here, there := engine(t, h.open(t), nil, g()), engine(t, h.open(t), nil, g())
			var all sync.WaitGroup
			for i := range runs {
				all.Go(func() {
					out, err := here.Thread("g", fmt.Sprint(i)).Run(t.Context(), []byte(`{}`))
					if out == nil || out.Status != pawl.Cancelled || err == nil {
						t.Errorf("run %d: %+v, %v", i, out, err)
					}
				})
			}
			later(150 * time.Second) // in the pause after the third try
			var cancels sync.WaitGroup
			for i := range runs {
				cancels.Go(func() {
					if err := []*pawl.Engine{here, there}[i%2].Thread("", fmt.Sprint(i)).Cancel(t.Context(), "enough"); err != nil {
						t.Error(err)
					}
				})
			}
			cancels.Wait()
			all.Wait()
			mu.Lock()
			had := tries
			mu.Unlock()
			later(24 * time.Hour)
			same(t, "tries after the cancelling", tries, had)
			same(t, "tries", had, 3*runs)
		})
	}
}

// slowWritesAreNotSilence is 061: each write takes a second, and a node may be silent for half of one.
func slowWritesAreNotSilence(t *testing.T, _ *report) {
	for _, path := range []string{"", newFile(t)} {
		synctest.Test(t, func(t *testing.T) {
			h := moneyHome(t, path)
			slow := fault.Wrap(h.open(t), fault.Plan{Delay: time.Second})
			o, err := openFirm(slow, path, "1")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { o.eng.Close() })
			target := pawltest.NewTarget(pawltest.TargetOpaque)
			e := wire(target)
			g := build(t, pawl.New[mortalState]("g").Node("a", func(ctx context.Context, s *mortalState) error {
				for _, name := range []string{"1", "2", "3"} {
					if _, err := pawl.Step(ctx, name, func(context.Context) (int, error) { return 0, nil }); err != nil {
						return err
					}
				}
				if _, err := payRef(ctx, e, "7"); err != nil {
					return err
				}
				return ctx.Err()
			}, pawl.Uses(e), pawl.IdleTimeout(500*time.Millisecond)).Edge(pawl.Start, "a"))
			out, err := g.Thread(o.eng, "t").Run(t.Context(), &mortalState{})
			mustBeDone(t, out, err)
			saw(t, target, 1, 0, 1)
		})
	}
}
