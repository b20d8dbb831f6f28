package suite

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/approval"
	"github.com/pawl-dev/pawl/effect"
	"github.com/pawl-dev/pawl/pawltest"
	"github.com/pawl-dev/pawl/storage/fault"
)

// bugsWait are those of questions, answers, approvals and breakpoints.
func bugsWait() []scenario {
	return []scenario{
		{id: "013", run: each(everyStopIsSaid)},
		{id: "014", run: each(breakpointsStay)},
		{id: "017", run: each(editAtABreakpoint)},
		{id: "066", run: allAtTheSameInstant},
		{id: "081", run: stopsAskingMeanwhile},
		{id: "084", run: lookingIsNoAnswer},
		{id: "086", run: lateNoIsANo},
		{id: "142", run: firstOfThree},
		{id: "159", run: forgetIt},
	}
}

// everyStopIsSaid is 013: 500 runs ask twice in one process. Each start ends with one stored event that says how, and no
// other follows it.
func everyStopIsSaid(t *testing.T, h *home) {
	g := build(t, pawl.New[mortalState]("twice").Node("a", func(ctx context.Context, s *mortalState) error {
		for _, key := range []string{"1", "2"} {
			if _, err := gate.Ask(ctx, "?", pawl.Key(key)); err != nil {
				return err
			}
		}
		return nil
	}, pawl.Uses(gate)).Edge(pawl.Start, "a"))
	eng := engine(t, h.open(t), nil, g)
	var all sync.WaitGroup
	for i := range times(t, 500) {
		all.Go(func() {
			th := g.Thread(eng, fmt.Sprint(i))
			out, err := th.Run(t.Context(), &mortalState{})
			for round := range 3 {
				want := []pawl.Status{pawl.Waiting, pawl.Waiting, pawl.Done}[round]
				if err != nil || out.Status != want || len(out.Waiting) != map[pawl.Status]int{pawl.Waiting: 1}[want] {
					t.Errorf("run %d, start %d: %+v, %v", i, round+1, out, err)
					return
				}
				last := pawl.Event{}
				for _, e := range stored(t, th.Thread) {
					last = e
				}
				if last.Kind != pawl.EventFinished || last.State != string(want) {
					t.Errorf("run %d, start %d ends with %+v, want that it is %s", i, round+1, last, want)
				}
				if want != pawl.Done {
					out, err = th.Resume(t.Context(), gate.Answer(out.Waiting[0].ID, "yes"))
				}
			}
		})
	}
	all.Wait()
}

// stored are the events that a thread has now.
func stored(t testing.TB, th *pawl.Thread) (all []pawl.Event) {
	t.Helper()
	ctx, enough := context.WithCancel(t.Context())
	defer enough()
	for e, err := range th.Watch(ctx, 0) {
		if ctx.Err() != nil && err != nil {
			return all
		}
		if err != nil {
			t.Error(err)
			return all
		}
		if all = append(all, e); e.Kind == pawl.EventFinished {
			enough() // what is read already is told all the same
		}
	}
	return all
}

// threeNodes write their names; h's engine is opened anew for each call, as other processes would.
func threeNodes(t *testing.T, h *home) func() *pawl.ThreadOf[mortalState] {
	g := func() *pawl.Graph[mortalState] {
		return build(t, pawl.New[mortalState]("three").Node("n1", adds("n1")).Node("n2", adds("n2")).Node("n3", adds("n3")).
			Path(pawl.Start, "n1", "n2", "n3"))
	}
	return func() *pawl.ThreadOf[mortalState] { return g().Thread(engine(t, h.open(t), nil), "t") }
}

// stoppedAt fails unless a run stands at a breakpoint with this state.
func stoppedAt(t *testing.T, th *pawl.ThreadOf[mortalState], out *pawl.OutcomeOf[mortalState], err error, next, state string) {
	t.Helper()
	mustWaitFor(t, out, err, 0)
	same(t, "state", string(out.Values), state)
	s := statusOf(t, th)
	same(t, "stands", fmt.Sprint(s.Status, " ", s.Head.Next), fmt.Sprintf("waiting [%s]", next))
}

