package suite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/agent"
	"github.com/pawl-dev/pawl/effect"
	"github.com/pawl-dev/pawl/internal/house"
	"github.com/pawl-dev/pawl/sqlite"
	"github.com/pawl-dev/pawl/storage"
)

// strictModel refuses, as providers do, a conversation in which a call has no result right behind it. It wants the tool
// once, and answers the newest message of the user with how the conversation looks.
func strictModel(tool string) agent.Model {
	return agent.ModelFunc(func(_ context.Context, r agent.Request) (agent.Message, error) {
		var open []string
		shape := ""
		for _, m := range r.Messages {
			if m.Role == agent.ToolRole {
				at := slices.Index(open, m.Call)
				if at < 0 {
					return agent.Message{}, fmt.Errorf("400: a result of %q, which is not called", m.Call)
				}
				open = slices.Delete(open, at, at+1)
				shape += fmt.Sprintf(" result(%s %v)", m.Text, m.Failed)
				continue
			}
			if len(open) > 0 {
				return agent.Message{}, fmt.Errorf("400: the calls %q have no results", open)
			}
			for _, c := range m.Calls {
				open = append(open, c.ID)
			}
			shape += " " + string(m.Role)
		}
		if len(open) > 0 {
			return agent.Message{}, fmt.Errorf("400: the calls %q have no results", open)
		}
		if shape == " user" {
			return agent.Message{Calls: []agent.Call{{ID: "1", Tool: tool, Args: []byte(`{"order":"17"}`)}, {ID: "2", Tool: "other", Args: []byte(`{"order":"17"}`)}}}, nil
		}
		return agent.Answers(strings.TrimSpace(shape)), nil
	})
}

type toolDeath struct{ Path, Tool string }

// chat is an agent whose tools kill their process between the request and the result, as long as this process dies.
func (d toolDeath) chat(db storage.DB, dies bool) (*pawl.Engine, *pawl.Graph[agent.Chat]) {
	act := func(tool string) {
		if dies && tool == d.Tool {
			fmt.Println("called")
			killSelf()
		}
	}
	led, parts, err := staff()
	must(led, err)
	paid := effect.New("pay", func(context.Context, effect.Op, ordered) (string, error) { act("pay"); return "paid", nil }).Timeout(time.Second)
	g := must(agent.New("chat", agent.Options{Model: strictModel(d.Tool), Tools: []agent.Tool{
		agent.Lookup("find", "", func(context.Context, ordered) (string, error) { act("find"); return "found", nil }),
		agent.Action("pay", "", func(ctx context.Context, in ordered) (string, error) {
			return paid.Do(ctx, effect.Ref("order", in.Order), in)
		}, paid),
		agent.Lookup("other", "", func(context.Context, ordered) (string, error) { return "other", nil }),
	}}))
	return must(pawl.NewEngine(db, &pawl.Options{Parts: parts})), g
}

func toolDeathChild(doc []byte) {
	d := args[toolDeath](doc)
	eng, g := d.chat(must(sqlite.Open(d.Path, house.Kinds()...)), true)
	g.Thread(eng, "t").Run(context.Background(), agent.Ask("go"))
	os.Exit(1)
}

// closedCalls is 037: a process is killed between a model's request and the tool's result. The conversation stays one that
// a model takes, and says of the call what is true.
func closedCalls(t *testing.T, _ *report) {
	const unknown = "what came of this call is not known true"
	for _, c := range []struct {
		tool     string
		cancel   bool   // give the run up, rather than resume it
		resumed  string // the conversation at the end of the run; "doubt": it waits for somebody who knows
		followed string // and with the user's next message
	}{
		{"find", false, "user assistant result(found false) result(other false)", "user assistant result(found false) result(other false) assistant user"},
		{"find", true, "", "user assistant result(" + unknown + ") result(" + unknown + ") user"},
		{"pay", false, "doubt", ""},
		{"pay", true, "", "user assistant result(" + unknown + ") result(" + unknown + ") user"},
	} {
		t.Run(fmt.Sprint(c.tool, " cancelled ", c.cancel), func(t *testing.T) {
			d := toolDeath{newFile(t), c.tool}
			dead := spawn(t, "bug-tool", d)
			same(t, "the child", dead.line(), "called")
			dead.cmd.Wait()
			db := must(sqlite.Open(d.Path, house.Kinds()...))
			defer db.Close()
			eng, g := d.chat(db, false)
			defer eng.Close()
			th := g.Thread(eng, "t")
			refused := (*pawl.VerbError)(nil)
			if _, err := th.Run(t.Context(), agent.Ask("and now?")); !errors.As(err, &refused) || refused.Status != pawl.Crashed {
				t.Fatalf("a message to a crashed run: %v", err)
			}
			if c.cancel {
				if err := th.Cancel(t.Context(), "never mind"); err != nil {
					t.Fatal(err)
				}
			} else {
				out, err := th.Resume(t.Context())
				if c.resumed == "doubt" {
					same(t, "waits for", mustWaitFor(t, out, err, 1)[0].Kind, "doubt")
					return
				}
				mustBeDone(t, out, err)
				same(t, "resumed", out.State.Answer.Get(), c.resumed)
			}
			out, err := th.Run(t.Context(), agent.Ask("and now?"))
			mustBeDone(t, out, err)
			same(t, "with the next message", out.State.Answer.Get(), c.followed)
		})
	}
}

