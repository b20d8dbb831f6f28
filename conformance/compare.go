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
	ID    string  `json:"id"`
	Trace *Trace  `json:"trace"`
	Shown []Shown `json:"shown"`
	Error string  `json:"error,omitempty"`
}

// ReadRecorded reads lines of record/record.py by scenario. A trace is nil where LangGraph does not agree with itself;
// why is in unsteady.
func ReadRecorded(r io.Reader) (out map[string]*Trace, unsteady map[string]string, err error) {
	out, unsteady = map[string]*Trace{}, map[string]string{}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var rec Recorded
		d := json.NewDecoder(bytes.NewReader(lines.Bytes()))
		d.DisallowUnknownFields()
		if err := d.Decode(&rec); err != nil {
			return nil, nil, fmt.Errorf("conformance: a trace cannot be read: %w", err)
		}
		if rec.Trace != nil {
			rec.Trace.Shown = rec.Shown
		}
		if out[rec.ID] = rec.Trace; rec.Error != "" {
			unsteady[rec.ID] = rec.Error
		}
	}
	return out, unsteady, lines.Err()
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

// Text is what is compared of a trace.
func (c *Case) Text(t *Trace) string {
	if c.Uncounted != "" {
		t = c.Comparable(t)
	}
	return t.Text()
}

// Text is a trace as indented JSON: equal traces have equal texts.
func (t *Trace) Text() string {
	doc, err := json.MarshalIndent(t, "", "  ")
	if err != nil {
		panic(err) // it is made of texts and numbers
	}
	return string(doc) + "\n"
}

// ShownText is what streams showed: equal ones have equal texts.
func ShownText(t *Trace) string { return text(t.Shown) }

// WriteTraces is a file of traces by scenario.
func WriteTraces(traces map[string]*Trace) []byte { return written(traces) }

// WriteStreams is a file of what streams showed, by scenario.
func WriteStreams(traces map[string]*Trace) []byte {
	out := map[string][]Shown{}
	for id, t := range traces {
		if len(t.Shown) > 0 {
			out[id] = t.Shown
		}
	}
	return written(out)
}

func written(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetIndent("", " ")
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err) // it is made of texts and numbers
	}
	return b.Bytes()
}
