package conformance

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
)

// Recorded is a line of record/record.py.
type Recorded struct {
	ID    string `json:"id"`
	Trace *Trace `json:"trace"`
	Error string `json:"error,omitempty"`
}

// ReadRecorded reads lines of record/record.py by scenario. A line with an error is one.
func ReadRecorded(r io.Reader) (map[string]*Trace, error) {
	out := map[string]*Trace{}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var rec Recorded
		d := json.NewDecoder(bytes.NewReader(lines.Bytes()))
		d.DisallowUnknownFields()
		if err := d.Decode(&rec); err != nil {
			return nil, fmt.Errorf("conformance: a trace cannot be read: %w", err)
		}
		if rec.Error != "" {
			return nil, fmt.Errorf("conformance: scenario %s: %s", rec.ID, rec.Error)
		}
		out[rec.ID] = rec.Trace
	}
	return out, lines.Err()
}

// Comparable is a trace without what is settled to differ: Pawl enters a node again only when all its questions are
// answered, LangGraph after each answer, so the entries of nodes that ask count in scenarios of their own and not in
// random ones.
func (s *Scenario) Comparable(t *Trace) *Trace {
	out := *t
	out.Entries = map[string]int{}
	for _, n := range s.Nodes {
		asks := false
		for _, l := range n.Do {
			asks = asks || l.Ask != ""
		}
		if !asks {
			out.Entries[n.Name] = t.Entries[n.Name]
		}
	}
	return &out
}

// Text is a trace as indented JSON: equal traces have equal texts.
func (t *Trace) Text() string {
	doc, err := json.MarshalIndent(t, "", "  ")
	if err != nil {
		panic(err) // it is made of texts and numbers
	}
	return string(doc) + "\n"
}

// WriteTraces is a file of traces by scenario.
func WriteTraces(traces map[string]*Trace) []byte {
	doc, err := json.MarshalIndent(traces, "", " ")
	if err != nil {
		panic(err) // it is made of texts and numbers
	}
	return append(doc, '\n')
}
