package schema

import (
	"cmp"
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Marshal writes a value as encoding/json does, and says of one that cannot be written where in it the fault is.
func Marshal(v any) ([]byte, error) {
	doc, err := json.Marshal(v)
	if err != nil {
		if at := strings.TrimPrefix(misfit(reflect.ValueOf(v), 0), "."); at != "" {
			err = fmt.Errorf("at %s: %w", at, err)
		}
		return nil, err
	}
	return doc, nil
}

// misfit is the way from a value that cannot be written to the innermost part of it that cannot; empty: the value itself.
func misfit(v reflect.Value, depth int) string {
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	if depth == 32 || !v.IsValid() || has[json.Marshaler](v.Type()) || has[encoding.TextMarshaler](v.Type()) {
		return "" // a ring, or a type that writes itself
	}
	into := func(name string, part reflect.Value) string {
		if !part.CanInterface() {
			return ""
		}
		if _, err := json.Marshal(part.Interface()); err == nil {
			return ""
		}
		return name + misfit(part, depth+1)
	}
	switch v.Kind() {
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			if at := into(fmt.Sprintf("[%d]", i), v.Index(i)); at != "" {
				return at
			}
		}
	case reflect.Map:
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		for _, key := range keys {
			if at := into(fmt.Sprint(".", key), v.MapIndex(key)); at != "" {
				return at
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name == "-" {
				continue
			}
			if name == "" && !f.Anonymous {
				name = f.Name
			}
			if at := into(strings.TrimSuffix("."+name, "."), v.Field(i)); at != "" {
				return at
			}
		}
	}
	return ""
}
