package conformance

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
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
				sameShown(t, c, got.Shown)
			})
		})
	}
}

// sameShown compares what the streams of each act showed.
func sameShown(t *testing.T, c *Case, got []Shown) {
	t.Helper()
	want, compared := c.WantShown()
	if !compared {
		return
	}
	if c.Streams != "" {
		if text(got) == text(want) {
			t.Errorf("its streams are said to differ (%s), and do not", c.Streams)
		}
		got, want = withoutUpdates(got), withoutUpdates(want)
	}
	if len(got) != len(want) {
		t.Fatalf("%d acts were streamed, and %d recorded", len(got), len(want))
	}
	for i := range got {
		if text(got[i]) != text(want[i]) {
			t.Errorf("act %d: Pawl's streams show\n%s\nand should show\n%s", i+1, text(got[i]), text(want[i]))
		}
	}
}

func withoutUpdates(all []Shown) []Shown {
	out := make([]Shown, len(all))
	for i, shown := range all {
		out[i] = slices.Clone(shown)
		for k := range out[i] {
			out[i][k].Updates = nil
		}
	}
	return out
}

// Where streams differ on purpose the page for people who know LangGraph says why.
func TestStreamsThatDifferAreDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/langgraph.md")
	if err != nil {
		t.Fatal(err)
	}
	all, err := Load(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		if c.Streams != "" && !strings.Contains(string(page), c.Streams) {
			t.Errorf("%s: docs/langgraph.md does not say that %s", c.ID, c.Streams)
		}
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
