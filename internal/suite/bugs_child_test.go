package suite

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/agent"
	"github.com/pawl-dev/pawl/approval"
	"github.com/pawl-dev/pawl/effect"
	"github.com/pawl-dev/pawl/storage/fault"
)

// bugsChild are those of graphs in graphs.
func bugsChild() []scenario {
	return []scenario{
		{id: "049", run: each(finishedChildrenStay)},
		{id: "089", run: each(agentTwoLevelsDown)},
		{id: "095", run: each(editInsideAChild)},
		{id: "101", run: all(each(childAnsweredByItsPath), childAnsweredByAnother)},
		{id: "102", run: each(childStoppedByItsCaller, childTakenOver)},
		{id: "110", run: each(twoTurnsBack)},
	}
}

// finishedChildrenStay is 049: the second of three children fails. Whatever goes on from there, the first is taken from
// the record, and the others run once for it; as nodes, and as calls in one node.
func finishedChildrenStay(t *testing.T, h *home) {
	for name, calls := range map[string]bool{"nodes": false, "calls": true} {
		l, bad := newLedger(t), true
		inner := build(t, pawl.New[kin]("inner").Node("work", func(ctx context.Context, s *kin) error {
			who := logged(s)[0]
			if l.add(who); who == "c2" && bad {
				return errors.New("for good")
			}
			return nil
		}).Path(pawl.Start, "work"))
		b, path := pawl.New[kin]("outer "+name), []string{pawl.Start}
		var children []pawl.Child[kin]
		for _, c := range []string{"c1", "c2", "c3"} {
			child := inner.Child(c)
			children, path = append(children, child), append(path, c)
			if !calls {
				b.Add(pawl.Sub(child, func(*kin) *kin { return &kin{Log: pawl.List(c)} }, logOut))
			}
		}
		if calls {
			path = []string{pawl.Start, "calls"}
			b.Node("calls", func(ctx context.Context, s *kin) error {
				for _, c := range children {
					if _, err := c.Call(ctx, &kin{Log: pawl.List(c.UseName())}); err != nil {
						return err
					}
				}
				return nil
			}, pawl.Uses(children[0], children[1], children[2]))
		}
		th := build(t, b.Path(path...)).Thread(engine(t, h.open(t), nil), name)
		failed := (*pawl.ChildError)(nil)
		for range 2 { // it fails again as long as it is broken, and runs nothing else
			if out, err := th.Run(t.Context(), &kin{}, pawl.RunID("once")); out == nil || err == nil {
				t.Fatal(out, err)
			}
			if _, err := th.Resume(t.Context()); !errors.As(err, &failed) || failed.Child != "c2" {
				t.Fatal(err)
			}
		}
		tally(t, l, map[string]int{"c1": 1, "c2": 3})
		bad = false
		out, err := th.Resume(t.Context())
		mustBeDone(t, out, err)
		tally(t, l, map[string]int{"c1": 1, "c2": 4, "c3": 1})
		if !calls {
			out, err = th.Replay(t.Context(), pawl.Before("c2"))
			same(t, "state", mustBeDone(t, out, err), values("c1", "c2", "c3"))
			tally(t, l, map[string]int{"c1": 1, "c2": 5, "c3": 2})
		}
	}
}

