package schema

import (
	"encoding/json"
	"errors"
	"math/big"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"
)

type line struct {
	SKU    string `json:"sku"`
	Amount int    `json:"amount"`
}

type invoice struct {
	ID     string            `json:"id"`
	Lines  []line            `json:"lines"`
	Note   string            `json:"note,omitempty"`
	Parent *invoice          `json:"parent"`
	Labels map[string]string `json:"labels,omitzero"`
	hidden int
	Skip   int `json:"-"`
}

type tree struct {
	Kids []tree `json:"kids,omitempty"`
}

type dirs map[string]dirs

type (
	ping struct {
		Pong *pong `json:"pong,omitempty"`
	}
	pong struct {
		Ping ping `json:"ping"`
	}
)

type custom struct{ A int }

func (custom) MarshalJSON() ([]byte, error) { return []byte(`"x"`), nil }

type readsItself struct{ A int }

func (*readsItself) UnmarshalJSON([]byte) error { return nil }

type level int

func (l level) MarshalText() ([]byte, error) { return []byte("high"), nil }
func (l *level) UnmarshalText([]byte) error  { return nil }

type halfText int

func (halfText) MarshalText() ([]byte, error) { return []byte("x"), nil }

// Base and the others are embedded, in all the ways in which encoding/json resolves names.
type Base struct {
	ID   string `json:"id"`
	Kind string
	Both int `json:"both"`
}

type Other struct {
	Kind int
	Both int `json:"both"`
	Far  Far
}

type Far struct{ Deep bool }

type outer struct {
	Base
	*Other
	inner
	Number float64 `json:"number"`
	Tagged `json:"tagged"`
}

type inner struct{ Inside int }

type Tagged struct{ X int }

type tagWins struct {
	tagA
	tagB
}
type tagA struct{ Name string }
type tagB struct {
	Other int `json:"Name"`
}

type Loop struct {
	*Loop
	N int
}

