package redact

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
)

// Exact returns the JSON of v with its secrets revealed: what an effect sends, and what is encrypted and digested as
// its arguments. It is json.Marshal in all else. Never log or show what it returns.
//
// It works on a copy in which the secrets are open, because a Marshaler is not told for whom it writes, and a switch
// for all goroutines would open the secrets that another one is logging. Where a copy cannot be made, it is refused
// rather than sent with a mask in it: a secret as the key of a map, behind a pointer of an embedded unexported type,
// and in a field that only a type's own MarshalJSON or MarshalText reads.
func Exact(v any) ([]byte, error) {
	if v == nil {
		return []byte("null"), nil
	}
	in := reflect.ValueOf(v)
	out, changed, err := (opening{}).value(in, 0)
	if err != nil {
		return nil, err
	}
	if changed {
		v = out.Interface()
	}
	doc, err := encode(v)
	if err != nil {
		return nil, fmt.Errorf("redact: %s cannot be written as JSON, nothing was encoded: %w", in.Type(), quiet(err))
	}
	return doc, nil
}

// quiet keeps what says nothing of a value, and drops the text of a type's own methods, which may quote one.
func quiet(err error) error {
	if e, ok := errors.AsType[*exactError](err); ok {
		return e
	}
	if e, ok := errors.AsType[*json.UnsupportedTypeError](err); ok {
		return e
	}
	return errors.New("its encoding failed, and what that said may hold a secret")
}

// exactError refuses a value whose secrets would be sent as masks.
type exactError struct {
	at  reflect.Type
	why string
}

func (e *exactError) Error() string {
	return fmt.Sprintf("redact: %s %s; nothing was encoded", e.at, e.why)
}

type opener interface{ opened() any }

// deepestValue is where a value must be a cycle, or as good as one.
const deepestValue = 1000

// opening copies values with their secrets open, and remembers which types may hold one.
type opening map[reflect.Type]bool

// value returns v with its secrets open, and whether that is a copy.
func (o opening) value(v reflect.Value, depth int) (reflect.Value, bool, error) {
	switch {
	case depth > deepestValue:
		return v, false, &exactError{v.Type(), fmt.Sprintf("is nested more than %d deep; does it contain itself?", deepestValue)}
	case !o.mayHold(v.Type()):
		return v, false, nil
	}
	if s, ok := v.Interface().(opener); ok && v.Kind() == reflect.Struct {
		if open := reflect.ValueOf(s.opened()); open.Type() == v.Type() { // another type embeds a secret
			return open, true, nil
		}
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return v, false, nil
		}
		elem, changed, err := o.value(v.Elem(), depth+1)
		if err != nil || !changed {
			return v, false, err
		}
		if v.Kind() == reflect.Interface {
			return elem, true, nil
		}
		to := reflect.New(elem.Type())
		to.Elem().Set(elem)
		return to.Convert(v.Type()), true, nil
	case reflect.Struct:
		to := reflect.New(v.Type()).Elem()
		to.Set(v)
		changed, err := o.fields(to, selfEncoding(v), depth+1)
		return to, changed, err
	case reflect.Slice, reflect.Array:
		return o.items(v, depth+1)
	case reflect.Map:
		return o.members(v, depth+1)
	}
	return v, false, nil
}

// selfEncoding says that encoding/json calls a method of v instead of reading its fields.
func selfEncoding(v reflect.Value) bool {
	t := v.Type()
	if v.CanAddr() {
		t = reflect.PointerTo(t)
	}
	return t.Implements(reflect.TypeFor[json.Marshaler]()) || t.Implements(reflect.TypeFor[encoding.TextMarshaler]())
}

