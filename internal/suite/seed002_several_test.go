package suite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/pawl-dev/pawl"
)

func twoQuestionsAtOnce(t *testing.T, _ *report) {
	first, second := pawl.Interrupt[string, string]{Name: "first"}, pawl.Interrupt[string, string]{Name: "second"}
	onEach(t, func(t *testing.T, h *home) {
		l := newLedger(t)
		g := atDepth(t, pawl.New[found]("two").Node("asks", func(ctx context.Context, s *found) error {
			l.add("entry")
			a, errA := first.Ask(ctx, "Which?")
			b, errB := second.Ask(ctx, "Which?")
			if err := cmp.Or(errA, errB); err != nil {
				return err
			}
			s.Got.Set("first", a)
			s.Got.Set("second", b)
			return nil
		}, pawl.Uses(first, second)).Edge(pawl.Start, "asks"))
		th := engine(t, h.open(t), nil, g).Thread("two", "t1")
		out, err := start(th)
		q := paused(t, out, err, 2)
		same(t, "questions", []string{q[0].Name, q[1].Name}, []string{"first", "second"})
		if q[0].ID == q[1].ID {
			t.Errorf("both questions have the id %s", q[0].ID)
		}
		before := history(t, th)
		tally(t, l, map[string]int{"entry": 1})
		out, err = resume(th, q[0].ID, "v1")
		same(t, "still open", ids(paused(t, out, err, 1)), []string{q[1].ID})
		tally(t, l, map[string]int{"entry": 1})
		out, err = resume(th, q[1].ID, "v2")
		finished(t, out, err, `{"got":{"first":"v1","second":"v2"}}`)
		tally(t, l, map[string]int{"entry": 2})
		atEnd(t, th, before)
	})
}