// agentTwoLevelsDown is 089: a write in an agent inside a graph inside another needs a yes. Going on, the agent is at the
// call: the model is not asked to want it again, whatever it would want by then. A yes, another call and a no are all heard.
func agentTwoLevelsDown(t *testing.T, h *home) {
	for _, c := range []struct {
		name   string
		decide func(o *office, desk *effect.Desk, q pawl.Question) error
		world  []string
		last   string // what the model reads of its call
	}{
		{"yes", func(o *office, _ *effect.Desk, q pawl.Question) error { o.yes(t, q); return nil }, []string{"write(to=all-staff)"}, "receipt-1"},
		{"edit", func(o *office, desk *effect.Desk, q pawl.Question) error {
			r := o.request(t, q)
			edited, err := desk.Edit(pawl.WithActor(t.Context(), pawl.Actor{ID: "ann", Groups: []string{"finance"}}), r.ID,
				effect.Edit{Digest: r.Call, Changes: []approval.Change{{Path: "/to", New: []byte(`"board"`)}}})
			if err == nil {
				_, err = approval.NewDesk(o.eng, o.db).Approve(cfo(t.Context()), edited.ID, approval.Decision{Digest: edited.Call})
			}
			return err
		}, []string{"write(to=board)"}, "receipt-1"},
		{"no", func(o *office, _ *effect.Desk, q pawl.Question) error { o.no(t, q, "too many"); return nil }, nil, "too many"},
	} {
		world, replies, told := newLedger(t), 0, ""
		write := financed(world.tool("write", nil))
		model := agent.ModelFunc(func(_ context.Context, r agent.Request) (agent.Message, error) {
			last := r.Messages[len(r.Messages)-1]
			switch replies++; {
			case last.Role == agent.ToolRole:
				told = last.Text
				return agent.Answers("finished"), nil
			case replies == 1:
				return agent.Wants("write", allStaff), nil
			}
			return agent.Wants("read", params{}), nil // a second thought
		})
		clerk, err := agent.New("clerk "+c.name, agent.Options{Model: model, Tools: []agent.Tool{
			agent.Lookup("read", "", func(context.Context, struct{}) (string, error) { world.add("read"); return "", nil }),
			agent.Action("write", "", func(ctx context.Context, in struct {
				To string `json:"to"`
			}) (string, error) {
				receipt, err := write.Do(ctx, effect.Ref("mail", c.name), params{"to": in.To})
				if no := (*effect.DeniedError)(nil); errors.As(err, &no) {
					return "", agent.Tell(err)
				}
				return receipt, err
			}, write),
		}})
		if err != nil {
			t.Fatal(err)
		}
		asks := func(*kin) *agent.Chat { return agent.Ask("write to all") }
		told2 := func(s *kin, r *pawl.Result[agent.Chat]) error { s.Log.Add(r.State.Answer.Get()); return nil }
		one := build(t, pawl.New[kin]("one "+c.name).Add(pawl.Sub(clerk.Child("clerk"), asks, told2)).Path(pawl.Start, "clerk"))
		two := around(t, "two "+c.name, one.Child("one"))
		o := openOffice(t, h.open(t), two)
		th := two.Thread(o.eng, c.name)
		out, err := th.Run(t.Context(), &kin{})
		q := mustWaitFor(t, out, err, 1)[0]
		same(t, c.name+": path", noIDs(q.Path), "one:<id>|clerk:<id>|act:<id>")
		if err := c.decide(o, o.led.Desk(o.eng, o.db), q); err != nil {
			t.Fatal(c.name, err)
		}
		out, err = th.Resume(t.Context())
		same(t, c.name+": state", mustBeDone(t, out, err), values("finished"))
		same(t, c.name+": replies", replies, 2)
		sameList(t, c.name+": the world", world.rows(), c.world)
		says(t, told, c.last)
	}
}

// editInsideAChild is 095: the state of a child that waits two levels down is changed by its path. It goes on with the
// change; what had finished in it does not run again, and the question, which may be another now, is asked again.
func editInsideAChild(t *testing.T, h *home) {
	l := newLedger(t)
	inner := build(t, pawl.New[kin]("inner").Node("one", logs(l, "one")).Node("two", func(ctx context.Context, s *kin) error {
		l.add("two")
		answer, err := okay.Ask(ctx, strings.Join(logged(s), ",")+"?")
		s.Log.Add(answer)
		return err
	}, pawl.Uses(okay)).Path(pawl.Start, "one", "two"))
	th := deep(t, inner, 2).Thread(engine(t, h.open(t), nil), "t")
	out, err := th.Run(t.Context(), &kin{})
	q := mustWaitFor(t, out, err, 1)[0]
	in := pawl.Path(q.Path[:strings.LastIndex(q.Path, "|")])
	if _, err := th.Thread.Edit(t.Context(), []byte(`{"log":["edited"]}`), pawl.In(in)); err != nil {
		t.Fatal(err)
	}
	out, err = th.Resume(t.Context())
	again := mustWaitFor(t, out, err, 1)[0]
	same(t, "asked", string(again.Body), `"one,edited?"`)
	if _, err := th.Answer(t.Context(), q.ID, "old"); err == nil {
		t.Error("the question of before the edit took an answer")
	}
	out, err = th.Resume(t.Context(), okay.Answer(again.ID, "yes"))
	same(t, "state", mustBeDone(t, out, err), values("one", "edited", "yes"))
	tally(t, l, map[string]int{"one": 1, "two": 3})
}

