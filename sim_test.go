package pawl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pawl-dev/pawl/memdb"
	"github.com/pawl-dev/pawl/storage"
	"github.com/pawl-dev/pawl/storage/fault"
)

// sim is the state of the random graphs: every kind of channel, and a clock that tells tasks which super-step it is.
type sim struct {
	Clock Sum[int64]            `json:"clock"`
	Last  Last[string]          `json:"last"`
	Once  Once[string]          `json:"once"`
	Flash Ephemeral[string]     `json:"flash"`
	List  Append[string]        `json:"list"`
	Table Map[string, string]   `json:"table"`
	Word  Fold[string, chained] `json:"word"`
}

type chained struct{}

func (chained) Fold(have, in string) string { return have + in }

var simAsk = Interrupt[string, string]{Name: "ask"}

// plot is a random program: which lines its graph has, and what a task does, as a function of where it stands. Both
// the engine and the interpreter read it, and nothing else is common to them.
type plot struct {
	seed   uint64
	nodes  []string
	edges  map[string][]string
	joins  [][]string // sources and, last, the target
	ending int64      // from this clock on routes lead nowhere
}

// move is one thing that a task does to the state.
type move struct{ op, key, text string }

func newPlot(seed uint64) *plot {
	d := rand.New(rand.NewPCG(seed, 99))
	p := &plot{seed: seed, edges: map[string][]string{Start: {"n0"}}, ending: 15 + d.Int64N(40)}
	for i := range 3 + d.IntN(4) {
		p.nodes = append(p.nodes, fmt.Sprint("n", i))
	}
	for i, from := range p.nodes { // forward only: without routes the run ends
		for _, to := range p.nodes[i+1:] {
			if d.IntN(4) == 0 {
				p.edges[from] = append(p.edges[from], to)
			}
		}
	}
	if last := p.nodes[len(p.nodes)-1]; d.IntN(2) == 0 {
		p.joins = append(p.joins, []string{"n0", "n1", last})
	}
	return p
}

func (p *plot) dice(what, node string, clock int64, arg string) *rand.Rand {
	h := fnv.New64a()
	fmt.Fprint(h, what, "|", node, "|", clock, "|", arg)
	return rand.New(rand.NewPCG(p.seed, h.Sum64()))
}

// moves are what a task does, and whether it asks first.
func (p *plot) moves(node string, clock int64, arg string) (out []move, asks bool) {
	d := p.dice("moves", node, clock, arg)
	ops := []string{"last", "put", "take", "flash", "add", "add", "add", "replace", "set", "set", "delete", "word"}
	used := map[string]bool{}
	for range d.IntN(4) {
		m := move{op: ops[d.IntN(len(ops))], key: fmt.Sprint("k", d.IntN(60)), text: fmt.Sprintf("%s%d%s.%d", node, clock, arg, d.IntN(100))}
		channel := map[string]string{"take": "put", "replace": "add", "delete": "set"}[m.op]
		if channel == "" {
			channel = m.op
		}
		single := channel == "last" || channel == "put" || channel == "flash"
		if used[channel] || (single || m.op == "replace") && d.IntN(9) > 0 { // else nearly every run clashes
			continue
		}
		used[channel] = true
		out = append(out, m)
	}
	return out, d.IntN(12) == 0
}

// next is where a task leads beside its edges: nodes, and sends as "w=arg".
func (p *plot) next(node string, clock int64) (out []string) {
	if clock >= p.ending {
		return nil
	}
	d := p.dice("next", node, clock, "")
	for range 1 + d.IntN(2) {
		if d.IntN(4) == 0 {
			out = append(out, fmt.Sprint("w=", d.IntN(3)))
		} else {
			out = append(out, p.nodes[d.IntN(len(p.nodes))])
		}
	}
	return out
}

// graph makes the engine's graph of the plot. calls counts the calls of each step of each task.
func (p *plot) graph(t *testing.T, calls func(string)) *Graph[sim] {
	t.Helper()
	run := func(ctx context.Context, s *sim, node, arg string) error {
		clock := s.Clock.Get()
		s.Clock.Add(1)
		moves, asks := p.moves(node, clock, arg)
		said := ""
		if asks {
			var err error
			if said, err = simAsk.Ask(ctx, node); err != nil {
				return err
			}
		}
		for i, m := range moves {
			text, err := Step(ctx, "step", func(context.Context) (string, error) {
				calls(TaskKey(ctx) + fmt.Sprint(i))
				return m.text, nil
			}, Key(fmt.Sprint(i)))
			if err != nil {
				return err
			}
			s.do(m.op, m.key, text+said)
		}
		return nil
	}
	worker := NewWorker("w", func(ctx context.Context, s *sim, arg int) error { return run(ctx, s, "w", fmt.Sprint(arg)) }, Uses(simAsk))
	route := func(node string) func(*sim) []Next {
		return func(s *sim) (out []Next) {
			for _, to := range p.next(node, s.Clock.Get()-1) {
				if _, arg, send := strings.Cut(to, "="); send {
					out = append(out, worker.With(int(arg[0]-'0'))...)
				} else {
					out = append(out, To(to)...)
				}
			}
			return out
		}
	}
	b := New[sim]("sim").Add(worker).Edge(Start, "n0")
	all := append(slices.Clone(p.nodes), "w")
	for _, n := range all {
		if n != "w" {
			b.Node(n, func(ctx context.Context, s *sim) error { return run(ctx, s, n, "") }, Uses(simAsk))
		}
		for _, to := range p.edges[n] {
			b.Edge(n, to)
		}
		b.Route(n, route(n), all...)
	}
	for _, j := range p.joins {
		b.Join(j[:len(j)-1], j[len(j)-1])
	}
	return mustBuild(t, b)
}

