package audit_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/audit/proof"
	"github.com/pawl-dev/pawl/memdb"
	"github.com/pawl-dev/pawl/sqlite"
	"github.com/pawl-dev/pawl/storage"
)

// trail writes three rows of each of two threads and two of none, one row an Update, under tenant t, and one row of
// tenant u. then is called after each.
func trail(t testing.TB, db storage.DB, then func()) {
	t.Helper()
	for _, r := range []audit.Row{
		{Thread: "a", Action: "effect.reserved", Operation: "op1", Effect: "bank.transfer", Ref: "invoice/17"},
		{Thread: "b", Action: "effect.reserved", Operation: "op2"},
		{Action: "approval.approve.refused", Approval: "nothing", Actor: pawl.Actor{ID: "eve", Groups: []string{"x", "y"}}},
		{Thread: "a", Action: "approval.granted", Operation: "op1", View: "v1", Digest: "d1", Actor: pawl.Actor{ID: "ann", Kind: "person"}},
		{Thread: "a", Action: "effect.committed", Operation: "op1", Digest: "d1", Receipt: "rc1"},
		{Thread: "b", Action: "effect.voided", Operation: "op2"},
		{Action: "approval.reject.refused"},
		{Thread: "b", Action: "effect.reserved", Operation: "op3"},
	} {
		r.Tenant = "t"
		write(t, db, r)
		then()
	}
	write(t, db, audit.Row{Tenant: "u", Thread: "a", Action: "theirs"})
}

func nothing() {}