func TestSchemaAndShape(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		typ    reflect.Type
		schema string
		shape  string
	}{
		"bool":           {reflect.TypeFor[bool](), `{"type":"boolean"}`, "bool"},
		"int":            {reflect.TypeFor[int8](), `{"type":"integer"}`, "int"},
		"uint":           {reflect.TypeFor[uint64](), `{"type":"integer"}`, "int"},
		"float":          {reflect.TypeFor[float32](), `{"type":"number"}`, "number"},
		"string":         {reflect.TypeFor[string](), `{"type":"string"}`, "string"},
		"duration":       {reflect.TypeFor[time.Duration](), `{"type":"integer"}`, "int"},
		"time":           {reflect.TypeFor[time.Time](), `{"type":"string","format":"date-time"}`, "time"},
		"bytes":          {reflect.TypeFor[[]byte](), `{"type":["string","null"],"contentEncoding":"base64"}`, "bytes"},
		"array of bytes": {reflect.TypeFor[[2]byte](), `{"type":"array","items":{"type":"integer"},"minItems":2,"maxItems":2}`, "[2]int"},
		"raw":            {reflect.TypeFor[json.RawMessage](), `true`, "any"},
		"any":            {reflect.TypeFor[any](), `true`, "any"},
		"error":          {reflect.TypeFor[error](), `true`, "any"},
		"json number":    {reflect.TypeFor[json.Number](), `{"type":"number"}`, "number"},
		"custom":         {reflect.TypeFor[custom](), `true`, "custom"},
		"pointer to any": {reflect.TypeFor[*any](), `true`, "?any"},
		"reads itself":   {reflect.TypeFor[readsItself](), `true`, "custom"},
		"big int":        {reflect.TypeFor[big.Int](), `true`, "custom"},
		"text":           {reflect.TypeFor[level](), `{"type":"string"}`, "string"},
		"address":        {reflect.TypeFor[netip.Addr](), `{"type":"string"}`, "string"},
		"half a text":    {reflect.TypeFor[halfText](), `true`, "custom"},
		"pointer":        {reflect.TypeFor[*int](), `{"type":["integer","null"]}`, "?int"},
		"two pointers":   {reflect.TypeFor[**int](), `{"type":["integer","null"]}`, "??int"},
		"slice":          {reflect.TypeFor[[]string](), `{"type":["array","null"],"items":{"type":"string"}}`, "[]string"},
		"map":            {reflect.TypeFor[map[string]int](), `{"type":["object","null"],"additionalProperties":{"type":"integer"}}`, "{*:int}"},
		"map by int":     {reflect.TypeFor[map[int]bool](), `{"type":["object","null"],"additionalProperties":{"type":"boolean"}}`, "{*:bool}"},
		"map by text":    {reflect.TypeFor[map[level]any](), `{"type":["object","null"],"additionalProperties":true}`, "{*:any}"},
		"empty struct":   {reflect.TypeFor[struct{}](), `{"type":"object","properties":{},"additionalProperties":false}`, "{}"},
		"struct":         {reflect.TypeFor[line](), `{"type":"object","properties":{"sku":{"type":"string"},"amount":{"type":"integer"}},"required":["sku","amount"],"additionalProperties":false}`, "{amount:int,sku:string}"},
		"pointer to it":  {reflect.TypeFor[*struct{ A int }](), `{"type":["object","null"],"properties":{"A":{"type":"integer"}},"required":["A"],"additionalProperties":false}`, "?{A:int}"},
		"in a string":    {tagged("N", int64(0), `json:"n,string"`, "P", (*bool)(nil), `json:",string"`, "S", []int(nil), `json:"s,string"`), `{"type":"object","properties":{"n":{"type":"string"},"P":{"type":["string","null"]},"s":{"type":["array","null"],"items":{"type":"integer"}}},"required":["n","s"],"additionalProperties":false}`, "{P?:quoted ?bool,n:quoted int,s:[]int}"},
		"invalid tag": {reflect.TypeFor[struct {
			N int "json:\"it's\""
		}](), `{"type":"object","properties":{"N":{"type":"integer"}},"required":["N"],"additionalProperties":false}`, "{N:int}"},
		"dash as a name":   {tagged("N", 0, `json:"-,"`), `{"type":"object","properties":{"-":{"type":"integer"}},"required":["-"],"additionalProperties":false}`, "{-:int}"},
		"recursive struct": {reflect.TypeFor[tree](), `{"$ref":"#/$defs/tree","$defs":{"tree":{"type":"object","properties":{"kids":{"type":["array","null"],"items":{"$ref":"#/$defs/tree"}}},"additionalProperties":false}}}`, "{kids?:[]^1}"},
		"recursive map":    {reflect.TypeFor[dirs](), `{"$ref":"#/$defs/dirs","$defs":{"dirs":{"type":["object","null"],"additionalProperties":{"$ref":"#/$defs/dirs"}}}}`, "{*:^1}"},
		"each other":       {reflect.TypeFor[ping](), `{"$ref":"#/$defs/ping","$defs":{"ping":{"type":"object","properties":{"pong":{"type":["object","null"],"properties":{"ping":{"$ref":"#/$defs/ping"}},"required":["ping"],"additionalProperties":false}},"additionalProperties":false}}}`, "{pong?:?{ping:^2}}"},
		"recursion inside": {reflect.TypeFor[[]*tree](), `{"type":["array","null"],"items":{"anyOf":[{"$ref":"#/$defs/tree"},{"type":"null"}]},"$defs":{"tree":{"type":"object","properties":{"kids":{"type":["array","null"],"items":{"$ref":"#/$defs/tree"}}},"additionalProperties":false}}}`, "[]?{kids?:[]^1}"},
		"embedded": {reflect.TypeFor[outer](), `{"type":"object","properties":{"id":{"type":"string"},"Far":{"type":"object","properties":{"Deep":{"type":"boolean"}},"required":["Deep"],"additionalProperties":false},"Inside":{"type":"integer"},"number":{"type":"number"},"tagged":{"type":"object","properties":{"X":{"type":"integer"}},"required":["X"],"additionalProperties":false}},"required":["id","Inside","number","tagged"],"additionalProperties":false}`,
			"{Far?:{Deep:bool},Inside:int,id:string,number:number,tagged:{X:int}}"},
		"a tag wins":    {reflect.TypeFor[tagWins](), `{"type":"object","properties":{"Name":{"type":"integer"}},"required":["Name"],"additionalProperties":false}`, "{Name:int}"},
		"embeds itself": {reflect.TypeFor[Loop](), `{"type":"object","properties":{"N":{"type":"integer"}},"required":["N"],"additionalProperties":false}`, "{N:int}"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := Of(tt.typ)
			if err != nil || string(got) != tt.schema {
				t.Errorf("schema\n%s, %v; want\n%s", got, err, tt.schema)
			}
			if !json.Valid(got) {
				t.Error("the schema is not JSON")
			}
			if got := Shape(tt.typ); got != tt.shape {
				t.Errorf("shape %s, want %s", got, tt.shape)
			}
		})
	}
}

