package suite

import (
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/conformance"
)

// TestBehaviours holds the behaviours of LangGraph that its own tests fix, one row each; a range of rows is one subtest.
// A row is proved by the scenarios of package conformance under its id, recorded on LangGraph, by a test here, or by
// both. Where it has neither it waits, or is foreign to Go, and never counts as passed. A row whose line asks for more
// than LangGraph does ("strict:") is as the list expects when that is shown.
func TestBehaviours(t *testing.T) {
	cases, err := conformance.Load("../../conformance")
	if err != nil {
		t.Fatal(err)
	}
	byRow := map[string][]*conformance.Case{}
	for _, c := range cases {
		row := rowOf.FindString(c.ID)
		if strings.HasPrefix(c.ID, "OWN-") { // of no row: what Pawl does on purpose beside them
			continue
		}
		byRow[row] = append(byRow[row], c)
	}
	var all []scenario
	for _, s := range behaviours() {
		if s.strict && s.differs != "" {
			t.Errorf("%s: it is stricter, as its line asks, or it differs", s.id)
		}
		if own := byRow[s.id]; own != nil {
			s = recorded(s, own)
		} else if s.run == nil && s.waits == "" && s.foreign == "" {
			t.Errorf("%s: nothing proves it, and nothing says why", s.id)
		}
		delete(byRow, s.id)
		all = append(all, s)
	}
	if len(byRow) > 0 {
		t.Errorf("scenarios of no row: %v", slices.Sorted(maps.Keys(byRow)))
	}
	t.Run("documented", func(t *testing.T) { differencesAreListed(t, all) })
	t.Run("rows", func(t *testing.T) { runBehaviours(t, all) })
}

// differencesAreListed holds the table of rows in docs/langgraph.md: those that differ on purpose, and no others.
func differencesAreListed(t *testing.T, all []scenario) {
	var differ []string
	for _, s := range all {
		if s.differs != "" && !s.strict {
			differ = append(differ, s.id)
		}
	}
	slices.Sort(differ)
	var listed []string
	for line := range strings.Lines(contents(t, filepath.Join(repository, "docs", "langgraph.md"))) {
		if cell, _, _ := strings.Cut(strings.TrimPrefix(line, "| "), " |"); rowOf.MatchString(cell) {
			listed = append(listed, strings.Split(cell, ", ")...)
		}
	}
	slices.Sort(listed)
	same(t, "rows that differ", strings.Join(listed, " "), strings.Join(differ, " "))
}

var rowOf = regexp.MustCompile(`^[A-Z]+-\d+`)

func runBehaviours(t *testing.T, all []scenario) {
	r := runAll(t, "behaviours", all)
	t.Cleanup(func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		waits := map[string][]string{}
		for _, w := range r.waits {
			id, why, _ := strings.Cut(w, ": ")
			waits[why] = append(waits[why], id)
		}
		differ := printRows("differs on purpose", r.differs)
		foreign, waiting := printRows("not applicable to Go", r.foreign), printRows("waiting", waits)
		slices.Sort(r.strict)
		fmt.Printf("stricter than LangGraph, as the list asks: %s\n", strings.Join(r.strict, " "))
		fmt.Printf("behaviours: %d rows: %d as the list expects (%d of them stricter than LangGraph, as the list asks), "+
			"%d differ on purpose, %d not applicable to Go, %d waiting, %d failed\n",
			len(all), len(r.passed)-differ, len(r.strict), differ, foreign, waiting, len(r.failed))
	})
}

// printRows prints rows by their reason, and returns how many they are.
func printRows(what string, rows map[string][]string) (n int) {
	for _, why := range slices.Sorted(maps.Keys(rows)) {
		slices.Sort(rows[why])
		fmt.Printf("%s: %s: %s\n", what, strings.Join(rows[why], " "), why)
		n += len(rows[why])
	}
	return n
}

// recorded is a row with its scenarios, and its test if it has one.
func recorded(s scenario, cases []*conformance.Case) scenario {
	test := s.run
	for _, c := range cases {
		if c.Differs != "" && s.differs == "" && !s.strict {
			s.differs = c.Differs
		}
	}
	s.run = func(t *testing.T, r *report) {
		for _, c := range cases {
			t.Run(c.ID, func(t *testing.T) { onEach(t, func(t *testing.T, h *home) { asRecorded(t, h, c) }) })
		}
		if test != nil {
			test(t, r)
		}
	}
	return s
}

func asRecorded(t *testing.T, h *home, c *conformance.Case) {
	want, err := c.Want()
	if err != nil {
		t.Fatal(err)
	}
	got, err := conformance.Run(t.Context(), h.open(t), c.Scenario)
	if err != nil {
		t.Fatal(err)
	}
	same(t, c.ID, c.Text(got), c.Text(want))
}