// ordering makes a sequencer: each call lets it order what is pending.
func ordering(t testing.TB, db storage.DB) func() {
	s := audit.NewSequencer(db)
	return func() {
		t.Helper()
		if _, _, err := s.Due(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
	}
}

func verified(t testing.TB, db storage.DB, anchors ...audit.Anchor) *audit.Report {
	t.Helper()
	r, err := audit.Verify(t.Context(), db, "t", anchors...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func exported(t testing.TB, db storage.DB) ([]byte, audit.Anchor) {
	t.Helper()
	var b bytes.Buffer
	a, err := audit.Export(t.Context(), db, "t", &b)
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes(), a
}

func told(r *audit.Report) string {
	var out []string
	for _, f := range r.Findings {
		f.Line = 0
		out = append(out, f.String())
	}
	return strings.Join(out, "\n")
}

func get(t testing.TB, db storage.DB, kind string, key ...any) (row storage.Row) {
	t.Helper()
	err := db.View(t.Context(), func(_ context.Context, tx storage.Tx) error {
		got, ok, err := tx.Get(kind, key...)
		if row = got; err == nil && !ok {
			err = fmt.Errorf("no %s %v", kind, key)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return row
}

func change(t testing.TB, db storage.DB, fn func(tx storage.Tx) error) {
	t.Helper()
	if err := db.Update(t.Context(), func(_ context.Context, tx storage.Tx) error { return fn(tx) }); err != nil {
		t.Fatal(err)
	}
}

func put(t testing.TB, db storage.DB, kind string, row storage.Row) {
	t.Helper()
	change(t, db, func(tx storage.Tx) error { _, err := tx.Put(kind, row, storage.Always()); return err })
}

func drop(t testing.TB, db storage.DB, kind string, key ...any) {
	t.Helper()
	change(t, db, func(tx storage.Tx) error {
		n, err := tx.Delete(kind, storage.Range{Prefix: key})
		if err == nil && n == 0 {
			err = fmt.Errorf("no %s %v", kind, key)
		}
		return err
	})
}

func TestAnHonestTrail(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, db storage.DB) {
		if r := verified(t, db); !r.Honest() || r.Rows+r.Size+r.Pending != 0 || len(r.Notes) != 0 {
			t.Errorf("empty: %+v", r)
		}
		trail(t, db, nothing)
		r := verified(t, db)
		if !r.Honest() || r.Rows != 8 || r.Pending != 8 || r.Size != 0 || r.Chains != 3 {
			t.Errorf("before it is ordered: %+v", r)
		}
		if notes := strings.Join(r.Notes, "\n"); !strings.Contains(notes, "8 rows are pending") || !strings.Contains(notes, "unanchored since log position 1 (") {
			t.Errorf("notes: %s", notes)
		}
		ordering(t, db)()
		r = verified(t, db)
		if !r.Honest() || r.Rows != 8 || r.Pending != 0 || r.Size != 8 || r.Head.IsZero() {
			t.Errorf("after: %+v", r)
		}
		doc, a := exported(t, db)
		off, err := proof.Read(bytes.NewReader(doc), a)
		if err != nil || !off.Honest() || off.Size != 8 || off.Head != r.Head || len(off.Notes) != 0 {
			t.Errorf("offline: %+v, %v", off, err)
		}
		if now, err := audit.Head(t.Context(), db, "t"); err != nil || now.Size != a.Size || now.Head != a.Head || now.Head != r.Anchor(time.Now()).Head {
			t.Errorf("anchor %+v, %+v, %v", now, a, err)
		}
		write(t, db, audit.Row{Tenant: "t", Thread: "a", Action: "more"})
		r = verified(t, db, a)
		if !r.Honest() || r.Pending != 1 || r.Anchored != 8 || !strings.Contains(strings.Join(r.Notes, "\n"), "unanchored since log position 9 (") {
			t.Errorf("one more: %+v", r)
		}
		doc, _ = exported(t, db)
		if off, err = proof.Read(bytes.NewReader(doc), a); err != nil || !off.Honest() || off.Pending != 1 {
			t.Errorf("offline, one pending: %+v, %v", off, err)
		}
	})
}

// What somebody who can write to the database does to it, and what the check says.
// Each is tried on rows that are in the log, and none of it touches another tenant.
func TestTampering(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		do   func(t *testing.T, db storage.DB)
		want string // the first finding, or a part of it
	}{
		{"a field, with its checksum", func(t *testing.T, db storage.DB) { forge(t, db, "a", 2, `"ann"`, `"bob"`) },
			`row 2 of thread "a", log position 4: it is not what was written`},
		{"a field's byte", func(t *testing.T, db storage.DB) {
			row := get(t, db, "audit", "t", "a", int64(2))
			row.Body[20] ^= 4
			put(t, db, "audit", row)
		}, `row 2 of thread "a", log position 4: its checksum does not fit`},
		{"spelling", func(t *testing.T, db storage.DB) { forge(t, db, "a", 2, `"view"`, `"View"`) },
			`row 2 of thread "a", log position 4: its body is not spelled as it was written`},
		{"the operation", func(t *testing.T, db storage.DB) {
			row := get(t, db, "audit", "t", "a", int64(1))
			row.Fields[0] = "op2"
			put(t, db, "audit", row)
		}, `row 1 of thread "a", log position 1: it is not what was written`},
		{"the time in the index", func(t *testing.T, db storage.DB) {
			row := get(t, db, "audit", "t", "a", int64(1))
			row.Fields[1] = row.Fields[1].(int64) - 1
			put(t, db, "audit", row)
		}, `row 1 of thread "a", log position 1: field at`},
		{"the hash", func(t *testing.T, db storage.DB) {
			row := get(t, db, "audit", "t", "", int64(1))
			row.Fields[2].([]byte)[3] ^= 1
			put(t, db, "audit", row)
		}, `row 1 of the chain of no thread, log position 3, field hash: its hash was changed`},
		{"the hash taken away", func(t *testing.T, db storage.DB) {
			row := get(t, db, "audit", "t", "b", int64(2))
			row.Fields[2] = nil
			put(t, db, "audit", row)
		}, `row 2 of thread "b", log position 6, field hash: its hash was taken away`},
		{"all hashes of a chain taken away", func(t *testing.T, db storage.DB) {
			for n := int64(1); n <= 3; n++ {
				row := get(t, db, "audit", "t", "b", n)
				row.Fields[2] = nil
				put(t, db, "audit", row)
			}
		}, `row 1 of thread "b", log position 2, field n: it follows row 3`},
		{"a row deleted", func(t *testing.T, db storage.DB) { drop(t, db, "audit", "t", "a", int64(2)) },
			`row 2 of thread "a", log position 4: it was deleted`},
		{"the last row of a chain deleted", func(t *testing.T, db storage.DB) { drop(t, db, "audit", "t", "a", int64(3)) },
			`row 3 of thread "a", log position 5: it was deleted`},
		{"a chain deleted", func(t *testing.T, db storage.DB) { drop(t, db, "audit", "t", "a") },
			`row 1 of thread "a", log position 1: it was deleted`},
		{"two rows swapped", func(t *testing.T, db storage.DB) {
			one, two := get(t, db, "audit", "t", "b", int64(1)), get(t, db, "audit", "t", "b", int64(2))
			one.Key, two.Key = two.Key, one.Key
			put(t, db, "audit", one)
			put(t, db, "audit", two)
		}, `row 1 of thread "b", log position 2, field n: it was written as row 2: rows were reordered`},
		{"a row moved to another thread", func(t *testing.T, db storage.DB) {
			row := get(t, db, "audit", "t", "b", int64(3))
			drop(t, db, "audit", row.Key...)
			row.Key = []any{"t", "a", int64(4)}
			put(t, db, "audit", row)
		}, `row 3 of thread "b", log position 8: it was deleted`},
		{"a row inserted between", func(t *testing.T, db storage.DB) {
			row := get(t, db, "audit", "t", "a", int64(1))
			row.Key = []any{"t", "a", int64(0)}
			put(t, db, "audit", row)
		}, `row 0 of thread "a"`},
		{"a row appended with a copied hash", func(t *testing.T, db storage.DB) {
			row := get(t, db, "audit", "t", "a", int64(3))
			row.Key = []any{"t", "a", int64(4)}
			put(t, db, "audit", row)
		}, `row 4 of thread "a", field n: it was written as row 3`},
		{"a row from another tenant", func(t *testing.T, db storage.DB) {
			row := get(t, db, "audit", "u", "a", int64(1))
			row.Key = []any{"t", "z", int64(1)}
			put(t, db, "audit", row)
		}, `row 1 of thread "z": it is not what was written`},
		{"a chain rewritten", func(t *testing.T, db storage.DB) {
			drop(t, db, "audit", "t", "b")
			for range 3 {
				write(t, db, audit.Row{Tenant: "t", Thread: "b", Action: "nothing.happened"})
			}
		}, `row 1 of thread "b", log position 2: it is not the row that the log has: it was replaced, with its hash`},
		{"a log entry deleted", func(t *testing.T, db storage.DB) { drop(t, db, "audit_log", "t", int64(4)) },
			`row 3 of thread "a", log position 5: the log's positions 4 to 4 are missing before it`},
		{"log entries swapped", func(t *testing.T, db storage.DB) {
			one, two := get(t, db, "audit_log", "t", int64(3)), get(t, db, "audit_log", "t", int64(4))
			one.Key, two.Key = two.Key, one.Key
			put(t, db, "audit_log", one)
			put(t, db, "audit_log", two)
		}, `log position 3, field head: the log's own chain breaks here`},
		{"a log entry that names another row", func(t *testing.T, db storage.DB) {
			row := get(t, db, "audit_log", "t", int64(2))
			row.Fields[0] = "a"
			put(t, db, "audit_log", row)
		}, `row 1 of thread "a", log position 2, field n: it follows row 1: it was inserted or moved`},
		{"a leaf", func(t *testing.T, db storage.DB) {
			row := get(t, db, "audit_log", "t", int64(2))
			row.Fields[2].([]byte)[0] ^= 1
			put(t, db, "audit_log", row)
		}, `row 1 of thread "b", log position 2, field head: the log's own chain breaks here`},
		{"the log's end", func(t *testing.T, db storage.DB) { drop(t, db, "audit_log", "t", int64(8)) },
			"log position 8: the log ends at position 7, and its head says 8"},
		{"the log's head", func(t *testing.T, db storage.DB) {
			row := get(t, db, "audit_head", "t")
			row.Fields[0] = int64(7)
			put(t, db, "audit_head", row)
		}, `log position 9: the log ends at position 8, and its head says 7`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			onBoth(t, func(t *testing.T, db storage.DB) {
				order := ordering(t, db)
				trail(t, db, order)
				c.do(t, db)
				r := verified(t, db)
				if r.Honest() || !strings.Contains(told(r), c.want) {
					t.Errorf("got  %s\nwant %s", told(r), c.want)
				}
				other, err := audit.Verify(t.Context(), db, "u")
				if err != nil || !other.Honest() && c.name != "a row from another tenant" {
					t.Errorf("the other tenant: %+v, %v", other, err)
				}
				doc, _ := exported(t, db)
				off, err := proof.Read(bytes.NewReader(doc))
				if err != nil || off.Honest() {
					t.Errorf("offline: %+v, %v", off, err)
				}
			})
		})
	}
}

// forge replaces a word in a row's body and mends the checksum.
func forge(t *testing.T, db storage.DB, thread string, n int64, from, to string) {
	t.Helper()
	row := get(t, db, "audit", "t", thread, n)
	doc := bytes.Replace(row.Body[5:], []byte(from), []byte(to), 1)
	if bytes.Equal(doc, row.Body[5:]) {
		t.Fatalf("%s has no %s", row.Body, from)
	}
	row.Body = append(slices.Clone(row.Body[:1]), checksummed(doc)...)
	put(t, db, "audit", row)
}

// checksummed is a document behind its checksum.
func checksummed(doc []byte) []byte {
	sum := crc32.Checksum(doc, crc32.MakeTable(crc32.Castagnoli))
	return append(binary.BigEndian.AppendUint32(nil, sum), doc...)
}

// An end that was cut off with everything that names it leaves no trace inside; an anchor shows it.
func TestACutTailNeedsAnAnchor(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, db storage.DB) {
		order := ordering(t, db)
		trail(t, db, order)
		_, a := exported(t, db)
		cut := func() {
			last := get(t, db, "audit_log", "t", int64(8))
			before := get(t, db, "audit_log", "t", int64(7))
			drop(t, db, "audit", "t", last.Fields[0], last.Fields[1])
			drop(t, db, "audit_log", "t", int64(8))
			head := get(t, db, "audit_head", "t")
			head.Fields[0], head.Fields[1] = int64(7), before.Fields[3]
			put(t, db, "audit_head", head)
		}
		cut()
		r := verified(t, db)
		if !r.Honest() || !strings.Contains(strings.Join(r.Notes, "\n"), "unanchored since log position 1") {
			t.Errorf("without an anchor: %s, notes %v", told(r), r.Notes)
		}
		if got, want := told(verified(t, db, a)), "log position 8: the log ends at position 7; the anchor of"; !strings.HasPrefix(got, want) {
			t.Errorf("with it: %s", got)
		}
		write(t, db, audit.Row{Tenant: "t", Thread: "b", Action: "something.else"})
		order()
		if r := verified(t, db); !r.Honest() {
			t.Errorf("written anew, without an anchor: %s", told(r))
		}
		if got, want := told(verified(t, db, a)), "log position 8, field head: it is not the log that was anchored"; !strings.HasPrefix(got, want) {
			t.Errorf("written anew: %s", got)
		}
		wrong := a
		wrong.Tenant = "u"
		if got := told(verified(t, db, wrong)); !strings.Contains(got, `is of tenant "u"`) {
			t.Errorf("another tenant's anchor: %s", got)
		}
	})
}

