package storagetest

import (
	"bytes"
	"fmt"

	"github.com/pawl-dev/pawl/storage"
)

func field(name string, typ storage.Type) storage.Field { return storage.Field{Name: name, Type: typ} }

// The kinds of the suite.
var (
	// item has the cheapest key and all field types.
	item = storage.Kind{
		Name:   "item",
		Key:    []storage.Field{field("id", storage.Int)},
		Fields: []storage.Field{field("grp", storage.Int), field("label", storage.Text), field("raw", storage.Bytes)},
		Indexes: []storage.Index{
			{Name: "by_grp", Fields: []string{"grp"}},
			{Name: "by_label", Fields: []string{"label", "grp"}},
			{Name: "by_raw", Fields: []string{"raw"}},
		},
	}
	// doc has a tenant before its id, and revisions. An index repeats a part of its key.
	doc = storage.Kind{
		Name:    "doc",
		Key:     []storage.Field{field("tenant", storage.Text), field("id", storage.Text)},
		Fields:  []storage.Field{field("at", storage.Int)},
		Indexes: []storage.Index{{Name: "by_at", Fields: []string{"tenant", "at"}}},
		Revised: true,
	}
	// slot has a unique index, and an index name that another kind has, too.
	slot = storage.Kind{
		Name:   "slot",
		Key:    []storage.Field{field("id", storage.Int)},
		Fields: []storage.Field{field("tenant", storage.Text), field("label", storage.Text)},
		Indexes: []storage.Index{
			{Name: "by_label", Fields: []string{"tenant", "label"}, Unique: true},
		},
		Revised: true,
	}
	// value is a chain of versions for Walk.
	value = storage.Kind{
		Name:   "value",
		Key:    []storage.Field{field("id", storage.Int)},
		Fields: []storage.Field{field("thread", storage.Int), field("base", storage.Int)},
	}
	// blob has a key of bytes and no fields.
	blob = storage.Kind{Name: "blob", Key: []storage.Field{field("hash", storage.Bytes)}}
	// event is ordered by thread and seq.
	event = storage.Kind{
		Name:   "event",
		Key:    []storage.Field{field("thread", storage.Int), field("seq", storage.Int)},
		Fields: []storage.Field{field("writer", storage.Int)},
	}
	// words has names that mean something in SQL.
	words = storage.Kind{
		Name:    "select",
		Key:     []storage.Field{field("from", storage.Int)},
		Fields:  []storage.Field{field("group", storage.Text), field("order", storage.Int)},
		Indexes: []storage.Index{{Name: "index", Fields: []string{"group", "order"}}},
		Revised: true,
	}
)

func kinds(k ...storage.Kind) []storage.Kind { return k }

func itemRow(id, grp int64, label string, body string) storage.Row {
	return storage.Row{Key: []any{id}, Fields: []any{grp, label, []byte{}}, Body: []byte(body)}
}

// plain is an item of which only the id matters.
func plain(id int64) storage.Row { return itemRow(id, 0, "", "") }

func docRow(tenant, id string, at, rev int64) storage.Row {
	return storage.Row{Key: []any{tenant, id}, Fields: []any{at}, Rev: rev}
}

func slotRow(id int64, tenant, label string) storage.Row {
	return storage.Row{Key: []any{id}, Fields: []any{tenant, label}, Rev: 1}
}

func valueRow(id, base int64) storage.Row {
	return storage.Row{Key: []any{id}, Fields: []any{int64(1), base}, Body: fmt.Appendf(nil, "v%d", id)}
}

// diff says how rows differ, or "". An empty and a nil body are the same.
func diff(k storage.Kind, got, want []storage.Row, noBody bool) string {
	for i := range min(len(got), len(want)) {
		g, w := got[i], want[i]
		switch {
		case !sameValues(k.Key, g.Key, w.Key):
			return fmt.Sprintf("row %d has key %#v, want %#v", i, g.Key, w.Key)
		case !sameValues(k.Fields, g.Fields, w.Fields):
			return fmt.Sprintf("row %v has fields %#v, want %#v", g.Key, g.Fields, w.Fields)
		case k.Revised && g.Rev != w.Rev, !k.Revised && g.Rev != 0:
			return fmt.Sprintf("row %v has revision %d, want %d", g.Key, g.Rev, w.Rev)
		case noBody && len(g.Body) > 0:
			return fmt.Sprintf("row %v has a body, and none was asked for", g.Key)
		case !noBody && !bytes.Equal(g.Body, w.Body):
			return fmt.Sprintf("row %v has a body of %d bytes %.40q, want %d bytes %.40q", g.Key, len(g.Body), g.Body, len(w.Body), w.Body)
		}
	}
	if len(got) != len(want) {
		return fmt.Sprintf("%d rows, want %d: have keys %s, want %s", len(got), len(want), keys(got), keys(want))
	}
	return ""
}

func keys(rows []storage.Row) string {
	s := ""
	for i, r := range rows {
		if i == 20 {
			return s + "..."
		}
		s += fmt.Sprintf("%v", r.Key)
	}
	return "{" + s + "}"
}

func sameValues(f []storage.Field, got, want []any) bool {
	if len(got) != len(f) || len(want) != len(f) {
		return false
	}
	for i := range f {
		if !sameType(f[i], got[i]) || compare(got[i], normal(f[i], want[i])) != 0 {
			return false
		}
	}
	return true
}

func sameType(f storage.Field, v any) bool {
	switch v.(type) {
	case int64:
		return f.Type == storage.Int
	case string:
		return f.Type == storage.Text
	case []byte:
		return f.Type == storage.Bytes
	}
	return false
}
