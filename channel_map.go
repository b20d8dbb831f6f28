package pawl

import (
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"
	"sync"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/schema"
)

// Append is a channel that holds a list. Every task may add to it; what the tasks of one super-step added follows in
// the order of the tasks, never of time. Replace allows one writing task. The zero Append is ready and empty.
//
// The items are shared: do not change in place what they point to. An Append must not be copied.
type Append[T any] struct {
	cell
	base     *window[T] // what is stored, once it was read
	added    []T
	replaced bool // added is the whole list
}

// List returns an Append that adds items, for literals.
func List[T any](items ...T) Append[T] { return Append[T]{added: slices.Clone(items)} }

// Add adds items at the end.
func (a *Append[T]) Add(items ...T) {
	if a.open() {
		defer a.unlock()
		a.added = append(a.added, items...)
	}
}

// Replace puts items in the place of the whole list. One task a super-step may.
func (a *Append[T]) Replace(items ...T) {
	if a.open() {
		defer a.unlock()
		a.added, a.replaced = slices.Clone(items), true
	}
}

// All iterates over the list as it is when the loop begins.
func (a *Append[T]) All() iter.Seq2[int, T] {
	return func(yield func(int, T) bool) {
		head, tail := a.lists()
		for i, v := range head {
			if !yield(i, v) {
				return
			}
		}
		for i, v := range tail {
			if !yield(len(head)+i, v) {
				return
			}
		}
	}
}

// At returns the i-th item, from 0. Outside of the list it is the zero T, and fails the task.
func (a *Append[T]) At(i int) (item T) {
	a.lock()
	defer a.unlock()
	head := a.head()
	switch {
	case i < 0 || i >= len(head)+len(a.added):
		a.fail(fmt.Errorf("item %d of a list of %d was read; nothing was written: check Len first", i, len(head)+len(a.added)))
		return item
	case i < len(head):
		return head[i]
	}
	return a.added[i-len(head)]
}

// Len returns the number of items.
func (a *Append[T]) Len() int {
	head, tail := a.lists()
	return len(head) + len(tail)
}

func (a *Append[T]) lists() (head, tail []T) {
	a.lock()
	defer a.unlock()
	return a.head(), a.added
}

// head returns the stored items that still count.
func (a *Append[T]) head() []T {
	if a.replaced {
		return nil
	}
	if a.base == nil {
		a.base = &window[T]{}
		if v := a.stored(); v != nil {
			if base, err := a.window(v); err != nil {
				a.failRead(err)
			} else {
				a.base = base
			}
		}
	}
	return a.base.items
}

func (a *Append[T]) window(v *core.Value) (*window[T], error) {
	whole, delta := a.checks()
	live, err := v.Live(func(data []byte) (any, error) {
		if data == nil {
			return newWindow([]T{}), nil
		}
		items, err := schema.Decode[[]T](whole, data)
		return newWindow(items), err
	}, func(base any, data []byte) (any, error) {
		items, err := schema.Decode[[]T](delta, data)
		return base.(*window[T]).grow(items), err
	})
	if err != nil {
		return nil, err
	}
	return live.(*window[T]), nil
}

func (a *Append[T]) load() error { a.head(); return a.err }

func (a *Append[T]) write() (core.Write, bool, error) {
	if a.err != nil || !a.replaced && len(a.added) == 0 {
		return core.Write{}, false, a.err
	}
	op := core.OpAdd
	if a.replaced {
		op = core.OpSet
	}
	data, err := schema.EncodeList(nil, a.added)
	return core.Write{Op: op, Data: data}, true, err
}

func (a *Append[T]) changed() (bool, error) {
	if a.base == nil || a.stored() == nil {
		return false, a.err
	}
	return differs(&a.cell, &a.base.items)
}

func (a *Append[T]) rule() rule {
	t := reflect.TypeFor[[]T]()
	return rule{merge: core.MergeAppend, whole: t, delta: t}
}

