package pawl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/schema"
	"github.com/pawl-dev/pawl/storage"
)

// Cache lets tasks reuse the result of an earlier task of the same node, on any thread of the tenant and in any process,
// for ttl by the database's clock: what it wrote is written again and where it went is gone again, without entering the
// node. Its routes run as ever, on the state as it is now. Tasks are alike when the whole state that they see is, and the
// payload of a worker; CacheBy says it otherwise. A result is kept with the record that the task ended well, never of a
// task that failed, and reused once it is on disk.
//
// A result is of one declared Version of the node, under one state type: declare another Version when the node, or what
// its key means, changes. A node that is declared to ask, to act or to call children is not cached, nor is a task that
// took a Once or set an Untracked. Clear results before their time with [Engine.ClearCache]. Without storage nothing is kept.
func Cache(ttl time.Duration) NodeOption {
	return option("Cache", func(c *nodeConfig) {
		if c.cache = ttl; ttl <= 0 {
			c.fault("Cache(%v): say for how long a result may be reused", ttl)
		}
	})
}

// CacheBy says on what a cached node's result depends, in place of the whole state: results are reused where key gives
// what has the same JSON. key is pure, and may not write. A worker's payload counts beside it.
func CacheBy[S, K any](key func(*S) K) NodeOption {
	return option("CacheBy", func(c *nodeConfig) {
		if key == nil {
			c.fault("CacheBy(nil): give a function, or leave it out")
			return
		}
		kind := schema.Fingerprint[K]()
		c.cacheKey = func(s *S) ([]string, error) {
			doc, err := json.Marshal(key(s))
			return []string{kind, string(doc)}, err
		}
	})
}

// CachedStep is a [Step] that returns what the same step of the same node returned for the same input, on any thread of the
// tenant, for ttl by the database's clock. The result is journaled like any other; fn is not called. in is all that the
// result depends on, and is told apart by its type and its JSON. Inside fn nothing is asked, done or named.
//
// Without a running task (a plain test of the node) CachedStep just calls fn.
func CachedStep[In, Out any](ctx context.Context, name string, ttl time.Duration, in In, fn func(context.Context, In) (Out, error), options ...Opt) (Out, error) {
	call := func(ctx context.Context) (Out, error) { return fn(ctx, in) }
	s := scopeFrom(ctx)
	if s == nil {
		return call(ctx)
	}
	keep, err := s.cachedStep(name, ttl, schema.Fingerprint[In](), schema.Fingerprint[Out](), in)
	if err != nil {
		return *new(Out), err
	}
	return journaled(ctx, s, name, collect(options).key, keep, call)
}

// cachedFaults are what is wrong with a node's cache.
func (n *node[S]) cachedFaults(s *survey) {
	switch _, fits := n.keyed(); {
	case n.cache == 0 && n.cacheKey != nil:
		s.fault("node %q: CacheBy: there is no Cache for it", n.name)
	case n.cache > 0 && len(n.uses) > 0:
		s.fault("node %q: Cache: it uses %q; what asks, acts or calls children happens anew in each task; cache a step in it, or the "+
			"nodes of the child", n.name, n.uses[0].UseName())
	case !fits:
		s.fault("node %q: CacheBy: its function is for another state than the graph's", n.name)
	}
}

// keyed is the node's own key function; false: it is for another state.
func (n *node[S]) keyed() (func(*S) ([]string, error), bool) {
	if n.cacheKey == nil {
		return nil, true
	}
	f, ok := n.cacheKey.(func(*S) ([]string, error))
	return f, ok
}

// reuse takes the result of an earlier task like this one, or enters the node and offers its result to later ones.
func (d *def[S]) reuse(ctx context.Context, t *Task, n *node[S], g *seal, in core.TaskInput) (out core.TaskOutput, err error) {
	key, err := d.cacheKey(t, n, g, in)
	if err != nil {
		return out, fmt.Errorf("node %q was not entered: its cache key: %w", n.name, err)
	}
	had, err := t.loop.kept(ctx, key)
	if err != nil {
		return out, err
	}
	if had == nil {
		if out, err = d.enter(ctx, t, n, g, in); err == nil && t.Waiting() == nil && !slices.ContainsFunc(out.Writes, took) && len(t.heldNow()) == 0 {
			out.Keep = &core.Cached{Key: key, TTL: n.cache, Writes: slices.Clone(out.Writes), Gotos: t.gone()}
		}
		return out, err
	}
	out.Cached, out.Writes = true, had.Writes
	var gotos []Next
	for _, due := range had.Gotos {
		gotos = append(gotos, Next{due: due})
	}
	if len(n.routes) > 0 {
		values, err := core.Shown(in.Values, &d.topology, d.Fold, had.Writes)
		if err != nil {
			return out, err
		}
		if out.Next, err = d.routed(n, g, values); err != nil {
			return out, err
		}
	}
	out.Next, err = n.went(gotos, out.Next, d.workers)
	return out, err
}

