package suite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/nest"
	"github.com/pawl-dev/pawl/memdb"
	"github.com/pawl-dev/pawl/sqlite"
	"github.com/pawl-dev/pawl/storage"
	"github.com/pawl-dev/pawl/storage/fault"
)

var allModes = []pawl.Durability{pawl.Sync, pawl.Async, pawl.Exit}

// ofMode is the history that the chain leaves, run with n = 1.
func ofMode(m pawl.Durability) []string {
	if m == pawl.Exit {
		return threeSteps[:1]
	}
	return threeSteps
}

func snapshotsOfEachMode(t *testing.T, _ *report) {
	onEach(t, func(t *testing.T, h *home) {
		l := newLedger(t)
		g := atDepth(t, counted(l).builder())
		eng := engine(t, h.open(t), nil, g)
		counts, modes := map[pawl.Durability]int{}, allModes
		if levelOf(t).Depth > 0 {
			modes = allModes[:2]
		}
		for _, m := range modes {
			th := g.Thread(eng, "run-"+string(m))
			out, err := th.Run(t.Context(), tenfoldOf(1), pawl.WithDurability(m))
			same(t, "result", mustBeDone(t, out, err), `{"n":20}`)
			got := history(t, th)
			sameList(t, string(m), historyTable(got), ofMode(m))
			parentsBelow(t, got)
			counts[m] = len(got)
			settled(t, statusOf(t, th))

			streamed := g.Thread(eng, "stream-"+string(m))
			var last *pawl.Outcome
			for ev, err := range streamed.Stream(t.Context(), tenfoldOf(1), pawl.WithDurability(m)) {
				if err != nil {
					t.Fatal(err)
				}
				last = ev.Outcome
			}
			if last == nil || last.Status != pawl.Done || string(last.Values) != `{"n":20}` {
				t.Errorf("stream %s ended with %+v", m, last)
			}
			got = history(t, streamed)
			sameList(t, "stream "+string(m), historyTable(got), ofMode(m))
			parentsBelow(t, got)
			settled(t, statusOf(t, streamed))
		}
		flatPart(t, underExit)
		same(t, "snapshots", fmt.Sprintf("sync %d, async %d, exit %d", counts[pawl.Sync], counts[pawl.Async], counts[pawl.Exit]), "sync 4, async 4, exit 1")
		th := g.Thread(eng, "default")
		out, err := th.Run(t.Context(), tenfoldOf(1))
		mustBeDone(t, out, err)
		sameList(t, "default", historyTable(history(t, th)), threeSteps)

		durable := counted(l)
		durable.a = []pawl.NodeOption{pawl.Durable()}
		saved := atDepth(t, durable.builder())
		th = saved.Thread(engine(t, h.open(t), nil, saved), "exit-durable")
		out, err = th.Run(t.Context(), tenfoldOf(1), pawl.WithDurability(pawl.Exit))
		mustBeDone(t, out, err)
		got := history(t, th)
		sameList(t, "exit with a durable node", historyTable(got), threeSteps[:2])
		parentsBelow(t, got)
		settled(t, statusOf(t, th))
		same(t, "entries", entriesAB(l), [2]int{8, 8})
	})
	t.Run("what the engine waits for", func(t *testing.T) {
		for _, c := range []struct {
			name    string
			options []pawl.RunOption
			durable bool
			waits   bool
		}{
			{"default", nil, false, true},
			{"sync", []pawl.RunOption{pawl.WithDurability(pawl.Sync)}, false, true},
			{"async", []pawl.RunOption{pawl.WithDurability(pawl.Async)}, false, false},
			{"exit", []pawl.RunOption{pawl.WithDurability(pawl.Exit)}, false, false},
			{"async, durable", []pawl.RunOption{pawl.WithDurability(pawl.Async)}, true, true},
			{"exit, durable", []pawl.RunOption{pawl.WithDurability(pawl.Exit)}, true, true},
		} {
			t.Run(c.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { heldStore(t, c.options, c.durable, c.waits) })
			})
		}
	})
}

