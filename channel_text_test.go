package pawl_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
)

// said is an item that a text can stand for.
type said struct {
	By   string `json:"by"`
	Text string `json:"text"`
}

func (said) OfText(text string) said { return said{"me", text} }

type speeches struct {
	Log   pawl.Append[said]   `json:"log"`
	Lines pawl.Append[string] `json:"lines"`
	Last  pawl.Last[said]     `json:"last"`
}

// A text stands for an item where its type says so, alone and in a list; nothing else does, and nowhere else.
func TestTexts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, in, want, refused string }{
		{"a text", `{"log":"hello"}`, "me: hello", ""},
		{"a list of texts", `{"log":["a","b"]}`, "me: a, me: b", ""},
		{"texts among items", `{"log":["a",{"by":"you","text":"b"}, "c \"d\" \u00e9"]}`, "me: a, you: b, me: c \"d\" é", ""},
		{"an empty text", `{"log":""}`, "me: ", ""},
		{"a list of none", `{"log":[]}`, "", ""},
		{"a number", `{"log":1}`, "", "log"},
		{"an item alone", `{"log":{"by":"you","text":"b"}}`, "", "log"},
		{"a number among texts", `{"log":["a",1]}`, "", "log"},
		{"a list in a list", `{"log":["a",["b"]]}`, "", "log"},
		{"an unknown field among texts", `{"log":["a",{"by":"you","text":"b","x":1}]}`, "", "log"},
		{"null", `{"log":null}`, "", "log"},
		{"no such items", `{"lines":"hello"}`, "", "lines"},
		{"no list", `{"last":"hello"}`, "", "last"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var got []string
			g, err := pawl.New[speeches]("g").Node("a", func(_ context.Context, s *speeches) error {
				for _, m := range s.Log.All() {
					got = append(got, m.By+": "+m.Text)
				}
				return nil
			}).Path(pawl.Start, "a").Build()
			if err != nil {
				t.Fatal(err)
			}
			_, err = g.Thread(opened(t, hooked(t), nil), "t").Thread.Run(t.Context(), []byte(c.in))
			if c.refused != "" {
				if !errors.As(err, new(*pawl.InputError)) || !strings.Contains(err.Error(), `"`+c.refused+`"`) {
					t.Errorf("%v", err)
				}
			} else if err != nil || !slices.Equal(got, strings.Split(c.want, ", ")) && c.want+strings.Join(got, "") != "" {
				t.Errorf("read %q, %v", got, err)
			}
		})
	}
}
