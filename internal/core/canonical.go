package core

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// Canonical rewrites JSON so that equal documents are equal bytes: members sorted by UTF-16 code units, no white
// space, shortest numbers, minimal escapes (RFC 8785). Integers keep all their digits. Two values in one input,
// duplicate members and invalid text are errors.
func Canonical(doc []byte) ([]byte, error) {
	switch {
	case !utf8.Valid(doc):
		return nil, errors.New("not canonical JSON: it is not valid UTF-8")
	case halfPair(doc):
		return nil, errors.New("not canonical JSON: it escapes one half of a surrogate pair")
	}
	d := json.NewDecoder(bytes.NewReader(doc))
	d.UseNumber()
	out, err := canonValue(nil, d, 0)
	if err != nil {
		return nil, fmt.Errorf("not canonical JSON: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("not canonical JSON: more than one value")
	}
	return out, nil
}

// Digest is the SHA-256 of the canonical form, in hex.
func Digest(doc []byte) (string, error) {
	c, err := Canonical(doc)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(c)
	return hex.EncodeToString(sum[:]), nil
}

// halfPair finds an escaped surrogate without its other half, which encoding/json would replace in silence.
func halfPair(doc []byte) bool {
	var high bool
	for len(doc) > 0 {
		at, size := rune(-1), 1
		if doc[0] == '\\' && len(doc) > 1 {
			size = 2
			if doc[1] == 'u' && len(doc) >= 6 {
				if n, err := strconv.ParseUint(string(doc[2:6]), 16, 16); err == nil {
					at, size = rune(n), 6
				}
			}
		}
		low := at >= 0xdc00 && at < 0xe000
		if high != low {
			return true
		}
		high = at >= 0xd800 && at < 0xdc00
		doc = doc[size:]
	}
	return high
}

// deepest is how far values may be nested, as for encoding/json.
const deepest = 10_000

func canonValue(out []byte, d *json.Decoder, depth int) ([]byte, error) {
	if depth > deepest {
		return nil, fmt.Errorf("it is nested more than %d deep", deepest)
	}
	tok, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t := tok.(type) {
	case json.Delim:
		if t == '[' {
			return canonArray(out, d, depth)
		}
		return canonObject(out, d, depth)
	case string:
		return canonString(out, t), nil
	case json.Number:
		return canonNumber(out, t)
	case bool:
		return strconv.AppendBool(out, t), nil
	}
	return append(out, "null"...), nil
}

func canonArray(out []byte, d *json.Decoder, depth int) ([]byte, error) {
	out = append(out, '[')
	for first := true; d.More(); first = false {
		if !first {
			out = append(out, ',')
		}
		var err error
		if out, err = canonValue(out, d, depth+1); err != nil {
			return nil, err
		}
	}
	_, err := d.Token()
	return append(out, ']'), err
}

func canonObject(out []byte, d *json.Decoder, depth int) ([]byte, error) {
	type member struct {
		key   []uint16
		name  string
		value []byte
	}
	var members []member
	seen := map[string]bool{}
	for d.More() {
		tok, err := d.Token()
		if err != nil {
			return nil, err
		}
		name := tok.(string)
		if seen[name] {
			return nil, fmt.Errorf("member %q stands twice", name)
		}
		seen[name] = true
		value, err := canonValue(nil, d, depth+1)
		if err != nil {
			return nil, err
		}
		members = append(members, member{utf16.Encode([]rune(name)), name, value})
	}
	slices.SortFunc(members, func(a, b member) int { return slices.Compare(a.key, b.key) })
	out = append(out, '{')
	for i, m := range members {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(canonString(out, m.name), ':'), m.value...)
	}
	_, err := d.Token()
	return append(out, '}'), err
}

func canonString(out []byte, s string) []byte {
	const hexDigits = "0123456789abcdef"
	out = append(out, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			out = append(out, '\\', byte(r))
		case r == '\b':
			out = append(out, `\b`...)
		case r == '\f':
			out = append(out, `\f`...)
		case r == '\n':
			out = append(out, `\n`...)
		case r == '\r':
			out = append(out, `\r`...)
		case r == '\t':
			out = append(out, `\t`...)
		case r < 0x20:
			out = append(out, `\u00`...)
			out = append(out, hexDigits[r>>4], hexDigits[r&15])
		default:
			out = append(out, string(r)...)
		}
	}
	return append(out, '"')
}

// canonNumber keeps integers digit by digit (a 64-bit id must not be rounded) and writes the rest as ECMAScript does.
func canonNumber(out []byte, n json.Number) ([]byte, error) {
	s := n.String()
	if s == "-0" {
		return append(out, '0'), nil
	}
	if !bytes.ContainsAny([]byte(s), ".eE") {
		return append(out, s...), nil
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsInf(f, 0) {
		return nil, fmt.Errorf("number %s has no 64-bit form", s)
	}
	if f == 0 {
		return append(out, '0'), nil
	}
	if abs := math.Abs(f); abs >= 1e-6 && abs < 1e21 {
		return strconv.AppendFloat(out, f, 'f', -1, 64), nil
	}
	b := strconv.AppendFloat(nil, f, 'e', -1, 64)
	if i := bytes.IndexByte(b, 'e'); b[i+2] == '0' {
		b = slices.Delete(b, i+2, i+3)
	}
	return append(out, b...), nil
}
