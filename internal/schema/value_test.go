package schema

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
)

// same holds the quick ways to encoding/json: equal bytes out, equal values in.
func same[T any](t *testing.T, values ...T) {
	t.Helper()
	for _, v := range values {
		want, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Encode(&v)
		if err != nil || string(got) != string(want) {
			t.Errorf("%#v is %s, %v; want %s", v, got, err, want)
		}
		back, err := Decode[T](nil, got)
		if err != nil || !reflect.DeepEqual(back, v) {
			t.Errorf("%s reads as %#v, %v; want %#v", got, back, err, v)
		}
	}
}

func TestEncodeAsEncodingJSON(t *testing.T) {
	t.Parallel()
	same(t, "", "a", "with space ~", `"`, `\`, "<b>&", "\n\t\x00\x1f\x7f", "é", "日本", "\u2028", "😀")
	same(t, true, false)
	same(t, 0, 1, -1, math.MaxInt, math.MinInt)
	same(t, int64(0), math.MaxInt64, math.MinInt64)
	same(t, uint64(0), math.MaxUint64)
	same(t, 0.0, 1, -1, 0.1, 1e-6, 9.9e-7, -1e-7, 1e20, 1e21, -1e21, math.MaxFloat64, math.SmallestNonzeroFloat64, 123456789.123)
	same(t, line{"a", 1}, line{})
	same(t, []string{"a", "<"}, []string{}, nil)
	type named string
	same(t, named("a"), named("\n"))
	for _, f := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		if doc, err := Encode(&f); err == nil {
			t.Errorf("%g is %s", f, doc)
		}
	}
}

func TestDecodeIsStrict(t *testing.T) {
	t.Parallel()
	bad := func(doc string, err error) {
		t.Helper()
		if err == nil {
			t.Errorf("%q was read", doc)
		}
	}
	for _, doc := range []string{``, `"`, `"a`, `a"`, `"a"b"`, `"a\"`, "\"\n\"", `5`, `"a" "b"`, `"a",`} {
		_, err := Decode[string](nil, []byte(doc))
		bad(doc, err)
	}
	for _, doc := range []string{``, `-`, `+1`, `01`, `-01`, `1.0`, `1e2`, `0x1`, `1_000`, `1 2`, `"1"`, `true`, `9223372036854775808`} {
		_, err := Decode[int64](nil, []byte(doc))
		bad(doc, err)
		_, err = Decode[int](nil, []byte(doc))
		bad(doc, err)
	}
	for _, doc := range []string{``, `True`, `1`, `"true"`, `true false`} {
		_, err := Decode[bool](nil, []byte(doc))
		bad(doc, err)
	}
	if v, err := Decode[int](nil, []byte(` 7 `)); v != 7 || err != nil {
		t.Errorf("read %d, %v", v, err)
	}
	if v, err := Decode[int64](nil, []byte(`-0`)); v != 0 || err != nil {
		t.Errorf("read %d, %v", v, err)
	}
	check, err := Compile(reflect.TypeFor[line]())
	if err != nil {
		t.Fatal(err)
	}
	_, err = Decode[line](check, []byte(`{"sku":1,"x":2}`))
	for _, want := range []string{"sku: is an integer", "x: unknown field", "amount: missing field"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	if v, err := Decode[line](check, []byte(`{"sku":"a","amount":2}`)); err != nil || v != (line{"a", 2}) {
		t.Errorf("read %v, %v", v, err)
	}
}

func TestEncodeList(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		got  func() ([]byte, error)
		want string
	}{
		"empty":   {func() ([]byte, error) { return EncodeList[int](nil, nil) }, `[]`},
		"head":    {func() ([]byte, error) { return EncodeList([]int{1}, nil) }, `[1]`},
		"tail":    {func() ([]byte, error) { return EncodeList(nil, []string{"a", "é"}) }, `["a","é"]`},
		"both":    {func() ([]byte, error) { return EncodeList([]bool{true}, []bool{false, true}) }, `[true,false,true]`},
		"structs": {func() ([]byte, error) { return EncodeList([]line{{}}, []line{{"a", 1}}) }, `[{"sku":"","amount":0},{"sku":"a","amount":1}]`},
		"nulls":   {func() ([]byte, error) { return EncodeList([]*int{nil}, []*int{nil}) }, `[null,null]`},
	}
	for name, tt := range tests {
		if got, err := tt.got(); err != nil || string(got) != tt.want {
			t.Errorf("%s: %s, %v; want %s", name, got, err, tt.want)
		}
	}
	if doc, err := EncodeList([]float64{1, math.NaN()}, nil); err == nil {
		t.Errorf("a NaN is %s", doc)
	}
}

