package approval

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Change is one difference between two JSON documents.
type Change struct {
	Path   string          `json:"path"`             // a JSON pointer: /lines/0/amount; empty: the whole document
	Old    json.RawMessage `json:"old,omitempty"`    // absent: it was not there
	New    json.RawMessage `json:"new,omitempty"`    // absent: it is not there any more
	Hidden bool            `json:"hidden,omitempty"` // it differs, and nobody may see how
}

// Diff says what differs, in the order of the paths. Values keep their types and the digits of their numbers. Arrays of
// different lengths differ as a whole.
func Diff(old, new json.RawMessage) ([]Change, error) {
	a, err := parsed(old)
	if err != nil {
		return nil, err
	}
	b, err := parsed(new)
	if err != nil {
		return nil, err
	}
	var out []Change
	err = diff("", a, b, &out)
	return out, err
}

// absent stands for what is not there.
type absent struct{}

func diff(path string, a, b any, out *[]Change) error {
	switch x := a.(type) {
	case map[string]any:
		if y, ok := b.(map[string]any); ok {
			names := maps.Clone(x)
			maps.Copy(names, y)
			for _, name := range slices.Sorted(maps.Keys(names)) {
				if err := diff(path+"/"+escape(name), member(x, name), member(y, name), out); err != nil {
					return err
				}
			}
			return nil
		}
	case []any:
		if y, ok := b.([]any); ok && len(x) == len(y) {
			for i := range x {
				if err := diff(path+"/"+strconv.Itoa(i), x[i], y[i], out); err != nil {
					return err
				}
			}
			return nil
		}
	}
	if reflect.DeepEqual(a, b) {
		return nil
	}
	c := Change{Path: path}
	var err error
	if c.Old, err = raw(a); err == nil {
		c.New, err = raw(b)
	}
	*out = append(*out, c)
	return err
}

func member(m map[string]any, name string) any {
	if v, ok := m[name]; ok {
		return v
	}
	return absent{}
}

func raw(v any) (json.RawMessage, error) {
	if v == (absent{}) {
		return nil, nil
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimRight(b.Bytes(), "\n"), err
}

// Apply makes the changes in a document: New is put at Path, or what is there is removed where New is absent. Old is not
// looked at. The parent of a path must be there.
func Apply(doc json.RawMessage, changes []Change) (json.RawMessage, error) {
	v, err := parsed(doc)
	if err != nil {
		return nil, err
	}
	for _, c := range changes {
		var to any = absent{}
		if len(c.New) > 0 {
			if to, err = parsed(c.New); err != nil {
				return nil, fmt.Errorf("%s: %w", c.Path, err)
			}
		}
		steps, err := steps(c.Path)
		if err != nil {
			return nil, err
		}
		if v, err = set(v, steps, to); err != nil {
			return nil, fmt.Errorf("%s: %w", c.Path, err)
		}
	}
	return raw(v)
}

func set(v any, at []string, to any) (any, error) {
	if len(at) == 0 {
		if to == (absent{}) {
			return nil, fmt.Errorf("the whole document cannot be removed")
		}
		return to, nil
	}
	switch v := v.(type) {
	case map[string]any:
		child := member(v, at[0])
		if child == (absent{}) && len(at) > 1 {
			return nil, fmt.Errorf("there is no %q", at[0])
		}
		if len(at) == 1 && to == (absent{}) {
			delete(v, at[0])
			return v, nil
		}
		next, err := set(child, at[1:], to)
		v[at[0]] = next
		return v, err
	case []any:
		i, err := strconv.Atoi(at[0])
		if err != nil || i < 0 || i >= len(v) || strconv.Itoa(i) != at[0] {
			return nil, fmt.Errorf("there is no element %q", at[0])
		}
		if len(at) == 1 && to == (absent{}) {
			return nil, fmt.Errorf("an element cannot be removed; give the whole array")
		}
		v[i], err = set(v[i], at[1:], to)
		return v, err
	}
	return nil, fmt.Errorf("there is nothing below it")
}

func steps(path string) ([]string, error) {
	if path == "" {
		return nil, nil
	}
	if path[0] != '/' {
		return nil, fmt.Errorf("%q is no JSON pointer; write /amount", path)
	}
	out := strings.Split(path[1:], "/")
	for i := range out {
		out[i] = strings.ReplaceAll(strings.ReplaceAll(out[i], "~1", "/"), "~0", "~")
	}
	return out, nil
}

func escape(name string) string {
	return strings.ReplaceAll(strings.ReplaceAll(name, "~", "~0"), "/", "~1")
}

// parsed reads one JSON document, numbers as they are written.
func parsed(doc []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(doc))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("it is no JSON: %w", err)
	}
	if d.More() {
		return nil, fmt.Errorf("it is more than one JSON document")
	}
	return v, nil
}
