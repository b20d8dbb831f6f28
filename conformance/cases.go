package conformance

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Case is a committed scenario and what is written down of it.
type Case struct {
	*Scenario
	Area      string
	LangGraph *Trace // recorded; nil where it is excluded
	Own       *Trace // Pawl's, where it differs on purpose
}

// Load reads every case of a home: the folder with scenarios, traces, streams and differing.
func Load(home string) ([]*Case, error) {
	files, err := filepath.Glob(filepath.Join(home, "scenarios", "*.json"))
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("conformance: no scenarios in %s", home)
	}
	var out []*Case
	for _, file := range files {
		all, err := ReadFile(file)
		if err != nil {
			return nil, err
		}
		var recorded, own map[string]*Trace
		if err := readTraces(filepath.Join(home, "traces", filepath.Base(file)), &recorded); err != nil {
			return nil, err
		}
		if err := readTraces(filepath.Join(home, "differing", filepath.Base(file)), &own); err != nil {
			return nil, err
		}
		shown := map[string][]Shown{}
		if err := readTraces(filepath.Join(home, "streams", filepath.Base(file)), &shown); err != nil {
			return nil, err
		}
		for _, s := range all {
			if t := recorded[s.ID]; t != nil {
				t.Shown = shown[s.ID]
			}
			out = append(out, &Case{s, filepath.Base(file), recorded[s.ID], own[s.ID]})
		}
	}
	return out, err
}

func readTraces(path string, out any) error {
	doc, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(doc, out)
	}
	if err != nil {
		return fmt.Errorf("conformance: %s: %w", path, err)
	}
	return nil
}

// Want is the trace that Pawl has to leave: LangGraph's, or the one written down for Pawl, which then must be another one.
func (c *Case) Want() (*Trace, error) {
	switch {
	case c.LangGraph == nil && c.Excluded == "":
		return nil, errors.New("LangGraph's trace is not recorded: make conformance-record")
	case c.Differs == "" && c.Own != nil:
		return nil, errors.New("a trace of its own is written down for Pawl, and not why")
	case c.Differs == "":
		return c.LangGraph, nil
	case c.Own == nil || c.LangGraph != nil && c.Own.Text() == c.LangGraph.Text():
		return nil, fmt.Errorf("it is said to differ (%s), and no trace that does is written down", c.Differs)
	}
	return c.Own, nil
}

// WantShown is what Pawl's streams have to show; compared is false where another trace shows something else, too.
func (c *Case) WantShown() (want []Shown, compared bool) {
	if c.LangGraph == nil || c.LangGraph.Refused || c.Differs != "" {
		return nil, false
	}
	return c.LangGraph.Shown, true
}
