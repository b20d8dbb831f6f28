package suite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/sqlite"
	"github.com/pawl-dev/pawl/storage"
)

// chaosProgram is one of the processes that all work on the same few threads of one file. What it learned goes to a
// ledger beside the engine, one line a fact, in one order for all processes:
//
//	in, out   P thread task attempt      a node was entered, and left
//	call, rec P task/step value          a step's function runs; its result was returned
//	used      P task value               a node was given this answer
//	taken     P thread question answer   the engine said so
//	end       P thread run checkpoint status values
//	deleting, deleted P thread
//	bad       P text                     what should never be seen
type chaosProgram struct {
	Path, Ledger, Name string
	Seed               uint64
}

type chaosState struct {
	Log   pawl.Append[string] `json:"log"`
	Calls pawl.Sum[int]       `json:"calls"`
	Note  pawl.Last[string]   `json:"note"`
}

// chaosThreads are worked on by all; the last one is also deleted and made again.
var chaosThreads = []string{"a", "b", "gone"}

var chaosAsk = pawl.Interrupt[string, string]{Name: "chaos"}

type chaosWorker struct {
	chaosProgram
	count atomic.Int64
}

func (p *chaosWorker) say(kind string, fields ...string) {
	(&ledger{p.Ledger}).add(kind + "\t" + p.Name + "\t" + strings.Join(fields, "\t"))
}

func (p *chaosWorker) fresh() string { return fmt.Sprintf("%s-%d", p.Name, p.count.Add(1)) }

// pause lets a signal or another process come between two lines.
func pause(ctx context.Context, most time.Duration) {
	select {
	case <-time.After(rand.N(most)):
	case <-ctx.Done():
	}
}

func (p *chaosWorker) node(do func(context.Context, string, *chaosState) error) func(context.Context, *chaosState) error {
	return func(ctx context.Context, s *chaosState) error {
		task, _ := pawl.TaskFrom(ctx)
		i, key := task.Info(), pawl.TaskKey(ctx)
		p.say("in", i.Thread, key, i.Attempt)
		defer p.say("out", i.Thread, key, i.Attempt)
		return do(ctx, key, s)
	}
}

func (p *chaosWorker) step(ctx context.Context, key, name string) (string, error) {
	v, err := pawl.Step(ctx, name, func(ctx context.Context) (string, error) {
		mine := p.fresh()
		p.say("call", key+"/"+name, mine)
		pause(ctx, 4*time.Millisecond)
		return mine, nil
	})
	if err == nil {
		p.say("rec", key+"/"+name, v)
	}
	return v, err
}

// steps is a node that calls twice.
func (p *chaosWorker) steps(ctx context.Context, key string, s *chaosState) error {
	for _, name := range []string{"one", "two"} {
		v, err := p.step(ctx, key, name)
		if err != nil {
			return err
		}
		s.Log.Add(v)
		s.Calls.Add(1)
		pause(ctx, 3*time.Millisecond)
	}
	return nil
}

// asks is a node whose question nobody else asks: an answer that lands elsewhere shows.
func (p *chaosWorker) asks(ctx context.Context, key string, s *chaosState) error {
	token, err := p.step(ctx, key, "mint")
	if err != nil {
		return err
	}
	answer, err := chaosAsk.Ask(ctx, token)
	if err != nil {
		return err
	}
	p.say("used", key, answer)
	if to, _, _ := strings.Cut(answer, " "); to != token {
		p.say("bad", fmt.Sprintf("the answer %q came to the question %q", answer, token))
	}
	if _, err := p.step(ctx, key, "after"); err != nil {
		return err
	}
	s.Log.Add(answer)
	return nil
}

// ends is a node that fails at times.
func (p *chaosWorker) ends(ctx context.Context, key string, s *chaosState) error {
	if _, err := p.step(ctx, key, "last"); err != nil {
		return err
	}
	switch rand.N(12) {
	case 0, 1:
		return errors.New("chaos failed")
	case 2:
		return pawl.Conclude("chaos concluded")
	}
	return nil
}

// graph is the program in one of two versions, which do not go on with each other's runs past the node "left".
func (p *chaosWorker) graph(version int) *pawl.Graph[chaosState] {
	return must(pawl.New[chaosState]("chaos").
		Node("first", p.node(p.steps)).Node("ask", p.node(p.asks), pawl.Uses(chaosAsk)).
		Node("left", p.node(p.steps), pawl.Version(version)).Node("right", p.node(p.asks), pawl.Uses(chaosAsk)).
		Node("last", p.node(p.ends)).
		Path(pawl.Start, "first", "ask").Edge("ask", "left").Edge("ask", "right").
		Join([]string{"left", "right"}, "last").Build())
}