// tags is a container with a method, which code relies on.
type tags []string

func (l tags) first() string { return l[0] }

// richState has a channel of each kind, and values that are easily changed by a reload.
type richState struct {
	Tags  pawl.Last[tags]                 `json:"tags"`
	Ptrs  pawl.Last[map[string]*thing]    `json:"ptrs"`
	When  pawl.Last[time.Time]            `json:"when"`
	Any   pawl.Last[any]                  `json:"any"`
	Big   pawl.Last[uint64]               `json:"big"`
	Empty pawl.Last[[]int]                `json:"empty"`
	Raw   pawl.Last[json.RawMessage]      `json:"raw"`
	List  pawl.Append[thing]              `json:"list"`
	Sum   pawl.Sum[int64]                 `json:"sum"`
	Map   pawl.Map[string, time.Duration] `json:"map"`
	Once  pawl.Once[string]               `json:"once"`
	Short pawl.Ephemeral[string]          `json:"short"`
	Seen  pawl.Append[string]             `json:"seen"`
}

func richSets(_ context.Context, s *richState) error {
	s.Tags.Set(tags{"x", "y"})
	s.Ptrs.Set(map[string]*thing{"a": {"b"}, "nil": nil})
	s.When.Set(time.Date(2026, 12, 1, 1, 2, 3, 4, time.FixedZone("far", 3600)))
	s.Any.Set(map[string]any{"int": 1, "big": 9007199254740993, "list": []string{"a"}, "nil": nil})
	s.Big.Set(1<<64 - 1)
	s.Empty.Set([]int{})
	s.Raw.Set(json.RawMessage(`{ "b":1, "a":[ ] }`))
	s.List.Add(thing{"1"}, thing{"2"})
	s.Sum.Add(1 << 62)
	s.Map.Set("k", time.Hour)
	s.Once.Put("taken once")
	s.Short.Set("for the next")
	return nil
}

func richReads(_ context.Context, s *richState) error {
	once, taken := s.Once.Take()
	s.Seen.Add(fmt.Sprintf("%T %s %v %v %v %#v %v %v %s %v %d %v %q %v %q", s.Tags.Get(), s.Tags.Get().first(), s.Ptrs.Get()["a"], s.Ptrs.Get()["nil"] == nil,
		s.When.Get(), s.Any.Get(), s.Big.Get(), s.Empty.Get() == nil, s.Raw.Get(), items(s.List.All()), s.Sum.Get(), s.Map.Len(), once, taken, s.Short.Get()))
	return nil
}

// reloadedEachStep is 130: a graph that runs in one go, and one that another process takes up after each super-step, read
// and keep the same.
func reloadedEachStep(t *testing.T, h *home) {
	g := func() *pawl.Graph[richState] {
		return build(t, pawl.New[richState]("rich").Node("a", richSets).Node("b", richReads).Node("c", richReads).Path(pawl.Start, "a", "b", "c"))
	}
	want := ""
	for _, mode := range []pawl.Durability{pawl.Sync, pawl.Async, pawl.Exit} {
		straight := g().Thread(engine(t, h.open(t), nil), "straight "+string(mode))
		out, err := straight.Run(t.Context(), &richState{}, pawl.WithDurability(mode))
		got := mustBeDone(t, out, err)
		if want == "" {
			want = got
			says(t, want, "suite.tags x", "taken once", "for the next", "9.007199254740992e+15")
		}
		same(t, string(mode), got, want)
		id := "reloaded " + string(mode)
		again, err := g().Thread(engine(t, h.open(t), nil), id).Run(t.Context(), &richState{}, pawl.WithDurability(mode), pawl.BreakAfter(pawl.Everywhere))
		starts := 1
		for ; err == nil && again.Status == pawl.Waiting; starts++ {
			again, err = g().Thread(engine(t, h.open(t), nil), id).Resume(t.Context())
		}
		same(t, id, mustBeDone(t, again, err), want)
		same(t, "starts", starts, 3)
	}
}

