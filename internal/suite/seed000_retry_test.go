package suite

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/nest"
)

// talk is what an agent's model reads and adds to.
type talk struct {
	History pawl.Append[string] `json:"history"`
	Result  pawl.Last[string]   `json:"result"`
}

// service is what the agent's only action calls. It counts the model's turns and its own calls, and keeps the histories
// that the model read.
type service struct {
	down           bool
	turns, actions int
	read           [][]string
}

// counted runs something and returns how many turns and actions it took.
func (s *service) counted(do func()) (turns, actions int) {
	turns, actions, s.read = s.turns, s.actions, nil
	do()
	return s.turns - turns, s.actions - actions
}

// agent is a scripted model and its action. With a failed action in its history the model talks for four turns, and the
// fourth concludes failure; else it acts, and after that concludes success.
func (s *service) agent(t testing.TB) *nest.Graph[talk] {
	model := func(_ context.Context, st *talk) error {
		s.turns++
		var items []string
		for _, item := range st.History.All() {
			items = append(items, item)
		}
		s.read = append(s.read, items)
		switch {
		case slices.Contains(items, "failed") && items[len(items)-1] == "talk 3":
			return pawl.Conclude("the service does not answer")
		case slices.Contains(items, "failed"):
			n := 1
			fmt.Sscanf(items[len(items)-1], "talk %d", &n)
			if strings.HasPrefix(items[len(items)-1], "talk") {
				n++
			}
			st.History.Add(fmt.Sprint("talk ", n))
		case slices.Contains(items, "acted"):
			st.History.Add("success")
			st.Result.Set("success")
		default:
			st.History.Add("call")
		}
		return nil
	}
	act := func(_ context.Context, st *talk) error {
		for range 3 {
			if s.actions++; !s.down {
				st.History.Add("acted")
				return nil
			}
			st.History.Add("failed")
		}
		return nil
	}
	return atDepth(t, pawl.New[talk]("agent").
		Node("model", model).Node("act", act).
		Edge(pawl.Start, "model").Edge("act", "model").
		Route("model", func(st *talk) []pawl.Next {
			switch last := st.History.At(st.History.Len() - 1); {
			case last == "call":
				return pawl.To("act")
			case last == "success":
				return pawl.To(pawl.End)
			}
			return pawl.To("model")
		}, "model", "act", pawl.End))
}

func errand() *talk { return &talk{History: pawl.List("user: order a GPU")} }

// concludes runs the agent with the service down: the model concludes that it failed.
func (s *service) concludes(t *testing.T, th *nest.Thread[talk]) *pawl.OutcomeOf[talk] {
	t.Helper()
	s.down = true
	var out *pawl.OutcomeOf[talk]
	var err error
	turns, actions := s.counted(func() { out, err = th.Run(t.Context(), errand()) })
	wantConcluded(t, out, err)
	same(t, "turns and actions of the first attempt", []int{turns, actions}, []int{5, 3})
	s.down = false
	return out
}

func wantConcluded(t *testing.T, out *pawl.OutcomeOf[talk], err error) {
	t.Helper()
	run := (*pawl.RunError)(nil)
	if !errors.As(err, &run) {
		t.Fatalf("got %v, want a *RunError", err)
	}
	same(t, "outcome", []string{string(out.Status), string(out.Cause), out.Reason, out.Node},
		[]string{"failed", "concluded", "the service does not answer", "model"})
	if node := (*pawl.NodeError)(nil); !errors.As(err, &node) || node.Thread != out.Thread {
		t.Errorf("%v does not lead to the node's error in thread %q", err, out.Thread)
	}
}

// wantRefused checks a refusal that names the right verb.
func wantRefused(t *testing.T, err error, verb pawl.Verb, names ...string) {
	t.Helper()
	refused := (*pawl.VerbError)(nil)
	if !errors.As(err, &refused) {
		t.Fatalf("%s: %v, want a *VerbError", verb, err)
	}
	same(t, "refused verb", refused.Verb, verb)
	for _, name := range names {
		if !strings.Contains(refused.Advice, name) {
			t.Errorf("the refusal %q does not name %s", refused.Advice, name)
		}
	}
}

func concludedThenRetried(t *testing.T, _ *report) {
	onEach(t, func(t *testing.T, h *home) {
		s, db := &service{}, h.open(t)
		th := s.agent(t).Thread(engine(t, db, nil), "t")
		first := s.concludes(t, th)
		before, rows := history(t, th), everyRow(t, db)

		_, err := th.Resume(t.Context())
		wantRefused(t, err, pawl.VerbResume, "retry")
		same(t, "the database after the refusal", everyRow(t, db), rows)

		var out *pawl.OutcomeOf[talk]
		turns, actions := s.counted(func() { out, err = th.Retry(t.Context()) })
		if err != nil {
			t.Fatal(err)
		}
		same(t, "turns and actions", []int{turns, actions}, []int{2, 1})
		same(t, "status and result", []string{string(out.Status), out.State.Result.Get()}, []string{"done", "success"})
		same(t, "thread and run", []string{out.Thread, out.Run}, []string{first.Thread, first.Run})
		if out.Attempt == first.Attempt {
			t.Errorf("both attempts have the id %s", out.Attempt)
		}
		after := history(t, th)
		root, old := after[len(after)-1], before[len(before)-1]
		same(t, "root", []any{root.Step, root.Source, string(root.Values), root.Parent}, []any{-1, "input", "{}", ""})
		same(t, "the first attempt's root", []any{old.Step, string(old.Values), old.Parent}, []any{-1, "{}", ""})
		same(t, "state with the input", string(after[len(after)-2].Values), string(before[len(before)-2].Values))
		for _, snap := range after {
			same(t, "attempt of "+snap.Checkpoint, snap.Attempt, out.Attempt)
		}
		for _, items := range s.read {
			if slices.Contains(items, "failed") {
				t.Errorf("a node of the second attempt read the first: %q", items)
			}
		}
		aside, err := th.History(t.Context(), pawl.Page{Attempt: first.Attempt})
		if err != nil {
			t.Fatal(err)
		}
		same(t, "the first attempt, read again", compact(aside), compact(before))
		stand(t, th, pawl.Done, 5, nil)
	})
}