// breakpointsStay is 014: those of the first call hold in every later one, whichever process makes it.
func breakpointsStay(t *testing.T, h *home) {
	thread := threeNodes(t, h)
	out, err := thread().Run(t.Context(), &mortalState{}, pawl.BreakBefore("n1"), pawl.BreakAfter("n2"))
	stoppedAt(t, thread(), out, err, "n1", `{}`)
	out, err = thread().Resume(t.Context())
	stoppedAt(t, thread(), out, err, "n3", values("n1", "n2"))
	out, err = thread().Resume(t.Context())
	same(t, "state", mustBeDone(t, out, err), values("n1", "n2", "n3"))
}

// editAtABreakpoint is 017: an edit at a breakpoint runs nothing, and the next one is still there.
func editAtABreakpoint(t *testing.T, h *home) {
	thread := threeNodes(t, h)
	out, err := thread().Run(t.Context(), &mortalState{}, pawl.BreakBefore("n1", "n2"))
	stoppedAt(t, thread(), out, err, "n1", `{}`)
	out, err = thread().Edit(t.Context(), func(s *mortalState) error { s.Log.Add("edited"); return nil })
	stoppedAt(t, thread(), out, err, "n1", values("edited"))
	out, err = thread().Resume(t.Context())
	stoppedAt(t, thread(), out, err, "n2", values("edited", "n1"))
	out, err = thread().Resume(t.Context())
	same(t, "state", mustBeDone(t, out, err), values("edited", "n1", "n2", "n3"))
}

// allAtTheSameInstant is 066: the time of a question ends while two people answer it, and everybody resumes, from two
// processes. One goes on with the run, the others are told so, and it can be cancelled.
func allAtTheSameInstant(t *testing.T, _ *report) {
	due := pawl.Interrupt[string, string]{Name: "due", Expires: time.Hour, Default: func(string) string { return "nobody" }}
	onEachClock(t, func(t *testing.T, h *home) {
		for round := range 6 {
			thread, l, entered, cancel := fmt.Sprint("t", round), newLedger(t), make(chan struct{}, 8), round%2 == 0
			g := func() *pawl.Graph[mortalState] {
				return build(t, pawl.New[mortalState](thread).Node("a", func(ctx context.Context, s *mortalState) error {
					answer, err := due.Ask(ctx, "?")
					if err != nil {
						return err
					}
					l.add("entry")
					entered <- struct{}{}
					if cancel {
						<-ctx.Done()
						return context.Cause(ctx)
					}
					s.Log.Add(answer)
					return nil
				}, pawl.Uses(due)).Edge(pawl.Start, "a"))
			}
			here, there := g().Thread(firmIn(t, h).eng, thread), g().Thread(firmIn(t, h).eng, thread)
			out, err := here.Run(t.Context(), &mortalState{})
			q, run := mustWaitFor(t, out, err, 1)[0], out.Run
			timers := []*pawl.Timer{firmIn(t, h).eng.Timer()}
			later(time.Hour)
			var all sync.WaitGroup
			var mu sync.Mutex
			ends := map[string]int{}
			for i := range 8 {
				th := []*pawl.ThreadOf[mortalState]{here, there}[i%2]
				all.Go(func() {
					if i < 4 {
						if _, err := th.Answer(t.Context(), q.ID, fmt.Sprint("person ", i)); err == nil {
							t.Error("an answer was taken when its time was over")
						}
					}
					out, err := th.Resume(t.Context())
					mu.Lock()
					defer mu.Unlock()
					switch {
					case errors.Is(err, pawl.ErrBusy):
						ends["busy"]++
					case cancel && errors.As(err, new(*pawl.VerbError)): // came after the end
						ends["over"]++
					case out != nil && out.Run == run:
						ends[string(out.Status)]++
					default:
						t.Errorf("told %+v, %v", out, err)
					}
				})
			}
			all.Go(func() { _, _, err := timers[0].Due(t.Context(), 9); _ = err })
			<-entered
			same(t, "run", statusOf(t, there).Run, run)
			want := pawl.Done
			if cancel {
				want = pawl.Cancelled
				if err := there.Cancel(t.Context(), "enough"); err != nil {
					t.Error(err)
				}
			}
			all.Wait()
			_ = timers[0].Wait(t.Context())
			tally(t, l, map[string]int{"entry": 1})
			same(t, "status", statusOf(t, here).Status, want)
			if !cancel {
				same(t, "state", string(statusOf(t, here).Head.Values), values("nobody"))
			}
		}
	})
}

