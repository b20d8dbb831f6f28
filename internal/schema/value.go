package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strconv"
)

// HoldsNull says whether null is a value of the type.
func HoldsNull(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Map, reflect.Slice, reflect.Interface:
		return true
	}
	return false
}

// IsNull says whether a document is null.
func IsNull(doc []byte) bool { return string(bytes.TrimSpace(doc)) == "null" }

// Encode writes a value as encoding/json does.
func Encode[T any](v *T) ([]byte, error) {
	if out, ok := appendFast(nil, v); ok {
		return out, nil
	}
	return Marshal(v)
}

// appendFast writes what needs no reflection, in the words of encoding/json.
func appendFast[T any](out []byte, v *T) ([]byte, bool) {
	switch p := any(v).(type) {
	case *string:
		for i := range len(*p) {
			if c := (*p)[i]; c < 0x20 || c > 0x7e || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
				return out, false
			}
		}
		return append(append(append(out, '"'), *p...), '"'), true
	case *bool:
		return strconv.AppendBool(out, *p), true
	case *int:
		return strconv.AppendInt(out, int64(*p), 10), true
	case *int64:
		return strconv.AppendInt(out, *p, 10), true
	case *uint64:
		return strconv.AppendUint(out, *p, 10), true
	case *float64:
		if a := max(*p, -*p); a == 0 || a >= 1e-6 && a < 1e21 {
			return strconv.AppendFloat(out, *p, 'f', -1, 64), true
		}
	}
	return out, false
}

// Decode reads a value strictly: what the schema does not allow is an error that names each field. The schema is that of T,
// or nil.
func Decode[T any](check *Schema, data []byte) (T, error) {
	if v, ok := decodeFast[T](data); ok {
		return v, nil
	}
	return decodeSlow[T](check, data)
}

func decodeSlow[T any](check *Schema, data []byte) (v T, err error) {
	if faults := check.Validate(data); len(faults) > 0 {
		errs := make([]error, len(faults))
		for i, f := range faults {
			errs[i] = errors.New(f.String())
		}
		return v, errors.Join(errs...)
	}
	err = json.Unmarshal(data, &v)
	return v, err
}

func decodeFast[T any](data []byte) (v T, ok bool) {
	if len(data) == 0 {
		return v, false
	}
	switch p := any(&v).(type) {
	case *string:
		end := len(data) - 1
		if end < 1 || data[0] != '"' || data[end] != '"' {
			return v, false
		}
		for _, c := range data[1:end] {
			if c < 0x20 || c > 0x7e || c == '"' || c == '\\' {
				return v, false
			}
		}
		*p, ok = string(data[1:end]), true
	case *bool:
		*p = string(data) == "true"
		ok = *p || string(data) == "false"
	case *int:
		if isNumber(data) {
			n, err := strconv.Atoi(string(data))
			*p, ok = n, err == nil
		}
	case *int64:
		if isNumber(data) {
			n, err := strconv.ParseInt(string(data), 10, 64)
			*p, ok = n, err == nil
		}
	}
	return v, ok
}

// isNumber says whether the first letters are those of a JSON number: no plus sign, no leading zero.
func isNumber(data []byte) bool {
	if data[0] == '-' {
		data = data[1:]
	}
	return len(data) > 0 && data[0] >= '0' && data[0] <= '9' && (len(data) == 1 || data[0] != '0')
}

// EncodeList writes the items of two lists as one JSON array.
func EncodeList[T any](head, tail []T) ([]byte, error) {
	out := []byte{'['}
	for _, part := range [2][]T{head, tail} {
		for i := range part {
			if len(out) > 1 {
				out = append(out, ',')
			}
			var ok bool
			if out, ok = appendFast(out, &part[i]); ok {
				continue
			}
			doc, err := Marshal(&part[i])
			if err != nil {
				return nil, err
			}
			out = append(out, doc...)
		}
	}
	return append(out, ']'), nil
}

// Differs says whether a decoded value no longer encodes to what is stored. Both are encoded anew: what is stored may
// come from another program, with other spacing.
func Differs[T any](check *Schema, stored []byte, live *T) (bool, error) {
	fresh, err := Decode[T](check, stored)
	if err != nil {
		return false, err
	}
	want, err := Encode(&fresh)
	if err != nil {
		return false, err
	}
	now, err := Encode(live)
	return err != nil || !bytes.Equal(now, want), nil
}
