package suite

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
)

// seed002: who waits, what runs again, who is told.
func seed002() []scenario {
	return []scenario{
		{id: "S002-1", run: whatRunsAgain},
		{id: "S002-2", run: waitingCostsNothing},
		{id: "S002-3", run: payBeforeAndAfter},
		{id: "S002-4", run: twoQuestionsAtOnce},
		{id: "S002-5", run: twoDecisionsTwoNodes},
		{id: "S002-6", run: branchesAsk},
		{id: "S002-7", run: severalQuestionsInside},
		{id: "S002-8", run: callsAsk},
		{id: "S002-9", run: landsWhereItWasGiven},
		{id: "S002-10", run: nothingByPosition},
		{id: "S002-11", run: howFarUp},
		{id: "S002-12", run: verdicts},
		{id: "S002-13", run: takenMeansStored},
		{id: "S002-14", run: onlyAQuestion},
		{id: "S002-15", run: agentWithTwoExits},
		{id: "S002-16", run: func(t *testing.T, r *report) {
			t.Run("approval", func(t *testing.T) { nobodyAnswers(t, r) })
			t.Run("question", func(t *testing.T) { plainQuestionExpires(t, r) })
		}},
		{id: "S002-17", run: monthsLater},
		{id: "S002-18", waits: "compensations of effects (later)"},
		{id: "S002-19", waits: "temporal"},
		{id: "S002-20", waits: "temporal"},
		{id: "S002-21", waits: "temporal"},
		{id: "S002-22", waits: "temporal"},
		{id: "S002-23", waits: "temporal"},
		{id: "S002-24", waits: "temporal"},
		{id: "S002-25", waits: "temporal"},
		{id: "S002-26", waits: "temporal, effects"},
	}
}

func children002() map[string]func([]byte) {
	return map[string]func([]byte){"002-visit": visitChild, "002-many": manyChild, "002-rush": rushChild, "002-give": giveChild, "002-desk": deskChild}
}

// found is what the nodes of these scenarios write: answers and results by name, and a list that shows a value used
// twice.
type found struct {
	Got  pawl.Map[string, string] `json:"got"`
	Used pawl.Append[string]      `json:"used"`
}

// say is a question without a rule.
var say = pawl.Interrupt[string, string]{Name: "say"}

// asNodes is a line of nodes that all ask say with the same body, and keep the answer under their own name.
func asNodes(l *ledger, names ...string) *pawl.Builder[found] {
	b := pawl.New[found]("nodes").Path(append([]string{pawl.Start}, names...)...)
	for _, name := range names {
		b.Node(name, asker(l), pawl.Uses(say))
	}
	return b
}

// asBranches are nodes that all ask at once.
func asBranches(l *ledger, names ...string) *pawl.Builder[found] {
	b := pawl.New[found]("branches")
	for _, name := range names {
		b.Node(name, asker(l), pawl.Uses(say)).Edge(pawl.Start, name)
	}
	return b
}

// asker is one node function for many nodes: only its task's path tells them apart.
func asker(l *ledger) func(context.Context, *found) error {
	return func(ctx context.Context, s *found) error {
		name, _, _ := strings.Cut(innermost(pawl.TaskKey(ctx)), ":")
		l.add(name)
		answer, err := say.Ask(ctx, "Which?")
		if err != nil {
			return err
		}
		s.Got.Set(name, answer)
		s.Used.Add(answer)
		return nil
	}
}

// tally fails unless the ledger has these rows, each as often as said, and no other.
func tally(t testing.TB, l *ledger, want map[string]int) {
	t.Helper()
	got := map[string]int{}
	for _, row := range l.rows() {
		got[row]++
	}
	maps.DeleteFunc(want, func(_ string, n int) bool { return n == 0 })
	same(t, "ledger", got, want)
}

// paused fails the test unless a run waits for so many questions, and returns them.
func paused(t testing.TB, out *pawl.Outcome, err error, questions int) []pawl.Question {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if out.Status != pawl.Waiting || len(out.Waiting) != questions {
		t.Fatalf("status %s with %d questions, want %s with %d", out.Status, len(out.Waiting), pawl.Waiting, questions)
	}
	return out.Waiting
}

