package pawl

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/schema"
)

// usualWaits are those of a node with Tries and no Backoff.
func usualWaits() core.Backoff {
	return core.Backoff{Wait: 500 * time.Millisecond, MaxWait: 128 * time.Second, Factor: 2, Jitter: -1}
}

// NodeOption says how one node is run. Options that do not fit are faults of Build.
type NodeOption func(*nodeConfig)

type nodeConfig struct {
	given    []string // names of the options
	policy   core.Policy
	version  int
	deferred bool
	onError  any // func(context.Context, *S, error) error
	gotos    []string
	uses     []Usable
	cache    time.Duration // how long its results are reused; 0: never
	cacheKey any           // func(*S) ([]string, error)
	faults   []string
}

func (c *nodeConfig) fault(format string, args ...any) {
	c.faults = append(c.faults, fmt.Sprintf(format, args...))
}

func option(name string, set func(*nodeConfig)) NodeOption {
	return func(c *nodeConfig) {
		c.given = append(c.given, name)
		set(c)
	}
}

func (c *nodeConfig) take(options []NodeOption) {
	for _, o := range options {
		if o == nil {
			c.fault("a nil option")
			continue
		}
		o(c)
	}
}

// only refuses options that have no place in another one.
func (c *nodeConfig) only(where string, names ...string) {
	for _, given := range c.given {
		if !slices.Contains(names, given) {
			c.fault("%s takes no %s; it takes %s", where, given, strings.Join(names, ", "))
		}
	}
}

// Tries lets a node whose function failed start again in the same super-step, n starts in all. Writes of a failed try
// are discarded; its steps and answers stay. A wait is no failure, an error marked with NoRetry is final, and so is one
// that the same input makes again: see [Retryable], and RetryOn for other rules.
func Tries(n int) NodeOption {
	return option("Tries", func(c *nodeConfig) {
		if c.policy.Tries = n; n < 1 {
			c.fault("Tries(%d): a node needs at least one try", n)
		}
	})
}

// Backoff sets the wait before the second try, which doubles with each further one up to longest, see Factor. Without it
// a node with Tries waits half a second first and 128 seconds at most. Jitter comes on top.
func Backoff(first, longest time.Duration) NodeOption {
	return option("Backoff", func(c *nodeConfig) {
		if c.policy.Wait, c.policy.MaxWait = first, longest; first < 0 || longest < first {
			c.fault("Backoff(%v, %v): the first wait is not negative and the longest not below it", first, longest)
		}
	})
}

// Timeout ends the context of each try after d, with a cause that says so. Zero is no limit.
func Timeout(d time.Duration) NodeOption {
	return option("Timeout", func(c *nodeConfig) {
		if c.policy.Timeout = d; d < 0 {
			c.fault("Timeout(%v): a time limit is not negative; leave it out for none", d)
		}
	})
}

// Durable makes what the node did durable before anything goes on, whatever the run's durability.
func Durable() NodeOption {
	return option("Durable", func(c *nodeConfig) { c.policy.Durable = true })
}

// Defer makes a node run only once nothing else is due: what leads to it meanwhile is remembered, and counts once. It is
// for the node that sums up branches of unequal length. What it leads to goes on as usual.
func Defer() NodeOption { return option("Defer", func(c *nodeConfig) { c.deferred = true }) }

// Version declares a change of the node's meaning that its name and lines do not show: runs that are past the node, or
// stand in it, do not go on under another version. The default is 1.
func Version(n int) NodeOption {
	return option("Version", func(c *nodeConfig) {
		if c.version = n; n < 1 {
			c.fault("Version(%d): versions count from 1", n)
		}
	})
}

// Usable is what a node can declare with Uses: an Interrupt or an effect.
type Usable interface{ UseName() string }

// acting is an effect as seen by the graph that declares it.
type acting interface {
	Usable
	Dispatches() (approved bool)
}

// faultOf is what is wrong with a declaration that can tell.
func faultOf(u Usable) error {
	if f, ok := u.(interface{ Fault() error }); ok {
		return f.Fault()
	}
	return nil
}

// Uses declares what the node may ask and dispatch; anything else fails by name when it is tried.
func Uses(u ...Usable) NodeOption {
	return option("Uses", func(c *nodeConfig) {
		for _, use := range u {
			switch {
			case use == nil:
				c.fault("Uses(nil): name an interrupt or an effect")
			case use.UseName() == "":
				c.fault("Uses: what a node uses needs a name")
			case faultOf(use) != nil:
				c.fault("Uses: %v", faultOf(use))
			case c.policy.Uses[use.UseName()]:
				c.fault("Uses names %q twice", use.UseName())
			default:
				c.uses = append(c.uses, use)
				c.policy.Uses[use.UseName()] = true
			}
		}
	})
}

// declared is a question as seen by the graph that declares it.
type declared interface {
	Usable
	rules() core.Interrupt
	declaration() any
}

// declaration is what two interrupts of one name must have in common to be the same question; it is comparable.
type declaration[Q, A any] struct {
	expires        time.Duration
	checks, stands bool
}

func (in Interrupt[Q, A]) declaration() any {
	return declaration[Q, A]{in.Expires, in.Check != nil, in.Default != nil}
}

// Node is a node that is ready to be added to a graph: a Worker, or what AskNode made.
type Node[S any] interface{ node() *node[S] }

