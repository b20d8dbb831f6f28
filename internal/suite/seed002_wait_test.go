package suite

import (
	"context"
	"fmt"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/draw"
)

const halfYear = 180 * 24 * time.Hour

// longWait asks for a yes that may take a year: a deadline is what would tempt an engine to keep a timer.
func longWait(l *ledger) *pawl.Builder[found] {
	in := pawl.Interrupt[string, string]{Name: "sign", Expires: 2 * halfYear}
	return pawl.New[found]("long").Node("sign", func(ctx context.Context, s *found) error {
		l.add("entry")
		if _, err := pawl.Step(ctx, "draft", func(context.Context) (int, error) { l.add("step"); return 1, nil }); err != nil {
			return err
		}
		answer, err := in.Ask(ctx, "Sign it?")
		if err == nil {
			s.Used.Add(answer)
		}
		return err
	}, pawl.Uses(in)).Edge(pawl.Start, "sign")
}

func waitingCostsNothing(t *testing.T, _ *report) {
	t.Run("180 days", func(t *testing.T) {
		for _, kind := range []func(testing.TB) *home{memory, onDisk} {
			synctest.Test(t, func(t *testing.T) { waitHalfAYear(t, kind(t)) })
		}
	})
	t.Run("two processes", waitBetweenProcesses)
	t.Run("10,000 threads", func(t *testing.T) {
		t.Run("memory", func(t *testing.T) { synctest.Test(t, manyInMemory) })
		t.Run("sqlite", manyOnDisk)
	})
}

// waitHalfAYear lets two engines, one after the other, serve one home, and watches that nothing lives between them.
func waitHalfAYear(t *testing.T, h *home) {
	l := newLedger(t)
	g, ctx, alone := atDepth(t, longWait(l)), context.Background(), bubbled()
	db := h.open(t)
	eng := engine(t, db, nil, g)
	out, err := start(eng.Thread("long", "t1"))
	asked := paused(t, out, err, 1)[0]
	before := history(t, eng.Thread("long", "t1"))
	eng.Close()
	if h.path != "" {
		db.Close()
	}
	synctest.Wait()
	same(t, "goroutines while it waits", bubbled(), alone)
	<-time.After(halfYear)
	same(t, "goroutines after 180 days", bubbled(), alone)
	tally(t, l, map[string]int{"entry": 1, "step": 1})

	eng = engine(t, h.open(t), nil, g)
	th := eng.Thread("long", "t1")
	list, err := eng.Questions(ctx, 10)
	if err != nil || len(list) != 1 || list[0].ID != asked.ID || !list[0].Asked.Equal(asked.Asked) {
		t.Fatalf("questions %v, error %v", list, err)
	}
	if waited := time.Since(list[0].Asked); waited < halfYear {
		t.Errorf("it waited for %v only", waited)
	}
	if v, err := eng.Answer(ctx, asked.ID, "yes"); err != nil || !v.Taken {
		t.Fatalf("verdict %v, error %v", v, err)
	}
	out, err = resume(th)
	finished(t, out, err, `{"used":["yes"]}`)
	tally(t, l, map[string]int{"entry": 2, "step": 1})
	atEnd(t, th, before)
}

// waitBetweenProcesses is the same without the clock: real processes, and no other between them.
func waitBetweenProcesses(t *testing.T) {
	v := visitHome(t, "long")
	first := v
	first.Run = true
	saw := first.pay(t)
	same(t, "status", saw.Status, pawl.Waiting)
	same(t, "open questions", len(saw.Open), 1)
	tally(t, &ledger{v.Ledger}, map[string]int{"entry": 1, "step": 1})
	v.Answer, v.Resume = []string{saw.Open[0], "yes"}, true
	same(t, "the second process", v.pay(t), visited{Status: pawl.Done, Values: `{"used":["yes"]}`})
	tally(t, &ledger{v.Ledger}, map[string]int{"entry": 2, "step": 1})
}

func manyInMemory(t *testing.T) {
	n := times(t, 10_000)
	l := &tallyless{}
	g, ctx, h := atDepth(t, l.graph()), context.Background(), memory(t)
	eng := engine(t, h.open(t), nil, g)
	before := bubbled()
	for i := range n {
		if out, err := start(eng.Thread("many", threadName(i))); err != nil || out.Status != pawl.Waiting {
			t.Fatalf("%+v, %v", out, err)
		}
	}
	<-time.After(time.Second) // the one watcher of all runs sees that nothing runs any more
	synctest.Wait()
	same(t, "goroutines that came with the waiting threads", bubbled()-before, 0)
	<-time.After(halfYear)
	same(t, "goroutines after 180 days", bubbled()-before, 0)
	checkMany(t, eng, l, n)
	if out, err := eng.Thread("many", threadName(17)).Resume(ctx, pawl.AnswerWith("", "yes")); err != nil || out.Status != pawl.Done {
		t.Fatalf("%+v, %v", out, err)
	}
}

func manyOnDisk(t *testing.T) {
	h, n := onDisk(t), times(t, 10_000)
	same(t, "goroutines that came with the waiting threads", spawn(t, "002-many", waitingHome{h.path, n}).wait(t), "0")
	l := &tallyless{entries: n}
	eng := engine(t, h.open(t), nil, atDepth(t, l.graph()))
	checkMany(t, eng, l, n)
	if out, err := eng.Thread("many", threadName(17)).Resume(t.Context(), pawl.AnswerWith("", "yes")); err != nil || out.Status != pawl.Done {
		t.Fatalf("%+v, %v", out, err)
	}
	same(t, "entries", l.entries, n+1)
}

