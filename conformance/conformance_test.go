package conformance

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/memdb"
	"github.com/pawl-dev/pawl/sqlite"
	"github.com/pawl-dev/pawl/storage"
)

// TestScenarios runs every committed scenario on Pawl and compares its trace with LangGraph's, or, where Pawl differs on
// purpose, with the one that is written down for Pawl, which must then be another one.
func TestScenarios(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("scenarios/*.json")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		all, err := ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		recorded := traces(t, filepath.Join("traces", filepath.Base(file)))
		own := traces(t, filepath.Join("differing", filepath.Base(file)))
		for _, s := range all {
			t.Run(s.ID, func(t *testing.T) {
				t.Parallel()
				want, differs := recorded[s.ID], own[s.ID]
				if want == nil && s.Excluded == "" {
					t.Fatal("LangGraph's trace is not recorded: make conformance-record")
				}
				if s.Differs != "" {
					if differs == nil || want != nil && differs.Text() == want.Text() {
						t.Fatalf("it is said to differ (%s), and no trace that does is written down", s.Differs)
					}
					want = differs
				}
				onEach(t, func(t *testing.T, db storage.DB) {
					got, err := Run(t.Context(), db, s)
					if err != nil {
						t.Fatal(err)
					}
					if got.Text() != want.Text() {
						t.Errorf("Pawl's trace is\n%s\nand should be\n%s", got.Text(), want.Text())
					}
				})
			})
		}
	}
}

func traces(t *testing.T, path string) map[string]*Trace {
	t.Helper()
	doc, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return nil
	}
	var out map[string]*Trace
	if err == nil {
		err = json.Unmarshal(doc, &out)
	}
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return out
}

func onEach(t *testing.T, run func(t *testing.T, db storage.DB)) {
	t.Run("memory", func(t *testing.T) {
		db, err := memdb.Open(pawl.Kinds()...)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		run(t, db)
	})
	t.Run("sqlite", func(t *testing.T) {
		db, err := sqlite.Open(filepath.Join(t.TempDir(), "pawl.db"), pawl.Kinds()...)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		run(t, db)
	})
}

// Random graphs are always the same from the same seed, and Pawl brings each of them to its end.
func TestGenerate(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		s := Generate(seed)
		if again := Generate(seed); must(json.Marshal(s)) != must(json.Marshal(again)) {
			t.Fatalf("seed %d gives two scenarios", seed)
		}
		db, err := memdb.Open(pawl.Kinds()...)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Run(t.Context(), db, s); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
		db.Close()
	}
}

func must(doc []byte, err error) string {
	if err != nil {
		panic(err)
	}
	return string(doc)
}
