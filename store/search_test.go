package store_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/store"
)

func TestFilters(t *testing.T) {
	onEach(t, func(t *testing.T, db *clocked) {
		s := open(t, db, store.Options{})
		for key, value := range map[string]string{
			"nine":   `{"n":9,"kind":"a","in":{"x":1,"y":2},"list":[1,{"z":3}]}`,
			"ten":    `{"n":10,"kind":"b","in":{"x":1.0},"list":[1]}`,
			"large":  `{"n":9007199254740993,"kind":"a"}`,
			"tiny":   `{"n":-1e-400,"kind":"c","in":null}`,
			"text":   `{"n":"9","kind":"a","in":"x"}`,
			"yes":    `{"n":true,"kind":"true"}`,
			"absent": `{"kind":"a"}`,
			"null":   `{"n":null,"list":[]}`,
		} {
			put(t, s, "f", key, value)
		}
		for name, c := range map[string]struct {
			f    store.Filter
			want string
		}{
			"nothing":                {store.Filter{}, "absent large nine null ten text tiny yes"},
			"equal text":             {store.Filter{"kind": "a"}, "absent large nine text"},
			"two fields":             {store.Filter{"kind": "a", "n": 9}, "nine"},
			"a number is no text":    {store.Filter{"n": "9"}, "text"},
			"however it is written":  {store.Filter{"n": json.Number("0.9e1")}, "nine"},
			"every digit counts":     {store.Filter{"n": int64(9007199254740992)}, ""},
			"true is not one":        {store.Filter{"n": true}, "yes"},
			"null is absent":         {store.Filter{"n": nil}, "absent null"},
			"greater, not by text":   {store.Filter{"n": store.Gt(9)}, "large ten"},
			"greater, every digit":   {store.Filter{"n": store.Gt(int64(9007199254740992))}, "large"},
			"not less":               {store.Filter{"n": store.Gte(9.0)}, "large nine ten"},
			"less":                   {store.Filter{"n": store.Lt(0)}, "tiny"},
			"not greater":            {store.Filter{"n": store.Lte(10)}, "nine ten tiny"},
			"between":                {store.Filter{"n": store.Cond{"$gte": 9, "$lt": 10}}, "nine"},
			"not equal, or absent":   {store.Filter{"n": store.Ne(9)}, "absent large null ten text tiny yes"},
			"not null":               {store.Filter{"n": store.Ne(nil)}, "large nine ten text tiny yes"},
			"inside":                 {store.Filter{"in": map[string]any{"x": 1}}, "nine ten"},
			"inside, altogether":     {store.Filter{"in": store.Eq(map[string]any{"x": 1})}, "ten"},
			"inside, compared":       {store.Filter{"in": map[string]any{"y": store.Gt(1)}}, "nine"},
			"inside what is not":     {store.Filter{"in": map[string]any{"x": store.Ne(5)}}, "nine ten"},
			"an object":              {store.Filter{"in": map[string]any{}}, "nine ten"},
			"a list, item by item":   {store.Filter{"list": []any{1, map[string]any{"z": store.Gt(2)}}}, "nine"},
			"a list, altogether":     {store.Filter{"list": store.Eq([]int{1})}, "ten"},
			"an empty list":          {store.Filter{"list": []any{}}, "null"},
			"a list is no object":    {store.Filter{"list": map[string]any{}}, ""},
			"a number too large":     {store.Filter{"n": store.Lt(json.Number("1e999999999"))}, "large nine ten tiny"},
			"a field that is no one": {store.Filter{"what": "x"}, ""},
		} {
			hits, err := s.Search(t.Context(), store.Search{Prefix: ns("f"), Filter: c.f, Limit: 100})
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			same(t, name, told(hits), c.want)
		}
		for says, f := range map[string]store.Filter{
			"n: $gt compares numbers, not a string":       {"n": store.Gt("9")},
			"n: $lt compares numbers, not null":           {"n": store.Lt(nil)},
			"n: $lte compares numbers, not a boolean":     {"n": store.Lte(true)},
			"n: $gte compares numbers, not a list":        {"n": store.Gte([]int{1})},
			`"$like" is none of`:                          {"n": store.Cond{"$like": "x"}},
			`"a" is none of`:                              {"n": store.Cond{"$eq": 1, "a": 2}},
			`in.x: "$in" is none of`:                      {"in": map[string]any{"x": store.Cond{"$in": []int{1}}}},
			`list[0]: "$in" is none of`:                   {"list": []any{store.Cond{"$in": []int{1}}}},
			`"$eq" stands where a field's name is wanted`: {"$eq": 1},
			"unsupported value":                           {"n": math.NaN()},
		} {
			_, err := s.Search(t.Context(), store.Search{Filter: f})
			refused[*store.InputError](t, says, err, says)
		}
	})
}

