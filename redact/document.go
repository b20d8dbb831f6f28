package redact

import "strings"

// walk goes through a valid JSON document and collects edits.
type walk struct {
	r      *Redactor
	doc    string
	pos    int
	depth  int
	around around // what the document itself is wrapped in
	edits  []edit

	watch  bool // the outermost document: keep paths
	path   trail
	hidden []trail
}

func (w *walk) space() {
	for w.pos < len(w.doc) && strings.IndexByte(" \t\r\n", w.doc[w.pos]) >= 0 {
		w.pos++
	}
}

// text moves behind a string and returns its inside as it stands.
func (w *walk) text() string {
	start := w.pos + 1
	for w.pos = start; w.doc[w.pos] != '"'; w.pos++ {
		if w.doc[w.pos] == '\\' {
			w.pos++
		}
	}
	w.pos++
	return w.doc[start : w.pos-1]
}

// skip moves behind a value of any depth, without recursion.
func (w *walk) skip() {
	for open := 0; ; {
		w.space()
		switch w.doc[w.pos] {
		case '"':
			w.text()
		case '{', '[':
			open++
			w.pos++
		case '}', ']':
			open--
			w.pos++
		case ',', ':':
			w.pos++
			continue
		default:
			w.scalar()
		}
		if open == 0 {
			return
		}
	}
}

func (w *walk) scalar() string {
	start := w.pos
	for w.pos < len(w.doc) && strings.IndexByte(",}] \t\r\n", w.doc[w.pos]) < 0 {
		w.pos++
	}
	return w.doc[start:w.pos]
}

func (w *walk) note() {
	if w.watch {
		w.hidden = append(w.hidden, append(trail(nil), w.path...))
	}
}

// mask hides the document from start to here.
func (w *walk) mask(start int, mask string) {
	w.edits = append(w.edits, edit{start, w.pos, `"` + mask + `"`})
	w.note()
}

// value reads the value at the cursor, which stands under a name of class c.
func (w *walk) value(c class) {
	w.space()
	start := w.pos
	switch w.doc[start] {
	case '{', '[':
		switch {
		case w.depth >= w.r.maxDepth:
			w.skip()
			w.mask(start, TooLarge)
		case c >= plural:
			w.veil()
		case w.doc[start] == '{':
			w.object(c)
		default:
			w.array(c)
		}
	case '"':
		w.string(c)
	case 't', 'f', 'n':
		w.scalar()
	default:
		if n := w.scalar(); c == secret || w.r.card(n) {
			w.mask(start, Mask)
		}
	}
}

func (w *walk) string(c class) {
	start := w.pos
	d := unquote(w.text())
	switch {
	case masked(d.s):
		w.note()
	case c >= plural:
		if d.s != "" {
			w.mask(start, Mask)
		}
	case c == suspect && !w.r.off[DetectEntropy] && random(d.s):
		w.mask(start, Mask)
	default:
		if edits := w.find(d.s); len(edits) > 0 {
			w.edits = append(w.edits, d.back(edits, start+1, jsonText)...)
			w.note()
		} else if strings.Contains(d.s, Mask) {
			w.note()
		}
	}
}

// list calls f at each item or member of the array or object at the cursor; f moves behind it.
func (w *walk) list(f func(i int)) {
	closing := w.doc[w.pos] + 2 // as ASCII has them
	w.pos++
	w.depth++
	for i := 0; ; i++ {
		w.space()
		if w.doc[w.pos] == closing {
			w.pos++
			w.depth--
			return
		}
		if w.doc[w.pos] == ',' {
			w.pos++
			w.space()
		}
		f(i)
	}
}

// name reads the name of a member, up to its value.
func (w *walk) name() decoded {
	d := unquote(w.text())
	w.space()
	w.pos++ // the colon
	w.space()
	return d
}

// under does something one step further down the path.
func (w *walk) under(s step, do func()) {
	w.path = append(w.path, s)
	do()
	w.path = w.path[:len(w.path)-1]
}

// find leaves it to the outermost document to come to rest.
func (w *walk) find(s string) []edit {
	if w.around.levels == 0 {
		return w.r.find(s, w.around)
	}
	return w.r.scan(s, w.around)
}

// veil reads what stands under a hidden name. Of an object the names may stay, if they say nothing.
func (w *walk) veil() {
	start := w.pos
	switch w.doc[start] {
	case '{':
		if w.depth < w.r.maxDepth && w.commonNames() {
			w.list(func(int) { w.under(step{w.name().s, -1}, w.veil) })
			return
		}
		w.skip()
		w.mask(start, Mask)
	case '[':
		w.skip()
		if strings.TrimSpace(w.doc[start+1:w.pos-1]) != "" {
			w.mask(start, Mask)
		}
	case '"':
		w.string(secret)
	case 't', 'f', 'n':
		w.scalar()
	default:
		w.scalar()
		w.mask(start, Mask)
	}
}

func (w *walk) commonNames() bool {
	ahead, common := *w, true
	ahead.list(func(int) {
		common = common && w.r.names.common(ahead.name().s)
		ahead.skip()
	})
	return common
}

// valueSpan is a member called value: what it holds depends on a member called name, which may come later.
type valueSpan struct {
	start int
	path  trail
}

// object hides by the names of members, and in {"name": "Authorization", "value": ...} the value.
func (w *walk) object(c class) {
	start, mine := w.pos, len(w.edits)
	var titled, renamed bool
	var values []valueSpan
	w.list(func(int) {
		at := w.pos + 1
		d := w.name()
		w.under(step{d.s, -1}, func() {
			if edits := w.find(d.s); len(edits) > 0 {
				renamed = true
				w.edits = append(w.edits, d.back(edits, at, jsonText)...)
				w.note()
			}
			inner := w.pos
			w.value(max(c, w.r.names.class(d.s)))
			switch strings.ToLower(d.s) {
			case "name", "key", "header", "field", "param", "variable", "k":
				titled = titled || w.doc[inner] == '"' && w.r.names.class(unquote(w.doc[inner+1:w.pos-1]).s) == secret
			case "value", "values", "val", "v":
				values = append(values, valueSpan{inner, append(trail(nil), w.path...)})
			}
		})
	})
	end, at := w.pos, w.path
	for i := 0; titled && i < len(values); i++ {
		w.pos, w.path = values[i].start, values[i].path
		w.veil()
	}
	w.pos, w.path = end, at
	if renamed && w.ambiguous(start, w.edits[mine:]) {
		w.mask(start, Mask)
	}
}

// ambiguous says that hiding parts of names has made two names of the object from start to here equal.
func (w *walk) ambiguous(start int, edits []edit) bool {
	inner := make([]edit, len(edits))
	for i, e := range edits {
		inner[i] = edit{e.start - start, e.end - start, e.with}
	}
	view, twice, seen := &walk{doc: apply(w.doc[start:w.pos], settle(inner))}, false, map[string]bool{}
	view.list(func(int) {
		name := view.name().s
		twice = twice || seen[name]
		seen[name] = true
		view.skip()
	})
	return twice
}

// array hides the item after "--password".
func (w *walk) array(c class) {
	flag := false
	w.list(func(i int) {
		start := w.pos
		w.under(step{item: i}, func() {
			if flag && w.doc[start] == '"' {
				w.string(secret)
			} else {
				w.value(c)
			}
		})
		flag = w.doc[start] == '"' && w.r.flag(unquote(w.doc[start+1:w.pos-1]).s)
	})
}