type node[S any] struct {
	nodeConfig
	name   string
	kind   core.NodeKind
	opts   []NodeOption
	run    func(ctx context.Context, s *S, arg []byte, g *seal) error // nil: the function given was nil
	handle func(context.Context, *S, error) error
	routes []route[S]

	payload string // fingerprint of the type that is sent to a worker
}

func newNode[S any](name string, kind core.NodeKind, opts []NodeOption) *node[S] {
	n := &node[S]{name: name, kind: kind, opts: opts}
	n.configure(nil)
	return n
}

// configure reads the node's options, on top of those that its graph gives to all.
func (n *node[S]) configure(defaults []NodeOption) {
	n.nodeConfig = nodeConfig{version: 1, policy: core.Policy{Tries: 1, Backoff: usualWaits(), Uses: map[string]bool{}}}
	n.take(defaults)
	inherited := n.policy.Retries
	n.policy.Retries = nil
	if n.take(n.opts); len(n.policy.Retries) == 0 {
		n.policy.Retries = inherited
	}
	handle, fits := handlerOf(n)
	if n.handle = handle; !fits {
		n.fault("OnError: its function is for another state than the graph's")
	}
	n.policy.Handles = n.handle != nil
}

// record is the node's entry in the topology, without its lines.
func (n *node[S]) record() core.Node {
	r := core.Node{Name: n.name, Kind: n.kind, Version: n.version, Durable: n.policy.Durable, Defer: n.deferred,
		Uses: slices.Sorted(maps.Keys(n.policy.Uses))}
	for _, u := range n.uses {
		_, asks := u.(declared)
		if e, ok := u.(acting); ok {
			r.Sends = append(r.Sends, u.UseName())
			asks = e.Dispatches()
		}
		if asks {
			r.Asks = append(r.Asks, u.UseName())
		}
	}
	slices.Sort(r.Asks)
	slices.Sort(r.Sends)
	return r
}

// AskNode is a node that is only a question, named after its interrupt: question makes it from the state, which it may
// not write, and decided takes the answer. Each is called once a task, also when the answer comes days later in
// another process: nothing runs again, because there is no node function. decided is called again after a crash before
// its writes were saved, and by Tries.
func AskNode[S, Q, A any](in Interrupt[Q, A], question func(*S) Q, decided func(*S, A) error, opts ...NodeOption) Node[S] {
	n := newNode[S](in.Name, core.KindAsk, append([]NodeOption{Uses(in)}, opts...))
	if question == nil || decided == nil {
		return readyNode[S]{n}
	}
	n.run = func(ctx context.Context, s *S, _ []byte, g *seal) error {
		answer, err := in.askOnce(ctx, func() (Q, error) {
			g.Enter("question")
			defer g.Leave()
			return question(s), nil
		})
		if err != nil {
			return err
		}
		return decided(s, answer)
	}
	return readyNode[S]{n}
}

type readyNode[S any] struct{ n *node[S] }

func (r readyNode[S]) node() *node[S] { return r.n }

// Worker is a node that runs once for each payload that a route sends to it, all of one super-step at once. It writes
// to the same state as every node; its writes merge in the order of sending. A Worker is immutable and may be added to
// many graphs.
type Worker[S, P any] struct {
	name string
	fn   func(context.Context, *S, P) error
	opts []NodeOption
}

// NewWorker returns a worker for payloads of type P, which travel as JSON.
func NewWorker[S, P any](name string, fn func(context.Context, *S, P) error, opts ...NodeOption) *Worker[S, P] {
	return &Worker[S, P]{name: name, fn: fn, opts: slices.Clone(opts)}
}

// With sends one payload. It is encoded at once, so what happens to p afterwards does not matter.
func (w *Worker[S, P]) With(p P) []Next { return w.Each([]P{p}) }

// Each sends every item to a task of its own, in order.
func (w *Worker[S, P]) Each(items []P) []Next {
	out := make([]Next, len(items))
	for i, p := range items {
		arg, err := schema.Marshal(p)
		if err != nil {
			err = fmt.Errorf("payload %d for worker %q cannot be sent: %w", i, w.name, err)
		}
		out[i] = Next{core.Due{Node: w.name, Send: true, Arg: arg}, err}
	}
	return out
}

func (w *Worker[S, P]) node() *node[S] {
	if w == nil {
		return nil
	}
	n := newNode[S](w.name, core.KindWorker, w.opts)
	n.payload = schema.Fingerprint[P]()
	if w.fn != nil {
		n.run = func(ctx context.Context, s *S, arg []byte, _ *seal) error {
			p, err := payload[P](arg)
			if err != nil {
				return fmt.Errorf("worker %q was not entered: its payload is no %T: %w", w.name, p, err)
			}
			return w.fn(ctx, s, p)
		}
	}
	return n
}

// payload decodes strictly: an unknown field or a second value is another program's payload, not this one's.
func payload[P any](arg []byte) (p P, err error) {
	if !bytes.ContainsRune(arg, '{') { // no fields, so none that is unknown: a number, say, and the quick way
		err = json.Unmarshal(arg, &p)
		return p, err
	}
	d := json.NewDecoder(bytes.NewReader(arg))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil {
		return p, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return p, errors.New("more than one value")
	}
	return p, nil
}
