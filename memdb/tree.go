package memdb

import (
	"cmp"
	"slices"

	"github.com/pawl-dev/pawl/storage"
)

// fanout is the number of items at which a node splits.
const fanout = 64

// tree is an ordered set of rows: a B+ tree whose nodes are copied before a change when a snapshot may share them.
// A snapshot costs one copy of this struct; without one, changes are made in place.
type tree[R any] struct {
	*order[R]
	root  *node[R]
	count int
	gen   uint64 // nodes of an older generation belong to a snapshot, too
}

// node is a leaf, or a branch whose items[i] is a lower bound of kids[i]. The bound of kids[0] is not looked at.
type node[R any] struct {
	gen   uint64
	items []item[R]
	kids  []*node[R]
}

type item[R any] struct {
	head uint64 // orders most items without looking at the row
	row  *R
}

// order says how rows compare.
type order[R any] struct {
	first storage.Type            // of the first column; an Int is decided by head alone
	at    func(row *R, i int) any // the i-th column of the order
	bound func(row *R) *R         // a row with the same columns that keeps nothing else alive, for branches
}

// probe is a place in the order: just before the rows that start with vals, or just past them.
type probe struct {
	head uint64
	vals []any
	open bool // no columns: equal to every row
	past bool
}

// probeAt is the place before all rows that start with vals.
func probeAt(vals []any) probe {
	if len(vals) == 0 {
		return probe{open: true}
	}
	return probe{head: head(vals[0]), vals: vals}
}

func (p probe) after() probe {
	p.past = true
	return p
}

func (o *order[R]) compare(it item[R], p probe) int {
	if p.open {
		return 0
	}
	if it.head != p.head {
		return cmp.Compare(it.head, p.head)
	}
	i := 0
	if o.first == storage.Int {
		i = 1
	}
	for ; i < len(p.vals); i++ {
		if c := compareValues(o.at(it.row, i), p.vals[i]); c != 0 {
			return c
		}
	}
	return 0
}

func (o *order[R]) before(it item[R], p probe) bool {
	c := o.compare(it, p)
	return c < 0 || c == 0 && p.past
}

