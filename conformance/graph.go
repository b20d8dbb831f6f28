package conformance

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/stream"
)

// State is the state of every scenario.
type State struct {
	Log pawl.Append[string] `json:"log"`
	N   pawl.Sum[int64]     `json:"n"`
	X   pawl.Last[string]   `json:"x"`
	Y   pawl.Last[string]   `json:"y"`

	Messages pawl.Append[Message] `json:"messages"`
}

func (v *Values) write(s *State) {
	s.Log.Add(v.Log...)
	if v.N != 0 {
		s.N.Add(v.N)
	}
	if v.X != nil {
		s.X.Set(*v.X)
	}
	if v.Y != nil {
		s.Y.Set(*v.Y)
	}
}

// entries counts the starts of each node, and of each of its payloads.
type entries struct {
	mu sync.Mutex
	n  map[string]int
	of map[[2]string]int
}

func (e *entries) start(node, arg string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.n[node]++
	e.of[[2]string{node, arg}]++
	return e.of[[2]string{node, arg}]
}

func (e *entries) all() map[string]int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return maps.Clone(e.n)
}

type question = pawl.Interrupt[string, string]

// graph builds the scenario's graph on Pawl.
func (s *Scenario) graph(count *entries) (*pawl.Graph[State], error) {
	return (&Child{Nodes: s.Nodes, Edges: s.Edges, Joins: s.Joins, Stops: s.Stops}).graph("scenario", "", count, s.Inputs, s.Outputs)
}

// graph builds a graph whose nodes count under a prefix.
func (c *Child) graph(name, prefix string, count *entries, inputs, outputs []string) (*pawl.Graph[State], error) {
	b := pawl.New[State](name).BreakBefore(c.Before...).BreakAfter(c.After...)
	if inputs != nil {
		b.Input(inputs...)
	}
	if outputs != nil {
		b.Output(outputs...)
	}
	workers := map[string]*pawl.Worker[State, string]{}
	for i := range c.Nodes {
		n := &c.Nodes[i]
		run := performance{node: n, count: count, as: prefix + n.Name, workers: workers}
		do := func(ctx context.Context, st *State, arg string) error { return run.of(ctx, n.Do, st, arg, nil) }
		options := n.options()
		if n.Handle != nil {
			handle := performance{node: n, count: count, as: run.as + "!", workers: workers}
			options = append(options, pawl.OnError(func(ctx context.Context, st *State, err error) error {
				return handle.of(ctx, n.Handle, st, "", err)
			}))
		}
		switch {
		case n.Name == pawl.Start:
			continue
		case n.Child != nil:
			g, err := n.Child.graph(n.Name, prefix+n.Name+"/", count, nil, nil)
			if err != nil {
				return nil, err
			}
			child := g.Child(n.Name, map[string]pawl.ChildMode{"": pawl.Inherit, "inherit": pawl.Inherit, "thread": pawl.PerThread, "none": pawl.Stateless}[n.Child.Memory])
			if !n.Worker {
				b.Add(pawl.Sub(child, func(st *State) *State { return &State{X: pawl.Of(st.X.Get())} },
					func(st *State, r *pawl.Result[State]) error { return n.take(st, r.State) }, options...))
				continue
			}
			options = append(options, pawl.Uses(child))
			do = func(ctx context.Context, st *State, arg string) error {
				r, err := child.Call(ctx, &State{X: pawl.Of(arg)})
				if err != nil {
					return err
				}
				return n.take(st, r.State)
			}
		}
		if n.Worker {
			workers[n.Name] = pawl.NewWorker(n.Name, do, options...)
			b.Add(workers[n.Name])
			continue
		}
		b.Node(n.Name, func(ctx context.Context, st *State) error { return do(ctx, st, "") }, options...)
	}
	c.lead(b, workers)
	return b.Build()
}

// lead adds what leads from node to node.
func (c *Child) lead(b *pawl.Builder[State], workers map[string]*pawl.Worker[State, string]) {
	for _, e := range c.Edges {
		b.Edge(e[0], e[1])
	}
	for _, j := range c.Joins {
		b.Join(j.From, j.To)
	}
	for _, n := range c.Nodes {
		for _, r := range n.Routes {
			choose := func(st *State) []pawl.Next { return r.choose(st, workers) }
			if r.Name == "to_b" {
				choose = toB
			}
			b.Route(n.Name, choose, r.targets()...)
		}
	}
}