func (s *sim) do(op, key, text string) {
	switch op {
	case "last":
		s.Last.Set(text)
	case "put":
		s.Once.Put(text)
	case "take":
		s.Once.Take()
	case "flash":
		s.Flash.Set(text)
	case "add":
		s.List.Add(text, key)
	case "replace":
		s.List.Replace(text)
	case "set":
		s.Table.Set(key, text)
	case "delete":
		s.Table.Delete(key)
	case "word":
		s.Word.Add(text)
	}
}

// life is one process that runs the plot's thread on a shared home until the run is over or the process dies.
func (p *plot) life(t *testing.T, home storage.DB, mode Durability, plan fault.Plan, calls func(string)) (*ThreadState, bool) {
	t.Helper()
	ctx := context.Background()
	db := fault.Wrap(home, plan)
	defer db.Stop()
	eng, err := NewEngine(db, &Options{Durability: mode, Limits: Limits{Crashes: math.MaxInt}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = eng.Close() }()
	th := p.graph(t, calls).Thread(eng, "t")
	for range 200 {
		st, err := th.State(ctx)
		if err == nil {
			switch st.Status {
			case Done, Failed:
				return st, true
			case StatusNew:
				_, err = th.Run(ctx, &sim{})
			default:
				for _, q := range st.Waiting {
					var node string
					if err := json.Unmarshal(q.Body, &node); err != nil {
						t.Fatal(err)
					}
					if _, err = eng.Answer(ctx, q.ID, "answer to "+node); err != nil {
						break
					}
				}
				if err == nil {
					_, err = th.Resume(ctx)
				}
			}
		}
		if errors.Is(err, fault.ErrStopped) {
			return nil, false
		}
		if e := (*RunError)(nil); err != nil && !errors.As(err, &e) {
			t.Fatal(err)
		}
	}
	t.Fatal("the run does not end")
	return nil, false
}

// Random graphs with random tasks, in all modes, under processes that die at random points: the thread ends as the
// interpreter says, and no step of a task is called more often than processes died.
func TestRandomGraphsAgainstANaiveInterpreter(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	ends := map[string]int{}
	t.Run("seeds", func(t *testing.T) {
		for seed := range uint64(90) {
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				p := newPlot(seed)
				want, status, cause, steps := p.interpret()
				mode := []Durability{Sync, Async, Exit}[seed%3]
				st, deaths, calls := p.lives(t, mode)
				var got map[string]any
				if err := json.Unmarshal(st.Head.Values, &got); err != nil {
					t.Fatal(err)
				}
				if st.Status != status || st.Cause != cause || !reflect.DeepEqual(got, want) {
					t.Fatalf("%s, %d deaths: the thread ended %s %s with\n%v\nthe interpreter %s %s with\n%v",
						mode, deaths, st.Status, st.Cause, got, status, cause, want)
				}
				for name, n := range calls {
					if n > deaths+1 {
						t.Errorf("step %s was called %d times by %d processes", name, n, deaths+1)
					}
				}
				mu.Lock()
				defer mu.Unlock()
				ends[fmt.Sprint(status, cause)]++
				ends["super-steps"] += steps
				ends["deaths"] += deaths
			})
		}
	})
	if ends["done"] < 20 || ends["failedconflict"] < 10 || ends["super-steps"] < 700 || ends["deaths"] < 40 {
		t.Errorf("the plots are too tame: %v", ends)
	}
}

// lives runs a plot to its end through some deaths.
func (p *plot) lives(t *testing.T, mode Durability) (st *ThreadState, deaths int, calls map[string]int) {
	t.Helper()
	home, err := memdb.Open(Kinds()...)
	if err != nil {
		t.Fatal(err)
	}
	calls = map[string]int{}
	var mu sync.Mutex
	count := func(name string) {
		mu.Lock()
		defer mu.Unlock()
		calls[name]++
	}
	d := rand.New(rand.NewPCG(p.seed, 7))
	for range 4 {
		st, over := p.life(t, home, mode, fault.Plan{At: fault.At(d.IntN(25), fault.Stop())}, count)
		if over {
			return st, deaths, calls
		}
		deaths++
	}
	st, over := p.life(t, home, mode, fault.Plan{}, count)
	if !over {
		t.Fatal("without a fault the run did not end")
	}
	return st, deaths, calls
}