// childAnsweredByItsPath is 101: a child's question is found and answered where the child is, and then the process that goes
// on dies at each of its writes. The parent is never left behind.
func childAnsweredByItsPath(t *testing.T, h *home) {
	deaths := 0
	for point := 0; ; point++ {
		l, id := newLedger(t), fmt.Sprint(point)
		g := func() *pawl.Graph[kin] { // another program each time
			inner := build(t, pawl.New[kin]("inner").Node("one", logs(l, "one")).Node("two", asksAs(l, "two"), pawl.Uses(okay)).
				Node("three", logs(l, "three")).Path(pawl.Start, "one", "two", "three"))
			return deep(t, inner, 2)
		}
		out, err := g().Thread(engine(t, h.open(t), nil), id).Run(t.Context(), &kin{})
		path := mustWaitFor(t, out, err, 1)[0].Path
		desk := engine(t, h.open(t), nil)
		child, err := desk.Thread("", id).State(t.Context(), pawl.Path(path[:strings.LastIndex(path, "|")]))
		if err != nil || len(child.Waiting) != 1 {
			t.Fatalf("the child: %+v, %v", child, err)
		}
		if v, err := desk.Answer(t.Context(), child.Waiting[0].ID, "yes"); err != nil || !v.Taken {
			t.Fatal(v, err)
		}
		dying := engine(t, fault.Wrap(h.open(t), fault.Plan{At: fault.At(point, fault.Stop())}), nil)
		_, err = g().Thread(dying, id).Resume(t.Context())
		dying.Close()
		th := g().Thread(engine(t, h.open(t), nil), id)
		out, again := th.Resume(t.Context())
		same(t, "state", mustBeDone(t, out, again), values("one", "two:yes", "three"))
		same(t, "entries of the first node", l.count("one"), 1)
		if err == nil {
			break
		}
		if deaths++; !errors.Is(err, fault.ErrStopped) {
			t.Fatal(err)
		}
	}
	if deaths < 6 { // before and after the claim and two super-steps, at least
		t.Errorf("only %d deaths", deaths)
	}
}

// answerInsideChild answers the open question of a thread's child in a process without the graph, and is killed.
func answerInsideChild(doc []byte) {
	eng := childEngine(args[string](doc), nil)
	q := must(eng.Thread("", "t").State(context.Background())).Waiting[0]
	in := pawl.Path(q.Path[:strings.LastIndex(q.Path, "|")])
	q = must(eng.Thread("", "t").State(context.Background(), in)).Waiting[0]
	v := must(eng.Answer(context.Background(), q.ID, "yes"))
	fmt.Println(v.Taken)
	killSelf()
}

func childAnsweredByAnother(t *testing.T, _ *report) {
	h, l := onDisk(t), newLedger(t)
	th := deep(t, pausing(t, l, pawl.Inherit), 1).Thread(engine(t, h.open(t), nil), "t")
	out, err := th.Run(t.Context(), &kin{})
	mustWaitFor(t, out, err, 1)
	same(t, "taken", spawn(t, "bug-inside", h.path).line(), "true")
	out, err = th.Resume(t.Context())
	same(t, "state", mustBeDone(t, out, err), values("one", "two:yes"))
	tally(t, l, map[string]int{"one": 1, "two": 2})
}

// streaming is a child that asks and then talks to a slow model, in a parent.
func streaming(t *testing.T, l *ledger, slow func(context.Context) error) *kinGraph {
	return around(t, "parent", build(t, pawl.New[kin]("inner").Node("asks", asksAs(l, "asks"), pawl.Uses(okay)).
		Node("talks", func(ctx context.Context, s *kin) error {
			l.add("talks")
			if err := slow(ctx); err != nil {
				return err
			}
			s.Log.Add("talked")
			return nil
		}).Path(pawl.Start, "asks", "talks")).Child("child"))
}

// childStoppedByItsCaller is 102: the caller's time ends while the child talks. What is reported is what is stored, and
// the next owner goes on behind the answer.
func childStoppedByItsCaller(t *testing.T, h *home) {
	l, hangs, talking := newLedger(t), true, make(chan struct{}, 2)
	g := streaming(t, l, func(ctx context.Context) error {
		if talking <- struct{}{}; hangs {
			<-ctx.Done()
			return context.Cause(ctx)
		}
		return nil
	})
	th := g.Thread(engine(t, h.open(t), nil), "t")
	out, err := th.Run(t.Context(), &kin{})
	q := mustWaitFor(t, out, err, 1)[0]
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() { <-talking; cancel(context.DeadlineExceeded) }()
	out, err = th.Resume(ctx, okay.Answer(q.ID, "yes"))
	if !errors.Is(err, context.DeadlineExceeded) || out == nil || out.Status != pawl.Failed {
		t.Fatal(out, err)
	}
	there := g.Thread(engine(t, h.open(t), nil), "t")
	s := statusOf(t, there)
	same(t, "reported", fmt.Sprint(out.Checkpoint, out.Run, out.Attempt), fmt.Sprint(s.Head.Checkpoint, s.Run, s.Attempt))
	hangs = false
	out, err = there.Resume(t.Context())
	same(t, "state", mustBeDone(t, out, err), values("asks:yes", "talked"))
	tally(t, l, map[string]int{"asks": 2, "talks": 2})
}

