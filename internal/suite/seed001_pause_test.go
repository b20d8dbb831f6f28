package suite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/memdb"
	"github.com/pawl-dev/pawl/sqlite"
	"github.com/pawl-dev/pawl/storage"
)

type approveArgs struct {
	Path string // empty: memory
	Step bool
}

// approveChild is the whole program: run, then answer yes.
func approveChild(doc []byte) {
	a := args[approveArgs](doc)
	var db storage.DB
	if a.Path == "" {
		db = must(memdb.Open(pawl.Kinds()...))
	} else {
		db = must(sqlite.Open(a.Path, pawl.Kinds()...))
	}
	eng := must(pawl.NewEngine(db, nil))
	th := atDepthHere(approveGraph(func(line string) { fmt.Println(line) }, a.Step)).Thread(eng, "t1")
	out := must(th.Run(context.Background(), &approveState{}))
	must(th.Resume(context.Background(), shipIt.Answer(out.Waiting[0].ID, "yes")))
	must(0, errors.Join(eng.Close(), db.Close()))
}

func twentyLines(t *testing.T, _ *report) {
	plain := "approve node entered\napprove node entered\nresumed with 'yes'"
	stepped := "approve node entered\nresumed with 'yes'"
	for _, c := range []struct {
		name string
		args approveArgs
		want string
	}{
		{"memory", approveArgs{}, plain},
		{"sqlite", approveArgs{Path: filepath.Join(t.TempDir(), "plain.db")}, plain},
		{"memory, in a step", approveArgs{Step: true}, stepped},
		{"sqlite, in a step", approveArgs{Path: filepath.Join(t.TempDir(), "step.db"), Step: true}, stepped},
	} {
		t.Run(c.name, func(t *testing.T) { same(t, "standard output", spawn(t, "001-approve", c.args).wait(t), c.want) })
	}
	t.Run("examples", func(t *testing.T) {
		example, err := filepath.Abs("../../examples/approve")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(example, "main.go")); err != nil {
			t.Skip("waits: examples/approve/main.go is not there")
		}
		dir := t.TempDir()
		binary := filepath.Join(dir, "approve")
		compile := exec.Command("go", "build", "-o", binary, ".")
		compile.Dir = example
		if out, err := compile.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		cmd := exec.Command(binary)
		cmd.Dir, cmd.Env = dir, []string{} // no key of any service
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		same(t, "standard output", string(out), plain+"\n")
	})
}

// spoken collects what a node says.
type spoken struct {
	mu    sync.Mutex
	lines []string
}

func (s *spoken) say(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = append(s.lines, line)
}

func (s *spoken) all() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string{}, s.lines...)
}

func nothingAfterTheQuestion(t *testing.T, _ *report) {
	onEach(t, func(t *testing.T, h *home) {
		var said spoken
		g := atDepth(t, approveGraph(said.say, false))
		th := g.Thread(engine(t, h.open(t), nil, g), "t1")
		out, err := th.Run(t.Context(), &approveState{Decision: pawl.Of("")})
		q := mustWait(t, out, err, "ship")
		same(t, "question", string(q[0].Body), `"Ship it?"`)
		same(t, "state at the pause", string(out.Values), `{"decision":""}`)
		sameList(t, "next", out.Next, []string{"approve"})
		sameList(t, "said at the pause", said.all(), []string{"approve node entered"})
		before, at := history(t, th), statusOf(t, th)
		if len(at.Waiting) != 1 || at.Waiting[0].ID != q[0].ID || at.Status != pawl.Waiting {
			t.Errorf("the thread reads %s, waiting for %v", at.Status, at.Waiting)
		}

		out, err = th.Resume(t.Context(), shipIt.Answer(q[0].ID, "yes"))
		same(t, "state after the answer", mustBeDone(t, out, err), `{"decision":"yes"}`)
		same(t, "decision", out.State.Decision.Get(), "yes")
		sameList(t, "said", said.all(), []string{"approve node entered", "approve node entered", "resumed with 'yes'"})
		after := statusOf(t, th)
		if len(after.Waiting) != 0 || after.Status != pawl.Done {
			t.Errorf("the thread reads %s, waiting for %v", after.Status, after.Waiting)
		}
		grew(t, before, history(t, th))
		settled(t, after)
	})
}

func noStorageNoQuestion(t *testing.T, _ *report) {
	eng := engine(t, nil, nil)
	l := newLedger(t)
	out, err := atDepth(t, counted(l).builder()).Thread(eng, "chain").Run(t.Context(), tenfoldOf(1))
	same(t, "chain", mustBeDone(t, out, err), `{"n":20}`)
	same(t, "entries", entriesAB(l), [2]int{1, 1})

	var said spoken
	th := atDepth(t, approveGraph(said.say, false)).Thread(eng, "t1")
	missing := func(what string, err error, names ...string) {
		t.Helper()
		if e := (*pawl.NoStorageError)(nil); !errors.As(err, &e) {
			t.Errorf("%s: got %v, want a *NoStorageError", what, err)
			return
		}
		for _, name := range append(names, "no storage", "sqlite.Open") {
			if !strings.Contains(err.Error(), name) {
				t.Errorf("%s: %q does not name %q", what, err, name)
			}
		}
	}
	asked, err := th.Run(t.Context(), &approveState{})
	missing("first call", err, `graph "approve"`, `node "approve"`, `"ship"`)
	if asked == nil || asked.Status != pawl.Failed || len(asked.Waiting) != 0 {
		t.Errorf("first call: got %+v, want a failure with nothing pending", asked)
	}
	sameList(t, "said", said.all(), []string{"approve node entered"})
	_, err = eng.Answer(t.Context(), "q1", "yes")
	missing("Engine.Answer", err)
	_, err = th.Answer(t.Context(), "", "yes")
	missing("Thread.Answer", err, `graph "approve"`)
	_, err = th.Resume(t.Context(), shipIt.Answer("", "yes"))
	missing("Resume", err, `graph "approve"`)
	sameList(t, "said in all", said.all(), []string{"approve node entered"})
	if open, err := eng.Questions(t.Context(), 10); err != nil || len(open) != 0 {
		t.Errorf("questions: %v, %v", open, err)
	}
}

