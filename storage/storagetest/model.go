package storagetest

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/storage"
)

// model is the simplest home there is: maps.
type model struct {
	tables map[string]table
	leases map[int64]storage.Lease
	alive  map[string]bool
}

type table struct {
	kind storage.Kind
	rows map[string]storage.Row // by printed key
}

func newModel(kinds ...storage.Kind) *model {
	m := &model{tables: map[string]table{}, leases: map[int64]storage.Lease{}, alive: map[string]bool{}}
	for _, k := range kinds {
		m.tables[k.Name] = table{kind: k, rows: map[string]storage.Row{}}
	}
	return m
}

func (m *model) clone() *model {
	c := &model{tables: map[string]table{}, leases: maps.Clone(m.leases), alive: m.alive}
	for name, t := range m.tables {
		c.tables[name] = table{kind: t.kind, rows: maps.Clone(t.rows)}
	}
	return c
}

func (m *model) look(thread int64) storage.Lease {
	l := m.leases[thread]
	l.Alive = m.alive[l.Owner]
	return l
}

func (m *model) lease(thread int64, op storage.LeaseOp, member string) (storage.Lease, bool) {
	l := m.look(thread)
	ok := true
	switch op {
	case storage.Look:
		ok = l.Epoch > 0
	case storage.Take:
		if ok = !l.Alive || l.Owner == member; ok {
			l.Owner, l.Epoch = member, l.Epoch+1
			m.leases[thread] = l
		}
	case storage.Drop:
		if ok = l.Owner == member; ok {
			l.Owner = ""
			m.leases[thread] = l
		}
	case storage.Forget:
		delete(m.leases, thread)
	}
	return m.look(thread), ok
}

func (m *model) seq(thread, epoch int64, n int) (int64, bool) {
	l := m.leases[thread]
	if epoch != storage.AnyEpoch && (l.Owner == "" || l.Epoch != epoch) {
		return 0, false
	}
	l.Seq += int64(n)
	m.leases[thread] = l
	return l.Seq - int64(n) + 1, true
}

func (t table) id(key []any) string { return fmt.Sprintf("%#v", key) }

// taken says whether another row has the unique values of row.
func (t table) taken(row storage.Row) bool {
	for _, ix := range t.kind.Indexes {
		if !ix.Unique {
			continue
		}
		cols, _ := t.kind.Order(ix.Name)
		for _, other := range t.rows {
			if t.id(other.Key) != t.id(row.Key) && compareBy(t.kind, cols[:len(ix.Fields)], other, row) == 0 {
				return true
			}
		}
	}
	return false
}

func (t table) put(row storage.Row, cond storage.If) bool {
	old, there := t.rows[t.id(row.Key)]
	rev, atRev := cond.Revision()
	if cond.IsAbsent() && there || atRev && (!there || old.Rev != rev) || t.taken(row) {
		return false
	}
	row.Rev = 0
	if t.kind.Revised {
		row.Rev = old.Rev + 1
	}
	t.rows[t.id(row.Key)] = row
	return true
}

func (t table) list(q storage.Query) []storage.Row {
	cols, _ := t.kind.Order(q.Index)
	var rows []storage.Row
	for _, r := range t.rows {
		if within(t.kind, cols, r, q.Range) {
			rows = append(rows, r)
		}
	}
	slices.SortFunc(rows, func(a, b storage.Row) int {
		if q.Desc {
			a, b = b, a
		}
		return compareBy(t.kind, cols, a, b)
	})
	if q.Limit > 0 && len(rows) > q.Limit {
		rows = rows[:q.Limit]
	}
	return rows
}

func (t table) delete(r storage.Range) int {
	doomed := t.list(storage.Query{Range: r})
	for _, row := range doomed {
		delete(t.rows, t.id(row.Key))
	}
	return len(doomed)
}

