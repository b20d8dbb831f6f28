package sqlite

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/storage"
)

// filled makes a home with some rows and returns its path.
func filled(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "home.db")
	db := open(t, path, nil, note)
	for range 5 {
		if _, err := add(db, strings.Repeat("x", 20_000)); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestRefusesAndChangesNothing(t *testing.T) {
	t.Parallel()
	pragma := func(sql string) func(*testing.T, string) {
		return func(t *testing.T, path string) {
			c, err := dial(path, "rw")
			if err == nil {
				err = errors.Join(c.once(sql), c.close())
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	edit := func(change func(data []byte) []byte) func(*testing.T, string) {
		return func(t *testing.T, path string) {
			data, err := os.ReadFile(path)
			if err == nil {
				err = os.WriteFile(path, change(data), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, c := range []struct {
		name string
		do   func(t *testing.T, path string)
		want storage.OpenReason
	}{
		{"newer layout", pragma("PRAGMA user_version=99"), storage.NewerVersion},
		{"another application", pragma("PRAGMA application_id=7"), storage.NotPawl},
		{"another application without an id", pragma("PRAGMA application_id=0"), storage.NotPawl},
		{"declaration that cannot be read", pragma("UPDATE kind SET declaration='{'"), storage.Damaged},
		{"text file", edit(func([]byte) []byte { return bytes.Repeat([]byte("a text\n"), 100) }), storage.NotPawl},
		{"one byte", edit(func([]byte) []byte { return []byte("x") }), storage.NotPawl},
		{"truncated", edit(func(d []byte) []byte { return d[:len(d)/2] }), storage.Damaged},
		{"truncated in its header", edit(func(d []byte) []byte { return d[:50] }), storage.Damaged},
		{"header overwritten", edit(func(d []byte) []byte { copy(d, "garbage garbage!"); return d }), storage.Damaged},
		{"pages overwritten", edit(func(d []byte) []byte {
			for i := 3 * pageSize; i < len(d); i++ {
				d[i] ^= 0x5a
			}
			return d
		}), storage.Damaged},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			path := filled(t)
			c.do(t, path)
			before, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			db, err := Open(path, note)
			var e *storage.OpenError
			if !errors.As(err, &e) || e.Reason != c.want || e.Where != path {
				t.Errorf("Open returned %v, want the reason %q", err, c.want)
			}
			if err == nil {
				db.Close()
			}
			if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
				t.Errorf("the file was changed (%v)", err)
			}
		})
	}
}

func TestRefusesPlaces(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	nfs := &Options{limits: hooks{networkFS: func(string) (string, error) { return "NFS", nil }}}
	for _, c := range []struct {
		name, path string
		opts       *Options
		want       storage.OpenReason
	}{
		{"network", filepath.Join(dir, "x.db"), nfs, storage.NetworkFS},
		{"no folder", filepath.Join(dir, "none", "x.db"), nil, storage.CannotOpen},
		{"a folder", filepath.Join(dir, "folder"), nil, storage.CannotOpen},
		{"empty path", "", nil, storage.CannotOpen},
		{"memory", ":memory:", nil, storage.CannotOpen},
	} {
		db, err := OpenWith(c.path, c.opts, note)
		var e *storage.OpenError
		if !errors.As(err, &e) || e.Reason != c.want {
			t.Errorf("%s: Open returned %v, want the reason %q", c.name, err, c.want)
		}
		if err == nil {
			db.Close()
		}
	}
	if files, _ := os.ReadDir(dir); len(files) != 1 {
		t.Errorf("refused opens left files: %v", files)
	}
	if name, err := networkFS(dir); err != nil || name != "" {
		t.Errorf("a local folder is taken for %q (%v)", name, err)
	}
}

func TestKindsMigrateForward(t *testing.T) {
	t.Parallel()
	indexed, unique, fewer := note, note, note
	indexed.Indexes = append(note.Indexes[:1:1], storage.Index{Name: "by_base", Fields: []string{"base"}})
	unique.Indexes = append(note.Indexes[:1:1], storage.Index{Name: "one_base", Fields: []string{"base"}, Unique: true})
	fewer.Indexes = nil
	for _, c := range []struct {
		name string
		kind storage.Kind
		want storage.OpenReason // empty: opens
	}{
		{"a new index", indexed, ""},
		{"an index that is gone", fewer, storage.ChangedKind},
		{"a unique index that the rows break", unique, storage.CannotOpen},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			path := filled(t)
			db, err := Open(path, c.kind)
			if c.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				defer db.Close()
				if got := plan(t, db, db.kinds["note"].list(shape{index: "by_base", prefix: 1}, c.kind.Fields[:1])); !strings.Contains(got, "i_note$by_base (base=?)") {
					t.Errorf("plan: %s", got)
				}
				return
			}
			var e *storage.OpenError
			if !errors.As(err, &e) || e.Reason != c.want {
				t.Fatalf("Open returned %v, want the reason %q", err, c.want)
			}
			if rows := all(t, open(t, path, nil, note)); len(rows) != 5 {
				t.Errorf("%d rows after the refusal, want 5", len(rows))
			}
		})
	}
}

func TestLayoutVersionCountsItsFiles(t *testing.T) {
	t.Parallel()
	files, err := layout.ReadDir("layout")
	if err != nil || len(files) != layoutVersion {
		t.Errorf("layout has %d files (%v), its version is %d", len(files), err, layoutVersion)
	}
	db := open(t, filepath.Join(t.TempDir(), "home.db"), nil)
	want := storage.Info{Driver: "sqlite", Where: db.path, Schema: layoutVersion, Durable: true}
	if got := db.Info(); got != want {
		t.Errorf("Info is %+v, want %+v", got, want)
	}
}

func TestALinkLeadsToTheSameLocks(t *testing.T) {
	t.Parallel()
	path := filled(t)
	link := filepath.Join(t.TempDir(), "link.db")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	a, b := open(t, path, nil, note), open(t, link, nil, note)
	if a.path != b.path {
		t.Errorf("paths %s and %s", a.path, b.path)
	}
}

func TestOddPaths(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"a b.db", "50%.db", "q?mode=ro.db", "#1.db", "ü;'\".db", "%3f.db"} {
		path := filepath.Join(t.TempDir(), name)
		db := open(t, path, nil, note)
		if _, err := add(db, name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
		if st, err := os.Stat(path); err != nil || st.Size() == 0 {
			t.Errorf("%q: the home is elsewhere: %v", name, err)
		}
	}
}