// fields opens the secrets in the fields of a copy. What a method of the type reads beyond them cannot be opened.
func (o opening) fields(to reflect.Value, self bool, depth int) (changed bool, err error) {
	for i := range to.NumField() {
		f, field := to.Type().Field(i), to.Field(i)
		switch {
		case f.IsExported():
			open, did, err := o.value(field, depth)
			if err != nil {
				return false, err
			}
			if did {
				field.Set(open)
				changed = true
			}
		case f.Anonymous && f.Type.Kind() == reflect.Struct && !self:
			did, err := o.fields(field, false, depth)
			if err != nil {
				return false, err
			}
			changed = changed || did
		case (f.Anonymous || self) && o.holds(field, depth):
			return false, &exactError{to.Type(), "has a secret in its field " + f.Name + ", which is not exported and yet a part of its JSON, and would be sent as a mask; export the field, or reveal the secret where the JSON is made"}
		}
	}
	return changed, nil
}

func (o opening) items(v reflect.Value, depth int) (to reflect.Value, changed bool, err error) {
	for i := range v.Len() {
		open, did, err := o.value(v.Index(i), depth)
		if err != nil {
			return v, false, err
		}
		if !did {
			continue
		}
		if !changed {
			changed = true
			to = reflect.New(v.Type()).Elem()
			if v.Kind() == reflect.Slice {
				to.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len()))
			}
			reflect.Copy(to, v)
		}
		to.Index(i).Set(open)
	}
	if !changed {
		to = v
	}
	return to, changed, nil
}

func (o opening) members(v reflect.Value, depth int) (to reflect.Value, changed bool, err error) {
	to = v
	for each := v.MapRange(); each.Next(); {
		if o.holds(each.Key(), depth) {
			return v, false, &exactError{v.Type(), "has a secret as a key, which would be sent as a mask; use the revealed value"}
		}
		open, did, err := o.value(each.Value(), depth)
		if err != nil {
			return v, false, err
		}
		if !did {
			continue
		}
		if !changed {
			changed = true
			to = reflect.MakeMapWithSize(v.Type(), v.Len())
			for all := v.MapRange(); all.Next(); {
				to.SetMapIndex(all.Key(), all.Value())
			}
		}
		to.SetMapIndex(each.Key(), open)
	}
	return to, changed, nil
}

// holds says that there is a secret in a value that may be unexported; what is too deep to tell may have one.
func (o opening) holds(v reflect.Value, depth int) bool {
	switch {
	case !o.mayHold(v.Type()):
		return false
	case depth > deepestValue:
		return true
	}
	if v.Kind() != reflect.Pointer && v.Kind() != reflect.Interface && v.Type().Implements(reflect.TypeFor[opener]()) {
		return true
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		return !v.IsNil() && o.holds(v.Elem(), depth+1)
	case reflect.Struct:
		for i := range v.NumField() {
			if o.holds(v.Field(i), depth+1) {
				return true
			}
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			if o.holds(v.Index(i), depth+1) {
				return true
			}
		}
	case reflect.Map:
		for each := v.MapRange(); each.Next(); {
			if o.holds(each.Key(), depth+1) || o.holds(each.Value(), depth+1) {
				return true
			}
		}
	}
	return false
}

// mayHold says that values of a type can have a secret in them: an interface can have anything.
func (o opening) mayHold(t reflect.Type) bool {
	may, known := o[t]
	if !known {
		may = reaches(t, map[reflect.Type]bool{})
		o[t] = may
	}
	return may
}

// reaches looks at each type once, since types may contain themselves.
func reaches(t reflect.Type, seen map[reflect.Type]bool) bool {
	if seen[t] {
		return false
	}
	seen[t] = true
	if t.Kind() == reflect.Interface || t.Implements(reflect.TypeFor[opener]()) {
		return true
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array:
		return reaches(t.Elem(), seen)
	case reflect.Map:
		return reaches(t.Key(), seen) || reaches(t.Elem(), seen)
	case reflect.Struct:
		for i := range t.NumField() {
			if reaches(t.Field(i).Type, seen) {
				return true
			}
		}
	}
	return false
}
