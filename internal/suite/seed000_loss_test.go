package suite

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/effect"
	"github.com/pawl-dev/pawl/internal/house"
	"github.com/pawl-dev/pawl/internal/nest"
	"github.com/pawl-dev/pawl/memdb"
	"github.com/pawl-dev/pawl/sqlite"
	"github.com/pawl-dev/pawl/storage"
	"github.com/pawl-dev/pawl/storage/fault"
)

// loss is a run START -> submit -> next_step whose process dies in the first line of next_step.
type loss struct {
	Path    string // of the database
	Ledger  string
	Mode    pawl.Durability
	Durable bool // submit is declared durable
	Step    bool // submit calls out through a step
	Effect  bool // submit calls out through an effect
	Slow    bool
}

// order is a job and what was ordered: the input, by which a lost one would show.
type order struct {
	Want     pawl.Last[string] `json:"want"`
	JobID    pawl.Last[string] `json:"job_id"`
	Finished pawl.Last[bool]   `json:"finished"`
}

func (a *loss) graph(at nest.Level, next func()) (*nest.Graph[order], error) {
	world := &ledger{a.Ledger}
	job := submitting(world)
	options := []pawl.NodeOption{pawl.Uses(job)}
	if a.Durable {
		options = append(options, pawl.Durable())
	}
	return atLevel(at, pawl.New[order]("loss").
		Node("submit", func(ctx context.Context, s *order) (err error) {
			id := ""
			switch {
			case a.Step:
				id, err = pawl.Step(ctx, "submit", world.submit)
			case a.Effect:
				id, err = job.Do(ctx, effect.Ref("order", s.Want.Get()), params{})
			default:
				id, err = world.submit(ctx)
			}
			s.JobID.Set(id)
			return err
		}, options...).
		Node("next_step", func(_ context.Context, s *order) error {
			next()
			s.Finished.Set(true)
			return nil
		}).
		Path(pawl.Start, "submit", "next_step", pawl.End))
}

// submitThenDie is the process that dies. Its clock is virtual and moves only while everything in it waits. So a slow
// store, whose every write takes time, has acknowledged at the death only what the engine waited for; and a fast one
// is let finish everything that it was offered.
func submitThenDie(doc []byte) {
	a := args[loss](doc)
	run := func(t *testing.T) {
		var db storage.DB = must(sqlite.Open(a.Path, house.Kinds()...))
		if a.Slow {
			db = fault.Wrap(db, fault.Plan{Delay: time.Second})
		}
		led, parts, err := staff()
		must(led, err)
		eng := must(pawl.NewEngine(db, &pawl.Options{Parts: parts}))
		g := must(a.graph(levelHere(), func() {
			if !a.Slow {
				synctest.Wait()
			}
			killSelf()
		}))
		g.Thread(eng, "t").Run(t.Context(), &order{Want: pawl.Of("one job")}, pawl.WithDurability(a.Mode))
	}
	all := func(string, string) (bool, error) { return true, nil }
	testing.Main(all, []testing.InternalTest{{Name: "child", F: func(t *testing.T) { synctest.Test(t, run) }}}, nil, nil)
}

// killed runs a child that ends itself with SIGKILL.
func killed(t *testing.T, program string, a any) {
	t.Helper()
	c := spawn(t, program, a)
	for s := c.line(); s != ""; s = c.line() {
		t.Logf("child: %s", s)
	}
	c.cmd.Wait()
	if ws, ok := c.cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || ws.Signal() != syscall.SIGKILL {
		t.Fatalf("child %s did not die by SIGKILL: %v", program, c.cmd.ProcessState)
	}
}

// crash lets the process die and opens what it left.
func (a loss) crash(t *testing.T) (*loss, *office, *nest.Thread[order]) {
	a.Path, a.Ledger = onDisk(t).path, newLedger(t).path
	killed(t, "000-loss", a)
	g, err := a.graph(levelFor(t), func() {})
	if err != nil {
		t.Fatal(err)
	}
	o := openOffice(t, openFile(t, a.Path), g)
	return &a, o, g.Thread(o.eng, "t")
}

func whatACrashLoses(t *testing.T, r *report) {
	for i, row := range []struct {
		name, label string
		loss        loss
		ledgers     bool // the line shows the ledger
		kept        string
		after       int // snapshots after the input's
	}{
		{"async, slow", "durability=async", loss{Mode: pawl.Async, Slow: true}, true, "no", 0},
		{"sync, slow", "durability=sync", loss{Mode: pawl.Sync, Slow: true}, true, "yes", 2},
		{"async, submit durable, slow", "durability=async, durable", loss{Mode: pawl.Async, Durable: true, Slow: true}, true, "yes", 2},
		{"exit, slow", "durability=exit", loss{Mode: pawl.Exit, Slow: true}, true, "no", 0},
		{"async, fast", "no delay, async", loss{Mode: pawl.Async}, false, "yes", 2},
		{"sync, fast", "no delay, sync", loss{Mode: pawl.Sync}, false, "yes", 2},
	} {
		t.Run(row.name, func(t *testing.T) {
			line := three(t, func(t *testing.T) string {
				a, _, th := row.loss.crash(t)
				s := statusOf(t, th)
				settled(t, s)
				same(t, "status", s.Status, pawl.Crashed)
				same(t, "the run's input is known", s.Input, true)
				h := history(t, th)
				kept, after := "no", 0
				for _, snap := range h {
					if snap.Source != "input" {
						after++
					}
					if strings.Contains(string(snap.Values), `"job_id":"gpu-job-1"`) {
						kept = "yes"
					}
				}
				if row.after > 0 {
					same(t, "snapshots in all", len(h), row.after+1)
				}
				rows := (&ledger{a.Ledger}).rows()
				same(t, "ledger", rows, []string{"gpu-job-1"})
				same(t, "submit kept", kept, row.kept)
				same(t, "snapshots after the input's", after, row.after)
				if row.ledgers {
					return fmt.Sprintf("%-27s ledger: submitted %s   submit kept: %-6ssnapshots after the input's: %d", row.label, strings.Join(rows, " "), kept, after)
				}
				return fmt.Sprintf("%-27s submit kept: %-6ssnapshots after the input's: %d", row.label, kept, after)
			})
			r.line(6+i, "%s   (3 of 3 runs)", line)
		})
	}
}

