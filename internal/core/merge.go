package core

import (
	"encoding/json"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strconv"
)

// version makes one version of the deltas that tasks wrote: the delta itself for one writer, a list for several.
func version(old *Value, ws []write) *Value {
	if len(ws) == 1 {
		return ws[0].w.Value
	}
	v := &Value{Base: base(old), Op: OpList, Parts: make([]*Value, len(ws))}
	v.Size, v.Cost = oldCost(old)
	for i, w := range ws {
		v.Parts[i] = w.w.Value
		v.Size += len(w.w.Data) - 1
		v.Cost += len(w.w.Data) + rowCost
	}
	v.Cost += rowCost
	return v
}

// measure finds out how large the whole value is with the delta v on its base, and what rebuilding it costs. It is
// done when the delta is made: a host may be storing it while its super-step is merged.
func (v *Value) measure() error {
	v.Size, v.Cost = oldCost(v.Base)
	v.Size += len(v.Data) - 1
	v.Cost += len(v.Data) + rowCost
	if v.Op != OpMerge {
		return nil
	}
	sizes, err := sizesOf(v.Base)
	if err != nil {
		return err
	}
	if v.Base != nil {
		v.Base.sizes = sizes
	}
	v.Size, err = sizes.with(v.Data)
	return err
}

func oldCost(old *Value) (size, cost int) {
	if old.Has() {
		return old.Size, old.Cost
	}
	return 2, 0
}

// mergeAppend joins additions in the order of the tasks.
func mergeAppend(old *Value, ws []write) (*Value, error) { return bounded(version(old, ws)) }

func mergeMap(ch *Channel, old *Value, ws []write) (*Value, error) {
	if len(ws) > 1 {
		if err := disjoint(ch, ws); err != nil {
			return nil, err
		}
	}
	sizes, err := sizesOf(base(old))
	if err != nil {
		return nil, fmt.Errorf("channel %q: %w", ch.Name, err)
	}
	v := version(old, ws)
	for _, w := range ws {
		if err := sizes.apply(w.w.Data); err != nil {
			return nil, fmt.Errorf("channel %q: %w", ch.Name, err)
		}
	}
	if len(ws) > 1 {
		v.Size = sizes.total
	}
	if v, err = bounded(v); err == nil {
		v.sizes = sizes
	}
	return v, err
}

// disjoint refuses two tasks that touch one key: which of them won would be a matter of names.
func disjoint(ch *Channel, ws []write) error {
	by := map[string]write{}
	for _, w := range ws {
		var p Patch
		if err := json.Unmarshal(w.w.Data, &p); err != nil {
			return fmt.Errorf("channel %q: %w", ch.Name, err)
		}
		for _, k := range p.Keys() {
			if first, ok := by[k]; ok && first.task != w.task {
				return conflict(ch.Name, k, []write{first, w})
			}
			by[k] = w
		}
	}
	return nil
}

// bounded writes a version in full once rebuilding it costs too much.
func bounded(v *Value) (*Value, error) {
	if v.Cost <= costFactor*v.Size+costSlack {
		return v, nil
	}
	whole, err := v.Bytes()
	if err != nil {
		return nil, err
	}
	if len(whole) > MaxValue {
		return v, nil // stays a chain of deltas
	}
	full := NewSet(whole)
	if p := v.live.Load(); p != nil {
		full.live.Store(p)
	}
	return full, nil
}

func mergeFold(ch *Channel, old *Value, ws []write, fold Folder) (*Value, error) {
	cur, err := old.Bytes()
	if err != nil {
		return nil, err
	}
	for _, w := range ws {
		if cur, err = fold(ch.Name, cur, w.w.Data); err != nil {
			return nil, fmt.Errorf("channel %q: folding what node %q wrote: %w", ch.Name, w.task.Node, err)
		}
	}
	if err := CheckSize(fmt.Sprintf("channel %q, folded,", ch.Name), cur); err != nil {
		return nil, err
	}
	return NewSet(cur), nil
}

func mergeSum(ch *Channel, old *Value, ws []write) (*Value, error) {
	made := &struct { // one allocation for the version and its number
		Value
		room [24]byte
	}{}
	total := append(made.room[:0], '0')
	if old.Has() {
		total = old.Data
	}
	for _, w := range ws {
		var err error
		if total, err = addNumbers(made.room[:0], ch.Number, total, w.w.Data); err != nil {
			return nil, fmt.Errorf("channel %q: adding what node %q wrote: %w; nothing was merged", ch.Name, w.task.Node, err)
		}
	}
	made.set(slices.Clip(total))
	return &made.Value, nil
}

// AddNumbers adds two JSON numbers in one arithmetic. Overflow, and a float that is no number any more, are errors.
func AddNumbers(n Number, a, b []byte) ([]byte, error) { return addNumbers(nil, n, a, b) }

// addNumbers appends the sum to room, which may be where one of the numbers is.
func addNumbers(room []byte, n Number, a, b []byte) ([]byte, error) {
	switch n {
	case Signed:
		x, err := strconv.ParseInt(string(a), 10, 64)
		if err != nil {
			return nil, err
		}
		y, err := strconv.ParseInt(string(b), 10, 64)
		if err != nil {
			return nil, err
		}
		if sum := x + y; (sum > x) == (y > 0) {
			return strconv.AppendInt(room, sum, 10), nil
		}
	case Unsigned:
		x, err := strconv.ParseUint(string(a), 10, 64)
		if err != nil {
			return nil, err
		}
		y, err := strconv.ParseUint(string(b), 10, 64)
		if err != nil {
			return nil, err
		}
		if sum, carry := bits.Add64(x, y, 0); carry == 0 {
			return strconv.AppendUint(room, sum, 10), nil
		}
	case Float:
		x, err := strconv.ParseFloat(string(a), 64)
		if err != nil {
			return nil, err
		}
		y, err := strconv.ParseFloat(string(b), 64)
		if err != nil {
			return nil, err
		}
		if sum := x + y; !math.IsInf(sum, 0) && !math.IsNaN(sum) {
			return strconv.AppendFloat(room, sum, 'g', -1, 64), nil
		}
	default:
		return nil, fmt.Errorf("unknown arithmetic %q", n)
	}
	return nil, fmt.Errorf("%s + %s overflows", a, b)
}
