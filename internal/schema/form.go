package schema

import (
	"encoding"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"time"
)

// form is what JSON makes of a Go type.
type form int

const (
	formNone form = iota // JSON cannot hold it
	formAny
	formCustom // the type writes itself
	formTime
	formText
	formBool
	formInt
	formNumber
	formString
	formBytes
	formPointer
	formList
	formArray
	formMap
	formStruct
)

func formOf(t reflect.Type) form {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return formTime
	case t == reflect.TypeFor[json.RawMessage]() || t.Kind() == reflect.Interface:
		return formAny
	case t == reflect.TypeFor[json.Number]():
		return formNumber
	case t.Kind() == reflect.Pointer:
		return formPointer
	case has[json.Marshaler](t) || has[json.Unmarshaler](t):
		return formCustom
	case t.Implements(reflect.TypeFor[encoding.TextMarshaler]()) && has[encoding.TextUnmarshaler](t):
		return formText
	case has[encoding.TextMarshaler](t) || has[encoding.TextUnmarshaler](t):
		return formCustom
	}
	switch k := t.Kind(); k {
	case reflect.Bool:
		return formBool
	case reflect.String:
		return formString
	case reflect.Float32, reflect.Float64:
		return formNumber
	case reflect.Struct:
		return formStruct
	case reflect.Array:
		return formArray
	case reflect.Slice:
		if e := t.Elem(); e.Kind() == reflect.Uint8 && !has[json.Marshaler](e) && !has[encoding.TextMarshaler](e) {
			return formBytes
		}
		return formList
	case reflect.Map:
		if key := t.Key(); key.Kind() == reflect.String || isInt(key.Kind()) || key.Implements(reflect.TypeFor[encoding.TextMarshaler]()) {
			return formMap
		}
	default:
		if isInt(k) {
			return formInt
		}
	}
	return formNone
}

// has says whether t or its pointer has the methods of I.
func has[I any](t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[I]())
}

func isInt(k reflect.Kind) bool { return k >= reflect.Int && k <= reflect.Uintptr }

// field is a member of a struct's JSON object.
type field struct {
	name     string
	typ      reflect.Type
	optional bool // may be left out
	quoted   bool // written inside a string
	tagged   bool
	depth    int
}

// fieldsOf returns the members of a struct as encoding/json sees them: embedded structs flattened, of equal names the
// least nested one, then the tagged one, and none where that leaves a choice.
func fieldsOf(t reflect.Type) []field {
	all := collect(nil, t, nil, false)
	var out []field
	for i, f := range all {
		rivals := func(g field) bool {
			return g.name == f.name && (g.depth < f.depth || g.depth == f.depth && (g.tagged || !f.tagged))
		}
		if !slices.ContainsFunc(all[:i], rivals) && !slices.ContainsFunc(all[i+1:], rivals) {
			out = append(out, f)
		}
	}
	return out
}

func collect(out []field, t reflect.Type, path []reflect.Type, optional bool) []field {
	if slices.Contains(path, t) {
		return out
	}
	path = append(slices.Clone(path), t)
	for i := range t.NumField() {
		sf := t.Field(i)
		typ := sf.Type
		tag := sf.Tag.Get("json")
		name, opts, _ := strings.Cut(tag, ",")
		if strings.ContainsAny(name, "\"\\'`") {
			name = ""
		}
		base := typ
		if typ.Kind() == reflect.Pointer {
			base = typ.Elem()
		}
		embedded := sf.Anonymous && base.Kind() == reflect.Struct
		switch {
		case tag == "-" || !sf.IsExported() && !embedded:
		case embedded && name == "":
			out = collect(out, base, path, optional || typ != base)
		case sf.IsExported():
			f := field{name: name, typ: typ, tagged: name != "", depth: len(path)}
			if name == "" {
				f.name = sf.Name
			}
			list := strings.Split(opts, ",")
			f.optional = optional || typ != base || slices.Contains(list, "omitempty") || slices.Contains(list, "omitzero")
			k := base.Kind()
			f.quoted = slices.Contains(list, "string") && (k == reflect.Bool || k == reflect.String || isInt(k) || k == reflect.Float32 || k == reflect.Float64)
			out = append(out, f)
		}
	}
	return out
}