// stopsAskingMeanwhile is 081: whether a call needs a yes depends on the clock. What was decided about it once is not
// decided again.
func stopsAskingMeanwhile(t *testing.T, _ *report) {
	onEachMoney(t, func(t *testing.T, h *home) {
		for _, c := range []struct {
			name         string
			first, later bool // the predicate: a yes is needed
			decide       func(*firm, approval.Request) error
			sent         int
			end          pawl.Status
		}{
			{"asked, no longer, nobody decided", true, false, nil, 0, pawl.Waiting},
			{"asked, no longer, a no", true, false, no, 0, pawl.Failed},
			{"asked, no longer, a yes", true, false, yes, 1, pawl.Done},
			{"asked, still, a yes", true, true, yes, 1, pawl.Done},
			{"not asked, now", false, true, nil, 1, pawl.Done},
		} {
			t.Run(c.name, func(t *testing.T) {
				target, o := pawltest.NewTarget(pawltest.TargetOpaque), firmIn(t, h)
				needs := c.first
				gated, plain := approvedAs(c.name, target), wireAs(c.name, target)
				node := func(e wiring) func(context.Context, *payment) error { return pays(e) }
				g := func() *pawl.Graph[payment] {
					e := map[bool]wiring{true: gated, false: plain}[needs]
					return build(t, pawl.New[payment]("pay "+c.name).Node("pay", node(e), pawl.Uses(e)).Node("after", func(ctx context.Context, _ *payment) error {
						_, err := gate.Ask(ctx, "go on?")
						return err
					}, pawl.Uses(gate)).Path(pawl.Start, "pay", "after"))
				}
				if _, err := g().Thread(o.eng, c.name).Run(t.Context(), orderFor(c.name)); err != nil {
					t.Fatal(err)
				}
				if open := o.requests(t, approval.Requested); c.decide != nil {
					if err := c.decide(o, open[slices.IndexFunc(open, func(r approval.Request) bool { return r.Thread == c.name })]); err != nil {
						t.Fatal(err)
					}
				}
				needs = c.later
				fresh := firmIn(t, h) // the program of after the boundary
				th := g().Thread(fresh.eng, c.name)
				for i := range 2 {
					out, err := th.Resume(t.Context())
					if denied := (*effect.DeniedError)(nil); errors.As(err, &denied) != (c.end == pawl.Failed) {
						t.Fatalf("%+v, %v", out, err)
					}
					if i == 0 && c.end == pawl.Done { // the question behind the payment
						same(t, "waits for", mustWaitFor(t, out, err, 1)[0].Name, gate.Name)
						if _, err = th.Answer(t.Context(), out.Waiting[0].ID, "yes"); err != nil {
							t.Fatal(err)
						}
					}
				}
				same(t, "status", statusOf(t, th).Status, c.end)
				saw(t, target, c.sent, 0, c.sent)
				same(t, "asked", len(slices.DeleteFunc(o.requests(t), func(r approval.Request) bool { return r.Thread != c.name })), map[bool]int{true: 1}[c.first])
			})
		}
	})
}

func yes(o *firm, r approval.Request) error {
	_, err := o.approvals.Approve(actor("cfo"), r.ID, approval.Decision{Digest: r.Call})
	return err
}

func no(o *firm, r approval.Request) error {
	_, err := o.approvals.Reject(actor("cfo"), r.ID, approval.Decision{Reason: "not this one"})
	return err
}