// waitingHome is how many threads wait in a home. A child says less of it by itself: it can be built without the detector.
type waitingHome struct {
	Path    string
	Threads int
}

// manyChild makes so many waiting threads and prints how many goroutines they cost.
func manyChild(doc []byte) {
	in := args[waitingHome](doc)
	eng := childEngine(in.Path, nil)
	l := &tallyless{}
	must(0, eng.Register(atDepthHere(l.graph())))
	must(start(eng.Thread("many", "first"))) // whatever the home starts for its first run is there now
	must(0, eng.Thread("many", "first").Cancel(context.Background(), "it only warmed up"))
	before := quiet(0)
	var wg sync.WaitGroup
	for w := range 50 {
		wg.Go(func() {
			for i := w; i < in.Threads; i += 50 {
				must(start(eng.Thread("many", threadName(i))))
			}
		})
	}
	wg.Wait()
	fmt.Println(quiet(before) - before)
	must(0, eng.Close())
}

// quiet waits until the process has no more goroutines than wanted, or the same number for a while.
func quiet(wanted int) int {
	n := runtime.NumGoroutine()
	for still := 0; still < 20 && n > wanted; {
		<-time.After(10 * time.Millisecond)
		if now := runtime.NumGoroutine(); now == n {
			still++
		} else {
			n, still = now, 0
		}
	}
	return n
}

func threadName(i int) string { return fmt.Sprintf("t%05d", i) }

// checkMany reads that all threads wait.
func checkMany(t *testing.T, eng *pawl.Engine, l *tallyless, n int) {
	t.Helper()
	open, err := eng.Questions(context.Background(), 2*n)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "open questions", len(open), n)
	same(t, "entries", l.entries, n)
}

// tallyless counts entries without a file, for many.
type tallyless struct {
	mu      sync.Mutex
	entries int
}

func (l *tallyless) graph() *pawl.Builder[found] {
	in := pawl.Interrupt[string, string]{Name: "sign", Expires: 2 * halfYear}
	return pawl.New[found]("many").Node("sign", func(ctx context.Context, s *found) error {
		l.mu.Lock()
		l.entries++
		l.mu.Unlock()
		_, err := in.Ask(ctx, "Sign it?")
		return err
	}, pawl.Uses(in)).Edge(pawl.Start, "sign")
}

var bubbleNumber = regexp.MustCompile(`synctest bubble (\d+)\]`)

// bubbled counts the goroutines of the caller's bubble.
func bubbled() int {
	head := make([]byte, 256)
	mine := bubbleNumber.FindStringSubmatch(string(head[:runtime.Stack(head, false)]))
	if mine == nil {
		panic("not in a bubble")
	}
	all := make([]byte, 8<<20)
	n, _ := strconv.Atoi(mine[1])
	return strings.Count(string(all[:runtime.Stack(all, true)]), fmt.Sprintf("synctest bubble %d]", n))
}

// questionOnly is a graph whose middle is only a question: there is no node function around it.
func questionOnly(l *ledger) *pawl.Builder[found] {
	question := func(s *found) string { l.add("question"); return "After " + s.Used.At(0) + "?" }
	decided := func(s *found, answer string) error { l.add("decided"); s.Used.Add(answer); return nil }
	return pawl.New[found]("question").
		Node("work", func(_ context.Context, s *found) error { l.add("work"); s.Used.Add("work"); return nil }).
		Add(pawl.AskNode(say, question, decided)).
		Path(pawl.Start, "work", "say")
}

func onlyAQuestion(t *testing.T, _ *report) {
	once := func() map[string]int { return map[string]int{"work": 1, "question": 1, "decided": 1} }
	const end = `{"used":["work","yes"]}`
	for name, restart := range map[string]bool{"in one engine": false, "over a restart": true} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, h *home) {
				l := newLedger(t)
				g := atDepth(t, questionOnly(l))
				eng := engine(t, h.open(t), nil, g)
				out, err := start(eng.Thread("question", "t1"))
				q := paused(t, out, err, 1)[0]
				same(t, "question", string(q.Body), `"After work?"`)
				before := history(t, eng.Thread("question", "t1"))
				tally(t, l, map[string]int{"work": 1, "question": 1})
				if restart {
					eng.Close()
					eng = engine(t, h.open(t), nil, g)
				}
				th := eng.Thread("question", "t1")
				out, err = resume(th, q.ID, "yes")
				finished(t, out, err, end)
				tally(t, l, once())
				atEnd(t, th, before)
			})
		})
	}
	t.Run("two processes", func(t *testing.T) {
		v := visitHome(t, "question")
		first := v
		first.Run = true
		v.Answer, v.Resume = []string{first.pay(t).Open[0], "yes"}, true
		same(t, "the second process", v.pay(t), visited{Status: pawl.Done, Values: end})
		tally(t, &ledger{v.Ledger}, once())
	})
	t.Run("drawn", func(t *testing.T) {
		g := build(t, questionOnly(newLedger(t)))
		doc, err := g.JSON()
		if err != nil {
			t.Fatal(err)
		}
		picture, err := draw.Of(g, 0)
		if err != nil {
			t.Fatal(err)
		}
		for drawn, in := range map[string]string{
			`n_say{{"say"}}`: picture.Mermaid(), `n_work["work"]`: picture.Mermaid(), `"kind": "ask"`: string(doc),
		} {
			if strings.Count(in, drawn) != 1 {
				t.Errorf("%s is not drawn once in\n%s", drawn, in)
			}
		}
	})
}