func within(k storage.Kind, cols []storage.Field, row storage.Row, r storage.Range) bool {
	for i, v := range r.Prefix {
		if compare(column(k, row, cols[i].Name), v) != 0 {
			return false
		}
	}
	if r.From == nil && r.To == nil {
		return true
	}
	v := column(k, row, cols[len(r.Prefix)].Name)
	return (r.From == nil || compare(v, r.From) >= 0) && (r.To == nil || compare(v, r.To) < 0)
}

func compareBy(k storage.Kind, cols []storage.Field, a, b storage.Row) int {
	for _, f := range cols {
		if c := compare(column(k, a, f.Name), column(k, b, f.Name)); c != 0 {
			return c
		}
	}
	return 0
}

func column(k storage.Kind, row storage.Row, name string) any {
	for i, f := range k.Key {
		if f.Name == name {
			return normal(f, row.Key[i])
		}
	}
	for i, f := range k.Fields {
		if f.Name == name {
			return normal(f, row.Fields[i])
		}
	}
	return nil
}

// normal is v, or the zero value for nil.
func normal(f storage.Field, v any) any {
	switch {
	case v != nil:
		return v
	case f.Type == storage.Int:
		return int64(0)
	case f.Type == storage.Text:
		return ""
	}
	return []byte{}
}

func compare(a, b any) int {
	switch a := a.(type) {
	case int64:
		return cmp.Compare(a, b.(int64))
	case string:
		return strings.Compare(a, b.(string))
	}
	return bytes.Compare(a.([]byte), b.([]byte))
}

func randomValue(rng *rand.Rand, f storage.Field) any {
	switch f.Type {
	case storage.Int:
		return rng.Int64N(7) - 2
	case storage.Text:
		return []string{"", "a", "a\x00", "ab", "b", "é"}[rng.IntN(6)]
	}
	return [][]byte{{}, {0}, {0, 0xff}, {1}, {0xff}}[rng.IntN(5)]
}

func randomValues(rng *rand.Rand, fields []storage.Field) []any {
	out := make([]any, len(fields))
	for i, f := range fields {
		out[i] = randomValue(rng, f)
	}
	return out
}

func randomRow(rng *rand.Rand, k storage.Kind) storage.Row {
	return storage.Row{Key: randomValues(rng, k.Key), Fields: randomValues(rng, k.Fields), Body: fmt.Append(nil, rng.Int())}
}

func randomRange(rng *rand.Rand, cols []storage.Field) storage.Range {
	n := rng.IntN(len(cols) + 1)
	r := storage.Range{Prefix: randomValues(rng, cols[:n])}
	if n < len(cols) {
		if rng.IntN(2) == 0 {
			r.From = randomValue(rng, cols[n])
		}
		if rng.IntN(2) == 0 {
			r.To = randomValue(rng, cols[n])
		}
	}
	return r
}

func randomQuery(rng *rand.Rand, k storage.Kind) storage.Query {
	q := storage.Query{Desc: rng.IntN(2) == 0, Limit: rng.IntN(6), NoBody: rng.IntN(4) == 0}
	if i := rng.IntN(len(k.Indexes) + 1); i > 0 {
		q.Index = k.Indexes[i-1].Name
	}
	cols, _ := k.Order(q.Index)
	q.Range = randomRange(rng, cols)
	return q
}

func modelTests() []test {
	var out []test
	all := kinds(item, doc, slot, event, blob)
	for seed := range uint64(6) {
		out = append(out, test{fmt.Sprintf("random operations, seed %d", seed), all, func(t *testing.T, h home) {
			againstModel(t, h, seed, all)
		}})
	}
	return out
}

