package pawl

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
)

// Emit says something from inside a node to whoever streams the run, or watches the thread in this process: progress, the
// words of a model as they come. It is no fact: it is not stored, it is said again when the node runs again, and a watcher
// finds the newest 1,024 of a run only. value is anything that encoding/json can encode; a name is free. Outside of a
// running task nobody listens, and nothing happens.
func Emit(ctx context.Context, name string, value any) error {
	s := scopeFrom(ctx)
	if s == nil {
		return nil
	}
	t := s.task
	if err := t.late(s.entry, core.Address{Kind: "event", Name: name}); err != nil {
		return err
	}
	doc, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("node %q: event %q cannot be encoded as JSON: %w; nothing was said", t.spec.Node, name, err)
	}
	t.alive(false)
	t.loop.say(Event{Kind: EventCustom, At: time.Now().UTC(), Node: t.spec.Node, Task: t.spec.ID, Try: s.entry, Name: name, Data: doc})
	return nil
}

// say tells what is no fact to the stream and to the watchers of this process.
func (l *loop) say(e Event) {
	l.emit(e)
	if l.root.live == nil {
		return
	}
	e.Path, e.Step = l.path, l.pos.Head.Step+1
	if run := l.root.pos.Run; run != nil {
		if e.Run, e.Attempt = run.ID, run.Attempt; run.Mode == Sync {
			e.after = l.root.pos.Head.Seq
		}
	}
	l.root.live.add(e)
}

// begins tells that a step's function is called to those who listen now; to nobody else, and at no cost.
func (l *loop) begins(s *scope, step *core.Step) {
	if l.sink == nil && (l.root.live == nil || l.root.live.watchers.Load() == 0) {
		return
	}
	l.say(Event{Kind: EventStepStart, At: time.Now().UTC(), Node: step.Node, Task: step.Task, Try: s.entry, Name: step.Name, Key: step.Key, Address: step.Address})
}

// ringSize is how many custom events of a run are kept for who comes late.
const ringSize = 1024

// ring holds the newest events that are no facts of a thread that runs or is watched here. Its positions count from its
// making.
type ring struct {
	mu     sync.Mutex
	events []Event // the newest, the oldest of them at next%ringSize once it is full
	next   int
	wake   chan struct{}
	users  int // guarded by house.mu

	watchers atomic.Int32
}

// watch notes one who watches, and returns the position from which on.
func (r *ring) watch() int {
	r.watchers.Add(1)
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.next
}

func (r *ring) add(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.events) < ringSize {
		r.events = append(r.events, e)
	} else {
		r.events[r.next%ringSize] = e
	}
	r.next++
	close(r.wake)
	r.wake = make(chan struct{})
}

// since returns what came after a position, how many of it are gone, the position behind it, and what is closed when more
// comes.
func (r *ring) since(at int) (events []Event, lost, next int, wake <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if first := r.next - len(r.events); at < first {
		lost, at = first-at, first
	}
	for ; at < r.next; at++ {
		events = append(events, r.events[at%ringSize])
	}
	return events, lost, r.next, r.wake
}

// join makes or finds the ring of a thread, and returns it with where to start and how to leave.
func (e *Engine) join(thread string) (*ring, func()) {
	key := runningKey{e.tenant, thread}
	e.mu.Lock()
	defer e.mu.Unlock()
	r := e.rings[key]
	if r == nil {
		r = &ring{wake: make(chan struct{})}
		e.rings[key] = r
	}
	r.users++
	return r, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		if r.users--; r.users == 0 {
			delete(e.rings, key)
		}
	}
}