// childTakenOver is 102 where the owner loses the thread while the child talks: it writes nothing more and reports nothing
// as its own.
func childTakenOver(t *testing.T, h *home) {
	l, inside, release := newLedger(t), make(chan struct{}), make(chan struct{})
	lost := &deposed{DB: h.open(t)}
	old := streaming(t, l, func(context.Context) error { close(inside); <-release; return nil })
	first := old.Thread(engine(t, lost, nil), "t")
	out, err := first.Run(t.Context(), &kin{})
	q := mustWaitFor(t, out, err, 1)[0]
	over := make(chan error, 1)
	go func() {
		out, err := first.Resume(context.Background(), okay.Answer(q.ID, "yes"))
		if out != nil {
			err = fmt.Errorf("it reports %+v, %w", out, err)
		}
		over <- err
	}()
	<-inside
	for _, m := range lost.members {
		m.Close()
	}
	th := streaming(t, l, func(context.Context) error { return nil }).Thread(engine(t, h.open(t), nil), "t")
	out, err = th.Resume(t.Context())
	same(t, "state", mustBeDone(t, out, err), values("asks:yes", "talked"))
	before := history(t, th)
	close(release)
	if err := <-over; !errors.Is(err, pawl.ErrFenced) || strings.Contains(err.Error(), "reports") {
		t.Errorf("the owner of before: %v", err)
	}
	grew(t, before, history(t, th))
	same(t, "checkpoints", len(history(t, th)), len(before))
	tally(t, l, map[string]int{"asks": 2, "talks": 2})
}

// twoTurnsBack is 110: a conversation goes two turns back and on with another message. Nothing is twice in it, nor in what
// the agents inside remember, two levels down.
func twoTurnsBack(t *testing.T, h *home) {
	deepest := build(t, pawl.New[kin]("deepest").Node("hears", func(_ context.Context, s *kin) error {
		all := logged(s)
		s.Log.Add(fmt.Sprintf("%s after %d", all[len(all)-1], len(all)-1))
		return nil
	}).Path(pawl.Start, "hears"))
	last := func(s *kin) *kin { all := logged(s); return &kin{Log: pawl.List(all[len(all)-1])} }
	added := func(s *kin, r *pawl.Result[kin]) error {
		a, err := r.Added()
		if err == nil {
			s.Log.Add(logged(a)...)
		}
		return err
	}
	middle := build(t, pawl.New[kin]("middle").Add(pawl.Sub(deepest.Child("deepest", pawl.PerThread), last, added)).Path(pawl.Start, "deepest"))
	g := build(t, pawl.New[kin]("chat").Add(pawl.Sub(middle.Child("middle", pawl.PerThread), last, added)).Path(pawl.Start, "middle"))
	open := func() *pawl.ThreadOf[kin] { return g.Thread(engine(t, h.open(t), nil), "t") }
	th := open()
	var ends []string
	for _, word := range []string{"one", "two", "three"} {
		out, err := th.Run(t.Context(), &kin{Log: pawl.List(word)})
		mustBeDone(t, out, err)
		ends = append(ends, out.Checkpoint)
	}
	three := values("one", "one after 0", "two", "two after 2", "three", "three after 4")
	same(t, "before", string(statusOf(t, th).Head.Values), three)
	out, err := th.Replay(t.Context(), pawl.Checkpoint(ends[0]))
	mustBeDone(t, out, err)
	out, err = open().Run(t.Context(), &kin{Log: pawl.List("other")})
	same(t, "another message", mustBeDone(t, out, err), values("one", "one after 0", "other", "other after 2"))
	out, err = open().Run(t.Context(), &kin{Log: pawl.List("more")})
	same(t, "and one more", mustBeDone(t, out, err), values("one", "one after 0", "other", "other after 2", "more", "more after 4"))
	inside, err := open().State(t.Context(), "middle|deepest")
	if err != nil {
		t.Fatal(err)
	}
	same(t, "what the deepest remembers", string(inside.Head.Values), values("one", "one after 0", "other", "other after 2", "more", "more after 4"))
	out, err = open().Replay(t.Context(), pawl.Checkpoint(ends[2]))
	same(t, "the branch that was left", mustBeDone(t, out, err), three)
}