// finished fails the test unless a run is done, with these values.
func finished(t testing.TB, out *pawl.Outcome, err error, values string) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if out.Status != pawl.Done || len(out.Waiting) > 0 {
		t.Fatalf("status %s with %d questions, want %s with none", out.Status, len(out.Waiting), pawl.Done)
	}
	same(t, "values", string(out.Values), values)
}

// atEnd checks what every scenario checks at its end.
func atEnd(t testing.TB, th *pawl.Thread, before []*pawl.Snapshot) {
	t.Helper()
	grew(t, before, history(t, th))
	settled(t, statusOf(t, th))
}

// start runs a thread with an empty input.
func start(th *pawl.Thread) (*pawl.Outcome, error) { return th.Run(context.Background(), []byte(`{}`)) }

// resume goes on with answers by question id.
func resume(th *pawl.Thread, answers ...string) (*pawl.Outcome, error) {
	var options []pawl.RunOption
	for i := 0; i < len(answers); i += 2 {
		options = append(options, pawl.AnswerWith(answers[i], answers[i+1]))
	}
	return th.Resume(context.Background(), options...)
}

func ids(qs []pawl.Question) []string {
	var out []string
	for _, q := range qs {
		out = append(out, q.ID)
	}
	return out
}

// visit is what another process does with a thread of a graph in visited, in this order.
type visit struct {
	Path, Ledger, Graph, Thread string

	Run    bool     // starts a run
	Answer []string // question ids, each followed by its answer
	Resume bool     // goes on; the answers come with it
}

// visited is what that process saw at its end.
type visited struct {
	Status pawl.Status
	Open   []string // ids of the open questions of the home
	Keys   []string // theirs
	Values string
}

func (v visit) graphs() map[string]pawl.Registrable {
	l := &ledger{v.Ledger}
	return map[string]pawl.Registrable{
		"branches": atDepthHere(asBranches(l, "a", "b", "c")),
		"calls":    atDepthHere(threeCalls(l, randomOrder)),
		"long":     atDepthHere(longWait(l)),
		"question": atDepthHere(questionOnly(l)),
	}
}

func visitChild(doc []byte) {
	v := args[visit](doc)
	eng := childEngine(v.Path, nil)
	must(0, eng.Register(v.graphs()[v.Graph]))
	ctx, th := context.Background(), eng.Thread(v.Graph, v.Thread)
	if v.Run {
		must(start(th))
	}
	if v.Resume {
		must(resume(th, v.Answer...))
	} else {
		for i := 0; i < len(v.Answer); i += 2 {
			must(eng.Answer(ctx, v.Answer[i], v.Answer[i+1]))
		}
	}
	s := must(th.State(ctx))
	open := must(eng.Questions(ctx, 100))
	saw := visited{Status: s.Status, Open: ids(open), Values: string(s.Head.Values)}
	for _, q := range open {
		saw.Keys = append(saw.Keys, q.Key)
	}
	fmt.Println(compact(saw))
	must(0, eng.Close())
}

// pay makes the visit in a process of its own, which is gone when pay returns what it saw.
func (v visit) pay(t testing.TB) (saw visited) {
	t.Helper()
	said := spawn(t, "002-visit", v).wait(t)
	if err := json.Unmarshal([]byte(said), &saw); err != nil {
		t.Fatalf("the visitor said %q: %v", said, err)
	}
	return saw
}

// visitHome is a file and a ledger for processes that come and go.
func visitHome(t testing.TB, graph string) visit {
	return visit{Path: filepath.Join(t.TempDir(), "pawl.db"), Ledger: newLedger(t).path, Graph: graph, Thread: "t1"}
}

// orders are all permutations of n things.
func orders(n int) [][]int {
	if n == 0 {
		return [][]int{nil}
	}
	var out [][]int
	for _, rest := range orders(n - 1) {
		for at := range n {
			out = append(out, slices.Insert(slices.Clone(rest), at, n-1))
		}
	}
	return out
}