// Every byte of the rows in a file, changed by somebody else's hand: each is found.
func TestEveryByteOfAFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.db")
	db, err := sqlite.Open(path, audit.Kinds()...)
	if err != nil {
		t.Fatal(err)
	}
	order := ordering(t, db)
	trail(t, db, order)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	raw, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	exec := func(query string, args ...any) {
		t.Helper()
		if _, err := raw.Exec(query, args...); err != nil {
			t.Fatal(err)
		}
	}
	check := func(what, want string) {
		t.Helper()
		db, err := sqlite.Open(path, audit.Kinds()...)
		if err != nil {
			t.Fatal(what, err)
		}
		defer db.Close()
		if got := told(verified(t, db)); !strings.Contains(got, want) || got == "" {
			t.Errorf("%s: %q", what, got)
		}
	}
	var body []byte
	where := " WHERE tenant='t' AND thread='a' AND n=2"
	if err := raw.QueryRow("SELECT body FROM " + "k_audit" + where).Scan(&body); err != nil {
		t.Fatal(err)
	}
	for i := range body {
		if i%7 != 0 && i > 6 {
			continue
		}
		bad := slices.Clone(body)
		bad[i] ^= 0x20
		exec("UPDATE "+"k_audit"+" SET body=?"+where, bad)
		check(fmt.Sprintf("byte %d", i), `row 2 of thread "a"`)
	}
	exec("UPDATE "+"k_audit"+" SET body=?"+where, body)
	exec("UPDATE " + "k_audit" + " SET thread='c'" + where)
	check("renamed", `row 2 of thread "a", log position 4: it was deleted`)
	exec("UPDATE " + "k_audit" + " SET thread='a' WHERE thread='c'")
	exec("DELETE FROM " + "k_audit_log" + " WHERE pos=3")
	check("a place deleted", "the log's positions 3 to 3 are missing")
}