// whoHasIt is 134: while it runs, waits, is done and after its process died, a thread says who has it, and since when.
func whoHasIt(t *testing.T, _ *report) {
	onEach(t, func(t *testing.T, h *home) {
		began, inside, release := time.Now(), make(chan struct{}), make(chan struct{})
		g := build(t, pawl.New[mortalState]("g").Node("a", func(context.Context, *mortalState) error { close(inside); <-release; return nil }).
			Node("b", asks(newLedger(t), "b"), pawl.Uses(gate)).Path(pawl.Start, "a", "b"))
		var member string
		db := h.open(t)
		th := g.Thread(engine(t, &deposed{DB: db}, nil, g), "t")
		over := make(chan error, 1)
		go func() { _, err := th.Run(context.Background(), &mortalState{}); over <- err }()
		<-inside
		s := statusOf(t, g.Thread(engine(t, db, nil), "t"))
		if member = s.Owner; s.Status != pawl.Running || member == "" || s.Updated.Before(began.Add(-time.Second)) || s.Updated.After(time.Now()) {
			t.Errorf("while it runs: %+v", s)
		}
		if _, err := th.Run(t.Context(), &mortalState{}); !errors.Is(err, pawl.ErrBusy) {
			t.Errorf("another run: %v", err)
		}
		close(release)
		if err := <-over; err != nil {
			t.Fatal(err)
		}
		s = statusOf(t, th)
		same(t, "waiting", fmt.Sprint(s.Status, s.Owner), "waiting")
		out, err := th.Resume(t.Context(), pawl.AnswerWith("", "yes"))
		mustBeDone(t, out, err)
		s = statusOf(t, th)
		same(t, "done", fmt.Sprint(s.Status, s.Owner), "done")
	})
	h := onDisk(t)
	c := spawn(t, "bug-block", h.path)
	same(t, "the child", c.line(), "inside")
	th := build(t, blocking(func() {})).Thread(engine(t, h.open(t), nil), "t")
	running := statusOf(t, th)
	c.kill()
	crashed := statusOf(t, th)
	if running.Status != pawl.Running || crashed.Status != pawl.Crashed || running.Owner == "" || crashed.Owner != "" || !crashed.Updated.Equal(running.Updated) {
		t.Errorf("in another process: %+v, after its death %+v", running, crashed)
	}
}

// gotoBesideAnEdge is 137: a jump goes beside the fixed edges of its node, as both are declared; a target of both is
// entered once, and one that is not declared is refused.
func gotoBesideAnEdge(t *testing.T, h *home) {
	for _, c := range []struct {
		name    string
		targets []string
		jump    string
		entered string
		fails   bool
	}{
		{"elsewhere", []string{"c"}, "c", "a b c", false},
		{"where the edge leads", []string{"b", "c"}, "b", "a b", false},
		{"nowhere", []string{"c"}, "", "a b", false},
		{"undeclared", []string{"c"}, "d", "a", true},
	} {
		l := newLedger(t)
		g := build(t, pawl.New[mortalState](c.name).Node("a", func(ctx context.Context, s *mortalState) error {
			if l.add("a"); c.jump == "" {
				return nil
			}
			return pawl.Goto(ctx, pawl.To(c.jump)...)
		}, pawl.Targets(c.targets...)).Node("b", notes(l, "b")).Node("c", notes(l, "c")).Node("d", notes(l, "d")).
			Edge(pawl.Start, "a").Edge("a", "b").Route("c", func(*mortalState) []pawl.Next { return nil }, "d", pawl.End))
		_, err := g.Thread(engine(t, h.open(t), nil), c.name).Run(t.Context(), &mortalState{})
		undeclared := (*pawl.UndeclaredTargetError)(nil)
		if errors.As(err, &undeclared) != c.fails || err != nil && !c.fails {
			t.Errorf("%s: %v", c.name, err)
		}
		rows := l.rows()
		slices.Sort(rows)
		same(t, c.name, strings.Join(rows, " "), c.entered)
	}
}

