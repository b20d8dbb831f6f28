package schema

import (
	"strings"
	"testing"
)

type counter struct{ n int }

func (c counter) next() int { return c.n + 1 }

type box[T any] struct{ v T }

func (b box[T]) next() int { return len([]T{b.v}) }

func one() int         { return 1 }
func two() int         { return 2 }
func zero[T any]() int { return len([]T{}) }

func counting(n int) func() int { return func() int { return n } }

func TestSameFunc(t *testing.T) {
	t.Parallel()
	local := func() int { return 3 }
	for name, c := range map[string]struct {
		a, b any
		name string // what that of a ends in
		same bool
	}{
		"declared":                {one, one, "schema.one", true},
		"two":                     {one, two, "schema.one", false},
		"generic":                 {zero[int], zero[int], "schema.zero[...]", true},
		"generic of a pointer":    {zero[*int], zero[*int], "schema.zero[...]", true},
		"instances":               {zero[int], zero[string], "schema.zero[...]", false},
		"instances of one shape":  {zero[*int], zero[*string], "schema.zero[...]", false},
		"closure":                 {local, local, "", false},
		"closures":                {counting(1), counting(2), "", false},
		"method value":            {counter{1}.next, counter{2}.next, "", false},
		"method":                  {counter.next, counter.next, "", false},
		"method value of generic": {box[int]{1}.next, box[int]{2}.next, "", false},
		"another package's":       {strings.ToUpper, strings.ToUpper, "strings.ToUpper", true},
		"nil":                     {(func() int)(nil), (func() int)(nil), "", false},
		"declared and nil":        {one, (func() int)(nil), "schema.one", false},
		"no function":             {1, 1, "", false},
		"nothing":                 {nil, nil, "", false},
	} {
		if got := SameFunc(c.a, c.b); got != c.same {
			t.Errorf("%s: same is %v", name, got)
		}
		if got := FuncName(c.a); !strings.HasSuffix(got, c.name) || (got == "") != (c.name == "") {
			t.Errorf("%s: named %q, want %q", name, got, c.name)
		}
	}
}
