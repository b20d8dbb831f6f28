package redact

import (
	"cmp"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// edit replaces a part of a string. Everything that a redactor does is a list of edits, so what no edit names keeps
// its bytes. An edit of a decoded string (a JSON string, a percent-encoded value) is carried back to the bytes that it
// was decoded from.
type edit struct {
	start, end int
	with       string
}

// settle sorts edits and joins those that overlap: the larger one wins, and two that cross become one mask.
func settle(edits []edit) []edit {
	slices.SortStableFunc(edits, func(a, b edit) int {
		switch {
		case a.start != b.start:
			return cmp.Compare(a.start, b.start)
		case (a.start == a.end) != (b.start == b.end): // an insertion stands before what it precedes
			return cmp.Compare(a.end, b.end)
		}
		return cmp.Compare(b.end, a.end)
	})
	out := edits[:0]
	for _, e := range edits {
		if len(out) == 0 || e.start >= out[len(out)-1].end && e != out[len(out)-1] {
			out = append(out, e)
			continue
		}
		if last := &out[len(out)-1]; e.end > last.end {
			last.end, last.with = e.end, Mask
		}
	}
	return out
}

// apply needs settled edits.
func apply(s string, edits []edit) string {
	if len(edits) == 0 {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	at := 0
	for _, e := range edits {
		b.WriteString(s[at:e.start])
		b.WriteString(e.with)
		at = e.end
	}
	b.WriteString(s[at:])
	return b.String()
}

// decoded is a decoded string that knows where each of its bytes came from. A nil map means: from the same offset.
type decoded struct {
	s  string
	at []int32 // one more than bytes
}

// back carries edits of the decoded string to the encoded one, which begins at base.
func (d decoded) back(edits []edit, base int, escape func(string) string) []edit {
	for i, e := range edits {
		if d.at != nil {
			e.start, e.end = int(d.at[e.start]), int(d.at[e.end])
		}
		edits[i] = edit{base + e.start, base + e.end, escape(e.with)}
	}
	return edits
}

// unquote decodes the inside of a valid JSON string.
func unquote(raw string) decoded {
	if strings.IndexByte(raw, '\\') < 0 {
		return decoded{s: raw}
	}
	buf, at := make([]byte, 0, len(raw)), make([]int32, 0, len(raw)+1)
	for i := 0; i < len(raw); {
		start, size := i, len(buf)
		if raw[i] != '\\' {
			buf = append(buf, raw[i])
			i++
		} else if c := raw[i+1]; c != 'u' {
			if k := strings.IndexByte("bfnrt", c); k >= 0 {
				c = "\b\f\n\r\t"[k]
			}
			buf = append(buf, c)
			i += 2
		} else {
			c := rune(hex4(raw[i+2:]))
			i += 6
			if utf16.IsSurrogate(c) {
				if both := pair(c, raw[i:]); both != utf8.RuneError {
					c = both
					i += 6
				}
			}
			buf = utf8.AppendRune(buf, c)
		}
		for range len(buf) - size {
			at = append(at, int32(start))
		}
	}
	return decoded{string(buf), append(at, int32(len(raw)))}
}

func pair(high rune, rest string) rune {
	if len(rest) < 6 || rest[0] != '\\' || rest[1] != 'u' {
		return utf8.RuneError
	}
	return utf16.DecodeRune(high, rune(hex4(rest[2:])))
}

func hex4(s string) (n int) {
	for i := range 4 {
		n = n<<4 | unhex(s[i])
	}
	return n
}

// unhex returns -1 for what is no digit.
func unhex(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

// unescape decodes percent escapes. It leaves a plus alone, which is a space only in some places, and a percent sign
// without two digits; broken says that there was one. Without escapes some is false.
func unescape(raw string) (d decoded, some, broken bool) {
	if strings.IndexByte(raw, '%') < 0 {
		return decoded{s: raw}, false, false
	}
	buf, at := make([]byte, 0, len(raw)), make([]int32, 0, len(raw)+1)
	for i := 0; i < len(raw); {
		at = append(at, int32(i))
		if raw[i] == '%' {
			if i+2 < len(raw) && unhex(raw[i+1]) >= 0 && unhex(raw[i+2]) >= 0 {
				buf = append(buf, byte(unhex(raw[i+1])<<4|unhex(raw[i+2])))
				i += 3
				some = true
				continue
			}
			broken = true
		}
		buf = append(buf, raw[i])
		i++
	}
	return decoded{string(buf), append(at, int32(len(raw)))}, some, broken
}

func percent(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") }

// jsonText escapes for the inside of a JSON string.
func jsonText(s string) string {
	if !strings.ContainsFunc(s, func(c rune) bool { return c < ' ' || c == '"' || c == '\\' }) {
		return s
	}
	b, _ := json.Marshal(s) // a string has a JSON form
	return string(b[1 : len(b)-1])
}
