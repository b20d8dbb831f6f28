package redact

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"unicode"
	"unicode/utf8"
)

// around says what a string was wrapped in.
type around struct {
	levels int  // encodings and URLs
	url    bool // a part of a URL: names of its parameters are sensitive too
	base64 bool
}

// deepestWrap is how many encodings and URLs may be wrapped in each other. An encoded URL in a URL's parameter is two.
const deepestWrap = 8

func (a around) deeper() around {
	a.levels++
	return a
}

// find is scan until nothing more is found: hiding a part may change how the rest reads, and a view of a view must be
// the view. What does not come to rest is masked whole.
func (r *Redactor) find(s string, a around) []edit {
	edits := r.scan(s, a)
	if len(edits) == 0 {
		return nil
	}
	view := apply(s, edits)
	for range 4 {
		more := r.scan(view, a)
		if len(more) == 0 {
			return edits
		}
		view = apply(view, more)
		edits = []edit{{0, len(s), view}}
	}
	return []edit{{0, len(s), Mask}}
}

// scan finds what to hide in a decoded string. The edits are settled.
func (r *Redactor) scan(s string, a around) []edit {
	if len(s) < 4 || masked(s) || r.bland(s) {
		return nil
	}
	if a.levels > deepestWrap {
		if strings.ContainsAny(s, `%=:{["`) {
			return []edit{{0, len(s), TooLarge}}
		}
		return nil
	}
	if edits, ok := r.wrapped(s, a); ok {
		return edits
	}
	f := &finder{r: r, s: s, around: a}
	f.blocks()
	f.documents()
	f.words()
	f.assignments()
	f.shapes()
	return settle(f.edits)
}

// shortest is the length from which on a string may be a secret by its looks.
const shortest = 12

// bland says that a string, as most names are, is too short for a shape and has no character that names or wraps.
func (r *Redactor) bland(s string) bool {
	return len(s) < shortest && len(r.detectors) == 0 && !r.pii && !strings.ContainsAny(s, "=:%?#@/;&{[\" \n")
}

// wrapped looks into a string that is one JSON document, or base64 of a text. It reports false for any other.
func (r *Redactor) wrapped(s string, a around) ([]edit, bool) {
	t := strings.TrimSpace(s)
	if len(t) < 2 {
		return nil, false
	}
	if strings.IndexByte(`{["`, t[0]) >= 0 && strings.IndexByte(`}]"`, t[len(t)-1]) >= 0 && json.Valid([]byte(t)) {
		return r.inner(t, strings.Index(s, t), a), true
	}
	if a.base64 {
		return nil, false
	}
	text, codec := fromBase64(t)
	if codec == nil {
		return nil, false
	}
	a = a.deeper()
	a.base64 = true
	edits := r.scan(text, a)
	if len(edits) == 0 {
		return nil, false // it may be a key of a known shape
	}
	at := strings.Index(s, t)
	return []edit{{at, at + len(t), codec.EncodeToString([]byte(apply(text, edits)))}}, true
}

// inner reads a valid JSON document that stands in a string.
func (r *Redactor) inner(doc string, base int, a around) []edit {
	w := &walk{r: r, doc: doc, around: a.deeper()}
	w.value(plain)
	return decoded{s: doc}.back(settle(w.edits), base, func(s string) string { return s })
}

// fromBase64 decodes printable text from any of the four alphabets.
func fromBase64(s string) (string, *base64.Encoding) {
	if len(s) < shortest || strings.ContainsFunc(s, func(c rune) bool {
		return (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && !strings.ContainsRune("+/-_=", c)
	}) {
		return "", nil
	}
	codec := base64.StdEncoding
	switch safe, padded := strings.ContainsAny(s, "-_"), s[len(s)-1] == '=' || len(s)%4 == 0; {
	case safe && padded:
		codec = base64.URLEncoding
	case safe:
		codec = base64.RawURLEncoding
	case !padded:
		codec = base64.RawStdEncoding
	}
	b, err := codec.DecodeString(s)
	if err != nil || !utf8.Valid(b) || strings.ContainsFunc(string(b), func(c rune) bool { return !unicode.IsPrint(c) && !unicode.IsSpace(c) }) {
		return "", nil
	}
	return string(b), codec
}

// finder collects the edits of one string.
type finder struct {
	r      *Redactor
	s      string
	around around
	edits  []edit
	done   []bool // bytes of documents and URLs, in which names have been dealt with; nil: there are none
}

type span struct{ start, end int }

func (f *finder) finish(start, end int) {
	if f.done == nil {
		f.done = make([]bool, len(f.s))
	}
	for i := start; i < end; i++ {
		f.done[i] = true
	}
}

func (f *finder) hide(start, end int) {
	if start < end && !masked(f.s[start:end]) {
		f.edits = append(f.edits, edit{start, end, Mask})
	}
}

func (f *finder) isDone(at int) bool { return f.done != nil && f.done[at] }

// nested scans a part as a text of its own.
func (f *finder) nested(start, end int) {
	a := f.around.deeper()
	d, some, _ := unescape(f.s[start:end])
	if some {
		f.edits = append(f.edits, d.back(f.r.scan(d.s, a), start, percent)...)
		return
	}
	d = decoded{s: f.s[start:end]}
	f.edits = append(f.edits, d.back(f.r.scan(d.s, a), start, func(s string) string { return s })...)
}

// blocks hides PEM blocks; one without an end hides the rest.
func (f *finder) blocks() {
	if f.r.off[DetectPEM] {
		return
	}
	const begin, end, dashes = "-----BEGIN", "-----END", "-----"
	for at := 0; ; {
		start := strings.Index(f.s[at:], begin)
		if start < 0 {
			return
		}
		start += at
		at = len(f.s)
		if k := strings.Index(f.s[start:], end); k >= 0 {
			rest := start + k + len(end)
			if k := strings.Index(f.s[rest:], dashes); k >= 0 {
				at = rest + k + len(dashes)
			}
		}
		f.hide(start, at)
		f.finish(start, at)
	}
}

// documents reads JSON objects and arrays of objects that stand in prose.
func (f *finder) documents() {
	for at, failed := 0, 0; failed < 8; {
		k := strings.IndexAny(f.s[at:], "{[")
		if k < 0 {
			return
		}
		start := at + k
		end := balanced(f.s, start)
		switch part := f.s[start:end]; {
		case strings.IndexByte(part, '"') < 0: // no names in it
			at = end
			continue
		case !json.Valid([]byte(part)):
			failed++
			at = start + 1
			continue
		}
		f.edits = append(f.edits, f.r.inner(f.s[start:end], start, f.around)...)
		f.finish(start, end)
		at = end
	}
}

// balanced finds the end of what opens at start; the end of the string, if nothing closes it.
func balanced(s string, start int) int {
	open, quoted := 0, false
	for i := start; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			open++
		case c == '}' || c == ']':
			if open--; open == 0 {
				return i + 1
			}
		}
	}
	return len(s)
}
