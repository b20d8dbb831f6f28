package redact

import (
	"net/netip"
	"strconv"
	"strings"
)

// keyShape is a prefix by which a provider marks its access keys.
type keyShape struct {
	prefix string
	rest   int // the least number of characters behind it
}

// keyShapes sorts them by their first byte.
func keyShapes() map[byte][]keyShape {
	out := map[byte][]keyShape{}
	for _, e := range list(providerKeys) {
		prefix, n, _ := strings.Cut(e, " ")
		rest, _ := strconv.Atoi(n)
		out[prefix[0]] = append(out[prefix[0]], keyShape{prefix, rest})
	}
	return out
}

// shapes hides what is a secret by its looks, wherever it stands.
func (f *finder) shapes() {
	for at := 0; at < len(f.s); {
		if !tokenByte(f.s[at]) {
			at++
			continue
		}
		start := at
		for at < len(f.s) && (tokenByte(f.s[at]) || f.s[at] == '.') {
			at++
		}
		if at-start >= shortest {
			f.token(start, at)
		}
	}
	if !f.r.off[DetectCard] {
		f.cards()
	}
	for _, d := range f.r.detectors {
		for _, m := range d.Pattern.FindAllStringIndex(f.s, -1) {
			f.hide(m[0], m[1])
		}
	}
	if f.r.pii {
		f.personal()
	}
}

func tokenByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || digit(c) || c == '_' || c == '-'
}

func digit(c byte) bool { return '0' <= c && c <= '9' }

// token looks at a run of characters of which tokens are made.
func (f *finder) token(start, end int) {
	t := f.s[start:end]
	twoDots := strings.LastIndexByte(t[:max(0, strings.LastIndexByte(t, '.'))], '.') // up to here two follow
	for i := range len(t) {
		if i > 0 && kindOf(t[i-1]) != 0 {
			continue
		}
		if !f.r.off[DetectJWT] && i+10 <= twoDots && strings.HasPrefix(t[i:], "eyJ") && strings.IndexByte(t[i:i+10], '.') < 0 {
			f.hide(start+i, end)
			return
		}
		if f.r.off[DetectKey] {
			continue
		}
		for _, k := range f.r.keys[t[i]] {
			rest, ok := strings.CutPrefix(t[i:], k.prefix)
			if ok && len(rest) < k.rest {
				continue
			}
			rest = rest[:min(len(rest), 64)]
			if ok && (strings.ContainsAny(rest, "0123456789") || rest == strings.ToUpper(rest)) {
				f.hide(start+i, end)
				return
			}
		}
	}
}

// cards hides card numbers; a space or a dash may stand between two digits.
func (f *finder) cards() {
	for at := 0; at < len(f.s); at++ {
		if !digit(f.s[at]) || at > 0 && (kindOf(f.s[at-1]) != 0 || f.s[at-1] == '.') {
			continue
		}
		digits, end := 0, at
		for i := at; i < len(f.s) && digits < 19; i++ {
			if !digit(f.s[i]) {
				if (f.s[i] == ' ' || f.s[i] == '-') && digit(f.s[i-1]) {
					continue
				}
				break
			}
			digits++
			if last := i+1 == len(f.s) || kindOf(f.s[i+1]) == 0; last && digits >= 13 && f.r.card(f.s[at:i+1]) {
				end = i + 1
			}
		}
		f.hide(at, end)
		at = max(at, end-1)
		for at+1 < len(f.s) && digit(f.s[at]) && digit(f.s[at+1]) {
			at++
		}
	}
}

// card checks brand, length and check digit.
func (r *Redactor) card(s string) bool {
	var n [19]byte
	size := 0
	for i := range len(s) {
		switch c := s[i]; {
		case c == ' ' || c == '-':
		case !digit(c) || size == len(n):
			return false
		default:
			n[size] = c
			size++
		}
	}
	if r.off[DetectCard] || !brand(string(n[:size])) {
		return false
	}
	sum := 0
	for i := range size {
		d := int(n[size-1-i] - '0')
		if i%2 == 1 {
			if d *= 2; d > 9 {
				d -= 9
			}
		}
		sum += d
	}
	return sum%10 == 0
}

func brand(n string) bool {
	if len(n) < 13 || len(n) > 19 {
		return false
	}
	four, _ := strconv.Atoi(n[:4])
	two := four / 100
	switch {
	case n[0] == '4':
		return len(n) == 13 || len(n) == 16 || len(n) == 19
	case two >= 51 && two <= 55, four >= 2221 && four <= 2720:
		return len(n) == 16
	case two == 34 || two == 37:
		return len(n) == 15
	case two == 36 || two == 38 || two == 39 || four >= 3000 && four <= 3059:
		return len(n) == 14
	case four == 6011 || two == 65 || two == 62 || four >= 3528 && four <= 3589 || two == 50 || two >= 56 && two <= 58:
		return len(n) >= 16
	}
	return false
}

// personal hides e-mail and IP addresses.
func (f *finder) personal() {
	for at := 0; at < len(f.s); {
		start := at
		for at < len(f.s) && (tokenByte(f.s[at]) || strings.IndexByte(".:@+%", f.s[at]) >= 0) {
			at++
		}
		word := strings.TrimRight(f.s[start:at], ".:")
		if name, host, ok := strings.Cut(word, "@"); ok && name != "" && strings.Contains(host, ".") {
			f.hide(start, start+len(word))
		}
		if _, err := netip.ParseAddr(word); err == nil {
			f.hide(start, start+len(word))
		} else if _, err := netip.ParseAddrPort(word); err == nil {
			f.hide(start, start+len(word))
		}
		at = max(at, start+1)
	}
}