func TestForIsOf(t *testing.T) {
	t.Parallel()
	a, errA := For[invoice]()
	b, errB := Of(reflect.TypeFor[invoice]())
	if errA != nil || errB != nil || string(a) != string(b) {
		t.Errorf("%s, %v; %s, %v", a, errA, b, errB)
	}
}

func TestNamesOfRecursiveTypesDiffer(t *testing.T) {
	t.Parallel()
	type node struct{ A []node }
	a := reflect.TypeFor[node]()
	b := func() reflect.Type {
		type node struct{ B []node }
		return reflect.TypeFor[node]()
	}()
	both := reflect.StructOf([]reflect.StructField{{Name: "X", Type: a}, {Name: "Y", Type: b}, {Name: "Z", Type: a}})
	doc, err := Of(both)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"X":{"$ref":"#/$defs/node"}`, `"Y":{"$ref":"#/$defs/node2"}`, `"Z":{"$ref":"#/$defs/node"}`} {
		if !strings.Contains(string(doc), want) {
			t.Errorf("schema %s, want %s in it", doc, want)
		}
	}
	if faults := Validate(doc, []byte(`{"X":{"A":[{"A":null}]},"Y":{"B":[{"A":null}]},"Z":{"A":[]}}`)); len(faults) != 2 {
		t.Errorf("faults %v", faults)
	}
}

func TestTypesThatJSONCannotHold(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		typ  reflect.Type
		want string
	}{
		"channel":         {reflect.TypeFor[chan int](), "chan int is a chan int, which JSON cannot hold"},
		"function":        {reflect.TypeFor[func()](), "func() is a func()"},
		"complex":         {reflect.TypeFor[complex128](), "complex128"},
		"map by struct":   {reflect.TypeFor[map[line]int](), "map[schema.line]int"},
		"in a field":      {reflect.TypeFor[struct{ A []chan int }](), "A[] is a chan int"},
		"below a pointer": {reflect.TypeFor[*func()](), "func()"},
		"in a map":        {reflect.TypeFor[map[string]func()](), "[] is a func()"},
		"in an array":     {reflect.TypeFor[[2]func()](), "[] is a func()"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if doc, err := Of(tt.typ); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("schema %s, error %v; want %q", doc, err, tt.want)
			}
			if s, err := Compile(tt.typ); err == nil || s != nil {
				t.Errorf("compiled %v, %v", s, err)
			}
			if !strings.Contains(Shape(tt.typ), "none") {
				t.Errorf("shape %s", Shape(tt.typ))
			}
		})
	}
}

func TestShapesOfEqualMeaning(t *testing.T) {
	t.Parallel()
	type renamed struct {
		Count int64  `json:"amount"`
		Code  string `json:"sku"`
	}
	type narrower struct {
		SKU string `json:"sku"`
	}
	type optional struct {
		SKU    string `json:"sku"`
		Amount int    `json:"amount,omitempty"`
	}
	want := Shape(reflect.TypeFor[line]())
	if got := Shape(reflect.TypeFor[renamed]()); got != want {
		t.Errorf("Go names and the order of fields count: %s, %s", got, want)
	}
	for _, typ := range []reflect.Type{reflect.TypeFor[narrower](), reflect.TypeFor[optional](), reflect.TypeFor[*line]()} {
		if got := Shape(typ); got == want {
			t.Errorf("%s has the shape of line", typ)
		}
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		typ  reflect.Type
		doc  string
		want []string
	}{
		"whole":                {reflect.TypeFor[invoice](), `{"id":"1","lines":[{"sku":"a","amount":1}],"note":"n","parent":null,"labels":{"a":"b"}}`, nil},
		"least":                {reflect.TypeFor[invoice](), `{"id":"1","lines":null}`, nil},
		"spacing":              {reflect.TypeFor[invoice](), " {\n\t\"id\" : \"1\" ,\r\n \"lines\" : [ ] } ", nil},
		"escaped name":         {reflect.TypeFor[invoice](), `{"\u0069d":"a\"\\","lines":[]}`, nil},
		"wrong type":           {reflect.TypeFor[invoice](), `{"id":1,"lines":{}}`, []string{"id: is an integer, want a string", "lines: is an object, want an array"}},
		"not an object":        {reflect.TypeFor[invoice](), `"x"`, []string{"is a string, want an object"}},
		"null":                 {reflect.TypeFor[invoice](), `null`, []string{"is null, want an object"}},
		"missing":              {reflect.TypeFor[invoice](), `{}`, []string{"id: missing field", "lines: missing field"}},
		"unknown":              {reflect.TypeFor[invoice](), `{"id":"1","lines":[],"ID":"2","hidden":1,"Skip":1}`, []string{"ID: unknown field", "hidden: unknown field", "Skip: unknown field"}},
		"twice":                {reflect.TypeFor[invoice](), `{"id":"1","lines":[],"id":"2"}`, []string{"id: stands twice"}},
		"twice, escaped":       {reflect.TypeFor[invoice](), `{"id":"1","lines":[],"\u0069d":"2"}`, []string{"id: stands twice"}},
		"deep":                 {reflect.TypeFor[invoice](), `{"id":"1","lines":[{"sku":"a","amount":1},{"sku":2,"x":[]}]}`, []string{"lines[1].sku: is an integer, want a string", "lines[1].x: unknown field", "lines[1].amount: missing field"}},
		"recursive":            {reflect.TypeFor[invoice](), `{"id":"1","lines":[],"parent":{"id":"2","lines":[],"parent":{"id":3,"lines":[]}}}`, []string{"parent.parent.id: is an integer, want a string"}},
		"recursive, no object": {reflect.TypeFor[invoice](), `{"id":"1","lines":[],"parent":[1]}`, []string{"parent: is an array, want an object"}},
		"in a map":             {reflect.TypeFor[map[string][]int](), `{"a":[1,"x"],"b":[2.5],"c":null}`, []string{"a[1]: is a string, want an integer", "b[0]: is a number, want an integer"}},
		"twice in a map":       {reflect.TypeFor[map[string]int](), `{"a":1,"a":2}`, []string{"a: stands twice"}},
		"twice in anything":    {reflect.TypeFor[any](), `{"a":[{"b":1,"b":{"c":1,"c":2}}]}`, []string{"a[0].b: stands twice", "a[0].b.c: stands twice"}},
		"twice in the unknown": {reflect.TypeFor[struct{}](), `{"a":{"b":1,"b":2}}`, []string{"a: unknown field", "a.b: stands twice"}},
		"integer":              {reflect.TypeFor[int](), `-12`, nil},
		"integer as 1.0":       {reflect.TypeFor[int](), `1.0`, []string{"is a number, want an integer"}},
		"integer as 1e3":       {reflect.TypeFor[int](), `1e3`, []string{"is a number, want an integer"}},
		"number":               {reflect.TypeFor[float64](), `1.5E-3`, nil},
		"number from integer":  {reflect.TypeFor[float64](), `3`, nil},
		"boolean":              {reflect.TypeFor[bool](), `false`, nil},
		"boolean from number":  {reflect.TypeFor[bool](), `0`, []string{"is an integer, want a boolean"}},
		"array too short":      {reflect.TypeFor[[2]int](), `[1]`, []string{"has 1 items, want 2"}},
		"array too long":       {reflect.TypeFor[[2]int](), `[1,2,3]`, []string{"has 3 items, want 2"}},
		"array":                {reflect.TypeFor[[2]int](), `[1,2]`, nil},
		"empty array":          {reflect.TypeFor[[0]int](), `[1]`, []string{"has 1 items, want 0"}},
		"trailing data":        {reflect.TypeFor[int](), `1 2`, []string{"is not JSON"}},
		"trailing comma":       {reflect.TypeFor[[]int](), `[1,]`, []string{"is not JSON"}},
		"cut short":            {reflect.TypeFor[any](), `{"a":`, []string{"is not JSON"}},
		"nothing":              {reflect.TypeFor[any](), ``, []string{"is empty, want JSON"}},
		"white space":          {reflect.TypeFor[any](), " \n", []string{"is empty, want JSON"}},
		"a plus sign":          {reflect.TypeFor[int](), `+1`, []string{"is not JSON"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			doc, err := Of(tt.typ)
			if err != nil {
				t.Fatal(err)
			}
			faults := Validate(doc, []byte(tt.doc))
			for i, f := range faults {
				if i >= len(tt.want) || !strings.HasPrefix(f.String(), tt.want[i]) {
					t.Errorf("fault %d: %s", i, f)
				}
			}
			if len(faults) != len(tt.want) {
				t.Errorf("faults %v, want %q", faults, tt.want)
			}
		})
	}
}

func TestFaultsAreBounded(t *testing.T) {
	t.Parallel()
	s, err := Compile(reflect.TypeFor[[]string]())
	if err != nil {
		t.Fatal(err)
	}
	if n := len(s.Validate([]byte("[" + strings.Repeat("1,", 1000) + "1]"))); n != maxFaults {
		t.Errorf("%d faults", n)
	}
}

func TestSchemasThatCannotBeRead(t *testing.T) {
	t.Parallel()
	for name, doc := range map[string]string{
		"no JSON": `{`, "a number": `5`, "a wrong type": `{"type":5}`, "no definition": `{"$ref":"#/$defs/x"}`,
		"inside": `{"properties":{"a":{"items":{"$ref":"#/$defs/x"}}}}`, "in a choice": `{"anyOf":[{"$ref":"#/$defs/x"}]}`,
		"in a definition": `{"$defs":{"a":{"additionalProperties":{"$ref":"#/$defs/x"}}}}`,
	} {
		if _, err := Parse([]byte(doc)); err == nil {
			t.Errorf("%s: no error", name)
		}
		if faults := Validate([]byte(doc), []byte(`1`)); len(faults) != 1 || !strings.Contains(faults[0].Problem, "unreadable schema") {
			t.Errorf("%s: %v", name, faults)
		}
	}
	if faults := Validate([]byte(`false`), []byte(`1`)); len(faults) != 1 || faults[0].Problem != "is not allowed" {
		t.Errorf("the schema false: %v", faults)
	}
	if faults := Validate([]byte(`{"type":"integer","title":"ignored","format":"int64"}`), []byte(`1`)); len(faults) != 0 {
		t.Errorf("unknown keywords: %v", faults)
	}
	var none *Schema
	if faults := none.Validate([]byte(`1`)); faults != nil {
		t.Errorf("no schema: %v", faults)
	}
}

// TestWhatGoWritesIsValid holds the schema to encoding/json: what it writes, of zero and of filled values, has no fault.
func TestWhatGoWritesIsValid(t *testing.T) {
	t.Parallel()
	other := &Other{Kind: 1}
	n := 5
	for _, v := range []any{
		invoice{hidden: 1}, invoice{ID: "1", Lines: []line{{}}, Note: "n", Parent: &invoice{}, Labels: map[string]string{"a": "b"}}, &invoice{},
		tree{}, tree{Kids: []tree{{}, {Kids: []tree{{}}}}}, dirs{"a": dirs{"b": nil}}, dirs(nil), ping{Pong: &pong{}},
		outer{}, outer{Other: other}, tagWins{}, Loop{}, Loop{Loop: &Loop{}},
		time.Now(), []byte("x"), []byte(nil), [3]int{}, map[int]level{1: 2}, json.Number("1.5"), json.Number(""), custom{}, big.NewInt(5),
		struct {
			N int    `json:",string"`
			P *int   `json:",string"`
			Q *int   `json:",string,omitempty"`
			F func() `json:"-"`
		}{P: &n},
		[]any{1, "x", nil}, []*int{nil, &n}, netip.MustParseAddr("::1"), float32(1.5), errors.New("x"),
	} {
		schema, err := Of(reflect.TypeOf(v))
		if err != nil {
			t.Errorf("%T: %v", v, err)
			continue
		}
		doc, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if faults := Validate(schema, doc); len(faults) > 0 {
			t.Errorf("%T wrote %s: %v", v, doc, faults)
		}
	}
}

func TestMembers(t *testing.T) {
	t.Parallel()
	got, err := Members([]byte(` { "a" : [1, 2] , "\u0062":{"c":null},"d":"x" } `))
	want := []Member{{"a", json.RawMessage(`[1, 2]`)}, {"b", json.RawMessage(`{"c":null}`)}, {"d", json.RawMessage(`"x"`)}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("members %s, %v", got, err)
	}
	if got, err := Members([]byte(`{}`)); err != nil || len(got) != 0 {
		t.Errorf("members of nothing %v, %v", got, err)
	}
	for doc, want := range map[string]string{
		``: "is empty", `{`: "is not JSON", `{}{}`: "is not JSON", `[]`: "is an array, want an object", `null`: "is null, want an object",
		`{"a":1,"b":2,"a":3}`: `field "a" stands twice`,
	} {
		if _, err := Members([]byte(doc)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", doc, err, want)
		}
	}
}

func FuzzValidate(f *testing.F) {
	for _, doc := range []string{`{"id":"1","lines":[]}`, `[{}]`, `"\u0022"`, `{"a":{"a":[-0.5e1,true,null]}}`, ` 1`, `{"\\":"\\\""}`} {
		f.Add([]byte(doc))
	}
	any, err := Compile(reflect.TypeFor[json.RawMessage]())
	if err != nil {
		f.Fatal(err)
	}
	one, err := Compile(reflect.TypeFor[invoice]())
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		faults := any.Validate(doc)
		if json.Valid(doc) != (len(faults) == 0 || strings.HasSuffix(faults[0].Problem, "twice")) {
			t.Errorf("%q: %v", doc, faults)
		}
		if len(one.Validate(doc)) == 0 {
			var v invoice
			if err := json.Unmarshal(doc, &v); err != nil {
				t.Errorf("%q is valid and unreadable: %v", doc, err)
			}
		}
	})
}

// tagged makes a struct type of names, zero values and tags that no careful program would write.
func tagged(list ...any) reflect.Type {
	var fields []reflect.StructField
	for i := 0; i < len(list); i += 3 {
		fields = append(fields, reflect.StructField{
			Name: list[i].(string), Type: reflect.TypeOf(list[i+1]), Tag: reflect.StructTag(list[i+2].(string)),
		})
	}
	return reflect.StructOf(fields)
}
