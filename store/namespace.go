package store

import (
	"strings"
	"unicode/utf8"

	"github.com/pawl-dev/pawl/storage"
)

// An item's address is one column, so that a namespace is a range of it and keys are in the order of namespaces: every
// label followed by a NUL, then an empty label (a NUL), then the key. Labels hold no NUL.
const (
	sep   = "\x00"
	after = "\x01" // just after everything that begins with a label and its NUL

	maxAddress = 2048 // bytes; what every database can index
)

// checkNamespace is the rule for namespaces that hold items.
func checkNamespace(labels []string) error {
	refuse := func(reason string) error { return &NamespaceError{labels, reason} }
	if len(labels) == 0 {
		return refuse("it is empty; name at least one label")
	}
	if labels[0] == "langgraph" {
		return refuse(`its first label, "langgraph", is reserved`)
	}
	for _, l := range labels {
		switch {
		case l == "":
			return refuse("a label is empty")
		case strings.Contains(l, "."):
			return refuse(`labels hold no "."`)
		case strings.Contains(l, sep) || !utf8.ValidString(l):
			return refuse("labels are UTF-8 without NUL")
		}
	}
	return nil
}

func address(labels []string, key string) (string, error) {
	if err := checkNamespace(labels); err != nil {
		return "", err
	}
	at := span(labels) + sep + key
	switch {
	case key == "":
		return "", &InputError{"key", "it is empty"}
	case !utf8.ValidString(key):
		return "", &InputError{"key", "it is no UTF-8"}
	case len(at) > maxAddress:
		return "", &InputError{"key", "with its namespace it is longer than 2,048 bytes"}
	}
	return at, nil
}

// span is what the addresses of a namespace, and of all below it, begin with.
func span(labels []string) string {
	if len(labels) == 0 {
		return ""
	}
	return strings.Join(labels, sep) + sep
}

// place is an address, read.
func place(at string) (labels []string, key string) {
	space, key, _ := strings.Cut(at, sep+sep)
	return strings.Split(space, sep), key
}

// within is the range of a namespace and all below it. False: nothing can be there.
func within(tenant string, labels []string) (storage.Range, bool) {
	r := storage.Range{Prefix: []any{tenant}}
	if len(labels) == 0 {
		return r, true
	}
	if checkNamespace(labels) != nil {
		return r, false
	}
	s := span(labels)
	r.From, r.To = s, s[:len(s)-1]+after
	return r, true
}

// List asks for namespaces that hold items, in the order of their labels.
type List struct {
	Prefix   []string // the first labels; "*" is any
	Suffix   []string // the last labels; "*" is any
	MaxDepth int      // longer ones are cut to this many labels, and each is told once; 0: whole
	Limit    int      // 0: 100
	Offset   int
}

func (q List) prepare(*Memory) (*act, error) {
	limit, err := page(q.Limit, 100, q.Offset)
	if err != nil {
		return nil, err
	}
	if q.MaxDepth < 0 {
		return nil, &InputError{"max depth", "it is negative"}
	}
	return &act{read: func(r *reader) (Result, error) {
		found, err := q.scan(r, limit)
		return Result{Namespaces: found}, err
	}}, nil
}

// scan jumps from namespace to namespace, whatever number of items they hold.
func (q List) scan(r *reader, limit int) ([][]string, error) {
	out := [][]string{}
	fixed := q.Prefix
	for i, l := range q.Prefix {
		if l == "*" {
			fixed = q.Prefix[:i]
			break
		}
	}
	rng, some := within(r.tenant, fixed)
	last, skip := "", q.Offset
	for some && len(out) < limit {
		rows, err := r.tx.List(itemKind, storage.Query{Range: rng, Limit: 1, NoBody: true})
		if err != nil || len(rows) == 0 {
			return out, err
		}
		at := rows[0].Key[1].(string)
		labels, _ := place(at)
		if over(rows[0], r.tx.Now()) {
			rng.From = at + sep
			continue
		}
		rng.From = span(labels) + after
		if !q.fits(labels) {
			continue
		}
		if q.MaxDepth > 0 && len(labels) > q.MaxDepth {
			labels = labels[:q.MaxDepth]
		}
		if told := span(labels); told != last {
			if last = told; skip > 0 {
				skip--
			} else {
				out = append(out, labels)
			}
		}
	}
	return out, nil
}

func (q List) fits(labels []string) bool {
	if len(labels) < len(q.Prefix) || len(labels) < len(q.Suffix) {
		return false
	}
	return alike(labels[:len(q.Prefix)], q.Prefix) && alike(labels[len(labels)-len(q.Suffix):], q.Suffix)
}

func alike(labels, pattern []string) bool {
	for i, p := range pattern {
		if p != "*" && p != labels[i] {
			return false
		}
	}
	return true
}

// page checks a limit and an offset.
func page(limit, standard, offset int) (int, error) {
	switch {
	case limit < 0 || offset < 0:
		return 0, &InputError{"limit", "a limit or an offset is negative"}
	case limit == 0:
		return standard, nil
	}
	return limit, nil
}
