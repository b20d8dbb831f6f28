package pawl

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
)

// Task is the running execution of one node: the engine's side of the context that a node is given. It lives as long
// as the node's function runs.
type Task struct {
	loop   *loop
	spec   core.Task
	policy *core.Policy
	guard  *seal

	mu     sync.Mutex
	booked map[string]bool           // addresses used in this entry
	steps  map[string]*core.Step     // journal, by address
	asked  map[string]*core.Question // newest revision, by address
	open   map[string]*core.Question // what this entry waits for, by id
	fatal  error                     // the task cannot end well, whatever the node returns
	failed error                     // of the node, which its handler takes over
	few    *few                      // nil: it is like most tasks
	entry  int                       // which start of the node this is
	over   bool                      // the node returned: what goroutines of it still ask for is refused
	cp     int64                     // the checkpoint that all of it hangs from

	kids  *kids // nil: it has no children
	root  branch
	scope scope
	state seal        // of the first entry
	next  [1]core.Due // room for what most nodes lead to
}

// few is what few tasks have. It is made when needed: a super-step makes a task.
type few struct {
	gotos  []Next         // what this entry chose with Goto
	calls  []string       // what the node itself sent out in this entry, as far as somebody watches
	held   []liveValue    // live values that the node set, once it returned
	leaves []*core.Cached // what stateless children of it leave to others
	idle   *time.Timer    // of the running try; nil: no idle timeout
	saves  int            // writes of the engine that go on for it
	missed bool           // the idle timeout was over during these
}

// rare returns what few tasks have. The caller holds t.mu.
func (t *Task) rare() *few {
	if t.few == nil {
		t.few = &few{}
	}
	return t.few
}

// branch is a part of a task that waits as one: the node itself, or one function of All.
type branch struct {
	parent  *branch
	waiting atomic.Bool
}

func (b *branch) isWaiting() bool {
	for ; b != nil; b = b.parent {
		if b.waiting.Load() {
			return true
		}
	}
	return false
}

// scope is where in a task a context stands. It is that context.
type scope struct {
	context.Context
	task   *Task
	branch *branch
	path   string // addresses of the steps around it
	entry  int    // of the node, that it belongs to
	within string // "step", or what a part records; empty: the node itself
	cached string // the cached step around it; empty: none
}

type scopeKey struct{}

func scopeFrom(ctx context.Context) *scope {
	s, _ := ctx.Value(scopeKey{}).(*scope)
	return s
}

// in puts the scope, which nobody else uses, into a context.
func (s *scope) in(ctx context.Context) context.Context {
	s.Context = ctx
	return s
}

// Value finds the scope itself.
func (s *scope) Value(key any) any {
	if key == (scopeKey{}) {
		return s
	}
	return s.Context.Value(key)
}

// TaskFrom returns the running task of a node's context.
func TaskFrom(ctx context.Context) (*Task, bool) {
	if s := scopeFrom(ctx); s != nil {
		return s.task, true
	}
	return nil, false
}

// Place says what a context belongs to: "node", "step", or what a part calls a call that it records, such as "effect".
// Empty: no running task.
func Place(ctx context.Context) string {
	switch s := scopeFrom(ctx); {
	case s == nil:
		return ""
	case s.within == "":
		return "node"
	default:
		return s.within
	}
}

// Recorded returns the context for a call whose outcome a part records, so that it is not repeated. [Place] says kind.
func (t *Task) Recorded(ctx context.Context, kind string) context.Context {
	inner := *scopeOr(ctx, t)
	inner.within = kind
	return inner.in(ctx)
}

// CalledOut notes that something is about to leave the program under ctx: for test kits that watch clients and drivers. A
// call of the node itself, in no step and no effect, is made again with each entry of the node. Under Options.Strict an
// entry that made one and then waits fails with an [*UnfencedCallError]. Elsewhere nothing is noted.
func CalledOut(ctx context.Context, call string) {
	if Place(ctx) != "node" {
		return
	}
	s := scopeFrom(ctx)
	s.task.mu.Lock()
	defer s.task.mu.Unlock()
	if s.entry == s.task.entry {
		few := s.task.rare()
		few.calls = append(few.calls, call)
	}
}

// unfenced is what is wrong with an entry that waits and had called out.
func (t *Task) unfenced() error {
	names := t.openNames()
	t.mu.Lock()
	defer t.mu.Unlock()
	calls := t.rare().calls
	if len(calls) == 0 || len(names) == 0 {
		return nil
	}
	return &UnfencedCallError{Node: t.spec.Node, Call: calls[0], Question: names[0], Calls: len(calls)}
}

// TaskKey is the same text on every entry and try of a task, in every process, and another for every other task: good
// for a user's own idempotent table. A fork runs other tasks, so it is no key for an outside action. Empty outside a
// task.
func TaskKey(ctx context.Context) string {
	if t, ok := TaskFrom(ctx); ok {
		return t.spec.Path()
	}
	return ""
}

// Opt is an option of a single Step or Ask.
type Opt func(*opts)

type opts struct{ key string }

// Key tells apart several uses of one name in one node, for instance in a loop. It is the only way to repeat a name:
// nothing is numbered, so inserting a use never moves a result or an answer.
func Key(k string) Opt { return func(o *opts) { o.key = k } }

func collect(list []Opt) opts {
	var o opts
	for _, f := range list {
		f(&o)
	}
	return o
}

