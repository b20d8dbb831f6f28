package schema

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Shape returns a line that two types share when each reads what the other wrote as JSON: names and JSON types count,
// Go names and the order of fields do not. ^n stands for the n-th enclosing type of a recursive one.
func Shape(t reflect.Type) string { return shape(t, nil) }

// Fingerprint tells types apart for which it must never be wrong that two are the same: by their Go names, too.
func Fingerprint[T any]() string { return FingerprintOf(reflect.TypeFor[T]()) }

// FingerprintOf is Fingerprint of a type that is not known before the program runs.
func FingerprintOf(t reflect.Type) string { return t.String() + " " + Shape(t) }

func shape(t reflect.Type, open []reflect.Type) string {
	if i := slices.Index(open, t); i >= 0 {
		return fmt.Sprintf("^%d", len(open)-i)
	}
	if t.Name() != "" {
		open = append(slices.Clone(open), t)
	}
	switch formOf(t) {
	case formAny:
		return "any"
	case formCustom:
		return "custom"
	case formTime:
		return "time"
	case formText, formString:
		return "string"
	case formBytes:
		return "bytes"
	case formBool:
		return "bool"
	case formInt:
		return "int"
	case formNumber:
		return "number"
	case formPointer:
		return "?" + shape(t.Elem(), open)
	case formList:
		return "[]" + shape(t.Elem(), open)
	case formArray:
		return fmt.Sprintf("[%d]%s", t.Len(), shape(t.Elem(), open))
	case formMap:
		return "{*:" + shape(t.Elem(), open) + "}"
	case formStruct:
		var parts []string
		for _, f := range fieldsOf(t) {
			s := f.name
			if f.optional {
				s += "?"
			}
			if f.quoted {
				s += ":quoted " + shape(f.typ, open)
			} else {
				s += ":" + shape(f.typ, open)
			}
			parts = append(parts, s)
		}
		slices.Sort(parts)
		return "{" + strings.Join(parts, ",") + "}"
	}
	return "none"
}
