package core

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sort"
	"sync/atomic"
)

// Op says how a value's data relates to the version before it.
type Op byte

const (
	// OpSet: the data is the whole value, as JSON.
	OpSet Op = 's'
	// OpAdd: the data is a JSON array of items that follow those of the base (Append); or, as a write, a number to add
	// (Sum) or a JSON array of items to fold in order (Fold).
	OpAdd Op = 'a'
	// OpMerge: the data is a Patch on the base (Map).
	OpMerge Op = 'm'
	// OpList: the version is its parts in order, on the base: several tasks wrote in one super-step.
	OpList Op = 'l'
	// OpClear: the channel holds nothing any more: an ephemeral value after its super-step, a Once that was taken.
	OpClear Op = 'c'
)

// Patch is what one task did to a map channel: deletions first, then settings. Both are by key.
type Patch struct {
	Set    map[string]json.RawMessage `json:"s,omitempty"`
	Delete []string                   `json:"d,omitempty"`
}

// MaxValue is the most bytes that one value, step result or question may have. It leaves room for a row's own bytes
// below what storage takes.
const MaxValue = 64<<20 - 1<<10

// A SizeError is a value over MaxValue, refused before anything was queued.
type SizeError struct {
	What string
	Size int
}

func (e *SizeError) Error() string {
	return fmt.Sprintf("%s has %d bytes, over the limit of %d for one value; nothing of it was written", e.What, e.Size, MaxValue)
}

// CheckSize refuses what is over MaxValue.
func CheckSize(what string, doc []byte) error {
	if len(doc) > MaxValue {
		return &SizeError{What: what, Size: len(doc)}
	}
	return nil
}

// A version that costs more than costFactor times its size plus costSlack bytes to rebuild is written in full.
const (
	costFactor = 2
	costSlack  = 4 << 10
	rowCost    = 40
)

// Value is one version of one channel: immutable but for its number, which the host gives when it stores the row, and
// a cache of its decoded form. A version with a Base is a delta.
type Value struct {
	ID    int64 // number in its thread; 0 until a host gave one
	Base  *Value
	Op    Op
	Data  []byte
	Parts []*Value // OpList only
	Size  int      // bytes of the whole value, about
	Cost  int      // bytes to read for rebuilding it, rowCost a row

	live  atomic.Pointer[any]
	sizes *mapSizes // Map channels: key sizes, owned by the newest version
}

// NewSet returns a whole value.
func NewSet(data []byte) *Value {
	v := &Value{}
	v.set(data)
	return v
}

// set makes a new version a whole one.
func (v *Value) set(data []byte) {
	v.Op, v.Data, v.Size, v.Cost = OpSet, data, len(data), len(data)+rowCost
}

// Has says whether the channel holds a value: a nil version and a cleared one hold none.
func (v *Value) Has() bool { return v != nil && v.Op != OpClear }

// chain returns the versions from the newest whole ancestor (or, with stop, the newest one that stop accepts) to v.
func (v *Value) chain(stop func(*Value) bool) []*Value {
	var out []*Value
	for at := v; at != nil; at = at.Base {
		out = append(out, at)
		if at.Op == OpSet || at.Op == OpClear || (stop != nil && stop(at)) {
			break
		}
	}
	for i, j := 0, len(out)-1; i < j; i, j = i+1, j-1 {
		out[i], out[j] = out[j], out[i]
	}
	return out
}

// Deltas calls f with the data of v's own contribution in order: one call for a plain delta, one a part for a list.
func (v *Value) Deltas(f func(op Op, data []byte) error) error {
	if v.Op != OpList {
		return f(v.Op, v.Data)
	}
	for _, p := range v.Parts {
		if err := p.Deltas(f); err != nil {
			return err
		}
	}
	return nil
}

// Live returns the decoded form, computed at most a few times: whole decodes a full value (nil data: nothing was ever
// written), step applies one delta to a decoded base without changing what the base's own readers see. Safe for
// concurrent use if step is.
func (v *Value) Live(whole func(data []byte) (any, error), step func(base any, data []byte) (any, error)) (any, error) {
	if p := v.live.Load(); p != nil {
		return *p, nil
	}
	versions := v.chain(func(at *Value) bool { return at.live.Load() != nil })
	var cur any
	for i, at := range versions {
		if p := at.live.Load(); p != nil {
			cur = *p
			continue
		}
		var err error
		switch {
		case at.Op == OpSet:
			cur, err = whole(at.Data)
		case at.Op == OpClear:
			cur, err = whole(nil)
		default:
			if i == 0 {
				if cur, err = whole(nil); err != nil {
					return nil, err
				}
			}
			err = at.Deltas(func(_ Op, data []byte) (err error) { cur, err = step(cur, data); return err })
		}
		if err != nil {
			return nil, err
		}
	}
	v.live.Store(&cur)
	return cur, nil
}