// Without a text the last updated come first, a page at a time.
func TestRecency(t *testing.T) {
	onEach(t, func(t *testing.T, db *clocked) {
		s := open(t, db, store.Options{})
		for i := range 600 { // more than a search holds at once
			put(t, s, fmt.Sprintf("r/%d", i%3), fmt.Sprintf("k%d", i), fmt.Sprintf(`{"n":%d}`, i))
			db.pass(time.Millisecond)
		}
		put(t, s, "r/0", "k0", `{"n":0}`)
		put(t, s, "other", "k", `{"n":1000}`)
		same(t, "first page", found(t, s, store.Search{Prefix: ns("r"), Limit: 3}), "k0 k599 k598")
		same(t, "second page", found(t, s, store.Search{Prefix: ns("r"), Limit: 2, Offset: 3}), "k597 k596")
		same(t, "ten", len(strings.Fields(found(t, s, store.Search{Prefix: ns("r")}))), 10)
		same(t, "all", len(strings.Fields(found(t, s, store.Search{Prefix: ns("r"), Limit: 1000}))), 600)
		same(t, "filtered", found(t, s, store.Search{Prefix: ns("r"), Filter: store.Filter{"n": store.Gte(597)}}), "k599 k598 k597")
		same(t, "filtered, later page", found(t, s, store.Search{Prefix: ns("r"), Filter: store.Filter{"n": store.Lt(2)}, Offset: 1}), "k1")
		same(t, "one namespace", found(t, s, store.Search{Prefix: ns("r/1"), Limit: 1}), "k598")
		same(t, "below nothing", found(t, s, store.Search{Prefix: ns("r/1/k598")}), "")
		hits, err := s.Search(t.Context(), store.Search{Offset: 5000})
		if err != nil || hits == nil || len(hits) > 0 {
			t.Errorf("past the end: %v, %v", hits, err)
		}
	})
}

