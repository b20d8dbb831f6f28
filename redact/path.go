package redact

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"unicode"
)

// trail leads to a place in a document: names, and items as their numbers.
type trail []step

type step struct {
	name string
	item int // -1: a member
}

// show writes a path for people. A name is text, and may hold a secret itself.
func (p trail) show(r *Redactor) string {
	var b strings.Builder
	b.WriteByte('$')
	for _, s := range p {
		if s.item >= 0 {
			b.WriteString("[" + strconv.Itoa(s.item) + "]")
			continue
		}
		name := r.Text(s.name)
		if name != "" && !strings.ContainsFunc(name, func(c rune) bool { return !unicode.IsLetter(c) && !unicode.IsDigit(c) && c != '_' && c != '-' }) {
			b.WriteString("." + name)
			continue
		}
		text, _ := json.Marshal(name) // a string has a JSON form
		b.WriteString("[" + string(text) + "]")
	}
	return b.String()
}

// touches says that one of two paths leads to or through the place of the other.
func (p trail) touches(steps []string) bool {
	for i := range min(len(p), len(steps)) {
		switch s := p[i]; {
		case s.item < 0 && s.name != steps[i]:
			return false
		case s.item >= 0 && steps[i] != "*" && steps[i] != strconv.Itoa(s.item):
			return false
		}
	}
	return true
}

// parsePath reads what show writes; members and items alike come out as text.
func parsePath(s string) ([]string, error) {
	s = strings.TrimPrefix(s, "$")
	var out []string
	for s != "" {
		switch {
		case s[0] == '[' && strings.HasPrefix(s, `["`):
			d := json.NewDecoder(strings.NewReader(s[1:]))
			var name string
			if err := d.Decode(&name); err != nil {
				return nil, err
			}
			rest := s[1+d.InputOffset():]
			if !strings.HasPrefix(rest, "]") {
				return nil, errors.New("redact: a path has a [ without its ]")
			}
			out, s = append(out, name), rest[1:]
		case s[0] == '[':
			item, rest, ok := strings.Cut(s[1:], "]")
			if _, err := strconv.ParseUint(item, 10, 32); !ok || err != nil && item != "*" {
				return nil, errors.New("redact: a path has brackets without a number")
			}
			out, s = append(out, item), rest
		default:
			s = strings.TrimPrefix(s, ".")
			end := strings.IndexAny(s, ".[")
			if end < 0 {
				end = len(s)
			}
			if end == 0 {
				return nil, errors.New("redact: a path has an empty name")
			}
			out, s = append(out, s[:end]), s[end:]
		}
	}
	return out, nil
}