// init makes t a task of l, with what was journaled for it before.
func (t *Task) init(l *loop, spec core.Task, policy *core.Policy) {
	t.loop, t.spec, t.policy, t.cp = l, spec, policy, l.place()
	steps, asked, children := l.journal(spec.ID)
	for i := range steps {
		s := &steps[i]
		if t.steps == nil {
			t.steps = map[string]*core.Step{}
		}
		t.steps[s.Address] = s
	}
	for i := range asked {
		q := &asked[i]
		if t.asked == nil {
			t.asked = map[string]*core.Question{}
		}
		t.asked[q.Address] = q
	}
	for _, c := range children {
		c.Run, c.Head.Graph = l.pos.Run, len(l.pos.Run.Graphs)-1
		t.family().nested[c.Frame.Address] = c
	}
}

// place is the number of the checkpoint that the tasks hang from: of a child that keeps none, the parent's.
func (l *loop) place() int64 {
	if l.stateless {
		return l.under.cp
	}
	return l.pos.Head.N
}

// mayStillAsk are the questions of the task and of what it began in children.
func (t *Task) mayStillAsk() []*core.Question {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.asked) == 0 && t.kids == nil {
		return nil
	}
	out := slices.Collect(maps.Values(t.asked))
	if t.kids == nil {
		return out
	}
	return stillAsked(slices.Collect(maps.Values(t.kids.nested)), out)
}

// enter starts one entry of the node: names are free again, nothing is waited for yet.
func (t *Task) enter(ctx context.Context) context.Context {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.booked, t.open, t.fatal, t.over = nil, nil, nil, false
	if t.few != nil {
		t.few.calls, t.few.gotos, t.few.held = nil, nil, nil
	}
	if t.kids != nil {
		t.kids = &kids{nested: t.kids.nested}
	}
	t.root.waiting.Store(false)
	s := &t.scope
	if t.entry++; t.entry > 1 {
		s = &scope{} // a goroutine of an earlier try may still hold the first one
	}
	*s = scope{task: t, branch: &t.root, entry: t.entry}
	if t.failed != nil {
		s.path = StepHandedOver // its names are not the node's
	}
	return s.in(ctx)
}

// leave ends an entry of the node.
func (t *Task) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = true
}

// late refuses what a goroutine asks for that outlived its node: nobody would wait for it, or find it again.
func (t *Task) late(entry int, what fmt.Stringer) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.lateLocked(entry, what)
}

func (t *Task) lateLocked(entry int, what fmt.Stringer) error {
	if !t.over && entry == t.entry {
		return nil
	}
	return fmt.Errorf("node %q: %s came after the node returned; nothing of it was kept; wait for the goroutines of a node "+
		"before it returns, for instance with pawl.All", t.spec.Node, what)
}

// book takes an address for this entry.
func (t *Task) book(s *scope, a core.Address) (string, error) {
	id := a.ID()
	if t.policy.Idle > 0 || t.loop.under != nil {
		t.alive(false)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.lateLocked(s.entry, a); err != nil {
		return "", err
	}
	if s.cached != "" {
		err := fmt.Errorf("node %q: %s inside the cached step %q, whose result must depend on its input alone; it was not done; "+
			"move it out of the step", t.spec.Node, a, s.cached)
		t.failLocked(err)
		return "", err
	}
	if t.booked[id] {
		err := fmt.Errorf("node %q: %s: %w; give each use of the name its own pawl.Key", t.spec.Node, a, ErrNameReused)
		t.failLocked(err)
		return "", err
	}
	if t.booked == nil {
		t.booked = map[string]bool{}
	}
	t.booked[id] = true
	return id, nil
}

// fail makes the task fail whatever the node does with the error.
func (t *Task) fail(err error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failLocked(err)
	return err
}

func (t *Task) failLocked(err error) {
	if t.fatal == nil {
		t.fatal = err
	}
}

// room is where an entry puts what it leads to, if that fits.
func (t *Task) room() []core.Due {
	if t == nil {
		return nil
	}
	return t.next[:0]
}

// returned says whether an entry waits whose node just returned, and what it chose with Goto. t may be nil: no engine.
func (t *Task) returned() (waits bool, gotos []Next) {
	if t == nil {
		return false, nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.few != nil {
		gotos = t.few.gotos
	}
	return t.waitsLocked(), gotos
}

// Waiting is ErrWaiting while a question of this entry is open, else nil.
func (t *Task) Waiting() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.waitsLocked() {
		return ErrWaiting
	}
	return nil
}

func (t *Task) waitsLocked() bool { return len(t.open) > 0 || t.kids != nil && len(t.kids.held) > 0 }

// openNames are the names of the questions that this entry waits for.
func (t *Task) openNames() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var names []string
	if t.kids != nil {
		names = slices.Clone(t.kids.held)
	}
	for _, q := range t.open {
		names = append(names, q.Name)
	}
	slices.Sort(names)
	return names
}

// standing is how an entry ended, whatever the node returned: with what breaks the task, waiting, and with questions or
// children of its own.
func (t *Task) standing() (waits, asked bool, broken error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.waitsLocked(), len(t.asked) > 0 || t.kids != nil, t.fatal
}

// sealed is the guard of a new state for an entry of the task.
func (t *Task) sealed(node string) *seal {
	g := &t.state
	if t.guard != nil {
		g = &seal{} // a goroutine of an earlier try may still hold the first one
	}
	var late func(error)
	if t.loop != nil {
		late, g.held = t.loop.late, t.loop.held
	}
	g.Init(node, late)
	t.guard = g
	return g
}

func (t *Task) strict() bool { return t.loop != nil && t.loop.strict }

// place is where what the task asks for hangs from.
func (t *Task) place() (checkpoint int64) { return t.cp }