func TestNull(t *testing.T) {
	t.Parallel()
	for doc, want := range map[string]bool{`null`: true, " null\n": true, `0`: false, ``: false, `"null"`: false} {
		if IsNull([]byte(doc)) != want {
			t.Errorf("%q", doc)
		}
	}
	holds := []reflect.Type{reflect.TypeFor[*int](), reflect.TypeFor[[]int](), reflect.TypeFor[map[string]int](), reflect.TypeFor[any](), reflect.TypeFor[json.RawMessage]()}
	for _, typ := range holds {
		if !HoldsNull(typ) {
			t.Errorf("%s does not hold null", typ)
		}
	}
	for _, typ := range []reflect.Type{reflect.TypeFor[int](), reflect.TypeFor[string](), reflect.TypeFor[line](), reflect.TypeFor[[2]int]()} {
		if HoldsNull(typ) {
			t.Errorf("%s holds null", typ)
		}
	}
}

func TestDiffers(t *testing.T) {
	t.Parallel()
	live := map[string]int{"a": 1, "b": 2}
	for stored, want := range map[string]bool{`{"b":2, "a":1}`: false, `{"a":1}`: true, `{"a":1,"b":3}`: true} {
		if got, err := Differs(nil, []byte(stored), &live); err != nil || got != want {
			t.Errorf("%s: %v, %v", stored, got, err)
		}
	}
	if _, err := Differs(nil, []byte(`5`), &live); err == nil {
		t.Error("unreadable and no error")
	}
	gone := math.NaN()
	if got, err := Differs(nil, []byte(`1`), &gone); err != nil || !got {
		t.Errorf("a value that no longer encodes: %v, %v", got, err)
	}
}

func TestNumbers(t *testing.T) {
	t.Parallel()
	type cents int64
	type part float64
	if IsFloat[int]() || IsFloat[cents]() || IsFloat[uint64]() || !IsFloat[float64]() || !IsFloat[part]() {
		t.Error("IsFloat")
	}
	if IsUnsigned[int]() || IsUnsigned[cents]() || !IsUnsigned[uint64]() || IsUnsigned[float64]() {
		t.Error("IsUnsigned")
	}
	number(t, []int{0, 1, -1, math.MaxInt, math.MinInt}, "x", "", "1.0", "9223372036854775808", `"1"`)
	number(t, []cents{0, 5, math.MinInt64}, "1e2")
	number(t, []uint64{0, math.MaxUint64}, "-1", "18446744073709551616")
	number(t, []part{0, 0.1, 1e6, 1e300, -2.5}, "x", "", "1e999")
}

func number[T Number](t *testing.T, good []T, bad ...string) {
	t.Helper()
	for _, n := range good {
		doc := FormatNumber(n)
		if back, err := ParseNumber[T](doc); err != nil || back != n || !json.Valid(doc) {
			t.Errorf("%v is %s, which reads as %v, %v", n, doc, back, err)
		}
	}
	for _, doc := range bad {
		if n, err := ParseNumber[T]([]byte(doc)); err == nil || n != 0 {
			t.Errorf("%q reads as %v, %v", doc, n, err)
		}
	}
}

func TestPlus(t *testing.T) {
	t.Parallel()
	plus(t, 1, 2, true)
	plus(t, math.MaxInt, 1, false)
	plus(t, math.MaxInt, 0, true)
	plus(t, math.MinInt, -1, false)
	plus(t, math.MinInt, math.MaxInt, true)
	plus[uint64](t, math.MaxUint64, 1, false)
	plus[uint64](t, math.MaxUint64, 0, true)
	plus(t, math.MaxFloat64, math.MaxFloat64, false)
	plus(t, 1e300, 1e-300, true)
	plus(t, 0, math.NaN(), false)
	plus(t, 0, math.Inf(-1), false)
}

func plus[T Number](t *testing.T, a, b T, ok bool) {
	t.Helper()
	if sum, got := Plus(a, b); got != ok || ok && sum != a+b {
		t.Errorf("%v + %v = %v, %v", a, b, sum, got)
	}
}
