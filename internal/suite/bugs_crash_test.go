package suite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/storage"
	"github.com/pawl-dev/pawl/storage/fault"
)

// recoveredInAnyOrder is 040: three recorded calls at once, a death after two are stored, and 1,000 recoveries that
// schedule them as they like.
func recoveredInAnyOrder(t *testing.T, _ *report) {
	recoveries := times(t, 1000)
	for i := range recoveries {
		h := memory(t)
		home := h.open(t)
		var mu sync.Mutex
		calls := map[string]int{}
		dies, stored := rand.IntN(3), make(chan struct{}, 2)
		var dying *fault.DB
		node := func(ctx context.Context, s *crowdState) error {
			got := make([]string, 3)
			var fns []func(context.Context) error
			for _, n := range rand.Perm(3) {
				fns = append(fns, func(ctx context.Context) (err error) {
					for range rand.IntN(3) {
						runtime.Gosched()
					}
					name := fmt.Sprint("call ", n)
					got[n], err = pawl.Step(ctx, name, func(context.Context) (string, error) {
						mu.Lock()
						calls[name]++
						mu.Unlock()
						if n == dies && dying != nil {
							<-stored
							<-stored
							dying.Stop()
						}
						return "result of " + name, nil
					})
					if err == nil && dying != nil {
						stored <- struct{}{}
					}
					return err
				})
			}
			if err := pawl.All(ctx, fns...); err != nil {
				return err
			}
			for n, v := range got {
				s.Told.Set(fmt.Sprint("call ", n), v)
			}
			return nil
		}
		g := build(t, pawl.New[crowdState]("calls").Node("calls", node).Edge(pawl.Start, "calls"))
		dying = fault.Wrap(home, fault.Plan{})
		first := engine(t, dying, nil, g)
		if _, err := g.Thread(first, "t").Run(context.Background(), &crowdState{}); !errors.Is(err, fault.ErrStopped) {
			t.Fatalf("recovery %d: the process did not die: %v", i, err)
		}
		first.Close()
		dying = nil
		eng := engine(t, home, nil, g)
		out, err := g.Thread(eng, "t").Resume(context.Background())
		if values := mustBeDone(t, out, err); values != `{"told":{"call 0":"result of call 0","call 1":"result of call 1","call 2":"result of call 2"}}` {
			t.Fatalf("recovery %d: %s", i, values)
		}
		for n := range 3 {
			want := 1
			if n == dies {
				want = 2 // it was called, and its result was not stored
			}
			if got := calls[fmt.Sprint("call ", n)]; got != want {
				t.Fatalf("recovery %d: call %d was made %d times, want %d", i, n, got, want)
			}
		}
		eng.Close()
	}
}

// recordedCallAdded is 042: a deployed program has one more recorded call before the one that a paused run has made.
func recordedCallAdded(t *testing.T, _ *report) {
	program := func(t *testing.T, l *ledger, version int, calls ...string) *pawl.Graph[mortalState] {
		return build(t, pawl.New[mortalState]("flow").Node("flow", func(ctx context.Context, s *mortalState) error {
			for _, name := range calls {
				v, err := pawl.Step(ctx, name, func(context.Context) (string, error) { l.add(name); return "did " + name, nil })
				if err != nil {
					return err
				}
				s.Log.Add(v)
			}
			a, err := gate.Ask(ctx, "go on?")
			s.Log.Add(a)
			return err
		}, pawl.Uses(gate), pawl.Version(version)).Edge(pawl.Start, "flow"))
	}
	paused := func(t *testing.T, h *home) (*ledger, storage.DB, pawl.Question) {
		l, db := newLedger(t), h.open(t)
		g := program(t, l, 1, "pay")
		out, err := g.Thread(engine(t, db, nil, g), "t").Run(context.Background(), &mortalState{})
		return l, db, mustWaitFor(t, out, err, 1)[0]
	}
	// A new call above an open question is not made: the question is answered first, and nothing is taken for another.
	t.Run("undeclared", func(t *testing.T) {
		onEach(t, func(t *testing.T, h *home) {
			l, db, q := paused(t, h)
			g := program(t, l, 1, "check", "pay")
			out, err := g.Thread(engine(t, db, nil, g), "t").Resume(context.Background(), gate.Answer(q.ID, "yes"))
			same(t, "state", mustBeDone(t, out, err), `{"log":["did check","did pay","yes"]}`)
			tally(t, l, map[string]int{"check": 1, "pay": 1})
		})
	})
	t.Run("declared", func(t *testing.T) {
		onEach(t, func(t *testing.T, h *home) {
			l, db, q := paused(t, h)
			g := program(t, l, 2, "check", "pay")
			th := g.Thread(engine(t, db, nil, g), "t")
			before := everything(t, db)
			_, err := th.Resume(context.Background(), gate.Answer(q.ID, "yes"))
			e := (*pawl.VersionError)(nil)
			if !errors.As(err, &e) {
				t.Fatalf("error %v", err)
			}
			says(t, err.Error(), `"t"`, `version of node "flow": was 1, is 2`, "nothing was run", "a program of the old version", "fork it from before")
			unchanged(t, db, before)
			tally(t, l, map[string]int{"pay": 1})
			same(t, "status", statusOf(t, th).Status, pawl.Waiting)

			old := program(t, l, 1, "pay") // the run stays with its version
			out, err := old.Thread(engine(t, db, nil, old), "t").Resume(context.Background(), gate.Answer(q.ID, "yes"))
			same(t, "state", mustBeDone(t, out, err), `{"log":["did pay","yes"]}`)
			tally(t, l, map[string]int{"pay": 1})
		})
	})
}

