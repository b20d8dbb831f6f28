package suite

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/nest"
	"github.com/pawl-dev/pawl/sqlite"
	"github.com/pawl-dev/pawl/storage"
)

// mortal is a program of several graphs whose process dies at one of its lines. Its ledger has a row for each line that
// was reached: "a.enter", "a.call" inside a step, "a.done" after it, "a.end".
type mortalProgram struct {
	Path, Ledger string
	Graph        string
	Mode         pawl.Durability
	Durable      bool   // all nodes are
	Kill         string // the line, when it is reached for the first time
	Answer       string // resume with it; empty: run

	kept *keptRows
}

type mortalState struct {
	Log   pawl.Append[string] `json:"log"`
	Calls pawl.Sum[int]       `json:"calls"`
}

var gate = pawl.Interrupt[string, string]{Name: "gate"}

func (p *mortalProgram) at(line string) {
	l := &ledger{p.Ledger}
	l.add(line)
	if line == p.Kill && l.count(line) == 1 {
		killSelf()
	}
}

// step is a recorded call between its two lines.
func (p *mortalProgram) step(ctx context.Context, node string) (string, error) {
	v, err := pawl.Step(ctx, "call "+node, func(context.Context) (string, error) {
		p.at(node + ".call")
		return "called " + node, nil
	})
	if err == nil {
		p.at(node + ".done")
	}
	return v, err
}

// plain is a node with one recorded call.
func (p *mortalProgram) plain(node string) func(context.Context, *mortalState) error {
	return func(ctx context.Context, s *mortalState) error {
		p.at(node + ".enter")
		v, err := p.step(ctx, node)
		if err != nil {
			return err
		}
		s.Log.Add(v)
		s.Calls.Add(1)
		p.at(node + ".end")
		return nil
	}
}

// asking is a node with a recorded call, a question, another call and another question.
func (p *mortalProgram) asking(ctx context.Context, s *mortalState) error {
	p.at("q.enter")
	for _, round := range []string{"q1", "q2"} {
		v, err := p.step(ctx, round)
		if err != nil {
			return err
		}
		yes, err := gate.Ask(ctx, "after "+v, pawl.Key(round))
		if err != nil {
			return err
		}
		p.at(round + ".answered")
		s.Log.Add(v + ": " + yes)
	}
	p.at("q.end")
	return nil
}

// last waits, in its first process, until what its siblings did is on disk, and dies.
func (p *mortalProgram) last(_ context.Context, s *mortalState) error {
	if p.kept != nil {
		p.kept.wait("ended", 2)
	}
	p.at("last.enter")
	s.Log.Add("last")
	return nil
}

func (p *mortalProgram) build(at nest.Level) (*nest.Graph[mortalState], error) {
	var options []pawl.NodeOption
	if p.Durable {
		options = append(options, pawl.Durable())
	}
	b := pawl.New[mortalState](p.Graph)
	switch p.Graph {
	case "line":
		b.Node("a", p.plain("a"), options...).Node("b", p.plain("b"), options...).Node("c", p.plain("c"), options...).
			Path(pawl.Start, "a", "b", "c")
	case "questions":
		b.Node("a", p.plain("a"), options...).Node("q", p.asking, append(options, pawl.Uses(gate))...).Node("c", p.plain("c"), options...).
			Path(pawl.Start, "a", "q", "c")
	case "siblings":
		b.Node("l", p.plain("l"), options...).Node("m", p.plain("m"), options...).Node("last", p.last).Node("c", p.plain("c"), options...).
			Edge(pawl.Start, "l").Edge(pawl.Start, "m").Edge(pawl.Start, "last").Join([]string{"l", "m", "last"}, "c")
	default:
		return nil, errors.New("no graph " + p.Graph)
	}
	return atLevel(at, b)
}

// keptRows counts rows of a kind that are on disk.
type keptRows struct {
	storage.DB
	mu   sync.Mutex
	cond *sync.Cond
	kept map[string]int
}

func keepCount(db storage.DB) *keptRows {
	k := &keptRows{DB: db, kept: map[string]int{}}
	k.cond = sync.NewCond(&k.mu)
	return k
}

func (k *keptRows) Update(ctx context.Context, fn func(context.Context, storage.Tx) error) error {
	var now map[string]int
	err := k.DB.Update(ctx, func(ctx context.Context, tx storage.Tx) error {
		now = map[string]int{}
		return fn(ctx, &countingPuts{tx, now})
	})
	if err == nil {
		k.mu.Lock()
		for kind, n := range now {
			k.kept[kind] += n
		}
		k.cond.Broadcast()
		k.mu.Unlock()
	}
	return err
}

func (k *keptRows) wait(kind string, n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for k.kept[kind] < n {
		k.cond.Wait()
	}
}

type countingPuts struct {
	storage.Tx
	n map[string]int
}

func (c *countingPuts) Put(kind string, row storage.Row, cond storage.If) (bool, error) {
	c.n[kind]++
	return c.Tx.Put(kind, row, cond)
}

func mortalChild(doc []byte) {
	p := args[mortalProgram](doc)
	home := keepCount(must(sqlite.Open(p.Path, pawl.Kinds()...)))
	if p.Graph == "siblings" && p.Kill != "" && (p.Mode == pawl.Sync || p.Durable) {
		p.kept = home
	}
	eng := must(pawl.NewEngine(home, nil))
	th := must(p.build(levelHere())).Thread(eng, "t")
	out := must(p.move(th))
	fmt.Println(out.Status, string(out.Values))
	must(0, eng.Close())
}

