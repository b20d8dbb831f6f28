package sqlite

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/pawl-dev/pawl/storage"
)

// table is the SQL of a kind. A key of one Int is the rowid; any other key is a unique index of a rowid table, which is
// several times faster here than WITHOUT ROWID because bodies stay out of the inner pages.
type table struct {
	storage.Kind
	name    string
	columns []storage.Field // key, then fields
	cols    string          // columns as they are read: key, fields, rev if there is one, body

	get, absent, always, revise, walk string
	base                              int      // position of the field base, if walk is set
	shapes                            sync.Map // shape -> SQL
}

// shape is what a List statement is made from; two queries of one shape share a statement.
type shape struct {
	index                        string
	prefix                       int
	from, to, desc, limit, whole bool
}

func newTable(k storage.Kind) *table {
	t := &table{Kind: k, name: quote("k_" + k.Name)}
	t.columns = append(append(t.columns, k.Key...), k.Fields...)
	keys, names, marks, sets, values := []string{}, []string{}, []string{}, []string{}, []string{}
	for i, f := range t.columns {
		n := quote(f.Name)
		names, marks = append(names, n), append(marks, "?")
		if i < len(k.Key) {
			keys = append(keys, n)
			continue
		}
		sets, values = append(sets, n+"=excluded."+n), append(values, n+"=?")
	}
	sets, values = append(sets, "body=excluded.body"), append(values, "body=?")
	read := names
	if k.Revised {
		sets, values = append(sets, "rev=rev+1"), append(values, "rev=rev+1")
		read = append(read[:len(read):len(read)], "rev")
	}
	match := strings.Join(keys, "=? AND ") + "=?"
	t.cols = strings.Join(append(read[:len(read):len(read)], "body"), ",")
	t.get = "SELECT " + t.cols + " FROM " + t.name + " WHERE " + match
	insert := "INSERT INTO " + t.name + "(" + strings.Join(names, ",") + ",body) VALUES(" + strings.Join(marks, ",") + ",?) ON CONFLICT"
	t.absent = insert + " DO NOTHING"
	t.always = insert + "(" + strings.Join(keys, ",") + ") DO UPDATE SET " + strings.Join(sets, ",")
	t.revise = "UPDATE OR IGNORE " + t.name + " SET " + strings.Join(values, ",") + " WHERE " + match + " AND rev=?"
	t.base = slices.Index(k.Fields, storage.Field{Name: "base", Type: storage.Int})
	if t.base >= 0 && t.rowid() {
		t.walk = t.walkSQL(keys[0])
	}
	return t
}

// walkSQL follows base through the rowid. CROSS JOIN forces the chain to be the outer loop: left to itself the planner
// may scan the table once for every link. UNION, not UNION ALL, ends a chain that is damaged into a circle. No field
// name starts with an underscore.
func (t *table) walkSQL(key string) string {
	return "WITH RECURSIVE chain(_at) AS (SELECT ? UNION SELECT r.base FROM chain CROSS JOIN " + t.name +
		" r WHERE r." + key + "=chain._at AND r.base<>0) SELECT " + t.cols + " FROM chain CROSS JOIN " + t.name +
		" r WHERE r." + key + "=chain._at"
}

func (t *table) rowid() bool { return len(t.Key) == 1 && t.Key[0].Type == storage.Int }

func quote(name string) string { return `"` + name + `"` }

// column declares a field. Defaults are what rows hold that were written before the field was added.
func column(f storage.Field) string {
	return quote(f.Name) + [...]string{
		storage.Int:   " INTEGER NOT NULL DEFAULT 0",
		storage.Text:  " TEXT NOT NULL DEFAULT ''",
		storage.Bytes: " BLOB NOT NULL DEFAULT x''",
	}[f.Type]
}

// create returns the statements that make the table and its indexes.
func (t *table) create() []string {
	var cols []string
	for i, f := range t.columns {
		if i == 0 && t.rowid() {
			cols = append(cols, quote(f.Name)+" INTEGER PRIMARY KEY")
			continue
		}
		cols = append(cols, column(f))
	}
	if t.Revised {
		cols = append(cols, "rev INTEGER NOT NULL DEFAULT 1")
	}
	cols = append(cols, "body BLOB NOT NULL DEFAULT x''")
	out := []string{"CREATE TABLE " + t.name + "(" + strings.Join(cols, ",") + ")"}
	if !t.rowid() {
		out = append(out, "CREATE UNIQUE INDEX "+t.indexName("")+" ON "+t.name+"("+list(t.Key)+")")
	}
	for _, ix := range t.Indexes {
		out = append(out, t.createIndex(ix))
	}
	return out
}

