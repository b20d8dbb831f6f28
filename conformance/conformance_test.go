package conformance

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/memdb"
	"github.com/pawl-dev/pawl/sqlite"
	"github.com/pawl-dev/pawl/storage"
)

// TestScenarios runs every committed scenario on Pawl and compares its trace with LangGraph's, or, where Pawl differs on
// purpose, with the one that is written down for Pawl.
func TestScenarios(t *testing.T) {
	t.Parallel()
	all, err := Load(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		t.Run(c.ID, func(t *testing.T) {
			t.Parallel()
			want, err := c.Want()
			if err != nil {
				t.Fatal(err)
			}
			onEach(t, func(t *testing.T, db storage.DB) {
				got, err := Run(t.Context(), db, c.Scenario)
				if err != nil {
					t.Fatal(err)
				}
				if c.Text(got) != c.Text(want) {
					t.Errorf("Pawl's trace is\n%s\nand should be\n%s", c.Text(got), c.Text(want))
				}
			})
		})
	}
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