// heldStore runs the chain over a store that acknowledges nothing after the accepted run, and looks whether b is
// entered meanwhile.
func heldStore(t *testing.T, options []pawl.RunOption, durable, waits bool) {
	inner, err := memdb.Open(pawl.Kinds()...)
	if err != nil {
		t.Fatal(err)
	}
	defer inner.Close()
	gate := fault.NewGate()
	slow := fault.Wrap(inner, fault.Plan{At: func(p fault.Point) fault.Action {
		if p.Op == fault.Update && p.Place == fault.Before && p.Call > 0 {
			return fault.Hold(gate)
		}
		return fault.Action{}
	}})
	var entered atomic.Bool
	c := tenfold{at: func(_ context.Context, node string) error { entered.Store(entered.Load() || node == "b"); return nil }}
	if durable {
		c.a = []pawl.NodeOption{pawl.Durable()}
	}
	g := atDepth(t, c.builder())
	eng, err := pawl.NewEngine(slow, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer eng.Close()
	over := make(chan struct{})
	go func() {
		defer close(over)
		out, err := g.Thread(eng, "t1").Run(context.Background(), tenfoldOf(1), options...)
		if err != nil || string(out.Values) != `{"n":20}` {
			t.Errorf("run: %+v, %v", out, err)
		}
	}()
	synctest.Wait()
	same(t, "b waits for the store", !entered.Load(), waits)
	gate.Release()
	<-over
}

func noWayBack(t *testing.T, _ *report) {
	onEach(t, func(t *testing.T, h *home) {
		l := newLedger(t)
		g := atDepth(t, counted(l).builder())
		eng := engine(t, h.open(t), nil, g)
		th := g.Thread(eng, "exit")
		out, err := th.Run(t.Context(), tenfoldOf(1), pawl.WithDurability(pawl.Exit))
		mustBeDone(t, out, err)
		standing, head := threadDump(t, th.Thread), history(t, th)[0].Checkpoint
		refused := func(out *pawl.OutcomeOf[tenfoldState], err error) {
			t.Helper()
			e := (*pawl.PointError)(nil)
			if out != nil || !errors.As(err, &e) || !errors.Is(err, pawl.ErrNotFound) {
				t.Fatalf("got %+v, %v, want a *PointError", out, err)
			}
			sameList(t, "checkpoints that exist", e.Exists, []string{head})
			for _, words := range []string{`before node "b"`, "saved at its end only", "checkpoints that exist (1): " + head} {
				if !strings.Contains(err.Error(), words) {
					t.Errorf("%q does not say %q", err, words)
				}
			}
		}
		refused(th.Replay(t.Context(), pawl.Before("b")))
		refused(th.Fork(t.Context(), pawl.Before("b"), func(s *tenfoldState) error { s.N.Set(100); return nil }))
		same(t, "the thread after the refusals", threadDump(t, th.Thread), standing)
		same(t, "entries", entriesAB(l), [2]int{1, 1})
		settled(t, statusOf(t, th))

		th = g.Thread(eng, "sync")
		out, err = th.Run(t.Context(), tenfoldOf(1))
		mustBeDone(t, out, err)
		before := history(t, th)
		out, err = th.Replay(t.Context(), pawl.Before("b"))
		same(t, "the same after a sync run", mustBeDone(t, out, err), `{"n":20}`)
		same(t, "entries", entriesAB(l), [2]int{2, 3})
		grew(t, before, history(t, th))
		settled(t, statusOf(t, th))
	})
}

var askGoOn = pawl.Interrupt[string, string]{Name: "go on"}

func whenExitSaves(t *testing.T, _ *report) {
	onEach(t, func(t *testing.T, h *home) {
		exit := pawl.WithDurability(pawl.Exit)
		oneStep := []string{`1 {"n":2} [b] loop`}
		t.Run("finish", func(t *testing.T) {
			l := newLedger(t)
			g := atDepth(t, counted(l).builder())
			th := g.Thread(engine(t, h.open(t), nil, g), "finish")
			out, err := th.Run(t.Context(), tenfoldOf(1), exit)
			mustBeDone(t, out, err)
			sameList(t, "history", historyTable(history(t, th)), threeSteps[:1])
			settled(t, statusOf(t, th))
		})
		t.Run("b fails", func(t *testing.T) {
			l := newLedger(t)
			broken := errors.New("the service is down")
			c := counted(l)
			c.at = func(_ context.Context, node string) error {
				l.add(node)
				if node == "b" && l.count("b") == 1 {
					return broken
				}
				return nil
			}
			g := atDepth(t, c.builder())
			th := g.Thread(engine(t, h.open(t), nil, g), "fails")
			out, err := th.Run(t.Context(), tenfoldOf(1), exit)
			if !errors.Is(err, broken) || out.Status != pawl.Failed || out.Cause != pawl.CauseError || out.Node != "b" {
				t.Fatalf("got %+v, %v, want b's failure", out, err)
			}
			before := history(t, th)
			sameList(t, "history", historyTable(before), oneStep)
			parentsBelow(t, before)
			if task := before[0].Tasks[0]; task.State != "failed" || !strings.Contains(task.Error, broken.Error()) {
				t.Errorf("b's task reads %+v, want its error", task)
			}
			out, err = th.Resume(t.Context())
			same(t, "resumed", mustBeDone(t, out, err), `{"n":20}`)
			same(t, "entries", entriesAB(l), [2]int{1, 2})
			grew(t, before, history(t, th))
			settled(t, statusOf(t, th))
		})
		t.Run("b asks", func(t *testing.T) {
			l := newLedger(t)
			c := counted(l)
			c.at = func(ctx context.Context, node string) error {
				if l.add(node); node == "a" {
					return nil
				}
				_, err := askGoOn.Ask(ctx, "go on?")
				return err
			}
			c.b = []pawl.NodeOption{pawl.Uses(askGoOn)}
			g := atDepth(t, c.builder())
			th := g.Thread(engine(t, h.open(t), nil, g), "asks")
			out, err := th.Run(t.Context(), tenfoldOf(1), exit)
			q := mustWait(t, out, err, "go on")[0]
			before := history(t, th)
			sameList(t, "history", historyTable(before), oneStep)
			parentsBelow(t, before)
			same(t, "pending", len(statusOf(t, th).Waiting), 1)
			out, err = th.Resume(t.Context(), askGoOn.Answer(q.ID, "yes"))
			same(t, "answered", mustBeDone(t, out, err), `{"n":20}`)
			same(t, "entries", entriesAB(l), [2]int{1, 2})
			grew(t, before, history(t, th))
			settled(t, statusOf(t, th))
		})
	})
	t.Run("killed in b", killedInB)
}

type chainArgs struct {
	Path   string // empty: memory
	Ledger string
	Mode   pawl.Durability
	Die    bool // in b's first line
}

// chainChild runs the chain with n = 1 and says how it ended.
func chainChild(doc []byte) {
	a := args[chainArgs](doc)
	l := &ledger{a.Ledger}
	c := tenfold{at: func(_ context.Context, node string) error {
		if l.add(node); node == "b" && a.Die {
			killSelf()
		}
		return nil
	}}
	var db storage.DB
	if a.Path == "" {
		db = must(memdb.Open(pawl.Kinds()...))
	} else {
		db = must(sqlite.Open(a.Path, pawl.Kinds()...))
	}
	eng := must(pawl.NewEngine(db, nil))
	out := must(atDepthHere(c.builder()).Thread(eng, "t1").Run(context.Background(), tenfoldOf(1), pawl.WithDurability(a.Mode)))
	fmt.Println(out.Status, string(out.Values))
	must(0, errors.Join(eng.Close(), db.Close()))
}

// crashedChain leaves a chain that died in b's first line.
func crashedChain(t testing.TB, h *home, l *ledger, mode pawl.Durability) *nest.Thread[tenfoldState] {
	t.Helper()
	dying := spawn(t, "001-chain", chainArgs{h.path, l.path, mode, true})
	if line := dying.line(); line != "" {
		t.Fatalf("the child went on: %q", line)
	}
	dying.kill()
	g := atDepth(t, counted(l).builder())
	return g.Thread(engine(t, h.open(t), nil, g), "t1")
}

func killedInB(t *testing.T) {
	for i := range 3 {
		t.Run(fmt.Sprint(i+1), func(t *testing.T) {
			l := newLedger(t)
			th := crashedChain(t, onDisk(t), l, pawl.Exit)
			s, before := statusOf(t, th), history(t, th)
			same(t, "status, snapshots, input", fmt.Sprintf("%s %d %v", s.Status, len(before), s.Input), "crashed 0 true")
			out, err := th.Resume(t.Context())
			same(t, "resumed", mustBeDone(t, out, err), `{"n":20}`)
			same(t, "entries", entriesAB(l), [2]int{2, 2})
			got := history(t, th)
			sameList(t, "history", historyTable(got), threeSteps[:1])
			grew(t, before, got)
			settled(t, statusOf(t, th))
		})
	}
}

func whatMemoryKeeps(t *testing.T, _ *report) {
	for _, m := range allModes {
		for _, kept := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, kept: %v", m, kept), func(t *testing.T) {
				a := chainArgs{Ledger: newLedger(t).path, Mode: m}
				want := "memory: new 0 | threads will not survive a restart: this storage is in memory"
				if kept {
					a.Path = onDisk(t).path
					want = fmt.Sprintf("sqlite: done %d | threads survive the process", len(ofMode(m)))
				}
				same(t, "run", spawn(t, "001-chain", a).wait(t), `done {"n":20}`)
				same(t, "the next process", spawn(t, "001-remember", a).wait(t), want)
				same(t, "entries", entriesAB(&ledger{a.Ledger}), [2]int{1, 1})
			})
		}
	}
	t.Log("without its serve line: waits for the server")
}

// rememberChild says what another process finds of the chain's thread.
func rememberChild(doc []byte) {
	a := args[chainArgs](doc)
	var db storage.DB
	if a.Path == "" {
		db = must(memdb.Open(pawl.Kinds()...))
	} else {
		must(os.Stat(a.Path))
		db = must(sqlite.Open(a.Path, pawl.Kinds()...))
	}
	eng := must(pawl.NewEngine(db, nil))
	th := atDepthHere(tenfold{}.builder()).Thread(eng, "t1")
	s := must(th.State(context.Background()))
	h := must(th.History(context.Background(), pawl.Page{}))
	d := eng.Doctor()
	fmt.Printf("%s: %s %d | %s\n", d.Storage.Driver, s.Status, len(h), d.Note)
	must(0, errors.Join(eng.Close(), db.Close()))
}
