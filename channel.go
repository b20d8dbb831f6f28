package pawl

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/schema"
)

// channel is what the layout asks of every field of a state. The JSON methods guard themselves; for write, load and
// changed the caller holds the seal.
type channel interface {
	rule() rule
	attach(b *binding, i int)
	bound() bool
	write() (core.Write, bool, error) // what this task did, without the channel's name; false: nothing
	load() error                      // decodes what is stored
	changed() (bool, error)           // what was read no longer encodes to what is stored
	json.Marshaler                    // the current value; null where nothing was ever written
	json.Unmarshaler                  // a partial: a value sets a Last, a list adds to an Append
}

// rule is what a channel's type says.
type rule struct {
	merge  core.Merge
	number core.Number  // Sum
	whole  reflect.Type // whose JSON a whole value is
	delta  reflect.Type // whose JSON a stored delta is; nil: there are none
	null   bool         // null is a value
	live   bool         // nothing of it is stored
	fold   func(old, items []byte) ([]byte, error)
}

// slot holds one value: the stored one, or the task's own.
type slot[T any] struct {
	cell
	val    T
	has    bool // val is a value
	loaded bool
	wrote  bool
}

func (s *slot[T]) get() (T, bool) {
	if !s.wrote && !s.loaded {
		s.val, s.has = s.base()
		s.loaded = true
	}
	return s.val, s.has
}

// base decodes what is stored.
func (s *slot[T]) base() (val T, has bool) {
	v := s.stored()
	if v == nil {
		return val, false
	}
	check, _ := s.checks()
	live, err := v.Live(func(data []byte) (any, error) { return schema.Decode[T](check, data) }, noDeltas)
	if err != nil {
		s.failRead(err)
		return val, false
	}
	val, _ = live.(T) // a nil interface is the zero T
	return val, true
}

func noDeltas(any, []byte) (any, error) {
	return nil, errors.New("a delta where only whole values are")
}

func (s *slot[T]) lookup() (T, bool) {
	s.lock()
	defer s.unlock()
	return s.get()
}

func (s *slot[T]) set(v T) {
	if s.open() {
		defer s.unlock()
		s.put(v)
	}
}

func (s *slot[T]) put(v T) { s.val, s.has, s.wrote = v, true, true }

func (s *slot[T]) load() error {
	s.get()
	return s.err
}

func (s *slot[T]) write() (core.Write, bool, error) {
	if !s.wrote || s.err != nil {
		return core.Write{}, false, s.err
	}
	data, err := schema.Encode(&s.val)
	return core.Write{Op: core.OpSet, Data: data}, true, err
}

func (s *slot[T]) changed() (bool, error) {
	if !s.loaded || s.stored() == nil {
		return false, s.err
	}
	live, _ := s.base()
	return differs(&s.cell, &live)
}

func (s *slot[T]) rule() rule {
	t := reflect.TypeFor[T]()
	return rule{whole: t, null: schema.HoldsNull(t)}
}

// MarshalJSON writes the current value; null where nothing was ever written.
func (s *slot[T]) MarshalJSON() ([]byte, error) {
	s.lock()
	defer s.unlock()
	if val, has := s.get(); has {
		return schema.Encode(&val)
	}
	return []byte("null"), s.err
}

// UnmarshalJSON sets the value. Null sets nothing, unless T can hold it.
func (s *slot[T]) UnmarshalJSON(doc []byte) error {
	if schema.IsNull(doc) && !schema.HoldsNull(reflect.TypeFor[T]()) {
		return nil
	}
	check, _ := s.checks()
	v, err := schema.Decode[T](check, doc)
	if err == nil {
		s.set(v)
	}
	return err
}

// IsZero says that nothing was ever written, for the JSON option omitzero.
func (s *slot[T]) IsZero() bool {
	s.lock()
	defer s.unlock()
	return !s.has && (s.wrote || s.stored() == nil)
}

// Last is a channel that holds the value written last. One task a super-step may write it: of two, neither is merged,
// and the run fails with a conflict that names the channel and both nodes. The zero Last is ready and holds nothing.
//
// What Get returns is shared: do not change in place what it points to. A Last must not be copied.
type Last[T any] struct{ slot[T] }

// Of returns a Last that sets v, for literals: &State{Order: pawl.Of(o)}.
func Of[T any](v T) Last[T] { return Last[T]{slot[T]{val: v, has: true, wrote: true}} }

// Get returns the value, the zero T where nothing was ever written. A stored value that cannot be read reads as the
// zero T too, and fails the task.
func (l *Last[T]) Get() T { v, _ := l.lookup(); return v }

// Lookup returns the value and whether there is one: never written is not the same as zero.
func (l *Last[T]) Lookup() (T, bool) { return l.lookup() }

