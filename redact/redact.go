// Package redact decides what of a document people may see and what may be stored of a question.
//
// A [Redactor] makes a view: a copy in which secrets are replaced by [Mask] and everything else keeps its bytes. It
// hides by name (a field called api_key, whatever it holds), by place (the parameters that sign a URL, the password in
// front of a host) and by shape (a private key, a card number). One redactor serves every place where a document
// becomes visible: questions, lists, logs, errors, exports.
//
// A view is for looking at. What runs is the original, and digests are of the original; a view has a digest of its own,
// stored beside the [Redactor.Revision] that made it. A redactor hides what it recognises: a password in a field called
// "note" that looks like a word stays visible. A [Secret] does not depend on recognition.
//
// When in doubt it hides: what is no JSON, too large, nested too deep, or makes the redactor itself fail is masked whole.
package redact

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
)

const (
	// Mask stands where something is hidden. In a URL, "[hidden]=2" says that two parameters are.
	Mask = "[hidden]"
	// TooLarge stands for what is over a policy's limit of size or depth.
	TooLarge = "[hidden: too large]"
	// NotJSON stands for a document that is not JSON, and for a value that cannot be written as JSON.
	NotJSON = "[hidden: not JSON]"
	// Unreadable stands for what made the redactor fail.
	Unreadable = "[hidden: not readable]"
)

// Redactor makes views under one policy. It is safe for concurrent use. The zero Redactor is not ready; use [New].
type Redactor struct {
	names     names
	params    map[string]bool
	places    []place
	keys      map[byte][]keyShape
	detectors []Detector
	off       map[string]bool
	pii       bool
	maxSize   int
	maxDepth  int
	revision  string
}

// Name is "redact", the part's name in an engine.
func (r *Redactor) Name() string { return "redact" }

// Digest is the Revision: an engine notices that another policy is in force.
func (r *Redactor) Digest() string { return r.revision }

// Revision is a digest of everything that decides what is hidden: the policy, and the defaults of this release.
func (r *Redactor) Revision() string { return r.revision }

// Store returns the view of a body that an engine is about to store. It never fails: what it cannot read it masks.
func (r *Redactor) Store(_ string, doc []byte) ([]byte, error) {
	view, _ := r.JSON(doc)
	return view, nil
}

// JSON returns the view of a JSON document and the paths of what it hides ($.auth.password, $.lines[0].link), in the
// order of the document and without values. The order of members, white space, escapes and the digits of numbers stay
// as they are. An object under a hidden name keeps the names of its members when all of them are common words, so that
// people see which kind of secret there is. True, false, null and what is empty stay visible: they hide nothing, and
// tell that there is no secret. A view of a view is the view. An empty document is its own view.
//
// A document that cannot be read is masked whole, and its view is still a JSON document.
func (r *Redactor) JSON(doc []byte) (view []byte, hidden []string) {
	view, paths := r.view(doc)
	for _, p := range paths {
		hidden = append(hidden, p.show(r))
	}
	return view, slices.Compact(hidden)
}

// view keeps the paths as they stand in the document: they may hold what JSON hides.
func (r *Redactor) view(doc []byte) (view []byte, hidden []trail) {
	defer func() {
		if recover() != nil {
			view, hidden = quoted(Unreadable), []trail{nil}
		}
	}()
	switch {
	case len(doc) == 0:
		return doc, nil
	case len(doc) > r.maxSize:
		return quoted(TooLarge), []trail{nil}
	case !json.Valid(doc):
		return quoted(NotJSON), []trail{nil}
	}
	w := &walk{r: r, doc: string(doc), watch: true}
	w.value(plain)
	return []byte(apply(w.doc, settle(w.edits))), w.hidden
}

func quoted(mask string) []byte { return []byte(`"` + mask + `"`) }

// Value returns the view of v's JSON. A v without a JSON form is masked whole.
func (r *Redactor) Value(v any) (view []byte, hidden []string) {
	doc, err := encode(v)
	if err != nil {
		return quoted(NotJSON), []string{trail(nil).show(r)}
	}
	return r.JSON(doc)
}

// encode survives a value whose own methods panic.
func encode(v any) (doc []byte, err error) {
	defer func() {
		if recover() != nil {
			err = fmt.Errorf("redact: a %T panicked while it was written as JSON; nothing of it is shown", v)
		}
	}()
	return json.Marshal(v)
}

// Text returns s with its secrets masked: for log lines, error messages and other prose.
func (r *Redactor) Text(s string) (shown string) {
	defer func() {
		if recover() != nil {
			shown = Unreadable
		}
	}()
	if len(s) > r.maxSize {
		return TooLarge
	}
	return apply(s, r.find(s, around{}))
}

// Masks reports whether the policy hides what stands at a path ($.payment.card_number), by its names alone. It answers
// before there is a document; [Redactor.Hides] also knows the values.
func (r *Redactor) Masks(at string) bool {
	steps, err := parsePath(at)
	return err != nil || slices.ContainsFunc(steps, func(s string) bool { return r.names.class(s) >= plural })
}

// Hides reports whether a view of doc would hide what stands at a path, or a part of it. A path has the form that JSON
// lists; [*] stands for every item, and the leading $ may be missing. A document or a path that cannot be read is
// hidden; what the document does not have is not.
func (r *Redactor) Hides(doc []byte, at string) bool {
	steps, err := parsePath(at)
	if err != nil {
		return true
	}
	_, hidden := r.view(doc)
	return slices.ContainsFunc(hidden, func(p trail) bool { return p.touches(steps) })
}

// Attr masks one attribute of a log record: it is a ReplaceAttr of [slog.HandlerOptions]. An attribute in a group of a
// sensitive name is masked.
func (r *Redactor) Attr(groups []string, a slog.Attr) slog.Attr {
	v := a.Value.Resolve()
	c := r.names.class(a.Key)
	for _, g := range groups {
		c = max(c, r.names.class(g))
	}
	number := v.Kind() == slog.KindInt64 || v.Kind() == slog.KindUint64 || v.Kind() == slog.KindFloat64
	switch {
	case v.Kind() == slog.KindBool || v.Kind() == slog.KindGroup:
		return a
	case c == secret || c == plural && !number:
		return slog.String(a.Key, Mask)
	case v.Kind() == slog.KindString:
		return slog.String(a.Key, r.Text(v.String()))
	case v.Kind() != slog.KindAny:
		return a
	}
	switch x := v.Any().(type) {
	case *slog.Source:
		return a
	case error:
		return slog.String(a.Key, r.text(x.Error))
	case fmt.Stringer:
		return slog.String(a.Key, r.text(x.String))
	default:
		view, _ := r.Value(x)
		return slog.Any(a.Key, json.RawMessage(view))
	}
}

// text survives a method that panics, such as Error of a nil pointer.
func (r *Redactor) text(method func() string) (shown string) {
	defer func() {
		if recover() != nil {
			shown = Unreadable
		}
	}()
	return r.Text(method())
}

// masked says that s is what a redactor left: hiding it again would change nothing.
func masked(s string) bool {
	return strings.HasPrefix(s, "[hidden") && (s == Mask || s == TooLarge || s == NotJSON || s == Unreadable)
}
