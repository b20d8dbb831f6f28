package core

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"testing"
)

func TestCanonical(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, in, want string }{
		{"the document of RFC 8785, 3.2.2", `{
  "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
  "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
  "literals": [null, true, false]
}`, `{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}`},
		{"the order of RFC 8785, 3.2.3", `{
  "\u20ac": "Euro Sign", "\r": "Carriage Return", "\ufb33": "Hebrew Letter Dalet With Dagesh", "1": "One",
  "\ud83d\ude00": "Emoji: Grinning Face", "\u0080": "Control", "\u00f6": "Latin Small Letter O With Diaeresis"
}`, `{"\r":"Carriage Return","1":"One","` + "\u0080" + `":"Control","ö":"Latin Small Letter O With Diaeresis","€":"Euro Sign","😀":"Emoji: Grinning Face","` + "\ufb33" + `":"Hebrew Letter Dalet With Dagesh"}`},
		{"the other escapes", `"\b\f\n\r\t\u0000\u001f\u007f\u2028<>&"`, `"\b\f\n\r\t\u0000\u001f` + "\u007f\u2028" + `<>&"`},
		{"a 64-bit integer", `9223372036854775807`, `9223372036854775807`},
		{"more digits than 64 bits", `123456789012345678901234567890`, `123456789012345678901234567890`},
		{"negative zero", `[-0, -0.0, 0e5, -0e-7]`, `[0,0,0,0]`},
		{"numbers of appendix B", `[5e-324, -5e-324, 1.7976931348623157e308, 9007199254740992.5, 295147905179352830000.5, 1e21, 999999999999999900000.5, 1e23, 0.000001, 1.0e-7, 333333333.33333325]`,
			`[5e-324,-5e-324,1.7976931348623157e+308,9007199254740992,295147905179352830000,1e+21,999999999999999900000,1e+23,0.000001,1e-7,333333333.33333325]`},
		{"an underflow", `1e-400`, `0`},
		{"empty ones", ` [ { } , [ ] , "" ] `, `[{},[],""]`},
		{"nested members", `{"b":{"d":1,"c":2},"a":[{"z":0,"y":0}]}`, `{"a":[{"y":0,"z":0}],"b":{"c":2,"d":1}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := Canonical([]byte(c.in))
			if err != nil || string(got) != c.want {
				t.Fatalf("got %s, %v\nwant %s", got, err, c.want)
			}
			if again, err := Canonical(got); err != nil || !bytes.Equal(again, got) {
				t.Errorf("the canonical form of itself is %s, %v", again, err)
			}
		})
	}
}

func TestNotCanonical(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, in, says string }{
		{"nothing", ``, ""},
		{"white space", `  `, ""},
		{"a duplicate", `{"a":1,"b":2,"a":1}`, `"a" stands twice`},
		{"a duplicate by escapes", `{"a":1,"\u0061":1}`, `"a" stands twice`},
		{"a duplicate inside", `[{"x":{"a":1,"a":1}}]`, `"a" stands twice`},
		{"two values", `1 2`, ""},
		{"a value and a bracket", `{}]`, ""},
		{"a value and a letter", `{}x`, ""},
		{"cut short", `{"a":[1`, ""},
		{"a comma too many", `[1,]`, ""},
		{"a comma too few", `[1 2]`, ""},
		{"no JSON", `{a:1}`, ""},
		{"a number over 64 bits", `1e999`, "1e999"},
		{"a leading zero", `01`, ""},
		{"not a number", `NaN`, ""},
		{"invalid UTF-8", "\"\xff\"", ""},
		{"invalid UTF-8 in a name", "{\"\xff\":1}", ""},
		{"half a surrogate pair", `"\ud83d"`, ""},
		{"the pair in the wrong order", `"\ude00\ud83d"`, ""},
		{"half a pair and a letter", `"\ud83dx"`, ""},
		{"nested beyond reason", strings.Repeat("[", 1<<20), ""},
		{"nested beyond reason and closed", strings.Repeat("[", 1<<20) + strings.Repeat("]", 1<<20), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := Canonical([]byte(c.in))
			if err == nil {
				t.Fatalf("taken as %.80s", got)
			}
			if !strings.Contains(err.Error(), c.says) {
				t.Errorf("%q does not say %q", err, c.says)
			}
			if sum, err := Digest([]byte(c.in)); err == nil {
				t.Errorf("it has the digest %s", sum)
			}
		})
	}
}

func TestDigest(t *testing.T) {
	t.Parallel()
	a, err := Digest([]byte(`{"b":2.0,"a":1}`))
	if err != nil {
		t.Fatal(err)
	}
	b, err := Digest([]byte(` { "a" : 1 , "b" : 2e0 } `))
	if err != nil {
		t.Fatal(err)
	}
	if a != b || len(a) != 64 || a != "43258cff783fe7036d8a43033f830adfc60ec037382473548ac742b888292777" {
		t.Errorf("equal documents have the digests %s and %s", a, b)
	}
	if c, _ := Digest([]byte(`{"a":1,"b":3}`)); c == a {
		t.Error("another document has the same digest")
	}
}

func FuzzCanonical(f *testing.F) {
	for _, doc := range []string{
		`{"b":[1,2.50,-0,1e21,1e-7],"a":{"\u20ac":null,"x":"\ud83d\ude00\u0000\"\\"}}`, `[]`, `"\ud800"`, "\"\xc3\x28\"", `{"a":1,"a":2}`,
		`123456789012345678901234567890`, `0.000001`, `5e-324`, `[[[[]]]]`, ` true `, `1 2`, `{"":{"":0}}`,
	} {
		f.Add([]byte(doc))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		out, err := Canonical(doc)
		if err != nil {
			return
		}
		if !json.Valid(doc) || !json.Valid(out) {
			t.Fatalf("%q became %q", doc, out)
		}
		if again, err := Canonical(out); err != nil || !bytes.Equal(again, out) {
			t.Fatalf("%q became %q and then %q, %v", doc, out, again, err)
		}
		var was, is any
		if json.Unmarshal(doc, &was) != nil {
			return // a number that only JSON can hold
		}
		if err := json.Unmarshal(out, &is); err != nil {
			t.Fatal(err)
		}
		before, _ := json.Marshal(was)
		after, _ := json.Marshal(is)
		if !bytes.Equal(bytes.ReplaceAll(before, []byte("-0"), []byte("0")), bytes.ReplaceAll(after, []byte("-0"), []byte("0"))) {
			t.Fatalf("%s means %s, and its canonical form %s", doc, before, after)
		}
	})
}

func FuzzCanonicalNumbers(f *testing.F) {
	for _, bits := range []uint64{0, 1, 1 << 63, 0x4340000000000002, 0x44b52d02c7e14af7, 0x3eb0c6f7a0b5ed8d, 0x7fefffffffffffff} {
		f.Add(bits)
	}
	f.Fuzz(func(t *testing.T, bits uint64) {
		x := math.Float64frombits(bits)
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return
		}
		want, err := json.Marshal(x) // encoding/json writes numbers as ECMAScript does
		if err != nil {
			t.Fatal(err)
		}
		got, err := Canonical([]byte(strconv.FormatFloat(x, 'e', 20, 64)))
		if err != nil {
			t.Fatal(err)
		}
		if x == 0 {
			want = []byte("0")
		}
		if !bytes.Equal(got, want) {
			t.Fatalf("%x is %s; want %s", bits, got, want)
		}
	})
}