func TestByMeaning(t *testing.T) {
	onEach(t, func(t *testing.T, db *clocked) {
		model := drinks()
		s := open(t, db, store.Options{Embedder: model, Index: []string{"likes", "more[*].text"}})
		put(t, s, "m", "tea", `{"likes":"tea","kind":"hot"}`)
		put(t, s, "m", "both", `{"likes":"tea and coffee","kind":"hot"}`)
		put(t, s, "m", "water", `{"likes":"water","more":[{"text":"never coffee"},{"text":null},7]}`)
		put(t, s, "m", "plain", `{"other":"tea"}`)
		_, err := s.Batch(t.Context(),
			store.Put{Namespace: ns("m"), Key: "hidden", Value: map[string]any{"likes": "tea"}, NoIndex: true},
			store.Put{Namespace: ns("m"), Key: "own", Value: map[string]any{"likes": "coffee", "deep": []any{0, map[string]any{"a": "tea"}}}, Index: []string{"deep[-1].a"}},
			store.Put{Namespace: ns("x"), Key: "elsewhere", Value: map[string]any{"likes": "tea"}})
		if err != nil {
			t.Fatal(err)
		}
		same(t, "best first, then what has no vector", found(t, s, store.Search{Prefix: ns("m"), Text: "tea"}),
			"own=1.00 tea=1.00 both=0.71 water=0.00 hidden plain")
		same(t, "best of several", found(t, s, store.Search{Prefix: ns("m"), Text: "coffee", Limit: 2}), "water=1.00 both=0.71")
		same(t, "filter first", found(t, s, store.Search{Prefix: ns("m"), Text: "tea", Filter: store.Filter{"kind": "hot"}}), "tea=1.00 both=0.71")
		same(t, "page", found(t, s, store.Search{Prefix: ns("m"), Text: "tea", Limit: 2, Offset: 3}), "water=0.00 hidden")
		same(t, "without a text", found(t, s, store.Search{Prefix: ns("x")}), "elsewhere")

		put(t, s, "m", "tea", `{"likes":"water"}`)
		same(t, "after another put", found(t, s, store.Search{Prefix: ns("m"), Text: "water", Limit: 2}), "tea=1.00 water=1.00")
		put(t, s, "m", "tea", `{"likes":null}`)
		same(t, "nothing to embed", found(t, s, store.Search{Prefix: ns("m"), Text: "water", Limit: 2}), "water=1.00 both=0.00")
		if err := s.Delete(t.Context(), ns("m"), "water"); err != nil {
			t.Fatal(err)
		}
		same(t, "after delete", found(t, s, store.Search{Prefix: ns("m"), Text: "water", Limit: 1}), "both=0.00")

		model.calls = nil
		_, err = s.Batch(t.Context(), store.Put{Namespace: ns("b"), Key: "1", Value: map[string]any{"likes": "tea"}}, store.Search{Text: "tea"},
			store.Put{Namespace: ns("b"), Key: "2", Value: map[string]any{"likes": "first"}}, store.Put{Namespace: ns("b"), Key: "2", Value: map[string]any{"likes": "coffee"}})
		same(t, "one call a batch, each text once, none in vain", fmt.Sprint(model.calls, err), "[[tea coffee]] <nil>")
	})
}

// The whole value is embedded where nothing else is said.
func TestWholeValue(t *testing.T) {
	onEach(t, func(t *testing.T, db *clocked) {
		model := drinks()
		s := open(t, db, store.Options{Embedder: model})
		put(t, s, "w", "k", `{"b":["tea", 12345678901234567890],"a":{"c":"coffee"}}`)
		same(t, "embedded", model.calls[0][0], `{"a":{"c":"coffee"},"b":["tea",12345678901234567890]}`)
		same(t, "found", found(t, s, store.Search{Text: "tea coffee"}), "k=1.00")
	})
}

// What a model cannot do is refused, and nothing is written.
func TestModelsFail(t *testing.T) {
	onEach(t, func(t *testing.T, db *clocked) {
		model := drinks()
		s := open(t, db, store.Options{Embedder: model})
		put(t, s, "m", "k", `{"likes":"tea"}`)
		model.err = errors.New("no credit")
		if err := s.Put(t.Context(), ns("m"), "k", map[string]int{"n": 2}); err == nil || !strings.Contains(err.Error(), "no credit") {
			t.Errorf("a failing model: %v", err)
		}
		for says, broken := range map[string]embedder{
			"1 vectors for 2 texts":        func([]string) [][]float32 { return [][]float32{{1}} },
			"vectors of 1 and 2 numbers":   func([]string) [][]float32 { return [][]float32{{1}, {1, 2}} },
			"vectors of 0 and 0 numbers":   func([]string) [][]float32 { return [][]float32{{}, {}} },
			"a vector holds what is no nu": func([]string) [][]float32 { return [][]float32{{1}, {float32(math.NaN())}} },
		} {
			other := open(t, db, store.Options{Embedder: broken})
			_, err := other.Batch(t.Context(), store.Put{Namespace: ns("m"), Key: "k", Value: map[string]int{"n": 2}}, store.Search{Text: "x"})
			refused[*store.EmbeddingError](t, says, err, says)
		}
		same(t, "kept", value(t, s, "m", "k"), `{"likes":"tea"}`)
		longer := open(t, db, store.Options{Embedder: &words{known: []string{"tea", "coffee"}}})
		_, err := longer.Search(t.Context(), store.Search{Text: "tea"})
		refused[*store.EmbeddingError](t, "another model", err, `"k" in [m]: 3 numbers in 1 vectors, and the model in use makes 2`)
	})
}