// branchesBesideAWait is 138: while one branch waits, the other keeps what it did in the same super-step, and a branch that
// is declared as a child goes all its way.
func branchesBesideAWait(t *testing.T, h *home) {
	for name, inside := range map[string]bool{"nodes": false, "a child": true} {
		l := newLedger(t)
		b := pawl.New[kin]("wait "+name).Node("a", asksAs(l, "a"), pawl.Uses(okay)).Edge(pawl.Start, "a")
		if inside {
			three := build(t, pawl.New[kin]("three").Node("b1", logs(l, "b1")).Node("b2", logs(l, "b2")).Node("b3", logs(l, "b3")).
				Path(pawl.Start, "b1", "b2", "b3"))
			b.Add(pawl.Sub(three.Child("b"), nothingIn, logOut)).Edge(pawl.Start, "b")
		} else {
			b.Node("b1", logs(l, "b1")).Node("b2", logs(l, "b2")).Node("b3", logs(l, "b3")).Path(pawl.Start, "b1", "b2", "b3")
		}
		g := build(t, b)
		first := engine(t, h.open(t), nil)
		out, err := g.Thread(first, name).Run(t.Context(), &kin{})
		q := mustWaitFor(t, out, err, 1)[0]
		while := map[string]int{"a": 1, "b1": 1}
		if inside {
			while["b2"], while["b3"] = 1, 1
		}
		tally(t, l, while)
		first.Close()
		th := g.Thread(engine(t, h.open(t), nil), name)
		soon := args[struct{ Log []string }](statusOf(t, th).Values).Log
		same(t, name+": kept while it waits", len(soon), len(while)-1)
		out, err = th.Resume(t.Context(), okay.Answer(q.ID, "yes"))
		mustBeDone(t, out, err)
		tally(t, l, map[string]int{"a": 2, "b1": 1, "b2": 1, "b3": 1})
	}
}

// triedAgainOnRequest is 168: nothing is tried again by default. With Tries everything is but what is final: by its
// own word, or by pawl.Retryable, such as a call that somebody cancelled; with policies, what they name.
func triedAgainOnRequest(t *testing.T, h *home) {
	type status int
	failures := map[string]error{
		"400": fmt.Errorf("%d bad request", status(400)), "503": errors.New("503 unavailable"), "reset": errors.New("connection reset"),
		"deadline": context.DeadlineExceeded, "cancelled": context.Canceled, "full": storage.ErrFull, "final": pawl.NoRetry(errors.New("no")),
	}
	unavailable := func(err error) bool { return errors.Is(err, failures["503"]) || errors.Is(err, failures["reset"]) }
	for policy, c := range map[string]struct {
		options []pawl.NodeOption
		entries func(name string) int
	}{
		"default": {nil, func(string) int { return 1 }},
		"tries": {[]pawl.NodeOption{pawl.Tries(3), pawl.Backoff(0, 0)}, func(name string) int {
			return map[bool]int{true: 1, false: 3}[name == "final" || name == "cancelled"]
		}},
		"policies": {[]pawl.NodeOption{pawl.Tries(3), pawl.Backoff(0, 0), pawl.RetryOn(unavailable)}, func(name string) int {
			return map[bool]int{true: 3, false: 1}[name == "503" || name == "reset"]
		}},
	} {
		for name, failure := range failures {
			entries := 0
			g := build(t, pawl.New[mortalState](policy+name).Node("a", func(context.Context, *mortalState) error { entries++; return failure }, c.options...).
				Edge(pawl.Start, "a"))
			out, err := g.Thread(engine(t, h.open(t), nil), policy+name).Run(t.Context(), &mortalState{})
			if err == nil || out.Status != pawl.Failed {
				t.Errorf("%s, %s: %+v, %v", policy, name, out, err)
			}
			same(t, policy+", "+name, entries, c.entries(name))
		}
	}
}

// pausedFromOutside is 171: while the first of three nodes runs for long, somebody wants the run to pause. It runs until the
// node is over, and then it is paused: nothing new starts, and whoever resumes it goes on there.
func pausedFromOutside(t *testing.T, h *home) {
	l, inside, release := newLedger(t), make(chan struct{}), make(chan struct{})
	first := true
	g := build(t, pawl.New[mortalState]("three").Node("a", func(ctx context.Context, s *mortalState) error {
		if first {
			close(inside)
			<-release
		}
		return notes(l, "a")(ctx, s)
	}).Node("b", notes(l, "b")).Node("c", notes(l, "c")).Path(pawl.Start, "a", "b", "c"))
	th := g.Thread(engine(t, h.open(t), nil, g), "t")
	ctx, pause := pawl.WithDrain(context.Background())
	type end struct {
		out *pawl.OutcomeOf[mortalState]
		err error
	}
	over := make(chan end, 1)
	go func() { out, err := th.Run(ctx, &mortalState{}); over <- end{out, err} }()
	<-inside
	pause("lunch")
	same(t, "while the node runs", statusOf(t, th).Status, pawl.Running)
	first = false
	close(release)
	e := <-over
	mustWaitFor(t, e.out, e.err, 0)
	says(t, e.out.Reason, "lunch")
	there := g.Thread(engine(t, h.open(t), nil, g), "t")
	s := statusOf(t, there)
	same(t, "paused", fmt.Sprint(s.Status, " ", s.Cause, " ", s.Head.Next), "waiting drained [b]")
	tally(t, l, map[string]int{"a": 1})
	out, err := there.Resume(t.Context())
	same(t, "state", mustBeDone(t, out, err), values("a", "b", "c"))
	tally(t, l, map[string]int{"a": 1, "b": 1, "c": 1})
}
