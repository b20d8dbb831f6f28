package memdb

import (
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl/storage"
)

// record is a stored row. It never changes; a Put stores another one.
type record struct {
	cols []any // key, then fields
	rev  int64
	body []byte
}

// table is a kind and where its trees are: trees[first] is ordered by key, the others are its indexes.
type table struct {
	kind   storage.Kind
	first  int
	orders []columns
	base   int // column of the field that Walk follows, or -1
}

// columns is the order of one tree.
type columns struct {
	fields []storage.Field
	pos    []int // of each field in record.cols
	unique int   // the leading columns that no two rows may share, or 0
}

// state is everything stored: the current one, or a snapshot.
type state struct {
	trees  []tree[record]
	leases tree[lease]
}

func newTable(k storage.Kind, first int) (*table, error) {
	t := &table{kind: k, first: first, base: -1}
	pos := map[string]int{}
	for i, f := range k.Key {
		pos[f.Name] = i
	}
	for i, f := range k.Fields {
		pos[f.Name] = len(k.Key) + i
		if f.Name == "base" && f.Type == storage.Int && len(k.Key) == 1 && k.Key[0].Type == storage.Int {
			t.base = pos[f.Name]
		}
	}
	for _, ix := range append([]storage.Index{{}}, k.Indexes...) {
		fields, err := k.Order(ix.Name)
		if err != nil {
			return nil, err
		}
		c := columns{fields: fields}
		for _, f := range fields {
			c.pos = append(c.pos, pos[f.Name])
		}
		if ix.Unique {
			c.unique = len(ix.Fields)
		}
		t.orders = append(t.orders, c)
	}
	return t, nil
}

func (c columns) tree() tree[record] {
	return tree[record]{order: &order[record]{
		first: c.fields[0].Type,
		at:    func(r *record, i int) any { return r.cols[c.pos[i]] },
		bound: func(r *record) *record { return &record{cols: slices.Clone(r.cols)} },
	}}
}

// values appends the first n columns of r.
func (c columns) values(buf []any, r *record, n int) []any {
	for _, p := range c.pos[:n] {
		buf = append(buf, r.cols[p])
	}
	return buf
}

func (t *table) key(r *record) probe { return probeAt(r.cols[:len(t.kind.Key)]) }

// swap replaces old by new in every tree; nil is no row.
func (t *table) swap(s *state, old, new *record) {
	keys := &s.trees[t.first]
	if new == nil {
		keys.remove(t.key(old))
	} else {
		keys.set(t.key(new), new)
	}
	var a, b [8]any
	for i := 1; i < len(t.orders); i++ {
		c, ix := t.orders[i], &s.trees[t.first+i]
		if old != nil {
			was := c.values(a[:0], old, len(c.pos))
			if new == nil || ix.compare(item[record]{head: head(new.cols[c.pos[0]]), row: new}, probeAt(was)) != 0 {
				ix.remove(probeAt(was))
			}
		}
		if new != nil {
			ix.set(probeAt(c.values(b[:0], new, len(c.pos))), new)
		}
	}
}

// clash says whether a row other than old has the values of a unique index that r has.
func (t *table) clash(s *state, old, r *record) bool {
	var buf [8]any
	for i, c := range t.orders {
		if c.unique == 0 {
			continue
		}
		p := probeAt(c.values(buf[:0], r, c.unique))
		found := false
		s.trees[t.first+i].scan(p, p.after(), false, func(other *record) bool {
			found = other != old
			return !found
		})
		if found {
			return true
		}
	}
	return false
}

// between turns a range over the columns c into its two ends.
func (t *table) between(c columns, r storage.Range) (lo, hi probe, err error) {
	n := len(r.Prefix)
	bounded := r.From != nil || r.To != nil
	if n > len(c.fields) || bounded && n == len(c.fields) {
		return lo, hi, fmt.Errorf("memdb: kind %q: a range over %d columns is given more", t.kind.Name, len(c.fields))
	}
	vals := make([]any, n, n+1)
	for i, v := range r.Prefix {
		if vals[i], err = t.fit(c.fields[i], v); err != nil {
			return lo, hi, err
		}
	}
	lo, hi = probeAt(vals), probeAt(vals).after()
	if r.From != nil {
		v, err := t.fit(c.fields[n], r.From)
		if err != nil {
			return lo, hi, err
		}
		lo = probeAt(append(vals, v))
	}
	if r.To != nil {
		v, err := t.fit(c.fields[n], r.To)
		if err != nil {
			return lo, hi, err
		}
		hi = probeAt(append(vals[:n:n], v))
	}
	return lo, hi, nil
}

// fit returns v as a value of f, for comparing only.
func (t *table) fit(f storage.Field, v any) (any, error) {
	var ok bool
	switch v.(type) {
	case nil:
		return zero(f.Type), nil
	case int64:
		ok = f.Type == storage.Int
	case string:
		ok = f.Type == storage.Text
	case []byte:
		ok = f.Type == storage.Bytes
	}
	if !ok {
		return nil, fmt.Errorf("memdb: kind %q: %q cannot be a %T", t.kind.Name, f.Name, v)
	}
	return v, nil
}

// record makes a stored record of a row that fits the kind.
func (t *table) record(row storage.Row) *record {
	var r *record
	if n := len(row.Key) + len(row.Fields); n <= 4 {
		one := &struct { // one allocation
			record
			vals [4]any
		}{}
		r = &one.record
		r.cols = one.vals[:0:n]
	} else {
		r = &record{cols: make([]any, 0, n)}
	}
	for i, v := range row.Key {
		r.cols = append(r.cols, own(v, t.kind.Key[i].Type))
	}
	for i, v := range row.Fields {
		r.cols = append(r.cols, own(v, t.kind.Fields[i].Type))
	}
	if len(row.Body) > 0 {
		r.body = append(make([]byte, 0, len(row.Body)), row.Body...)
	}
	return r
}

// row makes a row of r that belongs to the caller.
func (t *table) row(r *record, noBody bool) storage.Row {
	cols, n := make([]any, len(r.cols)), len(t.kind.Key)
	for i, v := range r.cols {
		cols[i] = own(v, 0)
	}
	row := storage.Row{Key: cols[:n:n], Fields: cols[n:], Rev: r.rev}
	if !noBody && len(r.body) > 0 {
		row.Body = append(make([]byte, 0, len(r.body)), r.body...)
	}
	return row
}

// index returns which of the kind's trees has that order.
func (t *table) index(name string) (int, error) {
	if name == "" {
		return 0, nil
	}
	for i, ix := range t.kind.Indexes {
		if ix.Name == name {
			return i + 1, nil
		}
	}
	return 0, fmt.Errorf("memdb: kind %q has no index %q", t.kind.Name, name)
}
