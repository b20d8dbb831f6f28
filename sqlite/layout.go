package sqlite

import (
	"embed"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl/storage"
)

// layoutVersion is the number of files in layout. A file is never edited once it was released.
const layoutVersion = 1

//go:embed layout/*.sql
var layout embed.FS

// migrate runs the layout files that the home has not had, each in a transaction.
func (db *DB) migrate(c *conn) error {
	var version int64
	if _, err := c.ints("PRAGMA user_version", &version); err != nil {
		return err
	}
	files, err := layout.ReadDir("layout")
	if err != nil {
		return err
	}
	for i, f := range files[version:] {
		sql, err := layout.ReadFile("layout/" + f.Name())
		if err != nil {
			return err
		}
		number := fmt.Sprintf("PRAGMA user_version=%d", int(version)+i+1)
		if err := c.atomically([]string{string(sql), number}); err != nil {
			return fmt.Errorf("layout %s: %w", f.Name(), err)
		}
	}
	return nil
}

// atomically runs scripts in one transaction.
func (c *conn) atomically(scripts []string) error {
	if err := c.once("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	for _, s := range append(slices.Clone(scripts), "COMMIT") {
		if err := c.once(s); err != nil {
			_ = c.once("ROLLBACK") // fails if SQLite has done so
			return err
		}
	}
	return nil
}

// declare makes the tables of new kinds, adds new fields and indexes, and refuses any other difference before it has
// changed anything.
func (db *DB) declare(c *conn, kinds []storage.Kind) error {
	stored := map[string]storage.Kind{}
	if err := c.rows("SELECT name,declaration FROM kind", nil, func(row []any) error {
		var k storage.Kind
		name, _ := row[0].(string)
		text, _ := row[1].(string)
		if err := json.Unmarshal([]byte(text), &k); err != nil || k.Name != name || k.Check() != nil {
			return db.refuse(storage.Damaged, "the declaration of kind %q cannot be read", name)
		}
		stored[name] = k
		return nil
	}); err != nil {
		return err
	}
	var steps []string
	for _, k := range kinds {
		old, known := stored[k.Name]
		add, err := db.kinds[k.Name].since(old, known)
		if err != nil {
			return db.refuse(storage.ChangedKind, "%v", err)
		}
		if add == nil {
			continue
		}
		text, err := json.Marshal(k)
		if err != nil {
			return err
		}
		// A declaration holds only names that Check admits, so it holds no quote.
		steps = append(append(steps, add...), fmt.Sprintf("INSERT OR REPLACE INTO kind VALUES('%s','%s')", k.Name, text))
	}
	if steps == nil {
		return nil
	}
	return c.atomically(steps)
}

// since returns what must be done to a stored kind, or an error that names the difference that is not allowed.
func (t *table) since(old storage.Kind, known bool) ([]string, error) {
	if !known {
		return t.create(), nil
	}
	switch {
	case !slices.Equal(old.Key, t.Key):
		return nil, fmt.Errorf("kind %q: its key was %v, here it is %v", t.Name, old.Key, t.Key)
	case old.Revised != t.Revised:
		return nil, fmt.Errorf("kind %q: it was revised: %v, here: %v", t.Name, old.Revised, t.Revised)
	case len(old.Fields) > len(t.Fields):
		return nil, fmt.Errorf("kind %q: it has the field %q, here it has not", t.Name, old.Fields[len(t.Fields)].Name)
	}
	for i, f := range old.Fields {
		if f != t.Fields[i] {
			return nil, fmt.Errorf("kind %q: its field %d was %v, here it is %v", t.Name, i+1, f, t.Fields[i])
		}
	}
	var steps []string
	for _, f := range t.Fields[len(old.Fields):] {
		steps = append(steps, "ALTER TABLE "+t.name+" ADD COLUMN "+column(f))
	}
	for _, was := range old.Indexes {
		if !slices.ContainsFunc(t.Indexes, func(ix storage.Index) bool { return sameIndex(ix, was) }) {
			return nil, fmt.Errorf("kind %q: its index %q is declared otherwise here, or not at all", t.Name, was.Name)
		}
	}
	for _, ix := range t.Indexes {
		if !slices.ContainsFunc(old.Indexes, func(was storage.Index) bool { return sameIndex(ix, was) }) {
			steps = append(steps, t.createIndex(ix))
		}
	}
	return steps, nil
}

func sameIndex(a, b storage.Index) bool {
	return a.Name == b.Name && a.Unique == b.Unique && slices.Equal(a.Fields, b.Fields)
}
