package suite

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/pawl-dev/pawl"
)

func seed001() []scenario {
	return []scenario{
		{id: "S001-1", run: twentyLines},
		{id: "S001-2", run: nothingAfterTheQuestion},
		{id: "S001-3", run: threeSuperSteps},
		{id: "S001-4", run: severalNodesAtOnce},
		{id: "S001-5", run: aThreadIsTheHistory, flat: "a child begins each run of its parent anew"},
		{id: "S001-6", run: threadIsNoUser},
		{id: "S001-7", run: somebodyElseResumes},
		{id: "S001-8", run: rowAbovePause},
		{id: "S001-9", run: noStorageNoQuestion, flat: "nothing is stored, so nothing inside can be read"},
		{id: "S001-10", run: eachAnswerToItsOwn},
		{id: "S001-11", run: questionAboveAnOpenOne},
		{id: "S001-12", run: snapshotsOfEachMode},
		{id: "S001-13", run: noWayBack},
		{id: "S001-14", run: whenExitSaves, flat: underExit},
		{id: "S001-15", run: whatMemoryKeeps},
		{id: "S001-16", run: childIsOneStep},
		{id: "S001-17", run: childPaused},
		{id: "S001-18", run: whereChildrenLive},
		{id: "S001-19", run: threeKindsOfMemory},
		{id: "S001-20", run: statelessPauses},
		{id: "S001-21", run: backWithAnotherValue},
		{id: "S001-22", run: oneMechanism},
		{id: "S001-23", waits: "the studio; the command line is proven by TestChoicesAreVisible"},
	}
}

func children001() map[string]func([]byte) {
	return map[string]func([]byte){
		"001-approve":  approveChild,
		"001-pause":    pauseChild,
		"001-answer":   answerChild,
		"001-twenty":   twentyChild,
		"001-chain":    chainChild,
		"001-remember": rememberChild,
		"001-mail":     mailChild,
	}
}

// tenfoldState is the state of the seed's chain.
type tenfoldState struct {
	N pawl.Last[int] `json:"n"`
}

// tenfold is START -> a (adds 1) -> b (times 10) -> END. Each entry calls at first.
type tenfold struct {
	at   func(ctx context.Context, node string) error
	a, b []pawl.NodeOption
}

func (c tenfold) builder() *pawl.Builder[tenfoldState] {
	node := func(name string, f func(int) int) func(context.Context, *tenfoldState) error {
		return func(ctx context.Context, s *tenfoldState) error {
			if c.at != nil {
				if err := c.at(ctx, name); err != nil {
					return err
				}
			}
			s.N.Set(f(s.N.Get()))
			return nil
		}
	}
	return pawl.New[tenfoldState]("chain").
		Node("a", node("a", func(n int) int { return n + 1 }), c.a...).
		Node("b", node("b", func(n int) int { return n * 10 }), c.b...).
		Path(pawl.Start, "a", "b", pawl.End)
}

// counted is a chain whose entries are rows of a ledger.
func counted(l *ledger) tenfold {
	return tenfold{at: func(_ context.Context, node string) error { l.add(node); return nil }}
}

func tenfoldOf(v int) *tenfoldState { return &tenfoldState{N: pawl.Of(v)} }

// entriesAB says how often a and b were entered.
func entriesAB(l *ledger) [2]int { return [2]int{l.count("a"), l.count("b")} }

// decision is the state of the approving graph.
type approveState struct {
	Decision pawl.Last[string] `json:"decision"`
}

var shipIt = pawl.Interrupt[string, string]{Name: "ship"}

// approveGraph is the seed's first program: one node prints, asks, prints. With inStep its first print is a step.
func approveGraph(say func(string), inStep bool) *pawl.Builder[approveState] {
	return pawl.New[approveState]("approve").Node("approve", func(ctx context.Context, s *approveState) error {
		if inStep {
			_, err := pawl.Step(ctx, "enter", func(context.Context) (bool, error) { say("approve node entered"); return true, nil })
			if err != nil {
				return err
			}
		} else {
			say("approve node entered")
		}
		answer, err := shipIt.Ask(ctx, "Ship it?")
		if err != nil {
			return err
		}
		say(fmt.Sprintf("resumed with '%s'", answer))
		s.Decision.Set(answer)
		return nil
	}, pawl.Uses(shipIt)).Edge(pawl.Start, "approve")
}

// historyTable writes a history as the seed's table does: step, values, next, source; the newest first.
func historyTable(h []*pawl.Snapshot) []string {
	var out []string
	for _, s := range h {
		out = append(out, fmt.Sprintf("%d %s %v %s", s.Step, s.Values, s.Next, s.Source))
	}
	return out
}

// parentsBelow fails unless each snapshot's parent is the one below it.
func parentsBelow(t testing.TB, h []*pawl.Snapshot) {
	t.Helper()
	for i, s := range h {
		below := ""
		if i+1 < len(h) {
			below = h[i+1].Checkpoint
		}
		if s.Parent != below {
			t.Errorf("step %d: parent is %q, want the row below it, %q", s.Step, s.Parent, below)
		}
	}
}

func sameList(t testing.TB, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n got %q\nwant %q", what, got, want)
	}
}

// threadDump is all that a reader sees of a thread, as text: what a refusal must leave as it was.
func threadDump(t testing.TB, th *pawl.Thread) string {
	t.Helper()
	doc, err := json.Marshal([]any{statusOf(t, th), history(t, th)})
	if err != nil {
		t.Fatal(err)
	}
	return string(doc)
}

// mustBeDone fails unless a run ended well; it returns the outcome's values.
func mustBeDone[S any](t testing.TB, out *pawl.OutcomeOf[S], err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if out.Status != pawl.Done || len(out.Waiting) != 0 || len(out.Next) != 0 {
		t.Fatalf("status %s, waiting for %v, next %v, want done", out.Status, out.Waiting, out.Next)
	}
	return string(out.Values)
}

// mustWait fails unless a run waits for precisely these names; it returns the questions.
func mustWait[S any](t testing.TB, out *pawl.OutcomeOf[S], err error, names ...string) []pawl.Question {
	t.Helper()
	if err != nil {
		t.Fatalf("waiting is an outcome and no error: %v", err)
	}
	var have []string
	for _, q := range out.Waiting {
		have = append(have, askedAs(q))
	}
	if out.Status != pawl.Waiting || !slices.Equal(have, names) {
		t.Fatalf("status %s, waiting for %v, want waiting for %v", out.Status, have, names)
	}
	return out.Waiting
}

func askedAs(q pawl.Question) string {
	if q.Key != "" {
		return q.Name + "/" + q.Key
	}
	return q.Name
}
