package effect

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// words is an error of an effect's own function as it may be stored and shown. The error itself stays below it, for
// errors.Is and errors.As.
type words struct {
	text string
	err  error
}

func (e *words) Error() string { return e.text }
func (e *words) Unwrap() error { return e.err }

// words hides in an error what the view of the parameters hides, because targets and clients quote what they were sent,
// and what the redactor recognises by itself, such as a signed URL. Without a redactor the words stay as they are.
func (l *Ledger) words(err error, params []byte) error {
	if err == nil || l.redactor == nil {
		return err
	}
	text := err.Error()
	view, _ := l.redactor.JSON(params)
	if is, ok := decodedTree(params); ok {
		shown, _ := decodedTree(view)
		pairs := differing(nil, is, shown)
		slices.SortFunc(pairs, func(a, b [2]string) int { return len(b[0]) - len(a[0]) }) // the longest first
		for _, p := range pairs {
			text = strings.ReplaceAll(text, p[0], p[1])
		}
	}
	return &words{l.text(text), err}
}

// text hides in words what the redactor recognises by itself.
func (l *Ledger) text(s string) string {
	if l.redactor == nil {
		return s
	}
	doc, err := json.Marshal(s)
	if err == nil {
		doc, _ = l.redactor.JSON(doc)
		err = json.Unmarshal(doc, &s)
	}
	if err != nil {
		return hiddenWords
	}
	return s
}

const (
	hiddenWords = "[hidden]"
	// shortWord is a value that stands in too many words to be hidden in them.
	shortWord = 4
)

func decodedTree(doc []byte) (v any, ok bool) {
	d := json.NewDecoder(bytes.NewReader(doc))
	d.UseNumber()
	return v, d.Decode(&v) == nil
}

// differing pairs each leaf with how the view shows it, where that is not the same.
func differing(pairs [][2]string, is, shown any) [][2]string {
	switch is := is.(type) {
	case map[string]any:
		in, _ := shown.(map[string]any)
		for name, field := range is {
			pairs = differing(pairs, field, in[name])
		}
	case []any:
		in, _ := shown.([]any)
		for i, item := range is {
			var view any
			if i < len(in) {
				view = in[i]
			}
			pairs = differing(pairs, item, view)
		}
	case string:
		pairs = differingLeaf(pairs, is, shown)
	case json.Number:
		pairs = differingLeaf(pairs, is.String(), shown)
	}
	return pairs
}

func differingLeaf(pairs [][2]string, leaf string, shown any) [][2]string {
	view := hiddenWords
	switch s := shown.(type) {
	case string:
		view = s
	case json.Number:
		view = s.String()
	}
	if len(leaf) < shortWord || leaf == view {
		return pairs
	}
	return append(pairs, [2]string{leaf, view})
}