// lookingIsNoAnswer is 084: who looks for a decision, and gives up looking, changes nothing.
func lookingIsNoAnswer(t *testing.T, _ *report) {
	onEachClock(t, func(t *testing.T, h *home) {
		target, o := pawltest.NewTarget(pawltest.TargetOpaque), firmIn(t, h)
		th := build(t, payGraph(wire(target).Approve(approval.Levels{{To: "finance", For: 5 * time.Minute}}))).Thread(o.eng, "t")
		out, err := th.Run(t.Context(), orderFor("17"))
		mustWaitFor(t, out, err, 1)
		r := o.requests(t, approval.Requested)[0]
		before := everything(t, o.db) + o.kept(t, target)
		poll, end := context.WithTimeout(t.Context(), time.Second)
		defer end()
		for e, err := range th.Watch(poll, 0) {
			if err != nil || e.Kind == pawl.EventAnswer {
				t.Errorf("while it waits: %+v, %v", e, err)
			}
		}
		if poll.Err() == nil {
			t.Error("it stopped looking before its time was over")
		}
		for range 8 {
			if _, err := o.approvals.List(t.Context(), approval.Filter{}); err != nil {
				t.Error(err)
			}
			out, err := th.Resume(t.Context())
			mustWaitFor(t, out, err, 1)
			statusOf(t, th)
			later(time.Second)
		}
		same(t, "what is kept", everything(t, o.db)+o.kept(t, target), before)
		later(time.Second) // ten seconds
		if err := yes(o, r); err != nil {
			t.Fatal(err)
		}
		out, err = th.Resume(t.Context())
		mustBeDone(t, out, err)
		saw(t, target, 1, 0, 1)
		same(t, "refused by people", len(o.requests(t, approval.Denied)), 0)
	})
}

// lateNoIsANo is 086: after the time of a request a yes is refused and a no is stored as a no. That nobody decided is a
// third outcome.
func lateNoIsANo(t *testing.T, _ *report) {
	onEachClock(t, func(t *testing.T, h *home) {
		target, o := pawltest.NewTarget(pawltest.TargetOpaque), firmIn(t, h)
		g := build(t, payGraph(approvedWire(target)))
		open := map[string]approval.Request{}
		for _, invoice := range []string{"yes", "no", "nobody"} {
			out, err := g.Thread(o.eng, invoice).Run(t.Context(), orderFor(invoice))
			mustWaitFor(t, out, err, 1)
		}
		for _, r := range o.requests(t, approval.Requested) {
			open[r.Thread] = r
		}
		later(time.Hour + time.Second)
		if err := yes(o, open["yes"]); !errors.Is(err, pawl.ErrExpired) {
			t.Errorf("a late yes: %v", err)
		}
		if err := no(o, open["no"]); err != nil {
			t.Errorf("a late no: %v", err)
		}
		for invoice, want := range map[string]struct {
			expired bool
			by      string
			state   approval.State
		}{"yes": {true, "", approval.Expired}, "no": {false, "cfo", approval.Denied}, "nobody": {true, "", approval.Expired}} {
			_, err := g.Thread(o.eng, invoice).Resume(t.Context())
			denied := (*effect.DeniedError)(nil)
			if !errors.As(err, &denied) || denied.Expired != want.expired || denied.By != want.by {
				t.Errorf("%s: the node was told %v", invoice, err)
			}
			r, err := o.approvals.Show(t.Context(), open[invoice].ID)
			if err != nil || r.State != want.state || r.By != want.by {
				t.Errorf("%s: %+v, %v", invoice, r, err)
			}
		}
		saw(t, target, 0, 0, 0)
	})
}