// MarshalJSON writes the list.
func (a *Append[T]) MarshalJSON() ([]byte, error) {
	a.lock()
	defer a.unlock()
	if head := a.head(); a.err == nil {
		return schema.EncodeList(head, a.added)
	}
	return nil, a.err
}

// UnmarshalJSON adds the items of a list. Null adds none. Where T has the method OfText(string) T, as agent.Message does, a
// text is read as the item that it makes, alone or in the list.
func (a *Append[T]) UnmarshalJSON(doc []byte) error {
	doc, err := texts[T](doc)
	if err != nil {
		return err
	}
	whole, _ := a.checks()
	items, err := schema.Decode[[]T](whole, doc)
	if err == nil {
		a.Add(items...)
	}
	return err
}

// IsZero says that nothing was ever written, for the JSON option omitzero.
func (a *Append[T]) IsZero() bool {
	a.lock()
	defer a.unlock()
	return a.stored() == nil && !a.replaced && len(a.added) == 0
}

// window is a part of an array that later versions of a list share. It never changes; only the longest one on an
// array may grow it, every other one grows a copy. Safe for concurrent use.
type window[T any] struct {
	items []T
	tip   *tip
}

// tip knows the length of the longest window.
type tip struct {
	mu sync.Mutex
	n  int
}

func newWindow[T any](items []T) *window[T] { return &window[T]{items, &tip{n: len(items)}} }

func (v *window[T]) grow(more []T) *window[T] {
	v.tip.mu.Lock()
	defer v.tip.mu.Unlock()
	if v.tip.n != len(v.items) {
		return newWindow(append(slices.Clip(v.items), more...))
	}
	items := append(v.items, more...)
	v.tip.n = len(items)
	return &window[T]{items, v.tip}
}

// Map is a channel that holds values by name. Every task may write it; two tasks of one super-step that touch one key
// are a conflict. The zero Map is ready and empty.
//
// The values are shared: do not change in place what they point to. A Map must not be copied.
type Map[K ~string, V any] struct {
	cell
	base map[string]V // what is stored, once it was read
	own  map[string]entry[V]
}

// entry is what the task did to one key.
type entry[V any] struct {
	val  V
	gone bool
}

// patch is a core.Patch with its types.
type patch[V any] struct {
	Set    map[string]V `json:"s,omitempty"`
	Delete []string     `json:"d,omitempty"`
}

// Pairs returns a Map that sets the entries of m, for literals.
func Pairs[K ~string, V any](m map[K]V) Map[K, V] {
	own := make(map[string]entry[V], len(m))
	for k, v := range m {
		own[string(k)] = entry[V]{val: v}
	}
	return Map[K, V]{own: own}
}

// Get returns the value of a key and whether there is one.
func (m *Map[K, V]) Get(key K) (V, bool) {
	m.lock()
	defer m.unlock()
	if e, ok := m.own[string(key)]; ok {
		return e.val, !e.gone
	}
	v, ok := m.read()[string(key)]
	return v, ok
}

// Set writes the value of a key.
func (m *Map[K, V]) Set(key K, v V) {
	if m.open() {
		defer m.unlock()
		m.put(string(key), entry[V]{val: v})
	}
}

// Delete removes a key. Without one it does nothing.
func (m *Map[K, V]) Delete(key K) {
	if !m.open() {
		return
	}
	defer m.unlock()
	if _, stored := m.read()[string(key)]; stored {
		m.put(string(key), entry[V]{gone: true})
	} else {
		delete(m.own, string(key))
	}
}

func (m *Map[K, V]) put(key string, e entry[V]) {
	if m.own == nil {
		m.own = map[string]entry[V]{}
	}
	m.own[key] = e
}

// All iterates over the entries as they are when the loop begins, sorted by key.
func (m *Map[K, V]) All() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		now, _ := m.current()
		for _, k := range slices.Sorted(maps.Keys(now)) {
			if !yield(K(k), now[k]) {
				return
			}
		}
	}
}