// Bytes returns the whole value as JSON, rebuilt from its deltas; nil when the channel holds none.
func (v *Value) Bytes() ([]byte, error) {
	if !v.Has() {
		return nil, nil
	}
	if v.Op == OpSet {
		return v.Data, nil
	}
	versions := v.chain(nil)
	kind := OpAdd
	for _, at := range versions {
		at.Deltas(func(op Op, _ []byte) error {
			if op == OpMerge {
				kind = OpMerge
			}
			return nil
		})
	}
	if kind == OpMerge {
		return patched(versions)
	}
	return appended(versions)
}

func appended(versions []*Value) ([]byte, error) {
	out := []byte{'['}
	for _, at := range versions {
		err := at.Deltas(func(op Op, data []byte) error {
			if op == OpClear {
				return nil
			}
			data = bytes.TrimSpace(data)
			if len(data) < 2 || data[0] != '[' || data[len(data)-1] != ']' {
				return fmt.Errorf("not a list: %.40q", data)
			}
			if inner := bytes.TrimSpace(data[1 : len(data)-1]); len(inner) > 0 {
				if len(out) > 1 {
					out = append(out, ',')
				}
				out = append(out, inner...)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return append(out, ']'), nil
}

func patched(versions []*Value) ([]byte, error) {
	whole := map[string]json.RawMessage{}
	for _, at := range versions {
		err := at.Deltas(func(op Op, data []byte) error {
			switch op {
			case OpClear:
				return nil
			case OpSet:
				err := json.Unmarshal(data, &whole)
				if whole == nil { // null: an empty map
					whole = map[string]json.RawMessage{}
				}
				return err
			}
			var p Patch
			if err := json.Unmarshal(data, &p); err != nil {
				return err
			}
			for _, k := range p.Delete {
				delete(whole, k)
			}
			for k, raw := range p.Set {
				whole[k] = raw
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return json.Marshal(whole)
}

// mapSizes knows how large each entry of a map is, so that a map that is written over and over is seen to cost more
// than it holds. It moves from version to version; a fork rebuilds it.
type mapSizes struct {
	of    map[string]int
	total int
}

func sizesOf(v *Value) (*mapSizes, error) {
	if v == nil {
		return &mapSizes{of: map[string]int{}, total: 2}, nil
	}
	if v.sizes != nil {
		m := v.sizes
		v.sizes = nil
		return m, nil
	}
	whole, err := v.Bytes()
	if err != nil {
		return nil, err
	}
	m := &mapSizes{of: map[string]int{}, total: 2}
	if whole == nil {
		return m, nil
	}
	var entries map[string]json.RawMessage
	if err := json.Unmarshal(whole, &entries); err != nil {
		return nil, err
	}
	for k, raw := range entries {
		m.set(k, len(raw))
	}
	return m, nil
}

func (m *mapSizes) set(key string, n int) {
	m.remove(key)
	m.of[key] = n + len(key) + 4
	m.total += m.of[key]
}

func (m *mapSizes) remove(key string) { m.total -= m.of[key]; delete(m.of, key) }

func (m *mapSizes) apply(data []byte) error {
	var p Patch
	if err := json.Unmarshal(data, &p); err != nil {
		return err
	}
	for _, k := range p.Delete {
		m.remove(k)
	}
	for k, raw := range p.Set {
		m.set(k, len(raw))
	}
	return nil
}

// with is what the total would be after a patch.
func (m *mapSizes) with(data []byte) (int, error) {
	var p Patch
	if err := json.Unmarshal(data, &p); err != nil {
		return 0, err
	}
	total := m.total
	for _, k := range p.Delete {
		if _, set := p.Set[k]; !set {
			total -= m.of[k]
		}
	}
	for k, raw := range p.Set {
		total += len(raw) + len(k) + 4 - m.of[k]
	}
	return total, nil
}

// Keys returns what a patch touches, sorted.
func (p *Patch) Keys() []string {
	out := append([]string{}, p.Delete...)
	for k := range p.Set {
		out = append(out, k)
	}
	sort.Strings(out)
	return out
}
