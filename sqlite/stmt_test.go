package sqlite

import (
	"bytes"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	sqlite3 "modernc.org/sqlite/lib"
)

func dialed(t *testing.T) *conn {
	t.Helper()
	c, err := dial(filepath.Join(t.TempDir(), "a.db"), "rwc")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// TestValuesComeBack: a statement that is run again and again, with longer and shorter arguments, keeps none of the last run.
func TestValuesComeBack(t *testing.T) {
	t.Parallel()
	c := dialed(t)
	if err := c.once("CREATE TABLE v(n INTEGER, s TEXT, b BLOB); -- and a comment\n; CREATE TABLE w(n)"); err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("ab\x00\xff", keptRoom)
	var want [][]any
	for i, s := range []string{"", "x", long, "short", "nul\x00inside", "äöü"} {
		args := []any{int64(i) << 40, s, []byte(s)}
		want = append(want, args)
		n, err := c.do("INSERT INTO v VALUES(?,?,?)", args...)
		if n != 1 || err != nil {
			t.Fatal(n, err)
		}
		if room := c.stmts["INSERT INTO v VALUES(?,?,?)"].size; room > keptRoom {
			t.Errorf("a statement keeps %d bytes", room)
		}
	}
	var got [][]any
	if err := c.rows("SELECT n,s,b FROM v ORDER BY n", nil, func(row []any) error {
		got = append(got, append([]any{}, row...))
		return nil
	}); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%d rows of %d, %v", len(got), len(want), err)
	}
	n, err := c.do("UPDATE v SET b=? WHERE s=?", []byte{}, long)
	if n != 1 || err != nil {
		t.Error(n, err)
	}
	var blob []byte
	if err := c.rows("SELECT b,NULL FROM v WHERE s=?", []any{long}, func(row []any) error {
		blob = row[0].([]byte)
		return nil
	}); err != nil || blob == nil || !bytes.Equal(blob, []byte{}) {
		t.Errorf("an empty blob came back as %v, %v", blob, err)
	}
}

func TestFaultsOfStatements(t *testing.T) {
	t.Parallel()
	c := dialed(t)
	if err := c.once("CREATE TABLE u(n INTEGER UNIQUE, r REAL)"); err != nil {
		t.Fatal(err)
	}
	do := func(sql string, args ...any) func() error {
		return func() error { _, err := c.do(sql, args...); return err }
	}
	insert := "INSERT INTO u VALUES(?,0.5)"
	for _, s := range []struct {
		name string
		do   func() error
		code int // extended
		says string
	}{
		{"a table that is not there", do("SELECT * FROM nowhere"), sqlite3.SQLITE_ERROR, "no such table: nowhere"},
		{"in a script", func() error { return c.once("SELECT 1; SELEC 2") }, sqlite3.SQLITE_ERROR, "syntax error"},
		{"quotes that are no name", do(`SELECT "text"`), sqlite3.SQLITE_ERROR, "no such column"},
		{"too few arguments", do(insert), 0, "1 parameters was given 0"},
		{"an argument of another type", do(insert, 1), 0, "parameter 1 is a int"},
		{"the first of two", do(insert, int64(1)), sqlite3.SQLITE_OK, ""},
		{"the second of two", do(insert, int64(1)), sqlite3.SQLITE_CONSTRAINT_UNIQUE, "UNIQUE constraint failed: u.n"},
		{"another, by the statement that failed", do(insert, int64(2)), sqlite3.SQLITE_OK, ""},
		{"a number that no home stores", func() error {
			return c.rows("SELECT r FROM u", nil, func([]any) error { return nil })
		}, 0, "column 0 has the type 2"},
	} {
		err := s.do()
		if (err != nil) != (s.says != "") || extended(err) != s.code || err != nil && !strings.Contains(err.Error(), s.says) {
			t.Errorf("%s: %v (%d), want %q (%d)", s.name, err, extended(err), s.says, s.code)
		}
	}
}

func TestDialFails(t *testing.T) {
	t.Parallel()
	c, err := dial(filepath.Join(t.TempDir(), "missing", "a.db"), "rwc")
	if c != nil || code(err) != sqlite3.SQLITE_CANTOPEN {
		t.Error(c, err)
	}
	if _, err := dial(filepath.Join(t.TempDir(), "a.db"), "rwc", "nonsense(("); code(err) != sqlite3.SQLITE_ERROR {
		t.Error(err)
	}
}
