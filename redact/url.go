package redact

import (
	"net/url"
	"path"
	"strconv"
	"strings"
)

// words reads the text word by word: URLs, and credentials that follow a word such as Bearer or --token.
func (f *finder) words() {
	before := ""
	for at := 0; at < len(f.s); {
		start := at
		for at < len(f.s) && !breaks(f.s[at]) {
			at++
		}
		if start < at {
			if word := f.s[start:at]; !f.isDone(start) {
				f.word(start, at, start == 0 && at == len(f.s))
				if !f.r.off[DetectAssignment] && f.follows(before, word) {
					f.hide(start, start+len(strings.TrimRight(word, `,;'\`)))
				}
			}
			before = f.s[start:at]
		}
		at++
	}
}

// breaks is about bytes that no URL may have as they are.
func breaks(c byte) bool {
	return c <= ' ' || c == '"' || c == '<' || c == '>' || c == '`' || c == 0x7f
}

func (f *finder) word(start, end int, whole bool) {
	w := f.s[start:end]
	if !strings.ContainsAny(w, "?#&%;@") && !strings.Contains(w, "://") {
		return
	}
	scheme, query := strings.Index(w, "://"), strings.IndexAny(w, "?#")
	absolute := scheme > 0 && (query < 0 || scheme < query)
	first := 0
	if !strings.HasPrefix(w, Mask) {
		first = len(w) - len(strings.TrimLeft(w, "([{'"))
	}
	if k := strings.Index(w, "]("); k >= 0 && !whole && (query < 0 || k < query) { // a link in markdown
		first = k + 2
	}
	if absolute {
		for first = scheme; first > 0 && schemeByte(w[first-1]); {
			first--
		}
		if first == scheme {
			first++ // a colon without a scheme
		}
	}
	if !whole {
		end = start + first + len(trimmed(w[first:]))
	}
	w = w[first:max(first, end-start)]
	start += first
	switch {
	case absolute:
		f.address(start, start+strings.Index(w, "//")+2, end)
	case strings.HasPrefix(w, "//"):
		f.address(start, start+2, end)
	case query >= 0 || strings.HasPrefix(w, "/"):
		f.tail(start, start, end)
	case strings.Contains(w, "&") && strings.Contains(w, "="):
		f.params(start, end, false)
		f.finish(start, end)
	default:
		f.dsn(start, end)
		if _, some, _ := unescape(w); some {
			f.nested(start, end)
		}
	}
}

func schemeByte(c byte) bool { return kindOf(c) != 0 || strings.IndexByte("+-.", c) >= 0 }

// trimmed drops what follows a URL in prose, such as a full stop and the bracket around a link.
func trimmed(w string) string {
	var open [3]int // ( [ { that are not closed
	for i := range len(w) {
		if k := strings.IndexByte("([{", w[i]); k >= 0 {
			open[k]++
		} else if k := strings.IndexByte(")]}", w[i]); k >= 0 {
			open[k]--
		}
	}
	for w != "" {
		last := w[len(w)-1]
		k := strings.IndexByte(")]}", last)
		switch {
		case k >= 0 && open[k] < 0:
			open[k]++
		case strings.IndexByte(`.,;:!?'*\`, last) < 0:
			return w
		}
		w = w[:len(w)-1]
	}
	return w
}

// address reads a URL from its scheme, or from the slashes of one without. Its host begins at host. What net/url
// cannot read is hidden whole.
func (f *finder) address(start, host, end int) {
	stop := cut(f.s, host, end, `/?#\`)
	host = f.userinfo(host, stop, end)
	if u, err := url.Parse("x://" + strings.ReplaceAll(f.s[host:end], Mask, "m")); err != nil || u.Host == "" && stop > host {
		f.edits = append(f.edits, edit{start, end, Mask})
		f.finish(start, end)
		return
	}
	f.tail(host, max(stop, host), end)
}

// userinfo hides what stands in front of an @ and returns where the host begins.
func (f *finder) userinfo(host, stop, end int) int {
	at := strings.LastIndexByte(f.s[host:stop], '@')
	if at < 0 && strings.Contains(f.s[host:stop], ":") { // a password with a slash in it
		rest := f.s[stop:cut(f.s, stop, end, "?#")]
		if k := strings.LastIndexByte(rest, '@'); k > 0 && rest[k-1] != '/' {
			at = stop + k - host
		}
	}
	if at < 0 {
		return host
	}
	if !f.r.off[DetectUserinfo] {
		f.hide(host, host+at)
	}
	return host + at + 1
}

// cut returns where the first of some bytes stands, or end.
func cut(s string, start, end int, any string) int {
	if k := strings.IndexAny(s[start:end], any); k >= 0 {
		return start + k
	}
	return end
}

// tail reads path, query and fragment. The host, if there is one, ends where the path begins.
func (f *finder) tail(host, start, end int) {
	f.finish(host, end)
	query := cut(f.s, start, end, "?#")
	f.path(f.s[host:start], start, query)
	if query < end && f.s[query] == '?' {
		hash := cut(f.s, query, end, "#")
		f.params(query+1, hash, true)
		query = hash
	}
	if query == end {
		return
	}
	fragment := query + 1
	if k := cut(f.s, fragment, end, "?"); k < end { // an application's own path and query
		f.path("", fragment, k)
		fragment = k + 1
	}
	if strings.ContainsAny(f.s[fragment:end], "=%") {
		f.params(fragment, end, true)
	}
}

// place is a host whose paths are secrets when they contain a text.
type place struct{ Host, Path string }

func places(entries []string) []place {
	var out []place
	for _, e := range entries {
		host, path, _ := strings.Cut(strings.ToLower(e), "/")
		out = append(out, place{host, "/" + path})
	}
	return out
}

func (f *finder) path(host string, start, end int) {
	if f.secretPath(strings.ToLower(host), f.s[start:end]) {
		f.hide(start+1, end)
		return
	}
	for at := start; at < end; { // parameters of a segment: /a;jsessionid=1/b
		k := strings.IndexByte(f.s[at:end], ';')
		if k < 0 {
			break
		}
		at += k + 1
		stop := cut(f.s, at, end, ";/")
		if name, value, ok := strings.Cut(f.s[at:stop], "="); ok && value != "" && f.r.param(name) {
			f.hide(at+len(name)+1, stop)
		}
	}
	for at := start; ; at += 3 { // an address as a part of the path
		k := strings.Index(f.s[at:end], "://")
		if k < 0 {
			break
		}
		at += k
		stop := cut(f.s, at+3, end, "/")
		f.userinfo(at+3, stop, stop)
	}
	if _, some, _ := unescape(f.s[start:end]); some {
		f.nested(start, end)
	}
}

func (f *finder) secretPath(host, at string) bool {
	if len(at) < 2 || host == "" {
		return false
	}
	host, _, _ = strings.Cut(host, ":")
	clean := at
	for range 3 {
		if c, err := url.PathUnescape(clean); err == nil {
			clean = c
		}
	}
	clean = path.Clean(strings.ToLower(clean))
	for _, p := range f.r.places {
		if (host == p.Host || strings.HasSuffix(host, "."+p.Host)) && strings.Contains(clean, p.Path) && clean != "/" {
			return true
		}
	}
	return false
}

// param says that a parameter of a URL is sensitive.
func (r *Redactor) param(name string) bool {
	for range 3 {
		d, some, _ := unescape(name)
		if !some {
			break
		}
		name = d.s
	}
	name = strings.TrimSpace(strings.TrimPrefix(name, "amp;"))
	if k := strings.IndexByte(name, '['); k > 0 {
		name = name[:k]
	}
	return r.params[strings.ToLower(name)] || r.names.class(name) >= plural
}

// params strips the sensitive parameters of a query and says how many there were: "[hidden]=2". What is a form and no
// query keeps their names.
func (f *finder) params(start, end int, strip bool) {
	var cuts []span
	hidden, told, kept := 0, 0, false
	for at, before := start, start; at <= end; {
		stop, next := separator(f.s, at, end)
		name, value, _ := f.assigned(f.s[at:stop])
		n, err := strconv.ParseUint(value, 10, 16)
		earlier := strip && name == Mask && err == nil // what a view said
		switch sensitive := value != "" && f.sensitiveParam(name, value); {
		case sensitive && !strip:
			f.hide(stop-len(value), stop)
		case sensitive || earlier:
			if earlier {
				told += int(n)
			} else {
				hidden++
			}
			if kept {
				cuts = append(cuts, span{before, stop})
			} else {
				cuts = append(cuts, span{at, next})
			}
		default:
			f.kept(at, stop)
			kept = true
		}
		if next == stop {
			break
		}
		at, before = next, stop
	}
	if hidden == 0 {
		return
	}
	for _, c := range cuts {
		f.edits = append(f.edits, edit{c.start, c.end, ""})
	}
	with := Mask + "=" + strconv.Itoa(hidden+told)
	if kept {
		with = "&" + with
	}
	f.edits = append(f.edits, edit{end, end, with})
}

// assigned splits name=value; the equals sign may be encoded.
func (f *finder) assigned(seg string) (name, value string, ok bool) {
	if name, value, ok = strings.Cut(seg, "="); ok {
		return name, value, true
	}
	for _, eq := range []string{"%3D", "%3d", "%253D", "%253d"} {
		if name, value, ok = strings.Cut(seg, eq); ok {
			return name, value, true
		}
	}
	return seg, "", false
}

func (f *finder) sensitiveParam(name, value string) bool {
	if masked(value) {
		return false
	}
	if f.r.param(name) {
		return true
	}
	return f.r.names.class(name) == suspect && !f.r.off[DetectEntropy] && random(value)
}

// kept looks into a parameter that stays.
func (f *finder) kept(start, end int) {
	seg := f.s[start:end]
	if k := strings.IndexByte(seg, ';'); k >= 0 { // an old separator
		for at := start + k + 1; at < end; {
			stop := cut(f.s, at, end, ";")
			if name, value, ok := strings.Cut(f.s[at:stop], "="); ok && value != "" && f.r.param(name) {
				f.hide(at+len(name)+1, end)
				return
			}
			at = stop + 1
		}
	}
	if k := strings.IndexByte(seg, '='); k >= 0 {
		start += k + 1
	}
	if strings.ContainsAny(f.s[start:end], "%?&=#:/{[") || end-start > 16 {
		was := f.around.url
		f.around.url = true
		f.nested(start, end)
		f.around.url = was
	}
}

// separator finds the & that ends a parameter, in the ways that HTML and JSON write it.
func separator(s string, at, end int) (stop, next int) {
	for i := at; i < end; i++ {
		switch {
		case s[i] == '&':
			for _, long := range []string{"&amp;", "&#38;", "&#x26;"} {
				if strings.HasPrefix(s[i:end], long) {
					return i, i + len(long)
				}
			}
			return i, i + 1
		case s[i] == '\\' && strings.HasPrefix(s[i:end], `\u0026`):
			return i, i + 6
		}
	}
	return end, end
}
