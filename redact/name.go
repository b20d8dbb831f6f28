package redact

import (
	"maps"
	"math"
	"slices"
	"strings"
	"unicode"
)

// class says how far a name gives its value away.
type class byte

const (
	plain   class = iota
	suspect       // hides what looks random: key, signature
	plural        // hides all but a number, which is a count: tokens
	secret        // hides
)

// names knows terms by their words, joined: "apikey" is api_key, ApiKey and api key.
type names struct {
	terms    map[string]class
	harmless map[string]bool
	words    map[string]bool // what a member below a hidden name may be called
}

// longest is the number of words of the longest term, and of the longest that a policy may add.
const longest = 6

func newNames(hide, show []string) names {
	n := names{terms: map[string]class{}, harmless: map[string]bool{}, words: map[string]bool{}}
	learn := func(name string, c class) {
		buf, ends := split(nil, nil, name)
		if len(buf) == 0 {
			return
		}
		n.terms[string(buf)] = c
		n.words[string(buf)] = true
		for i, start := 0, 0; i < len(ends); i++ {
			n.words[string(buf[start:ends[i]])] = true
			start = ends[i]
		}
	}
	for _, s := range list(suspectNames) {
		learn(s, suspect)
	}
	for _, s := range hide {
		learn(s, secret)
	}
	for _, s := range list(commonWords) {
		n.words[s] = true
	}
	for _, s := range show {
		buf, _ := split(nil, nil, s)
		n.harmless[string(buf)] = true
	}
	return n
}

func (n names) list() []string {
	var out []string
	for _, t := range slices.Sorted(maps.Keys(n.terms)) {
		out = append(out, t+" "+string('0'+rune(n.terms[t])))
	}
	return out
}

// split appends the letters and digits of a name, in lower case, and where each word ends. Words end at other
// characters and where camelCase turns.
func split(buf []byte, ends []int, name string) ([]byte, []int) {
	var before rune
	for i, c := range name {
		if !unicode.IsLetter(c) && !unicode.IsDigit(c) {
			before = 0
			continue
		}
		turn := before == 0
		if unicode.IsUpper(c) && before != 0 {
			after, _ := first(name[i:], 1)
			turn = !unicode.IsUpper(before) || unicode.IsLower(after)
		}
		if turn && len(buf) > 0 {
			ends = append(ends, len(buf))
		}
		buf, before = append(buf, string(unicode.ToLower(c))...), c
	}
	if len(buf) > 0 {
		ends = append(ends, len(buf))
	}
	return buf, ends
}

// first returns the character after n others.
func first(s string, n int) (rune, bool) {
	for _, c := range s {
		if n == 0 {
			return c, true
		}
		n--
	}
	return 0, false
}

// class looks at every run of words of a name, except those inside a harmless one.
func (n names) class(name string) class {
	var bufSpace [64]byte
	var endSpace [16]int
	buf, ends := split(bufSpace[:0], endSpace[:0], name)
	best, safe := plain, 0 // words before safe belong to a harmless run
	for i, start := 0, 0; i < len(ends); i++ {
		last := min(i+longest, len(ends))
		for j := last - 1; j >= i && safe <= j; j-- {
			if n.harmless[string(buf[start:ends[j]])] {
				safe = j + 1
			}
		}
		for j := max(i, safe); j < last; j++ {
			best = max(best, n.term(buf[start:ends[j]]))
		}
		start = ends[i]
	}
	return best
}

// term looks a run of words up: as it stands, without a number at its end, without a plural s.
func (n names) term(run []byte) class {
	if c := n.terms[string(run)]; c != plain {
		return c
	}
	for len(run) > 0 && run[len(run)-1] >= '0' && run[len(run)-1] <= '9' {
		run = run[:len(run)-1]
	}
	c := n.terms[string(run)]
	if c == plain && len(run) > 3 && run[len(run)-1] == 's' {
		if c = n.terms[string(run[:len(run)-1])]; c == secret {
			c = plural
		}
	}
	return c
}

// common says that a name consists of words that are no secrets themselves.
func (n names) common(name string) bool {
	buf, ends := split(nil, nil, name)
	if len(buf) < len(strings.Map(letterOrDigit, name)) || len(ends) == 0 || len(name) > 64 {
		return false
	}
	for i, start := 0, 0; i < len(ends); i++ {
		if !n.words[string(buf[start:ends[i]])] {
			return n.words[string(buf)]
		}
		start = ends[i]
	}
	return true
}

func letterOrDigit(c rune) rune {
	if c == '_' || c == '-' || c == '.' || c == ' ' {
		return -1
	}
	return c
}

// random says that a string is long, has more information in it than words have, and turns between small letters,
// capitals and digits as words, dates and numbers do not.
func random(s string) bool {
	if len(s) < 20 || strings.ContainsFunc(s, unicode.IsSpace) {
		return false
	}
	var count [256]int
	turns, before := 0, byte(0)
	for i := range len(s) {
		count[s[i]]++
		if kind := kindOf(s[i]); kind != 0 {
			if before != 0 && kind != before {
				turns++
			}
			before = kind
		}
	}
	var bits float64
	for _, c := range count {
		if c > 0 {
			p := float64(c) / float64(len(s))
			bits -= p * math.Log2(p)
		}
	}
	return bits >= 3 && turns*5 >= len(s)
}

func kindOf(c byte) byte {
	switch {
	case digit(c):
		return '0'
	case 'a' <= c && c <= 'z':
		return 'a'
	case 'A' <= c && c <= 'Z':
		return 'A'
	}
	return 0
}