func (p *mortalProgram) move(th *nest.Thread[mortalState]) (*pawl.OutcomeOf[mortalState], error) {
	if p.Answer == "" {
		return th.Run(context.Background(), &mortalState{}, pawl.WithDurability(p.Mode))
	}
	return th.Resume(context.Background(), pawl.AnswerWith("", p.Answer))
}

// end drives a thread to its end, answering what is open, and returns the values and how many answers it took.
func (p *mortalProgram) end(t *testing.T, th *nest.Thread[mortalState]) (values string, answers int) {
	t.Helper()
	for range 9 {
		s := statusOf(t, th)
		var err error
		switch {
		case s.Status == pawl.StatusNew:
			_, err = th.Run(context.Background(), &mortalState{}, pawl.WithDurability(p.Mode))
		case s.Status == pawl.Done:
			return string(s.Head.Values), answers
		case len(s.Waiting) > 0 && s.Status == pawl.Waiting:
			answers++
			_, err = th.Resume(context.Background(), pawl.AnswerWith(s.Waiting[0].ID, "yes"))
		default:
			_, err = th.Resume(context.Background())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Fatalf("the run does not come to its end: %s", statusOf(t, th).Status)
	return
}

// finishedWorkIsKept is P1: a process dies at each line of several graphs in each mode. What was finished before is not
// done again; the end is that of a run which nobody disturbed.
func finishedWorkIsKept(t *testing.T, _ *report) {
	lines := map[string][]string{
		"line":      {"a.enter", "a.call", "a.done", "a.end", "b.enter", "b.call", "b.done", "c.enter", "c.end"},
		"questions": {"a.end", "q.enter", "q1.call", "q1.done", "q1.answered", "q2.call", "q2.done", "q2.answered", "q.end", "c.done"},
		"siblings":  {"last.enter", "c.enter", "c.call", "c.done"},
	}
	for graph, kills := range lines {
		for _, mode := range []struct {
			name    string
			mode    pawl.Durability
			durable bool
		}{
			{"sync", pawl.Sync, false}, {"async", pawl.Async, false}, {"exit", pawl.Exit, false},
			{"async and durable nodes", pawl.Async, true}, {"exit and durable nodes", pawl.Exit, true},
		} {
			for _, kill := range kills {
				t.Run(graph+"/"+mode.name+"/"+kill, func(t *testing.T) {
					t.Parallel()
					p := mortalProgram{Graph: graph, Mode: mode.mode, Durable: mode.durable, Kill: kill}
					t.Log(three(t, func(t *testing.T) string { return dieOnce(t, p) }))
				})
			}
		}
	}
}

// dieOnce lets processes run a thread until one dies, and checks what the next one finds and does.
func dieOnce(t *testing.T, p mortalProgram) string {
	p.Path, p.Ledger = onDisk(t).path, newLedger(t).path
	l := &ledger{p.Ledger}
	answered := 0
	for died := false; !died; {
		c := spawn(t, "promise-mortal", p)
		line := c.line()
		c.cmd.Wait()
		if died = line == ""; died {
			break
		}
		if !strings.HasPrefix(line, "waiting") || answered == 2 {
			t.Fatalf("the process ended with %q and never came to %q", line, p.Kill)
		}
		p.Answer = "yes"
		answered++ // by the next process
	}
	before := l.rows()
	if before[len(before)-1] != p.Kill {
		t.Logf("rows after the death's: %v", before) // of a sibling
	}
	p.Kill, p.kept = "", nil
	g, err := p.build(levelFor(t))
	if err != nil {
		t.Fatal(err)
	}
	th := g.Thread(engine(t, openFile(t, p.Path), nil, g), "t")
	s := statusOf(t, th)
	if s.Status != pawl.Crashed || !s.Input {
		t.Errorf("after the death the thread is %s, input %v", s.Status, s.Input)
	}
	old := history(t, th)
	values, answers := p.end(t, th)
	grew(t, old, history(t, th))

	undisturbed := mortalProgram{Graph: p.Graph, Ledger: newLedger(t).path, Mode: p.Mode}
	ug, err := undisturbed.build(levelFor(t))
	if err != nil {
		t.Fatal(err)
	}
	want, questions := undisturbed.end(t, ug.Thread(engine(t, memory(t).open(t), nil, ug), "t"))
	same(t, "state at the end", values, want)
	same(t, "answers in all", answered+answers, questions)
	p.notRepeated(t, before, l.rows()[len(before):])
	settled(t, statusOf(t, th))
	return values
}

// notRepeated compares what was finished before the death with what was done after it.
func (p *mortalProgram) notRepeated(t *testing.T, before, after []string) {
	t.Helper()
	had := func(rows []string, line string) bool {
		for _, r := range rows {
			if r == line {
				return true
			}
		}
		return false
	}
	for _, step := range []string{"a", "b", "c", "l", "m", "q1", "q2"} {
		if had(before, step+".done") && had(after, step+".call") {
			t.Errorf("step %q had returned before the death and was called again: %v then %v", step, before, after)
		}
	}
	finished := map[string][]string{} // by the line that shows it
	switch p.Graph {
	case "line":
		finished["b.enter"], finished["c.enter"] = []string{"a"}, []string{"a", "b"}
	case "questions":
		finished["q.enter"], finished["c.enter"] = []string{"a"}, []string{"a", "q"}
	case "siblings":
		finished["last.enter"], finished["c.enter"] = []string{"l", "m"}, []string{"l", "m", "last"}
	}
	for line, nodes := range finished {
		if !had(before, line) || p.Mode != pawl.Sync && !p.Durable {
			continue
		}
		for _, n := range nodes {
			if had(after, n+".enter") && (n != "last" || p.Mode == pawl.Sync) {
				t.Errorf("node %q had finished before the death and was entered again: %v then %v", n, before, after)
			}
		}
	}
}