// againstModel runs random Updates, some of which fail, on a home and on the model, and compares every result.
func againstModel(t *testing.T, h home, seed uint64, all []storage.Kind) {
	m := newModel(all...)
	owners := map[string]storage.Member{}
	for range 3 {
		mem := h.join(t)
		owners[mem.ID()], m.alive[mem.ID()] = mem, true
	}
	ids := slices.Sorted(maps.Keys(owners))
	for step := range uint64(50) {
		if step == 30 {
			_ = owners[ids[0]].Close()
			delete(m.alive, ids[0])
		}
		fail := (seed+step)%4 == 3
		var next *model
		err := h.try(func(tx storage.Tx) error {
			next = m.clone()
			rng := rand.New(rand.NewPCG(seed, step)) // the same if it runs again
			for range 1 + rng.IntN(8) {
				if err := operation(rng, tx, next, all, ids); err != nil {
					return err
				}
			}
			if fail {
				return errBad
			}
			return nil
		})
		switch {
		case !fail && err == nil:
			m = next
		case !fail || err == nil || err.Error() != errBad.Error():
			t.Fatalf("step %d: %v", step, err)
		}
	}
	for _, k := range all {
		h.want(t, k, "the end", m.tables[k.Name].list(storage.Query{})...)
		for _, ix := range k.Indexes {
			q := storage.Query{Index: ix.Name}
			if d := diff(k, h.list(t, k.Name, q), m.tables[k.Name].list(q), false); d != "" {
				t.Errorf("the end, index %s of %s: %s", ix.Name, k.Name, d)
			}
		}
	}
}

// operation does one thing on both and says how they differ.
func operation(rng *rand.Rand, tx storage.Tx, m *model, all []storage.Kind, ids []string) error {
	k := all[rng.IntN(len(all))]
	tab := m.tables[k.Name]
	switch rng.IntN(8) {
	case 0, 1, 2:
		row, cond := randomRow(rng, k), storage.Always()
		if n := rng.IntN(3); n == 0 || tab.taken(row) {
			cond = storage.Absent()
		} else if n == 1 && k.Revised {
			cond = storage.AtRev(rng.Int64N(3))
		}
		got, err := tx.Put(k.Name, row, cond)
		return same(err, fmt.Sprintf("Put %s %q %+v", k.Name, row.Key, cond), got, tab.put(row, cond))
	case 3:
		r := randomRange(rng, k.Key)
		if len(r.Prefix) == 0 && r.From == nil && r.To == nil {
			return nil
		}
		got, err := tx.Delete(k.Name, r)
		return same(err, fmt.Sprintf("Delete %s %+v", k.Name, r), got, tab.delete(r))
	case 4:
		key := randomValues(rng, k.Key)
		row, got, err := tx.Get(k.Name, key...)
		want, there := tab.rows[tab.id(key)]
		if got && there {
			if d := diff(k, []storage.Row{row}, []storage.Row{want}, false); d != "" {
				return fmt.Errorf("reading one row: %s", d)
			}
		}
		return same(err, fmt.Sprintf("Get %s %q", k.Name, key), got, there)
	case 5:
		q := randomQuery(rng, k)
		got, err := tx.List(k.Name, q)
		return same(err, "List "+k.Name+" "+describe(q), diff(k, got, tab.list(q), q.NoBody), "")
	case 6:
		thread, op, id := rng.Int64N(4), storage.LeaseOp(rng.IntN(3)), ids[rng.IntN(len(ids))]
		if rng.IntN(8) == 0 {
			op = storage.Forget
		}
		got, ok, err := tx.Lease(thread, op, id)
		want, wantOK := m.lease(thread, op, id)
		if op == storage.Forget {
			return err
		}
		return same(err, fmt.Sprintf("Lease of %d, operation %d", thread, op), fmt.Sprint(got, ok), fmt.Sprint(want, wantOK))
	default:
		thread, epoch, n := rng.Int64N(4), rng.Int64N(4)-1, 1+rng.IntN(3)
		first, ok, err := tx.Seq(thread, epoch, n)
		want, wantOK := m.seq(thread, epoch, n)
		return same(err, fmt.Sprintf("Seq of %d at epoch %d", thread, epoch), fmt.Sprint(first, ok), fmt.Sprint(want, wantOK))
	}
}

func same[T comparable](err error, what string, got, want T) error {
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", what, err)
	case got != want:
		return fmt.Errorf("%s: %v, want %v", what, got, want)
	}
	return nil
}