// createIndex ends an index that allows ties with the key, so that it orders all rows.
func (t *table) createIndex(ix storage.Index) string {
	unique, fields := "", []storage.Field{}
	if ix.Unique {
		unique = "UNIQUE "
		for _, n := range ix.Fields {
			f, _ := t.Column(n)
			fields = append(fields, f)
		}
	} else {
		fields, _ = t.Order(ix.Name)
	}
	return "CREATE " + unique + "INDEX " + t.indexName(ix.Name) + " ON " + t.name + "(" + list(fields) + ")"
}

// indexName joins kind and index by a character that neither may hold. The key's own index has no second name.
func (t *table) indexName(index string) string { return quote("i_" + t.Name + "$" + index) }

func list(fields []storage.Field) string {
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = quote(f.Name)
	}
	return strings.Join(names, ",")
}

// sort is the ORDER BY of fields.
func sort(fields []storage.Field, desc bool) string {
	if !desc {
		return list(fields)
	}
	return strings.ReplaceAll(list(fields), ",", " DESC,") + " DESC"
}

// list returns the SQL of a shape whose order has been checked.
func (t *table) list(s shape, order []storage.Field) string {
	if sql, ok := t.shapes.Load(s); ok {
		return sql.(string)
	}
	var b strings.Builder
	cols := t.cols
	if !s.whole {
		cols = strings.TrimSuffix(cols, "body") + "x''"
	}
	fmt.Fprintf(&b, "SELECT %s FROM %s", cols, t.name)
	if s.index != "" || !t.rowid() {
		b.WriteString(" INDEXED BY " + t.indexName(s.index))
	}
	b.WriteString(where(order, s.prefix, s.from, s.to) + " ORDER BY " + sort(order, s.desc))
	if s.limit {
		b.WriteString(" LIMIT ?")
	}
	sql, _ := t.shapes.LoadOrStore(s, b.String())
	return sql.(string)
}

// where is the condition of a range over the columns of an order.
func where(order []storage.Field, prefix int, from, to bool) string {
	var conds []string
	for _, f := range order[:prefix] {
		conds = append(conds, quote(f.Name)+"=?")
	}
	if from {
		conds = append(conds, quote(order[prefix].Name)+">=?")
	}
	if to {
		conds = append(conds, quote(order[prefix].Name)+"<?")
	}
	if conds == nil {
		return ""
	}
	return " WHERE " + strings.Join(conds, " AND ")
}

// bound checks a range against an order and appends its values to args.
func (t *table) bound(args []any, order []storage.Field, r storage.Range) ([]any, error) {
	bounded := len(r.Prefix)
	if r.From != nil || r.To != nil {
		bounded++
	}
	if bounded > len(order) {
		return nil, fmt.Errorf("storage: kind %q: a range over %d columns has bounds for %d", t.Name, len(order), bounded)
	}
	for i, v := range r.Prefix {
		var err error
		if args, err = t.value(args, order[i], v); err != nil {
			return nil, err
		}
	}
	for _, v := range []any{r.From, r.To} {
		if v == nil {
			continue
		}
		var err error
		if args, err = t.value(args, order[len(r.Prefix)], v); err != nil {
			return nil, err
		}
	}
	return args, nil
}

// value appends v, or the zero value for nil, after checking its type.
func (t *table) value(args []any, f storage.Field, v any) ([]any, error) {
	ok := v == nil
	switch x := v.(type) {
	case int64:
		ok = f.Type == storage.Int
	case string:
		ok = f.Type == storage.Text
	case []byte:
		ok = f.Type == storage.Bytes
		if x == nil {
			v = []byte{}
		}
	}
	if !ok {
		return nil, fmt.Errorf("storage: kind %q: %q cannot be compared with a %T", t.Name, f.Name, v)
	}
	if v == nil {
		v = zero(f.Type)
	}
	return append(args, v), nil
}

func zero(t storage.Type) any {
	switch t {
	case storage.Int:
		return int64(0)
	case storage.Text:
		return ""
	}
	return []byte{}
}

// row makes a Row of the columns cols.
func (t *table) row(values []any) storage.Row {
	n := len(t.columns)
	all := make([]any, n)
	for i, v := range values[:n] {
		if b, isBytes := v.([]byte); isBytes && b == nil {
			v = []byte{}
		}
		all[i] = v
	}
	r := storage.Row{Key: all[:len(t.Key):len(t.Key)], Fields: all[len(t.Key):]}
	if t.Revised {
		r.Rev, _ = values[n].(int64)
		n++
	}
	r.Body, _ = values[n].([]byte)
	return r
}