// An export is taken as it was written, byte for byte.
func TestEveryByteOfAnExport(t *testing.T) {
	t.Parallel()
	db, err := memdb.Open(audit.Kinds()...)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	order := ordering(t, db)
	trail(t, db, order)
	write(t, db, audit.Row{Tenant: "t", Thread: "a", Action: "pending", Reason: "<&>\u2028"})
	doc, a := exported(t, db)
	if r, err := proof.Read(bytes.NewReader(doc), a); err != nil || !r.Honest() {
		t.Fatal(r, err)
	}
	first := bytes.IndexByte(doc, '\n') + 1
	free := bytes.Index(doc[:first], []byte(`"at":`)) // when the export was made is no fact of the trail
	for i := range doc {
		if i >= free && i < first-1 {
			continue
		}
		bad := slices.Clone(doc)
		bad[i] ^= 0x20
		r, err := proof.Read(bytes.NewReader(bad))
		if err == nil && r.Honest() {
			t.Errorf("byte %d (%q) is not missed", i, doc[max(0, i-10):i+1])
		}
		if err != nil && i > first {
			t.Errorf("byte %d: %v", i, err)
		}
		if err == nil && i > first && r.Findings[0].Line < 1 {
			t.Errorf("byte %d: %v names no line", i, r.Findings[0])
		}
	}
	list := bytes.SplitAfter(doc, []byte("\n"))
	list = list[:len(list)-1]
	for i := range list {
		if i == 0 {
			continue
		}
		without := bytes.Join(slices.Concat(list[:i], list[i+1:]), nil)
		if r, err := proof.Read(bytes.NewReader(without)); err != nil || r.Honest() {
			t.Errorf("without line %d: %v", i+1, err)
		}
		if i+1 < len(list) {
			swapped := slices.Clone(list)
			swapped[i], swapped[i+1] = swapped[i+1], swapped[i]
			if r, err := proof.Read(bytes.NewReader(bytes.Join(swapped, nil))); err != nil || r.Honest() {
				t.Errorf("lines %d and %d swapped: %v", i+1, i+2, err)
			}
		}
		twice := slices.Insert(slices.Clone(list), i, list[i])
		if r, err := proof.Read(bytes.NewReader(bytes.Join(twice, nil))); err != nil || r.Honest() {
			t.Errorf("line %d twice: %v", i+1, err)
		}
	}
	for _, c := range []struct{ name, doc string }{
		{"nothing", ""}, {"no JSON", "hello\n"}, {"another document", "{}\n"}, {"of another format", `{"pawl_audit":2,"tenant":"t","size":0,"head":"` + strings.Repeat("0", 64) + `","at":"2026-01-01T00:00:00Z"}` + "\n"},
	} {
		if r, err := proof.Read(strings.NewReader(c.doc)); err == nil {
			t.Errorf("%s: %+v", c.name, r)
		}
	}
}