// chaosChild works until its input ends, and then in good order; most are killed long before.
func chaosChild(doc []byte) {
	p := &chaosWorker{chaosProgram: args[chaosProgram](doc)}
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	var all sync.WaitGroup
	eng := childEngine(p.Path, nil)
	g := p.graph(1)
	fmt.Println("ready")
	for i := range uint64(3) {
		all.Go(func() { p.acts(ctx, i, eng, g) })
	}
	for i := uint64(3); ctx.Err() == nil; i++ { // another handle of the file, another program, closed while it works
		db := must(sqlite.Open(p.Path, pawl.Kinds()...))
		other := must(pawl.NewEngine(db, nil))
		some, cancel := context.WithCancel(ctx)
		all.Go(func() { p.acts(some, i, other, p.graph(2)) })
		pause(ctx, time.Second)
		must(0, other.Close())
		cancel()
		must(0, db.Close())
	}
	all.Wait()
	must(0, eng.Close())
}

func (p *chaosWorker) acts(ctx context.Context, stream uint64, eng *pawl.Engine, g *pawl.Graph[chaosState]) {
	d := rand.New(rand.NewPCG(p.Seed, stream))
	for ctx.Err() == nil {
		p.act(ctx, d, eng, g.Thread(eng, chaosThreads[d.IntN(len(chaosThreads))]))
	}
}

// act does one thing to a thread.
func (p *chaosWorker) act(ctx context.Context, d *rand.Rand, eng *pawl.Engine, th *pawl.ThreadOf[chaosState]) {
	if d.IntN(20) == 0 { // a caller who gives up
		limited, cancel := context.WithTimeout(ctx, rand.N(80*time.Millisecond))
		defer cancel()
		ctx = limited
	}
	mode := pawl.WithDurability([]pawl.Durability{pawl.Sync, pawl.Async, pawl.Exit}[d.IntN(3)])
	var out *pawl.OutcomeOf[chaosState]
	var err error
	switch verb := d.IntN(32); {
	case verb < 6:
		out, err = th.Run(ctx, &chaosState{Note: pawl.Of(p.fresh())}, mode)
	case verb < 13:
		out, err = th.Resume(ctx)
	case verb < 20:
		err = p.answer(ctx, d, eng, th)
	case verb < 21:
		out, err = th.Retry(ctx, mode)
	case verb < 24:
		out, err = p.back(ctx, d, th)
	case verb < 25:
		out, err = th.Edit(ctx, func(s *chaosState) error { s.Note.Set(p.fresh()); return nil })
	case verb < 26:
		err = th.Cancel(ctx, "chaos")
	case verb < 30:
		_, err = th.History(ctx, pawl.Page{})
	case th.ID() == "gone":
		p.say("deleting", th.ID())
		if err = th.Delete(ctx); err == nil {
			p.say("deleted", th.ID())
		}
	default:
		_, err = th.State(ctx)
	}
	if out != nil && (err == nil || errors.As(err, new(*pawl.RunError))) && out.Checkpoint != "" {
		p.say("end", th.ID(), out.Run, out.Checkpoint, string(out.Status), string(out.Values))
	}
	if err != nil && !chaosExpects(ctx, err) {
		p.say("bad", fmt.Sprintf("%T %v", err, strings.ReplaceAll(err.Error(), "\n", " ")))
	}
}

// back forks or replays from a place in history.
func (p *chaosWorker) back(ctx context.Context, d *rand.Rand, th *pawl.ThreadOf[chaosState]) (*pawl.OutcomeOf[chaosState], error) {
	h, err := th.History(ctx, pawl.Page{Limit: 8})
	if err != nil || len(h) == 0 {
		return nil, err
	}
	at := pawl.Checkpoint(h[d.IntN(len(h))].Checkpoint)
	var options []pawl.RunOption
	if d.IntN(3) == 0 {
		options = append(options, pawl.Hold())
	}
	if d.IntN(2) == 0 {
		return th.Replay(ctx, at, options...)
	}
	return th.Fork(ctx, at, func(s *chaosState) error { s.Note.Set(p.fresh()); return nil }, options...)
}

// answer answers one open question, alone or with a resume.
func (p *chaosWorker) answer(ctx context.Context, d *rand.Rand, eng *pawl.Engine, th *pawl.ThreadOf[chaosState]) error {
	s, err := th.State(ctx)
	if err != nil || len(s.Waiting) == 0 {
		return err
	}
	q := s.Waiting[d.IntN(len(s.Waiting))]
	answer := strings.Trim(string(q.Body), `"`) + " " + p.fresh()
	if d.IntN(3) == 0 {
		_, err = th.Resume(ctx, chaosAsk.Answer(q.ID, answer))
		return err
	}
	v, err := eng.Answer(ctx, q.ID, answer)
	if err == nil && v.Taken && !v.Already {
		p.say("taken", th.ID(), q.ID, answer)
	}
	return err
}

// chaosExpects says whether an error is one that work of others explains.
func chaosExpects(ctx context.Context, err error) bool {
	for _, known := range []any{
		new(*pawl.VerbError), new(*pawl.AnswerError), new(*pawl.NotFoundError), new(*pawl.PointError), new(*pawl.RunError),
		new(*pawl.VersionError),
	} {
		if errors.As(err, known) {
			return true
		}
	}
	return ctx.Err() != nil || errors.Is(err, pawl.ErrClosed) || errors.Is(err, storage.ErrClosed)
}
