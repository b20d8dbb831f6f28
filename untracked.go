package pawl

import (
	"errors"
	"fmt"
	"maps"
	"reflect"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/guard"
)

// Untracked is a channel that holds a live value: a client, an open file, anything of Go. What a task sets is seen from
// the next super-step on, until the program that runs the thread stops running it. It is never stored, digested, sent,
// drawn or shown as JSON, so it is gone after a pause, a crash, a fork, an edit, in every other process and whenever the
// task that set it is not entered again. A node that reads one copes with its absence, and opens what it needs:
//
//	db, ok := s.DB.Get()
//	if !ok {
//		db = open()
//		s.DB.Set(db)
//	}
//
// One task a super-step may set it, as with a Last; tagged `pawl:"unguarded"` any may, and the last in the order of the
// merge stays. Tasks that run at once share the value, so it must be safe for that. The engine closes nothing: who opened
// it does, from [OutcomeOf].State at the latest. A run's own input and a child's may bring one, see [Live]; a child's
// result shows the child's. The zero Untracked is ready and holds nothing. It must not be copied.
type Untracked[T any] struct {
	cell
	val T
	has bool // of this task
}

// Live returns an Untracked that sets v, for literals: &State{DB: pawl.Live(db)}.
func Live[T any](v T) Untracked[T] { return Untracked[T]{val: v, has: true} }

// Get returns the value and whether there is one.
func (u *Untracked[T]) Get() (T, bool) {
	u.lock()
	defer u.unlock()
	if u.has || u.b == nil {
		return u.val, u.has
	}
	v, has := u.b.seal.held[u.b.layout.fields[u.i].name]
	val, _ := v.(T) // a nil interface is the zero T
	return val, has
}

// Set makes v the value from the next super-step on, and for this task at once.
func (u *Untracked[T]) Set(v T) {
	if u.open() {
		defer u.unlock()
		u.val, u.has = v, true
	}
}

func (u *Untracked[T]) set() (any, bool) { return u.val, u.has }

func (u *Untracked[T]) rule() rule                       { return rule{whole: reflect.TypeFor[T](), live: true} }
func (u *Untracked[T]) write() (core.Write, bool, error) { return core.Write{}, false, u.err }
func (u *Untracked[T]) load() error                      { return nil }
func (u *Untracked[T]) changed() (bool, error)           { return false, nil }

// MarshalJSON writes null: a live value has no JSON.
func (u *Untracked[T]) MarshalJSON() ([]byte, error) { return []byte("null"), nil }

// UnmarshalJSON refuses everything but null, which sets nothing.
func (u *Untracked[T]) UnmarshalJSON(doc []byte) error {
	if string(doc) == "null" {
		return nil
	}
	return errLive
}

// IsZero is true, for the JSON option omitzero: there is never anything to write.
func (u *Untracked[T]) IsZero() bool { return true }

var errLive = errors.New("holds a live value, which no JSON and no edit gives: it was not set; leave it out, and have a node set it")

// liveLast orders fields: what is stored in front.
func liveLast(a, b layoutField) int {
	switch {
	case a.live == b.live:
		return 0
	case a.live:
		return 1
	}
	return -1
}

// liveChannel is an Untracked of any type. set is what its own task set.
type liveChannel interface{ set() (any, bool) }

// liveValue is what a task set an Untracked to.
type liveValue struct {
	channel   string
	value     any
	unguarded bool
}

// held are the live values that were set through the state.
func (b *binding) held() []liveValue {
	b.seal.Lock()
	defer b.seal.Unlock()
	return b.layout.held(b.chans)
}

func (l *layout) held(chans []channel) (out []liveValue) {
	for i := l.stored; i < len(chans); i++ {
		if v, has := chans[i].(liveChannel).set(); has {
			out = append(out, liveValue{l.fields[i].name, v, l.fields[i].unguarded})
		}
	}
	return out
}

// tracked refuses live values where nothing runs on.
func (b *binding) tracked() error {
	for _, h := range b.held() {
		return &guard.StateError{Channel: h.channel, Reason: errLive.Error(), Err: errLive}
	}
	return nil
}

// literally are the live values of a state that belongs to no task.
func (l *layout) literally(state any) map[string]any {
	if l.stored == len(l.fields) || reflect.ValueOf(state).IsNil() {
		return nil
	}
	chans, err := l.open(state, nil)
	if err != nil {
		return nil // the same was said of what it writes
	}
	out := map[string]any{}
	for _, h := range l.held(chans) {
		out[h.channel] = h.value
	}
	return out
}

// keepsHeld keeps what the task's node set until the super-step is merged.
func (t *Task) keepsHeld(list []liveValue) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rare().held = list
}

func (t *Task) heldNow() []liveValue {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.few == nil {
		return nil
	}
	return t.few.held
}

// held is what the run holds behind the round. Tasks that ended in an earlier start of the run have nothing to give.
func (r *round) held() (map[string]any, error) {
	var set []liveValue
	var out map[string]any
	var by map[string]*core.ConflictError
	for i := range r.tasks {
		t := r.tasks[i].task
		for _, v := range t.heldNow() {
			if out == nil { // a new map: tasks of earlier rounds may still read theirs
				out, by = map[string]any{}, map[string]*core.ConflictError{}
				maps.Copy(out, r.loop.held)
			}
			if set = append(set, v); by[v.channel] == nil {
				by[v.channel] = &core.ConflictError{Channel: v.channel}
			}
			e := by[v.channel]
			e.Nodes, e.Tasks = append(e.Nodes, t.spec.Node), append(e.Tasks, t.spec.ID)
			out[v.channel] = v.value
		}
	}
	for _, v := range set {
		if e := by[v.channel]; len(e.Nodes) > 1 && !v.unguarded {
			return nil, e
		}
	}
	if out == nil {
		return r.loop.held, nil
	}
	return out, nil
}

// taggedLive reads the tag of an Untracked.
func (f *layoutField) taggedLive(tag string) error {
	if f.unguarded = tag == "unguarded"; tag != "" && !f.unguarded {
		return fmt.Errorf("%s has the tag pawl:%q, and only unguarded is known at an Untracked: nothing of it is stored or shown", f.at, tag)
	}
	return nil
}