func newInputIsNoFreshStart(t *testing.T, r *report) {
	onEach(t, func(t *testing.T, h *home) {
		s := &service{}
		g, eng := s.agent(t), engine(t, h.open(t), nil)
		old, retried := g.Thread(eng, "old"), g.Thread(eng, "retried")
		s.concludes(t, old)
		s.concludes(t, retried)
		before := history(t, old)
		_, err := old.Resume(t.Context())
		wantRefused(t, err, pawl.VerbResume, "retry")

		var out *pawl.OutcomeOf[talk]
		turns, actions := s.counted(func() { out, err = old.Run(t.Context(), errand()) })
		wantConcluded(t, out, err)
		same(t, "turns and actions of new input", []int{turns, actions}, []int{4, 0})
		same(t, "what the model still read", s.read[0], []string{
			"user: order a GPU", "call", "failed", "failed", "failed", "talk 1", "talk 2", "talk 3", "user: order a GPU"})
		grew(t, before, history(t, old))
		settled(t, statusOf(t, old))
		text := fmt.Sprintf("resume of a concluded failure: refused | new input on it: %d turns, %d actions, %s", turns, actions, out.Status)

		turns, actions = s.counted(func() { out, err = retried.Retry(t.Context()) })
		if err != nil {
			t.Fatal(err)
		}
		same(t, "turns and actions of a retry", []int{turns, actions}, []int{2, 1})
		r.line(14, "%s | retry: %d turns, %d action, %s", text, turns, actions, out.Status)

		fresh := g.Thread(eng, "fresh")
		var other *pawl.OutcomeOf[talk]
		turns, actions = s.counted(func() { other, err = fresh.Run(t.Context(), errand()) })
		if err != nil {
			t.Fatal(err)
		}
		same(t, "turns and actions of a new thread", []int{turns, actions}, []int{2, 1})
		same(t, "its state and the retry's", string(other.Values), string(out.Values))
		stand(t, fresh, pawl.Done, 5, nil)
		stand(t, retried, pawl.Done, 5, nil)
	})
}

// fiveNodes counts the entries of five nodes in a row; the third calls third first.
func fiveNodes(at nest.Level, counts *ledger, third func()) (*nest.Graph[loops], error) {
	b := pawl.New[loops]("five")
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		b.Node(name, func(_ context.Context, s *loops) error {
			counts.add(name)
			if name == "c" {
				third()
			}
			s.Rounds.Add(1)
			return nil
		})
	}
	return atLevel(at, b.Path(pawl.Start, "a", "b", "c", "d", "e", pawl.End))
}

// dieInTheThird is the process that dies: the first line of the third node tells that it was entered.
func dieInTheThird(doc []byte) {
	a := args[[]string](doc)
	g := must(fiveNodes(levelHere(), &ledger{a[1]}, killSelf))
	must(g.Thread(childEngine(a[0], nil), "t").Run(context.Background(), &loops{}))
}

func diedThenResumed(t *testing.T, _ *report) {
	three(t, func(t *testing.T) string {
		h, counts := onDisk(t), newLedger(t)
		killed(t, "000-five", []string{h.path, counts.path})
		g, err := fiveNodes(levelFor(t), counts, func() {})
		if err != nil {
			t.Fatal(err)
		}
		db := h.open(t)
		th := g.Thread(engine(t, db, nil), "t")
		crashed, before, rows := statusOf(t, th), history(t, th), everyRow(t, db)
		same(t, "status", crashed.Status, pawl.Crashed)
		same(t, "snapshots", len(before), 4)

		_, err = th.Retry(t.Context())
		wantRefused(t, err, pawl.VerbRetry, "resume")
		same(t, "the database after the refusal", everyRow(t, db), rows)

		out, err := th.Resume(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		same(t, "thread, run and attempt", []string{out.Thread, out.Run, out.Attempt}, []string{"t", crashed.Run, crashed.Attempt})
		var entries []int
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			entries = append(entries, counts.count(name))
		}
		same(t, "entries", entries, []int{1, 1, 2, 1, 1})
		same(t, "rounds", out.State.Rounds.Get(), 5)
		after := history(t, th)
		for i, s := range before[1:] { // the newest of them had a task due, which has ended by now
			same(t, "snapshot", compact(after[len(after)-len(before)+1+i]), compact(s))
		}
		stand(t, th, pawl.Done, 7, before)
		return fmt.Sprint(entries, out.Status)
	})
}