// blockingChild runs a node that blocks for good, in a child that owns the thread.
func blockingChild(doc []byte) {
	eng := childEngine(args[string](doc), nil)
	g := must(blocking(func() { fmt.Println("inside"); select {} }).Build())
	g.Thread(eng, "t").Run(context.Background(), &mortalState{})
}

func blocking(work func()) *pawl.Builder[mortalState] {
	return pawl.New[mortalState]("blocks").Node("a", adds("a")).Node("b", func(_ context.Context, s *mortalState) error {
		work()
		s.Log.Add("b")
		return nil
	}).Path(pawl.Start, "a", "b")
}

// longNodeKeepsItsThread is 044.
func longNodeKeepsItsThread(t *testing.T, _ *report) {
	t.Run("a stopped process stays the owner", func(t *testing.T) {
		t.Log(three(t, stoppedOwner))
	})
	t.Run("a zombie writes nothing", func(t *testing.T) { onEach(t, zombie) })
}

// stoppedOwner stops a process, which then can renew nothing: it stays the owner, until it dies.
func stoppedOwner(t *testing.T) string {
	h := onDisk(t)
	c := spawn(t, "bug-block", h.path)
	if line := c.line(); line != "inside" {
		t.Fatalf("the child says %q", line)
	}
	pid := c.cmd.Process.Pid
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	var ws syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &ws, syscall.WUNTRACED, nil); err != nil || !ws.Stopped() {
		t.Fatalf("the child did not stop: %v %v", ws, err)
	}
	g := build(t, blocking(func() {}))
	db := h.open(t)
	th := g.Thread(engine(t, db, nil, g), "t")
	before := everything(t, db)
	for range 3 {
		if s := statusOf(t, th); s.Status != pawl.Running {
			t.Fatalf("the thread of a stopped process is %s", s.Status)
		}
		if _, err := th.Resume(context.Background()); !errors.Is(err, pawl.ErrBusy) {
			t.Fatalf("resume beside a stopped process: %v", err)
		}
	}
	unchanged(t, db, before)
	c.kill()
	same(t, "status after its death", statusOf(t, th).Status, pawl.Crashed)
	out, err := th.Resume(context.Background())
	return mustBeDone(t, out, err)
}

// deposed is a home whose members can be declared dead while its process goes on writing: what a lost lease looks like.
type deposed struct {
	storage.DB
	members []storage.Member
}

func (d *deposed) Join(ctx context.Context) (storage.Member, error) {
	m, err := d.DB.Join(ctx)
	d.members = append(d.members, m)
	return m, err
}