// Set writes the value. It is encoded when the node returns.
func (l *Last[T]) Set(v T) { l.set(v) }

func (l *Last[T]) rule() rule { r := l.slot.rule(); r.merge = core.MergeLast; return r }

// Ephemeral is a Last that lives for one super-step: what a task writes is seen in the next one, and then it is gone.
// The zero Ephemeral is ready. It must not be copied.
type Ephemeral[T any] struct{ slot[T] }

// Get returns the value, the zero T where the super-step before wrote none.
func (e *Ephemeral[T]) Get() T { v, _ := e.lookup(); return v }

// Lookup returns the value and whether there is one.
func (e *Ephemeral[T]) Lookup() (T, bool) { return e.lookup() }

// Set writes the value for the next super-step; one task a super-step may.
func (e *Ephemeral[T]) Set(v T) { e.set(v) }

func (e *Ephemeral[T]) rule() rule { r := e.slot.rule(); r.merge = core.MergeEphemeral; return r }

// Once is a channel whose value is taken, not read: a permission that opens one thing. Taking it is a write, so of two
// tasks that take it in one super-step neither is merged; a task that took it and failed has taken nothing. The zero
// Once is ready. It must not be copied.
type Once[T any] struct {
	slot[T]
	took bool // what was stored
}

// Put offers a value, in place of one that nobody took.
func (o *Once[T]) Put(v T) { o.set(v) }

// Take takes the value. False: there is none, or this task has taken it already.
func (o *Once[T]) Take() (val T, ok bool) {
	if !o.open() {
		return val, false
	}
	defer o.unlock()
	if val, ok = o.get(); !ok {
		return val, false
	}
	o.took = o.took || o.stored() != nil
	var none T
	o.val, o.has, o.wrote = none, false, true
	return val, true
}

func (o *Once[T]) write() (core.Write, bool, error) {
	if o.has || !o.wrote || o.err != nil {
		w, wrote, err := o.slot.write()
		w.Took = o.took
		return w, wrote, err
	}
	return core.Write{Op: core.OpClear, Took: true}, o.took, nil
}

func (o *Once[T]) rule() rule { r := o.slot.rule(); r.merge = core.MergeOnce; return r }

// Number is what a Sum adds up: the kinds in which a total of many tasks fits.
type Number interface {
	~int | ~int64 | ~uint64 | ~float64
}

// Sum is a channel that adds up what tasks add. Every task may. An overflow, and a float that is no number any more,
// fails the task, or the super-step where several tasks together exceed. The zero Sum is ready and 0. It must not be
// copied.
type Sum[T Number] struct {
	cell
	total  T // what is stored, once it was read
	loaded bool
	delta  T
}

// Total returns a Sum that adds n, for literals.
func Total[T Number](n T) Sum[T] { return Sum[T]{delta: n} }

// Get returns the total: what is stored and what this task added.
func (s *Sum[T]) Get() T {
	s.lock()
	defer s.unlock()
	return s.base() + s.delta
}

// Add adds n. Adding 0 is no write.
func (s *Sum[T]) Add(n T) {
	if !s.open() {
		return
	}
	defer s.unlock()
	delta, ok := schema.Plus(s.delta, n)
	if ok {
		_, ok = schema.Plus(s.base(), delta)
	}
	if !ok {
		s.fail(fmt.Errorf("adding %v to %v overflows; it was not added", n, s.base()+s.delta))
		return
	}
	s.delta = delta
}

func (s *Sum[T]) base() T {
	if v := s.stored(); v != nil && !s.loaded {
		s.loaded = true
		var err error
		if s.total, err = schema.ParseNumber[T](v.Data); err != nil {
			s.failRead(err)
		}
	}
	return s.total
}

func (s *Sum[T]) load() error { s.base(); return s.err }

func (s *Sum[T]) changed() (bool, error) { return false, s.err }

func (s *Sum[T]) write() (core.Write, bool, error) {
	if s.delta-s.delta != 0 {
		s.fail(fmt.Errorf("%v is not a number that JSON holds; it was not added", s.delta))
	}
	return core.Write{Op: core.OpAdd, Data: schema.FormatNumber(s.delta)}, s.delta != 0, s.err
}

func (s *Sum[T]) rule() rule {
	switch {
	case schema.IsFloat[T]():
		return rule{merge: core.MergeSum, number: core.Float, whole: reflect.TypeFor[float64]()}
	case schema.IsUnsigned[T]():
		return rule{merge: core.MergeSum, number: core.Unsigned, whole: reflect.TypeFor[uint64]()}
	}
	return rule{merge: core.MergeSum, number: core.Signed, whole: reflect.TypeFor[int64]()}
}

// MarshalJSON writes the total.
func (s *Sum[T]) MarshalJSON() ([]byte, error) {
	s.lock()
	defer s.unlock()
	return schema.FormatNumber(s.base() + s.delta), s.err
}