// Len returns the number of entries.
func (m *Map[K, V]) Len() int {
	m.lock()
	defer m.unlock()
	base := m.read()
	n := len(base)
	for k, e := range m.own {
		if _, stored := base[k]; e.gone {
			n--
		} else if !stored {
			n++
		}
	}
	return n
}

// current returns the entries; the caller does not change them.
func (m *Map[K, V]) current() (map[string]V, error) {
	m.lock()
	defer m.unlock()
	base := m.read()
	if len(m.own) == 0 {
		return base, m.err
	}
	now := make(map[string]V, len(base)+len(m.own))
	maps.Copy(now, base)
	for k, e := range m.own {
		if e.gone {
			delete(now, k)
		} else {
			now[k] = e.val
		}
	}
	return now, m.err
}

// read returns what is stored.
func (m *Map[K, V]) read() map[string]V {
	if m.base != nil {
		return m.base
	}
	m.base = map[string]V{}
	v := m.stored()
	if v == nil {
		return m.base
	}
	whole, delta := m.checks()
	ours := false // cur belongs to this call: no reader has seen it
	live, err := v.Live(func(data []byte) (any, error) {
		ours = true
		if data == nil {
			return map[string]V{}, nil
		}
		return schema.Decode[map[string]V](whole, data)
	}, func(base any, data []byte) (any, error) {
		p, err := schema.Decode[patch[V]](delta, data)
		cur := base.(map[string]V)
		if !ours {
			cur, ours = maps.Clone(cur), true
		}
		for _, k := range p.Delete {
			delete(cur, k)
		}
		maps.Copy(cur, p.Set)
		return cur, err
	})
	if err != nil {
		m.failRead(err)
	} else if stored := live.(map[string]V); stored != nil {
		m.base = stored
	}
	return m.base
}

func (m *Map[K, V]) load() error { m.read(); return m.err }

func (m *Map[K, V]) write() (core.Write, bool, error) {
	if m.err != nil || len(m.own) == 0 {
		return core.Write{}, false, m.err
	}
	p := core.Patch{}
	for k, e := range m.own {
		if e.gone {
			p.Delete = append(p.Delete, k)
			continue
		}
		doc, err := schema.Encode(&e.val)
		if err != nil {
			return core.Write{}, false, fmt.Errorf("key %q: %w", k, err)
		}
		if p.Set == nil {
			p.Set = make(map[string]json.RawMessage, len(m.own))
		}
		p.Set[k] = doc
	}
	slices.Sort(p.Delete)
	data, err := json.Marshal(p)
	return core.Write{Op: core.OpMerge, Data: data}, true, err
}

func (m *Map[K, V]) changed() (bool, error) {
	if m.base == nil || m.stored() == nil {
		return false, m.err
	}
	return differs(&m.cell, &m.base)
}

func (m *Map[K, V]) rule() rule {
	return rule{merge: core.MergeMap, whole: reflect.TypeFor[map[string]V](), delta: reflect.TypeFor[patch[V]]()}
}

// MarshalJSON writes an object, sorted by key.
func (m *Map[K, V]) MarshalJSON() ([]byte, error) {
	now, err := m.current()
	if err != nil {
		return nil, err
	}
	return json.Marshal(now)
}

// UnmarshalJSON sets the keys of an object. Null sets none.
func (m *Map[K, V]) UnmarshalJSON(doc []byte) error {
	whole, _ := m.checks()
	entries, err := schema.Decode[map[string]V](whole, doc)
	for k, v := range entries {
		if err == nil {
			m.Set(K(k), v)
		}
	}
	return err
}

// IsZero says that nothing was ever written, for the JSON option omitzero.
func (m *Map[K, V]) IsZero() bool {
	m.lock()
	defer m.unlock()
	return m.stored() == nil && len(m.own) == 0
}