// Rows of the version before chains stay readable; the chain begins after them.
func TestRowsWithoutHashes(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, db storage.DB) {
		for n := int64(1); n <= 2; n++ {
			doc, _ := json.Marshal(audit.Row{Action: "old", At: time.Unix(n, 0).UTC()})
			put(t, db, "audit", storage.Row{
				Key: []any{"t", "a", n}, Fields: []any{"op1", time.Unix(n, 0).UnixMilli(), nil}, Body: append([]byte{1}, checksummed(doc)...),
			})
		}
		trail(t, db, nothing)
		rows, err := audit.List(t.Context(), db, "t", "a", 0, 0)
		if got, want := lines(t, rows, err), "1:t/a:old 2:t/a:old 3:t/a:effect.reserved 4:t/a:approval.granted 5:t/a:effect.committed"; got != want {
			t.Errorf("got %q", got)
		}
		ordering(t, db)()
		r := verified(t, db)
		if !r.Honest() || r.Old != 2 || r.Size != 8 || !strings.Contains(strings.Join(r.Notes, "\n"), "2 rows were written before there were chains") {
			t.Errorf("%+v", r)
		}
		doc, a := exported(t, db)
		if off, err := proof.Read(bytes.NewReader(doc), a); err != nil || !off.Honest() || off.Old != 2 {
			t.Errorf("offline: %+v, %v", off, err)
		}
		drop(t, db, "audit", "t", "a", int64(1))
		if got := told(verified(t, db)); !strings.Contains(got, `row 2 of thread "a", field n: it follows row 0`) {
			t.Errorf("an old row deleted: %s", got)
		}
	})
}

