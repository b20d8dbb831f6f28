package suite

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/sqlite"
)

// TestChaos lets several processes work on the same threads of one file, kills and stops them at random instants, and
// holds what they were told against what is there. PAWL_SWEEP=full goes on for three minutes; PAWL_CHAOS_SEED
// chooses the dice, not the schedule of the machine.
func TestChaos(t *testing.T) {
	t.Parallel()
	length, seed := 8*time.Second, uint64(1)
	if os.Getenv("PAWL_SWEEP") == "full" {
		length = 3 * time.Minute
	}
	if s := os.Getenv("PAWL_CHAOS_SEED"); s != "" {
		seed, _ = strconv.ParseUint(s, 10, 64)
	}
	h, l := onDisk(t), newLedger(t)
	c := &chaos{
		t: t, ledger: l, path: h.path, dice: rand.New(rand.NewPCG(seed, 0)), children: make([]*chaosChildOf, 4),
		me:        &chaosWorker{chaosProgram: chaosProgram{Path: h.path, Ledger: l.path, Name: "parent", Seed: seed}},
		snapshots: map[string]map[string]string{}, watched: map[string]map[string]bool{},
	}
	db := h.open(t).(*sqlite.DB)
	eng, g := engine(t, db, nil), c.me.graph(1)
	ctx, stop := context.WithCancel(t.Context())
	var readers sync.WaitGroup
	for _, name := range chaosThreads[:2] {
		c.snapshots[name], c.watched[name] = map[string]string{}, map[string]bool{}
		th := g.Thread(eng, name)
		readers.Go(func() { c.watch(ctx, th) })
		readers.Go(func() { c.read(ctx, th) })
	}
	kills, stops := c.disturb(length)
	c.calm([]*pawl.Graph[chaosState]{g, c.me.graph(2)}, []*pawl.Engine{eng, engine(t, db, nil)})
	for _, name := range chaosThreads[:2] {
		c.told(name, statusOf(t, g.Thread(eng, name)).Head.Checkpoint)
	}
	stop()
	readers.Wait()

	facts := c.facts()
	c.callsOnce(facts)
	c.answersOnce(facts)
	c.oneOwner(facts)
	for _, name := range chaosThreads[:2] {
		c.kept(facts, eng, g.Thread(eng, name))
	}
	if err := db.Check(t.Context()); err != nil {
		t.Error(err)
	}
	counts := map[string]int{}
	for _, f := range facts {
		counts[f[0]]++
	}
	t.Logf("chaos, seed %d: %d kills, %d stops, %v", seed, kills, stops, counts)
	for _, kind := range []string{"rec", "used", "taken", "end", "deleted"} {
		if counts[kind] == 0 {
			t.Errorf("nothing of kind %q ever happened", kind)
		}
	}
}

type chaos struct {
	t        *testing.T
	ledger   *ledger
	path     string
	dice     *rand.Rand
	me       *chaosWorker
	children []*chaosChildOf
	born     int

	mu        sync.Mutex
	snapshots map[string]map[string]string // thread, checkpoint: as first read
	watched   map[string]map[string]bool   // thread, checkpoint
}

type chaosChildOf struct {
	*child
	name string
}

func (c *chaos) spawn() *chaosChildOf {
	c.born++
	p := chaosProgram{Path: c.path, Ledger: c.ledger.path, Name: fmt.Sprint("p", c.born), Seed: c.dice.Uint64()}
	k := &chaosChildOf{spawn(c.t, "chaos", p), p.Name}
	return k
}

// kill says first that it will, so that whoever takes over does so afterwards.
func (c *chaos) kill(k *chaosChildOf) {
	c.ledger.add("killing\t" + k.name)
	k.kill()
	if code := k.cmd.ProcessState.ExitCode(); code != -1 {
		c.t.Errorf("%s had ended by itself, with code %d", k.name, code)
	}
}

// disturb kills, stops and starts processes at random instants.
func (c *chaos) disturb(length time.Duration) (kills, stops int) {
	for i := range c.children {
		c.children[i] = c.spawn()
	}
	wait := func(most time.Duration) { <-time.After(time.Duration(c.dice.Int64N(int64(most)))) }
	for end := time.Now().Add(length); time.Now().Before(end); {
		wait(400 * time.Millisecond)
		i := c.dice.IntN(len(c.children))
		k := c.children[i]
		if c.dice.IntN(2) == 0 {
			k.cmd.Process.Signal(syscall.SIGSTOP)
			stops++
			wait(400 * time.Millisecond)
			if c.dice.IntN(3) > 0 {
				k.cmd.Process.Signal(syscall.SIGCONT)
				continue
			}
		}
		c.kill(k)
		kills++
		c.children[i] = c.spawn()
	}
	for _, k := range c.children {
		c.kill(k)
	}
	return kills, stops
}