func took(w core.Write) bool { return w.Took }

// gone are the nodes and sends that Goto chose in this entry.
func (t *Task) gone() (out []core.Due) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, next := range t.rare().gotos {
		out = append(out, next.due)
	}
	return out
}

// keepLater takes what the tasks of a child leave that commits nothing itself: it is kept with what its parent's task ends in.
func (t *Task) keepLater(results []*core.Cached) {
	t.mu.Lock()
	defer t.mu.Unlock()
	few := t.rare()
	few.leaves = append(few.leaves, results...)
}

func (t *Task) left() []*core.Cached {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.few == nil {
		return nil
	}
	return t.few.leaves
}

// cacheKey digests all that the task's result depends on.
func (d *def[S]) cacheKey(t *Task, n *node[S], g *seal, in core.TaskInput) (core.CacheKey, error) {
	parts := []string{"node", d.layout.fingerprint(), n.payload, string(in.Task.Arg)}
	key, _ := n.keyed()
	if key == nil {
		doc, err := d.layout.encode(in.Values)
		return t.cacheKey(n.version, append(parts, string(doc))...), err
	}
	s := new(S)
	b := d.layout.bind(s, in.Values, g)
	g.Enter("cache key")
	defer g.Leave()
	own, err := key(s)
	if _, err = written(b, err); err != nil {
		return core.CacheKey{}, err
	}
	return t.cacheKey(n.version, append(parts, own...)...), nil
}

// cacheKey is the place of a result of the task's node, which children around it are a part of.
func (t *Task) cacheKey(version int, parts ...string) core.CacheKey {
	var path strings.Builder
	for _, l := range t.loop.levels {
		path.WriteString(l.Child + "|")
	}
	return core.CacheKey{
		Graph: t.loop.root.topology.Graph, Node: path.String() + t.spec.Node,
		ID: core.ID(append([]string{"cache", fmt.Sprint(version)}, parts...)...),
	}
}

// kept looks for a result; nil: there is none.
func (l *loop) kept(ctx context.Context, key core.CacheKey) (*core.Cached, error) {
	c, ok := l.host.(core.Cache)
	if !ok {
		return nil, nil
	}
	had, err := c.Reuse(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("node %q: looking for a kept result: %w; nothing was called", key.Node, err)
	}
	return had, nil
}

// cachedStep is where the result of a step is kept.
func (s *scope) cachedStep(name string, ttl time.Duration, takes, gives string, in any) (*core.Cached, error) {
	t := s.task
	if ttl <= 0 {
		return nil, t.fail(fmt.Errorf("node %q: step %q: a result cannot be reused for %v; nothing was called", t.spec.Node, name, ttl))
	}
	input, err := json.Marshal(in)
	if err != nil {
		return nil, t.fail(fmt.Errorf("node %q: step %q: its input has no JSON to be told apart by: %w; nothing was called", t.spec.Node, name, err))
	}
	n, _ := t.loop.topology.Node(t.spec.Node)
	return &core.Cached{Key: t.cacheKey(n.Version, "step", name, takes, gives, string(input)), TTL: ttl}, nil
}

// ClearCache forgets what is kept of a graph's nodes and of the steps in them, in the engine's tenant: of those that are
// named, or of all. A node of a child is named by the names on the way to it, "child|node". It returns how many results
// it forgot. Tasks that run meanwhile may keep new ones. Parts are told of each Update of it.
func (e *Engine) ClearCache(ctx context.Context, graph string, nodes ...string) (cleared int, err error) {
	v := VerbInfo{Verb: VerbClear, Graph: graph}
	defer e.refused(ctx, v, &err)
	if err := e.allowed(ctx, v); err != nil {
		return 0, err
	}
	if e.store == nil {
		return 0, &NoStorageError{Graph: graph, Question: string(VerbClear)}
	}
	if graph == "" {
		return 0, errors.New("pawl: clearing the cache needs a graph's name; nothing was cleared")
	}
	v.Actor, v.Tenant = ActorFrom(ctx), e.tenant
	told := func(ctx context.Context, tx storage.Tx, n int) error {
		v.To = fmt.Sprintf("%d results forgotten", n)
		_, err := e.consent(ctx, tx, v)
		return err
	}
	if len(nodes) == 0 {
		return e.store.Clear(ctx, told, e.tenant, graph)
	}
	for _, node := range nodes {
		v.Name = node
		n, err := e.store.Clear(ctx, told, e.tenant, graph, node)
		if cleared += n; err != nil {
			return cleared, err
		}
	}
	return cleared, nil
}
