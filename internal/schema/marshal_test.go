package schema

import (
	"math"
	"strings"
	"testing"
)

func TestMarshalSaysWhere(t *testing.T) {
	t.Parallel()
	type inner struct {
		Odd    any `json:"odd,omitempty"`
		Hidden any `json:"-"`
		Plain  any
	}
	type Embedded struct{ Deep any }
	type ring struct{ Next *ring }
	loop := &ring{}
	loop.Next = loop
	type outer struct {
		Embedded
		List []inner
	}
	for name, c := range map[string]struct {
		v    any
		want string
	}{
		"itself":                 {make(chan int), "json: unsupported type: chan int"},
		"in a list":              {[]any{1, []any{func() {}}}, "at [1][0]: json"},
		"in a map, sorted":       {map[string]any{"b": make(chan int), "a": math.NaN()}, "at a: json: unsupported value: NaN"},
		"under its JSON name":    {outer{List: []inner{{}, {Odd: map[int]any{7: math.Inf(1)}}}}, "at List[1].odd.7: json"},
		"embedded":               {&outer{Embedded: Embedded{make(chan int)}}, "at Deep: json"},
		"no name":                {[]any{&inner{Plain: make(chan int)}}, "at [0].Plain: json"},
		"what is not written":    {inner{Hidden: make(chan int)}, ""},
		"a ring has no end":      {loop, "json: unsupported value: encountered a cycle"},
		"what writes wrong JSON": {[]any{wrong{}}, "at [0]: json: error calling MarshalJSON"},
	} {
		_, err := Marshal(c.v)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

type wrong struct{}

func (wrong) MarshalJSON() ([]byte, error) { return []byte("{"), nil }
