package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// Member is one field of a JSON object, its value as it stands.
type Member struct {
	Name  string
	Value json.RawMessage
}

// Members splits a JSON object into its fields, in order. Trailing data and a field that stands twice are errors.
func Members(doc []byte) ([]Member, error) {
	if err := wellFormed(doc); err != nil {
		return nil, err
	}
	s := &scanner{doc: doc}
	if kind := s.kind(); kind != "object" {
		return nil, fmt.Errorf("is %s, want an object", article(kind))
	}
	var out []Member
	var errs []error
	seen := map[string]bool{}
	s.members(func(name string) {
		if seen[name] {
			errs = append(errs, fmt.Errorf("field %q stands twice", name))
		}
		seen[name] = true
		s.space()
		start := s.pos
		s.skip()
		out = append(out, Member{name, doc[start:s.pos]})
	})
	return out, errors.Join(errs...)
}

func wellFormed(doc []byte) error {
	if json.Valid(doc) {
		return nil
	}
	if len(bytes.TrimSpace(doc)) == 0 {
		return errors.New("is empty, want JSON")
	}
	var sink json.RawMessage
	return fmt.Errorf("is not JSON: %w", json.Unmarshal(doc, &sink))
}

// scanner walks a document that is known to be well formed.
type scanner struct {
	doc []byte
	pos int
}

func (s *scanner) space() {
	for s.pos < len(s.doc) {
		switch s.doc[s.pos] {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return
		}
	}
}

// kind names the JSON type of the value at the cursor. A number without fraction and exponent is an integer, as Go
// reads it.
func (s *scanner) kind() string {
	s.space()
	switch s.doc[s.pos] {
	case '{':
		return "object"
	case '[':
		return "array"
	case '"':
		return "string"
	case 't', 'f':
		return "boolean"
	case 'n':
		return "null"
	}
	if bytes.ContainsAny(s.doc[s.pos:s.scalarEnd()], ".eE") {
		return "number"
	}
	return "integer"
}

func (s *scanner) scalarEnd() int {
	for i := s.pos; i < len(s.doc); i++ {
		switch s.doc[i] {
		case ',', '}', ']', ' ', '\t', '\n', '\r':
			return i
		}
	}
	return len(s.doc)
}

// skip moves behind the value at the cursor.
func (s *scanner) skip() {
	switch s.kind() {
	case "object":
		s.members(func(string) { s.skip() })
	case "array":
		s.elements(s.skip)
	case "string":
		s.text()
	default:
		s.pos = s.scalarEnd()
	}
}

// text moves behind the string at the cursor and returns it as it stands, quotes included.
func (s *scanner) text() []byte {
	start := s.pos
	for s.pos++; s.doc[s.pos] != '"'; s.pos++ {
		if s.doc[s.pos] == '\\' {
			s.pos++
		}
	}
	s.pos++
	return s.doc[start:s.pos]
}

// members calls f for each field of the object at the cursor; f moves behind the value.
func (s *scanner) members(f func(name string)) {
	s.list('}', func() {
		raw := s.text()
		name := string(raw[1 : len(raw)-1])
		if bytes.IndexByte(raw, '\\') >= 0 {
			_ = json.Unmarshal(raw, &name) // well formed
		}
		s.space()
		s.pos++ // the colon
		f(name)
	})
}

// elements calls f for each item of the array at the cursor; f moves behind it.
func (s *scanner) elements(f func()) { s.list(']', f) }

func (s *scanner) list(end byte, f func()) {
	for s.pos++; ; {
		s.space()
		switch s.doc[s.pos] {
		case end:
			s.pos++
			return
		case ',':
			s.pos++
			s.space()
		}
		f()
	}
}
