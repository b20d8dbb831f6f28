package storage

import (
	"fmt"
	"regexp"
)

// Type is the type of a key or field.
type Type int

const (
	// Int is an int64.
	Int Type = iota + 1
	// Text is a string: any bytes of valid UTF-8, NUL included. Compared byte by byte.
	Text
	// Bytes is a []byte. Compared byte by byte.
	Bytes
)

// Field is one column of a kind. Every value must be of its type: int64, string or []byte; nil is stored as the
// type's zero value.
type Field struct {
	Name string
	Type Type
}

// Index orders the rows of a kind by fields (key or plain) and then by key.
type Index struct {
	Name   string
	Fields []string
	Unique bool
}

// Kind declares one sort of row. It is data: the package that owns a kind declares it, Open is given it, drivers make
// a real table with real columns of it, and no driver changes when a kind is added.
//
// A key of one Int is the cheapest: it is the table's own order. Fields may be added to a kind later, at the end; old
// rows then hold zero values. Nothing else about a kind may change, and Open refuses it.
type Kind struct {
	Name    string // a lower-case word
	Key     []Field
	Fields  []Field
	Indexes []Index
	Revised bool // rows carry a revision, 1 at first, raised by every Put
}

// Row is one row. Key and Fields are in the kind's order.
type Row struct {
	Key    []any
	Fields []any
	Rev    int64 // as read; 0 for kinds that are not Revised. Ignored by Put.
	Body   []byte
}

// Range is a set of keys: all that start with Prefix, and, in the key column after the prefix, From <= value < To.
// A nil bound is open.
type Range struct {
	Prefix   []any
	From, To any
}

// Query asks for rows of one kind.
type Query struct {
	// Index names the order and the columns that Prefix, From and To speak of; empty: the key.
	Index string
	Range Range
	// Desc reverses the order.
	Desc bool
	// Limit bounds the rows; 0: no bound.
	Limit int
	// NoBody leaves bodies out.
	NoBody bool
}

var kindName = regexp.MustCompile(`^[a-z][a-z0-9_]{0,40}$`)

// Check says what is wrong with a kind's declaration, or nil.
func (k Kind) Check() error {
	if !kindName.MatchString(k.Name) {
		return fmt.Errorf("storage: kind %q: a name is a lower-case word", k.Name)
	}
	if len(k.Key) == 0 {
		return fmt.Errorf("storage: kind %q has no key", k.Name)
	}
	seen := map[string]bool{"body": true, "rev": true}
	for _, f := range append(append([]Field{}, k.Key...), k.Fields...) {
		if !kindName.MatchString(f.Name) || seen[f.Name] {
			return fmt.Errorf("storage: kind %q: field name %q is taken or not a lower-case word", k.Name, f.Name)
		}
		if f.Type < Int || f.Type > Bytes {
			return fmt.Errorf("storage: kind %q: field %q has no type", k.Name, f.Name)
		}
		seen[f.Name] = true
	}
	for _, ix := range k.Indexes {
		if !kindName.MatchString(ix.Name) || len(ix.Fields) == 0 {
			return fmt.Errorf("storage: kind %q: index %q needs a name and fields", k.Name, ix.Name)
		}
		for _, f := range ix.Fields {
			if _, ok := k.Column(f); !ok {
				return fmt.Errorf("storage: kind %q: index %q names the unknown field %q", k.Name, ix.Name, f)
			}
		}
	}
	return nil
}

// Column finds a key or plain field by name.
func (k Kind) Column(name string) (Field, bool) {
	for _, f := range k.Key {
		if f.Name == name {
			return f, true
		}
	}
	for _, f := range k.Fields {
		if f.Name == name {
			return f, true
		}
	}
	return Field{}, false
}

// Order returns the columns by which an index (or, for "", the key) orders rows, ties included.
func (k Kind) Order(index string) ([]Field, error) {
	if index == "" {
		return k.Key, nil
	}
	for _, ix := range k.Indexes {
		if ix.Name != index {
			continue
		}
		var out []Field
		used := map[string]bool{}
		for _, n := range ix.Fields {
			f, _ := k.Column(n)
			out, used[n] = append(out, f), true
		}
		for _, f := range k.Key {
			if !used[f.Name] {
				out = append(out, f)
			}
		}
		return out, nil
	}
	return nil, fmt.Errorf("storage: kind %q has no index %q", k.Name, index)
}

// CheckRow says whether a row fits the kind: the number and types of key and fields, and the size of the body.
func (k Kind) CheckRow(r Row) error {
	if len(r.Body) > MaxValue {
		return &TooLargeError{Kind: k.Name, Size: len(r.Body)}
	}
	if err := fits(k.Name, "key", k.Key, r.Key); err != nil {
		return err
	}
	return fits(k.Name, "fields", k.Fields, r.Fields)
}

func fits(kind, what string, want []Field, have []any) error {
	if len(want) != len(have) {
		return fmt.Errorf("storage: kind %q: %s: want %d values, have %d", kind, what, len(want), len(have))
	}
	for i, v := range have {
		if err := want[i].check(kind, v); err != nil {
			return err
		}
	}
	return nil
}

func (f Field) check(kind string, v any) error {
	ok := v == nil
	switch v.(type) {
	case int64:
		ok = f.Type == Int
	case string:
		ok = f.Type == Text
	case []byte:
		ok = f.Type == Bytes
	}
	if !ok {
		return fmt.Errorf("storage: kind %q: %q cannot hold a %T", kind, f.Name, v)
	}
	return nil
}
