package suite

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/nest"
)

// threeSteps is the history of the chain run with n = 1, the newest first.
var threeSteps = []string{
	`2 {"n":20} [] loop`,
	`1 {"n":2} [b] loop`,
	`0 {"n":1} [a] loop`,
	`-1 {} [__start__] input`,
}

func threeSuperSteps(t *testing.T, _ *report) {
	onEach(t, func(t *testing.T, h *home) {
		l := newLedger(t)
		g := atDepth(t, counted(l).builder())
		th := g.Thread(engine(t, h.open(t), nil, g), "t1")
		out, err := th.Run(t.Context(), tenfoldOf(1))
		same(t, "result", mustBeDone(t, out, err), `{"n":20}`)
		got := history(t, th)
		sameList(t, "history", historyTable(got), threeSteps)
		parentsBelow(t, got)
		same(t, "entries", entriesAB(l), [2]int{1, 1})
		settled(t, statusOf(t, th))
	})
}

type meetState struct {
	Items pawl.Append[string] `json:"items"`
	Seen  pawl.Last[[]string] `json:"seen"`
}

// meetingPoint is what the nodes of one run meet at: each tells that it is in, and goes on when all are; the later one
// returns only when the engine has taken the earlier one's result.
type meetingPoint struct {
	in    sync.WaitGroup
	later string
	taken chan struct{}
}

func severalNodesAtOnce(t *testing.T, _ *report) {
	onEach(t, func(t *testing.T, h *home) {
		var meeting *meetingPoint
		node := func(name string) func(context.Context, *meetState) error {
			return func(_ context.Context, s *meetState) error {
				b := meeting
				b.in.Done()
				b.in.Wait()
				if name == b.later {
					<-b.taken
				}
				s.Items.Add("from " + name)
				return nil
			}
		}
		g := atDepth(t, pawl.New[meetState]("meet").
			Node("a", node("a")).Node("b", node("b")).
			Node("c", func(_ context.Context, s *meetState) error {
				var seen []string
				for _, item := range s.Items.All() {
					seen = append(seen, item)
				}
				s.Seen.Set(seen)
				return nil
			}).
			Edge(pawl.Start, "a").Edge(pawl.Start, "b").Join([]string{"a", "b"}, "c"))
		eng := engine(t, h.open(t), nil, g)
		order := rand.New(rand.NewPCG(1, 4))
		firsts := map[string]int{}
		for i := range 100 {
			names := []string{"a", "b"}
			order.Shuffle(2, func(i, j int) { names[i], names[j] = names[j], names[i] })
			meeting = &meetingPoint{later: names[1], taken: make(chan struct{})}
			meeting.in.Add(2)
			firsts[names[0]]++
			th := g.Thread(eng, fmt.Sprint("t", i))
			meet(t, th, meeting, names[0])
			same(t, "values", string(statusOf(t, th).Head.Values), `{"items":["from a","from b"],"seen":["from a","from b"]}`)
			got := history(t, th)
			var next []string
			for _, s := range got {
				next = append(next, fmt.Sprint(s.Next))
			}
			sameList(t, "next, the newest first", next, []string{"[]", "[c]", "[a b]", "[__start__]"})
			parentsBelow(t, got)
			settled(t, statusOf(t, th))
			if t.Failed() {
				t.Fatalf("shuffle %d: %s returned first", i, names[0])
			}
		}
		if firsts["a"] == 0 || firsts["b"] == 0 {
			t.Errorf("returned first: %v; both must occur", firsts)
		}
	})
}

// meet streams a run and lets the later node return once the earlier one's end was told.
func meet(t *testing.T, th *nest.Thread[meetState], b *meetingPoint, earlier string) {
	t.Helper()
	var ended []string
	for ev, err := range th.Stream(t.Context(), &meetState{}) {
		if err != nil {
			t.Fatal(err)
		}
		if ev.Kind == pawl.EventTaskEnd {
			if ended = append(ended, ev.Node); ev.Node == earlier {
				close(b.taken)
			}
		}
	}
	sameList(t, "ended", ended, []string{earlier, b.later, "c"})
}

func aThreadIsTheHistory(t *testing.T, _ *report) {
	onEach(t, func(t *testing.T, h *home) {
		l := newLedger(t)
		g := atDepth(t, counted(l).builder())
		eng := engine(t, h.open(t), nil, g)
		first := g.Thread(eng, "first")
		out, err := first.Run(t.Context(), tenfoldOf(1))
		mustBeDone(t, out, err)
		before := history(t, first)
		out, err = first.Run(t.Context(), tenfoldOf(2))
		same(t, "second run", mustBeDone(t, out, err), `{"n":30}`)
		after := history(t, first)
		sameList(t, "history", historyTable(after), append([]string{
			`6 {"n":30} [] loop`,
			`5 {"n":3} [b] loop`,
			`4 {"n":2} [a] loop`,
			`3 {"n":20} [__start__] input`,
		}, threeSteps...))
		parentsBelow(t, after)
		grew(t, before, after)

		standing := threadDump(t, first.Thread)
		other := g.Thread(eng, "other")
		out, err = other.Run(t.Context(), tenfoldOf(1))
		same(t, "another thread", mustBeDone(t, out, err), `{"n":20}`)
		theirs := history(t, other)
		sameList(t, "its history", historyTable(theirs), threeSteps)
		parentsBelow(t, theirs)
		mine := map[string]bool{}
		for _, s := range after {
			mine[s.Checkpoint] = true
		}
		for _, s := range theirs {
			if mine[s.Checkpoint] {
				t.Errorf("checkpoint %s is in both threads", s.Checkpoint)
			}
		}
		same(t, "the first thread", threadDump(t, first.Thread), standing)

		unknown := g.Thread(eng, "unknown")
		s := statusOf(t, unknown)
		if s.Status != pawl.StatusNew || s.Head != nil || s.Run != "" || len(s.Waiting) != 0 || len(history(t, unknown)) != 0 {
			t.Errorf("an unknown thread reads %+v", s)
		}
		all, err := eng.Threads(t.Context(), "", 10)
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, i := range all {
			ids = append(ids, i.Thread)
		}
		sameList(t, "threads", ids, []string{"first", "other"})
		same(t, "entries", entriesAB(l), [2]int{3, 3})
		settled(t, statusOf(t, first))
		settled(t, statusOf(t, other))
	})
}