// calm brings every thread to its end, as a person would.
func (c *chaos) calm(programs []*pawl.Graph[chaosState], engines []*pawl.Engine) {
	ctx, cancel := context.WithTimeout(c.t.Context(), 2*time.Minute)
	defer cancel()
	for _, name := range chaosThreads {
		for try, program := 0, 0; ; try++ {
			eng := engines[program]
			th := programs[program].Thread(eng, name)
			s := statusOf(c.t, th)
			settled(c.t, s)
			if s.Status == pawl.Running || s.Status == pawl.Pending || try == 60 {
				c.t.Errorf("thread %s is stuck as %s (%s %s) after %d tries", name, s.Status, s.Cause, s.Reason, try)
				break
			}
			if s.Status == pawl.Done && try > 0 {
				break
			}
			for _, q := range s.Waiting {
				answer := strings.Trim(string(q.Body), `"`) + " " + c.me.fresh()
				if _, err := eng.Answer(ctx, q.ID, answer); err != nil {
					c.t.Errorf("thread %s: %v", name, err)
					continue
				}
				c.me.say("taken", name, q.ID, answer)
			}
			verb := th.Resume
			switch {
			case s.Status == pawl.Cancelled, s.Status == pawl.Failed && s.Cause == pawl.CauseConcluded:
				verb = th.Retry
			case s.Status == pawl.StatusNew || s.Status == pawl.Done:
				verb = func(ctx context.Context, o ...pawl.RunOption) (*pawl.OutcomeOf[chaosState], error) {
					return th.Run(ctx, &chaosState{Note: pawl.Of("end")}, o...)
				}
			}
			_, err := verb(ctx)
			if errors.As(err, new(*pawl.VersionError)) {
				program = 1 - program
			} else if err != nil && !errors.As(err, new(*pawl.RunError)) {
				c.t.Errorf("thread %s, %s: %v", name, s.Status, err)
			}
		}
	}
}

// watch notes the checkpoints that are told, and that sequence numbers only grow.
func (c *chaos) watch(ctx context.Context, th *pawl.ThreadOf[chaosState]) {
	last := int64(0)
	for e, err := range th.Watch(ctx, 0) {
		if err != nil {
			if ctx.Err() == nil {
				c.t.Errorf("watching %s: %v", th.ID(), err)
			}
			return
		}
		if e.Seq == 0 { // no fact: a step is called now
			continue
		}
		if e.Seq <= last {
			c.t.Errorf("thread %s: fact %d was told after %d", th.ID(), e.Seq, last)
		}
		last = e.Seq
		if e.Kind == pawl.EventCheckpoint {
			c.mu.Lock()
			c.watched[th.ID()][e.Checkpoint] = true
			c.mu.Unlock()
		}
	}
}

// told waits until a watcher was told of a checkpoint, and so of all before it.
func (c *chaos) told(thread, checkpoint string) {
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	defer cancel()
	for ctx.Err() == nil {
		c.mu.Lock()
		told := c.watched[thread][checkpoint]
		c.mu.Unlock()
		if told {
			return
		}
		pause(ctx, 20*time.Millisecond)
	}
	c.t.Errorf("thread %s: nobody who watches was told of checkpoint %s", thread, checkpoint)
}

// read reads history over and over: what was read once is read again, the same.
func (c *chaos) read(ctx context.Context, th *pawl.ThreadOf[chaosState]) {
	for ctx.Err() == nil {
		h, err := th.History(ctx, pawl.Page{Limit: 30})
		if err != nil {
			if ctx.Err() == nil {
				c.t.Errorf("reading %s: %v", th.ID(), err)
			}
			return
		}
		for i, s := range h {
			if i > 0 && s.Seq >= h[i-1].Seq {
				c.t.Errorf("thread %s: checkpoint %s has seq %d and comes before %d", th.ID(), s.Checkpoint, s.Seq, h[i-1].Seq)
			}
			c.same(th.ID(), s)
		}
		pause(ctx, 30*time.Millisecond)
	}
}

func (c *chaos) same(thread string, s *pawl.Snapshot) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := fixed(s)
	if was, ok := c.snapshots[thread][s.Checkpoint]; ok && was != now {
		c.t.Errorf("thread %s: a checkpoint changed from %s to %s", thread, was, now)
	}
	c.snapshots[thread][s.Checkpoint] = now
}

// facts are the ledger's lines, in order.
func (c *chaos) facts() [][]string {
	doc, err := os.ReadFile(c.ledger.path)
	if err != nil {
		c.t.Fatal(err)
	}
	var out [][]string
	for line := range strings.Lines(string(doc)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if f[0] == "bad" {
			c.t.Errorf("%s: %s", f[1], f[2])
		}
		out = append(out, f)
	}
	return out
}

