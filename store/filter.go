package store

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"strings"
)

// Filter chooses items by the fields of their values: all of its conditions hold. A condition is a plain value (equal to
// it), an object (the same, field by field, of an object inside), or operators:
//
//	store.Filter{"kind": "tea", "price": store.Gt(3), "maker": map[string]any{"country": store.Ne("FR")}}
//
// Comparing is typed. Equal means of the same type and value; numbers are equal by value, however they are written. Greater
// and less are for numbers alone: another operand is refused, and a field that holds no number is not chosen. A field that
// is not there is null. Its JSON form is the same, with the operators $eq, $ne, $gt, $gte, $lt and $lte.
type Filter map[string]any

// Cond is a condition made of operators, all of which hold: store.Cond{"$gte": 1, "$lt": 5}.
type Cond map[string]any

// Eq holds for a field that equals v altogether. (A plain value does, too, but objects in it leave other fields open.)
func Eq(v any) Cond { return Cond{"$eq": v} }

// Ne holds for a field that does not equal v, or is not there.
func Ne(v any) Cond { return Cond{"$ne": v} }

// Gt holds for a number greater than v, which is a number.
func Gt(v any) Cond { return Cond{"$gt": v} }

// Gte holds for a number not less than v, which is a number.
func Gte(v any) Cond { return Cond{"$gte": v} }

// Lt holds for a number less than v, which is a number.
func Lt(v any) Cond { return Cond{"$lt": v} }

// Lte holds for a number not greater than v, which is a number.
func Lte(v any) Cond { return Cond{"$lte": v} }

// order says which results of a comparison of numbers an operator holds for.
var order = map[string]func(int) bool{
	"$gt":  func(c int) bool { return c > 0 },
	"$gte": func(c int) bool { return c >= 0 },
	"$lt":  func(c int) bool { return c < 0 },
	"$lte": func(c int) bool { return c <= 0 },
}

// parse makes the conditions plain JSON and refuses what could not be meant.
func (f Filter) parse() (map[string]any, error) {
	if len(f) == 0 {
		return nil, nil
	}
	doc, err := json.Marshal(f)
	if err != nil {
		return nil, &InputError{"filter", err.Error()}
	}
	v, err := decoded(doc)
	if err != nil {
		return nil, &InputError{"filter", err.Error()}
	}
	fields := v.(map[string]any)
	for name, cond := range fields {
		if strings.HasPrefix(name, "$") {
			return nil, &InputError{"filter", fmt.Sprintf("%q stands where a field's name is wanted", name)}
		}
		if err := checkCond(name, cond); err != nil {
			return nil, err
		}
	}
	return fields, nil
}

// checkCond checks a condition on the field that path names.
func checkCond(path string, cond any) error {
	refuse := func(format string, args ...any) error {
		return &InputError{"filter", path + ": " + fmt.Sprintf(format, args...)}
	}
	switch cond := cond.(type) {
	case []any:
		for i, c := range cond {
			if err := checkCond(fmt.Sprintf("%s[%d]", path, i), c); err != nil {
				return err
			}
		}
	case map[string]any:
		if !operators(cond) {
			for name, c := range cond {
				if err := checkCond(path+"."+name, c); err != nil {
					return err
				}
			}
			return nil
		}
		for op, v := range cond {
			_, ordered := order[op]
			_, number := v.(json.Number)
			switch {
			case op == "$eq" || op == "$ne":
			case !ordered:
				return refuse("%q is none of $eq, $ne, $gt, $gte, $lt, $lte", op)
			case !number:
				return refuse("%s compares numbers, not %s", op, typeName(v))
			}
		}
	}
	return nil
}

// operators says whether an object is made of operators.
func operators(cond map[string]any) bool {
	for name := range cond {
		if strings.HasPrefix(name, "$") {
			return true
		}
	}
	return false
}

func typeName(v any) string {
	switch v.(type) {
	case string:
		return "a string"
	case bool:
		return "a boolean"
	case nil:
		return "null"
	}
	return "a list or an object"
}

// chooses says whether a filter chooses a value.
func chooses(filter map[string]any, value []byte) (bool, error) {
	v, err := decoded(value)
	return err == nil && holds(v, filter), err
}

// holds says whether a condition holds for a value.
func holds(v, cond any) bool {
	switch cond := cond.(type) {
	case map[string]any:
		if operators(cond) {
			for op, operand := range cond {
				if !applies(v, op, operand) {
					return false
				}
			}
			return true
		}
		fields, ok := v.(map[string]any)
		for name, c := range cond {
			ok = ok && holds(fields[name], c)
		}
		return ok
	case []any:
		list, ok := v.([]any)
		ok = ok && len(list) == len(cond)
		for i := 0; ok && i < len(list); i++ {
			ok = holds(list[i], cond[i])
		}
		return ok
	}
	return equal(v, cond)
}

func applies(v any, op string, operand any) bool {
	switch op {
	case "$eq":
		return equal(v, operand)
	case "$ne":
		return !equal(v, operand)
	}
	a, isNumber := v.(json.Number)
	return isNumber && order[op](compare(a, operand.(json.Number)))
}

// equal compares two JSON values altogether, with their types.
func equal(a, b any) bool {
	switch a := a.(type) {
	case json.Number:
		b, ok := b.(json.Number)
		return ok && compare(a, b) == 0
	case []any:
		b, ok := b.([]any)
		ok = ok && len(a) == len(b)
		for i := 0; ok && i < len(a); i++ {
			ok = equal(a[i], b[i])
		}
		return ok
	case map[string]any:
		b, ok := b.(map[string]any)
		ok = ok && len(a) == len(b)
		for name, v := range a {
			w, there := b[name]
			ok = ok && there && equal(v, w)
		}
		return ok
	}
	switch b.(type) {
	case []any, map[string]any, json.Number:
		return false
	}
	return a == b
}

// precision holds integers of 150 digits, and more digits of a fraction than anybody means.
const precision = 512

// compare compares two numbers by value: 1 is 1.0, and 9007199254740993 is not 9007199254740992.
func compare(a, b json.Number) int {
	if a == b {
		return 0
	}
	return parsed(a).Cmp(parsed(b))
}

// parsed is a number that JSON's grammar admitted; what is too large for any exponent is infinite.
func parsed(n json.Number) *big.Float {
	f, _, _ := big.ParseFloat(string(n), 10, precision, big.ToNearestEven)
	if f == nil {
		f = new(big.Float)
	}
	return f
}

// decoded reads a JSON document without losing digits.
func decoded(doc []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(doc))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("something follows the value's end")
	}
	return v, nil
}
