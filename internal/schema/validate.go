package schema

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Fault is one thing that is wrong with a document.
type Fault struct {
	Path    string // lines[2].amount; empty for the document itself
	Problem string
}

func (f Fault) String() string {
	if f.Path == "" {
		return f.Problem
	}
	return f.Path + ": " + f.Problem
}

// maxFaults bounds the report on one document.
const maxFaults = 50

// Schema is a parsed schema, safe for concurrent use. A nil Schema accepts every document.
type Schema struct{ root *rules }

// rules is the subset of JSON Schema that Of writes.
type rules struct {
	Type       typeList          `json:"type"`
	Properties map[string]*rules `json:"properties"`
	Required   []string          `json:"required"`
	Rest       *rules            `json:"additionalProperties"`
	Items      *rules            `json:"items"`
	MinItems   int               `json:"minItems"`
	MaxItems   *int              `json:"maxItems"`
	AnyOf      []*rules          `json:"anyOf"`
	Ref        string            `json:"$ref"`
	Defs       map[string]*rules `json:"$defs"`

	never bool // the schema false
}

type typeList []string

// UnmarshalJSON takes one type or a list of them.
func (l *typeList) UnmarshalJSON(doc []byte) error {
	if doc[0] == '[' {
		return json.Unmarshal(doc, (*[]string)(l))
	}
	*l = typeList{""}
	return json.Unmarshal(doc, &(*l)[0])
}

// UnmarshalJSON takes an object or a boolean schema.
func (r *rules) UnmarshalJSON(doc []byte) error {
	if doc[0] != '{' {
		var all bool
		err := json.Unmarshal(doc, &all)
		r.never = !all
		return err
	}
	type plain rules
	return json.Unmarshal(doc, (*plain)(r))
}

// Parse reads a schema. Keywords outside the subset that Of writes are ignored.
func Parse(schema []byte) (*Schema, error) {
	s := &Schema{root: &rules{}}
	if err := json.Unmarshal(schema, s.root); err != nil {
		return nil, fmt.Errorf("unreadable schema: %w", err)
	}
	return s, s.root.resolve(s.root.Defs)
}

// Compile returns the parsed schema of a type.
func Compile(t reflect.Type) (*Schema, error) {
	doc, err := Of(t)
	if err != nil {
		return nil, err
	}
	return Parse(doc)
}

// resolve checks that every reference has its definition.
func (r *rules) resolve(defs map[string]*rules) error {
	if r == nil {
		return nil
	}
	if r.Ref != "" && defs[strings.TrimPrefix(r.Ref, "#/$defs/")] == nil {
		return fmt.Errorf("unreadable schema: nothing at %q", r.Ref)
	}
	parts := append([]*rules{r.Rest, r.Items}, r.AnyOf...)
	for _, p := range r.Properties {
		parts = append(parts, p)
	}
	for _, p := range r.Defs {
		parts = append(parts, p)
	}
	for _, p := range parts {
		if err := p.resolve(defs); err != nil {
			return err
		}
	}
	return nil
}

// Validate checks a document against a schema that Of wrote: see Schema.Validate. A schema that cannot be read is a
// fault too.
func Validate(schema, doc []byte) []Fault {
	s, err := Parse(schema)
	if err != nil {
		return []Fault{{Problem: err.Error()}}
	}
	return s.Validate(doc)
}

// Validate returns what is wrong with a document, in its order: not JSON, trailing data, a wrong type, an unknown, a
// missing or a doubled field. It stops after fifty faults.
func (s *Schema) Validate(doc []byte) []Fault {
	if s == nil {
		return nil
	}
	if err := wellFormed(doc); err != nil {
		return []Fault{{Problem: err.Error()}}
	}
	v := &validator{scanner: scanner{doc: doc}, defs: s.root.Defs}
	v.value(s.root)
	return v.faults
}

type validator struct {
	scanner
	defs   map[string]*rules
	path   []step
	faults []Fault
}

// step leads into an object by name or into an array by place.
type step struct {
	name string
	i    int // -1 for a name
}

func (v *validator) fault(format string, args ...any) {
	if len(v.faults) >= maxFaults {
		return
	}
	var b strings.Builder
	for i, s := range v.path {
		switch {
		case s.i >= 0:
			b.WriteString("[" + strconv.Itoa(s.i) + "]")
		case i > 0:
			b.WriteString("." + s.name)
		default:
			b.WriteString(s.name)
		}
	}
	v.faults = append(v.faults, Fault{b.String(), fmt.Sprintf(format, args...)})
}

// value checks the value at the cursor and moves behind it. No rules: anything, but no member may stand twice.
func (v *validator) value(r *rules) {
	if r != nil && r.Ref != "" {
		r = v.defs[strings.TrimPrefix(r.Ref, "#/$defs/")]
	}
	if r != nil && len(r.AnyOf) > 0 {
		v.anyOf(r.AnyOf)
		return
	}
	kind := v.kind()
	if r != nil && !r.accepts(kind) {
		if r.never {
			v.fault("is not allowed")
		} else {
			v.fault("is %s, want %s", article(kind), article(r.Type[0]))
		}
		r = nil
	}
	switch kind {
	case "object":
		v.object(r)
	case "array":
		v.array(r)
	default:
		v.skip()
	}
}

func (r *rules) accepts(kind string) bool {
	if r.never {
		return false
	}
	return len(r.Type) == 0 || slices.Contains(r.Type, kind) || kind == "integer" && slices.Contains(r.Type, "number")
}

// anyOf takes the first alternative that fits, or reports what the first one finds.
func (v *validator) anyOf(list []*rules) {
	start, before := v.pos, v.faults
	var first []Fault
	for i, r := range list {
		v.pos, v.faults = start, before[:len(before):len(before)]
		v.value(r)
		if len(v.faults) == len(before) {
			return
		}
		if i == 0 {
			first = v.faults
		}
	}
	v.faults = first
}

func (v *validator) object(r *rules) {
	seen := map[string]bool{}
	v.members(func(name string) {
		v.path = append(v.path, step{name, -1})
		defer func() { v.path = v.path[:len(v.path)-1] }()
		if seen[name] {
			v.fault("stands twice")
		}
		seen[name] = true
		inner := r.member(name)
		if inner != nil && inner.never {
			v.fault("unknown field")
			inner = nil
		}
		v.value(inner)
	})
	if r == nil {
		return
	}
	for _, name := range r.Required {
		if !seen[name] {
			v.path = append(v.path, step{name, -1})
			v.fault("missing field")
			v.path = v.path[:len(v.path)-1]
		}
	}
}

// member returns the rules of one field, nil for anything.
func (r *rules) member(name string) *rules {
	if r == nil {
		return nil
	}
	if p, ok := r.Properties[name]; ok {
		return p
	}
	return r.Rest
}

func (v *validator) array(r *rules) {
	n := 0
	var items *rules
	if r != nil {
		items = r.Items
	}
	v.elements(func() {
		v.path = append(v.path, step{"", n})
		v.value(items)
		v.path = v.path[:len(v.path)-1]
		n++
	})
	if r != nil && (n < r.MinItems || r.MaxItems != nil && n > *r.MaxItems) {
		v.fault("has %d items, want %d", n, r.MinItems)
	}
}

func article(kind string) string {
	switch kind {
	case "null":
		return kind
	case "integer", "object", "array":
		return "an " + kind
	}
	return "a " + kind
}