func (n *Node) options() []pawl.NodeOption {
	options := []pawl.NodeOption{}
	if n.Tries > 1 {
		options = append(options, pawl.Tries(n.Tries), pawl.Backoff(0, 0))
	}
	if n.Defer {
		options = append(options, pawl.Defer())
	}
	if n.Cache {
		options = append(options, pawl.Cache(time.Hour))
	}
	if n.Cache && n.Worker { // there it sees its payload alone
		options = append(options, pawl.CacheBy(func(*State) int { return 0 }))
	}
	var targets []Way
	for _, l := range slices.Concat(n.Do, n.Handle) {
		if l.Ask != "" {
			options = append(options, pawl.Uses(question{Name: l.Ask}))
		}
		if l.Goto != nil {
			targets = append(targets, *l.Goto)
		}
	}
	if targets != nil {
		options = append(options, pawl.Targets((&Route{Ways: targets}).targets()...))
	}
	return options
}

// take appends what a child logged.
func (n *Node) take(st, child *State) error {
	st.Log.Add(n.Name + "=" + joined(child))
	return nil
}

func joined(st *State) string {
	var log []string
	for _, item := range st.Log.All() {
		log = append(log, item)
	}
	return strings.Join(log, "+")
}

func (r *Route) targets() []string {
	seen := map[string]bool{}
	for _, w := range r.Ways {
		for _, to := range w.To {
			seen[to] = true
		}
		for _, s := range w.Send {
			seen[s.To] = true
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

func (r *Route) choose(st *State, workers map[string]*pawl.Worker[State, string]) []pawl.Next {
	for _, w := range r.Ways {
		if w.Below == 0 || st.N.Get() < w.Below {
			return w.next(workers)
		}
	}
	return nil
}

func toB(*State) []pawl.Next { return pawl.To("b") }

func (w *Way) next(workers map[string]*pawl.Worker[State, string]) []pawl.Next {
	next := pawl.To(w.To...)
	for _, s := range w.Send {
		next = append(next, workers[s.To].With(s.Arg)...)
	}
	return next
}

const failsAfter = 30 * time.Millisecond

// performance does lines of a node.
type performance struct {
	node    *Node
	as      string // what its entries are counted as
	count   *entries
	workers map[string]*pawl.Worker[State, string]
}

func (p *performance) of(ctx context.Context, lines []Line, st *State, arg string, handled error) error {
	entry := p.count.start(p.as, arg)
	seen := map[string]string{"log": joined(st), "messages": spoken(st), "n": fmt.Sprint(st.N.Get()), "x": st.X.Get(), "y": st.Y.Get(), "arg": arg}
	if failed := (*pawl.NodeError)(nil); errors.As(handled, &failed) {
		seen["error"] = failed.Node + " " + rootCause(failed).Error()
	}
	for _, l := range lines {
		if l.Only != "" && l.Only != arg || l.First > 0 && entry > l.First {
			continue
		}
		switch {
		case l.Write != nil:
			l.Write.write(st)
		case l.Replace != nil:
			st.Log.Replace(l.Replace...)
		case l.Note != "":
			st.Log.Add(fmt.Sprintf("%s:%s=%s", p.node.Name, l.Note, seen[l.Note]))
		case l.Ask != "":
			asked := l.Ask
			if l.Of != "" {
				asked += ":" + seen[l.Of]
			}
			answer, err := question{Name: l.Ask}.Ask(ctx, asked)
			if err != nil {
				return err
			}
			st.Log.Add(asked + "=" + answer)
		case l.Tell != "":
			if err := pawl.Emit(ctx, "told", p.node.Name+in(arg)+": "+l.Tell); err != nil {
				return err
			}
		case l.Speak != nil:
			if err := l.Speak.say(ctx, st, arg); err != nil {
				return err
			}
		case l.Goto != nil:
			if err := pawl.Goto(ctx, l.Goto.next(p.workers)...); err != nil {
				return err
			}
		case l.Fail != nil && entry > l.Fail.After && entry <= l.Fail.After+l.Fail.First:
			<-time.After(failsAfter) // when its siblings are over: a failure would cancel them
			return errors.New(l.Fail.With)
		}
	}
	return nil
}

func (s *Speech) say(ctx context.Context, st *State, arg string) error {
	m := Message{ID: s.ID + in(arg), Text: s.Text + strings.Join(s.Tokens, "")}
	for i, token := range s.Tokens {
		if err := stream.Say(ctx, stream.Token{Message: m.ID, Index: i, Text: token}); err != nil {
			return err
		}
	}
	st.Messages.Add(m)
	return nil
}

func in(arg string) string {
	if arg == "" {
		return ""
	}
	return "(" + arg + ")"
}

func spoken(st *State) string {
	var texts []string
	for _, m := range st.Messages.All() {
		texts = append(texts, m.Text)
	}
	return strings.Join(texts, "+")
}

// rootCause is the error of the node that failed first: through children, whose errors say more around it.
func rootCause(err error) error {
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(err) {
		err = inner
	}
	return err
}
