package suite

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/pawltest"
)

// bugsAgain are those that other tests touch, and that are told as they were reported.
func bugsAgain() []scenario {
	return []scenario{
		{id: "016", run: pausedAndKilled},
		{id: "078", run: yesWhateverTheCall},
		{id: "143", run: each(answeredAtOnce)},
		{id: "145", run: each(threeWaitsOfOneName)},
	}
}

func awaiting() *pawl.Graph[mortalState] {
	return must(pawl.New[mortalState]("awaits").Node("status", adds("awaiting payment")).
		Node("wait", func(ctx context.Context, s *mortalState) error {
			answer, err := gate.Ask(ctx, "paid?")
			s.Log.Add(answer)
			return err
		}, pawl.Uses(gate)).Path(pawl.Start, "status", "wait").Build())
}

type pausing016 struct {
	Path string
	Mode pawl.Durability
}

func pausedChild(doc []byte) {
	p := args[pausing016](doc)
	out := must(awaiting().Thread(childEngine(p.Path, nil), "t").Run(context.Background(), &mortalState{}, pawl.WithDurability(p.Mode)))
	fmt.Println(out.Status)
	killSelf()
}

// pausedAndKilled is 016: a process is killed the moment its run pauses. What was set before, and the question, are there, in
// every durability.
func pausedAndKilled(t *testing.T, _ *report) {
	for _, mode := range []pawl.Durability{pawl.Sync, pawl.Async, pawl.Exit} {
		h := onDisk(t)
		c := spawn(t, "bug-pause", pausing016{h.path, mode})
		same(t, "the child", c.line(), "waiting")
		c.cmd.Wait()
		th := awaiting().Thread(engine(t, h.open(t), nil), "t")
		s := statusOf(t, th)
		same(t, string(mode), fmt.Sprint(s.Status, " ", string(s.Head.Values), " ", s.Head.Next, len(s.Waiting)), "waiting "+values("awaiting payment")+" [wait] 1")
		out, err := th.Resume(t.Context(), gate.Answer(s.Waiting[0].ID, "yes"))
		same(t, string(mode), mustBeDone(t, out, err), values("awaiting payment", "yes"))
	}
}

// yesWhateverTheCall is 078: a stored yes counts, whatever the call that goes on says besides.
func yesWhateverTheCall(t *testing.T, _ *report) {
	onEachMoney(t, func(t *testing.T, h *home) {
		target := pawltest.NewTarget(pawltest.TargetOpaque)
		for i, options := range [][]pawl.RunOption{nil, {pawl.WithDurability(pawl.Exit)}, {pawl.Reason("again"), pawl.BreakAfter("first")}} {
			o, id := firmIn(t, h), fmt.Sprint(i)
			th := build(t, payGraph(approvedWire(target))).Thread(o.eng, id)
			out, err := th.Run(t.Context(), orderFor(id))
			mustWaitFor(t, out, err, 1)
			same(t, "approved", o.yes(t), 1)
			out, err = th.Resume(pawl.WithActor(t.Context(), pawl.Actor{ID: "somebody else"}), append(options, pawl.At(out.Checkpoint))...)
			mustBeDone(t, out, err)
			saw(t, target, i+1, 0, i+1)
		}
	})
}

// answeredAtOnce is 143: the answer comes the moment the question is there, while its run has not stopped yet. It is never
// lost, and the run never stuck.
func answeredAtOnce(t *testing.T, h *home) {
	rounds := map[string]int{"memory": 1000, "sqlite": 60}[h.name]
	g := build(t, pawl.New[mortalState]("at once").Node("a", func(ctx context.Context, s *mortalState) error {
		answer, err := gate.Ask(ctx, "?")
		s.Log.Add(answer)
		return err
	}, pawl.Uses(gate)).Edge(pawl.Start, "a"))
	eng, other := engine(t, h.open(t), nil, g), engine(t, h.open(t), nil, g)
	for round := range times(t, rounds) {
		th, id := g.Thread(eng, fmt.Sprint(round)), make(chan string, 1)
		answered := make(chan error, 1)
		go func() {
			_, err := other.Answer(context.Background(), <-id, "yes")
			answered <- err
		}()
		for e, err := range th.Stream(t.Context(), &mortalState{}) {
			if err != nil {
				t.Fatal(err)
			}
			if e.Kind == pawl.EventQuestion {
				id <- e.Question
			}
		}
		if err := <-answered; err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		out, err := th.Resume(t.Context())
		if values := mustBeDone(t, out, err); values != `{"log":["yes"]}` {
			t.Fatalf("round %d: %s", round, values)
		}
	}
}

// threeWaitsOfOneName is 145: a loop waits three times under one name, and three values come at once. One is for the wait
// that is there, and the others are refused; each value is for one wait, in order.
func threeWaitsOfOneName(t *testing.T, h *home) {
	th, db := logging(t, h, pawl.New[mortalState]("loop").Node("a", func(ctx context.Context, s *mortalState) error {
		answer, err := gate.Ask(ctx, fmt.Sprint("event ", s.Log.Len()))
		s.Log.Add(answer)
		return err
	}, pawl.Uses(gate)).Edge(pawl.Start, "a").Route("a", func(s *mortalState) []pawl.Next {
		if s.Log.Len() == 3 {
			return pawl.To(pawl.End)
		}
		return pawl.To("a")
	}, "a", pawl.End))
	out, err := th.Run(t.Context(), &mortalState{})
	for _, event := range []string{"one", "two", "three"} {
		q := mustWaitFor(t, out, err, 1)[0]
		before := everything(t, db)
		if _, err := th.Resume(t.Context(), gate.Answer(q.ID, "one"), gate.Answer(q.ID, "two"), gate.Answer("", "three")); err == nil {
			t.Error("three values for one wait were taken")
		}
		unchanged(t, db, before)
		if _, err := th.Answer(t.Context(), q.ID, event); err != nil {
			t.Fatal(err)
		}
		if _, err := th.Answer(t.Context(), q.ID, "another"); !errors.Is(err, pawl.ErrAnswered) {
			t.Errorf("a second value for the same wait: %v", err)
		}
		out, err = th.Resume(t.Context())
	}
	same(t, "state", mustBeDone(t, out, err), values("one", "two", "three"))
}
