package redact

import "strings"

// assignments hides what prose gives a sensitive name: password=..., "token": "...", Cookie: ...
func (f *finder) assignments() {
	if f.r.off[DetectAssignment] {
		return
	}
	for at := 0; at < len(f.s); {
		k := strings.IndexAny(f.s[at:], "=:")
		if k < 0 {
			return
		}
		at += k
		if f.isDone(at) || strings.HasPrefix(f.s[at:], "://") {
			at++
			continue
		}
		name, quote := f.nameBefore(at)
		c := f.r.names.class(name)
		if f.around.url && f.r.param(name) {
			c = secret
		}
		start, end := at, at
		switch {
		case c >= plural:
			start, end = f.valueAfter(at, name, quote)
		case c == suspect && !f.r.off[DetectEntropy]:
			start, end = f.randomAfter(at)
		}
		f.hide(start, end)
		at = max(at, end-1) + 1
	}
}

// nameBefore returns the name in front of an equals sign or a colon, without its quotes, and the byte before it.
func (f *finder) nameBefore(at int) (name string, before byte) {
	head := strings.TrimRight(f.s[max(0, at-3):at], " \t")
	if head == "" {
		return "", 0
	}
	head = f.s[:max(0, at-3)+len(head)]
	head = strings.TrimRight(head, `"'\]`)
	start := len(head)
	for start > 0 && nameByte(head[start-1]) {
		start--
	}
	if start > 0 {
		before = head[start-1]
	}
	return head[start:], before
}

func nameByte(c byte) bool { return schemeByte(c) && c != '+' || c == '_' || c == '$' || c >= 0x80 }

// valueAfter finds the value behind an equals sign or a colon.
func (f *finder) valueAfter(at int, name string, before byte) (start, end int) {
	start = at + 1
	for start < len(f.s) && strings.IndexByte(" \t=>", f.s[start]) >= 0 {
		start++
	}
	quote := start
	for quote < len(f.s) && f.s[quote] == '\\' {
		quote++
	}
	switch rest := f.s[start:]; {
	case rest == "" || f.spoken(rest):
		return start, start
	case quote < len(f.s) && (f.s[quote] == '"' || f.s[quote] == '\''):
		return quote + 1, closing(f.s, quote+1, f.s[start:quote+1])
	case rest[0] == '{' || rest[0] == '[' && !strings.HasPrefix(rest, Mask):
		return start, balanced(f.s, start)
	case f.s[at] == ':' && header(name):
		ends := "\r\n"
		if before == '"' || before == '\'' { // curl -H 'Authorization: ...'
			ends += string(before)
		}
		return start, cut(f.s, start, len(f.s), ends)
	}
	return start, wordEnd(f.s, start)
}

// randomAfter finds a value that looks random; such values are words, and not long.
func (f *finder) randomAfter(at int) (start, end int) {
	rest := f.s[at+1 : min(len(f.s), at+1+128)]
	value := strings.TrimLeft(rest, " \t=>\"'\\")
	start = at + 1 + len(rest) - len(value)
	if end = start + wordEnd(value, 0); !random(f.s[start:end]) {
		return start, start
	}
	return start, end
}

// header names may have values of several words.
func header(name string) bool {
	name = strings.ToLower(name)
	return strings.HasSuffix(name, "authorization") || strings.HasSuffix(name, "cookie")
}

// spoken says that a value tells only whether there is a secret.
func (f *finder) spoken(rest string) bool {
	rest = rest[:min(len(rest), 16)]
	word := rest[:wordEnd(rest, 0)]
	switch strings.ToLower(strings.TrimRight(word, `,;.)}]`)) {
	case "true", "false", "null", "nil", "none", `""`, "''":
		return true
	}
	return false
}

// closing finds the quote that closes a value; it is as much escaped as the one that opened it.
func closing(s string, at int, quote string) int {
	for i := at; i < len(s); i++ {
		if strings.HasPrefix(s[i:], quote) {
			return i
		}
		if s[i] == '\\' {
			i++
		}
	}
	return len(s)
}

// wordEnd finds the end of a value without quotes. Separators end it only where another assignment or a space follows.
func wordEnd(s string, start int) int {
	i := start
	if strings.HasPrefix(s[start:], Mask) {
		i += len(Mask)
	}
	for ; i < len(s); i++ {
		switch c := s[i]; {
		case c <= ' ' || breaks(c) && (i+1 == len(s) || kindOf(s[i+1]) == 0):
			return i
		case strings.IndexByte("&,;)}]", c) >= 0:
			next := i + 1
			for next < len(s) && nameByte(s[next]) {
				next++
			}
			if next == len(s) && next == i+1 || next < len(s) && (s[next] == '=' && next > i+1 || next == i+1 && s[next] <= ' ') {
				return i
			}
		}
	}
	return len(s)
}

// flag says that a word announces a secret: --password, -token.
func (r *Redactor) flag(word string) bool {
	return len(word) > 2 && word[0] == '-' && !strings.ContainsAny(word, "=:") && r.names.class(word) == secret
}

// follows says that a word is a credential because of the word before it.
func (f *finder) follows(before, word string) bool {
	if len(word) < 4 || word[0] == '-' || masked(word) {
		return false
	}
	if f.r.flag(before) {
		return true
	}
	switch strings.ToLower(strings.TrimLeft(before, `'":=`)) {
	case "bearer", "basic", "negotiate", "apikey":
		return len(word) >= 6 && (strings.ContainsAny(word, "0123456789=_") || word[1:] != strings.ToLower(word[1:])) && !strings.HasPrefix(word, Mask)
	}
	return false
}

// dsn hides user and password of an address without a scheme: user:password@tcp(host:3306)/name.
func (f *finder) dsn(start, end int) {
	w := f.s[start:end]
	at := max(strings.LastIndex(w, "@tcp("), strings.LastIndex(w, "@unix("))
	if at > 0 && !f.r.off[DetectUserinfo] {
		f.hide(start, start+at)
	}
}