func zombie(t *testing.T, h *home) {
	ctx := context.Background()
	for name, waitFor := range map[string]bool{"before the other ends": false, "after the other ended": true} {
		t.Run(name, func(t *testing.T) {
			id := strings.ReplaceAll(name, " ", "-")
			inside, release := make(chan struct{}), make(chan struct{})
			old := build(t, blocking(func() { close(inside); <-release }))
			lost := &deposed{DB: h.open(t)}
			zombie := engine(t, lost, nil, old)
			over := make(chan error, 1)
			go func() {
				_, err := old.Thread(zombie, id).Run(ctx, &mortalState{})
				over <- err
			}()
			<-inside
			for _, m := range lost.members {
				m.Close()
			}
			inOther, releaseOther := make(chan struct{}), make(chan struct{})
			now := build(t, blocking(func() { close(inOther); <-releaseOther }))
			db := h.open(t)
			th := now.Thread(engine(t, db, nil, now), id)
			same(t, "status", statusOf(t, th).Status, pawl.Crashed)
			type end struct {
				out *pawl.OutcomeOf[mortalState]
				err error
			}
			ended := make(chan end, 1)
			go func() { out, err := th.Resume(ctx); ended <- end{out, err} }()
			<-inOther
			var e end
			if waitFor {
				close(releaseOther)
				e = <-ended
			}
			before := everything(t, db)
			close(release)
			err := <-over
			if !errors.Is(err, pawl.ErrFenced) {
				t.Errorf("the zombie's end: %v", err)
			} else {
				says(t, err.Error(), `"`+id+`"`, "taken over", "nothing more was written")
			}
			unchanged(t, db, before)
			if !waitFor {
				close(releaseOther)
				e = <-ended
			}
			same(t, "state", mustBeDone(t, e.out, e.err), `{"log":["a","b"]}`)
		})
	}
}

type rushing struct {
	Path, ID, Answer string
	Each             bool // every answer differs
}

// answerRushChild gives 25 answers at once, when it is told to, and counts what it was told.
func answerRushChild(doc []byte) {
	a := args[rushing](doc)
	eng := childEngine(a.Path, nil)
	fmt.Println("ready")
	var line string
	fmt.Scanln(&line)
	var wg sync.WaitGroup
	var mu sync.Mutex
	told := map[string]int{}
	for i := range 25 {
		wg.Go(func() {
			answer := a.Answer
			if a.Each {
				answer += fmt.Sprint(i)
			}
			v, err := eng.Answer(pawl.WithActor(context.Background(), pawl.Actor{ID: answer}), a.ID, answer)
			mu.Lock()
			defer mu.Unlock()
			e := (*pawl.AnswerError)(nil)
			switch {
			case err == nil && v.Already:
				told["again"]++
			case err == nil:
				told["taken"]++
			case errors.As(err, &e) && errors.Is(err, pawl.ErrAnswered) && e.By != "" && !e.At.IsZero():
				told["answered"]++
				told["by "+e.By]++
			default:
				told[err.Error()]++
			}
		})
	}
	wg.Wait()
	fmt.Println(compact(told))
	must(0, eng.Close())
}

// fiftyAnswers is 064.
func fiftyAnswers(t *testing.T, _ *report) {
	for name, each := range map[string]bool{"the same": false, "fifty different": true} {
		t.Run(name, func(t *testing.T) {
			h, l := onDisk(t), newLedger(t)
			g := build(t, pawl.New[mortalState]("pay").Node("pay", func(ctx context.Context, s *mortalState) error {
				a, err := gate.Ask(ctx, "pay?")
				if err != nil {
					return err
				}
				_, err = pawl.Step(ctx, "pay", func(context.Context) (int, error) { l.add("paid"); return 0, nil })
				s.Log.Add(a)
				return err
			}, pawl.Uses(gate)).Edge(pawl.Start, "pay"))
			eng := engine(t, h.open(t), nil, g)
			th := g.Thread(eng, "t")
			out, err := th.Run(context.Background(), &mortalState{})
			q := mustWaitFor(t, out, err, 1)[0]
			var processes []*child
			for _, who := range []string{"a", "b"} {
				if !each {
					who = "yes"
				}
				c := spawn(t, "bug-rush", rushing{h.path, q.ID, who, each})
				same(t, "process", c.line(), "ready")
				processes = append(processes, c)
			}
			for _, c := range processes {
				fmt.Fprintln(c.in, "go")
			}
			told := map[string]int{}
			for _, c := range processes {
				var some map[string]int
				if err := json.Unmarshal([]byte(c.wait(t)), &some); err != nil {
					t.Fatal(err)
				}
				for k, n := range some {
					told[k] += n
				}
			}
			out, err = th.Resume(context.Background())
			mustBeDone(t, out, err)
			var log []string
			for _, line := range out.State.Log.All() {
				log = append(log, line)
			}
			want := map[string]int{"taken": 1, "again": 49}
			if each {
				want = map[string]int{"taken": 1, "answered": 49, "by " + log[0]: 49}
			}
			same(t, "what they were told", told, want)
			v, err := eng.Answer(context.Background(), q.ID, "no")
			e := (*pawl.AnswerError)(nil)
			if v != nil || !errors.As(err, &e) || e.Reason != pawl.ReasonAnswered || e.By != log[0] || e.At.IsZero() {
				t.Errorf("once more after the end: %+v, %v", v, err)
			}
			same(t, "paid", l.count("paid"), 1)
		})
	}
}