// firstOfThree is 142: a person, a hook and a timer race for one question. The first is the answer, the others are told,
// and the run is over at once, with nothing left that waits.
func firstOfThree(t *testing.T, _ *report) {
	race := pawl.Interrupt[string, string]{Name: "race", Expires: time.Hour, Default: func(string) string { return "timer" }}
	onEachClock(t, func(t *testing.T, h *home) {
		for _, order := range [][]string{{"person", "hook", "timer"}, {"hook", "person", "timer"}, {"timer", "person", "hook"}} {
			g := build(t, pawl.New[mortalState](order[0]).Node("a", func(ctx context.Context, s *mortalState) error {
				winner, err := race.Ask(ctx, "who?")
				s.Log.Add(winner)
				return err
			}, pawl.Uses(race)).Edge(pawl.Start, "a"))
			o := firmIn(t, h)
			th, began := g.Thread(o.eng, order[0]), time.Now()
			out, err := th.Run(t.Context(), &mortalState{})
			q := mustWaitFor(t, out, err, 1)[0]
			if order[0] == "timer" {
				later(time.Hour)
			}
			for place, who := range order {
				if who != "timer" {
					_, err := o.eng.Answer(actor(who), q.ID, who)
					if (err == nil) != (place == 0) {
						t.Errorf("%v: %s was told %v", order, who, err)
					}
				}
				if place == 0 {
					out, err = th.Resume(t.Context())
					same(t, "winner", mustBeDone(t, out, err), values(who))
					same(t, "time", time.Since(began), map[bool]time.Duration{true: time.Hour}[who == "timer"])
				}
			}
			open, err := o.eng.Questions(t.Context(), 0)
			if err != nil || len(open) > 0 {
				t.Errorf("still open: %+v, %v", open, err)
			}
			before := everything(t, o.db)
			later(2 * time.Hour) // the time of the others comes, and nothing happens
			timer := o.eng.Timer()
			if done, _, err := timer.Due(t.Context(), 9); done != 0 || err != nil {
				t.Errorf("the timer did %d, %v", done, err)
			}
			unchanged(t, o.db, before)
		}
	})
}

// forgetIt is 159: somebody ignores an approval and wants something else. One call withdraws what is open and goes on with
// the new wish; a process that dies in it has done both or neither.
func forgetIt(t *testing.T, _ *report) {
	onEachMoney(t, func(t *testing.T, h *home) {
		target := pawltest.NewTarget(pawltest.TargetOpaque)
		e := approvedWire(target)
		g := func() *pawl.Graph[payment] {
			return build(t, pawl.New[payment]("wish").Node("read", noop).Node("pay", func(ctx context.Context, s *payment) error {
				if s.Order.Get().To == "nobody" {
					s.Receipt.Set("did X")
					return nil
				}
				return pays(e)(ctx, s)
			}, pawl.Uses(e)).Path(pawl.Start, "read", "pay"))
		}
		for point := 0; ; point++ {
			invoice, before := fmt.Sprint(point), firmIn(t, h)
			out, err := g().Thread(before.eng, invoice).Run(t.Context(), orderFor(invoice))
			mustWaitFor(t, out, err, 1)
			db := fault.Wrap(h.open(t), fault.Plan{At: fault.At(point, fault.Stop())})
			mortal, err := openFirm(db, h.path, "policy-1")
			if err != nil {
				t.Fatal(err)
			}
			_, err = g().Thread(mortal.eng, invoice).Fork(actor("ann"), pawl.Checkpoint(out.Checkpoint), func(s *payment) error {
				s.Order.Set(transfer{To: "nobody"})
				return nil
			}, pawl.At(out.Checkpoint))
			died := err != nil
			mortal.eng.Close()
			o := firmIn(t, h)
			th := g().Thread(o.eng, invoice)
			s, r := statusOf(t, th), o.requests(t, approval.Withdrawn)
			mine := slices.ContainsFunc(r, func(r approval.Request) bool { return r.Thread == invoice })
			if old := s.Status == pawl.Waiting && len(s.Waiting) == 1; old == mine {
				t.Errorf("death %d: the thread is %s, %d are open, withdrawn %v", point, s.Status, len(s.Waiting), mine)
			} else if !old && s.Status != pawl.Done {
				out, err := th.Resume(t.Context())
				mustBeDone(t, out, err)
				same(t, "receipt", out.State.Receipt.Get(), "did X")
			}
			if !died {
				if point < 4 {
					t.Errorf("only %d deaths", point)
				}
				break
			}
		}
		saw(t, target, 0, 0, 0)
	})
}