// One receipt leads to all that was done for it.
func TestTrailOfAReceipt(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, db storage.DB) {
		trail(t, db, nothing)
		rows, err := audit.Trail(t.Context(), db, "t", "rc1")
		if got, want := lines(t, rows, err), "1:t/a:effect.reserved 2:t/a:approval.granted 3:t/a:effect.committed"; got != want {
			t.Errorf("got %q", got)
		}
		for _, c := range [][2]string{{"t", "rc2"}, {"u", "rc1"}, {"t", ""}} {
			_, err := audit.Trail(t.Context(), db, c[0], c[1])
			if missing := (*pawl.NotFoundError)(nil); !errors.As(err, &missing) || missing.ID != c[1] {
				t.Errorf("%q: %v", c, err)
			}
		}
	})
}

// A file of the version before chains opens, and its rows are read.
func TestAFileOfTheEarlierVersion(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.db")
	old := audit.Kinds()[0]
	old.Fields = old.Fields[:2]
	db, err := sqlite.Open(path, old)
	if err != nil {
		t.Fatal(err)
	}
	doc, _ := json.Marshal(audit.Row{Action: "old", At: time.Unix(7, 0).UTC()})
	put(t, db, "audit", storage.Row{Key: []any{"t", "a", int64(1)}, Fields: []any{"op", int64(7000)}, Body: append([]byte{1}, checksummed(doc)...)})
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	now, err := sqlite.Open(path, audit.Kinds()...)
	run(t, now, err, func(t *testing.T, db storage.DB) {
		write(t, db, audit.Row{Tenant: "t", Thread: "a", Action: "new"})
		ordering(t, db)()
		rows, err := audit.List(t.Context(), db, "t", "a", 0, 0)
		if got := lines(t, rows, err); got != "1:t/a:old 2:t/a:new" || !rows[0].Hash.IsZero() || rows[1].Hash.IsZero() {
			t.Errorf("got %q", got)
		}
		if r := verified(t, db); !r.Honest() || r.Old != 1 || r.Size != 1 {
			t.Errorf("%+v", r)
		}
	})
}
