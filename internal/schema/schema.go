// Package schema describes Go types as their JSON looks: as a JSON Schema for forms and checks, and as a short shape
// that tells whether two versions of a program read each other's values.
package schema

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Of returns the JSON Schema (2020-12) of t as encoding/json writes it. What may be left out on reading is optional:
// omitempty, omitzero and pointers. What Go writes as null when nil allows null. A type that JSON cannot hold is an
// error that names the place.
func Of(t reflect.Type) ([]byte, error) {
	w := &writer{names: map[reflect.Type]string{}, defs: map[string]string{}}
	d, err := w.describe(t, t.String())
	if err != nil {
		return nil, err
	}
	out := d.String()
	if len(w.defs) == 0 {
		return []byte(out), nil
	}
	var defs []string
	for _, name := range slices.Sorted(maps.Keys(w.defs)) {
		defs = append(defs, quote(name)+":"+w.defs[name])
	}
	return []byte(out[:len(out)-1] + `,"$defs":{` + strings.Join(defs, ",") + "}}"), nil
}

// For is Of for a type that the caller knows.
func For[T any]() ([]byte, error) { return Of(reflect.TypeFor[T]()) }

// desc is one schema on its way to text.
type desc struct {
	types []string // none, without a ref: anything
	rest  string   // further members, each with a leading comma
	ref   string   // name in $defs
}

func (d desc) String() string {
	if d.ref != "" {
		ref := `{"$ref":` + quote("#/$defs/"+d.ref) + `}`
		if slices.Contains(d.types, "null") {
			return `{"anyOf":[` + ref + `,{"type":"null"}]}`
		}
		return ref
	}
	switch len(d.types) {
	case 0:
		return "true"
	case 1:
		return `{"type":` + quote(d.types[0]) + d.rest + `}`
	}
	return `{"type":[` + quote(d.types[0]) + `,"null"]` + d.rest + `}`
}

func (d desc) orNull() desc {
	if (d.ref != "" || len(d.types) > 0) && !slices.Contains(d.types, "null") {
		d.types = append(slices.Clone(d.types), "null")
	}
	return d
}

type writer struct {
	open  []reflect.Type          // named types whose description has begun
	names map[reflect.Type]string // recursive types
	defs  map[string]string
}

func (w *writer) describe(t reflect.Type, at string) (desc, error) {
	if name := w.names[t]; name != "" {
		return desc{ref: name}, nil
	}
	if slices.Contains(w.open, t) {
		return desc{ref: w.name(t)}, nil
	}
	if t.Name() == "" {
		return w.plain(t, at)
	}
	w.open = append(w.open, t)
	d, err := w.plain(t, at)
	w.open = w.open[:len(w.open)-1]
	if name := w.names[t]; name != "" && err == nil {
		w.defs[name] = d.String()
		d = desc{ref: name}
	}
	return d, err
}

// name gives a recursive type its name in $defs.
func (w *writer) name(t reflect.Type) string {
	base, _, _ := strings.Cut(t.Name(), "[")
	name := base
	for n := 2; slices.Contains(slices.Collect(maps.Values(w.names)), name); n++ {
		name = base + strconv.Itoa(n)
	}
	w.names[t] = name
	return name
}

func (w *writer) plain(t reflect.Type, at string) (desc, error) {
	switch formOf(t) {
	case formAny, formCustom:
		return desc{}, nil
	case formTime:
		return desc{types: []string{"string"}, rest: `,"format":"date-time"`}, nil
	case formText, formString:
		return desc{types: []string{"string"}}, nil
	case formBytes:
		return desc{types: []string{"string"}, rest: `,"contentEncoding":"base64"`}.orNull(), nil
	case formBool:
		return desc{types: []string{"boolean"}}, nil
	case formInt:
		return desc{types: []string{"integer"}}, nil
	case formNumber:
		return desc{types: []string{"number"}}, nil
	case formPointer:
		d, err := w.describe(t.Elem(), at)
		return d.orNull(), err
	case formList, formArray:
		d, err := w.describe(t.Elem(), at+"[]")
		if t.Kind() == reflect.Array {
			return desc{types: []string{"array"}, rest: fmt.Sprintf(`,"items":%s,"minItems":%d,"maxItems":%[2]d`, d, t.Len())}, err
		}
		return desc{types: []string{"array"}, rest: `,"items":` + d.String()}.orNull(), err
	case formMap:
		d, err := w.describe(t.Elem(), at+"[]")
		return desc{types: []string{"object"}, rest: `,"additionalProperties":` + d.String()}.orNull(), err
	case formStruct:
		return w.object(t, at)
	}
	return desc{}, fmt.Errorf("%s is a %s, which JSON cannot hold", at, t)
}

func (w *writer) object(t reflect.Type, at string) (desc, error) {
	var props, required []string
	for _, f := range fieldsOf(t) {
		d := desc{types: []string{"string"}}
		if !f.quoted {
			var err error
			if d, err = w.describe(f.typ, at+"."+f.name); err != nil {
				return desc{}, err
			}
		} else if f.typ.Kind() == reflect.Pointer {
			d = d.orNull()
		}
		props = append(props, quote(f.name)+":"+d.String())
		if !f.optional {
			required = append(required, quote(f.name))
		}
	}
	rest := `,"properties":{` + strings.Join(props, ",") + `}`
	if len(required) > 0 {
		rest += `,"required":[` + strings.Join(required, ",") + `]`
	}
	return desc{types: []string{"object"}, rest: rest + `,"additionalProperties":false`}, nil
}

// quote writes a name as JSON; a string always has a JSON form.
func quote(s string) string {
	out, _ := json.Marshal(s)
	return string(out)
}