// search returns the first item that is not before p.
func (o *order[R]) search(items []item[R], p probe) int {
	lo, hi := 0, len(items)
	if hi > 0 && o.before(items[hi-1], p) {
		return hi // appending is the common case
	}
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if o.before(items[mid], p) {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// child returns the first kid of n that can hold rows at or after p.
func (o *order[R]) child(n *node[R], p probe) int { return max(o.search(n.items, p)-1, 0) }

// snapshot returns a tree that later changes of t do not reach.
func (t *tree[R]) snapshot() tree[R] {
	t.gen++
	return *t
}

func (t *tree[R]) own(n *node[R]) *node[R] {
	if n.gen == t.gen {
		return n
	}
	c := t.newNode(len(n.kids) > 0)
	c.items = append(c.items, n.items...)
	c.kids = append(c.kids, n.kids...)
	return c
}

func (t *tree[R]) newNode(branch bool) *node[R] {
	n := &node[R]{gen: t.gen, items: make([]item[R], 0, fanout)}
	if branch {
		n.kids = make([]*node[R], 0, fanout)
	}
	return n
}

// get returns the row at p, which names all columns of the order.
func (t *tree[R]) get(p probe) *R {
	n := t.root
	if n == nil {
		return nil
	}
	for len(n.kids) > 0 {
		n = n.kids[t.child(n, p.after())]
	}
	if i := t.search(n.items, p); i < len(n.items) && t.compare(n.items[i], p) == 0 {
		return n.items[i].row
	}
	return nil
}

// set puts row at p, in place of a row with equal columns.
func (t *tree[R]) set(p probe, row *R) {
	if t.root == nil {
		t.root = t.newNode(false)
	}
	t.root = t.own(t.root)
	if len(t.root.items) == fanout {
		left := t.root
		t.root = t.newNode(true)
		t.root.items = append(t.root.items, item[R]{head: left.items[0].head, row: t.bound(left.items[0].row)})
		t.root.kids = append(t.root.kids, left)
		t.split(t.root, 0)
	}
	n := t.root
	for len(n.kids) > 0 {
		i := t.child(n, p.after())
		n.kids[i] = t.own(n.kids[i])
		if len(n.kids[i].items) == fanout {
			t.split(n, i)
			if t.compare(n.items[i+1], p) <= 0 {
				i++
			}
		}
		n = n.kids[i]
	}
	i := t.search(n.items, p)
	if i < len(n.items) && t.compare(n.items[i], p) == 0 {
		n.items[i].row = row
		return
	}
	n.items = slices.Insert(n.items, i, item[R]{head: p.head, row: row})
	t.count++
}

// split halves the full, owned kid i of n.
func (t *tree[R]) split(n *node[R], i int) {
	left := n.kids[i]
	right := t.newNode(len(left.kids) > 0)
	const half = fanout / 2
	right.items = append(right.items, left.items[half:]...)
	clear(left.items[half:])
	left.items = left.items[:half]
	if len(left.kids) > 0 {
		right.kids = append(right.kids, left.kids[half:]...)
		clear(left.kids[half:])
		left.kids = left.kids[:half]
	}
	sep := right.items[0]
	n.items = slices.Insert(n.items, i+1, item[R]{head: sep.head, row: t.bound(sep.row)})
	n.kids = slices.Insert(n.kids, i+1, right)
}

// remove takes out the row at p, which is there.
func (t *tree[R]) remove(p probe) {
	t.root = t.own(t.root)
	t.removeFrom(t.root, p)
	t.count--
	for len(t.root.kids) == 1 {
		t.root = t.root.kids[0]
	}
	if len(t.root.items) == 0 {
		t.root = nil
	}
}

func (t *tree[R]) removeFrom(n *node[R], p probe) {
	if len(n.kids) == 0 {
		i := t.search(n.items, p)
		n.items = slices.Delete(n.items, i, i+1)
		return
	}
	i := t.child(n, p.after())
	n.kids[i] = t.own(n.kids[i])
	t.removeFrom(n.kids[i], p)
	switch size := len(n.kids[i].items); {
	case size == 0:
		n.items, n.kids = slices.Delete(n.items, i, i+1), slices.Delete(n.kids, i, i+1)
	case i+1 < len(n.kids) && size+len(n.kids[i+1].items) <= fanout/2:
		t.merge(n, i)
	case i > 0 && size+len(n.kids[i-1].items) <= fanout/2:
		n.kids[i-1] = t.own(n.kids[i-1])
		t.merge(n, i-1)
	}
}

// merge moves kid i+1 of n into the owned kid i.
func (t *tree[R]) merge(n *node[R], i int) {
	left, right := n.kids[i], n.kids[i+1]
	at := len(left.items)
	left.items = append(left.items, right.items...)
	if len(right.kids) > 0 {
		left.kids = append(left.kids, right.kids...)
		left.items[at] = n.items[i+1]
	}
	n.items, n.kids = slices.Delete(n.items, i+1, i+2), slices.Delete(n.kids, i+1, i+2)
}

// scan yields the rows from lo up to hi, backwards if desc, until yield returns false.
func (t *tree[R]) scan(lo, hi probe, desc bool, yield func(*R) bool) {
	switch {
	case t.root == nil:
	case desc:
		t.descend(t.root, lo, hi, yield)
	default:
		t.ascend(t.root, lo, hi, yield)
	}
}

func (t *tree[R]) ascend(n *node[R], lo, hi probe, yield func(*R) bool) bool {
	if len(n.kids) == 0 {
		for _, it := range n.items[t.search(n.items, lo):] {
			if !t.before(it, hi) || !yield(it.row) {
				return false
			}
		}
		return true
	}
	for i := t.child(n, lo); i < len(n.kids); i++ {
		if !t.ascend(n.kids[i], lo, hi, yield) {
			return false
		}
	}
	return true
}

func (t *tree[R]) descend(n *node[R], lo, hi probe, yield func(*R) bool) bool {
	if len(n.kids) == 0 {
		for i := t.search(n.items, hi) - 1; i >= 0; i-- {
			if t.before(n.items[i], lo) || !yield(n.items[i].row) {
				return false
			}
		}
		return true
	}
	for i := t.child(n, hi); i >= 0; i-- {
		if !t.descend(n.kids[i], lo, hi, yield) {
			return false
		}
	}
	return true
}