// UnmarshalJSON adds a number. Null adds nothing.
func (s *Sum[T]) UnmarshalJSON(doc []byte) error {
	if schema.IsNull(doc) {
		return nil
	}
	n, err := schema.ParseNumber[T](bytes.TrimSpace(doc))
	if err == nil {
		s.Add(n)
	}
	return err
}

// IsZero says that nothing was ever added, for the JSON option omitzero.
func (s *Sum[T]) IsZero() bool {
	s.lock()
	defer s.unlock()
	return s.stored() == nil && s.delta == 0
}

// Folder is a rule by which a Fold combines what it holds with one input. It is pure, it runs inside the merge, and its
// receiver is the zero value. What it is given is its own: it may change it.
type Folder[T any] interface{ Fold(have, in T) T }

// Fold is a channel with a rule of its own. Every task may add; the inputs are folded in the order of the tasks, the
// first one into the zero T. The zero Fold is ready. It must not be copied.
type Fold[T any, R Folder[T]] struct {
	cell
	inputs []byte // JSON of what this task added, without its brackets
	val    T
	has    bool
	loaded bool
}

// Get returns the folded value with this task's own inputs, the zero T where nothing was ever added.
func (f *Fold[T, R]) Get() T { v, _ := f.Lookup(); return v }

// Lookup returns the folded value and whether there is one.
func (f *Fold[T, R]) Lookup() (T, bool) {
	f.lock()
	defer f.unlock()
	return f.get()
}

// Add adds an input. It is encoded at once: changing it later changes nothing.
func (f *Fold[T, R]) Add(in T) {
	if !f.open() {
		return
	}
	defer f.unlock()
	doc, err := schema.Encode(&in)
	if err != nil {
		f.fail(err)
		return
	}
	if f.inputs != nil {
		f.inputs = append(f.inputs, ',')
	}
	f.inputs, f.loaded = append(f.inputs, doc...), false
}

func (f *Fold[T, R]) get() (T, bool) {
	if f.loaded {
		return f.val, f.has
	}
	f.loaded = true
	check, _ := f.checks()
	old, err := f.stored().Bytes()
	if err == nil {
		f.val, err = foldOver[T, R](check, old, f.items())
	}
	if err != nil {
		f.fail(fmt.Errorf("what is stored cannot be read and folded: %w; it was left as it is", err))
	}
	f.has = err == nil && (old != nil || f.inputs != nil)
	return f.val, f.has
}

func (f *Fold[T, R]) items() []byte { return slices.Concat([]byte{'['}, f.inputs, []byte{']'}) }

func (f *Fold[T, R]) load() error { f.get(); return f.err }

// changed is never true: a fold decodes for each task anew.
func (f *Fold[T, R]) changed() (bool, error) { return false, f.err }

func (f *Fold[T, R]) write() (core.Write, bool, error) {
	return core.Write{Op: core.OpAdd, Data: f.items()}, f.inputs != nil, f.err
}

func (f *Fold[T, R]) rule() rule {
	t := reflect.TypeFor[T]()
	return rule{merge: core.MergeFold, whole: t, null: schema.HoldsNull(t), fold: func(old, items []byte) ([]byte, error) {
		v, err := foldOver[T, R](nil, old, items)
		if err != nil {
			return nil, err
		}
		return schema.Encode(&v)
	}}
}

// MarshalJSON writes the folded value; null where nothing was ever added.
func (f *Fold[T, R]) MarshalJSON() ([]byte, error) {
	f.lock()
	defer f.unlock()
	if val, has := f.get(); has {
		return schema.Encode(&val)
	}
	return []byte("null"), f.err
}

// UnmarshalJSON adds one input. Null adds none, unless T can hold it.
func (f *Fold[T, R]) UnmarshalJSON(doc []byte) error {
	if schema.IsNull(doc) && !schema.HoldsNull(reflect.TypeFor[T]()) {
		return nil
	}
	check, _ := f.checks()
	v, err := schema.Decode[T](check, doc)
	if err == nil {
		f.Add(v)
	}
	return err
}

// IsZero says that nothing was ever added, for the JSON option omitzero.
func (f *Fold[T, R]) IsZero() bool {
	f.lock()
	defer f.unlock()
	return f.stored() == nil && f.inputs == nil
}

// foldOver folds a JSON array of inputs into old, nil for none.
func foldOver[T any, R Folder[T]](check *schema.Schema, old, items []byte) (val T, err error) {
	err = guarded(func() error {
		if old != nil {
			if val, err = schema.Decode[T](check, old); err != nil {
				return err
			}
		}
		var r R
		inputs, err := schema.Decode[[]T](nil, items)
		for _, in := range inputs {
			val = r.Fold(val, in)
		}
		return err
	})
	return val, err
}