func twoDecisionsTwoNodes(t *testing.T, _ *report) {
	for _, names := range [][]string{{"a", "b"}, {"c", "a", "b"}, {"a", "c", "b"}, {"a", "b", "c"}} {
		t.Run(strings.Join(names, " "), func(t *testing.T) {
			onEach(t, func(t *testing.T, h *home) { oneAfterTheOther(t, h, names) })
		})
	}
	for _, c := range []struct {
		name    string
		names   []string // of the new code; the old has a and b
		at      string   // the node that waits when the code changes
		refused string   // the first difference, where the run may not go on
	}{
		{"added before the one that waits", []string{"c", "a", "b"}, "a", `edges of node "__start__"`},
		{"added behind the one that waits", []string{"a", "c", "b"}, "a", `edges of node "a"`},
		{"added at the end, the first waits", []string{"a", "b", "c"}, "a", ""},
		{"added at the front, the second waits", []string{"c", "a", "b"}, "b", `edges of node "__start__"`},
		{"added between, the second waits", []string{"a", "c", "b"}, "b", `edges of node "a"`},
		{"added at the end, the second waits", []string{"a", "b", "c"}, "b", `edges of node "b"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			onEach(t, func(t *testing.T, h *home) { addedInFlight(t, h, c.names, c.at, c.refused) })
		})
	}
}

// answersOf gives every node that asks an answer of its own, and checks that they ask in this order, one at a time.
func answersOf(t *testing.T, th *pawl.Thread, out *pawl.Outcome, err error, names []string) (*pawl.Outcome, error) {
	t.Helper()
	for _, name := range names {
		q := paused(t, out, err, 1)[0]
		same(t, "node that asks", q.Node, name)
		out, err = resume(th, q.ID, "to "+name)
	}
	return out, err
}

// gotAll is the state in which every node holds its own answer.
func gotAll(order []string) string {
	got, used := map[string]string{}, []string{}
	for _, name := range order {
		got[name] = "to " + name
		used = append(used, "to "+name)
	}
	return fmt.Sprintf(`{"got":%s,"used":%s}`, compact(got), compact(used))
}

func oneAfterTheOther(t *testing.T, h *home, names []string) {
	l := newLedger(t)
	th := engine(t, h.open(t), nil, atDepth(t, asNodes(l, names...))).Thread("nodes", "t1")
	out, err := start(th)
	before := history(t, th)
	out, err = answersOf(t, th, out, err, names)
	finished(t, out, err, gotAll(names))
	want := map[string]int{}
	for _, name := range names {
		want[name] = 2
	}
	tally(t, l, want)
	atEnd(t, th, before)
}

// addedInFlight changes the code while a node waits whose question is answered, but not yet entered again.
func addedInFlight(t *testing.T, h *home, names []string, at, refused string) {
	l := newLedger(t)
	old := engine(t, h.open(t), nil, atDepth(t, asNodes(l, "a", "b")))
	th := old.Thread("nodes", "t1")
	out, err := start(th)
	done := slices.Index([]string{"a", "b"}, at)
	out, err = answersOf(t, th, out, err, []string{"a", "b"}[:done])
	q := paused(t, out, err, 1)[0]
	if v, err := old.Answer(t.Context(), q.ID, "to "+at); err != nil || !v.Taken {
		t.Fatalf("verdict %v, error %v", v, err)
	}
	before, rows := history(t, th), len(l.rows())

	now := engine(t, h.open(t), nil, atDepth(t, asNodes(l, names...))).Thread("nodes", "t1")
	out, err = resume(now)
	want := map[string]int{"a": 2, "b": 2}
	if refused == "" {
		out, err = answersOf(t, now, out, err, names[done+1:])
		finished(t, out, err, gotAll(names))
		want["c"] = 2
	} else {
		if v := (*pawl.VersionError)(nil); !errors.As(err, &v) || !strings.Contains(v.First, inner(t, refused)) {
			t.Fatalf("outcome %v, error %v; want %s", out, err, refused)
		}
		same(t, "rows of the ledger after the refusal", len(l.rows()), rows)
		same(t, "history after the refusal", history(t, th), before)
		out, err = resume(th)
		out, err = answersOf(t, th, out, err, []string{"a", "b"}[done+1:])
		finished(t, out, err, gotAll([]string{"a", "b"}))
	}
	tally(t, l, want)
	atEnd(t, th, before)
}

func branchesAsk(t *testing.T, _ *report) {
	var names []string
	for i := range 10 {
		names = append(names, string(rune('a'+i)))
	}
	for _, n := range []int{2, 3, 10} {
		perms := [][]int{make([]int, 0, n)}
		if n <= 3 {
			perms = append(perms, orders(n)...)
		} else {
			perms = append(perms, rand.New(rand.NewPCG(2, 6)).Perm(n))
		}
		for _, order := range perms {
			name := fmt.Sprintf("%d in order %v", n, order)
			if len(order) == 0 {
				name = fmt.Sprintf("%d in one call", n)
			}
			t.Run(name, func(t *testing.T) {
				onEach(t, func(t *testing.T, h *home) { answerBranches(t, h, names[:n], order) })
			})
		}
	}
	for _, order := range orders(3) {
		t.Run(fmt.Sprintf("one worker, sent 3 times, in order %v", order), func(t *testing.T) {
			onEach(t, func(t *testing.T, h *home) { answerWorkers(t, h, order) })
		})
	}
	t.Run("in every process", func(t *testing.T) {
		v := visitHome(t, "branches")
		first := v
		first.Run = true
		open := first.pay(t).Open
		same(t, "distinct ids", len(slices.Compact(slices.Sorted(slices.Values(open)))), 3)
		for range 2 {
			again := v.pay(t)
			same(t, "ids in another process", again.Open, open)
			same(t, "status in another process", again.Status, pawl.Waiting)
		}
		tally(t, &ledger{v.Ledger}, map[string]int{"a": 1, "b": 1, "c": 1})
	})
}

// answerBranches answers one branch after the other in an order, or all in one call where there is none.
func answerBranches(t *testing.T, h *home, names []string, order []int) {
	l := newLedger(t)
	g := atDepth(t, asBranches(l, names...))
	eng := engine(t, h.open(t), nil, g)
	th := eng.Thread("branches", "t1")
	out, err := start(th)
	open := paused(t, out, err, len(names))
	before := history(t, th)
	idOf, want, distinct := map[string]string{}, map[string]int{}, map[string]bool{}
	for _, q := range open {
		idOf[q.Node], distinct[q.ID], want[q.Node] = q.ID, true, 1
		same(t, "body", string(q.Body), `"Which?"`)
	}
	same(t, "distinct ids", len(distinct), len(names))
	other := engine(t, h.open(t), nil, g).Thread("branches", "t1")
	same(t, "ids read again", ids(statusOf(t, th).Waiting), ids(open))
	same(t, "ids read by another engine", ids(statusOf(t, other).Waiting), ids(open))

	for i, at := range order {
		out, err = resume(th, idOf[names[at]], "to "+names[at])
		want[names[at]] = 2
		tally(t, l, want)
		if left := len(names) - i - 1; left > 0 {
			paused(t, out, err, left)
		}
	}
	if len(order) == 0 {
		var all []string
		for _, name := range names {
			all = append(all, idOf[name], "to "+name)
			want[name] = 2
		}
		out, err = resume(th, all...)
	}
	finished(t, out, err, gotAll(names))
	tally(t, l, want)
	atEnd(t, th, before)
}

// answerWorkers answers tasks of one node, which only their paths tell apart.
func answerWorkers(t *testing.T, h *home, order []int) {
	l := newLedger(t)
	w := pawl.NewWorker("w", func(ctx context.Context, s *found, sent int) error {
		l.add(fmt.Sprint("w", sent))
		answer, err := say.Ask(ctx, "Which?")
		if err == nil {
			s.Got.Set(innermost(pawl.TaskKey(ctx)), answer)
		}
		return err
	}, pawl.Uses(say))
	g := atDepth(t, pawl.New[found]("workers").Add(w).
		Route(pawl.Start, func(*found) []pawl.Next { return w.Each([]int{0, 1, 2}) }, "w"))
	th := engine(t, h.open(t), nil, g).Thread("workers", "t1")
	out, err := start(th)
	open := paused(t, out, err, 3)
	slices.SortFunc(open, func(a, b pawl.Question) int { return strings.Compare(a.Path, b.Path) })
	before, want := history(t, th), map[string]string{}
	same(t, "distinct ids", len(slices.Compact(slices.Sorted(slices.Values(ids(open))))), 3)
	for i, at := range order {
		if i > 0 {
			paused(t, out, err, 3-i)
		}
		task := innermost(open[at].Path)
		want[task] = fmt.Sprint("v", at)
		out, err = resume(th, open[at].ID, want[task])
	}
	finished(t, out, err, fmt.Sprintf(`{"got":%s}`, compact(want)))
	tally(t, l, map[string]int{"w0": 2, "w1": 2, "w2": 2})
	atEnd(t, th, before)
}

// threeCalls is one node that makes three calls at once, each with a question of its own, which end in the order that
// order gives.
func threeCalls(l interface{ add(string) }, order func() []int) *pawl.Builder[found] {
	return pawl.New[found]("calls").Node("calls", func(ctx context.Context, s *found) error {
		l.add("entry")
		var got [3]string
		var ended [3]chan struct{}
		for i := range ended {
			ended[i] = make(chan struct{})
		}
		turns := order()
		call := func(i int) func(context.Context) error {
			return func(ctx context.Context) (err error) {
				defer close(ended[i])
				if rank := slices.Index(turns, i); rank > 0 {
					<-ended[turns[rank-1]]
				}
				got[i], err = say.Ask(ctx, fmt.Sprintf("Call %d?", i+1), pawl.Key(fmt.Sprint(i+1)))
				return err
			}
		}
		if err := pawl.All(ctx, call(0), call(1), call(2)); err != nil {
			return err
		}
		for i, answer := range got {
			s.Got.Set(fmt.Sprint("call ", i+1), answer)
		}
		return nil
	}, pawl.Uses(say)).Edge(pawl.Start, "calls")
}

func randomOrder() []int { return rand.Perm(3) }

const threeAnswers = `{"got":{"call 1":"v1","call 2":"v2","call 3":"v3"}}`

// counter is a ledger for many runs: it only counts entries.
type counter struct{ n atomic.Int64 }

func (c *counter) add(string) { c.n.Add(1) }

func callsAsk(t *testing.T, _ *report) {
	t.Run("100 shuffles", func(t *testing.T) {
		onEach(t, func(t *testing.T, h *home) {
			random := rand.New(rand.NewPCG(2, 8))
			var entries counter
			g := atDepth(t, threeCalls(&entries, func() []int { return random.Perm(3) }))
			eng := engine(t, h.open(t), nil, g)
			for i := range times(t, 100) {
				entries.n.Store(0)
				shuffled(t, eng.Thread("calls", threadName(i)), &entries, random.Perm(3), i%2 == 0)
			}
		})
	})
	t.Run("answered in three processes", func(t *testing.T) {
		for _, order := range orders(3) {
			v := visitHome(t, "calls")
			v.Run = true
			saw := v.pay(t)
			v.Run, v.Resume = false, true
			for i, at := range order {
				same(t, "open questions", len(saw.Open), 3-i)
				v.Answer = []string{saw.Open[slices.Index(saw.Keys, fmt.Sprint(at+1))], fmt.Sprint("v", at+1)}
				saw = v.pay(t)
			}
			same(t, "the third process", saw, visited{Status: pawl.Done, Values: threeAnswers})
			tally(t, &ledger{v.Ledger}, map[string]int{"entry": 2})
		}
	})
}

// shuffled answers the three calls in an order, one by one or in one call.
func shuffled(t *testing.T, th *pawl.Thread, entries *counter, order []int, oneByOne bool) {
	out, err := start(th)
	open := paused(t, out, err, 3)
	before := history(t, th)
	var answers []string
	distinct := map[string]bool{}
	for _, at := range order {
		i := slices.IndexFunc(open, func(q pawl.Question) bool { return q.Key == fmt.Sprint(at+1) })
		same(t, "body", string(open[i].Body), fmt.Sprintf(`"Call %d?"`, at+1))
		answers = append(answers, open[i].ID, fmt.Sprint("v", at+1))
		distinct[open[i].ID] = true
	}
	same(t, "distinct ids", len(distinct), 3)
	if oneByOne {
		for i := range 2 {
			out, err = resume(th, answers[2*i:2*i+2]...)
			paused(t, out, err, 2-i)
			same(t, "entries", entries.n.Load(), 1)
		}
		answers = answers[4:]
	}
	out, err = resume(th, answers...)
	finished(t, out, err, threeAnswers)
	same(t, "entries", entries.n.Load(), 2)
	atEnd(t, th, before)
}
