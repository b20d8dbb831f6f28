package suite

import (
	"context"
	"fmt"
	"testing"

	"github.com/pawl-dev/pawl"
)

func backWithAnotherValue(t *testing.T, r *report) {
	onEach(t, func(t *testing.T, h *home) {
		l := newLedger(t)
		g := atDepth(t, counted(l).builder())
		th := g.Thread(engine(t, h.open(t), nil, g), "t1")
		out, err := th.Run(t.Context(), tenfoldOf(1))
		mustBeDone(t, out, err)
		old := history(t, th)
		end, beforeB := old[0], old[1]
		sameList(t, "next of the snapshot", beforeB.Next, []string{"b"})

		out, err = th.Fork(t.Context(), pawl.Checkpoint(beforeB.Checkpoint), func(s *tenfoldState) error { s.N.Set(100); return nil })
		same(t, "result", mustBeDone(t, out, err), `{"n":1000}`)
		same(t, "entries", entriesAB(l), [2]int{1, 2})
		now := history(t, th)
		sameList(t, "history", historyTable(now), append([]string{`3 {"n":1000} [] loop`, `2 {"n":100} [b] edit`}, threeSteps...))
		grew(t, old, now)
		parentsBelow(t, now[2:])
		same(t, "parent of the edit", now[1].Parent, beforeB.Checkpoint)
		same(t, "parent of its end", now[0].Parent, now[1].Checkpoint)
		s := statusOf(t, th)
		same(t, "latest state", string(s.Head.Values), `{"n":1000}`)
		was, err := th.Snapshot(t.Context(), end.Checkpoint)
		if err != nil {
			t.Fatal(err)
		}
		same(t, "the old end", string(was.Values), `{"n":20}`)
		parents := map[string]string{}
		for _, s := range now {
			parents[s.Checkpoint] = s.Parent
		}
		for at := s.Head.Checkpoint; at != ""; at = parents[at] {
			if at == end.Checkpoint {
				t.Error("the branch descends from the first run's end")
			}
		}
		state, err := th.Read(now[0])
		if err != nil {
			t.Fatal(err)
		}
		original, err := th.Read(was)
		if err != nil {
			t.Fatal(err)
		}
		r.line(20, "fork before b with n=100: %d | original: %d | history: %d", state.N.Get(), original.N.Get(), len(now))
		settled(t, s)
	})
}

// firstNewHangs fails unless the first snapshot that a verb added hangs from one that was there before.
func firstNewHangs(t testing.TB, verb string, before, after []*pawl.Snapshot) {
	t.Helper()
	grew(t, before, after)
	if len(after) <= len(before) {
		t.Errorf("%s added no snapshot", verb)
		return
	}
	first := after[len(after)-len(before)-1]
	for _, s := range before {
		if s.Checkpoint == first.Parent {
			return
		}
	}
	t.Errorf("%s: the first new snapshot's parent is %q, which was not in the history", verb, first.Parent)
}

func oneMechanism(t *testing.T, _ *report) {
	onEach(t, func(t *testing.T, h *home) {
		for i, want := range [][2]int{{0, 0}, {0, 1}, {1, 1}, {1, 1}} { // the newest first
			l := newLedger(t)
			g := atDepth(t, counted(l).builder())
			th := g.Thread(engine(t, h.open(t), nil, g), fmt.Sprint("from-", i))
			out, err := th.Run(t.Context(), tenfoldOf(1))
			mustBeDone(t, out, err)
			before := history(t, th)
			out, err = th.Replay(t.Context(), pawl.Checkpoint(before[i].Checkpoint))
			same(t, fmt.Sprint("from step ", before[i].Step), mustBeDone(t, out, err), `{"n":20}`)
			same(t, fmt.Sprint("entries added from step ", before[i].Step), entriesAB(l), [2]int{1 + want[0], 1 + want[1]})
			firstNewHangs(t, "replay", before, history(t, th))
			settled(t, statusOf(t, th))
		}
		t.Run("answer", func(t *testing.T) {
			g := atDepth(t, pairGraph(newLedger(t)))
			th := g.Thread(engine(t, h.open(t), nil, g), "answer")
			out, err := th.Run(t.Context(), &pairState{})
			out, err = th.Resume(t.Context(), askFirst.Answer(mustWait(t, out, err, "first")[0].ID, "A"))
			second := mustWait(t, out, err, "second")[0]
			before := history(t, th)
			out, err = th.Resume(t.Context(), askSecond.Answer(second.ID, "B"))
			mustBeDone(t, out, err)
			firstNewHangs(t, "answer", before, history(t, th))
			settled(t, statusOf(t, th))
		})
		t.Run("fork", func(t *testing.T) {
			g := atDepth(t, tenfold{}.builder())
			th := g.Thread(engine(t, h.open(t), nil, g), "fork")
			out, err := th.Run(context.Background(), tenfoldOf(1))
			mustBeDone(t, out, err)
			before := history(t, th)
			out, err = th.Fork(t.Context(), pawl.Before("b"), func(s *tenfoldState) error { s.N.Set(5); return nil })
			same(t, "forked", mustBeDone(t, out, err), `{"n":50}`)
			firstNewHangs(t, "fork", before, history(t, th))
			settled(t, statusOf(t, th))
		})
	})
	for i := range 3 {
		t.Run(fmt.Sprint("resume after a crash ", i+1), func(t *testing.T) {
			l := newLedger(t)
			th := crashedChain(t, onDisk(t), l, pawl.Sync)
			s, before := statusOf(t, th), history(t, th)
			same(t, "status", s.Status, pawl.Crashed)
			sameList(t, "history", historyTable(before), threeSteps[1:])
			out, err := th.Resume(t.Context())
			same(t, "resumed", mustBeDone(t, out, err), `{"n":20}`)
			same(t, "entries", entriesAB(l), [2]int{1, 2})
			after := history(t, th)
			firstNewHangs(t, "resume", before, after)
			parentsBelow(t, after)
			settled(t, statusOf(t, th))
		})
	}
	t.Log("without the resume of a child: waits for children")
}