// callsOnce: what a step returned stands, and its function is not called after that.
func (c *chaos) callsOnce(facts [][]string) {
	recorded := map[string]string{}
	for _, f := range facts {
		switch f[0] {
		case "call":
			if v, ok := recorded[f[2]]; ok {
				c.t.Errorf("%s calls %s again, which returned %s before", f[1], f[2], v)
			}
		case "rec":
			if v, ok := recorded[f[2]]; ok && v != f[3] {
				c.t.Errorf("%s was given %s for %s, which returned %s before", f[1], f[3], f[2], v)
			}
			recorded[f[2]] = f[3]
		}
	}
}

// answersOnce: an answer is used by one task, and a task uses one answer.
func (c *chaos) answersOnce(facts [][]string) {
	by, of := map[string]string{}, map[string]string{}
	for _, f := range facts {
		if f[0] != "used" {
			continue
		}
		if other, ok := by[f[3]]; ok && other != f[2] {
			c.t.Errorf("the answer %q is used by %s and %s", f[3], f[2], other)
		}
		if other, ok := of[f[2]]; ok && other != f[3] {
			c.t.Errorf("%s was given %q and then %q", f[2], other, f[3])
		}
		by[f[3]], of[f[2]] = f[2], f[3]
	}
}

// oneOwner: no two living processes are in nodes of one thread.
func (c *chaos) oneOwner(facts [][]string) {
	inside := map[string]map[string]string{} // thread, task: process and attempt
	dead := map[string]bool{}
	for _, f := range facts {
		switch f[0] {
		case "killing":
			dead[f[1]] = true
		case "in":
			if inside[f[2]] == nil {
				inside[f[2]] = map[string]string{}
			}
			for task, who := range inside[f[2]] {
				if process, _, _ := strings.Cut(who, " "); !dead[process] && who != f[1]+" "+f[4] {
					c.t.Errorf("thread %s: %s enters %s in attempt %s while %s is in %s", f[2], f[1], f[3], f[4], who, task)
				}
			}
			inside[f[2]][f[3]] = f[1] + " " + f[4]
		case "out":
			if inside[f[2]][f[3]] == f[1]+" "+f[4] {
				delete(inside[f[2]], f[3])
			}
		}
	}
}

// kept: what the engine said of a thread that was never deleted is still so.
func (c *chaos) kept(facts [][]string, eng *pawl.Engine, th *pawl.ThreadOf[chaosState]) {
	all := map[string]*pawl.Snapshot{}
	runs, err := th.Runs(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	var seqs []int64
	for _, r := range runs {
		h, err := th.History(c.t.Context(), pawl.Page{Attempt: r.Attempt, Limit: 10_000})
		if err != nil {
			c.t.Fatal(err)
		}
		for _, s := range h {
			all[s.Checkpoint] = s
			seqs = append(seqs, s.Seq)
			c.same(th.ID(), s)
		}
	}
	slices.Sort(seqs)
	if len(slices.Compact(seqs)) != len(all) {
		c.t.Errorf("thread %s: two checkpoints share a place in the order", th.ID())
	}
	for id := range c.snapshots[th.ID()] {
		if all[id] == nil {
			c.t.Errorf("thread %s: checkpoint %s was read before and is gone", th.ID(), id)
		}
	}
	newest := ""
	for id, s := range all {
		newest = max(newest, id)
		if s.Parent != "" && all[s.Parent] == nil {
			c.t.Errorf("thread %s: the parent of %s is not there", th.ID(), id)
		}
		if !c.watched[th.ID()][id] {
			c.t.Errorf("thread %s: checkpoint %s (seq %d) was never told", th.ID(), id, s.Seq)
		}
	}
	if head := statusOf(c.t, th).Head; head == nil || head.Checkpoint != newest {
		c.t.Errorf("thread %s: the head is %v, the newest checkpoint %s", th.ID(), head, newest)
	}
	for _, f := range facts {
		switch {
		case f[0] == "end" && f[2] == th.ID():
			if s := all[f[4]]; s == nil || string(s.Values) != f[6] {
				c.t.Errorf("thread %s: %s was told that run %s ended as %s at %s with %s; there is %+v", th.ID(), f[1], f[3], f[5], f[4], f[6], s)
			}
		case f[0] == "taken" && f[2] == th.ID():
			q, err := eng.FindQuestions(c.t.Context(), f[3], 2)
			if err != nil || len(q) != 1 || q[0].State != "answered" || string(q[0].Answer) != strconv.Quote(f[4]) {
				c.t.Errorf("thread %s: %s was told that %q was taken for %s; there is %+v, %v", th.ID(), f[1], f[4], f[3], q, err)
			}
		}
	}
}
