package core

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
)

// DocumentDifference finds the first place where two JSON documents differ: a path for people, and both values there.
func DocumentDifference(a, b []byte) (path, was, is string) {
	decode := func(doc []byte) any {
		d := json.NewDecoder(bytes.NewReader(doc))
		d.UseNumber()
		var v any
		if d.Decode(&v) != nil {
			return string(doc)
		}
		return v
	}
	path, was, is, _ = differ("$", decode(a), decode(b))
	return path, was, is
}

func differ(at string, a, b any) (path, was, is string, found bool) {
	if x, ok := a.(map[string]any); ok {
		if y, ok := b.(map[string]any); ok {
			return differKeys(at, x, y)
		}
	}
	if x, ok := a.([]any); ok {
		if y, ok := b.([]any); ok {
			for i := range max(len(x), len(y)) {
				if path, was, is, found = differ(at+"["+strconv.Itoa(i)+"]", item(x, i), item(y, i)); found {
					return path, was, is, true
				}
			}
			return "", "", "", false
		}
	}
	if was, is = show(a), show(b); was != is {
		return at, was, is, true
	}
	return "", "", "", false
}

func differKeys(at string, x, y map[string]any) (path, was, is string, found bool) {
	var keys []string
	for k := range x {
		keys = append(keys, k)
	}
	for k := range y {
		if _, ok := x[k]; !ok {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	for _, k := range keys {
		a, inA := x[k]
		b, inB := y[k]
		if inA != inB {
			return at + "." + k, presence(a, inA), presence(b, inB), true
		}
		if path, was, is, found = differ(at+"."+k, a, b); found {
			return path, was, is, true
		}
	}
	return "", "", "", false
}

func presence(v any, there bool) string {
	if !there {
		return "absent"
	}
	return show(v)
}

func item(list []any, i int) any {
	if i < len(list) {
		return list[i]
	}
	return missing{}
}

type missing struct{}

func (missing) MarshalJSON() ([]byte, error) { return []byte(`"absent"`), nil }

func show(v any) string {
	doc, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(doc)
}