// pair is the state of the node that asks twice.
type pairState struct {
	A pawl.Last[string] `json:"a"`
	B pawl.Last[string] `json:"b"`
}

var (
	askFirst  = pawl.Interrupt[string, string]{Name: "first"}
	askSecond = pawl.Interrupt[string, string]{Name: "second"}
)

func pairGraph(l *ledger) *pawl.Builder[pairState] {
	return pawl.New[pairState]("pair").Node("two_questions", func(ctx context.Context, s *pairState) error {
		l.add("top")
		a, err := askFirst.Ask(ctx, "q1")
		if err != nil {
			return err
		}
		l.add("between")
		b, err := askSecond.Ask(ctx, "q2")
		if err != nil {
			return err
		}
		l.add("after")
		s.A.Set(a)
		s.B.Set(b)
		return nil
	}, pawl.Uses(askFirst, askSecond)).Edge(pawl.Start, "two_questions")
}

func eachAnswerToItsOwn(t *testing.T, _ *report) {
	onEach(t, func(t *testing.T, h *home) {
		l := newLedger(t)
		g := atDepth(t, pairGraph(l))
		eng := engine(t, h.open(t), nil, g)
		th := g.Thread(eng, "t1")
		out, err := th.Run(t.Context(), &pairState{})
		q1 := mustWait(t, out, err, "first")[0]
		same(t, "q1", string(q1.Body), `"q1"`)
		before := history(t, th)
		count := func(want ...int) {
			t.Helper()
			same(t, "top, between, after", fmt.Sprint(l.count("top"), l.count("between"), l.count("after")), strings.Trim(fmt.Sprint(want), "[]"))
		}
		count(1, 0, 0)

		// q2's id follows from its place alone, so it can be known before q2 was asked.
		task := before[0].Tasks[0].ID
		early := core.ID("question", core.Address{Task: task, Kind: "ask", Name: "second"}.ID(), "1")
		standing := threadDump(t, th.Thread)
		if _, err := eng.Answer(t.Context(), early, "B"); !errors.Is(err, pawl.ErrNotFound) {
			t.Errorf("q2 answered before it was asked: %v, want not found", err)
		}
		if _, err := th.Resume(t.Context(), askSecond.Answer(early, "B")); !errors.Is(err, pawl.ErrNotFound) {
			t.Errorf("resumed with q2's answer before it was asked: %v, want not found", err)
		}
		same(t, "the thread after the refusals", threadDump(t, th.Thread), standing)
		for range 2 {
			out, err = th.Resume(t.Context())
			same(t, "open question", mustWait(t, out, err, "first")[0].ID, q1.ID)
			same(t, "the thread after a resume without an answer", threadDump(t, th.Thread), standing)
		}
		count(1, 0, 0)

		out, err = th.Resume(t.Context(), askFirst.Answer(q1.ID, "A"))
		q2 := mustWait(t, out, err, "second")[0]
		same(t, "q2's id", q2.ID, early)
		same(t, "q2", string(q2.Body), `"q2"`)
		count(2, 1, 0)
		standing = threadDump(t, th.Thread)
		if _, err := eng.Answer(t.Context(), q1.ID, "B"); !errors.Is(err, pawl.ErrAnswered) {
			t.Errorf("q1 answered again with another value: %v, want answered", err)
		}
		if _, err := th.Resume(t.Context(), askFirst.Answer(q1.ID, "B")); !errors.Is(err, pawl.ErrAnswered) {
			t.Errorf("resumed with another answer to q1: %v, want answered", err)
		}
		v, err := eng.Answer(t.Context(), q1.ID, "A")
		if err != nil || !v.Already || !v.Taken {
			t.Errorf("the same answer to q1 again: %+v, %v, want already taken", v, err)
		}
		out, err = th.Resume(t.Context(), askFirst.Answer(q1.ID, "A"))
		same(t, "open question", mustWait(t, out, err, "second")[0].ID, q2.ID)
		for range 2 {
			out, err = th.Resume(t.Context())
			mustWait(t, out, err, "second")
		}
		same(t, "the thread after the refusals", threadDump(t, th.Thread), standing)
		count(2, 1, 0)

		out, err = th.Resume(t.Context(), askSecond.Answer(q2.ID, "B"))
		same(t, "state", mustBeDone(t, out, err), `{"a":"A","b":"B"}`)
		count(3, 2, 1)
		grew(t, before, history(t, th))
		settled(t, statusOf(t, th))
	})
}