func goingOnAfterThatCrash(t *testing.T, _ *report) {
	for _, c := range []struct {
		name string
		loss loss
		rows int // of the ledger, at the end
	}{
		{"async, a plain call", loss{Mode: pawl.Async}, 2},
		{"sync, a plain call", loss{Mode: pawl.Sync}, 1},
		{"async, durable node, a plain call", loss{Mode: pawl.Async, Durable: true}, 1},
		{"exit, a plain call", loss{Mode: pawl.Exit}, 2},
		{"async, a step that had returned", loss{Mode: pawl.Async, Step: true}, 1},
		{"sync, a step that had returned", loss{Mode: pawl.Sync, Step: true}, 1},
		{"async, durable node, a step that had returned", loss{Mode: pawl.Async, Durable: true, Step: true}, 1},
		{"exit, a step that had returned", loss{Mode: pawl.Exit, Step: true}, 1},
		{"async, an effect that had returned", loss{Mode: pawl.Async, Effect: true}, 1},
		{"sync, an effect that had returned", loss{Mode: pawl.Sync, Effect: true}, 1},
		{"async, durable node, an effect that had returned", loss{Mode: pawl.Async, Durable: true, Effect: true}, 1},
		{"exit, an effect that had returned", loss{Mode: pawl.Exit, Effect: true}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.loss.Slow = true
			three(t, func(t *testing.T) string {
				a, o, th := c.loss.crash(t)
				same(t, "status", statusOf(t, th).Status, pawl.Crashed)
				before, kept := history(t, th), o.operations(t)
				out, err := th.Resume(context.Background())
				if err != nil {
					t.Fatal(err)
				}
				rows := (&ledger{a.Ledger}).rows()
				if a.Effect {
					o.explained(t, rows, 1)
					same(t, "the receipt is the one from before the death", o.operations(t)[0], kept[0])
					same(t, "dispatches", len(o.attempts(t, kept[0])), 1)
				}
				same(t, "ledger rows", len(rows), c.rows)
				same(t, "state", string(out.Values), fmt.Sprintf(`{"want":"one job","job_id":%q,"finished":true}`, rows[len(rows)-1]))
				snapshots := 4
				if a.Mode == pawl.Exit {
					snapshots = len(before) + 1 // the end, and what a step wrote before it
				}
				stand(t, th, pawl.Done, snapshots, before)
				return fmt.Sprint(rows, out.Status)
			})
		})
	}
}

// The sentence of pawl doctor -v belongs to the command's own tests; here are the figures that it prints.
func windowIsMeasured(t *testing.T, _ *report) {
	const delay = 500 * time.Millisecond
	for _, c := range []struct {
		name   string
		mode   pawl.Durability
		node   time.Duration // how long each node works: longer than a write, or two writes would go as one
		window time.Duration
	}{
		{"sync", pawl.Sync, 0, 0},
		{"async", pawl.Async, time.Second, delay},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				home, err := memdb.Open(pawl.Kinds()...)
				if err != nil {
					t.Fatal(err)
				}
				defer home.Close()
				eng, err := pawl.NewEngine(fault.Wrap(home, fault.Plan{Delay: delay}), nil)
				if err != nil {
					t.Fatal(err)
				}
				defer eng.Close()
				g := atDepth(t, pawl.New[loops]("twenty").
					Node("round", func(_ context.Context, s *loops) error {
						<-time.After(c.node)
						s.Rounds.Add(1)
						return nil
					}).
					Edge(pawl.Start, "round").
					Route("round", again(20), "round", pawl.End))
				th := g.Thread(eng, "t")
				out, err := th.Run(t.Context(), &loops{}, pawl.WithDurability(c.mode))
				if err != nil {
					t.Fatal(err)
				}
				stats := eng.Stats()
				if stats.Writes < 20 {
					t.Errorf("durable writes: %d, want 20 at least", stats.Writes)
				}
				same(t, "least, median, most", []time.Duration{stats.Least, stats.Median, stats.Most}, []time.Duration{delay, delay, delay})
				same(t, "window", stats.Window, c.window)
				same(t, "what the doctor reports", eng.Doctor().Stats, stats)
				same(t, "rounds", out.State.Rounds.Get(), 20)
				stand(t, th, pawl.Done, 22, nil)
			})
		})
	}
}

// loops counts super-steps.
type loops struct {
	Rounds pawl.Sum[int] `json:"rounds"`
}

// again leads back to the node "round" until it ran n times.
func again(n int) func(*loops) []pawl.Next {
	return func(s *loops) []pawl.Next {
		if s.Rounds.Get() < n {
			return pawl.To("round")
		}
		return pawl.To(pawl.End)
	}
}
