package sqlite

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/storage"
)

// plan returns SQLite's plan of a statement, one step a line.
func plan(t *testing.T, db *DB, sql string) string {
	t.Helper()
	c, err := db.dial()
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	args := make([]any, strings.Count(sql, "?"))
	for i := range args {
		args[i] = int64(1)
	}
	var steps []string
	err = c.rows("EXPLAIN QUERY PLAN "+sql, args, func(row []any) error {
		steps = append(steps, row[3].(string))
		return nil
	})
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return strings.Join(steps, "\n")
}

// The obvious plan of a walk scans the table once a link. No plan here may scan a table or sort its rows.
func TestQueryPlans(t *testing.T) {
	t.Parallel()
	pair := storage.Kind{
		Name: "pair", Key: []storage.Field{{Name: "a", Type: storage.Text}, {Name: "b", Type: storage.Int}},
		Fields:  []storage.Field{{Name: "at", Type: storage.Int}},
		Indexes: []storage.Index{{Name: "by_at", Fields: []string{"a", "at"}}},
		Revised: true,
	}
	db := open(t, filepath.Join(t.TempDir(), "home.db"), nil, note, pair)
	n, p := db.kinds["note"], db.kinds["pair"]
	at, err := pair.Order("by_at")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, sql, want string }{
		{"walk", n.walk, "CO-ROUTINE chain|SETUP|SCAN CONSTANT ROW|RECURSIVE STEP|SCAN chain|SEARCH r USING INTEGER PRIMARY KEY (rowid=?)|SCAN chain|SEARCH r USING INTEGER PRIMARY KEY (rowid=?)"},
		{"get by number", n.get, "SEARCH k_note USING INTEGER PRIMARY KEY (rowid=?)"},
		{"get by pair", p.get, "SEARCH k_pair USING INDEX i_pair$ (a=? AND b=?)"},
		{"revise", p.revise, "SEARCH k_pair USING INDEX i_pair$ (a=? AND b=?)"},
		{"list by number", n.list(shape{from: true, to: true, desc: true, limit: true}, note.Key), "SEARCH k_note USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"},
		{"list by pair", p.list(shape{prefix: 1, from: true}, pair.Key), "SEARCH k_pair USING INDEX i_pair$ (a=? AND b>?)"},
		{"list by index", p.list(shape{index: "by_at", prefix: 1, from: true, desc: true}, at), "SEARCH k_pair USING INDEX i_pair$by_at (a=? AND at>?)"},
		{"list all by index", p.list(shape{index: "by_at"}, at), "SCAN k_pair USING INDEX i_pair$by_at"},
		{"seq of an owner", advance, "SEARCH lease USING INTEGER PRIMARY KEY (rowid=?)"},
	} {
		if got := strings.ReplaceAll(plan(t, db, c.sql), "\n", "|"); got != c.want {
			t.Errorf("%s: %s\nplan %s\nwant %s", c.name, c.sql, got, c.want)
		}
	}
}
