package suite

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/nest"
	"github.com/pawl-dev/pawl/sqlite"
)

type processArgs struct {
	Path   string
	Ledger string
	Name   string // of the process; its entries are rows under it
	Hold   bool   // wait to be killed
	Twenty bool
	Answer string
}

// pauseChild is process A: it runs to the question.
func pauseChild(doc []byte) {
	a := args[processArgs](doc)
	eng := childEngine(a.Path, nil)
	g := atDepthHere(approveGraph(func(line string) { saidBy(a, line) }, false))
	out := must(g.Thread(eng, "t1").Run(context.Background(), &approveState{}))
	fmt.Println(out.Status, out.Waiting[0].Name)
	if a.Hold {
		select {}
	}
	must(0, eng.Close())
}

// saidBy prints what the node prints, and counts its entries under the process's name.
func saidBy(a processArgs, line string) {
	fmt.Println(line)
	if line == "approve node entered" {
		(&ledger{a.Ledger}).add(a.Name)
	}
}

// answerChild is process B: it has the same graph from code of its own, and gives the answer to whatever is open.
func answerChild(doc []byte) {
	a := args[processArgs](doc)
	mine := pawl.Interrupt[string, string]{Name: "ship"}
	g := atDepthHere(pawl.New[approveState]("approve").
		Edge(pawl.Start, "approve").
		Node("approve", func(ctx context.Context, s *approveState) error {
			saidBy(a, "approve node entered")
			yes, err := mine.Ask(ctx, "Ship it?")
			if err == nil {
				s.Decision.Set(yes)
				saidBy(a, "resumed with '"+yes+"'")
			}
			return err
		}, pawl.Uses(mine)))
	resumeChild(a, g, func(th *nest.Thread[approveState]) *pawl.Outcome {
		return &must(th.Resume(context.Background(), pawl.AnswerWith("", a.Answer))).Outcome
	})
}

func resumeChild[S any](a processArgs, g *nest.Graph[S], resume func(*nest.Thread[S]) *pawl.Outcome) {
	db := must(sqlite.Open(a.Path, pawl.Kinds()...))
	eng := must(pawl.NewEngine(db, nil))
	out := resume(g.Thread(eng, "t1"))
	fmt.Println(out.Status, string(out.Values))
	must(0, errors.Join(eng.Close(), db.Close()))
}

var askItem = pawl.Interrupt[int, string]{Name: "item"}

// twenty asks twenty questions in one node.
func twenty(l *ledger, process string) *pawl.Builder[meetState] {
	return pawl.New[meetState]("twenty").Node("list", func(ctx context.Context, s *meetState) error {
		l.add(process)
		for i := range 20 {
			answer, err := askItem.Ask(ctx, i, pawl.Key(fmt.Sprint(i)))
			if err != nil {
				return err
			}
			s.Items.Add(answer)
		}
		return nil
	}, pawl.Uses(askItem)).Edge(pawl.Start, "list")
}

// twentyChild runs the twenty questions' node once: the first process starts it, each later one gives an answer.
func twentyChild(doc []byte) {
	a := args[processArgs](doc)
	g := atDepthHere(twenty(&ledger{a.Ledger}, a.Name))
	resumeChild(a, g, func(th *nest.Thread[meetState]) *pawl.Outcome {
		if a.Answer == "" {
			return &must(th.Run(context.Background(), &meetState{})).Outcome
		}
		return &must(th.Resume(context.Background(), pawl.AnswerWith("", a.Answer))).Outcome
	})
}

func somebodyElseResumes(t *testing.T, _ *report) {
	t.Run("A ends", func(t *testing.T) { answeredByB(t, false) })
	for i := range 3 {
		t.Run(fmt.Sprint("A is killed ", i+1), func(t *testing.T) { answeredByB(t, true) })
	}
	t.Run("twenty", func(t *testing.T) {
		h, l := onDisk(t), newLedger(t)
		a := processArgs{Path: h.path, Ledger: l.path, Name: "0"}
		same(t, "the first process", spawn(t, "001-twenty", a).wait(t), "waiting {}")
		want := `"answer 1"`
		for i := 1; i <= 20; i++ {
			if a.Name, a.Answer = fmt.Sprint(i), fmt.Sprint("answer ", i); i > 1 {
				want += fmt.Sprintf(`,"answer %d"`, i)
			}
			end := "waiting {}"
			if i == 20 {
				end = `done {"items":[` + want + `]}`
			}
			same(t, fmt.Sprint("process ", i), spawn(t, "001-twenty", a).wait(t), end)
		}
		same(t, "entries", len(l.rows()), 21)
		for i := range 21 {
			same(t, fmt.Sprint("entries of process ", i), l.count(fmt.Sprint(i)), 1)
		}
		g := atDepth(t, twenty(l, "reader"))
		th := g.Thread(engine(t, h.open(t), nil, g), "t1")
		same(t, "snapshots", len(history(t, th)), 3)
		settled(t, statusOf(t, th))
	})
}

func answeredByB(t *testing.T, killed bool) {
	h, l := onDisk(t), newLedger(t)
	a := spawn(t, "001-pause", processArgs{Path: h.path, Ledger: l.path, Name: "A", Hold: killed})
	same(t, "A says", a.line(), "approve node entered")
	same(t, "A ends as", a.line(), "waiting ship")
	if killed {
		a.kill()
	} else {
		same(t, "A says after that", a.wait(t), "")
	}
	g := atDepth(t, approveGraph(func(string) {}, false))
	th := g.Thread(engine(t, h.open(t), nil, g), "t1")
	before, s := history(t, th), statusOf(t, th)
	same(t, "status between", fmt.Sprintf("%s %d", s.Status, len(s.Waiting)), "waiting 1")

	b := spawn(t, "001-answer", processArgs{Path: h.path, Ledger: l.path, Name: "B", Answer: "yes"})
	same(t, "B says", b.wait(t), "approve node entered\nresumed with 'yes'\n"+`done {"decision":"yes"}`)
	same(t, "entries of A and B", fmt.Sprint(l.count("A"), l.count("B"), len(l.rows())), "1 1 2")
	grew(t, before, history(t, th))
	settled(t, statusOf(t, th))
}
