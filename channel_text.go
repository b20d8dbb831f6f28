package pawl

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/pawl-dev/pawl/internal/schema"
)

// textual is an item that a text can stand for in what a run or an edit is given.
type textual[T any] interface{ OfText(text string) T }

// texts puts items in the place of the texts that stand for them: of one alone, and of those in a list. All else stays.
func texts[T any](doc []byte) ([]byte, error) {
	var zero T
	of, ok := any(zero).(textual[T])
	if !ok {
		return doc, nil
	}
	list := []json.RawMessage{doc}
	if !isText(doc) {
		if json.Unmarshal(doc, &list) != nil || !slices.ContainsFunc(list, isText) {
			return doc, nil // whoever decodes it says what is wrong
		}
	}
	for i, item := range list {
		if !isText(item) {
			continue
		}
		var text string
		err := json.Unmarshal(item, &text)
		if err == nil {
			list[i], err = schema.Marshal(of.OfText(text))
		}
		if err != nil {
			return nil, err
		}
	}
	return json.Marshal(list)
}

func isText(doc json.RawMessage) bool {
	doc = bytes.TrimLeft(doc, " \t\r\n")
	return len(doc) > 0 && doc[0] == '"'
}
